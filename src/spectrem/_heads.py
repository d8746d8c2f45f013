"""Values in arrays of heads that are no positions of words, which are counted from 0."""

ROOT = -1
"""The word hangs on the root."""

UNKNOWN_HEAD = -2
"""The head of the word is not known; where trees are decoded, no tree of its sentence is possible."""
