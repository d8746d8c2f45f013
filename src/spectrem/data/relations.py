"""Sentences with mentions of entities and relations between them, and the files of the corpus CoNLL04."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import permutations
from operator import index
from typing import Any

from spectrem._html import MOST_LINES, MOST_SHOWN, and_more, page, table
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_texts
from spectrem.data.files import Lines, open_output, read_lines
from spectrem.data.tagged import MISSING
from spectrem.exceptions import InvalidInputError, counted, quoted, shorten

OUTSIDE = "O"
_HINT = "put texts into a list"
_TOKEN, _RELATION = 9, 3  # columns of a line
_MOST_WORDS = 80  # of a sentence in a notebook


@brief_dataclass(frozen=True, init=False)
class RelationSentence:
    """A sentence whose mentions of entities are known, with their types and relations as far as those are.

    Parameters
    ----------
    words : sequence of str
    mentions : sequence of (start, stop)
        Of every mention the words ``words[start:stop]``, at least one.
    types : sequence of (str or None), optional
        Of every mention; None where it is not known. Without it, none is.
    relations : mapping of (first, second) -> (str or None), optional
        Of ordered pairs of mentions, counted from 0; None where it is not known. Pairs that are not listed have no
        relation. Without it, nothing is known of any pair.
    tags : sequence of str, optional
        The part of speech of every word.
    name : str
        What files and messages call the sentence.

    Raises
    ------
    InvalidInputError
        If numbers do not fit each other, a mention is empty or outside of the sentence, or a pair is not one of two
        mentions.

    Examples
    --------
    >>> sentence = RelationSentence(
    ...     ["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)], types=["Peop", None], relations={(0, 1): "Kill"}
    ... )
    >>> sentence.pairs, sentence.text(1)
    (((0, 1), (1, 0)), 'Kennedy')
    """

    words: tuple[str, ...]
    mentions: tuple[tuple[int, int], ...]
    types: tuple[str | None, ...]
    relations: Mapping[tuple[int, int], str | None] | None
    tags: tuple[str, ...] | None
    name: str

    def __init__(
        self,
        words: Sequence[str],
        mentions: Iterable[Sequence[int]],
        types: Sequence[str | None] | None = None,
        relations: Mapping[tuple[int, int], str | None] | None = None,
        tags: Sequence[str] | None = None,
        name: str = "",
    ) -> None:
        forms, spans = as_texts(words, "words", _HINT), _pairs("mentions", mentions)
        n, known = len(forms), None if types is None else as_texts(types, "types", _HINT, unknown=True)
        parts_of_speech = None if tags is None else as_texts(tags, "tags", _HINT)
        for start, stop in spans:
            if not 0 <= start < stop <= n:
                raise InvalidInputError(
                    f"mentions must be (start, stop) with 0 <= start < stop <= {n}, the number of words, got "
                    f"{(start, stop)}; count words from 0"
                )
        for key, values, size in (("types", known, len(spans)), ("tags", parts_of_speech, n)):
            if values is not None and len(values) != size:
                raise InvalidInputError(
                    f"{key} must be one per {'mention' if key == 'types' else 'word'}, got {len(values)} for {size}; "
                    "leave it out if nothing is known"
                )
        if relations is not None and not isinstance(relations, Mapping):
            raise InvalidInputError(
                f"relations must map pairs of mentions to relations, got {quoted(relations)}; write {{(0, 1): 'Kill'}}"
            )
        for pair in _pairs("relations", relations or ()):
            if pair[0] == pair[1] or not all(0 <= one < len(spans) for one in pair):
                raise InvalidInputError(
                    f"relations must be between two of {len(spans)} mentions, got {quoted(pair)}; count mentions from 0"
                )
        as_texts((relations or {}).values(), "relations", _HINT, unknown=True)
        vars(self).update(
            words=forms,
            mentions=spans,
            types=(None,) * len(spans) if known is None else known,
            relations=None if relations is None else dict(relations),
            tags=parts_of_speech,
            name=name,
        )

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """All ordered pairs of two mentions, by their numbers."""
        return tuple(permutations(range(len(self.mentions)), 2))

    def text(self, mention: int) -> str:
        """The words of a mention, with spaces between.

        Parameters
        ----------
        mention : int
            From 0.

        Returns
        -------
        str
        """
        return " ".join(self.words[slice(*self.mentions[mention])])

    def unlabelled(self) -> RelationSentence:
        """The same sentence with its mentions alone.

        Returns
        -------
        RelationSentence
        """
        return RelationSentence(self.words, self.mentions, tags=self.tags, name=self.name)

    def _picture(self) -> str:
        """The words, of which mentions stand out with their types behind them, and a table of the relations."""
        shown = [escape(shorten(word)) for word in self.words[:_MOST_WORDS]]
        for (start, stop), kind in zip(self.mentions, self.types, strict=True):
            if stop <= len(shown):
                shown[start] = f"<strong>{shown[start]}"
                shown[stop - 1] += f"</strong> <code>{escape(shorten(kind or '?'))}</code>"
        more = " …" * (len(self.words) > _MOST_WORDS)
        rows = [
            (escape(shorten(self.text(first))), escape(shorten(name)), escape(shorten(self.text(second))))
            for (first, second), name in (self.relations or {}).items()
            if name is not None
        ]
        return f"<p>{' '.join(shown)}{more}</p>" + (table(("", "relation", ""), rows[:MOST_LINES]) if rows else "")

    def _repr_html_(self) -> str:
        return page(f"Sentence with {counted(len(self.mentions), 'mention')}", self._picture())


class RelationSentences(list[RelationSentence]):
    """Sentences with mentions and relations, of which notebooks show the first."""

    def _repr_html_(self) -> str:
        pictures = (sentence._picture() for sentence in self[:MOST_SHOWN])
        return page(counted(len(self), "sentence"), *pictures, and_more(len(self) - MOST_SHOWN))


def _pairs(name: str, values: Any) -> tuple[tuple[int, int], ...]:
    """Pairs of whole numbers."""
    try:
        return tuple((index(first), index(second)) for first, second in values)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name} must be pairs of whole numbers, got {quoted(values)}; write [(0, 1)]"
        ) from None


def read_relations(path: str | os.PathLike[str]) -> list[RelationSentence]:
    r"""Read sentences in the format of CoNLL04 [RothYih2004]; UTF-8, plain or gzipped.

    A line has nine columns between tabs, of which four are read: the number of the sentence, the type of a mention or
    ``O``, the part of speech (fifth), and the word (sixth). A mention of several words is one line, its words and their
    parts of speech joined by ``/``; ``COMMA`` is a comma. A blank line ends the sentence. Behind it, before a further
    one, stand its relations: two numbers of lines of the sentence, from 0, and the relation. ``_`` is a type or a
    relation that is not known.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input.

    Returns
    -------
    list of RelationSentence
        In the order of the file.

    Raises
    ------
    InvalidInputError
        Naming file, line and what was found: another number of columns, an empty word, a relation that is not between
        two mentions, or one that stands behind no sentence.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> rows = [("Peop", "NNP/NNP", "Lee/Oswald"), ("O", "VBD", "shot"), ("Peop", "NNP", "Kennedy")]
    >>> lines = [f"0\t{kind}\t{n}\tO\t{tag}\t{word}\tO\tO\tO" for n, (kind, tag, word) in enumerate(rows)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.corp", [*lines, "", "0\t2\tKill", ""])
    ...     [sentence] = read_relations(f"{folder}/a.corp")
    >>> sentence.words, sentence.mentions, sentence.relations
    (('Lee', 'Oswald', 'shot', 'Kennedy'), ((0, 2), (3, 4)), {(0, 1): 'Kill'})
    """
    lines = read_lines(path)
    sentences = RelationSentences()
    rows: dict[int, int] = {}  # of the sentence read last, from its lines to its mentions
    for run in lines.sentences():
        fields = [(number, line.split("\t")) for number, line in run]
        if len(fields[0][1]) != _RELATION:
            sentence, rows = _read_sentence(lines, fields)
            sentences.append(sentence)
        elif not sentences or sentences[-1].relations:
            lines.refuse(run[0][0], "has a relation that stands behind no sentence; put a blank line between them only")
        else:
            last = sentences.pop()
            relations = _read_relations(lines, fields, rows)
            sentences.append(RelationSentence(last.words, last.mentions, last.types, relations, last.tags, last.name))
    return sentences


def write_relations(path: str | os.PathLike[str], sentences: Iterable[RelationSentence]) -> None:
    """Write sentences in the format that `read_relations` reads; words between mentions have a line each.

    Sentences without a name are numbered from 0. The part of speech is ``_`` where there is none.

    Parameters
    ----------
    path : path or "-"
        As of `write_lines`.
    sentences : iterable of RelationSentence
        Written in their order.

    Raises
    ------
    InvalidInputError
        If a word, type or relation is empty or holds a tab or a line end, mentions overlap, or the words of a mention
        of several hold slashes.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> sentence = RelationSentence(["Ray", "shot", "King"], [(0, 1), (2, 3)], ["Peop", "Peop"], {(0, 1): "Kill"})
    >>> with TemporaryDirectory() as folder:
    ...     write_relations(f"{folder}/text.corp", [sentence])
    ...     read_relations(f"{folder}/text.corp")[0].relations
    {(0, 1): 'Kill'}
    """
    with open_output(path) as output:
        for number, sentence in enumerate(sentences):
            output.writelines(_lines_of(number, sentence))


def _read_sentence(lines: Lines, fields: list[tuple[int, list[str]]]) -> tuple[RelationSentence, dict[int, int]]:
    """The sentence of some lines, without relations, and the mention of every line that is one."""
    words: list[str] = []
    tags: list[str] = []
    mentions: list[tuple[int, int]] = []
    types: list[str | None] = []
    rows: dict[int, int] = {}
    for row, (number, cells) in enumerate(fields):
        if len(cells) != _TOKEN:
            lines.refuse(
                number,
                f"has {len(cells)} columns; a word has {_TOKEN}, a relation, which stands behind a blank line, "
                f"{_RELATION}, with tabs between; repair the line",
            )
        kind, tag, text = cells[1], cells[4], cells[5]
        if not (kind and tag and text):
            lines.refuse(
                number, f"has no {'word' if kind and tag else 'type or part of speech'}; write _ or O for none"
            )
        if cells[0] != fields[0][1][0]:
            lines.refuse(
                number,
                f"is of sentence {quoted(cells[0])} in sentence {quoted(fields[0][1][0])}; put a blank line there",
            )
        start = len(words)
        several, its_tags = text.split("/"), tag.split("/")
        if kind == OUTSIDE or len(several) != len(its_tags) or not all(several):
            several, its_tags = [text], [tag]
        words += ["," if word == "COMMA" else word for word in several]
        tags += its_tags
        if kind != OUTSIDE:
            rows[row] = len(mentions)
            mentions.append((start, len(words)))
            types.append(None if kind == MISSING else kind)
    return RelationSentence(words, mentions, types, {}, tags, fields[0][1][0]), rows


def _read_relations(
    lines: Lines, fields: list[tuple[int, list[str]]], rows: Mapping[int, int]
) -> dict[tuple[int, int], str | None]:
    """The relations of some lines, by pairs of mentions."""
    relations: dict[tuple[int, int], str | None] = {}
    for number, cells in fields:
        if len(cells) != _RELATION:
            lines.refuse(number, f"has {len(cells)} columns among relations, which have {_RELATION}; repair the line")
        ends = [rows.get(int(one)) if one.isascii() and one.isdigit() else None for one in cells[:2]]
        first, second = ends
        if first is None or second is None or first == second:
            lines.refuse(
                number,
                f"has a relation between {quoted(cells[0])} and {quoted(cells[1])}, which must be the lines, from 0, "
                "of two mentions of the sentence before; repair the numbers",
            )
        if not cells[2] or (first, second) in relations:
            lines.refuse(number, "has no relation" if not cells[2] else "repeats a pair; keep one relation of it")
        relations[first, second] = None if cells[2] == MISSING else cells[2]
    return relations


def _lines_of(number: int, sentence: RelationSentence) -> Iterator[str]:
    """The lines of a sentence, with its relations."""
    name = sentence.name or str(number)
    tags = sentence.tags or (MISSING,) * len(sentence.words)
    spans = sorted((span, mention) for mention, span in enumerate(sentence.mentions))
    rows: dict[int, int] = {}
    row = word = 0
    for (start, stop), mention in [*spans, ((len(sentence.words),) * 2, -1)]:
        if start < word:
            raise InvalidInputError(f"sentence {name}: mentions must not overlap, got {spans[mention][0]}; drop one")
        for outside in range(word, start):
            yield _line(name, row, OUTSIDE, tags[outside : outside + 1], sentence.words[outside : outside + 1])
            row += 1
        if mention >= 0:
            kind = sentence.types[mention]
            rows[mention] = row
            yield _line(name, row, MISSING if kind is None else kind, tags[start:stop], sentence.words[start:stop])
            row, word = row + 1, stop
    yield "\n"
    relations = sentence.relations or {}
    for (first, second), relation in sorted(relations.items()):
        yield f"{rows[first]}\t{rows[second]}\t{_cell(name, 'relation', MISSING if relation is None else relation)}\n"
    yield "\n"


def _line(name: str, row: int, kind: str, tags: Sequence[str], words: Sequence[str]) -> str:
    if len(words) > 1 and any("/" in one for one in (*words, *tags)):
        raise InvalidInputError(
            f"sentence {name}: words of a mention of several must not hold slashes, got {quoted(list(words))}; replace "
            "them"
        )
    tag, word = _cell(name, "tag", "/".join(tags)), _cell(name, "word", "/".join(words))
    return f"{name}\t{_cell(name, 'type', kind)}\t{row}\tO\t{tag}\t{word}\tO\tO\tO\n"


def _cell(name: str, what: str, text: str) -> str:
    if not isinstance(text, str) or not text or any(mark in text for mark in "\t\n\r"):
        raise InvalidInputError(
            f"sentence {name}: the {what} {text!r} cannot be written; it must be a text, not empty, without tabs and "
            "line ends; replace it"
        )
    return text
