"""What an experiment hands back: tables, claims of the paper held against our numbers, notes, and its figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectrem.data import write_lines
from spectrem.plotting import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and whether our numbers bear it out."""

    text: str
    holds: bool

    def __str__(self) -> str:
        return f"[{'holds' if self.holds else 'DOES NOT HOLD here'}] {self.text}"


@dataclass(frozen=True)
class Report:
    """Outcome of one experiment.

    Attributes
    ----------
    name : str
        Also the stem of the files that `write` makes.
    title : str
    tables : sequence of Table
        Printed.
    numbers : Table
        Every number measured, written as TSV.
    figure : matplotlib Figure
    claims : sequence of Claim
    notes : sequence of str
        What differs from the paper.
    headings : pair of str
        Over claims and notes.
    """

    name: str
    title: str
    tables: Sequence[Table]
    numbers: Table
    figure: Figure
    claims: Sequence[Claim] = field(default=())
    notes: Sequence[str] = field(default=())
    headings: tuple[str, str] = ("What the paper says of it", "What differs from the paper")

    def __str__(self) -> str:
        blocks = [[self.title], *(list(table.lines()) for table in self.tables)]
        if self.claims:
            blocks.append([self.headings[0], *map(str, self.claims)])
        if self.notes:
            blocks.append([self.headings[1], *(f"- {note}" for note in self.notes)])
        return "\n\n".join("\n".join(block) for block in blocks)

    def write(self, folder: Path) -> list[Path]:
        """Write the figure (PNG), the numbers (TSV) and the text into a folder, which is made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{self.name}{ending}" for ending in (".png", ".tsv", ".txt")]
        save_figure(self.figure, paths[0])
        write_lines(paths[1], self.numbers.tsv())
        write_lines(paths[2], str(self).splitlines())
        return paths


def percent(share: float) -> float:
    """A share as a percentage of two decimals, as the papers print AER."""
    return round(100 * share, 2)


def _spell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
