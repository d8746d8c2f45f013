"""What the benchmarks share: modules from outside the project, and their places in README.md."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().with_name("README.md")


def load_module(folder: Path, name: str) -> Any:
    """A module of the folder of workload generators."""
    path = folder / f"{name}.py"
    if not path.is_file():
        sys.exit(f"--generator must be the folder of {name}.py, the workload generators; got {folder}; nothing was run")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timed(run: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Median wall-clock and processor seconds, and the last result."""
    walls, processors = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        result = run()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return statistics.median(walls), statistics.median(processors), result


def write_readme(name: str, content: str) -> None:
    """Put a table between the marks of its benchmark."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = README.read_text(encoding="utf-8").split(begin)
    README.write_text(f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}", encoding="utf-8")
