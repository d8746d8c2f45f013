"""A fitted EdgeFactoredParser as a file: weights in single precision, with their places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.parser.parameters import check_settings
from spectrem.estimators.parser.relations import N_FEATURES, RelationModel, relation_model
from spectrem.estimators.parser.training import model_of
from spectrem.estimators.storage import Codec, check_shapes, pack_words, read_pairs, unpack_words, write_pairs
from spectrem.models.parsing import TokenAtoms


def _write(parser: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    forms = tuple(sorted(parser.atoms_.frequent))
    places = np.flatnonzero(parser.theta_)
    values = {"n_forms": len(forms), "coarse": parser.atoms_.coarse, "fine": parser.atoms_.fine}
    arrays: dict[str, NDArray[Any]] = {"forms": pack_words(forms), "places": places.astype(np.int32)}
    arrays["theta"] = parser.theta_[places].astype(np.float32)
    if parser.relations_ is not None:
        values["relations"] = list(parser.relations_.names)
        arrays |= write_pairs(parser.relations_.model.support, ("relation_features", "relations"))
        arrays["relation_theta"] = parser.relations_.theta
    return values, arrays


def _read(parser: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    coarse, fine = values["coarse"], values["fine"]
    if not (isinstance(coarse, bool) and isinstance(fine, bool)):
        raise ValueError("the tags are not said by truth values")
    atoms = TokenAtoms(frozenset(unpack_words(arrays["forms"], int(values["n_forms"]))), coarse, fine)
    model, places = model_of(parser, atoms), arrays["places"]
    check_shapes(arrays, {"theta": (len(places),)})
    if len(places) and ((np.diff(places) <= 0).any() or places[0] < 0 or places[-1] >= model.n_weights):
        raise ValueError("places do not fit the table")
    parser.theta_ = np.zeros(model.n_weights, np.float32)
    parser.theta_[places] = arrays["theta"]
    parser.atoms_, parser.model_, parser.relations_ = atoms, model, _relations(parser, values, arrays)


def _relations(parser: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> RelationModel | None:
    """The classifier of arcs in a file, if there is one."""
    names = values.get("relations")
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names) or not names:
        raise ValueError("relations are not texts")
    support = read_pairs(arrays, ("relation_features", "relations"), N_FEATURES, len(names))
    if support is None:
        raise ValueError("weights of relations do not fit their pairs")
    check_shapes(arrays, {"relation_theta": (support.n_weights,)})
    return RelationModel(tuple(names), relation_model(names, support, parser.C), arrays["relation_theta"])


CODEC = Codec(
    kind="EdgeFactoredParser",
    layout=1,
    members={
        **{"forms": ("u1", 1), "places": ("i4", 1), "theta": ("f4", 1)},
        **{"relation_features": ("i4", 1), "relations": ("i4", 1), "relation_theta": ("f8", 1)},
    },
    write=_write,
    read=_read,
    check=check_settings,
)
