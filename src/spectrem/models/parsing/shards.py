"""Sentences to parse, cut into shards by the data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem._heads import UNKNOWN_HEAD
from spectrem.models.parsing.templates import Atoms
from spectrem.models.shards import Columns, cut
from spectrem.structures._ragged import offsets_of, ranges_of, runs_of

# What is known of the heads of a sentence: nothing or some of them, all, or their distributions.
FREE, GIVEN, SHARED = 0, 1, 2
# Of a sentence that is in no shard.
LEFT_OUT = -1
# Arcs of a shard at least: every shard of an evaluation has a gradient of all weights to be made and added up.
_LEAST_ARCS = 1 << 19


@dataclass(frozen=True, eq=False)
class ParsingShard:
    """Some sentences of a corpus, with what is known of their heads.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    atoms : ndarray of shape (n_tokens, 3), uint32
        See `TokenAtoms.encode`.
    heads : ndarray of shape (n_tokens,), int64, or None
        Positions in the sentence, -1 for the root, -2 where not known; None where none is.
    shares : ndarray of shape (n_arcs,), float64, or None
        Probabilities of arcs, [dependent, head], those from the root on the diagonal, in place of heads.
    known : bool
        Whether all heads, or distributions over heads, are given.
    weights : ndarray of shape (n_sentences,), float64
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    columns : Columns
        What constraints may name.
    counts : ndarray of shape (n_sentences,), float64, or None
        How often sentences count in constraints; None: by their weights.
    """

    lengths: Ints
    atoms: Atoms
    heads: Ints | None
    shares: Floats | None
    known: bool
    weights: Floats
    instances: Ints
    columns: Columns = Columns()  # noqa: RUF009
    counts: Floats | None = None

    @property
    def labels(self) -> Ints | Floats | None:
        """What is known of the heads; None where every tree is possible."""
        return self.heads if self.shares is None else self.shares


@dataclass(frozen=True, eq=False)
class ParsingText:
    """All sentences of a corpus, from which shards are cut.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    atoms : ndarray of shape (n_tokens, 3), uint32
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root, -2 where not known.
    kinds : ndarray of shape (n_sentences,), int
        FREE, GIVEN (all heads) or SHARED (distributions over heads).
    shares : mapping of int -> ndarray of shape (length, length), float64
        Of the number of every sentence with distributions, these, [dependent, head].
    weights : ndarray of shape (n_sentences,), float64
    columns : Columns
    counts : ndarray of shape (n_sentences,), float64, or None
        How often sentences count in constraints; None: by their weights.

    Examples
    --------
    >>> text = ParsingText.raw(np.array([2, 1]), np.zeros((3, 3), np.uint32))
    >>> [shard.lengths.tolist() for shard in text.shards()]
    [[2, 1]]
    """

    lengths: Ints
    atoms: Atoms
    heads: Ints
    kinds: Ints
    shares: Mapping[int, Floats]
    weights: Floats
    columns: Columns = Columns()  # noqa: RUF009
    counts: Floats | None = None

    @classmethod
    def raw(cls, lengths: Ints, atoms: Atoms, columns: Columns = Columns()) -> ParsingText:  # noqa: B008
        """Sentences of whose heads nothing is known."""
        n = len(lengths)
        return cls(lengths, atoms, np.full(len(atoms), UNKNOWN_HEAD), np.full(n, FREE), {}, np.ones(n), columns)

    @cached_property
    def _tokens(self) -> Ints:
        return offsets_of(self.lengths)

    def take(self, own: Ints) -> ParsingShard:
        """The shard of sentences of one kind, by their numbers."""
        sizes, kind = self.lengths[own], FREE if not len(own) else int(self.kinds[own[0]])
        words = ranges_of(self._tokens[own], sizes)
        own_heads, shares = self.heads[words], None
        if kind == SHARED:
            shares = np.concatenate([self.shares[n].ravel() for n in own.tolist()])
        none = kind == SHARED or (kind == FREE and bool((own_heads == UNKNOWN_HEAD).all()))
        heads = None if none else own_heads
        columns = self.columns.take(own, self.lengths)
        counts = None if self.counts is None else self.counts[own]
        known = kind != FREE
        return ParsingShard(sizes, self.atoms[words], heads, shares, known, self.weights[own], own, columns, counts)

    def without(self, left_out: Bools) -> ParsingText:
        """The same sentences, some of which, shape (n_sentences,), are in no shard."""
        return replace(self, kinds=np.where(left_out, LEFT_OUT, self.kinds))

    def shards(self, most: int = _LEAST_ARCS) -> list[ParsingShard]:
        """Shards of about ``most`` arcs, or an eighth of all if that is more: first what is inferred, then the known.

        Sentences without words are in none. At least one shard, the same for every number of threads.
        """
        groups = (self.kinds == kind for kind in (FREE, GIVEN, SHARED))
        return [self.take(sentences) for sentences, _ in cut(self.lengths**2, groups, most)]

    def batches(self, size: int, rng: np.random.Generator) -> list[ParsingShard]:
        """Shards of about ``size`` sentences drawn at random, in random order, for learning in small steps.

        All sentences of a shard are of one kind; those without words are in none.
        """
        found = []
        for kind in (FREE, GIVEN, SHARED):
            # sentences of like lengths in a batch would be worked on more quickly, but learn less: three tenths of a
            # point of accuracy on English
            own = rng.permutation(np.flatnonzero((self.lengths > 0) & (self.kinds == kind)))
            found += [self.take(run) for run in runs_of(own, np.ones(len(own), np.int64), size)]
        return [found[place] for place in rng.permutation(len(found))]
