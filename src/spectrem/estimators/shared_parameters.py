"""Parameters that estimators have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrem.estimators.declare import choice, count, given, number

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from spectrem.constraints.constraint import AnyConstraint
    from spectrem.corpus import Corpus
    from spectrem.learning import Record, Schedule

TRAINING, COMPUTING = "Training", "Computing"
"""Headings of ``--help``."""

NOT_SAVED = ("corpus", "checkpoint", "on_iteration")
"""Parameters that belong to a run on a machine, and not to the model that it leaves behind."""


def check_gamma(name: str, value: Any) -> None:
    """A temperature: a number of at least 0, or minus infinity."""
    from spectrem.estimators.settings_checks import check_number
    from spectrem.learning.schedule import check_gamma as check_range

    check_number(name, value)
    check_range(value)


@dataclass(eq=False, repr=False, kw_only=True)
class LearningParameters:
    """Of every estimator that learns by EM.

    Parameters
    ----------
    constraints : sequence of constraints
        In the language of `spectrem.E` over the columns of the estimator; see `spectrem.constraints` for shortcuts.
    gamma : float
        0 or greater, or -inf: 1 is EM, 0 hard EM, between them unified EM, above 1 smoother posteriors.
    schedule : Schedule, optional
        Several gammas in turn, as `spectrem.learning.Anneal` or `Quench`, in place of ``gamma``.
    infeasible : {"raise", "skip"}
        What to do about a sentence or row that cannot meet the constraints inside it: raise an error, or leave these
        constraints out there. To relax a constraint instead, give it slack.
    max_iter : int
        Iterations at most, for every gamma.
    tol : float
        Relative gain of the objective below which EM stops at a gamma; 0 runs all iterations.
    on_iteration : callable, optional
        Called with the `spectrem.learning.Record` of every iteration.
    """

    constraints: Sequence[AnyConstraint] = given(())
    gamma: float = given(1.0, check_gamma, convert=float, option="", group=TRAINING, metavar="GAMMA")
    schedule: Schedule | None = given(None)
    infeasible: str = choice("raise", "raise", "skip", group=TRAINING, metavar="WAY")
    max_iter: int = count(100, group=TRAINING)
    tol: float = number(1e-6, group=TRAINING, metavar="GAIN")
    on_iteration: Callable[[Record], None] | None = given(None)


@dataclass(eq=False, repr=False, kw_only=True)
class ComputingParameters:
    """Of every estimator whose corpus can be kept in several places.

    Parameters
    ----------
    n_threads : int, optional
        By default one per processor. Results do not depend on it.
    corpus : callable, optional
        From an iterable of shards to the `spectrem.corpus.Corpus` that keeps them, such as
        ``partial(Spilled, folder="/scratch")``, or ``OnDask`` for the cluster that was connected to last. By default
        they stay in memory. Results do not depend on it; saved models do not hold it.
    checkpoint : path, optional
        A folder that holds the state after every iteration: the same `fit` again, also in another process, goes on
        from it, with the same bits as one that was not interrupted. Random starts need a ``random_state`` for that.
    """

    n_threads: int | None = count(None, group=COMPUTING)
    corpus: Callable[[Iterable[Any]], Corpus] | None = given(None)
    checkpoint: str | os.PathLike[str] | None = given(None, convert=str, option="", group=COMPUTING, metavar="DIR")
