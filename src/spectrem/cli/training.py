"""The shared part of commands that train: schedules, homes of shards, and the run with its bar and summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from spectrem._outputs import temporary_folder
from spectrem.cli.declare import Given, Settings, files_of, option, option_of
from spectrem.cli.ending import before_the_end, command_line, progress_bar, say
from spectrem.cli.files import command_files, opened
from spectrem.cli.freeing import LITTLE, return_freed_memory
from spectrem.cli.options import LearningOptions, errors_located
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.progress import count_stages, iterations_shown
from spectrem.estimators.shared_parameters import COMPUTING, TRAINING
from spectrem.exceptions import InvalidInputError, SpectremError, Unconverged, counted, shorten, spelled

_RATE = 1.2  # that of `spectrem.learning.Anneal`
_POWER = 0.9  # that of `spectrem.learning.Stepwise`


@dataclass(frozen=True)
class Annealing:
    """Options of a command that trains.

    Parameters
    ----------
    anneal
        Deterministic annealing: start softer, at gamma = 1 / BETA, and cool down to --gamma step by step, with at
        most --max-iter iterations at every step; for example 0.5.
    anneal_rate
        Factor above 1 by which 1 / gamma grows from step to step of --anneal.
    quench
        End with hard EM, at gamma = 0.
    """

    anneal: float | None = option(None, metavar="BETA", show_default="off", group=TRAINING)
    anneal_rate: float | None = option(None, metavar="RATE", show_default=f"{_RATE}", group=TRAINING)
    quench: bool = option(False, group=TRAINING)

    def check(self, gamma: float) -> None:
        """Refuse what cannot cool down to ``gamma``.

        Raises
        ------
        InvalidInputError
            Naming the option.
        """
        beta, rate = self.anneal, self.anneal_rate
        if rate is not None and beta is None:
            raise InvalidInputError(f"--anneal-rate {rate:g} concerns --anneal, which is off; add it or drop this")
        if beta is None:
            return
        if not gamma > 0:
            raise InvalidInputError(
                f"--anneal cools down to a gamma above 0, but --gamma is {gamma:g}; raise it, and add --quench for 0"
            )
        if not 0 < beta <= 1.0 / gamma:
            raise InvalidInputError(
                f"--anneal {beta:g}: starts at gamma = 1 / BETA, which must not be below --gamma {gamma:g}; give a "
                f"BETA above 0 and at most {1.0 / gamma:g}, for example {0.1 / gamma:g}"
            )
        if rate is not None and not 1 < rate < float("inf"):
            raise InvalidInputError(
                f"--anneal-rate {rate:g}: 1 / gamma must grow; give a finite factor above 1, such as 1.2"
            )

    def schedule(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of an estimator with a ``schedule`` in place of ``gamma``, if there is any.

        Examples
        --------
        >>> Annealing(0.5).schedule({"gamma": 0.5, "max_iter": 3})
        {'max_iter': 3, 'schedule': Anneal(beta_min=0.5, beta_max=2.0, alpha=1.2)}
        """
        if self.anneal is None and not self.quench:
            return dict(settings)
        from spectrem.learning import Anneal, Constant, Quench, Schedule

        gamma = settings.get("gamma", 1.0)
        before: Schedule = Constant(gamma)
        if self.anneal is not None:
            before = Anneal(self.anneal, 1.0 / gamma, self.anneal_rate or _RATE)
        others = {name: value for name, value in settings.items() if name != "gamma"}
        return {**others, "schedule": Quench(before) if self.quench else before}


@dataclass(frozen=True)
class StepwiseOptions:
    """Options of a command that trains.

    Parameters
    ----------
    stepwise
        Update the model after every one of so many parts of the text, for example 32, in place of after all of it;
        one pass of every stage, unless --model1-iterations and --max-iter ask for more, then takes the place of
        several. For large texts.
    step_power
        Above 0.5 and at most 1: how fast the steps of --stepwise shrink.
    """

    stepwise: int | None = option(None, metavar="BATCHES", min=1, show_default="off", group=TRAINING)
    step_power: float | None = option(None, metavar="POWER", show_default=f"{_POWER}", group=TRAINING)

    def check(self) -> None:
        """Refuse a power out of its range, or without steps.

        Raises
        ------
        InvalidInputError
            Naming the option.
        """
        power = self.step_power
        if power is not None and self.stepwise is None:
            raise InvalidInputError(f"--step-power {power:g} concerns --stepwise, which is off; add it or drop this")
        if power is not None and not 0.5 < power <= 1:
            raise InvalidInputError(
                f"--step-power {power:g}: must be above 0.5 and at most 1, so that steps shrink, but not too fast; "
                "try 0.9"
            )

    def schedule(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of an estimator whose schedule takes small steps, if that was asked for.

        Examples
        --------
        >>> StepwiseOptions(16).schedule({"gamma": 0.5})["schedule"]
        Stepwise(within=Constant(gamma=0.5), n_batches=16, power=0.9, seed=0)
        """
        if self.stepwise is None:
            return dict(settings)
        from spectrem.learning import Constant, Stepwise

        within = settings.get("schedule") or Constant(settings.get("gamma", 1.0))
        others = {name: value for name, value in settings.items() if name != "gamma"}
        schedule = Stepwise(within, self.stepwise, self.step_power or _POWER)
        return {"max_iter": 1, "model1_iterations": 1, **others, "schedule": schedule}


@dataclass(frozen=True)
class Home:
    """Options that say where a command keeps what it trains on.

    Parameters
    ----------
    spill
        Keep what is trained on in files in this folder, if it does not fit into memory (bitext is read into it piece
        by piece, too); they disappear at the end. With --dask a folder that all workers see. Results do not depend on
        it.
    dask
        Train on the cluster with this scheduler, such as tcp://10.0.0.1:8786; needs Dask (pip install
        'spectrem[dask]'). Results do not depend on it.
    """

    spill: str | None = option(None, metavar="DIR", group=COMPUTING)
    dask: str | None = option(None, metavar="SCHEDULER", group=COMPUTING)

    def folders(self, settings: Mapping[str, Any]) -> Mapping[str, str | None]:
        """For `command_files`, where ``settings`` are parameters of an estimator."""
        return {"--spill": self.spill, "--checkpoint": settings.get("checkpoint")}

    @contextmanager
    def opened(self, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Parameters of an estimator with a ``corpus`` that keeps shards where these options say.

        Raises
        ------
        InvalidInputError
            Before the block: if no cluster answers, or one without workers.
        SpectremError
            After it: if the cluster failed.
        """
        with before_the_end(partial(_describe_checkpoint, settings.get("checkpoint"))):
            if self.spill is not None:
                return_freed_memory(LITTLE)
            with nullcontext() if self.spill is None else temporary_folder(self.spill) as folder:
                if self.dask is not None:
                    from spectrem.corpus import OnDask

                    with _cluster(self.dask) as client:
                        yield {**settings, "corpus": partial(OnDask, client=client, folder=folder)}
                elif folder is not None:
                    from spectrem.corpus import Spilled

                    placed = partial(Spilled, folder=folder, n_threads=settings.get("n_threads"))
                    yield {**settings, "corpus": placed}
                else:
                    yield dict(settings)


def spill_folder(settings: Mapping[str, Any]) -> str | None:
    """The folder of --spill, in parameters that `Home.opened` made; it is gone at the end of the command."""
    folder: str | None = getattr(settings.get("corpus"), "keywords", {}).get("folder")
    return folder


def _describe_checkpoint(checkpoint: str | None) -> str | None:
    if checkpoint is None or not any(Path(checkpoint).rglob("state.npz")):
        return None
    return f"the same command goes on from --checkpoint {checkpoint}"


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """A client of a cluster that has workers."""
    from spectrem.corpus import connect

    with connect(address) as client:
        if not client.nthreads():
            raise InvalidInputError(
                f"--dask {address}: the cluster has no worker to compute on; start some with `dask worker {address}`"
            )
        try:
            yield client
        except Exception as error:
            if not type(error).__module__.startswith("distributed"):
                raise
            raise SpectremError(
                f"--dask {address}: the cluster failed ({type(error).__name__}: {shorten(str(error))}); look at what "
                "its scheduler and workers say, and run the command again"
            ) from error


@contextmanager
def learning(options: Any, settings: Settings, annealing: Annealing, home: Home) -> Iterator[dict[str, Any]]:
    """The parameters of an estimator, with its schedule and its corpus, in a block that trains it.

    Files are checked before it, and those that are written appear after it.

    Parameters
    ----------
    options : sequence of data classes
        Those that name files.
    """
    annealing.check(settings.get("gamma", 1.0))
    with (
        command_files(*files_of(*options), home.folders(settings)),
        home.opened(annealing.schedule(settings)) as placed,
    ):
        yield placed


MOST_CONSTRAINTS = 10
"""Constraints of which a command says what they did, at most."""


@dataclass(frozen=True)
class TrainingRun:
    """A run of a command that trains an estimator and saves it.

    Attributes
    ----------
    options : LearningOptions
    started : float
        When, by `time.perf_counter`; reading is part of the run.
    """

    options: LearningOptions
    started: float = field(default_factory=time.perf_counter)

    def fit(
        self,
        estimator: Any,
        fit: Callable[[], object],
        place: Callable[[int], str] | None = None,
        advice: Mapping[str, str] = {},
    ) -> Any:
        """Train with a bar, save, write the page, and return what ``fit`` does.

        Parameters
        ----------
        estimator : object
        fit : callable
            Fits it.
        place : callable, optional
            Where a sentence, counted from 0, stands: errors about a sentence begin with it.
        advice : mapping
            Words for the errors of this command, see `spectrem.exceptions.spelled`.

        Raises
        ------
        SpectremError
            As the estimator does.
        """
        located = nullcontext() if place is None else errors_located("sentence", place)
        with progress_bar(count_stages(estimator), shown=not self.options.quiet) as bar, located:
            with iterations_shown(estimator, bar), without_unconverged(), spelled(advice):
                result = fit()
            estimator.save(self.options.save)
            with opened(self.options.report) as (page,):
                if page is not None:
                    page.write(estimator.report_.to_html(command_line()))
        return result

    def report(
        self,
        estimator: Any,
        learned: str,
        sentences: Sequence[Any],
        n_words: int | None,
        outcome: str,
        units: tuple[str, str] = ("sentence", "word"),
    ) -> None:
        """Say what was learned from how much text in what time, what came of it and of the constraints."""
        if self.options.quiet:
            return
        words = "" if n_words is None else f" ({counted(n_words, units[1])})"
        seconds = time.perf_counter() - self.started
        say(f"learned {learned} from {counted(len(sentences), units[0])}{words} in {seconds:.1f} s{outcome}")
        say(*(f"  {line}" for line in estimator.report_.constraint_lines(MOST_CONSTRAINTS)))
        warn_gaining(estimator)


@contextmanager
def without_unconverged() -> Iterator[None]:
    """Train in this block without warnings about iterations that ran out; `warn_gaining` gives one afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Unconverged)
        yield


def warn_gaining(estimator: Any) -> None:
    """Warn where the training of a fitted estimator ran out of iterations or steps, naming the options that help."""
    if estimator.status_.name == "MAX_ITERATIONS":
        reached, remedy = counted(estimator.max_iter, "iteration"), "--max-iter or --tol"
    elif estimator.status_.name == "MAX_STEPS":
        reached = "the last step" if estimator.m_steps is None else counted(estimator.m_steps, "step")
        remedy = "--m-steps or --m-tol"
    else:
        return
    say(f"spectrem: warning: still gaining after {reached}; raise {remedy}")


def refuse_parameters(settings: Settings, given: Given, other: type, trained: type, message: str) -> None:
    """Refuse options of the estimator that is not trained, where a command trains one of two.

    Parameters
    ----------
    settings, given : mapping
    other, trained : type
        Data classes of the parameters of both.
    message : str
        The text after the option and its value.

    Raises
    ------
    InvalidInputError
        Naming the first of them.
    """
    for name in sorted(parameters_of(other).keys() - parameters_of(trained).keys()):
        option = option_of(other, name)
        if name in settings and (option in given or f"--no-{option[2:]}" in given):
            raise InvalidInputError(f"{option} {settings[name]} {message}")
