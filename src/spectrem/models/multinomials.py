"""Tables of distributions, whose rows an M-step normalises under priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.models.priors import MeanFieldPrior, Prior


@dataclass(frozen=True, eq=False)
class Multinomials:
    """The rows of one table as the M-step normalises them: the free entries, and the values of the others.

    Attributes
    ----------
    shape : tuple of int
        Shape of the table.
    row : ndarray of shape (n_free,), int64
        Row of every free entry.
    row_sizes : ndarray of shape (n_rows,), int64
        Free entries of every row.
    free : ndarray of shape (n_free,), int64, or None
        Indices of the free entries in the flat table; None if all entries are free.
    given : ndarray of shape (n_entries,), float64, or None
        The flat table's fixed values, 0 elsewhere.
    share : ndarray of shape (n_rows,), float64, or None
        What fixed values leave to the free entries of every row.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.priors import DirichletPrior
    >>> rows = Multinomials.dense((2, 2))
    >>> rows.normalise(np.array([[1.0, 3.0], [1.0, 1.0]]), DirichletPrior(0.0)).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """

    shape: tuple[int, ...]
    row: Ints
    row_sizes: Ints
    free: Ints | None = None
    given: Floats | None = None
    share: Floats | None = None

    @classmethod
    def dense(cls, shape: tuple[int, ...]) -> Multinomials:
        """A table all of whose entries are free and whose last axis holds the events of a row."""
        n_rows = int(np.prod(shape[:-1]))
        return cls(shape, np.repeat(np.arange(n_rows), shape[-1]), np.full(n_rows, shape[-1]))

    def normalise(self, counts: Floats, prior: Prior) -> Floats:
        """Probabilities (under a mean-field prior, weights) of the whole table from its expected counts.

        The prior is on the free entries only. Rows without counts or pseudo-counts are uniform over them.
        """
        flat = counts.ravel()
        if self.free is None or self.given is None or self.share is None:
            return prior.normalise(flat, self.row, self.row_sizes).reshape(self.shape)
        probabilities = self.given.copy()
        probabilities[self.free] = prior.normalise(flat[self.free], self.row, self.row_sizes) * self.share[self.row]
        return probabilities.reshape(self.shape)

    def log_density(self, probabilities: Floats, prior: Prior, counts: Floats | None = None) -> float:
        """Log-density under the prior, nats, of the free entries, as shares of what fixed values leave to them."""
        flat, own = probabilities.ravel(), None if counts is None else counts.ravel()
        if self.free is None or self.share is None:
            return prior.log_density(flat, self.row, self.row_sizes, own)
        has_room = self.share > 0
        kept, sizes = has_room[self.row], np.where(has_room, self.row_sizes, 0)
        free, row = self.free[kept], self.row[kept]
        return prior.log_density(flat[free] / self.share[row], row, sizes, None if own is None else own[free])


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a model by name, and the priors on their rows.

    Attributes
    ----------
    rows : mapping of name -> Multinomials
    priors : mapping of name -> Prior
        It may hold more names than ``rows``.
    """

    rows: Mapping[str, Multinomials]
    priors: Mapping[str, Prior]

    def normalise(self, counts: Any, prior: Prior | None = None) -> dict[str, Any]:
        """Distributions in proportion to counts, by name; ``prior``, if given, stands in for those of the tables."""
        return {
            name: rows.normalise(getattr(counts, name), prior or self.priors[name]) for name, rows in self.rows.items()
        }

    def m_step(self, counts: Any) -> dict[str, Any]:
        """Distributions in proportion to counts and, if a prior is a mean-field one, their ``log_prior``.

        It is computed here, since that of a mean-field prior cannot be found from the weights alone.
        """
        tables = self.normalise(counts)
        if any(isinstance(prior, MeanFieldPrior) for prior in self.priors.values()):
            tables["log_prior"] = self.log_density(SimpleNamespace(**tables), counts)
        return tables

    def log_density(self, params: Any, counts: Any = None) -> float:
        """Log-density of distributions, nats, up to a constant; ``counts`` are those that made them, if known.

        Under a mean-field prior it is minus the divergence of the posterior over parameters from it, and -inf without
        counts.
        """
        return sum(
            rows.log_density(getattr(params, name), self.priors[name], getattr(counts, name, None))
            for name, rows in self.rows.items()
        )
