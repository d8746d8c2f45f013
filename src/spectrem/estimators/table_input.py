"""What classifiers read: labels some of which are missing, and columns for constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, assert_all_finite

from spectrem._arrays import Bools, Ints
from spectrem.constraints.cells import read_columns
from spectrem.data.frames import as_frame, as_series
from spectrem.estimators.labels import UNLABELLED, is_unlabelled
from spectrem.exceptions import InvalidInputError


def _label_cells(y: Any) -> Any:
    """Labels of rows, of objects where missing ones would change the type of the others."""
    if isinstance(y, np.ma.MaskedArray):
        return np.asarray(y.tolist(), object)
    if not isinstance(y, np.ndarray | list | tuple):
        frame, series = as_frame(y, "y"), as_series(y)
        if frame is not None:
            return np.stack([_label_cells(column) for column in frame.iter_columns()], axis=1)
        if series is not None:
            y = series.to_list() if series.null_count() else series.to_numpy()
        else:  # an array of Arrow or pandas
            y = getattr(y, "to_pylist", getattr(y, "tolist", lambda: y))()
    if not isinstance(y, list | tuple):
        return y.astype(np.str_) if getattr(y, "dtype", None) is not None and y.dtype.kind == "T" else y
    cells = np.asarray(y)  # of ragged lists, an error
    return np.asarray(y, object) if cells.dtype.kind == "f" else cells  # whole numbers beside NaN stay whole


def _unlabelled(cells: NDArray[Any]) -> Bools:
    """Which labels of an array are missing, shape (n_items,)."""
    if cells.dtype.kind == "O":
        return np.array([is_unlabelled(value) for value in cells.tolist()], np.bool_)
    if cells.dtype.kind == "U":  # what NumPy makes of -1 and NaN beside text
        return np.isin(cells, [str(UNLABELLED), "nan"])
    missing = np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), np.bool_)
    return missing if cells.dtype.kind in "bu" else missing | (cells == UNLABELLED)


def number_labels(y: Any) -> tuple[NDArray, Ints]:
    """Distinct labels in increasing order, and the number of each row's label, -1 where it has none.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Numbers, truth values, text or categories. Rows are unlabelled where it is -1, None, NaN or another missing
        value; in arrays of text where it is "-1" or "nan", which is what NumPy makes of -1 and NaN beside text.

    Returns
    -------
    labels : ndarray of shape (n_labels,)
    codes : ndarray of shape (n_rows,), int64

    Raises
    ------
    InvalidInputError
        If labels are text and numbers mixed.

    Examples
    --------
    >>> labels, codes = number_labels(["spam", -1, "ham"])
    >>> labels.tolist(), codes.tolist()
    (['ham', 'spam'], [1, -1, 0])
    """
    values = column_or_1d(_label_cells(y), warn=True)
    missing = _unlabelled(values)
    labelled = of_one_kind("y", values[~missing])
    if len(labelled):
        check_classification_targets(labelled)
    codes = np.full(len(values), UNLABELLED)
    distinct, codes[~missing] = np.unique(labelled, return_inverse=True)
    return distinct, codes


def choose_classes(labels: NDArray, classes: Any, n_rows: int) -> NDArray:
    """The classes that a user lists, among which the labels of rows must be, or else these labels."""
    if classes is None:
        if not len(labels):
            raise InvalidInputError(
                f"y must hold a label for some rows, got {n_rows} rows and none with a label; -1 marks those without; "
                "to learn from constraints alone, list the labels in classes"
            )
        return labels
    distinct = read_classes(classes)
    known = set(distinct.tolist())
    other = [label for label in labels.tolist() if label not in known]
    if other:
        raise InvalidInputError(f"y must hold labels of classes={distinct.tolist()!r}, got {other[0]!r}; add it")
    return distinct


def labels_or_none(estimator: Any, X: Any, y: Any) -> Any:
    """The labels of rows; if there are none but the ``classes`` of an estimator, as many missing ones as rows."""
    if y is not None:
        return y
    if estimator.classes is None:
        raise InvalidInputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; -1 marks missing labels"
        )
    return np.full(_num_samples(X), UNLABELLED)


def read_classes(classes: Any) -> NDArray:
    """Labels in increasing order."""
    if isinstance(classes, str) or not hasattr(classes, "__len__") or not len(classes):
        raise InvalidInputError(f"classes must list the labels that there are, got {classes!r}; write ['ham', 'spam']")
    values = column_or_1d(_label_cells(classes), warn=True)
    missing = _unlabelled(values)
    if missing.any():
        raise InvalidInputError(
            f"classes must hold labels, got {values[missing].tolist()[0]!r}, which marks rows without one; leave it out"
        )
    distinct = np.unique(of_one_kind("classes", values))
    if len(distinct) < len(values):
        raise InvalidInputError(f"classes must be distinct, got {list(classes)!r}; list every label once")
    return distinct


def of_one_kind(name: str, labels: NDArray) -> NDArray:
    """Labels of an array of objects as one of text or of finite numbers."""
    if labels.dtype.kind == "O":
        texts = sum(isinstance(value, str) for value in labels.tolist())
        if 0 < texts < len(labels):
            raise InvalidInputError(
                f"{name} must hold labels of one kind, got {texts} that are text and {len(labels) - texts} that are "
                "not; write None or -1 for no label and convert the others to text"
            )
        labels = np.array(labels.tolist())
    assert_all_finite(labels, input_name="y")
    return labels


def split_columns(X: Any, columns: Any) -> tuple[Any, dict[str, Any]]:
    """X without the columns that only constraints read, and those columns.

    Parameters
    ----------
    X : frame, array or sparse matrix
    columns : sequence of names, or mapping of name -> name or position in X, or None
        Negative positions count from the last column.

    Raises
    ------
    InvalidInputError
        If X has no such column.

    Examples
    --------
    >>> import numpy as np
    >>> split_columns(np.array([[7.0, 1.0], [8.0, 2.0]]), {"document": 0})
    (array([[1.],
           [2.]]), {'document': array([7., 8.])})
    """
    if columns is None:
        return X, {}
    places = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    frame = as_frame(X, "X")
    table: Any = X if frame is not None or sp.issparse(X) else np.asarray(X)
    known: list[Any] = frame.columns if frame is not None else list(range(table.shape[1] if table.ndim == 2 else 0))
    if frame is None:
        places = {name: _from_the_end(place, len(known)) for name, place in places.items()}
    for name, place in places.items():
        if place not in known:
            listed = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
            raise InvalidInputError(
                f"columns must be in X, got {place!r} for {name!r}, and X has {listed}; for an array map names to "
                'positions, as in {"document": 0}'
            )
    rest = [place for place in known if place not in set(places.values())]
    if frame is not None:
        series = dict(zip(known, frame.iter_columns(), strict=True))
        others = frame[:, [known.index(place) for place in rest]]
        return others.to_native(), {name: series[place] for name, place in places.items()}
    if sp.issparse(X):
        columnwise: Any = table.tocsc()
        chosen = {name: columnwise[:, [place]].toarray().ravel() for name, place in places.items()}
        return columnwise[:, rest].tocsr(), chosen
    return table[:, rest], {name: table[:, place] for name, place in places.items()}


def _from_the_end(place: Any, n: int) -> Any:
    negative = isinstance(place, int | np.integer) and not isinstance(place, bool) and -n <= place < 0
    return place + n if negative else place


def row_columns(given: Sequence[Any], n_rows: int, estimator: str) -> dict[str, NDArray]:
    """A user's columns for constraints as arrays of shape (n_rows,).

    Parameters
    ----------
    given : sequence of mappings or frames or None
        Later ones stand in for earlier ones of the same name.
    n_rows : int
    estimator : str
        The class that errors speak of.

    Raises
    ------
    InvalidInputError
        If a column has another length, or the name of one that there is anyway.
    """
    hint = (
        "give one value for each; where rows are chosen by cross-validation, put the columns into X and name them "
        f"in {estimator}(columns=...)"
    )
    found = {}
    for columns in given:
        own = read_columns(columns, {"rows": n_rows}, taken=("row", "label", "labelled"), hint=hint)
        found.update({name: np.asarray(own[name]) for name in own})
    return found
