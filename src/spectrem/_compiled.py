"""Numba's compiler, with a place for compiled code wherever the package lies.

Numba keeps compiled code beside the sources or in the user's cache folder, and refuses to compile at all where neither
can be written, as in many containers. It numbers the files of a function by what it finds there, and lists a file
before it writes it: of two processes that compile at once, one may load the code of the other's types, or that of an
older source. Here every file has a name of its own. Kernels import ``njit`` from here.

The logger ``spectrem.compiling`` says, at level INFO, which kernel is compiled, and when it is.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.environment import Environment
from numba.core.runtime import rtsys

_log = logging.getLogger("spectrem.compiling")
# Beginnings of the modules whose functions are compiled into those that call them.
_INLINED = ("spectrem.kernels.", "spectrem._lanes", "spectrem._logs", "spectrem._vectors", "spectrem._wide")


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`; where it finds no place for compiled code, that is kept in a temporary folder or not at all."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**{**options, "cache": False})(function)
        if options.get("cache"):
            dispatcher._cache = _KernelCache(function)
        return dispatcher

    return compiled


class _KernelCache:
    """The compiled code of a kernel. What Numba needs for it is looked for, and loaded, when the kernel is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numba_cache, name)

    @cached_property
    def _numba_cache(self) -> Any:
        cache = _placed(self._function)
        files: Any = getattr(cache, "_cache_file", None)
        if isinstance(files, IndexDataCacheFile):
            vars(files).update(save=partial(save_apart, files), _load_data=partial(read_code, files))
            if imported := digests_of_imports(self._function.__module__):
                files._source_stamp = (files._source_stamp, imported)
        return cache

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Compiled code, or None, without the registries of all that Numba can compile.

        Those take half as long to load as Numba itself, with the whole of ``scipy.linalg``; the compiler loads them
        where there is something to compile. Code from the cache needs only the runtime that counts references.
        """
        code = None
        if not isinstance(self._numba_cache, NullCache):
            rtsys.initialize(target)
            with self._numba_cache._guard_against_spurious_io_errors():
                code = self._numba_cache._load_overload(signature, target)
        if code is None:
            _log.info("compiling %s", self._function.__name__)
        return code

    def save_overload(self, signature: Any, code: Any) -> None:
        """Keep what was just compiled."""
        self._numba_cache.save_overload(signature, code)
        _log.info("compiled %s", self._function.__name__)


def read_code(files: Any, name: str) -> Any:
    """Read the compiled code in a file."""
    return _CodeReader(io.BytesIO(Path(files._data_path(name)).read_bytes())).load()


class _CodeReader(pickle.Unpickler):
    """Reads compiled code, but not the modules of Numba that helpers compiled into it come from."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (Environment.__module__, "_rebuild_env"):
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: list[Any], name: str) -> Any:
    """The constants of a compiled function; the names of its module are for interpreted code, which no kernel holds."""
    environment = Environment._memo.get(name)
    if environment is None:
        environment = Environment(getattr(sys.modules.get(module), "__dict__", {"__name__": module}))
        environment.consts[:] = constants
        environment.env_name = name
        Environment._memo[name] = environment
    return environment


def save_apart(files: Any, key: Any, data: Any) -> None:
    """Write compiled code to a file whose name depends on source and types, then list it.

    Of two processes that list different code at once, one may undo the other's line: that code is compiled once more.
    """
    digest = hashlib.sha256(repr((files._source_stamp, key)).encode()).hexdigest()
    name = files._data_name(int(digest[:12], 16))
    files._save_data(name, data)
    files._save_index({**files._load_index(), key: name})


def digests_of_imports(module: str) -> dict[str, bytes]:
    """Digests of the other files of kernels that a module imports from, directly or not, by the names of their modules.

    What they define is compiled into the kernels of the module, which Numba, left alone, would not compile anew after a
    change there.
    """
    digests, waiting = dict[str, bytes](), [module]
    while waiting:
        names = {str(getattr(value, "__module__", "")) for value in vars(sys.modules[waiting.pop()]).values()}
        new = sorted(name for name in names - {module, *digests} if name.startswith(_INLINED))
        digests |= {name: _digest(name) for name in new}
        waiting += new
    return digests


@cache
def _digest(module: str) -> bytes:
    loaded: Any = sys.modules[module]
    try:
        code = loaded.__spec__.loader.get_data(loaded.__file__)  # in archives, too
    except OSError:  # part of an executable file, whose own date Numba looks at
        code = b""
    return hashlib.sha256(code).digest()


def _placed(function: Callable[..., Any]) -> Any:
    try:
        return FunctionCache(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder = _temporary_folder()
    if folder is None:
        return NullCache()
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        return FunctionCache(function)
    finally:
        config.CACHE_DIR = before


@cache
def _temporary_folder() -> Path | None:
    """A folder for compiled code that no other user can write; says once where compiled code goes."""
    folder = _private_folder(Path(tempfile.gettempdir()))
    place = "is not kept, so that every start compiles again" if folder is None else f"is kept in {folder}"
    # a line of the logger, since a warning that somebody turned into an error would make the call fail
    logging.getLogger("spectrem").warning(
        "spectrem: neither the folder of spectrem nor the user's cache folder can be written: compiled code %s; set "
        "NUMBA_CACHE_DIR to a folder that lasts",
        place,
    )
    return folder


def _private_folder(parent: Path) -> Path | None:
    """A folder in ``parent`` of this user alone, the same at every start, or None.

    Numba unpickles what it finds there, so a folder that another user made, or could replace, is not used.
    """
    if not hasattr(os, "getuid"):
        return None
    folder = parent / f"spectrem-{os.getuid()}"
    try:
        above = os.stat(parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = os.lstat(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    guarded = above.st_mode & stat.S_ISVTX or not above.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if guarded and private else None
