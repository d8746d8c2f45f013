"""Progress bars on terminals and in notebooks, which also say when kernels are compiled; elsewhere they are silent."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Say what is being done, and how much of the whole has just been finished."""

    def __call__(self, doing: str, amount: float = 0.0) -> None: ...


@contextmanager
def progress_bar(total: float | None, *, shown: bool) -> Iterator[Advance]:
    """A bar with the time left on standard error, if that is a terminal, or in a notebook; gone when the block ends.

    Parameters
    ----------
    total : float or None
        The sum of all amounts that will be reported; None where nobody knows.
    shown : bool
        False never draws.

    Examples
    --------
    >>> with progress_bar(4.0, shown=False) as bar:
    ...     bar("Training", 1.0)
    """
    console = None
    # rich takes long to load, and sys.stderr is None in programs without a console
    if shown and ("IPython" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())):
        from rich.console import Console

        console = Console(stderr=True)
    if console is None or not (console.is_jupyter or console.file.isatty()):
        yield lambda doing, amount=0.0: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("time left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        said = "Starting"
        task = bar.add_task(said, total=total)

        def advance(doing: str, amount: float = 0.0) -> None:
            nonlocal said
            said = doing
            bar.update(task, description=doing, advance=amount)

        def compiling(n_kernels: int, n_open: int) -> None:
            doing = f"Compiling kernels, once: {n_kernels} so far" if n_open else said
            bar.update(task, description=doing)

        with compilation_watched(compiling):
            yield advance


def share_shown(bar: Advance, doing: str, listener: Callable[[float], None]) -> Callable[[float], None]:
    """A function of the share that is done, from 0 to 1, which moves a bar by so much and passes the share on."""
    done = 0.0
    bar(doing)

    def show(share: float) -> None:
        nonlocal done
        bar(doing, share - done)
        done = share
        listener(share)

    return show


@contextmanager
def compilation_watched(show: Callable[[int, int], None]) -> Iterator[None]:
    """Call something whenever a kernel is about to be compiled, or has been, in this block.

    Parameters
    ----------
    show : callable
        Takes how many kernels have been begun, and how many of them, each for the sake of another, are unfinished.
    """
    log = logging.getLogger("spectrem.compiling")
    n_kernels = n_open = 0

    def watch(record: logging.LogRecord) -> bool:
        nonlocal n_kernels, n_open
        begun = record.msg.startswith("compiling")
        n_kernels += begun
        n_open += 1 if begun else -1
        show(n_kernels, n_open)
        return True

    level = log.level
    log.addFilter(watch)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeFilter(watch)
        log.setLevel(level)
