"""Files of CoNLL-U with other trees, all else kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain

from spectrem._heads import UNKNOWN_HEAD
from spectrem.data.reading import display_name, read_lines
from spectrem.data.tagging.tagged_lines import MISSING, conllu_words
from spectrem.data.treebank.sentence import ParsedSentence
from spectrem.exceptions import InvalidInputError


def copy_with_trees(path: str | os.PathLike[str], sentences: Iterable[ParsedSentence]) -> Iterator[str]:
    r"""The lines of a file of CoNLL-U with heads and relations of other trees over its words.

    Comments, multiword ranges, empty nodes, lemmas and features stay as they are, and columns those that
    ``# global.columns`` declares (CoNLL-U Plus). The column of enhanced graphs becomes ``_`` in lines of words, as
    these belong to the old trees.

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
        Before the first line, if the sentences do not have the words of the file, or the file has no column for their
        heads or relations.

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
    lines = read_lines(path)
    texts = list(lines.lines)
    words = (word for one in sentences for word in _words(one))
    for number, cells in chain.from_iterable(conllu_words(lines)):
        form, head, relation = next(words, (None, "", ""))
        if form != cells["form"]:
            lines.refuse(number, f"has the word {cells['form']!r}, the sentences {form!r}; give those of the file")
        for column, cell in (("head", head), ("deprel", relation), ("deps", MISSING)):
            if column in cells:
                cells[column] = cell
            elif cell != MISSING:
                lines.refuse(
                    number,
                    f"has no column {column.upper()}, which {cell!r} belongs into; declare it in `# global.columns`, "
                    "and write _ there",
                )
        texts[number] = "\t".join(cells.values())
    left = next(words, None)
    if left is not None:
        raise InvalidInputError(f"{display_name(path)}: has no word {left[0]!r} at its end; give its own sentences")
    for text in texts:
        yield text + "\n"
    if texts[-1].strip():
        yield "\n"


def _words(sentence: ParsedSentence) -> Iterator[tuple[str, str, str]]:
    """Form, head and relation of every word as CoNLL-U says them."""
    n = len(sentence.forms)
    heads = [UNKNOWN_HEAD] * n if sentence.heads is None else [int(head) for head in sentence.heads]
    relations = (MISSING,) * n if sentence.relations is None else sentence.relations
    for form, head, relation in zip(sentence.forms, heads, relations, strict=True):
        yield form, MISSING if head == UNKNOWN_HEAD else str(head + 1), relation
