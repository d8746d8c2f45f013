"""Numba's compiler, with machine code that does not depend on the processor, and places where it is kept.

Machine code is read from the folder that wheels bring it in, and from where Numba keeps it: beside the sources or in
the user's cache folder; where neither can be written, as in many containers, in a temporary folder. A file holds the
code of one kernel for given types. Its name has a digest of all that the code follows from: versions, processor,
types, and the sources of the kernel and of what is compiled into it, with their numbers. So moved and copied trees keep
their code, and what does not fit is not used. The file begins with a digest of the rest, and damaged ones are
passed over.

All x86-64 processors since 2013 to 2017 get the same instructions, those of the level x86-64-v3, so that kernels give
the same bits on all of them; NUMBA_CPU_NAME asks for others. That holds for everything that Numba compiles in a process
after this module is loaded. Of processes that need the same code at once, one compiles, and the others wait for it.

Kernels import ``njit`` from here. The logger ``spectrem.compiling`` says, at level INFO, which kernel is compiled, and
when it is.

Parts of Numba used here that its documentation does not promise, all of them in the releases 0.61.2 and 0.68.1, with
which they are tested: ``FunctionCache`` finds the folder; dispatchers keep ``_cache``, which has ``load_overload`` and
``save_overload``, and are called by ``compile``; ``CompileResult`` has ``_reduce`` and ``_rebuild``, ``lifted`` and
``library.has_dynamic_globals``; ``Environment._memo``, ``_rebuild_env`` and ``serialize.dumps``; ``rtsys.initialize``;
``global_compiler_lock``; ``magic_tuple`` of a code generator; ``cpu_target._toplevel_target_context``.
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
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, partial
from numbers import Number
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

try:
    import fcntl
except ImportError:  # Windows, where processes that need the same code at once each compile it
    fcntl = None  # type: ignore[assignment]

PREBUILT = Path(__file__).parent / "_prebuilt"
_log = logging.getLogger("spectrem.compiling")
# Beginnings of the modules whose functions are compiled into those that call them.
_INLINED = ("spectrem.kernels.", "spectrem._lanes", "spectrem._logs", "spectrem._vectors", "spectrem._wide")
# LLVM's names of levels of processors, and the instructions that make one, by kind of machine. That of ARM is untried.
_LEVELS = {
    "x86_64": ("x86-64-v3", "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse4.2 ssse3 xsave"),
    "aarch64": ("generic", ""),
    "arm64": ("generic", ""),
}
# How often, and how long in seconds, a process waits for another that compiles, before it compiles itself.
_N_WAITS, _WAIT = 2400, 0.05
_DIGEST_SIZE = hashlib.sha256().digest_size


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`; where it finds no place for compiled code, that is kept in a temporary folder or not at all."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**{**options, "cache": False})(function)
        if options.get("cache") and dispatcher is not function:  # with NUMBA_DISABLE_JIT
            dispatcher._cache = _KernelCache(function)
            dispatcher.compile = partial(dispatcher._cache.compile, dispatcher.compile)
        return dispatcher

    return compiled


def _choose_processor() -> tuple[str, str, str] | None:
    """LLVM's triple, name and features of the level that kernels are compiled for, or None for the machine's own.

    Numba is told of it, unless its code generator is in use already, which stays as it is.
    """
    config: Any = numba.config
    triple = llvm.get_process_triple()
    name, instructions = _LEVELS.get(triple.split("-")[0], ("", ""))
    if not name or config.CPU_NAME is not None or config.CPU_FEATURES is not None or not config.ENABLE_AVX:
        return None
    features = dict(llvm.get_host_cpu_features()) if instructions else {}
    if not all(map(features.get, instructions.split())):
        return None
    if "_toplevel_target_context" not in vars(cpu_target):
        config.CPU_NAME, config.CPU_FEATURES = name, ""
    return triple, name, ""


_processor = _choose_processor()


class _KernelCache:
    """The compiled code of a kernel, by types: ``_cache`` of its dispatcher."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._locked: tuple[int, int] | None = None

    @cached_property
    def cache_path(self) -> Path | None:
        """The folder where code is kept, looked for when the kernel is called."""
        return _place(self._function)

    def compile(self, compiler: Callable[[Any], Any], signature: Any) -> Any:
        """Load or compile, and give up the right to compile that `load_overload` waited for, whatever happens."""
        with global_compiler_lock:
            try:
                return compiler(signature)
            finally:
                _unlock(self._locked)
                self._locked = None

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Compiled code, or None, without the registries of all that Numba can compile.

        Those take half as long to load as Numba itself, with the whole of ``scipy.linalg``; the compiler loads them
        where there is something to compile. Code from the cache needs only the runtime that counts references.
        """
        rtsys.initialize(target)
        code = self._load(signature, target)
        if code is None and self.cache_path is not None:
            key = self._key(signature, target.codegen().magic_tuple())
            self._locked = _lock(self.cache_path, self._file_name(key))
            code = self._load(signature, target)  # another process may have compiled it meanwhile
        if code is None:
            _log.info("compiling %s", self._function.__name__)
        return code

    def save_overload(self, signature: Any, code: Any) -> None:
        """Keep what was just compiled."""
        if self.cache_path is not None and not code.library.has_dynamic_globals:
            key = self._key(signature, code.codegen.magic_tuple())
            write_code(self.cache_path / self._file_name(key), key, code._reduce())
        _log.info("compiled %s", self._function.__name__)

    def _load(self, signature: Any, target: Any) -> Any:
        for processor in dict.fromkeys([_processor or (), target.codegen().magic_tuple()]):
            key = self._key(signature, processor)
            name = self._file_name(key)
            data = read_code(PREBUILT / name, key)
            if data is None and self.cache_path is not None:
                data = read_code(self.cache_path / name, key)
            if data is not None:
                return CompileResult._rebuild(target, *data)
        return None

    def _key(self, signature: Any, processor: tuple[str, ...]) -> tuple[Any, ...]:
        """The types and the processor that code is for, and what the kernel, as compiled by Python, does."""
        cells = tuple(cell.cell_contents for cell in self._function.__closure__ or ())
        return signature, processor, self._function.__code__.co_code, dumps(cells) if cells else b""

    def _file_name(self, key: Any) -> str:
        """The name of the file of some code, from everything that it follows from."""
        module = self._function.__module__
        sources = _digest(module), digests_of_imports(module)
        versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
        digest = hashlib.sha256(repr((versions, sources, key)).encode()).hexdigest()[:32]
        name = f"{module}.{self._function.__qualname__}.{digest}.nbc"
        return name.removeprefix("spectrem.").replace("<", "").replace(">", "")


def read_code(path: Path, key: Any) -> Any:
    """The compiled code in a file, or None where there is none for this key or the file is damaged."""
    try:
        content = path.read_bytes()
        code = content[_DIGEST_SIZE:]
        if hashlib.sha256(code).digest() != content[:_DIGEST_SIZE]:
            return None
        saved_key, data = _CodeReader(io.BytesIO(code)).load()
    except (OSError, ImportError, AttributeError):  # the last two where it names what another NumPy lacks
        return None
    return data if saved_key == key else None


def write_code(path: Path, key: Any, data: Any) -> None:
    """Write compiled code to a file, which appears complete; where that fails, the code is compiled at every start."""
    code = dumps((key, data))
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        with suppress(OSError):
            temporary.write_bytes(hashlib.sha256(code).digest() + code)
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()


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


def _lock(folder: Path, name: str) -> tuple[int, int] | None:
    """The right to compile what a file is to hold: an open file, and the place of a byte that is locked there.

    It is None, so that more than one process may compile, where the folder has no locks and where another process holds
    them for two minutes. The system takes the locks from a process that dies.
    """
    descriptor = _lock_file(folder)
    if descriptor is None:
        return None
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    for _ in range(_N_WAITS):
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):  # another process has it
            time.sleep(_WAIT)
        except OSError:
            return None
        else:
            return descriptor, place
    return None


def _unlock(locked: tuple[int, int] | None) -> None:
    if locked is not None:
        with suppress(OSError):
            fcntl.lockf(locked[0], fcntl.LOCK_UN, 1, locked[1])


@cache
def _lock_file(folder: Path) -> int | None:
    """The file of a folder whose bytes are locked. It stays open, since a process that closes it loses its locks."""
    if fcntl is None:
        return None
    try:
        return os.open(folder / "spectrem.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


@cache
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
    """That of the file of a module and of its numbers, which may come from files that nothing is compiled from."""
    loaded: Any = sys.modules[module]
    numbers = {name: value for name, value in vars(loaded).items() if isinstance(value, Number)}
    try:
        code = loaded.__spec__.loader.get_data(loaded.__file__)  # in archives, too
    except OSError:  # part of an executable file, whose own date Numba looks at
        code = b""
    return hashlib.sha256(code + (repr(numbers).encode() if numbers else b"")).digest()


def _place(function: Callable[..., Any]) -> Path | None:
    """The folder where Numba keeps the compiled code of a function, a temporary folder, or None."""
    try:
        return Path(FunctionCache(function).cache_path)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    return _temporary_folder()


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
