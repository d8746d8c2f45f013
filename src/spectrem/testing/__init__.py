"""Public oracles: enumerators, and checks for your own structures, constraints, models and corpora."""

from spectrem.testing.check import BruteForce, brute_force_smoothed_max, check_structure, enumerate_structures
from spectrem.testing.check_constraint import check_constraint
from spectrem.testing.check_corpus import check_corpus
from spectrem.testing.check_model import check_model

__all__ = [
    "BruteForce",
    "brute_force_smoothed_max",
    "check_constraint",
    "check_corpus",
    "check_model",
    "check_structure",
    "enumerate_structures",
]
