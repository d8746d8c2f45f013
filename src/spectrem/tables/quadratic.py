"""Minima of quadratic functions of multipliers and the terms of their slack, within the signs of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from spectrem._arrays import Bools, Floats
from spectrem.corpus.corpus import ONE_BLAS_THREAD
from spectrem.inference.oracle import Evaluation
from spectrem.inference.segments import sum_by
from spectrem.inference.slack import SlackTerms
from spectrem.inference.solvers.newton import Curved, smooth_solver

# Up to this many rows their curvature is factorised as a dense matrix; that of more is only multiplied with.
MOST_ROWS = 500
# Tolerances of Newton's method, which is exact once it has found the rows at bounds, and of the other solvers.
_TOL, _ROUGH = 1e-9, 1e-4


class Quadratic:
    """The function ``slope . d + d . (curvature + diagonal) d / 2`` of multipliers ``origin + d``.

    It is a dual as solvers see them. Sets of rows that are not tied to each other are problems of their own.

    Parameters
    ----------
    terms : SlackTerms
        Feasible set of the multipliers, and what they cost beyond the quadratic function.
    origin, slope : ndarray of shape (n_rows,)
    curvature : csr_array of shape (n_rows, n_rows)
        Positive semidefinite.
    diagonal : ndarray of shape (n_rows,)
        What is added to the diagonal of the curvature, which is above 0 then.
    unit : float
        Tolerances are shares of that move of a multiplier which adds half of this to the function where its slope is 0.
    """

    def __init__(
        self,
        terms: SlackTerms,
        origin: Floats,
        slope: Floats,
        curvature: sp.csr_array,
        diagonal: Floats,
        unit: float,
    ) -> None:
        self.terms, self.origin, self.slope, self.curvature, self.diagonal = terms, origin, slope, curvature, diagonal
        self.gamma, n = 1.0, len(origin)
        self.few = terms.is_box and n <= MOST_ROWS
        if terms.is_box and not self.few:
            n_problems, problem = connected_components(curvature, directed=False)
            self.terms = replace(terms, row_problem=problem.astype(np.int64), n_problems=n_problems)
        self.row_problem, self.n_problems = self.terms.row_problem, self.terms.n_problems
        whole = curvature.diagonal() + diagonal
        self.row_weight, self.scale, self.lever = np.ones(n), 1.0 / whole, np.sqrt(whole / unit)
        self.size = whole / self.lever

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        move = multipliers - self.origin
        bent = self.curvature @ move + self.diagonal * move
        return Evaluation(
            sum_by(self.row_problem, move * (self.slope + 0.5 * bent), self.n_problems), self.slope + bent
        )

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        return np.zeros(self.n_problems, np.bool_)

    def gap_unit(self, bound: Floats) -> Floats:
        return np.maximum(1.0, np.abs(bound))

    def minimum(self) -> Floats:
        """The multipliers at the minimum, shape (n_rows,); it does not depend on the number of threads."""
        with ONE_BLAS_THREAD:
            if not self.few:
                return smooth_solver(self, _ROUGH, 100).solve(self, self.origin).multipliers
            dense = self.curvature.toarray()
            np.fill_diagonal(dense, dense.diagonal() + self.diagonal)
            return Curved(lambda _: dense, _TOL, far=np.inf).solve(self, self.origin).multipliers
