"""Projections onto expectation constraints: `project_batch` and the solvers behind it."""

from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use

if TYPE_CHECKING:
    from spectrem.inference.batch import project_batch
    from spectrem.inference.corpus.choice import CorpusChoice, ShardVariants, choose_structures, find_variants
    from spectrem.inference.corpus.dual import CorpusSolution, solve_corpus_dual
    from spectrem.inference.corpus.master import check_corpus_rows
    from spectrem.inference.corpus.mixture import CorpusMixture, solve_corpus_program
    from spectrem.inference.infeasible import Infeasible, check_infeasible
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

# Loaded on first use: EM without constraints, or with compiled ones, needs nothing of them.
_HOMES = {
    "Accelerated": "solvers.accelerated",
    "Bracket": "solvers.bracket",
    "CorpusChoice": "corpus.choice",
    "CorpusMixture": "corpus.mixture",
    "CorpusSolution": "corpus.dual",
    "FixedStep": "solvers.fixed_step",
    "Infeasible": "infeasible",
    "LinearProgram": "solvers.linear_program",
    "Newton": "solvers.newton",
    "Projection": "result",
    "QuasiNewton": "solvers.quasi_newton",
    "ShardVariants": "corpus.choice",
    "Solution": "solvers.solver",
    "Solver": "solvers.solver",
    "Spectral": "solvers.spectral",
    "Status": "result",
    "Subgradient": "solvers.subgradient",
    "check_corpus_rows": "corpus.master",
    "check_infeasible": "infeasible",
    "choose_structures": "corpus.choice",
    "find_variants": "corpus.choice",
    "project_batch": "batch",
    "shift_scores": "oracle",
    "solve_corpus_dual": "corpus.dual",
    "solve_corpus_program": "corpus.mixture",
}

__all__ = [
    "Accelerated", "Bracket", "CorpusChoice", "CorpusMixture", "CorpusSolution", "FixedStep", "Infeasible",
    "LinearProgram", "Newton", "Projection", "QuasiNewton", "ShardVariants", "Solution", "Solver", "Spectral",
    "Status", "Subgradient", "check_corpus_rows", "check_infeasible", "choose_structures", "find_variants",
    "project_batch", "shift_scores", "solve_corpus_dual", "solve_corpus_program",
]  # fmt: skip

__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
