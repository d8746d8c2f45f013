"""The progress bar on standard error while a command works."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from spectrem.cli.ending import before_the_end

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


def _ignore(doing: str, amount: float = 0.0) -> None:
    """The progress of a run without a bar, which is not shown."""
