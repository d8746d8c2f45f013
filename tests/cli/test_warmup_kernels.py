"""`spectrem warmup` compiles every kernel that Python calls, once."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import spectrem

ROOT = Path(spectrem.__file__).parent
# Every kernel with machine code, and for how many signatures, after all families.
WARM = """
import sys
import typer
from spectrem._compiled import _Kernel
from spectrem.cli.app import app

typer.main.get_command(app).main(["warmup"], standalone_mode=False)
modules = [module for name, module in sys.modules.items() if name.startswith("spectrem.")]
kernels = {kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, _Kernel)}
for kernel in kernels:
    print(f"{kernel.__module__}.{kernel.__name__}", len(kernel.overloads))
"""
# Kernels that Python runs as they are (by ``py_func``).
NOT_COMPILED = {"spectrem.kernels.alignments.cells.anchor"}
# Kernels that are called with more than one combination of types, and why.
SIGNATURES = {
    "spectrem.kernels.parsing.arcs.score_arcs": 2,  # weights of float32 while learning, of float64 when averaged
    "spectrem.kernels.parsing.arcs.add_arcs": 2,
    "spectrem.kernels.alignments.cells.discount_links": 2,  # one direction, or both
    "spectrem.kernels.alignments.alignment.sum_pass": 2,  # potentials alone, or with slopes along a direction
    "spectrem.kernels.brackets.sum_pass": 2,
    "spectrem.kernels.trees.eisner.sum_pass": 2,
    "spectrem.kernels.trees.matrix_tree.sum_pass": 2,
    "spectrem.kernels.trees.valence.sum_pass": 2,
    "spectrem.kernels.votes.score": 2,  # votes on items in as few bytes as they need, and those on tokens
    "spectrem.kernels.votes.gather": 2,
}


def is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(one) for one in node.decorator_list)


def called_from_python():
    """Names of kernels that occur in code that is not compiled: imported, or as attributes of modules of kernels."""
    trees = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        trees[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"))
    kernels = {module: {node.name for node in tree.body if is_kernel(node)} for module, tree in trees.items()}
    called = set()

    def look(node, names):
        if isinstance(node, ast.ImportFrom) or is_kernel(node):
            return
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            if node.attr in kernels.get(module, ()):
                called.add(f"{module}.{node.attr}")
        if isinstance(node, ast.Name) and (name := names.get(node.id, "")).rpartition(".")[0] in kernels:
            module, _, kernel = name.rpartition(".")
            if kernel in kernels[module]:
                called.add(name)
        for child in ast.iter_child_nodes(node):
            look(child, names)

    for module, tree in trees.items():
        names = {name: f"{module}.{name}" for name in kernels[module]}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        look(tree, names)
    return called


def test_kernels_that_python_calls_are_found():
    called = called_from_python()
    assert {"spectrem.kernels.unions.add_at", "spectrem.kernels.derivations.entropy"} <= called
    assert "spectrem.kernels.chains.chain._multiply" not in called


@pytest.mark.slow
def test_warmup_compiles_each_kernel_once():
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, check=True)
    compiled = Counter({name: int(number) for name, number in map(str.split, done.stdout.splitlines())})
    missing = {name for name in called_from_python() - NOT_COMPILED if not compiled[name]}
    assert not missing
    assert {name: number for name, number in compiled.items() if number > 1} == SIGNATURES
