"""Mixtures of Gaussians: their shards, scores, E-step and M-step, and parameters to start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial, reduce
from operator import iadd
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.kernels import gaussian
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.mixture.parameters import (
    Bounds,
    CovarianceType,
    MixtureParameters,
    covariance_shape,
    from_covariances,
)
from spectrem.structures import Categorical, Parts

ROWS = 4096
UNKNOWN = -1
# Expected counts up to this are rounding errors: the component has no rows.
NOTHING = 10 * float(np.finfo(np.float64).eps)


@brief_dataclass(frozen=True)
class MixtureModel:
    """Rows drawn from one of several Gaussians.

    Use when rows of numbers fall into groups that a mean and a covariance describe. Rows with known components count in
    constraints like any others.

    Parameters
    ----------
    n_components : int
    covariance_type : {"full", "tied", "diag", "spherical"}
        A covariance for each component, one for all, variances of features for each, one variance for each.
    reg_covar : float
        Added to variances by the M-step; at least 0, in squared units of the data. As it belongs to no prior, it may
        lower the objective a little.
    bounds : Bounds
        Parameters that the M-step keeps fixed or within bounds; by default none.

    Examples
    --------
    >>> from spectrem.models.mixture import build_shards, from_covariances
    >>> params = from_covariances("spherical", np.array([0.5, 0.5]), np.array([[0.0], [4.0]]), np.ones(2))
    >>> model, shard = MixtureModel(2, "spherical"), build_shards(np.array([[1.0], [3.0]]))[0]
    >>> structure, scores = model.structure(shard), model.scores(params, shard)
    >>> structure.smoothed_max(scores, 1.0)[1].unary.round(3).tolist()
    [0.982, 0.018, 0.018, 0.982]
    """

    n_components: int
    covariance_type: CovarianceType = "full"
    reg_covar: float = 1e-6
    bounds: Bounds = field(default_factory=Bounds)

    def structure(self, shard: MixtureShard) -> Categorical:
        """One of the components per row."""
        return Categorical(np.full(len(shard.x), self.n_components))

    def scores(self, params: MixtureParameters, shard: MixtureShard) -> Parts:
        """Log joint densities (nats) of rows and components; -inf for components other than a known one."""
        return Parts(log_joint(params, shard.x, shard.labels).ravel())

    def gather(self, params: MixtureParameters, shard: MixtureShard, marginals: Parts) -> Statistics:
        """Expected moments of a shard about the means of ``params``, times the weights of the rows."""
        return self.moments(params, shard, self.distributions(shard, marginals) * shard.weights[:, None])

    def distributions(self, shard: MixtureShard, marginals: Parts) -> Floats:
        """Posteriors of the components of every row, shape (n, n_components)."""
        return marginals.unary.reshape(len(shard.x), self.n_components)

    def moments(self, params: MixtureParameters, shard: MixtureShard, shares: Floats) -> Statistics:
        """Moments of a shard whose rows belong to components by ``shares``, posteriors times weights.

        Returns
        -------
        Statistics
            ``counts``, sums of shares, shape (n_components,); ``first``, sums of ``x - mean`` times shares, about the
            means of ``params``, shape (n_components, n_features); ``second``, sums of ``(x - mean)(x - mean)^T`` times
            shares, lower triangles, if "full"; of all rows about the mixture's centre, shape (n_features, n_features),
            if "tied"; of squares, shape (n_components, n_features), else. Where values are missing, these are
            expectations given the others of their row, in each component.
        """
        kind, x, means = self.covariance_type, shard.x, params.means
        k, d = means.shape
        second = {"full": (k, d, d), "tied": (d, d)}.get(kind, (k, d))
        stats, gaps = Statistics(counts=np.zeros(k), first=np.zeros((k, d)), second=np.zeros(second)), has_gaps(x)
        if gaps and kind in ("full", "tied"):
            complete, patterns = find_patterns(x)
            whole = stats.second if kind == "full" else np.zeros((k, d, d))
            gaussian.incomplete_moments(x, *patterns, shares, means, params.matrices, stats.counts, stats.first, whole)
            if kind == "tied":
                apart = means - params.centre
                across = stats.first.T @ apart
                stats.second += whole.sum(axis=0) + across + across.T + (stats.counts[:, None] * apart).T @ apart
            x, shares, gaps = x[complete], shares[complete], False
        if kind == "full":
            gaussian.full_moments(x, shares, means, stats.counts, stats.first, stats.second)
            return stats
        squares = stats.second if kind != "tied" else np.zeros_like(means)
        gaussian.diagonal_moments(x, shares, means, gaps, params.variances, stats.counts, stats.first, squares)
        if kind == "tied":
            rows, whole = shares.sum(axis=1, keepdims=True), stats.second[None]
            centre, count, first = params.centre[None], np.zeros(1), np.zeros((1, len(params.centre)))
            gaussian.full_moments(x, rows, centre, count, first, whole)
        return stats

    def columns(self, shard: MixtureShard) -> Mapping[str, NDArray]:
        """The column for constraints: ``row``, the row's number."""
        return {"row": shard.instances}

    def m_step(self, params: MixtureParameters, stats: Statistics, corpus: object = None) -> MixtureParameters:
        """Parameters that maximise the expected log-likelihood, but for ``reg_covar``; ``corpus`` is not read.

        A component without any rows keeps its mean and covariance; its proportion becomes 0, or the lowest allowed.
        ``bounds`` hold afterwards if they held for ``params``.

        Raises
        ------
        InvalidInputError
            If a covariance is not positive definite.
        """
        bounds, counts = self.bounds, stats.counts + NOTHING
        means = params.means + stats.first / counts[:, None]
        weights = params.weights if "weights" in bounds.fixed else bounds.bound_weights(counts)
        placed = params.means if "means" in bounds.fixed else bounds.bound_means(params, means)
        if "covariances" in bounds.fixed:
            return replace(params, weights=weights, means=placed)
        covariances = self._covariances(params, stats, counts) + self._scatter(means - placed, counts)
        covariances = bounds.bound_covariances(self.covariance_type, covariances)
        empty = stats.counts <= NOTHING
        if empty.any() and self.covariance_type != "tied":
            covariances[empty] = params.covariances[empty]
        return from_covariances(self.covariance_type, weights, placed, covariances)

    def prepare(self, params: MixtureParameters, gamma: float) -> Callable[[MixtureShard], EStepResult[Statistics]]:
        """The compiled E-step of a shard without constraints, for `EStep.kernel`; equal to the general one."""
        return partial(self._expect, params, gamma)

    def _expect(self, params: MixtureParameters, gamma: float, shard: MixtureShard) -> EStepResult[Statistics]:
        joint, values = log_joint(params, shard.x, shard.labels), np.empty(len(shard.x))
        if gamma > 0:
            gaussian.soft_pass(joint, gamma, shard.weights, values)
        else:
            gaussian.hard_pass(joint, shard.weights, values)
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise InvalidInputError(
                f"row {shard.instances[bad]} must be possible in some component, got a log-density of {values[bad]}; "
                "scale the data, or give the components of known rows a positive proportion"
            )
        value = float(shard.weights @ values)
        return EStepResult(self.moments(params, shard, joint), value, value)

    def _scatter(self, apart: Floats, counts: Floats) -> Floats:
        """The increase of covariances that are taken about points at this distance from the means."""
        if self.covariance_type == "full":
            return apart[:, :, None] * apart[:, None, :]
        if self.covariance_type == "tied":
            return (counts[:, None] * apart).T @ apart / counts.sum()
        return apart**2 if self.covariance_type == "diag" else (apart**2).mean(axis=1)

    def _covariances(self, params: MixtureParameters, stats: Statistics, counts: Floats) -> Floats:
        """Covariances about the unbounded means."""
        moved, n_features = stats.first / counts[:, None], params.means.shape[1]
        if self.covariance_type == "full":
            lower = stats.second / counts[:, None, None] - moved[:, :, None] * moved[:, None, :]
            return _symmetric(lower) + self.reg_covar * np.eye(n_features)
        if self.covariance_type == "tied":
            apart = params.means + moved - params.centre
            between = (counts[:, None] * apart).T @ apart
            return _symmetric((stats.second - between) / counts.sum()) + self.reg_covar * np.eye(n_features)
        variances = stats.second / counts[:, None] - moved**2 + self.reg_covar
        return variances if self.covariance_type == "diag" else variances.mean(axis=1)


def log_joint(params: MixtureParameters, x: Floats, labels: Ints | None = None) -> Floats:
    """``log p(x, component)``, shape (n, n_components), nats.

    Parameters
    ----------
    params : MixtureParameters
    x : ndarray of shape (n, n_features), C-contiguous float64
        NaN where a value is missing; the density is that of the others.
    labels : ndarray of shape (n,), int, optional
        Components that are known, -1 for the others: components other than a known one get -inf.
    """
    kind, out, gaps = params.covariance_type, np.empty((len(x), len(params.weights))), has_gaps(x)
    if gaps and kind in ("full", "tied"):
        complete, patterns = find_patterns(x)
        with np.errstate(divide="ignore"):
            log_weights = np.log(params.weights)
        gaussian.incomplete_scores(x, *patterns, params.means, params.matrices, log_weights, out)
        out[complete] = log_joint(params, x[complete])
    elif kind == "full":
        gaussian.full_scores(x, params.means, params.lower, params.constants, out)
    elif kind == "tied":
        centres = (params.means - params.centre) @ params.lower.T
        gaussian.tied_scores(x, params.centre, params.lower, centres, params.constants, out)
    else:
        absent = 2 * np.log(params.lower) - math.log(2 * math.pi)
        gaussian.diagonal_scores(x, params.means, params.lower, params.constants, gaps, absent, out)
    if labels is not None:
        known = np.flatnonzero(labels != UNKNOWN)
        densities = out[known, labels[known]]
        out[known] = -np.inf
        out[known, labels[known]] = densities
    return out


def has_gaps(x: Floats) -> bool:
    """Whether some value is NaN."""
    return math.isnan(x.min(initial=0.0))


def find_patterns(x: Floats) -> tuple[Ints, tuple[Ints, Ints, Bools]]:
    """Rows grouped by the coordinates that they miss.

    Returns
    -------
    complete : ndarray of shape (n_complete,), int
        Rows without NaN.
    patterns : order, starts, missing
        Rows ``order[starts[p] : starts[p + 1]]`` miss the coordinates where ``missing[p]``, shape (n_features,), is
        true.

    Examples
    --------
    >>> complete, (order, starts, missing) = find_patterns(np.array([[np.nan, 1.0], [2.0, 3.0], [np.nan, 4.0]]))
    >>> complete.tolist(), order.tolist(), starts.tolist(), missing.tolist()
    ([1], [0, 2], [0, 2], [[True, False]])
    """
    n, d = x.shape
    missing = np.zeros((n, 8 * math.ceil(d / 8)), np.bool_)  # whole bytes, which are quick to pack
    missing[:, :d] = np.isnan(x)
    codes = np.packbits(missing, axis=1)
    order = np.lexsort(codes.T)
    codes = codes[order]
    n_complete = int((~codes.any(axis=1)).sum())
    complete, order, codes = order[:n_complete], order[n_complete:], codes[n_complete:]
    new = np.concatenate([np.ones(min(len(order), 1), np.bool_), (codes[1:] != codes[:-1]).any(axis=1)])
    starts = np.append(np.flatnonzero(new), len(order))
    return complete, (order, starts, missing[order[starts[:-1]], :d])


def impute(params: MixtureParameters, x: Floats, posteriors: Floats) -> Floats:
    """Rows with what is expected of their missing values, given the others, in place of NaN.

    Parameters
    ----------
    params : MixtureParameters
    x : ndarray of shape (n, n_features), C-contiguous float64
    posteriors : ndarray of shape (n, n_components)
        The probabilities of the components of each row.
    """
    missing = np.isnan(x)
    if params.covariance_type in ("diag", "spherical"):
        return np.where(missing, posteriors @ params.means, x)
    out = np.where(missing, 0.0, x)
    gaussian.impute_rows(x, *find_patterns(x)[1], posteriors, params.means, params.matrices, out)
    return out


def _symmetric(lower: Floats) -> Floats:
    below = np.tril(lower, -1)
    return np.tril(lower) + np.swapaxes(below, -1, -2)


def from_posteriors(model: MixtureModel, shards: Sequence[MixtureShard], posteriors: Floats) -> MixtureParameters:
    """The parameters that the M-step gives for posteriors of all rows, within bounds; fixed blocks are estimated, too.

    A first pass finds the means, so that the second can take squares about them.

    Parameters
    ----------
    model : MixtureModel
    shards : sequence of MixtureShard
    posteriors : ndarray of shape (n_rows, n_components)
        At least 0; need not sum to 1.

    Raises
    ------
    InvalidInputError
        If a covariance is not positive definite.

    Examples
    --------
    >>> from spectrem.models.mixture import build_shards
    >>> from_posteriors(MixtureModel(1, "diag"), build_shards(np.array([[1.0], [3.0]])), np.ones((2, 1))).means.tolist()
    [[2.0]]
    """
    shares = [posteriors[shard.instances] * shard.weights[:, None] for shard in shards]
    counts = sum((part.sum(axis=0) for part in shares), start=np.full(posteriors.shape[1], NOTHING))
    total = sum(part.T @ shard.x for part, shard in zip(shares, shards, strict=True))
    means = total / counts[:, None]
    kind = model.covariance_type
    # Unit Gaussians, whose covariances are their own inverses; a component without rows stays one.
    unit = np.zeros(covariance_shape(kind, *means.shape)) + (np.eye(means.shape[1]) if kind in ("full", "tied") else 1)
    about = MixtureParameters(kind, counts / counts.sum(), means, unit, unit)
    model = replace(model, bounds=replace(model.bounds, fixed=frozenset()))
    stats = reduce(iadd, (model.moments(about, shard, part) for part, shard in zip(shares, shards, strict=True)))
    return model.bounds.project(model.m_step(about, stats))  # components without rows, too


@briefly_shown
class MixtureShard(NamedTuple):
    """Some rows of the data.

    Attributes
    ----------
    instances : ndarray of shape (n,), int
        Numbers of the rows in the data.
    x : ndarray of shape (n, n_features)
        NaN where a value is missing.
    weights : ndarray of shape (n,)
    labels : ndarray of shape (n,), int, or None
        The component of each row, -1 where it is not known; None if that is so for all.
    """

    instances: Ints
    x: Floats
    weights: Floats
    labels: Ints | None


def build_shards(
    x: Floats, weights: ArrayLike | None = None, labels: Ints | None = None, *, rows: int = ROWS
) -> list[MixtureShard]:
    """Cut data into shards, which do not depend on the number of threads.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
    weights : array-like of shape (n_rows,), optional
        At least 0; by default 1.
    labels : ndarray of shape (n_rows,), int, optional
        Components that are known; -1 for the others.
    rows : int
        Number of rows of a shard.

    Raises
    ------
    InvalidInputError
        If a weight is negative or not finite.

    Examples
    --------
    >>> [shard.instances.tolist() for shard in build_shards(np.zeros((3, 1)), rows=2)]
    [[0, 1], [2]]
    """
    data, weight, shards = np.require(x, np.float64, ["C", "W"]), as_weights(weights, len(x)), []
    for start in range(0, len(x), rows):
        cut = slice(start, min(start + rows, len(x)))
        known = None if labels is None or (labels[cut] == UNKNOWN).all() else labels[cut]
        shards.append(MixtureShard(np.arange(cut.start, cut.stop), data[cut], weight[cut], known))
    return shards
