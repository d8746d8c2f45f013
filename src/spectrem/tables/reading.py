"""Tables of probabilities or log-scores as a structure and its scores, with everything checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.columns import read_columns
from spectrem.constraints.compilation.groups import Coded, Key, as_key, distinct
from spectrem.data.frames import as_frame
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of
from spectrem.structures.categorical import Categorical
from spectrem.structures.chains.chain import Chain
from spectrem.structures.chains.edge_chain import EdgeChain
from spectrem.structures.parts import Parts
from spectrem.structures.table import TableStructure
from spectrem.tables.lattice import Lattice
from spectrem.tables.scores import check_log_scores, check_probabilities

if TYPE_CHECKING:
    import narwhals


@dataclass(frozen=True)
class Cells:
    """A user's table, cell by cell.

    Attributes
    ----------
    table : TableStructure
    scores : Parts
        Nats per cell, ``-inf`` where the probability is 0.
    names : ndarray, Coded, or None
        The labels, where the user named them: those of one row (of a lattice, of one token) where all have the same,
        else of every cell. Text is coded.
    weights : ndarray of shape (n_rows,) or None
        How often every row counts, where the user said so.
    frame : narwhals.DataFrame or None
        The table itself, where it was a data frame.
    """

    table: TableStructure
    scores: Parts
    names: Key | None
    weights: NDArray[np.float64] | None = None
    frame: narwhals.DataFrame[Any] | None = None

    def labels(self, cells: NDArray[np.int64] | None = None) -> Key:
        """The labels of some cells, or of all, where the user named them."""
        assert self.names is not None
        cells = np.arange(self.table.n_unary) if cells is None else cells
        return self.names[cells % len(self.names)]

    @property
    def known_labels(self) -> list[Any]:
        """All values of ``part("label")``."""
        if self.names is not None:
            return distinct(self.names)[0].tolist()
        if self.table.state_part is not None:
            return distinct(self.table.columns["label"])[0].tolist()
        return list(range(int(np.diff(self.table.offsets).max(initial=0))))


def read_cells(proba: Any, labels: Any, scores: str, *, pairs: bool = False) -> Cells:
    """Check a user's table and take the logarithm of what are probabilities.

    Of a lattice, ``pairs`` of neighbouring labels are its cells.

    Raises
    ------
    InvalidInputError
        See `spectrem.project`.
    """
    if scores not in ("probabilities", "log"):
        raise InvalidInputError(
            f'scores must be "probabilities" or "log", got {scores!r}; "log" takes log-probabilities and logits'
        )
    if isinstance(proba, Lattice):
        return _read_lattice(proba, labels, pairs)
    frame = as_frame(proba, "proba")
    names = None if frame is None else frame.columns
    labels = _by_position(labels, names)
    if labels is None and names is not None:
        labels = [name if isinstance(name, (int, float)) else str(name) for name in names]
    values, sizes, ragged = _values(proba if frame is None else frame.to_numpy(), labels)
    if not len(sizes):
        raise InvalidInputError(f"proba must have a row or more, got shape {np.shape(proba)}; skip tables without rows")
    table = TableStructure(Categorical(sizes), ragged)
    if (sizes == 0).any():
        raise InvalidInputError(
            f"proba must have a label or more in every row; row {int(np.argmin(sizes))} is empty; drop the row"
        )
    if scores == "log":
        check_log_scores(values, offsets_of(sizes))
        return Cells(table, Parts(values), _labels(labels, table), frame=frame)
    totals = check_probabilities(values, offsets_of(sizes))
    values = values / np.repeat(totals, sizes) if ragged else (values.reshape(len(sizes), -1) / totals[:, None]).ravel()
    with np.errstate(divide="ignore"):
        np.log(values, out=values)
    return Cells(table, Parts(values), _labels(labels, table), frame=frame)


def user_columns(columns: Any, cells: Cells) -> Mapping[str, Key]:
    """A user's columns under their names, with values per row, per token of a lattice or per cell."""
    table = cells.table
    tokens = {"tokens": len(table.offsets) - 1} if table.is_lattice else {}
    lengths = {"rows": table.n_instances} | tokens | {"cells": table.n_unary}
    hint = "give one value for each of one of these, best for each row"
    return read_columns(columns, lengths, taken=table.columns, hint=hint)


def label_columns(cells: Cells) -> dict[str, Key]:
    """The labels that the user named, and those before, cell by cell."""
    table = cells.table
    if cells.names is None:
        return {}
    labels: dict[str, Key] = {"label": cells.labels()}
    if "previous" in table.columns:
        before = table.columns["previous"]
        known = ~np.isnan(before)
        names = cells.names[: table.offsets[1]]
        if isinstance(names, Coded):
            codes = np.full(len(before), -1, np.int32)
            codes[known] = names.codes[before[known].astype(np.int64)]
            labels["previous"] = Coded(names.values, codes)
        else:
            numbers = np.full(len(before), np.nan)
            numbers[known] = names[before[known].astype(np.int64)]
            labels["previous"] = numbers
    return labels


def _read_lattice(lattice: Lattice, labels: Any, pairs: bool) -> Cells:
    lengths = np.array([len(row) for row in lattice.scores], np.int64)
    if (lengths == 0).any():
        raise InvalidInputError(
            f"Lattice: row {int(np.argmin(lengths))} has no tokens; a row needs one or more; drop the row"
        )
    width = len(lattice.transitions)
    chain = EdgeChain(lengths, width) if pairs else Chain(lengths, width)
    table, of_states = TableStructure(chain, ragged=True), np.concatenate(lattice.scores).ravel()
    scores = Parts(of_states if table.state_part is None else of_states[table.state_part], (lattice.transitions,))
    values, _ = table.smoothed_max(scores, 1.0)
    if np.isneginf(values).any():
        raise InvalidInputError(
            f"Lattice: row {int(np.argmin(values))} has no possible labels, every sequence scores -inf; drop the row, "
            "or allow more"
        )
    names = None if labels is None else _label_names(labels, width)
    if pairs and names is not None:
        names = names[table.columns["label"]]
    return Cells(table, scores, names)


def _values(proba: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.int64], bool]:
    """Flat cells, sizes of the rows, and whether the table is ragged."""
    is_list = isinstance(proba, (list, tuple)) or (isinstance(proba, np.ndarray) and proba.dtype == object)
    if is_list and len(proba) and all(np.ndim(row) == 1 for row in proba):
        lengths = np.array([len(row) for row in proba], np.int64)
        if (lengths != lengths[0]).any() or _nested(labels):
            return np.concatenate([_numbers(row) for row in proba]), lengths, True
    array = _numbers(proba)
    if array.ndim != 2:
        raise InvalidInputError(
            f"proba must have shape (n_rows, n_labels) or be a list of rows, got shape {array.shape}; "
            "for one row write [proba], for one probability per row np.column_stack([1 - p, p])"
        )
    return array.ravel(), np.full(len(array), array.shape[1]), False


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.require(values, np.float64, ["C"])
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"proba must hold numbers in rows, got {type(values).__name__} ({error}); "
            "leave columns that are no probabilities out"
        ) from None


def _by_position(labels: Any, names: list[Any] | None) -> Any:
    """Labels without the index that pandas gives them; ``names`` are the columns of proba."""
    index: Any = getattr(labels, "index", None)
    if not hasattr(index, "equals"):
        return labels
    listed = list(index)
    names = listed if names is None else names
    if listed not in (names, list(range(len(listed)))):
        raise InvalidInputError(
            f"labels must have the columns of proba as their index, got {listed[:5]!r} for {names[:5]!r}; give "
            "labels.loc[proba.columns] to pair them by name, labels.to_numpy() to pair them by position"
        )
    return labels.to_numpy()


def _nested(labels: Any) -> bool:
    return labels is not None and len(labels) > 0 and not isinstance(labels[0], str) and np.ndim(labels[0]) == 1


def _labels(labels: Any, table: TableStructure) -> Key | None:
    """The labels of a row, or of every cell of a ragged table."""
    if labels is None:
        return None
    sizes = np.diff(table.offsets)
    if not table.ragged:
        return _label_names(labels, table.n_unary // max(table.n_instances, 1))
    if not _nested(labels) or [len(row) for row in labels] != sizes.tolist():
        raise InvalidInputError(
            "labels of a ragged table must be a list of rows as long as those of proba; give one label per cell"
        )
    return as_key(np.concatenate([_names(row) for row in labels]))


def _label_names(labels: Any, width: int) -> Key:
    """The labels that all rows have."""
    names = _names(labels)
    if names.shape != (width,):
        raise InvalidInputError(
            f"labels must name the {width} columns of proba, got shape {names.shape}; give one label per column"
        )
    if len(set(names.tolist())) < len(names):
        raise InvalidInputError(f"labels must differ, got {names.tolist()}; give every column a label of its own")
    return as_key(names)


def _names(labels: Sequence[object]) -> NDArray:
    listed = np.asarray(labels).tolist() if isinstance(labels, np.ndarray) else list(labels)
    kinds = {"text" if isinstance(label, str) else "number" for label in listed}
    array = np.array(listed)
    if len(kinds) > 1 or array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"labels must be all text or all numbers, got {listed[:5]!r}; turn them into text by str(...)"
        )
    return array
