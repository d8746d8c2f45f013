"""Treebanks in CoNLL-U: sentences with heads and relations from files, and into files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TextIO

import numpy as np

from spectrem._heads import UNKNOWN_HEAD
from spectrem._validate import as_array, as_bool
from spectrem.data.reading import Lines, read_lines
from spectrem.data.tagging.tagged_lines import MISSING, conllu_words
from spectrem.data.treebank.heads import describe_problem
from spectrem.data.treebank.sentence import ParsedSentence, check_texts
from spectrem.data.writers import open_output
from spectrem.exceptions import InvalidInputError, quoted, shorten

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_FORBIDDEN = "\t\n\r"


def read_conllu(path: str | os.PathLike[str], *, trees: bool = True) -> list[ParsedSentence]:
    r"""Read sentences with tags, heads and relations from CoNLL-U; UTF-8, plain or gzipped.

    As the format of Universal Dependencies says, the tree is one over words: lines of multiword ranges (``3-4``), of
    empty nodes (``5.1``) and comments are left out. Forms may have spaces. Heads ``_`` are not known; a sentence may
    have some, and then the others must fit a tree.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input.
    trees : bool
        False: heads and relations are not read, whatever stands there, and are None.

    Returns
    -------
    list of ParsedSentence
        Heads count from 0, and -1 is the root; in the file words count from 1, and 0 is the root.

    Raises
    ------
    InvalidInputError
        Naming file and line: a line without number, form or tags, words that are not numbered 1, 2, 3 ..., a head that
        is not a number or out of range, heads in a cycle (which a sentence without a root always has).

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> words = ["1\tvamos\t_\tVERB\t_\t_\t0\troot\t_\t_", "2\tnos\t_\tPRON\t_\t_\t1\tobj\t_\t_"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/a.conllu", ["1-2\tvámonos" + "\t_" * 8, *words])
    ...     (sentence,) = read_conllu(f"{folder}/a.conllu")
    >>> sentence.forms, sentence.heads, sentence.relations
    (('vamos', 'nos'), array([-1,  0]), ('root', 'obj'))
    """
    trees = as_bool(trees, "trees")
    lines = read_lines(path)
    known: dict[str, str] = {}
    return [_sentence_of(lines, rows, known, trees) for rows in conllu_words(lines)]


def write_conllu(output: str | os.PathLike[str] | TextIO, sentences: Iterable[ParsedSentence]) -> None:
    r"""Write sentences as CoNLL-U so that `read_conllu` gives them back.

    Parameters
    ----------
    output : path, "-" or text stream
        A file appears under its name only when complete, and is gzipped if the name ends in ``.gz`` (see
        `open_output`); a stream is written directly and left open.
    sentences : iterable of ParsedSentence
        Lemmas, morphological features and the last two columns are written as ``_``.

    Raises
    ------
    InvalidInputError
        If a sentence is empty, its tags, heads or relations are not one per word, heads are out of range or form a
        cycle, or a text is empty or holds tabs or line ends; names the sentence.

    Examples
    --------
    >>> import io
    >>> stream = io.StringIO()
    >>> write_conllu(stream, [ParsedSentence(("it", "fell"), ("PRON", "VERB"), ("_", "_"), np.array([1, -1]))])
    >>> [line.split("\t")[:8] for line in stream.getvalue().splitlines()]  # doctest: +NORMALIZE_WHITESPACE
    [['1', 'it', '_', 'PRON', '_', '_', '2', '_'],
     ['2', 'fell', '_', 'VERB', '_', '_', '0', '_'],
     ['']]
    """
    texts = (_text_of(number, sentence) for number, sentence in enumerate(sentences))
    if isinstance(output, str | os.PathLike):
        with open_output(output) as stream:
            stream.writelines(texts)
    else:
        output.writelines(texts)


def _sentence_of(
    lines: Lines, rows: list[tuple[int, dict[str, str]]], known: dict[str, str], trees: bool
) -> ParsedSentence:
    columns: dict[str, list[str]] = {name: [] for name in ("form", "upos", "xpos", *["deprel"] * trees)}
    heads = np.full(len(rows), UNKNOWN_HEAD, np.int64)
    for place, (number, cells) in enumerate(rows):
        if cells["id"] != str(place + 1):
            lines.refuse(
                number,
                f"must have the number {place + 1}, but is {quoted(lines.lines[number])}; number the words of every "
                "sentence from 1 on, and leave a blank line between sentences",
            )
        for name, column in columns.items():
            text = cells.get(name, MISSING)
            if not text:
                lines.refuse(number, f"has no {name} in {quoted(lines.lines[number])}; write _ where there is none")
            column.append(known.setdefault(text, text))
        head = cells.get("head", MISSING) if trees else MISSING
        if head != MISSING:
            if not _NUMBER.fullmatch(head) or int(head) > len(rows):
                lines.refuse(
                    number,
                    f"has the head {shorten(head)}, but the sentence has the words 1 to {len(rows)}; write 0 for the "
                    "root, _ for a head that is not known",
                )
            heads[place] = int(head) - 1
    problem = describe_problem(heads, first=1)
    if problem is not None:
        lines.refuse(
            rows[problem[0]][0],
            f"{problem[1]}, so the heads are not a tree; repair them, or write _ for heads that are not known",
        )
    return ParsedSentence(
        tuple(columns["form"]),
        tuple(columns["upos"]),
        tuple(columns["xpos"]),
        None if (heads == UNKNOWN_HEAD).all() else heads,
        tuple(columns["deprel"]) if trees and set(columns["deprel"]) != {MISSING} else None,
    )


def _text_of(number: int, sentence: ParsedSentence) -> str:
    """The lines of a sentence and the blank one after it."""
    check_texts(sentence, number)
    n = len(sentence.forms)
    if not n:
        raise InvalidInputError(f"sentence {number} is empty, which CoNLL-U cannot say; leave it out")
    none = (MISSING,) * n
    relations = none if sentence.relations is None else sentence.relations
    heads = np.full(n, UNKNOWN_HEAD) if sentence.heads is None else as_array(sentence.heads, "heads")
    columns = (sentence.forms, sentence.upos, sentence.xpos, relations)
    for name, size in {"upos": len(sentence.upos), "xpos": len(sentence.xpos)}.items():
        if size != n:
            raise InvalidInputError(f"sentence {number}: {name} must be one per word, got {size} for {n} words")
    if heads.shape != (n,) or heads.dtype.kind not in "iu":
        raise InvalidInputError(
            f"sentence {number}: heads must be {n} whole numbers, one per word, got shape {heads.shape} of "
            f"{heads.dtype}; decide for heads first"
        )
    for column in columns:
        for text in column:
            if not text or any(mark in text for mark in _FORBIDDEN):
                raise InvalidInputError(
                    f"sentence {number}: {text!r} cannot be written; forms, tags and relations are str, not empty, "
                    "without tabs and line ends; replace it"
                )
    problem = describe_problem(heads)
    if problem is not None:
        raise InvalidInputError(
            f"sentence {number}: heads must be a tree, but {problem[1]}; use -2 for heads that are not known"
        )
    names = [MISSING if head == UNKNOWN_HEAD else str(head + 1) for head in heads.tolist()]
    rows = zip(*columns, names, strict=True)
    return "".join(
        f"{place}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t{relation}\t_\t_\n"
        for place, (form, upos, xpos, relation, head) in enumerate(rows, start=1)
    ) + ("\n")
