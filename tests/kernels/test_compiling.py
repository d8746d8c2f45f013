"""What makes kernels slow to compile is not written in them."""

import ast
from pathlib import Path

import pytest

import spectrem

ROOT = Path(spectrem.__file__).parent


def find_kernels():
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(one) for one in node.decorator_list):
                yield pytest.param(node, id=f"{path.relative_to(ROOT)}:{node.name}")


KERNELS = list(find_kernels())


def has_slice(node):
    return isinstance(node, ast.Subscript) and any(isinstance(one, ast.Slice) for one in ast.walk(node.slice))


def array_assignments(function):
    """Assignments of slices or tuples to entries or slices: Numba compiles the texts of NumPy's errors for them."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                for to, value in zip(target.elts, node.value.elts, strict=True) if both else [(target, node.value)]:
                    if isinstance(to, ast.Subscript) and (has_slice(value) or isinstance(value, ast.Tuple)):
                        yield ast.unparse(node)


@pytest.mark.parametrize("function", KERNELS)
def test_no_array_is_assigned_to_entries_of_another(function):
    assert not list(array_assignments(function))


@pytest.mark.parametrize("function", KERNELS)
def test_no_sorts_and_extremes_of_numpy(function):
    """They take half a second to two seconds each; a loop takes a tenth."""
    called = {
        node.func.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not called & {"sort", "argsort", "max", "min"}


@pytest.mark.parametrize("line", ["a[1] = b[:3]", "a[:2], c = b[1:], 0", "a[k] = 1, 2"])
def test_such_assignments_are_found(line):
    assert list(array_assignments(ast.parse(line)))


@pytest.mark.parametrize("line", ["a[:] = 0.0", "a[1], a[2] = 3, 4", "row = b[:3]", "a[1] = b[2]"])
def test_others_are_allowed(line):
    assert not list(array_assignments(ast.parse(line)))
