"""Projections onto expectation constraints: `project_batch` and the solvers behind it."""

# ruff: noqa: F401 - `__all__` lists what is imported here
from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use

if TYPE_CHECKING:
    from spectrem.inference.batch import project_batch
    from spectrem.inference.corpus.choice import CorpusChoice, ShardVariants, choose_structures, find_variants
    from spectrem.inference.corpus.dual import CorpusSolution, solve_corpus_dual
    from spectrem.inference.corpus.mixture import CorpusMixture, check_corpus_rows, solve_corpus_program
    from spectrem.inference.oracle import shift_scores
    from spectrem.inference.result import Infeasible, Projection, Status, check_infeasible
    from spectrem.inference.solvers.bracket import Bracket
    from spectrem.inference.solvers.fixed_step import FixedStep, Spectral
    from spectrem.inference.solvers.linear_program import LinearProgram
    from spectrem.inference.solvers.newton import Newton
    from spectrem.inference.solvers.quasi_newton import Accelerated, QuasiNewton
    from spectrem.inference.solvers.solver import Solution, Solver
    from spectrem.inference.solvers.subgradient import Subgradient

# Loaded on first use: EM without constraints, or with compiled ones, needs nothing of them.
_MODULES = {
    "batch": ["project_batch"],
    "corpus.choice": ["CorpusChoice", "ShardVariants", "choose_structures", "find_variants"],
    "corpus.dual": ["CorpusSolution", "solve_corpus_dual"],
    "corpus.mixture": ["CorpusMixture", "check_corpus_rows", "solve_corpus_program"],
    "oracle": ["shift_scores"],
    "result": ["Infeasible", "Projection", "Status", "check_infeasible"],
    "solvers.bracket": ["Bracket"],
    "solvers.fixed_step": ["FixedStep", "Spectral"],
    "solvers.linear_program": ["LinearProgram"],
    "solvers.newton": ["Newton"],
    "solvers.quasi_newton": ["Accelerated", "QuasiNewton"],
    "solvers.solver": ["Solution", "Solver"],
    "solvers.subgradient": ["Subgradient"],
}
_HOMES = {name: home for home, names in _MODULES.items() for name in names}
__all__ = list(_HOMES)
__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
