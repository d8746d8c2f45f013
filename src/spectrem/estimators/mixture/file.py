"""A fitted GaussianMixture as a file and as a pickle: neither holds what grows with the rows it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.mixture.bounds import as_bounds
from spectrem.estimators.storage import Codec, Member, finite, probabilities, read_features, write_features
from spectrem.models.mixture import covariance_shape
from spectrem.reports import FitReport

BLOCKS = ("weights", "means", "covariances", "precisions", "precisions_cholesky")
"""Attributes that are the mixture, without the underscore at their end."""

ROWWISE = ("labels_", "posteriors_")
"""Attributes with a value for every training row."""

LONGEST = 1000
"""Rows of a constraint's report at most that are pickled."""

_SUM_TOLERANCE = 1e-3  # of proportions in single precision


def _write(mixture: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {"dtype": str(mixture.means_.dtype), "lower_bounds": mixture.lower_bounds_, **write_features(mixture)}
    return values, {name: np.asarray(getattr(mixture, f"{name}_"), np.float64) for name in BLOCKS}


def _read(mixture: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    dtype = {"float32": np.float32, "float64": np.float64}[values["dtype"]]
    k, d = mixture.n_components, arrays["means"].shape[-1]
    as_bounds(mixture, d)
    covariances = covariance_shape(mixture.covariance_type, k, d)
    shapes = dict(zip(BLOCKS, ((k,), (k, d), covariances, covariances, covariances), strict=True))
    CODEC.check_arrays(arrays, shapes)
    if not abs(arrays["weights"].sum() - 1) <= _SUM_TOLERANCE:
        raise ValueError(f"weights must sum to 1, got {arrays['weights'].sum():g}")
    factors = arrays["precisions_cholesky"]
    scales = np.diagonal(factors, axis1=-2, axis2=-1) if covariances[-2:] == (d, d) else factors
    if not (scales > 0).all():
        raise ValueError(f"precisions_cholesky must have a positive diagonal, got {scales.min():g}")
    for name in BLOCKS:
        setattr(mixture, f"{name}_", arrays[name].astype(dtype))
    read_features(mixture, values, d)
    mixture.lower_bounds_ = [float(value) for value in values["lower_bounds"]]
    if len(mixture.lower_bounds_) != len(values["history"]):
        raise ValueError("numbers of iterations or of features do not fit")
    mixture.lower_bound_ = mixture.lower_bounds_[-1] if mixture.lower_bounds_ else -np.inf


CODEC = Codec(
    kind="GaussianMixture",
    layout=1,
    members={**dict.fromkeys(BLOCKS, Member("f8", 3, finite)), "weights": Member("f8", 1, probabilities)},
    write=_write,
    read=_read,
    numbers=(),
)


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
