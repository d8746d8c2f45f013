"""Where compiled code is kept when neither the package nor the user's cache folder can be written."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

import spectrem
from spectrem import _compiled

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
    shutil.copytree(Path(spectrem.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    (tmp_path / "tmp").mkdir()

    def run(code):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
        environment |= {"PYTHONPATH": str(tmp_path / "site"), "HOME": "/dev/null/x", "TMPDIR": str(tmp_path / "tmp")}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    return run


def test_kernels_are_compiled_by_way_of_it():
    root = Path(spectrem.__file__).parent
    direct = {path for path in root.rglob("*.py") if re.search(r"^(from|import) numba", path.read_text("utf-8"), re.M)}
    own_terms = {
        "_vectors.py": [
            "from numba import types",
            "from numba.extending import intrinsic, models, overload, register_model",
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


@pytest.mark.parametrize("changed", ["first", "second"])
def test_kernels_are_compiled_anew_after_a_change_in_what_they_import(install, tmp_path, changed):
    kernels = tmp_path / "site" / "spectrem" / "kernels"

    def write(name, code, imported=""):
        header = f"from spectrem._compiled import njit\n{imported}\n@njit(cache=True)\ndef {name}(x):\n    return "
        (kernels / f"{name}.py").write_text(header + code)

    write("first", "x + 1")
    write("second", "10 * first(x)", "from spectrem.kernels.first import first")
    write("third", "second(x)", "from spectrem.kernels.second import second")
    code = "from spectrem.kernels.third import third; print(third(0))"
    assert install(code).stdout == "10\n"
    if changed == "first":
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


def test_two_processes_that_compile_at_once_do_not_share_a_file(tmp_path):
    def files_of(stamp):
        return IndexDataCacheFile(str(tmp_path), "kernel", stamp)

    _compiled.save_apart(files_of("old source"), "float", "float code, old")
    first, second = files_of("new source"), files_of("new source")
    second_save_index = second._save_index

    def others_come_between(overloads):
        _compiled.save_apart(first, "float", "float code")
        second_save_index(overloads)

    second._save_index = others_come_between
    _compiled.save_apart(second, "int", "int code")

    found = [files_of("new source").load(key) for key in ("int", "float")]
    assert found[0] == "int code"
    assert found[1] in (None, "float code")  # compiled once more at worst
    _compiled.save_apart(first, "float", "float code")
    assert [files_of("new source").load(key) for key in ("int", "float")] == ["int code", "float code"]


def test_compiled_code_is_written_before_it_is_listed(tmp_path):
    files = IndexDataCacheFile(str(tmp_path), "kernel", "source")

    def stop(*_):
        raise KeyboardInterrupt

    files._save_data = stop
    with pytest.raises(KeyboardInterrupt):
        _compiled.save_apart(files, "float", "float code")
    assert IndexDataCacheFile(str(tmp_path), "kernel", "source").load("float") is None


def test_what_is_compiled_is_logged(caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @_compiled.njit(cache=True)
    def squared(x):
        return x * x

    with caplog.at_level("INFO", "spectrem.compiling"):
        assert (squared(3), squared(4)) == (9, 16)
    assert caplog.messages == ["compiling squared", "compiled squared"]


def test_kernels_are_saved_apart():
    @_compiled.njit(cache=True)
    def twice(x):
        return 2 * x

    assert twice(2) == 4
    (listed,) = twice._cache._cache_file._load_index().values()
    assert len(listed) > len("twice-1.py311.1.nbc") + 10
