"""Measures of how good predictions are."""

from spectrem.metrics.alignment import AlignmentScores, alignment_scores, expected_f1_threshold
from spectrem.metrics.attachment import (
    AttachmentScores,
    attachment_scores,
    compare_attachments,
    head_is_next,
    not_punctuation,
)
from spectrem.metrics.brackets import (
    BracketingComparison,
    BracketScores,
    binary_ceiling,
    bracket_scores,
    branching,
    compare_bracketings,
)
from spectrem.metrics.chunks import Chunk, ChunkCounts, ChunkScores, chunk_scores, find_chunks
from spectrem.metrics.clustering import (
    StateMapping,
    many_to_one,
    mutual_information,
    one_to_one,
    tag_entropy,
    v_measure,
)
from spectrem.metrics.relations import LabelScores, RelationScores, relation_scores
from spectrem.metrics.reliability import Reliability, reliability
from spectrem.metrics.significance import SignTest, TaggingComparison, compare_taggings, sign_test
from spectrem.metrics.tag_posteriors import average_l1_linf, posterior_entropy
from spectrem.metrics.tagging import ambiguous_tokens, correct_tokens, cross_entropy, tagging_accuracy

__all__ = [
    "AlignmentScores",
    "AttachmentScores",
    "BracketScores",
    "BracketingComparison",
    "Chunk",
    "ChunkCounts",
    "ChunkScores",
    "LabelScores",
    "RelationScores",
    "Reliability",
    "SignTest",
    "StateMapping",
    "TaggingComparison",
    "alignment_scores",
    "ambiguous_tokens",
    "attachment_scores",
    "average_l1_linf",
    "binary_ceiling",
    "bracket_scores",
    "branching",
    "chunk_scores",
    "compare_attachments",
    "compare_bracketings",
    "compare_taggings",
    "correct_tokens",
    "cross_entropy",
    "expected_f1_threshold",
    "find_chunks",
    "head_is_next",
    "many_to_one",
    "mutual_information",
    "not_punctuation",
    "one_to_one",
    "posterior_entropy",
    "relation_scores",
    "reliability",
    "sign_test",
    "tag_entropy",
    "tagging_accuracy",
    "v_measure",
]
