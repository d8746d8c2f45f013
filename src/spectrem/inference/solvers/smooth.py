"""Solvers for gamma > 0 and fixed steps: gradients with line searches, or Newton's steps where curvature is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import (
    BatchDual,
    DualFunction,
    choice_offsets,
    compile_slack,
    max_by,
    members_of,
    per_copy,
    split_problems,
    sum_by,
)
from spectrem.inference.result import Status
from spectrem.kernels.duals.extrapolation import anderson_points, quasi_newton_directions
from spectrem.kernels.duals.newton import Instances, Problems, curve_minima, newton_duals
from spectrem.kernels.duals.newton import Rows as LinearRows
from spectrem.kernels.duals.spectral import forward_step, measure_move, slope_along
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure, has_one_label

# Rows of a problem; many more where instances hold several choices, as most rows then rest at their bounds.
MOST_ROWS, MOST_OF_CHOICES = 40, 4096
# Shares of its own curvature that are added to a row's, so that rows may depend on each other.
_RIDGE = 1e-10


@brief_dataclass(frozen=True)
class Solution:
    """Multipliers, and how each problem ended.

    Attributes
    ----------
    multipliers : ndarray of shape (n_rows,)
        Of an infeasible problem, a direction that proves it.
    status : ndarray of shape (n_problems,), int8
        ``Status`` codes.
    residual : ndarray of shape (n_problems,)
        Distance from the optimality conditions (``residual_of``), or the relative duality gap at gamma = 0.
    n_iter : int
    mixed : ndarray of shape (n_problems,), bool, or None
        At gamma = 0: problems whose solution is not the best structure at ``multipliers`` but a mixture of structures.
    mixture : callable or None
        From a choice of mixed problems, shape (n_problems,), bool, to the marginals of their instances and their
        scores, shape (n_problems,), both 0 elsewhere. Factor counts are weighted as the dual is.
    length : ndarray of shape (n_problems,) or None
        Of `Spectral`: the step that the next solve may start from.

    Examples
    --------
    >>> solution = Solution(np.array([0.5]), np.array([0], np.int8), np.array([1e-9]), n_iter=7)
    >>> solution.multipliers, solution.n_iter
    (array([0.5]), 7)
    """

    multipliers: Floats
    status: NDArray[np.int8]
    residual: Floats
    n_iter: int
    mixed: Bools | None = None
    mixture: Callable[[Bools], tuple[Parts, Floats]] | None = None
    length: Floats | None = None


class Solver(Protocol):
    """Anything with a ``solve``; see the files beside this one for examples.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> class Exact:
    ...     def solve(self, dual, start):
    ...         return Newton(tol=1e-12).solve(dual, start)
    >>> project([[0.2, 0.8]], E[part("label") == 1] <= 0.5, solver=Exact()).proba.round(3).tolist()
    [[0.5, 0.5]]
    """

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``, multipliers of shape (n_rows,) in the feasible set.

        Parameters
        ----------
        dual : DualFunction
            Of one problem or several side by side, convex in the multipliers.
        start : ndarray of shape (n_rows,)
            Nats per unit; feasible.

        Returns
        -------
        Solution
            Multipliers, and how each problem ended.
        """


class History:
    """The last steps of many problems side by side: every problem fills a ring of ``memory`` slots of its own.

    Attributes
    ----------
    arrays : list of ndarray of shape (memory, n_rows)
        What is kept of a step, for example the changes of multipliers and of gradients.
    newest, stored : ndarray of shape (n_problems,), int64
        The slot of the last step of each problem, and the number of steps kept, which end there.
    """

    def __init__(self, problem: Ints, n_problems: int, memory: int, n_arrays: int) -> None:
        self.problem, self.memory = problem, memory
        self.arrays = [np.zeros((memory, len(problem))) for _ in range(n_arrays)]
        self.newest, self.stored = np.zeros(n_problems, np.int64), np.zeros(n_problems, np.int64)

    def keep(self, problems: Bools, *step: Floats) -> None:
        """Keep a step of some problems, in place of their oldest one if the ring is full."""
        rows = np.flatnonzero(problems[self.problem])
        slot = np.where(self.stored > 0, (self.newest + 1) % self.memory, 0)
        for array, entries in zip(self.arrays, step, strict=True):
            array[slot[self.problem[rows]], rows] = entries[rows]
        self.newest = np.where(problems, slot, self.newest)
        self.stored = np.where(problems, np.minimum(self.stored + 1, self.memory), self.stored)


def residual_of(dual: DualFunction, multipliers: Floats, gradient: Floats) -> Floats:
    """Largest proximal-gradient residual per problem, in units of ``dual.size``; 0 exactly at the optimum.

    For a row without slack this is its violation, or the smaller of its room and its (scaled) multiplier over gamma.
    """
    scale = dual.scale * (dual.gamma if dual.gamma > 0 else 1.0)
    moved = dual.terms.prox(multipliers - scale * gradient, scale)
    # Where multipliers diverge a step may be smaller than their rounding error, and would pass for convergence.
    distance = np.maximum(np.abs(moved - multipliers), np.finfo(float).eps * np.abs(multipliers))
    return max_by(dual.row_problem, distance / (scale * dual.size), dual.n_problems)


def mark_infeasible(dual: DualFunction, multipliers: Floats, active: Bools, status: NDArray[np.int8]) -> Bools:
    """The active problems that the multipliers prove infeasible; their ``status`` is set."""
    lost = dual.infeasible(multipliers, active) if active.any() else np.zeros_like(active)
    status[lost] = Status.INFEASIBLE
    return lost


def check_now(iteration: int) -> bool:
    """Whether to search for a proof of infeasibility: after 8, 16, 32, ... iterations, as each takes a pass."""
    return iteration >= 8 and iteration & (iteration - 1) == 0


@brief_dataclass(frozen=True)
class FixedStep:
    """``lambda <- project(lambda + eta_t (E_q[U h] - b))``, R times ([Samdani2012] algorithms 2 and 3).

    Use when an E-step inside EM needs to be nearly right and always cost the same (R + 1 passes), or to repeat
    the papers' numbers. Works for every gamma >= 0; for gamma = 0 the result is the last best structure.

    Parameters
    ----------
    steps : int
        R, at least 0.
    step_size : float or callable
        eta in nats per unit of violation: one number, or a function of t = 0 ... R - 1.

    Raises
    ------
    InvalidInputError
        If ``steps`` is negative, or a step size (when it is used) is not positive and finite.

    Examples
    --------
    >>> FixedStep(steps=5, step_size=0.2).eta(3)
    0.2
    >>> FixedStep(steps=5, step_size=lambda t: 1.0 / (1 + t)).eta(3)
    0.25
    """

    steps: int = 5
    step_size: float | Callable[[int], float] = 1.0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InvalidInputError(f"steps must be at least 0; got {self.steps}; 5 is what the papers ran")

    def eta(self, t: int) -> float:
        """Step size of step ``t``.

        Parameters
        ----------
        t : int
            From 0.

        Returns
        -------
        float
            Nats per unit of violation; above 0.

        Raises
        ------
        InvalidInputError
            If ``step_size`` gives a number that is not positive and finite.
        """
        step = float(self.step_size(t)) if callable(self.step_size) else float(self.step_size)
        if not 0 < step < np.inf:
            raise InvalidInputError(f"step_size must be positive and finite; got {step} at step {t}; try 1.0")
        return step

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``; see `Solver.solve`."""
        multipliers = start
        everything = np.ones(dual.n_problems, bool)
        residual = np.full(dual.n_problems, np.nan)
        for t in range(self.steps):
            gradient = dual.evaluate(multipliers, everything).gradient
            residual = residual_of(dual, multipliers, gradient)
            step = self.eta(t)
            multipliers = dual.terms.prox(multipliers - step * gradient, np.full(len(multipliers), step))
        status = np.full(dual.n_problems, Status.FIXED_STEPS, np.int8)
        return Solution(multipliers, status, residual, self.steps)


@brief_dataclass(frozen=True)
class Spectral:
    """``lambda <- prox(lambda - t (b - E_q[U h]))`` with t from the last two gradients (Barzilai & Borwein 1988).

    A step that does not lower the dual is taken back and tried again at the length that the bend along it suggests, so
    that the dual falls from step to step; each step is one pass.

    Use when an E-step over a corpus need not be exact but must be cheap and keeps its multipliers from one EM
    iteration to the next, as the projected gradient of [Ganchev2010] §8 does.

    Parameters
    ----------
    steps : int
        Passes over the batch beside the first one, at least 0.
    length : float
        First step in units of gamma over the squared norm of a row.
    tol : float
        Residual below which the multipliers are left alone.

    Raises
    ------
    InvalidInputError
        If ``steps`` is negative, or the dual splits into several problems.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = E[part("label") == 1] <= 1
    >>> project([[0.2, 0.8], [0.5, 0.5]], few, solver=Spectral(steps=100)).proba.round(3).tolist()
    [[0.333, 0.667], [0.667, 0.333]]
    """

    steps: int = 10
    length: float = 1.0
    tol: float = 1e-8

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InvalidInputError(f"steps must be at least 0; got {self.steps}; 5 to 10 are usual")

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``; see `Solver.solve`."""
        if dual.n_problems != 1:
            raise InvalidInputError(
                f"solver Spectral solves one problem with rows over the corpus; got {dual.n_problems} separate ones; "
                "use Accelerated or leave solver=None to have one chosen"
            )
        terms, active, unit = dual.terms, np.ones(1, bool), max(dual.gamma, 1e-6)
        x = start
        smooth, gradient = dual.evaluate(x, active)
        cost = float(terms.value(x)[0])
        before = float(smooth[0]) + cost
        length, residual, status, iteration = self.length * unit, np.inf, Status.FIXED_STEPS, 0
        while iteration < self.steps:
            trial = np.empty_like(x)
            forward_step(x, gradient, length, dual.scale, trial)
            trial = terms.prox(trial, length * dual.scale)
            stride, slope, largest = measure_move(x, trial, gradient, dual.scale, dual.size)
            residual = largest / length
            if residual <= self.tol:
                status = Status.SOLVED
                break
            iteration += 1
            smooth, gradient_t = dual.evaluate(trial, active)
            cost_t = float(terms.value(trial)[0])
            value = float(smooth[0]) + cost_t
            bend = slope_along(x, trial, gradient_t) - slope
            spectral = stride / bend if bend > 0 else np.inf
            # Sums over a corpus have rounding errors, below which a rise of the dual means nothing.
            rounding = 16 * np.finfo(np.float64).eps * abs(before)
            if value > before + 1e-4 * (slope + cost_t - cost) + rounding:
                length = float(np.clip(spectral, 0.05 * length, 0.5 * length))
                continue
            length = float(np.clip(spectral, 0.1 * length, 10.0 * length))
            x, gradient, cost, before = trial, gradient_t, cost_t, value
        return Solution(
            x, np.array([status], np.int8), np.array([residual]), iteration, length=np.array([length / unit])
        )


@brief_dataclass(frozen=True)
class Bracket:
    """Bracketed secant steps (Anderson and Bjorck's rule, bisection as the safeguard) on each scalar dual.

    Use when every problem has a single row, for example "at least one verb per sentence": no step sizes to choose,
    and 6 to 10 passes give full accuracy. gamma > 0.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.5).per("row")
    >>> project([[0.2, 0.8], [0.7, 0.3]], few, solver=Bracket()).proba.round(3).tolist()
    [[0.5, 0.5], [0.7, 0.3]]
    """

    tol: float = 1e-8
    max_iter: int = 100

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``; see `Solver.solve`."""
        n = len(start)
        terms, problem = dual.terms, dual.row_problem
        if dual.n_problems != n:
            raise InvalidInputError(
                f"solver Bracket needs one row per independent problem; got {n} rows in {dual.n_problems} problems; "
                "use QuasiNewton() or Accelerated(), or leave solver=None"
            )
        row = np.argsort(problem)  # the row of every problem
        active = np.ones(n, bool)
        origin = terms.project(np.zeros(n))
        slope = dual.evaluate(origin, active).gradient
        # The term kink * |lambda| has slope +kink right of 0 and -kink left of it: a constant on the side of the root.
        right, left = slope + terms.kink < 0, slope - terms.kink > 0
        low = np.where(right, 0.0, np.where(left, terms.lower, 0.0))
        high = np.where(right, terms.upper, 0.0)
        shift = np.where(right, terms.kink, -terms.kink)
        f_low = np.where(right, slope + shift, -np.inf)
        f_high = np.where(left, slope + shift, np.inf)
        x = origin.copy()
        residual = residual_of(dual, x, slope)[problem]
        active = (right | left) & (residual > self.tol) & (low < high)
        status = np.full(n, Status.SOLVED, np.int8)
        reach = max(dual.gamma, 1e-3) / dual.lever
        side = np.zeros(n, np.int8)
        warm = active & (start > low) & (start < high) & (start != 0)
        iteration = 0
        while active.any() and iteration < self.max_iter:
            iteration += 1
            # A root is bracketed once both ends have a finite value; until then steps outward double. Every eighth
            # step is a bisection, should the secant not shrink the bracket.
            closed = np.isfinite(f_low) & np.isfinite(f_high)
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = (low * f_high - high * f_low) / (f_high - f_low)
            inside = closed & (secant > low) & (secant < high) & (iteration % 8 != 7)
            outward = np.where(np.isneginf(f_low), np.maximum(high - reach, low), np.minimum(low + reach, high))
            trial = np.where(inside, secant, np.where(closed, 0.5 * (low + high), outward))
            x = np.where(active, np.where(warm, start, trial), x)
            warm[:] = False
            gradient = dual.evaluate(x, active[row]).gradient
            f = gradient + shift
            now = residual_of(dual, x, gradient)[problem]
            residual = np.where(active, now, residual)
            up = active & (f > 0)
            down = active & (f <= 0)
            open_end = (up & np.isneginf(f_low)) | (down & np.isposinf(f_high))
            reach = np.where(open_end, reach * 2, reach)
            # Anderson and Bjorck: the value at an end that stayed twice is made smaller, so that it moves next time.
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio_low, ratio_high = 1.0 - f / f_high, 1.0 - f / f_low
            again = up & (side == 1) & np.isfinite(f_low)
            f_low = np.where(again, f_low * np.where(ratio_low > 0, ratio_low, 0.5), f_low)
            again = down & (side == -1) & np.isfinite(f_high)
            f_high = np.where(again, f_high * np.where(ratio_high > 0, ratio_high, 0.5), f_high)
            high, f_high = np.where(up, x, high), np.where(up, f, f_high)
            low, f_low = np.where(down, x, low), np.where(down, f, f_low)
            side = np.where(up, 1, np.where(down, -1, side)).astype(np.int8)
            spent = np.isfinite(high) & np.isfinite(low) & (high - low <= 4e-16 * np.maximum(np.abs(low), np.abs(high)))
            active &= (residual > self.tol) & ~spent
            if check_now(iteration):
                active &= ~mark_infeasible(dual, x, active[row], status)[problem]
        status[problem[active]] = Status.MAX_ITERATIONS
        mark_infeasible(dual, x, active[row], status)
        return Solution(x, status, residual[row], iteration)


@brief_dataclass(frozen=True)
class QuasiNewton:
    """L-BFGS on the rows that are off their bounds, with a projected, backtracking line search per problem.

    Rows held at a bound by the gradient stay there (two-metric projection: Bertsekas 1982; with limited memory:
    Schmidt, Kim & Sra 2012); the others move by the inverse-Hessian estimate built from the last ``memory`` steps.

    Use when gamma > 0 and slack, if any, acts on each row alone (none, an l1 penalty, an linf bound on ``<=`` rows):
    for one problem over a corpus as for thousands of small ones.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Passes over the batch.
    memory : int
        Pairs kept per problem; memory is ``2 * memory * n_rows`` floats.
    curvature : callable or None
        Of one problem: from multipliers, those evaluated last, to the second derivatives of the dual, shape (n_rows,
        n_rows), or NaN. Steps are then Newton's, which take a third of the evaluations: for rows over a corpus where an
        evaluation is much dearer than its curvature, as each solves the rows inside instances.
    far : float
        Newton's steps that move scores farther than so many gammas are damped; inf suits a quadratic function.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.5).per("row")
    >>> project([[0.2, 0.8], [0.7, 0.3]], few, solver=QuasiNewton()).proba.round(3).tolist()
    [[0.5, 0.5], [0.7, 0.3]]
    """

    tol: float = 1e-8
    max_iter: int = 1000
    memory: int = 8
    curvature: Callable[[Floats], Floats] | None = None
    far: float = 2.0

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``; see `Solver.solve`."""
        terms, problem, n = dual.terms, dual.row_problem, dual.n_problems
        if not terms.is_box:
            raise InvalidInputError(
                "solver QuasiNewton handles rows without slack or with slack on each row alone; got a slack norm that "
                "ties rows together; use Accelerated(), or leave solver=None"
            )
        order, offsets = members_of(problem, n)
        history, direction = History(problem, n, self.memory, 2), np.zeros(len(problem))

        def per_problem(rows: Floats) -> Floats:
            return sum_by(problem, rows, n)

        def evaluate(x: Floats, active: Bools) -> tuple[NDArray, NDArray]:
            value, gradient = dual.evaluate(x, active)
            return value + terms.value(x), gradient + terms.kink

        active = np.ones(n, bool)
        x = terms.project(start)
        f, g = evaluate(x, active)
        residual = residual_of(dual, x, g - terms.kink)
        active = residual > self.tol
        length, reach = np.ones(n), np.full(n, np.inf)
        wanted = active.copy()
        status = np.where(active, Status.MAX_ITERATIONS, Status.SOLVED).astype(np.int8)
        iteration, exact, at_last = 0, False, True  # the direction is Newton's, x was evaluated last
        while active.any() and iteration < self.max_iter:
            iteration += 1
            near = np.minimum(1e-3, residual)[problem] / dual.lever
            at_low = (x - terms.lower <= near) & (g > 0)
            at_high = (terms.upper - x <= near) & (g < 0)
            free = ~(at_low | at_high)
            newton = None
            if self.curvature is not None and wanted[0]:
                newton = _newton_direction(self.curvature(x), g, free) if at_last else None
                exact = newton is not None
            if newton is None:
                quasi_newton_directions(
                    offsets, order, wanted, free, g, dual.scale, dual.lever,
                    *history.arrays, history.newest, history.stored, direction,
                )  # fmt: skip
                # Rounding in the gradient may pass for curvature where there is none: a step moves scores at most 30
                # times as far as the last one did.
                leap = max_by(problem, np.abs(direction) * dual.lever, n)
                most = np.where(wanted, 30.0 * reach, np.inf)
                tame = np.divide(most, leap, out=np.ones(n), where=leap > most)
                direction *= tame[problem]
            else:
                direction = newton
            fresh = wanted[problem]
            direction = np.where(fresh & at_low, terms.lower - x, direction)
            direction = np.where(fresh & at_high, terms.upper - x, direction)
            if newton is not None:
                direction *= _damping(float(np.abs(direction * dual.lever).max()) / dual.gamma, self.far)
            trial = np.clip(x + length[problem] * direction, terms.lower, terms.upper)
            f_trial, g_trial = evaluate(trial, active)
            move = trial - x
            expected = 1e-4 * per_problem(g * move)
            # For a convex function a slope below ``expected`` at the trial proves the decrease, free of round-off in f.
            slope = per_problem(g_trial * move)
            # And a trial that meets the tolerance is a solution, whatever rounding says of its value.
            at_trial = residual_of(dual, trial, g_trial - terms.kink)
            lower = (f_trial <= f + expected) | (slope <= expected) | (at_trial <= self.tol)
            accepted = active & (expected < 0) & lower
            history.keep(accepted, move, g_trial - g)
            moved = accepted[problem]
            x, g = np.where(moved, trial, x), np.where(moved, g_trial, g)
            f = np.where(accepted, f_trial, f)
            reach = np.where(accepted, max_by(problem, np.abs(move) * dual.lever, n), reach)
            residual = np.where(accepted, at_trial, residual)
            # Where the dual is almost linear the estimate of the Hessian is of no use: the next step is twice as long.
            shallow = slope <= 0.9e4 * expected
            length = np.where(
                accepted, np.where(shallow, 2.0 * length, 1.0), length * np.where(length == 1.0, 0.25, 0.5)
            )
            # If the line search fails, drop the history once; if it fails without one, give up on this problem.
            stuck = active & ~accepted & ((length < 1e-9) | (expected >= 0))
            lost = stuck & (history.stored == 0) & (not exact)
            status[lost] = Status.MAX_ITERATIONS
            active &= ~lost & (residual > self.tol)
            history.stored[stuck] = 0
            length[stuck] = 1.0
            wanted = active & (accepted | stuck)
            at_last = bool(accepted.all())
            if exact and at_last:
                length[:] = 1.0
            status[residual <= self.tol] = Status.SOLVED
            if check_now(iteration):
                active &= ~mark_infeasible(dual, x, active, status)
        mark_infeasible(dual, x, status == Status.MAX_ITERATIONS, status)
        return Solution(x, status, residual, iteration)


@brief_dataclass(frozen=True)
class Accelerated:
    """Anderson-accelerated proximal gradient, with a step size and a safeguard of its own for every problem.

    The extrapolated point is taken only where it lowers the dual; otherwise the plain proximal-gradient point is, whose
    step is halved until it does (Mai & Johansson 2020).

    Use when gamma > 0 and a slack norm ties rows together (l2, an linf penalty as in l1/linf sparsity, an l1 bound):
    it needs nothing of the slack but its proximal step.

    Parameters
    ----------
    tol : float
        Largest residual, relative to the size of the row.
    max_iter : int
        Passes over the batch.
    memory : int
        Steps kept per problem; memory is ``3 * memory * n_rows`` floats.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.5).per("row")
    >>> project([[0.2, 0.8], [0.7, 0.3]], few, solver=Accelerated()).proba.round(3).tolist()
    [[0.5, 0.5], [0.7, 0.3]]
    """

    tol: float = 1e-8
    max_iter: int = 3000
    memory: int = 6

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``; see `Solver.solve`."""
        terms, problem, n, scale = dual.terms, dual.row_problem, dual.n_problems, dual.scale
        order, offsets = members_of(problem, n)
        history = History(problem, n, self.memory, 3)

        def per_problem(rows: Floats) -> Floats:
            return sum_by(problem, rows, n)

        active = np.ones(n, bool)
        x = terms.project(start)
        value, gradient = dual.evaluate(x, active)
        value = value + (terms_x := terms.value(x))
        residual = residual_of(dual, x, gradient)
        active = residual > self.tol
        status = np.where(active, Status.MAX_ITERATIONS, Status.SOLVED).astype(np.int8)
        step = np.full(n, max(dual.gamma, 1e-6))
        plain = np.zeros(n, bool)
        iteration = 0
        while active.any() and iteration < self.max_iter:
            iteration += 1
            reach = step[problem] * scale
            tangent = x - terms.prox(x - reach * gradient, reach)
            base, slope = x.copy(), gradient.copy()
            extrapolated = active & ~plain & (history.stored > 0)
            anderson_points(
                offsets, order, extrapolated, tangent, scale, *history.arrays, history.newest, history.stored,
                base, slope,
            )  # fmt: skip
            trial = np.where(active[problem], terms.prox(base - reach * slope, reach), x)
            value_t, gradient_t = dual.evaluate(trial, active)
            value_t = value_t + (terms_t := terms.value(trial))
            move = trial - x
            # Sufficient decrease, as in Armijo's rule.
            least = 1e-4 * per_problem(tangent * tangent / scale) / step
            lower = value_t <= value - least
            # Convexity bounds the decrease by the slope at the trial, which round-off in the values cannot hide.
            lower |= per_problem(gradient_t * move) + terms_t - terms_x <= -least
            residual_t = residual_of(dual, trial, gradient_t)
            # Values equal to rounding decide nothing: an extrapolation is then taken if it halves the residual.
            level = np.abs(value_t - value) <= 1e-12 * np.maximum(1.0, np.abs(value))
            lower |= extrapolated & level & (residual_t <= 0.5 * residual)
            # A plain step is accepted, too, if the gradient changes along it as little as the step size supposes.
            bent = per_problem((gradient_t - gradient) * move)
            lower |= ~extrapolated & (bent <= 0.5 * per_problem(move * move / scale) / step)
            accepted = active & lower
            failed = active & ~lower & ~extrapolated
            moved = accepted[problem]
            tangent_t = trial - terms.prox(trial - reach * gradient_t, reach)
            history.keep(accepted, move, tangent_t - tangent, gradient_t - gradient)
            # Where the dual is almost linear the step size grows. Another step size makes another fixed-point map: its
            # history begins anew.
            shallow = accepted & (bent <= 0.01 * per_problem(move * move / scale) / step)
            history.stored[failed | shallow] = 0
            step = np.where(failed, step * 0.5, np.where(shallow, step * 4.0, step))
            plain = active & ~accepted & ~failed
            x, gradient = np.where(moved, trial, x), np.where(moved, gradient_t, gradient)
            value, terms_x = np.where(accepted, value_t, value), np.where(accepted, terms_t, terms_x)
            residual = np.where(accepted, residual_t, residual)
            active &= (residual > self.tol) & (step > 1e-12)
            status[residual <= self.tol] = Status.SOLVED
            if check_now(iteration):
                active &= ~mark_infeasible(dual, x, active, status)
        mark_infeasible(dual, x, status == Status.MAX_ITERATIONS, status)
        return Solution(x, status, residual, iteration)


@brief_dataclass(frozen=True)
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

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> few = (E[part("label") == 1] <= 0.5).per("row")
    >>> project([[0.2, 0.8], [0.7, 0.3]], few, solver=Newton()).proba.round(3).tolist()
    [[0.5, 0.5], [0.7, 0.3]]
    """

    tol: float = 1e-8
    max_iter: int = 60

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``; see `Solver.solve`."""
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
        transpose = dual.transpose
        scored = Instances(
            starts,
            dual.scores.unary,
            *_arrays_of(transpose),
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


def _arrays_of(matrix: sp.csr_array) -> tuple[NDArray[np.integer], NDArray[np.integer], Floats]:
    """Offsets, places and numbers; of the narrower type where that holds them, for which kernels are compiled alone."""
    index = np.int32 if max(matrix.nnz, matrix.shape[1]) <= np.iinfo(np.int32).max else np.int64
    return matrix.indptr.astype(index, copy=False), matrix.indices.astype(index, copy=False), matrix.data


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
    """Whether `Newton` can solve the dual, and no pass over instances that are alike is many times faster."""
    if not (isinstance(dual, BatchDual) and dual.gamma > 0 and dual.terms.is_box and dual.rows.alike is None):
        return False
    most = MOST_ROWS if has_one_label(dual.structure) else MOST_OF_CHOICES
    few = int(np.bincount(dual.row_problem).max(initial=0)) <= most
    return few and choice_offsets(dual.structure) is not None


def smooth_solver(dual: DualFunction, tol: float, max_iter: int | None = None) -> Solver:
    """For gamma > 0: the solver that suits the slack, the structure and the number of rows."""
    limit: dict[str, Any] = {} if max_iter is None else {"max_iter": max_iter}
    if suits_newton(dual):
        return Newton(tol, **limit)
    return QuasiNewton(tol, **limit) if dual.terms.is_box else Accelerated(tol, **limit)


def _newton_direction(curve: Floats, gradient: Floats, free: Bools) -> Floats | None:
    """Newton's step of the free rows, 0 for the others; None where their curvature is not known or not positive."""
    direction, rows = np.zeros(len(gradient)), np.flatnonzero(free)
    curve = curve[np.ix_(rows, rows)]
    diagonal = np.diagonal(curve)
    if not (np.isfinite(curve).all() and (diagonal > 0).all()):
        return None
    unit = 1.0 / np.sqrt(diagonal)
    scaled = curve * np.outer(unit, unit) + _RIDGE * np.eye(len(rows))
    import scipy.linalg  # as slow to load as some commands are to run

    try:
        direction[rows] = -unit * scipy.linalg.solve(scaled, unit * gradient[rows], assume_a="pos")
    except np.linalg.LinAlgError:
        return None
    return direction


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
        starts, scores.unary, *_arrays_of(both),
        np.concatenate([place + n_shared, np.arange(n_shared)]),
        np.ascontiguousarray(weights[owner], np.float64), float(gamma),
    )  # fmt: skip
    lower = np.zeros((n_shared, n_shared))
    if not curve_minima(problems, instances, terms.lower, terms.upper, n_shared, multipliers, lower):
        return unknown
    return lower + np.tril(lower, -1).T
