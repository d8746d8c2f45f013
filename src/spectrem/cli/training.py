"""What commands that train share: a progress bar, errors that say where a sentence stands, the model, a summary."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import Given, Settings, option_of
from spectrem.cli.ending import say
from spectrem.cli.options import errors_located
from spectrem.cli.progress import Advance, progress_bar
from spectrem.estimators.declare import parameters_of
from spectrem.exceptions import InvalidInputError, Unconverged, spelled

if TYPE_CHECKING:
    from spectrem.learning import Record

_OPTIONS = {"infeasible": "--infeasible", "learner": "--learner"}


@dataclass(frozen=True)
class TrainingRun:
    """A run of a command that trains an estimator and saves it.

    Attributes
    ----------
    path : str
        The file of the model.
    quiet : bool
        Whether there is no bar and no summary.
    started : float
        When, by `time.perf_counter`; reading is part of the run.
    """

    path: str
    quiet: bool
    started: float = field(default_factory=time.perf_counter)

    def fit(
        self,
        estimator: Any,
        fit: Callable[[], object],
        place: Callable[[int], str] | None = None,
        advice: Mapping[str, str] = {},
    ) -> None:
        """Train with a bar, and save.

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
        n_stages = getattr(estimator, "n_init", 1) * count_gammas(estimator)
        located = nullcontext() if place is None else errors_located("sentence", place)
        with progress_bar(n_stages, shown=not self.quiet) as bar, located:
            bar("Training")
            progress = _Stages(bar, n_stages, estimator.max_iter)
            estimator.set_params(on_iteration=progress.advance)
            with without_unconverged(), spelled({**_OPTIONS, **advice}):
                fit()
            progress.finish()
            estimator.set_params(on_iteration=None).save(self.path)

    def report(self, learned: str, sentences: Sequence[Any], n_words: int | None, outcome: str) -> None:
        """Say what was learned from how much text in what time, and what came of it."""
        words = "" if n_words is None else f" ({n_words} words)"
        seconds = time.perf_counter() - self.started
        say(f"learned {learned} from {len(sentences)} sentences{words} in {seconds:.1f} s{outcome}")


class _Stages:
    """Stages of constant gamma, each a unit of the bar; one that converges early is counted when the next begins."""

    def __init__(self, bar: Advance, n_stages: int, max_iter: int) -> None:
        self._bar, self._n_stages, self._max_iter = bar, n_stages, max_iter
        self._done, self._gamma = 0.0, math.nan

    def advance(self, record: Record) -> None:
        skipped = math.ceil(self._done - 1e-9) - self._done if record.gamma != self._gamma else 0.0
        self._gamma = record.gamma
        doing = f"Training: gamma {record.gamma:.3g}, objective {record.objective:.5g} nats"
        self._move(doing, min(skipped + 1 / self._max_iter, self._n_stages - self._done))

    def finish(self) -> None:
        self._move("Saving", self._n_stages - self._done)

    def _move(self, doing: str, amount: float) -> None:
        self._done += amount
        self._bar(doing, amount)


@contextmanager
def without_unconverged() -> Iterator[None]:
    """Train in this block without warnings about iterations that ran out; `warn_gaining` gives one afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Unconverged)
        yield


def count_gammas(estimator: Any) -> int:
    """The number of gammas that training goes through."""
    return 1 if estimator.schedule is None else len(list(estimator.schedule.gammas()))


def warn_gaining(estimator: Any) -> None:
    """Say of a fitted estimator that its training ran out of iterations or steps, in the words of the options."""
    if estimator.status_.name == "MAX_ITERATIONS":
        reached, remedy = f"{estimator.max_iter} iterations", "--max-iter or --tol"
    elif estimator.status_.name == "MAX_STEPS":
        reached = "the last step" if estimator.m_steps is None else f"{estimator.m_steps} steps"
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
        What to say after the option and its value.

    Raises
    ------
    InvalidInputError
        Naming the first of them.
    """
    for name in sorted(parameters_of(other).keys() - parameters_of(trained).keys()):
        option = option_of(other, name)
        if name in settings and (option in given or f"--no-{option[2:]}" in given):
            raise InvalidInputError(f"{option} {settings[name]} {message}")
