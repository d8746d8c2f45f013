"""The EM loop and its E-step, learning in small steps, criteria of expectations, schedules, stopping and history."""

# ruff: noqa: F401 - `__all__` lists what is imported here
from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use

if TYPE_CHECKING:
    from spectrem.learning.ascent import run_ascent
    from spectrem.learning.criteria import Expectations, Posteriors
    from spectrem.learning.em import run_em
    from spectrem.learning.estep import EStep, Posed, Step, posterior
    from spectrem.learning.model import Kernel, Model
    from spectrem.learning.online import SmallSteps, run_online
    from spectrem.learning.posed_corpus import PosedCorpus, pose
    from spectrem.learning.schedule import (
        Anneal,
        Constant,
        FitResult,
        FitStatus,
        Quench,
        Record,
        Schedule,
        Stepwise,
        Stopping,
    )

# Loaded on first use: an aligner needs nothing of log-linear models.
_MODULES = {
    "ascent": ["run_ascent"],
    "criteria": ["Expectations", "Posteriors"],
    "em": ["run_em"],
    "estep": ["EStep", "Posed", "Step", "posterior"],
    "model": ["Kernel", "Model"],
    "online": ["SmallSteps", "run_online"],
    "posed_corpus": ["PosedCorpus", "pose"],
    "schedule": [
        "Anneal", "Constant", "FitResult", "FitStatus", "Quench", "Record", "Schedule", "Stepwise", "Stopping",
    ],
}  # fmt: skip
_HOMES = {name: home for home, names in _MODULES.items() for name in names}
__all__ = [name for name in _HOMES if name not in ("pose", "posterior")]  # which are for the library itself
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
