"""`spectrem.project`: constraints on a table of predictions."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_sample_weight, check_same_index
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.links import resolve_links
from spectrem.constraints.text import Constraints, flatten
from spectrem.constraints.values import check_columns, check_values
from spectrem.inference import Infeasible, project_batch
from spectrem.inference.result import Projection
from spectrem.inference.solvers.first_order import Solver
from spectrem.reports import price_copies, report_rows
from spectrem.tables.alike import compile_table, expected_before, expected_of
from spectrem.tables.lattice import Lattice
from spectrem.tables.reading import Cells, read_cells, user_columns
from spectrem.tables.result import ProjectedTable


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
    cells = read_cells(proba, labels, scores, pairs=isinstance(proba, Lattice) and names_pairs(constraints))
    del proba  # a large table of which the caller keeps nothing is not held twice
    cells = _weighted(cells, sample_weight)
    rows = _compile(constraints, columns, cells)
    before = expected_before(cells, rows)
    solution = project_batch(
        cells.table.inner, cells.scores, rows, gamma,
        solver=solver, weights=cells.weights, tol=tol, max_iter=max_iter, infeasible=infeasible, time_limit=time_limit,
    )  # fmt: skip
    return _result(cells, rows, before, solution)


def _weighted(cells: Cells, sample_weight: ArrayLike | None) -> Cells:
    unit = "sequence of the lattice" if cells.table.is_lattice else "row of proba"
    return replace(cells, weights=as_sample_weight(sample_weight, cells.table.n_instances, unit))


def _compile(constraints: Constraints, columns: Any, cells: Cells) -> Rows:
    """The rows of the constraints, whose names and values are checked first."""
    given = user_columns(columns, cells)
    listed = flatten(constraints, list(dict.fromkeys([*cells.table.columns, *given])))
    chosen = ("label", "previous")
    for name in chosen:
        if name in cells.table.columns:
            check_values(listed, name, cells.known_labels)
    named = set().union(*map(used_columns, listed)).difference(chosen)
    own = {name: cells.table.columns[name] for name in cells.table.columns if name in named}
    known = ChainMap(own, cast(Any, given))
    check_columns(listed, {name: known[name] for name in named if name in known})
    listed = list(resolve_links(listed, known, cells.table.n_instances))
    return compile_table(listed, cells, given)


def _result(cells: Cells, rows: Rows, before: NDArray[np.float64], solution: Projection) -> ProjectedTable:
    after = solution.marginals.unary
    multipliers = solution.multipliers if len(solution.multipliers) else np.zeros(len(rows.bounds))
    prices = price_copies(rows, cells.weights, multipliers)
    reports = report_rows(rows, prices, before, expected_of(cells, rows, after))
    return ProjectedTable(
        proba=cells.table.cut(after),
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
        _rows=_without(rows, solution.skipped),
    )


def names_pairs(constraints: Constraints) -> bool:
    """Whether some constraint names the label before."""
    return any("previous" in used_columns(one) for one in flatten(constraints))


def _without(rows: Rows, skipped: NDArray[np.int64]) -> Rows:
    """The rows that a decision has to meet."""
    if not len(skipped):
        return rows
    kept = np.ones(len(rows.bounds), np.bool_)
    kept[skipped] = False
    return rows.pick(kept)
