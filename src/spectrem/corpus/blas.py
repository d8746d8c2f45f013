"""Linear algebra on one thread while shards are at work."""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """The loaded libraries of linear algebra; the search takes milliseconds and is repeated after further imports."""
    return ThreadpoolController()


def limit_this_thread() -> Any:
    """Let linear algebra run on one thread, and return an object that restores the former number of threads.

    Some libraries keep one number for the process, others one for every thread.
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


class _OneThread:
    """A context in which linear algebra runs on one thread; the last thread that leaves it restores the former number.

    The last bits of products and sums depend on a library's number of threads, and its threads would compete with those
    that work on shards. Entering takes some microseconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                _let_this_thread_set()
                self._limiter = limit_this_thread()
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                _let_this_thread_set()
                self._limiter.restore_original_limits()


def _let_this_thread_set() -> None:
    """Let this thread set OpenBLAS, which newer releases of threadpoolctl reserve for the first thread that did so."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


ONE_BLAS_THREAD = _OneThread()
