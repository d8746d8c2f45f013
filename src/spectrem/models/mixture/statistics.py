"""Expected sums that the M-step of a mixture needs."""

from __future__ import annotations

from dataclasses import dataclass

from spectrem._arrays import Floats


@dataclass(eq=False)
class MixtureStats:
    """Moments about the means of the parameters that the posteriors were computed with.

    Values with ``a + b`` and ``factor * a``, where both are about the same means; ``a += b`` changes the arrays of a.

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
        Sums of posteriors times weights.
    first : ndarray of shape (n_components, n_features)
        Of ``x - mean``.
    second : ndarray
        Of ``(x - mean)(x - mean)^T``, lower triangles, if "full"; of all rows about the centre of the mixture, shape
        (n_features, n_features), if "tied"; of squares, shape (n_components, n_features), else.
    """

    counts: Floats
    first: Floats
    second: Floats

    def __iadd__(self, other: MixtureStats) -> MixtureStats:
        self.counts += other.counts
        self.first += other.first
        self.second += other.second
        return self

    def __add__(self, other: MixtureStats) -> MixtureStats:
        return MixtureStats(self.counts + other.counts, self.first + other.first, self.second + other.second)

    def __rmul__(self, factor: float) -> MixtureStats:
        return MixtureStats(factor * self.counts, factor * self.first, factor * self.second)
