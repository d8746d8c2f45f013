"""The constituent-context model: brackets of sentences from yields and contexts of spans."""

from spectrem.models.bracketing.initial import START_SCORES, start_from, tree_scores
from spectrem.models.bracketing.model import PLACES, ConstituentContextModel, SpanParameters
from spectrem.models.bracketing.shards import BracketShard, build_shards
from spectrem.models.bracketing.vocabulary import SpanNumbers, SpanVocabulary

__all__ = [
    "PLACES", "START_SCORES", "BracketShard", "ConstituentContextModel", "SpanNumbers", "SpanParameters",
    "SpanVocabulary", "build_shards", "start_from", "tree_scores",
]  # fmt: skip
