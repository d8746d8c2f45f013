"""Generated data sets with known structure, from seeds."""

from spectrem.datasets.bitext import GeneratedBitext, make_bitext
from spectrem.datasets.tagged import GeneratedTagging, make_tagged_corpus

__all__ = ["GeneratedBitext", "GeneratedTagging", "make_bitext", "make_tagged_corpus"]
