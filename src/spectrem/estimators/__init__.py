"""What users call."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectrem.estimators.hmm_tagger import HMMTagger
    from spectrem.estimators.mixture.gaussian_mixture import GaussianMixture
    from spectrem.estimators.selftraining.self_trainer import SelfTrainer
    from spectrem.estimators.word_aligner import LinkPosteriors, WordAligner

# Loaded on first use: an aligner needs nothing of what a mixture imports.
_HOMES = {
    "GaussianMixture": "mixture.gaussian_mixture",
    "HMMTagger": "hmm_tagger",
    "LinkPosteriors": "word_aligner",
    "SelfTrainer": "selftraining.self_trainer",
    "WordAligner": "word_aligner",
}

__all__ = ["GaussianMixture", "HMMTagger", "LinkPosteriors", "SelfTrainer", "WordAligner"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"spectrem.estimators.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'spectrem.estimators' has no attribute {name!r}")
