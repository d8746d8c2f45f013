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

What kernels call is compiled to the code of LLVM alone and linked into them; Numba, left alone, would optimise each
function for itself and make machine code of it, wrappers and a file in the cache, which took a third of the time.
So what lies in a file has no code of LLVM, which would be of use only where others link it. The exception are
functions of chains: see `_Library`.

Parts of Numba used here that its documentation does not promise, all of them in the releases 0.61.2 and 0.68.1, with
which they are tested: ``FunctionCache`` finds the folder; ``CPUDispatcher`` is called by ``compile``, which has
``_compiler.compile`` make what ``_cache``, by ``load_overload`` and ``save_overload``, does not hold, and has
``_numba_type_``, ``overloads`` and the options ``no_cpython_wrapper`` and ``no_cfunc_wrapper``; ``CompileResult`` has
``_reduce`` and ``_rebuild``, ``_find_referenced_environments``, ``lifted`` and ``library.has_dynamic_globals``;
``Environment._memo``, ``_rebuild_env`` and ``serialize.dumps``; ``rtsys.initialize``; ``global_compiler_lock``;
``magic_tuple``, ``_library_class``, ``_tm``, ``_engine.is_symbol_defined`` and ``set_env`` of a code generator; the
methods of ``JITCodeLibrary`` that `_Library` overrides or calls, and ``_shared_module``; ``create_cpython_wrapper`` and
``get_executable`` of a target's context; ``resolve_function_type`` of the types' context;
``cpu_target._toplevel_target_context``.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from numbers import Number
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher, cpu_target
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
# The beginning of the names that LLVM knows functions of chains by.
_CHAINS = "_ZN8spectrem7kernels6chains"
# LLVM's names of levels of processors, and the instructions that make one, by kind of machine. That of ARM is untried.
_LEVELS = {
    "x86_64": ("x86-64-v3", "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse4.2 ssse3 xsave"),
    "aarch64": ("generic", ""),
    "arm64": ("generic", ""),
}
# How often, and how long in seconds, a process waits for another that compiles, before it compiles itself.
_N_WAITS, _WAIT = 2400, 0.05
_DIGEST_SIZE = hashlib.sha256().digest_size


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`; where it finds no place for compiled code, that is kept in a temporary folder or not at all."""

    def compiled(function: Callable[..., Any]) -> Any:
        config: Any = numba.config
        if config.DISABLE_JIT:
            return function
        kernel = _Kernel(function, targetoptions={"nopython": True, "boundscheck": None, **options})
        if cache:
            kernel._cache = _KernelCache(function)
        return kernel

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


class _Kernel(CPUDispatcher):
    """A function as Python calls it: machine code of a ``part`` and of all that it calls.

    The part is the same function as other compiled functions call it, which Numba compiles to LLVM's code. That of a
    part is the same whatever was compiled before, and so are the kernels that it is linked into.
    """

    _cache: Any
    _compiler: Any
    targetctx: Any

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        locals, targetoptions = locals or {}, targetoptions or {}
        super().__init__(py_func, locals, targetoptions)
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        self._part = CPUDispatcher(py_func, locals, {**targetoptions, **wrappers})
        self._compiler.compile = self._link

    @property
    def _numba_type_(self) -> Any:
        """The type that the function has for those that are compiled, and call it."""
        return types.Dispatcher(self._part)

    def compile(self, signature: Any) -> Any:
        """Load or compile, and give up the right to compile that `load_overload` waited for, whatever happens."""
        with global_compiler_lock:
            try:
                return super().compile(signature)
            finally:
                if isinstance(self._cache, _KernelCache):
                    self._cache.unlock()

    def _link(self, arguments: Any, _: Any) -> Any:
        """Compile the part, and make machine code of it with what calls it from Python."""
        codegen = self.targetctx.codegen()
        with _linking(codegen, self.typingctx):
            self._part.compile(arguments)
            part: Any = self._part.overloads[tuple(arguments)]
            context, library = part.target_context, codegen.create_library(part.library.name)
            library.is_kernel = True
            library.enable_object_caching()
            library.add_linking_library(part.library)
            called = library, part.fndesc, part.environment
            context.create_cpython_wrapper(*called, part.call_helper, self.targetoptions.get("nogil", False))
            entry_point = context.get_executable(*called)
        code = part._replace(library=library, entry_point=entry_point, type_annotation="", metadata=None)
        for environment in code._find_referenced_environments():
            codegen.set_env(environment.env_name, environment)
        # Numba keeps the code of LLVM for others to link and to know what is defined; nobody links this library.
        wrapper = part.fndesc.llvm_cpython_wrapper_name
        library._shared_module = llvm.parse_assembly(f'define void @"{wrapper}"() {{ ret void }}')
        return code


@contextmanager
def _linking(codegen: Any, typing: Any) -> Iterator[None]:
    """Let Numba make machine code only where an address is asked for, and find the types of each call once.

    The constants of a function (its environment) can be set only where it has machine code.
    """
    resolve, set_env = typing.resolve_function_type, codegen.set_env
    resolved = dict[Any, Any]()

    def resolve_once(function: Any, arguments: Any, named: Any) -> Any:
        if named or isinstance(function, str):  # those of an item of constant index, which may not be hashable
            return resolve(function, arguments, named)
        key = function, tuple(arguments)
        if resolved.get(key) is None:
            resolved[key] = resolve(function, arguments, named)
        return resolved[key]

    def set_where_defined(name: str, environment: Any) -> None:
        if codegen._engine.is_symbol_defined(name):
            set_env(name, environment)

    codegen._library_class, codegen.set_env, typing.resolve_function_type = _Library, set_where_defined, resolve_once
    try:
        yield
    finally:  # so that those of their classes are back
        del codegen._library_class, codegen.set_env, typing.resolve_function_type


class _Library(JITCodeLibrary):
    """Code of LLVM that is optimised, and becomes machine code, when the address of a function in it is asked for.

    What is linked into it was not optimised before as modules are, so that the passes run once more: some kernels are
    up to a third slower without. Kernels of chains would still be a tenth slower, and get what Numba gives them: parts
    are optimised each for itself, and their loops rewritten by LLVM's generator of machine code, which is thrown away.
    """

    is_kernel = False
    _has_machine_code = False

    @cached_property
    def _is_of_chains(self) -> bool:
        return any(function.name.startswith(_CHAINS) for function in self.get_defined_functions())

    def _optimize_final_module(self) -> None:
        if self._is_of_chains and not self.is_kernel:
            super()._optimize_final_module()
            self._codegen._tm.emit_object(self._final_module)

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function, or 0 where it is not in this library."""
        self._ensure_finalized()
        if name not in {function.name for function in self.get_defined_functions()}:
            return 0
        if not self._has_machine_code:
            self._has_machine_code = True
            for _ in range(0 if self._is_of_chains else 2):
                super()._optimize_final_module()
            self._final_module.verify()
            super()._finalize_final_module()
        return super().get_pointer_to_function(name)


class _KernelCache:
    """The compiled code of a kernel, by types: ``_cache`` of its dispatcher."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._locked: tuple[int, int] | None = None

    @cached_property
    def cache_path(self) -> Path | None:
        """The folder where code is kept, looked for when the kernel is called."""
        return _place(self._function)

    def unlock(self) -> None:
        """Give up the right to compile that `load_overload` may have waited for."""
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
        sources = _digest(__name__), _digest(module), digests_of_imports(module)
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
    """The constants of a compiled function; the names of its module are for interpreted code, which no kernel holds.

    A function that is linked into kernels lacks the constants of its wrapper, which come last, until it is called from
    Python.
    """
    environment = Environment._memo.get(name)
    if environment is None:
        environment = Environment(getattr(sys.modules.get(module), "__dict__", {"__name__": module}))
        environment.env_name = name
        Environment._memo[name] = environment
    environment.consts.extend(constants[len(environment.consts) :])
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
