"""Filtering of series, online and whole, forecasts of states and rows, and residuals of one-step forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_count
from spectrem.exceptions import InvalidInputError, quoted
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
    hazards : ndarray of shape (2, longest, n_states)
        Probabilities that a segment that has lasted 1, 2, ... rows ends there, [first one or later]; ones for states
        that end, and may follow themselves, after every row.
    emission : Emission
    params : parameters of the emission
    lasting : ndarray of shape (2, longest, n_states), or None
        Probabilities of the state of the last row, and how long it has lasted, given all rows up to it; None before
        the first.
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
    hazards: Floats
    emission: Emission
    params: Any
    lasting: Floats | None = None
    log_likelihood: float = 0.0

    @property
    def probabilities(self) -> Floats:
        """Of the state of the last row given all rows up to it; of the first state before any. Shape (n_states,)."""
        return self.initial if self.lasting is None else self.lasting.sum(axis=(0, 1))

    def update(self, row: ArrayLike) -> Floats:
        """Take in the next row, NaN where a cell is missing, and return the probabilities of its state."""
        try:
            x = np.array(row, np.float64).reshape(1, -1)
        except (TypeError, ValueError):
            x = np.zeros((0, 0))
        n_columns = self.emission.means(self.params).shape[1]
        if x.shape != (1, n_columns):
            raise InvalidInputError(
                f"row must be {n_columns} numbers, NaN where they are missing, got {quoted(row)}; one for each column"
            )
        self.emission.check(x, [str(j) for j in range(x.shape[1])])
        return self._move(self.emission.scores(self.params, x)[0])[1]

    def forecast(self, h: int = 1) -> Forecast:
        """Distributions of the next ``h`` rows."""
        lasting, states = self.lasting, []
        for _ in range(as_count(h, "h", minimum=1)):
            lasting = self._next(lasting)
            states.append(lasting.sum(axis=(0, 1)))
        table = np.stack(states)
        means, variances = self.emission.means(self.params), self.emission.variances(self.params)
        expected = table @ means
        apart = means - expected[:, None, :]
        return Forecast(table, expected, table @ variances + np.einsum("hk,hkd->hd", table, apart**2))

    def _next(self, lasting: Floats | None) -> Floats:
        """Probabilities of the next state, by how long it will have lasted."""
        new = np.zeros_like(self.hazards)
        if lasting is None:
            new[0, 0] = self.initial
            return new
        ending = lasting * self.hazards
        new[:, 1:] = (lasting - ending)[:, :-1]
        new[1, 0] += ending.sum(axis=(0, 1)) @ self.transition
        return new

    def _move(self, scores: Floats) -> tuple[Floats, Floats]:
        """Take in a row by its scores; probabilities of its state without it, and with it."""
        coming, top = self._next(self.lasting), float(scores.max())
        before = coming.sum(axis=(0, 1))
        joint = coming * np.exp(scores - top)
        total = float(joint.sum())
        if total == 0.0:  # no state that can follow emits the row: the row alone decides
            joint[1, 0] = np.exp(scores - top)
            total, self.log_likelihood = float(joint.sum()), -np.inf
        self.lasting = joint / total
        self.log_likelihood += top + float(np.log(total))
        return before, self.probabilities


def filter_rows(online: OnlineFilter, scores: Floats, lengths: Ints) -> tuple[Floats, Floats]:
    """Probabilities of every state given the rows before, and given these and its own, shape (n_rows, n_states)."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    for start, stop in zip(offsets_of(lengths)[:-1].tolist(), offsets_of(lengths)[1:].tolist(), strict=True):
        online.lasting = None
        for row in range(start, stop):
            before[row], after[row] = online._move(scores[row])
    return before, after


def normal_residuals(online: OnlineFilter, x: Floats, lengths: Ints) -> Floats:
    """Normal quantiles of the probability that forecasts from the rows before give to values up to each cell's.

    Those of a model that is right are standard normal. Of counts and categories, the middle of the probabilities up to,
    and below, the value. NaN where a cell is missing.
    """
    from scipy.special import ndtri

    before, _ = filter_rows(online, online.emission.scores(online.params, x), lengths)
    up_to = np.einsum("nk,nkd->nd", before, online.emission.cumulative(online.params, x))
    below = np.einsum("nk,nkd->nd", before, online.emission.cumulative(online.params, x, strictly=True))
    return ndtri((up_to + below) / 2)
