"""Processor seconds of compiling in the first run of a command, with an empty cache of compiled code."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import tempfile
from pathlib import Path
from subprocess import DEVNULL

from common import processor_seconds, write_readme

from spectrem.data import write_conllu, write_lines, write_tag_dictionary, write_tagged
from spectrem.datasets import make_bitext, make_tagged_corpus, make_treebank

_COMMANDS = (
    "warmup",
    "demo --n-pairs 60",
    "align en fr -o links",
    "tag train tagged --dictionary tags --save tagger",
    "tag train plain --crf --labelled tagged --save field",
    "tag predict field plain -o out",
    "parse train trees --save parser",
    "parse predict parser trees -o out",
    "project d.csv --labels ham,spam -c c.yaml -o out.csv",
    "cluster d.csv -k 2 -o out.csv",
)


def write_inputs(folder: Path) -> None:
    """Small generated files for the commands."""
    bitext, corpus = make_bitext(10, seed=0), make_tagged_corpus(40)
    write_lines(folder / "en", bitext.source)
    write_lines(folder / "fr", bitext.target)
    write_tagged(folder / "tagged", corpus.words, corpus.tags)
    write_tag_dictionary(folder / "tags", corpus.dictionary)
    write_lines(folder / "plain", map(" ".join, corpus.words))
    write_conllu(folder / "trees", make_treebank(12))
    shares = [0.1 + k / 50 for k in range(27)]
    write_lines(folder / "d.csv", ["ham,spam", *(f"{1 - p!r},{p!r}" for p in shares)])
    write_lines(folder / "c.yaml", ["- E[label == 'spam'] == 9"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{datetime.date.today()}. Each command begins with an empty cache; compiled once, it takes what is left.",
        "",
        "| command | processor s, compiling | afterwards |",
        "|---|--:|--:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        for command in _COMMANDS:
            with tempfile.TemporaryDirectory() as cache:
                empty = {**os.environ, "NUMBA_CACHE_DIR": cache}
                first, second = (
                    processor_seconds(command.split(), cwd=folder, env=empty, stderr=DEVNULL) for _ in range(2)
                )
            lines.append(f"| spectrem {command} | {first - second:.1f} | {second:.1f} |")
            print(lines[-1], flush=True)
    if options.write:
        write_readme("cold", "\n".join(lines))


if __name__ == "__main__":
    main()
