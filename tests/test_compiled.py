"""Where compiled code is kept and found, for which processors, and what processes that compile at once do."""

import errno
import hashlib
import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

import spectrem
from spectrem import _compiled

# What is compiled goes to standard error.
LOGGED = """
import logging
logging.basicConfig(format="%(message)s")
logging.getLogger("spectrem.compiling").setLevel("INFO")
"""
ADD = """
import numpy as np
from spectrem.kernels.unions import add_at
total = np.zeros(3)
add_at(total, np.array([2, 0], np.int32), np.ones(2))
print(total.tolist())
"""


@pytest.fixture
def install(tmp_path):
    """A copy of the package beside which nothing can be written: folders of compiled code would be in a file's place.

    That holds for every user; permissions do not bind root.
    """
    package = tmp_path / "site" / "spectrem"
    shutil.copytree(Path(spectrem.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "_prebuilt"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    (tmp_path / "tmp").mkdir()

    def run(code, site=tmp_path / "site", **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
        environment |= {"PYTHONPATH": str(site), "HOME": "/dev/null/x", "TMPDIR": str(tmp_path / "tmp"), **variables}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    return run


def test_kernels_are_compiled_by_way_of_it():
    root = Path(spectrem.__file__).parent
    direct = {path for path in root.rglob("*.py") if re.search(r"^(from|import) numba", path.read_text("utf-8"), re.M)}
    own_terms = {
        "_vectors.py": [
            "from numba import types",
            "from numba.extending import intrinsic, lower_cast, models, overload, register_model",
        ],
    }
    assert direct == {root / name for name in ("_compiled.py", *own_terms)}
    for name, allowed in own_terms.items():  # nothing that compiles
        assert re.findall(r"^(?:from|import) numba.*", (root / name).read_text("utf-8"), re.M) == allowed


def test_a_temporary_folder_is_used_and_used_again(install, tmp_path):
    done = install(ADD)
    folder = tmp_path / "tmp" / f"spectrem-{os.getuid()}"
    assert (done.returncode, done.stdout) == (0, "[1.0, 0.0, 1.0]\n"), done.stderr
    assert done.stderr == (
        "spectrem: neither the folder of spectrem nor the user's cache folder can be written: compiled code is kept in "
        f"{folder}; set NUMBA_CACHE_DIR to a folder that lasts\n"
    )
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}
    assert kept
    assert install(ADD).stdout == "[1.0, 0.0, 1.0]\n"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")} == kept


@pytest.mark.parametrize("changed", ["number", "first", "second"])
def test_kernels_are_compiled_anew_after_a_change_in_what_they_import(install, tmp_path, changed):
    kernels = tmp_path / "site" / "spectrem" / "kernels"

    def write(name, code, imported=""):
        header = f"from spectrem._compiled import njit\n{imported}\n@njit(cache=True)\ndef {name}(x):\n    return "
        (kernels / f"{name}.py").write_text(header + code)

    (kernels / "number.py").write_text("STEP = 1")
    write("first", "x + STEP", "from spectrem.kernels.number import STEP")
    write("second", "10 * first(x)", "from spectrem.kernels.first import first")
    write("third", "second(x)", "from spectrem.kernels.second import second")
    code = "from spectrem.kernels.third import third; print(third(0))"
    assert install(code).stdout == "10\n"
    if changed == "number":
        (kernels / "number.py").write_text("STEP = 2")
    elif changed == "first":
        write("first", "x + 2")
    else:
        write("second", "20 * first(x)", "from spectrem.kernels.first import first")
    assert install(code).stdout == "20\n"


def test_a_package_in_an_archive_can_be_imported(install, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path / "site")
    code = "from spectrem.kernels.alignments import cooccurrence; print(cooccurrence.__file__)"
    done = install(f"import sys; sys.path.insert(0, {archive!r}); {code}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(archive)


def test_code_from_the_cache_is_loaded_without_what_compiling_takes():
    """Neither the registries of all that Numba can compile, nor the modules that helpers of a kernel come from."""
    code = ADD + "import sys; print(*sys.modules)"
    for _ in range(2):  # the first may compile
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needless = {"numba.np.linalg", "numba.np.arraymath", "numba.cpython.unicode", "scipy.linalg", "scipy.sparse"}
    assert not needless & set(done.stdout.split())


def test_without_any_folder_nothing_is_kept(install, tmp_path):
    (tmp_path / "tmp" / f"spectrem-{os.getuid()}").touch()
    done = install(ADD)
    assert (done.returncode, done.stdout) == (0, "[1.0, 0.0, 1.0]\n"), done.stderr
    assert "compiled code is not kept, so that every start compiles again; set NUMBA_CACHE_DIR" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_line_says_so_in_one_line(install):
    code = "import sys; sys.argv[1:] = ['evaluate', '/dev/null/x', 'y']; from spectrem.cli import main; main()"
    done = install(ADD.replace("print(total.tolist())", code))
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first.startswith("spectrem: neither the folder of spectrem nor")
    assert second.startswith("spectrem: error: /dev/null/x")


def test_a_folder_of_somebody_else_is_not_used(tmp_path):
    name = f"spectrem-{os.getuid()}"
    assert _compiled._private_folder(tmp_path) == tmp_path / name
    assert _compiled._private_folder(tmp_path) == tmp_path / name

    (tmp_path / name).chmod(0o755)
    assert _compiled._private_folder(tmp_path) is None
    (tmp_path / name).rmdir()

    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    assert _compiled._private_folder(tmp_path) is None
    (tmp_path / name).unlink()

    tmp_path.chmod(0o777)  # here others could put another in its place
    assert _compiled._private_folder(tmp_path) is None
    tmp_path.chmod(0o1777)
    assert _compiled._private_folder(tmp_path) == tmp_path / name
    assert _compiled._private_folder(tmp_path / "missing") is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_folder_that_another_user_made_is_not_used(tmp_path):
    folder = _compiled._private_folder(tmp_path)
    os.chown(folder, 12345, 12345)
    assert _compiled._private_folder(tmp_path) is None


def test_other_errors_of_the_compiler_stay(monkeypatch):
    def fail(function):
        raise RuntimeError("something else")

    monkeypatch.setattr(_compiled, "FunctionCache", fail)
    with pytest.raises(RuntimeError, match="something else"):
        _compiled.njit(cache=True)(lambda x: x)(1)


def test_code_is_read_back_for_the_key_it_was_written_for(tmp_path):
    path = tmp_path / "kernel.nbc"
    assert _compiled.read_code(path, "float") is None
    _compiled.write_code(path, "float", ["code", 1])
    assert _compiled.read_code(path, "float") == ["code", 1]
    assert _compiled.read_code(path, "int") is None
    assert os.listdir(tmp_path) == ["kernel.nbc"]


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "a folder", "other release"])
def test_damaged_code_is_passed_over(tmp_path, damage):
    path = tmp_path / "kernel.nbc"
    _compiled.write_code(path, "float", "code")
    content = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    elif damage == "other release":  # a name that was in Numba, or NumPy, when the code was written
        code = b"cnumpy\nmissing\n."
        path.write_bytes(hashlib.sha256(code).digest() + code)
    else:
        changed = bytes([content[-3] ^ 1])
        path.write_bytes({"cut": content[:-2], "empty": b"", "changed": content[:-3] + changed + content[-2:]}[damage])
    assert _compiled.read_code(path, "float") is None


def test_code_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        _compiled.write_code(tmp_path / "kernel.nbc", "float", "code")
    assert os.listdir(tmp_path) == []
    _compiled.write_code(tmp_path / "missing" / "kernel.nbc", "float", "code")  # no place, no error


@pytest.fixture
def compiled(caplog, monkeypatch, tmp_path):
    """A function that tells what a new process would compile for a call of a kernel, whose result it checks."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))

    def call(number=3):
        @_compiled.njit(cache=True)
        def squared(x):
            return x * x

        caplog.clear()
        with caplog.at_level("INFO", "spectrem.compiling"):
            assert (squared(number), squared(number)) == (number * number,) * 2
        return caplog.messages

    return call


COMPILED = ["compiling squared", "compiled squared"]


def test_what_is_compiled_is_logged_and_kept(compiled):
    assert compiled() == COMPILED
    assert compiled() == []
    assert compiled(0.5) == COMPILED
    assert compiled() == compiled(0.5) == []


@pytest.mark.parametrize("library", [numba, llvmlite])
def test_code_of_other_releases_is_not_used(compiled, monkeypatch, library):
    compiled()
    monkeypatch.setattr(library, "__version__", "0.1.dev")
    assert compiled() == COMPILED


def test_code_for_other_processors_is_not_used(compiled, monkeypatch):
    compiled()
    with monkeypatch.context() as patched:
        patched.setattr(_compiled, "_processor", None)
        patched.setattr(numba.config, "CPU_NAME", "some-other")
        assert compiled() == COMPILED
        assert compiled() == []
    assert compiled() == []


def test_prebuilt_code_is_used_first(compiled, monkeypatch, tmp_path):
    compiled()
    monkeypatch.setattr(_compiled, "PREBUILT", tmp_path / "prebuilt")
    (tmp_path / "prebuilt").mkdir()
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    file.rename(tmp_path / "prebuilt" / file.name)
    monkeypatch.setattr(_compiled, "_place", None)  # is not even looked for
    assert compiled() == []


def test_damaged_code_is_compiled_again(compiled, tmp_path):
    compiled()
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert compiled() == COMPILED
    assert compiled() == []


def test_an_installed_package_that_cannot_be_written_uses_what_its_wheel_brought(install, tmp_path):
    install(ADD)  # into the temporary folder
    (file,) = (tmp_path / "tmp").rglob("*.nbc")
    prebuilt = tmp_path / "site" / "spectrem" / "_prebuilt" / file.name
    prebuilt.parent.mkdir()
    file.rename(prebuilt)
    done = install(LOGGED + ADD)
    assert (done.stdout, done.stderr) == ("[1.0, 0.0, 1.0]\n", "")
    done = install(LOGGED + ADD, NUMBA_CPU_NAME="x86-64" if os.uname().machine == "x86_64" else "generic")
    assert done.stdout == "[1.0, 0.0, 1.0]\n"
    assert "compiling add_at\ncompiled add_at\n" in done.stderr
    prebuilt.write_bytes(prebuilt.read_bytes()[:-1])
    done = install(LOGGED + ADD)
    assert done.stdout == "[1.0, 0.0, 1.0]\n"
    assert "compiling add_at\ncompiled add_at\n" in done.stderr


def test_a_tree_that_is_moved_or_copied_keeps_its_code(install, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    package = shutil.copytree(
        tmp_path / "site", first, ignore=lambda _, names: [name for name in names if name == "__pycache__"]
    )
    assert "compiled add_at" in install(LOGGED + ADD, package).stderr
    shutil.copytree(first, second, copy_function=shutil.copyfile)  # with new times
    for path in second.rglob("*.py"):
        os.utime(path, (0, 0))
    done = install(LOGGED + ADD, second)
    assert (done.stdout, done.stderr) == ("[1.0, 0.0, 1.0]\n", "")


@pytest.fixture
def untouched(monkeypatch):
    """Numba's settings of the processor as if nobody had chosen one."""
    monkeypatch.setattr(numba.config, "CPU_NAME", None)
    monkeypatch.setattr(numba.config, "CPU_FEATURES", None)
    monkeypatch.setattr(_compiled.llvm, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    features = dict.fromkeys(_compiled._LEVELS["x86_64"][1].split(), True)
    monkeypatch.setattr(_compiled.llvm, "get_host_cpu_features", lambda: features)
    return features


def test_code_is_for_all_recent_processors(untouched, monkeypatch):
    monkeypatch.delitem(vars(cpu_target), "_toplevel_target_context", raising=False)
    level = ("x86_64-unknown-linux-gnu", "x86-64-v3", "")
    assert _compiled._choose_processor() == level
    assert level[1:] == (numba.config.CPU_NAME, numba.config.CPU_FEATURES)
    assert _compiled._choose_processor() is None  # asked for by a name


def test_arm_has_one_level(untouched, monkeypatch):
    monkeypatch.setitem(vars(cpu_target), "_toplevel_target_context", object())
    monkeypatch.setattr(_compiled.llvm, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    untouched.clear()
    assert _compiled._choose_processor() == ("aarch64-unknown-linux-gnu", "generic", "")


def test_a_code_generator_in_use_stays_as_it_is(untouched, monkeypatch):
    monkeypatch.setitem(vars(cpu_target), "_toplevel_target_context", object())
    assert _compiled._choose_processor() is not None
    assert (numba.config.CPU_NAME, numba.config.CPU_FEATURES) == (None, None)


@pytest.mark.parametrize("lacking", ["a feature", "its report", "permission", "a level"])
def test_other_machines_have_code_of_their_own(untouched, monkeypatch, lacking):
    if lacking == "a feature":
        untouched["fma"] = False
    elif lacking == "its report":
        untouched.clear()
    elif lacking == "permission":
        monkeypatch.setattr(numba.config, "ENABLE_AVX", 0)
    else:
        monkeypatch.setattr(_compiled.llvm, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    assert _compiled._choose_processor() is None
    assert numba.config.CPU_NAME is None


# Holds the right to compile a file until its standard input ends, and then does what its third argument says.
HOLD = """
import shutil, sys
from pathlib import Path
from spectrem import _compiled
folder, name, source = sys.argv[1:]
assert _compiled._lock(Path(folder), name)
print("held", flush=True)
sys.stdin.read()
if source:
    shutil.copy(source, Path(folder, name))
"""


@pytest.fixture
def held(tmp_path):
    """A function that starts another process, which holds the right to compile a file."""
    processes = []

    def start(folder, name, source=""):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, folder, name, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        processes.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_kernel_that_another_process_compiles_is_waited_for(compiled, held, monkeypatch, tmp_path):
    compiled()
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    file.rename(tmp_path / "compiled")
    process = held(str(file.parent), file.name, str(tmp_path / "compiled"))
    waits = []

    def finish(seconds):
        waits.append(seconds)
        process.communicate()

    monkeypatch.setattr(_compiled.time, "sleep", finish)
    assert compiled() == []
    assert len(waits) == 1


def test_the_right_to_compile_of_a_process_that_was_killed_is_free(held, monkeypatch, tmp_path):
    process = held(str(tmp_path), "kernel")
    monkeypatch.setattr(_compiled.time, "sleep", lambda _: process.kill() or process.wait())
    locked = _compiled._lock(tmp_path, "kernel")
    assert locked is not None
    _compiled._unlock(locked)
    assert _compiled._lock(tmp_path, "other") is not None


def test_a_process_that_never_finishes_is_not_waited_for_without_end(compiled, held, monkeypatch, tmp_path):
    compiled()
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    file.unlink()
    held(str(file.parent), file.name)
    waits = []
    monkeypatch.setattr(_compiled.time, "sleep", waits.append)
    assert compiled() == COMPILED
    assert sum(waits) == pytest.approx(120)
    assert compiled() == []


def test_the_right_to_compile_one_kernel_does_not_stop_others(held, monkeypatch, tmp_path):
    held(str(tmp_path), "kernel")
    monkeypatch.setattr(_compiled.time, "sleep", None)
    locked = _compiled._lock(tmp_path, "other")
    assert locked is not None
    _compiled._unlock(locked)


@pytest.mark.parametrize("lacking", ["locks", "a file", "fcntl"])
def test_where_there_are_no_locks_processes_compile(compiled, monkeypatch, tmp_path, lacking):
    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    compiled()
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    file.unlink()
    _compiled._lock_file.cache_clear()
    if lacking == "locks":
        monkeypatch.setattr(_compiled.fcntl, "lockf", fail)
    elif lacking == "a file":
        file.with_name("spectrem.lock").unlink()
        file.with_name("spectrem.lock").mkdir()
    else:
        monkeypatch.setattr(_compiled, "fcntl", None)
    assert compiled() == COMPILED
    assert compiled() == []
    _compiled._lock_file.cache_clear()


def test_the_right_to_compile_ends_with_an_error(caplog, held, monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @_compiled.njit(cache=True)
    def wrong(x):
        return x.missing

    taken = []
    lock = _compiled._lock
    monkeypatch.setattr(_compiled, "_lock", lambda *arguments: taken.append(arguments) or lock(*arguments))
    with pytest.raises(numba.TypingError):
        wrong(1)
    ((folder, name),) = taken
    held(str(folder), name)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that imports a module of kernels, which lie in a new folder with a cache of its own."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(code):
        name = f"kernels_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(HEADER + code)
        return importlib.import_module(name)

    return load


_numbers = itertools.count()
HEADER = """
import numba
import numpy as np
from spectrem._compiled import njit
"""
CHECKED = """
@njit(cache=True, error_model="numpy")
def checked(x):
    if x > 3:
        raise ValueError("too large", x, "of 3")
    return 2 * x


@njit(cache=True)
def total(values):
    sum_ = np.zeros(1)
    for value in values:
        sum_[0] += checked(value)
    return sum_[0]


@njit(cache=True)
def first(values):
    return checked(values[0]) + 0.5
"""
USE_CHECKED = """
from {} import *

small, large = np.ones(3), np.full(2, 4.0)
print(total(small), first(small))
for kernel in (total, first):
    try:
        kernel(large)
    except ValueError as error:
        print(error.args)
"""


def test_errors_of_helpers_are_raised_from_compiled_and_from_kept_code(module, tmp_path):
    name = module(CHECKED).__name__
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    code = USE_CHECKED.format(name)
    for expected in ("compiling total\ncompiled total\ncompiling first\ncompiled first\n", ""):
        done = subprocess.run([sys.executable, "-c", LOGGED + code], env=environment, capture_output=True, text=True)
        assert done.stdout == "6.0 2.5\n" + 2 * "('too large', 4.0, 'of 3')\n", done.stderr
        assert done.stderr == expected
    kept = {path.name.split(".")[1] for path in (tmp_path / "cache").rglob("*.nbc")}
    assert kept == {"total", "first"}  # and nothing of their own for those that they call


def test_a_helper_that_was_compiled_into_a_kernel_is_called_from_python(module):
    kernels = module(CHECKED)
    assert kernels.total(np.ones(3)) == 6
    assert not kernels.checked.overloads
    assert (kernels.checked(1.0), kernels.checked(1)) == (2, 2)
    with pytest.raises(ValueError, match="too large") as error:
        kernels.checked(4.0)
    assert error.value.args == ("too large", 4.0, "of 3")
    assert len(kernels.checked.overloads) == 2


def test_a_helper_that_was_loaded_with_a_kernel_is_called_from_python(module, tmp_path):
    name = module("""
@njit(cache=True)
def halves(n):
    return np.full(n, 0.5)


@njit(cache=True)
def total(n):
    return halves(n).sum()
""").__name__
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    code = f"from {name} import *\nprint(total(3), halves(2).tolist())"
    for _ in range(
        2
    ):  # compiled, and from what is kept: arrays that go to Python need constants that a kernel does not
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.stdout == "1.5 [0.5, 0.5]\n", done.stderr


@pytest.mark.parametrize("before", [False, True])
def test_other_compiled_functions_call_kernels(module, before):
    kernels = module(CHECKED)
    if before:
        assert (kernels.first(np.ones(3)), kernels.checked(1.0)) == (2.5, 2)

    @numba.njit
    def both(values):
        return kernels_first(values) + kernels_checked(values[0])

    kernels_first, kernels_checked = kernels.first, kernels.checked
    assert both(np.ones(3)) == 4.5
    with pytest.raises(ValueError, match="too large") as error:
        both(np.full(1, 5.0))
    assert error.value.args == ("too large", 5.0, "of 3")
    assert kernels.total(np.ones(3)) == 6


def test_code_does_not_depend_on_what_was_compiled_before(module):
    """Neither on a helper that Python called first, nor on another kernel that has it, too."""

    def compiled_first(*names):
        kernels = module(CHECKED)
        for name in names:
            getattr(kernels, name)(1.0 if name == "checked" else np.ones(3))
        (code,) = kernels.total.overloads.values()
        return re.findall(r"^\t([a-z]\w*)", code.library.get_asm_str(), re.M)  # names of instructions

    alone = compiled_first("total")
    assert len(alone) > 100
    assert compiled_first("checked", "first", "total") == alone


def test_after_an_error_in_a_helper_others_are_compiled(module):
    kernels = module("""
@njit(cache=True)
def wrong(x):
    return x.missing

@njit(cache=True)
def calls_wrong(x):
    return wrong(x) + 1

@njit(cache=True)
def right(x):
    return np.full(3, x).sum()

@njit(cache=True)
def calls_right(x):
    return right(x) + 1
""")
    codegen = cpu_target.target_context.codegen()
    for _ in range(2):
        with pytest.raises(numba.TypingError, match="missing"):
            kernels.calls_wrong(1)
        assert not {"_library_class", "set_env"} & set(vars(codegen))
        assert "resolve_function_type" not in vars(cpu_target.typing_context)
    assert (kernels.calls_right(1.0), kernels.right(1.0)) == (4, 3)


def test_threads_compile_at_once(module):
    kernels = module(CHECKED)
    start = threading.Barrier(4)

    def call(kernel):
        start.wait()
        return kernel(np.ones(3))

    with ThreadPoolExecutor(4) as pool:
        functions = kernels.total, kernels.first, kernels.total, numba.njit(lambda x: np.full(3, x[0]).sum())
        assert list(pool.map(call, functions)) == [6, 2.5, 6, 3]


def test_what_is_registered_between_two_kernels_is_seen(module):
    kernels = module("""
from numba.extending import overload

def doubled(x):
    raise NotImplementedError

@njit(cache=True)
def first(x):
    return doubled(x)

@njit(cache=True)
def second(x):
    return doubled(x)
""")
    with pytest.raises(numba.TypingError):
        kernels.first(1)

    @kernels.overload(kernels.doubled)
    def overloaded(x):
        return lambda x: 2 * x

    assert kernels.second(1) == 2


@pytest.mark.parametrize("options", ['inline="always"', "forceinline=True", 'fastmath={"contract", "reassoc"}', ""])
def test_helpers_are_compiled_with_options_of_their_own(module, options):
    kernels = module(f"""
@njit(cache=True, {options})
def helper(x, power=2):
    total = 0.0
    for k in range(len(x)):
        total += x[k] ** power
    return total

@njit(cache=True, nogil=True, error_model="numpy")
def kernel(x):
    return helper(x) / 0 if len(x) == 2 else helper(x, 3) + helper(x, power=1)

@njit(cache=True)
def recursive(n):
    return 1 if n == 0 else n * recursive(n - 1)

@njit(cache=True)
def calls_recursive(n):
    return recursive(n) + 1
""")
    assert kernels.kernel(np.ones(2)) == np.inf
    assert kernels.kernel(np.arange(3.0)) == 12
    assert kernels.helper(np.arange(3.0)) == 5
    assert (kernels.calls_recursive(4), kernels.recursive(5)) == (25, 120)


def test_without_the_compiler_functions_stay_those_of_python(module, monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    kernels = module(CHECKED)
    assert type(kernels.total) is type(module)
    assert kernels.total(np.ones(3)) == 6
