"""`spectrem.project`: tables of predictions, constraints on them, and decisions under them."""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._html import BLUE, and_more, document, facts, page, table, with_bar
from spectrem._progress import progress_bar, share_shown
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool, as_sample_weight, check_same_index
from spectrem.constraints import Rows, check_columns, check_values, compile_constraints
from spectrem.constraints.columns import read_columns
from spectrem.constraints.compilation.draft import each_columns, used_columns
from spectrem.constraints.compilation.groups import Coded, Key, as_key, distinct, number_groups
from spectrem.constraints.compilation.rows import Alike
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.links import resolve_links
from spectrem.constraints.text import Constraints, flatten
from spectrem.data.files import write_texts
from spectrem.data.frames import as_frame, filled_frame
from spectrem.data.table_file import as_label_names
from spectrem.exceptions import InvalidInputError, listed, shorten, warn
from spectrem.inference import Solver, Status, project_batch
from spectrem.inference.assignment import OnStep, assign, unheard
from spectrem.inference.dual import weigh_rows
from spectrem.inference.program import Deadline
from spectrem.inference.result import Infeasible
from spectrem.reports import ConstraintReport, constraint_lines, price_copies, prices_by_name, report_rows
from spectrem.reports.constraints import MOST_LINES, rounded
from spectrem.reports.html import constraint_tables
from spectrem.structures import Categorical, Chain, EdgeChain, Parts
from spectrem.structures.structure import has_one_label

if TYPE_CHECKING:
    import narwhals


# ---- tables as users give them ---------------------------------------------------------------------------------------


@brief_dataclass(frozen=True, eq=False)
class Lattice:
    """Scores of the labels of tokens and of neighbouring labels, in nats: what a CRF, an HMM or a tagger's logits give.

    Pass it to `spectrem.project` in place of a table; its rows are the sequences, and constraints may name the columns
    ``"row"``, ``"token"`` (position in the row), ``"occurrence"`` (token of the lattice), ``"label"`` and
    ``"previous"``, the label of the token before (missing at the first), which makes the pairs of neighbouring labels
    its parts and takes that many times longer. Weights of rows (``sample_weight``) are weights of whole sequences.

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

LARGEST_LOG = 1e290
"""The largest log-score that a row may have beside others as low as -1.8e308, in nats: no difference overflows."""


class ScoreError(InvalidInputError):
    """A cell of a table that is no score, or a row whose scores are none together.

    Attributes
    ----------
    rule : {"nan", "infinite log", "large log", "impossible", "no probability", "zero", "sum"}
        What it breaks.
    row : int
    position : int or None
        Of the cell in its row; None for whole rows.
    value : float
        Of the cell, or the sum of the row.
    n_rows : int
        How many rows are like it.

    Examples
    --------
    >>> from spectrem import project
    >>> try:
    ...     project([[0.5, 0.5], [0.5, float("nan")]], [])
    ... except ScoreError as error:
    ...     print(error.row, error.position)
    1 1
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
    tops = np.maximum.reduceat(values, offsets[:-1])
    beyond = np.isfinite(tops) & (np.abs(tops) > LARGEST_LOG)
    if beyond.any():
        sizes = np.diff(offsets)
        _check_cells(np.repeat(beyond, sizes) & (values == np.repeat(tops, sizes)), "large log", values, offsets)
    impossible = np.isneginf(tops)
    if impossible.any():
        row = int(impossible.argmax())
        raise ScoreError(
            f"log-scores must leave a label possible in every row; row {row} is -inf throughout; drop the row",
            "impossible",
            row,
        )


def check_probabilities(values: Floats, offsets: Ints) -> Floats:
    """Refuse what are no probabilities; the sum of each row, shape (n_rows,).

    Sums that differ from 1 by no more than rounding to the decimals of the table explains are told by a warning.
    """
    if not (values.min() >= 0 and values.max() < np.inf):
        _check_cells(np.isnan(values), "nan", values, offsets)
        _check_cells((values < 0) | (values == np.inf), "no probability", values, offsets)
    totals = np.add.reduceat(values, offsets[:-1])
    off = ~(np.abs(totals - 1.0) <= SUM_TOLERANCE)
    decimals = _decimals(values) if off.any() else None
    if decimals is not None:
        rounded = np.abs(totals - 1.0) <= 0.5 * 10.0**-decimals * np.diff(offsets) + 1e-9
        if rounded.all():
            row, n_off = int(off.argmax()), int(off.sum())
            more = f" ({n_off} such rows)" if n_off > 1 else ""
            warn(
                f"the probabilities are rounded to {decimals} decimals and sum to 1 up to that: those of row {row} to "
                f"{totals[row]:g}{more}; every row was divided by its sum"
            )
            return totals
        off &= ~rounded
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


def _decimals(values: Floats) -> int | None:
    """How many decimals, 3 to 6, all numbers are rounded to, up to single precision; None if they are not.

    Two decimals would explain sums of 0.99, behind which there may as well be a label that was left out.
    """
    for decimals in range(3, 7):
        for some in (values[:1000], values):
            scaled = some * 10.0**decimals
            if not (np.abs(scaled - np.rint(scaled)) <= 1e-3).all():
                break
        else:
            return decimals
    return None


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
        "large log": f"the largest log-score of a row must be between {-LARGEST_LOG:g} and {LARGEST_LOG:g}, as "
        f"differences and sums of more overflow; got {value:g} {where}; subtract it from the row",
        "infinite log": f"log-scores must be finite or -inf; got inf {where}; clip them",
        "no probability": f"proba must not be {'negative' if value < 0 else 'infinite'}; got {value:g} {where}; "
        'pass scores="log" if these are log-probabilities or logits',
    }[rule]
    raise ScoreError(message, rule, row, position, value)


@brief_dataclass(frozen=True, eq=False)
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
        """The columns that constraints may name besides those of the user."""
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
            names = self.names[np.where(known, before, 0).astype(np.int64)]
            if isinstance(names, Coded):
                labels["previous"] = Coded(names.values, np.where(known, names.codes, -1))
            else:
                labels["previous"] = np.where(known, names, np.nan)
        return labels

    def user_columns(self, columns: Any) -> Mapping[str, Key]:
        """A user's columns under their names, with values per row, per token of a lattice or per cell."""
        table = self.structure
        tokens = {} if isinstance(table, Categorical) else {"tokens": table.n_tokens}
        lengths = {"rows": table.n_instances} | tokens | {"cells": table.n_unary}
        hint = "give one value for each of one of these, best for each row"
        return read_columns(columns, lengths, taken=self.column_names, hint=hint)

    def positions(self, cells: Ints) -> Ints:
        """The position of one cell of each row, or token, among its labels."""
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


def _by_prefix(proba: Any, prefix: str, columns: Any, labels: Any) -> tuple[Any, Any, list[Any]]:
    """The columns of a frame whose names begin so, the columns for constraints, and the labels."""
    frame = as_frame(proba, "proba")
    if frame is None or labels is not None:
        wrong = f"proba of type {type(proba).__name__}" if frame is None else "labels, too"
        raise InvalidInputError(
            f"prefix needs proba to be a data frame and names its labels, got {wrong}; give one of prefix and labels"
        )
    names = [name for name in frame.columns if str(name).startswith(prefix)]
    if not names or prefix in names:
        what = f"{prefix!r} is the whole name of one" if names else "none does"
        raise InvalidInputError(
            f"prefix must be how names of columns of proba begin, and {what}; they are {listed(frame.columns)}"
        )
    others = [name for name in frame.columns if name not in names]
    if columns is None and others:
        columns = frame.select(others).to_native()
    return frame.select(names).to_native(), columns, as_label_names([name.removeprefix(prefix) for name in names])


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


# ---- constraints on a table ------------------------------------------------------------------------------------------


def compile_table(constraints: Sequence[Any], cells: Cells, columns: Mapping[str, Key]) -> Rows:
    """The rows of constraints on a table, in which rows with the same values share their coefficients.

    Shares of labels look at no column, so all rows of the table are alike; what a document may hold looks at the
    documents. Memory and time are then those of the distinct rows.

    Raises
    ------
    InvalidInputError
        As `spectrem.constraints.compile_constraints`.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> cells = read_cells([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], None, "probabilities")
    >>> rows = compile_table([E[part("label") == 1] <= 1], cells, {})
    >>> rows.matrix.toarray(), rows.whole.matrix.toarray()
    (array([[0., 1.]]), array([[0., 1., 0., 1., 0., 1.]]))
    """
    distinct_rows = _distinct_rows(constraints, cells, columns)
    if distinct_rows is not None:
        alike, of_distinct, copies = distinct_rows
        one_of_each = Categorical(np.full(len(copies), alike.width), "row")
        try:
            rows = compile_constraints(constraints, one_of_each, of_distinct, copies)
        except InvalidInputError:
            pass  # compiled below for all rows, whose parts errors then number as the user does
        else:
            if all(block.weighted for block in rows.blocks):
                return replace(rows, alike=alike)
    named = ChainMap(cells.label_columns, cast(Any, columns))  # nobody writes to it
    return compile_constraints(constraints, cells.structure, named, cells.weights)


def expected_of(cells: Cells, rows: Rows, values: Floats) -> Floats:
    """Expected values of the constraints' rows under these probabilities of cells, shape (n_constraint_rows,)."""
    if rows.alike is None:
        expected: Floats = weigh_rows(cells.structure, rows, cells.weights).matrix @ values
        return expected
    weights = np.broadcast_to(1.0, cells.structure.n_instances) if cells.weights is None else cells.weights
    return rows.matrix @ rows.alike.add_up(values, weights)


def expected_before(cells: Cells, rows: Rows) -> Floats:
    """Expected values under the probabilities that the table had before the projection."""
    return expected_of(cells, rows, cells.structure.smoothed_max(cells.scores, 1.0)[1].unary)


def _distinct_rows(
    constraints: Sequence[Any], cells: Cells, columns: Mapping[str, Key]
) -> tuple[Alike, Mapping[str, Key], Floats] | None:
    """Classes of rows that constraints cannot tell apart, the columns of one row of each, and their total weights.

    None where that cannot be said, or where most rows are of their own.
    """
    if cells.ragged or not all(isinstance(one, Constraint) and not each_columns(one) for one in constraints):
        return None
    n = cells.structure.n_instances
    width = cells.structure.n_unary // n
    names = sorted(set().union(*map(used_columns, constraints)) - {"label"})
    if width < 2 or any(name not in columns or columns[name].shape != (n,) for name in names):
        return None
    keys = [key.codes + 1 if isinstance(key := columns[name], Coded) else key for name in names]
    kind, first = number_groups(keys, n)
    if 2 * len(first) > n:
        return None
    of_distinct: dict[str, Key] = {name: columns[name][first] for name in names}
    if cells.names is not None:
        of_distinct["label"] = cells.labels(np.arange(width * len(first)))
    return Alike(kind.astype(np.int32), width), of_distinct, np.bincount(kind, cells.weights).astype(np.float64)


@brief_dataclass(frozen=True, eq=False)
class Decision:
    """The best labels that meet the constraints, and how much better fractions could be.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), or (n_tokens,) of a lattice
        The label of every row (or token): its name where the table has names, else its position.
    positions : ndarray of int64, alike
        Which of its row's labels it is.
    score : float
        Sum of the scores of the labels chosen less penalties, nats.
    relaxation : float
        No labels that meet the constraints score more: the score of the best fractions that meet them (gamma = 0), in
        large tables a bound a little above it. Bounds of rows with whole coefficients are rounded to whole numbers
        first.
    n_changed : int
        How many labels are not the best ones by the scores alone.
    gap : float
        ``relaxation - score`` in nats; 0 proves that no other labels are better.
    violation : float
        Worst violation of any row after the slack it is allowed; 0 up to rounding.
    status : Status
        ``CERTIFIED``: proven best, of large tables up to the gap allowed; ``MAX_ITERATIONS`` where the time limit came
        first.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> table = project([[0.9, 0.1], [0.7, 0.3]], E[part("label") == "spam"] >= 1, labels=["ham", "spam"])
    >>> decision = table.decide()
    >>> decision.labels.tolist(), decision.n_changed, decision.gap
    (['ham', 'spam'], 1, 0.0)
    """

    labels: NDArray
    positions: Ints
    score: float
    relaxation: float
    n_changed: int
    gap: float
    violation: float
    status: Status

    def _repr_html_(self) -> str:
        counts = Counter(map(str, self.labels.tolist())).most_common()
        rows = [(escape(shorten(name)), with_bar(f"{n:,}", BLUE, n / counts[0][1])) for name, n in counts[:MOST_LINES]]
        summary = {
            "status": self.status.message,
            "other than the best alone": f"{self.n_changed:,} of {len(self.labels):,}",
            "score": f"{self.score:.6g} nats",
            "gap": f"{self.gap:.3g} nats",
            "violation": f"{self.violation:.3g}",
        }
        rest = and_more(len(counts) - MOST_LINES, "more labels")
        return page("Decision", facts(summary), table(("label", "rows"), rows), rest)


@brief_dataclass(frozen=True, eq=False)
class ProjectedTable:
    """The table nearest to a model's that meets the constraints.

    Attributes
    ----------
    proba : ndarray of shape (n_rows, n_labels), or list of ndarrays
        Projected probabilities; a list where rows have their own length, of arrays (n_tokens, n_labels) for a lattice.
    constraints : tuple of ConstraintReport
        In the order in which they were given.
    status : Status
        ``status.message`` says it in words.
    kl : float or None
        What the constraints cost the objective in nats: KL(projected || given) at gamma = 1 without slack; None for
        an integer program.
    objective : float
        ``<scores, q> + gamma H(q) - slack`` in nats. In it and in ``kl``, rows count as often as their weights say.
    violation_before, violation_after : float
        The worst of any row of any constraint, in the row's own unit and whatever slack it has.
    violation : float
        The worst of any row or slack group after the projection, beyond the slack that it was granted: 0 up to rounding
        where the constraints are met as they were meant. A penalty grants any slack; rows that were left out
        (``infeasible="skip"``) do not count.
    multipliers : ndarray of shape (n_constraint_rows,)
        Prices in the order of the compiled rows.
    n_evaluations : int
        Passes over the table.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> table = project([[0.9, 0.1], [0.7, 0.3]], E[part("label") == 1] >= 1)
    >>> table.proba.round(3).tolist(), round(table.kl, 3)
    ([[0.663, 0.337], [0.337, 0.663]], 0.486)
    """

    proba: Floats | list[Floats]
    constraints: tuple[ConstraintReport, ...]
    status: Status
    kl: float | None
    objective: float
    violation_before: float
    violation_after: float
    violation: float
    multipliers: Floats
    n_evaluations: int
    _cells: Cells = field(repr=False)
    _rows: Rows = field(repr=False)

    def to_frame(self) -> Any:
        """``proba`` as the kind of data frame that was given, with its index and columns: of pandas, polars or Arrow.

        Returns
        -------
        data frame
            Of the kind that was given, shape (n_rows, n_labels).

        Raises
        ------
        InvalidInputError
            If no data frame was given.

        Examples
        --------
        >>> import polars
        >>> from spectrem import E, part, project
        >>> given = polars.DataFrame({"ham": [0.9, 0.4], "spam": [0.1, 0.6]})
        >>> project(given, E[part("label") == "spam"] == 1).to_frame().columns
        ['ham', 'spam']
        """
        if self._cells.frame is None:
            raise InvalidInputError("to_frame needs proba to have been a data frame; take the array, table.proba")
        return filled_frame(self._cells.frame, np.asarray(self.proba))

    @property
    def prices(self) -> dict[str, Floats]:
        """``price`` of every constraint by its name; a second one of the same name is called ``"name (2)"``."""
        return prices_by_name((report.name, report.price) for report in self.constraints)

    def decide(
        self,
        *,
        time_limit: float | None = None,
        gap: float = 1e-4,
        on_step: OnStep = unheard,
        verbose: bool = False,
    ) -> Decision:
        """The best single label for every row such that the constraints hold exactly.

        Maximises the sum of the scores of the labels chosen (the log of the probabilities that the table had before the
        projection), less the penalties of slack: the argmax of [Chang2007]. Constraints that only count the labels of
        rows which they tie together are met along shortest paths; all others by a linear program where that is integral
        and an integer program (HiGHS) where not. Where they tie more than 20,000 probabilities together, labels whose
        price rules them out are left out, and the search ends once the labels found are proven to be within ``gap`` of
        the best; most are a thousand times nearer. A row of weight w (``sample_weight``) counts w times, in its score
        as in constraints over rows, but has one label: it is not split as w rows might be.

        Parameters
        ----------
        time_limit : float or None
            Seconds for all programs together; None is 300, inf no limit. Then the best decision found so far is
            returned, with its gap. If there is none because the constraints conflict, which of them do is looked for
            in some seconds more.
        gap : float
            Of large tables: by which share of the score other labels might be better at most. 0 goes on to the proof
            that none are, which may take many times longer. Smaller tables are always solved to the end.
        on_step : callable, optional
            Called with the share of the work that is done, from 0 to 1, to show progress.
        verbose : bool
            Whether to show it by a bar, as `project` does.

        Returns
        -------
        Decision

        Raises
        ------
        InfeasibleConstraintError
            If no choice of labels meets the constraints, although probabilities may.
        InvalidInputError
            If a slack has an l2 norm, or nothing was found within the time limit.

        Examples
        --------
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], E[part("label") == 1] == 1)
        >>> table.decide().labels
        array([0, 0, 1])
        """
        if as_bool(verbose, "verbose"):
            with progress_bar(1.0, shown=True) as bar:
                show = share_shown(bar, "Deciding", on_step)
                return self.decide(time_limit=time_limit, gap=gap, on_step=show)
        cells, structure, rows = self._cells, self._cells.structure, self._rows
        scores, weights = cells.scores, cells.weights
        values: dict[str, Any]
        if has_one_label(structure):
            assignment = assign(
                structure, scores.unary, rows.whole, weights=weights, time_limit=time_limit, gap=gap, on_step=on_step
            )
            positions, cell = assignment.labels, structure.offsets[:-1] + assignment.labels
            values = {name: getattr(assignment, name) for name in ("score", "relaxation", "gap", "violation", "status")}
        else:  # by the integer program and the linear relaxation of the structure
            deadline = Deadline(time_limit)
            best = project_batch(structure, scores, rows, -np.inf, weights=weights, time_limit=deadline.left)
            relaxed = project_batch(structure, scores, rows, 0.0, weights=weights, time_limit=deadline.left)
            cell = np.flatnonzero(np.rint(best.marginals.unary) == 1)
            positions, gap = cells.positions(cell), relaxed.dual_value - best.primal_value
            gap = gap if gap > 1e-9 * max(1.0, abs(best.primal_value)) else 0.0
            values = {"score": best.primal_value, "relaxation": best.primal_value + gap, "gap": gap}
            values |= {"violation": best.violation, "status": best.status}
        return Decision(
            labels=positions if cells.names is None else np.asarray(cells.labels(cell)),
            positions=positions,
            n_changed=int((structure.decode(scores) != positions).sum()),
            **values,
        )

    def summary(self) -> str:
        """At most 40 lines of text: of every constraint how many rows bind, what they cost, and those that cost most.

        A line gives the expected value before and after, the bound and the price, in nats per unit of the bound or per
        percentage point of a share. ``constraints`` has all rows.

        Returns
        -------
        str

        Examples
        --------
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
        >>> print(table.summary())
        one of them: 0.4 -> 1 >= 1, price 1.52, cost 0.4567 nats
        """
        return "\n".join(constraint_lines(self._shown_constraints, MOST_LINES - 1))

    @property
    def _shown_constraints(self) -> Sequence[ConstraintReport]:
        """The constraints as summaries and pages show them: an integer program knows no prices."""
        if self.kl is not None or self.multipliers.any():
            return self.constraints
        return [replace(report, price=np.full(len(report.price), np.nan)) for report in self.constraints]

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Write a page of HTML about the constraints, which needs nothing else, to a file.

        Parameters
        ----------
        path : path
            Such as ``"projected.html"``.

        Raises
        ------
        InvalidInputError
            If the folder does not exist or the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table.save_report(Path(folder, "projected.html"))
        ...     "one of them" in Path(folder, "projected.html").read_text()
        True
        """
        write_texts(path, [self.to_html()])

    def to_html(self, command: str | None = None) -> str:
        """The page that `save_report` writes; the command line, if there was one, stands at its end.

        Parameters
        ----------
        command : str, optional

        Returns
        -------
        str
            A whole page of HTML.
        """
        return document("Projected table", self._repr_html_(), command)

    def _repr_html_(self) -> str:
        summary: dict[str, object] = {"status": self.status.message, "objective": f"{self.objective:.6g} nats"}
        if self.kl is not None:
            summary["cost of the constraints"] = f"{self.kl:.6g} nats"
        summary["largest violation"] = f"{rounded(self.violation_before)} → {rounded(self.violation_after)}"
        if any(block.slack is not None for block in self._rows.blocks):
            summary["beyond the slack granted"] = f"{self.violation:.3g}"
        return page(
            f"Projected table of {len(self.proba):,} rows", facts(summary), constraint_tables(self._shown_constraints)
        )


def project(
    proba: Any,
    constraints: Constraints,
    gamma: float = 1.0,
    *,
    columns: Any = None,
    labels: Any = None,
    prefix: str | None = None,
    sample_weight: ArrayLike | None = None,
    scores: Literal["probabilities", "log"] = "probabilities",
    solver: Solver | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    infeasible: Infeasible = "raise",
    time_limit: float | None = None,
    verbose: bool = False,
) -> ProjectedTable:
    """The table nearest to a model's predictions whose expectations meet the constraints.

    Every row is a distribution over labels, from any model. At gamma = 1 the result is nearest in
    KL(projected || given) ([Ganchev2010] eq. 7); at gamma = 0 it is the best table of probabilities
    (the linear relaxation of choosing labels), at gamma = -inf the best choice of one label per row
    ([Samdani2012] eqs 8-14).

    Use when something is known about predictions together (proportions, counts, at most one per document) that the
    model that made them does not know.

    Parameters
    ----------
    proba : array-like of shape (n_rows, n_labels), list of rows, data frame or Lattice
        Probabilities, each row summing to 1 within 1e-4, or within what rounding to its decimals explains (and then
        divided by its sum). Rows of different length make a ragged table. The columns of a data frame are its labels.
        A `Lattice` holds scores of tokens and of transitions, whatever ``scores`` says.
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        Over the columns ``"row"``, ``"label"`` and those of ``columns``. Constraints ``.per("row", ...)`` hold inside
        each row, all others over the rows of the table.
    gamma : float
        -inf, or any number >= 0.
    columns : mapping of name -> array-like, or data frame, optional
        A value per row (or per cell, row by row) under each name: document, type, group ... Only those that
        constraints name are looked at. Missing values (None, NaN, NA, null) belong to no group and equal nothing.
    labels : sequence of length n_labels, or list of rows, optional
        What ``part("label")`` is; without it the position, from 0. Of a ragged table one list per row.
    prefix : str, optional
        The probabilities are in those columns of the data frame ``proba`` whose names begin so, and the rest of each
        name is the label; its other columns are ``columns``, unless these are given.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row (of a lattice, each sequence) counts, >= 0: a row of weight w is w rows in constraints over
        rows and in their ``E.count``, in ``kl`` and ``objective``, and in prices. Rows of weight 0 do not affect the
        prices, at which they are projected.
    scores : {"probabilities", "log"}
        ``"log"``: ``proba`` holds log-probabilities, logits or other scores in nats, -inf for impossible.
    solver : Solver or None
        As in `spectrem.inference.project_batch`.
    tol : float
        Largest residual relative to the size of a row of the constraints.
    max_iter : int or None
    infeasible : {"raise", "skip"}
        ``"skip"`` leaves out constraints inside a row where they cannot hold; their price is 0, and what remains of
        their violation is reported.
    time_limit : float or None
        Seconds for the linear and integer programs of gamma = 0 and -inf together, as in
        `spectrem.inference.project_batch`; None is 300, inf no limit.
    verbose : bool
        Whether to show that work goes on, where standard error is a terminal, and in notebooks, where that takes
        ipywidgets.

    Returns
    -------
    ProjectedTable

    Raises
    ------
    InvalidInputError
        Pandas objects whose indices differ; NaN, negative numbers, rows that do not sum to 1 or are zero throughout; a
        constraint over a column that does not exist (the message lists those that do), a label that does not or a value
        that no row has (unless allowed by `Constraint.allow_empty`); columns of a wrong length; weights that are
        negative, not finite, of a wrong length or all 0.
    InfeasibleConstraintError
        No probabilities meet the constraints; the message names those that conflict.

    Warns
    -----
    ConvergenceWarning
        If the solver ran out of iterations or time.
    UserWarning
        If rows sum to 1 only up to the decimals (3 to 6) to which the probabilities are rounded.

    Examples
    --------
    Three messages of which, it is known, two are spam in expectation:

    >>> from spectrem import E, part, project
    >>> table = project(
    ...     [[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]],
    ...     (E[part("label") == "spam"] == 2).named("two are spam"),
    ...     labels=["ham", "spam"],
    ... )
    >>> table.proba.round(2).tolist()
    [[0.68, 0.32], [0.13, 0.87], [0.19, 0.81]]
    >>> table.prices["two are spam"].round(2)
    array([-1.46])
    >>> table.decide().labels.tolist()
    ['ham', 'spam', 'spam']

    Each label at most once per document:

    >>> once = {"once": '(E[...] <= 1).per("document", "label")'}
    >>> table = project([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], once, columns={"document": ["a", "a", "b"]})
    >>> table.proba.sum(axis=0).round(2), table.decide().labels
    (array([1.2, 1.8]), array([0, 1, 1]))

    A data frame as ``spectrem project --prefix p_`` takes it:

    >>> import polars
    >>> mail = polars.DataFrame({"document": ["a", "a"], "p_ham": [0.9, 0.4], "p_spam": [0.1, 0.6]})
    >>> table = project(mail, "(E[label == 'spam'] <= 0.5).per('document')", prefix="p_")
    >>> table.to_frame()["p_spam"].round(2).to_list()
    [0.06, 0.44]

    Four messages, three of them alike and told once; 40 % are spam:

    >>> spam = E[part("label") == 1] == 0.4 * E.count(part("label") == 1)
    >>> project([[0.9, 0.1], [0.4, 0.6]], spam, sample_weight=[3, 1]).proba.round(2).tolist()
    [[0.74, 0.26], [0.18, 0.82]]
    """
    if prefix is not None:
        proba, columns, labels = _by_prefix(proba, prefix, columns, labels)
    check_same_index(proba=proba, columns=columns, sample_weight=sample_weight)
    cells = read_cells(proba, labels, scores, constraints)
    del proba  # a large table of which the caller keeps nothing is not held twice
    unit = "row of proba" if cells.is_table else "sequence of the lattice"
    cells = replace(cells, weights=as_sample_weight(sample_weight, cells.structure.n_instances, unit))
    rows = _compile(constraints, columns, cells)
    with progress_bar(None, shown=as_bool(verbose, "verbose")) as bar:
        bar("Projecting")
        solution = project_batch(
            cells.structure, cells.scores, rows, gamma, solver=solver, weights=cells.weights, tol=tol,
            max_iter=max_iter, infeasible=infeasible, time_limit=time_limit,
        )  # fmt: skip
    before = solution.free_expected if gamma == 1 else None
    if before is None:
        before = expected_before(cells, rows)
    multipliers = solution.multipliers if len(solution.multipliers) else np.zeros(len(rows.bounds))
    prices = price_copies(rows, cells.weights, multipliers)
    reports = report_rows(rows, prices, before, expected_of(cells, rows, solution.marginals.unary))
    return ProjectedTable(
        proba=cells.cut(solution.marginals.unary),
        constraints=reports,
        status=solution.status,
        kl=solution.kl,
        objective=solution.primal_value,
        violation_before=max((r.violation_before.max(initial=0.0) for r in reports), default=0.0),
        violation_after=max((r.violation_after.max(initial=0.0) for r in reports), default=0.0),
        violation=solution.violation,
        multipliers=multipliers,
        n_evaluations=solution.n_evaluations,
        _cells=cells,
        _rows=rows.pick(~np.isin(np.arange(len(rows.bounds)), solution.skipped)) if len(solution.skipped) else rows,
    )


def _compile(constraints: Constraints, columns: Any, cells: Cells) -> Rows:
    """The rows of the constraints, whose names and values are checked first."""
    user_columns = cells.user_columns(columns)
    listed = flatten(constraints, list(dict.fromkeys([*cells.column_names, *user_columns])))
    cells.check_labels(listed)
    named = set().union(*map(used_columns, listed)) - {"label", "previous"}
    known = ChainMap(
        {name: cells.columns[name] for name in cells.column_names if name in named}, cast(Any, user_columns)
    )
    check_columns(listed, {name: known[name] for name in named if name in known})
    return compile_table(list(resolve_links(listed, known, cells.structure.n_instances)), cells, user_columns)
