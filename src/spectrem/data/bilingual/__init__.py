"""What is known of two languages: dictionaries of word pairs."""

from spectrem.data.bilingual.dictionary import read_dictionary

__all__ = ["read_dictionary"]
