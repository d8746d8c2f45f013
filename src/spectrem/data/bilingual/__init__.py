"""Knowledge of words of two languages: dictionaries of word pairs, priors of other aligners, factors of tokens."""

from spectrem.data.bilingual.dictionary import read_dictionary
from spectrem.data.bilingual.factors import FactoredBitext, split_factors
from spectrem.data.bilingual.priors import prior_lines, read_priors

__all__ = ["FactoredBitext", "prior_lines", "read_dictionary", "read_priors", "split_factors"]
