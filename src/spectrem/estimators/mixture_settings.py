"""The rules that the parameters of GaussianMixture and its input obey."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem.constraints.user_columns import read_user_columns
from spectrem.estimators.settings_checks import (
    check_amount,
    check_choice,
    check_count,
    check_number,
)
from spectrem.estimators.shared_parameters import check_constraints, check_gamma, check_one_gamma, check_schedule
from spectrem.exceptions import InvalidInputError
from spectrem.inference import check_infeasible

COVARIANCES = ("full", "tied", "diag", "spherical")
STARTS = ("kmeans", "k-means++", "random", "random_from_data")
_AT_LEAST = {"n_components": 1, "max_iter": 0, "n_init": 1, "verbose_interval": 1}


def check_settings(mixture: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a GaussianMixture that breaks its rule."""
    for name, least in _AT_LEAST.items():
        check_count(name, getattr(mixture, name), least)
    check_count("verbose", int(mixture.verbose) if isinstance(mixture.verbose, bool) else mixture.verbose, 0)
    if mixture.n_threads is not None:
        check_count("n_threads", mixture.n_threads, 1)
    check_choice("covariance_type", mixture.covariance_type, COVARIANCES)
    check_choice("init_params", mixture.init_params, STARTS)
    check_infeasible(mixture.infeasible)
    check_choice("assign", mixture.assign, ("probable", "feasible"))
    for name in ("tol", "reg_covar"):
        check_number(name, getattr(mixture, name))
        check_amount(name, float(getattr(mixture, name)))
    check_gamma("gamma", mixture.gamma)
    check_schedule("schedule", mixture.schedule)
    check_one_gamma(mixture)
    check_constraints("constraints", mixture.constraints)


def check_start(mixture: Any, n_features: int) -> tuple[Floats | None, Floats | None, Floats | None]:
    """``weights_init``, ``means_init`` and ``precisions_init`` as arrays, or None.

    Raises
    ------
    InvalidInputError
        If one has another shape than the mixture, or is not what it stands for.
    """
    k, d = mixture.n_components, n_features
    precisions = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[mixture.covariance_type]
    weights = _array("weights_init", mixture.weights_init, (k,))
    means = _array("means_init", mixture.means_init, (k, d))
    precision = _array("precisions_init", mixture.precisions_init, precisions)
    if weights is not None and not ((weights >= 0).all() and abs(weights.sum() - 1) <= 1e-6):
        raise InvalidInputError(
            f"weights_init must be proportions that sum to 1, got {weights.tolist()}; divide them by their sum"
        )
    if precision is not None:
        _check_precisions(precision, mixture.covariance_type)
    return weights, means, precision


def as_labels(y: ArrayLike, n_rows: int, n_components: int) -> Ints:
    """Known components of rows, shape (n_rows,), -1 where unknown.

    Raises
    ------
    InvalidInputError
        If there is not one whole number from -1 to ``n_components - 1`` for every row.
    """
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise InvalidInputError(f"y must have shape ({n_rows},), a component or -1 per row of X; got {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise InvalidInputError(
            f"y must hold integers with partial_labels=True, got dtype {labels.dtype}; number the components from 0"
        )
    wrong = (labels < -1) | (labels >= n_components)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidInputError(
            f"y must hold components from 0 to {n_components - 1}, or -1 for unknown; got {labels[at]} at row {at}; "
            "raise n_components or leave y out"
        )
    return labels.astype(np.int64)


def as_columns(columns: Any, n_rows: int) -> dict[str, NDArray]:
    """Columns of a mapping or a frame, as arrays of shape (n_rows,)."""
    return dict(read_user_columns(columns, {"rows": n_rows}, taken=("row", "label")))


def _array(name: str, value: Any, shape: tuple[int, ...]) -> Floats | None:
    if value is None:
        return None
    array = np.asarray(value, np.float64)
    if array.shape != shape:
        raise InvalidInputError(f"{name} must have shape {shape}, got {array.shape}; it depends on covariance_type")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} must hold finite numbers, got {array[~np.isfinite(array)][0]}")
    return array


def _check_precisions(precisions: Floats, covariance_type: str) -> None:
    if covariance_type in ("diag", "spherical"):
        if not (precisions > 0).all():
            raise InvalidInputError(f"precisions_init must be positive, got {precisions.min()}")
        return
    for matrix in precisions if precisions.ndim == 3 else precisions[None]:
        if not np.allclose(matrix, matrix.T) or not (lowest := np.linalg.eigvalsh(matrix)[0]) > 0:
            found = (
                "a matrix that is not symmetric" if not np.allclose(matrix, matrix.T) else f"eigenvalue {lowest:.3g}"
            )
            raise InvalidInputError(f"precisions_init must be symmetric and positive definite, got {found}")
