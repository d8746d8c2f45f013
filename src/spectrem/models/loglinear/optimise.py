"""The M-step of log-linear models: every evaluation is one sum over the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.models.loglinear.lbfgs import Minimum, State, minimise
from spectrem.models.loglinear.shards import LogLinearShard

if TYPE_CHECKING:
    from spectrem.models.loglinear.model import LogLinearModel


@dataclass(frozen=True)
class Optimiser:
    """How far an M-step goes.

    Parameters
    ----------
    max_steps : int, optional
        Steps of L-BFGS at most. By default as many as ``tol`` needs; with few, every M-step gains a little.
    tol : float
        Relative to the objective, how far from its maximum an M-step may stop. The distance is bounded by the norm of
        the gradient, as the prior makes the objective strongly concave.
    memory : int
        Steps that L-BFGS remembers, of two arrays of the size of the parameters, in single precision, each.
    """

    max_steps: int | None = None
    tol: float = 1e-10
    memory: int = 20


@dataclass
class Moments:
    """Log-normalisers of a shard, nats, and their gradient, shape (n_weights,); values that add up."""

    value: float
    gradient: Floats

    def __iadd__(self, other: Moments) -> Moments:
        self.value += other.value
        self.gradient += other.gradient
        return self

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.value + other.value, self.gradient + other.gradient)


def moments(shard: LogLinearShard, model: LogLinearModel, theta: Floats, known: bool) -> Moments:
    """The log-normalisers of a shard and their gradient; 0 for one that is not known where only those count."""
    if known and not shard.known:
        return Moments(0.0, np.zeros(model.n_weights))
    return model.moments(theta, shard)


def maximise(
    model: LogLinearModel,
    theta: Floats,
    stats: Floats,
    corpus: Corpus,
    known: bool = False,
    optimiser: Optimiser | None = None,
    **course: Any,
) -> Minimum:
    """Maximise ``theta . stats`` less the log-normalisers plus the log-prior, from ``theta`` on.

    Parameters
    ----------
    model : LogLinearModel
    theta, stats : ndarray of shape (n_weights,)
    corpus : Corpus
    known : bool
        Whether only shards whose labels are known have a part in it.
    optimiser : Optimiser, optional
        By default that of the model.

    Returns
    -------
    Minimum
        Of minus the objective.
    """

    def evaluate(x: Floats) -> tuple[float, Floats]:
        found = corpus.sum(moments, model, x, known)
        gradient = found.gradient
        gradient -= stats
        return found.value - float(x @ stats), gradient

    return maximise_posterior(model, evaluate, theta, optimiser, **course)


def maximise_posterior(
    model: LogLinearModel,
    evaluate: Callable[[Floats], tuple[float, Floats]],
    theta: Floats,
    optimiser: Optimiser | None = None,
    on_step: Callable[[float], None] | None = None,
    state: State | None = None,
    on_state: Callable[[State], None] | None = None,
) -> Minimum:
    """Maximise a function of the weights plus their log-prior, from ``theta`` on.

    Parameters
    ----------
    model : LogLinearModel
        Whose prior it is.
    evaluate : callable
        From weights to minus the function and a fresh array of its gradient.
    theta : ndarray of shape (n_weights,)
    optimiser : Optimiser, optional
        By default that of the model.
    on_step : callable, optional
        Called at the start and after every step with the value, of minus the function less the log-prior.
    state, on_state
        As of `minimise`.

    Returns
    -------
    Minimum
        Of minus the function less the log-prior.
    """
    l2, l1 = model.prior.l2, model.prior.l1
    n_penalised, how = model.n_penalised, optimiser or model.optimiser

    def penalised(x: Floats) -> tuple[float, Floats]:
        value, gradient = evaluate(x)
        if l2:
            own = x[:n_penalised]
            value += 0.5 * l2 * float(own @ own)
            gradient[:n_penalised] += l2 * own
        return value, gradient

    def done(value: float, norm: float) -> bool:
        if on_step is not None:
            on_step(value)
        # A function that is l2-strongly convex is above its minimum by at most norm^2 / (2 l2).
        return norm * norm <= 2.0 * max(l2, _FLAT) * how.tol * max(abs(value), 1.0)

    sizes = None
    if l1:
        sizes = np.zeros(len(theta))
        sizes[:n_penalised] = l1
    course = {"max_steps": how.max_steps, "memory": how.memory, "state": state, "on_state": on_state}
    return minimise(penalised, theta, done=done, sizes=sizes, **course)  # type: ignore[arg-type]


# Below this curvature of the prior the bound says nothing, and the gradient alone is looked at.
_FLAT = 1e-4
