"""Segmentations: sentences cut into segments that each have a state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_count, as_lengths, as_scores
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures import derivations as derive
from spectrem.structures._ragged import (
    check_instance,
    check_scores,
    no_parts,
    offsets_of,
    positions_of,
    ranges_of,
    rows_of,
)
from spectrem.structures.derivations import NO_STEPS, Derivations
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


@brief_dataclass(frozen=True, eq=False)
class Segmentations:
    """Sentences cut into segments of at most ``longest`` tokens, each with a state: semi-Markov chains.

    Every segment has a score of its own, and every two neighbouring segments the score of their states
    [SarawagiCohen2004]. Time grows with ``n_states * (longest + n_states)`` times the length of a sentence.

    Use when what is looked for has several tokens and is scored as a whole: names, chunks, phrases, morphemes.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Tokens of every sentence, >= 0. A sentence without tokens has one segmentation, the empty one, of value 0.
    n_states : int
        Number of states, >= 1.
    longest : int
        The most tokens of a segment, >= 1.

    Raises
    ------
    InvalidInputError
        If lengths are negative, or ``n_states`` or ``longest`` is below 1.

    Notes
    -----
    ``Parts.unary`` holds a part for every segment and state: by sentence, start, length and state; `scores_of` makes
    them from scores of tokens and of lengths. The one shared factor is a transition matrix, shape (n_states, n_states),
    [from, to], between neighbouring segments. Columns: ``sentence``, ``start``, ``end`` (the position behind the last
    token), ``length``, ``state``, ``occurrence`` (first token of the segment among those of the batch).

    How many segments a sentence has is not known beforehand, so that ``E.count(...)`` and shares such as ``"30%"`` have
    no whole and are refused: write ``E[part("state") == 1] <= 0.3 * E[...]``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Parts, Segmentations, n_best
    >>> cuts = Segmentations([3], n_states=1, longest=2)
    >>> cuts.columns["start"].tolist(), cuts.columns["length"].tolist()
    ([0, 0, 1, 1, 2], [1, 2, 1, 2, 1])
    >>> scores = Parts(np.log([1.0, 1.0, 1.0, 3.0, 1.0]), (np.zeros((1, 1)),))  # tokens 1 and 2 as one segment
    >>> values, marginals = cuts.smoothed_max(scores, gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), marginals.unary.round(12).tolist()
    (5.0, [0.8, 0.2, 0.2, 0.6, 0.4])
    >>> cuts.decode(scores).tolist()  # start of the segment and state of every token
    [[0, 0], [1, 0], [1, 0]]
    >>> np.exp(n_best(cuts, scores, 2)[0]).round(12).tolist()
    [[3.0, 1.0]]
    """

    label_columns: ClassVar[tuple[str, ...]] = ("state",)
    choices_vary: ClassVar[bool] = True

    lengths: Ints
    n_states: int
    longest: int

    def __init__(self, lengths: ArrayLike, n_states: int, longest: int) -> None:
        checked = as_lengths(lengths, "lengths"), as_count(n_states, "n_states", minimum=1)
        vars(self).update(lengths=checked[0], n_states=checked[1], longest=as_count(longest, "longest", minimum=1))

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
        """Number of segments of the batch, times that of states."""
        return int(self.offsets[-1])

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The transition matrix."""
        return ((self.n_states, self.n_states),)

    @property
    def instance_name(self) -> str:
        """The column that numbers the sentences."""
        return "sentence"

    @cached_property
    def token_offsets(self) -> Ints:
        """Boundaries of the sentences among the tokens, shape (n_instances + 1,)."""
        return offsets_of(self.lengths)

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries in ``Parts.unary`` of the segments that start at a token, shape (n_tokens + 1,)."""
        left = np.repeat(self.lengths, self.lengths) - positions_of(self.lengths)
        return offsets_of(np.minimum(left, self.longest) * self.n_states)

    @property
    def choice(self) -> Ints:
        """First token of every segment among those of the batch, shape (n_unary,); built anew at every call."""
        return rows_of(np.diff(self.offsets))

    @cached_property
    def instance(self) -> Ints:
        """Sentence of every part, shape (n_unary,)."""
        return rows_of(self.lengths)[self.choice]

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        first, place = self.choice, positions_of(np.diff(self.offsets))
        start, length = positions_of(self.lengths)[first], place // self.n_states + 1
        return {
            "sentence": self.instance,
            "start": start,
            "end": start + length,
            "length": length,
            "state": place % self.n_states,
            "occurrence": first,
        }

    def scores_of(self, tokens: ArrayLike, lengths: ArrayLike | None = None) -> Floats:
        """Scores of segments, shape (n_unary,): the sum of those of their tokens, and one for their length.

        Parameters
        ----------
        tokens : array-like of shape (n_tokens, n_states)
            Nats, -inf for impossible.
        lengths : array-like of shape (longest, n_states), optional
            Nats, of segments of 1, 2, ... tokens.

        Returns
        -------
        ndarray of shape (n_unary,)
            Nats.

        Examples
        --------
        >>> Segmentations([2], n_states=1, longest=2).scores_of([[1.0], [2.0]], [[0.0], [0.5]]).tolist()
        [1.0, 3.5, 2.0]
        """
        by_token = as_scores(tokens, "tokens", (self.n_tokens, self.n_states))
        by_length = np.zeros((self.longest, self.n_states))
        if lengths is not None:
            by_length = as_scores(lengths, "lengths", by_length.shape)
        columns, sums = self.columns, np.zeros(self.n_unary)
        for more in range(self.longest):
            there = columns["length"] > more
            sums[there] += by_token[columns["occurrence"][there] + more, columns["state"][there]]
        return sums + by_length[columns["length"] - 1, columns["state"]]

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and marginals with expected transitions; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest last state wins, and then the longest last segment.
        """
        return derive.smoothed_max(self, scores, gamma, active, weights)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`."""
        return derive.covariances(self, scores, along, weights)

    def decode(self, scores: Parts) -> Ints:
        """Start of the segment (position in the sentence) and state of every token, shape (n_tokens, 2).

        -1 throughout a sentence without any possible segmentation.
        """
        taken, columns = np.flatnonzero(self.smoothed_max(scores, 0.0)[1].unary), self.columns
        tokens = np.full((self.n_tokens, 2), -1)
        start, length, state = (columns[name][taken] for name in ("start", "length", "state"))
        covered = np.repeat(columns["occurrence"][taken], length) + positions_of(length)
        tokens[covered] = np.repeat(np.stack([start, state], axis=1), length, axis=0)
        return tokens

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Unit flow through (position, state) nodes: a variable per segment and per transition at a position."""
        return self.derivations(instance).polytope(check_scores(self, scores))

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the segmentations of one sentence, from left to right."""
        n, k = int(self.lengths[check_instance(self, instance)]), self.n_states
        own = slice(*self.offsets[self.token_offsets[instance : instance + 2]].tolist())
        unary = np.append(np.arange(own.start, own.stop), np.full(k * k, -1))
        cells = np.append(np.full(own.stop - own.start, -1), np.arange(k * k))
        groups = np.array([0, len(unary)]), np.zeros(1, np.int64)
        steps = derive.keep_steps(_steps, n, k, min(self.longest, n)) if n else NO_STEPS
        return Derivations(steps, unary, own, (cells,), *groups)

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every segmentation of one sentence as indicators over the batch, with its transitions.

        Parameters
        ----------
        instance : int
            From 0; a small one, as there may be very many structures.

        Yields
        ------
        Parts
            Indicators, 0 or 1.
        """
        n, first = int(self.lengths[check_instance(self, instance)]), int(self.token_offsets[instance])
        for cuts in itertools.product((False, True), repeat=max(n - 1, 0)):
            starts = np.flatnonzero([True, *cuts][:n])
            sizes = np.diff(starts, append=n)
            if (sizes > self.longest).any():
                continue
            for states in itertools.product(range(self.n_states), repeat=len(sizes)):
                indicator, place = no_parts(self), (sizes - 1) * self.n_states + np.array(states, np.int64)
                indicator.unary[self.offsets[first + starts] + place] = 1.0
                np.add.at(indicator.factors[0], (states[:-1], states[1:]), 1.0)
                yield indicator


def _steps(n: int, k: int, longest: int) -> Steps:
    """The steps of the segmentations of n > 0 tokens, whose parts are segments, then transitions.

    ``done[t, y]`` are the first t tokens where the last segment has the state y; ``begun[y, t]`` the same tokens before
    a segment of the state y.
    """
    sizes = np.minimum(np.arange(1, n + 1), longest)  # numbers of segments that end behind every token
    by_end, n_segments = offsets_of(sizes), int(sizes.sum())
    begun, done, goal, segments, moves, ones = derive.places_of(k * (n + 1), k * (n + 1), 1, k * n_segments, k * k, k)
    state, end = np.arange(k), rows_of(sizes) + 1
    start = ranges_of(np.arange(1, n + 1) - sizes, sizes)
    by_start = offsets_of(sizes[::-1] * k)
    part = by_start[start] + (end - start - 1) * k + state[:, None]

    def made(t: Ints, s: int) -> tuple[Any, ...]:
        left, right = begun + s * (n + 1) + t - sizes[t - 1], segments + s * n_segments + by_end[t - 1]
        return done + t * k + s, done + t * k + s, ONE, left, right, sizes[t - 1]

    t, last = np.arange(1, n), np.array([n])
    inner = [made(t, s) for s in range(k)]
    for s in range(k):
        place = begun + s * (n + 1) + t
        inner.append((place, place, ONE, done + t * k, moves + s * k, k))
    ends = np.concatenate([part.ravel(), by_start[-1] + (state * k + state[:, None]).ravel()])
    return derive.steps_of(
        inner,
        [made(last, s) for s in range(k)],
        [(goal + 0 * last, goal, ONE, done + n * k, ones, k)],
        parts=(np.concatenate([segments + np.arange(part.size), moves + np.arange(k * k)]), ends),
        ones=np.concatenate([begun + state * (n + 1), ones + state]),
    )
