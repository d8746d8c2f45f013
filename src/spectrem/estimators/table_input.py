"""The input of classifiers: labels, sets and distributions of them, some of which are missing, and columns of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, assert_all_finite

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.columns import read_columns
from spectrem.data.frames import as_frame, as_series
from spectrem.estimators.conventions import as_fitted, row_weights
from spectrem.estimators.labels import (
    ROUNDING,
    UNLABELLED,
    Known,
    LabelReader,
    is_collection,
    is_unlabelled,
    plain_label,
)
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear import Labels


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


def unlabelled(cells: NDArray[Any]) -> Bools:
    """Which labels of an array are missing, in its shape."""
    if cells.dtype.kind == "O":
        return np.array([is_unlabelled(value) for value in cells.ravel().tolist()], np.bool_).reshape(cells.shape)
    if cells.dtype.kind == "U":  # what NumPy makes of -1 and NaN beside text
        return np.isin(cells, [str(UNLABELLED), "nan"])
    missing = np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(cells.shape, np.bool_)
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
    missing = unlabelled(values)
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
    missing = unlabelled(values)
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


# ---- labels, sets and distributions ---------------------------------------------------------------------------------


class Targets(NamedTuple):
    """The labels, sets and distributions of labels of rows, by number.

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


def read_targets(
    y: Any, classes: Any = None, n_rows: int | None = None, elsewhere: Sequence[Any] | NDArray = ()
) -> Targets:
    """Read the labels that a classifier is trained on; if the number of rows is given, of two classes at least.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_classes)
        Of every row a label; a set, tuple or list of labels that it may have; a mapping of labels to probabilities; or
        -1, None, NaN or another missing value. Or a table of probabilities, whose rows of NaN are missing.
    classes : sequence, optional
        All labels that there are, of a table in the order of its columns; by default those in ``y``, or the names of
        the columns of a frame, or 0, 1, ...
    n_rows : int, optional
    elsewhere : array-like, optional
        Labels that there are beside those in ``y``, where ``classes`` is not given.

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
    if len(elsewhere):
        labels = np.unique(of_one_kind("y", np.array([*labels.tolist(), *np.asarray(elsewhere).tolist()], object)))
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
    for k, (names, shares) in enumerate(known.kinds):
        allowed[k, [place[label] for label in names]] = 1.0 if shares is None else shares
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
    objects = isinstance(y, list | tuple) or (hasattr(y, "dtype") and np.asarray(y).dtype.kind == "O")
    rows = (list(y) if isinstance(y, list | tuple) else np.asarray(y).tolist()) if objects else []
    if not any(map(is_collection, rows)):
        labels, codes = number_labels(y)
        return labels, Known(codes, [((label,), None) for label in labels.tolist()])
    reader = LabelReader(plain_label, "label")
    kind = np.array(reader.read(rows, "row {}".format), np.int64)
    named = [label for names, _ in reader.kinds for label in names]
    return np.unique(of_one_kind("y", np.array(named, object))), Known(kind, reader.kinds)


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
    listed, kind = tuple(labels.tolist()), np.full(len(table), -1)
    kind[~missing] = np.arange(int((~missing).sum()))
    shares = table[~missing] / table[~missing].sum(axis=1, keepdims=True)
    return distinct, Known(kind, [(listed, row) for row in shares])


# ---- columns --------------------------------------------------------------------------------------------------------


def take_columns(X: Any, places: Sequence[Any]) -> Any:
    """Some columns of X: of a frame by name, of an array or a sparse matrix by position."""
    frame = as_frame(X, "X")
    if frame is not None:
        return frame[:, [frame.columns.index(place) for place in places]].to_native()
    table: Any = X
    return (table.tocsc() if sp.issparse(X) else np.asarray(X))[:, places]


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
    others = take_columns(X, rest)
    if frame is not None:
        series = dict(zip(known, frame.iter_columns(), strict=True))
        return others, {name: series[place] for name, place in places.items()}
    if sp.issparse(X):
        columnwise: Any = table.tocsc()
        return others.tocsr(), {name: columnwise[:, [place]].toarray().ravel() for name, place in places.items()}
    return others, {name: table[:, place] for name, place in places.items()}


def _from_the_end(place: Any, n: int) -> Any:
    negative = isinstance(place, int | np.integer) and not isinstance(place, bool) and -n <= place < 0
    return place + n if negative else place


def row_columns(sources: Sequence[Any], n_rows: int, estimator: str) -> dict[str, NDArray]:
    """A user's columns for constraints as arrays of shape (n_rows,).

    Parameters
    ----------
    sources : sequence of mappings or frames or None
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
    arrays = {}
    for columns in sources:
        named = read_columns(columns, {"rows": n_rows}, taken=("row", "label", "labelled"), hint=hint)
        arrays.update({name: np.asarray(named[name]) for name in named})
    return arrays
