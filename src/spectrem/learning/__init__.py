"""The EM loop and its E-step, schedules, stopping rules and history."""

from spectrem.learning.em import run_em
from spectrem.learning.estep import ProjectedEStep
from spectrem.learning.history import FitResult, FitStatus, Record
from spectrem.learning.restarts import keep_best
from spectrem.learning.schedule import Anneal, Constant, Quench, Schedule
from spectrem.learning.stopping import Stopping

__all__ = [
    "Anneal",
    "Constant",
    "FitResult",
    "FitStatus",
    "ProjectedEStep",
    "Quench",
    "Record",
    "Schedule",
    "Stopping",
    "keep_best",
    "run_em",
]
