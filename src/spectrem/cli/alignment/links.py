"""How posterior probabilities of links are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spectrem.estimators import LinkPosteriors


def probability_lines(posteriors: LinkPosteriors, min_probability: float) -> Iterator[str]:
    """One line per sentence pair of ``i-j:p``, ``i-NULL:p`` and ``NULL-j:p``, for every p of at least a minimum.

    ``i-j`` carries the mean of both directions, without the ``rare_discount`` of decoding; ``i-NULL`` the
    probability that source word i has no counterpart, from the direction in which source words choose; ``NULL-j``
    the same of target word j, from the other direction. Four significant digits.

    Parameters
    ----------
    posteriors : LinkPosteriors
    min_probability : float
        In [0, 1].

    Yields
    ------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.estimators import LinkPosteriors
    >>> one = np.array([[0.9, 0.0, 0.0], [0.0, 0.25, 0.5]])
    >>> list(probability_lines(LinkPosteriors(np.array([2]), np.array([3]), [one], [one]), 0.2))
    ['0-0:0.9 1-1:0.25 1-2:0.5 1-NULL:0.25 NULL-1:0.75 NULL-2:0.5']
    """
    for both, forward, backward in zip(posteriors.average, posteriors.forward, posteriors.backward, strict=True):
        entries = [f"{i}-{j}:{p:.4g}" for i, j, p in _entries(both, min_probability)]
        for word, mass in enumerate(_null(backward.sum(axis=1)) if both.size else ()):
            if mass >= min_probability:
                entries.append(f"{word}-NULL:{mass:.4g}")
        for word, mass in enumerate(_null(forward.sum(axis=0)) if both.size else ()):
            if mass >= min_probability:
                entries.append(f"NULL-{word}:{mass:.4g}")
        yield " ".join(entries)


def _entries(matrix: NDArray[np.float64], least: float) -> Iterator[tuple[int, int, float]]:
    rows, columns = (matrix >= least).nonzero()
    return zip(rows.tolist(), columns.tolist(), matrix[rows, columns].tolist(), strict=True)


def _null(linked: NDArray[np.float64]) -> list[float]:
    return (1.0 - linked).clip(0.0, 1.0).tolist()
