"""Log-linear models trained on labels that are known: all of training, or the start of it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.exceptions import warn_unconverged
from spectrem.learning import FitStatus, Record
from spectrem.models.loglinear import Optimiser
from spectrem.models.loglinear.lbfgs import Ending
from spectrem.models.loglinear.model import fit_known


class LabelledFit(NamedTuple):
    """The weights that are best for labelled shards, and how they were found.

    Attributes
    ----------
    theta : ndarray of shape (n_weights,)
    n_steps : int
        Of L-BFGS.
    record : Record
        With the objective reached.
    status : FitStatus
    """

    theta: Floats
    n_steps: int
    record: Record
    status: FitStatus


def fit_labelled(estimator: Any, model: Any, corpus: Corpus, *, goes_on: bool) -> LabelledFit:
    """Train on the shards whose labels are known; the others have no part in it.

    To be called by a function that ``fit`` calls: the warning then belongs to the line that calls ``fit``.

    Parameters
    ----------
    estimator : estimator
        With the parameters ``m_steps``, ``m_tol``, ``gamma`` and ``on_iteration``.
    model : LogLinearModel
        Or another with `moments`, ``prior`` and ``optimiser``.
    corpus : Corpus
    goes_on : bool
        Whether this is but the start of training, which goes to ``m_tol`` whatever ``m_steps`` says; otherwise
        ``on_iteration`` gets the record.

    Warns
    -----
    ConvergenceWarning
        If training ends here, and after ``m_steps`` before it reached ``m_tol``, unless that is 0.
    """
    started, own = time.perf_counter(), model.optimiser
    optimiser = Optimiser(None if goes_on else own.max_steps, own.tol, own.memory)
    best = fit_known(model, corpus, optimiser=optimiser)
    log_prior = model.log_prior(best.point)
    seconds = time.perf_counter() - started
    record = Record(estimator.gamma, -best.value, -best.value - log_prior, 0.0, seconds, log_prior)
    # Where no step raises the objective any more, it is at its maximum as far as rounding lets it.
    status = FitStatus.CONVERGED
    if best.ending is Ending.STEPS:
        status = FitStatus.MAX_STEPS if own.tol > 0 else FitStatus.FIXED_ITERATIONS
    if not goes_on and estimator.on_iteration is not None:
        estimator.on_iteration(record)
    if not goes_on and status is FitStatus.MAX_STEPS:
        warn_unconverged(f"{status.value} (after {best.n_steps} steps): raise m_steps or m_tol", stacklevel=4)
    return LabelledFit(best.point, best.n_steps, record, status)
