"""Tables of probabilities or log-scores as a structure and its scores, with everything checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.columns import read_columns
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.compilation.groups import Coded, Key, as_key, distinct
from spectrem.constraints.text import Constraints, flatten
from spectrem.constraints.values import check_values
from spectrem.data.frames import as_frame
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical, Chain, EdgeChain, Parts

if TYPE_CHECKING:
    import narwhals


@dataclass(frozen=True, eq=False)
class Lattice:
    """Scores of the labels of tokens and of neighbouring labels, in nats: what a CRF, an HMM or a tagger's logits give.

    Pass it to `spectrem.project` in place of a table; its rows are the sequences, and constraints may name the columns
    ``"row"``, ``"token"`` (position in the row), ``"occurrence"`` (token of the lattice), ``"label"`` and
    ``"previous"``, the label of the token before (missing at the first), which makes the pairs of neighbouring labels
    its parts and takes that many times longer. Weights of rows (`sample_weight`) are weights of whole sequences.

    Parameters
    ----------
    scores : sequence of array-like of shape (n_tokens, n_labels)
        One per row; -inf for impossible. Scores of first and last labels belong in the first and last token.
    transitions : array-like of shape (n_labels, n_labels), optional
        Score of a label (column) after another (row); None for independent tokens.

    Raises
    ------
    InvalidInputError
        NaN or +inf; shapes that do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem import E, Lattice, part, project
    >>> words = Lattice([np.log([[0.7, 0.3], [0.6, 0.4]])], np.log([[0.9, 0.1], [0.5, 0.5]]))
    >>> table = project(words, (E[part("label") == "VERB"] >= 1).per("row"), labels=["NOUN", "VERB"])
    >>> table.proba[0].round(2).tolist()
    [[0.43, 0.57], [0.57, 0.43]]
    >>> table.decide().labels.tolist()
    ['VERB', 'NOUN']
    """

    scores: tuple[Floats, ...]
    transitions: Floats

    def __init__(self, scores: Sequence[ArrayLike], transitions: ArrayLike | None = None) -> None:
        rows = tuple(np.array(row, np.float64) for row in scores)
        shapes = {row.shape[1:] for row in rows}
        if len(shapes) != 1 or rows[0].ndim != 2 or 0 in rows[0].shape[1:]:
            raise InvalidInputError(
                "Lattice: scores must be arrays of shape (n_tokens, n_labels) with the same labels in every row, got "
                f"shapes {[row.shape for row in rows[:5]]}; give -inf to labels that a row cannot have"
            )
        n = rows[0].shape[1]
        links = np.zeros((n, n)) if transitions is None else np.array(transitions, np.float64)
        if links.shape != (n, n):
            raise InvalidInputError(
                f"Lattice: transitions must have shape ({n}, {n}), from label and to label, got {links.shape}"
            )
        for name, array in [*((f"scores[{k}]", row) for k, row in enumerate(rows)), ("transitions", links)]:
            if not (array < np.inf).all():
                raise InvalidInputError(
                    f"Lattice: {name} must be finite or -inf, got NaN or +inf; look for 0/0 where scores are made"
                )
        object.__setattr__(self, "scores", rows)
        object.__setattr__(self, "transitions", links)


SUM_TOLERANCE = 1e-4
"""How far the sum of a row of probabilities may be from 1; single precision and many labels need about this much."""


class ScoreError(InvalidInputError):
    """A cell of a table that is no score, or a row whose scores are none together.

    Attributes
    ----------
    rule : {"nan", "infinite log", "impossible", "no probability", "zero", "sum"}
        What it breaks.
    row : int
    position : int or None
        Of the cell in its row; None for whole rows.
    value : float
        Of the cell, or the sum of the row.
    n_rows : int
        How many rows are like it.
    """

    def __init__(
        self, message: str, rule: str, row: int, position: int | None = None, value: float = np.nan, n_rows: int = 1
    ) -> None:
        super().__init__(message)
        self.rule, self.row, self.position, self.value, self.n_rows = rule, row, position, value, n_rows


def check_log_scores(values: Floats, offsets: Ints) -> None:
    """Refuse what are no scores in nats."""
    _check_cells(np.isnan(values), "nan", values, offsets)
    _check_cells(values == np.inf, "infinite log", values, offsets)
    impossible = np.isneginf(np.maximum.reduceat(values, offsets[:-1]))
    if impossible.any():
        row = int(impossible.argmax())
        raise ScoreError(
            f"log-scores must leave a label possible in every row; row {row} is -inf throughout; drop the row",
            "impossible",
            row,
        )


def check_probabilities(values: Floats, offsets: Ints) -> Floats:
    """Refuse what are no probabilities; the sum of each row, shape (n_rows,)."""
    _check_cells(np.isnan(values), "nan", values, offsets)
    _check_cells((values < 0) | (values == np.inf), "no probability", values, offsets)
    totals = np.add.reduceat(values, offsets[:-1])
    off = ~(np.abs(totals - 1.0) <= SUM_TOLERANCE)
    if off.any():
        row = int(off.argmax())
        if totals[row] == 0:
            rule, n_rows, what, hint = "zero", int((totals == 0).sum()), "is zero throughout", "drop the row"
        else:
            rule, n_rows, what = "sum", int(off.sum()), f"sums to {totals[row]:g}"
            hint = 'divide every row by its sum, or pass scores="log" for logits'
        more = f" ({n_rows} such rows)" if n_rows > 1 else ""
        message = f"every row of proba must sum to 1; row {row} {what}{more}; {hint}"
        raise ScoreError(message, rule, row, None, float(totals[row]), n_rows)
    return totals


def _check_cells(bad: Bools, rule: str, values: Floats, offsets: Ints) -> None:
    """Refuse the first bad cell."""
    if not bad.any():
        return
    cell = int(bad.argmax())
    row = int(np.searchsorted(offsets, cell, side="right")) - 1
    position, value = cell - int(offsets[row]), float(values[cell])
    where = f"in row {row}, column {position}"
    message = {
        "nan": f"proba must not be NaN; got NaN {where}; look for 0/0 in the model, or drop the row",
        "infinite log": f"log-scores must be finite or -inf; got inf {where}; clip them",
        "no probability": f"proba must not be {'negative' if value < 0 else 'infinite'}; got {value:g} {where}; "
        'pass scores="log" if these are log-probabilities or logits',
    }[rule]
    raise ScoreError(message, rule, row, position, value)


@dataclass(frozen=True, eq=False)
class Cells:
    """A user's table, cell by cell.

    Attributes
    ----------
    structure : Categorical, Chain or EdgeChain
        An instance per row of the table: a label, or of a lattice a sequence of labels.
    scores : Parts
        Nats per cell, ``-inf`` where the probability is 0.
    names : ndarray, Coded, or None
        The labels, where the user named them: those of one row (of a lattice, of one token) where all have the same,
        else of every cell. Text is coded.
    ragged : bool
        Whether rows have their own length, and the user is handed back a list of them.
    weights : ndarray of shape (n_rows,) or None
        How often every row counts, where the user said so.
    frame : narwhals.DataFrame or None
        The table itself, where it was a data frame.
    """

    structure: Categorical | Chain | EdgeChain
    scores: Parts
    names: Key | None
    ragged: bool = False
    weights: Floats | None = None
    frame: narwhals.DataFrame[Any] | None = None

    @cached_property
    def columns(self) -> Mapping[str, NDArray]:
        """Columns of a lattice; of other tables ``row`` alone, as the numbers of labels take much memory."""
        return {"row": self.structure.instance} if self.is_table else self.structure.columns

    @property
    def column_names(self) -> tuple[str, ...]:
        """What constraints may name besides the columns of the user."""
        return ("row", "label") if self.is_table else tuple(self.columns)

    @property
    def is_table(self) -> bool:
        """Whether rows choose one label each, and not one for each token of a lattice."""
        return isinstance(self.structure, Categorical)

    def check_labels(self, constraints: Constraints) -> None:
        """Refuse constraints that name a label which there is not."""
        for name in ("label", "previous"):
            if name in self.column_names:
                check_values(constraints, name, self.known_labels)

    @property
    def known_labels(self) -> list[Any]:
        """All values of ``part("label")``."""
        if self.names is not None:
            return distinct(self.names)[0].tolist()
        table = self.structure
        return list(range(int(table.sizes.max(initial=0)) if isinstance(table, Categorical) else table.n_states))

    def labels(self, cells: Ints | None = None) -> Key:
        """The labels of some cells, or of all, where the user named them."""
        assert self.names is not None
        cells = np.arange(self.structure.n_unary) if cells is None else cells
        if isinstance(self.structure, EdgeChain):
            cells = self.structure.state_part[cells]
        return self.names[cells % len(self.names)]

    @property
    def label_columns(self) -> dict[str, Key]:
        """The labels that the user named, and those before, cell by cell."""
        if self.names is None:
            return {}
        labels: dict[str, Key] = {"label": self.labels()}
        if "previous" in self.columns:
            before = self.columns["previous"]
            known = ~np.isnan(before)
            if isinstance(self.names, Coded):
                codes = np.full(len(before), -1, np.int32)
                codes[known] = self.names.codes[before[known].astype(np.int64)]
                labels["previous"] = Coded(self.names.values, codes)
            else:
                numbers = np.full(len(before), np.nan)
                numbers[known] = self.names[before[known].astype(np.int64)]
                labels["previous"] = numbers
        return labels

    def user_columns(self, columns: Any) -> Mapping[str, Key]:
        """A user's columns under their names, with values per row, per token of a lattice or per cell."""
        table = self.structure
        tokens = {} if isinstance(table, Categorical) else {"tokens": table.n_tokens}
        lengths = {"rows": table.n_instances} | tokens | {"cells": table.n_unary}
        hint = "give one value for each of one of these, best for each row"
        return read_columns(columns, lengths, taken=self.column_names, hint=hint)

    def positions(self, cells: Ints) -> Ints:
        """Which of the labels to choose among one cell of each row, or token, is."""
        if isinstance(self.structure, EdgeChain):
            return self.structure.state_part[cells] % self.structure.n_states
        return cells - self.structure.offsets[:-1]

    def cut(self, values: NDArray) -> NDArray | list[NDArray]:
        """Values of the cells as the user gave them.

        An array of shape (n_rows, n_labels); of a ragged table a list of rows, of a lattice one of arrays of shape
        (n_tokens, n_labels).
        """
        table = self.structure
        if not isinstance(table, Categorical):
            if isinstance(table, EdgeChain):
                values = np.bincount(table.state_part, values, table.n_tokens * table.n_states)
            return np.split(values.reshape(-1, table.n_states), table.token_offsets[1:-1])
        if self.ragged:
            return [values[start:stop] for start, stop in pairwise(table.offsets)]
        return values.reshape(table.n_instances, -1)


def read_cells(proba: Any, labels: Any, scores: str, constraints: Constraints = ()) -> Cells:
    """Check a user's table and take the logarithm of what are probabilities.

    The cells of a lattice are pairs of neighbouring labels if the constraints name the label before.

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
        return _read_lattice(proba, labels, any("previous" in used_columns(one) for one in flatten(constraints)))
    frame = as_frame(proba, "proba")
    columns = None if frame is None else frame.columns
    labels = _by_position(labels, columns)
    if labels is None and columns is not None:
        labels = [name if isinstance(name, (int, float)) else str(name) for name in columns]
    values, sizes, ragged = _values(proba if frame is None else frame.to_numpy(), labels)
    if not len(sizes):
        raise InvalidInputError(f"proba must have a row or more, got shape {np.shape(proba)}; skip tables without rows")
    if (sizes == 0).any():
        raise InvalidInputError(
            f"proba must have a label or more in every row; row {int(np.argmin(sizes))} is empty; drop the row"
        )
    structure = Categorical(sizes, "row")
    if scores == "log":
        check_log_scores(values, structure.offsets)
    else:
        totals = check_probabilities(values, structure.offsets)
        by_row = values if ragged else values.reshape(len(sizes), -1)
        values = (by_row / (np.repeat(totals, sizes) if ragged else totals[:, None])).ravel()
        with np.errstate(divide="ignore"):
            np.log(values, out=values)
    return Cells(structure, Parts(values), _read_names(labels, sizes, ragged), ragged, frame=frame)


def _read_lattice(lattice: Lattice, labels: Any, pairs: bool) -> Cells:
    lengths = np.array([len(row) for row in lattice.scores], np.int64)
    if (lengths == 0).any():
        raise InvalidInputError(
            f"Lattice: row {int(np.argmin(lengths))} has no tokens; a row needs one or more; drop the row"
        )
    width, unary = len(lattice.transitions), np.concatenate(lattice.scores).ravel()
    structure = (EdgeChain if pairs else Chain)(lengths, width, instance_name="row", label_name="label")
    if isinstance(structure, EdgeChain):
        unary = unary[structure.state_part]
    scores = Parts(unary, (lattice.transitions,))
    values, _ = structure.smoothed_max(scores, 1.0)
    if np.isneginf(values).any():
        raise InvalidInputError(
            f"Lattice: row {int(np.argmin(values))} has no possible labels, every sequence scores -inf; drop the row, "
            "or allow more"
        )
    return Cells(structure, scores, _read_names(labels, np.array([width]), False), True)


def _values(proba: Any, labels: Any) -> tuple[Floats, Ints, bool]:
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


def _numbers(values: ArrayLike) -> Floats:
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


def _read_names(labels: Any, sizes: Ints, ragged: bool) -> Key | None:
    """The labels of a row, or of every cell of a ragged table."""
    if labels is None:
        return None
    if ragged:
        if not _nested(labels) or [len(row) for row in labels] != sizes.tolist():
            raise InvalidInputError(
                "labels of a ragged table must be a list of rows as long as those of proba; give one label per cell"
            )
        return as_key(np.concatenate([_as_names(row) for row in labels]))
    names = _as_names(labels)
    if names.shape != (sizes[0],):
        raise InvalidInputError(
            f"labels must name the {sizes[0]} columns of proba, got shape {names.shape}; give one label per column"
        )
    if len(set(names.tolist())) < len(names):
        raise InvalidInputError(f"labels must differ, got {names.tolist()}; give every column a label of its own")
    return as_key(names)


def _as_names(labels: Sequence[object]) -> NDArray:
    listed = np.asarray(labels).tolist() if isinstance(labels, np.ndarray) else list(labels)
    types = {"text" if isinstance(label, str) else "number" for label in listed}
    array = np.array(listed)
    if len(types) > 1 or array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"labels must be all text or all numbers, got {listed[:5]!r}; turn them into text by str(...)"
        )
    return array
