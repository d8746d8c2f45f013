"""Projections onto expectation constraints: `project_batch` and the solvers behind it."""

# ruff: noqa: F401 - `__all__` lists what is imported here
from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use

if TYPE_CHECKING:
    from spectrem.inference.batch import project_batch
    from spectrem.inference.result import Projection, Status
    from spectrem.inference.solvers.linear_program import LinearProgram, Subgradient
    from spectrem.inference.solvers.smooth import (
        Accelerated,
        Bracket,
        FixedStep,
        Newton,
        QuasiNewton,
        Solution,
        Solver,
        Spectral,
    )

# Loaded on first use: EM without constraints, or with compiled ones, needs nothing of them.
_MODULES = {
    "batch": ["project_batch"],
    "result": ["Projection", "Status"],
    "solvers.smooth": [
        "Accelerated", "Bracket", "FixedStep", "Newton", "QuasiNewton", "Solution", "Solver", "Spectral"
    ],
    "solvers.linear_program": ["LinearProgram", "Subgradient"],
}  # fmt: skip
_HOMES = {name: home for home, names in _MODULES.items() for name in names}
__all__ = list(_HOMES)
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
