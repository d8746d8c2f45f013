"""Measures of how good predictions are."""

# ruff: noqa: F403 - a public name is listed in its own file only
from spectrem.metrics import alignment, attachment, chunks, tagging
from spectrem.metrics.alignment import *
from spectrem.metrics.attachment import *
from spectrem.metrics.chunks import *
from spectrem.metrics.reliability import Reliability, reliability
from spectrem.metrics.tagging import *

__all__ = ["Reliability", "reliability"]
__all__ += alignment.__all__
__all__ += attachment.__all__
__all__ += chunks.__all__
__all__ += tagging.__all__
