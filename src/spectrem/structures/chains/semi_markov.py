"""Chains whose states last for segments of tokens, with scores of their durations: hidden semi-Markov models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_count, as_gamma
from spectrem.kernels.chains import semi_markov as kernel
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures import derivations as derive
from spectrem.structures._ragged import Inputs, check_inputs, indicators, no_parts
from spectrem.structures.chains._tokens import TokenStructure
from spectrem.structures.derivations import NO_STEPS, Derivations
from spectrem.structures.parts import Parts


@brief_dataclass(frozen=True, eq=False, init=False)
class SemiMarkovChain(TokenStructure):
    """Sentences cut into segments of one state each, with scores on tokens, on neighbouring segments and on durations.

    The parts are those of a `Chain`, so that constraints see the states of tokens; how long a state lasts is scored by
    a table [Yu2010]. Sums and maxima take time O(n_tokens n_states (n_states + longest)) and memory
    O(n_tokens n_states).

    Use when states last: activities, weather, phases of a machine, whose durations are not geometric as those of a
    `Chain` are. `Segmentations` scores each segment by a number of its own.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Tokens of every sentence, >= 0.
    n_states : int
        Number of states, >= 1.
    longest : int
        The most tokens of a segment, >= 1, at the ends of a sentence, too: a longer sentence has several segments.
    instance_name, label_name : str
        What the columns of the sentences and of the states are called.

    Raises
    ------
    InvalidInputError
        If lengths are negative, or ``n_states`` or ``longest`` is below 1.

    Notes
    -----
    ``Parts.unary`` holds, token after token, one entry per state; -inf forbids a state. There are two shared factors.
    The transition matrix, shape (n_states, n_states), indexed [from, to], scores neighbouring segments; -inf on its
    diagonal keeps segments of one state apart, so that they are the runs of its tokens. The table of durations, shape
    (2, 2, longest, n_states), is indexed [first, last, duration - 1, state]: whether the segment is the first one of
    its sentence, whether it is the last one, how many tokens it has, and its state. Where sentences begin and end with
    whole segments, the four tables are the same, log p(d). Where a segment may go on behind the last token, ``[:, 1]``
    is the logarithm of the probability of so many tokens or more; where it may have begun before the first token,
    ``[1]`` is that of what is left of it; ``spectrem.durations`` makes such tables. Marginals of the table are
    the expected numbers of segments of each kind.

    Columns: ``sentence``, ``token`` (position in the sentence), ``occurrence`` (token of the batch), ``tag`` (state).

    Examples
    --------
    Two states that last for two tokens, but for the last segment, which may be cut off:

    >>> import numpy as np
    >>> from spectrem.structures import Parts, SemiMarkovChain
    >>> chain = SemiMarkovChain([5], n_states=2, longest=2)
    >>> turns = np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    >>> durations = np.zeros((2, 2, 2, 2))
    >>> durations[:, 0, 0] = -np.inf
    >>> scores = Parts(np.log([0.9, 0.1] * 5), (turns, durations))
    >>> chain.decode(scores).tolist()
    [0, 0, 1, 1, 0]
    >>> values, marginals = chain.smoothed_max(scores, gamma=1.0)
    >>> marginals.unary[::2].round(12).tolist(), marginals.factors[1][0, 1, 0].round(12).tolist()
    ([0.9, 0.9, 0.1, 0.1, 0.9], [0.9, 0.1])
    """

    longest: int = 1

    def __init__(
        self,
        lengths: ArrayLike,
        n_states: int,
        longest: int,
        instance_name: str = "sentence",
        label_name: str = "tag",
    ) -> None:
        super().__init__(lengths, n_states, None, instance_name, label_name)
        vars(self)["longest"] = as_count(longest, "longest", minimum=1)

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The transition matrix and the table of durations."""
        return (self.n_states, self.n_states), (2, 2, self.longest, self.n_states)

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and marginals with expected factors; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest last state wins, then the longest last segment, then the lowest state
        before it, and so on.
        """
        gamma = as_gamma(gamma)
        inputs = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            values, states, factors = self._viterbi(inputs)
            return values, Parts(indicators(states, self.offsets), factors)
        unary, shared = self._tables(inputs)
        values, marginals, counts = np.zeros(self.n_instances), np.zeros_like(unary), np.zeros_like(shared)
        given = inputs.active, unary, shared, self.longest
        kernel.sum_pass(self.token_offsets, *given, gamma, inputs.weights, values, marginals, counts)
        return values, Parts(marginals.reshape(-1), self._factors_of(counts))

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Notes
        -----
        By the steps of `derivations`, of which a sentence has n_tokens n_states min(longest, n_tokens).
        """
        return derive.covariances(self, scores, along, weights)

    def decode(self, scores: Parts) -> Ints:
        """Best state of every token, shape (n_tokens,); -1 throughout an impossible sentence."""
        return self._viterbi(check_inputs(self, scores))[1]

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the segments of one sentence, from left to right.

        An item is a segment that may go on, with what stands before it; one is made for every token, state and start.
        """
        tokens, own = self._tokens_and_parts(instance)
        n, k = tokens.stop - tokens.start, self.n_states
        most = min(n, self.longest)
        entries = np.concatenate([np.arange(own.start, own.stop), np.full(k * k + 4 * k * most, -1)])
        moves, lengths = np.full_like(entries, -1), np.full_like(entries, -1)
        moves[n * k : n * k + k * k] = np.arange(k * k).reshape(k, k).T.ravel()
        cells = np.arange(4 * self.longest * k).reshape(4, self.longest, k)[:, :most]
        lengths[n * k + k * k :] = cells[:, ::-1].swapaxes(1, 2).ravel()
        offsets, uses = np.append(np.arange(n + 1) * k, len(entries)), np.append(np.ones(n, np.int64), 0)
        steps = derive.keep_steps(_steps, n, k, most) if n else NO_STEPS
        return Derivations(steps, entries, own, (moves, lengths), offsets, uses)

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every sequence of segments of one sentence as indicators over the batch, with its factors.

        Parameters
        ----------
        instance : int

        Yields
        ------
        Parts
        """
        tokens, _ = self._tokens_and_parts(instance)
        n = tokens.stop - tokens.start
        for cuts in itertools.product((False, True), repeat=max(n - 1, 0)):
            starts = np.flatnonzero([True, *cuts][:n])
            sizes = np.diff(starts, append=n)
            if (sizes > self.longest).any():
                continue
            for states in itertools.product(range(self.n_states), repeat=len(sizes)):
                indicator, here = no_parts(self), np.array(states, np.int64)
                indicator.unary[self.offsets[tokens] + np.repeat(here, sizes)] = 1.0
                np.add.at(indicator.factors[0], (here[:-1], here[1:]), 1.0)
                ends = (starts == 0).astype(np.int64), (starts + sizes == n).astype(np.int64)
                np.add.at(indicator.factors[1], (*ends, sizes - 1, here), 1.0)
                yield indicator

    def _viterbi(self, inputs: Inputs) -> tuple[Floats, Ints, tuple[Floats, ...]]:
        """Values, the state of every token, and counts of factors."""
        unary, shared = self._tables(inputs)
        values, states, counts = np.zeros(self.n_instances), np.full(self.n_tokens, -1), np.zeros_like(shared)
        given = inputs.active, unary, shared, self.longest
        kernel.max_pass(self.token_offsets, *given, inputs.weights, values, states, counts)
        return values, states, self._factors_of(counts)

    def _tables(self, inputs: Inputs) -> tuple[Floats, Floats]:
        """Scores of tokens and of factors as kernels take them."""
        transition, durations = inputs.factors
        by_state = durations[:, :, ::-1].swapaxes(2, 3)
        factors = np.concatenate([transition.T.ravel(), np.zeros(self.n_states), by_state.ravel()])
        return inputs.unary.reshape(self.n_tokens, self.n_states), factors

    def _factors_of(self, counts: Floats) -> tuple[Floats, ...]:
        """Counts of factors from a table of those that kernels take."""
        k = self.n_states
        moves, _, lengths = np.split(counts, [k * k, k * k + k])
        durations = lengths.reshape(2, 2, k, self.longest).swapaxes(2, 3)[:, :, ::-1]
        return np.ascontiguousarray(moves.reshape(k, k).T), np.ascontiguousarray(durations)


def _steps(n: int, k: int, longest: int) -> Steps:
    """The steps of n > 0 tokens, whose parts are states of tokens, moves [to, from] and lengths as kernels take them.

    ``begun[t, y]`` are the tokens before t where a segment of state y comes next, ``opened[t, y, s]`` those up to t
    where it started at s, and ``done[t, y]`` all that end there.
    """
    state, widths = np.arange(k), np.minimum(np.arange(n) + 1, longest)
    before = np.append(0, np.cumsum(widths)) * k
    sizes = n * k, int(before[-1]), n * k, 1, n * k, k * k, 4 * k * longest, k
    begun, opened, done, goal, tokens, moves, lengths, ones = derive.places_of(*sizes)
    groups: list[derive.Runs] = []
    for t, width in enumerate(widths.tolist()):
        row, token, start = state[:, None], tokens + t * k + state, t + 1 - width
        if t > 0:
            place = begun + t * k + state
            groups.append([(place, place, ONE, done + (t - 1) * k, moves + state * k, k)])
        place = opened + before[t] + row * width + np.arange(width)
        wider = int(widths[t - 1])
        left = opened + before[t - 1] + row * wider + np.arange(width) + wider - width + 1
        left[:, -1] = begun + t * k + state if t > 0 else ONE
        groups.append([(place.ravel(), place.ravel(), ONE, left.ravel(), np.repeat(token, width), 1)])
        end = lengths + ((k if t == n - 1 else 0) + state + 1) * longest
        made = done + t * k + state, done + t * k + state, ONE
        inner = width - (start == 0)
        runs = [(*made, place[:, width - inner], end - inner, inner)] if inner else []
        groups.append(runs + ([(*made, place[:, 0], end + 2 * k * longest - width, 1)] if start == 0 else []))
    groups.append([(np.array([goal]), goal, ONE, done + (n - 1) * k, ones, k)])
    count = n * k + k * k + 4 * k * longest
    return derive.steps_of(*groups, parts=(tokens + np.arange(count), np.arange(count)), ones=ones + state)
