"""What arrays of heads hold where the head of a word is not a word of its sentence, which are counted from 0."""

ROOT = -1
"""The word hangs on the root."""

UNKNOWN_HEAD = -2
"""The head of the word is not known; where trees are decoded, no tree of its sentence is possible."""
