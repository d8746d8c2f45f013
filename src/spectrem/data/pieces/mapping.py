"""Numbered text in files that are mapped into memory."""

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


class MappedSide:
    """One side of a bitext, piece after piece: its tokens go to a file, its distinct words stay in memory.

    Parameters
    ----------
    path : path
        What the names of the two new files begin with.
    vocabulary : Vocabulary, optional
        Words outside it get number -1; without one, words are numbered in the order of first appearance.
    lowercase : bool
    """

    def __init__(self, path: Path, vocabulary: Vocabulary | None, lowercase: bool) -> None:
        self._paths = path.with_suffix(".tokens"), path.with_suffix(".offsets")
        self._vocabulary, self._lowercase = vocabulary, lowercase
        self._numbers: dict[str, int] = {} if vocabulary is None else vocabulary.index
        self.n_lines, self._n_tokens = 0, 0
        self._paths[0].touch()
        np.zeros(1, np.int64).tofile(self._paths[1])

    def append(self, text: Text) -> None:
        """Append the lines of a piece."""
        words = [word.lower() for word in text.words] if self._lowercase else text.words
        known = self._numbers
        if self._vocabulary is None:
            found = (known.setdefault(word, len(known)) for word in words)
        else:
            found = (known.get(word, UNKNOWN) for word in words)
        numbers = np.fromiter(found, np.int32, len(words))
        with self._paths[0].open("ab") as file:
            numbers[text.tokens].tofile(file)
        with self._paths[1].open("ab") as file:
            (text.offsets[1:] + self._n_tokens).tofile(file)
        self.n_lines += text.n_lines
        self._n_tokens += text.tokens.size

    def finish(self) -> tuple[NDArray[np.int32], NDArray[np.int64], Vocabulary]:
        """Tokens and offsets, mapped into memory, and the vocabulary."""
        vocabulary = Vocabulary(tuple(self._numbers)) if self._vocabulary is None else self._vocabulary
        return _mapped(self._paths[0], np.int32), _mapped(self._paths[1], np.int64), vocabulary


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    """The numbers of a file; they can be changed, as kernels expect, and changes are not written."""
    if not path.stat().st_size:
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype, "c"))


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
