"""Names of a package, and SciPy's sparse matrices, that are loaded on first use, so that a command loads what it needs.

``scipy.sparse`` takes a third of the time of Numba to load, and many commands never make a matrix. Modules import it as
``from spectrem._first_use import sparse as sp``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["on_first_use", "sparse"]

if TYPE_CHECKING:
    from scipy import sparse
else:

    class _Sparse:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("scipy.sparse"), name)

        def issparse(self, value: Any) -> bool:
            """Whether something is a sparse matrix, which nothing is as long as none can have been made."""
            return "scipy.sparse" in sys.modules and import_module("scipy.sparse").issparse(value)

    sparse = _Sparse()


def on_first_use(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package that finds names in the modules given, below the package.

    None of the names may be that of a module of the package: the module would take its place.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes})
