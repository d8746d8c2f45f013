"""Sum passes of chains over a table of rows of scores: potentials once, then any batch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.kernels.chains import chain, chain_lanes, chain_log
from spectrem.kernels.chains import potentials as kernel

# The working space of a group of sentences, in numbers per array; longer sentences are run one at a time.
_MOST_NUMBERS = 1 << 20
# A group is run side by side where at least this share of its places is taken.
_LEAST_FILLED = 0.25


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
    kernel.subtract_tops(scores, offsets, gamma, result.values, result.tops)
    np.exp(result.values, out=result.values)  # which has vector instructions that a kernel does not have
    kernel.remove_small(scores, offsets, result.values, result.floored)
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


@dataclass(frozen=True, eq=False)
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
        self, token_offsets: Ints, rows: Ints, active: Bools, weights: Floats, row_weights: Floats
    ) -> tuple[Floats, Floats, Floats, tuple[Floats, ...]]:
        """Values (nats) of a batch, and counts of rows, first states and factors.

        ``row_weights`` multiply the counts of rows, ``weights`` all others.
        """
        order, values, status = len(self.factors), np.zeros(len(token_offsets) - 1), active.astype(np.int8)
        tensors = zero_tensors(order, len(self.initial))
        expected = chain.Expected(np.zeros_like(self.row_scores), np.zeros_like(self.initial), *tensors)
        batch = (row_weights, weights, values, expected, status)
        side_by_side = self._groups(token_offsets, rows, active) if order == 1 else ()
        if len(side_by_side):
            chain_lanes.sum_pass(side_by_side, token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain.sum_pass(token_offsets, rows, self.potentials, *batch)
        if status.any():
            chain_log.sum_pass(token_offsets, rows, self.potentials, *batch)
        return values, expected.rows, expected.first, factors_of(order, *tensors)

    def _groups(self, token_offsets: Ints, rows: Ints, active: Bools) -> Ints:
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
    def _full_rows(self) -> Bools:
        return np.diff(self.row_offsets) == len(self.initial)

    @cached_property
    def potentials(self) -> chain.Table:
        scores = self.initial, *tensors_of(self.factors)
        rows = potentials_of(self.row_scores, self.row_offsets, self.gamma)
        each = [potentials_of(table.ravel(), np.array([0, table.size]), self.gamma) for table in scores]
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
