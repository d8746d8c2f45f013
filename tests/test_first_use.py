"""Packages whose names are loaded on first use give them all, whatever was loaded before."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = ["spectrem.structures", "spectrem.learning", "spectrem.inference"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_found(package):
    module = import_module(package)
    modules = {path.stem for path in Path(module.__file__).parent.iterdir()}
    assert not modules & set(module._HOMES)  # which would be hidden by the module
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert not isinstance(getattr(module, name), ModuleType), name


def test_names_that_are_not_there_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'run_me'"):
        import_module("spectrem.learning").run_me  # noqa: B018
    with pytest.raises(ImportError):
        from spectrem.structures import Trees  # noqa: F401


def test_an_aligner_loads_no_trees_and_no_log_linear_models():
    code = "import sys, spectrem.cli.alignment.writing; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needless = ("spectrem.structures.trees", "spectrem.structures.chains", "spectrem.models.loglinear", "scipy.linalg")
    assert not [name for name in done.stdout.split() if name.startswith(needless)]


def test_training_an_aligner_loads_no_solver_it_does_not_need():
    code = (
        "import sys; from spectrem import WordAligner\n"
        "WordAligner(n_threads=1).fit(['a b'], ['c d']).predict(['a'], ['c']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needless = ("assignment", "batch", "conflict", "corpus", "program", "solvers.linear_program")
    loaded = [name for name in done.stdout.split() if name.startswith("spectrem.inference")]
    assert not [name for name in loaded if name.startswith(tuple(f"spectrem.inference.{one}" for one in needless))]


def test_the_version_is_looked_up_when_it_is_asked_for():
    code = "import sys, spectrem; print('importlib.metadata' in sys.modules, spectrem.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"False {version('spectrem')}\n"


def test_sources_that_are_not_installed_have_no_version(monkeypatch):
    def fail(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", fail)
    assert import_module("spectrem").__version__ == "0+unknown"
