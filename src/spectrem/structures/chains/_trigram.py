"""The sum pass of second-order chains over a table of rows of scores: potentials once, then any batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.chains import chain2 as kernel
from spectrem.kernels.chains import chain2_log
from spectrem.structures._ragged import offsets_of
from spectrem.structures.chains._potentials import potentials_of
from spectrem.structures.chains._tied import Integers, RowTable, Vector


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
class TrigramTable(RowTable[TiedCounts2]):
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
        expected = kernel.Expected(*counts)
        kernel.sum_pass(token_offsets, rows, self.potentials, active, weights, row_weights, values, expected, status)
        if status.any():
            chain2_log.sum_pass(token_offsets, rows, self.potentials, weights, row_weights, values, expected, status)
        return values, counts

    @cached_property
    def potentials(self) -> kernel.Table:
        n = len(self.initial)
        factors = (self.initial, self.second, self.transition)
        every = np.concatenate([factor.ravel() for factor in factors])
        sizes = np.array([factor.size for factor in factors])
        emission = potentials_of(self.row_scores, self.row_offsets, self.gamma)
        potentials, factor_tops, factor_floored = potentials_of(every, offsets_of(sizes), self.gamma)
        initial, second, flat = np.split(potentials, np.cumsum(sizes)[:-1])
        transition = flat.reshape(n, n, n)
        return kernel.Table(
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
