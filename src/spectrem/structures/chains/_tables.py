"""Sum passes of chains over a table of rows of scores: potentials once, then any batch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.chains import chain, chain2, chain2_log, chain_lanes, chain_log
from spectrem.kernels.chains import potentials as kernel
from spectrem.structures._ragged import offsets_of

Integers = NDArray[np.int64]
Vector = NDArray[np.float64]
FLOOR = kernel.FLOOR
# The working space of a group of sentences, in numbers per array; longer sentences are run one at a time.
_MOST_NUMBERS = 1 << 20
# A group is run side by side where at least this share of its places is taken.
_LEAST_FILLED = 0.25


class Potentials(NamedTuple):
    """exp((scores - top) / gamma) row by row, zero below FLOOR.

    Attributes
    ----------
    values : ndarray of shape (n_parts,), in [0, 1]
    tops : ndarray of shape (n_rows,), nats
    floored : ndarray of shape (n_rows,), bool
        Whether a possible part was replaced by zero.
    """

    values: NDArray[np.float64]
    tops: NDArray[np.float64]
    floored: NDArray[np.bool_]


def potentials_of(scores: NDArray[np.float64], offsets: NDArray[np.int64], gamma: float) -> Potentials:
    """Potentials of the rows ``scores[offsets[r]:offsets[r + 1]]``; the top of a row without parts is -inf."""
    n_rows = len(offsets) - 1
    result = Potentials(np.empty(len(scores)), np.empty(n_rows), np.empty(n_rows, np.bool_))
    kernel.subtract_tops(scores, offsets, gamma, result.values, result.tops)
    np.exp(result.values, out=result.values)  # which has vector instructions that a kernel does not have
    kernel.remove_small(scores, offsets, result.values, result.floored)
    return result


@dataclass(frozen=True, eq=False)
class RowTable:
    """Abstract: scores of rows, in nats, to which an order of chains adds those of its factors; checked before."""

    row_offsets: Integers
    row_states: Integers
    dense: bool
    row_scores: Vector

    def __getstate__(self) -> dict[str, Any]:
        """Without potentials, which are computed sooner than they travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class TiedCounts(NamedTuple):
    """Expected counts behind the scores of a `TiedChain`, in the shapes of its tables.

    Attributes
    ----------
    rows : ndarray of shape (n_row_parts,)
    initial : ndarray of shape (n_states,)
    transition : ndarray of shape (n_states, n_states)
    """

    rows: Vector
    initial: Vector
    transition: Vector


@dataclass(frozen=True, eq=False)
class BigramTable(RowTable):
    """Scores of rows, first states and transitions, in nats; everything checked before."""

    initial: Vector
    transition: Vector
    gamma: float

    def sum_pass(
        self, token_offsets: Integers, rows: Integers, active: NDArray[np.bool_], weights: Vector, row_weights: Vector
    ) -> tuple[Vector, TiedCounts]:
        """Values (nats) and counts of a batch; ``row_weights`` multiply the counts of rows and first states."""
        values, status = np.zeros(len(token_offsets) - 1), active.astype(np.int8)
        counts = TiedCounts(*(np.zeros_like(s) for s in (self.row_scores, self.initial, self.transition)))
        expected = chain.Expected(*counts)
        batch = (row_weights, weights, values, expected, status)
        order = self._groups(token_offsets, rows, active)
        if len(order):
            chain_lanes.sum_pass(order, token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain.sum_pass(token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain_log.sum_pass(token_offsets, rows, self.potentials, *batch)
        return values, counts

    def _groups(self, token_offsets: Integers, rows: Integers, active: NDArray[np.bool_]) -> Integers:
        """Sentences to be run side by side: unrestricted ones, longest first, in groups of similar length."""
        width, n_states = chain_lanes.WIDTH, len(self.initial)
        if len(active) < _LEAST_FILLED * width:
            return np.zeros(0, np.int64)
        lengths = np.diff(token_offsets)
        chosen = active & (lengths > 0)
        if not self.dense:
            restricted = np.concatenate([[0], np.cumsum(~self._full_rows[rows])])[token_offsets]
            chosen &= np.diff(restricted) == 0
        order = np.flatnonzero(chosen)
        order = order[np.argsort(-lengths[order], kind="stable")]
        if len(order) == 0:
            return order
        first = np.arange(0, len(order), width)
        longest, taken = lengths[order[first]], np.add.reduceat(lengths[order], first)
        together = taken >= _LEAST_FILLED * width * longest
        together &= longest * width * n_states <= _MOST_NUMBERS
        return order[np.repeat(together, width)[: len(order)]]

    @cached_property
    def _full_rows(self) -> NDArray[np.bool_]:
        return np.diff(self.row_offsets) == len(self.initial)

    @cached_property
    def potentials(self) -> chain.Table:
        n = len(self.initial)
        rows = potentials_of(self.row_scores, self.row_offsets, self.gamma)
        start = potentials_of(self.initial, np.array([0, n]), self.gamma)
        moves = potentials_of(self.transition.ravel(), np.array([0, n * n]), self.gamma)
        into = moves.values.reshape(n, n)
        return chain.Table(
            self.row_offsets,
            self.row_states,
            self.dense,
            self.row_scores,
            *rows,
            self.initial,
            start.values,
            float(start.tops[0]),
            bool(start.floored[0]),
            self.transition,
            into,
            np.ascontiguousarray(into.T),
            np.where(self.transition > -np.inf, np.maximum(into, FLOOR), 0.0),
            float(moves.tops[0]),
            bool(moves.floored[0]),
            self.gamma,
        )


class TiedCounts2(NamedTuple):
    """Expected counts behind the scores of a `TiedChain2`, in the shapes of its tables.

    Attributes
    ----------
    rows : ndarray of shape (n_row_parts,)
    initial : ndarray of shape (n_states,)
    second : ndarray of shape (n_states, n_states)
    transition : ndarray of shape (n_states, n_states, n_states)
    """

    rows: Vector
    initial: Vector
    second: Vector
    transition: Vector


@dataclass(frozen=True, eq=False)
class TrigramTable(RowTable):
    """Scores of rows, first states, first pairs and transitions, in nats; everything checked before."""

    initial: Vector
    second: Vector
    transition: Vector
    gamma: float

    def sum_pass(
        self, token_offsets: Integers, rows: Integers, active: NDArray[np.bool_], weights: Vector, row_weights: Vector
    ) -> tuple[Vector, TiedCounts2]:
        """Values (nats) and counts of a batch; ``row_weights`` multiply the counts of rows, ``weights`` all others."""
        values, status = np.zeros(len(token_offsets) - 1), np.zeros(len(token_offsets) - 1, np.int8)
        tables = (self.row_scores, self.initial, self.second, self.transition)
        counts = TiedCounts2(*(np.zeros_like(table) for table in tables))
        expected = chain2.Expected(*counts)
        chain2.sum_pass(token_offsets, rows, self.potentials, active, weights, row_weights, values, expected, status)
        if status.any():
            chain2_log.sum_pass(token_offsets, rows, self.potentials, weights, row_weights, values, expected, status)
        return values, counts

    @cached_property
    def potentials(self) -> chain2.Table:
        n = len(self.initial)
        factors = (self.initial, self.second, self.transition)
        every = np.concatenate([factor.ravel() for factor in factors])
        sizes = np.array([factor.size for factor in factors])
        emission = potentials_of(self.row_scores, self.row_offsets, self.gamma)
        potentials, factor_tops, factor_floored = potentials_of(every, offsets_of(sizes), self.gamma)
        initial, second, flat = np.split(potentials, np.cumsum(sizes)[:-1])
        transition = flat.reshape(n, n, n)
        return chain2.Table(
            self.row_offsets,
            self.row_states,
            self.dense,
            self.row_scores,
            self.initial,
            self.second,
            self.transition,
            self.gamma,
            emission.values,
            emission.tops,
            emission.floored,
            initial,
            second.reshape(n, n),
            np.ascontiguousarray(transition.transpose(1, 0, 2)),
            np.ascontiguousarray(transition.transpose(1, 2, 0)),
            factor_tops,
            factor_floored,
        )
