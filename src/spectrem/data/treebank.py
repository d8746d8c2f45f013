"""Sentences with dependency trees: CoNLL-U in and out, checks of heads, and projective trees from others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._html import MOST_SHOWN, and_more, page
from spectrem._reprs import briefly_shown
from spectrem._validate import as_array, as_bool, as_integers, as_texts
from spectrem.data.files import Lines, read_lines, write_texts
from spectrem.data.tagged import MISSING, conllu_cells, conllu_words, number_lines
from spectrem.data.tree_picture import draw_tree
from spectrem.exceptions import InvalidInputError, counted, quoted, shorten

_HINT = "write '_' where there is none"


@briefly_shown
class ParsedSentence(NamedTuple):
    """Words, tags, heads and relations of one sentence.

    Attributes
    ----------
    forms : tuple of str
    upos, xpos : tuple of str
        Universal and language-specific tags; ``_`` where there is none.
    heads : ndarray of shape (n_words,), int64, or None
        The position of every word's head in the sentence, from 0; ``ROOT`` (-1) where it hangs on the root,
        ``UNKNOWN_HEAD`` (-2) where its head is not known. None where no head is known.
    relations : tuple of str, or None
        The relation of every word to its head; ``_`` where it is not known. None where none is.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.data import ROOT
    >>> ParsedSentence(("it", "fell"), ("PRON", "VERB"), ("_", "_"), np.array([1, ROOT]), ("nsubj", "root")).heads
    array([ 1, -1])
    """

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: Ints | None = None
    relations: tuple[str, ...] | None = None

    def _picture(self) -> str:
        return draw_tree(self.forms, self.upos, self.heads, self.relations)

    def _repr_html_(self) -> str:
        return page(f"Sentence of {counted(len(self.forms), 'word')}", self._picture())


class Trees(list[ParsedSentence]):
    """Sentences of a treebank, of which notebooks show the first."""

    def _repr_html_(self) -> str:
        pictures = (f"<div>{sentence._picture()}</div>" for sentence in self[:MOST_SHOWN])
        return page(counted(len(self), "sentence"), *pictures, and_more(len(self) - MOST_SHOWN))


class FileTrees(Trees):
    """Sentences of a file of CoNLL-U.

    Attributes
    ----------
    starts : list of int
        The line, from 1, of the first word of each.
    """

    def __init__(self, sentences: Iterable[ParsedSentence], starts: Iterable[int]) -> None:
        super().__init__(sentences)
        self.starts = list(starts)

    def up_to(self, longest: int | None, least: int = 0) -> FileTrees:
        """Those with so many words."""
        sizes = [len(one.forms) for one in self]
        kept = [k for k, size in enumerate(sizes) if least <= size and (longest is None or size <= longest)]
        return FileTrees((self[k] for k in kept), (self.starts[k] for k in kept))


def check_texts(sentence: ParsedSentence, number: int) -> None:
    """Raise `InvalidInputError` unless words, tags and relations are texts, and relations one per word."""
    for name in ("forms", "upos", "xpos", "relations"):
        texts = getattr(sentence, name)
        if texts is None and name == "relations":
            continue
        size, n = len(as_texts(texts, f"sentence {number}: {name}", _HINT)), len(sentence.forms)
        if size != n and name == "relations":
            raise InvalidInputError(
                f"sentence {number}: relations must be one per word, got {size} for {n} words; {_HINT}"
            )


def describe_problem(heads: Ints, first: int = 0) -> tuple[int, str] | None:
    """The first word whose head cannot be part of a tree, and why; None if the known heads fit a tree.

    Parameters
    ----------
    heads : ndarray of shape (n_words,), int64
        From 0; ``ROOT`` (-1) for the root, ``UNKNOWN_HEAD`` (-2) where not known. Several words may hang on the root.
    first : int
        What the problem calls the first word: 0 as heads count here, 1 as in CoNLL-U.

    Returns
    -------
    (int, str) or None
        The position of the word, from 0, and the problem.

    Examples
    --------
    >>> describe_problem(np.array([1, -1, 3, 2]))
    (2, 'words 2 and 3 are heads of each other in a cycle')
    >>> describe_problem(np.array([1, 7]), first=1)
    (1, 'word 2 has the head 8, but the sentence has the words 1 to 2')
    >>> describe_problem(np.array([1, -2]))
    """
    n = len(heads)
    outside = np.flatnonzero((heads < UNKNOWN_HEAD) | (heads >= n))
    if len(outside):
        word = int(outside[0])
        head, last = heads[word] + first, n - 1 + first
        return word, f"word {word + first} has the head {head}, but the sentence has the words {first} to {last}"
    state = np.zeros(n, np.int64)  # the word from which a word was first reached, counted from 1
    for start in range(n):
        word, path = start, []
        while word >= 0 and not state[word]:
            state[word] = start + 1
            path.append(word)
            word = int(heads[word])
        if word >= 0 and state[word] == start + 1:
            cycle = sorted(path[path.index(word) :])
            if len(cycle) == 1:
                return word, f"word {word + first} is its own head"
            *others, last = (other + first for other in cycle)
            names = f"{', '.join(map(str, others))} and {last}"
            tail = "each other" if len(cycle) == 2 else "one another"
            return cycle[0], f"words {names} are heads of {tail} in a cycle"
    return None


def check_heads(heads: ArrayLike, sentence: int, n: int, *, unknown: bool = False) -> Ints:
    """The heads of the n words of a sentence as positions, -1 for the root, -2 where not known.

    Parameters
    ----------
    heads : array-like of shape (n,)
    sentence : int
        Its number, for errors.
    n : int
    unknown : bool
        Whether None may stand for heads that are not known.

    Raises
    ------
    InvalidInputError
        If they are not whole numbers, one per word, or do not fit a tree.
    """
    name = f"heads of sentence {sentence}"
    positions = as_array(heads, name)
    if unknown and positions.dtype == object and positions.ndim == 1:
        positions = as_array([UNKNOWN_HEAD if head is None else head for head in positions.tolist()], name)
    if positions.shape != (n,) or (n and positions.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"{name} must be {n} integers, one per word, got shape {positions.shape} of {positions.dtype}; decide for "
            f"heads first, with {UNKNOWN_HEAD} where they are not known"
        )
    positions = positions.astype(np.int64)
    problem = describe_problem(positions)
    if problem is not None:
        raise InvalidInputError(
            f"{name} must fit a tree, but {problem[1]}; heads count from 0, {ROOT} is the root, {UNKNOWN_HEAD} is not "
            "known"
        )
    return positions


def is_projective(heads: ArrayLike) -> bool:
    """Whether no two arcs cross, those from the root, which stands before the first word, included.

    Heads of which some are not known are projective if a tree without crossing arcs has them.

    Parameters
    ----------
    heads : array-like of shape (n_words,), int
        From 0; ``ROOT`` (-1) for the root, ``UNKNOWN_HEAD`` (-2) where not known.

    Returns
    -------
    bool
        False if two arcs cross.

    Examples
    --------
    >>> is_projective([1, -1, 1]), is_projective([2, -1, 1]), is_projective([2, 3, -1, 1])
    (True, False, False)
    >>> is_projective([2, -2, -2]), is_projective([3, -2, -2, 1])
    (True, False)
    """
    head = as_integers(heads, "heads")
    if (head >= len(head)).any():
        raise InvalidInputError(f"heads must be positions in the sentence of {len(head)} words, got {head.max()}")
    word = np.flatnonzero(head > UNKNOWN_HEAD)
    left, right = np.minimum(word, head[word]), np.maximum(word, head[word])
    begins_inside = (left[:, None] < left) & (left < right[:, None])
    if (begins_inside & (right > right[:, None])).any():
        return False
    return len(word) == len(head) or _leaves_tops_free(head.tolist())


def _leaves_tops_free(heads: list[int]) -> bool:
    """Whether there is no cycle, and no arc passes over the topmost word above its dependent.

    Whatever the head of that word is, its arc would cross the other.
    """
    for word, head in enumerate(heads):
        top, steps = word, 0
        while heads[top] >= 0:
            top, steps = heads[top], steps + 1
            if steps > len(heads):
                return False
        if head >= 0 and min(word, head) < top < max(word, head):
            return False
    return True


def projectivise(heads: ArrayLike) -> Ints:
    """Lift words to the heads of their heads until no arcs cross; heads that are projective stay as they are.

    The shortest arc over a word that cannot descend from its head is lifted first [NivreNilsson2005], so that few
    heads change (0.2 to 0.5 % of those of treebanks). A single root stays single. Where heads are known in part, a word
    whose head has no known head, or hangs on the root, is lifted to a head that is not known.

    Parameters
    ----------
    heads : array-like of shape (n_words,), int
        Without cycles. ``UNKNOWN_HEAD`` (-2) where not known.

    Returns
    -------
    ndarray of shape (n_words,), int64

    Raises
    ------
    InvalidInputError
        If heads are out of range, or form a cycle.

    Examples
    --------
    >>> projectivise([2, -1, 1]), projectivise([2, 3, -1, 2])
    (array([ 1, -1,  1]), array([ 2,  2, -1,  2]))
    >>> projectivise([2, 3, -2, -2])
    array([-2,  3, -2, -2])
    """
    tree = as_integers(heads, "heads").copy()
    problem = describe_problem(tree)
    if problem is not None:
        raise InvalidInputError(f"heads must fit a tree, but {problem[1]}; repair them or leave the sentence out")
    if is_projective(tree):
        return tree
    partial = bool((tree == UNKNOWN_HEAD).any())
    while True:
        lifted = _shortest_lift(tree)
        if lifted is None:
            return tree
        over = tree[tree[lifted]]
        tree[lifted] = UNKNOWN_HEAD if partial and over == ROOT else over


def _shortest_lift(heads: Ints) -> int | None:
    """The word of the shortest arc, of equals the first, over a word that cannot descend from its head.

    Such a word does not descend from it so far, and is tied by other arcs to the head, to the root or to a word that
    stands outside the arc, so that it cannot come under the head without crossing.
    """
    n = len(heads)
    below = np.zeros((n + 1, n + 1), np.bool_)  # [head, word], the root last: below the head, or the head itself
    top = np.arange(n)
    for word in range(n):
        over = word
        while over >= 0:
            below[over, word] = True
            top[word], over = over, int(heads[over])
    below[n] = True
    top[heads[top] == ROOT] = n  # all that hang on the root belong together
    first, last = np.full(n + 1, n), np.full(n + 1, -1)
    np.minimum.at(first, top, np.arange(n))
    np.maximum.at(last, top, np.arange(n))
    first[n] = ROOT
    best: int | None = None
    least = n + 1
    for word, head in enumerate(heads.tolist()):
        low, high = min(word, head), max(word, head)
        if head == UNKNOWN_HEAD or high - low >= least:
            continue
        inside = slice(low + 1, high)
        own = top[inside]
        tied = (own == top[word]) | (first[own] < low) | (last[own] > high)
        if (tied & ~below[head, inside]).any():
            best, least = word, high - low
    return best


_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_FORBIDDEN = "\t\n\r"


def read_conllu(path: str | os.PathLike[str] | Lines, *, trees: bool = True) -> FileTrees:
    r"""Read sentences with tags, heads and relations from CoNLL-U; UTF-8, plain or gzipped.

    As the format of Universal Dependencies says, the tree is one over words: lines of multiword ranges (``3-4``), of
    empty nodes (``5.1``) and comments are left out. Forms may have spaces. Heads ``_`` are not known; a sentence may
    have some, and then the others must fit a tree.

    Parameters
    ----------
    path : path, "-" or Lines
        ``-`` is standard input; lines have been read already.
    trees : bool
        False: heads and relations are not read, whatever stands there, and are None.

    Returns
    -------
    list of ParsedSentence
        Heads count from 0, and -1 is the root; in the file words count from 1, and 0 is the root. The list has an
        attribute ``starts``, the line of the first word of every sentence.

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
    lines = path if isinstance(path, Lines) else read_lines(path)
    known: dict[str, str] = {}
    starts = list[int]()
    sentences = list[ParsedSentence]()
    for rows in conllu_words(lines):
        starts.append(rows[0][0] + 1)
        sentences.append(_sentence_of(lines, rows, known, trees))
    return FileTrees(sentences, starts)


def write_conllu(output: str | os.PathLike[str] | TextIO, sentences: Iterable[ParsedSentence]) -> None:
    r"""Write sentences as CoNLL-U so that `read_conllu` gives them back.

    Parameters
    ----------
    output : path, "-" or text stream
        A file appears under its name only when complete, and is gzipped if the name ends in ``.gz`` (see
        ``open_output``); a stream is written directly and left open.
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
    write_texts(output, (_text_of(number, sentence) for number, sentence in enumerate(sentences)))


def _sentence_of(
    lines: Lines, rows: list[tuple[int, dict[str, str]]], known: dict[str, str], trees: bool
) -> ParsedSentence:
    columns: dict[str, list[str]] = {name: [] for name in ("form", "upos", "xpos", *["head", "deprel"] * trees)}
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
        head = columns["head"][-1] if trees else MISSING
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
    for name, size in {"upos": len(sentence.upos), "xpos": len(sentence.xpos)}.items():
        if size != n:
            raise InvalidInputError(f"sentence {number}: {name} must be one per word, got {size} for {n} words")
    if sentence.heads is not None:
        check_heads(sentence.heads, number, n)
    for text in chain(sentence.forms, sentence.upos, sentence.xpos, sentence.relations or ()):
        if not text or any(mark in text for mark in _FORBIDDEN):
            raise InvalidInputError(
                f"sentence {number}: {text!r} cannot be written; forms, tags and relations are str, not empty, "
                "without tabs and line ends; replace it"
            )
    forms, names, relations = zip(*_words(sentence), strict=True)
    return number_lines(map(conllu_cells, forms, sentence.upos, sentence.xpos, names, relations))


def copy_with_trees(path: str | os.PathLike[str] | Lines, sentences: Iterable[ParsedSentence]) -> Iterator[str]:
    r"""The lines of a file of CoNLL-U with heads and relations of other trees over its words.

    Comments, multiword ranges, empty nodes, lemmas and features stay as they are, and columns those that
    ``# global.columns`` declares (CoNLL-U Plus). The column of enhanced graphs becomes ``_`` in lines of words, as
    these belong to the old trees.

    Parameters
    ----------
    path : path or Lines
        Not standard input, which can be read once only: give its lines.
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
    lines = path if isinstance(path, Lines) else read_lines(path)
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
        raise InvalidInputError(f"{lines.name}: has no word {left[0]!r} at its end; give its own sentences")
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
