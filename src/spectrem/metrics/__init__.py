"""Measures of how good predictions are."""

from spectrem.metrics.alignment import AlignmentScores, alignment_scores

__all__ = ["AlignmentScores", "alignment_scores"]
