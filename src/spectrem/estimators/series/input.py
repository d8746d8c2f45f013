"""The input of hidden Markov models of series: rows of sequences, and labels of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_array, as_lengths
from spectrem.constraints.columns import as_column
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.text import flatten
from spectrem.data.frames import as_frame, as_times
from spectrem.estimators.conventions import number_groups
from spectrem.estimators.labels import Known, LabelReader
from spectrem.estimators.sentences import check_tag, sort_tags
from spectrem.estimators.table_input import split_columns
from spectrem.exceptions import InvalidInputError, quoted, setting
from spectrem.models.shards import Columns
from spectrem.structures._ragged import offsets_of, positions_of

TAKEN = ("sequence", "state", "previous", "change", "token", "occurrence")
"""Columns that constraints have anyway."""


@dataclass(frozen=True, eq=False)
class Series:
    """Rows of sequences, one sequence after the other.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_columns), NaN where a cell is missing
    lengths : ndarray of shape (n_sequences,), int64
    names : list of str
        Of the columns.
    order : ndarray of shape (n_rows,), int64, or None
        Where each of these rows stood in the input; None where they stand as they stood.
    listed : bool
        Whether the input was a list with an array for each sequence, so that results are lists, too.
    columns : Columns
        For constraints.
    """

    x: Floats
    lengths: Ints
    names: list[str]
    order: Ints | None
    listed: bool
    columns: Columns

    def restored(self, rows: NDArray[Any]) -> Any:
        """Values of all rows in the order of the input: an array, or a list of arrays."""
        return np.split(rows, offsets_of(self.lengths)[1:-1]) if self.listed else self.unsorted(rows)

    def unsorted(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The same as an array, so that numbers of rows are those of the input."""
        return rows if self.order is None else rows[np.argsort(self.order)]

    def taken(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values by the order of the input, in the order of these rows."""
        return values if self.order is None else values[self.order]


def read_series(
    estimator: Any,
    X: Any,
    lengths: Any = None,
    groups: Any = None,
    categories: Any = None,
    trained: Sequence[str] = (),
) -> Series:
    """Read rows of sequences.

    Parameters
    ----------
    estimator : HMM
        Of which columns, group and time are read.
    X : array of shape (n_rows, n_columns) or (n_rows,), frame, or list of such arrays, one for each sequence
    lengths : array-like of shape (n_sequences,), int, optional
    groups : array-like of shape (n_rows,), optional
        The sequence of each row; those of a sequence keep their order.
    categories : mapping of name -> list of values, optional
        What numbers of columns of text mean; new ones are added to it.
    trained : sequence of str
        Columns of training: those of a frame that has all of them, in whatever order and beside whatever others.

    Raises
    ------
    InvalidInputError
    """
    if isinstance(X, list | tuple) and len(X) and all(np.ndim(one) >= 1 for one in X) and np.ndim(X[0]) + 1 != 2:
        return _read_list(estimator, X, lengths, groups, categories)
    if isinstance(X, list | tuple) and len(X) and any(isinstance(one, np.ndarray) for one in X):
        return _read_list(estimator, X, lengths, groups, categories)
    table, named = split_columns(X, estimator.columns or None)
    frame = as_frame(table, "X")
    times, calendar = None, {}
    if frame is not None:
        places = [name for name in (estimator.group, estimator.time) if name is not None]
        missing = [name for name in places if name not in frame.columns]
        if missing:
            raise InvalidInputError(f"X must have the column {missing[0]!r}, got {', '.join(frame.columns)}")
        groups = frame[estimator.group].to_numpy() if estimator.group is not None and groups is None else groups
        if estimator.time is not None:
            times = as_times(estimator.time, frame[estimator.time])
            calendar = _calendar(times)
        elsewhere = {*TAKEN, "time", *({estimator.time} & calendar.keys())}
        used = set().union(*map(used_columns, flatten(estimator.constraints))) - elsewhere
        named = {name: frame[name] for name in frame.columns if name in used} | named
        names = [name for name in frame.columns if name not in places]
        names = list(trained) if trained and set(trained) <= set(names) else names
        x = np.column_stack([_numbers(name, frame[name], categories) for name in names] or [np.zeros((len(frame), 0))])
    else:
        x = as_array(table, "X")
        if x.dtype.kind not in "fiub":
            try:
                x = x.astype(np.float64, casting="same_kind" if x.dtype.kind == "c" else "unsafe")
            except (TypeError, ValueError):
                raise InvalidInputError(
                    "X must hold numbers, or be a frame whose columns of text are categories, got an array of "
                    f"{x.dtype}"
                ) from None
        x = (x[:, None] if x.ndim == 1 else x).astype(np.float64)
        if x.ndim != 2:
            raise InvalidInputError(f"X must have rows and columns, got an array of shape {x.shape}")
        names = [str(j) for j in range(x.shape[1])]
    n, order = len(x), None
    if groups is not None or times is not None:
        if lengths is not None:
            raise InvalidInputError("lengths must be None where groups or a column say which sequence a row belongs to")
        rule = f"have a value for each of the {n} rows of X"
        of_row = np.zeros(n, np.int64) if groups is None else number_groups(groups, n, rule)[1]
        keys = (of_row,) if times is None else (times, of_row)
        order = np.lexsort(keys)
        lengths = np.bincount(of_row)
        x = x[order]
    sizes = np.array([n]) if lengths is None else as_lengths(lengths, "lengths")
    if sizes.sum() != n:
        raise InvalidInputError(f"lengths must add up to the {n} rows of X, got {sizes.sum()}")
    columns = calendar | {name: as_column(name, values) for name, values in named.items()}
    if order is not None:
        columns = {name: np.asarray(values)[order] for name, values in columns.items()}
    return Series(x, sizes, names, order, False, _with_time(columns, sizes))


def _read_list(estimator: Any, X: Any, lengths: Any, groups: Any, categories: Any) -> Series:
    if lengths is not None or groups is not None:
        raise InvalidInputError("lengths and groups must be None where X is a list with an array for each sequence")
    pieces = [read_series(estimator, np.asarray(one), categories=categories) for one in X]
    widths = {piece.x.shape[1] for piece in pieces}
    if len(widths) != 1:
        raise InvalidInputError(f"X must hold arrays with one number of columns, got {sorted(widths)}")
    sizes = np.array([len(piece.x) for piece in pieces], np.int64)
    named = {
        name: np.concatenate([np.asarray(piece.columns.of_words[name]) for piece in pieces])
        for name in pieces[0].columns.of_words
        if name != "time"
    }
    x = np.concatenate([piece.x for piece in pieces])
    return Series(x, sizes, pieces[0].names, None, True, _with_time(named, sizes))


def _with_time(columns: dict[str, Any], lengths: Ints) -> Columns:
    for name in columns:
        if name in TAKEN:
            raise InvalidInputError(f"columns must not be called {name!r}, which constraints have already; rename it")
    return Columns(of_words={"time": positions_of(lengths), **columns})


def _calendar(times: NDArray[Any]) -> dict[str, Any]:
    """Hours, days of the week and dates of points in time; nothing of times that are numbers."""
    if times.dtype.kind != "M":
        return {}
    days = times.astype("datetime64[D]")
    return {
        "hour": (times - days).astype("timedelta64[h]").astype(np.int64),
        "weekday": (days.astype(np.int64) + 3) % 7,  # the epoch began on a Thursday
        "date": days.astype(str),
    }


def _numbers(name: str, series: Any, categories: Any) -> Floats:
    """A column of a frame as numbers: texts are numbered, what is missing is NaN."""
    import narwhals

    if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
        return np.asarray(series.cast(narwhals.Float64).to_numpy(), np.float64)
    values = [None if value is None or value != value else str(value) for value in series.to_list()]
    known = categories.setdefault(name, sorted({value for value in values if value is not None}))
    number = {value: k for k, value in enumerate(known)}
    unknown = next((value for value in values if value is not None and value not in number), None)
    if unknown is not None:
        raise InvalidInputError(f"column {name} must hold the categories of training, got {unknown!r}; make it missing")
    return np.array([np.nan if value is None else number[value] for value in values], np.float64)


# ---- labels ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class States:
    """The evidence of labels on rows.

    Attributes
    ----------
    names : tuple of str or int
        Of all states.
    evidence : ndarray of shape (n_rows, n_states), or None
        See `spectrem.models.series.SeriesShard`.
    state : ndarray of shape (n_rows,), int64
        The state of rows where it is certain, else -1.
    """

    names: tuple[Any, ...]
    evidence: Floats | None
    state: Ints


def read_states(y: Any, series: Series, names: Sequence[Any] | None, n_components: int | None) -> States:
    """Labels of rows: a state, a set, a distribution as a mapping or a row of a table, or None for each.

    Raises
    ------
    InvalidInputError
        If there is not one for each row, or more states than ``n_components``.
    """
    n = len(series.x)
    labels = [] if y is None else _flat(y, series, names)
    reader, kind = LabelReader(check_tag, "state"), np.full(n, -1)
    if labels:
        kind[:] = reader.read(labels, partial("row {}".format))
    kind = series.taken(kind)
    found = sort_tags(label for label_names, _ in reader.kinds for label in label_names)
    size = n_components or (len(names) if names else len(found) or 2)
    if names is None:
        free = (k if not any(isinstance(one, str) for one in found) else f"state {k}" for k in range(size + len(found)))
        names = (*found, *[one for one in free if one not in found][: max(size - len(found), 0)])
    unknown = next((one for one in found if one not in names), None)
    if unknown is not None or len(names) != size:
        what = f"the label {unknown!r}" if unknown is not None else f"{len(names)} names"
        raise InvalidInputError(
            f"states must name the {size} states of the model, the labels of rows among them, got {what} beside "
            f"{', '.join(map(str, names))}; set {setting('states')} or {setting('n_components')}"
        )
    evidence = Known(kind, reader.kinds).evidence(names)
    possible = evidence > -np.inf
    state = np.where(possible.sum(axis=1) == 1, possible.argmax(axis=1), -1)
    return States(tuple(names), evidence if reader.kinds else None, state)


def _flat(y: Any, series: Series, names: Sequence[Any] | None) -> list[Any]:
    """Labels of all rows in the order of the input."""
    if series.listed and hasattr(y, "__len__") and len(y) == len(series.lengths):
        pieces = zip(y, series.lengths.tolist(), strict=True)
        return [label for one, size in pieces for label in ([None] * size if one is None else _checked(one, size))]
    table = y if isinstance(y, np.ndarray) else None
    if table is not None and table.ndim == 2:
        if names is None or table.shape[1] != len(names):
            raise InvalidInputError("states must name the columns of distributions in y; set states")
        y = [dict(zip(names, row, strict=True)) if np.isfinite(row).all() else None for row in table.tolist()]
    return _checked(y.to_list() if hasattr(y, "to_list") else y, len(series.x))


def _checked(y: Any, n_rows: int) -> list[Any]:
    plain = y.tolist() if isinstance(y, np.ndarray) else y
    single = isinstance(plain, str | Mapping) or not hasattr(plain, "__iter__")
    listed = [] if single else list(plain)
    if single or len(listed) != n_rows:
        raise InvalidInputError(f"y must have a label, or None, for each of {n_rows} rows, got {quoted(y)}")
    return listed


def known_sequences(states: States, lengths: Ints) -> Bools:
    """The sequences whose states are all certain, shape (n_sequences,)."""
    certain = np.append(0, np.cumsum(states.state >= 0))[offsets_of(lengths)]
    return (np.diff(certain) == lengths) & (lengths > 0)
