"""A fitted MaxEntClassifier as a file of JSON and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.storage import Codec, check_shapes, read_features, write_features


def _write(classifier: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {"classes": classifier.classes_.tolist(), **write_features(classifier)}
    return values, {"coef": classifier.coef_, "intercept": classifier.intercept_}


def _read(classifier: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    coef, intercept, classes = arrays["coef"], arrays["intercept"], np.array(values["classes"])
    n_rows = 1 if len(classes) == 2 else len(classes)
    check_shapes(arrays, {"coef": (n_rows, *coef.shape[1:]), "intercept": (n_rows,)})
    read_features(classifier, values, int(values["n_features_in"]))
    if coef.shape[1] > classifier.n_features_in_:
        raise ValueError("numbers of features do not fit")
    classifier.classes_, classifier.coef_, classifier.intercept_ = classes, coef, intercept


CODEC = Codec(
    kind="MaxEntClassifier",
    layout=1,
    members={"coef": ("f8", 2), "intercept": ("f8", 1)},
    write=_write,
    read=_read,
)
