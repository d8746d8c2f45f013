"""Priors on tables of distributions, as the M-step sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints, Reals
from spectrem.exceptions import InvalidInputError

Numbers = NDArray[np.integer]


class Prior(Protocol):
    """A prior gives the probabilities that the next E-step uses from expected counts, and their log-density.

    `normalise` maximises the expected log-probability plus `log_density`, so that the sum of the log-likelihood (or
    the projection's dual value) and `log_density` never falls under EM. ``counts`` are those that `normalise` had, if
    they are known.
    """

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats: ...

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float: ...


@dataclass(frozen=True)
class DirichletPrior:
    """Add ``pseudo_count`` to every expected count: the mode under a Dirichlet of ``1 + pseudo_count``.

    Use when a table is small or dense; 0 is maximum likelihood.

    Parameters
    ----------
    pseudo_count : float or ndarray of shape (n_entries,)
        At least 0, in expected events.

    Raises
    ------
    InvalidInputError
        If ``pseudo_count`` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> prior = DirichletPrior(1.0)
    >>> prior.normalise(np.array([3.0, 1.0, 2.0]), np.array([0, 0, 1]), np.array([2, 1])).round(3).tolist()
    [0.667, 0.333, 1.0]
    """

    pseudo_count: float | Floats = 0.0

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.pseudo_count) >= 0):
            raise InvalidInputError(
                f"pseudo_count must be at least 0, got {self.pseudo_count}; for a sparse prior use MeanFieldPrior"
            )

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Probabilities of shape (n_entries,), one row summing to 1; rows without mass are uniform.

        Parameters
        ----------
        counts : ndarray of shape (n_entries,)
            Expected counts of the entries that exist.
        row : ndarray of shape (n_entries,), int
            Row of every entry.
        row_sizes : ndarray of shape (n_rows,), int
            Number of entries of every row.
        out : ndarray of shape (n_entries,), optional
            Array for the result; it may be ``counts``.
        totals : ndarray of shape (n_rows,), optional
            Filled with the counts and pseudo-counts of every row.
        """
        smoothed = np.add(counts, self.pseudo_count, out=out)
        sums = np.bincount(row, smoothed, len(row_sizes)).astype(np.float64)
        if totals is not None:
            totals[:] = sums
        empty = sums < np.finfo(np.float64).tiny  # of less, not even the reciprocal is finite
        scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=~empty)
        if empty.any():
            smoothed[empty[row]] = 1.0
            scale[empty] = 1.0 / np.maximum(row_sizes[empty], 1)
        return np.multiply(smoothed, scale[row], out=smoothed)

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """``pseudo_count * sum of log probabilities``, nats: the log-density of all rows, but for a constant.

        -inf where an entry that gets pseudo-counts has probability 0. For the arguments see `normalise`.
        """
        if isinstance(self.pseudo_count, np.ndarray):
            from scipy.special import xlogy

            return float(xlogy(self.pseudo_count, probabilities).sum())
        if self.pseudo_count == 0:
            return 0.0
        with np.errstate(divide="ignore"):
            return self.pseudo_count * float(np.log(probabilities, dtype=np.float64).sum())


@dataclass(frozen=True)
class MeanFieldPrior:
    """Mean-field (variational Bayes) weights ``exp(psi(c + alpha) - psi(C + alpha * size))`` of a sparse Dirichlet.

    Rows sum to less than 1: events with little evidence lose most of it, which suits translation tables, where rare
    words otherwise collect unrelated partners ([Ganchev2010] section 8 uses it as baseline).

    Use when rows are long and should be sparse.

    Parameters
    ----------
    alpha : float
        Concentration of the symmetric Dirichlet prior on each row; positive, usually well below 1.

    Raises
    ------
    InvalidInputError
        If ``alpha`` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> MeanFieldPrior(0.01).normalise(np.array([3.0, 0.1]), np.array([0, 0]), np.array([2])).round(4).tolist()
    [0.9585, 0.0]
    """

    alpha: float = 0.01

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise InvalidInputError(f"alpha must be positive, got {self.alpha}; for plain counts use DirichletPrior(0)")

    def normalise(
        self, counts: Floats, row: Numbers, row_sizes: Numbers, out: Floats | None = None, totals: Floats | None = None
    ) -> Floats:
        """Weights of shape (n_entries,) for the next E-step; see `DirichletPrior.normalise` for the arguments."""
        from scipy.special import psi

        sums = np.bincount(row, counts, len(row_sizes)) + self.alpha * row_sizes
        if totals is not None:
            totals[:] = sums
        return np.exp(psi(counts + self.alpha) - psi(np.maximum(sums, self.alpha))[row], out=out)

    def log_density(
        self, probabilities: Reals, row: Numbers, row_sizes: Numbers, counts: Floats | None = None
    ) -> float:
        """Minus the divergence of the rows' Dirichlet posteriors from their priors, nats, at most 0.

        With it the recorded objective is the variational lower bound on the log-likelihood of the data. It is
        computed from the counts behind the weights: weights of entries without counts underflow. Weights without
        counts, such as probabilities to start from, do not belong to a posterior: -inf.
        """
        if counts is None:
            return -np.inf
        from scipy.special import gammaln, psi

        posterior = counts + self.alpha
        totals, prior = np.bincount(row, posterior, len(row_sizes)), self.alpha * row_sizes
        totals, prior_totals = np.where(row_sizes > 0, totals, 1.0), np.where(row_sizes > 0, prior, 1.0)
        each = gammaln(posterior) - gammaln(self.alpha) - counts * (psi(posterior) - psi(totals)[row])
        return float(each.sum() + (gammaln(prior_totals) - gammaln(totals)).sum())


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
    fixed : ndarray of shape (n_entries,), float64, or None
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
    fixed: Floats | None = None
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
        if self.free is None or self.fixed is None or self.share is None:
            return prior.normalise(flat, self.row, self.row_sizes).reshape(self.shape)
        probabilities = self.fixed.copy()
        probabilities[self.free] = prior.normalise(flat[self.free], self.row, self.row_sizes) * self.share[self.row]
        return probabilities.reshape(self.shape)

    def log_density(self, probabilities: Floats, prior: Prior, counts: Floats | None = None) -> float:
        """Log-density under the prior, nats, of the free entries, as shares of what fixed values leave to them."""
        flat, counts = probabilities.ravel(), None if counts is None else counts.ravel()
        if self.free is None or self.share is None:
            return prior.log_density(flat, self.row, self.row_sizes, counts)
        has_room = self.share > 0
        kept, sizes = has_room[self.row], np.where(has_room, self.row_sizes, 0)
        free, row = self.free[kept], self.row[kept]
        return prior.log_density(flat[free] / self.share[row], row, sizes, None if counts is None else counts[free])


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
