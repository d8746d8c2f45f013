"""Which columns of a table hold scores, and the scores as `spectrem.project` takes them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spectrem.cli.tables.options import list_names, split_names, weight_column
from spectrem.data import TableFile
from spectrem.data.table_file import as_label_names
from spectrem.exceptions import InvalidInputError, listed
from spectrem.tables import Decision, ScoreError

if TYPE_CHECKING:
    import polars

DECIDED = "decided"
_ROUNDED = 0.02


@dataclass(frozen=True, eq=False)
class WideScores:
    """A column per label.

    Attributes
    ----------
    hint : str
        What to do about a cell without a score.
    normalize : bool
        Whether rows are divided by their sums.
    by_rule : bool
        Whether no option named the columns.
    taken : list of str
        Columns that the constraints and ``--weights`` name.
    """

    file: TableFile
    names: list[str]
    labels: list[Any]
    hint: str
    normalize: bool
    by_rule: bool
    taken: list[str]

    @property
    def proba(self) -> NDArray[np.float64]:
        """The scores, shape (n_rows, n_labels), read anew."""
        proba = self.file.numbers(self.names, lambda name: self.hint)
        if self.normalize:
            sums = proba.sum(axis=1, keepdims=True)
            proba /= np.where((proba >= 0).all(axis=1, keepdims=True) & (sums > 0) & (sums < np.inf), sums, 1.0)
        return proba

    @property
    def described(self) -> str:
        return list_names(self.labels)

    def columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        return columns

    def weights(self, name: str) -> NDArray[np.float64]:
        return weight_column(self.file, name)

    def filled(self, proba: Any, decision: Decision | None) -> TableFile:
        new: dict[str, Any] = {name: proba[:, k] for k, name in enumerate(self.names)}
        if decision is not None:
            new[DECIDED] = list(map(str, decision.labels.tolist()))
        return self.file.extended(new)

    def refusal(self, error: ScoreError) -> str:
        place, names = f"{self.file.name}, {self.file.place(error.row)}", list_names(self.names)
        if error.position is not None:
            return f"{place}, column {self.names[error.position]!r}: {_no_score(error)}"
        if error.rule == "impossible":
            return f"{place}: every label is impossible (-inf); drop the row"
        if error.rule == "zero":
            return (
                f"{place}: {names} are all 0, so no label is possible{_more(error)}; give one of them a probability, "
                "or drop the row"
            )
        others = self.file.others([*self.names, *self.taken])
        unused = f"; not used: {list_names(others)}" if others else ""
        return (
            f"{place}: {names} sum to {error.value:.6g}, not 1{_more(error)}; {self._other_ways(error.value)}{unused}"
        )

    def _other_ways(self, total: float) -> str:
        names, common = self.names, _common_start(self.names) or "p_"
        if not self.by_rule:
            return (
                "name the columns of the other labels, too, or add --normalize to divide every row by its sum, or "
                "--log for log-probabilities or logits"
            )
        if abs(total - 1.0) < _ROUNDED:
            return f"if they are rounded, add --normalize and name the columns, --labels {','.join(names)}"
        without = f" and neither the constraints nor --weights name them (as they do {list_names(self.taken)})"
        return (
            f"they were taken for the scores because they hold numbers{without if self.taken else ''}; correct the "
            f"row, or if others are meant, name the columns by --labels {','.join(names[-2:])} or --prefix {common}, "
            "and add --log for log-probabilities or logits"
        )


@dataclass(frozen=True, eq=False)
class LongScores:
    """A line per label of a row; ``order`` sorts lines by row, and ``offsets`` cuts them."""

    file: TableFile
    score: str
    rows: polars.Series
    labels: list[Any]
    proba: list[NDArray[np.float64]]
    order: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def described(self) -> str:
        return list_names(list(dict.fromkeys(label for row in self.labels for label in row)))

    def columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        return {name: values[self.order] for name, values in columns.items()}

    def weights(self, name: str) -> NDArray[np.float64]:
        values = weight_column(self.file, name)[self.order]
        first = values[self.offsets[:-1]]
        different = np.flatnonzero(values != np.repeat(first, np.diff(self.offsets)))
        if len(different):
            raise self.file.refusal(
                int(self.order[different[0]]),
                name,
                f"weights of one row must be the same on all its lines, found {values[different[0]]:g}; correct it",
            )
        return first

    def filled(self, proba: Any, decision: Decision | None) -> TableFile:
        flat = np.empty(len(self.order))
        flat[self.order] = np.concatenate(proba)
        new: dict[str, NDArray] = {self.score: flat}
        if decision is not None:
            chosen = np.zeros(len(self.order), np.bool_)
            chosen[self.order[self.offsets[:-1] + decision.positions]] = True
            new[DECIDED] = chosen
        return self.file.extended(new)

    def refusal(self, error: ScoreError) -> str:
        line = int(self.order[self.offsets[error.row] + (error.position or 0)])
        place, row = f"{self.file.name}, {self.file.place(line)}", self.rows[line]
        if error.position is not None:
            return f"{place}, column {self.score!r}: {_no_score(error)}"
        if error.rule == "impossible":
            return f"{place}: every label of row {row} is impossible (-inf); drop the row"
        return (
            f"{place}: the scores of row {row} sum to {error.value:.6g}, not 1{_more(error)}; add --normalize to "
            "divide those of every row by their sum, or --log for log-probabilities and logits"
        )


Scores = WideScores | LongScores
"""A table's scores as `spectrem.project` takes them, and how results and errors go back into the table."""


def wide_scores(
    file: TableFile,
    constrained: list[str],
    labels: str | None,
    prefix: str | None,
    weights: str | None,
    normalize: bool,
    log: bool,
) -> WideScores:
    """Scores in a column per label: those named, those with a prefix, or all numbers that nothing else names.

    Raises
    ------
    InvalidInputError
        If there are fewer than two.
    """
    taken = [*constrained, *([] if weights is None else [weights])]
    if labels is not None:
        names = split_names(labels, "--labels")
        file.check(names, "--labels")
        shown = names
    elif prefix is not None:
        names = [name for name in file.names if name.startswith(prefix)]
        shown = [name.removeprefix(prefix) for name in names]
        if "" in shown:
            raise InvalidInputError(f"--prefix {prefix!r} is the whole name of a column; what follows it is the label")
    else:
        names = shown = file.numeric(taken, "--labels or --prefix")
    if prefix is not None and not names:
        raise InvalidInputError(
            f"--prefix {prefix!r}: no column of {file.name} begins so; its columns are {listed(file.names)}"
        )
    if len(names) < 2:
        columns = f"only {names[0]!r}" if names else "no column"
        raise InvalidInputError(
            f"{file.name}: labels to choose among need two columns of scores or more, found {columns}; the others are "
            f"{list_names(file.others(names)) or 'none'}; name them by --labels a,b or --prefix p_, add a column of "
            "1 - p if there is one probability per row, or see --long"
        )
    hint = f"give every label a score, {'-inf' if log else '0'} if it is impossible"
    return WideScores(file, names, as_label_names(shown), hint, normalize, labels is None and prefix is None, taken)


def long_scores(file: TableFile, columns: str, normalize: bool) -> LongScores:
    """Scores in a line per label of a row.

    Raises
    ------
    InvalidInputError
        If a label stands twice in a row, or a cell is not a number.
    """
    import polars

    names = split_names(columns, "--long")
    if len(names) != 3:
        raise InvalidInputError(f"--long {columns!r}: must name three columns: row, label, score")
    file.check(names, "--long")
    row, label, score = names
    rows, labels = file.values(row), file.values(label)
    values = file.numbers([score], lambda name: "give a score")[:, 0]
    lines = polars.DataFrame({"row": rows, "label": labels, "score": values}).with_row_index("line")
    grouped = lines.group_by("row", maintain_order=True).agg("line", "label", "score")
    twice = grouped["label"].list.n_unique() < grouped["label"].list.len()
    if twice.any():
        _, places, listed, _ = grouped.row(int(twice.to_numpy().argmax()))
        again = next(k for k, value in enumerate(listed) if value in listed[:k])
        raise InvalidInputError(
            f"{file.name}, {file.place(places[again])}: the label {listed[again]!r} stands twice in row "
            f"{rows[places[again]]}; drop one, or tell rows apart in the column that --long names first"
        )
    cut = [np.array(one) for one in grouped["score"].to_list()]
    if normalize:
        cut = [one / one.sum() if (one >= 0).all() and 0 < one.sum() < np.inf else one for one in cut]
    offsets = np.concatenate([[0], grouped["line"].list.len().cum_sum().to_numpy()]).astype(np.int64)
    order = grouped["line"].explode().to_numpy().astype(np.int64)
    return LongScores(file, score, rows, grouped["label"].to_list(), cut, order, offsets)


def prefix_hint(names: list[str]) -> str:
    """A hint at --prefix, if the names of columns begin alike and the file of constraints names other labels."""
    common = _common_start(names)
    return f"; --prefix {common} takes the rest of the names of columns" if common and common not in names else ""


def _no_score(error: ScoreError) -> str:
    """Describe what is wrong with one cell."""
    if error.rule == "infinite log":
        return "log-scores must be finite or -inf, found inf; clip it"
    return (
        f"{error.value:g} is not a probability; name the columns of scores by --labels, and add --log if they are "
        "log-probabilities or logits"
    )


def _more(error: ScoreError) -> str:
    return f" ({error.n_rows} such rows)" if error.n_rows > 1 else ""


def _common_start(names: list[str]) -> str:
    """The longest common beginning of all names."""
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    return "".join(column[0] for column in letters)
