"""Lines of bytes to numbered tokens, and the vocabularies of languages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Ints
from spectrem._compiled import njit
from spectrem._reprs import brief_dataclass
from spectrem.data.files import decode, stray_return
from spectrem.exceptions import InvalidInputError

UNKNOWN = -1
"""The number of every word that a vocabulary does not hold."""


@brief_dataclass(frozen=True)
class Vocabulary:
    """Distinct words, numbered in the order given.

    Parameters
    ----------
    words : tuple of str
        Word ``k`` has number ``k``.

    Attributes
    ----------
    index : dict of str -> int
        The inverse of ``words``.

    Raises
    ------
    InvalidInputError
        If a word occurs twice.

    Examples
    --------
    >>> vocabulary = Vocabulary.from_words(["the", "house", "the"])
    >>> vocabulary.words
    ('the', 'house')
    >>> vocabulary.lookup(["house", "tree"])
    array([ 1, -1], dtype=int32)
    """

    words: tuple[str, ...]
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {word: number for number, word in enumerate(self.words)}
        if len(index) < len(self.words):
            number = next(n for n, word in enumerate(self.words) if index[word] != n)
            raise InvalidInputError(
                f"words must be distinct, but {self.words[number]!r} occurs at {number} and "
                f"{index[self.words[number]]}; use Vocabulary.from_words to drop repetitions"
            )
        object.__setattr__(self, "index", index)

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Vocabulary:
        """Number words in the order of their first appearance.

        Parameters
        ----------
        words : iterable of str
            Words that come again keep the number that they have.

        Returns
        -------
        Vocabulary
        """
        return cls(tuple(dict.fromkeys(words)))

    def __len__(self) -> int:
        return len(self.words)

    def lookup(self, words: Iterable[str]) -> NDArray[np.int32]:
        """Numbers of words, ``UNKNOWN`` (-1) for those not held; shape (number of words,), int32.

        Parameters
        ----------
        words : iterable of str

        Returns
        -------
        ndarray of int32
        """
        get = self.index.get
        return np.fromiter((get(word, UNKNOWN) for word in words), dtype=np.int32)

    def extend(self, words: Iterable[str]) -> Vocabulary:
        """Keep every number and append the words not yet held.

        Parameters
        ----------
        words : iterable of str

        Returns
        -------
        Vocabulary
        """
        return Vocabulary.from_words([*self.words, *words])


@brief_dataclass(frozen=True)
class Text:
    """Tokenised lines.

    Attributes
    ----------
    tokens : ndarray of shape (n_tokens,), int32
        Index into ``words``, line after line.
    offsets : ndarray of shape (n_lines + 1,), int64
        Line ``n`` is ``tokens[offsets[n]:offsets[n + 1]]``.
    words : tuple of str
        The distinct tokens in the order of their first appearance.

    Examples
    --------
    >>> text = Text(np.array([0, 1, 0], np.int32), np.array([0, 2, 3]), ("the", "dog"))
    >>> text.line_of(2)
    2
    """

    tokens: NDArray[np.int32]
    offsets: Ints
    words: tuple[str, ...]

    @property
    def n_lines(self) -> int:
        return self.offsets.size - 1

    def line_of(self, position: int) -> int:
        """The line, counted from 1, that holds the token at a position of ``tokens``.

        Parameters
        ----------
        position : int
            From 0.

        Returns
        -------
        int
        """
        return int(np.searchsorted(self.offsets, position, side="right"))


def tokenise(data: bytes, name: str, *, split_tabs: bool = True, first_line: int = 1) -> Text:
    r"""Split UTF-8 lines into tokens and number them.

    Lines end with ``\n`` or ``\r\n`` and nothing else; tokens are separated by spaces and tabs and
    nothing else. A no-break space, for example, is a character of its token, because tokenisers write it
    inside one ("10 000"), and so are the further line separators of Unicode, because splitting there
    would break the pairing of lines.

    Parameters
    ----------
    data : bytes
    name : str
        How error messages call the text.
    split_tabs : bool
        Whether a tab separates tokens or is part of one.
    first_line : int
        The number of the first line, for error messages.

    Returns
    -------
    Text
        The numbers of the tokens, where lines begin, and the words in the order of first appearance.

    Raises
    ------
    InvalidInputError
        If the bytes are not UTF-8, naming the line and the byte; or a carriage return stands inside a line.

    Examples
    --------
    >>> text = tokenise(b"a b\n\nb a c\n", "example")
    >>> text.tokens.tolist(), text.offsets.tolist(), text.words
    ([0, 1, 1, 0, 2], [0, 2, 2, 5], ('a', 'b', 'c'))
    """
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        data = data[:-1] + b"\n" if data.endswith(b"\r") else data
        if (at := data.find(b"\r")) >= 0:
            decode(data, name, first_line)  # what is no text is said first
            raise stray_return(name, first_line + data.count(b"\n", 0, at))
    buffer = np.frombuffer(data, dtype=np.uint8)
    n_lines, n_tokens = _count(buffer, split_tabs)
    tokens = np.empty(n_tokens, dtype=np.int32)
    offsets = np.empty(n_lines + 1, dtype=np.int64)
    starts, stops = _number_tokens(buffer, split_tabs, tokens, offsets)
    try:
        words = tuple([data[a:b].decode() for a, b in zip(starts.tolist(), stops.tolist(), strict=True)])
    except UnicodeDecodeError:
        decode(data, name, first_line)  # says which line and byte
        raise
    return Text(tokens, offsets, words)


@njit(cache=True, nogil=True, error_model="numpy")
def _count(data, split_tabs):  # type: ignore[no-untyped-def]
    n_lines = 0
    n_tokens = 0
    inside = False
    for byte in data:
        if byte == 10:
            n_lines += 1
            inside = False
        elif byte == 32 or (split_tabs and byte == 9):
            inside = False
        elif not inside:
            inside = True
            n_tokens += 1
    if data.size > 0 and data[-1] != 10:
        n_lines += 1
    return n_lines, n_tokens


@njit(cache=True, nogil=True, error_model="numpy")
def _number_tokens(data, split_tabs, tokens, offsets):  # type: ignore[no-untyped-def]
    """Fill tokens and offsets; return where each word first starts and stops.

    Words are found by an open-addressing table over FNV-1a hashes; each slot holds a word number or -1.
    """
    slots = np.full(1 << 14, -1, dtype=np.int32)
    starts = np.empty(1 << 13, dtype=np.int64)
    stops = np.empty(1 << 13, dtype=np.int64)
    hashes = np.empty(1 << 13, dtype=np.uint64)
    n_words = 0
    n_tokens = 0
    n_lines = 0
    offsets[0] = 0
    at = np.int64(0)
    while at < data.size:
        byte = data[at]
        if byte == 10:
            n_lines += 1
            offsets[n_lines] = n_tokens
            at += 1
            continue
        if byte == 32 or (split_tabs and byte == 9):
            at += 1
            continue
        start = at
        code = np.uint64(14695981039346656037)
        while at < data.size:
            byte = data[at]
            if byte == 10 or byte == 32 or (split_tabs and byte == 9):
                break
            code = (code ^ np.uint64(byte)) * np.uint64(1099511628211)
            at += 1
        code ^= code >> np.uint64(32)

        slot = np.int64(code & np.uint64(slots.size - 1))
        while True:
            word = slots[slot]
            if word < 0 or (hashes[word] == code and _same(data, starts[word], stops[word], start, at)):
                break
            slot = (slot + 1) & (slots.size - 1)
        if word < 0:
            word = n_words
            slots[slot] = word
            starts[word] = start
            stops[word] = at
            hashes[word] = code
            n_words += 1
            if n_words == starts.size:
                starts = _doubled(starts)
                stops = _doubled(stops)
                hashes = _doubled(hashes)
                slots = _rehashed(hashes, n_words, 2 * slots.size)
        tokens[n_tokens] = word
        n_tokens += 1
    offsets[-1] = n_tokens
    return starts[:n_words], stops[:n_words]


@njit(cache=True, nogil=True, error_model="numpy")
def _same(data, start, stop, other_start, other_stop):  # type: ignore[no-untyped-def]
    if stop - start != other_stop - other_start:
        return False
    for k in range(stop - start):  # noqa: SIM110 -- Numba has no all() of a generator
        if data[start + k] != data[other_start + k]:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _doubled(array):  # type: ignore[no-untyped-def]
    longer = np.empty(2 * array.size, dtype=array.dtype)
    for k in range(array.size):
        longer[k] = array[k]
    return longer


@njit(cache=True, nogil=True, error_model="numpy")
def _rehashed(hashes, n_words, n_slots):  # type: ignore[no-untyped-def]
    slots = np.full(n_slots, -1, dtype=np.int32)
    for word in range(n_words):
        slot = np.int64(hashes[word] & np.uint64(n_slots - 1))
        while slots[slot] >= 0:
            slot = (slot + 1) & (n_slots - 1)
        slots[slot] = word
    return slots
