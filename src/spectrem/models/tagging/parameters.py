"""Parameters and expected counts of hidden Markov models of order 1 and 2."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats


@dataclass(frozen=True, eq=False)
class HMMParameters:
    """Probabilities (or, under a mean-field prior, weights) of an HMM; every row of a distribution is one state's.

    Attributes
    ----------
    initial : ndarray of shape (n_states,)
        Probability of the first state of a sentence.
    transition : ndarray of shape (n_states, n_states) or (n_states, n_states, n_states)
        Probability of the next state: [from, to], or at order 2 [two back, one back, to].
    second : ndarray of shape (n_states, n_states), or None
        Order 2 only: probability of the second state of a sentence, [first, second].
    emission : ndarray of shape (n_cells,)
        Probability of the cell's word given its state, by cell of the `Lexicon`.
    log_prior : float or None
        Log-density under the model's priors, nats, if an M-step made the parameters: that of a mean-field prior cannot
        be computed from the weights alone.
    """

    initial: Floats
    transition: Floats
    second: Floats | None
    emission: Floats
    log_prior: float | None = None

    @property
    def order(self) -> int:
        """States that the next one depends on: 1 or 2."""
        return self.transition.ndim - 1


@dataclass(frozen=True, eq=False)
class HMMCounts:
    """Expected counts behind the arrays of `HMMParameters`, in their shapes.

    Values with ``a + b`` and ``factor * a``; ``a += b`` changes the arrays of a.
    """

    initial: Floats
    transition: Floats
    second: Floats | None
    emission: Floats

    def __iadd__(self, other: HMMCounts) -> HMMCounts:
        for own, its in zip(vars(self).values(), vars(other).values(), strict=True):
            if own is not None:
                np.add(own, its, out=own)
        return self

    def __add__(self, other: HMMCounts) -> HMMCounts:
        total = deepcopy(self)
        total += other
        return total

    def __rmul__(self, factor: float) -> HMMCounts:
        second = None if self.second is None else factor * self.second
        return HMMCounts(factor * self.initial, factor * self.transition, second, factor * self.emission)
