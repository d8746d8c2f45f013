"""The checks that chains over a table of rows share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_gamma, as_integers, as_lengths, as_offsets, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of
from spectrem.structures.chains._tokens import check_states

Integers = NDArray[np.int64]


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
