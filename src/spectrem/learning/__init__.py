"""The EM loop and its E-step, learning in small steps, criteria of expectations, schedules, stopping and history."""

from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use

if TYPE_CHECKING:
    from spectrem.learning.ascent import run_ascent
    from spectrem.learning.criteria import Expectations, Posteriors
    from spectrem.learning.em import run_em
    from spectrem.learning.estep import EStep, Posed, Step, posterior
    from spectrem.learning.history import FitResult, FitStatus, Record
    from spectrem.learning.model import Kernel, Model
    from spectrem.learning.online import SmallSteps, run_online
    from spectrem.learning.posed_corpus import PosedCorpus, pose
    from spectrem.learning.restarts import keep_best
    from spectrem.learning.schedule import Anneal, Constant, Quench, Schedule, Stepwise, Stopping

# Loaded on first use: an aligner needs nothing of log-linear models.
_HOMES = {
    "Anneal": "schedule",
    "Constant": "schedule",
    "EStep": "estep",
    "Expectations": "criteria",
    "FitResult": "history",
    "FitStatus": "history",
    "Kernel": "model",
    "Model": "model",
    "Posed": "estep",
    "PosedCorpus": "posed_corpus",
    "Posteriors": "criteria",
    "Quench": "schedule",
    "Record": "history",
    "Schedule": "schedule",
    "SmallSteps": "online",
    "Step": "estep",
    "Stepwise": "schedule",
    "Stopping": "schedule",
    "keep_best": "restarts",
    "pose": "posed_corpus",
    "posterior": "estep",
    "run_ascent": "ascent",
    "run_em": "em",
    "run_online": "online",
}

__all__ = [
    "Anneal",
    "Constant",
    "EStep",
    "Expectations",
    "FitResult",
    "FitStatus",
    "Kernel",
    "Model",
    "Posed",
    "PosedCorpus",
    "Posteriors",
    "Quench",
    "Record",
    "Schedule",
    "SmallSteps",
    "Step",
    "Stepwise",
    "Stopping",
    "keep_best",
    "pose",
    "posterior",
    "run_ascent",
    "run_em",
    "run_online",
]

__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
