"""What classifiers read: labels some of which are missing, and columns for constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite

from spectrem._arrays import Bools, Ints
from spectrem.constraints.cells import is_missing
from spectrem.constraints.user_columns import read_columns
from spectrem.data.frames import as_frame
from spectrem.exceptions import InvalidInputError

UNLABELLED = -1


def read_labels(y: Any, classes: Any = None, hint: str = "") -> tuple[NDArray, Ints]:
    """Distinct labels in increasing order, and the number of each row's label, -1 where it has none.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Numbers, truth values, text or categories. Rows are unlabelled where it is -1, None, NaN or another missing
        value; in arrays of text where it is "-1" or "nan", which is what NumPy makes of -1 and NaN beside text.
    classes : sequence, optional
        All labels that there are; by default those in ``y``.
    hint : str
        The end of the error message if no row is labelled: what else to do.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_rows,), int64

    Raises
    ------
    InvalidInputError
        If no row is labelled and ``classes`` is not given, labels are text and numbers mixed, or not in ``classes``.

    Examples
    --------
    >>> classes, codes = read_labels(["spam", -1, "ham"])
    >>> classes.tolist(), codes.tolist()
    (['ham', 'spam'], [1, -1, 0])
    """
    values, unlabelled = _missing_labels(y)
    if unlabelled.all() and classes is None:
        raise InvalidInputError(
            f"y must hold a label for some rows, got {len(values)} rows and none with a label; -1 marks those "
            f"without{hint}"
        )
    labelled = _of_one_kind("y", values[~unlabelled])
    codes = np.full(len(values), UNLABELLED)
    if len(labelled):
        check_classification_targets(labelled)
    if classes is None:
        distinct, codes[~unlabelled] = np.unique(labelled, return_inverse=True)
        return distinct, codes
    distinct = read_classes(classes)
    if len(labelled):
        known = set(distinct.tolist())
        other = [value for value in np.unique(labelled).tolist() if value not in known]
        if other:
            raise InvalidInputError(f"y must hold labels of classes={distinct.tolist()!r}, got {other[0]!r}; add it")
        codes[~unlabelled] = np.searchsorted(distinct, labelled)
    return distinct, codes


def read_classes(classes: Any) -> NDArray:
    """Labels in increasing order."""
    if isinstance(classes, str) or not hasattr(classes, "__len__") or not len(classes):
        raise InvalidInputError(f"classes must list the labels that there are, got {classes!r}; write ['ham', 'spam']")
    values, missing = _missing_labels(classes)
    if missing.any():
        raise InvalidInputError(
            f"classes must hold labels, got {values[missing].tolist()[0]!r}, which marks rows without one; leave it out"
        )
    distinct = np.unique(_of_one_kind("classes", values))
    if len(distinct) < len(values):
        raise InvalidInputError(f"classes must be distinct, got {list(classes)!r}; list every label once")
    return distinct


def _of_one_kind(name: str, labels: NDArray) -> NDArray:
    """Labels of an array of objects as one of text or of numbers."""
    if labels.dtype.kind != "O":
        return labels
    texts = sum(isinstance(value, str) for value in labels.tolist())
    if 0 < texts < len(labels):
        raise InvalidInputError(
            f"{name} must hold labels of one kind, got {texts} that are text and {len(labels) - texts} that are not; "
            "write None or -1 for no label and convert the others to text"
        )
    return np.array(labels.tolist())


def _missing_labels(y: Any) -> tuple[NDArray, Bools]:
    if y is None:
        raise InvalidInputError(
            "SelfTrainer requires y to be passed, but the target y is None; -1 marks missing labels"
        )
    values = column_or_1d(y, warn=True)
    if values.dtype.kind == "O":
        return values, np.array([_marks_missing(value) for value in values.tolist()], np.bool_)
    if values.dtype.kind in "UT":
        return values.astype(np.str_), np.isin(values, [str(UNLABELLED), "nan"])
    unlabelled = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
    assert_all_finite(values[~unlabelled], input_name="y")
    return values, unlabelled if values.dtype.kind in "bu" else unlabelled | (values == UNLABELLED)


def _marks_missing(value: Any) -> bool:
    return is_missing(value) or bool(value == (str(UNLABELLED) if isinstance(value, str) else UNLABELLED))


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
