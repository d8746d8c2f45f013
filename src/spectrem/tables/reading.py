"""Tables of probabilities or log-scores as a structure and its scores, with everything checked."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_sample_weight
from spectrem.constraints.groups import distinct
from spectrem.constraints.user_columns import read_user_columns
from spectrem.exceptions import InvalidInputError
from spectrem.structures.categorical import Categorical
from spectrem.structures.chains.chain import Chain
from spectrem.structures.parts import Parts
from spectrem.tables.lattice import Lattice
from spectrem.tables.structure import Table

Scores = Literal["probabilities", "log"]

SUM_TOLERANCE = 1e-4
"""How far the sum of a row of probabilities may be from 1; single precision and many labels need about this much."""


@dataclass(frozen=True)
class Cells:
    """A user's table, cell by cell.

    Attributes
    ----------
    table : Table
    scores : Parts
        Nats per cell, ``-inf`` where the probability is 0.
    proba : ndarray of shape (n_cells,)
        Probabilities before the projection; every row sums to 1.
    labels : ndarray or None
        The label of every cell, where the user named them.
    weights : ndarray of shape (n_rows,) or None
        How often every row counts, where the user said so.
    """

    table: Table
    scores: Parts
    proba: NDArray[np.float64]
    labels: NDArray | None
    weights: NDArray[np.float64] | None = None

    @property
    def known_labels(self) -> list[Any]:
        """What ``part("label")`` can be."""
        sizes = np.diff(self.table.offsets)
        if self.labels is None:
            return list(range(int(sizes.max(initial=0))))
        alike = self.table.is_lattice or not self.table.ragged
        one_row = self.labels[: int(sizes.max(initial=0))] if alike else self.labels
        return distinct(one_row)[0].tolist()


def read_table(proba: Any, labels: Any, scores: str) -> Cells:
    """Check a user's table.

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
        return _read_lattice(proba, labels)
    if labels is None and hasattr(proba, "columns") and hasattr(proba, "to_numpy"):
        labels = [str(name) if not isinstance(name, (int, float)) else name for name in proba.columns]
    labels = _by_position(labels, proba)
    values, sizes, ragged = _values(proba, labels)
    if not len(sizes):
        raise InvalidInputError(f"proba must have a row or more, got shape {np.shape(proba)}; skip tables without rows")
    table = Table(Categorical(sizes), ragged)
    if (sizes == 0).any():
        raise InvalidInputError(
            f"proba must have a label or more in every row; row {int(np.argmin(sizes))} is empty; drop the row"
        )
    starts = table.offsets[:-1]
    if np.isnan(values).any():
        raise InvalidInputError(
            f"proba must not be NaN; got NaN {_where(table, np.isnan(values))}; "
            "look for 0/0 in the model, or drop the row"
        )
    if scores == "log":
        if (values == np.inf).any():
            raise InvalidInputError(
                f"log-scores must be finite or -inf; got inf {_where(table, values == np.inf)}; clip them"
            )
        top = np.maximum.reduceat(values, starts)
        if np.isneginf(top).any():
            raise InvalidInputError(
                f"log-scores must leave a label possible in every row; row {int(np.argmin(top))} is -inf throughout; "
                "drop the row"
            )
        parts = Parts(values)
        return Cells(table, parts, table.smoothed_max(parts, 1.0)[1].unary, _labels(labels, table))
    if (values < 0).any():
        raise InvalidInputError(
            f"proba must not be negative; got {values.min():g} {_where(table, values < 0)}; "
            'pass scores="log" if these are log-probabilities or logits'
        )
    totals = np.add.reduceat(values, starts)
    off = ~(np.abs(totals - 1.0) <= SUM_TOLERANCE)
    if off.any():
        row = int(np.flatnonzero(off)[0])
        what = "is zero throughout" if totals[row] == 0 else f"sums to {totals[row]:g}"
        more = f" ({int(off.sum())} such rows)" if off.sum() > 1 else ""
        hint = "drop the row" if totals[row] == 0 else 'divide every row by its sum, or pass scores="log" for logits'
        raise InvalidInputError(f"every row of proba must sum to 1; row {row} {what}{more}; {hint}")
    values = values / np.repeat(totals, sizes)
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    return Cells(table, Parts(logs), values, _labels(labels, table))


def read_weights(sample_weight: ArrayLike | None, table: Table) -> NDArray[np.float64] | None:
    """A user's weights of the rows.

    Raises
    ------
    InvalidInputError
        If there is not one for every row, or one is negative or not finite, or all are 0.
    """
    unit = "sequence of the lattice" if table.is_lattice else "row of proba"
    weights = as_sample_weight(sample_weight, table.n_instances, unit)
    if weights is not None and len(weights) and not weights.any():
        raise InvalidInputError("sample_weight must be above 0 for some row, got zeros only; leave it out for ones")
    return weights


def read_columns(columns: Any, cells: Cells) -> Mapping[str, NDArray]:
    """A user's columns under their names, with values per row, per token of a lattice or per cell, and the labels."""
    table = cells.table
    tokens = {"tokens": len(table.offsets) - 1} if table.is_lattice else {}
    lengths = {"rows": table.n_instances} | tokens | {"cells": table.n_unary}
    hint = "give one value for each of one of these, best for each row"
    found = read_user_columns(columns, lengths, taken=table.columns, hint=hint)
    if cells.labels is None:
        return found
    labels: dict[str, NDArray] = {"label": cells.labels}
    return ChainMap(labels, cast(Any, found))  # nobody writes to it


def _read_lattice(lattice: Lattice, labels: Any) -> Cells:
    lengths = np.array([len(row) for row in lattice.scores], np.int64)
    if (lengths == 0).any():
        raise InvalidInputError(
            f"Lattice: row {int(np.argmin(lengths))} has no tokens; a row needs one or more; drop the row"
        )
    table = Table(Chain(lengths, len(lattice.transitions)), ragged=True)
    scores = Parts(np.concatenate(lattice.scores).ravel(), (lattice.transitions,))
    values, marginals = table.smoothed_max(scores, 1.0)
    if np.isneginf(values).any():
        raise InvalidInputError(
            f"Lattice: row {int(np.argmin(values))} has no possible labels, every sequence scores -inf; drop the row, "
            "or allow more"
        )
    width = len(lattice.transitions)
    return Cells(table, scores, marginals.unary, None if labels is None else _tiled(labels, width, table.n_unary))


def _values(proba: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.int64], bool]:
    """Flat cells, sizes of the rows, and whether the table is ragged."""
    if hasattr(proba, "to_numpy"):
        proba = proba.to_numpy()
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


def _by_position(labels: Any, proba: Any) -> Any:
    """Labels without the index that pandas gives them."""
    index: Any = getattr(labels, "index", None)
    if not hasattr(index, "equals"):
        return labels
    listed = list(index)
    names = list(getattr(proba, "columns", listed))
    if listed not in (names, list(range(len(listed)))):
        raise InvalidInputError(
            f"labels must have the columns of proba as their index, got {listed[:5]!r} for {names[:5]!r}; give "
            "labels.loc[proba.columns] to pair them by name, labels.to_numpy() to pair them by position"
        )
    return labels.to_numpy()


def _nested(labels: Any) -> bool:
    return labels is not None and len(labels) > 0 and not isinstance(labels[0], str) and np.ndim(labels[0]) == 1


def _labels(labels: Any, table: Table) -> NDArray | None:
    """The label of every cell."""
    if labels is None:
        return None
    sizes = np.diff(table.offsets)
    if not table.ragged:
        return _tiled(labels, table.n_unary // max(table.n_instances, 1), table.n_unary)
    if not _nested(labels) or [len(row) for row in labels] != sizes.tolist():
        raise InvalidInputError(
            "labels of a ragged table must be a list of rows as long as those of proba; give one label per cell"
        )
    return np.concatenate([_names(row) for row in labels])


def _tiled(labels: Any, width: int, n_cells: int) -> NDArray:
    """The same labels over and over."""
    names = _names(labels)
    if names.shape != (width,) and n_cells:
        raise InvalidInputError(
            f"labels must name the {width} columns of proba, got shape {names.shape}; give one label per column"
        )
    if len(set(names.tolist())) < len(names):
        raise InvalidInputError(f"labels must differ, got {names.tolist()}; give every column a label of its own")
    return np.tile(names, n_cells // max(width, 1))


def _names(labels: Sequence[object]) -> NDArray:
    listed = np.asarray(labels).tolist() if isinstance(labels, np.ndarray) else list(labels)
    kinds = {"text" if isinstance(label, str) else "number" for label in listed}
    array = np.array(listed)
    if len(kinds) > 1 or array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"labels must be all text or all numbers, got {listed[:5]!r}; turn them into text by str(...)"
        )
    return array


def _where(table: Table, bad: NDArray[np.bool_]) -> str:
    cell = int(np.flatnonzero(bad)[0])
    row = int(table.instance[cell])
    return f"in row {row}, column {cell - int(table.offsets[row])}"
