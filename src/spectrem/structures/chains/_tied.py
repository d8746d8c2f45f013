"""Chains whose tokens take their scores from the rows of one table: what those of all orders share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_gamma, as_integers, as_lengths, as_offsets, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of
from spectrem.structures.chains._tokens import check_states

Integers = NDArray[np.int64]
Vector = NDArray[np.float64]
Counts = TypeVar("Counts")


@dataclass(frozen=True, eq=False)
class RowTable(Generic[Counts]):
    """Abstract: scores of rows, in nats, to which an order of chains adds those of its factors; checked before."""

    row_offsets: Integers
    row_states: Integers
    dense: bool
    row_scores: Vector

    @abstractmethod
    def sum_pass(
        self, token_offsets: Integers, rows: Integers, active: NDArray[np.bool_], weights: Vector, row_weights: Vector
    ) -> tuple[Vector, Counts]:
        """Values (nats) and counts of a batch; ``row_weights`` multiply the counts of rows, ``weights`` of factors."""

    @property
    @abstractmethod
    def potentials(self) -> Any:
        """The scores as the kernels of this order take them, computed at the first use."""

    def __getstate__(self) -> dict[str, Any]:
        """Without potentials, which are computed sooner than they travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False, init=False)
class TiedStructure(Generic[Counts]):
    """Abstract: a table whose potentials are computed at construction, for many batches."""

    row_offsets: Integers
    row_states: Integers | None
    n_states: int
    gamma: float
    _table: RowTable[Counts]

    def expected_counts(
        self, lengths: ArrayLike, rows: ArrayLike, weights: ArrayLike | None = None
    ) -> tuple[Vector, Counts]:
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
        token_offsets, numbers, weight = check_batch(lengths, rows, weights, len(self.row_offsets) - 1)
        return self._table.sum_pass(token_offsets, numbers, np.ones(len(weight), np.bool_), weight, weight)


def check_rows(row_offsets: ArrayLike, row_states: ArrayLike | None, n_states: int) -> tuple[Integers, Integers | None]:
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


def check_gamma(gamma: float, otherwise: str) -> float:
    """A gamma > 0; ``otherwise`` is what gives the best sequence."""
    checked = as_gamma(gamma)
    if checked == 0.0:
        raise InvalidInputError(
            f"gamma must be > 0 for expected counts; got {checked:g}; use {otherwise}.smoothed_max for the best "
            "sequence"
        )
    return checked


def check_batch(
    lengths: ArrayLike, rows: ArrayLike, weights: ArrayLike | None, n_rows: int
) -> tuple[Integers, Integers, NDArray[np.float64]]:
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
