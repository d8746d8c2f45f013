"""The methods that the classifier inside a SelfTrainer must have, and its probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils.validation import has_fit_parameter

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError

LEAST_PROBABILITY = 1e-10
"""Classifiers say 0 where they mean rare; such a label stays possible, at a price of 23 nats."""


def check_classifier(estimator: Any, soft_targets: bool) -> None:
    """Raise `InvalidInputError` unless self-training can use a classifier."""
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"estimator must be a scikit-learn classifier, got {estimator!r}; try LogisticRegression()"
        )
    if not hasattr(estimator, "predict_proba"):
        raise InvalidInputError(
            f"estimator must have predict_proba, got {name}, which has none; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or try LogisticRegression()"
        )
    if not soft_targets and not weight_names(estimator):
        whose = (
            f"whose last step is {type(estimator.steps[-1][1]).__name__}, which"
            if hasattr(estimator, "steps")
            else "which"
        )
        raise InvalidInputError(
            f"estimator must take sample_weight in fit, got {name}, {whose} does not; choose another, or, if its fit "
            "takes an array of probabilities as y, set soft_targets=True"
        )


def weight_names(estimator: Any) -> tuple[str, ...]:
    """Parameters of ``fit`` that take weights of rows: ``sample_weight``, or those of the steps of a pipeline.

    Empty where the last step of a pipeline, the classifier, takes none.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_names(make_pipeline(StandardScaler(), LogisticRegression()))
    ('standardscaler__sample_weight', 'logisticregression__sample_weight')
    """
    if has_fit_parameter(estimator, "sample_weight"):
        return ("sample_weight",)
    steps = [(name, step) for name, step in getattr(estimator, "steps", ()) if hasattr(step, "fit")]
    if not steps or not weight_names(steps[-1][1]):
        return ()
    if get_config()["enable_metadata_routing"]:
        return ("sample_weight",)  # the pipeline passes it on to the steps that request it
    return tuple(f"{name}__{own}" for name, step in steps for own in weight_names(step))


def class_probabilities(classifier: Any, X: Any, classes: NDArray) -> NDArray:
    """The probabilities of ``predict_proba``, with zeros for the classes that the classifier was not trained on."""
    table, trained = np.asarray(classifier.predict_proba(X)), getattr(classifier, "classes_", None)
    if trained is None or table.ndim != 2 or table.shape[1] != len(trained) or len(trained) >= len(classes):
        return table
    whole = np.zeros((len(table), len(classes)), table.dtype)
    whole[:, np.searchsorted(classes, trained)] = table
    return whole


def log_probabilities(classifier: Any, X: Any, classes: NDArray) -> Floats:
    """log p(label | x), shape (n_rows, n_classes), nats; probabilities below 1e-10 count as that.

    Raises
    ------
    InvalidInputError
        If ``predict_proba`` gives another shape, or numbers that are not probabilities.
    """
    table, n_classes = class_probabilities(classifier, X, classes).astype(np.float64), len(classes)
    if table.ndim != 2 or table.shape[1] != n_classes or not ((table >= 0) & (table <= 1 + 1e-6)).all():
        raise InvalidInputError(
            f"estimator.predict_proba must give probabilities of the {n_classes} classes, got shape {table.shape} "
            f"with values from {table.min(initial=np.inf):g} to {table.max(initial=-np.inf):g}; try another classifier"
        )
    return np.log(np.maximum(table, LEAST_PROBABILITY))
