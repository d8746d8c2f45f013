"""Arrays that grow piece by piece, in memory or in files that are mapped into it."""

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

from spectrem.exceptions import InvalidInputError


class HeldNumbers:
    """Numbers in memory, piece after piece."""

    def __init__(self, dtype: Any) -> None:
        self._dtype, self._pieces = dtype, list[NDArray[Any]]()

    def append(self, numbers: NDArray[Any]) -> None:
        self._pieces.append(numbers.astype(self._dtype, copy=False))

    def finish(self) -> NDArray[Any]:
        if len(self._pieces) == 1:
            return self._pieces[0]
        return np.concatenate([np.zeros(0, self._dtype), *self._pieces])


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
