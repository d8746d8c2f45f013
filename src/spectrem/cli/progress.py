"""Words and a bar on standard error while a command works."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from spectrem.cli.ending import before_the_end, say
from spectrem.exceptions import Unconverged

if TYPE_CHECKING:
    from spectrem.learning import Record

_UNDRAWN = b"\r\x1b[2K\x1b[?25h"  # the line erased, the cursor shown


class Advance(Protocol):
    """Say what is being done, and how much of the whole has just been finished."""

    def __call__(self, doing: str, amount: float = 0.0) -> None: ...


@contextmanager
def progress_bar(total: float, *, shown: bool) -> Iterator[Advance]:
    """A bar with the time left on standard error, if that is a terminal; gone when the block ends.

    Parameters
    ----------
    total : float
        The sum of all amounts that will be reported.
    shown : bool
        False never draws.
    """
    if not (shown and sys.stderr.isatty()):
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, transient=True, redirect_stdout=False)

    def undraw() -> None:
        if not console.is_dumb_terminal:
            os.write(2, _UNDRAWN)

    with before_the_end(undraw), progress as bar:
        task = bar.add_task("Starting", total=total)

        def advance(doing: str, amount: float = 0.0) -> None:
            bar.update(task, description=doing, advance=amount)

        yield advance


@contextmanager
def without_unconverged() -> Iterator[None]:
    """Train in this block without warnings about iterations that ran out; `warn_gaining` gives one afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Unconverged)
        yield


def fit_and_save(estimator: Any, fit: Callable[[], object], path: str, *, shown: bool) -> None:
    """Call ``fit``, which fits an estimator, with a bar that shows gamma and objective, and save the estimator."""
    with progress_bar(1, shown=shown) as bar, without_unconverged():
        bar("Training")

        def advance(record: Record) -> None:
            bar(f"Training: gamma {record.gamma:.3g}, objective {record.objective:.5g} nats", 0.0)

        estimator.set_params(on_iteration=advance)
        fit()
        bar("Saving", 1.0)
        estimator.set_params(on_iteration=None).save(path)


def count_gammas(estimator: Any) -> int:
    """The number of gammas that training goes through."""
    return 1 if estimator.schedule is None else len(list(estimator.schedule.gammas()))


def warn_gaining(estimator: Any) -> None:
    """Say of a fitted estimator that its training ran out of iterations or steps, in the words of the options."""
    if estimator.status_.name == "MAX_ITERATIONS":
        reached, remedy = f"{estimator.max_iter} iterations", "--max-iter or --tol"
    elif estimator.status_.name == "MAX_STEPS":
        reached = "the last step" if estimator.m_steps is None else f"{estimator.m_steps} steps"
        remedy = "--m-steps or --m-tol"
    else:
        return
    say(f"spectrem: warning: still gaining after {reached}; raise {remedy}")


def _ignore(doing: str, amount: float = 0.0) -> None:
    """The progress of a run without a bar, which is not shown."""
