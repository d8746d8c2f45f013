"""Projected Newton steps for duals of few rows: compiled over categorical instances, or with a curvature given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import BatchDual, DualFunction, per_copy, split_problems
from spectrem.inference.program import choice_offsets
from spectrem.inference.result import Status
from spectrem.inference.segments import members_of
from spectrem.inference.slack import compile_slack
from spectrem.inference.solvers.first_order import Accelerated, QuasiNewton, Solution, Solver, residual_of
from spectrem.kernels.duals.newton import Instances, Problems, curve_minima, newton_duals
from spectrem.kernels.duals.newton import Rows as LinearRows
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure, has_one_label

# Rows of a problem; many more where instances hold several choices, as most rows then rest at their bounds.
MOST_ROWS, MOST_OF_CHOICES = 40, 4096
# Shares of its own curvature that are added to a row's, so that rows may depend on each other.
_RIDGE = 1e-10
_FAR = 2.0


@dataclass(frozen=True)
class Newton:
    """Newton's method with the exact Hessian on the rows that are off their bounds (Bertsekas 1982), compiled.

    Steps are damped by the range of scores that they move (the smoothed maximum is self-concordant in that sense: Sun &
    Tran-Dinh 2019), so that saturated probabilities take a step of the right order. Problems that do not converge, for
    example infeasible ones, are handed to `QuasiNewton`.

    Use when gamma > 0, every instance has one label (`Categorical`) or several that are independent (a `Product` of
    these), slack (if any) acts on each row alone, and no problem has more than a few dozen rows (of a product: off
    their bounds): one problem over a corpus or thousands of small ones alike.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Evaluations per problem.
    """

    tol: float = 1e-8
    max_iter: int = 60

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        if not suits_newton(dual):
            raise InvalidInputError(
                "solver Newton needs gamma > 0, one label per instance (Categorical) or a product of these, slack on "
                f"each row alone and at most {MOST_ROWS} rows per problem; leave solver=None to have one chosen"
            )
        assert isinstance(dual, BatchDual)
        structure, terms, n = dual.structure, dual.terms, dual.n_problems
        starts, owner = choices_of(structure)
        # Every choice is an instance of the kernel.
        problems, place = problems_of(dual.row_problem, dual.instance_problem[owner], n)
        x = np.array(start, np.float64)
        value, residual, evaluations = np.zeros(n), np.full(n, np.inf), np.zeros(n, np.int64)
        transpose, alike = dual.transpose, dual.rows.alike
        offsets = starts if alike is None else np.arange(0, structure.n_unary + 1, alike.width)
        scored = Instances(
            offsets,
            offsets[:-1] if alike is None else alike.kind,
            1 if alike is None else alike.width,
            dual.scores.unary,
            transpose.indptr,
            transpose.indices,
            transpose.data,
            place,
            np.ascontiguousarray(dual.instance_weight[owner]),
            float(dual.gamma),
        )
        bounds = dual.row_weight * dual.rows.bounds + terms.kink
        linear = LinearRows(bounds, terms.lower, terms.upper, dual.scale * dual.gamma, dual.size, dual.lever)
        newton_duals(problems, scored, linear, self.tol, self.max_iter, x, value, residual, evaluations)
        passes = int(evaluations.max(initial=0))
        dual.n_evaluations += passes
        if dual.free_value is None and not start.any() and np.isfinite(value).all():
            dual.free_value = float(dual.problem_weight @ value)
        status = np.where(residual <= self.tol, Status.SOLVED, Status.MAX_ITERATIONS).astype(np.int8)
        unsolved = status == Status.MAX_ITERATIONS
        if not unsolved.any():
            return Solution(x, status, residual, passes)
        again = QuasiNewton(tol=self.tol).solve(dual, np.where(unsolved[dual.row_problem], start, x))
        return Solution(
            np.where(unsolved[dual.row_problem], again.multipliers, x),
            np.where(unsolved, again.status, status).astype(np.int8),
            np.where(unsolved, again.residual, residual),
            passes + again.n_iter,
        )


def choices_of(structure: Structure) -> tuple[Ints, Ints | slice]:
    """Where the labels of every choice begin, and the instance that each belongs to."""
    starts = choice_offsets(structure)
    assert starts is not None
    return starts, slice(None) if has_one_label(structure) else structure.instance[starts[:-1]]


def problems_of(row_problem: Ints, choice_problem: Ints, n: int) -> tuple[Problems, Ints]:
    """The rows and choices of every problem, and the place of every row in its problem."""
    rows, row_offsets = members_of(row_problem, n)
    choices, choice_starts = members_of(choice_problem, n)
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows)) - np.repeat(row_offsets[:-1], np.diff(row_offsets))
    return Problems(row_offsets, rows, choice_starts, choices), place


def suits_newton(dual: DualFunction) -> bool:
    """Whether `Newton` can solve the dual."""
    if not (isinstance(dual, BatchDual) and dual.gamma > 0 and dual.terms.is_box):
        return False
    most = MOST_ROWS if has_one_label(dual.structure) else MOST_OF_CHOICES
    few = int(np.bincount(dual.row_problem).max(initial=0)) <= most
    return few and choice_offsets(dual.structure) is not None


def smooth_solver(dual: DualFunction, tol: float, max_iter: int | None = None) -> Solver:
    """For gamma > 0: the solver that suits the slack, the structure and the number of rows."""
    limit = {} if max_iter is None else {"max_iter": max_iter}
    if suits_newton(dual):
        return Newton(tol, **limit)
    return QuasiNewton(tol, **limit) if dual.terms.is_box else Accelerated(tol, **limit)


@dataclass(frozen=True)
class Curved:
    """Newton's method on the rows that are off their bounds (Bertsekas 1982), with a backtracking line search.

    Use for rows over a corpus where an evaluation is much dearer than its curvature, as each solves the rows inside
    instances: it takes a third of the evaluations of `QuasiNewton`, which finishes what it cannot.

    Parameters
    ----------
    curvature : callable
        From multipliers, those evaluated last, to the second derivatives of the dual, shape (n_rows, n_rows), or NaN.
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Evaluations.
    far : float
        Steps that move scores farther than so many gammas are damped; inf suits a quadratic function.
    """

    curvature: Callable[[Floats], Floats]
    tol: float = 1e-8
    max_iter: int = 40
    far: float = _FAR

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        terms, active = dual.terms, np.ones(1, np.bool_)

        def evaluate(x: Floats) -> tuple[float, Floats]:
            value, gradient = dual.evaluate(x, active)
            return float((value + terms.value(x))[0]), gradient + terms.kink

        x = terms.project(start)
        f, g = evaluate(x)
        count = 1
        while True:
            residual = residual_of(dual, x, g - terms.kink)
            if residual[0] <= self.tol:
                return Solution(x, np.full(1, Status.SOLVED, np.int8), residual, count)
            step = self._step(dual, x, g, min(1e-3, float(residual[0])))
            length = 1.0 if step is None else _damping(float(np.abs(step * dual.lever).max()) / dual.gamma, self.far)
            while step is not None and length > 1e-6 and count < self.max_iter:
                trial = np.clip(x + length * step, terms.lower, terms.upper)
                expected = 1e-4 * float(g @ (trial - x))
                if expected < 0:
                    f_trial, g_trial = evaluate(trial)
                    count += 1
                    # By convexity the slope at the trial proves decreases that rounding hides in the values.
                    if f_trial <= f + expected or float(g_trial @ (trial - x)) <= expected:
                        break
                length *= 0.3
            else:
                rest = QuasiNewton(self.tol).solve(dual, x)
                return Solution(rest.multipliers, rest.status, rest.residual, count + rest.n_iter)
            x, f, g = trial, f_trial, g_trial

    def _step(self, dual: DualFunction, x: Floats, g: Floats, near: float) -> Floats | None:
        """Newton's step of the rows that do not rest at a bound, to the bound for the others."""
        lower, upper = dual.terms.lower, dual.terms.upper
        low: Bools = ((x - lower) * dual.lever <= near) & (g > 0)
        high: Bools = ((upper - x) * dual.lever <= near) & (g < 0)
        step = np.zeros(len(x))
        step[low], step[high] = (lower - x)[low], (upper - x)[high]
        free = np.flatnonzero(~(low | high))
        curve = self.curvature(x)[np.ix_(free, free)]
        diagonal = np.diagonal(curve)
        if not (np.isfinite(curve).all() and (diagonal > 0).all()):
            return None
        unit = 1.0 / np.sqrt(diagonal)
        scaled = curve * np.outer(unit, unit) + _RIDGE * np.eye(len(free))
        import scipy.linalg  # as slow to load as some commands are to run

        try:
            step[free] = -unit * scipy.linalg.solve(scaled, unit * g[free], assume_a="pos")
        except np.linalg.LinAlgError:
            return None
        return step


def _damping(reach: float, far: float) -> float:
    """The share of a step that is tried first, by how far it moves scores, in units of gamma.

    Far steps cost more than they gain, as all problems inside evaluations move as far.
    """
    return 1.0 if reach <= far else far * math.log1p(reach / far) / reach


def curvature_of_batch(
    structure: Structure,
    scores: Parts,
    rows: Rows,
    multipliers: Floats,
    gamma: float,
    weights: Floats,
    across: sp.csr_array,
) -> Floats:
    """The second derivatives of a batch's dual value in the prices of rows over the corpus.

    Where the own rows are off their bounds their multipliers follow the prices (the implicit function theorem), so that
    this is the covariance of the rows over the corpus, over gamma, less the part that the own rows take up.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats, less the prices of the rows over the corpus.
    rows : Rows
        The batch's own.
    multipliers : ndarray of shape (n_own_rows,)
        That solve for ``scores``.
    gamma : float, > 0
    weights : ndarray of shape (n_instances,)
    across : csr_array of shape (n_unary, n_rows)
        Coefficients of the rows over the corpus.

    Returns
    -------
    ndarray of shape (n_rows, n_rows)
        NaN where it is not known: labels are not independent choices, slack ties own rows together, or very many own
        rows of an instance are off their bounds.
    """
    n_shared = across.shape[1]
    unknown = np.full((n_shared, n_shared), np.nan)
    if choice_offsets(structure) is None:
        return unknown
    rows = per_copy(structure, rows.whole, weights)
    instance_problem, row_problem, n = split_problems(structure, rows)
    terms = compile_slack(rows.blocks, row_problem, n)
    if not terms.is_box:
        return unknown
    starts, owner = choices_of(structure)
    # What no row of the batch touches is a problem without rows.
    choice_problem = np.where(instance_problem < 0, n, instance_problem)[owner]
    problems, place = problems_of(row_problem, choice_problem, n + 1)
    both = sp.csr_array(sp.hstack([rows.transpose, across], format="csr"))
    instances = Instances(
        starts, starts[:-1], 1, scores.unary, both.indptr, both.indices, both.data,
        np.concatenate([place + n_shared, np.arange(n_shared)]),
        np.ascontiguousarray(weights[owner], np.float64), float(gamma),
    )  # fmt: skip
    lower = np.zeros((n_shared, n_shared))
    if not curve_minima(problems, instances, terms.lower, terms.upper, n_shared, multipliers, lower):
        return unknown
    return lower + np.tril(lower, -1).T
