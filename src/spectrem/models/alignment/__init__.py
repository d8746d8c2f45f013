"""Word aligners: IBM Models 1 and 2 and the HMM, both directions over one table of word pairs."""

from spectrem.models.alignment.anchors import Anchors
from spectrem.models.alignment.continued import Continuation, ContinuedPrior, splice
from spectrem.models.alignment.coupled import CoupledKernel
from spectrem.models.alignment.diagonal import diagonal_posteriors
from spectrem.models.alignment.given_counts import GivenCounts, PriorWithCounts
from spectrem.models.alignment.left_out import LeftOutPrior, left_out_priors
from spectrem.models.alignment.lexical_prior import Language, LexicalPrior, lexical_priors
from spectrem.models.alignment.model import AlignmentModel
from spectrem.models.alignment.pairs import (
    BitextShard,
    ListedPairs,
    PairTable,
    TextShard,
    build_shards,
    count_words,
    cut_text,
    iter_shards,
    shards_to_train,
    tabulate_pairs,
)
from spectrem.models.alignment.parameters import (
    AlignmentParameters,
    AlignmentStats,
    DirectionParameters,
    KeptPlaces,
    Totals,
)
from spectrem.models.alignment.unseen import NewText, UnseenPairs, expect_new_words

__all__ = [
    "AlignmentModel", "AlignmentParameters", "AlignmentStats", "Anchors", "BitextShard", "Continuation",
    "ContinuedPrior", "CoupledKernel", "DirectionParameters", "GivenCounts", "KeptPlaces", "Language", "LeftOutPrior",
    "LexicalPrior", "ListedPairs", "NewText", "PairTable", "PriorWithCounts", "TextShard", "Totals", "UnseenPairs",
    "build_shards", "count_words", "cut_text", "diagonal_posteriors", "expect_new_words", "iter_shards",
    "left_out_priors", "lexical_priors", "shards_to_train", "splice", "tabulate_pairs",
]  # fmt: skip
