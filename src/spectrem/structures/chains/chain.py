"""Chains of first and second order: one state per token, and scores shared by two or three neighbours everywhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_gamma
from spectrem.kernels.chains import chain as kernel
from spectrem.kernels.chains import covariances
from spectrem.structures import derivations as derive
from spectrem.structures._ragged import (
    Inputs,
    check_direction,
    check_inputs,
    check_scores,
    indicators,
    no_parts,
)
from spectrem.structures.chains._tokens import TokenStructure
from spectrem.structures.chains.tied import LEAST_FILLED, ScoreTable, factors_of, tensors_of, zero_tensors
from spectrem.structures.parts import Parts


@brief_dataclass(frozen=True, eq=False, init=False)
class MarkovStructure(TokenStructure):
    """Abstract: chains whose factors, as many as their order, score neighbours alike everywhere."""

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and marginals with expected factors; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest last state wins (at order 2, then the lowest state before it), and
        before it the lowest predecessor.
        """
        if as_gamma(gamma) == 0.0:
            values, choices, factors = self._viterbi(check_inputs(self, scores, active, weights))
            return values, Parts(indicators(choices, self.offsets), factors)
        return self.sums(scores, gamma, active=active, weights=weights)

    def sums(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
        least_filled: float = LEAST_FILLED,
    ) -> tuple[Floats, Parts]:
        """As `smoothed_max` at gamma above 0.

        Parameters
        ----------
        scores, gamma, active, weights
            As of `smoothed_max`.
        least_filled : float
            Sentences run side by side where so large a share of the places of a group is taken; with 0, results of a
            sentence are the same bits in any batch.

        Returns
        -------
        values : ndarray of shape (n_instances,)
            Nats.
        marginals : Parts
        """
        gamma, inputs = as_gamma(gamma), check_inputs(self, scores, active, weights)
        rows, ones = np.arange(self.n_tokens), np.ones(self.n_instances)
        batch = self.token_offsets, rows, inputs.active, inputs.weights, ones
        table = self._table(Parts(inputs.unary, inputs.factors), gamma)
        values, marginals, _, factors = table.sum_pass(*batch, least_filled)
        return values, Parts(marginals, factors)

    def decode(self, scores: Parts) -> Ints:
        """Best state of every token, shape (n_tokens,); -1 throughout an impossible sentence."""
        _, choices, _ = self._viterbi(check_inputs(self, scores))
        return self._chosen_states(choices)

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every state sequence of one sentence as indicators over the batch, with its transitions."""
        every, order = self._all_states, len(self.factor_shapes)
        for path in self._paths(instance):
            indicator = no_parts(self)
            indicator.unary[path] = 1.0
            tags, (*shorter, longest) = every[path], indicator.factors
            for table in shorter if len(tags) > 1 else []:
                table[tags[0], tags[1]] += 1.0
            np.add.at(longest, tuple(tags[k : len(tags) - order + k] for k in range(order + 1)), 1.0)
            yield indicator

    def _table(self, scores: Parts, gamma: float) -> ScoreTable:
        """Scores with a row for every token."""
        no_start = np.zeros(self.n_states)
        return ScoreTable(self.offsets, *self._kernel_states, scores.unary, no_start, scores.factors, gamma)

    def _viterbi(self, inputs: Inputs) -> tuple[Floats, Ints, tuple[Floats, ...]]:
        """Values, the choice of every token among its states, and counts of factors."""
        order, (states, dense) = len(self.factor_shapes), self._kernel_states
        values, choices = np.zeros(self.n_instances), np.full(self.n_tokens, -1)
        counts = zero_tensors(order, self.n_states)
        kernel.max_pass(
            order, self.token_offsets, self.offsets, np.append(states, 0), dense, inputs.unary,
            *tensors_of(inputs.factors), inputs.active, inputs.weights, values, choices, *counts,
        )  # fmt: skip
        return values, choices, factors_of(order, *counts)


@brief_dataclass(frozen=True, eq=False, init=False)
class Chain(MarkovStructure):
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
    instance_name, label_name : str
        What the columns of the sentences and of the states are called.

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

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The transition matrix."""
        return ((self.n_states, self.n_states),)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Notes
        -----
        By the expectation semiring [LiEisner2009]: masses of states, forward and backward, move with their tangents.
        Sentences whose scores are so extreme that scaled masses lose too much are derived step by step, in some
        thirty times the time.
        """
        scores, (along, weights) = check_scores(self, scores), check_direction(self, along, weights)
        means, products = np.zeros(self.n_instances), no_parts(self)
        table, status = self._table(scores, 1.0).potentials, np.ones(self.n_instances, np.int8)
        batch = self.token_offsets, np.arange(self.n_tokens), table, along.unary, along.factors[0], weights
        covariances.covary(*batch, means, products.unary, products.factors[0], status)
        derive.covary(self, status == 1, scores, along, weights, means, products)
        return means, products


@brief_dataclass(frozen=True, eq=False, init=False)
class Chain2(MarkovStructure):
    """Sentences whose tokens each take a state, with scores on states and on three neighbouring states.

    The sum pass is forward-backward over pairs of states, the max pass Viterbi [Rabiner1989]; both take time
    O(n_tokens n_states^3), or the sum of products of three neighbours' numbers of allowed states. Scores of the first
    and the last state belong in the unary scores of the first and the last token.

    Use when a label depends on the two labels before it: trigram HMM taggers [SmithEisner2004].

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Tokens of every sentence, >= 0.
    n_states : int
        Number of states, >= 1.
    allowed : tuple of (offsets, states), optional
        States a token may take: ``states[offsets[t]:offsets[t + 1]]``, increasing, for token t of the batch (flat,
        sentence after sentence). Default: all.
    instance_name, label_name : str
        What the columns of the sentences and of the states are called.

    Raises
    ------
    InvalidInputError
        If lengths are negative, ``n_states`` < 1, or allowed states are out of range or not increasing.

    Notes
    -----
    ``Parts.unary`` holds, token after token, one entry per (allowed) state. Two shared factors: ``second``, shape
    (n_states, n_states), scores the first two states of a sentence; ``transition``, shape (n_states, n_states,
    n_states), every three neighbours, indexed [two back, one back, to]. A sentence of one token has its unary scores
    only. Columns as in `Chain`: ``sentence``, ``token``, ``occurrence``, ``tag``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Chain2, Parts
    >>> alternate = np.log([[[0.5, 0.5], [0.9, 0.1]], [[0.1, 0.9], [0.5, 0.5]]])  # after 0, 1 comes 0; after 1, 0: 1
    >>> scores = Parts(np.log([0.5, 0.5] * 3), (np.log([[0.1, 0.9], [0.9, 0.1]]), alternate))
    >>> chain = Chain2([3], n_states=2)
    >>> chain.decode(scores).tolist()
    [0, 1, 0]
    >>> values, marginals = chain.smoothed_max(scores, gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), marginals.factors[1][0].round(12).tolist()
    (0.25, [[0.025, 0.025], [0.405, 0.045]])
    """

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The scores of first pairs and of triples."""
        return ((self.n_states,) * 2, (self.n_states,) * 3)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`."""
        return derive.covariances(self, scores, along, weights)
