"""Word aligners: IBM Models 1 and 2 and the HMM, both directions over one table of word pairs."""

from spectrem.models.alignment.continued import (
    Continuation,
    ContinuedPrior,
    NewText,
    UnseenPairs,
    expect_new_words,
    splice,
)
from spectrem.models.alignment.coupled import CoupledKernel, diagonal_posteriors
from spectrem.models.alignment.model import (
    AlignmentModel,
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    KeptPlaces,
    Totals,
)
from spectrem.models.alignment.pairs import (
    Anchors,
    BitextShard,
    ListedPairs,
    PairTable,
    build_shards,
    count_words,
    cut_text,
    iter_shards,
    shards_to_train,
    tabulate_pairs,
)
from spectrem.models.alignment.priors import (
    GivenCounts,
    Language,
    LeftOutPrior,
    LexicalPrior,
    PriorWithCounts,
    left_out_priors,
    lexical_priors,
)

__all__ = [
    "AlignmentModel", "AlignmentParameters", "AlignmentStats", "Anchors", "BitextShard", "Continuation",
    "ContinuedPrior", "CoupledKernel", "DirectionParameters", "GivenCounts", "KeptPlaces", "Language", "LeftOutPrior",
    "LexicalPrior", "ListedPairs", "NewText", "PairTable", "PriorWithCounts", "Totals", "UnseenPairs",
    "build_shards", "count_words", "cut_text", "diagonal_posteriors", "expect_new_words", "iter_shards",
    "left_out_priors", "lexical_priors", "shards_to_train", "splice", "tabulate_pairs",
]  # fmt: skip
