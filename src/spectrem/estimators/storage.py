"""Saved models: one file of JSON and arrays (a NumPy archive without pickles)."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError

_MAGIC = "spectrem"


def save_arrays(
    path: str | os.PathLike[str], kind: str, version: int, settings: Mapping[str, Any], arrays: Mapping[str, NDArray]
) -> None:
    """Write settings and arrays; the file appears whole or not at all.

    Parameters
    ----------
    path : path
    kind : str
        What is saved, for example "WordAligner".
    version : int
        Of the layout of ``kind``.
    settings : mapping
        Anything JSON can hold.
    arrays : mapping of name -> ndarray
    """
    content = {"format": _MAGIC, "kind": kind, "version": version, "settings": dict(settings)}
    header = json.dumps(content, default=_plain)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, header=np.frombuffer(header.encode(), np.uint8), **arrays)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def load_arrays(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `save_arrays` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a model of this kind, or of a newer layout.
    """
    try:
        with Path(path).open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("not a NumPy archive")
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes())
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such model file; train one and save it first") from None
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInputError(
            f"{path}: not a model saved by spectrem, or damaged ({type(error).__name__}: {error}); save the model again"
        ) from None
    if not isinstance(header, dict) or header.get("format") != _MAGIC or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else header
        raise InvalidInputError(f"{path}: expected a saved {kind}, found {found!r}; give the file of a {kind}")
    if not isinstance(header.get("version"), int) or not isinstance(header.get("settings"), dict):
        raise InvalidInputError(f"{path}: a damaged {kind} (no version or settings); save the model again")
    if header["version"] > version:
        raise InvalidInputError(
            f"{path}: saved with layout {header['version']} of {kind}, this spectrem reads up to {version}; upgrade it"
        )
    return header["settings"], arrays


def _plain(value: object) -> Any:
    """NumPy numbers as Python ones, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved")


def pack_words(words: tuple[str, ...]) -> NDArray[np.uint8]:
    """Words as one array of UTF-8 bytes, separated by line ends."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def unpack_words(data: NDArray[np.uint8], count: int) -> tuple[str, ...]:
    """The inverse of `pack_words`."""
    return tuple(data.tobytes().decode().split("\n")) if count else ()
