"""gamma = 0: Lagrangian relaxation, which certifies easy problems, and the linear relaxation by HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import BatchDual, DualFunction, sum_by
from spectrem.inference.program import (
    INFEASIBLE,
    Deadline,
    Outcome,
    ProblemProgram,
    ProblemPrograms,
    Program,
    SlackVariables,
    run_linear,
)
from spectrem.inference.result import Status
from spectrem.inference.solvers.smooth import Solution, mark_infeasible, smooth_solver
from spectrem.structures._ragged import no_parts
from spectrem.structures.parts import Parts
from spectrem.structures.structure import has_one_label


@dataclass(frozen=True)
class Subgradient:
    """``lambda <- project(lambda + eta_k (U h - b))`` with h the best structure at lambda ([Samdani2012] eq. 13).

    A problem whose h is feasible and closes the duality gap is certified: h is then the exact integer optimum. The
    others return the average of their iterates, weighted toward the late ones, which tends to the solution of the
    linear relaxation; the step falls as ``1 / sqrt(1 + k)`` with k the number of times the dual rose.

    Use when gamma = 0 and there are too many rows for ``LinearProgram``, which is exact.

    Parameters
    ----------
    steps : int
        Passes over the batch.
    step_size : float
        First step, in nats per unit of a row's violation times its squared norm.
    tol : float
        Relative duality gap and violation at which an average counts as solved.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.5).per("row")
    >>> project([[0.2, 0.8], [0.7, 0.3]], few, gamma=0.0, solver=Subgradient(tol=0.1)).proba.round(1).tolist()
    [[0.4, 0.6], [1.0, 0.0]]
    """

    steps: int = 300
    step_size: float = 1.0
    tol: float = 1e-8

    def solve(self, dual: DualFunction, start: Floats, wanted: Bools | None = None) -> Solution:
        """As `Solver.solve`; problems that are not ``wanted`` pass for certified, and are left as they are.

        Parameters
        ----------
        dual : DualFunction
            That of a batch at gamma = 0.
        start : ndarray of shape (n_rows,)
            Nats per unit; feasible.
        wanted : ndarray of shape (n_problems,), bool, optional
            By default all are.

        Raises
        ------
        InvalidInputError
            If gamma is not 0.
        """
        if dual.gamma != 0:
            raise InvalidInputError(
                f"solver Subgradient needs gamma = 0; got gamma = {dual.gamma:g}; leave solver=None to have one chosen"
            )
        assert isinstance(dual, BatchDual)
        n, problem, weighty = dual.n_problems, dual.row_problem, dual.row_weight > 0
        row_weight = np.where(weighty, dual.row_weight, 1.0)
        active = np.ones(n, bool) if wanted is None else wanted.copy()
        status = np.where(active, Status.MAX_ITERATIONS, Status.CERTIFIED).astype(np.int8)
        multipliers = start.copy()
        best = np.where(active, np.inf, 0.0)
        mean_score, mean_excess = np.zeros(n), np.zeros(len(start))
        residual, last = np.where(active, np.inf, 0.0), np.zeros(n, np.int64)
        t = -1
        for t, x, value, gradient in self._walk(dual, start, active):
            rows = active[problem]
            bound = value + dual.terms.value(x)
            score = value - sum_by(problem, x * gradient, n)
            excess = np.where(weighty, -gradient / row_weight, 0.0)
            gap = self._gap(dual, bound, score, excess)
            certified = active & (gap <= 1e-9)
            better = (active & (bound < best)) | certified
            best = np.where(better, bound, best)
            multipliers = np.where(better[problem], x, multipliers)
            share = 2.0 / (t + 2)
            mean_score = np.where(active, (1 - share) * mean_score + share * score, mean_score)
            mean_excess = np.where(rows, (1 - share) * mean_excess + share * excess, mean_excess)
            gap = self._gap(dual, best, mean_score, mean_excess)
            residual = np.where(certified, 0.0, np.where(active, gap, residual))
            last = np.where(active, t, last)
            status[certified] = Status.CERTIFIED
            status[active & ~certified & (gap <= self.tol)] = Status.SOLVED
            active &= status == Status.MAX_ITERATIONS
        mark_infeasible(dual, multipliers, active, status)
        mixed = (status != Status.CERTIFIED) & (status != Status.INFEASIBLE)
        average = partial(self._average, dual, start, last)
        return Solution(multipliers, status, residual, t + 1, mixed, average)

    @staticmethod
    def _gap(dual: BatchDual, bound: Floats, score: Floats, excess: Floats) -> Floats:
        """The larger of the relative duality gap and the violation, per problem."""
        primal = score - dual.terms.cost(excess)
        gap = np.abs(bound - primal) / dual.gap_unit(bound)
        size = dual.size / np.where(dual.row_weight > 0, dual.row_weight, 1.0)
        return np.maximum(gap, dual.terms.worst_violation(excess, size))

    def _walk(self, dual: BatchDual, start: Floats, active: Bools) -> Iterator[tuple[int, Floats, Floats, Floats]]:
        """Number, multipliers, value and gradient of every step; the caller removes problems from ``active``."""
        x = dual.terms.project(start)
        rises = np.zeros(dual.n_problems)
        before = np.full(dual.n_problems, np.inf)
        for t in range(self.steps):
            if not active.any():
                break
            value, gradient = dual.evaluate(x, active)
            yield t, x, value, gradient
            bound = value + dual.terms.value(x)
            rises += bound > before
            before = bound
            step = (self.step_size / np.sqrt(1.0 + rises))[dual.row_problem] * dual.scale
            x = dual.terms.prox(x - step * gradient, step)

    def _average(self, dual: BatchDual, start: Floats, last: Ints, problems: Bools) -> tuple[Parts, Floats]:
        """Repeat the steps and average their structures with weights 1, 2, 3, ..., so that none has to be kept."""
        structure, active = dual.structure, problems.copy()
        parts = no_parts(structure)
        score = np.zeros(dual.n_problems)
        for t, x, _, _ in self._walk(dual, start, active):
            share = np.where(active, 2.0 * (t + 1) / ((last + 1.0) * (last + 2.0)), 0.0)
            instance_share = np.where(dual.instances_of(active), share[np.maximum(dual.instance_problem, 0)], 0.0)
            values, piece = dual.smoothed_max(x, instance_share > 0, dual.weights * instance_share)
            parts.add(piece, instance_share[structure.instance])
            excess = dual.row_weight * (dual.rows.bounds - dual.matrix @ piece.unary)
            whole = dual.per_problem(values, x) - sum_by(dual.row_problem, x * excess, dual.n_problems)
            score += share * whole
            active &= t < last
        return parts, score


# Temperatures of the path to zero, relative to how far the scores of an instance lie apart.
_PATH = (0.2, 0.06, 0.02, 0.006, 0.002)
NEAR = 6.0  # the first labels of the program lie within so many temperatures of the best one
_MOST_ROUNDS = 60
_MANY_ROWS = 200
_MISSING = 1e-8  # a sum of violations that counts as none
_LARGE = 2_000  # variables of a program solved by columns, at least, and of programs solved together, at most
_STEPS_OF_THE_LARGE = 300


class ColumnSolution(NamedTuple):
    """Optimal variables and prices of a program, its cost and its violation.

    Attributes
    ----------
    x : ndarray of shape (n_x + n_slack,)
    prices : ndarray of shape (n_rows,)
        Nats per unit of the bound.
    cost : float
    missing : float
        The sum of the violations of the rows.
    """

    x: Floats
    prices: Floats
    cost: float
    missing: float


def follow_temperatures(
    dual: BatchDual, max_iter: int = 60, on_step: Callable[[float], None] = lambda done: None
) -> tuple[Solution, float]:
    """Prices near those of gamma = 0, from the smooth duals of ever lower temperatures, and the last of these.

    At most ``max_iter`` iterations are made at each; ``on_step`` hears which share of them is done. The status of
    problems that prove to be infeasible on the way is ``INFEASIBLE``.
    """
    scores, instance = dual.scores.unary, dual.structure.instance
    offsets = np.searchsorted(instance, np.arange(dual.structure.n_instances))
    finite = np.where(np.isneginf(scores), np.inf, scores)
    tops = np.maximum.reduceat(scores, offsets)[instance]
    spread = float(np.mean((tops - finite)[np.isfinite(finite)])) or 1.0
    x = dual.terms.project(np.zeros(len(dual.row_problem)))
    for k, share in enumerate(_PATH, start=1):
        gamma = share * spread
        warm = BatchDual(dual.structure, dual.scores, dual.rows, gamma, dual.weights)
        solution = smooth_solver(warm, 1e-3, max_iter).solve(warm, x)
        dual.n_evaluations += warm.n_evaluations
        x = solution.multipliers
        on_step(k / len(_PATH))
        if (solution.status == Status.INFEASIBLE).any():
            break
    return solution, gamma


def solve_by_columns(
    program: Program, owner: Ints, prices: Floats, near: float, tol: float, deadline: Deadline
) -> ColumnSolution | None:
    """Column generation over the labels of categorical instances (Dantzig & Wolfe 1960).

    Instances with one label in the program are constants. At the prices of the program, labels that are better than
    all those of their instance in it are added; where there are none, its solution is that of the whole program.

    Parameters
    ----------
    program : Program
        Of a `Categorical` structure, as `write_program` orders its rows and variables.
    owner : ndarray of shape (n_x,), int64
        The instance of every label, increasing.
    prices : ndarray of shape (n_rows,)
        To begin with.
    near : float
        Labels this close to the best of their instance at those prices, in nats, are in the program from the start.
    tol : float
        Relative gap.
    deadline : Deadline

    Returns
    -------
    ColumnSolution or None
        None if the rows are violated at every price of a violation that is tried, or time runs out.
    """
    score = np.where(program.upper[: len(owner)] > 0, -program.cost[: len(owner)], -np.inf)
    possible, starts = ~np.isneginf(score), np.flatnonzero(np.diff(owner, prepend=-1))
    transpose = sp.csr_array(program.matrix[: len(prices), : len(owner)].T)
    reduced = score - transpose @ prices
    taking = possible & (reduced >= np.maximum.reduceat(reduced, starts)[owner] - near)
    large = 10.0 * (1.0 + np.abs(prices).max(initial=0.0))
    for factor in (1.0, 1e3, 1e6):
        for _ in range(_MOST_ROUNDS):
            answer = _solve_columns(program, owner, taking, len(prices), factor * large, deadline)
            if answer is None:
                return None
            reduced = score - transpose @ answer.prices
            best = np.maximum.reduceat(reduced, starts)
            gain = best - np.maximum.reduceat(np.where(taking, reduced, -np.inf), starts)
            if gain.sum() <= 0.1 * tol * max(1.0, abs(answer.cost)):
                break
            taking |= possible & (gain > 0)[owner] & (reduced >= best[owner])
        else:
            return None
        if answer.missing <= _MISSING:
            return answer
    return None


def _solve_columns(
    program: Program, owner: Ints, taking: Bools, n_rows: int, large: float, deadline: Deadline
) -> ColumnSolution | None:
    """Solve the program of the labels ``taking``, whose rows may be violated at a cost of ``large``."""
    left, x, columns = program.among(owner, taking, n_rows)
    constant, some = float(program.cost @ x), left.elastic(np.full(n_rows, large))
    # With many rows programs are degenerate: an interior point method with crossover is far faster than simplex.
    result = run_linear(some, deadline.left, method="highs-ipm" if n_rows > _MANY_ROWS else "highs")
    if result.x is None:
        result = run_linear(some, deadline.left)
    if result.x is None:
        return None
    x[columns] = result.x[: len(columns)]
    missing = float(result.x[len(columns) :].sum())
    return ColumnSolution(x, result.prices[:n_rows], result.cost + constant, missing)


@dataclass(frozen=True)
class LinearProgram:
    """Subgradient steps certify the easy problems; the others are linear programs, small ones many at a time.

    The program's prices are put back into the dual: where the structure's polytope is integral (chains, alignments,
    labels) the duality gap closes, which proves the solution; elsewhere the subgradient's average is kept. An l2
    slack is approximated by tangents, added until they fit. Of large tables of labels, only those near the best at the
    prices of a low temperature are in the program at first (``solve_by_columns``).

    Use when gamma = 0: the answer is exact, or its status tells that it is not. One problem of more than
    ``most_rows`` rows is left to ``Subgradient``.

    Parameters
    ----------
    tol : float
        Relative duality gap and violation.
    max_iter : int
        Subgradient steps before the programs.
    max_cuts : int
        Rounds of tangents per program.
    most_rows : int
        Rows of one problem.
    time_limit : float or None
        Seconds for all programs together, None for 300; where time runs out, the average of the subgradient is kept.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.5).per("row")
    >>> project([[0.2, 0.8], [0.7, 0.3]], few, gamma=0.0, solver=LinearProgram()).proba.round(3).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """

    tol: float = 1e-8
    max_iter: int = 30
    max_cuts: int = 100
    most_rows: int = 100_000
    time_limit: float | None = None

    def solve(self, dual: DualFunction, start: Floats, wanted: Bools | None = None) -> Solution:
        """As `Solver.solve`; problems that are not ``wanted`` pass for certified, and are left as they are.

        Parameters
        ----------
        dual : DualFunction
            That of a batch at gamma = 0.
        start : ndarray of shape (n_rows,)
            Nats per unit; feasible.
        wanted : ndarray of shape (n_problems,), bool, optional
            By default all are.
        """
        assert isinstance(dual, BatchDual)
        deadline = Deadline(self.time_limit)
        n_rows = np.bincount(dual.row_problem, minlength=dual.n_problems)
        steps = self.max_iter if n_rows.max(initial=0) <= self.most_rows else max(self.max_iter, _STEPS_OF_THE_LARGE)
        first = Subgradient(steps=steps, tol=self.tol).solve(dual, start, wanted)
        hard = np.flatnonzero((first.status == Status.MAX_ITERATIONS) & (n_rows <= self.most_rows))
        if not len(hard):
            return first
        programs = ProblemPrograms(dual)
        multipliers, status, residual = first.multipliers.copy(), first.status.copy(), first.residual.copy()
        prices, primal = multipliers.copy(), np.zeros(dual.n_problems)
        solved: list[tuple[ProblemProgram, Floats]] = []
        warm: tuple[Solution, float] | None = None
        by_columns = has_one_label(dual.structure) and not programs.variables.curved
        waiting = _batches(dual, programs, hard)
        while waiting:
            some = waiting.pop()
            p = int(some[0])
            problem = programs.write(some)
            rows = problem.rows
            unit = problem.row * problem.unit / np.where(dual.row_weight > 0, dual.row_weight, 1.0)[rows]
            if by_columns and len(some) == 1 and len(problem.program.cost) > _LARGE:
                warm = follow_temperatures(dual) if warm is None else warm
                begin, near = warm[0].multipliers[rows] / unit, NEAR * warm[1] / problem.unit
                if warm[0].status[p] == Status.INFEASIBLE:
                    status[p] = Status.INFEASIBLE
                    multipliers[rows] = warm[0].multipliers[rows]
                    continue
                answer = solve_by_columns(problem.program, problem.owner, begin, near, self.tol, deadline)
                if answer is not None:
                    prices[rows], primal[p] = answer.prices * unit, -answer.cost * problem.unit
                    solved.append((problem, answer.x))
                    continue
            result = self._solve(problem, programs.variables, deadline)
            if result.x is None:
                if len(some) > 1:
                    waiting += [some[k : k + 1] for k in range(len(some))]
                elif result.status == INFEASIBLE:
                    status[p] = Status.INFEASIBLE
                continue
            prices[rows] = result.prices[: len(rows)] * unit
            earned = problem.unit * problem.program.cost * result.x
            primal -= sum_by(programs.owners(problem), earned, dual.n_problems)
            solved.append((problem, result.x))
        prices = dual.terms.project(prices)
        done = np.zeros(dual.n_problems, bool)
        done[hard] = True
        bound = dual.evaluate(prices, done).value + dual.terms.value(prices)
        gap = np.abs(bound - primal) / dual.gap_unit(bound)
        done &= (gap <= self.tol) & (status == Status.MAX_ITERATIONS)
        status[done] = Status.SOLVED
        residual = np.where(done, gap, residual)
        multipliers = np.where(done[dual.row_problem], prices, multipliers)
        kept = [(problem, x) for problem, x in solved if done[programs.owners(problem)].any()]
        assert first.mixed is not None
        mixed = first.mixed & (status != Status.INFEASIBLE)
        mixture = partial(_mixture, dual, first, kept, done)
        return Solution(multipliers, status, residual, first.n_iter + len(hard), mixed, mixture)

    def _solve(self, problem: ProblemProgram, variables: SlackVariables, deadline: Deadline) -> Outcome:
        """Run HiGHS, and add tangents of the l2 norms until the slack that it chooses meets them."""
        program, n = problem.program, len(problem.owner)
        y, size = np.zeros(len(variables.cost)), np.zeros(len(variables.matrix.indptr) - 1)
        size[problem.rows] = 1e-11 / problem.row
        for _ in range(self.max_cuts):
            result = run_linear(program, deadline.left)
            if result.x is None or not variables.curved:
                break
            y[problem.slack] = (result.x * problem.column)[n:]
            cuts = variables.tangents(y, size)[:, problem.slack].toarray() * problem.column[n:]
            if not len(cuts):
                break
            new = sp.csr_array(cuts / -cuts.min(axis=1, keepdims=True))
            program = program.with_rows(sp.csr_array(sp.hstack([sp.csr_array((len(cuts), n)), new], format="csr")))
        return result


def _batches(dual: BatchDual, programs: ProblemPrograms, hard: Ints) -> list[Ints]:
    """Join small problems into few programs; only problems whose scores are of one order of magnitude share one."""
    if programs.variables.curved:
        return [hard[k : k + 1] for k in range(len(hard))]
    size = sum_by(dual.row_problem, np.ones(len(dual.row_problem)), dual.n_problems)
    inside = dual.instance_problem >= 0
    parts = np.bincount(dual.structure.instance, minlength=dual.structure.n_instances)[inside].astype(np.float64)
    size = (size + sum_by(dual.instance_problem[inside], parts, dual.n_problems))[hard]
    order_of = np.floor(np.log10(np.maximum(dual.spread[hard], 1e-300)) / 2.0)
    order = np.lexsort((hard, order_of))
    batches: list[Ints] = []
    start, total = 0, 0.0
    for k, at in enumerate(order):
        if k > start and (total + size[at] > _LARGE or order_of[at] != order_of[order[start]]):
            batches.append(np.sort(hard[order[start:k]]))
            start, total = k, 0.0
        total += size[at]
    return [*batches, np.sort(hard[order[start:]])]


def _mixture(
    dual: BatchDual,
    first: Solution,
    solved: list[tuple[ProblemProgram, Floats]],
    done: Bools,
    problems: Bools,
) -> tuple[Parts, Floats]:
    """Marginals and scores of solved programs, and averages of the subgradient for the other problems."""
    parts, score = no_parts(dual.structure), np.zeros(dual.n_problems)
    for program, x in solved:
        problem = dual.instance_problem[program.instances]
        shares = np.maximum(x[: len(program.owner)], 0.0) * done[problem][program.owner]
        scores = program.read(shares, dual.weights, parts)
        score += sum_by(problem, dual.instance_weight[program.instances] * scores, dual.n_problems)
    if (problems & ~done).any() and first.mixture is not None:
        rest, rest_score = first.mixture(problems & ~done)
        return parts.map(np.add, rest), score + rest_score
    return parts, score
