"""A fitted CRFTagger as a file."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.data.features import FeatureIndex
from spectrem.estimators.crf.pairs import PairModel
from spectrem.estimators.crf.parameters import check_settings
from spectrem.estimators.crf.training import model_of, pairs_of
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import (
    damage_named,
    load_arrays,
    read_parameters,
    settings_of,
    take_saved_course,
)
from spectrem.estimators.tagging.text import check_tag
from spectrem.learning.schedule import check_gamma
from spectrem.models.loglinear import Support

KIND, LAYOUT = "CRFTagger", 1
MEMBERS = {
    **{"features": ("u1", 1), "theta": ("f8", 1), "transitions": ("i8", 1)},
    **{"pair_features": ("i4", 1), "pair_tags": ("i4", 1), "edge_features": ("i4", 1), "edges": ("i4", 1)},
}
_APART = ("tags", *NOT_SAVED)


def content_of(tagger: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a file: tags, features, pairs with their weights, parameters that JSON can hold."""
    model = tagger.model_
    arrays: dict[str, NDArray[Any]] = {"theta": tagger.theta_}
    if tagger.features_ is not None:
        arrays["features"] = np.frombuffer(json.dumps(tagger.features_.names).encode(), np.uint8)
    if model.transitions is not None:
        arrays["transitions"] = model.transitions
    if model.support.indptr is not None:
        pairs = pairs_of(model.support)
        arrays |= {name: own.astype(np.int32) for name, own in zip(("pair_features", "pair_tags"), pairs, strict=True)}
    if isinstance(model, PairModel) and model.edges is not None:
        pairs = pairs_of(model.edges)
        arrays |= {name: own.astype(np.int32) for name, own in zip(("edge_features", "edges"), pairs, strict=True)}
    header = {
        **settings_of(tagger, _APART),
        "tags": list(tagger.tags_),
        "n_features": tagger.n_features_in_,
        "gamma": tagger.gamma_,
        "n_steps": tagger.n_steps_,
    }
    return header, arrays


def load(tagger: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new tagger with what `content_of` gave, and return it."""
    header, arrays = load_arrays(path, KIND, LAYOUT, MEMBERS)
    with damage_named(path, KIND):
        restore(tagger, header, arrays)
    return tagger


def restore(tagger: Any, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Fill a new tagger with what `content_of` gave; an error that `damage_named` names if it does not fit."""
    tagger.set_params(**read_parameters(header))
    check_settings(tagger)
    tags = tuple(check_tag(tag, "tags") for tag in header["tags"])
    if len(set(tags)) < len(tags) or not tags:
        raise ValueError("tags must be distinct")
    n, n_features = len(tags), int(header["n_features"])
    index = None
    if "features" in arrays:
        names = json.loads(arrays["features"].tobytes())
        if not all(isinstance(name, str) for name in names) or len(names) != n_features:
            raise ValueError("features do not fit their number")
        index = FeatureIndex(tuple(names))
    support = pairs_in(arrays, ("pair_features", "pair_tags"), n_features, n) or Support(n_features, n)
    edges = pairs_in(arrays, ("edge_features", "edges"), n_features, n * n)
    cells = arrays.get("transitions")
    if cells is not None and len(cells) and ((np.diff(cells) <= 0).any() or cells[0] < 0 or cells[-1] >= n * n):
        raise ValueError("transitions do not fit the tags")
    model = model_of(tagger, tags, support, cells, edges)
    theta = arrays["theta"]
    if theta.shape != (model.n_weights,) or not np.isfinite(theta).all():
        raise ValueError("weights do not fit their pairs")
    gamma = float(header["gamma"])
    check_gamma(gamma)
    n_steps = int(header["n_steps"])
    tagger.set_params(tags=list(tags))
    take_saved_course(tagger, header)
    tagger.features_, tagger.n_features_in_, tagger.n_steps_ = index, n_features, n_steps
    tagger.tags_, tagger.model_, tagger.theta_, tagger.gamma_ = tags, model, theta, gamma


def pairs_in(arrays: dict[str, NDArray[Any]], names: tuple[str, str], n_features: int, n: int) -> Support | None:
    """The pairs that two arrays list; None without them."""
    if names[0] not in arrays:
        return None
    rows, labels = (arrays[name].astype(np.int64) for name in names)
    if len(rows) != len(labels) or (np.diff(rows * n + labels) <= 0).any():
        raise ValueError("pairs of features and tags do not increase")
    return Support.pairs(rows, labels, n_features, n)
