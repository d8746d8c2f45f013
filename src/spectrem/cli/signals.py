"""Signals end the run at once, leaving nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

BY_SIGNAL = 128
_OUTCOMES = {
    int(getattr(signal, name)): outcome
    for name, outcome in (("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "hung up"))
    if hasattr(signal, name)  # Windows lacks the last
}


def _nothing() -> str:
    return "no output was written"


# Removes what is unfinished, and says what became of the outputs; replaced once there may be some.
last_act: Callable[[], str] = _nothing
_ignored = False


def catch_signals() -> None:
    """End at once by SIGINT, SIGTERM and SIGHUP, with status 130, 143 and 129.

    No exception is raised, since whatever runs may swallow one: an import, a callback, a clause of ``except``.
    Signals that are ignored stay so (``nohup``, or commands in the background of a script).
    """
    for number in _OUTCOMES:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def ignore_signals(ignored: bool = True) -> None:
    """Carry on whatever happens, for the moment in which files take their names, and from then on."""
    global _ignored
    _ignored = ignored


def _end(number: int, frame: FrameType | None) -> None:
    if _ignored:
        return
    ignore_signals()  # a second one, of somebody who cannot wait, leaves this one to its work
    try:
        os.write(2, f"spectrem: {_OUTCOMES[number]}; {last_act()}\n".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(BY_SIGNAL + number)
