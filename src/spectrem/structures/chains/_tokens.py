"""Tokens that each may take some states: the shapes behind every chain, whatever its order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_count, as_integers, as_lengths, as_offsets
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of, positions_of, rows_of

Allowed = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Sentences of tokens, and the states that each token may take (``allowed`` None: all)."""

    lengths: NDArray[np.int64]
    n_states: int
    allowed: Allowed | None

    @classmethod
    def checked(cls, lengths: ArrayLike, n_states: int, allowed: tuple[ArrayLike, ArrayLike] | None) -> Tokens:
        """Coerced; raises InvalidInputError."""
        sizes, count = as_lengths(lengths, "lengths"), as_count(n_states, "n_states", minimum=1)
        if allowed is None:
            return cls(sizes, count, None)
        names = ("allowed[0] (offsets)", "allowed[1] (states)")
        offsets = as_offsets(allowed[0], names[0], int(sizes.sum()))
        return cls(sizes, count, (offsets, check_states(offsets, allowed[1], count, names[1], "token")))

    @property
    def n_tokens(self) -> int:
        return int(self.token_offsets[-1])

    @cached_property
    def token_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences among the tokens, shape (n_instances + 1,)."""
        return offsets_of(self.lengths)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Boundaries of the tokens among the (token, allowed state) parts, shape (n_tokens + 1,)."""
        if self.allowed is not None:
            return self.allowed[0]
        return np.arange(self.n_tokens + 1, dtype=np.int64) * self.n_states

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Sentence of every part."""
        return np.repeat(rows_of(self.lengths), np.diff(self.offsets))

    @property
    def choice(self) -> NDArray[np.int64]:
        """Token of every part."""
        return rows_of(np.diff(self.offsets))

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """``sentence``, ``token`` (position in it), ``occurrence`` (token of the batch) and ``tag`` of every part."""
        widths = np.diff(self.offsets)
        return {
            "sentence": self.instance,
            "token": np.repeat(positions_of(self.lengths), widths),
            "occurrence": self.choice,
            "tag": self.states(slice(0, self.n_tokens)),
        }

    @property
    def kernel_states(self) -> tuple[NDArray[np.int64], bool]:
        """States of all parts, or all states and True."""
        if self.allowed is None:
            return np.arange(self.n_states), True
        return self.allowed[1], False

    def states(self, tokens: slice) -> NDArray[np.int64]:
        """States of the parts of a range of tokens."""
        if self.allowed is None:
            return np.tile(np.arange(self.n_states), tokens.stop - tokens.start)
        return self.allowed[1][self.offsets[tokens.start] : self.offsets[tokens.stop]]

    def paths(self, sentence: int) -> Iterator[NDArray[np.int64]]:
        """Every sequence of parts of one sentence, one per token; the last token's changes first."""
        tokens = range(self.token_offsets[sentence], self.token_offsets[sentence + 1])
        for path in itertools.product(*(range(self.offsets[t], self.offsets[t + 1]) for t in tokens)):
            yield np.array(path, np.int64)

    def chosen_states(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """States of choices among each token's own states; -1 stays -1."""
        if self.allowed is None:
            return choices
        states, found = np.full(self.n_tokens, -1), choices >= 0
        states[found] = self.allowed[1][self.offsets[:-1][found] + choices[found]]
        return states


def check_states(
    offsets: NDArray[np.int64], states: ArrayLike, n_states: int, name: str, row: str
) -> NDArray[np.int64]:
    """States of ragged rows: as many as ``offsets`` say, in range, increasing within a row."""
    checked = as_integers(states, name)
    if len(checked) != offsets[-1]:
        raise InvalidInputError(
            f"{name} must have {offsets[-1]} entries, as its offsets say; got {len(checked)}; "
            f"flatten the states {row} after {row}"
        )
    outside = (checked < 0) | (checked >= n_states)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"{name} must be in 0..{n_states - 1}; got {checked[at]} at index {at}; raise n_states or drop the state"
        )
    falling = np.diff(checked) <= 0
    falling[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(checked))] - 1] = False
    if falling.any():
        at = int(np.argmax(falling)) + 1
        raise InvalidInputError(
            f"{name} must increase within a {row}; got {checked[at]} after {checked[at - 1]} at index {at}; "
            f"sort each {row}'s states and drop duplicates"
        )
    return checked
