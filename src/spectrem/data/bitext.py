"""Sentence pairs as flat arrays of word numbers, in memory or in files that are mapped into it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool
from spectrem.data.text import UNKNOWN, Text, Vocabulary, tokenise
from spectrem.exceptions import InvalidInputError, quoted


class GrowingNumbers:
    """Numbers that are appended piece after piece, in memory or in a new file that is mapped into it.

    Parameters
    ----------
    path : path, optional
        The name of the file but for its suffix; without it the numbers are kept in memory.
    suffix : str
    dtype : data type
    """

    def __init__(self, path: Path | None, suffix: str, dtype: Any) -> None:
        self._path = None if path is None else path.with_suffix(f".{suffix}")
        self._dtype, self._pieces = np.dtype(dtype), list[NDArray[Any]]()
        if self._path is not None:
            self._path.touch()

    def append(self, numbers: NDArray[Any]) -> None:
        piece = numbers.astype(self._dtype, copy=False)
        if self._path is None:
            self._pieces.append(piece)
        else:
            with self._path.open("ab") as file:
                piece.tofile(file)

    def finish(self) -> NDArray[Any]:
        """The numbers; those of a file can be changed, as kernels expect, and changes are not written."""
        if self._path is not None and self._path.stat().st_size:
            return np.asarray(np.memmap(self._path, self._dtype, "c"))
        if len(self._pieces) == 1:
            return self._pieces[0]
        return np.concatenate([np.zeros(0, self._dtype), *self._pieces])


@contextmanager
def new_folder(parent: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder in an existing one; it is removed if the block fails.

    Raises
    ------
    InvalidInputError
        If it cannot be made there, or a file in it cannot be written.
    """
    try:
        path = Path(tempfile.mkdtemp(prefix="bitext-", dir=parent))
    except OSError as error:
        raise InvalidInputError(
            f"{os.fspath(parent)}: the text cannot be kept there: {error.strerror}; make the folder first, or choose "
            "another"
        ) from None
    try:
        yield path
    except BaseException as error:
        shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, OSError):
            raise InvalidInputError(
                f"{os.fspath(parent)}: the text cannot be kept there: {error.strerror or error}; make room, or choose "
                "another folder"
            ) from None
        raise


class Side(NamedTuple):
    """One side of a bitext: word numbers, where sentences begin and end among them, and the words."""

    tokens: NDArray[np.int32]
    offsets: Ints
    vocabulary: Vocabulary

    def take(self, indices: Ints) -> Side:
        """The sentences at some indices."""
        lengths = np.diff(self.offsets)[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return Side(self.tokens[positions], offsets, self.vocabulary)

    def lowercased(self, path: Path | None) -> Side:
        """The same sentences in lower case; tokens in a file whose name begins with ``path`` if there is one."""
        words = [word.lower() for word in self.vocabulary.words]
        vocabulary = Vocabulary.from_words(words)
        tokens = GrowingNumbers(path, "tokens", np.int32)
        tokens.append(np.append(vocabulary.lookup(words), np.int32(UNKNOWN))[self.tokens])
        return Side(tokens.finish(), self.offsets, vocabulary)

    def concat(self, other: Side, path: Path | None) -> Side:
        """These sentences, then those of another side; in files whose names begin with ``path`` if there is one."""
        merged = self.vocabulary.extend(other.vocabulary.words)
        numbers = np.append(merged.lookup(other.vocabulary.words), np.int32(UNKNOWN))  # -1 picks the last entry
        tokens, offsets = GrowingNumbers(path, "tokens", np.int32), GrowingNumbers(path, "offsets", np.int64)
        tokens.append(self.tokens)
        tokens.append(numbers[other.tokens])
        offsets.append(self.offsets)
        offsets.append(other.offsets[1:] + self.offsets[-1])
        return Side(tokens.finish(), offsets.finish(), merged)


@brief_dataclass(frozen=True)
class Bitext:
    """A batch of sentence pairs; pair ``n`` may be empty on either side.

    Attributes
    ----------
    source_tokens : ndarray of shape (n_source_tokens,), int32
        Word numbers, sentence after sentence; -1 for words outside the vocabulary.
    source_offsets : ndarray of shape (n_pairs + 1,), int64
        Source sentence ``n`` is ``source_tokens[source_offsets[n]:source_offsets[n + 1]]``.
    target_tokens, target_offsets
        The same for the target side.
    source_vocabulary, target_vocabulary : Vocabulary

    Examples
    --------
    >>> bitext = encode_bitext(["the house", "a house"], ["das haus", "ein haus"])
    >>> bitext.n_pairs, bitext.source_tokens.tolist(), bitext.target_vocabulary.words
    (2, [0, 1, 2, 1], ('das', 'haus', 'ein'))
    >>> bitext.take([1]).source_tokens.tolist()
    [2, 1]
    """

    source_tokens: NDArray[np.int32]
    source_offsets: Ints
    target_tokens: NDArray[np.int32]
    target_offsets: Ints
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def __post_init__(self) -> None:
        for side, (tokens, offsets, vocabulary) in zip(("source", "target"), self.sides, strict=True):
            if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != tokens.size or np.any(np.diff(offsets) < 0):
                raise InvalidInputError(
                    f"{side}_offsets must rise from 0 to the number of {side} tokens, {tokens.size}, "
                    f"but are {offsets}; cumulate the sentence lengths"
                )
            if tokens.size and (tokens.min() < UNKNOWN or tokens.max() >= len(vocabulary)):
                raise InvalidInputError(
                    f"{side}_tokens must lie between -1 and {len(vocabulary) - 1}, the last number of "
                    f"{side}_vocabulary, but reach from {tokens.min()} to "
                    f"{tokens.max()}; encode them with this vocabulary"
                )
        if self.source_offsets.size != self.target_offsets.size:
            raise InvalidInputError(
                "source and target must have as many sentences as each other, but have "
                f"{self.source_offsets.size - 1} and {self.target_offsets.size - 1}; check the offsets"
            )

    @classmethod
    def of_sides(cls, source: Side, target: Side) -> Bitext:
        """A bitext of two sides.

        Parameters
        ----------
        source, target : Side
            Tokens, offsets and words of as many lines.

        Returns
        -------
        Bitext
        """
        return cls(source.tokens, source.offsets, target.tokens, target.offsets, source.vocabulary, target.vocabulary)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Source and target."""
        return (
            Side(self.source_tokens, self.source_offsets, self.source_vocabulary),
            Side(self.target_tokens, self.target_offsets, self.target_vocabulary),
        )

    @property
    def n_pairs(self) -> int:
        return self.source_offsets.size - 1

    @property
    def source_lengths(self) -> Ints:
        """Source words of every pair, shape (n_pairs,)."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> Ints:
        """Target words of every pair, shape (n_pairs,)."""
        return np.diff(self.target_offsets)

    def take(self, indices: ArrayLike) -> Bitext:
        """The pairs at the given indices, in that order; the vocabularies stay whole.

        Parameters
        ----------
        indices : array-like of int, or bool mask of shape (n_pairs,)

        Returns
        -------
        Bitext

        Raises
        ------
        InvalidInputError
            If an index is outside ``0 .. n_pairs - 1`` or a mask has another length.
        """
        chosen = _as_indices(indices, self.n_pairs)
        source, target = (side.take(chosen) for side in self.sides)
        return Bitext.of_sides(source, target)

    def concat(self, other: Bitext, *, folder: str | os.PathLike[str] | None = None) -> Bitext:
        """The pairs of this bitext, then those of another.

        Numbers of words held by this bitext's vocabularies stay; words that only ``other`` holds are appended.

        Parameters
        ----------
        other : Bitext
        folder : path, optional
            An existing folder for pairs that do not fit into memory: tokens and offsets of all of them are written to
            files in a new folder there, which is yours to remove, and mapped into memory.

        Returns
        -------
        Bitext

        Raises
        ------
        InvalidInputError
            If the folder is missing or full.
        """
        return self._made(Side.concat, zip(self.sides, other.sides, strict=True), folder)

    def lowercased(self, *, folder: str | os.PathLike[str] | None = None) -> Bitext:
        """The same pairs with words in lower case; in files of a new folder in ``folder``, as of `concat`.

        Parameters
        ----------
        folder : path, optional
            An existing one, as for `concat`; by default pairs stay in memory.

        Returns
        -------
        Bitext
        """
        return self._made(Side.lowercased, zip(self.sides), folder)

    @staticmethod
    def _made(
        make: Callable[..., Side], sides: Iterable[tuple[Side, ...]], folder: str | os.PathLike[str] | None
    ) -> Bitext:
        """A bitext of two sides that are made of others, in files of a new folder in ``folder`` if there is one."""
        with nullcontext() if folder is None else new_folder(folder) as place:
            paths = (None if place is None else place / name for name in ("source", "target"))
            return Bitext.of_sides(*(make(*parts, path) for parts, path in zip(sides, paths, strict=True)))


class NumberedSide:
    """A side of a bitext that grows piece by piece: its tokens may go to a file, its distinct words stay in memory.

    Parameters
    ----------
    path : path, optional
        What the names of the two new files begin with; without it all is kept in memory.
    vocabulary : Vocabulary, optional
        Words outside it get number -1; without one, words are numbered in the order of first appearance.
    lowercase : bool
    """

    def __init__(self, path: Path | None = None, vocabulary: Vocabulary | None = None, lowercase: bool = False) -> None:
        self._tokens = GrowingNumbers(path, "tokens", np.int32)
        self._offsets = GrowingNumbers(path, "offsets", np.int64)
        self._vocabulary, self._lowercase = vocabulary, lowercase
        self._numbers: dict[str, int] = {} if vocabulary is None else vocabulary.index
        self._n_tokens = 0
        self._offsets.append(np.zeros(1, np.int64))

    def append(self, text: Text) -> None:
        """Append the lines of a piece."""
        words = [word.lower() for word in text.words] if self._lowercase else text.words
        known = self._numbers
        if self._vocabulary is None:
            looked_up = (known.setdefault(word, len(known)) for word in words)
        else:
            looked_up = (known.get(word, UNKNOWN) for word in words)
        numbers = np.fromiter(looked_up, np.int32, len(words))
        is_same = self._vocabulary is None and len(known) == len(words)  # as for the first piece
        self._tokens.append(text.tokens if is_same else numbers[text.tokens])
        self._offsets.append(text.offsets[1:] + self._n_tokens)
        self._n_tokens += text.tokens.size

    def finish(self) -> Side:
        """All pieces together."""
        vocabulary = Vocabulary(tuple(self._numbers)) if self._vocabulary is None else self._vocabulary
        return Side(self._tokens.finish(), self._offsets.finish(), vocabulary)


Sentences: TypeAlias = Iterable[str] | Iterable[Iterable[str]]
"""Tokenised lines, or the tokens of every sentence."""


def encode_bitext(
    source_lines: Sentences,
    target_lines: Sentences,
    *,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    lowercase: bool = False,
) -> Bitext:
    r"""Number the tokens of sentences in memory; sentence ``n`` of one side translates sentence ``n`` of the other.

    Parameters
    ----------
    source_lines, target_lines : iterable of str, or of sequences of str
        Tokenised lines without their ends, whose tokens are separated by spaces or tabs; or the tokens of every
        sentence, which may hold spaces. Columns of tables and arrays will do. Blank lines are empty sentences.
    vocabularies : (Vocabulary, Vocabulary), optional
        Vocabularies of source and target, as learned before: words outside them get number -1. Without them new ones
        are made in the order of first appearance.
    lowercase : bool
        Lower-case every token (``str.lower``) before it is numbered.

    Returns
    -------
    Bitext
        As many pairs as there are sentences on either side.

    Raises
    ------
    InvalidInputError
        If the numbers of sentences differ, or one is neither a line nor a list of tokens, or holds a line end or an
        unpaired surrogate.

    Examples
    --------
    >>> known = encode_bitext(["the house"], [["das", "haus"]])
    >>> new = encode_bitext(["The tree"], ["Das haus"], vocabularies=(known.source_vocabulary,
    ...     known.target_vocabulary), lowercase=True)
    >>> new.source_tokens.tolist(), new.target_tokens.tolist()
    ([0, -1], [0, 1])
    """
    return encode_sides({"source_lines": source_lines, "target_lines": target_lines}, vocabularies, lowercase)


def encode_sides(
    sentences: Mapping[str, Sentences],
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    lowercase: bool = False,
) -> Bitext:
    """As `encode_bitext`, of source and target sentences by the names that errors call them."""
    as_bool(lowercase, "lowercase")
    texts = {name: _number_tokens(lines, name) for name, lines in sentences.items()}
    (one, first), (other, second) = texts.items()
    if first.n_lines != second.n_lines:
        raise InvalidInputError(
            f"{one} and {other} must pair up, but have {first.n_lines} and {second.n_lines} lines; check which line "
            "was lost"
        )
    sides = []
    for text, vocabulary in zip(texts.values(), vocabularies or (None, None), strict=True):
        side = NumberedSide(None, vocabulary, lowercase)
        side.append(text)
        sides.append(side.finish())
    return Bitext.of_sides(*sides)


def _number_tokens(sentences: Sentences, name: str) -> Text:
    """The text of lines, or of lists of tokens."""
    if not isinstance(sentences, Iterable):
        raise InvalidInputError(f"{name} must be a sequence of lines, got {quoted(sentences)}; give a list of texts")
    listed: Any = sentences if isinstance(sentences, str) else list(sentences)
    if not len(listed) or not _is_listed(listed[0]):
        return tokenise(join_lines(listed, name), name)
    words, tokens, lengths = dict[str, int](), list[int](), [0]
    for number, sentence in enumerate(listed):
        if not _is_listed(sentence):
            raise InvalidInputError(
                f"{name}[{number}] must be a list of words as {name}[0] is, got {quoted(sentence)}; give lines or "
                "lists of words, not both"
            )
        for word in sentence:
            if not isinstance(word, str) or (word not in words and (not word or {*"\r\n"} & {*word})):
                raise InvalidInputError(
                    f"{name}[{number}] must hold words, which are texts of at least one letter and without line ends, "
                    f"got {quoted(word)}; correct or drop it"
                )
            tokens.append(words.setdefault(word, len(words)))
        lengths.append(len(tokens))
    join_lines(list(words), f"words of {name}")
    return Text(np.array(tokens, np.int32), np.array(lengths, np.int64), tuple(words))


def _is_listed(sentence: object) -> bool:
    return isinstance(sentence, Iterable) and not isinstance(sentence, str | bytes | Mapping)


def join_lines(lines: Sequence[str], name: str) -> bytes:
    """The text of lines, each with a line feed behind it.

    Raises
    ------
    InvalidInputError
        If ``lines`` is one string, or a line holds a line feed or an unpaired surrogate.
    """
    if isinstance(lines, str):
        raise InvalidInputError(f"{name} must be a sequence of lines, but is one string; split it at its line ends")
    other = next((number for number, line in enumerate(lines) if not isinstance(line, str)), None)
    if other is not None:
        raise InvalidInputError(f"{name}[{other}] must be text, got {quoted(lines[other])}; give lines of words")
    joined = "\n".join(lines)
    if joined.count("\n") != max(len(lines) - 1, 0):
        number = next(n for n, line in enumerate(lines) if "\n" in line)
        raise InvalidInputError(
            f"{name}[{number}] must be one line, but holds a line end: {lines[number]!r}; split or strip it"
        )
    try:
        data = joined.encode()
    except UnicodeEncodeError as error:
        number = joined.count("\n", 0, error.start)
        raise InvalidInputError(
            f"{name}[{number}] cannot be written as UTF-8: {lines[number]!r} holds an unpaired surrogate; "
            "decode the text with its own encoding"
        ) from None
    return data + b"\n" if len(lines) else data


def _as_indices(indices: ArrayLike, n_pairs: int) -> Ints:
    array = np.asarray(indices)
    if array.dtype == bool:
        if array.shape != (n_pairs,):
            raise InvalidInputError(
                f"a mask of pairs must have shape ({n_pairs},), but has {array.shape}; give one value per pair"
            )
        return np.flatnonzero(array)
    array = array.astype(np.int64) if array.size == 0 else array
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(
            f"indices must be one row of integers, but are {array.dtype} of shape {array.shape}; "
            "give the numbers of the pairs"
        )
    wrong = array[(array < 0) | (array >= n_pairs)]
    if wrong.size:
        raise InvalidInputError(
            f"indices must lie between 0 and {n_pairs - 1}, but {wrong[0]} was given; count pairs from 0"
        )
    return array.astype(np.int64)
