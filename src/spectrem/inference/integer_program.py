"""Integer programs by HiGHS."""

from __future__ import annotations

from typing import Any, cast

from scipy.optimize import OptimizeResult, milp

_SOLVE_ERROR = 4


def run_milp(cost: Any, integrality: Any, bounds: Any, constraints: Any, **options: Any) -> OptimizeResult:
    """`scipy.optimize.milp`, and once more without presolve where that breaks down, as it does on a few programs."""
    program: dict[str, Any] = {"c": cost, "integrality": integrality, "bounds": bounds, "constraints": constraints}
    result: OptimizeResult = milp(**program, options=cast(Any, options))
    if result.x is None and result.status == _SOLVE_ERROR:
        result = milp(**program, options=cast(Any, {**options, "presolve": False}))
    return result
