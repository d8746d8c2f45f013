"""Learning with latent structure under constraints on posterior expectations.

One parameter gamma runs from hard EM (0) through EM (1) to annealing (above 1); linear constraints on posterior
expectations guide learning at any gamma.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as that of typing, which would be most of the time to load this package
if TYPE_CHECKING:
    from typing import Any

    from spectrem.constraints import E, agreement, fertility, linear, max_over, part
    from spectrem.estimators import (
        HMM,
        BracketingModel,
        CategoricalHMM,
        CRFTagger,
        DependencyModel,
        EdgeFactoredParser,
        GaussianHMM,
        GaussianMixture,
        GaussianMixtureHMM,
        HMMTagger,
        LabelModel,
        MaxEntClassifier,
        MultinomialHMM,
        PoissonHMM,
        RelationExtractor,
        SelfTrainer,
        SequenceLabelModel,
        Views,
        WordAligner,
        load,
        transfer_parser,
    )
    from spectrem.learning import run_em
    from spectrem.tables import ConstrainedTargets, Lattice, project

    __version__: str

__all__ = [
    "HMM",
    "BracketingModel",
    "CRFTagger",
    "CategoricalHMM",
    "ConstrainedTargets",
    "DependencyModel",
    "E",
    "EdgeFactoredParser",
    "GaussianHMM",
    "GaussianMixture",
    "GaussianMixtureHMM",
    "HMMTagger",
    "LabelModel",
    "Lattice",
    "MaxEntClassifier",
    "MultinomialHMM",
    "PoissonHMM",
    "RelationExtractor",
    "SelfTrainer",
    "SequenceLabelModel",
    "Views",
    "WordAligner",
    "agreement",
    "fertility",
    "linear",
    "load",
    "max_over",
    "part",
    "project",
    "run_em",
    "transfer_parser",
]


# Names are loaded on first use, so that importing the package (and `spectrem --help`) stays quick.
_HOMES = ("estimators", "learning", "constraints", "tables")


def __getattr__(name: str) -> Any:
    if name in __all__:
        homes = (import_module(f"spectrem.{home}") for home in _HOMES)
        return getattr(next(home for home in homes if name in home.__all__), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("spectrem")
        except PackageNotFoundError:  # sources that are not installed
            return "0+unknown"
    raise AttributeError(f"module 'spectrem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
