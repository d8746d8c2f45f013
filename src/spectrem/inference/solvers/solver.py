"""The protocol of solvers, their result, and the residual and checks that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.inference.oracle import DualFunction
from spectrem.inference.result import Status
from spectrem.inference.segments import max_by
from spectrem.structures.parts import Parts


@dataclass(frozen=True)
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
    """

    multipliers: Floats
    status: NDArray[np.int8]
    residual: Floats
    n_iter: int
    mixed: Bools | None = None
    mixture: Callable[[Bools], tuple[Parts, Floats]] | None = None
    length: Floats | None = None


class Solver(Protocol):
    """Anything with a ``solve``; see the files beside this one for examples."""

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        """Minimise ``dual`` from ``start``, multipliers of shape (n_rows,) in the feasible set."""
        ...


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


def excess_of(dual: DualFunction, gradient: Floats) -> Floats:
    """``U mu - b`` from the gradient; 0 for rows that weigh nothing."""
    weighty = dual.row_weight > 0
    return np.where(weighty, -gradient / np.where(weighty, dual.row_weight, 1.0), 0.0)


def mark_infeasible(dual: DualFunction, multipliers: Floats, active: Bools, status: NDArray[np.int8]) -> Bools:
    """The active problems that the multipliers prove infeasible; their ``status`` is set."""
    lost = dual.infeasible(multipliers, active) if active.any() else np.zeros_like(active)
    status[lost] = Status.INFEASIBLE
    return lost


def check_now(iteration: int) -> bool:
    """Whether to search for a proof of infeasibility: after 8, 16, 32, ... iterations, as each takes a pass."""
    return iteration >= 8 and iteration & (iteration - 1) == 0
