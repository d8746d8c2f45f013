"""Imports point one way: a package imports only what stands before it, and no files import each other in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import spectrem

ROOT = Path(spectrem.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
REPRODUCTIONS = sorted((Path(__file__).parents[1] / "reproductions").rglob("*.py"))
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").rglob("*.py"))
LAYERS = [
    *("kernels", "structures", "constraints", "inference", "models", "learning", "reports", "tables", "estimators"),
    "cli",
]
FOUNDATION = {
    "exceptions",
    "_heads",
    "_html",
    "_progress",
    "_lanes",
    "_logs",
    "_vectors",
    "_wide",
    "_arrays",
    "_damage",
    "_outputs",
    "_reprs",
    "_validate",
    "_compiled",
    "_first_use",
}
# What stands outside the line. None of these may be imported by a layer except as said in ALLOWED.
LEAVES = {
    "corpus": set(),
    "data": set(),
    "metrics": {"data"},
    "datasets": {"data"},
    "durations": {"models"},
    "emissions": {"models"},
    "plotting": {"data", "metrics", *LAYERS[: LAYERS.index("estimators")]},
    "testing": {"corpus", *LAYERS[: LAYERS.index("estimators")]},
    "torch": {"corpus", "data", "metrics", *LAYERS[: LAYERS.index("estimators")]},
}
ALLOWED = {
    **{layer: set(LAYERS[:k]) | {"corpus", "data", "metrics"} for k, layer in enumerate(LAYERS)},
    **LEAVES,
    "exceptions": set(),
    "_damage": set(),
    "_heads": set(),
    "_html": set(),
    "_progress": set(),
    "_arrays": set(),
    "_outputs": set(),
    "_reprs": set(),
    "_validate": {"_arrays"},
    "_compiled": set(),
    "_lanes": {"_compiled", "_vectors"},
    "_logs": {"_compiled", "_vectors"},
    "_vectors": set(),
    "_wide": {"_compiled", "_vectors"},
    "_first_use": set(),
}
ALLOWED["__main__"] = {"cli"}
ALLOWED["cli"] |= {"datasets", "plotting"}
ALLOWED["estimators"] |= {"datasets"}
ALLOWED["kernels"] = set()
ALLOWED["structures"] = {"kernels"}


def unit_of(module):
    """The package or module directly under spectrem that a dotted name belongs to; None for spectrem itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def module_name(path):
    parts = ["spectrem", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source, name, is_package):
    """Dotted names of everything below spectrem that a module imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "spectrem")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            if base == "spectrem":
                yield from (f"spectrem.{alias.name}" for alias in node.names if alias.name != "__version__")
            elif base.startswith("spectrem."):
                yield base


def forbidden_imports(source, name, is_package=False):
    """Imports of a module that point the wrong way."""
    unit = unit_of(name)
    if unit is None:
        return []
    units = set(ALLOWED)
    reached = {unit_of(target) for target in imported_modules(source, name, is_package)}
    # Names that spectrem itself re-exports come from the highest layer: nothing below may use them.
    reached = {target if target in units else "spectrem" for target in reached}
    foundation = FOUNDATION if unit not in FOUNDATION else {"exceptions"}
    return sorted(reached - ALLOWED[unit] - foundation - {unit})


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path):
    found = forbidden_imports(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py")
    assert not found, f"{path.relative_to(ROOT)} must not import {', '.join(found)}"


def test_every_unit_has_its_place():
    units = {p.relative_to(ROOT).parts[0].removesuffix(".py") for p in MODULES} - {"__init__"}
    assert units - set(ALLOWED) == set(), "add the new package to LAYERS or LEAVES"


@pytest.mark.parametrize(
    ("source", "name", "found"),
    [
        ("from spectrem.models import x", "spectrem.structures.chains.chain", ["models"]),
        ("def f():\n    import spectrem.cli", "spectrem.kernels.chains.chain", ["cli"]),
        ("from ..models import x", "spectrem.inference.batch", ["models"]),
        ("from . import chain", "spectrem.structures.product", []),
        ("from spectrem import learning", "spectrem.models.hmm", ["learning"]),
        ("from spectrem import WordAligner", "spectrem.learning.em", ["spectrem"]),
        ("from spectrem import __version__", "spectrem.models.hmm", []),
        ("from spectrem.structures import Chain", "spectrem.data.text", ["structures"]),
        ("from spectrem.data import text", "spectrem.datasets", []),
        ("from spectrem.exceptions import InvalidInputError", "spectrem.kernels.chains.chain", []),
        ("from spectrem.structures import Parts", "spectrem._validate", ["structures"]),
        ("import numpy, spectrem.estimators", "spectrem.testing.check", ["estimators"]),
    ],
)
def test_the_test_notices(source, name, found):
    assert forbidden_imports(source, name) == found


def test_relative_imports_of_a_package():
    assert forbidden_imports("from .chain import x", "spectrem.structures", is_package=True) == []
    assert forbidden_imports("from ..cli import x", "spectrem.structures", is_package=True) == ["cli"]


def test_kernels_import_those_of_their_folder_alone():
    for path in (ROOT / "kernels").rglob("*.py"):
        reached = imported_modules(path.read_text(), module_name(path), path.name == "__init__.py")
        own = module_name(path).rpartition(".")[0]
        assert {name.rpartition(".")[0] for name in reached if name.startswith("spectrem.kernels")} <= {own}, path.name


def is_for_types_alone(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def arrows(modules):
    """The modules of spectrem that each of some modules, given by name and source, imports when it runs.

    Imports for annotations alone do not count. A name of a package that loads its names on first use is one of the
    module that has it.
    """
    trees = {name: ast.parse(source) for name, source in modules.items()}
    homes = {name: import_module(name)._HOMES for name, source in modules.items() if "_HOMES = {" in source}

    def reached(node):
        if is_for_types_alone(node):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                home = homes.get(node.module, {}).get(alias.name, alias.name)
                full = f"{node.module}.{home}"
                yield full if full in trees else node.module
        for child in ast.iter_child_nodes(node):
            yield from reached(child)

    return {name: {one for one in reached(tree) if one in trees} - {name} for name, tree in trees.items()}


def find_circle(graph):
    """Names that lead from one to the next and back to the first, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_circle_of_imports_among_files():
    modules = {module_name(path): path.read_text("utf-8") for path in MODULES}
    circle = find_circle(arrows(modules))
    assert circle is None, " <- ".join(circle)


@pytest.mark.parametrize(
    ("import_back", "noticed"),
    [
        ("from a.b import c", True),
        ("def f():\n    import a.b.c", True),
        ("if TYPE_CHECKING:\n    from a.b.c import d", False),
        ("from a import b", False),
    ],
)
def test_the_test_of_circles_notices(import_back, noticed):
    modules = {"a.b": "", "a.b.c": "from a.e import f", "a.e": import_back}
    assert (find_circle(arrows(modules)) is not None) is noticed


def imported_names(source):
    """(module, name) of everything imported, name being None where a module is."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_library_does_not_import_reproductions(path):
    assert "reproductions" not in {module.split(".")[0] for module, _ in imported_names(path.read_text("utf-8"))}


# Public modules that list no names.
UNLISTED = {"spectrem.models.priors"}


def is_public(module, name):
    """Whether users may import the name: a package lists it, and no part of its path is private."""
    if module.split(".")[0] != "spectrem":
        return True
    listed = import_module(module)
    return name in getattr(listed, "__all__", ()) or (module in UNLISTED and not name.startswith("_"))


@pytest.mark.parametrize("path", [*REPRODUCTIONS, *EXAMPLES], ids=lambda p: "/".join(p.parts[-2:]))
def test_reproductions_and_examples_use_what_users_may_use(path):
    names = list(imported_names(path.read_text("utf-8")))
    if any(module == "spectrem.torch" for module, _ in names):
        pytest.importorskip("torch", reason="PyTorch is optional")
    private = [(module, name) for module, name in names if not is_public(module, name)]
    assert not private


@pytest.mark.parametrize(
    ("source", "public"),
    [
        ("from spectrem.plotting import Line", True),
        ("from spectrem.plotting.curves import make_figure", False),
        ("from spectrem.exceptions import InvalidInputError", True),
        ("from spectrem._outputs import open_bytes", False),
        ("import spectrem.learning.em", False),
        ("from pathlib import Path", True),
    ],
)
def test_the_test_of_public_names_notices(source, public):
    assert all(is_public(module, name) for module, name in imported_names(source)) is public
