"""Constraints on the predictions of any model: tables of probabilities, projected and decided."""

from spectrem.reports import ConstraintReport
from spectrem.tables.project import Decision, Lattice, ProjectedTable, ScoreError, project
from spectrem.tables.targets import ConstrainedTargets

__all__ = [
    "ConstrainedTargets",
    "ConstraintReport",
    "Decision",
    "Lattice",
    "ProjectedTable",
    "ScoreError",
    "project",
]
