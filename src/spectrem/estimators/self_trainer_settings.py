"""The rules that the parameters of SelfTrainer obey."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from sklearn import get_config
from sklearn.utils.validation import has_fit_parameter

from spectrem._arrays import Bools
from spectrem.estimators.settings_checks import check_amount
from spectrem.estimators.shared_parameters import check_constraints, check_gamma, check_one_gamma, check_schedule
from spectrem.exceptions import InvalidInputError
from spectrem.inference import check_infeasible


def check_settings(trainer: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a SelfTrainer that breaks its rule."""
    _check_estimator(trainer.estimator, trainer.soft_targets)
    check_constraints("constraints", trainer.constraints)
    check_gamma("gamma", trainer.gamma)
    check_schedule("schedule", trainer.schedule)
    check_one_gamma(trainer)
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


def check_learns(trainer: Any, known: Bools) -> None:
    """Raise `InvalidInputError` if there is nothing to train on: no label, and no weight of unlabelled rows."""
    if not known.any() and trainer.weight == 0:
        raise InvalidInputError("weight must be above 0 where no row has a label, got 0; label some rows, or raise it")


def weight_names(estimator: Any) -> tuple[str, ...]:
    """Parameters of ``fit`` that take weights of rows: ``sample_weight``, or those of the steps of a pipeline.

    Nothing where a pipeline's last step, the classifier, takes none.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_names(make_pipeline(StandardScaler(), LogisticRegression()))
    ('standardscaler__sample_weight', 'logisticregression__sample_weight')
    """
    if has_fit_parameter(estimator, "sample_weight"):
        return ("sample_weight",)
    steps = [(name, step) for name, step in getattr(estimator, "steps", ()) if hasattr(step, "fit")]
    if not steps or not weight_names(steps[-1][1]):
        return ()
    if get_config()["enable_metadata_routing"]:
        return ("sample_weight",)  # the pipeline passes it on to the steps that request it
    return tuple(f"{name}__{own}" for name, step in steps for own in weight_names(step))


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
    if not soft_targets and not weight_names(estimator):
        whose = (
            f"whose last step is {type(estimator.steps[-1][1]).__name__}, which"
            if hasattr(estimator, "steps")
            else "which"
        )
        raise InvalidInputError(
            f"estimator must take sample_weight in fit, got {name}, {whose} does not; choose another, or, if its fit "
            "takes an array of probabilities as y, set soft_targets=True"
        )
