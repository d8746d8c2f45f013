"""What is known of words of two languages: dictionaries of word pairs, and factors of tokens."""

from spectrem.data.bilingual.dictionary import read_dictionary
from spectrem.data.bilingual.factors import FactoredBitext, split_factors

__all__ = ["FactoredBitext", "read_dictionary", "split_factors"]
