"""What users call."""

from spectrem.estimators.hmm_tagger import HMMTagger
from spectrem.estimators.word_aligner import LinkPosteriors, WordAligner

__all__ = ["HMMTagger", "LinkPosteriors", "WordAligner"]
