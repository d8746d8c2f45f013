"""Pseudo-counts of single word pairs: what a dictionary, or a model of other text, says of translations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints, Reals
from spectrem.kernels.alignments.lookup import find_entries
from spectrem.models.alignment.pairs import PairTable
from spectrem.models.priors import Numbers, Prior


@dataclass(frozen=True, eq=False)
class GivenCounts:
    """Pseudo-counts of some entries of a table of word pairs, in both directions.

    Attributes
    ----------
    entries : ndarray of shape (n_given,), int64
        Entries of the table, in increasing order, none twice.
    forward, backward : ndarray of shape (n_given,)
        Counts added to the table of target words given source words, and to that of source words given target words;
        at least 0.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> from spectrem.models.alignment import tabulate_pairs
    >>> table = tabulate_pairs(encode_bitext(["the house"], ["das haus"]))
    >>> given = GivenCounts.of(table, [1, 1, 7], [1, 1, 0], [2.0, 3.0, 9.0])
    >>> given.entries.tolist(), given.forward.tolist(), given.backward.tolist()
    ([3], [5.0], [5.0])
    """

    entries: Ints
    forward: Floats
    backward: Floats

    @classmethod
    def of(
        cls,
        table: PairTable,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        forward: Floats,
        backward: Floats | None = None,
    ) -> GivenCounts:
        """Counts of word pairs; those of a pair that is given several times are added up.

        Parameters
        ----------
        table : PairTable
        source, target : array-like of shape (n,), int
            Words by their numbers. Pairs that the table does not have are left out, as are numbers of unknown words.
        forward, backward : array-like of shape (n,)
            Pseudo-counts, at least 0; those of both directions are the same where ``backward`` is left out.
        """
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        forward = np.asarray(forward, np.float64)
        backward = forward if backward is None else np.asarray(backward, np.float64)
        known = (source >= 0) & (source < table.n_source_words) & (target >= 0) & (target < table.n_target_words)
        width = max(table.n_target_words, 1)
        keys, place = np.unique(source[known] * width + target[known], return_inverse=True)
        found = np.empty(len(keys), np.int64)
        find_entries(table.row_offsets, table.targets, table.n_target_words, *np.divmod(keys, width), found)
        sums = [np.bincount(place, counts[known], len(keys)).astype(np.float64) for counts in (forward, backward)]
        there = np.flatnonzero(found >= 0)
        there = there[np.argsort(found[there])]
        return cls(found[there], sums[0][there], sums[1][there])

    def added_to(self, priors: tuple[Prior, Prior]) -> tuple[Prior, Prior]:
        """The priors of both directions with these counts; the same priors where there are none."""
        if not len(self.entries):
            return priors
        return (
            PriorWithCounts(priors[0], self.entries, self.forward),
            PriorWithCounts(priors[1], self.entries, self.backward),
        )


@dataclass(frozen=True, eq=False)
class PriorWithCounts:
    """A prior on the rows of a table, and pseudo-counts of single entries, which are added to the expected ones first.

    A `LexicalPrior` thus learns from them, too: what a dictionary says of one form helps other forms of the word.

    Attributes
    ----------
    prior : Prior
    entries : ndarray of shape (n_given,), int64
    counts : ndarray of shape (n_given,)
        Of each of these entries, at least 0.
    """

    prior: Prior
    entries: Ints
    counts: Floats

    @property
    def reads_rows(self) -> bool:
        """Whether `normalise` and `log_density` read the row of every entry."""
        return getattr(self.prior, "reads_rows", True)

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_pairs,); see `DirichletPrior.normalise`."""
        total = np.empty(len(counts)) if out is None else out
        np.copyto(total, counts)
        total[self.entries] += self.counts
        return self.prior.normalise(total, row, row_sizes, total, totals)

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """The log-density of the other prior plus ``sum of counts * log(probabilities)``, nats, but for a constant."""
        with np.errstate(divide="ignore"):
            own = float(self.counts @ np.log(probabilities[self.entries], dtype=np.float64))
        return own + self.prior.log_density(probabilities, row, row_sizes, counts)
