"""`spectrem.project`: constraints on a table of predictions, and decisions under them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_sample_weight, check_same_index
from spectrem.constraints.compilation.compile import Constraints, compile_constraints, flatten
from spectrem.constraints.compilation.draft import each_columns, used_columns
from spectrem.constraints.compilation.groups import Coded, Key, number_groups
from spectrem.constraints.compilation.rows import Alike, Rows
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.links import resolve_links
from spectrem.constraints.values import check_columns
from spectrem.data.frames import filled_frame
from spectrem.exceptions import InvalidInputError
from spectrem.inference import Infeasible
from spectrem.inference.assignment import assign
from spectrem.inference.batch import project_batch
from spectrem.inference.oracle import posteriors_alike, weigh_rows
from spectrem.inference.program import Deadline
from spectrem.inference.result import Status
from spectrem.inference.solvers.first_order import Solver
from spectrem.reports import price_copies, report_rows
from spectrem.reports.constraints import ConstraintReport, prices_by_name, row_line
from spectrem.reports.html import constraint_tables, facts, page
from spectrem.structures.categorical import Categorical
from spectrem.structures.structure import has_one_label
from spectrem.tables.reading import Cells, read_cells


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
    >>> from spectrem.tables.reading import read_cells
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
    return rows.matrix @ rows.alike.add_up(values, _weights(cells))


def expected_before(cells: Cells, rows: Rows) -> Floats:
    """Expected values under the probabilities that the table had before the projection."""
    if rows.alike is None:
        return expected_of(cells, rows, cells.structure.smoothed_max(cells.scores, 1.0)[1].unary)
    free = np.zeros(rows.matrix.shape[1])
    return rows.matrix @ posteriors_alike(rows.alike, cells.scores.unary, free, 1.0, _weights(cells))[1]


def _weights(cells: Cells) -> Floats:
    return np.broadcast_to(1.0, cells.structure.n_instances) if cells.weights is None else cells.weights


def _distinct_rows(
    constraints: Sequence[Any], cells: Cells, columns: Mapping[str, Key]
) -> tuple[Alike, Mapping[str, Key], Floats] | None:
    """Which rows of the table constraints cannot tell apart, the columns of one of each, and how often each counts.

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
    return Alike(kind, width), of_distinct, np.bincount(kind, cells.weights).astype(np.float64)


@dataclass(frozen=True, eq=False)
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
        The same of the best fractions that meet the constraints (gamma = 0), never less. Bounds of rows with whole
        coefficients are rounded to whole numbers first.
    n_changed : int
        How many labels are not the best ones by the scores alone.
    gap : float
        ``relaxation - score`` in nats; 0 proves that no other labels are better.
    violation : float
        Worst violation of any row after the slack it is allowed; 0 up to rounding.
    status : Status
        ``CERTIFIED``, or ``MAX_ITERATIONS`` where the time limit came first.
    """

    labels: NDArray
    positions: Ints
    score: float
    relaxation: float
    n_changed: int
    gap: float
    violation: float
    status: Status


@dataclass(frozen=True, eq=False)
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
        ``<scores, q> + gamma H(q) - slack`` in nats. In it and in `kl`, rows count as often as their weights say.
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
        """`proba` as the kind of data frame that was given, with its index and columns: of pandas, polars or Arrow.

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

    def decide(self, *, time_limit: float | None = None) -> Decision:
        """The best single label for every row such that the constraints hold exactly.

        Maximises the sum of the scores of the labels chosen (the log of the probabilities that the table had before the
        projection), less the penalties of slack: the argmax of [Chang2007]. Constraints that only count the labels of
        rows which they tie together are met along shortest paths; all others by a linear program where that is integral
        and an integer program (HiGHS) where not. A row of weight w (`sample_weight`) counts w times, in its score as in
        constraints over rows, but has one label: it is not split as w rows might be.

        Parameters
        ----------
        time_limit : float or None
            Seconds for all programs together; None is 300, inf no limit. Then the best decision found so far is
            returned, with its gap. If there is none because the constraints conflict, which of them do is looked for
            in some seconds more.

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
        cells, structure, rows = self._cells, self._cells.structure, self._rows
        scores, weights = cells.scores, cells.weights
        values: dict[str, Any]
        if has_one_label(structure):
            assignment = assign(structure, scores.unary, rows.whole, weights=weights, time_limit=time_limit)
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
        """One line per row of every constraint: expected value before and after, bound, price.

        Examples
        --------
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
        >>> print(table.summary())
        one of them: 0.4 -> 1 >= 1, price 1.52
        """
        return "\n".join(row_line(report, row) for report in self.constraints for row in range(len(report.bound)))

    def _repr_html_(self) -> str:
        summary: dict[str, object] = {"status": self.status.message, "objective": f"{self.objective:.6g} nats"}
        if self.kl is not None:
            summary["cost of the constraints"] = f"{self.kl:.6g} nats"
        summary["largest violation"] = f"{self.violation_before:.3g} → {self.violation_after:.3g}"
        if any(block.slack is not None for block in self._rows.blocks):
            summary["beyond the slack granted"] = f"{self.violation:.3g}"
        return page(f"Projected table of {len(self.proba)} rows", facts(summary), constraint_tables(self.constraints))


def project(
    proba: Any,
    constraints: Constraints,
    gamma: float = 1.0,
    *,
    columns: Any = None,
    labels: Any = None,
    sample_weight: ArrayLike | None = None,
    scores: Literal["probabilities", "log"] = "probabilities",
    solver: Solver | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    infeasible: Infeasible = "raise",
    time_limit: float | None = None,
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
        Probabilities, each row summing to 1 within 1e-4 (and then divided by its sum). Rows of different length
        make a ragged table. The columns of a data frame are its labels. A `Lattice` holds scores of tokens and of
        transitions, whatever `scores` says.
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
    sample_weight : array-like of shape (n_rows,), optional
        How often each row (of a lattice, each sequence) counts, >= 0: a row of weight w is w rows in constraints over
        rows and in their ``E.count``, in `kl` and `objective`, and in prices. Rows of weight 0 do not affect the
        prices, at which they are projected.
    scores : {"probabilities", "log"}
        ``"log"``: `proba` holds log-probabilities, logits or other scores in nats, -inf for impossible.
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

    Four messages, three of them alike and told once; 40 % are spam:

    >>> spam = E[part("label") == 1] == 0.4 * E.count(part("label") == 1)
    >>> project([[0.9, 0.1], [0.4, 0.6]], spam, sample_weight=[3, 1]).proba.round(2).tolist()
    [[0.74, 0.26], [0.18, 0.82]]
    """
    check_same_index(proba=proba, columns=columns, sample_weight=sample_weight)
    cells = read_cells(proba, labels, scores, constraints)
    del proba  # a large table of which the caller keeps nothing is not held twice
    unit = "row of proba" if cells.is_table else "sequence of the lattice"
    cells = replace(cells, weights=as_sample_weight(sample_weight, cells.structure.n_instances, unit))
    rows = _compile(constraints, columns, cells)
    before = expected_before(cells, rows)
    solution = project_batch(
        cells.structure, cells.scores, rows, gamma,
        solver=solver, weights=cells.weights, tol=tol, max_iter=max_iter, infeasible=infeasible, time_limit=time_limit,
    )  # fmt: skip
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
