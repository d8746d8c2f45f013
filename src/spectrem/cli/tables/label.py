"""`spectrem label fit`, `predict` and `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import typer

from spectrem.cli.declare import Command, Given, Settings, files_of, option, takes
from spectrem.cli.ending import say
from spectrem.cli.evaluation import print_result, print_scores, print_sign_tests, score_cell
from spectrem.cli.files import command_files
from spectrem.cli.options import FILES, JsonOption, LearningOptions, LoadOption, OutputOption, QuietOption
from spectrem.cli.prediction import load_model
from spectrem.cli.rules import CONSTRAINED, check_rules, excludes
from spectrem.cli.tables.options import (
    COLUMNS,
    IdOption,
    KnownOption,
    TableOption,
    WeightOption,
    check_named,
    list_names,
    read_table_constraints,
    row_names,
    rows_named,
    weight_column,
)
from spectrem.cli.training import MOST_CONSTRAINTS, Annealing, Home, TrainingRun, learning
from spectrem.estimators.votes.parameters import LabelModelParameters
from spectrem.exceptions import InvalidInputError, counted, listed, quoted

if TYPE_CHECKING:
    import numpy as np
    import polars
    from numpy.typing import NDArray

    from spectrem.data import TableFile
    from spectrem.estimators.votes.input import Votes

app = typer.Typer(
    help="Label items by the votes of annotators, judges or rules: learn how these err, label items, judge the labels.",
    no_args_is_help=True,
)
_LABEL = "label"
_MEANINGS = {
    "row": "the number of the item",
    _LABEL: "the label",
    "source": "the source of a vote",
    "vote": "the label that a vote names",
    "silent": "whether an item has no vote",
}
_EVERYDAY = (
    *("data", "save", "votes", "table_columns", "known", "truth", "id", "group", "weights", "sources", "confusion"),
    *("classes", "repeated", "constraint", "constraints", "report", "quiet", "gamma", "max_iter", "infeasible"),
    *("project_at_predict", "n_threads"),
)
"""The options that ``--help`` shows of `fit`."""
_COLUMNS = ("--group", "--known", "--weights", "--id")
_ADVICE = {"classes": "--classes", "repeated": "--repeated"}
_ONE_TRUTH = excludes("--known", "--truth", "{--known} and {--truth} both name labels; drop one of them")
_WRENCH = (".json", ".json.gz")


@dataclass(frozen=True, kw_only=True)
class VoteOptions(TableOption):
    """The argument and options of commands that read votes.

    Parameters
    ----------
    data
        Either it has a column for every source, or a row for every vote, whose item, source and label --columns
        names; a source is silent where a cell is empty, NA, NaN or -1. Or WRENCH's JSON (.json, also .gz), a table of
        the columns id, text, label and 0, 1, ... of sources; a file label.json beside it names the labels.
    group
        The column of groups of items, which have shares of labels of their own.
    """

    group: str | None = option(None, metavar="COLUMN", group=COLUMNS)


@dataclass(frozen=True, kw_only=True)
class TruthOptions(IdOption, KnownOption, VoteOptions):
    """The argument and options of commands that read votes, and labels that are known.

    Parameters
    ----------
    truth
        Labels that are known already, in a table of two columns, items and labels; items are those of --columns, of
        --id or of JSON.
    """

    truth: str | None = option(None, metavar="FILE", group=FILES, reads=True)


@dataclass(frozen=True, kw_only=True)
class FittingOptions(WeightOption, TruthOptions, LearningOptions):
    """The argument and options of `spectrem label fit` besides the parameters of `LabelModel`.

    Parameters
    ----------
    votes
        The columns of votes, one of every source; * stands for any letters: 'lf_*' or '*'.
    constraint
        "E[part('label') == 'spam'] <= '30%'": of all items. label, source, vote, silent (no source votes) and row are
        names; other names are columns of the table. See docs/guide/constraints.md.
    """

    votes: str | None = option(None, metavar="A,B,C", group=COLUMNS)


@app.command(cls=Command)
@takes(LabelModelParameters, shown=_EVERYDAY)
def fit(options: FittingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn how sources err, and the shares of labels, from votes and what is known.

    Example: **spectrem label fit votes.csv --columns item,worker,label --save model.npz --constraint
    "E[part('label') == 'spam'] <= '30%'"**
    """
    check_rules([*CONSTRAINED, _ONE_TRUTH], given)
    with learning([options], settings, annealing, home) as placed:
        import numpy as np

        from spectrem.estimators import LabelModel

        run = TrainingRun(options)
        columns = placed.get("table_columns", LabelModelParameters.table_columns)
        items = _Items.open(options, columns, options.votes is not None, given)
        named = items.check_named(options)
        of_format = () if items.file is items.table and items.listed is None else [*_MEANINGS]
        constraints, used = read_table_constraints(options, items.file, _MEANINGS, of_format)
        weights = None if options.weights is None else weight_column(items.file, options.weights)
        votes, y = items.read(items.sources(options.votes, [*named, *used]), options)
        items.check_same([*named, *used])
        model = LabelModel(constraints=constraints, **placed)
        with items.named():
            of_items: dict[str, Any] = {"sample_weight": weights, "groups": items.groups(options), "columns": used}
            run.fit(model, lambda: model.fit(votes, y, **of_items), advice=_ADVICE)
    read = _numbered(model, votes)
    outcome = f": {counted(model.n_iter_, 'iteration')}, objective {model.objective_:.6g} nats"
    learned = f"{counted(len(read.sources), 'source')} of {model.kind_} for {list_names(model.classes_.tolist())}"
    run.report(model, learned, range(read.n_items), len(read.label), outcome, ("item", "vote"))
    if not options.quiet:
        silent = int((np.diff(read.offsets) == 0).sum())
        mean = len(read.label) / max(read.n_items - silent, 1)
        say(f"  {silent} items have no vote, the others {mean:.3g} on average")
        item = np.repeat(np.arange(read.n_items), np.diff(read.offsets))
        n_votes = np.bincount(read.source, minlength=len(read.sources))
        right = np.bincount(read.source, model.label_distributions_[item, read.label], len(read.sources))
        for k in np.argsort(-n_votes, kind="stable")[:MOST_CONSTRAINTS].tolist():
            share = f", {right[k] / n_votes[k]:.1%} right" if n_votes[k] else ""
            say(f"  {read.sources[k]}: votes {n_votes[k]}{share}")


@dataclass(frozen=True, kw_only=True)
class PredictingOptions(IdOption, VoteOptions, QuietOption, OutputOption, LoadOption):
    """The argument and options of `spectrem label predict` besides parameters of `LabelModel`.

    Parameters
    ----------
    output
        The name says in which format: .csv, .tsv (either also .gz) or .parquet; standard output is CSV.
    hard
        Write the labels without their probabilities.
    """

    hard: bool = option(False)


@app.command()
@takes(LabelModelParameters, only=["table_columns", "project_at_predict", "infeasible", "n_threads"])
def predict(options: PredictingOptions, settings: Settings, given: Given) -> None:
    """Label items by votes with a trained model.

    Example: **spectrem label predict votes.csv --load model.npz -o labels.csv**

    Writes a row for every item: its name, if items have names, a column of
    probabilities for every label in order, and the column *label*.
    """
    with command_files(*files_of(options)):
        import numpy as np
        import polars

        from spectrem.data import TableFile, open_table

        with open_table(options.output) as write:
            model, items, votes, _, proba = _applied(options, settings, given)
            names = items.names(options.id)
            written = {} if names is None else {names.name: names}
            for k, name in enumerate([] if options.hard else model.classes_.tolist()):
                if str(name) in (*written, _LABEL):
                    raise InvalidInputError(
                        f"the label {name!r} and another column would both be called {str(name)!r}; write --hard, or "
                        "rename the label and train again"
                    )
                written[str(name)] = proba[:, k]
            labels = model.classes_[proba.argmax(axis=1)]
            write(TableFile("labels", polars.DataFrame({**written, _LABEL: labels}).lazy()))
    if not options.quiet:
        counts = [f"{name}: {int((labels == name).sum())}" for name in model.classes_.tolist()]
        silent = int((np.diff(_numbered(model, votes).offsets) == 0).sum())
        say(f"labels of {counted(len(labels), 'item')}, {silent} of them without a vote: {list_names(counts)}")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(TruthOptions, JsonOption, LoadOption):
    """The argument and options of `spectrem label evaluate` besides parameters of `LabelModel`.

    Parameters
    ----------
    known
        Of WRENCH's JSON it is label by default.
    """


@app.command()
@takes(LabelModelParameters, only=["table_columns", "project_at_predict", "infeasible", "n_threads"])
def evaluate(options: EvaluationOptions, settings: Settings, given: Given) -> None:
    """Compare labels of a trained model, and the majority vote, with labels that are known.

    Example: **spectrem label evaluate votes.csv --load model.npz --truth truth.csv**

    Labels with equally many votes share an item in the majority vote: each of two has
    it by half; items without a vote are shared by all labels. Its probabilities are
    shares of votes beside one more that all labels share. The calibration error is the
    mean distance between probabilities and how often they are right, in ten bins. The
    sign test counts the items that one has right more than the other.
    """
    check_rules([_ONE_TRUTH], given)
    with command_files(*files_of(options)):
        import numpy as np

        from spectrem.metrics import sign_test

        if options.known is None and options.truth is None and options.data.endswith(_WRENCH):
            options = replace(options, known=_LABEL)
        model, items, votes, y, proba = _applied(options, settings, given)
        classes = model.classes_.tolist()
        if y is None:
            raise InvalidInputError("no item has a known label; give --known COLUMN or --truth FILE")
        known = np.array([label is not None for label in y])
        if unknown := [label for label in y if label is not None and label not in classes]:
            raise InvalidInputError(
                f"{options.truth or items.file.name}: known labels must be those of the model, {quoted(classes)}, "
                f"found {quoted(unknown[0])}; correct it, or train with --classes"
            )
        if not known.any():
            raise InvalidInputError(f"{items.file.name}: no item has a known label; name them by --known or --truth")
        gold = np.array([classes.index(label) for label in y if label is not None])
        read = _numbered(model, votes)
        counts = np.full(proba.shape, 1 / len(classes))
        np.add.at(counts, (np.repeat(np.arange(read.n_items), np.diff(read.offsets)), read.label), 1)
        sides = {}
        for name, table in (("model", proba), ("majority vote", counts / counts.sum(axis=1, keepdims=True))):
            best = np.isclose(table, table.max(axis=1, keepdims=True), rtol=1e-9, atol=0)
            if name == "model":
                best = np.eye(len(classes))[table.argmax(axis=1)]
            sides[name] = _scores((best / best.sum(axis=1, keepdims=True))[known], table[known], gold, classes)
        right = [side.pop("right") for side in sides.values()]
        test = asdict(sign_test(*right))
        silent = int((np.diff(read.offsets) == 0)[known].sum())
        result = {"n": len(gold), "n_silent": silent, **sides, "sign_test": {"items": test}}
        print_result(result, options.as_json, lambda: _show(result, sides))


def _show(result: Mapping[str, Any], sides: Mapping[str, Mapping[str, Any]]) -> None:
    rows = []
    for name, value in next(iter(sides.values())).items():
        if isinstance(value, dict):
            rows += [[f"  F1 of {one}", *(score_cell(side[name][one]) for side in sides.values())] for one in value]
        else:
            rows.append([name.replace("_", " "), *(score_cell(side[name]) for side in sides.values())])
    typer.echo(f"{counted(result['n'], 'item')} with a known label, {result['n_silent']} of them without a vote")
    print_scores([*sides], rows)
    print_sign_tests(result["sign_test"], " (the model, the majority vote)")


def _scores(
    decided: NDArray[np.float64], proba: NDArray[np.float64], gold: NDArray[np.int64], classes: Sequence[Any]
) -> dict[str, Any]:
    """Measures of decisions, which may share an item between labels, and of probabilities; shape (n_items, n_classes).

    ``right`` is the share of the true label of every item.
    """
    import numpy as np

    from spectrem.metrics import reliability

    truth = np.eye(len(classes))[gold]
    sizes = decided.sum(axis=0) + truth.sum(axis=0)
    f1 = 2 * np.divide((decided * truth).sum(axis=0), sizes, out=np.zeros(len(classes)), where=sizes > 0)
    with np.errstate(divide="ignore"):
        loss = float(-np.log((proba * truth).sum(axis=1)).mean())
    bins = reliability(np.minimum(proba, 1.0), truth)
    right = (decided * truth).sum(axis=1)
    return {
        "accuracy": float(right.mean()),
        "macro_F1": float(f1[sizes > 0].mean()),
        "f1": {str(name): float(score) for name, score in zip(classes, f1, strict=True)},
        "log_loss": loss if np.isfinite(loss) else None,
        "calibration_error": float(np.nansum(bins.counts * np.abs(bins.expected - bins.observed)) / proba.size),
        "right": right,
    }


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Items:
    """Items, and the votes on them.

    Attributes
    ----------
    file : TableFile
        With a row for every item.
    table : TableFile
        That of DATA: the same, or one with a row for every vote.
    columns : sequence of str
        What a table with a row for every vote calls items, sources and labels.
    listed : list of str, optional
        The columns of votes of WRENCH's JSON.
    """

    file: TableFile
    table: TableFile
    columns: Sequence[str]
    listed: list[str] | None = None

    @classmethod
    def open(cls, options: Any, columns: Sequence[str], by_source: bool, given: Given) -> _Items:
        from spectrem.data import TableFile, read_table, read_weak_items

        if options.data.endswith(_WRENCH):
            import polars

            read = read_weak_items(options.data)
            votes = {str(k): column.tolist() for k, column in enumerate(read.votes.T)}
            data = polars.DataFrame({"id": read.ids, "text": read.texts, _LABEL: read.labels, **votes})
            file = TableFile(options.data, data.lazy())
            return cls(file, file, columns, list(votes))
        table = read_table(options.data)
        if "--columns" in given:
            table.check(columns, "--columns")
        if by_source or not set(columns) <= set(table.names):
            return cls(table, table, columns)
        if options.id is not None:
            raise InvalidInputError(
                f"--id {options.id} changes nothing: column {columns[0]!r} names the items; drop it"
            )
        rows, line_of = table.values(columns[0]).is_first_distinct().arg_true(), table.line_of
        file = replace(
            table,
            name=table.name if line_of else f"{table.name} by item",
            data=table.data.collect(engine="streaming")[rows].lazy(),
            line_of=line_of and (lambda row: line_of(rows[row])),
            n_rows=len(rows),
        )
        return cls(file, table, columns)

    def check_named(self, options: Any) -> list[str]:
        """Columns that options name, if the table has them."""
        return check_named(self.file, {flag: getattr(options, flag[2:], None) for flag in _COLUMNS})

    def check_same(self, names: Collection[str]) -> None:
        """Refuse columns of items that are not the same wherever there are votes on an item."""
        import polars

        for name in names if self.file is not self.table else ():
            cells = polars.DataFrame({"item": self.table.values(self.columns[0]), "": self.table.keys(name)})
            first = cells.select(polars.col("").first().over("item")).to_series()
            differs = cells[""].ne_missing(first)
            if differs.any():
                row = int(differs.arg_max() or 0)
                raise self.table.refusal(
                    row,
                    name,
                    f"{quoted(cells[''][row])} differs from {quoted(first[row])} in the first row of item "
                    f"{quoted(cells['item'][row])}; a column of items must be the same in all rows of an item",
                )

    def sources(self, votes: str | None, others: Collection[str]) -> list[str]:
        """The columns of labels: that of a table with a row for every vote, or one of every source."""
        if self.file is not self.table:
            return [self.columns[2]]
        if votes is None and self.listed is not None:
            return self.listed
        if votes is None:
            raise InvalidInputError(
                f"{self.file.name}: where are the votes? Name the columns of sources by --votes or, where every row is "
                f"a vote, those of items, sources and labels by --columns; its columns are {listed(self.file.names)}"
            )
        free = [name for name in self.listed or self.file.names if name not in others]
        chosen = []
        for name in (one.strip() for one in votes.split(",")):
            matching = [name] if name in self.file.schema else [one for one in free if fnmatchcase(one, name)]
            self.file.check(matching or [name], "--votes")
            chosen += [one for one in matching if one not in chosen]
        return chosen

    def read(self, sources: Sequence[str], options: Any, model: Any = None) -> tuple[polars.DataFrame, Any]:
        """Votes as `LabelModel` takes them, and labels of items that are known; text where those of a model are."""
        import polars

        cells = {name: self.table.keys(name) for name in sources}
        known = getattr(options, "known", None)
        if getattr(options, "truth", None) is not None:
            cells[""] = self._truth(options.truth, options.id)
        elif known is not None:
            cells[""] = self.file.keys(known)
        labels = _as_labels(cells, model is not None and model.classes_.dtype.kind == "U")
        y = labels.pop("", None)
        if self.file is not self.table:
            source = self.table.values(self.columns[1])
            if model is not None and model.sources_.dtype.kind == "U":
                source = source.cast(polars.String)
            labels = {self.columns[0]: self.table.values(self.columns[0]), self.columns[1]: source, **labels}
        return polars.DataFrame(labels), None if y is None else y.to_list()

    def names(self, id: str | None) -> polars.Series | None:
        """The names of items, if they have any."""
        if self.file is not self.table:
            return self.file.values(self.columns[0])
        if id is None and self.listed is None:
            return None
        return row_names(self.file, id or "id")

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let errors of this block that are about votes, groups or labels begin with the table."""
        try:
            with rows_named(self.file):
                yield
        except InvalidInputError as error:
            if not re.match(r"(votes|groups|y|labels|column \S+) must ", str(error)):
                raise
            raise InvalidInputError(f"{self.table.name}: {error}") from error

    def groups(self, options: VoteOptions) -> list[Any] | None:
        return None if options.group is None else self.file.values(options.group).to_list()

    def _truth(self, path: str, id: str | None) -> polars.Series:
        """Labels in the order of items from a table of two columns."""
        import polars

        from spectrem.data import read_table

        table, names = read_table(path), self.names(id)
        if names is None:
            raise InvalidInputError("--truth needs names of items; name the column that has them by --id")
        if len(table.names) != 2:
            raise InvalidInputError(
                f"{table.name}: must have two columns, items and labels, found {len(table.names)}: "
                f"{listed(table.names)}"
            )
        item, labels = row_names(table, table.names[0], "--truth"), table.keys(table.names[1])
        there = item.is_in(names.cast(polars.String).implode())
        if not there.all():
            row = int((~there).arg_max() or 0)
            raise table.refusal(row, table.names[0], f"{quoted(item[row])} is not an item of {self.file.name}; drop it")
        place = polars.DataFrame({"item": names.cast(polars.String)}).join(
            polars.DataFrame({"item": item, "label": labels}), on="item", how="left", maintain_order="left"
        )
        return place["label"]


def _as_labels(columns: Mapping[str, polars.Series], as_text: bool) -> dict[str, polars.Series]:
    """Labels of one kind: text if some are, else numbers, whole ones where all are; null where there is none."""
    import polars

    columns = {name: one.cast(polars.String) if one.dtype == polars.Null else one for name, one in columns.items()}
    silence = {name: one.cast(polars.String).is_in(["-1", "-1.0"]) for name, one in columns.items()}
    columns = {name: one.set(silence[name].fill_null(False), None) for name, one in columns.items()}
    as_text |= any(one.dtype == polars.String and one.count() for one in columns.values())
    for name, one in columns.items():
        if one.dtype.is_float() and (one.drop_nulls() == one.drop_nulls().floor()).all():
            columns[name] = one.cast(polars.Int64)
        if as_text:
            columns[name] = columns[name].cast(polars.String)
    return columns


def _applied(options: Any, settings: Settings, given: Given) -> tuple[Any, _Items, polars.DataFrame, Any, Any]:
    """A model, items, the votes on them, labels that are known, and probabilities of labels by the model."""
    from spectrem.constraints.columns import as_column
    from spectrem.constraints.compilation.draft import used_columns
    from spectrem.estimators import LabelModel

    model = load_model(options.load, [LabelModel], settings, given)
    items = _Items.open(options, model.table_columns, False, given)
    named = items.check_named(options)
    if model.groups_ is None and options.group is not None:
        raise InvalidInputError(f"--group {options.group} changes nothing: the model was trained without it; drop it")
    if model.groups_ is not None and options.group is None:
        raise InvalidInputError(f"--load {options.load}: the model was trained with --group; name the column again")
    sources = list(map(str, model.sources_.tolist()))
    if items.file is items.table:
        items.file.check(sources, f"--load {options.load}")
    used = set().union(*map(used_columns, model.constraints)) if model.project_at_predict else set()
    columns = {
        name: as_column(name, items.file.keys(name)) for name in used - _MEANINGS.keys() if name in items.file.schema
    }
    items.check_same([*named, *columns])
    votes, y = items.read(sources if items.file is items.table else [items.columns[2]], options, model)
    with items.named():
        proba = model.predict_proba(votes, groups=items.groups(options), columns=columns)
    return model, items, votes, y, proba


def _numbered(model: Any, votes: polars.DataFrame) -> Votes:
    """Votes by numbers, labels by those of the classes of a model."""
    import numpy as np

    from spectrem.estimators.votes.input import read_votes

    read = read_votes(votes, model.table_columns, repeated=model.repeated)
    cells = read.source * len(model.classes_) + np.searchsorted(model.classes_, read.labels)[read.label]
    return read._replace(labels=model.classes_, cells=cells)
