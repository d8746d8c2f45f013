"""Projected Newton steps for duals of few rows over categorical instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.inference.choices import choice_offsets
from spectrem.inference.oracle import BatchDual, DualFunction
from spectrem.inference.result import Status
from spectrem.inference.segments import members_of
from spectrem.inference.solvers.accelerated import Accelerated
from spectrem.inference.solvers.quasi_newton import QuasiNewton
from spectrem.inference.solvers.solver import Solution, Solver
from spectrem.kernels.duals.newton import Instances, Problems, Rows, newton_duals
from spectrem.structures.structure import Structure, has_one_label

# Rows of a problem; many more where instances hold several choices, as most rows then rest at their bounds.
MOST_ROWS, MOST_OF_CHOICES = 40, 4096


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
        starts, own = choices_of(structure)
        # Every choice is an instance of the kernel.
        problems, place = problems_of(dual.row_problem, dual.instance_problem[own], n)
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
            np.ascontiguousarray(dual.instance_weight[own]),
            float(dual.gamma),
        )
        bounds = dual.row_weight * dual.rows.bounds + terms.kink
        linear = Rows(bounds, terms.lower, terms.upper, dual.scale * dual.gamma, dual.size, dual.lever)
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
