"""Which columns of a table hold scores, and the scores as `spectrem.project` takes them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spectrem.cli.table_options import TableConstraints, list_names, read_weights, split_names
from spectrem.data import Frame
from spectrem.data.frames import TEXT, as_label_names
from spectrem.exceptions import InvalidInputError
from spectrem.tables import Decision, ProjectedTable
from spectrem.tables.reading import SUM_TOLERANCE

DECIDED = "decided"
_ROUNDED = 0.02


class Scores(Protocol):
    """A table's scores, and how results go back into the table.

    Attributes
    ----------
    proba, labels :
        As `spectrem.project` takes them.
    told : str
        The labels in words.
    """

    @property
    def proba(self) -> Any: ...
    @property
    def labels(self) -> list[Any]: ...
    @property
    def told(self) -> str: ...

    def columns(self, columns: dict[str, NDArray]) -> dict[str, NDArray]:
        """Columns of the file in the order of the cells or rows."""

    def weights(self, name: str) -> NDArray[np.float64]:
        """A column of weights, one per row."""

    def filled(self, table: ProjectedTable, decision: Decision | None) -> Frame:
        """The file with projected probabilities."""


@dataclass(frozen=True, eq=False)
class WideScores:
    """A column per label."""

    frame: Frame
    names: list[str]
    labels: list[Any]
    proba: NDArray[np.float64]

    @property
    def told(self) -> str:
        return list_names(self.labels)

    def columns(self, columns: dict[str, NDArray]) -> dict[str, NDArray]:
        return columns

    def weights(self, name: str) -> NDArray[np.float64]:
        return read_weights(self.frame, name)

    def filled(self, table: ProjectedTable, decision: Decision | None) -> Frame:
        proba = np.asarray(table.proba)
        new = {name: proba[:, k] for k, name in enumerate(self.names)}
        if decision is not None:
            new[DECIDED] = np.array([str(label) for label in decision.labels.tolist()], TEXT)
        return self.frame.extended(new)


@dataclass(frozen=True, eq=False)
class LongScores:
    """A line per label of a row; ``order`` sorts lines by row, and ``offsets`` cuts them."""

    frame: Frame
    score: str
    labels: list[Any]
    proba: list[NDArray[np.float64]]
    order: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def told(self) -> str:
        return list_names(list(dict.fromkeys(label for row in self.labels for label in row)))

    def columns(self, columns: dict[str, NDArray]) -> dict[str, NDArray]:
        return {name: values[self.order] for name, values in columns.items()}

    def weights(self, name: str) -> NDArray[np.float64]:
        values = read_weights(self.frame, name)[self.order]
        first = values[self.offsets[:-1]]
        different = np.flatnonzero(values != np.repeat(first, np.diff(self.offsets)))
        if len(different):
            line = int(self.order[different[0]])
            raise InvalidInputError(
                f"{self.frame.name}, {self.frame.place(line)}, column {name!r}: weights of one row must be the same on "
                f"all its lines, found {values[different[0]]:g}; correct it"
            )
        return first

    def filled(self, table: ProjectedTable, decision: Decision | None) -> Frame:
        proba = np.empty(len(self.order))
        proba[self.order] = np.concatenate(table.proba)
        new: dict[str, NDArray] = {self.score: proba}
        if decision is not None:
            chosen = np.zeros(len(self.order), np.bool_)
            chosen[self.order[self.offsets[:-1] + decision.positions]] = True
            new[DECIDED] = chosen
        return self.frame.extended(new)


def wide_scores(
    frame: Frame,
    constraints: TableConstraints,
    labels: str | None,
    prefix: str | None,
    weights: str | None,
    log: bool,
    normalize: bool,
) -> WideScores:
    """Scores in a column per label: those named, those with a prefix, or all numbers that nothing else names.

    Raises
    ------
    InvalidInputError
        If there are fewer than two, a cell is no score, or rows do not sum to 1.
    """
    taken = [*constraints.used, *([] if weights is None else [weights])]
    if labels is not None:
        names = split_names(labels, "--labels")
        frame.check(names, "--labels")
        shown = names
    elif prefix is not None:
        names = [name for name in frame.names if name.startswith(prefix)]
        shown = [name.removeprefix(prefix) for name in names]
        if "" in shown:
            raise InvalidInputError(f"--prefix {prefix!r} is the whole name of a column; what follows it is the label")
    else:
        names = shown = frame.numeric(taken, "--labels or --prefix")
    if prefix is not None and not names:
        raise InvalidInputError(
            f"--prefix {prefix!r}: no column of {frame.name} begins so; its columns are "
            f"{', '.join(map(repr, frame.names))}"
        )
    if len(names) < 2:
        found = f"only {names[0]!r}" if names else "no column"
        raise InvalidInputError(
            f"{frame.name}: labels to choose among need two columns of scores or more, found {found}; the others are "
            f"{list_names(frame.others(names)) or 'none'}; name them by --labels a,b or --prefix p_, add a column of "
            "1 - p if there is one probability per row, or see --long"
        )
    hint = "give every label a score" + (", -inf if it is impossible" if log else ", 0 if it is impossible")
    proba = np.column_stack([frame.numbers(name, hint) for name in names])
    if log:
        _check_log(frame, proba, names)
    else:
        _check_proba(frame, proba, names)
        sums = proba.sum(axis=1)
        nought = np.flatnonzero(~proba.any(axis=1))
        if len(nought):
            raise InvalidInputError(
                f"{frame.name}, {frame.place(int(nought[0]))}: {list_names(names)} are all 0, so no label is possible"
                f"{_more(len(nought))}; give one of them a probability, or drop the row"
            )
        off = np.flatnonzero(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))
        if normalize:
            proba = proba / sums[:, None]
        elif len(off):
            raise InvalidInputError(
                f"{frame.name}, {frame.place(int(off[0]))}: {list_names(names)} sum to {sums[off[0]]:.6g}, not 1"
                f"{_more(len(off))}; {_other_ways(names, taken, labels is None and prefix is None, sums[off[0]])}"
                f"{_unused(frame, names, taken)}"
            )
    return WideScores(frame, names, as_label_names(shown), proba)


def long_scores(frame: Frame, columns: str, log: bool, normalize: bool) -> LongScores:
    """Scores in a line per label of a row.

    Raises
    ------
    InvalidInputError
        If a label stands twice in a row, a cell is no score, or a row does not sum to 1.
    """
    names = split_names(columns, "--long")
    if len(names) != 3:
        raise InvalidInputError(f"--long {columns!r}: must name three columns: row, label, score")
    frame.check(names, "--long")
    row, label, score = names
    rows, labels, values = frame.values(row), frame.values(label), frame.numbers(score, "give a score")
    _, first, code = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))  # rows in the order in which they come
    order = np.argsort(rank[code], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rank[code]))])
    cut = [values[order[a:b]] for a, b in pairwise(offsets)]
    named = [labels[order[a:b]].tolist() for a, b in pairwise(offsets)]
    for n, listed in enumerate(named):
        line = int(order[offsets[n]])
        if len(set(listed)) < len(listed):
            again = next(k for k, value in enumerate(listed) if value in listed[:k])
            line = int(order[offsets[n] + again])
            raise InvalidInputError(
                f"{frame.name}, {frame.place(line)}: the label {listed[again]!r} stands twice in row {rows[line]}; "
                "drop one, or tell rows apart in the column that --long names first"
            )
    if log:
        _check_log(frame, values[:, None], [score])
    else:
        _check_proba(frame, values[:, None], [score])
        sums = np.add.reduceat(values[order], offsets[:-1])
        off = np.flatnonzero(~(np.abs(sums - 1.0) <= SUM_TOLERANCE) & (~(sums > 0) | (not normalize)))
        if normalize:
            cut = [row / total for row, total in zip(cut, np.where(sums > 0, sums, 1.0), strict=True)]
        if len(off):
            line = int(order[offsets[off[0]]])
            raise InvalidInputError(
                f"{frame.name}, {frame.place(line)}: the scores of row {rows[line]} sum to {sums[off[0]]:.6g}, not 1"
                f"{_more(len(off))}; add --normalize to divide those of every row by their sum, or --log for "
                "log-probabilities and logits"
            )
    return LongScores(frame, score, named, cut, order, offsets)


def prefix_hint(names: list[str]) -> str:
    """What to try if the names of columns begin alike and the file of constraints names other labels."""
    common = _common_start(names)
    return f"; --prefix {common} takes the rest of the names of columns" if common and common not in names else ""


def _check_log(frame: Frame, scores: NDArray[np.float64], names: list[str]) -> None:
    row, column = _first(scores == np.inf)
    if row >= 0:
        raise InvalidInputError(
            f"{frame.name}, {frame.place(row)}, column {names[column]!r}: log-scores must be finite or -inf, found "
            "inf; clip it"
        )
    row, _ = _first(np.isneginf(scores.max(axis=1, keepdims=True)))
    if row >= 0 and len(names) > 1:
        raise InvalidInputError(f"{frame.name}, {frame.place(row)}: every label is impossible (-inf); drop the row")


def _check_proba(frame: Frame, scores: NDArray[np.float64], names: list[str]) -> None:
    row, column = _first((scores < 0) | (scores == np.inf))
    if row >= 0:
        raise InvalidInputError(
            f"{frame.name}, {frame.place(row)}, column {names[column]!r}: {scores[row, column]:g} is no probability; "
            "name the columns of scores by --labels, and add --log if they are log-probabilities or logits"
        )


def _first(bad: NDArray[np.bool_]) -> tuple[int, int]:
    found = np.argwhere(bad)
    return (int(found[0, 0]), int(found[0, 1])) if len(found) else (-1, -1)


def _unused(frame: Frame, names: list[str], taken: list[str]) -> str:
    """The columns that are neither scores nor named elsewhere, in words."""
    others = frame.others([*names, *taken])
    return f"; not used: {list_names(others)}" if others else ""


def _other_ways(names: list[str], left_out: list[str], chosen_by_rule: bool, total: float) -> str:
    if chosen_by_rule and abs(total - 1.0) < _ROUNDED:
        return f"if they are rounded, add --normalize and name the columns, --labels {','.join(names)}"
    if not chosen_by_rule:
        return (
            "name the columns of the other labels, too, or add --normalize to divide every row by its sum, or --log "
            "for log-probabilities or logits"
        )
    common = _common_start(names) or "p_"
    without = f" and neither the constraints nor --weights name them (as they do {list_names(left_out)})"
    return (
        f"they were taken for the scores because they hold numbers{without if left_out else ''}; correct the row, or "
        f"if others are meant, name the columns by --labels {','.join(names[-2:])} or --prefix {common}, and add --log "
        "for log-probabilities or logits"
    )


def _more(rows: int) -> str:
    return f" ({rows} such rows)" if rows > 1 else ""


def _common_start(names: list[str]) -> str:
    """What all names begin with."""
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    return "".join(column[0] for column in letters)
