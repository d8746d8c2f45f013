"""Saved models: one file of JSON and arrays (a NumPy archive without pickles)."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats
from spectrem._damage import DAMAGE
from spectrem._outputs import open_bytes
from spectrem.estimators.conventions import as_fitted, take_course
from spectrem.estimators.declare import check_parameters
from spectrem.estimators.saved_constraints import read_constraints, write_constraints
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.exceptions import InvalidInputError, shorten
from spectrem.learning.history import FitStatus, Record

_MAGIC = "spectrem"


def save_arrays(
    path: str | os.PathLike[str], kind: str, version: int, settings: Mapping[str, Any], arrays: Mapping[str, NDArray]
) -> None:
    """Write settings and arrays; the file appears whole or not at all, see `spectrem._outputs.open_bytes`.

    Parameters
    ----------
    path : path
    kind : str
        The class of what is saved, for example "WordAligner".
    version : int
        The version of the layout of ``kind``.
    settings : mapping
        Anything JSON can hold.
    arrays : mapping of name -> ndarray
    """
    content = {"format": _MAGIC, "kind": kind, "version": version, "settings": dict(settings)}
    header = json.dumps(content, default=_plain)
    with open_bytes(path) as file:
        np.savez(file, allow_pickle=False, header=np.frombuffer(header.encode(), np.uint8), **arrays)


def load_arrays(
    path: str | os.PathLike[str], kind: str, version: int, members: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `save_arrays` wrote; nothing is read whose name, type or size is not as expected.

    Parameters
    ----------
    path : path
    kind, version
        As in `save_arrays`.
    members : mapping of name -> (str, int)
        For every array that a file of this kind may hold: its type, such as "f8", or several ("f4 f8"), and the number
        of its axes (at most that many).

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a model of this kind, or of a newer layout.
    """
    try:
        with Path(path).open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("not a NumPy archive")
            with zipfile.ZipFile(file) as archive:
                entries = _entries(archive, os.fstat(file.fileno()).st_size)
                header = json.loads(_read(archive, entries.pop("header"), "u1", 1).tobytes())
                _check_header(header, path, kind, version)
                unknown = sorted(set(entries) - set(members))
                if unknown:
                    raise ValueError(f"a {kind} has no member {unknown[0]!r}")
                arrays = {name: _read(archive, entry, *members[name]) for name, entry in entries.items()}
    except InvalidInputError:
        raise
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such model file; train one and save it first") from None
    except DAMAGE as error:
        raise InvalidInputError(
            f"{path}: not a model saved by spectrem, or damaged ({type(error).__name__}: {shorten(str(error))}); save "
            "the model again"
        ) from None
    return header["settings"], arrays


def saved_kind(path: str | os.PathLike[str]) -> str:
    """What kind of model a file holds, such as "HMMTagger"; "" for a file that is missing, damaged or foreign."""
    try:
        with zipfile.ZipFile(path) as archive:
            kind = json.loads(_read(archive, archive.getinfo("header.npy"), "u1", 1).tobytes())["kind"]
    except DAMAGE:
        return ""
    return kind if isinstance(kind, str) else ""


def _check_header(header: Any, path: str | os.PathLike[str], kind: str, version: int) -> None:
    if not isinstance(header, dict) or header.get("format") != _MAGIC or header.get("kind") != kind:
        found = shorten(repr(header.get("kind") if isinstance(header, dict) else header))
        raise InvalidInputError(f"{path}: expected a saved {kind}, found {found}; give the file of a {kind}")
    if not isinstance(header.get("version"), int) or not isinstance(header.get("settings"), dict):
        raise InvalidInputError(f"{path}: a damaged {kind} (no version or settings); save the model again")
    if header["version"] > version:
        raise InvalidInputError(
            f"{path}: saved with layout {header['version']} of {kind}, this spectrem reads up to {version}; upgrade it"
        )


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by name; ValueError if they hold more than the file, which has ``size`` bytes."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if name in entries:
            raise ValueError(f"two members {name}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"the member {name} is compressed")
        entries[name] = entry
    if sum(entry.file_size for entry in entries.values()) > size:
        raise ValueError("members larger than the file")
    return entries


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, types: str, n_axes: int) -> NDArray[Any]:
    """An array of an archive; ValueError, before its numbers are read, unless its head is as expected."""
    with archive.open(entry) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{entry.filename}: not an array as spectrem writes them")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        expected = entry.file_size - stream.tell()
    if dtype.hasobject or dtype.str[1:] not in types.split() or len(shape) > n_axes:
        expected_type = " or ".join(str(np.dtype(type)) for type in types.split())
        raise ValueError(f"{entry.filename}: holds {dtype} of {len(shape)} axes, not {expected_type} of {n_axes}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != expected:
        raise ValueError(f"{entry.filename}: says it has shape {shape}, but holds {expected} bytes")
    with archive.open(entry) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False).astype(dtype.newbyteorder("="), copy=False)


def _plain(value: object) -> Any:
    """NumPy numbers as Python ones, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved")


def plain_parameters(estimator: Any, leave: Collection[str] = NOT_SAVED) -> dict[str, Any]:
    """Parameters of an estimator that JSON gives back, arrays and tuples as lists; the others keep their defaults."""
    found = {name: _listed(value) for name, value in estimator.get_params(deep=False).items() if name not in leave}
    return {name: value for name, value in found.items() if _is_plain(value)}


def settings_of(estimator: Any, leave: Collection[str] = NOT_SAVED) -> dict[str, Any]:
    """What every saved model says: parameters, constraints as texts, and the course of training.

    `read_parameters` and `take_saved_course` read it. Parameters are those of training; those that were set to
    something else since then are "later".
    """
    fitted, now = plain_parameters(as_fitted(estimator), leave), plain_parameters(estimator, leave)
    return {
        "parameters": fitted,
        "later": {name: value for name, value in now.items() if name not in fitted or fitted[name] != value},
        "constraints": write_constraints(estimator),
        "status": estimator.status_.name,
        "history": [astuple(record) for record in estimator.history_],
    }


def read_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that an estimator was trained with, from the settings of a saved model."""
    return {**settings["parameters"], "constraints": read_constraints(settings["constraints"])}


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_listed(own) for own in value] if isinstance(value, list | tuple) else value


def _is_plain(value: Any) -> bool:
    """Whether JSON gives the value back."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def take_saved_course(estimator: Any, settings: Mapping[str, Any]) -> None:
    """Set what `take_course` sets, from the settings of a saved model, then parameters that were set after training."""
    history = [Record(*map(float, numbers)) for numbers in settings["history"]]
    take_course(estimator, history, FitStatus[settings["status"]])
    estimator.set_params(**settings.get("later", {}))
    check_parameters(estimator)


@contextmanager
def damage_named(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Read the content of a saved model in this block; errors of reading it become one that names the file.

    Raises
    ------
    InvalidInputError
        Naming the file and what does not fit.
    """
    try:
        yield
    except DAMAGE as error:
        raise InvalidInputError(
            f"{path}: a damaged {kind} ({type(error).__name__}: {shorten(str(error))}); save the model again"
        ) from None


def pack_words(words: tuple[str, ...]) -> NDArray[np.uint8]:
    """Words as one array of UTF-8 bytes, separated by line ends."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def unpack_words(data: NDArray[np.uint8], count: int) -> tuple[str, ...]:
    """The inverse of `pack_words`; ValueError unless there are ``count`` words."""
    words = tuple(data.tobytes().decode().split("\n")) if count or len(data) else ()
    if len(words) != count:
        raise ValueError(f"{len(words)} words instead of {count}")
    return words


def check_probabilities(name: str, values: Floats, *, positive: bool = False) -> None:
    """ValueError unless all are numbers from 0 to 1, or above 0 if they must be positive."""
    least = (values > 0) if positive else (values >= 0)
    if not (least & (values <= 1 + 1e-9)).all():
        raise ValueError(f"{name} must hold probabilities, got values from {values.min():g} to {values.max():g}")
