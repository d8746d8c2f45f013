"""Saved models: one file of JSON and arrays (a NumPy archive without pickles).

An estimator declares in a `Codec` what it learned, as values and arrays of several kinds, and how these become its
attributes again; all else of `save` and `load` is here, for every estimator: constraints are written as the texts that
`spectrem.constraints.parse_constraint` reads.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DAMAGE, DamageError, describe_damage
from spectrem._outputs import open_bytes
from spectrem.constraints.links import RowLinks
from spectrem.constraints.text import parse_constraint
from spectrem.estimators.conventions import as_fitted, check_fitted, take_course
from spectrem.estimators.declare import check_parameters, renewed
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.exceptions import InvalidInputError, advice, shorten, warn
from spectrem.learning.schedule import FitStatus, Record, check_gamma

if TYPE_CHECKING:
    from spectrem.models.loglinear import Support

_MAGIC = "spectrem"


# ---- kinds of arrays ------------------------------------------------------------------------------------------------

Rule: TypeAlias = Callable[[str, NDArray[Any]], None]
"""Raises DamageError, with the name of the array, unless its numbers are of a kind."""


class Member(NamedTuple):
    """An array that a file may hold.

    Attributes
    ----------
    types : str
        Its type, such as "f8", or several ("f4 f8").
    n_axes : int
        It has at most so many.
    rule : callable, optional
        The kind of its numbers.
    """

    types: str
    n_axes: int
    rule: Rule | None = None


TEXT = Member("u1", 1)
"""Bytes of texts, see `pack_names` and `pack_words`."""


def finite(name: str, values: Floats) -> None:
    """Finite numbers."""
    if not np.isfinite(values).all():
        raise DamageError(f"{name} must be finite")


def probabilities(name: str, values: Floats, *, positive: bool = False) -> None:
    """Numbers from 0 to 1, or above 0 if they must be positive."""
    least = (values > 0) if positive else (values >= 0)
    if not (least & (values <= 1 + 1e-9)).all():
        raise DamageError(f"{name} must hold probabilities, got values from {values.min():g} to {values.max():g}")


def rows(name: str, values: Floats) -> None:
    """Probabilities whose rows sum to 1, or to less, as a mean-field prior makes them."""
    probabilities(name, values)
    if (values.sum(axis=-1) > 1 + 1e-6).any():
        raise DamageError(f"{name} must have rows that sum to 1 at most")


def distributions(name: str, values: Floats) -> None:
    """Probabilities whose rows sum to 1."""
    probabilities(name, values)
    totals = values.sum(axis=-1, keepdims=True)
    if (np.abs(totals - 1) > 1e-6).any():
        raise DamageError(f"{name} must sum to 1, got {totals.flat[np.abs(totals - 1).argmax()]:g}")


def are_offsets(values: Ints, n_rows: int, n_values: int) -> bool:
    """Whether numbers say where each of so many rows of so many values begins, and where the last one ends."""
    return (
        len(values) == n_rows + 1 and values[0] == 0 and values[-1] == n_values and bool((np.diff(values) >= 0).all())
    )


def increase(values: Ints, stop: int) -> bool:
    """Whether numbers increase from 0 or more, and stay below ``stop``."""
    return not len(values) or bool((np.diff(values) > 0).all() and values[0] >= 0 and values[-1] < stop)


# ---- what an estimator declares -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codec:
    """The content of the files of an estimator: how it is written and read back.

    Every file holds the parameters that JSON gives back, constraints as texts, and the course of training.

    Attributes
    ----------
    kind : str
        The class of the estimator.
    members : mapping of name -> Member
        The arrays that a file may hold.
    write : callable
        From a fitted estimator, and options of `save`, to values that JSON can hold and arrays.
    read : callable
        From a new estimator whose parameters are set, and what ``write`` gave: sets what was learned, or raises
        DamageError if it does not fit together.
    layout : int
        The version of the layout of its files.
    numbers : tuple of str
        Learned numbers, by the names of their attributes without the underscore at the end.
    apart : tuple of str
        Parameters that ``write`` writes.
    check : callable
        Raises `InvalidInputError` if a parameter breaks its rule.
    blank : callable
        From the class to a new estimator.
    earlier : mapping
        Values of parameters that files of earlier versions lack.
    """

    kind: str
    members: Mapping[str, Member]
    write: Callable[..., tuple[dict[str, Any], dict[str, NDArray[Any]]]]
    read: Callable[[Any, dict[str, Any], dict[str, NDArray[Any]]], None]
    layout: int = 1
    numbers: tuple[str, ...] = ("gamma",)
    apart: tuple[str, ...] = ()
    check: Callable[[Any], None] = check_parameters
    blank: Callable[[type], Any] = lambda cls: cls()
    earlier: Mapping[str, Any] = field(default_factory=dict)

    def content(self, estimator: Any, **options: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All values and arrays of a file."""
        values, arrays = self.write(estimator, **options)
        numbers = {name: getattr(estimator, f"{name}_") for name in self.numbers}
        return {**settings_of(estimator, (*self.apart, *NOT_SAVED)), **numbers, **values}, arrays

    def restore(self, estimator: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Fill a new estimator with what `content` gave; an error that `damage_named` names if it does not fit."""
        estimator.set_params(**{**self.earlier, **read_parameters(type(estimator), values)})
        self.check(estimator)
        for name in self.numbers:
            setattr(estimator, f"{name}_", float(values[name]))
        if "gamma" in self.numbers:
            check_gamma(estimator.gamma_)
        self.read(estimator, values, arrays)
        take_saved_course(estimator, values)

    def check_arrays(self, arrays: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """DamageError unless these arrays have these shapes, and numbers of their kinds."""
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise DamageError(f"{name} must have shape {shape}, got {arrays[name].shape}")
            rule = self.members[name].rule
            if rule is not None:
                rule(name, arrays[name])


class Saved:
    """An estimator that can be written to a file; its class says by ``_codec`` what the file holds."""

    _codec: ClassVar[Codec]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned, and how training went, to one file of JSON and arrays, which `load` reads.

        Constraints are written as texts. Of the other parameters, those that only training reads and that are not plain
        numbers, texts or lists (a schedule, a reference, a callback ...) come back as their defaults. ``report_`` and
        what has a value for every training row are left out.

        Parameters
        ----------
        path : path

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If ``project_at_predict`` needs constraints that cannot be written as text (matrices, objects of your own,
            links between rows by number).

        Warns
        -----
        UserWarning
            If such constraints, which only training needs, are left out.

        Examples
        --------
        >>> import os, tempfile
        >>> from spectrem import GaussianMixture
        >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
        >>> mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mixture.save(os.path.join(folder, "mixture"))
        ...     loaded = GaussianMixture.load(os.path.join(folder, "mixture"))
        >>> (loaded.predict_proba(X) == mixture.predict_proba(X)).all()
        np.True_
        """
        self._save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : path

        Raises
        ------
        InvalidInputError
            If the file is missing, damaged, or of another kind of estimator or a newer layout.
        """
        codec = cls._codec
        values, arrays = load_arrays(path, codec.kind, codec.layout, codec.members)
        estimator: Self = codec.blank(cls)
        with damage_named(path, codec.kind):
            codec.restore(estimator, values, arrays)
        return estimator

    def _save(self, path: str | os.PathLike[str], **options: Any) -> None:
        check_fitted(self)
        codec = self._codec
        save_arrays(path, codec.kind, codec.layout, *codec.content(self, **options))


def load(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read a saved estimator of any kind; the file says which: one of Spectrem's, or an imported class of your own.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        As `SelfTrainer.load` takes it, for files of that class alone.

    Returns
    -------
    estimator

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, or of a newer layout.

    Examples
    --------
    >>> import os, tempfile, spectrem
    >>> tagger = spectrem.HMMTagger(n_threads=1).fit([["a", "dog"]], [["DET", "NOUN"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tagger.save(os.path.join(folder, "model"))
    ...     spectrem.load(os.path.join(folder, "model")).predict([["a", "dog"]])
    [['DET', 'NOUN']]
    """
    from spectrem import estimators

    kind = saved_kind(path)
    others = {one.__name__: one for one in Saved.__subclasses__()}
    cls: Any = getattr(estimators, kind) if kind in estimators.__all__ else others.get(kind)
    if cls is None:
        load_arrays(path, "estimator", 1, {})  # raises, and says what is wrong with the file
    return cls.load(path, trusted=trusted) if kind == "SelfTrainer" else cls.load(path)


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
    path: str | os.PathLike[str], kind: str, version: int, members: Mapping[str, Member]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `save_arrays` wrote; nothing is read whose name, type or size is not as expected.

    Parameters
    ----------
    path : path
    kind, version
        As in `save_arrays`.
    members : mapping of name -> Member
        The arrays that a file of this kind may hold.

    Raises
    ------
    InvalidInputError
        If the file is missing, damaged, not a model of this kind, or of a newer layout.
    """
    try:
        with Path(path).open("rb") as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                cut = file.read(2) == b"PK"
                raise DamageError("its end is missing" if cut else "it is not an archive of arrays")
            with zipfile.ZipFile(file) as archive:
                entries = _entries(archive, os.fstat(file.fileno()).st_size)
                header = json.loads(_read(archive, entries.pop("header"), TEXT).tobytes())
                _check_header(header, path, kind, version)
                unknown = sorted(set(entries) - set(members))
                if unknown:
                    raise DamageError(f"a {kind} has no member {unknown[0]!r}")
                arrays = {name: _read(archive, entry, members[name]) for name, entry in entries.items()}
    except InvalidInputError:
        raise
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: no such model file; train one and save it first") from None
    except DAMAGE as error:
        raise InvalidInputError(
            f"{path}: not a model saved by spectrem, or damaged ({describe_damage(error)}); give the file of a model, "
            "or save it again"
        ) from None
    return header["settings"], arrays


def saved_kind(path: str | os.PathLike[str]) -> str:
    """The kind of model in a file, such as "HMMTagger"; "" for a file that is missing, damaged or foreign."""
    try:
        with zipfile.ZipFile(path) as archive:
            if "schema.json" in archive.namelist():  # as skops writes it
                return "SelfTrainer"
            kind = json.loads(_read(archive, archive.getinfo("header.npy"), TEXT).tobytes())["kind"]
    except DAMAGE:
        return ""
    return kind if isinstance(kind, str) else ""


def _check_header(header: Any, path: str | os.PathLike[str], kind: str, version: int) -> None:
    if not isinstance(header, dict) or header.get("format") != _MAGIC or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else header
        shown = advice(found, repr(found)) if isinstance(found, str) else repr(found)
        raise InvalidInputError(
            f"{path}: expected {advice(kind, f'a saved {kind}')}, found {shorten(shown)}; give "
            f"{advice('such a model', f'the file of a {kind}')}"
        )
    if not isinstance(header.get("version"), int) or not isinstance(header.get("settings"), dict):
        raise InvalidInputError(f"{path}: {_damaged(kind)} (no version or settings); save the model again")
    if header["version"] > version:
        raise InvalidInputError(
            f"{path}: saved with layout {header['version']} of {kind}, this spectrem reads up to {version}; upgrade it"
        )


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by name; DamageError if they hold more than the file, which has ``size`` bytes."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if name in entries:
            raise DamageError(f"two members {name}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise DamageError(f"the member {name} is compressed")
        entries[name] = entry
    if sum(entry.file_size for entry in entries.values()) > size:
        raise DamageError("members larger than the file")
    return entries


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, member: Member) -> NDArray[Any]:
    """An array of an archive; ValueError, before its numbers are read, unless its head is as expected."""
    types, n_axes = member[:2]
    with archive.open(entry) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise DamageError(f"{entry.filename}: not an array as spectrem writes them")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        expected = entry.file_size - stream.tell()
    if dtype.hasobject or dtype.str[1:] not in types.split() or len(shape) > n_axes:
        expected_type = " or ".join(str(np.dtype(type)) for type in types.split())
        raise DamageError(f"{entry.filename}: holds {dtype} of {len(shape)} axes, not {expected_type} of {n_axes}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != expected:
        raise DamageError(f"{entry.filename}: says it has shape {shape}, but holds {expected} bytes")
    with archive.open(entry) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False).astype(dtype.newbyteorder("="), copy=False)


def _plain(value: object) -> Any:
    """NumPy numbers as Python ones, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved")


def plain_parameters(estimator: Any, leave: Collection[str] = NOT_SAVED) -> dict[str, Any]:
    """Parameters of an estimator that JSON gives back, arrays and tuples as lists; the others keep their defaults."""
    parameters = {name: _listed(value) for name, value in estimator.get_params(deep=False).items() if name not in leave}
    return {name: value for name, value in parameters.items() if _is_plain(value)}


def settings_of(estimator: Any, leave: Collection[str] = NOT_SAVED) -> dict[str, Any]:
    """The content of every saved model: parameters, constraints as texts, and the course of training.

    `read_parameters` and `take_saved_course` read it. Times are left out, so that equal runs give equal bytes.
    Parameters are those of training; those that were set to something else since then are "later".
    """
    fitted, now = plain_parameters(as_fitted(estimator), leave), plain_parameters(estimator, leave)
    return {
        "parameters": fitted,
        "later": {name: value for name, value in now.items() if name not in fitted or fitted[name] != value},
        "constraints": write_constraints(estimator),
        "status": estimator.status_.name,
        "history": [astuple(replace(record, seconds=0.0)) for record in estimator.history_],
    }


def read_parameters(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that an estimator was trained with, from the settings of a saved model."""
    parameters = renewed(cls, settings["parameters"], warned=False)
    return {**parameters, "constraints": read_constraints(settings["constraints"])}


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_listed(one) for one in value] if isinstance(value, list | tuple) else value


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
    estimator.set_params(**renewed(type(estimator), settings.get("later", {}), warned=False))
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
        raise InvalidInputError(f"{path}: {_damaged(kind)} ({describe_damage(error)}); save the model again") from None


def _damaged(kind: str) -> str:
    return f"a damaged {advice('model', kind)}"


def pack_words(words: tuple[str, ...]) -> NDArray[np.uint8]:
    """Words as one array of UTF-8 bytes, separated by line ends."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def unpack_words(data: NDArray[np.uint8], count: int) -> tuple[str, ...]:
    """The inverse of `pack_words`; DamageError unless there are ``count`` words."""
    words = tuple(data.tobytes().decode().split("\n")) if count or len(data) else ()
    if len(words) != count:
        raise DamageError(f"{len(words)} words instead of {count}")
    return words


def pack_names(names: Sequence[str | int]) -> NDArray[np.uint8]:
    """Texts and whole numbers as the bytes of their JSON."""
    return np.frombuffer(json.dumps(names).encode(), np.uint8)


def unpack_names(data: NDArray[np.uint8], what: str) -> tuple[Any, ...]:
    """The inverse of `pack_names`; DamageError if a name is there twice, or is neither text nor a whole number."""
    return check_names(tuple(json.loads(data.tobytes())), what)


def check_names(names: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """The names; DamageError if one is there twice, or is neither text nor a whole number."""
    if len(set(names)) < len(names) or not all(type(name) in (str, int) for name in names):
        raise DamageError(f"{what} must be distinct texts or numbers")
    return names


def write_features(estimator: Any) -> dict[str, Any]:
    """The number and the names of the features that an estimator of scikit-learn's conventions saw."""
    names = vars(estimator).get("feature_names_in_", np.zeros(0)).tolist()
    return {"features": names, "n_features_in": estimator.n_features_in_}


def read_features(estimator: Any, values: Mapping[str, Any], n_features: int) -> None:
    """Set what `write_features` wrote; DamageError if the names are not those of ``n_features`` features."""
    names = values["features"]
    if len(names) not in (0, n_features):
        raise DamageError("numbers of iterations or of features do not fit")
    estimator.n_features_in_ = n_features
    if names:
        estimator.feature_names_in_ = np.array([str(name) for name in names], object)


def write_pairs(support: Support, names: tuple[str, str]) -> dict[str, NDArray[Any]]:
    """Features and labels of all weights as two arrays, for `read_pairs`."""
    return {name: pairs.astype(np.int32) for name, pairs in zip(names, support.listed(), strict=True)}


def read_pairs(
    arrays: Mapping[str, NDArray[Any]], names: tuple[str, str], n_features: int, n_labels: int
) -> Support | None:
    """The pairs that two arrays list; None without them."""
    if names[0] not in arrays:
        return None
    from spectrem.models.loglinear import Support

    features, labels = (arrays[name].astype(np.int64) for name in names)
    if len(features) != len(labels) or (np.diff(features * n_labels + labels) <= 0).any():
        raise DamageError("pairs of features and tags do not increase")
    return Support.pairs(features, labels, n_features, n_labels)


# ---- constraints ----------------------------------------------------------------------------------------------------


def write_constraints(estimator: Any) -> Any:
    """The constraints of an estimator as JSON can hold them, for `read_constraints`.

    Parameters
    ----------
    estimator : estimator
        Whose ``save`` calls the function that calls `spectrem.estimators.storage.settings_of`.

    Returns
    -------
    str, list or dict
        Texts as they were given; a constraint as ``{"text": ...}``; a mapping of names as ``{"named": {...}}``.

    Raises
    ------
    InvalidInputError
        If ``project_at_predict`` needs constraints that cannot be written as text: matrices, objects of one's own, and
        links between rows by number, since a saved model does not hold the rows.

    Warns
    -----
    UserWarning
        If such constraints are left out, because only training needs them.
    """
    left_out: list[str] = []
    written = write_texts(estimator.constraints, left_out)
    if left_out:
        model, names = type(estimator).__name__, ", ".join(left_out)
        if getattr(estimator, "project_at_predict", False):
            raise InvalidInputError(
                f"constraints that project_at_predict needs must be texts, or made with E or shortcuts, to be saved, "
                f"got {names}; set project_at_predict=False, or keep the {model} in memory"
            )
        warn(
            f"constraints that cannot be written as text are left out: {names}; to train the loaded {model} under "
            "them, give them again",
        )
    return [] if written is None else written


def read_constraints(written: Any) -> Any:
    """The constraints of which `write_constraints` made this.

    Examples
    --------
    >>> read_constraints(["agreement", {"text": "E[label == 1] <= 3"}])
    ('agreement', E[part("label") == 1] <= 3)
    """
    if isinstance(written, str):
        return written
    if not isinstance(written, dict):
        return tuple(read_constraints(one) for one in written)
    [(kind, held)] = written.items()
    if kind == "text":
        return parse_constraint(held)
    return {name: read_constraints(one) for name, one in {"named": held}[kind].items()}


def write_texts(constraints: Any, left_out: list[str]) -> Any:
    """Constraints as JSON can hold them; those that no text says are left out and described in ``left_out``."""
    if isinstance(constraints, str):
        return constraints
    if isinstance(constraints, Mapping):
        named = {str(name): write_texts(held, left_out) for name, held in constraints.items()}
        return {"named": {name: held for name, held in named.items() if held is not None}}
    if isinstance(constraints, Sequence):
        return [written for one in constraints if (written := write_texts(one, left_out)) is not None]
    text = _text(constraints)
    if text is None:
        name = getattr(constraints, "name", None)
        left_out.append(type(constraints).__name__ + ("" if name is None else f" {name!r}"))
        return None
    return {"text": text}


def _text(constraint: Any) -> str | None:
    """The text from which the same constraint is read; None where no text says it."""
    if isinstance(constraint, RowLinks) and constraint.pairs is not None:
        return None
    try:
        text = repr(constraint)
        return text if parse_constraint(text) == constraint else None
    except InvalidInputError:
        return None
