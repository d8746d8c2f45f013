"""Second-order chains: one state per token, three neighbours scored by one transition tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import as_gamma
from spectrem.kernels.chains import chain2_max
from spectrem.structures._ragged import Inputs, check_inputs, indicators, no_parts
from spectrem.structures.chains._tables import TrigramTable
from spectrem.structures.chains._tokens import TokenStructure
from spectrem.structures.parts import Parts


@dataclass(frozen=True, eq=False, init=False)
class Chain2(TokenStructure):
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

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Values, shape (n_instances,) in nats, and marginals with expected factors; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest last state wins, then the lowest state before it, and before these
        two the lowest predecessor.
        """
        gamma = as_gamma(gamma)
        given = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            values, choices, factors = self._viterbi(given)
            return values, Parts(indicators(choices, self.offsets), factors)
        no_start, (second, transition) = np.zeros(self.n_states), given.factors
        states, dense = self._kernel_states
        table = TrigramTable(self.offsets, states, dense, given.unary, no_start, second, transition, gamma)
        rows, ones = np.arange(self.n_tokens), np.ones(self.n_instances)
        values, counts = table.sum_pass(self.token_offsets, rows, given.active, given.weights, ones)
        return values, Parts(counts.rows, (counts.second, counts.transition))

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """Best state of every token, shape (n_tokens,); -1 throughout an impossible sentence."""
        _, choices, _ = self._viterbi(check_inputs(self, scores))
        return self._chosen_states(choices)

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every state sequence of one sentence as indicators over the batch, with its transitions."""
        every = self._all_states
        for path in self._paths(instance):
            indicator = no_parts(self)
            indicator.unary[path] = 1.0
            tags, (second, transition) = every[path], indicator.factors
            if len(tags) > 1:
                second[tags[0], tags[1]] += 1.0
            np.add.at(transition, (tags[:-2], tags[1:-1], tags[2:]), 1.0)
            yield indicator

    def _viterbi(
        self, given: Inputs
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[NDArray[np.float64], NDArray[np.float64]]]:
        values, choices = np.zeros(self.n_instances), np.full(self.n_tokens, -1)
        seconds, transitions = (np.zeros(shape) for shape in self.factor_shapes)
        second, transition = given.factors
        layout = (self.token_offsets, self.offsets, *self._kernel_states, given.unary, second, transition)
        chain2_max.max_pass(*layout, given.active, given.weights, values, choices, seconds, transitions)
        return values, choices, (seconds, transitions)
