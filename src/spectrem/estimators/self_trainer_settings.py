"""The rules that the parameters of SelfTrainer obey."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from sklearn.utils.validation import has_fit_parameter

from spectrem.estimators.settings_checks import check_amount, check_constraints, check_gammas
from spectrem.exceptions import InvalidInputError
from spectrem.inference import check_infeasible


def check_settings(trainer: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a SelfTrainer that breaks its rule."""
    _check_estimator(trainer.estimator, trainer.soft_targets)
    check_constraints(trainer.constraints)
    check_gammas(trainer.gamma, trainer.schedule)
    for name in ("weight", "tol"):
        check_amount(name, getattr(trainer, name))
    if isinstance(trainer.max_iter, bool) or not isinstance(trainer.max_iter, Integral) or trainer.max_iter < 1:
        raise InvalidInputError(f"max_iter must be an integer of at least 1, got {trainer.max_iter!r}")
    if trainer.columns is not None and (
        isinstance(trainer.columns, str)
        or not (isinstance(trainer.columns, Mapping) or hasattr(trainer.columns, "__iter__"))
    ):
        raise InvalidInputError(
            f"columns must list or map names of columns of X, got {trainer.columns!r}; arrays go to fit(columns=...)"
        )
    check_infeasible(trainer.infeasible)


def takes_weights(estimator: Any) -> bool:
    """Whether ``fit`` has a parameter ``sample_weight``."""
    return has_fit_parameter(estimator, "sample_weight")


def _check_estimator(estimator: Any, soft_targets: bool) -> None:
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"estimator must be a scikit-learn classifier, got {estimator!r}; try LogisticRegression()"
        )
    if not hasattr(estimator, "predict_proba"):
        raise InvalidInputError(
            f"estimator must have predict_proba, got {name}, which has none; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or try LogisticRegression()"
        )
    if not soft_targets and not takes_weights(estimator):
        hint = (
            "put its other steps before the trainer: make_pipeline(..., SelfTrainer(classifier))"
            if hasattr(estimator, "steps")
            else "or, if its fit takes an array of probabilities as y, set soft_targets=True"
        )
        raise InvalidInputError(
            f"estimator must take sample_weight in fit, got {name}, which does not; choose another, {hint}"
        )
