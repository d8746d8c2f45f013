"""The dependency model with valence over tagged sentences, with no heads, some or all."""

from spectrem.models.grammar.initial import harmonic, preferences, random_counts, supervised, uniform
from spectrem.models.grammar.model import GrammarParameters, ValenceModel
from spectrem.models.grammar.shards import GrammarShard, build_shards
from spectrem.models.shards import in_corpus_order

__all__ = [
    "GrammarParameters", "GrammarShard", "ValenceModel", "build_shards", "harmonic", "in_corpus_order",
    "preferences", "random_counts", "supervised", "uniform",
]  # fmt: skip
