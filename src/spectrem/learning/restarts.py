"""Several runs, of which the best one is kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from spectrem.exceptions import warn

Result = TypeVar("Result")


def keep_best(runs: Sequence[Callable[[], Result]], objective: Callable[[Result], float]) -> Result:
    """The result with the largest objective, the first among equals; only the warnings of its run are issued.

    Parameters
    ----------
    runs : sequence of callables
        At least one; called in turn.
    objective : callable

    Examples
    --------
    >>> keep_best([lambda: "two", lambda: "three", lambda: "seven"], len)
    'three'
    """
    if len(runs) == 1:
        return runs[0]()
    best: tuple[Result, float, list[warnings.WarningMessage]] | None = None
    for run in runs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run()
        reached = objective(result)
        if best is None or reached > best[1]:
            best = result, reached, caught
    assert best is not None
    for warning in best[2]:
        warn(warning.message, warning.category)
    return best[0]
