"""A fitted RelationExtractor as a file."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from spectrem.data import FeatureIndex
from spectrem.estimators.extraction.guide import Guide, Names, n_pair_features
from spectrem.estimators.extraction.input import Indexes
from spectrem.estimators.extraction.parameters import check_settings
from spectrem.estimators.extraction.training import make_model
from spectrem.estimators.storage import (
    damage_named,
    load_arrays,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
)
from spectrem.learning.schedule import check_gamma

_KIND, _LAYOUT = "RelationExtractor", 1
_MEMBERS = {
    **dict.fromkeys(("mention", "pair"), ("u1", 1)),
    **dict.fromkeys(("theta", "guide", "guide_pairs"), ("f8", 1)),
    "contexts": ("i8", 1),
}


def save(extractor: Any, path: str | os.PathLike[str]) -> None:
    """Write names of labels and features, weights, and the settings that JSON can hold."""
    names = {
        key: np.frombuffer(json.dumps(index.names).encode(), np.uint8)
        for key, index in extractor.indexes_._asdict().items()
    }
    guide = extractor.guide_
    given = {} if guide is None else {"guide": guide.theta, "contexts": guide.contexts}
    if guide is not None and guide.pairs is not None:
        given["guide_pairs"] = guide.pairs
    header = {
        **settings_of(extractor),
        "types": extractor.types_,
        "relations": extractor.relations_,
        "gamma": extractor.gamma_,
        "bonus": 0.0 if guide is None else guide.bonus,
    }
    save_arrays(path, _KIND, _LAYOUT, header, {**names, **given, "theta": extractor.theta_})


def load(extractor: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new extractor with what `save` wrote, and return it."""
    header, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    with damage_named(path, _KIND):
        extractor.set_params(**read_parameters(header))
        check_settings(extractor)
        names = Names(*(tuple(map(str, header[key])) for key in ("types", "relations")))
        indexes = Indexes(*(FeatureIndex(tuple(json.loads(arrays[key].tobytes()))) for key in ("mention", "pair")))
        pairs = arrays.get("guide_pairs")
        bonus = float(header.get("bonus", 0.0))
        if not np.isfinite(bonus):
            raise ValueError("bonus is not finite")
        guide = Guide(arrays["guide"], arrays["contexts"], pairs, bonus) if "guide" in arrays else None
        contexts = np.zeros(0, np.int64) if guide is None else guide.contexts
        if len(contexts) and not 0 <= contexts.min() <= contexts.max() < len(indexes.pair):
            raise ValueError("contexts are not features of pairs")
        n_typed = n_pair_features(indexes, names, contexts, related=False)
        n_pair = n_pair_features(indexes, names, contexts, related=pairs is not None)
        model, theta = make_model(extractor, names, len(indexes.mention), n_pair), arrays["theta"]
        first = make_model(extractor, names, len(indexes.mention), n_typed).members
        sizes = {
            "theta": model.n_weights,
            "guide": first["mention"].n_weights,
            "guide_pairs": first["pair"].n_weights,
        }
        for key, size in sizes.items():
            if key in arrays and (arrays[key].shape != (size,) or not np.isfinite(arrays[key]).all()):
                raise ValueError(f"{key} does not fit the names of features and labels")
        gamma = float(header["gamma"])
        check_gamma(gamma)
        take_saved_course(extractor, header)
    extractor.indexes_, extractor.guide_, extractor.names_ = indexes, guide, names
    extractor.types_, extractor.relations_ = names
    extractor.model_, extractor.theta_, extractor.gamma_ = model, theta, gamma
    return extractor
