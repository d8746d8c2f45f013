"""Sentences with a tag per word, dictionaries of tags and tag sets, with their readers and writers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TextIO, TypeAlias

from spectrem._reprs import brief, briefly_shown
from spectrem._validate import as_bool
from spectrem.data.files import Lines, display_name, read_lines, write_lines, write_texts
from spectrem.exceptions import InvalidInputError, quoted, shorten

_COARSE_17 = {
    "ADJ": "JJ JJR JJS CD PRP$ $ #",
    "ADV": "RB RBR RBS",
    "CONJ": "CC",
    "DET": "DT PDT",
    "ENDPUNC": ".",
    "INPUNC": ", : LS SYM UH",
    "LPUNC": "`` -LRB-",
    "N": "NN NNS NNP NNPS PRP EX FW",
    "POS": "POS",
    "PREP": "IN",
    "PRT": "RP",
    "RPUNC": "'' -RRB-",
    "TO": "TO",
    "V": "MD VB VBD VBP VBZ",
    "VBG": "VBG",
    "VBN": "VBN",
    "W": "WDT WP WP$ WRB",
}
_UNIVERSAL = {
    "ADJ": "JJ JJR JJS",
    "ADP": "IN RP",
    "ADV": "RB RBR RBS WRB",
    "AUX": "MD",
    "CCONJ": "CC",
    "DET": "DT PDT",
    "INTJ": "UH",
    "NOUN": "NN NNS",
    "NUM": "CD LS",
    "PART": "POS TO",
    "PRON": "PRP PRP$ EX WDT WP WP$",
    "PROPN": "NNP NNPS",
    "PUNCT": ". , : `` '' -LRB- -RRB-",
    "SYM": "SYM $ #",
    "VERB": "VB VBD VBG VBN VBP VBZ",
    "X": "FW",
}


def _inverted(groups: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({fine: coarse for coarse, members in groups.items() for fine in members.split()})


PENN_TO_17: Mapping[str, str] = _inverted(_COARSE_17)
"""The 17 coarse tags on which [SmithEisner2005] and [Ganchev2010] §8.2 evaluate induction, by Penn tag."""

PENN_TO_UNIVERSAL: Mapping[str, str] = _inverted(_UNIVERSAL)
"""The universal tag (UPOS) that most words of a Penn tag have in English treebanks.

The Penn tag alone does not decide everything: auxiliaries ("is", "have") count as VERB, subordinators ("because") as
ADP, and "not" as ADV.
"""


STANDARD_TAGS = frozenset({*_COARSE_17, *_UNIVERSAL, *PENN_TO_UNIVERSAL, *PENN_TO_17, "SCONJ"})
"""The tags of Universal Dependencies and of the Penn Treebank, which rules may name though a text lacks them."""


def map_tags(tags: Iterable[Iterable[str | None]], table: Mapping[str, str]) -> list[list[str | None]]:
    """Replace every tag of tagged sentences by its coarser one; None stays.

    Parameters
    ----------
    tags : iterable of sentences of tags
    table : mapping of tag to tag
        Such as `PENN_TO_17`.

    Returns
    -------
    list of lists of str or None
        The coarser tags, sentence by sentence.

    Raises
    ------
    InvalidInputError
        If a tag is not in the table.

    Examples
    --------
    >>> map_tags([["DT", "NN", "VBZ"], ["PRP", None]], PENN_TO_17)
    [['DET', 'N', 'V'], ['N', None]]
    """
    try:
        return [[None if tag is None else table[tag] for tag in sentence] for sentence in tags]
    except KeyError as error:
        raise InvalidInputError(
            f"tag {error.args[0]!r} is not in the table, which knows {', '.join(sorted(table))}; add it to a copy"
        ) from None


MISSING = "_"


Pair: TypeAlias = tuple[str, str | None]
"""A word and its tag."""
Sentence: TypeAlias = tuple[int, list[str], list[str | None]]
"""The line, from 0, where a sentence starts, its words and their tags."""


def _slash_sentences(lines: Lines) -> Iterator[Sentence]:
    """A sentence per line of ``word/TAG``, perhaps with a name and a tab before it."""
    known: dict[str, Pair] = {}
    for number, line in enumerate(lines.lines):
        name, _, rest = line.rpartition("\t")
        if "\t" in name:
            lines.refuse(number, "has several tabs; write words with spaces between, at most one tab after a name")
        pairs = []
        for token in rest.split(" "):
            if token:
                pair = known.get(token)
                if pair is None:
                    pair = known[token] = _split(lines, number, token)
                pairs.append(pair)
        yield number, [word for word, _ in pairs], [tag for _, tag in pairs]


def _column_sentences(lines: Lines, columns: tuple[int, int]) -> Iterator[Sentence]:
    """A word per line, blank lines between sentences."""
    known: dict[str, str] = {}
    for rows in column_lines(lines, columns):
        words: list[str] = []
        tags: list[str | None] = []
        for number, fields in rows:
            word, tag = fields[columns[0]], fields[columns[1]]
            if not (word and tag):
                line = lines.lines[number]
                lines.refuse(number, f"has no {'tag' if word else 'word'} in {quoted(line)}; write _ for a missing tag")
            words.append(known.setdefault(word, word))
            tags.append(None if tag == MISSING else known.setdefault(tag, tag))
        yield rows[0][0], words, tags


def column_lines(lines: Lines, columns: Iterable[int] = ()) -> Iterator[list[tuple[int, list[str]]]]:
    """The number of every line, from 0, and its columns, sentence by sentence; blank lines stand between these.

    Raises
    ------
    InvalidInputError
        Naming the line that has more or fewer columns than the first, or the first where one of ``columns`` is missing.
    """
    first, n_columns = next(((number, len(_fields(line))) for number, line in lines.filled()), (0, 0))
    tabs = bool(lines.lines) and "\t" in lines.lines[first]
    for column in columns if n_columns else ():
        if not -n_columns <= column < n_columns:
            lines.refuse(
                first,
                f"has {n_columns} column{'s' * (n_columns != 1)}, but column {column} was asked for; columns count "
                "from 0 and end at tabs, or at spaces where the first line has no tab",
            )
    for run in lines.sentences():
        rows = [(number, _fields(line, tabs)) for number, line in run]
        for number, fields in rows:
            if len(fields) != n_columns:
                lines.refuse(
                    number,
                    f"has {len(fields)} columns, but line {first + 1} has {n_columns}; columns are separated by "
                    f"{'tabs' if tabs else 'spaces'} here; repair the line or name the format of the file",
                )
        yield rows


def _fields(line: str, tabs: bool | None = None) -> list[str]:
    """The columns of a line, which end at tabs if it has one, unless that is known already."""
    if "\t" in line if tabs is None else tabs:
        return line.split("\t")
    return [field for field in line.split(" ") if field]


def _soft_sentences(lines: Lines) -> Iterator[tuple[int, list[str], list[Any]]]:
    """A word per line and the probabilities of its tags, blank lines between sentences."""
    for run in lines.sentences():
        tags = [
            _shares(line)
            or lines.refuse(
                number,
                "must have a word and its tags with their probabilities, which add up to 1 at most, such as "
                f"B-PER:0.9, with tabs between, but is {quoted(line)}; correct it",
            )
            for number, line in run
        ]
        yield run[0][0], [line.partition("\t")[0] for _, line in run], tags


def _shares(line: str) -> dict[str, float] | None:
    """The probabilities of the tags of a word, divided by their sum; None if the line has others."""
    word, *cells = line.split("\t")
    shares = {cell[1]: float(cell[2]) for cell in map(_SHARE.fullmatch, cells) if cell}
    total = sum(shares.values())
    if not word or len(shares) < len(cells) or not 0 < total <= _MOST_ROUNDED:
        return None
    return {tag: share / total for tag, share in shares.items()}


def _conllu_sentences(lines: Lines, field: str | None) -> Iterator[Sentence]:
    """CoNLL-U: the form and one tag of every word; without a field, forms alone."""
    known: dict[str, str] = {}
    for rows in conllu_words(lines):
        words: list[str] = []
        tags: list[str | None] = []
        for number, cells in rows:
            form, tag = cells["form"], cells.get(field, "") if field else MISSING
            if not form or cells["id"] == MISSING or not tag:
                lines.refuse(
                    number,
                    f"must have a number, a form and {field or 'a tag'}, but is {quoted(lines.lines[number])}; "
                    "add columns",
                )
            words.append(known.setdefault(form, form))
            tags.append(None if tag == MISSING else known.setdefault(tag, tag))
        yield rows[0][0], words, tags


def conllu_words(lines: Lines) -> Iterator[list[tuple[int, dict[str, str]]]]:
    """The words of every sentence of CoNLL-U: of each the number of its line, from 0, and its cells by column.

    Comments, multiword ranges and empty nodes are left out, and so are sentences without words. Columns are the ten of
    the format, or those that a line ``# global.columns`` (CoNLL-U Plus) declares from there on, in lower case.

    Raises
    ------
    InvalidInputError
        Naming a line with more or fewer columns, or without a number.
    """
    from conllu.exceptions import ParseException
    from conllu.parser import DEFAULT_FIELDS, parse_id_value

    columns: tuple[str, ...] = DEFAULT_FIELDS
    for run in lines.sentences():
        words: list[tuple[int, dict[str, str]]] = []
        for number, line in run:
            if line.startswith("#"):
                columns = _declared_columns(lines, number) or columns
                continue
            cells = line.split("\t")
            if len(cells) != len(columns):
                hint = "write _ where there is nothing, or declare columns by a first line `# global.columns = ...`"
                if len(cells) == 1:
                    hint = "if it is text, `spectrem tag predict --output-format conllu` tags it and writes CoNLL-U"
                lines.refuse(
                    number,
                    f"must have the {len(columns)} columns {' '.join(columns).upper()} with tabs between, but has "
                    f"{len(cells)}; {hint}",
                )
            word = dict(zip(columns, cells, strict=True))
            try:
                is_word = not isinstance(parse_id_value(word["id"]), tuple)
            except (ParseException, ValueError) as error:  # the latter of a number of thousands of digits
                lines.refuse(
                    number,
                    f"is not a line of CoNLL-U: {shorten(str(error)).rstrip('.')}; number the words of a sentence "
                    "from 1",
                )
            if is_word:
                words.append((number, word))
        if words:
            yield words


def _declared_columns(lines: Lines, number: int) -> tuple[str, ...] | None:
    """The columns that a comment declares, in lower case, if it does."""
    from conllu.parser import parse_pair_value

    key, value = parse_pair_value(lines.lines[number][1:])
    if key != "global.columns":
        return None
    columns = tuple((value or "").lower().split())
    if not {"id", "form"} <= set(columns) or len(set(columns)) < len(columns):
        lines.refuse(number, f"must declare columns, ID and FORM among them, each once, but declares {quoted(value)}")
    return columns


def _split(lines: Lines, number: int, token: str) -> tuple[str, str | None]:
    word, slash, tag = token.rpartition("/")
    if not slash:
        lines.refuse(number, f"{quoted(token)} has no tag; write word/TAG, or word/_ if it is missing")
    if not (word and tag):
        lines.refuse(
            number,
            f"{quoted(token)} has no {'tag' if word else 'word'}; write word/TAG, or word/_ without a tag",
        )
    return word, None if tag == MISSING else tag


_NAMES = {"\t": "tab", "\n": "line end", "\r": "carriage return", " ": "space", "/": "slash"}


def _lines_of(
    sentences: Iterable[tuple[int, Sequence[str], Sequence[str | None]]], format: str, field: str
) -> Iterator[str]:
    """The text of every sentence in a format."""
    known: dict[Pair, str] = {}
    for number, words, tags in sentences:
        if not words and format != "slash":
            raise InvalidInputError(
                f"sentence {number} is empty, which the format {format} cannot say; drop it or use the format slash"
            )
        tokens = []
        for pair in zip(words, tags, strict=True):
            token = known.get(pair)
            if token is None:
                token = known[pair] = _token(number, pair, format, field)
            tokens.append(token)
        if format == "slash":
            yield " ".join(tokens) + "\n"
        elif format == "columns":
            yield "".join(tokens) + "\n"
        else:
            yield number_lines(tokens)


def _token(number: int, pair: Pair, format: str, field: str) -> str:
    """A word and its tag as the format writes them."""
    if format == "slash":
        return "/".join(_cells(number, *pair, " ", " /"))
    word, tag = _cells(number, *pair)
    return f"{word}\t{tag}\n" if format == "columns" else conllu_cells(word, **{field: tag})


def conllu_cells(
    form: str, upos: str = MISSING, xpos: str = MISSING, head: str = MISSING, deprel: str = MISSING
) -> str:
    """A line of CoNLL-U behind its number, with its end; the other columns are ``_``."""
    return f"\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t{deprel}\t_\t_\n"


def number_lines(cells: Iterable[str]) -> str:
    """A sentence of CoNLL-U from `conllu_cells` of its words, and the blank line after it."""
    return "".join([f"{place}{line}" for place, line in enumerate(cells, start=1)]) + "\n"


def _cells(number: int, word: str, tag: str | None, in_words: str = "", in_tags: str = "") -> tuple[str, str]:
    """A word and a tag as they are written, unless they hold a blank, or what else separates them in the format."""
    for what, text, more in (("word", word, in_words), ("tag", tag, in_tags)):
        if text is None and what == "tag":
            continue
        forbidden = "\t\n\r" + more
        if not isinstance(text, str) or not text or any(mark in text for mark in forbidden):
            raise InvalidInputError(
                f"sentence {number}: the {what} {text!r} cannot be written; here a {what} is a str, not empty, without "
                f"{', '.join(map(_NAMES.__getitem__, forbidden))}; replace it or choose another format"
            )
    if tag == MISSING:
        raise InvalidInputError(f"sentence {number}: the tag '_' would be read as missing; rename it, or give None")
    return word, MISSING if tag is None else tag


TaggedFormat: TypeAlias = Literal["slash", "columns", "conllu"]
ConlluField: TypeAlias = Literal["upos", "xpos"]

_TAGGED_TOKEN = re.compile(r".+/[^/]+")
_NEAR_TEN = (9, 10, 11)  # columns of a line that is CoNLL-U, or nearly
_SHARE = re.compile(r"(.+):([0-9](?:\.[0-9]+)?(?:e-[0-9]+)?)")
_MOST_ROUNDED = 1.001  # a sum of rounded probabilities
_FIRST_ID = re.compile(r"1(-[0-9]+)?|0\.[0-9]+")


@briefly_shown
class TaggedCorpus(NamedTuple):
    """Words and tags, sentence by sentence; a tag that nobody gave is None.

    Attributes
    ----------
    words : list of list of str
    tags : list of list of (str or None)

    Examples
    --------
    >>> TaggedCorpus([["the", "dog"]], [["DT", None]]).dictionary()
    {'the': ('DT',)}
    """

    words: list[list[str]]
    tags: list[list[str | None]]

    def place(self, sentence: int) -> str:
        """Where a sentence (from 0) stands, for messages: its line where a file was read.

        Parameters
        ----------
        sentence : int
            From 0.

        Returns
        -------
        str
        """
        return f"sentence {sentence} (from 0)"

    def dictionary(self) -> dict[str, tuple[str, ...]]:
        """The tags seen with every word, most frequent first, of equals the one seen first; words without none.

        Returns
        -------
        dict of str -> tuple of str

        Examples
        --------
        >>> TaggedCorpus([["the", "run"], ["run", "ran"]], [["DT", "NN"], ["VB", None]]).dictionary()
        {'the': ('DT',), 'run': ('NN', 'VB')}
        """
        counts: dict[str, dict[str, int]] = {}
        for words, tags in zip(self.words, self.tags, strict=True):
            for word, tag in zip(words, tags, strict=True):
                if tag is not None:
                    seen = counts.setdefault(word, {})
                    seen[tag] = seen.get(tag, 0) + 1
        return {word: tuple(sorted(seen, key=lambda tag: -seen[tag])) for word, seen in counts.items()}


class _FileCorpus(TaggedCorpus):
    """A corpus that remembers the line, from 1, where each sentence starts."""

    starts: list[int]

    def __repr__(self) -> str:
        return brief(list(self))

    def place(self, sentence: int) -> str:
        return f"line {self.starts[sentence]}"


class FileSentences(list[list[str]]):
    """Sentences of a file, its format, and the line, from 1, where each starts.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from spectrem.data import read_sentences, write_lines
    >>> with TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.txt", ["the dog", "it barks"])
    ...     sentences = read_sentences(f"{folder}/a.txt")
    >>> sentences[1], sentences.starts
    (['it', 'barks'], [1, 2])
    """

    starts: list[int]
    format: str = "text"

    def __repr__(self) -> str:
        return brief(list(self))

    def place(self, sentence: int) -> str:
        """Where a sentence (from 0) stands, for messages.

        Parameters
        ----------
        sentence : int
            From 0.

        Returns
        -------
        str
        """
        return f"line {self.starts[sentence]}"


def read_tagged(
    path: str | os.PathLike[str],
    format: Literal["auto", "slash", "columns", "conllu"] = "auto",
    *,
    columns: tuple[int, int] = (0, 1),
    field: ConlluField = "upos",
    soft: bool = False,
) -> TaggedCorpus:
    r"""Read sentences whose words are tagged; UTF-8, plain or gzipped. The tag ``_`` is None in every format.

    * ``slash``: one sentence per line of ``word/TAG`` separated by spaces, split at the last slash, so that words may
      contain slashes. A field that ends with a tab before the first word names the text and is left out. Blank
      lines are empty sentences.
    * ``columns``: one word per line, blank lines between sentences. Columns end at tabs if the first line has one,
      else at spaces; every line has as many.
    * ``conllu``: the CoNLL-U of Universal Dependencies (and CoNLL-U Plus); multiword ranges and empty nodes are left
      out, and so are comments.
    * ``auto``: CoNLL-U if the name ends in ``.conllu`` or the first line is one of its ten columns, slashes if half the
      words of the first line have them, else columns.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input.
    format : {"auto", "slash", "columns", "conllu"}
    columns : (int, int)
        Where ``columns`` has word and tag, counted from 0; negative ones count from the end.
    field : {"upos", "xpos"}
        The tag of ``conllu`` to read.
    soft : bool
        Whether ``auto`` also knows probabilities of tags, as ``spectrem label`` and ``spectrem tag predict
        --probabilities`` write them: a line per word with its tags behind tabs, ``B-PER:0.9``, blank lines between
        sentences. Such words have mappings of tags to probabilities in place of tags, which are divided by their sum,
        since small ones are left out of files; `CRFTagger` learns from them.

    Returns
    -------
    TaggedCorpus
        Words and tags, sentence by sentence.

    Raises
    ------
    InvalidInputError
        Naming file, line and what was found: a word without tag, an empty word or tag, a column that is missing.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.pos", ["text1\tThe/DT price/NN of/IN 1/2/CD", "It/PRP fell/_"])
    ...     corpus = read_tagged(f"{folder}/a.pos")
    >>> corpus.words[0], corpus.tags
    (['The', 'price', 'of', '1/2'], [['DT', 'NN', 'IN', 'CD'], ['PRP', None]])
    """
    _check_options(format, ("auto", "slash", "columns", "conllu"), field)
    soft, lines = as_bool(soft, "soft"), read_lines(path)
    if format == "auto" and soft and all(_shares(line) for _, line in next(lines.sentences(), [(0, "")])):
        chosen = "soft"
    else:
        chosen = _guess(path, lines, otherwise="columns") if format == "auto" else format
    words, tags, starts = _parse(chosen, lines, columns, field)
    corpus = _FileCorpus(words, tags)
    corpus.starts = starts
    return corpus


def read_sentences(
    path: str | os.PathLike[str],
    format: Literal["auto", "text", "slash", "columns", "conllu"] = "auto",
    *,
    column: int = 0,
) -> FileSentences:
    """Read the words of sentences, tagged or not; UTF-8, plain or gzipped.

    Parameters
    ----------
    path : path or "-"
    format : {"auto", "text", "slash", "columns", "conllu"}
        ``text``: one sentence per line, words separated by spaces or tabs; blank lines are empty sentences. The
        others are those of `read_tagged`, whose tags are dropped. ``auto`` takes a first line without tabs, whose
        words do not all have slashes, for text: columns separated by spaces must be asked for, and so must be text
        whose first line has a slash in every word.
    column : int
        Where ``columns`` has the word.

    Returns
    -------
    FileSentences
        A list of the words of every sentence, which knows its file and format.

    Raises
    ------
    InvalidInputError
        As `read_tagged`.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.txt", ["the price fell", "", "it fell"])
    ...     read_sentences(f"{folder}/a.txt")
    [['the', 'price', 'fell'], [], ['it', 'fell']]
    """
    _check_options(format, ("auto", "text", "slash", "columns", "conllu"), "upos")
    lines = read_lines(path)
    chosen = _guess(path, lines, otherwise="text") if format == "auto" else format
    words, _, starts = _parse(chosen, lines, (column, column), None)
    sentences = FileSentences(words)
    sentences.starts, sentences.format = starts, chosen
    return sentences


def write_tagged(
    output: str | os.PathLike[str] | TextIO,
    words: Iterable[Sequence[str]],
    tags: Iterable[Sequence[str | None]],
    format: TaggedFormat = "slash",
    *,
    field: ConlluField = "upos",
) -> None:
    """Write tagged sentences so that `read_tagged` gives them back; None is written as ``_``.

    Parameters
    ----------
    output : path, "-" or text stream
        A file appears under its name only when complete, and is gzipped if the name ends in ``.gz``
        (see ``open_output``); a stream is written directly and left open.
    words, tags : iterable of sequence of str
        Sentence by sentence, of equal lengths.
    format : {"slash", "columns", "conllu"}
        ``columns`` are word and tag with a tab between.
    field : {"upos", "xpos"}
        The column of ``conllu`` that gets the tags; all others but number and form are ``_``.

    Raises
    ------
    InvalidInputError
        If lengths differ, words and tags cannot be separated in the format, or a sentence is empty where only slashes
        can say so; names the sentence.

    Examples
    --------
    >>> write_tagged("-", [["and/or", "not"]], [["CC", None]])
    and/or/CC not/_
    """
    _check_options(format, ("slash", "columns", "conllu"), field)
    write_texts(output, _lines_of(_paired(words, tags), format, field))


def _paired(
    words: Iterable[Sequence[str]], tags: Iterable[Sequence[str | None]]
) -> Iterator[tuple[int, Sequence[str], Sequence[str | None]]]:
    for number, (sentence, its_tags) in enumerate(zip_longest(words, tags)):
        if sentence is None or its_tags is None:
            raise InvalidInputError(
                f"words and tags must have as many sentences as each other, but one ends after {number}; "
                "give the tags of the same text"
            )
        if len(sentence) != len(its_tags):
            raise InvalidInputError(
                f"sentence {number} must have a tag per word, but has {len(sentence)} words and {len(its_tags)} tags; "
                "write None for a missing tag"
            )
        yield number, sentence, its_tags


def _parse(
    format: str, lines: Lines, columns: tuple[int, int], field: ConlluField | None
) -> tuple[list[list[str]], list[list[str | None]], list[int]]:
    """Words and tags of all sentences, and the line, from 1, where each starts; plain text has no tags."""
    if format == "text":  # equal words are one object
        known: dict[str, str] = {}
        words = [
            [known.setdefault(word, word) for word in line.replace("\t", " ").split(" ") if word]
            for line in lines.lines
        ]
        return words, [], list(range(1, len(words) + 1))
    if format == "slash":
        sentences = _slash_sentences(lines)
    elif format == "soft":
        sentences = _soft_sentences(lines)
    elif format == "columns":
        sentences = _column_sentences(lines, columns)
    else:
        sentences = _conllu_sentences(lines, field)
    words, tags, starts = [], [], list[int]()
    for number, sentence, its_tags in sentences:
        words.append(sentence)
        tags.append(its_tags)
        starts.append(number + 1)
    return words, tags, starts


def _guess(path: str | os.PathLike[str], lines: Lines, otherwise: str) -> str:
    """The format that the name, or the first line that is not blank, indicates."""
    if os.fspath(path).removesuffix(".gz").endswith((".conllu", ".conllup")):
        return "conllu"
    first = next((line for line in lines.lines if line.strip(" \t")), "")
    fields = (next((line for line in lines.lines if line.strip(" \t") and line[:1] != "#"), "")).split("\t")
    if first.replace(" ", "").startswith("#global.columns=") or (
        len(fields) in _NEAR_TEN and _FIRST_ID.fullmatch(fields[0])
    ):
        return "conllu"
    words = [word for word in first.rpartition("\t")[2].split(" ") if word]
    n_tagged = sum(_TAGGED_TOKEN.fullmatch(word) is not None for word in words)
    # one slash forgotten shall be an error, but what may be plain text needs them all
    enough = n_tagged == len(words) if otherwise == "text" else 2 * n_tagged >= len(words)
    if enough and first.count("\t") < 2:
        return "slash"
    return "columns" if "\t" in first else otherwise


def _check_options(format: str, formats: tuple[str, ...], field: str) -> None:
    if format not in formats:
        raise InvalidInputError(f"format must be one of {', '.join(formats)}, got {format!r}")
    if field not in ("upos", "xpos"):
        raise InvalidInputError(f"field must be upos or xpos, got {field!r}; these are the two tags of CoNLL-U")


def read_tag_dictionary(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    r"""Read lines of a word, a tab, and the tags it may have, separated by spaces or tabs.

    A word on several lines has the tags of all of them, in the order of the file, so dictionaries may be
    concatenated and may have one line per word and tag. Blank lines are skipped.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped; ``-`` is standard input.

    Returns
    -------
    dict of str -> tuple of str
        The tags of every word.

    Raises
    ------
    InvalidInputError
        Naming file and line: a line without tab, without word or without tags. Naming the file: no word at all.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/tags.tsv", ["the\tDT", "run\tNN VB", "run\tVBN\tVB"])
    ...     read_tag_dictionary(f"{folder}/tags.tsv")
    {'the': ('DT',), 'run': ('NN', 'VB', 'VBN')}
    """
    lines = read_lines(path)
    dictionary: dict[str, tuple[str, ...]] = {}
    for number, line in lines.filled():
        word, tab, rest = line.partition("\t")
        tags = tuple(dict.fromkeys(tag for tag in rest.replace("\t", " ").split(" ") if tag))
        if not tab:
            lines.refuse(
                number, f"{quoted(line)} has no tab between word and tags; write the word, a tab, and its tags"
            )
        if not word:
            lines.refuse(number, f"{quoted(line)} has no word before the tab; write the word, a tab, and its tags")
        if not tags:
            lines.refuse(number, f"the entry of {word!r} has no tags; add some, or leave the word out: it may be any")
        seen = dictionary.get(word)
        dictionary[word] = tags if seen is None else tuple(dict.fromkeys((*seen, *tags)))
    if not dictionary:
        raise InvalidInputError(f"{display_name(path)}: lists no word; write a word, a tab, and the tags it may have")
    return dictionary


def write_tag_dictionary(path: str | os.PathLike[str], dictionary: Mapping[str, Iterable[str]]) -> None:
    """Write a line per word so that `read_tag_dictionary` gives the dictionary back.

    Parameters
    ----------
    path : path or "-"
        See ``open_output``; the file appears only when complete.
    dictionary : mapping of word to its tags

    Raises
    ------
    InvalidInputError
        If a word has no tags, or words and tags cannot be separated in a line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tag_dictionary(f"{folder}/tags.tsv", {"the": ("DT",), "run": ("NN", "VB")})
    ...     read_tag_dictionary(f"{folder}/tags.tsv")
    {'the': ('DT',), 'run': ('NN', 'VB')}
    """
    write_lines(path, (_line(word, tuple(tags)) for word, tags in dictionary.items()))


def _line(word: str, tags: tuple[str, ...]) -> str:
    if not tags:
        raise InvalidInputError(f"the entry of {word!r} has no tags; add some, or leave the word out: it may be any")
    for what, text, forbidden in (("word", word, "\t\n\r"), *(("tag", tag, "\t\n\r ") for tag in tags)):
        if not text or any(mark in text for mark in forbidden):
            raise InvalidInputError(
                f"the entry of {word!r} cannot be written: the {what} {text!r} is empty or has a tab, line end"
                f"{' or space' if what == 'tag' else ''}; replace it"
            )
    return f"{word}\t{' '.join(tags)}"
