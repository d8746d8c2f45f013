"""Dependency trees carried from one language to another along alignment links."""

from spectrem.data.transfer.completion import complete_tree, complete_trees
from spectrem.data.transfer.conserved import aligned_words, conserved_arcs, one_to_one

__all__ = ["aligned_words", "complete_tree", "complete_trees", "conserved_arcs", "one_to_one"]
