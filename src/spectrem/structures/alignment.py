"""Alignments: every target position picks a source position or NULL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool, as_count, as_gamma, as_lengths
from spectrem.exceptions import InvalidInputError
from spectrem.kernels import categorical as independent
from spectrem.kernels.alignments import alignment as kernel
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures._polytopes import simplex_polytope
from spectrem.structures._ragged import (
    Inputs,
    check_direction,
    check_inputs,
    check_instance,
    check_scores,
    covariances_of_choices,
    indicators,
    no_parts,
    offsets_of,
    positions_of,
    reduced,
    rows_of,
)
from spectrem.structures.derivations import (
    NO_STEPS,
    Derivations,
    covariances,
    covary,
    keep_steps,
    places_of,
    steps_of,
    sum_up,
)
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope

NULL = -1
"""The source position of a target word that is linked to nothing."""


@brief_dataclass(frozen=True, eq=False)
class Alignment:
    """Sentence pairs whose target positions each link to one source position or to NULL.

    With ``max_jump=None`` the positions are independent: IBM Models 1 and 2 [Brown1993]. Otherwise they form a
    chain [Vogel1996]: a link from the last source position p (-1 at the start; NULL keeps it, [OchNey2003]) to i
    scores ``unary[j, i] + jump[clip(i - p, -W, W) + W] + departure[I, p + 1]``, a NULL link ``unary[j, I]``
    only, and the last p of a pair that has target words ``end[min(I - 1 - p, W)]``. Models put minus the
    log-normaliser of the jumps from p in a source of I words in ``departure``, which keeps scores linear in the
    factors.

    Use when one side of a pair explains the other word by word: word alignment.

    Parameters
    ----------
    source_lengths, target_lengths : array-like of shape (n_instances,), int
        Words of each pair, I and J, >= 0. A pair with I = 0 can link to NULL only.
    max_jump : int, optional
        W >= 1, the widest jump with a score of its own. Default: independent positions.
    reverse : bool, default False
        Name the columns the other way round: the positions that choose are source words, so that the two
        directions of a pair name the same link alike.

    Raises
    ------
    InvalidInputError
        If lengths are negative or their numbers differ, or if ``max_jump`` < 1.

    Notes
    -----
    ``Parts.unary`` holds one block of shape (J, I + 1) per pair, row-major, NULL in its last column. With
    ``max_jump=W`` the shared factors are ``jump``, shape (2 W + 1,), ``departure``, shape
    (max I + 1, max I + 1), and ``end``, shape (W + 1,). Columns: ``sentence``, ``source`` (NULL is -1), ``target``,
    ``state`` (the position chosen, whichever side it is on; NULL is -1) and ``direction``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Alignment, Parts
    >>> pairs = Alignment([2], [2])
    >>> scores = Parts(np.log([0.7, 0.2, 0.1, 0.3, 0.3, 0.4]))
    >>> pairs.smoothed_max(scores, gamma=1.0)[1].unary.round(12).tolist()
    [0.7, 0.2, 0.1, 0.3, 0.3, 0.4]
    >>> pairs.decode(scores).tolist()
    [0, -1]
    """

    source_lengths: Ints
    target_lengths: Ints
    max_jump: int | None
    reverse: bool

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        max_jump: int | None = None,
        reverse: bool = False,
    ) -> None:
        vars(self).update(
            source_lengths=as_lengths(source_lengths, "source_lengths"),
            target_lengths=as_lengths(target_lengths, "target_lengths"),
            max_jump=None if max_jump is None else as_count(max_jump, "max_jump", minimum=1),
            reverse=as_bool(reverse, "reverse"),
        )
        if len(self.source_lengths) != len(self.target_lengths):
            raise InvalidInputError(
                f"source_lengths and target_lengths must have one entry per pair; got {len(self.source_lengths)} and "
                f"{len(self.target_lengths)}; give an empty side length 0"
            )

    @property
    def n_instances(self) -> int:
        """Number of sentence pairs of the batch."""
        return len(self.source_lengths)

    @property
    def n_positions(self) -> int:
        """Number of target positions of the batch."""
        return int(self.target_offsets[-1])

    @property
    def n_unary(self) -> int:
        """Number of possible links of the batch, NULL links included."""
        return int(self.offsets[-1])

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """``jump``, ``departure`` and ``end``, or nothing for independent positions."""
        if self.max_jump is None:
            return ()
        longest = int(self.source_lengths.max(initial=0))
        return ((2 * self.max_jump + 1,), (longest + 1, longest + 1), (self.max_jump + 1,))

    @cached_property
    def target_offsets(self) -> Ints:
        """Boundaries of the pairs among the target positions, shape (n_instances + 1,)."""
        return offsets_of(self.target_lengths)

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the pairs in ``Parts.unary``, shape (n_instances + 1,)."""
        return offsets_of(self.target_lengths * (self.source_lengths + 1))

    @cached_property
    def position_offsets(self) -> Ints:
        """Boundaries of the target positions in ``Parts.unary``, shape (n_positions + 1,)."""
        return offsets_of(np.repeat(self.source_lengths + 1, self.target_lengths))

    @property
    def instance_name(self) -> str:
        """The column that numbers the pairs."""
        return "sentence"

    @cached_property
    def instance(self) -> Ints:
        """Sentence pair of every unary part, shape (n_unary,)."""
        return rows_of(np.diff(self.offsets))

    @property
    def choice(self) -> Ints:
        """Target position of every link among those of the batch, shape (n_unary,); built anew at every call."""
        return rows_of(np.diff(self.position_offsets))

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """Sentence, source, target, state and direction of every link, shape (n_unary,); built anew at every call."""
        widths = np.diff(self.position_offsets)
        choice = positions_of(widths)
        choice[self.position_offsets[1:] - 1] = NULL
        chooser = np.repeat(positions_of(self.target_lengths), widths)
        source, target = (chooser, choice) if self.reverse else (choice, chooser)
        direction = np.broadcast_to(np.array("backward" if self.reverse else "forward"), choice.shape)
        return {
            "sentence": self.instance,
            "source": source,
            "target": target,
            "state": choice,
            "direction": direction,
        }

    @property
    def column_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of text columns."""
        return {"direction": ("forward", "backward")}

    def missing(self, name: str) -> Bools | None:
        """Where the column is the side that is chosen from, a mask of the NULL links, shape (n_unary,); else None.

        A NULL link belongs to no group of that side, but its value there is NULL, with which constraints can compare.

        Parameters
        ----------
        name : str
            Of a column.

        Returns
        -------
        ndarray of shape (n_unary,), bool, or None
        """
        if name not in ("state", "target" if self.reverse else "source"):
            return None
        null = np.zeros(self.n_unary, np.bool_)
        null[self.position_offsets[1:] - 1] = True
        return null

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and link posteriors with jump counts; see `Structure.smoothed_max`."""
        gamma = as_gamma(gamma)
        inputs = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            values, choices, counts = self._best(inputs)
            return values, Parts(indicators(choices, self.position_offsets), counts)
        values, marginals = np.zeros(self.n_instances), np.zeros(self.n_unary)
        if self.max_jump is None:
            independent.sum_pass(
                self.target_offsets, self.position_offsets, inputs.unary, gamma, inputs.active, values, marginals
            )
            return values, Parts(marginals)
        counts, status = self._no_counts(), np.zeros(self.n_instances, np.bool_)
        results = values, marginals, counts, status
        kernel.sum_pass(self._layout(inputs), None, gamma, inputs.active, inputs.weights, *results)
        if status.any():
            marginals[status[self.instance]] = 0.0
            scores = Parts(inputs.unary, inputs.factors)
            sum_up(self, status, scores, gamma, inputs.weights, values, Parts(marginals, tuple(counts)))
        return values, Parts(marginals, tuple(counts))

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Notes
        -----
        With jumps, the pass that finds posteriors finds their derivatives, too, by the complex step of
        [SquireTrapp1998], in twice its time. Pairs that it does not take, since scores are extreme, take some thirty
        times as long; so do all where the largest number of the direction is above 1e40 or below 1e-40.
        """
        scores, (along, weights) = check_scores(self, scores), check_direction(self, along, weights)
        if self.max_jump is None:
            marginals, offsets = self.smoothed_max(scores, 1.0)[1].unary, self.position_offsets
            means, products = covariances_of_choices(marginals, along.unary, offsets)
            return reduced(np.add, means, self.target_offsets), Parts(products)
        longest = max(np.abs(numbers).max(initial=0.0) for numbers in (along.unary, *along.factors))
        if not 1.0 / kernel.LONG <= longest <= kernel.LONG:
            return covariances(self, scores, along, weights)
        values, marginals = np.zeros(self.n_instances, np.complex128), np.zeros(self.n_unary, np.complex128)
        counts, status = self._no_counts(np.complex128), np.zeros(self.n_instances, np.bool_)
        layouts, every = (self._layout(scores), self._layout(along)), np.ones(self.n_instances, np.bool_)
        kernel.sum_pass(*layouts, 1.0, every, weights, values, marginals, counts, status)
        if status.any():
            marginals[status[self.instance]] = 0.0
        means, unary, *factors = (numbers.imag / kernel.STEP for numbers in (values, marginals, *counts))
        covary(self, status, scores, along, weights, means, Parts(unary, tuple(factors)))
        return means, Parts(unary, tuple(factors))

    def decode(self, scores: Parts) -> Ints:
        """Best source position (or NULL) of every target position, shape (n_positions,).

        NULL throughout a pair without any possible alignment, whose value is ``-inf``.
        """
        _, choices, _ = self._best(check_inputs(self, scores))
        is_null = choices == np.repeat(self.source_lengths, self.target_lengths)
        return np.where(is_null | (choices < 0), NULL, choices)

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """A simplex per position, or unit flow through (position, last source position) nodes when there are jumps."""
        n, checked = check_instance(self, instance), check_scores(self, scores)
        if self.max_jump is None:
            sizes = np.full(self.target_lengths[n], self.source_lengths[n] + 1)
            return simplex_polytope(checked.unary, int(self.offsets[n]), sizes)
        return self.derivations(n).polytope(checked)

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the alignments of one pair, target position by target position."""
        n = check_instance(self, instance)
        n_source, n_target = int(self.source_lengths[n]), int(self.target_lengths[n])
        block = slice(int(self.offsets[n]), int(self.offsets[n + 1]))
        steps = keep_steps(_steps, n_source, n_target, self.max_jump) if n_target else NO_STEPS
        offsets = np.arange(n_target + 1) * (n_source + 1)
        entries, uses = np.arange(block.start, block.stop), np.ones(n_target, np.int64)
        if self.max_jump is None:
            return Derivations(steps, entries, block, (), offsets, uses)
        (n_jumps,), (_, n_columns), (n_ends,) = self.factor_shapes
        tables = [np.arange(n_jumps), n_source * n_columns + np.arange(n_source + 1), np.arange(n_ends)]
        blocks = [len(entries), *map(len, tables)]
        factor = rows_of(np.array(blocks)) - 1
        cell = np.concatenate([np.full(len(entries), -1), *tables])
        entries = np.append(entries, np.full(len(factor) - len(entries), -1))
        cells = tuple(np.where(factor == k, cell, -1) for k in range(3))
        ends = offsets_of(np.array(blocks))
        return Derivations(
            steps, entries, block, cells, np.append(offsets, ends[2:]), np.append(uses, [0, 0, min(n_target, 1)])
        )

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every alignment of one pair as indicators over the batch, with its jumps; NULL comes last.

        Parameters
        ----------
        instance : int
            From 0; a small one, as there may be very many structures.

        Yields
        ------
        Parts
            Indicators, 0 or 1.
        """
        n = check_instance(self, instance)
        n_source, n_target = int(self.source_lengths[n]), int(self.target_lengths[n])
        start, width = int(self.offsets[n]), self.max_jump
        for links in itertools.product(range(n_source + 1), repeat=n_target):
            indicator, last = no_parts(self), -1
            for j, i in enumerate(links):
                indicator.unary[start + j * (n_source + 1) + i] = 1.0
                if i < n_source and width is not None:
                    jump, departure, _ = indicator.factors
                    jump[min(max(i - last, -width), width) + width] += 1.0
                    departure[n_source, last + 1] += 1.0
                    last = i
            if n_target > 0 and width is not None:
                indicator.factors[2][min(n_source - 1 - last, width)] += 1.0
            yield indicator

    def _layout(self, parts: Inputs | Parts) -> kernel.Scores:
        return kernel.Scores(self.source_lengths, self.target_lengths, self.offsets, parts.unary, *parts.factors)

    def _no_counts(self, kind: type = np.float64) -> kernel.Expected:
        return kernel.Expected(*(np.zeros(shape, kind) for shape in self.factor_shapes))

    def _best(self, inputs: Inputs) -> tuple[Floats, Ints, tuple[Floats, ...]]:
        """Values, the label of every target position (I is NULL, negative if undecided) and counts."""
        values, choices, active = np.zeros(self.n_instances), np.full(self.n_positions, -1), inputs.active
        if self.max_jump is None:
            independent.max_pass(self.target_offsets, self.position_offsets, inputs.unary, active, values, choices)
            return values, choices, ()
        counts = self._no_counts()
        kernel.max_pass(self._layout(inputs), active, inputs.weights, values, choices, counts)
        return values, choices, tuple(counts)


def _steps(n_source: int, n_target: int, max_jump: int | None) -> Steps:
    """The steps of the alignments of I source and J > 0 target positions: links, then jumps, departures and ends.

    ``at[j, p]`` are the first j target positions where the last source position before p is linked last, p = 0 for
    none; ``leaving[j, p]`` the same on the way to another one, ``linked[j, i]`` with j linked to i.
    """
    wide, every = n_source + 1, np.arange((n_source + 1) * n_target)
    if max_jump is None:
        joined, any_link, links, ones = places_of(n_target, n_target, len(every), wide)
        j = np.arange(n_target)
        return steps_of(
            [
                (any_link + j, any_link + j, ONE, links + j * wide, ones, wide),
                (joined + j, joined + j, ONE, any_link + j, np.where(j > 0, joined + j - 1, ONE), 1),
            ],
            parts=(links + every, every),
            ones=ones + np.arange(wide),
        )
    at, leaving, linked, goal, links, jumps, depart, ends = places_of(
        len(every) + wide, len(every), n_source * n_target, 1, len(every), 2 * n_source, wide, wide
    )
    j, p, i = np.arange(n_target)[:, None], np.arange(wide), np.arange(n_source)
    here, link = at + j * wide, links + j * wide
    to_i, null = linked + j * n_source + i, link + n_source
    runs: list[
        tuple[Any, ...]
    ] = [  # of one target position after the other: items, factors, what is on the left and on the right, steps
        (leaving + j * wide + p, ONE, here + p, depart + p, 1),
        (to_i, link + i, leaving + j * wide, jumps + n_source - 1 - i, wide),
        (here + wide, null, here, ONE, 1),
        (
            np.repeat(here + wide + 1 + i, 2, axis=1),
            ONE,
            np.stack([here + 1 + i, to_i], axis=2).reshape(n_target, -1),
            np.tile(np.stack([null, np.full_like(null, ONE)], axis=2)[:, 0], n_source),
            1,
        ),
    ]
    columns = zip(*(np.broadcast_arrays(*run) for run in runs), strict=True)
    item, factor, left, right, count = (np.concatenate(column, axis=1).ravel() for column in columns)
    jumped = np.clip(n_source - np.arange(2 * n_source), -max_jump, max_jump) + max_jump
    n_jumps, remaining = 2 * max_jump + 1, np.minimum(n_source - p, max_jump)
    return steps_of(
        [(item, item, factor, left, right, count)],
        [(np.array([goal]), goal, ONE, at + n_target * wide, ends, wide)],
        parts=(
            np.concatenate([links + every, jumps + np.arange(2 * n_source), depart + p, ends + p]),
            np.concatenate([every, len(every) + np.concatenate([jumped, n_jumps + p, n_jumps + wide + remaining])]),
        ),
        ones=np.array([at]),
    )
