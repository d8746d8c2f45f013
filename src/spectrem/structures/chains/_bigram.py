"""The sum pass of first-order chains over a table of rows of scores: potentials once, then any batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.chains import chain as kernel
from spectrem.kernels.chains import chain_lanes, chain_log
from spectrem.structures.chains._potentials import FLOOR, potentials_of
from spectrem.structures.chains._tied import Integers, RowTable, Vector

# The working space of a group of sentences, in numbers per array; longer sentences are run one at a time.
_MOST_NUMBERS = 1 << 20
# A group is run side by side where at least this share of its places is taken.
_LEAST_FILLED = 0.25


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
class BigramTable(RowTable[TiedCounts]):
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
        expected = kernel.Expected(*counts)
        batch = (row_weights, weights, values, expected, status)
        order = self._groups(token_offsets, rows, active)
        if len(order):
            chain_lanes.sum_pass(order, token_offsets, rows, self.potentials, *batch)
        if status.any():
            kernel.sum_pass(token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain_log.sum_pass(token_offsets, rows, self.potentials, *batch)
        return values, counts

    def _groups(
        self, token_offsets: NDArray[np.int64], rows: NDArray[np.int64], active: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
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
    def potentials(self) -> kernel.Table:
        n = len(self.initial)
        rows = potentials_of(self.row_scores, self.row_offsets, self.gamma)
        start = potentials_of(self.initial, np.array([0, n]), self.gamma)
        moves = potentials_of(self.transition.ravel(), np.array([0, n * n]), self.gamma)
        into = moves.values.reshape(n, n)
        return kernel.Table(
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
