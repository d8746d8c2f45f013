"""Words and a bar on standard error while a command works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Say what is being done, and how much of the whole has just been finished."""

    def __call__(self, doing: str, amount: float = 0.0) -> None: ...


@contextmanager
def progress_bar(total: float, *, shown: bool) -> Iterator[Advance]:
    """A bar with the time left on standard error, if that is a terminal; gone when the block ends.

    Parameters
    ----------
    total : float
        Of all amounts that will be reported.
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
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("Starting", total=total)

        def advance(doing: str, amount: float = 0.0) -> None:
            bar.update(task, description=doing, advance=amount)

        yield advance


def _ignore(doing: str, amount: float = 0.0) -> None:
    """Where nobody watches."""
