"""Generated data sets with known structure, from seeds."""

from spectrem.datasets.bitext import GeneratedBitext, make_bitext
from spectrem.datasets.bracketed import GeneratedBrackets, make_bracketed_corpus
from spectrem.datasets.tagged import GeneratedTagging, make_tagged_corpus
from spectrem.datasets.treebank import make_treebank

__all__ = [
    "GeneratedBitext",
    "GeneratedBrackets",
    "GeneratedTagging",
    "make_bitext",
    "make_bracketed_corpus",
    "make_tagged_corpus",
    "make_treebank",
]
