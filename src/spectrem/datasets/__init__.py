"""Generated data sets with known structure, from seeds."""

from spectrem.datasets.bitext import GeneratedBitext, make_bitext

__all__ = ["GeneratedBitext", "make_bitext"]
