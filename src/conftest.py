"""Examples that need a library which is not installed, and which most do without, are left out."""

from importlib.util import find_spec

collect_ignore = [
    path
    for name, path in {"icu4py": "spectrem/data/raw/segmented.py", "torch": "spectrem/torch"}.items()
    if not find_spec(name)
]
