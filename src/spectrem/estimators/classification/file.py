"""A fitted MaxEntClassifier as a file of JSON and arrays."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.declare import check_parameters
from spectrem.estimators.storage import (
    damage_named,
    load_arrays,
    read_parameters,
    settings_of,
    take_saved_course,
)

T = TypeVar("T")

KIND, LAYOUT = "MaxEntClassifier", 1
MEMBERS = {"coef": ("f8", 2), "intercept": ("f8", 1)}


def content_of(classifier: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of a file: weights, classes, the course of training, parameters that JSON can hold."""
    settings = {
        **settings_of(classifier),
        "classes": classifier.classes_.tolist(),
        "gamma": classifier.gamma_,
        "features": vars(classifier).get("feature_names_in_", np.zeros(0)).tolist(),
        "n_features_in": classifier.n_features_in_,
    }
    return settings, {"coef": classifier.coef_, "intercept": classifier.intercept_}


def load(classifier: T, path: str | os.PathLike[str]) -> T:
    """Give a new classifier what `content_of` gave.

    Raises
    ------
    InvalidInputError
        If the file is missing or damaged, or not that of a classifier.
    """
    settings, arrays = load_arrays(path, KIND, LAYOUT, MEMBERS)
    with damage_named(path, KIND):
        restore(classifier, settings, arrays)
    return classifier


def restore(found: Any, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Fill a new classifier with what `content_of` gave; an error that `damage_named` names if it does not fit."""
    found.set_params(**read_parameters(settings))
    check_parameters(found)
    coef, intercept, classes = arrays["coef"], arrays["intercept"], np.array(settings["classes"])
    n_rows = 1 if len(classes) == 2 else len(classes)
    if coef.shape[:-1] != (n_rows,) or intercept.shape != (n_rows,):
        raise ValueError(f"{len(classes)} classes do not fit weights of shape {coef.shape}")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("weights must be finite")
    names, n_features = settings["features"], int(settings["n_features_in"])
    if len(names) not in (0, n_features) or coef.shape[1] > n_features:
        raise ValueError("numbers of features do not fit")
    take_saved_course(found, settings)
    found.classes_, found.coef_, found.intercept_ = classes, coef, intercept
    found.n_features_in_, found.gamma_ = n_features, float(settings["gamma"])
    if names:
        found.feature_names_in_ = np.array([str(name) for name in names], object)
