"""Shares of the labels among unlabelled rows: what training expects, and what the classifier predicts."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.estimators.selftraining.model import Sample
from spectrem.exceptions import warn

SHOULD_HAVE = 0.15
"""A label with at least this expected share of the rows is missed if it is hardly ever predicted ..."""

HARDLY = 0.1
"""... which is less than this part of its expected share."""

_SHOWN = 20


def tell_shares(sample: Sample, posteriors: Floats, predicted: Ints) -> tuple[str, ...]:
    """A note of the shares of all labels, or of those that differ most; none if every row has a label.

    Parameters
    ----------
    sample : Sample
    posteriors : ndarray of shape (n_rows, n_classes)
        Labels that the last classifier was trained on.
    predicted : ndarray of shape (n_rows,)
        Numbers of the labels that it predicts.

    Warns
    -----
    UserWarning
        If a label that should have many rows is hardly ever predicted.
    """
    weights = np.where(sample.labelled, 0.0, sample.weights)
    total, k = float(weights.sum()), len(sample.classes)
    if total <= 0:
        return ()
    expected = weights @ posteriors / total
    found = np.bincount(predicted, weights, k) / total
    missed = np.flatnonzero((expected >= SHOULD_HAVE - 1e-6) & (found < HARDLY * expected))
    classes = sample.classes.tolist()
    if len(missed):
        listed = ", ".join(f"{classes[c]!r} {expected[c]:.1%} (predicted: {found[c]:.1%})" for c in missed[:_SHOWN])
        warn(
            f"the classifier predicts labels hardly ever that should have many of the unlabelled rows: {listed}; "
            "predict takes the most probable label of each row alone. Read transduction_, or put the constraints on "
            "predict_proba by spectrem.project(...).decide(), or try another estimator",
        )
    chosen = np.sort(np.argsort(-np.abs(expected - found), kind="stable")[:_SHOWN])
    shares = "; ".join(f"{classes[c]}: {expected[c]:.1%}, {found[c]:.1%}" for c in chosen)
    some = f" ({len(chosen)} of {k} labels, those that differ most)" if len(chosen) < k else ""
    return (f"shares of the unlabelled rows, expected and predicted{some}: {shares}",)
