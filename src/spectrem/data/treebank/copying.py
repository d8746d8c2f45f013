"""Files of CoNLL-U with other trees, all else kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from spectrem._heads import UNKNOWN_HEAD
from spectrem.data.readers import display_name, read_bytes
from spectrem.data.tagging.tagged_lines import MISSING, decoded_lines
from spectrem.data.treebank.sentence import ParsedSentence
from spectrem.exceptions import InvalidInputError

_WORD = re.compile(r"[0-9]+\t")
_HEAD, _RELATION, _GRAPH, _COLUMNS = 6, 7, 8, 10


def copy_with_trees(path: str | os.PathLike[str], sentences: Iterable[ParsedSentence]) -> Iterator[str]:
    r"""The lines of a file of CoNLL-U with heads and relations of other trees over its words.

    Comments, multiword ranges, empty nodes, lemmas and features stay as they are. The column of enhanced graphs becomes
    ``_`` in lines of words, as these belong to the old trees.

    Parameters
    ----------
    path : path
        Not standard input, which can be read once only.
    sentences : iterable of ParsedSentence
        Those of the file, with other heads and relations.

    Yields
    ------
    str
        Lines with their ends.

    Raises
    ------
    InvalidInputError
        If the sentences do not have the words of the file.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import read_conllu, write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = f"{folder}/a.conllu"
    ...     write_lines(name, ["# text = Go", "1\tGo\tgo\tVERB\t_\tMood=Imp\t_\t_\t_\t_", ""])
    ...     (one,) = read_conllu(name)
    ...     lines = list(copy_with_trees(name, [one._replace(heads=[-1], relations=("root",))]))
    >>> lines[:2]
    ['# text = Go\n', '1\tGo\tgo\tVERB\t_\tMood=Imp\t0\troot\t_\t_\n']
    """
    lines = decoded_lines(read_bytes(path), display_name(path))
    words = (word for one in sentences for word in _words(one))
    for number, line in enumerate(lines.lines):
        if _WORD.match(line):
            cells = line.split("\t")
            cells += [MISSING] * (_COLUMNS - len(cells))
            form, head, relation = next(words, (None, "", ""))
            if form != cells[1]:
                lines.refuse(number, f"has the word {cells[1]!r}, the sentences {form!r}; give those of the file")
            cells[_HEAD], cells[_RELATION], cells[_GRAPH] = head, relation, MISSING
            line = "\t".join(cells)
        yield line + "\n"
    left = next(words, None)
    if left is not None:
        raise InvalidInputError(f"{display_name(path)}: has no word {left[0]!r} at its end; give its own sentences")
    if lines.lines and lines.lines[-1].strip():
        yield "\n"


def _words(sentence: ParsedSentence) -> Iterator[tuple[str, str, str]]:
    """Form, head and relation of every word as CoNLL-U says them."""
    n = len(sentence.forms)
    heads = [UNKNOWN_HEAD] * n if sentence.heads is None else [int(head) for head in sentence.heads]
    relations = (MISSING,) * n if sentence.relations is None else sentence.relations
    for form, head, relation in zip(sentence.forms, heads, relations, strict=True):
        yield form, MISSING if head == UNKNOWN_HEAD else str(head + 1), relation
