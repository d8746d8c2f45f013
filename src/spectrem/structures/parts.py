"""Values on the parts of a ragged batch: scores, marginals and indicators alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spectrem._arrays import Floats
from spectrem._reprs import brief_dataclass


@brief_dataclass(frozen=True)
class Parts:
    """One number per part of every structure in a batch.

    Parameters
    ----------
    unary : ndarray of shape (n_unary,), float64
        Parts that belong to one instance, flat, instance after instance. As scores: nats, ``-inf`` for
        impossible. As marginals: probabilities in [0, 1].
    factors : tuple of float64 ndarrays
        Parts shared by the whole batch, for example one transition matrix. As scores: nats. As
        marginals: expected counts summed over the batch.

    Examples
    --------
    >>> import numpy as np
    >>> scores = Parts(np.array([0.0, -np.inf]))
    >>> scores.dot(Parts(np.array([1.0, 0.0])))
    0.0
    """

    unary: Floats
    factors: tuple[Floats, ...] = ()

    def map(self, f: Callable[..., Floats], *others: Parts) -> Parts:
        """Apply ``f`` to the unary parts, and to every factor, of this and of others.

        Parameters
        ----------
        f : callable
            From one array of each of them, all of one shape, to an array of that shape.
        *others : Parts
            Of the same shape.

        Returns
        -------
        Parts
        """
        factors = zip(self.factors, *(other.factors for other in others), strict=True)
        return Parts(f(self.unary, *(other.unary for other in others)), tuple(f(*arrays) for arrays in factors))

    def add(self, other: Parts, share: Floats | float, of_factors: float = 1.0) -> None:
        """Add in place: unary parts times a share, of each or of all, and factors times another.

        Parameters
        ----------
        other : Parts
            Of the same shape.
        share : ndarray of shape (n_unary,), or float
        of_factors : float
        """
        self.unary[:] += share * other.unary
        for factor, increment in zip(self.factors, other.factors, strict=True):
            factor += of_factors * increment

    def dot(self, other: Parts) -> float:
        """Inner product over all parts, with ``-inf * 0 = 0``.

        Parameters
        ----------
        other : Parts
            Of the same shape.

        Returns
        -------
        float
        """
        return sum(
            (_dot(a, b) for a, b in zip(self.factors, other.factors, strict=True)),
            start=_dot(self.unary, other.unary),
        )


def _dot(a: Floats, b: Floats) -> float:
    present = (a != 0) & (b != 0)
    return float(np.dot(a[present], b[present]))
