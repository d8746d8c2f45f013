"""A fitted RelationExtractor as a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.data import FeatureIndex
from spectrem.estimators.extraction.guide import Guide, Names, n_pair_features
from spectrem.estimators.extraction.input import Indexes
from spectrem.estimators.extraction.parameters import check_settings
from spectrem.estimators.extraction.training import make_model
from spectrem.estimators.storage import TEXT, Codec, Member, finite, pack_names, unpack_names


def _write(extractor: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    guide = extractor.guide_
    arrays = {key: pack_names(index.names) for key, index in extractor.indexes_._asdict().items()}
    arrays["theta"] = extractor.theta_
    if guide is not None:
        arrays |= {"guide": guide.theta, "contexts": guide.contexts}
        if guide.pairs is not None:
            arrays["guide_pairs"] = guide.pairs
    bonus = 0.0 if guide is None else guide.bonus
    return {"types": extractor.types_, "relations": extractor.relations_, "bonus": bonus}, arrays


def _read(extractor: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    names = Names(*(tuple(map(str, values[key])) for key in ("types", "relations")))
    indexes = Indexes(*(FeatureIndex(unpack_names(arrays[key], key)) for key in ("mention", "pair")))
    pairs, bonus = arrays.get("guide_pairs"), float(values.get("bonus", 0.0))
    if not np.isfinite(bonus):
        raise ValueError("bonus is not finite")
    guide = Guide(arrays["guide"], arrays["contexts"], pairs, bonus) if "guide" in arrays else None
    contexts = np.zeros(0, np.int64) if guide is None else guide.contexts
    if len(contexts) and not 0 <= contexts.min() <= contexts.max() < len(indexes.pair):
        raise ValueError("contexts are not features of pairs")
    n_typed = n_pair_features(indexes, names, contexts, related=False)
    n_pair = n_pair_features(indexes, names, contexts, related=pairs is not None)
    model = make_model(extractor, names, len(indexes.mention), n_pair)
    first = make_model(extractor, names, len(indexes.mention), n_typed).members
    sizes = {"theta": model.n_weights, "guide": first["mention"].n_weights, "guide_pairs": first["pair"].n_weights}
    CODEC.check_arrays(arrays, {key: (size,) for key, size in sizes.items() if key in arrays})
    extractor.indexes_, extractor.guide_, extractor.names_ = indexes, guide, names
    extractor.types_, extractor.relations_ = names
    extractor.model_, extractor.theta_ = model, arrays["theta"]


CODEC = Codec(
    kind="RelationExtractor",
    layout=1,
    members={
        **dict.fromkeys(("mention", "pair"), TEXT),
        **dict.fromkeys(("theta", "guide", "guide_pairs"), Member("f8", 1, finite)),
        "contexts": Member("i8", 1),
    },
    write=_write,
    read=_read,
    check=check_settings,
)
