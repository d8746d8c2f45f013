"""Integer programs by HiGHS."""

from __future__ import annotations

from typing import Any

from scipy.optimize import OptimizeResult, milp

_SOLVE_ERROR = 4


def run_milp(cost: Any, integrality: Any, bounds: Any, constraints: Any, **options: float) -> OptimizeResult:
    """`scipy.optimize.milp`, and once more without presolve where that breaks down, as it does on a few programs."""
    arguments: dict[str, Any] = {"integrality": integrality, "bounds": bounds, "constraints": constraints}
    result: OptimizeResult = milp(cost, **arguments, options=options)
    if result.x is None and result.status == _SOLVE_ERROR:
        result = milp(cost, **arguments, options={**options, "presolve": False})
    return result
