"""Seconds and memory of `spectrem project` on a table of a million rows, beside polars; see README.md."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from common import most_anonymous, write_readme

_LABELS = ("title", "body", "other")
_SHARES = "- E[label == 'title'].between('25%', '30%')\n- E[label == 'other'] <= '45%'\n"
_DOCUMENTS = "- at_most(6, 'title', per='document')\n"


def write_tables(path: Path, other: Path, n_rows: int) -> None:
    """A name, one of n_rows / 10 documents, and the probabilities of three labels in each row, as CSV and Parquet."""
    import numpy as np
    import polars

    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1.0, 0.7, 2.0], n_rows).round(6)
    proba[:, 2] = np.abs((1.0 - proba[:, 0] - proba[:, 1]).round(6))
    document = rng.integers(0, n_rows // 10, n_rows).tolist()
    with path.open("w", encoding="utf-8") as table:
        table.write(f"id,document,{','.join(_LABELS)}\n")
        for row, (one, scores) in enumerate(zip(document, proba.tolist(), strict=True)):
            table.write(f"r{row},d{one},{','.join(f'{score:.6f}' for score in scores)}\n")
    polars.read_csv(path).write_parquet(other)


def run(arguments: list[str]) -> tuple[float, float, float]:
    """Wall and processor seconds of one command, and the most anonymous memory that it held, in MB."""
    command = [sys.executable, "-c", "from spectrem.cli import main; main()", *arguments]
    started = time.perf_counter()
    process = subprocess.Popen(command)
    with most_anonymous(process.pid) as most:
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    if status:
        sys.exit(f"{arguments[0]} failed with status {os.waitstatus_to_exitcode(status)}; nothing was measured")
    return wall, usage.ru_utime + usage.ru_stime, most()


def run_polars(path: Path, out: Path) -> tuple[float, float]:
    """Wall and processor seconds in which polars reads a table and writes it."""
    code = (
        "import sys, time, polars; started = time.perf_counter(), time.process_time(); "
        f"polars.read_{path.suffix[1:]}(sys.argv[1]).write_{path.suffix[1:]}(sys.argv[2]); "
        "print(time.perf_counter() - started[0], time.process_time() - started[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, path, out], capture_output=True, text=True, check=True)
    wall, processor = map(float, done.stdout.split())
    return wall, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{datetime.date.today()}; {options.rows:,} rows, median of {options.repeats}.",
        "",
        "| constraints | from | wall s | processor s | of polars' | anonymous memory MB |",
        "|---|---|--:|--:|--:|--:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, other = Path(folder, "scores.csv"), Path(folder, "scores.parquet")
        with ProcessPoolExecutor(1) as pool:
            pool.submit(write_tables, source, other, options.rows).result()
        rules = {"shares of labels": _SHARES, "the same and titles per document": _SHARES + _DOCUMENTS}
        for path in (source, other):
            out, found, peer = path.with_stem("projected"), {name: [] for name in rules}, []
            for _ in range(options.repeats):  # by turns, as other work on the machine comes and goes
                peer.append(run_polars(path, path.with_stem("copied")))
                for name, text in rules.items():
                    file = Path(folder, "rules.yaml")
                    file.write_text(text, encoding="utf-8")
                    found[name].append(run(["project", str(path), "-c", str(file), "-o", str(out), "-q"]))
            wall_peer, processor_peer = map(statistics.median, zip(*peer, strict=True))
            for name, runs in found.items():
                wall, processor, memory = map(statistics.median, zip(*runs, strict=True))
                ratio = processor / processor_peer
                lines.append(
                    f"| {name} | {path.suffix[1:]} | {wall:.2f} | {processor:.2f} | {ratio:.1f} | {memory:.0f} |"
                )
            lines.append(
                f"| polars reads and writes it | {path.suffix[1:]} | {wall_peer:.2f} | {processor_peer:.2f} | | |"
            )
    table = "\n".join(lines)
    print(table)
    if options.write:
        write_readme("tables", table)


if __name__ == "__main__":
    main()
