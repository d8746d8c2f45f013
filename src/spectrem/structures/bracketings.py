"""Bracketings: binary trees over the words of a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_gamma, as_lengths
from spectrem.kernels import brackets
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures._polytopes import check_tree_program
from spectrem.structures._ragged import (
    Inputs,
    check_direction,
    check_inputs,
    check_instance,
    check_scores,
    moderate,
    no_parts,
    offsets_of,
    positions_of,
    reduced,
)
from spectrem.structures.derivations import NO_STEPS, Derivations, keep_steps, places_of, spans_in_tiles, steps_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


@brief_dataclass(frozen=True, eq=False)
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

    lengths: Ints

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
    def span_offsets(self) -> Ints:
        """Boundaries of the sentences among the spans, shape (n_instances + 1,)."""
        return offsets_of(self.lengths * (self.lengths + 1) // 2)

    @cached_property
    def bracket_offsets(self) -> Ints:
        """Boundaries of the sentences among the brackets that `decode` returns, shape (n_instances + 1,)."""
        return offsets_of(np.maximum(self.lengths - 1, 0))

    @property
    def spans(self) -> tuple[Ints, Ints]:
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
    def instance(self) -> Ints:
        """Sentence of every unary part, shape (n_unary,)."""
        return np.repeat(np.arange(self.n_instances), 2 * np.diff(self.span_offsets))

    @property
    def choice(self) -> Ints:
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
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and posteriors of spans; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, every span of the tree is cut at its first place, from the whole sentence on.
        """
        gamma = as_gamma(gamma)
        inputs = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            return self._best(inputs)
        values, marginals, _ = self._sum_up(inputs, gamma)
        return values, Parts(marginals)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Notes
        -----
        The pass that finds posteriors carries the derivatives of all its numbers along the direction, as that of
        `ProjectiveTrees` does.
        """
        along, _ = check_direction(self, along, weights)
        bounds = 2 * self.span_offsets
        direction, powers = moderate(along.unary, bounds)
        _, marginals, (slopes,) = self._sum_up(check_inputs(self, scores), 1.0, direction)
        slopes[(marginals[::2] == 0.0) | (marginals[1::2] == 0.0)] = 0.0
        products = np.stack([slopes, -slopes], axis=1).ravel()
        if powers is not None:
            np.ldexp(products, powers, out=products)
        return reduced(np.add, marginals * along.unary, bounds), Parts(products)

    def decode(self, scores: Parts) -> Ints:
        """Start and end of the constituents of two words and more of the best trees, shape (n_brackets, 2).

        A sentence of n words has n - 1 of them, ``bracket_offsets[i]:bracket_offsets[i + 1]``, by start and end; they
        are -1 throughout an impossible sentence.
        """
        values, marginals = self._best(check_inputs(self, scores))
        start, end = self.spans
        taken = (marginals.unary[::2] > 0.5) & (end - start > 1)
        decoded = np.full((int(self.bracket_offsets[-1]), 2), -1)
        decoded[np.repeat(values > -np.inf, np.diff(self.bracket_offsets))] = np.stack([start[taken], end[taken]], 1)
        return decoded

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Unit flow from the whole sentence down to the words: a variable per way to cut a span, and per distituent.

        Raises
        ------
        InvalidInputError
            If the sentence is too long: variables grow with the cube of its length.
        """
        size = int(self.lengths[check_instance(self, instance)])
        check_tree_program(size, (size**3 - size) // 6 + max(size * (size + 1) // 2 - 1, 1))
        checked = check_scores(self, scores)
        trees = self.derivations(instance).polytope(checked)
        start, end = Bracketings([size]).spans
        inner = 2 * np.flatnonzero((end - start > 1) & (end - start < size))
        # one variable more for every span that may be a distituent: either this is 1, or the span is cut
        n_trees, n_inner = len(trees.objective), len(inner)
        apart = sp.eye_array(n_inner, n_trees + n_inner, k=n_trees, format="csr")
        wider = sp.eye_array(n_trees, n_trees + n_inner, format="csr")
        unary = sp.csr_array(trees.unary @ wider)
        as_apart = sp.csr_array((np.ones(n_inner), (inner + 1, np.arange(n_inner))), shape=(unary.shape[0], n_inner))
        return Polytope(
            equalities=sp.csr_array(sp.vstack([trees.equalities @ wider, unary[inner] + apart])),
            right_hand_side=np.append(trees.right_hand_side, np.ones(n_inner)),
            objective=np.append(trees.objective, checked.unary[trees.unary_index[inner + 1]]),
            unary_index=trees.unary_index,
            unary=unary + as_apart @ apart,
            factors=(),
        )

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every binary tree of one sentence as indicators over the batch, those cut first at the first place first.

        Parameters
        ----------
        instance : int
            From 0; a small one, as there may be very many structures.

        Yields
        ------
        Parts
            Indicators, 0 or 1.
        """
        i = check_instance(self, instance)
        size, first = int(self.lengths[i]), 2 * int(self.span_offsets[i])
        for tree in _trees(0, size) if size else iter([[]]):
            indicator = no_parts(self)
            parts = indicator.unary[first : 2 * int(self.span_offsets[i + 1])]
            parts[1::2] = 1.0
            for start, end in tree:
                at = 2 * _place(size, start, end)
                parts[at : at + 2] = 1.0, 0.0
            yield indicator

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the trees of one sentence, whose parts are spans as constituents."""
        n = int(self.lengths[check_instance(self, instance)])
        first = 2 * int(self.span_offsets[instance])
        spans, steps = (first + 2 * _by_need(n), keep_steps(_steps, n)) if n else (np.zeros(0, np.int64), NO_STEPS)
        inner = max(n - 2, 0)  # of which a tree has so many
        offsets = np.array([0, (n * n - n) // 2 - 1 if n > 1 else 0, len(spans)])
        groups = offsets, np.array([inner, len(spans) - int(offsets[1])])
        return Derivations(steps, spans, slice(first, first + 2 * len(spans)), (), *groups, apart=spans + 1)

    def part_scores(self, scores: Parts, instance: int) -> tuple[Floats, float]:
        """Gains of the spans of a sentence over distituents, and what every tree scores besides.

        Parameters
        ----------
        scores : Parts
            Nats.
        instance : int
            From 0.

        Returns
        -------
        gains : ndarray of float64
            Nats, in the order of the parts of `derivations`.
        rest : float
            Nats.
        """
        one = Bracketings(self.lengths[instance : instance + 1])
        entries = slice(*(2 * self.span_offsets[instance : instance + 2]).tolist())
        gains, _, base, _ = one._gains(check_inputs(one, Parts(scores.unary[entries])), 1.0)
        if base[0] == -np.inf:
            gains[:] = -np.inf
        return gains[one.derivations(0).unary // 2], float(base[0])

    def _gains(self, inputs: Inputs, gamma: float) -> tuple[Floats, ...]:
        """Gains of all spans, over gamma and less the largest, scores of no constituent and largest gains."""
        gains, exponents = np.zeros(self.n_spans), np.full(self.n_spans, -np.inf)
        base, tops = np.zeros(self.n_instances), np.zeros(self.n_instances)
        brackets.find_gains(
            self.lengths, self.span_offsets, inputs.unary, gamma, inputs.active, gains, exponents, base, tops
        )
        return gains, exponents, base, tops

    def _sum_up(self, inputs: Inputs, gamma: float, *along: Floats) -> tuple[Floats, Floats, list[Floats]]:
        """Values, posteriors of parts and, with a direction at gamma 1, slopes of those of spans; gamma > 0."""
        gains, exponents, base, tops = self._gains(inputs, gamma)
        sums = [np.exp(exponents, out=exponents)]  # potentials, whose place shares take
        # what no tree can do without makes no difference
        steps = [np.where(inputs.unary[1::2] > -np.inf, one[::2] - one[1::2], 0.0) for one in along]
        sums += [step * sums[0] for step in steps]
        several = (self.lengths > 2) & inputs.active & (base > -np.inf)
        status, totals = several.astype(np.int8), np.zeros(self.n_instances)
        order = np.flatnonzero(several & (self.lengths <= brackets.LONGEST))
        order = order[np.argsort(-self.lengths[order], kind="stable")]
        brackets.sum_pass(order, self.lengths, self.span_offsets, tuple(sums), totals, status)
        # What a tree of n - 2 spans was divided by.
        tops[~several] = 0.0
        totals = gamma * totals + np.maximum(self.lengths - 2, 0) * (tops - gamma * math.log(brackets.QUARTER))
        for n in np.flatnonzero(status).tolist():
            derivations = self.derivations(n)
            spans = derivations.unary // 2
            totals[n], sums[0][spans] = derivations.smoothed_max(gains[spans], gamma)
            for step, slopes in zip(steps, sums[1:], strict=True):
                slopes[spans] = derivations.covariances(gains[spans], step[spans])[1]
        values = np.where(several, base + totals, base)
        marginals = np.zeros(self.n_unary)
        possible = inputs.active & (values > -np.inf)
        brackets.fill_parts(self.lengths, self.span_offsets, inputs.unary, possible, sums[0], marginals)
        return values, marginals, sums[1:]

    def _best(self, inputs: Inputs) -> tuple[Floats, Parts]:
        gains, _, values, _ = self._gains(inputs, 1.0)
        possible, marginals = inputs.active & (values > -np.inf), np.zeros(self.n_unary)
        brackets.max_pass(self.lengths, self.span_offsets, inputs.unary, gains, possible, values, marginals)
        return values, Parts(marginals)


def _steps(n: int) -> Steps:
    """The steps of binary trees over n > 0 words, whose parts are spans: every span joins two that meet, or is a word.

    Spans have two places, by start and by end.
    """
    spans, by_end, parts = places_of((n + 1) ** 2, (n + 1) ** 2, n * (n + 1) // 2)
    start, end = spans_in_tiles(n, n + 1)
    at, back, width = spans + (n + 1) * start + end, by_end + (n + 1) * end + start, end - start
    every, order = np.arange(n * (n + 1) // 2), _by_need(n)
    part = np.empty_like(every)
    part[order] = every
    part, word = part[start * n - start * (start - 1) // 2 + width - 1], width == 1
    left = np.where(word, ONE, spans + (n + 2) * start + 1)
    right = np.where(word, ONE, by_end + (n + 1) * end + start + 1)
    runs = [(at, back, parts + part, left, right, np.maximum(width - 1, 1))]
    return steps_of(runs, parts=(parts + every, every))


@lru_cache(64)
def _by_need(n: int) -> Ints:
    """The spans of n words, those behind the others that all trees have: words and the whole sentence."""
    start, end = Bracketings([n]).spans
    return np.argsort((end - start == 1) | (end - start == n), kind="stable")


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
