"""Sum passes of chains over a table of rows of scores: potentials once, then any batch.

`TiedChain` and `TiedChain2`, whose tokens take their scores from the rows of one table, are the E-step of HMMs; chains
whose tokens have scores of their own have a row for each.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_count, as_gamma, as_integers, as_lengths, as_offsets, as_scores, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.chains import chain, chain_lanes, chain_log
from spectrem.kernels.chains import potentials as kernel
from spectrem.structures._ragged import offsets_of
from spectrem.structures.chains._tokens import check_states

# The working space of a group of sentences, in numbers per array; longer sentences are run one at a time.
_MOST_NUMBERS = 1 << 20
# A group is run side by side where at least this share of its places is taken.
LEAST_FILLED = 0.25


class Potentials(NamedTuple):
    """exp((scores - top) / gamma) row by row, zero below `kernels.chains.potentials.FLOOR`.

    Attributes
    ----------
    values : ndarray of shape (n_parts,), in [0, 1]
    tops : ndarray of shape (n_rows,), nats
    floored : ndarray of shape (n_rows,), bool
        Whether a possible part was replaced by zero.
    """

    values: Floats
    tops: Floats
    floored: Bools


def potentials_of(scores: Floats, offsets: Ints, gamma: float) -> Potentials:
    """Potentials of the rows ``scores[offsets[r]:offsets[r + 1]]``; the top of a row without parts is -inf."""
    n_rows = len(offsets) - 1
    result = Potentials(np.empty(len(scores)), np.empty(n_rows), np.empty(n_rows, np.bool_))
    if kernel.fill_potentials(scores, offsets, gamma, kernel.FLOOR, result.values, result.tops):
        kernel.find_floored(scores, offsets, result.values, result.floored)
    else:
        result.floored[:] = False
    return result


def tensors_of(factors: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """Transitions to second and to later tokens as kernels take them, [middle, from, to]."""
    if len(factors) == 1:
        return factors[0][None], factors[0][None]
    return factors[0][:, None], np.ascontiguousarray(factors[1].transpose(1, 0, 2))


def factors_of(order: int, second: Floats, later: Floats) -> tuple[Floats, ...]:
    """The inverse of `tensors_of`."""
    return (later[0],) if order == 1 else (second[:, 0], np.ascontiguousarray(later.transpose(1, 0, 2)))


def zero_tensors(order: int, n_states: int) -> tuple[Floats, Floats]:
    """Counts of transitions to second and to later tokens, [middle, from, to]; one array at order 1."""
    later = np.zeros((1 if order == 1 else n_states, n_states, n_states))
    return later if order == 1 else np.zeros((n_states, 1, n_states)), later


@brief_dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of rows, first states and transitions, in nats, of chains of order ``len(factors)``; checked before.

    ``factors`` are those of `Chain` or `Chain2`.
    """

    row_offsets: Ints
    row_states: Ints
    dense: bool
    row_scores: Floats
    initial: Floats
    factors: tuple[Floats, ...]
    gamma: float

    def __getstate__(self) -> dict[str, Any]:
        """Without potentials, which are computed sooner than they travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def sum_pass(
        self,
        token_offsets: Ints,
        rows: Ints,
        active: Bools,
        weights: Floats,
        row_weights: Floats,
        least_filled: float = LEAST_FILLED,
    ) -> tuple[Floats, Floats, Floats, tuple[Floats, ...]]:
        """Values (nats) of a batch, and counts of rows, first states and factors.

        ``row_weights`` multiply the counts of rows, ``weights`` all others. Sentences run side by side where so large a
        share of the places of a group is taken; with 0, results of a sentence are the same bits in any batch.
        """
        order, values, status = len(self.factors), np.zeros(len(token_offsets) - 1), active.astype(np.int8)
        tensors = zero_tensors(order, len(self.initial))
        expected = chain.Expected(np.zeros_like(self.row_scores), np.zeros_like(self.initial), *tensors)
        batch = (row_weights, weights, values, expected, status)
        side_by_side = self._groups(token_offsets, rows, active, least_filled) if order == 1 else ()
        if len(side_by_side):
            chain_lanes.sum_pass(side_by_side, token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain.sum_pass(token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain_log.sum_pass(token_offsets, rows, self.potentials, *batch)
        return values, expected.rows, expected.first, factors_of(order, *tensors)

    def _groups(self, token_offsets: Ints, rows: Ints, active: Bools, least_filled: float) -> Ints:
        """Sentences to be run side by side: unrestricted ones, longest first, in groups of similar length."""
        width, n_states = chain_lanes.WIDTH, len(self.initial)
        if len(active) < least_filled * width:
            return np.zeros(0, np.int64)
        lengths = np.diff(token_offsets)
        chosen = active & (lengths > 0) & (lengths <= _MOST_NUMBERS // (width * n_states))
        if not self.dense:
            restricted = np.concatenate([[0], np.cumsum(~self._full_rows[rows])])[token_offsets]
            chosen &= np.diff(restricted) == 0
        order = np.flatnonzero(chosen)
        order = order[np.argsort(-lengths[order], kind="stable")]
        if not len(order) or not least_filled:
            return order
        first = np.arange(0, len(order), width)
        longest, taken = lengths[order[first]], np.add.reduceat(lengths[order], first)
        together = taken >= least_filled * width * longest
        return order[np.repeat(together, width)[: len(order)]]

    @cached_property
    def _full_rows(self) -> Bools:
        return np.diff(self.row_offsets) == len(self.initial)

    @cached_property
    def potentials(self) -> chain.Table:
        scores = self.initial, *tensors_of(self.factors)
        rows = potentials_of(self.row_scores, self.row_offsets, self.gamma)
        each = [
            potentials_of(table.ravel(), np.array([0, table.size]), self.gamma)
            for table in scores[: 1 + len(self.factors)]
        ]
        each = each if len(self.factors) == 2 else [*each, each[1]]  # one table of transitions to all tokens
        first, second, later = (one.values.reshape(table.shape) for one, table in zip(each, scores, strict=True))
        return chain.Table(
            len(self.factors),
            self.row_offsets,
            np.append(self.row_states, 0),
            self.dense,
            self.row_scores,
            *rows,
            *scores,
            first,
            second,
            later,
            np.ascontiguousarray(later.transpose(0, 2, 1)),
            np.concatenate([one.tops for one in each]),
            np.concatenate([one.floored for one in each]),
            self.gamma,
        )


@briefly_shown
class TiedCounts(NamedTuple):
    """Expected counts behind the scores of a `TiedChain`, in the shapes of its tables.

    Attributes
    ----------
    rows : ndarray of shape (n_row_parts,)
    initial : ndarray of shape (n_states,)
    transition : ndarray of shape (n_states, n_states)

    Examples
    --------
    >>> counts = TiedCounts(rows=np.ones((3, 2)), initial=np.array([0.4, 0.6]), transition=np.full((2, 2), 0.5))
    >>> float(counts.transition.sum())
    2.0
    """

    rows: Floats
    initial: Floats
    transition: Floats


@briefly_shown
class TiedCounts2(NamedTuple):
    """Expected counts behind the scores of a `TiedChain2`, in the shapes of its tables.

    Attributes
    ----------
    rows : ndarray of shape (n_row_parts,)
    initial : ndarray of shape (n_states,)
    second : ndarray of shape (n_states, n_states)
    transition : ndarray of shape (n_states, n_states, n_states)

    Examples
    --------
    >>> pairs = np.full((2, 2), 0.25)
    >>> counts = TiedCounts2(np.ones((3, 2)), np.array([0.4, 0.6]), second=pairs, transition=np.zeros((2, 2, 2)))
    >>> float(counts.second.sum())
    1.0
    """

    rows: Floats
    initial: Floats
    second: Floats
    transition: Floats


@brief_dataclass(frozen=True, eq=False, init=False)
class TiedStructure:
    """Abstract: a table whose potentials are computed at construction, for many batches."""

    _counts: ClassVar[type[TiedCounts] | type[TiedCounts2]]

    row_offsets: Ints
    row_states: Ints | None
    n_states: int
    gamma: float
    _table: ScoreTable

    def _fill(
        self,
        rows: tuple[ArrayLike, ArrayLike | None, ArrayLike],
        n_states: int,
        gamma: float,
        initial: ArrayLike,
        **factors: ArrayLike,
    ) -> None:
        """Check everything, and compute potentials."""
        n = as_count(n_states, "n_states", minimum=1)
        offsets, states = _check_rows(rows[0], rows[1], n)
        checked = as_gamma(gamma)
        if checked == 0.0:
            raise InvalidInputError(
                f"gamma must be > 0 for expected counts; got {checked:g}; use {type(self).__name__[4:]}.smoothed_max "
                "for the best sequence"
            )
        table = ScoreTable(
            offsets,
            np.arange(n) if states is None else states,
            states is None,
            as_scores(rows[2], "row_scores", (int(offsets[-1]),)),
            as_scores(initial, "initial", (n,)),
            tuple(as_scores(scores, name, (n,) * axes) for axes, (name, scores) in enumerate(factors.items(), 2)),
            checked,
        )
        _ = table.potentials  # now, not at the first batch: many threads may share the table
        vars(self).update(row_offsets=offsets, row_states=states, n_states=n, gamma=checked, _table=table)

    def expected_counts(
        self, lengths: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None
    ) -> tuple[Floats, TiedCounts | TiedCounts2]:
        """Smoothed max of every sentence and the expected counts behind the tables.

        Parameters
        ----------
        lengths : array-like of shape (n_instances,), int
            Tokens of every sentence, >= 0.
        rows : array-like of shape (n_tokens,), int
            Row of every token, sentence after sentence.
        weights : array-like of shape (n_instances,), optional
            Multiply the counts of a sentence, not its value.

        Returns
        -------
        values : ndarray of shape (n_instances,)
            Nats; 0 for an empty sentence, -inf for an impossible one.
        counts : TiedCounts or TiedCounts2
            By row and by factor, in the shapes of the tables.

        Raises
        ------
        InvalidInputError
            If there are not as many rows as tokens, or a row is out of range.
        """
        token_offsets, numbers, weight = _check_batch(lengths, rows, weights, len(self.row_offsets) - 1)
        active = np.ones(len(weight), np.bool_)
        values, of_rows, initial, factors = self._table.sum_pass(token_offsets, numbers, active, weight, weight)
        return values, self._counts(of_rows, initial, *factors)


@brief_dataclass(frozen=True, eq=False, init=False)
class TiedChain(TiedStructure):
    """Scores of a first-order chain by row of a table; `Chain.smoothed_max` without a number per token.

    Potentials are computed once, at construction; every batch then needs the working space of some sentences.

    Use when many tokens share their unary scores: HMM taggers, where a row is a word.

    Parameters
    ----------
    row_offsets : array-like of shape (n_rows + 1,), int
        Parts of row r are ``row_offsets[r]:row_offsets[r + 1]``.
    row_states : array-like of shape (n_row_parts,), int, or None
        State of every part, increasing within a row. None: every row has all states.
    n_states : int
        Number of states, >= 1.
    row_scores : array-like of shape (n_row_parts,)
        Nats, -inf for impossible.
    initial : array-like of shape (n_states,)
        Nats; added for the first token of a sentence.
    transition : array-like of shape (n_states, n_states)
        Nats; for every two neighbours, [from, to].
    gamma : float
        Entropy weight, > 0.

    Raises
    ------
    InvalidInputError
        If shapes, states or gamma break these rules.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import TiedChain
    >>> rows = np.log([[0.9, 0.1], [0.2, 0.8]])  # p(word | state) of two words
    >>> half = np.full((2, 2), np.log(0.5))
    >>> tied = TiedChain([0, 2, 4], None, 2, rows.ravel(), half[0], half, gamma=1.0)
    >>> values, counts = tied.expected_counts([3, 1], rows=[0, 1, 0, 1])
    >>> np.exp(values).round(12).tolist(), counts.rows.round(12).tolist()
    ([0.125, 0.5], [1.8, 0.2, 0.4, 1.6])
    """

    _counts = TiedCounts

    def __init__(
        self,
        row_offsets: ArrayLike,
        row_states: ArrayLike | None,
        n_states: int,
        row_scores: ArrayLike,
        initial: ArrayLike,
        transition: ArrayLike,
        gamma: float,
    ) -> None:
        self._fill((row_offsets, row_states, row_scores), n_states, gamma, initial, transition=transition)


@brief_dataclass(frozen=True, eq=False, init=False)
class TiedChain2(TiedStructure):
    """Scores of a second-order chain by row of a table; `Chain2.smoothed_max` without a number per token.

    Potentials are computed once, at construction; every batch then needs the working space of its longest sentence.

    Use when many tokens share their unary scores: trigram HMM taggers, where a row is a word.

    Parameters
    ----------
    row_offsets : array-like of shape (n_rows + 1,), int
        Parts of row r are ``row_offsets[r]:row_offsets[r + 1]``.
    row_states : array-like of shape (n_row_parts,), int, or None
        State of every part, increasing within a row. None: every row has all states.
    n_states : int
        Number of states, >= 1.
    row_scores : array-like of shape (n_row_parts,)
        Nats, -inf for impossible.
    initial : array-like of shape (n_states,)
        Nats; added for the first token of a sentence.
    second : array-like of shape (n_states, n_states)
        Nats; for the first two tokens of a sentence, [first, second].
    transition : array-like of shape (n_states, n_states, n_states)
        Nats; for every three neighbours, [two back, one back, to].
    gamma : float
        Entropy weight, > 0.

    Raises
    ------
    InvalidInputError
        If shapes, states or gamma break these rules.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import TiedChain2
    >>> rows = np.log([[0.9, 0.1], [0.2, 0.8]])  # p(word | state) of two words
    >>> half = np.full((2, 2, 2), np.log(0.5))
    >>> tied = TiedChain2([0, 2, 4], None, 2, rows.ravel(), half[0, 0], half[0], half, gamma=1.0)
    >>> values, counts = tied.expected_counts([3, 1], rows=[0, 1, 0, 1])
    >>> np.exp(values).round(12).tolist(), counts.rows.round(12).tolist()
    ([0.125, 0.5], [1.8, 0.2, 0.4, 1.6])
    """

    _counts = TiedCounts2

    def __init__(
        self,
        row_offsets: ArrayLike,
        row_states: ArrayLike | None,
        n_states: int,
        row_scores: ArrayLike,
        initial: ArrayLike,
        second: ArrayLike,
        transition: ArrayLike,
        gamma: float,
    ) -> None:
        rows = row_offsets, row_states, row_scores
        self._fill(rows, n_states, gamma, initial, second=second, transition=transition)


def _check_rows(row_offsets: ArrayLike, row_states: ArrayLike | None, n_states: int) -> tuple[Ints, Ints | None]:
    """Offsets and states of the rows of a table, coerced; without states every row has all ``n_states``."""
    offsets = as_integers(row_offsets, "row_offsets")
    offsets = as_offsets(offsets, "row_offsets", max(len(offsets) - 1, 0))
    if row_states is not None:
        return offsets, check_states(offsets, row_states, n_states, "row_states", "row")
    if (np.diff(offsets) != n_states).any():
        raise InvalidInputError(
            f"row_offsets must give every row {n_states} parts when row_states is None; got rows of "
            f"{np.unique(np.diff(offsets)).tolist()}; pass the states of every part"
        )
    return offsets, None


def _check_batch(
    lengths: ArrayLike, rows: ArrayLike, weights: ArrayLike | None, n_rows: int
) -> tuple[Ints, Ints, Floats]:
    """Boundaries of the sentences among the tokens, row of every token and weight of every sentence."""
    sizes, numbers = as_lengths(lengths, "lengths"), as_integers(rows, "rows")
    if len(numbers) != sizes.sum():
        raise InvalidInputError(
            f"rows must have {sizes.sum()} entries, the sum of lengths; got {len(numbers)}; give every token its row"
        )
    outside = (numbers < 0) | (numbers >= n_rows)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"rows must be in 0..{n_rows - 1}; got {numbers[at]} at index {at}; add a row for unknown words"
        )
    return offsets_of(sizes), numbers, as_weights(weights, len(sizes))
