"""One label per row such that the constraints hold exactly."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp

from spectrem.constraints.rows import Rows
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference.project import project
from spectrem.inference.result import Status
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.inference.slack_variables import compile_slack_variables
from spectrem.structures.chain import Chain
from spectrem.tables.reading import Cells

_TOLERANCE = 1e-6  # that of HiGHS


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
    gap : float
        ``relaxation - score`` in nats; 0 proves that no other labels are better.
    violation : float
        Worst violation of any row after the slack it is allowed; 0 up to rounding.
    status : Status
        ``CERTIFIED``, or ``MAX_ITERATIONS`` where the time limit came first.
    """

    labels: NDArray
    positions: NDArray[np.int64]
    score: float
    relaxation: float
    gap: float
    violation: float
    status: Status


def decide(cells: Cells, rows: Rows, time_limit: float | None) -> Decision:
    """See `ProjectedTable.decide`."""
    if isinstance(cells.table.inner, Chain):
        return _decide_lattice(cells, cells.table.inner, rows)
    scores, table = cells.scores.unary, cells.table
    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    program = _Program.write(cells, rows, terms)
    relaxed: OptimizeResult = linprog(
        program.cost,
        A_ub=cast(Any, program.below if program.below.shape[0] else None),
        b_ub=program.limit if program.below.shape[0] else None,
        A_eq=cast(Any, program.equal),
        b_eq=program.equal_to,
        bounds=cast(Any, np.column_stack([np.zeros(len(program.cost)), program.upper])),
        method="highs",
    )
    status = Status.CERTIFIED
    solved: OptimizeResult = relaxed
    if relaxed.x is None or not _integral(relaxed.x[: len(scores)]):
        solved = milp(
            program.cost,
            integrality=program.whole,
            bounds=Bounds(0.0, program.upper),
            constraints=[
                LinearConstraint(program.equal, program.equal_to, program.equal_to),
                *([LinearConstraint(program.below, -np.inf, program.limit)] if program.below.shape[0] else []),
            ],
            options={"mip_rel_gap": 0.0, "time_limit": np.inf if time_limit is None else time_limit},
        )
        if solved.status == 2:
            firm = (block for block in rows.blocks if block.slack is None or block.slack.kind == "bound")
            raise _infeasible(", ".join(repr(block.name) for block in firm))
        if solved.x is None:
            raise InvalidInputError(
                f"decide found no labels that meet the constraints within time_limit={time_limit!r} seconds "
                f"({solved.message}); raise it, or give the constraints slack"
            )
        if solved.status != 0:
            status = Status.MAX_ITERATIONS
            warnings.warn(
                f"decide stopped before its labels were proven best ({solved.message}); raise time_limit, or look at "
                "the gap",
                ConvergenceWarning,
                stacklevel=3,
            )
    cell = _chosen(solved.x[: len(scores)], table.offsets)
    one_hot = np.zeros(len(scores))
    one_hot[cell] = 1.0
    excess = rows.matrix @ one_hot - rows.bounds
    score = float(scores[cell].sum() - terms.cost(excess)[0])
    bound = float(-relaxed.fun if relaxed.x is not None else -solved.mip_dual_bound)
    gap = bound - score if bound - score > 1e-9 * max(1.0, abs(score)) else 0.0
    positions = table.positions(cell)
    return Decision(
        labels=positions if cells.labels is None else cells.labels[cell],
        positions=positions,
        score=score,
        relaxation=score + gap,
        gap=gap,
        violation=float(terms.worst_violation(excess)[0]) if len(excess) else 0.0,
        status=status,
    )


def _decide_lattice(cells: Cells, chain: Chain, rows: Rows) -> Decision:
    """By the integer program and the linear relaxation of the structure."""
    best = project(chain, cells.scores, rows, -np.inf)
    relaxed = project(chain, cells.scores, rows, 0.0)
    cell = _chosen(best.marginals.unary, cells.table.offsets)
    positions = cells.table.positions(cell)
    gap = relaxed.dual_value - best.primal_value
    gap = gap if gap > 1e-9 * max(1.0, abs(best.primal_value)) else 0.0
    return Decision(
        labels=positions if cells.labels is None else cells.labels[cell],
        positions=positions,
        score=best.primal_value,
        relaxation=best.primal_value + gap,
        gap=gap,
        violation=best.violation,
        status=best.status,
    )


@dataclass(frozen=True)
class _Program:
    """Minimise ``cost @ x`` with ``0 <= x <= upper``, ``equal @ x == equal_to``, ``below @ x <= limit``."""

    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    whole: NDArray[np.int64]
    equal: sp.csr_array
    equal_to: NDArray[np.float64]
    below: sp.csr_array
    limit: NDArray[np.float64]

    @classmethod
    def write(cls, cells: Cells, rows: Rows, terms: SlackTerms) -> _Program:
        """Cells first, then the variables of the slack."""
        scores, offsets, n_rows = cells.scores.unary, cells.table.offsets, cells.table.n_instances
        slack = compile_slack_variables(terms)
        if slack.curved:
            raise InvalidInputError(
                "slack with norm 'l2' cannot be used by decide, whose program must be linear; "
                "use norm='l1' or norm='linf'"
            )
        possible = ~np.isneginf(scores)
        n_slack, n_cells = len(slack.cost), len(scores)
        one_each = sp.csr_array((np.ones(n_cells), np.arange(n_cells), offsets), shape=(n_rows, n_cells))
        one_each = sp.hstack([one_each, sp.csr_array((n_rows, n_slack))], format="csr")
        body = sp.csr_array(sp.hstack([rows.matrix, slack.matrix], format="csr"))
        ties = sp.hstack([sp.csr_array((slack.ties.shape[0], n_cells)), slack.ties], format="csr")
        both = terms.equality
        bounds = _whole_bounds(rows)
        return cls(
            cost=np.concatenate([-np.where(possible, scores, 0.0), slack.cost]),
            upper=np.concatenate([possible.astype(np.float64), slack.upper]),
            whole=np.concatenate([np.ones(n_cells, np.int64), np.zeros(n_slack, np.int64)]),
            equal=sp.csr_array(sp.vstack([one_each, body[both]], format="csr")),
            equal_to=np.concatenate([np.ones(n_rows), bounds[both]]),
            below=sp.csr_array(sp.vstack([body[~both], ties], format="csr")),
            limit=np.concatenate([bounds[~both], np.zeros(slack.ties.shape[0])]),
        )


def _whole_bounds(rows: Rows) -> NDArray[np.float64]:
    """Bounds rounded down to whole numbers where whole coefficients allow it, so that fewer fractions are vertices.

    Raises
    ------
    InfeasibleConstraintError
        If an equality without slack demands a fraction of whole numbers.
    """
    bounds = rows.bounds.copy()
    entry_row = np.repeat(np.arange(len(bounds)), np.diff(rows.matrix.indptr))
    whole = np.ones(len(bounds), np.bool_)
    whole[entry_row[rows.matrix.data != np.rint(rows.matrix.data)]] = False
    floor = np.floor(bounds + _TOLERANCE)
    for block in rows.blocks:
        if block.slack is not None:
            continue
        span = slice(block.start, block.stop)
        if block.equality:
            if (whole[span] & (np.abs(bounds[span] - np.rint(bounds[span])) > _TOLERANCE)).any():
                raise _infeasible(repr(block.name))
        else:
            bounds[span] = np.where(whole[span], floor[span], bounds[span])
    return bounds


def _integral(x: NDArray[np.float64]) -> bool:
    return bool((np.abs(x - np.rint(x)) <= _TOLERANCE).all())


def _chosen(x: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cell of every row that holds its one."""
    cells = np.flatnonzero(np.rint(x) == 1)
    assert len(cells) == len(offsets) - 1
    return cells


def _infeasible(names: str) -> InfeasibleConstraintError:
    return InfeasibleConstraintError(
        f"{names}: no choice of one label per row meets the constraints, although probabilities may; "
        "make bounds whole numbers, turn == into between(low, high), or give slack by .slack(penalty=..., norm='l1')"
    )
