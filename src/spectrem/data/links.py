"""Alignment links of sentence pairs: arrays, the merging of two directions, and files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Ints
from spectrem._compiled import njit
from spectrem._reprs import brief_dataclass
from spectrem.data.files import decoded_lines, describe, display_name, parse_objects, read_pieces, write_lines
from spectrem.data.text import Text, tokenise
from spectrem.exceptions import InvalidInputError, quoted, shorten

MAX_LENGTH = 1 << 18
"""Longest sentence, in tokens; so that (sentence, source, target) fits into one int64."""
MAX_SENTENCES = (1 << 63) // MAX_LENGTH**2
"""Most sentences of one alignment, for the same reason."""


@brief_dataclass(frozen=True, eq=False)
class Links:
    """Links between the words of sentence pairs, sure or merely possible ([OchNey2003] §6).

    Predictions are all sure. In gold alignments the links marked sure are the set S and all links together the
    set P, so P contains S.

    Attributes
    ----------
    offsets : ndarray of shape (n_sentences + 1,), int64
        Links of sentence ``n`` are those from ``offsets[n]`` to ``offsets[n + 1]``.
    source, target : ndarray of shape (n_links,), int32
        Positions in the source and target sentence, from 0; in every sentence in increasing order of
        (source, target), none twice.
    sure : ndarray of shape (n_links,), bool

    Examples
    --------
    >>> links = Links.from_pairs([[(1, 1), (0, 0)], []])
    >>> links.n_sentences, links.n_links, links.pairs(0)
    (2, 2, [(0, 0), (1, 1)])
    """

    offsets: Ints
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    sure: Bools

    def __post_init__(self) -> None:
        if self.offsets.size > MAX_SENTENCES:
            raise InvalidInputError(
                f"links must be of at most {MAX_SENTENCES - 1} sentences, got {self.offsets.size - 1}; cut the text"
            )
        if not self.source.shape == self.target.shape == self.sure.shape == (self.source.size,):
            raise InvalidInputError(
                "source, target and sure must be one value per link, but have shapes "
                f"{self.source.shape}, {self.target.shape} and {self.sure.shape}; use Links.from_arrays"
            )
        ends = self.offsets[[0, -1]].tolist() if self.offsets.size else []
        if ends != [0, self.source.size] or np.any(np.diff(self.offsets) < 0):
            raise InvalidInputError(
                f"offsets must rise from 0 to the number of links, {self.source.size}, but are {self.offsets}; "
                "use Links.from_arrays"
            )
        _check_positions("source", self.source)
        _check_positions("target", self.target)
        if np.any(np.diff(self.keys) <= 0):
            raise InvalidInputError(
                "links must be in increasing order of (source, target) in every sentence and none twice; "
                "use Links.from_arrays, which sorts them"
            )

    def __eq__(self, other: object) -> bool:
        """Whether both have the same links, sure in the same places, in as many sentences."""
        if not isinstance(other, Links):
            return NotImplemented
        names = ("offsets", "source", "target", "sure")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    @classmethod
    def from_arrays(
        cls,
        sentence: ArrayLike,
        source: ArrayLike,
        target: ArrayLike,
        *,
        n_sentences: int,
        sure: ArrayLike | None = None,
    ) -> Links:
        """Sort links given in any order and merge repeated ones (sure wins).

        Parameters
        ----------
        sentence, source, target : array-like of shape (n_links,), int
            Sentence and positions of every link, from 0.
        n_sentences : int
        sure : array-like of shape (n_links,), bool, optional
            All sure if left out.

        Raises
        ------
        InvalidInputError
            If lengths differ, a sentence is not below ``n_sentences``, or a position is negative or beyond
            ``MAX_LENGTH``.
        """
        sentence, source, target = (np.asarray(a, dtype=np.int64) for a in (sentence, source, target))
        marks = np.ones(sentence.shape, dtype=bool) if sure is None else np.asarray(sure, dtype=bool)
        if not sentence.shape == source.shape == target.shape == marks.shape == (sentence.size,):
            raise InvalidInputError(
                "sentence, source, target and sure must be one value per link, but have shapes "
                f"{sentence.shape}, {source.shape}, {target.shape} and {marks.shape}"
            )
        _check_positions("source", source)
        _check_positions("target", target)
        wrong = sentence[(sentence < 0) | (sentence >= n_sentences)]
        if wrong.size:
            raise InvalidInputError(
                f"sentence must lie between 0 and n_sentences - 1 = {n_sentences - 1}, but {wrong[0]} was given; "
                "count sentences from 0"
            )
        keys = _keys(sentence, source, target)
        if np.any(np.diff(keys) <= 0):
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            first = np.flatnonzero(np.concatenate([[True], np.diff(keys) > 0]))
            marks = np.logical_or.reduceat(marks[order], first)
            sentence, source, target = (a[order][first] for a in (sentence, source, target))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(sentence, minlength=n_sentences))])
        return cls(offsets, source.astype(np.int32), target.astype(np.int32), marks)

    @classmethod
    def from_pairs(
        cls, sure: Sequence[Iterable[tuple[int, int]]], possible: Sequence[Iterable[tuple[int, int]]] | None = None
    ) -> Links:
        """Links from (source, target) pairs, sentence by sentence; for small examples and tests.

        Parameters
        ----------
        sure, possible : sequence of iterables of (source, target)
            One per sentence, positions from 0; ``possible`` links beside the sure ones.

        Returns
        -------
        Links
        """
        if possible is not None and len(possible) != len(sure):
            raise InvalidInputError(
                f"sure and possible must cover as many sentences as each other, but have {len(sure)} and "
                f"{len(possible)}; give an empty list where a sentence has none"
            )
        rows = [(n, i, j, True) for n, pairs in enumerate(sure) for i, j in pairs]
        rows += [(n, i, j, False) for n, pairs in enumerate(possible or ()) for i, j in pairs]
        sentence, source, target, marks = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return cls.from_arrays(sentence, source, target, n_sentences=len(sure), sure=marks)

    @property
    def n_sentences(self) -> int:
        return self.offsets.size - 1

    @property
    def n_links(self) -> int:
        return self.source.size

    @property
    def sentence(self) -> Ints:
        """Sentence of every link, shape (n_links,)."""
        return np.repeat(np.arange(self.n_sentences), np.diff(self.offsets))

    @property
    def keys(self) -> Ints:
        """One number per link, for set operations: ``(sentence * MAX_LENGTH + source) * MAX_LENGTH + target``."""
        return _keys(self.sentence, self.source, self.target)

    def pairs(self, sentence: int) -> list[tuple[int, int]]:
        """The (source, target) links of one sentence, sure and possible.

        Parameters
        ----------
        sentence : int
            From 0.

        Returns
        -------
        list of (int, int)
            Positions from 0.
        """
        span = slice(self.offsets[sentence], self.offsets[sentence + 1])
        return list(zip(self.source[span].tolist(), self.target[span].tolist(), strict=True))

    def check_inside(self, source_lengths: ArrayLike, target_lengths: ArrayLike, name: str = "links") -> None:
        """Raise unless these are links between the words of sentence pairs of these lengths.

        Parameters
        ----------
        source_lengths, target_lengths : array-like of shape (n_sentences,), int
            Numbers of words.
        name : str
            What the message calls the links, for example the name of their file.

        Raises
        ------
        InvalidInputError
            If numbers of sentences differ, or naming the first link that lies outside its sentence pair.

        Examples
        --------
        >>> Links.from_pairs([[(0, 1)], [(2, 0)]]).check_inside([3, 2], [2, 2])  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        InvalidInputError: links: link 2-0 of sentence pair 2 (counted from 1) lies outside its 2 source and 2 target...
        """
        sizes = np.asarray(source_lengths, np.int64), np.asarray(target_lengths, np.int64)
        if not sizes[0].size == sizes[1].size == self.n_sentences:
            raise InvalidInputError(
                f"{name} must be of as many sentence pairs as there are source and target sentences, {sizes[0].size} "
                f"and {sizes[1].size}, got {self.n_sentences}; give the links of the same text"
            )
        sentence = self.sentence
        outside = np.flatnonzero((self.source >= sizes[0][sentence]) | (self.target >= sizes[1][sentence]))
        if outside.size:
            at, n = outside[0], sentence[outside[0]]
            raise InvalidInputError(
                f"{name}: link {self.source[at]}-{self.target[at]} of sentence pair {n + 1} (counted from 1) lies "
                f"outside its {sizes[0][n]} source and {sizes[1][n]} target words; count words from 0"
            )

    def where(self, keep: Bools) -> Links:
        """The marked links only; ``links.where(links.sure)`` are the sure ones.

        Parameters
        ----------
        keep : ndarray of shape (n_links,), bool

        Returns
        -------
        Links
        """
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Links(kept[self.offsets], self.source[keep], self.target[keep], self.sure[keep])

    def take(self, indices: NDArray[np.integer]) -> Links:
        """The links of the sentences at the given indices, in that order.

        Parameters
        ----------
        indices : ndarray of int
            Numbers of sentences, from 0.

        Returns
        -------
        Links

        Examples
        --------
        >>> Links.from_pairs([[(0, 0)], [], [(1, 2), (3, 0)]]).take(np.array([2, 1])).offsets
        array([0, 2, 2])
        """
        lengths = np.diff(self.offsets)[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return Links(offsets, self.source[at], self.target[at], self.sure[at])

    def transposed(self) -> Links:
        """The same links with source and target exchanged.

        Returns
        -------
        Links
        """
        return Links.from_arrays(self.sentence, self.target, self.source, n_sentences=self.n_sentences, sure=self.sure)


def _check_positions(side: str, positions: NDArray[np.integer]) -> None:
    wrong = positions[(positions < 0) | (positions >= MAX_LENGTH)]
    if wrong.size:
        raise InvalidInputError(
            f"{side} positions must lie between 0 and {MAX_LENGTH - 1}, but {wrong[0]} was given; "
            "leave out links to NULL and count positions from 0"
        )


def _keys(sentence: Ints, source: NDArray[np.integer], target: NDArray[np.integer]) -> Ints:
    """One number per link, in the order of (sentence, source, target)."""
    return (sentence * MAX_LENGTH + source) * MAX_LENGTH + target


Symmetrization = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

_FORWARD, _BACKWARD = 1, 2
_NO_FINAL, _FINAL, _FINAL_AND = 0, 1, 2
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))  # (source, target)


def symmetrize(forward: Links, backward: Links, method: Symmetrization = "grow-diag-final-and") -> Links:
    """Merge the links of two directions ([OchNey2003] §4, [Koehn2005]).

    * ``intersection``: links of both; ``union``: links of either.
    * ``grow-diag``: start from the intersection. Pass over its links in increasing order of (source, target);
      around each, look at the neighbours (source, target) + (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1),
      (1, -1), (1, 1) in this order, and add a neighbour that is in the union if its source word or its target
      word has no link yet. A link added ahead in the order is itself visited in the same pass. Pass until
      nothing is added.
    * ``grow-diag-final``: then go through the links of ``forward`` in increasing order, then through those of
      ``backward``, and add each whose source word or target word has no link yet.
    * ``grow-diag-final-and``: the same, adding where both words have none.

    Use when each direction was decoded on its own; models trained or decoded with an agreement constraint rarely gain.

    Parameters
    ----------
    forward, backward : Links
        Links of the same sentences, both in (source, target) order; possible links count like sure ones.
    method : str

    Returns
    -------
    Links
        All sure.

    Raises
    ------
    InvalidInputError
        If the numbers of sentences differ or the method is not one of those above.

    Examples
    --------
    >>> forward = Links.from_pairs([[(0, 0), (1, 1), (1, 2)]])
    >>> backward = Links.from_pairs([[(0, 0), (3, 3)]])
    >>> symmetrize(forward, backward, "intersection").pairs(0)
    [(0, 0)]
    >>> symmetrize(forward, backward, "grow-diag").pairs(0)
    [(0, 0), (1, 1), (1, 2)]
    >>> symmetrize(forward, backward, "grow-diag-final-and").pairs(0)
    [(0, 0), (1, 1), (1, 2), (3, 3)]
    """
    if method not in get_args(Symmetrization):
        raise InvalidInputError(f"method must be one of {', '.join(get_args(Symmetrization))}, but is {method!r}")
    if forward.n_sentences != backward.n_sentences:
        raise InvalidInputError(
            f"forward and backward must align the same sentences, but have {forward.n_sentences} and "
            f"{backward.n_sentences}; give both directions of one bitext"
        )
    union, given_by = _union(forward, backward)
    if method == "union":
        return union
    chosen = given_by == _FORWARD | _BACKWARD
    if method != "intersection":
        final = {"grow-diag": _NO_FINAL, "grow-diag-final": _FINAL, "grow-diag-final-and": _FINAL_AND}[method]
        _grow(union.offsets, union.source, union.target, given_by, final, chosen)
    return union.where(chosen)


def _union(forward: Links, backward: Links) -> tuple[Links, NDArray[np.uint8]]:
    """The links of either direction and, for each, which gave it."""
    keys = np.concatenate([forward.keys, backward.keys])
    order = np.argsort(keys, kind="stable")  # stable: a merge of two sorted halves
    keys = keys[order]
    first = np.concatenate([[True], np.diff(keys) > 0])[: keys.size]
    by = np.repeat(np.array([_FORWARD, _BACKWARD], dtype=np.uint8), [forward.n_links, backward.n_links])[order]
    given_by = by[first]
    given_by[np.cumsum(first)[~first] - 1] |= by[~first]
    pairs, target = np.divmod(keys[first], MAX_LENGTH)
    sentence, source = np.divmod(pairs, MAX_LENGTH)
    return Links.from_arrays(sentence, source, target, n_sentences=forward.n_sentences), given_by


@njit(cache=True, nogil=True, error_model="numpy")
def _grow(offsets, source, target, given_by, final, chosen):  # type: ignore[no-untyped-def]
    """Add to the chosen links of every sentence, in place."""
    width = 1
    for k in range(source.size):
        width = max(width, source[k] + 1, target[k] + 1)
    source_linked = np.zeros(width, dtype=np.bool_)
    target_linked = np.zeros(width, dtype=np.bool_)
    row = np.zeros(width + 3, dtype=np.int64)  # links of source i start at row[i + 1]; an empty row on either side
    for n in range(offsets.size - 1):
        start, stop = offsets[n], offsets[n + 1]
        if start == stop:
            continue
        k = start
        for i in range(source[stop - 1] + 4):
            while k < stop and source[k] < i - 1:
                k += 1
            row[i] = k
        for k in range(start, stop):
            if chosen[k]:
                source_linked[source[k]] = True
                target_linked[target[k]] = True

        added = True
        while added:
            added = False
            for k in range(start, stop):
                if not chosen[k]:
                    continue
                for step_source, step_target in _NEIGHBOURS:
                    i = source[k] + step_source
                    j = target[k] + step_target
                    m = row[i + 1] + np.searchsorted(target[row[i + 1] : row[i + 2]], j)
                    is_link = m < row[i + 2] and target[m] == j
                    if is_link and not chosen[m] and not (source_linked[i] and target_linked[j]):
                        chosen[m] = True
                        source_linked[i] = True
                        target_linked[j] = True
                        added = True

        if final != _NO_FINAL:
            for direction in (_FORWARD, _BACKWARD):
                for k in range(start, stop):
                    i = source[k]
                    j = target[k]
                    n_linked = np.int64(source_linked[i]) + np.int64(target_linked[j])
                    limit = 1 if final == _FINAL else 0
                    if given_by[k] & direction and n_linked <= limit:
                        chosen[k] = True
                        source_linked[i] = True
                        target_linked[j] = True

        for k in range(start, stop):
            source_linked[source[k]] = False
            target_linked[target[k]] = False


def parse_json_links(data: bytes, name: str, n_sentences: int | None, bitext: str = "the bitext") -> Links:
    """Links of one JSON object a line, whose key ``links`` holds one ``[i, j]`` or ``[i, j, probability]`` per link.

    Parameters
    ----------
    data : bytes
    name : str
        How error messages call the text.
    n_sentences : int, optional
        How many objects there must be.
    bitext : str
        What has so many sentence pairs, for messages.

    Raises
    ------
    InvalidInputError
        Naming the line and what is wrong there.

    Examples
    --------
    >>> parse_json_links(b'{"links": [[0, 1, 0.9], [1, 0]]}', "example", None).pairs(0)
    [(0, 1), (1, 0)]
    """
    sentences, sources, targets = list[int](), list[int](), list[int]()
    n_objects = 0
    for number, record in parse_objects(decoded_lines([data], name), name):
        links = record.get("links")
        if not isinstance(links, list):
            problem = "has no" if "links" not in record else f"holds {describe(links)} as"
            raise InvalidInputError(
                f'{name}, line {number}: {problem} "links", a list of [i, j] or [i, j, probability] is needed; '
                "write it as `spectrem align --output-format json` does"
            )
        lengths = [len(record[side]) if isinstance(record.get(side), list) else None for side in ("source", "target")]
        for link in links:
            _check_json_link(link, lengths, f"{name}, line {number}")
            sentences.append(n_objects)
            sources.append(link[0])
            targets.append(link[1])
        n_objects += 1
    if n_sentences is not None and n_objects != n_sentences:
        raise InvalidInputError(
            f"{name} has {n_objects} JSON objects, but {bitext} has {n_sentences} sentence pairs; give the alignment "
            "of the same file, one object per pair"
        )
    return Links.from_arrays(sentences, sources, targets, n_sentences=n_objects)


def _check_json_link(link: Any, lengths: list[int | None], place: str) -> None:
    is_link = isinstance(link, list) and len(link) in (2, 3) and [type(at) for at in link[:2]] == [int, int]
    if not is_link or not all(type(p) in (int, float) and 0 <= p <= 1 for p in link[2:]):
        raise InvalidInputError(
            f"{place}: {quoted(link)} is not a link; write [i, j] or [i, j, probability], positions counted from 0"
        )
    for side, at, length in zip(("source", "target"), link, lengths, strict=False):
        most = MAX_LENGTH if length is None else length
        if not 0 <= at < most:
            raise InvalidInputError(
                f"{place}: link {shorten(str(link))} lies outside its {side} of {most} tokens; count from 0"
            )


# Of a file that numbers its sentences: one digit more in a number must not ask for gigabytes.
_MOST_NUMBERED = (1 << 23) - 1
_SHORTER = f"a position below {MAX_LENGTH}; check the file"
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

    Returns
    -------
    Links
        Sentence by sentence.

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

    Parameters
    ----------
    first, second : path or "-"
        Files as of `read_links`; one of them may be standard input.

    Returns
    -------
    (Links, Links)
        Both of as many sentences.

    Raises
    ------
    InvalidInputError
        As `read_links`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name, pairs in (("a", [(0, 0)]), ("b", [(0, 1)])):
    ...         write_pharaoh(f"{folder}/{name}", Links.from_pairs([pairs]))
    ...     first, second = read_both_links(f"{folder}/a", f"{folder}/b")
    >>> first.pairs(0), second.pairs(0)
    ([(0, 0)], [(0, 1)])
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
    """Write one line per sentence of ``i-j`` (sure) and ``i?j`` (possible) by `write_lines`.

    Parameters
    ----------
    path : path or "-"
        As of `write_lines`.
    links : Links
        Links of all sentences.

    Examples
    --------
    >>> write_pharaoh("-", Links.from_pairs([[(0, 0), (1, 1)]]))
    0-0 1-1
    """
    write_lines(path, pharaoh_lines(links))


def pharaoh_lines(links: Links) -> list[str]:
    """The Pharaoh line of every sentence, links in increasing order.

    Parameters
    ----------
    links : Links
        Links of all sentences.

    Returns
    -------
    list of str
        A line per sentence, without its end.

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

    Parameters
    ----------
    path : path or "-"
        As of `write_lines`.
    links : Links
        Links of all sentences.

    Examples
    --------
    >>> write_shared_task("-", Links.from_pairs([[(0, 0), (1, 1)]]))
    0001 1 1 S
    0001 2 2 S
    """
    columns = (links.sentence + 1, links.source + 1, links.target + 1, links.sure)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write_lines(path, (f"{n:04d} {i} {j} {'S' if sure else 'P'}" for n, i, j, sure in rows))


def _parse_pharaoh(text: Text, name: str, n_sentences: int | None, bitext: str) -> Links:
    if n_sentences is not None and text.n_lines != n_sentences:
        raise InvalidInputError(
            f"{name} has {text.n_lines} lines, but {bitext} has {n_sentences} sentence pairs; "
            "give the alignment of the same file, one line per pair"
        )
    matches = [_PHARAOH.fullmatch(word) for word in text.words]
    bad = np.array([match is None for match in matches], dtype=bool)
    _refuse(text, bad, name, "a link; write i-j (sure) or i?j (possible), positions counted from 0")
    parsed = [(int(match[1]), int(match[3]), match[2] == "-") for match in matches if match]
    source, target, sure = np.array(parsed, dtype=np.int64).reshape(-1, 3).T
    _refuse(text, np.maximum(source, target) >= MAX_LENGTH, name, _SHORTER)
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
        _refuse(text, numbers < (1 if k == 0 else 0), name, f"a {what}; count from 1 (0 is NULL)", starts + k)
    is_kind = np.array([word in ("S", "P") for word in text.words], dtype=bool)
    is_confidence = np.array([_NUMBER.fullmatch(word) is not None for word in text.words], dtype=bool)
    fourth, fifth = starts[fields >= 4] + 3, starts[fields == 5] + 3
    _refuse(text, ~(is_kind | is_confidence), name, "S, P or a confidence; write S for sure, P for possible", fourth)
    _refuse(text, ~is_kind, name, "S or P; write `sentence source target [S|P] [confidence]`", fifth)
    _refuse(text, ~is_confidence, name, "a confidence; write a number such as 0.9", fifth + 1)

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
    for k in (1, 2):
        _refuse(text, numbers >= MAX_LENGTH, name, _SHORTER, starts + k)
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


def _refuse(text: Text, bad_words: Bools, name: str, expected: str, positions: Ints | None = None) -> None:
    """Refuse the first of the tokens at some positions, or of all, whose word is bad."""
    among = np.arange(text.tokens.size) if positions is None else positions
    bad = among[bad_words[text.tokens[among]]]
    if bad.size:
        position = int(bad[0])
        word = text.words[text.tokens[position]]
        raise InvalidInputError(f"{name}, line {text.line_of(position)}: {quoted(word)} is not {expected}")
