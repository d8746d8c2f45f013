"""What signals do: end the run at once, leaving nothing behind. Loads little, so that it is in force soon."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as that of typing, which takes longer to load than a signal to come
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn
else:
    try:
        import _signal as signal  # the same functions, without the enumerations, which take as long
    except ImportError:
        import signal

BY_SIGNAL = 128
_SAID = {
    int(getattr(signal, name)): said
    for name, said in (("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "hung up"))
    if hasattr(signal, name)  # Windows lacks the last
}


def _nothing() -> str:
    return "no output was written"


# Removes what is unfinished, and says what became of the outputs; replaced once there may be some.
last_act: Callable[[], str] = _nothing


def catch_signals() -> None:
    """End at once by SIGINT, SIGTERM and SIGHUP, with status 130, 143 and 129.

    No exception is raised, since whatever runs may swallow one: an import, a callback, a clause of ``except``.
    Signals that are ignored stay so (``nohup``, or commands in the background of a script).
    """
    for number in _SAID:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def ignore_signals() -> None:
    """Carry on whatever happens, for the moment in which files take their names, and from then on."""
    for number in _SAID:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    message = f"spectrem: {_SAID[number]}; {last_act()}\n"
    try:  # noqa: SIM105 -- contextlib takes its time
        os.write(2, message.encode("utf-8", "surrogateescape"))
    except OSError:
        pass
    os._exit(BY_SIGNAL + number)
