"""The estimators: word alignment, tagging, parsing, classification, extraction, clustering, series, self-training."""

# ruff: noqa: F401 - `__all__` lists what is imported here
from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use

if TYPE_CHECKING:
    from spectrem.estimators.alignment.word_aligner import LinkPosteriors, WordAligner
    from spectrem.estimators.bracketing.bracketing_model import BracketingModel
    from spectrem.estimators.classification.maxent_classifier import MaxEntClassifier
    from spectrem.estimators.crf.crf_tagger import CRFTagger
    from spectrem.estimators.extraction.relation_extractor import RelationExtractor
    from spectrem.estimators.grammar.dependency_model import DependencyModel
    from spectrem.estimators.mixture.gaussian_mixture import GaussianMixture
    from spectrem.estimators.parser.edge_factored_parser import EdgeFactoredParser
    from spectrem.estimators.selftraining.self_trainer import SelfTrainer
    from spectrem.estimators.series.hidden_markov_model import HMM
    from spectrem.estimators.series.named import (
        CategoricalHMM,
        GaussianHMM,
        GaussianMixtureHMM,
        MultinomialHMM,
        PoissonHMM,
    )
    from spectrem.estimators.storage import load
    from spectrem.estimators.tagging.hmm_tagger import HMMTagger
    from spectrem.estimators.transfer import transfer_parser
    from spectrem.estimators.views.views import Views
    from spectrem.estimators.votes.analysis import VoteAnalysis
    from spectrem.estimators.votes.label_model import LabelModel, SourcePair

# Loaded on first use, since an aligner does not need the libraries that a mixture imports.
_HOMES = {
    "BracketingModel": "bracketing.bracketing_model",
    "CRFTagger": "crf.crf_tagger",
    "CategoricalHMM": "series.named",
    "DependencyModel": "grammar.dependency_model",
    "EdgeFactoredParser": "parser.edge_factored_parser",
    "GaussianHMM": "series.named",
    "GaussianMixture": "mixture.gaussian_mixture",
    "GaussianMixtureHMM": "series.named",
    "HMM": "series.hidden_markov_model",
    "HMMTagger": "tagging.hmm_tagger",
    "LabelModel": "votes.label_model",
    "LinkPosteriors": "alignment.decoding",
    "MaxEntClassifier": "classification.maxent_classifier",
    "MultinomialHMM": "series.named",
    "PoissonHMM": "series.named",
    "RelationExtractor": "extraction.relation_extractor",
    "SelfTrainer": "selftraining.self_trainer",
    "SourcePair": "votes.label_model",
    "Views": "views.views",
    "VoteAnalysis": "votes.analysis",
    "WordAligner": "alignment.word_aligner",
    "load": "storage",
    "transfer_parser": "transfer",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
