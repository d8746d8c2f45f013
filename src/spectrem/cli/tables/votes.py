"""Votes on items of a table, or on words of sentences, as the commands `spectrem label` read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO

from spectrem.cli.declare import Given, Settings
from spectrem.cli.options import LEAST_PROBABILITY
from spectrem.cli.prediction import posterior_lines
from spectrem.cli.tables.options import check_named, row_names, rows_named
from spectrem.cli.training import refuse_parameters
from spectrem.estimators.votes.parameters import LabelModelParameters
from spectrem.estimators.votes.sequence_parameters import SequenceLabelModelParameters
from spectrem.exceptions import InvalidInputError, listed, quoted

if TYPE_CHECKING:
    import numpy as np
    import polars
    from numpy.typing import NDArray

    from spectrem.data import TableFile, WeakItems, WeakSentences
    from spectrem.estimators.votes.input import Votes
    from spectrem.estimators.votes.sequence_input import TokenVotes

LABEL = "label"
JSON = (".json", ".json.gz")
_CONLL = (".conll", ".conll.gz")
_COLUMNS = ("--group", "--known", "--weights", "--id")
_OF_TABLES = ("--columns", "--group", "--weights", "--id", "--truth")


def open_votes(
    options: Any, columns: Sequence[str], given: Given, votes: str | None = None, sources: Sequence[Any] | None = None
) -> Items | Sentences:
    """The votes of DATA: on words of sentences in columns and where the texts of JSON are lists, else on items.

    Parameters
    ----------
    options : VoteOptions
    columns : sequence of str
        What a table with a row for every vote calls items, sources and labels.
    given : Given
    votes : str, optional
        The columns that --votes names.
    sources : sequence of str or int, optional
        Those of a model of sentences, in its order, in place of ``votes``.
    """
    from spectrem.data.weak import WeakSentences, read_wrench

    if options.data.endswith(_CONLL):
        read: WeakItems | WeakSentences = _read_columns(options, votes, sources)
    elif options.data.endswith(JSON):
        read = read_wrench(options.data)
    else:
        return Items.open(options, columns, votes is not None, given)
    if not isinstance(read, WeakSentences):
        return Items.of_json(options.data, read, columns)
    for flag in _OF_TABLES:
        if flag in given:
            advice = "; weights of sentences are sample_weight of SequenceLabelModel.fit" * (flag == "--weights")
            raise InvalidInputError(
                f"{flag} concerns items of tables, but {options.data} holds sentences; drop it{advice}"
            )
    return Sentences(options.data, read, "line" if options.data.endswith(_CONLL) else "record").of(votes, sources)


def check_parameters_of(kind: type, settings: Settings, given: Given) -> None:
    """Refuse options of the estimator of items where votes are on words, and the other way round."""
    of_items = kind is LabelModelParameters
    other = SequenceLabelModelParameters if of_items else LabelModelParameters
    message = (
        f"concerns {'words of sentences' if of_items else 'items of tables'}, which are not labelled here; drop it"
    )
    refuse_parameters(settings, given, other, kind, message)


@contextmanager
def opened_labels(output: str | None, kind: type) -> Iterator[Any]:
    """A function that writes a table, for items; a stream, for sentences; None without a path."""
    from spectrem.data import open_output, open_table

    if output is None:
        yield None
    else:
        with (open_table if kind is LabelModelParameters else open_output)(output) as opened:
            yield opened


@contextmanager
def input_named(name: str) -> Iterator[None]:
    """Let errors of this block that are about votes, groups or labels begin with their file."""
    try:
        yield
    except InvalidInputError as error:
        if not re.match(r"(votes|groups|y|labels|column \S+)( and y)? must ", str(error)):
            raise
        raise InvalidInputError(f"{name}: {error}") from error


class Cast(NamedTuple):
    """Votes by numbers.

    Attributes
    ----------
    n : int
        Items, or words of all sentences.
    unit, source, label : ndarrays of shape (n_votes,), int64
        Of every vote: its item or word, its source, and its label, a class or tag of the model.
    sources : list of str or int
    votes : Votes or TokenVotes
        What they were numbered from, as the estimators take it.
    """

    n: int
    unit: NDArray[np.int64]
    source: NDArray[np.int64]
    label: NDArray[np.int64]
    sources: Sequence[Any]
    votes: Any

    @property
    def silent(self) -> NDArray[np.bool_]:
        """The items or words without a vote."""
        import numpy as np

        return np.bincount(self.unit, minlength=self.n) == 0


@dataclass(frozen=True)
class Items:
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

    parameters: ClassVar = LabelModelParameters

    @classmethod
    def of_json(cls, name: str, read: WeakItems, columns: Sequence[str]) -> Items:
        """The table that WRENCH's JSON stands for."""
        import polars

        from spectrem.data import TableFile

        votes = {str(k): column.tolist() for k, column in enumerate(read.votes.T)}
        data = polars.DataFrame({"id": read.ids, "text": read.texts, LABEL: read.labels, **votes})
        file = TableFile(name, data.lazy())
        return cls(file, file, columns, list(votes))

    @classmethod
    def open(cls, options: Any, columns: Sequence[str], by_source: bool, given: Given) -> Items:
        from spectrem.data import read_table

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
        with input_named(self.table.name), rows_named(self.file):
            yield

    def groups(self, options: Any) -> list[Any] | None:
        return None if options.group is None else self.file.values(options.group).to_list()

    def numbered(self, model: Any, read: Votes) -> Cast:
        """Votes by numbers, labels by those of the classes of a model."""
        import numpy as np

        item = np.repeat(np.arange(read.n_items), read.sizes)
        label = np.searchsorted(model.classes_, read.labels)[read.label]
        return Cast(read.n_items, item, read.source, label, read.sources.tolist(), read)

    def write(
        self, output: Callable[[TableFile], None], model: Any, proba: NDArray[np.float64], id: str | None, hard: bool
    ) -> list[Any]:
        """Write a row for every item, and return their labels."""
        import polars

        from spectrem.data import TableFile

        names = self.names(id)
        written: dict[str, Any] = {} if names is None else {names.name: names}
        for k, name in enumerate([] if hard else model.classes_.tolist()):
            if str(name) in (*written, LABEL):
                raise InvalidInputError(
                    f"the label {name!r} and another column would both be called {str(name)!r}; write --hard, or "
                    "rename the label and train again"
                )
            written[str(name)] = proba[:, k]
        labels = model.classes_[proba.argmax(axis=1)]
        output(TableFile("labels", polars.DataFrame({**written, LABEL: labels}).lazy()))
        decided: list[Any] = labels.tolist()
        return decided

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


@dataclass(frozen=True)
class Sentences:
    """Sentences, and the votes on their words.

    Attributes
    ----------
    name : str
        Of the file.
    data : WeakSentences
    unit : {"line", "record"}
        What their ids number.
    """

    name: str
    data: WeakSentences
    unit: str

    parameters: ClassVar = SequenceLabelModelParameters

    def place(self, number: int) -> str:
        """Where a sentence stands in the file, for messages."""
        return f"{self.name}, {self.unit} {self.data.ids[number]}"

    def of(self, votes: str | None, sources: Sequence[Any] | None) -> Sentences:
        """The same with the votes of some sources: those that --votes names, or those of a model in its order."""
        names = list(self.data.sources)
        if self.unit == "line" or (votes is None and sources is None):
            return self
        wanted = (
            [str(one) for one in sources] if sources is not None else [one.strip() for one in str(votes).split(",")]
        )
        chosen: list[int] = []
        for name in wanted:
            matching = [k for k, one in enumerate(names) if one == name or (sources is None and fnmatchcase(one, name))]
            if not matching:
                raise InvalidInputError(
                    f"{self.name}: has no source {quoted(name)}, which "
                    f"{'the model was trained with' if votes is None else '--votes names'}; its sources are "
                    f"{listed(names)}"
                )
            chosen += [k for k in matching if k not in chosen]
        data = replace(self.data, votes=[one[:, chosen] for one in self.data.votes], sources=[names[k] for k in chosen])
        return replace(self, data=data)

    def read(self, known: bool) -> tuple[TokenVotes, list[Any] | None]:
        """Votes as `SequenceLabelModel` takes them, and the tags that are known, if they are wanted."""
        import numpy as np

        from spectrem.estimators.votes.sequence_input import read_token_votes

        lengths = np.array([len(words) for words in self.data.words], np.int64)
        with input_named(self.name):
            votes = read_token_votes(self.data.votes, lengths, self.data.sources)
            return votes, list(self.data.tags) if known else None

    def numbered(self, model: Any, read: TokenVotes) -> Cast:
        """Votes by numbers, tags by those of a model."""
        from spectrem.estimators.sentences import tag_numbers

        tag = tag_numbers(model.tags_, read.tags)[read.tag]
        return Cast(sum(map(len, self.data.words)), read.token, read.source, tag, read.sources, read)

    def write(self, output: TextIO, model: Any, predicted: Sequence[Any], hard: bool) -> None:
        """Write a line for every word: a tab and its tag or, of tables, likely tags with their probabilities."""
        from spectrem.data import write_tagged

        if hard:
            write_tagged(output, self.data.words, predicted, "columns")
        else:
            names = model.tags_
            output.writelines(posterior_lines(self.data.words, predicted, lambda _, k: names[k], LEAST_PROBABILITY))


def _read_columns(options: Any, votes: str | None, sources: Sequence[Any] | None) -> WeakSentences:
    """Columns by the numbers of sources, those that --votes names or those of a model, and of known tags."""
    from spectrem.data import read_weak_columns

    numbers: dict[str, list[int] | None] = {}
    texts = {"--votes": votes, "--known": getattr(options, "known", None)}
    names = None if sources is None else list(map(str, sources))
    if names is not None and not all(name.isdecimal() for name in names):
        raise InvalidInputError(
            f"--load {options.load}: the model has the sources {listed(names)}, but those of {options.data} have "
            "numbers; give JSON as it was trained on"
        )
    for flag, text in texts.items():
        try:
            numbers[flag] = None if text is None else [int(one) for one in text.split(",")]
        except ValueError:
            raise InvalidInputError(
                f"{flag} must number columns of {options.data} from 0, with commas between, got {quoted(text)}; for "
                "example 1,2, or -1 for the last"
            ) from None
    by_votes, known = numbers.values()
    if known is not None and len(known) > 1:
        raise InvalidInputError(f"--known must number one column, got {quoted(texts['--known'])}; choose one")
    chosen = by_votes if names is None else list(map(int, names))
    return read_weak_columns(options.data, chosen, None if known is None else known[0])
