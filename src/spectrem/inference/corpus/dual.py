"""Rows over the whole corpus, whose dual is a map over shards and a sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference.conflict.explain import demand_of, place_of
from spectrem.inference.oracle import Evaluation
from spectrem.inference.result import Status
from spectrem.inference.slack import compile_slack
from spectrem.inference.solvers.newton import MOST_ROWS, Curved, smooth_solver
from spectrem.inference.solvers.solver import Solution, Solver

Evaluate = Callable[[Floats], tuple[float | Floats, Floats]]
"""From multipliers to values and expectations, with a row per shard or summed over the corpus."""


def by_shard(values: float | Floats, expectations: Floats) -> tuple[Floats, Floats]:
    """Sums that came home, with a row per shard (one row if they are over the corpus), shape (n_shards, n_rows)."""
    value = np.atleast_1d(np.asarray(values, np.float64))
    expectation = np.asarray(expectations, np.float64).reshape(len(value), -1)
    if not (np.isfinite(value).all() and np.isfinite(expectation.sum())):
        raise InvalidInputError(
            "evaluate must return finite sums of values and expectations; got NaN or inf; "
            "look for an instance without any possible structure"
        )
    return value, expectation


@dataclass(frozen=True)
class CorpusSolution:
    """Prices of the corpus rows.

    Attributes
    ----------
    multipliers : ndarray of shape (n_rows,)
    status : Status
    dual_value : float
        Nats, with ``b . lambda`` and the slack terms.
    added : float
        These two alone: what the rows add to the values of the shards.
    residual : float
    n_evaluations, n_iter : int
    length : float or None
        Step of `Spectral`, to start from next time.
    """

    multipliers: Floats
    status: Status
    dual_value: float
    added: float
    residual: float
    n_evaluations: int
    n_iter: int
    length: float | None = None


class CorpusDual:
    """A dual with one problem, evaluated by the caller; see `solve_corpus_dual` for what it is made of."""

    def __init__(
        self, evaluate: Evaluate, rows: CorpusRows, gamma: float = 1.0, support: Evaluate | None = None
    ) -> None:
        self._evaluate, self.support, self.blocks, self.bounds = evaluate, support, rows.blocks, rows.bounds
        self.inside = rows.inside
        self.gamma, self.n_problems, self.n_evaluations = gamma, 1, 0
        n = len(self.bounds)
        self.row_problem, self.row_weight, self.lever = np.zeros(n, np.int64), np.ones(n), np.ones(n)
        self.terms = compile_slack(rows.blocks, self.row_problem, 1)
        length = np.sqrt(np.maximum(1.0, np.abs(self.bounds))) if rows.norms is None else rows.norms
        self.scale = 1.0 / np.where(length > 0, length * length, 1.0)
        size = np.maximum(np.abs(self.bounds), length)
        self.size = np.where(size > 0, size, 1.0)

    def solve(self, solver: Solver, start: ArrayLike | None) -> Solution:
        """From multipliers that may be missing or out of the feasible set.

        Raises
        ------
        InfeasibleConstraintError
            If ``support`` proves that no distribution meets the rows.
        """
        first = np.zeros(len(self.bounds)) if start is None else np.asarray(start, np.float64)
        solution = solver.solve(self, self.terms.project(first))
        if solution.status[0] == Status.INFEASIBLE:
            raise self.conflict(solution.multipliers)
        return solution

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        self.n_evaluations += 1
        values, expectations = by_shard(*self._evaluate(multipliers))
        return Evaluation(np.array([self.bounds @ multipliers + values.sum()]), self.bounds - expectations.sum(axis=0))

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        direction = self.terms.recession(multipliers)
        largest = np.abs(direction).max(initial=0.0)
        if self.support is None or largest == 0:
            return np.zeros(1, bool)
        direction = direction / largest
        return np.array([self.slope(direction)[0] < -1e-9 * (self.size @ np.abs(direction))])

    def slope(self, direction: Floats) -> tuple[float, Floats]:
        """How the dual rises far out in a direction, which proves a conflict if below 0, and the expectations there."""
        assert self.support is not None
        values, expectations = by_shard(*self.support(direction))
        slope = self.bounds @ direction + values.sum() + self.terms.value(direction)[0]
        return float(slope), expectations.sum(axis=0)

    def conflict(self, multipliers: Floats) -> InfeasibleConstraintError:
        """Names the constraints whose prices prove, without those of the others, that they cannot hold."""
        direction, proven = self.terms.recession(multipliers), np.ones(1, np.bool_)
        for block in sorted(self.blocks, key=lambda b: float(np.abs(direction[b.start : b.stop]).max(initial=0.0))):
            trial = direction.copy()
            trial[block.start : block.stop] = 0.0
            if self.infeasible(trial, proven)[0]:
                direction = trial
        worst = int(np.abs(direction).argmax())
        names = [block.name for block in self.blocks if direction[block.start : block.stop].any()]
        head = next(block for block in self.blocks if block.start <= worst < block.stop)
        others = "; it conflicts with " * (len(names) > 1)
        others += " and with ".join(repr(name) for name in names if name != head.name)
        place = place_of(head, worst - head.start, -1)
        where = "" if place == "over the corpus" else f", {place},"
        demanded = ""
        if np.count_nonzero(direction) == 1:  # what one row can be, whatever the others demand
            reached = self.slope(direction / np.abs(direction[worst]))[1][worst]
            demanded = f" ({demand_of(head, worst, self.bounds[worst], reached, direction[worst] > 0)})"
        because = ""
        if self.inside:
            because = (
                f", perhaps because of constraints inside instances or groups ({', '.join(map(repr, self.inside))})"
            )
        return InfeasibleConstraintError(
            f"{head.name!r}: no feasible q over the corpus{demanded}{others}; "
            f"the price of row {worst}{where} grows without end{because}; relax the bound or give the constraint slack "
            "(a penalty or a bound)"
        )

    def gap_unit(self, bound: Floats) -> Floats:
        return np.maximum(1.0, np.abs(bound))


def solve_corpus_dual(
    evaluate: Evaluate,
    rows: CorpusRows,
    gamma: float = 1.0,
    *,
    support: Evaluate | None = None,
    curvature: Callable[[Floats], Floats] | None = None,
    solver: Solver | None = None,
    start: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
) -> CorpusSolution:
    """Multipliers of rows of corpus scope; the shards are seen only through ``evaluate``.

    Instance rows inside the shards are solved by a nested `project_batch` with scores
    ``shift_scores(s, U_c^T, lambda)``: its ``dual_value`` is the shard's value and ``U_c mu`` its expectation (the
    envelope theorem), so the corpus dual keeps its form. Solve the nested problems more sharply than this one (a tenth
    of ``tol``).

    Use when corpus rows span more than one shard; on a single batch `project_batch` does the same by itself.

    Parameters
    ----------
    evaluate : callable
        From multipliers of shape (n_rows,) to the sum over instances of ``smax_gamma(s - U^T lambda)`` in nats and the
        expectations ``U mu`` of shape (n_rows,); or to both with a row per shard.
    rows : CorpusRows
    gamma : float, > 0
        At gamma = 0 the solution is a mixture: `solve_corpus_program`.
    support : callable or None
        From a direction d to ``sum_i max over structures of -d . U h`` and ``U h`` of those structures, shaped as those
        of ``evaluate``; lets an infeasible constraint be proven.
    curvature : callable or None
        From the multipliers that ``evaluate`` saw last to the second derivatives of its value, shape (n_rows, n_rows),
        or NaN. Few rows are then solved in fewer evaluations, which pays where these solve rows inside shards.
    solver, start, tol, max_iter
        As in `project_batch`.

    Returns
    -------
    CorpusSolution

    Raises
    ------
    InfeasibleConstraintError
        If ``support`` proves that no distribution meets the rows.

    Examples
    --------
    Two coins, together to show heads 0.5 times:

    >>> import numpy as np
    >>> from spectrem.constraints.compilation.rows import Block, CorpusRows
    >>> def evaluate(multipliers):
    ...     odds = np.exp([1.0, 0.0] - multipliers)
    ...     return float(np.log1p(odds).sum()), np.array([(odds / (1 + odds)).sum()])
    >>> block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {})
    >>> result = solve_corpus_dual(evaluate, CorpusRows(np.array([0.5]), (block,)))
    >>> evaluate(result.multipliers)[1].round(6)
    array([0.5])
    """
    if solver is None and not gamma > 0:
        raise InvalidInputError(f"gamma must be positive; got {gamma:g}; at gamma = 0 call solve_corpus_program")
    dual = CorpusDual(evaluate, rows, gamma, support)
    if solver is None:
        few = dual.terms.is_box and len(dual.bounds) <= MOST_ROWS and max_iter is None
        solver = smooth_solver(dual, tol, max_iter) if curvature is None or not few else Curved(curvature, tol)
    solution = dual.solve(solver, start)
    value = dual.evaluate(solution.multipliers, np.ones(1, bool)).value + dual.terms.value(solution.multipliers)
    return CorpusSolution(
        solution.multipliers,
        Status(int(solution.status[0])),
        float(value[0]),
        float(rows.bounds @ solution.multipliers + dual.terms.value(solution.multipliers)[0]),
        float(solution.residual[0]),
        dual.n_evaluations,
        solution.n_iter,
        None if solution.length is None else float(solution.length[0]),
    )
