"""Parameters from given posteriors, to start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import iadd

import numpy as np

from spectrem._arrays import Floats
from spectrem.models.mixture.model import NOTHING, MixtureModel
from spectrem.models.mixture.parameters import CovarianceType, MixtureParameters
from spectrem.models.mixture.shards import MixtureShard


def from_posteriors(model: MixtureModel, shards: Sequence[MixtureShard], posteriors: Floats) -> MixtureParameters:
    """The M-step's parameters for posteriors of all rows, within the model's bounds; fixed blocks are found as others.

    Means come first, by a pass of their own, so that squares are taken about them.

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
    shares = [posteriors[shard.rows] * shard.weights[:, None] for shard in shards]
    counts = sum((own.sum(axis=0) for own in shares), start=np.full(posteriors.shape[1], NOTHING))
    total = sum(own.T @ shard.x for own, shard in zip(shares, shards, strict=True))
    means = total / counts[:, None]
    unit = unit_covariances(model.covariance_type, *means.shape)
    about = MixtureParameters(model.covariance_type, counts / counts.sum(), means, unit, unit)
    if model.bounds is not None:
        model = replace(model, bounds=replace(model.bounds, fixed=frozenset()))
    stats = reduce(iadd, (model.moments(about, shard, own) for own, shard in zip(shares, shards, strict=True)))
    found = model.m_step(about, stats)
    return found if model.bounds is None else model.bounds.project(found)  # components without rows, too


def unit_covariances(kind: CovarianceType, k: int, d: int) -> Floats:
    """Covariances of unit Gaussians, their own inverses; a component without rows is left with one."""
    return {
        "full": np.broadcast_to(np.eye(d), (k, d, d)),
        "tied": np.eye(d),
        "diag": np.ones((k, d)),
        "spherical": np.ones(k),
    }[kind]
