"""What is known of the label of every row: a label, nothing, a set of labels, or a distribution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats
from spectrem.data.frames import as_frame
from spectrem.estimators.conventions import as_fitted, row_weights
from spectrem.estimators.labels import ROUNDING, Known, LabelReader, is_collection, plain_label
from spectrem.estimators.table_input import choose_classes, number_labels, of_one_kind, read_classes
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear import Labels


class Targets(NamedTuple):
    """What is known of the labels.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        In increasing order.
    allowed : ndarray of shape (n_rows, n_classes), float64
        0 where a row cannot have a label; of rows that are known the probability, of the others 1.
    known : ndarray of shape (n_rows,), bool
        Rows with a label or a distribution.
    """

    classes: NDArray
    allowed: Floats
    known: Bools

    @property
    def labels(self) -> Labels:
        """The same as lists."""
        row, label = np.nonzero(self.allowed)
        offsets = np.searchsorted(row, np.arange(len(self.allowed) + 1))
        return Labels(offsets.astype(np.int64), label.astype(np.int64), self.allowed[row, label])


def read_targets(y: Any, classes: Any = None, n_rows: int | None = None) -> Targets:
    """Read the labels that a classifier is trained on; if the number of rows is given, of two classes at least.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_classes)
        Of every row a label; a set, tuple or list of labels that it may have; a mapping of labels to probabilities; or
        -1, None, NaN or another missing value. Or a table of probabilities, whose rows of NaN are missing.
    classes : sequence, optional
        All labels that there are, of a table in the order of its columns; by default those in ``y``, or the names of
        the columns of a frame, or 0, 1, ...

    Raises
    ------
    InvalidInputError
        If a row has no possible label, a label that is not in ``classes``, or numbers that are no distribution, or
        there are more or fewer rows.

    Examples
    --------
    >>> targets = read_targets(["spam", -1, {"spam", "ham"}, {"ham": 0.25, "eggs": 0.75}])
    >>> targets.classes.tolist(), targets.known.tolist()
    (['eggs', 'ham', 'spam'], [True, False, False, True])
    >>> targets.allowed.tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.75, 0.25, 0.0]]
    """
    labels, known = _read_rows(y, classes)
    labels = choose_classes(labels, classes, len(known.kind))
    if n_rows is not None:
        _check_rows(known, n_rows)
        if len(labels) < 2:
            raise InvalidInputError(
                f"y must hold at least two classes, got one class, {labels.tolist()[0]!r}; list all in classes"
            )
    place = {label: k for k, label in enumerate(labels.tolist())}
    allowed = np.zeros((len(known.kinds) + 1, len(labels)))
    allowed[-1] = 1.0
    for k, (own, shares) in enumerate(known.kinds):
        allowed[k, [place[label] for label in own]] = 1.0 if shares is None else shares
    return Targets(labels, allowed[known.kind], known.certain)


def score_rows(classifier: Any, y: Any, predicted: NDArray, sample_weight: ArrayLike | None) -> float:
    """The share of the rows with a label, by weight, whose prediction is right; see `Known.score`.

    The columns of a table of probabilities are those of the classifier.
    """
    listed = as_fitted(classifier).classes
    _, known = _read_rows(y, classifier.classes_ if listed is None else listed)
    _check_rows(known, len(predicted))
    weights, classes = row_weights(sample_weight, len(predicted), "row of X"), classifier.classes_.tolist()
    return known.score(predicted.tolist(), weights, classes, "row")


def _check_rows(known: Known, n_rows: int) -> None:
    if len(known.kind) != n_rows:
        raise InvalidInputError(
            f"y must have one value per row of X, got {len(known.kind)} for {n_rows} rows; -1 marks missing labels "
            "(found input variables with inconsistent numbers of samples)"
        )


def _read_rows(y: Any, columns: Any) -> tuple[NDArray, Known]:
    """Labels in increasing order, and what is known of every row; ``columns`` name those of a table."""
    table = _as_table(y)
    if table is not None:
        return _read_table(*table, columns)
    rows = list(y) if isinstance(y, list | tuple) else np.asarray(y).tolist() if _holds_objects(y) else None
    if rows is None or not any(map(is_collection, rows)):
        labels, codes = number_labels(y)
        return labels, Known(codes, [((label,), None) for label in labels.tolist()])
    reader = LabelReader(plain_label, "label")
    kind = np.array(reader.read(rows, "row {}".format), np.int64)
    named = [label for own, _ in reader.kinds for label in own]
    return np.unique(of_one_kind("y", np.array(named, object))), Known(kind, reader.kinds)


def _holds_objects(y: Any) -> bool:
    return np.asarray(y).dtype.kind == "O" if hasattr(y, "__array__") or hasattr(y, "dtype") else False


def _as_table(y: Any) -> tuple[Floats, Any] | None:
    """Numbers of shape (n_rows, n_classes) and the names of their columns, if y is such a table."""
    if sp.issparse(y):
        sparse: Any = y
        return sparse.toarray().astype(np.float64), None
    frame = as_frame(y, "y") if hasattr(y, "columns") else None
    if frame is not None:
        return (frame.to_numpy().astype(np.float64), frame.columns) if len(frame.columns) > 1 else None
    lists = isinstance(y, list) and bool(y) and all(isinstance(row, list) for row in y)
    if lists and len({len(row) for row in y}) == 1 and all(isinstance(v, float) for row in y for v in row):
        return np.array(y), None
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1 and y.dtype.kind in "fiub":
        return y.astype(np.float64), None
    return None


def _read_table(table: Floats, names: Any, classes: Any) -> tuple[NDArray, Known]:
    k = table.shape[1]
    labels = np.asarray(names if classes is None and names is not None else range(k) if classes is None else classes)
    if len(labels) != k:
        raise InvalidInputError(
            f"y must have a column for each of the {len(labels)} classes, got {k}; give the classes in their order"
        )
    distinct = read_classes(labels)
    missing: Bools = np.asarray(np.isnan(table).all(axis=1))
    bad = ~missing & ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= ROUNDING))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"y must hold a distribution in every row, numbers of at least 0 that sum to 1, or NaN throughout; got "
            f"{table[row].tolist()!s:.200} in row {row}; divide it by its sum"
        )
    own, kind = tuple(labels.tolist()), np.full(len(table), -1)
    kind[~missing] = np.arange(int((~missing).sum()))
    shares = table[~missing] / table[~missing].sum(axis=1, keepdims=True)
    return distinct, Known(kind, [(own, row) for row in shares])
