"""A fitted MaxEntClassifier as a file of JSON and arrays."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import numpy as np

from spectrem.estimators.declare import check_parameters
from spectrem.estimators.storage import (
    damage_named,
    load_arrays,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
)

T = TypeVar("T")

_KIND, _LAYOUT = "MaxEntClassifier", 1
_MEMBERS = {"coef": ("f8", 2), "intercept": ("f8", 1)}


def save(classifier: Any, path: str | os.PathLike[str]) -> None:
    """Write weights, classes, the course of training, and the parameters that JSON can hold."""
    settings = {
        **settings_of(classifier),
        "classes": classifier.classes_.tolist(),
        "gamma": classifier.gamma_,
        "features": vars(classifier).get("feature_names_in_", np.zeros(0)).tolist(),
        "n_features_in": classifier.n_features_in_,
    }
    save_arrays(path, _KIND, _LAYOUT, settings, {"coef": classifier.coef_, "intercept": classifier.intercept_})


def load(classifier: T, path: str | os.PathLike[str]) -> T:
    """Give a new classifier what `save` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing or damaged, or not that of a classifier.
    """
    settings, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    found: Any = classifier
    with damage_named(path, _KIND):
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
    return classifier
