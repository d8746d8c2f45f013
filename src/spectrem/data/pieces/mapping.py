"""Numbered text, in memory or in files that are mapped into it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.data.text import Text
from spectrem.data.vocabulary import UNKNOWN, Vocabulary
from spectrem.exceptions import InvalidInputError


class HeldNumbers:
    """Numbers in memory, piece after piece."""

    def __init__(self, dtype: Any) -> None:
        self._pieces: list[NDArray[Any]] = [np.zeros(0, dtype)]

    def append(self, numbers: NDArray[Any]) -> None:
        self._pieces.append(numbers.astype(self._pieces[0].dtype, copy=False))

    def finish(self) -> NDArray[Any]:
        return np.concatenate(self._pieces)


class MappedNumbers:
    """Numbers in a new file that is mapped into memory, piece after piece, as `HeldNumbers`."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self._path, self._dtype = path, np.dtype(dtype)
        path.touch()

    def append(self, numbers: NDArray[Any]) -> None:
        with self._path.open("ab") as file:
            numbers.astype(self._dtype, copy=False).tofile(file)

    def finish(self) -> NDArray[Any]:
        """The numbers; they can be changed, as kernels expect, and changes are not written."""
        if not self._path.stat().st_size:
            return np.zeros(0, self._dtype)
        return np.asarray(np.memmap(self._path, self._dtype, "c"))


def numbers_at(path: Path | None, kind: str, dtype: Any) -> HeldNumbers | MappedNumbers:
    """Numbers in a new file whose name is that of ``path`` with the suffix ``kind``; in memory if there is no path."""
    return HeldNumbers(dtype) if path is None else MappedNumbers(path.with_suffix(f".{kind}"), dtype)


class NumberedSide:
    """One side of a bitext, piece after piece: its tokens may go to a file, its distinct words stay in memory.

    Parameters
    ----------
    path : path or None
        What the names of the two new files begin with; None to keep all in memory.
    vocabulary : Vocabulary, optional
        Words outside it get number -1; without one, words are numbered in the order of first appearance.
    lowercase : bool
    """

    def __init__(self, path: Path | None, vocabulary: Vocabulary | None, lowercase: bool) -> None:
        self._tokens = numbers_at(path, "tokens", np.int32)
        self._offsets = numbers_at(path, "offsets", np.int64)
        self._vocabulary, self._lowercase = vocabulary, lowercase
        self._numbers: dict[str, int] = {} if vocabulary is None else vocabulary.index
        self.n_lines, self._n_tokens = 0, 0
        self._offsets.append(np.zeros(1, np.int64))

    def append(self, text: Text) -> None:
        """Append the lines of a piece."""
        words = [word.lower() for word in text.words] if self._lowercase else text.words
        known = self._numbers
        if self._vocabulary is None:
            found = (known.setdefault(word, len(known)) for word in words)
        else:
            found = (known.get(word, UNKNOWN) for word in words)
        numbers = np.fromiter(found, np.int32, len(words))
        self._tokens.append(numbers[text.tokens])
        self._offsets.append(text.offsets[1:] + self._n_tokens)
        self.n_lines += text.n_lines
        self._n_tokens += text.tokens.size

    def finish(self) -> tuple[NDArray[np.int32], NDArray[np.int64], Vocabulary]:
        """Tokens, offsets and the vocabulary."""
        vocabulary = Vocabulary(tuple(self._numbers)) if self._vocabulary is None else self._vocabulary
        return self._tokens.finish(), self._offsets.finish(), vocabulary


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
