"""What the benchmarks share: modules from outside the project, and their places in README.md."""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def processor_seconds(arguments: list[str], **options: Any) -> float:
    """User and system time of one command of spectrem, run with the options of `subprocess.Popen`."""
    command = [sys.executable, "-c", "from spectrem.cli import main; main()", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(arguments)} failed with status {os.waitstatus_to_exitcode(status)}; nothing was measured")
    return usage.ru_utime + usage.ru_stime


def anonymous(pid: int | str = "self") -> float:
    """MB of anonymous pages that a process holds now; NaN where the system does not say.

    Unlike its resident size they do not depend on which pages of libraries and files are in the system's cache.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return math.nan
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), default=math.nan)


@contextmanager
def most_anonymous(pid: int | None = None) -> Iterator[Callable[[], float]]:
    """The most anonymous memory of this process, or of any of another's family, by looking every few milliseconds."""
    stop, most = threading.Event(), math.nan

    def look() -> None:
        nonlocal most
        while True:
            for one in [os.getpid()] if pid is None else _family(pid):
                now = anonymous(one)
                most = now if math.isnan(most) else max(most, now)  # NaN is never larger
            if stop.wait(0.003):
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lambda: most
    finally:
        stop.set()
        thread.join()


def run_measured(command: list[str], **options: Any) -> tuple[subprocess.CompletedProcess[Any], float]:
    """Run a command to its end with the options of `subprocess.Popen`, and the most anonymous memory that it held."""
    with subprocess.Popen(command, **options) as process, most_anonymous(process.pid) as most:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors), most()


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in _family(int(child)))]


def write_readme(name: str, content: str) -> None:
    """Put a table between the marks of its benchmark."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = README.read_text(encoding="utf-8").split(begin)
    README.write_text(f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}", encoding="utf-8")
