"""Votes as users have them, a table of items and sources or a long table of votes, and labels of some items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.columns import is_missing
from spectrem.data.frames import as_frame
from spectrem.estimators.table_input import of_one_kind, read_classes, read_targets, unlabelled
from spectrem.exceptions import InvalidInputError, quoted, warn
from spectrem.models.votes import narrow
from spectrem.structures._ragged import offsets_of

# Of a table, read together.
_CELLS_AT_ONCE = 1 << 19


class Votes(NamedTuple):
    """Votes item by item.

    Attributes
    ----------
    items : ndarray of shape (n_items,)
        Their names, or numbers, in the order of the input.
    sources : ndarray of shape (n_sources,)
        Their names, or numbers.
    labels : ndarray of shape (n_labels,)
        Labels that occur, in increasing order.
    sizes : ndarray of shape (n_items,), int
        How many votes every item has.
    cells : ndarray of shape (n_votes,), int
        ``source * n_labels + label`` of every vote, by their numbers, item after item.
    """

    items: NDArray
    sources: NDArray
    labels: NDArray
    sizes: NDArray[np.integer]
    cells: NDArray[np.integer]

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def offsets(self) -> Ints:
        """Where the votes of every item begin, and their number, shape (n_items + 1,); made anew at every call."""
        return offsets_of(self.sizes)

    @property
    def source(self) -> Ints:
        """Numbers of the sources of all votes; made anew at every call."""
        return self.cells.astype(np.int64) // max(len(self.labels), 1)

    @property
    def label(self) -> Ints:
        """Numbers of the labels of all votes; made anew at every call."""
        return self.cells.astype(np.int64) % max(len(self.labels), 1)


def read_votes(votes: Any, columns: Sequence[str], *, repeated: bool) -> Votes:
    """Read votes.

    Parameters
    ----------
    votes : array-like or frame of shape (n_items, n_sources), or frame with a row for every vote
        Labels; -1, None, NaN or another missing value where a source is silent.
    columns : (str, str, str)
        Of the items, sources and labels in a frame of the second kind.
    repeated : bool
        Whether a source may vote on an item several times.

    Examples
    --------
    >>> votes = read_votes([["a", None], ["b", "b"], [None, None]], ("item", "source", "label"), repeated=False)
    >>> votes.offsets.tolist(), votes.source.tolist(), votes.labels[votes.label].tolist()
    ([0, 1, 3, 3], [0, 0, 1], ['a', 'b', 'b'])
    """
    if isinstance(votes, Votes):  # as read before
        return votes
    frame = as_frame(votes, "votes")
    if frame is not None and set(columns) <= set(frame.columns):
        return _read_list(frame, columns, repeated=repeated)
    names: Any = None
    if frame is not None:
        names, table = frame.columns, np.array([column.to_list() for column in frame.iter_columns()], object).T
        table = table.reshape(len(frame), len(names))
    else:
        table = np.asarray(votes, object) if isinstance(votes, list | tuple) else np.asarray(votes)
    if table.ndim != 2:
        raise InvalidInputError(
            f"votes must be a table of items and sources, or a frame with the columns {', '.join(columns)}, got shape "
            f"{table.shape}; set table_columns if a frame calls them otherwise"
        )
    # Whole numbers are read some rows at a time, since numbers of votes take several times the memory of narrow cells.
    n, n_sources = table.shape
    step = max(_CELLS_AT_ONCE // max(n_sources, 1), 1) if table.dtype.kind in "iu" else max(n, 1)
    runs = [slice(start, start + step) for start in range(0, max(n, 1), step)]
    sizes, of_runs = np.zeros(n, narrow(n_sources + 1)), []
    for run in runs:
        spoken = ~unlabelled(table[run])
        sizes[run] = spoken.sum(axis=1)
        of_runs.append(_numbered("votes", table[run][spoken])[0])
    labels = np.unique(np.concatenate(of_runs)) if len(runs) > 1 else of_runs[0]
    cells, end = np.empty(int(sizes.sum()), narrow(n_sources * len(labels))), 0
    for run in runs:
        spoken = ~unlabelled(table[run])
        distinct, code = _numbered("votes", table[run][spoken])
        start, end = end, end + len(code)
        cells[start:end] = np.nonzero(spoken)[1] * len(labels) + np.searchsorted(labels, distinct)[code]
    names = np.array(names if names is not None else range(n_sources))
    return Votes(np.arange(n, dtype=np.int32), names, labels, sizes, cells)


def read_features(X: Any, n_items: int) -> Any:
    """Features of all items, as a classifier takes them.

    Raises
    ------
    InvalidInputError
        If there is not a row for every item.
    """
    features, _ = indexable(X, None)
    if (n_rows := _num_samples(features)) != n_items:
        raise InvalidInputError(
            f"X must have a row for each of {n_items} items of votes, in their order, got {n_rows}; list items on "
            "which nobody votes among the votes, too, with None"
        )
    return features


def _numbered(name: str, values: NDArray) -> tuple[NDArray, Ints]:
    """Distinct labels in increasing order, and the number of each."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInputError(
            f"{name} must hold labels, got {values[~np.isfinite(values)][0]}; write None for silence"
        )
    if values.dtype.kind == "f" and (values == np.rint(values)).all():  # whole numbers beside NaN
        values = values.astype(np.int64)
    distinct, code = np.unique(
        of_one_kind(name, values) if len(values) else values.astype(np.int64), return_inverse=True
    )
    return distinct, code.astype(np.int64)


def _read_list(frame: Any, columns: Sequence[str], *, repeated: bool) -> Votes:
    (items, n_item), (sources, n_source) = (_named(frame, name) for name in columns[:2])
    sources, place = np.unique(sources, return_inverse=True)
    n_source = place[n_source]
    cells = np.asarray(values, object) if isinstance(values := _values(frame[columns[2]]), list) else values
    spoken = ~unlabelled(cells)
    labels, code = _numbered(f"column {columns[2]}", cells[spoken])
    n_item, n_source = n_item[spoken], n_source[spoken]
    order = np.lexsort((code, n_source, n_item))
    n_item, n_source, code = n_item[order], n_source[order], code[order]
    if not repeated and len(code):
        again = np.append(False, (n_item[1:] == n_item[:-1]) & (n_source[1:] == n_source[:-1]))
        differs = np.flatnonzero(again[1:] & (code[1:] != code[:-1]))
        if len(differs):
            at = differs[0]
            raise InvalidInputError(
                f"votes must hold one vote of a source on an item, got {labels[code[at]]!r} and "
                f"{labels[code[at + 1]]!r} of source {sources[n_source[at]]!r} on item {items[n_item[at]]!r}; keep "
                "one, or set repeated=True if it votes anew each time"
            )
        if again.any():
            warn(f"votes hold {int(again.sum())} votes twice, which count once; set repeated=True if each counts")
            n_item, n_source, code = n_item[~again], n_source[~again], code[~again]
    sizes, kind = np.bincount(n_item, minlength=len(items)), narrow(len(sources) * len(labels))
    sizes = sizes.astype(narrow(int(sizes.max(initial=0)) + 1))
    return Votes(items, sources, labels, sizes, (n_source * len(labels) + code).astype(kind))


def _values(column: Any) -> NDArray | list[Any]:
    """The cells of a column: an array of whole numbers, or a list, which takes several times the memory."""
    return column.to_numpy() if column.dtype.is_integer() and not column.null_count() else column.to_list()


def _named(frame: Any, name: str) -> tuple[NDArray, Ints]:
    """Distinct names of items or sources in the order in which they first occur, and the number of each row's."""
    values = _values(frame[name])
    if not isinstance(values, list):
        distinct, first, code = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return distinct[order], np.argsort(order)[code]
    number: dict[Any, int] = {}
    codes = np.fromiter((number.setdefault(value, len(number)) for value in values), np.int64, len(values))
    missing = next((row for row, value in enumerate(values) if is_missing(value)), None)
    if missing is not None:
        raise InvalidInputError(f"column {name} must be filled in every row, got none in row {missing}; drop the row")
    kinds = sorted({type(value).__name__ for value in number})
    if len({kind == "str" for kind in kinds}) > 1:
        raise InvalidInputError(
            f"column {name} must hold values of one kind, got {' and '.join(kinds)}; write all of them as text"
        )
    return np.array(list(number)), codes


class KnownLabels(NamedTuple):
    """Classes, and what is known of the label of every item: see `VoteShard`."""

    classes: NDArray
    evidence: Floats | None
    given: Bools | None

    def beside(self, log_probabilities: Floats) -> KnownLabels:
        """The same with what a classifier says of every item, nats, in addition."""
        evidence = log_probabilities if self.evidence is None else log_probabilities + self.evidence
        return self._replace(evidence=evidence)


def read_known(y: Any, votes: Votes, classes: Any) -> KnownLabels:
    """Read labels of items, of a mapping by item, else in the order of items; ``classes`` are all that there are."""
    n = votes.n_items
    if isinstance(y, Mapping):
        place = {item: number for number, item in enumerate(votes.items.tolist())}
        listed: list[Any] = [None] * n
        for item, label in y.items():
            if item not in place:
                raise InvalidInputError(f"y must label items of votes, got item {quoted(item)}; leave it out")
            listed[place[item]] = label
        y = listed
    names = votes.labels if classes is None else read_classes(classes)
    evidence = given = None
    if y is not None:
        targets = read_targets(y, classes, elsewhere=votes.labels)
        if len(targets.allowed) != n:
            raise InvalidInputError(f"y must have a label, or None, for each of {n} items, got {len(targets.allowed)}")
        names, given = targets.classes, targets.known
        with np.errstate(divide="ignore"):
            evidence = np.log(targets.allowed)
    if len(names) < 2:
        raise InvalidInputError(
            f"votes must name at least two classes, got {names.tolist()!r}; list all that there are in classes"
        )
    unknown = np.setdiff1d(votes.labels, names)
    if len(unknown):
        raise InvalidInputError(
            f"votes must be for classes {names.tolist()!r:.200}, got {unknown.tolist()[0]!r}; add it to classes, or "
            "write None where a source is silent"
        )
    return KnownLabels(names, evidence, given)
