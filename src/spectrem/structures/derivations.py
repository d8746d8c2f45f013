"""Structures that are put together step by step, and what the engine of derivations computes of their scores."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._validate import as_gamma
from spectrem.kernels import derivations as kernel
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures._ragged import check_direction, check_inputs, check_scores, no_parts, ranges_of, rows_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope, Structure

Runs: TypeAlias = list[tuple[Any, ...]]
"""Runs of steps, entry by entry of arrays: for the first entry those of all tuples, then for the second, and so on.

The place of the item that a run makes, its other place or the same, the place of the part that every step of the item
takes or ONE, the first places on the left and on the right, and the number of steps.
"""

# Spans are made in squares of so many starts and ends, whose numbers stay in the second-level cache.
_TILE = 16


class _Keeper:
    """The steps of the shapes that were used last, up to so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.room = most_bytes
        self.steps: dict[Hashable, Steps] = {}
        self.lock = Lock()

    def __call__(self, grammar: Callable[..., Steps], *shape: Hashable) -> Steps:
        """``grammar(*shape)``, built once for all instances of a shape while there is room for it."""
        with self.lock:
            if (grammar, shape) in self.steps:
                steps = self.steps[grammar, shape] = self.steps.pop((grammar, shape))  # the last one now
                return steps
        steps = grammar(*shape)
        with self.lock:
            if (grammar, shape) not in self.steps:
                self.steps[grammar, shape], self.room = steps, self.room - _bytes(steps)
            while self.room < 0:
                self.room += _bytes(self.steps.pop(next(iter(self.steps))))
        return steps


def _bytes(steps: Steps) -> int:
    return sum(column.nbytes for column in steps if isinstance(column, np.ndarray))


keep_steps = _Keeper(1 << 26)


def places_of(*sizes: int) -> list[int]:
    """The first of so many places, and of more, behind that of the number one."""
    return np.cumsum([ONE + 1, *sizes[:-1]]).tolist()


def spans_in_tiles(n_starts: int, n_ends: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """All starts and ends with start < end, shorter spans inside a span before it."""
    start, end = np.nonzero(np.arange(n_starts)[:, None] < np.arange(n_ends))
    order = np.argsort(((end // _TILE * n_ends - start // _TILE) * n_ends + end) * n_ends - start)
    return start[order].astype(np.int32), end[order].astype(np.int32)


def steps_of(*groups: Runs, parts: tuple[Ints, Ints], ones: Ints | None = None) -> Steps:
    """The steps of a grammar.

    Parameters
    ----------
    *groups : Runs
        One after the other. Runs of one item follow each other; items stand behind those that they are made of, the
        goal is last.
    parts : tuple of ndarray
        The places of parts, and which part stands there.
    ones : ndarray, optional
        More places of the number one.
    """
    sizes = [np.size(group[0][0]) * len(group) for group in groups]
    place, copy, factor, left, right, count = table = np.empty((6, sum(sizes)), np.int32)
    for group, columns in zip(groups, np.split(table, np.cumsum(sizes)[:-1], axis=1), strict=True):
        for r, run in enumerate(group):
            for column, values in zip(columns, run, strict=True):
                column[r :: len(group)] = values
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    every_one = np.append(ONE, [] if ones is None else ones).astype(np.int64)
    ends = np.maximum(left, right) + count
    return Steps(
        place[first],
        copy[first],
        factor[first],
        np.append(first, len(place)).astype(np.int32),
        left,
        right,
        count,
        np.concatenate([every_one, parts[0]]),
        np.concatenate([np.full(len(every_one), -1), parts[1]]),
        int(max(ends.max(), place.max() + 1, copy.max() + 1, parts[0].max(initial=0) + 1)),
        int(np.add.reduceat(count, first).max()),
    )


NO_STEPS = steps_of(
    [(np.array([ONE + 1]), ONE + 1, ONE, ONE, ONE, 1)], parts=(np.zeros(0, np.int64), np.zeros(0, np.int64))
)
"""The steps of an instance without parts, which has one structure."""


@dataclass(frozen=True, eq=False)
class Derivations:
    """The derivations of one instance of a structure: their steps, and what their parts score.

    Attributes
    ----------
    steps : Steps
    unary : ndarray of shape (n_parts,), int64
        The entry of ``Parts.unary`` that every part of the steps scores; -1 for none.
    entries : slice
        The entries of ``Parts.unary`` of the instance.
    cells : tuple of ndarray of shape (n_parts,), int64
        For every shared factor, the raveled cell that a part scores besides; -1 for none.
    offsets, uses : ndarray of int64
        A derivation takes ``uses[g]`` of the parts ``offsets[g]:offsets[g + 1]``, or 0 where the number differs.
    apart : ndarray of shape (n_parts,), int64, optional
        The entry of ``Parts.unary`` that a structure takes where it does not take a part.
    """

    steps: Steps
    unary: Ints
    entries: slice
    cells: tuple[Ints, ...]
    offsets: Ints
    uses: Ints
    apart: Ints | None = None

    def scores(self, scores: Parts) -> Floats:
        """Scores of the parts, nats."""
        there = self.unary >= 0
        total = np.zeros(len(there))
        total[there] = scores.unary[self.unary[there]]
        for cells, factor in zip(self.cells, scores.factors, strict=True):
            total += np.append(factor, 0.0)[cells]
        return total

    def add(self, numbers: Floats, parts: Parts, weight: float = 1.0) -> None:
        """Add numbers of the parts to those of the structure, to those of factors times a weight."""
        there = self.unary >= 0
        np.add.at(parts.unary, self.unary[there], numbers[there])
        for cells, factor in zip(self.cells, parts.factors, strict=True):
            np.add.at(factor.reshape(-1), cells[cells >= 0], weight * numbers[cells >= 0])

    def smoothed_max(self, scores: Floats, gamma: float) -> tuple[float, Floats]:
        """The value, nats, and the marginals of the parts, (n_parts,); at gamma = 0 numbers of parts of the best."""
        numbers, value = self._inside(scores, gamma)
        if value == -np.inf:
            return value, np.zeros(len(scores))
        if gamma == 0.0:
            return value, self._sample(numbers, 1, gamma, np.random.default_rng(0))[0].astype(np.float64)
        return value, kernel.outside(self.steps, numbers, len(scores))[1]

    def entropy(self, scores: Floats, gamma: float) -> float:
        """Entropy in nats, without the cancellation of ``(value - <scores, marginals>) / gamma``; gamma > 0."""
        numbers, value = self._inside(scores, gamma)
        if value == -np.inf:
            return 0.0
        return kernel.entropy(self.steps, numbers, kernel.outside(self.steps, numbers, len(scores))[0])

    def covariances(self, scores: Floats, along: Floats) -> tuple[float, Floats]:
        """The mean of the sum of ``along`` over the parts taken, and its covariances with all parts, at gamma = 1."""
        numbers, value = self._inside(scores, 1.0)
        if value == -np.inf:
            return 0.0, np.zeros(len(scores))
        return kernel.covary(self.steps, numbers, along)

    def sample(self, scores: Floats, gamma: float, n: int, rng: np.random.Generator) -> Ints:
        """Numbers of the parts of n structures drawn at random, (n, n_parts); zero if none is possible."""
        numbers, value = self._inside(scores, gamma)
        if value == -np.inf:
            return np.zeros((n, len(scores)), np.int64)
        return self._sample(numbers, n, gamma, rng)

    def n_best(self, scores: Floats, n: int) -> tuple[Floats, Ints]:
        """Scores (n,), decreasing, -inf where there are fewer, and numbers of the parts, (n, n_parts)."""
        return kernel.n_best(self.steps, scores, n)

    def polytope(self, scores: Parts) -> Polytope:
        """One unit of flow into the goal, a variable per step.

        Where no two items of a step can be made of the same words, as with spans, vertices are whole derivations
        [Martin1990].
        """
        steps = self.steps
        at, part = np.full(steps.n_places, -1), np.full(steps.n_places, -1)
        at[steps.place] = at[steps.copy] = np.arange(len(steps.place))
        part[steps.part_place] = steps.part
        filled = at >= 0
        filled[steps.part_place] = True
        item = np.repeat(np.arange(len(steps.place)), np.diff(steps.first))[rows_of(steps.count)]
        left, right = ranges_of(steps.left, steps.count), ranges_of(steps.right, steps.count)
        possible = filled[left] & filled[right]
        item, sides = item[possible], (left[possible], right[possible])
        n_steps = len(item)
        number = np.arange(n_steps)
        used = [(at[side][at[side] >= 0], number[at[side] >= 0]) for side in sides]
        equalities = _matrix([(item, number), *used], (len(steps.place), n_steps), [1.0, -1.0, -1.0])
        taken = [part[side] for side in (*sides, steps.factor[item])]
        part_scores = np.append(self.scores(scores), 0.0)
        objective = part_scores[taken[0]] + part_scores[taken[1]] + part_scores[taken[2]]
        right_hand_side = np.zeros(len(steps.place))
        right_hand_side[-1] = 1.0
        shapes = [(self.entries.stop - self.entries.start, self.unary - self.entries.start)]
        shapes += [(factor.size, cells) for cells, factor in zip(self.cells, scores.factors, strict=True)]
        unary, *factors = (
            _matrix([(cell[cell >= 0], number[cell >= 0]) for cell in cells], (size, n_steps), [1.0] * 3)
            for size, of_part in shapes
            for cells in [[np.append(of_part, -1)[parts] for parts in taken]]
        )
        return Polytope(
            equalities=equalities,
            right_hand_side=right_hand_side,
            objective=objective,
            unary_index=np.arange(self.entries.start, self.entries.stop),
            unary=unary,
            factors=tuple(factors),
        )

    def _inside(self, scores: Floats, gamma: float) -> tuple[Floats, float]:
        return kernel.inside(self.steps, scores, self.offsets, self.uses, gamma)

    def _sample(self, numbers: Floats, n: int, gamma: float, rng: np.random.Generator) -> Ints:
        return kernel.sample(gamma == 0.0, self.steps, numbers, rng, n, len(self.unary))


class Derived(Structure, Protocol):
    """A structure whose instances are put together step by step."""

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the structures of one instance.

        Parameters
        ----------
        instance : int
            From 0.

        Returns
        -------
        Derivations
        """
        ...


def smoothed_max(
    structure: Derived,
    scores: Parts,
    gamma: float,
    active: Bools | None,
    weights: Floats | None,
) -> tuple[Floats, Parts]:
    """Values and marginals of a batch, as `Structure.smoothed_max` returns them."""
    gamma, checked = as_gamma(gamma), check_inputs(structure, scores, active, weights)
    values, marginals = np.zeros(structure.n_instances), no_parts(structure)
    sum_up(structure, checked.active, Parts(checked.unary, checked.factors), gamma, checked.weights, values, marginals)
    return values, marginals


def sum_up(
    structure: Derived,
    active: Bools,
    scores: Parts,
    gamma: float,
    weights: Floats,
    values: Floats,
    marginals: Parts,
) -> None:
    """Fill values and add marginals of the active instances, of any length and with scores of any size, one by one."""
    for n in np.flatnonzero(active).tolist():
        derivations = structure.derivations(n)
        values[n], numbers = derivations.smoothed_max(derivations.scores(scores), gamma)
        derivations.add(numbers, marginals, weights[n])
        probabilities = marginals.unary[derivations.entries]
        np.minimum(probabilities, 1.0, out=probabilities)  # what rounding adds


def covariances(structure: Derived, scores: Parts, along: Parts, weights: Floats | None) -> tuple[Floats, Parts]:
    """Means and covariances of a batch, as `Differentiable.covariances` returns them."""
    scores, (along, weights) = check_scores(structure, scores), check_direction(structure, along, weights)
    means, products = np.zeros(structure.n_instances), no_parts(structure)
    covary(structure, np.ones(structure.n_instances, np.bool_), scores, along, weights, means, products)
    return means, products


def covary(
    structure: Derived, active: Bools, scores: Parts, along: Parts, weights: Floats, means: Floats, products: Parts
) -> None:
    """Fill means and add covariances of the active instances, one by one."""
    for n in np.flatnonzero(active).tolist():
        derivations = structure.derivations(n)
        means[n], numbers = derivations.covariances(derivations.scores(scores), derivations.scores(along))
        derivations.add(numbers, products, weights[n])


def _matrix(places: list[tuple[Ints, Ints]], shape: tuple[int, int], signs: list[float]) -> sp.csr_array:
    """A sparse matrix with one sign per list of rows and columns."""
    rows, columns = (np.concatenate(ends) for ends in zip(*places, strict=True))
    entries = np.repeat(signs, [len(row) for row, _ in places])
    return sp.csr_array((entries, (rows, columns)), shape=shape)
