"""Values that constraints may name, of sentences, of their words and of arcs between these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spectrem._arrays import Ints
from spectrem.constraints.compilation.groups import Key
from spectrem.structures._ragged import offsets_of, ranges_of


class Columns(NamedTuple):
    """Columns by what their values belong to.

    Attributes
    ----------
    of_sentences : mapping of name -> ndarray of shape (n_sentences,)
    of_words : mapping of name -> ndarray of shape (n_tokens,)
        Constraints on trees name them with "head_" and with "dependent_" before the name.
    of_arcs : mapping of name -> ndarray of shape (n_arcs,)
        In blocks [dependent, head], arcs from the root on the diagonal.
    """

    of_sentences: Mapping[str, Key] = {}
    of_words: Mapping[str, Key] = {}
    of_arcs: Mapping[str, Key] = {}

    def take(self, sentences: Ints, lengths: Ints) -> Columns:
        """The columns of some sentences, by their numbers; ``lengths`` are those of all."""
        sizes = lengths[sentences]
        words = ranges_of(offsets_of(lengths)[sentences], sizes) if self.of_words else sentences
        arcs = ranges_of(offsets_of(lengths**2)[sentences], sizes**2) if self.of_arcs else sentences
        places = (sentences, words, arcs)
        return Columns(*({name: c[at] for name, c in own.items()} for own, at in zip(self, places, strict=True)))
