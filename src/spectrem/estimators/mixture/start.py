"""Where the EM of GaussianMixture starts: the same draws as scikit-learn's for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.utils import check_random_state

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_generator
from spectrem.estimators.mixture.chunks import Chunks
from spectrem.estimators.mixture.input import MixtureRows
from spectrem.exceptions import InvalidInputError
from spectrem.models.mixture import (
    MixtureModel,
    MixtureParameters,
    MixtureShard,
    covariance_shape,
    from_covariances,
    from_posteriors,
    from_precisions,
)

RUNS = 10
"""Runs of k-means under must-links: each is quick, since it counts chunks, and several seldom end in a bad optimum."""


def random_state_of(value: Any) -> np.random.RandomState:
    """The source of random numbers that a user's value stands for, as scikit-learn takes them."""
    if isinstance(value, np.random.Generator):
        return np.random.RandomState(value.bit_generator)
    as_generator(value)  # refuses everything else
    return check_random_state(value)


def start_parameters(
    mixture: Any,
    model: MixtureModel,
    shards: Sequence[MixtureShard],
    rows: MixtureRows,
    rng: np.random.RandomState,
    chunks: Chunks | None = None,
) -> MixtureParameters:
    """Parameters from ``init_params``, with those given in their places, all within the model's bounds.

    Parameters
    ----------
    mixture : GaussianMixture
        The mixture whose settings are used.
    model, shards
        As for `run_em`.
    rows : MixtureRows
    rng : RandomState
    chunks : Chunks, optional
        Which rows must-links tie together.

    Raises
    ------
    InvalidInputError
        If given parameters do not fit the data, or a covariance is not positive definite.
    """
    given_weights, given_means, precisions = given_start(mixture, rows.x.shape[1])
    if given_weights is not None and given_means is not None and precisions is not None:
        found = from_precisions(model.covariance_type, given_weights, given_means, precisions)
    else:
        found = from_posteriors(model, shards, start_posteriors(mixture, rows, rng, chunks))
        proportions = found.weights if given_weights is None else given_weights
        means = found.means if given_means is None else given_means
        if precisions is not None:
            found = from_precisions(model.covariance_type, proportions, means, precisions)
        else:
            found = from_covariances(model.covariance_type, proportions, means, found.covariances)
    return found if model.bounds is None else model.bounds.project(found)


def last_parameters(mixture: Any, model: MixtureModel, n_features: int) -> MixtureParameters:
    """Parameters of the last fit, within the model's bounds, to go on from.

    Raises
    ------
    InvalidInputError
        If their shapes are not those of the components and features of this fit.
    """
    means = (mixture.n_components, n_features)
    covariances = covariance_shape(mixture.covariance_type, *means)
    if mixture.means_.shape != means or mixture.covariances_.shape != covariances:
        raise InvalidInputError(
            f"warm_start must go on with means of shape {means} and covariances of shape {covariances}, got "
            f"{mixture.means_.shape} and {mixture.covariances_.shape} from the last fit; set warm_start=False"
        )
    last: MixtureParameters = mixture._params()
    return last if model.bounds is None else model.bounds.project(last)


def given_start(mixture: Any, n_features: int) -> tuple[Floats | None, Floats | None, Floats | None]:
    """``weights_init``, ``means_init`` and ``precisions_init`` as arrays, or None.

    Raises
    ------
    InvalidInputError
        If one has another shape than the mixture, or is not what it stands for.
    """
    k, d = mixture.n_components, n_features
    weights = _array("weights_init", mixture.weights_init, (k,))
    means = _array("means_init", mixture.means_init, (k, d))
    precision = _array("precisions_init", mixture.precisions_init, covariance_shape(mixture.covariance_type, k, d))
    if weights is not None and not ((weights >= 0).all() and abs(weights.sum() - 1) <= 1e-6):
        raise InvalidInputError(
            f"weights_init must be proportions that sum to 1, got {weights.tolist()}; divide them by their sum"
        )
    if precision is not None:
        _check_precisions(precision, mixture.covariance_type)
    return weights, means, precision


def start_posteriors(
    mixture: Any, rows: MixtureRows, rng: np.random.RandomState, chunks: Chunks | None = None
) -> Floats:
    """Posteriors by ``init_params``, shape (n_rows, n_components); rows with known components are theirs."""
    x, weights, labels = rows.x, rows.weights, rows.labels
    n, k = len(x), mixture.n_components
    posteriors = np.zeros((n, k))
    if mixture.init_params == "kmeans":
        seeded = labels is not None and (labels >= 0).any()
        if seeded or chunks is None or not k <= len(chunks.weights) < n:
            clusters = _by_kmeans(x, k, weights, labels, rng)
        else:
            # The distance of a chunk's rows to a centre is that of their mean, times their weight, and a constant: so
            # means take the places of their rows ([Basu2004] starts from such means, too).
            search = KMeans(k, n_init=RUNS, random_state=rng).fit(chunks.mean @ x, sample_weight=chunks.weights)
            clusters = np.asarray(search.labels_[chunks.chunk], np.int64)
        posteriors[np.arange(n), clusters] = 1.0
    elif mixture.init_params == "random":
        posteriors = rng.uniform(size=(n, k))
        posteriors /= posteriors.sum(axis=1, keepdims=True)
    elif mixture.init_params == "random_from_data":
        share = None if weights is None else weights / weights.sum()
        posteriors[rng.choice(n, size=k, replace=False, p=share), np.arange(k)] = 1.0
    else:
        _, drawn = kmeans_plusplus(x, k, sample_weight=weights, random_state=rng)
        posteriors[drawn, np.arange(k)] = 1.0
    if labels is not None:
        known = np.flatnonzero(labels >= 0)
        posteriors[known] = 0.0
        posteriors[known, labels[known]] = 1.0
    return posteriors


def _by_kmeans(x: Floats, k: int, weights: Floats | None, labels: Ints | None, rng: np.random.RandomState) -> Ints:
    """Clusters of k-means; those of components with labelled rows start from the means of these."""
    start: str | Floats = "k-means++"
    if labels is not None:
        counted = labels if weights is None else np.where(weights > 0, labels, -1)
        if (counted >= 0).any():
            start = _seeded_centres(x, k, weights, counted, rng)
    return KMeans(k, init=start, n_init=1, random_state=rng).fit(x, sample_weight=weights).labels_


def _seeded_centres(x: Floats, k: int, weights: Floats | None, labels: Ints, rng: np.random.RandomState) -> Floats:
    """Means of labelled rows; for components without any, rows drawn by squared distance from all before."""
    weight = np.ones(len(x)) if weights is None else weights
    seen = np.unique(labels[labels >= 0])
    centres = np.zeros((k, x.shape[1]))
    for component in seen:
        own = labels == component
        centres[component] = np.average(x[own], axis=0, weights=weight[own])
    nearest = np.min([((x - centres[component]) ** 2).sum(axis=1) for component in seen], axis=0)
    for component in np.setdiff1d(np.arange(k), seen):
        share = nearest * weight
        row = rng.choice(len(x), p=share / share.sum() if share.sum() > 0 else weight / weight.sum())
        centres[component] = x[row]
        nearest = np.minimum(nearest, ((x - x[row]) ** 2).sum(axis=1))
    return centres


def _array(name: str, value: Any, shape: tuple[int, ...]) -> Floats | None:
    if value is None:
        return None
    array = np.asarray(value, np.float64)
    if array.shape != shape:
        raise InvalidInputError(f"{name} must have shape {shape}, got {array.shape}; it depends on covariance_type")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} must hold finite numbers, got {array[~np.isfinite(array)][0]}")
    return array


def _check_precisions(precisions: Floats, covariance_type: str) -> None:
    if covariance_type in ("diag", "spherical"):
        if not (precisions > 0).all():
            raise InvalidInputError(f"precisions_init must be positive, got {precisions.min()}")
        return
    for matrix in precisions if precisions.ndim == 3 else precisions[None]:
        if not np.allclose(matrix, matrix.T) or not (lowest := np.linalg.eigvalsh(matrix)[0]) > 0:
            found = (
                "a matrix that is not symmetric" if not np.allclose(matrix, matrix.T) else f"eigenvalue {lowest:.3g}"
            )
            raise InvalidInputError(f"precisions_init must be symmetric and positive definite, got {found}")
