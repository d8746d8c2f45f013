"""Tokens of padded batches: which places hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectrem._arrays import Bools, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of, positions_of


@dataclass(frozen=True, eq=False)
class Tokens:
    """Which places of a padded batch hold tokens.

    Attributes
    ----------
    shape : tuple of (batch, length)
    lengths : ndarray of shape (batch,), int64
        Tokens of every sentence.
    mask : ndarray of shape (batch, length), bool, or None
        Where the tokens stand; None where every place holds one.
    """

    shape: tuple[int, int]
    lengths: Ints
    mask: Bools | None

    @classmethod
    def of(cls, shape: tuple[int, int], lengths: Any, mask: Any, side: str = "") -> Tokens:
        """Check lengths or a mask of a batch; the names of both arguments begin with ``side``."""
        batch, length = shape
        if lengths is not None and mask is not None:
            raise InvalidInputError(f"{side}lengths and {side}mask say the same, got both; leave one out")
        if mask is not None:
            mask = torch.as_tensor(mask).detach().cpu().numpy().astype(bool)
            if mask.shape != shape:
                raise InvalidInputError(
                    f"{side}mask must have shape {shape}, one value per token, got {mask.shape}; it is true at tokens"
                )
        if lengths is not None:
            sizes = torch.as_tensor(lengths).detach().cpu().numpy()
            if sizes.shape != (batch,) or sizes.dtype.kind not in "iu" or ((sizes < 0) | (sizes > length)).any():
                raise InvalidInputError(
                    f"{side}lengths must be {batch} whole numbers from 0 to {length}, one per sentence, got "
                    f"{sizes.tolist()!r:.100}"
                )
            mask = np.arange(length) < sizes[:, None]
        if mask is None or mask.all():
            return cls(shape, np.full(batch, length, np.int64), None)
        return cls(shape, mask.sum(axis=1), mask)

    @property
    def is_token(self) -> Bools:
        """Where the tokens stand, shape (batch, length)."""
        return np.ones(self.shape, np.bool_) if self.mask is None else self.mask

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the sentences among the tokens, shape (batch + 1,)."""
        return offsets_of(self.lengths)

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """The first and the last token of every sentence that has one."""
        some = self.lengths > 0
        return self.offsets[:-1][some], self.offsets[1:][some] - 1

    @cached_property
    def kept(self) -> Ints:
        """Places of the tokens in the flattened batch, shape (n_tokens,)."""
        places = np.arange(self.shape[0] * self.shape[1])
        return places if self.mask is None else places[self.mask.ravel()]

    @cached_property
    def position(self) -> Ints:
        """The number of every token in its sentence, shape (n_tokens,)."""
        return positions_of(self.lengths)

    @cached_property
    def order(self) -> Ints:
        """The places of every sentence, those of its tokens first, shape (batch, length)."""
        return np.argsort(~self.is_token, axis=1, kind="stable")

    def places_of(self, sentences: Ints, positions: Ints) -> Ints:
        """Places in the padded batch of tokens by their number in a sentence; negative numbers stay as they are."""
        places, some = positions.copy(), positions >= 0
        places[some] = self.order[sentences[some], positions[some]]
        return places

    def compact(self, padded: torch.Tensor, *axes: int) -> torch.Tensor:
        """A padded tensor in which tokens come first, in order, along the axes that are their places."""
        if self.mask is not None:
            order = torch.from_numpy(self.order).to(padded.device)
            for axis in axes:
                shape = [1] * padded.ndim
                shape[0], shape[axis] = order.shape
                padded = torch.take_along_dim(padded, order.reshape(shape), axis)
        return padded

    def take(self, padded: NDArray[Any]) -> NDArray[Any]:
        """Rows of tokens, shape (n_tokens, ...); a view where every place holds one."""
        return padded.reshape(-1, *padded.shape[2:]) if self.mask is None else padded[self.mask]

    def put(self, rows: NDArray[Any], empty: float = 0.0) -> NDArray[Any]:
        """The padded form of rows of tokens, shape (batch, length, ...)."""
        if self.mask is None:
            return rows.reshape(*self.shape, *rows.shape[1:])
        padded = np.full((*self.shape, *rows.shape[1:]), empty, rows.dtype)
        padded[self.mask] = rows
        return padded
