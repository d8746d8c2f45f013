"""Votes of weak sources on items, or on the words of sentences: the JSON of the benchmark WRENCH, and columns."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spectrem._reprs import brief_dataclass
from spectrem.data.files import STANDARD_INPUT, decode, describe, display_name, parse_object, read_bytes, read_lines
from spectrem.data.relations import OUTSIDE
from spectrem.data.tagged import MISSING, column_lines
from spectrem.exceptions import InvalidInputError, quoted

_SILENT = -1
_TAG = re.compile("O|[BI](-.+)?")


@brief_dataclass(frozen=True, eq=False)
class WeakItems:
    """Items that sources have voted on.

    Attributes
    ----------
    ids : list of str
    votes : ndarray of shape (n_items, n_sources)
        Labels by name, None where a source is silent; or their numbers, -1 where it is silent, if they have no names.
    labels : list
        The label of every item, likewise; None where it is not known.
    texts : list of str or None

    Examples
    --------
    >>> WeakItems(["0"], np.array([["ham", None]]), ["ham"], ["see you"]).votes.shape
    (1, 2)
    """

    ids: list[str]
    votes: NDArray[Any]
    labels: list[Any]
    texts: list[str | None]


@brief_dataclass(frozen=True, eq=False)
class WeakSentences:
    """Sentences whose words sources have voted on.

    Attributes
    ----------
    ids : list of str
    words : list of list of str
    votes : list of ndarray of shape (n_words, n_sources)
        Tags as of chunks, B-PER, I-PER and O; None where a source is silent.
    tags : list of (list of (str or None), or None)
        The tags of every sentence, as far as they are known.
    sources : list of str

    Examples
    --------
    >>> WeakSentences(["0"], [["Rome"]], [np.array([["B-LOC", "O"]])], [None], ["places", "people"]).sources
    ['places', 'people']
    """

    ids: list[str]
    words: list[list[str]]
    votes: list[NDArray[Any]]
    tags: list[list[Any] | None]
    sources: list[str]


def read_weak_items(path: str | os.PathLike[str]) -> WeakItems:
    """Read votes on items, such as texts: an object of records ``{"label", "weak_labels", "data": {"text"}}`` by id.

    Parameters
    ----------
    path : path or "-"
        JSON, plain or gzipped. Labels are numbers, -1 where there is none. A file ``label.json`` (or ``label.json.gz``)
        in the same folder gives them names: ``{"0": "ham", "1": "spam"}``.

    Returns
    -------
    WeakItems

    Raises
    ------
    InvalidInputError
        Naming the file and the record that is something else.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/label.json", ['{"0": "ham", "1": "spam"}'])
    ...     record = '{"label": 0, "weak_labels": [1, -1, 0], "data": {"text": "see you"}}'
    ...     write_lines(f"{folder}/train.json", ['{"7": ' + record + "}"])
    ...     items = read_weak_items(f"{folder}/train.json")
    >>> items.votes.tolist(), items.labels, items.ids
    ([['spam', None, 'ham']], ['ham'], ['7'])
    """
    read = read_wrench(path)
    if isinstance(read, WeakSentences):
        raise InvalidInputError(
            f"{display_name(path)}: holds votes on the words of sentences, not on items; read_weak_sentences reads them"
        )
    return read


def read_weak_sentences(path: str | os.PathLike[str]) -> WeakSentences:
    """Read votes on words of sentences: an object of records ``{"label", "weak_labels", "data": {"text"}}`` by id.

    Parameters
    ----------
    path : path or "-"
        JSON, plain or gzipped. The text of a record is a list of words; its votes are a list of tags, one of every
        source, for every word, or for every source a list of spans ``[start, stop, type]``, outside of which it says O.
        The list ``lf`` in a file ``meta.json`` (or ``meta.json.gz``) in the same folder names the sources, which are
        numbered without it.

    Returns
    -------
    WeakSentences

    Raises
    ------
    InvalidInputError
        Naming the file and the record that is something else.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = '{"weak_labels": [[[1, 3, "LOC"]], []], "data": {"text": ["in", "New", "York"]}}'
    ...     write_lines(f"{folder}/train.json", ['{"0": ' + record + "}"])
    ...     sentences = read_weak_sentences(f"{folder}/train.json")
    >>> sentences.votes[0].tolist(), sentences.sources
    ([['O', 'O'], ['B-LOC', 'O'], ['I-LOC', 'O']], ['0', '1'])
    """
    read = read_wrench(path)
    if isinstance(read, WeakItems):
        raise InvalidInputError(
            f"{display_name(path)}: holds votes on items, not on the words of sentences; read_weak_items reads them"
        )
    return read


def read_weak_columns(
    path: str | os.PathLike[str], votes: Sequence[int] | None = None, tags: int | None = None
) -> WeakSentences:
    r"""Read votes on words of sentences in columns, as of CoNLL: a line per word, blank lines between sentences.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped. Columns end at tabs if the first line has one, else at spaces; the first holds the
        words, others votes of a source: B-TYPE, I-TYPE and O, or ``_`` where it is silent.
    votes : sequence of int, optional
        Which columns hold votes, counted from 0, negative ones from the end; by default all but those of words and
        known tags. The sources are called by their numbers.
    tags : int, optional
        The column of tags that are known; ``_`` where one is not.

    Returns
    -------
    WeakSentences
        Their ids are the lines, from 1, where they start.

    Raises
    ------
    InvalidInputError
        Naming file and line: one with more or fewer columns, without a word, or with another tag.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.conll", ["in O _ O", "Rome B-LOC _ B-LOC", "", "Ada O B-PER B-PER"])
    ...     sentences = read_weak_columns(f"{folder}/a.conll", tags=-1)
    >>> sentences.votes[1].tolist(), sentences.sources, sentences.tags, sentences.ids
    ([['O', 'B-PER']], ['1', '2'], [['O', 'B-LOC'], ['B-PER']], ['1', '4'])
    """
    lines = read_lines(path)
    asked = [*(votes or ()), *(() if tags is None else [tags])]
    read = WeakSentences([], [], [], [], [])
    for rows in column_lines(lines, asked):
        n = len(rows[0][1])
        gold = [tags % n] if tags is not None else []
        listed = [column % n for column in votes] if votes else [k for k in range(1, n) if k not in gold]
        if not listed:
            lines.refuse(rows[0][0], "has no column of votes; write a tag of every source behind the word")
        for number, cells in rows:
            if not cells[0]:
                lines.refuse(number, "has no word in its first column; add it")
            for k in [k for k in (*listed, *gold) if cells[k] != MISSING and not _TAG.fullmatch(cells[k])]:
                lines.refuse(
                    number,
                    f"column {k} must hold tags, B-TYPE, I-TYPE or O, or _ for none, found {quoted(cells[k])}; correct "
                    "it, or name the columns that hold votes",
                )
        table = np.array([[None if cell == MISSING else cell for cell in cells] for _, cells in rows], object)
        read.ids.append(str(rows[0][0] + 1))
        read.words.append([cells[0] for _, cells in rows])
        read.votes.append(table[:, listed])
        known = table[:, gold].ravel().tolist()
        read.tags.append(None if known.count(None) == len(known) else known)
        read.sources[:] = map(str, listed)
    if not read.ids:
        raise InvalidInputError(f"{lines.name}: holds no sentence; write a word and its votes a line")
    return read


def read_wrench(path: str | os.PathLike[str]) -> WeakItems | WeakSentences:
    """Votes on items, or on words of sentences where the text of the first record is a list."""
    records = list(_records(path))
    if isinstance(records[0].text, list):
        return _sentences(records, _beside(path, "meta"))
    return _items(records, {number: str(name) for number, name in _beside(path, "label").items()})


class _Record:
    """One item or sentence, and how errors name it."""

    def __init__(self, file: str, id: str, value: object) -> None:
        self.id, self._place = id, f"{file}, record {quoted(id)}"
        record = value if isinstance(value, dict) else self.refuse("a record", "an object", value)
        self.votes: list[Any] = self.listed("weak_labels", record.get("weak_labels"))
        data = record.get("data", {})
        self.text: Any = (data if isinstance(data, dict) else self.refuse("data", "an object", data)).get("text")
        self.label = record.get("label")

    def refuse(self, what: str, rule: str, value: object) -> NoReturn:
        shown = quoted(value) if isinstance(value, str | int | float) else describe(value)
        raise InvalidInputError(f"{self._place}: {what} must be {rule}, found {shown}; correct it")

    def listed(self, what: str, value: object) -> list[Any]:
        return value if isinstance(value, list) else self.refuse(what, "a list", value)


def _records(path: str | os.PathLike[str]) -> Iterator[_Record]:
    name = display_name(path)
    content = parse_object(decode(read_bytes(path), name), name, "write one object of records by their ids")
    if not content:
        raise InvalidInputError(f"{name}: holds no record; give at least one")
    width = None
    for id, value in content.items():
        record = _Record(name, id, value)
        if not isinstance(record.text, list) and width not in (None, len(record.votes)):
            record.refuse("weak_labels", f"votes of {width} sources, as before", f"{len(record.votes)} votes")
        width = len(record.votes)
        yield record


def _beside(path: str | os.PathLike[str], name: str) -> Mapping[str, Any]:
    """The object in a file of the same folder, plain or gzipped; an empty one without it."""
    endings = ("", ".gz") if os.fspath(path) != STANDARD_INPUT else ()
    for place in (Path(path).with_name(f"{name}.json{ending}") for ending in endings):
        if place.is_file():
            return parse_object(decode(read_bytes(place), str(place)), str(place), "write one, or remove it")
    return {}


def _items(records: list[_Record], names: Mapping[str, Any]) -> WeakItems:
    def label_of(record: _Record, value: object) -> Any:
        if not isinstance(value, int) or isinstance(value, bool) or value < _SILENT or value >= 2**63:
            record.refuse("a label", "a whole number, -1 for none", value)
        if names and value != _SILENT and str(value) not in names:
            record.refuse("a label", f"one of those that label.json names, {', '.join(names)}", value)
        if not names:
            return value
        return None if value == _SILENT else names[str(value)]

    votes = [[label_of(one, vote) for vote in one.votes] for one in records]
    for one in records:
        if not isinstance(one.text, str | None):
            one.refuse("the text", "a text", one.text)
    labels = [_SILENT if one.label is None else one.label for one in records]
    return WeakItems(
        [one.id for one in records],
        np.array(votes, object if names else np.int64).reshape(len(records), -1),
        [None if label == _SILENT else label_of(one, label) for one, label in zip(records, labels, strict=True)],
        [one.text for one in records],
    )


def _sentences(records: list[_Record], meta: Mapping[str, Any]) -> WeakSentences:
    words, votes = [], []
    for one in records:
        words.append(one.listed("the text", one.text))
        for word in one.text or [None]:
            if not isinstance(word, str):
                one.refuse("the text", "a list of at least one word", word)
        votes.append(_table(one))
    widths = [table.shape[1] for table in votes]
    names = meta.get("lf")
    names = list(map(str, names if isinstance(names, list) else range(widths[0])))
    for one, width in zip(records, widths, strict=True):
        if width != len(names):
            one.refuse("weak_labels", f"votes of {len(names)} sources", f"votes of {width}")
    tags = [None if one.label is None else _tags(one, "label", one.label) for one in records]
    return WeakSentences([one.id for one in records], words, votes, tags, names)


def _table(record: _Record) -> NDArray[Any]:
    """Tags of the words of a sentence, shape (n_words, n_sources)."""
    rows = [record.listed("an entry of weak_labels", row) for row in record.votes]
    if any(isinstance(cell, str) for row in rows for cell in row):
        if len(rows) != len(record.text) or len({len(row) for row in rows}) > 1:
            record.refuse(
                "weak_labels",
                f"a list of tags, as many as there are sources, for each of {len(record.text)} words",
                f"{len(rows)} lists",
            )
        for cell in (cell for row in rows for cell in row):
            if not isinstance(cell, str | None):
                record.refuse("a vote", "a tag, or null", cell)
        return np.array(rows, object)
    columns = [_tags(record, "an entry of weak_labels", row) for row in rows]
    return np.array(columns, object).reshape(len(rows), len(record.text)).T


def _tags(record: _Record, what: str, value: object) -> list[str]:
    """The tags of all words, from a list of them or from spans."""
    spans, n = record.listed(what, value), len(record.text)
    if spans and all(isinstance(tag, str) for tag in spans):
        return spans if len(spans) == n else record.refuse(what, f"a list of {n} tags", f"{len(spans)} tags")
    tags = [OUTSIDE] * n
    for span in spans:
        match span:
            case [int(start), int(stop), str(kind)] if 0 <= start < stop <= n and set(tags[start:stop]) == {OUTSIDE}:
                tags[start:stop] = [f"B-{kind}"] + [f"I-{kind}"] * (stop - start - 1)
            case _:
                rule = f"a list of spans [start, stop, type] of {n} words, which do not overlap"
                record.refuse(what, rule, json.dumps(span))
    return tags
