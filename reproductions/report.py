"""What an experiment hands back: tables, claims of the paper held against our numbers, notes, and its figure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from reproductions.records import Record, group
from spectrem.data import write_lines
from spectrem.plotting import save_figure


@dataclass(frozen=True)
class Table:
    """Rows under named columns; None is an empty cell.

    Examples
    --------
    >>> table = Table("AER", ("size", "EM"), [(100, 0.25), (1000, None)])
    >>> print("\\n".join(table.lines()))
    AER
    size    EM
     100  0.25
    1000
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def lines(self) -> Iterator[str]:
        """The table for reading: numbers to the right, text to the left."""
        cells = [[_spell(value) for value in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        right = [all(not isinstance(row[k], str) for row in self.rows) for k in range(len(self.columns))]
        yield self.title
        for row in [list(self.columns), *cells]:
            padded = (
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            )
            yield "  ".join(padded).rstrip()

    def tsv(self) -> Iterator[str]:
        """A line of column names, then one line per row."""
        yield "\t".join(self.columns)
        for row in self.rows:
            yield "\t".join("" if value is None else str(value) for value in row)


def listing(records: Sequence[NamedTuple]) -> Table:
    """Every field of every record."""
    return Table("", records[0]._fields, records)


def pivot(title: str, records: Sequence[Record], row: str, column: str, cell: Callable[[list[Record]], Any]) -> Table:
    """A row for every value of one field, a column for every value of another, a cell of the records of both.

    Examples
    --------
    >>> Run = NamedTuple("Run", [("size", int), ("method", str), ("aer", float)])
    >>> runs = [Run(10, "EM", 0.5), Run(10, "PR", 0.25), Run(20, "EM", 0.125)]
    >>> print("\\n".join(pivot("AER", runs, "size", "method", lambda own: own[0].aer).lines()))
    AER
    size     EM    PR
      10    0.5  0.25
      20  0.125
    """
    cells = {key: cell(own) for key, own in group(records, row, column).items()}
    columns = list(group(records, column))
    rows = [(value, *(cells.get((value, name)) for name in columns)) for value in group(records, row)]
    return Table(title, (row, *columns), rows)


def beside_paper(published: Mapping[Any, Sequence[Any]], ours: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of what was measured, whose first two cells are a key and "ours", with the paper's above them.

    Parameters
    ----------
    published : mapping of key -> numbers
        Of the paper, which may print none of some keys, and fewer numbers than we measure.
    ours : iterable of tuple

    Examples
    --------
    >>> beside_paper({100: [0.3]}, [(100, "ours", 0.25, 7), (200, "ours", 0.2, 9)])
    [(100, 'paper', 0.3, None), (100, 'ours', 0.25, 7), (200, 'ours', 0.2, 9)]
    """
    rows: list[tuple[Any, ...]] = []
    for row in ours:
        key = row[0]
        if key in published and all(key != before[0] for before in rows):
            rows.append((key, "paper", *published[key], *[None] * (len(row) - 2 - len(published[key]))))
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Report:
    """Outcome of one experiment.

    Attributes
    ----------
    title : str
    tables : sequence of Table
        Printed.
    numbers : Table
        Every number measured, written as TSV.
    figure : matplotlib Figure
    claims : mapping of str -> bool
        What the paper says, and whether our numbers bear it out.
    notes : sequence of str
        What differs from the paper.
    headings : pair of str
        Over claims and notes.
    """

    title: str
    tables: Sequence[Table]
    numbers: Table
    figure: Figure
    claims: Mapping[str, bool] = field(default_factory=dict)
    notes: Sequence[str] = ()
    headings: tuple[str, str] = ("What the paper says of it", "What differs from the paper")

    def __str__(self) -> str:
        blocks = [[self.title], *(list(table.lines()) for table in self.tables)]
        if self.claims:
            held = (f"[{'holds' if holds else 'DOES NOT HOLD here'}] {text}" for text, holds in self.claims.items())
            blocks.append([self.headings[0], *held])
        if self.notes:
            blocks.append([self.headings[1], *(f"- {note}" for note in self.notes)])
        return "\n\n".join("\n".join(block) for block in blocks)

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write the figure (PNG), the numbers (TSV) and the text into a folder, as files of this name."""
        paths = [folder / f"{name}{ending}" for ending in (".png", ".tsv", ".txt")]
        save_figure(self.figure, paths[0])
        write_lines(paths[1], self.numbers.tsv())
        write_lines(paths[2], str(self).splitlines())
        return paths


def percent(share: float) -> float:
    """A share as a percentage of two decimals, as the papers print AER."""
    return round(100 * share, 2)


def bullets(text: str | None) -> list[str]:
    """The items of the list with which a module's docstring ends, for the notes of a report.

    Examples
    --------
    >>> bullets("Title.\\n\\n* One item\\n  of two lines.\\n* Another.")
    ['One item of two lines.', 'Another.']
    """
    return [" ".join(item.split()) for item in (text or "").split("\n* ")[1:]]


def tell(line: str) -> None:
    """Say on standard error how far an experiment has come."""
    print(line, file=sys.stderr, flush=True)


def _spell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
