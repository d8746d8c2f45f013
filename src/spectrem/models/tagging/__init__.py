"""Hidden Markov models of order 1 and 2 over tagged, partly tagged or untagged sentences."""

from spectrem.models.shards import in_corpus_order
from spectrem.models.tagging.initial import posterior_uniform, random_counts, supervised, unambiguous, uniform
from spectrem.models.tagging.lexicon import Lexicon
from spectrem.models.tagging.model import HMMModel, HMMParameters, Names, TagKernel
from spectrem.models.tagging.restrictions import Restriction, Restrictions
from spectrem.models.tagging.sampling import sample_sentences
from spectrem.models.tagging.shards import TagShard, build_shards

__all__ = [
    "HMMModel", "HMMParameters", "Lexicon", "Names", "Restriction", "Restrictions", "TagKernel", "TagShard",
    "build_shards", "in_corpus_order", "posterior_uniform", "random_counts", "sample_sentences", "supervised",
    "unambiguous", "uniform",
]  # fmt: skip
