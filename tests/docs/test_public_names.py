"""What the API pages list is what modules call public, and every such name is explained."""

import importlib.util
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import spectrem

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLIC = load("public_names")
PRIVATE = {"kernels", "models", "cli"}


@pytest.mark.parametrize("room", PUBLIC.ROOMS)
def test_pages_list_what_is_public(room):
    if room == "spectrem.torch":
        pytest.importorskip("torch", reason="PyTorch is not installed; make test-torch runs this")
    module, names = import_module(room), PUBLIC.names_of(room)
    assert sorted(module.__all__) == names
    assert len(set(names)) == len(names)
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{room}.{name} has no docstring"


def test_every_room_is_public_or_named_private():
    rooms = {one.name for one in pkgutil.iter_modules(spectrem.__path__) if not one.name.startswith("_")}
    assert {f"spectrem.{name}" for name in rooms - PRIVATE} == PUBLIC.ROOMS.keys() - {"spectrem"}


def test_the_index_of_the_api_lists_every_room():
    lines = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("spectrem")] == list(PUBLIC.ROOMS)
