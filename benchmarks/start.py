"""Processor seconds of commands that hardly work: what it takes to start."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import tempfile
from pathlib import Path

from common import processor_seconds, write_readme

_PAIRS = "the house ||| das haus\n" * 10
_COMMANDS = {
    "spectrem --help": ["--help"],
    "spectrem align, 10 sentence pairs": ["align", "FEW", "--n-threads", "1", "-q"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="of which the least counts")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{datetime.date.today()}; least of {options.repeats}.",
        "",
        "| command | processor s |",
        "|---|--:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder, "few.txt")
        few.write_text(_PAIRS, encoding="utf-8")
        for name, arguments in _COMMANDS.items():
            given = [str(few) if argument == "FEW" else argument for argument in arguments]
            processor_seconds(given)  # compiles, if nothing has before
            lines.append(f"| {name} | {min(processor_seconds(given) for _ in range(options.repeats)):.2f} |")
    table = "\n".join(lines)
    print(table)
    if options.write:
        write_readme("start", table)


if __name__ == "__main__":
    main()
