"""A fitted GaussianMixture as a file and as a pickle: neither holds what grows with the rows it was trained on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from spectrem.estimators.declare import check_parameters
from spectrem.estimators.mixture.bounds import as_bounds
from spectrem.estimators.storage import (
    check_probabilities,
    damage_named,
    load_arrays,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
)
from spectrem.models.mixture import covariance_shape
from spectrem.reports import FitReport

M = TypeVar("M")

BLOCKS = ("weights", "means", "covariances", "precisions", "precisions_cholesky")
"""Attributes that are the mixture, without the underscore at their end."""

ROWWISE = ("labels_", "posteriors_")
"""Attributes with a value for every training row."""

LONGEST = 1000
"""Rows of a constraint's report at most that are pickled."""

_KIND, _LAYOUT = "GaussianMixture", 1
_SUM_TOLERANCE = 1e-3  # of proportions in single precision
_MEMBERS = dict.fromkeys(BLOCKS, ("f8", 3))


def save(mixture: Any, path: str | os.PathLike[str]) -> None:
    """Write the mixture, the course of its training, and the parameters that JSON can hold."""
    header = {
        **settings_of(mixture),
        "dtype": str(mixture.means_.dtype),
        "features": vars(mixture).get("feature_names_in_", np.zeros(0)).tolist(),
        "lower_bounds": mixture.lower_bounds_,
    }
    blocks = {name: np.asarray(getattr(mixture, f"{name}_"), np.float64) for name in BLOCKS}
    save_arrays(path, _KIND, _LAYOUT, header, blocks)


def load(cls: type[M], path: str | os.PathLike[str]) -> M:
    """A new mixture of what `save` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing or damaged, or not that of a mixture.
    """
    header, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    with damage_named(path, _KIND):
        mixture: Any = cls(**read_parameters(header))
        dtype, names = {"float32": np.float32, "float64": np.float64}[header["dtype"]], header["features"]
        check_parameters(mixture)
        k, d = mixture.n_components, arrays["means"].shape[-1]
        as_bounds(mixture, d)
        covariances = covariance_shape(mixture.covariance_type, k, d)
        for name, shape in zip(BLOCKS, ((k,), (k, d), covariances, covariances, covariances), strict=True):
            array = arrays[name]
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite and have shape {shape}, got {array.shape}")
            setattr(mixture, f"{name}_", array.astype(dtype))
        check_probabilities("weights", arrays["weights"])
        if not abs(arrays["weights"].sum() - 1) <= _SUM_TOLERANCE:
            raise ValueError(f"weights must sum to 1, got {arrays['weights'].sum():g}")
        factors = arrays["precisions_cholesky"]
        scales = np.diagonal(factors, axis1=-2, axis2=-1) if covariances[-2:] == (d, d) else factors
        if not (scales > 0).all():
            raise ValueError(f"precisions_cholesky must have a positive diagonal, got {scales.min():g}")
        take_saved_course(mixture, header)
        mixture.lower_bounds_ = [float(value) for value in header["lower_bounds"]]
        if len(mixture.lower_bounds_) != len(mixture.history_) or len(names) not in (0, d):
            raise ValueError("numbers of iterations or of features do not fit")
        if names:
            mixture.feature_names_in_ = np.array([str(name) for name in names], object)
    mixture.n_features_in_ = d
    mixture.lower_bound_ = mixture.lower_bounds_[-1] if mixture.lower_bounds_ else -np.inf
    return mixture


def without_rows(state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a mixture without those of `ROWWISE`, and with a report of bounded size."""
    kept = {name: value for name, value in state.items() if name not in ROWWISE}
    if "report_" in kept:
        kept["report_"] = _short(kept["report_"])
    return kept


def _short(report: FitReport) -> FitReport:
    """A report in which notes stand for constraints of more than `LONGEST` rows, such as those inside every row."""
    long = [own for own in report.constraints if len(own.bound) > LONGEST]
    if not long:
        return report
    notes = (
        f"{own.name}: {len(own.bound)} rows, violation {own.worst_before:.3g} -> {own.worst_after:.3g}; left out of "
        "the pickle"
        for own in long
    )
    kept = tuple(own for own in report.constraints if len(own.bound) <= LONGEST)
    return replace(report, constraints=kept, notes=(*report.notes, *notes))


def missing(mixture: Any, name: str) -> AttributeError:
    """The error for an attribute that a mixture does not have."""
    if name in ROWWISE and "weights_" in vars(mixture):
        return AttributeError(
            f"{name} has a value for every training row: pickles and copies leave it out, and posteriors_ is there "
            "under constraints only; call predict(X) or predict_proba(X)"
        )
    return AttributeError(f"{type(mixture).__name__!r} object has no attribute {name!r}")
