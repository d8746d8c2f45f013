"""The loop: [Samdani2012] algorithm 1 over the gammas of a schedule, with its state on disk after every iteration."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats
from spectrem._damage import DAMAGE, DamageError, describe_damage
from spectrem._outputs import outputs_together
from spectrem.corpus import Corpus, Local
from spectrem.exceptions import InvalidInputError, setting, warn_unconverged
from spectrem.learning.estep import EStep, Numbered, Posed, Step, multipliers_of, with_multipliers
from spectrem.learning.model import Model, asked, log_prior
from spectrem.learning.posed_corpus import PosedCorpus, pose
from spectrem.learning.schedule import (
    Constant,
    Course,
    FitResult,
    FitStatus,
    Record,
    Schedule,
    Stepwise,
    Stopping,
)
from spectrem.models.estep import EStepResult

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

    def load(
        self,
        params: Params,
        posed: PosedCorpus | None = None,
        running: Running | None = None,
        statistics: Callable[[], Any] | None = None,
    ) -> tuple[list[Record], Params, Any, Any]:
        """The history of the run, and its state in values like those given.

        ``statistics`` makes statistics like those that ``running`` averages.

        Raises
        ------
        InvalidInputError
            If the file is damaged, or the state is that of a run with another start or other settings.
        """
        try:
            with self.path.open("rb") as stream:
                if not zipfile.is_zipfile(stream):  # np.load would advise to read it as a pickle
                    raise DamageError("it is not an archive of arrays, or its end is missing")
                with np.load(stream, allow_pickle=False) as file:
                    arrays = {name: file[name] for name in file.files}
            header = json.loads(arrays.pop("header").tobytes())
            if header["fingerprint"] != self.fingerprint:
                raise InvalidInputError(
                    f"{setting('checkpoint')}: {self.path} is that of a run with other data, another start or other "
                    "settings; name another folder, or remove it to begin anew"
                )
            values = iter([None if name is None else arrays[name] for name in header["params"]])
            history = [Record(**record) for record in header["history"]]
            averages = header.get("running", {})
            kept = {name: header["posed"][name] for name in _KEPT if header["posed"] is not None}
        except InvalidInputError:
            raise
        except DAMAGE as error:
            raise InvalidInputError(
                f"{setting('checkpoint')}: {self.path} is damaged ({describe_damage(error)}); remove it to begin anew"
            ) from None
        if running is not None and statistics is not None:
            stats = [None if name is None else arrays[name] for name in averages.pop("stats")]
            averages["stats"] = None if stats == [None] else rebuild(statistics(), iter(stats))
            averages["skipped"] = Counter(averages["skipped"])
            running = replace(running, **averages)
        if posed is not None:
            shards = posed.shards
            if any(name.startswith("shard_") for name in arrays):
                shards = shards.derive(with_multipliers, each=[arrays.get(f"shard_{k}") for k in range(len(shards))])
            posed = replace(posed, shards=shards, multipliers=arrays.get("multipliers"), **kept)
        return history, rebuild(params, values), posed, running


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


# With a fixed number of steps on multipliers, violations above this, relative to the bound, cause a warning.
_MISSED = 1e-3


def run_em(
    model: Model[Params, Any, Any],
    corpus: Corpus | Sequence[Any],
    params: Params,
    estep: EStep | None = None,
    *,
    schedule: Schedule | None = None,
    stopping: Stopping | None = None,
    on_iteration: Callable[[Record], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> FitResult[Params]:
    """Maximise F(q, theta) by turns over posteriors (E-step) and parameters (M-step).

    Parameters
    ----------
    model : Model
    corpus : Corpus or sequence of shards
        Where the shards live; a sequence is worked on in this thread. Results do not depend on it.
    params
        Parameters to start from.
    estep : EStep, optional
        The constraints and how posteriors are projected onto them; by default there are none.
    schedule : Schedule, optional
        By default gamma = 1.
    stopping : Stopping, optional
        Applied at each gamma of the schedule anew.
    on_iteration : callable, optional
        Called with the record of every iteration, for progress; at once with those that a checkpoint holds.
    checkpoint : path, optional
        A folder, made if it is missing, that holds the state after the last iteration. A run that finds one there goes
        on from it and ends with the same bits as one that was never interrupted.

    Returns
    -------
    FitResult

    Raises
    ------
    SpectremError
        If the objective becomes NaN.
    InvalidInputError
        If the checkpoint is that of a run on other data, from another start or with other settings.

    Warns
    -----
    UserWarning
        Once, if the E-step left constraints out of instances where they cannot hold.
    ConvergenceWarning
        If a stage ran out of iterations.
    """
    schedule, stopping, estep = schedule or Constant(), stopping or Stopping(), estep or EStep()
    home = Local(corpus) if isinstance(corpus, Sequence) else corpus
    posed = pose(model, home, estep, params)
    steps = _Steps(schedule, model, home, estep, posed, params) if isinstance(schedule, Stepwise) else None
    course, saved, replayed = Course(on_iteration), None, deque[Record]()
    if checkpoint is not None:
        saved = Checkpoint.at(checkpoint, home, params, model, estep, schedule, stopping)
        if saved.path.exists():
            if steps is None:
                course.history, params, posed, _ = saved.load(params, posed)
            else:
                course.history, steps.params, _, steps.running = saved.load(
                    params, None, steps.running, steps.statistics
                )
            replayed.extend(course.history)
    if steps is not None:
        del params  # kept by the steps alone, which let go of them as soon as there are new ones

    def save() -> None:
        if saved is not None:
            if steps is None:
                saved.save(params, course.history, posed)
            else:
                saved.save(steps.params, course.history, running=steps.running)

    gammas, all_converged = list(schedule.gammas()), True
    for number, gamma in enumerate(gammas):
        stage: list[Record] = []
        while not stopping.ends(stage):
            if replayed:
                record = course.notify(replayed.popleft())
            elif steps is not None:
                record = course.add(*steps.iterate(gamma, len(course.history), save), save)
            else:
                expected, posed = posed.expect(Step(model, params, gamma, estep))
                record = Record.of(gamma, expected, log_prior(model, params))
                is_last = number == len(gammas) - 1 and stopping.ends([*stage, record])
                m_step = getattr(model, "last_m_step", model.m_step) if is_last else model.m_step
                params = m_step(params, expected.stats, home)
                skipped = expected.skipped
                del expected  # it may be as large as the parameters
                record = course.add(record, skipped, save)
            stage.append(record)
        all_converged &= stopping.converged(stage)
    history = course.history
    violation = history[-1].violation if history and history[-1].gamma > 0 else 0.0
    if posed.rows is not None and estep.dual_steps is not None and violation > _MISSED:
        warn_unconverged(
            f"constraints over the corpus are still missed by {violation:.2g} after the last iteration; raise "
            "dual_steps or max_iter, or give them slack",
        )
    if stopping.tol <= 0:
        status = FitStatus.FIXED_ITERATIONS
    else:
        status = FitStatus.CONVERGED if all_converged else FitStatus.MAX_ITERATIONS
    if status is FitStatus.MAX_ITERATIONS:
        warn_unconverged(f"{status.value}: raise max_iter or tol")
    return FitResult(params if steps is None else steps.finish(), tuple(history), status, posed)


class _Steps(Generic[Params]):
    """Stepwise EM: an M-step after every batch of shards, on a running average of their statistics.

    Attributes
    ----------
    params
        The parameters after the last step.
    running : Running
        Changed by every batch.

    Raises
    ------
    InvalidInputError
        If constraints span the corpus: each of their expectations needs all of it.
    """

    def __init__(
        self, schedule: Stepwise, model: Any, corpus: Corpus, estep: EStep, posed: PosedCorpus, params: Params
    ) -> None:
        if posed.rows is not None:
            raise InvalidInputError(
                f"constraints must lie inside instances where EM steps after every batch, got "
                f"{posed.rows.blocks[0].name!r} over the corpus; leave it out, or train without Stepwise"
            )
        self._model, self._corpus, self._posed, self.params = model, corpus, posed, params
        self._estep, self._schedule = replace(estep, warm_start=False), schedule
        # The model, which may be large, is sent only where neither its method alone nor the shards know weights.
        weights = list(posed.shards.collect(_weight, getattr(model, "weights", None)))
        self._weights = np.array(list(posed.shards.collect(_n_instances, model)) if None in weights else weights)
        self.running = Running(model.initial_stats(params) if hasattr(model, "initial_stats") else None)

    def iterate(self, gamma: float, number: int, save: Callable[[], None]) -> tuple[Record, Counter[str]]:
        """Go on with pass ``number`` until its end: its record, and the instances in which constraints were left out.

        The objective is the sum of those of the batches, each at the parameters of its time. ``save`` writes the state
        between two steps.
        """
        running, total, batches = self.running, self._weights.sum(), self._batches(number)
        done = running.n_steps - number * len(batches)
        if not done:
            running.log_prior = log_prior(self._model, self.params)
        for batch in batches[done:]:
            expected = self._expect(gamma, batch)
            running.objective += expected.objective
            running.free_objective += expected.free_objective
            running.violation = max(running.violation, expected.violation)
            running.skipped += expected.skipped
            weight = self._weights[batch].sum()
            if weight > 0:
                self._average(scaled(expected.stats, total / weight))
                del expected  # its memory may serve the M-step
                if hasattr(self._model, "small_part"):
                    self.params = self._model.small_part(self.params)
                self.params = self._model.m_step(self.params, deepcopy(running.stats), self._corpus)
            running.n_steps += 1
            if running.n_steps % len(batches):
                save()
        self.running = Running(running.stats, running.n_steps, running.log_prior)
        return Record.of(gamma, running, running.log_prior), running.skipped

    def finish(self) -> Params:
        """The parameters after the last iteration."""
        running, last_m_step = self.running, getattr(self._model, "last_m_step", None)
        if last_m_step is not None and running.n_steps and running.stats is not None:
            self.params = last_m_step(self.params, running.stats, self._corpus)
        return self.params

    def statistics(self) -> Any:
        """Statistics of the first shard."""
        return self._expect(1.0, [0]).stats

    def _batches(self, number: int) -> list[list[int]]:
        """Numbers of the shards of every batch of a pass (0, 1, ...)."""
        order = np.arange(len(self._weights))
        if self._schedule.seed is not None:
            order = np.random.default_rng([self._schedule.seed, number]).permutation(order)
        n_batches = min(self._schedule.n_batches, len(order))
        return [np.sort(batch).tolist() for batch in np.array_split(order, n_batches)]

    def _expect(self, gamma: float, batch: list[int]) -> EStepResult[Any]:
        return self._posed.part(batch).expect(Step(self._model, self.params, gamma, self._estep))[0]

    def _average(self, stats: Any) -> None:
        """Take in the statistics of a batch, in place where their type can."""
        running = self.running
        if running.stats is None:
            running.stats = stats
            return
        share = (running.n_steps + 2.0) ** -self._schedule.power
        kept = scaled(running.stats, 1.0 - share)
        kept += scaled(stats, share)
        running.stats = kept


def scaled(stats: Any, factor: float) -> Any:
    """``factor * stats``, in the memory of the statistics where their type can be multiplied in place."""
    if hasattr(type(stats), "__imul__"):
        stats *= factor
        return stats
    return factor * stats


def _weight(shard: Any, weights: Callable[[Any], Floats] | None) -> float | None:
    """The sum of the weights of the instances of a shard; None where nothing says them: all are 1."""
    if isinstance(shard, Posed):
        return float((shard.weights if shard.objective_weights is None else shard.objective_weights).sum())
    instance_weights = asked(weights, shard.shard if isinstance(shard, Numbered) else shard, "weights")
    return None if instance_weights is None else float(instance_weights.sum())


def _n_instances(shard: Any, model: Any) -> int:
    n_instances: int = model.structure(shard.shard if isinstance(shard, Numbered) else shard).n_instances
    return n_instances
