"""A fitted CRFTagger as a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.data.features import FeatureIndex
from spectrem.estimators.crf.pairs import PairModel
from spectrem.estimators.crf.parameters import check_settings
from spectrem.estimators.crf.training import model_of, pairs_of
from spectrem.estimators.storage import Codec, check_shapes, pack_names, unpack_names
from spectrem.estimators.tagging.text import check_tags
from spectrem.models.loglinear import Support


def _write(tagger: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    model = tagger.model_
    arrays: dict[str, NDArray[Any]] = {"theta": tagger.theta_}
    if tagger.features_ is not None:
        arrays["features"] = pack_names(tagger.features_.names)
    if model.transitions is not None:
        arrays["transitions"] = model.transitions
    if model.support.indptr is not None:
        pairs = pairs_of(model.support)
        arrays |= {name: own.astype(np.int32) for name, own in zip(("pair_features", "pair_tags"), pairs, strict=True)}
    if isinstance(model, PairModel) and model.edges is not None:
        pairs = pairs_of(model.edges)
        arrays |= {name: own.astype(np.int32) for name, own in zip(("edge_features", "edges"), pairs, strict=True)}
    return {"tags": list(tagger.tags_), "n_features": tagger.n_features_in_, "n_steps": tagger.n_steps_}, arrays


def _read(tagger: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    tags, n_features, index = check_tags(values["tags"]), int(values["n_features"]), None
    if "features" in arrays:
        names = unpack_names(arrays["features"], "features")
        if not all(isinstance(name, str) for name in names) or len(names) != n_features:
            raise ValueError("features do not fit their number")
        index = FeatureIndex(names)
    n = len(tags)
    support = pairs_in(arrays, ("pair_features", "pair_tags"), n_features, n) or Support(n_features, n)
    edges = pairs_in(arrays, ("edge_features", "edges"), n_features, n * n)
    cells = arrays.get("transitions")
    if cells is not None and len(cells) and ((np.diff(cells) <= 0).any() or cells[0] < 0 or cells[-1] >= n * n):
        raise ValueError("transitions do not fit the tags")
    model = model_of(tagger, tags, support, cells, edges)
    check_shapes(arrays, {"theta": (model.n_weights,)})
    tagger.set_params(tags=list(tags))
    tagger.features_, tagger.n_features_in_, tagger.n_steps_ = index, n_features, int(values["n_steps"])
    tagger.tags_, tagger.model_, tagger.theta_ = tags, model, arrays["theta"]


def pairs_in(arrays: dict[str, NDArray[Any]], names: tuple[str, str], n_features: int, n: int) -> Support | None:
    """The pairs that two arrays list; None without them."""
    if names[0] not in arrays:
        return None
    rows, labels = (arrays[name].astype(np.int64) for name in names)
    if len(rows) != len(labels) or (np.diff(rows * n + labels) <= 0).any():
        raise ValueError("pairs of features and tags do not increase")
    return Support.pairs(rows, labels, n_features, n)


CODEC = Codec(
    kind="CRFTagger",
    layout=1,
    members={
        **{"features": ("u1", 1), "theta": ("f8", 1), "transitions": ("i8", 1)},
        **{"pair_features": ("i4", 1), "pair_tags": ("i4", 1), "edge_features": ("i4", 1), "edges": ("i4", 1)},
    },
    write=_write,
    read=_read,
    apart=("tags",),
    check=check_settings,
)
