"""Whether probabilities are right as often as they say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError


@brief_dataclass(frozen=True)
class Reliability:
    """Probabilities by bins, and how often they were right; `spectrem.plotting.plot_reliability` draws it.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Limits of the bins; a probability at a limit belongs to the bin above it, 1 to the last one.
    counts : ndarray of shape (n_bins,), int
        Probabilities in every bin.
    expected : ndarray of shape (n_bins,)
        Their mean; NaN in an empty bin.
    observed : ndarray of shape (n_bins,)
        The share that was right, equal to ``expected`` if the probabilities are; NaN in an empty bin.

    Examples
    --------
    >>> found = reliability([0.1, 0.2, 0.7, 0.9], [False, False, True, True], bins=2)
    >>> found.counts.tolist(), found.observed.tolist()
    ([2, 2], [0.0, 1.0])
    """

    edges: Floats
    counts: Ints
    expected: Floats
    observed: Floats

    def __str__(self) -> str:
        rows = [f"{'from':>6} {'to':>6} {'count':>9} {'expected':>9} {'observed':>9}"]
        for low, high, count, expected, observed in zip(
            self.edges[:-1], self.edges[1:], self.counts, self.expected, self.observed, strict=True
        ):
            shares = f"{expected:9.3f} {observed:9.3f}" if count else f"{'-':>9} {'-':>9}"
            rows.append(f"{low:6.3f} {high:6.3f} {count:9d} {shares}")
        return "\n".join(rows)


def reliability(posteriors: ArrayLike, right: ArrayLike, bins: int | Sequence[float] = 10) -> Reliability:
    """How often what has some probability is right, bin by bin of the probabilities ([NiculescuMizil2005]).

    Parameters
    ----------
    posteriors : array-like
        Probabilities in [0, 1], of links, tags, states or classes, in any shape.
    right : array-like of the same shape, bool
        Whether each of them was right.
    bins : int or sequence of float
        The number of bins of the same width, or their limits, increasing from 0 to 1.

    Returns
    -------
    Reliability
        ``print`` shows it as a table.

    Raises
    ------
    InvalidInputError
        If the shapes differ, a probability lies outside [0, 1], ``right`` holds other values than 0 and 1, or the bins
        break their rule.

    Examples
    --------
    >>> print(reliability([0.1, 0.3, 0.8, 0.9, 1.0], [False, True, False, True, True], bins=[0, 0.5, 1]))
      from     to     count  expected  observed
     0.000  0.500         2     0.200     0.500
     0.500  1.000         3     0.900     0.667
    """
    probabilities, outcomes = np.asarray(posteriors, np.float64), np.asarray(right)
    if probabilities.shape != outcomes.shape:
        raise InvalidInputError(
            f"right must have the shape of posteriors, {probabilities.shape}, got {outcomes.shape}; "
            "say of each one whether it is right"
        )
    check_probabilities(probabilities)
    if not np.isin(outcomes, (0, 1)).all():
        raise InvalidInputError(
            f"right must be true or false, got {outcomes[~np.isin(outcomes, (0, 1))][0]}; compare with what is right"
        )
    edges = _edges(bins)
    probabilities, outcomes = probabilities.ravel(), outcomes.ravel().astype(np.float64)
    place = np.minimum(np.searchsorted(edges, probabilities, side="right") - 1, len(edges) - 2)
    counts = np.bincount(place, minlength=len(edges) - 1)
    sums = (np.bincount(place, values, len(edges) - 1) for values in (probabilities, outcomes))
    expected, observed = (np.divide(one, counts, out=np.full(len(counts), np.nan), where=counts > 0) for one in sums)
    return Reliability(edges, counts, expected, observed)


def _edges(bins: int | Sequence[float]) -> Floats:
    if np.ndim(bins) == 0:
        if not isinstance(bins, int | np.integer) or bins < 1:
            raise InvalidInputError(
                f"bins must be a whole number of at least 1 or the limits of bins, got {bins!r}; try 10"
            )
        return np.linspace(0.0, 1.0, int(bins) + 1)
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise InvalidInputError(
            f"bins must be limits that increase from 0 to 1, got {edges.tolist()}; try a number, or [0, 0.1, 0.5, 1]"
        )
    return edges


def check_probabilities(posteriors: Floats) -> None:
    """Raise an error if a probability lies outside [0, 1] or is NaN."""
    if not ((posteriors >= 0) & (posteriors <= 1)).all():
        raise InvalidInputError(
            f"posteriors must be probabilities in [0, 1], got values from {posteriors.min()} to "
            f"{posteriors.max()}; give probabilities, not their logarithms"
        )
