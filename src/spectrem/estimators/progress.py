"""The progress bar of a fit, which the parameter ``verbose`` and commands show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from spectrem._progress import Advance, progress_bar
from spectrem.estimators.declare import check_parameters

if TYPE_CHECKING:
    from spectrem.learning import Record

F = TypeVar("F", bound=Callable[..., Any])


def shows_progress(fit: F) -> F:
    """A ``fit`` that shows a progress bar where its estimator is ``verbose``."""

    @wraps(fit)
    def fit_and_show(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        if not estimator.verbose:
            return fit(estimator, *args, **kwargs)
        check_parameters(estimator)
        with progress_bar(count_stages(estimator), shown=True) as bar, iterations_shown(estimator, bar):
            return fit(estimator, *args, **kwargs)

    return cast(F, fit_and_show)


def count_gammas(estimator: Any) -> int:
    """The number of gammas that training goes through."""
    return 1 if estimator.schedule is None else len(list(estimator.schedule.gammas()))


def count_stages(estimator: Any) -> float:
    """The stages of constant gamma that training goes through, of up to ``max_iter`` iterations each."""
    first = getattr(estimator, "model1_iterations", 0) if getattr(estimator, "model", "ibm1") != "ibm1" else 0
    return getattr(estimator, "n_init", 1) * count_gammas(estimator) + first / max(estimator.max_iter, 1)


@contextmanager
def iterations_shown(estimator: Any, bar: Advance) -> Iterator[None]:
    """Move a bar of `count_stages` with every iteration of an estimator that is fitted in this block, then to its end.

    A stage that converges early is counted when the next begins.
    """
    listener, n_stages, done, gamma = estimator.on_iteration, count_stages(estimator), 0.0, math.nan

    def advance(record: Record) -> None:
        nonlocal done, gamma
        skipped = math.ceil(done - 1e-9) - done if record.gamma != gamma else 0.0
        amount = min(skipped + 1 / estimator.max_iter, n_stages - done)
        done, gamma = done + amount, record.gamma
        bar(f"Training: gamma {gamma:.3g}, objective {record.objective:.5g} nats", amount)
        if listener is not None:
            listener(record)

    bar("Training")
    estimator.on_iteration = advance
    try:
        yield
    finally:
        estimator.on_iteration = listener
    bar("Finishing", n_stages - done)
