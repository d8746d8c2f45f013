"""The progress bar of a fit, which the parameter ``verbose`` and commands show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from operator import itemgetter
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
    stages = _Stages(bar, count_stages(estimator), estimator.max_iter, estimator.on_iteration)
    bar("Training")
    estimator.on_iteration = stages
    try:
        yield
    finally:
        estimator.on_iteration = stages.listener
    bar("Finishing", stages.n_stages - stages.done)


@dataclass(eq=False)
class _Stages:
    """Moves a bar with every record, and passes it on to a listener, in whose place copied and pickled ones stand."""

    bar: Advance
    n_stages: float
    max_iter: int
    listener: Callable[[Record], None] | None
    done: float = 0.0
    gamma: float = math.nan

    def __call__(self, record: Record) -> None:
        skipped = math.ceil(self.done - 1e-9) - self.done if record.gamma != self.gamma else 0.0
        amount = min(skipped + 1 / self.max_iter, self.n_stages - self.done)
        self.done, self.gamma = self.done + amount, record.gamma
        self.bar(f"Training: gamma {record.gamma:.3g}, objective {record.objective:.5g} nats", amount)
        if self.listener is not None:
            self.listener(record)

    def __reduce__(self) -> tuple[Any, ...]:
        return itemgetter(0), ((self.listener,),)
