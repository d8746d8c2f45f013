"""The state of a run of EM on disk: JSON and arrays, so that it can be continued after an interrupt."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectrem._damage import DAMAGE
from spectrem._outputs import outputs_together
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError, shorten
from spectrem.learning.estep import multipliers_of, with_multipliers
from spectrem.learning.history import Record
from spectrem.learning.posed_corpus import PosedCorpus

Params = TypeVar("Params")
_FILE = "state.npz"
_RUNNING = ("n_steps", "log_prior", "objective", "free_objective", "violation", "skipped")
_KEPT = ("length", "n_solved", "proven")  # fields of a PosedCorpus that are stored beside its multipliers

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...))


@dataclass
class Running:
    """The state of stepwise EM beside the parameters.

    Attributes
    ----------
    stats
        The average of the statistics of the batches so far, as if each were the whole corpus; None before the first.
    n_steps : int
        Batches so far, in all passes.
    log_prior : float
        Of the parameters at the start of this pass, nats.
    objective, free_objective, violation, skipped
        Of the batches of this pass so far; see `EStepResult`.
    """

    stats: Any = None
    n_steps: int = 0
    log_prior: float = 0.0
    objective: float = 0.0
    free_objective: float = 0.0
    violation: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Checkpoint:
    """The file that holds the state of a run, and a fingerprint of the run's data, start and settings."""

    path: Path
    fingerprint: str

    @classmethod
    def at(cls, folder: str | os.PathLike[str], corpus: Corpus, params: Any, *settings: Any) -> Checkpoint:
        """The checkpoint of a run on this corpus, from these parameters, in a folder, which is made if it is missing.

        Raises
        ------
        InvalidInputError
            If the folder cannot be made, or the parameters hold something else than numbers and arrays.
        """
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint: the folder {folder} cannot be made ({error.strerror}); name another one"
            ) from None
        list(leaves(params))  # raises where parameters cannot be written
        data = list(corpus.collect(fingerprint))
        return cls(Path(folder) / _FILE, fingerprint((data, params, settings)).hex())

    def save(
        self, params: Any, history: list[Record], posed: PosedCorpus | None = None, running: Running | None = None
    ) -> None:
        """Replace the state on disk by that after the last iteration, at once or not at all.

        ``posed`` holds multipliers; None for trainings that have none. ``running`` is given by stepwise EM.
        """
        values = {f"params_{k}": leaf for k, leaf in enumerate(leaves(params))}
        arrays = {name: leaf for name, leaf in values.items() if leaf is not None}
        header = {
            "fingerprint": self.fingerprint,
            "params": [name if name in arrays else None for name in values],
            "history": [dataclasses.asdict(record) for record in history],
            "posed": None if posed is None else {name: getattr(posed, name) for name in _KEPT},
        }
        if running is not None:
            values = {f"stats_{k}": leaf for k, leaf in enumerate(leaves(running.stats))}
            arrays |= {name: leaf for name, leaf in values.items() if leaf is not None}
            names = [name if name in arrays else None for name in values]
            header["running"] = {"stats": names, **{name: getattr(running, name) for name in _RUNNING}}
        if posed is not None:
            multipliers = {f"shard_{k}": prices for k, prices in enumerate(posed.shards.collect(multipliers_of))}
            multipliers["multipliers"] = posed.multipliers
            arrays |= {name: prices for name, prices in multipliers.items() if prices is not None}
        with outputs_together() as outputs, outputs.open(self.path) as file:
            np.savez(file, allow_pickle=False, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)

    def load(self, passes: Any) -> list[Record]:
        """The history of the run; its state replaces ``params``, ``posed`` and ``running`` of the passes of `run_em`.

        Raises
        ------
        InvalidInputError
            If the file is damaged, or the state is that of a run with another start or other settings.
        """
        passes.params, history, kept, arrays, running = self._read(passes.params)
        if passes.running is not None:
            stats = [None if name is None else arrays[name] for name in running.pop("stats")]
            averages = None if stats == [None] else rebuild(passes.gather(1.0, [0]).stats, iter(stats))
            running["skipped"] = Counter(running["skipped"])
            passes.running = replace(passes.running, stats=averages, **running)
        shards = passes.posed.shards
        if any(name.startswith("shard_") for name in arrays):
            shards = shards.derive(with_multipliers, each=[arrays.get(f"shard_{k}") for k in range(len(shards))])
        passes.posed = replace(passes.posed, shards=shards, multipliers=arrays.get("multipliers"), **kept)
        return history

    def load_params(self, params: Params) -> tuple[Params, list[Record]]:
        """Parameters and history alone; raises as `load`."""
        return self._read(params)[:2]

    def _read(
        self, params: Params
    ) -> tuple[Params, list[Record], dict[str, Any], dict[str, NDArray[Any]], dict[str, Any]]:
        try:
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(arrays.pop("header").tobytes())
            if header["fingerprint"] != self.fingerprint:
                raise InvalidInputError(
                    f"checkpoint: {self.path} is that of a run with other data, another start or other settings; name "
                    "another folder, or remove it to begin anew"
                )
            values = iter([None if name is None else arrays[name] for name in header["params"]])
            history = [Record(**record) for record in header["history"]]
            running = header.get("running", {})
            kept = {name: header["posed"][name] for name in _KEPT if header["posed"] is not None}
        except InvalidInputError:
            raise
        except DAMAGE as error:
            raise InvalidInputError(
                f"checkpoint: {self.path} is damaged ({type(error).__name__}: {shorten(str(error))}); remove it to "
                "begin anew"
            ) from None
        return rebuild(params, values), history, kept, arrays, running


def leaves(value: Any) -> Iterator[NDArray[Any] | None]:
    """The numbers and arrays inside parameters, in a fixed order, with None for optional ones that are missing.

    Examples
    --------
    >>> list(leaves({"mean": np.zeros(2), "scale": (1.0, None)}))
    [array([0., 0.]), array(1.), None]
    """
    if value is None:
        yield None
    elif isinstance(value, np.ndarray | np.generic | float | int) and np.asarray(value).dtype.kind in "biufc":
        yield np.asarray(value)
    elif not isinstance(value, str):
        for part in _parts(value):
            yield from leaves(part)


def rebuild(template: Any, values: Iterator[NDArray[Any] | None]) -> Any:
    """A value like ``template`` with the numbers and arrays that `leaves` gave in their places."""
    if template is None or isinstance(template, np.ndarray | np.generic | float | int):
        value = next(values)
        if value is None or isinstance(template, np.ndarray) or value.ndim:
            return value
        return value.item() if template is None else type(template)(value[()])
    if isinstance(template, str):
        return template
    parts = [rebuild(part, values) for part in _parts(template)]
    if isinstance(template, Mapping):
        return type(template)(zip(template, parts, strict=True))  # type: ignore[call-arg]
    if isinstance(template, tuple | list):
        return type(template)(*parts) if hasattr(template, "_fields") else type(template)(parts)
    names = [field.name for field in dataclasses.fields(template) if field.init]
    return replace(template, **dict(zip(names, parts, strict=True)))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, tuple | list):
        return list(value)
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value) if field.init]
    raise InvalidInputError(
        f"checkpoint: parameters must be numbers, arrays, or tuples, mappings and data classes of these to be written, "
        f"got a {type(value).__name__}; leave checkpoint out"
    )


def fingerprint(value: Any) -> bytes:
    """A digest of a value's content. It does not depend on which objects are shared within the value.

    Of functions the code counts, of objects that cannot be pickled only the type.

    Examples
    --------
    >>> one, other = (fingerprint({"text": np.arange(k), "gamma": 0.5}) for k in (3, 4))
    >>> one == other, one == fingerprint({"gamma": 0.5, "text": np.array([0, 1, 2])})
    (False, True)
    """
    digest = hashlib.blake2b(digest_size=32)
    _add(digest, value, ())
    return digest.digest()


def _add(digest: hashlib.blake2b, value: Any, inside: tuple[int, ...]) -> None:
    """Add a value; ``inside`` holds the ids of those that it lies in, so that cycles end."""
    if hasattr(value, "derive") and not isinstance(value, type):  # a corpus: where its shards live does not matter
        value = list(value.collect(fingerprint))
    digest.update(f"<{type(value).__module__}.{type(value).__qualname__}>".encode())
    if id(value) in inside:
        return
    inside = (*inside, id(value))
    if isinstance(value, type):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, _PLAIN):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)}".encode())
        if all(type(part) in _PLAIN for part in value):
            digest.update(repr(list(value)).encode())
            return
        for part in value:
            _add(digest, part, inside)
    elif isinstance(value, Mapping | Set):
        items = value.items() if isinstance(value, Mapping) else value
        for digested in sorted(map(fingerprint, items)):
            digest.update(digested)
    else:
        for part in _content(value):
            _add(digest, part, inside)


def _content(value: Any) -> list[Any]:
    """The parts of an object that determine its content."""
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__module__, value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, cells]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_consts, value.co_names]
    try:
        reduced = value.__reduce_ex__(4)
    except (TypeError, AttributeError):
        return []
    return [reduced] if isinstance(reduced, str) else [part for part in reduced[:3] if part is not None]
