"""What users call."""

from spectrem.estimators.word_aligner import LinkPosteriors, WordAligner

__all__ = ["LinkPosteriors", "WordAligner"]
