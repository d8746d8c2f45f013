"""Layouts of structures whose parts are entries of padded tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from spectrem._arrays import Floats, Ints
from spectrem.structures import Parts
from spectrem.torch.autograd import Layout


@dataclass(frozen=True, eq=False)
class Placed(Layout):
    """Every unary part is an entry of a padded tensor, and every factor a tensor.

    Attributes
    ----------
    structure : Structure
    shapes : tuple of tuple of int
        Of the padded tensors.
    places : tuple of ndarray of int64, or None
        The entry of the raveled tensor of every part that it scores, each entry once; None where all entries are parts,
        in order.
    parts : tuple of slice
        Which parts each tensor scores; parts that none scores have the score 0.
    sums : callable
        ``sums(gamma, *scores)``: values of instances in tensor operations.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    places: tuple[Ints | None, ...]
    parts: tuple[slice, ...]
    sums: Callable[..., torch.Tensor]

    def pack(self, scores: Sequence[Floats]) -> Parts:
        """As `Layout.pack`."""
        if self.parts == (slice(None),):
            unary = _taken(scores[0], self.places[0])
        else:
            unary = np.zeros(self.structure.n_unary)
            for array, places, parts in zip(scores, self.places, self.parts, strict=False):
                unary[parts] = _taken(array, places)
        return Parts(unary, tuple(scores[len(self.places) :]))

    def unpack(self, parts: Parts) -> list[Floats]:
        """As `Layout.unpack`."""
        padded = []
        for shape, places, scored in zip(self.shapes, self.places, self.parts, strict=True):
            numbers = parts.unary[scored]
            if places is not None:
                numbers = np.zeros(math.prod(shape))
                numbers[places] = parts.unary[scored]
            padded.append(numbers.reshape(shape))
        return [*padded, *parts.factors]

    def log_partition(self, gamma: float, *scores: torch.Tensor) -> torch.Tensor:
        """As `Layout.log_partition`."""
        return self.sums(gamma, *scores)


def _taken(array: Floats, places: Ints | None) -> Floats:
    return array.ravel() if places is None else array.ravel()[places]
