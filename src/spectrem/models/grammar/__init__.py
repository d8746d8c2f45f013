"""The dependency model with valence over tagged sentences, with no heads, some or all."""

from spectrem.models.grammar.initial import harmonic, preferences, random_counts, supervised, uniform
from spectrem.models.grammar.model import ValenceModel
from spectrem.models.grammar.parameters import GrammarCounts, GrammarParameters
from spectrem.models.grammar.shards import GrammarShard, build_shards, count_known, in_corpus_order

__all__ = [
    "GrammarCounts",
    "GrammarParameters",
    "GrammarShard",
    "ValenceModel",
    "build_shards",
    "count_known",
    "harmonic",
    "in_corpus_order",
    "preferences",
    "random_counts",
    "supervised",
    "uniform",
]
