"""What is known of the label of every row: a label, nothing, a set of labels, or a distribution."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats
from spectrem.constraints.cells import is_missing
from spectrem.data.frames import as_frame
from spectrem.estimators.table_input import UNLABELLED, read_classes, read_labels
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Labels

# Probabilities of a row may miss 1 by this, and are then divided by their sum.
_SUM_TOLERANCE = 1e-6


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


def read_targets(y: Any, classes: Any = None) -> Targets:
    """Read the labels that a classifier is trained on.

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
        If a row has no possible label, a label that is not in ``classes``, or numbers that are no distribution.

    Examples
    --------
    >>> targets = read_targets(["spam", -1, {"spam", "ham"}, {"ham": 0.25, "eggs": 0.75}])
    >>> targets.classes.tolist(), targets.known.tolist()
    (['eggs', 'ham', 'spam'], [True, False, False, True])
    >>> targets.allowed.tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.75, 0.25, 0.0]]
    """
    table = _as_table(y)
    if table is not None:
        return _read_table(*table, classes)
    rows = list(y) if isinstance(y, list | tuple) else np.asarray(y).tolist() if _holds_objects(y) else None
    if rows is None or not any(_is_collection(value) for value in rows):
        distinct, codes = read_labels(y, classes, "; to learn from constraints alone, list the labels in classes")
        known = codes >= 0
        allowed = np.ones((len(codes), len(distinct)))
        allowed[known] = 0.0
        allowed[known, codes[known]] = 1.0
        return Targets(distinct, allowed, known)
    return _read_rows(rows, classes)


def _holds_objects(y: Any) -> bool:
    return np.asarray(y).dtype.kind == "O" if hasattr(y, "__array__") or hasattr(y, "dtype") else False


def _is_collection(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


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


def _read_table(table: Floats, names: Any, classes: Any) -> Targets:
    k = table.shape[1]
    labels = np.asarray(names if classes is None and names is not None else range(k) if classes is None else classes)
    if len(labels) != k:
        raise InvalidInputError(
            f"y must have a column for each of the {len(labels)} classes, got {k}; give the classes in their order"
        )
    read_classes(labels)  # distinct, of one kind
    missing: Bools = np.asarray(np.isnan(table).all(axis=1))
    bad = ~missing & ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1) <= _SUM_TOLERANCE))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"y must hold a distribution in every row, numbers of at least 0 that sum to 1, or NaN throughout; got "
            f"{table[row].tolist()!s:.200} in row {row}; divide it by its sum"
        )
    order = np.argsort(labels, kind="stable")
    allowed = np.ones_like(table)
    allowed[~missing] = table[~missing] / table[~missing].sum(axis=1, keepdims=True)
    return Targets(labels[order], np.ascontiguousarray(allowed[:, order]), ~missing)


def _read_rows(rows: list[Any], classes: Any) -> Targets:
    """Rows of which some are collections: sets of labels, or mappings of labels to probabilities."""
    given = [_as_mapping(value, row) for row, value in enumerate(rows)]
    listed = sorted_labels({label for own in given if own is not None for label in own})
    if classes is None:
        if not listed:
            raise InvalidInputError(f"y must hold a label for some rows, got {len(rows)} rows and none with a label")
        distinct = np.array(listed)
    else:
        distinct = read_classes(classes)
    place = {label: k for k, label in enumerate(distinct.tolist())}
    other = [label for label in listed if label not in place]
    if other:
        raise InvalidInputError(f"y must hold labels of classes={distinct.tolist()!r}, got {other[0]!r}; add it")
    allowed, known = np.ones((len(rows), len(distinct))), np.zeros(len(rows), np.bool_)
    for row, own in enumerate(given):
        if own is not None:
            allowed[row] = 0.0
            for label, share in own.items():
                allowed[row, place[label]] = share
            known[row] = len(own) == 1 or isinstance(rows[row], Mapping)
    return Targets(distinct, allowed, known)


def _as_mapping(value: Any, row: int) -> dict[Any, float] | None:
    """The labels of a row with 1, or with their probabilities; None where nothing is known."""
    if not _is_collection(value):
        missing = is_missing(value) or value == (str(UNLABELLED) if isinstance(value, str) else UNLABELLED)
        return None if missing else {_plain(value): 1.0}
    if not len(value):
        raise InvalidInputError(f"y must allow some label in every row, got {value!r} in row {row}; None allows all")
    if not isinstance(value, Mapping):
        return {_plain(label): 1.0 for label in value}
    shares = {_plain(label): share for label, share in value.items()}
    try:
        numbers = np.array(list(shares.values()), np.float64)
    except (TypeError, ValueError):
        numbers = np.full(1, np.nan)
    if not ((numbers >= 0).all() and abs(numbers.sum() - 1) <= _SUM_TOLERANCE):
        raise InvalidInputError(
            f"y must hold a distribution where it has a mapping, numbers of at least 0 that sum to 1; got "
            f"{quoted(value)} in row {row}; divide them by their sum"
        )
    return dict(zip(shares, (numbers / numbers.sum()).tolist(), strict=True))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def sorted_labels(labels: set[Any]) -> list[Any]:
    """Labels in increasing order.

    Raises
    ------
    InvalidInputError
        If some are text and some are not.
    """
    try:
        return sorted(labels)
    except TypeError:
        raise InvalidInputError(
            f"y must hold labels of one kind, got {quoted(sorted(labels, key=repr))}; convert all to text"
        ) from None
