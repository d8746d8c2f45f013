"""Projections onto expectation constraints: ``project`` and the solvers behind it."""

from spectrem.inference.checks import Infeasible, check_infeasible
from spectrem.inference.corpus import CorpusSolution, solve_corpus_dual, split_scopes
from spectrem.inference.oracle import shift_scores
from spectrem.inference.project import project
from spectrem.inference.result import Projection, Status
from spectrem.inference.solvers.accelerated import Accelerated
from spectrem.inference.solvers.bracket import Bracket
from spectrem.inference.solvers.fixed_step import FixedStep
from spectrem.inference.solvers.linear_program import LinearProgram
from spectrem.inference.solvers.newton import Newton
from spectrem.inference.solvers.quasi_newton import QuasiNewton
from spectrem.inference.solvers.solver import Solution, Solver
from spectrem.inference.solvers.spectral import Spectral
from spectrem.inference.solvers.subgradient import Subgradient

__all__ = [
    "Accelerated",
    "Bracket",
    "CorpusSolution",
    "FixedStep",
    "Infeasible",
    "LinearProgram",
    "Newton",
    "Projection",
    "QuasiNewton",
    "Solution",
    "Solver",
    "Spectral",
    "Status",
    "Subgradient",
    "check_infeasible",
    "project",
    "shift_scores",
    "solve_corpus_dual",
    "split_scopes",
]
