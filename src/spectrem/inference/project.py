"""The constrained E-step: the distribution nearest to a model that meets the constraints."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.rows import Rows
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference.corpus import pick_rows
from spectrem.inference.feasibility import drop_rows, drop_unreachable, explain_infeasible, refuse_unreachable
from spectrem.inference.ilp import solve_integer
from spectrem.inference.oracle import BatchDual
from spectrem.inference.result import Projection, Status
from spectrem.inference.segments import sum_by
from spectrem.inference.solvers.accelerated import Accelerated
from spectrem.inference.solvers.bracket import Bracket
from spectrem.inference.solvers.linear_program import LinearProgram
from spectrem.inference.solvers.newton import Newton, suits_newton
from spectrem.inference.solvers.quasi_newton import QuasiNewton
from spectrem.inference.solvers.solver import Solution, Solver
from spectrem.inference.solvers.subgradient import Subgradient
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

Infeasible = Literal["raise", "skip"]

_MOST_ROWS_OF_A_PROGRAM = 5_000


def project(
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
        and few rows per problem) or ``QuasiNewton`` (slack on each row alone or none), ``Accelerated`` (slack norms
        that tie rows); for gamma = 0 ``LinearProgram``, or ``Subgradient`` above 5,000 rows.
    start : array-like of shape (n_rows,) or None
        Multipliers to start from, for example those of the last EM iteration.
    weights : array-like of shape (n_instances,) or None
        Nonnegative; multiply the factor counts, and the share of an instance in rows of corpus scope.
    tol : float
        Largest residual relative to the size of a row, for the solver chosen by shape.
    max_iter : int or None
        For the solver chosen by shape; None is its default.
    infeasible : {"raise", "skip"}
        Rows of instance scope that no distribution meets are an error, or are left out: all rows of their constraint
        in that instance, and where several constraints only clash together, those of all of them.

    Returns
    -------
    Projection

    Raises
    ------
    InvalidInputError
        NaN scores, shapes that do not fit, a gamma below 0 other than -inf, an instance without any possible structure.
    InfeasibleConstraintError
        No distribution meets the rows; the message names the constraints and the first instances. With
        ``infeasible="skip"`` only if rows of corpus scope are to blame.

    Warns
    -----
    ConvergenceWarning
        If some instance ran out of iterations; ``instance_status`` tells which.

    Examples
    --------
    A posterior over three labels, the first of which may have probability 0.2 at most:

    >>> import numpy as np, scipy.sparse as sp
    >>> from spectrem.constraints.rows import Block, Rows
    >>> from spectrem.structures.categorical import Categorical
    >>> block = Block("first is rare", 0, 1, False, "instance", None, np.zeros(1, int), {})
    >>> rows = Rows(sp.csr_array([[1.0, 0.0, 0.0]]), np.array([0.2]), np.array([0]), (block,))
    >>> result = project(Categorical([3]), Parts(np.log([0.6, 0.3, 0.1])), rows)
    >>> result.marginals.unary.round(3)
    array([0.2, 0.6, 0.2])
    >>> result.status.message
    'solved to the tolerance asked for'
    """
    check_infeasible(infeasible)
    rows, first, weight = _check(structure, scores, rows, gamma, start, weights, tol)
    if rows is None:
        return _unconstrained(structure, scores, gamma, weight)
    if infeasible == "raise":
        refuse_unreachable(scores, rows)
        return _solve(structure, scores, rows, gamma, solver, first, weight, tol, max_iter)
    kept = drop_unreachable(scores, rows)
    while True:
        some = rows if kept.all() else pick_rows(rows, kept)
        if not len(some.bounds):
            return _with_skipped(_unconstrained(structure, scores, gamma, weight), kept)
        try:
            solved = _solve(structure, scores, some, gamma, solver, first[kept], weight, tol, max_iter)
        except InfeasibleConstraintError as error:
            left = drop_rows(some, error.rows)
            if left.all():
                raise
            kept[np.flatnonzero(kept)[~left]] = False
        else:
            return _with_skipped(solved, kept)


def _with_skipped(projection: Projection, kept: NDArray[np.bool_]) -> Projection:
    multipliers = np.zeros(len(kept))
    multipliers[kept] = projection.multipliers
    return replace(projection, multipliers=multipliers, skipped=np.flatnonzero(~kept))


def _solve(
    structure: Structure,
    scores: Parts,
    rows: Rows,
    gamma: float,
    solver: Solver | None,
    first: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    tol: float,
    max_iter: int | None,
) -> Projection:
    if gamma == -np.inf:
        return _integer(structure, scores, rows, weight)
    dual = BatchDual(structure, scores, rows, gamma, weight)
    chosen = choose_solver(dual, tol, max_iter) if solver is None else solver
    solution = chosen.solve(dual, dual.terms.project(first))
    if (solution.status == Status.INFEASIBLE).any():
        raise explain_infeasible(dual, solution)
    if (solution.status == Status.MAX_ITERATIONS).any():
        open_ones = solution.residual[solution.status == Status.MAX_ITERATIONS]
        _warn(len(open_ones), dual.n_problems, f"largest residual {open_ones.max():.2g}")
    return _finish(dual, solution, weight)


def check_infeasible(infeasible: str) -> None:
    """Raise unless the option is one of the two there are."""
    if infeasible not in get_args(Infeasible):
        raise InvalidInputError(
            f'infeasible must be "raise" or "skip", got {infeasible!r}; "raise" names the constraint'
        )


def choose_solver(dual: BatchDual, tol: float, max_iter: int | None) -> Solver:
    """The solver that suits the shape of the rows and slack."""
    limit = {} if max_iter is None else {"max_iter": max_iter}
    if dual.gamma == 0:
        if len(dual.row_problem) <= _MOST_ROWS_OF_A_PROGRAM:
            return LinearProgram(tol=tol, **limit)
        return Subgradient(tol=tol) if max_iter is None else Subgradient(tol=tol, steps=max_iter)
    if dual.n_problems == len(dual.row_problem):
        return Bracket(tol=tol, **limit)
    if suits_newton(dual):
        return Newton(tol=tol, **limit)
    if dual.terms.is_box:
        return QuasiNewton(tol=tol, **limit)
    return Accelerated(tol=tol, **limit)


def _finish(dual: BatchDual, solution: Solution, weights: NDArray[np.float64] | None) -> Projection:
    """One more pass at the solution for all instances, with the weights, and the numbers that describe it."""
    structure, terms, multipliers = dual.structure, dual.terms, solution.multipliers
    n = structure.n_instances
    if not np.isfinite(multipliers).all():
        raise InvalidInputError("the solver returned multipliers that are not finite; try a smaller step size")
    values, marginals = dual.smoothed_max(multipliers, None, weights)
    dual_total = dual.per_problem(values, multipliers) + terms.value(multipliers)
    score = dual.per_problem(values, multipliers) - sum_by(
        dual.row_problem,
        dual.row_weight * multipliers * (dual.rows.bounds - dual.matrix @ marginals.unary),
        dual.n_problems,
    )
    if solution.mixture is not None and solution.mixed is not None and solution.mixed.any():
        _, rest = dual.smoothed_max(multipliers, ~dual.instances_of(solution.mixed), weights)
        mixture, mixture_score = solution.mixture(weights)
        factors = zip(rest.factors, mixture.factors, strict=True)
        marginals = Parts(rest.unary + mixture.unary, tuple(a + b for a, b in factors))
        score = np.where(solution.mixed, mixture_score, score)
    excess = dual.matrix @ marginals.unary - dual.rows.bounds
    primal = score - terms.cost(excess)
    worst = terms.worst_violation(excess)
    outside = dual.instance_problem < 0
    alone = float(values[outside].sum())
    place = np.maximum(dual.instance_problem, 0)
    plain = Status.CERTIFIED if dual.gamma == 0 else Status.SOLVED
    dual_value = float(dual_total.sum()) + alone
    return Projection(
        marginals=marginals,
        multipliers=multipliers,
        values=values,
        objectives=_objectives(dual, values, dual_total),
        dual_value=dual_value,
        primal_value=float(primal.sum()) + alone,
        violation=float(worst.max(initial=0.0)),
        kl=None if dual.free_value is None else dual.free_value + alone - dual_value,
        status=Status(int(solution.status.max())),
        n_evaluations=dual.n_evaluations,
        n_iter=solution.n_iter,
        residual=float(solution.residual.max(initial=0.0)),
        instance_status=np.where(outside, plain, solution.status[place]).astype(np.int8).reshape(n),
        instance_violation=np.where(outside, 0.0, worst[place]).reshape(n),
    )


def _objectives(dual: BatchDual, values: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dual value of every instance; instances that rows tie together share what the rows add equally."""
    inside = dual.instance_problem >= 0
    size = np.bincount(dual.instance_problem[inside], minlength=dual.n_problems)
    added = (totals - sum_by(dual.instance_problem[inside], values[inside], dual.n_problems)) / np.maximum(size, 1)
    objectives = values.copy()
    objectives[inside] += added[dual.instance_problem[inside]]
    return objectives


def _unconstrained(
    structure: Structure, scores: Parts, gamma: float, weights: NDArray[np.float64] | None
) -> Projection:
    values, marginals = structure.smoothed_max(scores, max(gamma, 0.0), weights=weights)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInputError(
            f"scores of instance {bad} must leave at least one structure possible; every structure there scores -inf; "
            "allow more parts there or drop the instance"
        )
    total = float(values.sum())
    status = Status.SOLVED if gamma > 0 else Status.CERTIFIED
    n = structure.n_instances
    return Projection(
        marginals=marginals,
        multipliers=np.zeros(0),
        values=values,
        objectives=values,
        dual_value=total,
        primal_value=total,
        violation=0.0,
        kl=0.0,
        status=status,
        n_evaluations=1,
        n_iter=0,
        residual=0.0,
        instance_status=np.full(n, status, np.int8),
        instance_violation=np.zeros(n),
    )


def _integer(structure: Structure, scores: Parts, rows: Rows, weights: NDArray[np.float64] | None) -> Projection:
    dual = BatchDual(structure, scores, rows, 0.0, weights)
    solution = solve_integer(dual, weights)
    multipliers = np.zeros(len(rows.bounds))
    if (solution.status == Status.INFEASIBLE).any():
        nothing = np.zeros(dual.n_problems)
        raise explain_infeasible(dual, Solution(multipliers, solution.status, nothing, solution.n_iter))
    unsolved = int((solution.status == Status.MAX_ITERATIONS).sum())
    if unsolved:
        _warn(unsolved, dual.n_problems, "HiGHS gave up on the integer program")
    worst = dual.terms.worst_violation(dual.matrix @ solution.marginals.unary - rows.bounds)
    outside = dual.instance_problem < 0
    place = np.maximum(dual.instance_problem, 0)
    return Projection(
        marginals=solution.marginals,
        multipliers=multipliers,
        values=solution.values,
        objectives=solution.values,
        dual_value=solution.bound,
        primal_value=solution.primal_value,
        violation=float(worst.max(initial=0.0)),
        kl=None,
        status=Status(int(solution.status.max())),
        n_evaluations=dual.n_evaluations,
        n_iter=solution.n_iter,
        residual=abs(solution.bound - solution.primal_value) / max(1.0, abs(solution.bound)),
        instance_status=np.where(outside, Status.CERTIFIED, solution.status[place]).astype(np.int8),
        instance_violation=np.where(outside, 0.0, worst[place]),
    )


def _warn(unsolved: int, n_problems: int, detail: str) -> None:
    warnings.warn(
        f"{unsolved} of {n_problems} constrained problems {Status.MAX_ITERATIONS.message} ({detail}); "
        "raise max_iter or tol, or give the constraint slack",
        ConvergenceWarning,
        stacklevel=3,
    )


def _check(
    structure: Structure,
    scores: Parts,
    rows: Rows | None,
    gamma: float,
    start: ArrayLike | None,
    weights: ArrayLike | None,
    tol: float,
) -> tuple[Rows | None, NDArray[np.float64], NDArray[np.float64] | None]:
    """Coerce and refuse what cannot be meant; returns rows, the starting multipliers and the weights."""
    constrained = rows is not None and len(rows.bounds) > 0
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
    shapes = ((structure.n_unary,), *structure.factor_shapes)
    for name, array, shape in zip(
        ["scores.unary", *(f"scores.factors[{k}]" for k in range(len(shapes) - 1))],
        [scores.unary, *scores.factors],
        shapes,
        strict=False,
    ):
        if array.shape != shape:
            raise InvalidInputError(f"{name} must have shape {shape}; got {array.shape}; build it with this structure")
        bad = np.isnan(array) | np.isposinf(array)
        if bad.any():
            where = int(np.flatnonzero(bad)[0])
            raise InvalidInputError(
                f"{name} must be finite or -inf; got {array.ravel()[where]} at position {where}; "
                "look for log of a negative number or 0 / 0 in the model's parameters"
            )
    if len(scores.factors) != len(structure.factor_shapes):
        raise InvalidInputError(
            f"scores.factors must hold {len(structure.factor_shapes)} arrays; got {len(scores.factors)}; "
            "build the scores with this structure"
        )
    weight = None if weights is None else np.asarray(weights, np.float64)
    if weight is not None and (weight.shape != (structure.n_instances,) or not (weight >= 0).all()):
        raise InvalidInputError(
            f"weights must be {structure.n_instances} nonnegative numbers, one per instance; got shape {weight.shape}"
            f" with minimum {weight.min(initial=np.inf):g}; leave None for equal weights"
        )
    if not constrained:
        return None, np.zeros(0), weight
    assert rows is not None
    if rows.matrix.shape != (len(rows.bounds), structure.n_unary):
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
    return rows, first, weight
