"""A fitted EdgeFactoredParser as a file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.crf.file import pairs_in
from spectrem.estimators.crf.training import pairs_of
from spectrem.estimators.parser.parameters import check_settings
from spectrem.estimators.parser.relations import N_FEATURES, RelationModel, relation_model
from spectrem.estimators.parser.training import model_of
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import (
    damage_named,
    load_arrays,
    pack_words,
    read_parameters,
    settings_of,
    take_saved_course,
    unpack_words,
)
from spectrem.learning.schedule import check_gamma
from spectrem.models.parsing import TokenAtoms

KIND, LAYOUT = "EdgeFactoredParser", 1
MEMBERS = {
    **{"forms": ("u1", 1), "places": ("i4", 1), "theta": ("f4", 1)},
    **{"relation_features": ("i4", 1), "relations": ("i4", 1), "relation_theta": ("f8", 1)},
}


def content_of(parser: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a file: frequent forms, and the weights that are not 0 with their places."""
    forms = tuple(sorted(parser.atoms_.frequent))
    places = np.flatnonzero(parser.theta_)
    header = {
        **settings_of(parser, NOT_SAVED),
        "n_forms": len(forms),
        "coarse": parser.atoms_.coarse,
        "fine": parser.atoms_.fine,
        "gamma": parser.gamma_,
    }
    arrays: dict[str, NDArray[Any]] = {"forms": pack_words(forms), "places": places.astype(np.int32)}
    arrays["theta"] = parser.theta_[places].astype(np.float32)
    if parser.relations_ is not None:
        header["relations"] = list(parser.relations_.names)
        features, relations = pairs_of(parser.relations_.model.support)
        arrays |= {"relation_features": features.astype(np.int32), "relations": relations.astype(np.int32)}
        arrays["relation_theta"] = parser.relations_.theta
    return header, arrays


def load(parser: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new parser with what `content_of` gave, and return it."""
    header, arrays = load_arrays(path, KIND, LAYOUT, MEMBERS)
    with damage_named(path, KIND):
        parser.set_params(**read_parameters(header))
        check_settings(parser)
        coarse, fine = header["coarse"], header["fine"]
        if not (isinstance(coarse, bool) and isinstance(fine, bool)):
            raise ValueError("the tags are not said by truth values")
        atoms = TokenAtoms(frozenset(unpack_words(arrays["forms"], int(header["n_forms"]))), coarse, fine)
        model = model_of(parser, atoms)
        places, weights = arrays["places"], arrays["theta"]
        if len(places) != len(weights) or not np.isfinite(weights).all():
            raise ValueError("weights do not fit their places")
        if len(places) and ((np.diff(places) <= 0).any() or places[0] < 0 or places[-1] >= model.n_weights):
            raise ValueError("places do not fit the table")
        gamma = float(header["gamma"])
        check_gamma(gamma)
        take_saved_course(parser, header)
        theta = np.zeros(model.n_weights, np.float32)
        theta[places] = weights
        relations = _relations(parser, header, arrays)
        parser.atoms_, parser.model_, parser.theta_, parser.gamma_ = atoms, model, theta, gamma
        parser.relations_ = relations
    return parser


def _relations(parser: Any, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> RelationModel | None:
    """The classifier of arcs in a file, if there is one."""
    names = header.get("relations")
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names) or not names:
        raise ValueError("relations are not texts")
    support = pairs_in(arrays, ("relation_features", "relations"), N_FEATURES, len(names))
    theta = arrays["relation_theta"]
    if support is None or theta.shape != (support.n_weights,) or not np.isfinite(theta).all():
        raise ValueError("weights of relations do not fit their pairs")
    return RelationModel(tuple(names), relation_model(names, support, parser.C), theta)
