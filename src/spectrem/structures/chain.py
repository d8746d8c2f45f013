"""First-order chains: one state per token, neighbours scored by one transition matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_count, as_gamma, as_integers, as_lengths, as_offsets
from spectrem.exceptions import InvalidInputError
from spectrem.kernels import chain as kernel
from spectrem.structures._polytopes import path_polytope, simplex_polytope
from spectrem.structures._ragged import (
    Inputs,
    check_inputs,
    check_instance,
    check_scores,
    indicators,
    offsets_of,
    positions_of,
    rows_of,
)
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


@dataclass(frozen=True, eq=False)
class Chain:
    """Sentences whose tokens each take a state, with scores on states and on neighbouring pairs.

    The sum pass is forward-backward, the max pass Viterbi [Rabiner1989]. Scores of the first and the last state
    belong in the unary scores of the first and the last token.

    Use when a label depends on the label before it: HMM and CRF taggers.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Tokens of every sentence, >= 0.
    n_states : int
        Number of states, >= 1.
    allowed : tuple of (offsets, states), optional
        States a token may take: ``states[offsets[t]:offsets[t + 1]]``, increasing, for token t of the batch (flat,
        sentence after sentence). Parts and time are then in proportion to the allowed states only. Default: all.

    Raises
    ------
    InvalidInputError
        If lengths are negative, ``n_states`` < 1, or allowed states are out of range or not increasing.

    Notes
    -----
    ``Parts.unary`` holds, token after token, one entry per (allowed) state; the one shared factor is the transition
    matrix, shape (n_states, n_states), indexed [from, to]. Columns: ``sentence``, ``token`` (position in the
    sentence), ``occurrence`` (token of the batch), ``tag`` (state).

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Chain, Parts
    >>> chain = Chain([2], n_states=2)
    >>> stay = Parts(np.log([0.9, 0.1, 0.5, 0.5]), (np.log([[0.8, 0.2], [0.2, 0.8]]),))
    >>> values, marginals = chain.smoothed_max(stay, gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), marginals.unary.round(12).tolist()
    (0.5, [0.9, 0.1, 0.74, 0.26])
    >>> chain.decode(stay).tolist()
    [0, 0]
    """

    lengths: NDArray[np.int64]
    n_states: int
    allowed: tuple[NDArray[np.int64], NDArray[np.int64]] | None

    def __init__(self, lengths: ArrayLike, n_states: int, allowed: tuple[ArrayLike, ArrayLike] | None = None) -> None:
        object.__setattr__(self, "lengths", as_lengths(lengths, "lengths"))
        object.__setattr__(self, "n_states", as_count(n_states, "n_states", minimum=1))
        checked = None if allowed is None else _check_allowed(allowed, int(self.lengths.sum()), self.n_states)
        object.__setattr__(self, "allowed", checked)

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
        """Number of (token, allowed state) pairs of the batch."""
        return int(self.offsets[-1])

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The transition matrix."""
        return ((self.n_states, self.n_states),)

    @cached_property
    def token_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences among the tokens, shape (n_instances + 1,)."""
        return offsets_of(self.lengths)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Boundaries of the tokens in ``Parts.unary``, shape (n_tokens + 1,)."""
        if self.allowed is not None:
            return self.allowed[0]
        return np.arange(self.n_tokens + 1, dtype=np.int64) * self.n_states

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Sentence of every unary part, shape (n_unary,)."""
        return np.repeat(rows_of(self.lengths), np.diff(self.offsets))

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The four columns of the class notes, each of shape (n_unary,); built anew at every call."""
        widths = np.diff(self.offsets)
        return {
            "sentence": self.instance,
            "token": np.repeat(positions_of(self.lengths), widths),
            "occurrence": rows_of(widths),
            "tag": self._states_of(slice(0, self.n_tokens)),
        }

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Values, shape (n_instances,) in nats, and marginals with expected transitions; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest last state wins, and before it the lowest predecessor.
        """
        gamma = as_gamma(gamma)
        given = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            values, choices, counts = self._viterbi(given)
            return values, Parts(indicators(choices, self.offsets), (counts,))
        values, marginals = np.zeros(self.n_instances), np.zeros(self.n_unary)
        counts = np.zeros(self.factor_shapes[0])
        status = np.zeros(self.n_instances, dtype=np.int8)
        layout = (self.token_offsets, self.offsets, *self._kernel_states, given.unary, given.factors[0], gamma)
        kernel.sum_pass(*layout, given.active, given.weights, values, marginals, counts, status)
        if status.any():
            kernel.log_sum_pass(*layout, status != 0, given.weights, values, marginals, counts)
        return values, Parts(marginals, (counts,))

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """Best state of every token, shape (n_tokens,); -1 throughout an impossible sentence."""
        _, choices, _ = self._viterbi(check_inputs(self, scores))
        if self.allowed is None:
            return choices
        offsets, states = self.allowed
        found = choices >= 0
        choices[found] = states[offsets[:-1][found] + choices[found]]
        return choices

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Unit flow through (token, state) nodes: a variable per first state and per neighbouring pair of states."""
        n = check_instance(self, instance)
        checked = check_scores(self, scores)
        first, last = int(self.token_offsets[n]), int(self.token_offsets[n + 1])
        start, stop = int(self.offsets[first]), int(self.offsets[last])
        states = self._states_of(slice(first, last))
        widths = np.diff(self.offsets[first : last + 1])
        if first == last:
            return simplex_polytope(checked.unary, start, widths, [self.n_states**2])
        nodes = np.split(np.arange(stop - start), np.cumsum(widths)[:-1])
        tails, heads = [], []
        for before, here in zip([np.array([-1]), *nodes], nodes, strict=False):
            tails.append(np.repeat(before, len(here)))
            heads.append(np.tile(here, len(before)))
        tail, head = np.concatenate(tails), np.concatenate(heads)
        cells = np.where(tail >= 0, states[tail] * self.n_states + states[head], -1)
        return path_polytope(
            tail,
            head,
            n_inner=stop - start - len(nodes[-1]),
            unary_index=np.arange(start, stop),
            unary_of=head,
            cells_of=(cells,),
            unary=checked.unary,
            factors=checked.factors,
        )

    @property
    def _kernel_states(self) -> tuple[NDArray[np.int64], bool]:
        if self.allowed is None:
            return np.arange(self.n_states), True
        return self.allowed[1], False

    def _states_of(self, tokens: slice) -> NDArray[np.int64]:
        """States of the unary parts of a range of tokens."""
        if self.allowed is None:
            return np.tile(np.arange(self.n_states), tokens.stop - tokens.start)
        return self.allowed[1][self.offsets[tokens.start] : self.offsets[tokens.stop]]

    def _viterbi(self, given: Inputs) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        values, counts = np.zeros(self.n_instances), np.zeros(self.factor_shapes[0])
        choices = np.full(self.n_tokens, -1)
        layout = (self.token_offsets, self.offsets, *self._kernel_states, given.unary, given.factors[0])
        kernel.max_pass(*layout, given.active, given.weights, values, choices, counts)
        return values, choices, counts


def _check_allowed(
    allowed: tuple[ArrayLike, ArrayLike], n_tokens: int, n_states: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    offsets = as_offsets(allowed[0], "allowed[0] (offsets)", n_tokens)
    states = as_integers(allowed[1], "allowed[1] (states)")
    if len(states) != offsets[-1]:
        raise InvalidInputError(
            f"allowed[1] (states) must have {offsets[-1]} entries, as its offsets say; got {len(states)}; "
            "flatten the states token after token"
        )
    outside = (states < 0) | (states >= n_states)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"allowed[1] (states) must be in 0..{n_states - 1}; got {states[at]} at index {at}; raise n_states or "
            "drop the state"
        )
    falling = np.diff(states) <= 0
    falling[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(states))] - 1] = False
    if falling.any():
        at = int(np.argmax(falling)) + 1
        raise InvalidInputError(
            f"allowed[1] (states) must increase within a token; got {states[at]} after {states[at - 1]} at index {at}; "
            "sort each token's states and drop duplicates"
        )
    return offsets, states
