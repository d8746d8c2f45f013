"""Filtering of series, online and whole, forecasts of states and rows, and residuals of one-step forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem.models.emissions import Emission
from spectrem.structures._ragged import offsets_of


@dataclass(frozen=True, eq=False)
class Forecast:
    """Distributions of the rows to come.

    Attributes
    ----------
    states : ndarray of shape (h, n_states)
        Probabilities of the states of the next h rows.
    means, variances : ndarray of shape (h, n_columns)
        Of the next rows, over their states.
    """

    states: Floats
    means: Floats
    variances: Floats


@dataclass(eq=False)
class OnlineFilter:
    """The distribution of the state of a series that arrives row by row; all its attributes can be saved and set.

    Attributes
    ----------
    initial, transition : ndarray
    emission : Emission
    params : parameters of the emission
    probabilities : ndarray of shape (n_states,), or None
        Of the state of the last row, given all rows up to it; None before the first.
    log_likelihood : float
        Of all rows so far, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem import GaussianHMM
    >>> X = np.array([0.1, -0.2, 0.0, 5.1, 4.9, 5.0, 0.2, -0.1])
    >>> online = GaussianHMM(states=["low", "high"], random_state=0, n_threads=1).fit(X).online_filter()
    >>> for value in X:
    ...     probabilities = online.update([value])
    >>> online.forecast(1).states.shape
    (1, 2)
    """

    initial: Floats
    transition: Floats
    emission: Emission
    params: Any
    probabilities: Floats | None = None
    log_likelihood: float = 0.0

    def update(self, row: ArrayLike) -> Floats:
        """Take in the next row, NaN where a cell is missing, and return the probabilities of its state."""
        x = np.array(row, np.float64).reshape(1, -1)
        self.emission.check(x, [str(j) for j in range(x.shape[1])])
        return self._move(self.emission.scores(self.params, x)[0])

    def predict_next(self) -> Floats:
        """Probabilities of the state of the next row, shape (n_states,)."""
        return self.initial if self.probabilities is None else self.probabilities @ self.transition

    def forecast(self, h: int = 1) -> Forecast:
        """Distributions of the next ``h`` rows."""
        states = [self.predict_next()]
        for _ in range(h - 1):
            states.append(states[-1] @ self.transition)
        table = np.stack(states)
        means, variances = self.emission.means(self.params), self.emission.variances(self.params)
        expected = table @ means
        apart = means - expected[:, None, :]
        return Forecast(table, expected, table @ variances + np.einsum("hk,hkd->hd", table, apart**2))

    def _move(self, scores: Floats) -> Floats:
        top = float(scores.max())
        joint = self.predict_next() * np.exp(scores - top)
        total = float(joint.sum())
        if total == 0.0:  # no state that can follow emits the row at all: the row alone decides
            joint, total = np.exp(scores - top), float(np.exp(scores - top).sum())
            self.log_likelihood = -np.inf
        self.probabilities = joint / total
        self.log_likelihood += top + float(np.log(total))
        return self.probabilities


def filter_rows(online: OnlineFilter, scores: Floats, lengths: Ints) -> tuple[Floats, Floats]:
    """Probabilities of every state given the rows before, and given these and its own, shape (n_rows, n_states)."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    for start, stop in zip(offsets_of(lengths)[:-1].tolist(), offsets_of(lengths)[1:].tolist(), strict=True):
        online.probabilities = None
        for row in range(start, stop):
            before[row] = online.predict_next()
            after[row] = online._move(scores[row])
    return before, after


def normal_residuals(online: OnlineFilter, x: Floats, lengths: Ints) -> Floats:
    """Normal quantiles of the probability that forecasts from the rows before give to values up to each cell's.

    Those of a model that is right are standard normal. Of counts and categories, the middle of the probabilities up to,
    and below, the value. NaN where a cell is missing.
    """
    from scipy.special import ndtri

    before, _ = filter_rows(online, online.emission.scores(online.params, x), lengths)
    up_to = np.einsum("nk,nkd->nd", before, online.emission.cumulative(online.params, x))
    if online.emission.discrete:
        below = np.einsum("nk,nkd->nd", before, online.emission.cumulative(online.params, x - 1))
        up_to = (up_to + below) / 2
    return ndtri(up_to)
