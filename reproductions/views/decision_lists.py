"""DL-CoTrain of [CollinsSinger1999]: lists of rules, one feature each, that label for each other by turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

STRENGTH = 0.95
"""Of a rule that is taken before the end, at least."""
SMOOTHING = 0.1
STEP, MOST = 5, 2_500
"""Rules of every class that a round adds, and how many there are in the end."""
_SEED = 0.9999


def cotrain(
    views: Sequence[Any], seeds: NDArray[np.int64], classes: NDArray[np.int64], test: Sequence[Any], most: int = MOST
) -> NDArray[np.int64]:
    """Classes of names, as numbers.

    Parameters
    ----------
    views : two sparse matrices of shape (n_names, n_features of the view)
    seeds, classes : ndarray of shape (n_rules,)
        Columns of the first view that are seed rules, and their classes from 0.
    test : two sparse matrices
        The names to label.
    most : int

    Examples
    --------
    The last two names have no seed, but one of them the context of the first, and both the same spelling:

    >>> spelling = sp.csr_matrix(np.repeat([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]], 9, axis=0))
    >>> context = sp.csr_matrix(np.repeat([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], 9, axis=0))
    >>> views = [spelling, context]
    >>> cotrain(views, np.array([0, 1]), np.array([0, 1]), [view[::9] for view in views]).tolist()
    [0, 1, 0, 0]
    """
    n_classes = int(classes.max()) + 1
    own = np.zeros((views[0].shape[1], n_classes))
    own[seeds, classes] = _SEED
    rules, context = own, np.zeros((views[1].shape[1], n_classes))
    for number in range(STEP, STEP * rounds(most) + 1, STEP):
        context = _best_rules(views[1], _apply(views[0], rules), n_classes, number)
        rules = np.maximum(_best_rules(views[0], _apply(views[1], context), n_classes, number), own)
    features = sp.hstack(views).tocsr()
    labels = _apply(features, np.vstack([rules, context]))
    final = np.maximum(_strengths(features, labels, n_classes), np.vstack([own, np.zeros_like(context)]))
    found = _apply(sp.hstack(test).tocsr(), final)
    return np.where(found >= 0, found, np.bincount(labels[labels >= 0], minlength=n_classes).argmax())


def rounds(most: int) -> int:
    """How many there are until every class has so many rules."""
    return -(-most // STEP)


def _strengths(features: Any, labels: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """How sure a feature is of each class, shape (n_features, n_classes); 0 where it occurs with no labelled name."""
    one_hot = np.eye(n_classes)[np.maximum(labels, 0)] * (labels >= 0)[:, None]
    counts = np.asarray(features.T @ one_hot)
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, (counts + SMOOTHING) / (total + n_classes * SMOOTHING), 0.0)


def _best_rules(features: Any, labels: NDArray[np.int64], n_classes: int, number: int) -> NDArray[np.float64]:
    """The strengths of the most frequent of the strong rules of every class, 0 for all others."""
    found = _strengths(features, labels, n_classes)
    frequency = np.asarray(features.T @ (labels >= 0).astype(np.float64))
    kept = np.zeros_like(found)
    for k in range(n_classes):
        strong = np.flatnonzero(found[:, k] >= STRENGTH)
        best = strong[np.argsort(-frequency[strong], kind="stable")[:number]]
        kept[best, k] = found[best, k]
    return kept


def _apply(names: Any, rules: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class of the strongest rule that every name has, -1 where it has none, shape (n_names,)."""
    strongest = np.column_stack([(names @ sp.diags(rule)).tocsr().max(axis=1).toarray()[:, 0] for rule in rules.T])
    return np.where(strongest.max(axis=1) > 0, strongest.argmax(axis=1), -1)
