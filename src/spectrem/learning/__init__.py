"""The EM loop and its E-step, learning in small steps, criteria of expectations, schedules, stopping and history."""

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
