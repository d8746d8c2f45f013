"""Bracketings: binary trees over the words of a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_gamma, as_lengths
from spectrem.kernels.brackets import best, gains, inside_outside
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures._polytopes import check_tree_program
from spectrem.structures._ragged import (
    Inputs,
    check_inputs,
    check_instance,
    check_scores,
    no_parts,
    offsets_of,
    positions_of,
)
from spectrem.structures.derivations import Derivations, keep_steps, places_of, spans_in_tiles, steps_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


@dataclass(frozen=True, eq=False)
class Bracketings:
    """Sentences with binary trees over their words: every span of words is a constituent of the tree, or it is not.

    A tree over n words has the n words, the whole sentence and n - 2 spans between as constituents, and every
    other span as a distituent. The sum pass is inside-outside, in time O(n^3).

    Use when the brackets of sentences are to be learned, or predicted, from scores of their spans: the
    constituent-context model of [KleinManning2002].

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Words of every sentence, >= 0.

    Raises
    ------
    InvalidInputError
        If lengths are negative.

    Notes
    -----
    ``Parts.unary`` holds two parts for every span of at least one word, constituent and distituent; spans stand by
    start, then by end. Single words and whole sentences are constituents of every tree: their scores as distituents are
    not used. A span with ``-inf`` as distituent is a constituent of every possible tree. Nothing is shared. Columns:
    ``sentence``, ``start``, ``end`` (the position behind the last word), ``span_length`` (words), ``constituent``
    (bool).

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Bracketings, Parts
    >>> trees = Bracketings([3])
    >>> trees.columns["start"][::2].tolist(), trees.columns["end"][::2].tolist()
    ([0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3])
    >>> scores = Parts(np.zeros(12))
    >>> scores.unary[2] = np.log(3.0)  # words 0 and 1 as a constituent
    >>> trees.smoothed_max(scores, gamma=1.0)[1].unary[[2, 8]].round(12).tolist()
    [0.75, 0.25]
    >>> trees.decode(scores).tolist()
    [[0, 2], [0, 3]]
    """

    lengths: NDArray[np.int64]

    def __init__(self, lengths: ArrayLike) -> None:
        vars(self).update(lengths=as_lengths(lengths, "lengths"))

    @property
    def n_instances(self) -> int:
        """Number of sentences of the batch."""
        return len(self.lengths)

    @property
    def n_spans(self) -> int:
        """Number of spans of the batch."""
        return int(self.span_offsets[-1])

    @property
    def n_unary(self) -> int:
        """Twice the number of spans of the batch."""
        return 2 * self.n_spans

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is shared."""
        return ()

    @cached_property
    def span_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences among the spans, shape (n_instances + 1,)."""
        return offsets_of(self.lengths * (self.lengths + 1) // 2)

    @cached_property
    def bracket_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences among the brackets that `decode` returns, shape (n_instances + 1,)."""
        return offsets_of(np.maximum(self.lengths - 1, 0))

    @property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and ends of all spans, each of shape (n_spans,); built anew at every call."""
        first = positions_of(self.lengths)
        n_ends = np.repeat(self.lengths, self.lengths) - first
        start = np.repeat(first, n_ends)
        return start, start + 1 + positions_of(n_ends)

    @property
    def instance_name(self) -> str:
        """The column that numbers the sentences."""
        return "sentence"

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Sentence of every unary part, shape (n_unary,)."""
        return np.repeat(np.arange(self.n_instances), 2 * np.diff(self.span_offsets))

    @property
    def choice(self) -> NDArray[np.int64]:
        """Span of every part among those of the batch, shape (n_unary,); built anew at every call."""
        return np.repeat(np.arange(self.n_spans), 2)

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        start, end = self.spans
        return {
            "sentence": self.instance,
            "start": np.repeat(start, 2),
            "end": np.repeat(end, 2),
            "span_length": np.repeat(end - start, 2),
            "constituent": np.tile([True, False], self.n_spans),
        }

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Values, shape (n_instances,) in nats, and posteriors of spans; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, every span of the tree is cut at its first place, from the whole sentence on.
        """
        gamma = as_gamma(gamma)
        given = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            return self._best(given)
        own, exponents, base, tops = self._gains(given, gamma)
        potentials = np.exp(exponents, out=exponents)
        several = (self.lengths > 2) & given.active & (base > -np.inf)
        status = several.astype(np.int8)
        order = np.flatnonzero(several & (self.lengths <= inside_outside.LONGEST))
        order = order[np.argsort(-self.lengths[order], kind="stable")]
        totals, shares = np.zeros(self.n_instances), np.zeros(self.n_spans)
        inside_outside.sum_pass(order, self.lengths, self.span_offsets, potentials, totals, shares, status)
        # What a tree of n - 2 spans was divided by.
        tops[~several] = 0.0
        totals = gamma * totals + np.maximum(self.lengths - 2, 0) * (tops - gamma * math.log(inside_outside.QUARTER))
        if status.any():
            for n in np.flatnonzero(status).tolist():
                derivations = self._derivations(n)
                spans = derivations.entries
                between = np.full(spans.stop - spans.start, -np.inf)
                inner = derivations.steps.part[derivations.steps.part >= 0]
                between[inner] = own[spans][inner]
                totals[n], shares[spans] = derivations.smoothed_max(between, gamma)
        values = np.where(several, base + totals, base)
        marginals = np.zeros(self.n_unary)
        possible = given.active & (values > -np.inf)
        gains.fill_parts(self.lengths, self.span_offsets, given.unary, possible, shares, marginals)
        return values, Parts(marginals)

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """Start and end of the constituents of two words and more of the best trees, shape (n_brackets, 2).

        A sentence of n words has n - 1 of them, ``bracket_offsets[i]:bracket_offsets[i + 1]``, by start and end; they
        are -1 throughout an impossible sentence.
        """
        values, marginals = self._best(check_inputs(self, scores))
        start, end = self.spans
        taken = (marginals.unary[::2] > 0.5) & (end - start > 1)
        found = np.full((int(self.bracket_offsets[-1]), 2), -1)
        found[np.repeat(values > -np.inf, np.diff(self.bracket_offsets))] = np.stack([start[taken], end[taken]], 1)
        return found

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Unit flow from the whole sentence down to the words: a variable per way to cut a span, and per distituent.

        Raises
        ------
        InvalidInputError
            If the sentence is too long: variables grow with the cube of its length.
        """
        i = check_instance(self, instance)
        checked = check_scores(self, scores)
        size, first = int(self.lengths[i]), int(self.span_offsets[i])
        n_cuts = (size**3 - size) // 6
        check_tree_program(size, n_cuts + max(size * (size + 1) // 2 - 1, size))  # and words, and distituents
        one = Bracketings([size])
        start, end = one.spans
        inner = np.flatnonzero((end - start > 1) & (end - start < size))
        parent, left, right = (
            (np.array(own, np.int64) for own in zip(*_cuts(size), strict=True))
            if size > 1
            else ([np.zeros(0, np.int64)] * 3)
        )
        always = np.flatnonzero(end - start == 1)
        n_spans, cut = one.n_spans, np.arange(n_cuts)
        apart, word = n_cuts + np.arange(len(inner)), n_cuts + len(inner) + np.arange(len(always))
        n_variables = n_cuts + len(inner) + len(always)
        # Cuts of a span less cuts that make it (1 for the whole sentence); cuts of a span, or none; words.
        is_inner = np.zeros(n_spans, np.bool_)
        is_inner[inner] = True
        whole = np.flatnonzero((end - start == size) & (end - start > 1))
        made = np.concatenate([left, right])
        flows = is_inner[made]
        row_of = np.full(n_spans, -1)
        row_of[inner] = np.arange(len(inner))
        row_of[whole] = len(inner)
        n_flows, n_inner = len(inner) + len(whole), len(inner)
        equalities = _matrix(
            [
                (row_of[parent], cut, 1.0),
                (row_of[made[flows]], np.tile(cut, 2)[flows], -1.0),
                (n_flows + row_of[parent[is_inner[parent]]], cut[is_inner[parent]], 1.0),
                (n_flows + np.arange(n_inner), apart, 1.0),
                (n_flows + n_inner + np.arange(len(always)), word, 1.0),
            ],
            (n_flows + n_inner + len(always), n_variables),
        )
        unary_of = np.concatenate([2 * parent, 2 * inner + 1, 2 * always])
        return Polytope(
            equalities=equalities,
            right_hand_side=np.concatenate([np.zeros(n_inner), np.ones(len(whole) + n_inner + len(always))]),
            objective=checked.unary[2 * first + unary_of],
            unary_index=np.arange(2 * first, 2 * int(self.span_offsets[i + 1])),
            unary=_matrix([(unary_of, np.arange(n_variables), 1.0)], (2 * n_spans, n_variables)),
            factors=(),
        )

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every binary tree of one sentence as indicators over the batch, those cut first at the first place first."""
        i = check_instance(self, instance)
        size, first = int(self.lengths[i]), 2 * int(self.span_offsets[i])
        for tree in _trees(0, size) if size else iter([[]]):
            indicator = no_parts(self)
            own = indicator.unary[first : 2 * int(self.span_offsets[i + 1])]
            own[1::2] = 1.0
            for start, end in tree:
                at = 2 * _place(size, start, end)
                own[at : at + 2] = 1.0, 0.0
            yield indicator

    def _derivations(self, instance: int) -> Derivations:
        """The derivations of the trees of a sentence of three words and more, whose parts are gains of its spans."""
        n = int(self.lengths[instance])
        spans = slice(int(self.span_offsets[instance]), int(self.span_offsets[instance + 1]))
        every = np.arange(spans.start, spans.stop)
        # single words and the whole sentence are parts of no step: all trees have n - 2 of the other spans
        return Derivations(keep_steps(_steps, n), every, spans, (), np.array([0, len(every)]), np.array([n - 2]))

    def _gains(self, given: Inputs, gamma: float) -> tuple[NDArray[np.float64], ...]:
        """Gains of all spans, over gamma and less the largest, scores of no constituent and largest gains."""
        own, exponents = np.zeros(self.n_spans), np.full(self.n_spans, -np.inf)
        base, tops = np.zeros(self.n_instances), np.zeros(self.n_instances)
        gains.find_gains(self.lengths, self.span_offsets, given.unary, gamma, given.active, own, exponents, base, tops)
        return own, exponents, base, tops

    def _best(self, given: Inputs) -> tuple[NDArray[np.float64], Parts]:
        own, _, values, _ = self._gains(given, 1.0)
        possible, marginals = given.active & (values > -np.inf), np.zeros(self.n_unary)
        best.max_pass(self.lengths, self.span_offsets, given.unary, own, possible, values, marginals)
        return values, Parts(marginals)


def _steps(n: int) -> Steps:
    """The steps of binary trees over n > 1 words: every span joins two that meet."""
    spans, by_end, parts = places_of((n + 1) ** 2, (n + 1) ** 2, n * (n + 1) // 2)
    start, end = spans_in_tiles(n, n + 1)
    start, end = start[end - start > 1], end[end - start > 1]
    at, width = (n + 1) * start + end, end - start
    part = start * n - start * (start - 1) // 2 + width - 1
    left, right = spans + (n + 2) * start + 1, by_end + (n + 1) * end + start + 1
    factor = np.where(width < n, parts + part, ONE)
    runs = (spans + at, by_end + (n + 1) * end + start, factor, left, right, width - 1)
    word, inner = np.arange(n), part[width < n]
    ones = np.append(spans + (n + 1) * word + word + 1, by_end + (n + 1) * (word + 1) + word)
    return steps_of([runs], parts=(parts + inner, inner), ones=ones)


def _place(size: int, start: int, end: int) -> int:
    """The number of a span among those of a sentence."""
    return start * size - start * (start - 1) // 2 + end - start - 1


def _trees(start: int, end: int) -> Iterator[list[tuple[int, int]]]:
    """The constituents of every binary tree over some words."""
    if end - start == 1:
        yield [(start, end)]
    for cut in range(start + 1, end):
        for left in _trees(start, cut):
            for right in _trees(cut, end):
                yield [(start, end), *left, *right]


def _cuts(size: int) -> Iterator[tuple[int, int, int]]:
    """The numbers of a span and of its two parts, for every way to cut it."""
    for start in range(size):
        for end in range(start + 2, size + 1):
            for cut in range(start + 1, end):
                yield _place(size, start, end), _place(size, start, cut), _place(size, cut, end)


def _matrix(entries: list[tuple[NDArray[np.int64], NDArray[np.int64], float]], shape: tuple[int, int]) -> sp.csr_array:
    rows, columns = (np.concatenate([own[k] for own in entries]) for k in (0, 1))
    values = np.concatenate([np.full(len(row), value) for row, _, value in entries])
    return sp.csr_array((values, (rows, columns)), shape=shape)
