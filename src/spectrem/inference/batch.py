"""The constrained E-step: the distribution nearest to a model that meets the constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats
from spectrem._validate import as_weights
from spectrem.constraints.compilation.rows import Rows, no_rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, setting
from spectrem.inference.assignment import find_transports, solve_relaxation, tidy_rows
from spectrem.inference.conflict import (
    drop_rows,
    drop_unreachable,
    explain_infeasible,
    prove_infeasible,
    refuse_unreachable,
)
from spectrem.inference.dual import BatchDual, per_copy, share_equally, shift_scores, sum_by
from spectrem.inference.program import INFEASIBLE, OPTIMAL, Deadline, ProblemPrograms, run_integer
from spectrem.inference.result import Infeasible, Projection, Status, check_infeasible, warn_open
from spectrem.inference.solvers.linear_program import LinearProgram, Subgradient
from spectrem.inference.solvers.smooth import Bracket, Newton, Solution, Solver, smooth_solver, suits_newton
from spectrem.structures._ragged import check_scores
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


def project_batch(
    structure: Structure,
    scores: Parts,
    rows: Rows | None = None,
    gamma: float = 1.0,
    *,
    solver: Solver | None = None,
    start: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    infeasible: Infeasible = "raise",
    time_limit: float | None = None,
) -> Projection:
    """Solve the E-step ``max over q of <s, mu> + gamma H(q) - slack`` subject to ``U mu <= b`` or ``== b``.

    At gamma = 1 this is posterior regularisation, the q nearest to the posterior in KL(q || p) ([Ganchev2010] eq. 7);
    at gamma = 0 the linear relaxation of the constrained argmax; at gamma = -inf that argmax itself
    ([Samdani2012] eqs 8-14). The dual ``b . lambda + sum_i smax_gamma(s_i - U^T lambda)`` is minimised over the
    multipliers.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats; ``-inf`` for impossible parts.
    rows : Rows or None
        None, or no rows, leaves the model's own distribution (one pass).
    gamma : float
        -inf or any number >= 0.
    solver : Solver or None
        None chooses by shape: for gamma > 0 ``Bracket`` (one row per problem), ``Newton`` (a categorical structure
        and few rows per problem, or one in every instance), ``QuasiNewton`` (slack on each row alone or none) or
        ``Accelerated`` (slack norms that tie rows); for gamma = 0 ``LinearProgram``. Problems of a categorical
        structure whose rows only count labels, up to whole numbers of instances of one weight, need none at gamma = 0
        and -inf: they are transportations, solved exactly by shortest paths.
    start : array-like of shape (n_rows,) or None
        Multipliers to start from, for example those of the last EM iteration.
    weights : array-like of shape (n_instances,) or None
        How often an instance counts, >= 0: in rows of corpus scope, in the sums over the batch that are handed back and
        in the factor counts. The result is that of instances repeated so many times; those of weight 0 are projected
        at the prices that the others make.
    tol : float
        Largest residual relative to the size of a row, for the solver chosen by shape.
    max_iter : int or None
        For the solver chosen by shape; None is its default.
    infeasible : {"raise", "skip"}
        Rows of instance scope that no distribution meets are an error, or are left out: all rows of their constraint
        in that instance, and where several constraints only clash together, those of all of them.
    time_limit : float or None
        Seconds for all linear and integer programs together, at gamma = 0 and -inf, unless ``solver`` is given; None is
        300. Then the best found so far is returned with a warning, and its gap in ``residual``. If rows conflict, the
        search for those that do takes some seconds more.

    Returns
    -------
    Projection

    Raises
    ------
    InvalidInputError
        NaN scores, shapes that do not fit, a gamma below 0 other than -inf, an instance without any possible structure,
        and at gamma = -inf nothing that meets the rows found within the time limit.
    InfeasibleConstraintError
        No distribution meets the rows; the message names the constraints and the first instances. With
        ``infeasible="skip"`` only if rows of corpus scope are to blame.

    Warns
    -----
    ConvergenceWarning
        If some instance ran out of iterations or time; ``instance_status`` tells which.

    Examples
    --------
    A posterior over three labels, the first of which may have probability 0.2 at most:

    >>> import numpy as np, scipy.sparse as sp
    >>> from spectrem.constraints.compilation.rows import Block, Rows
    >>> from spectrem.structures.categorical import Categorical
    >>> block = Block("first is rare", 0, 1, False, "instance", None, np.zeros(1, int), {})
    >>> rows = Rows(sp.csr_array([[1.0, 0.0, 0.0]]), np.array([0.2]), np.array([0]), (block,))
    >>> result = project_batch(Categorical([3]), Parts(np.log([0.6, 0.3, 0.1])), rows)
    >>> result.marginals.unary.round(3)
    array([0.2, 0.6, 0.2])
    >>> result.status.message
    'solved to the tolerance asked for'
    """
    check_infeasible(infeasible)
    scores, rows, first, weight = _check_problem(structure, scores, rows, gamma, start, weights, tol)
    if rows is None:
        return _unconstrained(structure, scores, gamma, weight)
    if rows.alike is not None and (gamma <= 0 or solver is not None):
        rows = rows.whole
    rows = per_copy(structure, rows, weight)
    task = _Task(structure, gamma, solver, weight, tol, max_iter, Deadline(time_limit))
    if infeasible == "raise":
        refuse_unreachable(scores, rows)
        return task.solve(scores, rows, first)
    kept = drop_unreachable(scores, rows)
    while kept.any():
        try:
            return task.solve_some(scores, rows, first, kept)
        except InfeasibleConstraintError as error:
            left = drop_rows(rows, error.rows)
            if left.all():
                raise
            kept &= left
    nothing = _unconstrained(structure, scores, gamma, weight)
    return replace(nothing, multipliers=np.zeros(len(kept)), skipped=np.arange(len(kept)))


@dataclass(frozen=True)
class _Task:
    """Structure, gamma, solver and limits: all that stays the same when some rows are left out or solved apart."""

    structure: Structure
    gamma: float
    solver: Solver | None
    weights: Floats | None
    tol: float
    max_iter: int | None
    deadline: Deadline

    def solve(self, scores: Parts, rows: Rows, first: Floats) -> Projection:
        """Project onto all rows; ``first`` holds the multipliers to start from."""
        inside = rows.row_instance >= 0
        if self.weights is not None and not inside.all():
            weightless = inside & (self.weights[rows.row_instance] == 0)
            if weightless.any():
                return self._solve_weightless(scores, rows, first, weightless)
        if self.gamma <= 0 and self.solver is None:
            rows = tidy_rows(rows)
        dual = BatchDual(self.structure, scores, rows, max(self.gamma, 0.0), self.weights)
        if self.gamma == -np.inf:
            return solve_integer(dual, self.deadline)
        start = dual.terms.project(first)
        chosen = self.solver or choose_solver(dual, self.tol, self.max_iter, self.deadline.left)
        if self.solver is None and isinstance(chosen, LinearProgram):
            solution = solve_relaxation(dual, chosen, start)
        else:
            solution = chosen.solve(dual, start)
        dual.forget_order()
        if rows.alike is not None and (solution.status != Status.SOLVED).any():
            return self.solve(scores, rows.whole, first)  # which tells what is wrong
        if (solution.status == Status.MAX_ITERATIONS).any():
            solution = prove_infeasible(dual, solution)
        if (solution.status == Status.INFEASIBLE).any():
            raise explain_infeasible(dual, solution.status, solution.multipliers)
        if (solution.status == Status.MAX_ITERATIONS).any():
            worst = solution.residual[solution.status == Status.MAX_ITERATIONS].max()
            warn_open(solution.status, f"largest residual {worst:.2g}", "max_iter or tol")
        return _finish(dual, solution)

    def solve_some(self, scores: Parts, rows: Rows, first: Floats, wanted: Bools) -> Projection:
        """Project onto the wanted rows; multipliers, and the rows that an error names, are numbered as in ``rows``."""
        if wanted.all():
            return self.solve(scores, rows, first)
        try:
            solved = self.solve(scores, rows.pick(wanted), first[wanted])
        except InfeasibleConstraintError as error:
            error.rows = tuple(np.flatnonzero(wanted)[list(error.rows)].tolist())
            raise
        multipliers = np.zeros(len(wanted))
        multipliers[wanted] = solved.multipliers
        return replace(solved, multipliers=multipliers, skipped=np.flatnonzero(~wanted), free_expected=None)

    def _solve_weightless(self, scores: Parts, rows: Rows, first: Floats, weightless: Bools) -> Projection:
        """Project instances of weight 0, which do not change the multipliers of the others, at those multipliers."""
        others = self.solve_some(scores, rows, first, ~weightless)
        prices = shift_scores(scores, rows.transpose, others.multipliers)
        apart = self.solve_some(prices, rows, first, weightless)
        at = np.zeros(self.structure.n_instances, np.bool_)
        at[rows.row_instance[weightless]] = True
        part = at[self.structure.instance]
        return replace(
            others,
            marginals=Parts(np.where(part, apart.marginals.unary, others.marginals.unary), others.marginals.factors),
            multipliers=others.multipliers + apart.multipliers,
            values=np.where(at, apart.values, others.values),
            objectives=np.where(at, apart.objectives, others.objectives),
            violation=max(others.violation, apart.violation),
            status=max(others.status, apart.status),
            n_evaluations=others.n_evaluations + apart.n_evaluations,
            n_iter=others.n_iter + apart.n_iter,
            residual=max(others.residual, apart.residual),
            instance_status=np.where(at, apart.instance_status, others.instance_status),
            instance_violation=np.where(at, apart.instance_violation, others.instance_violation),
            skipped=np.zeros(0, np.int64),
        )


def choose_solver(dual: BatchDual, tol: float, max_iter: int | None, time_limit: float | None = None) -> Solver:
    """The solver that suits the shape of the rows and slack; the time is that of linear programs."""
    limit = {} if max_iter is None else {"max_iter": max_iter}
    if dual.gamma == 0:
        return LinearProgram(tol=tol, time_limit=time_limit, **limit)
    if dual.n_problems < len(dual.row_problem):
        return smooth_solver(dual, tol, **limit)
    # Newton's method takes fewer passes over the instances, which pays where each is a problem of its own; over many
    # instances together a pass of it costs twice as much.
    single = np.count_nonzero(dual.instance_problem >= 0) == dual.n_problems
    return Newton(tol, **limit) if single and suits_newton(dual) else Bracket(tol, **limit)


def _finish(dual: BatchDual, solution: Solution) -> Projection:
    """Evaluate all instances once more at the solution, with their weights, and describe the result."""
    terms, multipliers = dual.terms, solution.multipliers
    if not np.isfinite(multipliers).all():
        raise InvalidInputError("the solver returned multipliers that are not finite; try a smaller step size")
    values, marginals = dual.smoothed_max(multipliers, None, dual.weights)
    excess = dual.expected(marginals) - dual.rows.bounds
    score = dual.per_problem(values, multipliers)
    dual_total = score + terms.value(multipliers)
    score = score + sum_by(dual.row_problem, dual.row_weight * multipliers * excess, dual.n_problems)
    if solution.mixture is not None and solution.mixed is not None and solution.mixed.any():
        others = ~dual.instances_of(solution.mixed)
        if marginals.factors:
            _, rest = dual.smoothed_max(multipliers, others, dual.weights)
        else:
            rest = Parts(marginals.unary * others[dual.structure.instance])
        mixture, mixture_score = solution.mixture(solution.mixed)
        marginals = rest.map(np.add, mixture)
        score = np.where(solution.mixed, mixture_score, score)
        excess = dual.expected(marginals) - dual.rows.bounds
    dual_value = dual.total(dual_total, values)
    # What rows and slack add to a problem is shared equally by its instances.
    added = dual_total - dual.per_problem(values, np.zeros(len(multipliers)))
    free_value = None if dual.free_value is None else dual.free_value + dual.total(np.zeros(dual.n_problems), values)
    return _describe(
        dual,
        solution.status,
        excess,
        marginals=marginals,
        multipliers=multipliers,
        values=values,
        objectives=values + share_equally(dual.instance_problem, dual.instance_weight, added),
        dual_value=dual_value,
        primal_value=dual.total(score - terms.cost(excess), values),
        kl=None if free_value is None else free_value - dual_value,
        free_expected=dual.free_expected,
        n_iter=solution.n_iter,
        residual=float(solution.residual.max(initial=0.0)),
    )


def _unconstrained(structure: Structure, scores: Parts, gamma: float, weights: Floats | None) -> Projection:
    dual = BatchDual(structure, scores, no_rows(structure.n_unary), max(gamma, 0.0), weights)
    return _finish(dual, Solution(np.zeros(0), np.zeros(0, np.int8), np.zeros(0), 0))


def _describe(dual: BatchDual, status: NDArray[np.int8], excess: Floats, **fields: Any) -> Projection:
    """A projection from the status of its problems, the excess ``U mu - b`` of its rows, and its other fields."""
    worst = dual.terms.worst_violation(excess)
    n, inside = dual.structure.n_instances, dual.inside
    problem = dual.instance_problem[inside]
    without_rows = Status.CERTIFIED if dual.gamma == 0 else Status.SOLVED
    instance_status = np.full(n, without_rows, np.int8)
    instance_status[inside] = status[problem]
    alone = len(worst) == 1 and isinstance(inside, slice)
    instance_violation = np.broadcast_to(worst, n) if alone else np.zeros(n)
    if not alone:
        instance_violation[inside] = worst[problem]
    return Projection(
        violation=float(worst.max(initial=0.0)),
        status=Status(int(status.max(initial=without_rows))),
        n_evaluations=dual.n_evaluations,
        instance_status=instance_status,
        instance_violation=instance_violation,
        **fields,
    )


def _check_problem(
    structure: Structure,
    scores: Parts,
    rows: Rows | None,
    gamma: float,
    start: ArrayLike | None,
    weights: ArrayLike | None,
    tol: float,
) -> tuple[Parts, Rows | None, Floats, Floats | None]:
    """Check the arguments of `project_batch`; returns scores, rows, the starting multipliers and the weights."""
    constrained = rows is not None and len(rows.bounds) > 0
    if isinstance(gamma, bool) or not isinstance(gamma, int | float | np.integer | np.floating):
        raise InvalidInputError(f"gamma must be a number, got {gamma!r}; try 1.0")
    if np.isnan(gamma) or gamma == np.inf or (gamma < 0 and gamma != -np.inf and constrained):
        reason = (
            "between -inf and 0 the constrained problem is not convex; use gamma = 0 for its linear relaxation or "
            "gamma = -inf for the integer program"
            if gamma < 0
            else "use gamma = 1 for posterior regularisation, 0 for hard assignments, or any finite number between"
        )
        raise InvalidInputError(f"gamma must be -inf or a finite number >= 0; got {gamma}; {reason}")
    if not tol > 0:
        raise InvalidInputError(f"tol must be positive; got {tol}; the default is 1e-8")
    scores = check_scores(structure, scores)
    weight = None if weights is None else as_weights(weights, structure.n_instances)
    if not constrained:
        return scores, None, np.zeros(0), weight
    assert rows is not None
    n_columns = structure.n_unary if rows.alike is None else rows.matrix.shape[1]
    if rows.matrix.shape != (len(rows.bounds), n_columns):
        raise InvalidInputError(
            f"rows.matrix must have shape {(len(rows.bounds), structure.n_unary)}, one column per unary part; "
            f"got {rows.matrix.shape}; compile the constraint for this structure"
        )
    if not (np.isfinite(rows.bounds).all() and np.isfinite(rows.matrix.data).all()):
        raise InvalidInputError(
            "rows must have finite bounds and coefficients; got NaN or inf; drop rows without bound"
        )
    first = np.zeros(len(rows.bounds)) if start is None else np.asarray(start, np.float64)
    if first.shape != rows.bounds.shape or not np.isfinite(first).all():
        raise InvalidInputError(
            f"start must be {len(rows.bounds)} finite multipliers, one per row; got shape {first.shape}; "
            "pass the multipliers of an earlier projection of the same rows, or None"
        )
    return scores, rows, first, weight


def solve_integer(dual: BatchDual, deadline: Deadline) -> Projection:
    """Exact integer optimum of every problem ([Chang2007]; [Samdani2012] eq. 10 at gamma of minus infinity).

    A few steps of Lagrangian relaxation certify the easy problems. HiGHS solves the others, one program per problem;
    where it runs out of time, the best structures found are kept.

    Raises
    ------
    InfeasibleConstraintError
        If no structures meet the rows of a problem.
    InvalidInputError
        If a slack has an l2 norm, which no linear program can express, or nothing was found within the time.
    """
    transports = find_transports(dual, whole=True)
    transported = np.zeros(dual.n_problems, np.bool_) if transports is None else transports.problems
    if transports is not None and transports.infeasible.any():
        raise explain_infeasible(dual, transports.status, whole=True)
    certified, multipliers = transported, np.zeros(len(dual.rows.bounds))
    if not transported.all():
        programs = ProblemPrograms(dual)
        programs.variables.refuse_curved()
        solution = Subgradient(steps=20).solve(dual, multipliers, ~transported)
        certified, multipliers = solution.status == Status.CERTIFIED, solution.multipliers
    status = np.where(certified, Status.CERTIFIED, Status.MAX_ITERATIONS).astype(np.int8)
    multipliers = multipliers if transports is None else multipliers + transports.multipliers
    easy = (dual.instance_problem < 0) | dual.instances_of(certified & ~transported)
    values, marginals = dual.smoothed_max(multipliers, easy, dual.weights)
    price = (dual.transpose @ multipliers) * marginals.unary
    values = values + sum_by(dual.structure.instance, price, dual.structure.n_instances)
    parts = marginals.map(np.copy)
    if transports is not None:
        inside, scores = transports.read(transported, parts)
        values[inside] = scores
    bound = np.zeros(dual.n_problems)
    hard = np.flatnonzero(~certified)
    if len(hard):
        relaxed = dual.evaluate(multipliers, ~certified).value + dual.terms.value(multipliers)
    for k, p in enumerate(hard):
        problem = programs.write(int(p))
        result = run_integer(problem.program, len(problem.owner), deadline.left)
        if result.status == INFEASIBLE:
            status[p] = Status.INFEASIBLE
            continue
        if result.x is None:
            raise InvalidInputError(
                f"no structures that meet the constraints were found within {setting('time_limit')}={deadline.limit:g} "
                f"seconds ({result.message}; {len(hard) - k} of {dual.n_problems} problems are left); allow more time, "
                "give the constraints slack, or use gamma = 0"
            )
        status[p] = Status.CERTIFIED if result.status == OPTIMAL else Status.MAX_ITERATIONS
        bound[p] = min(-result.bound * problem.unit, relaxed[p])
        values[problem.instances] = problem.read(np.rint(result.x), dual.weights, parts)
    if (status == Status.INFEASIBLE).any():
        raise explain_infeasible(dual, status, whole=True)
    if (status == Status.MAX_ITERATIONS).any():
        warn_open(status, "HiGHS gave up on the integer program", "time_limit")
    # The value of the structures themselves: that of the program is only as exact as the tolerances of HiGHS.
    inside = dual.instance_problem >= 0
    scored = sum_by(dual.instance_problem[inside], (dual.instance_weight * values)[inside], dual.n_problems)
    excess = dual.matrix @ parts.unary - dual.rows.bounds
    primal = scored - dual.terms.cost(excess)
    bound = np.where(status == Status.CERTIFIED, primal, np.maximum(bound, primal))
    dual_value, primal_value = dual.total(bound, values), dual.total(primal, values)
    return _describe(
        dual,
        status,
        excess,
        marginals=parts,
        multipliers=np.zeros(len(dual.rows.bounds)),
        values=values,
        objectives=values,
        dual_value=dual_value,
        primal_value=primal_value,
        kl=None,
        n_iter=len(hard),
        residual=abs(dual_value - primal_value) / max(1.0, abs(dual_value)),
    )
