"""The sections of the pages of experiments, made of what the experiments wrote: no number is copied by hand.

``python docs/experiments.py NAME`` runs an experiment of ``reproductions`` and keeps its text and its figure in
``docs/experiments/results``, and in ``runs.tsv`` there, how it was run and how long it took. Options behind the name
are those of the experiment; its section says which were given.
"""

from __future__ import annotations

import csv
import io
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "experiments" / "results"
sys.path.insert(0, str(ROOT))

from reproductions.__main__ import EXPERIMENTS  # noqa: E402

LARGEST = 100_000  # bytes of a figure
SHOWN = 16  # rows of a table that is not folded
WITH_TEXT = {"pr-fig10": "Arcs of the sentence shown"}
"""Experiments whose figures show sentences of corpora, which are not passed on, with the beginning of the part of their
text that does, too."""


class Run(NamedTuple):
    """How a result came about; times are whole seconds, 0 where none was taken."""

    name: str
    options: str
    date: str
    wall: int
    processor: int


class Result(NamedTuple):
    """The parts of the text of a report: a table is a title and rows of cells, the first of them names of columns."""

    title: str
    tables: list[tuple[str, list[list[str]]]]
    claims: tuple[str, list[str]]
    notes: tuple[str, list[str]]


def keep(name: str, arguments: Sequence[str]) -> None:
    """Run an experiment, and keep its text, its figure and its times."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "reproductions", name, "--output", folder, *arguments]
        subprocess.run(command, cwd=ROOT, check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        date = datetime.now(UTC).date().isoformat()
        seconds = round(time.monotonic() - started), round(used.ru_utime + used.ru_stime)
        take(Path(folder), Run(name, " ".join(arguments), date, *seconds))


def take(folder: Path, run: Run) -> None:
    """Keep the text and the figure that an experiment has written into a folder."""
    from PIL import Image

    RESULTS.mkdir(exist_ok=True)
    text = (folder / f"{run.name}.txt").read_text(encoding="utf-8")
    if run.name in WITH_TEXT:
        text = "\n\n".join(part for part in text.split("\n\n") if not part.startswith(WITH_TEXT[run.name]))
    (RESULTS / f"{run.name}.txt").write_text(text, encoding="utf-8")
    if run.name not in WITH_TEXT:
        figure = Image.open(folder / f"{run.name}.png").convert("RGB")
        for n_colours in (128, 64, 32, 16):
            packed = io.BytesIO()
            figure.quantize(n_colours).save(packed, "png", optimize=True)
            if packed.tell() <= LARGEST:
                break
        (RESULTS / f"{run.name}.png").write_bytes(packed.getvalue())
    runs = {**runs_of(RESULTS), run.name: run}
    lines = ["\t".join(Run._fields), *("\t".join(map(str, runs[name])) for name in EXPERIMENTS if name in runs)]
    (RESULTS / "runs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def runs_of(folder: Path) -> dict[str, Run]:
    """The runs whose results lie in a folder, by name."""
    if not (folder / "runs.tsv").is_file():
        return {}
    with (folder / "runs.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t")
        runs = [Run(row["name"], row["options"], row["date"], int(row["wall"]), int(row["processor"])) for row in rows]
    return {run.name: run for run in runs}


def parse(text: str) -> Result:
    """The parts of the text of a report.

    Examples
    --------
    >>> parse("AER\\n\\nIn %\\nsize     EM    PR\\n  10         0.25\\n\\nClaims\\n[holds] PR is better").tables
    [('In %', [['size', 'EM', 'PR'], ['10', '', '0.25']])]
    """
    (title, *_), *blocks = (block.split("\n") for block in text.strip("\n").split("\n\n"))
    tables, claims, notes = [], ("", list[str]()), ("", list[str]())
    for heading, *lines in blocks:
        if all(line.startswith(("[holds] ", "[DOES NOT HOLD here] ")) for line in lines):
            claims = heading, lines
        elif all(line.startswith("- ") for line in lines):
            notes = heading, [line[2:] for line in lines]
        else:
            tables.append((heading, _cells(lines)))
    return Result(title, tables, claims, notes)


def _cells(lines: list[str]) -> list[list[str]]:
    """Cells of aligned lines: columns lie apart by two places or more that are blank in every line."""
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    written = "".join(" " if all(line[k] == " " for line in padded) else "x" for k in range(width))
    spans = [match.span() for match in re.finditer(r"x+(?: x+)*", written)]
    return [[line[begin:end].strip() for begin, end in spans] for line in padded]


def section(name: str, folder: Path, cite: Callable[[str], str] = str) -> str:
    """The section of an experiment in MyST's Markdown.

    Parameters
    ----------
    name : str
    folder : path
        Of the results.
    cite : callable
        Makes keys of papers in square brackets links.
    """
    summary, *paragraphs = _docstring(name)
    run = runs_of(folder).get(name)
    command = f"make reproduce NAME={name}"
    lines = [f"({name})=", f"## {_heading(summary)}", ""]
    lines += [line for paragraph in paragraphs for line in (cite(_escape(paragraph)), "")]
    if run is None:
        lines += [":::{admonition} No numbers here", ":class: warning", ""]
        lines += ["This experiment was not run for this page.", ":::", "", "```sh", command, "```", ""]
        return "\n".join(lines)
    result = parse((folder / f"{name}.txt").read_text(encoding="utf-8"))
    if (state := _state(run)) != "whole":
        lines += [f":::{{admonition}} Run: {state}", ":class: warning", ""]
        lines += [f"With `{run.options}`; the whole experiment was not run for this page."]
        if state == "small":
            lines += [
                "Less text, fewer starts and iterations show that everything works; they say nothing of the paper,"
            ]
            lines += ["and its claims are not held against them."]
            result = result._replace(claims=("", []))
        lines += [":::", ""]
    if name in WITH_TEXT:
        lines += [
            "Its figure, and the table of the arcs of one sentence, show text of a corpus and are not kept here.",
            "",
        ]
    if (folder / f"{name}.png").is_file():
        lines += [
            f"```{{image}} results/{name}.png",
            f":alt: {_heading(summary)}",
            ":class: figure",
            ":width: 720px",
            "```",
            "",
        ]
    for title, rows in result.tables:
        table = [*_table(rows)]
        if len(rows) > SHOWN + 1:
            lines += [f":::{{dropdown}} {cite(_escape(title))} ({len(rows) - 1} rows)", *table, ":::", ""]
        else:
            lines += [*([f"**{cite(_escape(title))}**", ""] if title else []), *table, ""]
    for heading, items in (result.claims, result.notes):
        if items:
            lines += [f"### {heading}", "", *(f"* {cite(_claim(item))}" for item in items), ""]
    lines += ["```sh", " ".join([command, *([f'ARGS="{run.options}"'] if run.options else [])]), "```", ""]
    times = f": {_time(run.processor)} of the processor, {_time(run.wall)} beside other work" if run.processor else ""
    lines += [f"Run on {run.date}{times}.", ""]
    return "\n".join(lines)


def overview(folder: Path, cite: Callable[[str], str] = str) -> str:
    """The table of all experiments."""
    runs = runs_of(folder)
    lines = ["| experiment | | run | of the processor |", "|---|---|---|---|"]
    for name in EXPERIMENTS:
        run = runs.get(name)
        seconds = _time(run.processor) if run and run.processor else ""
        lines.append(f"| [{name}](#{name}) | {cite(_escape(_docstring(name)[0]))} | {_state(run)} | {seconds} |")
    return "\n".join(lines) + "\n"


def write(folder: Path, cite: Callable[[str], str]) -> None:
    """Write the sections of all experiments, and the table of them, into a folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: section(name, RESULTS, cite) for name in EXPERIMENTS}
    for name, text in {**texts, "overview": overview(RESULTS, cite)}.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def _state(run: Run | None) -> str:
    if run is None:
        return "none"
    return "small" if "--quick" in run.options.split() else "in part" if run.options else "whole"


def _docstring(name: str) -> list[str]:
    """The paragraphs of the docstring of an experiment but for its list, which the report repeats."""
    text = (EXPERIMENTS[name].__doc__ or "").split("\n* ")[0]
    return [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]


def _heading(summary: str) -> str:
    text = re.sub(r"^\[\w+\]:? ", "", summary).rstrip(".")
    return text[0].upper() + text[1:]


def _table(rows: list[list[str]]) -> Iterator[str]:
    """A table; rows of the paper are bold, and columns of numbers stand to the right."""
    right = [all(re.fullmatch(r"[-+]?[\d.,]*|nan|[-+]?inf", row[k]) for row in rows[1:]) for k in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [_escape(cell) for cell in row]
        if "paper" in row:
            cells = [f"**{cell}**" if cell else "" for cell in cells]
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield "|" + "|".join("--:" if to_right else "---" for to_right in right) + "|"


def _claim(item: str) -> str:
    for mark, badge in (("[holds]", "{bdg-success}`holds`"), ("[DOES NOT HOLD here]", "{bdg-warning}`does not hold`")):
        if item.startswith(mark):
            return badge + _escape(item.removeprefix(mark))
    return _escape(item)


def _escape(text: str) -> str:
    """Signs that Markdown would read as its own, but for code in backticks."""
    parts = re.split(r"(`+[^`]+`+)", text)
    return "".join(part if k % 2 else re.sub(r"([*_|<$])", r"\\\1", part) for k, part in enumerate(parts))


def _time(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 120 else f"{round(seconds / 60)} minutes"


if __name__ == "__main__":
    keep(sys.argv[1], sys.argv[2:])
