"""Where the EM of GaussianMixture starts: the same draws as scikit-learn's for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus

from spectrem._arrays import Floats, Ints
from spectrem.estimators.mixture_chunks import Chunks
from spectrem.estimators.mixture_settings import check_start
from spectrem.models.mixture import (
    MixtureModel,
    MixtureParameters,
    MixtureShard,
    from_covariances,
    from_posteriors,
    from_precisions,
)

RUNS = 10
"""Of k-means under must-links; one run is quick, since it counts chunks, and several seldom end in a bad optimum."""


def start_parameters(
    mixture: Any,
    model: MixtureModel,
    shards: Sequence[MixtureShard],
    x: Floats,
    weights: Floats | None,
    labels: Ints | None,
    rng: np.random.RandomState,
    chunks: Chunks | None = None,
) -> MixtureParameters:
    """Parameters from ``init_params``, with those given in their places, all within the model's bounds.

    Parameters
    ----------
    mixture : GaussianMixture
        Its settings.
    model, shards
        As for `run_em`.
    x : ndarray of shape (n_rows, n_features)
    weights : ndarray of shape (n_rows,), optional
    labels : ndarray of shape (n_rows,), optional
        Known components, -1 where unknown.
    rng : RandomState
    chunks : Chunks, optional
        Which rows must-links tie together.

    Raises
    ------
    InvalidInputError
        If given parameters do not fit the data, or a covariance is not positive definite.
    """
    given_weights, given_means, precisions = check_start(mixture, x.shape[1])
    if given_weights is not None and given_means is not None and precisions is not None:
        found = from_precisions(model.covariance_type, given_weights, given_means, precisions)
    else:
        found = from_posteriors(model, shards, start_posteriors(mixture, x, weights, labels, rng, chunks))
        proportions = found.weights if given_weights is None else given_weights
        means = found.means if given_means is None else given_means
        if precisions is not None:
            found = from_precisions(model.covariance_type, proportions, means, precisions)
        else:
            found = from_covariances(model.covariance_type, proportions, means, found.covariances)
    return found if model.bounds is None else model.bounds.project(found)


def start_posteriors(
    mixture: Any,
    x: Floats,
    weights: Floats | None,
    labels: Ints | None,
    rng: np.random.RandomState,
    chunks: Chunks | None = None,
) -> Floats:
    """Posteriors by ``init_params``, shape (n_rows, n_components); rows with known components are theirs."""
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
        _, rows = kmeans_plusplus(x, k, sample_weight=weights, random_state=rng)
        posteriors[rows, np.arange(k)] = 1.0
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
