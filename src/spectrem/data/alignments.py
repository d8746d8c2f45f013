"""Alignment files: Pharaoh lines, the format of the 2003 and 2005 shared tasks, and JSON lines (read only)."""

from __future__ import annotations

import os
import re
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.data.links import MAX_LENGTH, Links
from spectrem.data.raw.json_links import parse_json_links
from spectrem.data.reading import display_name, read_pieces
from spectrem.data.text import Text, tokenise
from spectrem.data.writers import write_lines
from spectrem.exceptions import InvalidInputError, quoted

# Of a file that numbers its sentences: one digit more in a number must not ask for gigabytes.
_MOST_NUMBERED = (1 << 23) - 1
_PHARAOH = re.compile(r"([0-9]{1,7})([-?])([0-9]{1,7})")
_WHOLE = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?")


def read_links(
    path: str | os.PathLike[str],
    n_sentences: int | None = None,
    *,
    lengths: tuple[ArrayLike, ArrayLike] | None = None,
) -> Links:
    """Read an alignment file in any of three formats, recognised by its first line that is not blank.

    Pharaoh: one line per sentence pair of ``i-j`` (sure) and ``i?j`` (possible), positions from 0; blank lines are
    sentences without links. Shared task (``.wa``, [MihalceaPedersen2003]): one line per link of
    ``sentence source target [S|P] [confidence]``, all numbers from 1, S if not said; a position 0 is NULL and such
    lines are left out, as are confidences. A link given twice is sure if it is so once. JSON: one object per sentence
    pair, as ``spectrem align --output-format json`` writes them; all links are sure.

    Parameters
    ----------
    path : path or "-"
        Plain or gzipped; ``-`` is standard input.
    n_sentences : int, optional
        How many sentence pairs the bitext has. A Pharaoh file must have as many lines; in a ``.wa`` file,
        which does not show trailing sentences without links, it is the highest sentence if left out.
    lengths : (array-like, array-like) of int, optional
        The numbers of words of all source and of all target sentences of the bitext, in place of ``n_sentences``.

    Raises
    ------
    InvalidInputError
        Naming file, line and value; a link beyond the words of its sentence pair where ``lengths`` say how many.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_pharaoh(f"{folder}/gold", Links.from_pairs([[(0, 0)], []], possible=[[(1, 0)], []]))
    ...     print(Path(folder, "gold").read_text())
    ...     read_links(f"{folder}/gold", n_sentences=2).sure
    0-0 1?0
    <BLANKLINE>
    <BLANKLINE>
    array([ True, False])
    """
    name = display_name(path)
    links = _parse(b"".join(read_pieces(path)), name, n_sentences if lengths is None else len(np.asarray(lengths[0])))
    if lengths is not None:
        links.check_inside(*lengths, name)
    return links


def read_both_links(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> tuple[Links, Links]:
    """Read two alignments of one bitext, each file once, so that pipes will do.

    A ``.wa`` file does not show how many sentence pairs there are; the longer of both does.

    Raises
    ------
    InvalidInputError
        As `read_links`.
    """
    names = [display_name(path) for path in (first, second)]
    texts = [b"".join(read_pieces(path)) for path in (first, second)]
    first_links, second_links = (_parse(text, name, None) for text, name in zip(texts, names, strict=True))
    if first_links.n_sentences < second_links.n_sentences:
        first_links = _parse(texts[0], names[0], second_links.n_sentences, names[1])
    elif second_links.n_sentences < first_links.n_sentences:
        second_links = _parse(texts[1], names[1], first_links.n_sentences, names[0])
    return first_links, second_links


def _parse(data: bytes, name: str, n_sentences: int | None, bitext: str = "the bitext") -> Links:
    if data.lstrip().startswith(b"{"):
        return parse_json_links(data, name, n_sentences, bitext)
    text = tokenise(data, name)
    if text.tokens.size and _WHOLE.fullmatch(text.words[text.tokens[0]]):
        return _parse_shared_task(text, name, n_sentences)
    return _parse_pharaoh(text, name, n_sentences, bitext)


def write_pharaoh(path: str | os.PathLike[str], links: Links) -> None:
    """Write one line per sentence of ``i-j`` (sure) and ``i?j`` (possible) by `write_lines`."""
    write_lines(path, pharaoh_lines(links))


def pharaoh_lines(links: Links) -> list[str]:
    """The Pharaoh line of every sentence, links in increasing order.

    Examples
    --------
    >>> pharaoh_lines(Links.from_pairs([[(0, 1)], []], possible=[[(0, 0)], []]))
    ['0?0 0-1', '']
    """
    codes = (links.source.astype(np.int64) * MAX_LENGTH + links.target) * 2 + links.sure
    distinct, inverse = np.unique(codes, return_inverse=True)
    spelled = [
        f"{code // 2 // MAX_LENGTH}{'-' if code % 2 else '?'}{code // 2 % MAX_LENGTH}" for code in distinct.tolist()
    ]
    each = np.array(spelled, dtype=object)[inverse].tolist()
    offsets = links.offsets.tolist()
    return [" ".join(each[a:b]) for a, b in pairwise(offsets)]


def write_shared_task(path: str | os.PathLike[str], links: Links) -> None:
    """Write one line per link of ``sentence source target S|P``, all numbers from 1, by `write_lines`.

    Sentence numbers have four digits or more. Sentences without links leave no trace, so give their number to
    `read_links`.
    """
    rows = zip(
        (links.sentence + 1).tolist(),
        (links.source + 1).tolist(),
        (links.target + 1).tolist(),
        links.sure.tolist(),
        strict=True,
    )
    write_lines(path, (f"{n:04d} {i} {j} {'S' if sure else 'P'}" for n, i, j, sure in rows))


def _parse_pharaoh(text: Text, name: str, n_sentences: int | None, bitext: str) -> Links:
    if n_sentences is not None and text.n_lines != n_sentences:
        raise InvalidInputError(
            f"{name} has {text.n_lines} lines, but {bitext} has {n_sentences} sentence pairs; "
            "give the alignment of the same file, one line per pair"
        )
    matches = [_PHARAOH.fullmatch(word) for word in text.words]
    bad = text.first_line_where(np.array([match is None for match in matches], dtype=bool))
    if bad is not None:
        raise InvalidInputError(
            f"{name}, line {bad[0]}: {quoted(bad[1])} is not a link; write i-j (sure) or i?j (possible), "
            "positions counted from 0"
        )
    parsed = [(int(match[1]), int(match[3]), match[2] == "-") for match in matches if match]
    source, target, sure = np.array(parsed, dtype=np.int64).reshape(-1, 3).T
    _check_length(text, np.maximum(source, target), name)
    sentence = np.repeat(np.arange(text.n_lines), np.diff(text.offsets))
    return Links.from_arrays(
        sentence, source[text.tokens], target[text.tokens], n_sentences=text.n_lines, sure=sure[text.tokens]
    )


def _parse_shared_task(text: Text, name: str, n_sentences: int | None) -> Links:
    fields = np.diff(text.offsets)
    starts = text.offsets[:-1][fields > 0]
    fields = fields[fields > 0]
    wrong = np.flatnonzero((fields < 3) | (fields > 5))
    if wrong.size:
        line = text.line_of(int(starts[wrong[0]]))
        raise InvalidInputError(
            f"{name}, line {line}: has {fields[wrong[0]]} fields; write `sentence source target [S|P] [confidence]`"
        )
    numbers = np.array([int(word) if _WHOLE.fullmatch(word) else -1 for word in text.words], dtype=np.int64)
    for k, what in enumerate(("sentence number", "source position", "target position")):
        _refuse(text, starts + k, numbers < (1 if k == 0 else 0), name, f"a {what}; count from 1 (0 is NULL)")
    is_kind = np.array([word in ("S", "P") for word in text.words], dtype=bool)
    is_confidence = np.array([_NUMBER.fullmatch(word) is not None for word in text.words], dtype=bool)
    fourth, fifth = starts[fields >= 4] + 3, starts[fields == 5] + 3
    _refuse(text, fourth, ~(is_kind | is_confidence), name, "S, P or a confidence; write S for sure, P for possible")
    _refuse(text, fifth, ~is_kind, name, "S or P; write `sentence source target [S|P] [confidence]`")
    _refuse(text, fifth + 1, ~is_confidence, name, "a confidence; write a number such as 0.9")

    sentence, source, target = (numbers[text.tokens[starts + k]] for k in range(3))
    last = int(sentence.max())
    most = _MOST_NUMBERED if n_sentences is None else n_sentences
    if last > most:
        line = text.line_of(int(starts[np.argmax(sentence > most)]))
        of = "that can be" if n_sentences is None else "of the bitext"
        raise InvalidInputError(
            f"{name}, line {line}: sentence {sentence[sentence > most][0]} lies beyond the {most} sentence pairs {of}; "
            "give the alignment of the same file"
        )
    _check_length(text, numbers, name, starts + 1, starts + 2)
    sure = np.ones(starts.size, dtype=bool)
    sure[fields >= 4] = np.array([word != "P" for word in text.words], dtype=bool)[text.tokens[fourth]]
    linked = (source > 0) & (target > 0)
    return Links.from_arrays(
        sentence[linked] - 1,
        source[linked] - 1,
        target[linked] - 1,
        n_sentences=last if n_sentences is None else n_sentences,
        sure=sure[linked],
    )


def _refuse(text: Text, positions: NDArray[np.int64], bad_words: NDArray[np.bool_], name: str, expected: str) -> None:
    bad = positions[bad_words[text.tokens[positions]]]
    if bad.size:
        position = int(bad[0])
        word = text.words[text.tokens[position]]
        raise InvalidInputError(f"{name}, line {text.line_of(position)}: {quoted(word)} is not {expected}")


def _check_length(text: Text, numbers: NDArray[np.int64], name: str, *positions: NDArray[np.int64]) -> None:
    """Refuse tokens (all, or those at some positions) that stand for too long a sentence."""
    for among in positions or (np.arange(text.tokens.size),):
        _refuse(text, among, numbers >= MAX_LENGTH, name, f"a position below {MAX_LENGTH}; check the file")
