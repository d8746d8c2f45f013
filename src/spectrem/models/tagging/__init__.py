"""Hidden Markov models of order 1 and 2 over tagged, partly tagged or untagged sentences."""

from spectrem.models.shards import in_corpus_order
from spectrem.models.tagging.lexicon import Lexicon, TagShard, build_shards
from spectrem.models.tagging.model import (
    HMMModel,
    HMMParameters,
    Names,
    Restriction,
    Restrictions,
    TagKernel,
    posterior_uniform,
    random_counts,
    sample_sentences,
    supervised,
    unambiguous,
    uniform,
)

__all__ = [
    "HMMModel", "HMMParameters", "Lexicon", "Names", "Restriction", "Restrictions", "TagKernel", "TagShard",
    "build_shards", "in_corpus_order", "posterior_uniform", "random_counts", "sample_sentences", "supervised",
    "unambiguous", "uniform",
]  # fmt: skip
