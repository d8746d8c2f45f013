"""Linear and integer programs, solved by HiGHS within a time limit that is enforced from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.exceptions import InvalidInputError
from spectrem.inference.program import Program

TIME_LIMIT = 300.0
"""Seconds that all programs of one call may take together unless the caller says otherwise."""

# Ways in which a program ends, as SciPy numbers them.
OPTIMAL, OUT_OF_TIME, INFEASIBLE, BROKEN = 0, 1, 2, 4
_GRACE = 2.0  # seconds that HiGHS may run beyond its limit, which it checks only at intervals
_ROUNDING = 1e-7  # HiGHS' own tolerance of feasibility
_ACCURATE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Deadline:
    """The time that the programs of one call have together.

    Parameters
    ----------
    time_limit : float or None
        Seconds; None is ``TIME_LIMIT``, inf no limit.

    Raises
    ------
    InvalidInputError
        If the time limit is negative, NaN or not a number.
    """

    def __init__(self, time_limit: float | None) -> None:
        limit: Any = TIME_LIMIT if time_limit is None else time_limit
        if isinstance(limit, bool) or not isinstance(limit, int | float | np.integer | np.floating) or not limit >= 0:
            raise InvalidInputError(
                f"time_limit must be a number of seconds >= 0, got {time_limit!r}; leave None for {TIME_LIMIT:g}"
            )
        self.limit = float(limit)
        self._end = time.monotonic() + self.limit

    @property
    def left(self) -> float:
        """Seconds that remain, 0 when there are none."""
        return max(self._end - time.monotonic(), 0.0)


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes
    ----------
    status : int
        ``OPTIMAL``, ``OUT_OF_TIME``, ``INFEASIBLE``, or another number of SciPy's.
    x : ndarray of shape (n_variables,) or None
        The solution; of an integer program that is out of time, the best found so far, if any was.
    cost : float
        Of ``x``, NaN without.
    bound : float
        No solution of the integer program costs less.
    message : str
    prices : ndarray of shape (n_rows,)
        By how much a linear program's cost falls per unit of the bound of each row.
    """

    status: int
    x: Floats | None = None
    cost: float = np.nan
    bound: float = -np.inf
    message: str = ""
    prices: Floats = field(default_factory=lambda: np.zeros(0))


def run_linear(program: Program, seconds: float, *, method: str = "highs", accurate: bool = True) -> Outcome:
    """Solve a linear program.

    Parameters
    ----------
    program : Program
    seconds : float
        It is ``OUT_OF_TIME`` then.
    method : {"highs", "highs-ipm", "highs-ds"}
    accurate : bool
        Tolerances of 1e-10 in place of 1e-7.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> one = sp.csr_array([[1.0, 1.0]])
    >>> run_linear(Program(np.array([1.0, 2.0]), np.ones(2), one, np.ones(1), np.ones(1, bool)), 10.0).cost
    1.0
    """
    from scipy.optimize import linprog

    solve: Any = linprog  # its stubs know no sparse arrays
    below, equal = ~program.equality, program.equality

    def run(options: dict[str, Any]) -> Any:
        return solve(
            program.cost,
            A_ub=program.matrix[below] if below.any() else None,
            b_ub=program.bounds[below] if below.any() else None,
            A_eq=program.matrix[equal],
            b_eq=program.bounds[equal],
            bounds=np.column_stack([np.zeros(len(program.upper)), program.upper]),
            method=method,
            options=options | (_ACCURATE if accurate else {}),
        )

    return _run(program, seconds, run)


def run_integer(program: Program, n_whole: int, seconds: float, gap: float = 0.0, nodes: int | None = None) -> Outcome:
    """Solve a program of which the first ``n_whole`` variables are whole numbers.

    It ends once the cost is within ``gap`` times itself of the optimum, or after so many ``nodes`` of the search.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    equal, limit = program.equality, program.bounds
    constraints = [LinearConstraint(program.matrix[equal], limit[equal], limit[equal])]
    if not equal.all():
        constraints.append(LinearConstraint(program.matrix[~equal], -np.inf, limit[~equal]))
    solve: Any = milp

    def run(options: dict[str, Any]) -> Any:
        return solve(
            program.cost,
            integrality=(np.arange(len(program.cost)) < n_whole).astype(np.int64),
            bounds=Bounds(0.0, program.upper),
            constraints=constraints,
            options={"mip_rel_gap": gap, "node_limit": nodes} | options,
        )

    return _run(program, seconds, run)


def _run(program: Program, seconds: float, run: Callable[[dict[str, Any]], Any]) -> Outcome:
    """Run HiGHS within its time, and once more without presolve if it fails, as presolve does on a few programs."""
    if not len(program.cost):
        return _without_variables(program)
    deadline = Deadline(seconds)
    for presolve in (True, False):
        left = deadline.left
        result = _watch(partial(run, {"time_limit": left, "presolve": presolve}), left)
        if result is None:
            return Outcome(OUT_OF_TIME, message="HiGHS did not return within its time")
        if result.x is not None:
            cost, bound = float(result.fun), result.get("mip_dual_bound")  # None where nothing has to be whole
            prices = np.zeros(len(program.bounds))
            if "eqlin" in result:
                prices[program.equality], prices[~program.equality] = -result.eqlin.marginals, -result.ineqlin.marginals
            return Outcome(result.status, result.x, cost, cost if bound is None else bound, result.message, prices)
        if result.status != BROKEN:
            break
    return Outcome(result.status, message=result.message)


def _watch(call: Callable[[], Any], seconds: float) -> Any:
    """The result of a call, or None if it still runs ``_GRACE`` seconds after its time.

    HiGHS runs without Python's lock, in a thread of its own, so that the caller always gets an answer and can be
    interrupted. A thread that is given up ends with the process.
    """
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # raised again where the answer is waited for
            answer.set_exception(error)

    Thread(target=run, name="spectrem-highs", daemon=True).start()
    try:
        return answer.result(None if seconds == np.inf else seconds + _GRACE)
    except TimeoutError:
        return None


def _without_variables(program: Program) -> Outcome:
    """The outcome of a program without variables, which SciPy refuses: its rows hold, or they do not."""
    missed = np.where(program.equality, np.abs(program.bounds), -program.bounds)
    if (missed <= _ROUNDING).all():
        return Outcome(OPTIMAL, np.zeros(0), 0.0, 0.0, "nothing to choose", np.zeros(len(missed)))
    return Outcome(INFEASIBLE, message="nothing to choose")
