"""Tokens that each take one of some states: the shapes of every chain, whatever its order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Ints
from spectrem._validate import as_count, as_integers, as_lengths, as_offsets
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures._ragged import check_instance, check_scores, offsets_of, positions_of, rows_of
from spectrem.structures.derivations import NO_STEPS, Derivations, keep_steps, places_of, steps_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope, Structure

Allowed = tuple[Ints, Ints]


@dataclass(frozen=True, eq=False, init=False)
class TokenStructure(Structure):
    """Abstract: sentences whose tokens each take one of their states, whatever order of chain scores them.

    A chain adds ``factor_shapes``, ``smoothed_max``, ``decode`` and ``enumerate``. Its unary parts are the states that
    each token may take, and as many factors as its order score neighbours, unless it overrides ``offsets``, ``_tags``
    and ``derivations``.
    """

    lengths: Ints
    n_states: int
    allowed: Allowed | None
    instance_name: str = "sentence"  # hides the property of the protocol
    label_name: str = "tag"

    def __init__(
        self,
        lengths: ArrayLike,
        n_states: int,
        allowed: tuple[ArrayLike, ArrayLike] | None = None,
        instance_name: str = "sentence",
        label_name: str = "tag",
    ) -> None:
        sizes, count = as_lengths(lengths, "lengths"), as_count(n_states, "n_states", minimum=1)
        checked: Allowed | None = None
        if allowed is not None:
            names = ("allowed[0] (offsets)", "allowed[1] (states)")
            offsets = as_offsets(allowed[0], names[0], int(sizes.sum()))
            checked = offsets, check_states(offsets, allowed[1], count, names[1], "token")
        vars(self).update(
            lengths=sizes, n_states=count, allowed=checked, instance_name=instance_name, label_name=label_name
        )

    @property
    def n_instances(self) -> int:
        """Number of sentences of the batch."""
        return len(self.lengths)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of the batch."""
        return int(self.token_offsets[-1])

    @property
    def n_unary(self) -> int:
        """Number of unary parts of all tokens of the batch."""
        return int(self.offsets[-1])

    @cached_property
    def token_offsets(self) -> Ints:
        """Boundaries of the sentences among the tokens, shape (n_instances + 1,)."""
        return offsets_of(self.lengths)

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the tokens in ``Parts.unary``, shape (n_tokens + 1,)."""
        return self._state_offsets

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The column of the states, whose numbers mean something in this structure only."""
        return (self.label_name,)

    @cached_property
    def instance(self) -> Ints:
        """Sentence of every unary part, shape (n_unary,)."""
        return np.repeat(rows_of(self.lengths), np.diff(self.offsets))

    @property
    def choice(self) -> Ints:
        """Token of every unary part, shape (n_unary,); built anew at every call."""
        return rows_of(np.diff(self.offsets))

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        return {
            self.instance_name: self.instance,
            "token": np.repeat(positions_of(self.lengths), np.diff(self.offsets)),
            "occurrence": self.choice,
            self.label_name: self._tags,
        }

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Unit flow from the first token to the last one: a variable per state, or pair of states, and what follows."""
        return self.derivations(instance).polytope(check_scores(self, scores))

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the sequences of one sentence, from left to right."""
        tokens, own = self._tokens_and_parts(instance)
        n, order, states = tokens.stop - tokens.start, len(self.factor_shapes), self._states(tokens)
        sizes, starts = (
            [int(np.prod(shape)) for shape in self.factor_shapes],
            self.offsets[tokens.start : tokens.stop + 1],
        )
        entries = np.concatenate([np.arange(own.start, own.stop), np.full(sum(sizes), -1)])
        ends = offsets_of(np.array([len(states), *sizes]))
        every = np.arange(len(entries))
        cells = tuple(np.where((every >= i) & (every < j), every - i, -1) for i, j in pairwise(ends[1:].tolist()))
        uses = [1] * n + [max(n - 1, 0)] if order == 1 else [1] * n + [min(max(n - 1, 0), 1), max(n - 2, 0)]
        steps = NO_STEPS
        if n:
            steps = keep_steps(_steps, order, self.n_states, tuple(np.diff(starts).tolist()), tuple(states.tolist()))
        offsets = np.concatenate([starts - own.start, ends[2:]])
        return Derivations(steps, entries, own, cells, offsets, np.array(uses))

    @cached_property
    def _state_offsets(self) -> Ints:
        """Boundaries of the tokens among all pairs of a token and an allowed state, shape (n_tokens + 1,)."""
        if self.allowed is not None:
            return self.allowed[0]
        return np.arange(self.n_tokens + 1, dtype=np.int64) * self.n_states

    @property
    def _tags(self) -> Ints:
        """State of every unary part."""
        return self._all_states

    @property
    def _all_states(self) -> Ints:
        """The allowed states of all tokens, token after token."""
        return self._states(slice(0, self.n_tokens))

    @property
    def _kernel_states(self) -> tuple[Ints, bool]:
        """The allowed states of all tokens and False, or all states, once, and True."""
        if self.allowed is None:
            return np.arange(self.n_states), True
        return self.allowed[1], False

    def _states(self, tokens: slice) -> Ints:
        """The allowed states of a range of tokens, token after token."""
        if self.allowed is None:
            return np.tile(np.arange(self.n_states), tokens.stop - tokens.start)
        return self.allowed[1][self._state_offsets[tokens.start] : self._state_offsets[tokens.stop]]

    def _tokens_and_parts(self, instance: int) -> tuple[slice, slice]:
        """The tokens of one sentence and its unary parts, as ranges in those of the batch."""
        n = check_instance(self, instance)
        tokens = slice(int(self.token_offsets[n]), int(self.token_offsets[n + 1]))
        return tokens, slice(int(self.offsets[tokens.start]), int(self.offsets[tokens.stop]))

    def _paths(self, instance: int) -> Iterator[Ints]:
        """Every sequence of states of one sentence, as pairs of a token and a state; the last token's change first."""
        tokens, _ = self._tokens_and_parts(instance)
        bounds = pairwise(self._state_offsets[tokens.start : tokens.stop + 1])
        for path in itertools.product(*(range(start, stop) for start, stop in bounds)):
            yield np.array(path, np.int64)

    def _chosen_states(self, choices: Ints) -> Ints:
        """States of choices among each token's own states; -1 stays -1."""
        if self.allowed is None:
            return choices
        states, found = np.full(self.n_tokens, -1), choices >= 0
        states[found] = self.allowed[1][self._state_offsets[:-1][found] + choices[found]]
        return states


def _steps(order: int, n_states: int, widths: tuple[int, ...], states: tuple[int, ...]) -> Steps:
    """The steps of the sequences of one sentence, whose tokens may take ``widths`` of the ``states`` each.

    An item is a state of a token, at order 2 with the state before it, and all that stands before; steps join it with
    the score of what follows. Parts are states of tokens, then cells of factors, one table of cells for all places
    between the same states.
    """
    width, state = np.array(widths), np.array(states)
    start, token = offsets_of(width), rows_of(width)
    before = np.append(1, width[:-1])
    outer = before if order == 2 else np.ones_like(before)  # items of a token and a state
    inner = np.append(1, outer[:-1]) if order == 2 else before  # steps of an item
    listed = [state[:1] * 0, state[:1] * 0, *np.split(state, start[1:-1])]
    tables: dict[tuple[Any, ...], int] = {}
    cells, first, size = [], [], 0
    for t in range(len(width)):
        two_back, one_back, here = listed[t : t + 3]
        key = min(t, order), *(own.tobytes() for own in listed[t + 2 - min(t, order) : t + 3])
        if key not in tables:
            tables[key] = size
            table = one_back * n_states + here[:, None]
            if order == 2 and t > 1:
                table = n_states**2 + (two_back * n_states + one_back[:, None]) * n_states + here[:, None, None]
            cells.append(table.ravel() if t else np.full(len(here), -1))
            size += cells[-1].size
        first.append(tables[key])
    item_starts = offsets_of(width * outer)
    last = int(width[-1] * outer[-1])
    items, goal, ones, places, moves = places_of(int(item_starts[-1]), 1, last, len(state), size)
    of_state = np.repeat(np.arange(len(state)), outer[token])  # the state of a token of every item
    at, place = token[of_state], positions_of(width * outer)
    left = np.where(at > 0, items + item_starts[at - 1] + place % outer[at] * np.append(1, outer[:-1])[at], ONE)
    item, right = items + np.arange(len(at)), moves + np.array(first)[at] + place * inner[at]
    cell = np.concatenate(cells)
    return steps_of(
        [(item, item, places + of_state, left, right, inner[at])],
        [(np.array([goal]), goal, ONE, items + item_starts[-2], ones, last)],
        parts=(
            np.concatenate([places + np.arange(len(state)), moves + np.arange(size)]),
            np.concatenate([np.arange(len(state)), np.where(cell < 0, -1, len(state) + cell)]),
        ),
        ones=ones + np.arange(last),
    )


def check_states(offsets: Ints, states: ArrayLike, n_states: int, name: str, row: str) -> Ints:
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
