"""Runs of EM as the settings of an estimator say."""

from spectrem.estimators.engine import run_stage, warn_unused

__all__ = ["run_stage", "warn_unused"]
