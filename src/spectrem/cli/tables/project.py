"""`spectrem project`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations, takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from spectrem._progress import share_shown
from spectrem.cli.declare import Given, argument, files_of, option, takes
from spectrem.cli.ending import Advance, command_line, progress_bar, say
from spectrem.cli.files import command_files, opened
from spectrem.cli.rules import Rule, check_rules, excludes, needs
from spectrem.cli.tables.options import TableOptions, WeightOption, list_names, split_names, weight_column
from spectrem.estimators.shared_parameters import CONSTRAINTS
from spectrem.exceptions import InvalidInputError, counted, listed, spelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spectrem.data import TableFile
    from spectrem.tables import ConstraintReport, Decision, ProjectedTable, ScoreError

_SCORES, _PROJECTION, _MORE = "Scores", "Projection", "More results"
_NAMING = ("--labels", "--prefix", "--long")
_UNNAMED = "needs the columns of the scores, since any number may be one; give --labels, --prefix or --long"
_RULES = (
    Rule(
        (),
        ("--constraint", "--constraints"),
        "there is nothing to project onto; give --constraint TEXT or --constraints FILE",
    ),
    *(
        excludes(first, second, f"{first} and {second} all say where the scores are; give one of them")
        for first, second in combinations(_NAMING, 2)
    ),
    excludes(
        "--log",
        "--normalize",
        "--log and --normalize exclude each other: log-scores need not sum to anything; drop one",
    ),
    needs("--log", *_NAMING, message=f"--log {_UNNAMED}"),
    needs("--normalize", *_NAMING, message=f"--normalize {_UNNAMED}"),
    needs("--time-limit", "--decide", message="{--time-limit} concerns --decide; add it or drop this"),
)
_MEANINGS = {"row": "the number of the row", "label": "the label to be chosen"}
_DECIDED = "decided"
_ROUNDED = 0.02
_SHOWN = 10
_PER_POINT = "price_per_percentage_point"


@dataclass(frozen=True, kw_only=True)
class ProjectOptions(WeightOption):
    """The argument and options of `spectrem project`.

    Parameters
    ----------
    scores
        A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard input,
        CSV.
    labels
        The columns that hold the scores, one label each.
    prefix
        The scores are in the columns whose names start so; the rest of the name is the label.
    long
        One label of one row per line: the columns that tell the row, the label and its score. Rows may then differ
        in their labels.
    log
        Scores are log-probabilities or logits, not probabilities; -inf is impossible. Probabilities are written all
        the same.
    normalize
        Divide the scores of every row by their sum: for counts, and for probabilities that were rounded.
    gamma
        1: the nearest probabilities (in KL divergence). 0: the best ones, a linear program. -inf: one label for
        each row, an integer program. Others above 0 lie between or are softer.
    infeasible
        What to do about a sentence or row that cannot meet the constraints inside it: raise an error, or leave these
        constraints out there. To relax a constraint instead, give it slack.
    decide
        Add a column decided: one label per row such that the constraints hold exactly (with --long true or false).
    time_limit
        For --decide; then the best labels found so far count.
    prices
        A table of the constraints: bound, expected value before and after, price (nats gained per unit by which the
        bound is relaxed), violation; of shares also the price per percentage point.
    """

    scores: str = argument("SCORES")
    labels: str | None = option(
        None,
        metavar="A,B,C",
        show_default="all columns of numbers that neither --weights nor the constraints name",
        group=_SCORES,
    )
    prefix: str | None = option(None, metavar="TEXT", group=_SCORES)
    long: str | None = option(None, metavar="ROW,LABEL,SCORE", group=_SCORES)
    log: bool = option(False, group=_SCORES)
    normalize: bool = option(False, group=_SCORES)
    gamma: float = option(1.0, metavar="GAMMA", group=_PROJECTION)
    infeasible: Literal["raise", "skip"] = option("raise", group=CONSTRAINTS)
    decide: bool = option(False, group=_MORE)
    time_limit: float | None = option(None, min=0.0, metavar="SECONDS", show_default="300", group=_MORE)
    prices: str | None = option(None, metavar="FILE", group=_MORE, writes=True)


@takes()
def project(options: ProjectOptions, shared: TableOptions, given: Given) -> None:
    """Change the probabilities of any model as little as possible such that constraints hold.

    Example: **spectrem project scores.csv --constraint "E[label == 'spam'] <= '30%'" -o out.csv**

    Every row of SCORES is one instance; some columns hold the probabilities of its
    labels, which must sum to 1. Those are replaced. The other columns (document,
    type, ...) stay as they are, and constraints may name them, besides *label* and
    *row* (the number of the row, from 0). Where it is not clear which columns hold
    the scores, that is an error, never a guess.

    A file for --constraints that wants 20 to 30 % spam, and one title per document at most:

    **- some spam: E[label == 'spam'].between('20%', '30%')**

    **- (E[label == 'title'] <= 1).per('document')**
    """
    check_rules(_RULES, given)
    with command_files(*files_of(shared, options)):
        _project(options, shared)


def _project(options: ProjectOptions, shared: TableOptions) -> None:
    """Read, project, write."""
    from spectrem.cli.tables.options import read_table_constraints, rows_named
    from spectrem.data import open_table, read_table
    from spectrem.tables import ScoreError
    from spectrem.tables import project as project_table

    started = time.perf_counter()
    prices = nullcontext() if options.prices is None else open_table(options.prices)
    with open_table(shared.output) as write, prices as write_prices, opened(shared.report) as (page,):
        file = read_table(options.scores)
        if options.decide and _DECIDED in file.schema:
            raise InvalidInputError(f"{file.name} has a column {_DECIDED!r}, which --decide adds; rename it")
        constraints, columns = read_table_constraints(shared, file, _MEANINGS, (options.long or "").split(","))
        scores: Scores = WideScores(file, options, list(columns)) if options.long is None else LongScores(file, options)
        located = rows_named(file) if options.long is None else nullcontext()
        try:
            bar = progress_bar(1 + options.decide, shown=not shared.quiet)
            with bar as advance, spelled(scores.spellings), located:
                advance("Projecting")
                table = project_table(
                    scores.proba,
                    constraints,
                    options.gamma,
                    columns=scores.columns(columns),
                    labels=scores.labels,
                    scores="log" if options.log else "probabilities",
                    sample_weight=None if options.weights is None else scores.weights(options.weights),
                    infeasible=options.infeasible,
                )
                decision = _decide(table, options, advance) if options.decide else None
        except ScoreError as error:
            raise InvalidInputError(scores.refusal(error)) from error
        if write_prices is not None:
            write_prices(price_table(table.constraints))
        if page is not None:
            page.write(table.to_html(command_line()))
        (done, *details), proba = _summary(scores, table, decision, options.gamma), table.proba
        del table, columns  # rows are written piece by piece, which needs none of it
        filled = scores.filled(proba, decision)
        del scores, proba
        write(filled)
    if not shared.quiet:
        say(f"{done} in {time.perf_counter() - started:.1f} s: {details[0]}", *details[1:])


def _decide(table: ProjectedTable, options: ProjectOptions, advance: Advance) -> Decision:
    """The labels, while the bar moves on by one."""
    advance("Deciding", 1.0)
    show = share_shown(advance, "Deciding", lambda share: None)
    return table.decide(time_limit=options.time_limit, on_step=show)


def _summary(scores: Scores, table: ProjectedTable, decision: Decision | None, gamma: float) -> list[str]:
    """Lines of the summary: what was projected, violations, the constraints that bind, decisions."""
    from spectrem.reports.constraints import constraint_lines, total_cost

    n_rows, onto = sum(len(report.bound) for report in table.constraints), counted(len(table.constraints), "constraint")
    onto += "" if n_rows == len(table.constraints) else f" ({n_rows} rows of them)"
    summary = [
        f"projected {counted(len(table.proba), 'row')}, labels {scores.described}, onto {onto}",
        f"worst violation {table.violation_before:.3g} before, {table.violation_after:.2g} after"
        + ("" if table.kl is None else f", cost {table.kl:.4g} nats"),
    ]
    binding = sorted((one for one in table.constraints if one.binding.any()), key=total_cost, reverse=True)
    if binding:
        lines = constraint_lines(binding, _SHOWN)
        summary += [
            "constraints that bind, those that cost most first, prices in nats:",
            *(f"  {line}" for line in lines),
        ]
    elif table.multipliers.size and gamma >= 0:
        summary.append("no constraint binds; the probabilities are what they were")
    if decision is not None:
        summary.append(
            f"decided: {decision.n_changed} of {len(table.proba)} labels differ from the most probable before; "
            f"score {decision.score:.6g} nats, gap to the relaxation {decision.gap:.2g}"
        )
    return summary


def price_table(reports: Sequence[ConstraintReport]) -> TableFile:
    """A row for each row of every constraint: what it is, its group, bound, values, price, violation.

    Where there are shares, a last column has their prices per percentage point.
    """
    import polars

    from spectrem.data import TableFile

    numbers = ("bound", "before", "after", "price", "violation")
    keys = list(dict.fromkeys(key for report in reports for key in report.keys))
    titles = {key: f"{key}_" if key in ("constraint", "sense", *numbers, _PER_POINT) else key for key in keys}
    text = dict.fromkeys(("constraint", *titles.values(), "sense"), polars.String)
    parts = [
        polars.DataFrame(
            {"constraint": [report.name] * len(report.bound)}
            | {title: map(str, report.keys[key].tolist()) for key, title in titles.items() if key in report.keys}
            | {"sense": report.sense.tolist()}
            | {name: getattr(report, "violation_after" if name == "violation" else name) for name in numbers}
            | ({_PER_POINT: report.price / report.scale} if report.is_share else {}),
        )
        for report in reports
    ]
    empty = polars.DataFrame(schema=text | dict.fromkeys(numbers, polars.Float64))
    return TableFile("prices", polars.concat([empty, *parts], how="diagonal").lazy(), is_text=True)


# ---- scores and how results and errors go back into their table ------------------------------------------------------


class WideScores:
    """Scores in a column per label: those named, those with a prefix, or all numbers that nothing else names.

    Parameters
    ----------
    file : TableFile
    options : ProjectOptions
    constrained : list of str
        Columns that the constraints name.

    Raises
    ------
    InvalidInputError
        If there are fewer than two.
    """

    def __init__(self, file: TableFile, options: ProjectOptions, constrained: list[str]) -> None:
        from spectrem.data.table_file import as_label_names

        prefix = options.prefix
        taken = [*constrained, *([] if options.weights is None else [options.weights])]
        if options.labels is not None:
            names = split_names(file, options.labels, "--labels")
            labels = names
        elif prefix is not None:
            names = [name for name in file.names if name.startswith(prefix)]
            labels = [name.removeprefix(prefix) for name in names]
            if "" in labels:
                raise InvalidInputError(
                    f"--prefix {prefix!r} is the whole name of a column; what follows it is the label"
                )
            if not names:
                raise InvalidInputError(
                    f"--prefix {prefix!r}: no column of {file.name} begins so; its columns are {listed(file.names)}"
                )
        else:
            names = labels = file.numeric(taken, "--labels or --prefix")
        if len(names) < 2:
            columns = f"only {names[0]!r}" if names else "no column"
            raise InvalidInputError(
                f"{file.name}: labels to choose among need two columns of scores or more, found {columns}; the others "
                f"are {list_names(file.others(names)) or 'none'}; name them by --labels a,b or --prefix p_, add a "
                "column of 1 - p if there is one probability per row, or see --long"
            )
        self.file, self.options, self.names, self.taken = file, options, names, taken
        self.labels: list[Any] = as_label_names(labels)
        self.by_rule = options.labels is None and prefix is None

    @property
    def proba(self) -> NDArray[np.float64]:
        """The scores, shape (n_rows, n_labels), read anew."""
        import numpy as np

        hint = f"give every label a score, {'-inf' if self.options.log else '0'} if it is impossible"
        proba = self.file.numbers(self.names, lambda name: hint)
        if self.options.normalize:
            sums = proba.sum(axis=1, keepdims=True)
            proba /= np.where((proba >= 0).all(axis=1, keepdims=True) & (sums > 0) & (sums < np.inf), sums, 1.0)
        return proba

    @property
    def described(self) -> str:
        return list_names(self.labels)

    @property
    def spellings(self) -> dict[str, str]:
        """A hint at --prefix, if the names of columns begin alike and the file of constraints names other labels."""
        names = [str(label) for label in self.labels]
        common = _common_start(names)
        if not self.by_rule or not common or common in names:
            return {}
        return {"no such label": f"; --prefix {common} takes the rest of the names of columns"}

    def columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        return columns

    def weights(self, name: str) -> NDArray[np.float64]:
        return weight_column(self.file, name)

    def filled(self, proba: Any, decision: Decision | None) -> TableFile:
        new: dict[str, Any] = {name: proba[:, k] for k, name in enumerate(self.names)}
        if decision is not None:
            new[_DECIDED] = list(map(str, decision.labels.tolist()))
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


class LongScores:
    """Scores in a line per label of a row; ``order`` sorts lines by row, and ``offsets`` cuts them.

    Raises
    ------
    InvalidInputError
        If a label stands twice in a row, or a cell is not a number.
    """

    spellings: ClassVar[dict[str, str]] = {}

    def __init__(self, file: TableFile, options: ProjectOptions) -> None:
        import numpy as np
        import polars

        assert options.long is not None
        if options.long.count(",") != 2:
            raise InvalidInputError(f"--long {options.long!r}: must name three columns: row, label, score")
        row, label, self.score = split_names(file, options.long, "--long")
        self.file, self.rows = file, file.values(row)
        labels, values = file.values(label), file.numbers([self.score], lambda name: "give a score")[:, 0]
        lines = polars.DataFrame({"row": self.rows, "label": labels, "score": values}).with_row_index("line")
        grouped = lines.group_by("row", maintain_order=True).agg("line", "label", "score")
        twice = grouped["label"].list.n_unique() < grouped["label"].list.len()
        if twice.any():
            _, places, of_row, _ = grouped.row(int(twice.to_numpy().argmax()))
            again = next(k for k, value in enumerate(of_row) if value in of_row[:k])
            first = file.place(places[of_row.index(of_row[again])])
            raise InvalidInputError(
                f"{file.name}, {file.place(places[again])}: the label {of_row[again]!r} stands twice in row "
                f"{self.rows[places[again]]}, first in {first}; drop one, or tell rows apart in the column that --long "
                "names first"
            )
        self.labels: list[Any] = grouped["label"].to_list()
        self.proba = [np.array(one) for one in grouped["score"].to_list()]
        if options.normalize:
            self.proba = [one / one.sum() if (one >= 0).all() and 0 < one.sum() < np.inf else one for one in self.proba]
        self.offsets = np.concatenate([[0], grouped["line"].list.len().cum_sum().to_numpy()]).astype(np.int64)
        self.order = grouped["line"].explode().to_numpy().astype(np.int64)

    @property
    def described(self) -> str:
        return list_names(list(dict.fromkeys(label for row in self.labels for label in row)))

    def columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        return {name: values[self.order] for name, values in columns.items()}

    def weights(self, name: str) -> NDArray[np.float64]:
        import numpy as np

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
        import numpy as np

        flat = np.empty(len(self.order))
        flat[self.order] = np.concatenate(proba)
        new: dict[str, NDArray] = {self.score: flat}
        if decision is not None:
            chosen = np.zeros(len(self.order), np.bool_)
            chosen[self.order[self.offsets[:-1] + decision.positions]] = True
            new[_DECIDED] = chosen
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


Scores: TypeAlias = WideScores | LongScores


def _no_score(error: ScoreError) -> str:
    """Describe what is wrong with one cell."""
    if error.rule == "infinite log":
        return "log-scores must be finite or -inf, found inf; clip it"
    if error.rule == "large log":
        return (
            f"the log-score {error.value:g} is so large that differences and sums overflow; subtract it from all "
            "scores of the row"
        )
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
