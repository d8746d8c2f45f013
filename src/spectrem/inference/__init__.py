"""Projections onto expectation constraints: `project_batch` and the solvers behind it."""

from spectrem.inference.batch import Infeasible, check_infeasible, project_batch
from spectrem.inference.corpus.choice import CorpusChoice, ShardVariants, choose_structures, find_variants
from spectrem.inference.corpus.dual import CorpusSolution, solve_corpus_dual
from spectrem.inference.corpus.master import check_corpus_rows
from spectrem.inference.corpus.mixture import CorpusMixture, solve_corpus_program
from spectrem.inference.oracle import shift_scores
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
    "Accelerated", "Bracket", "CorpusChoice", "CorpusMixture", "CorpusSolution", "FixedStep", "Infeasible",
    "LinearProgram", "Newton", "Projection", "QuasiNewton", "ShardVariants", "Solution", "Solver", "Spectral",
    "Status", "Subgradient", "check_corpus_rows", "check_infeasible", "choose_structures", "find_variants",
    "project_batch", "shift_scores", "solve_corpus_dual", "solve_corpus_program",
]  # fmt: skip
