"""Which parameters of a GaussianMixture its settings fix or bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from spectrem.estimators.mixture.parameters import BLOCKS
from spectrem.estimators.mixture.start import given_start
from spectrem.exceptions import InvalidInputError, warn
from spectrem.models.mixture import Bounds, from_precisions, unit_covariances
from spectrem.models.mixture.bounds import Range

_BOUNDED_BY = {"weights": "weights_bounds", "means": "means_bounds", "covariances": "variances_bounds"}
_SUM_TOLERANCE = 1e-9
_OUTSIDE = 1e-9


def as_bounds(mixture: Any, n_features: int) -> Bounds | None:
    """``fixed``, ``weights_bounds``, ``means_bounds`` and ``variances_bounds``; None if none of them is given.

    Raises
    ------
    InvalidInputError
        If a block is both fixed and bounded, or bounds have another shape than the mixture, contain
        NaN, cross, or leave no proportions that sum to 1.
    """
    k, d = mixture.n_components, n_features
    fixed = frozenset(mixture.fixed)
    for block, name in _BOUNDED_BY.items():
        if block in fixed and getattr(mixture, name) is not None:
            raise InvalidInputError(
                f"{block} must not be fixed and bounded at once, got fixed={list(mixture.fixed)!r} and {name}; drop one"
            )
    kind = mixture.covariance_type
    shape = {"full": (k,), "tied": (), "diag": (k, d), "spherical": (k,)}[kind]
    bounds = Bounds(
        fixed,
        _weights_range(mixture.weights_bounds, k),
        _range("means_bounds", mixture.means_bounds, (k, d), "(n_components, n_features)"),
        _variances_range(mixture.variances_bounds, shape, kind),
    )
    free = bounds.weights is None and bounds.means is None and bounds.variances is None
    return None if free and not fixed else bounds


def warn_outside(mixture: Any, bounds: Bounds | None, n_features: int) -> None:
    """Say which of the values that a user gave to start from lie outside the bounds and will be moved."""
    if bounds is None:
        return
    weights, means, precisions = given_start(mixture, n_features)
    k, kind = mixture.n_components, mixture.covariance_type
    start = from_precisions(
        kind,
        np.full(k, 1 / k) if weights is None else weights,
        np.zeros((k, n_features)) if means is None else means,
        unit_covariances(kind, k, n_features) if precisions is None else precisions,
    )
    moved = bounds.project(start)
    for block, name in _BOUNDED_BY.items():
        setting = "precisions_init" if block == "covariances" else f"{block}_init"
        before, after = getattr(start, block), getattr(moved, block)
        if getattr(mixture, setting) is not None and not np.allclose(before, after, rtol=_OUTSIDE, atol=0):
            warn(f"{setting} lies outside {name}; EM starts from the nearest point within")


def count_free(bounds: Bounds | None, k: int, d: int, kind: str) -> int:
    """Number of parameters that the M-step may change."""
    pairs = d * (d + 1) // 2
    sizes = {
        "weights": k,
        "means": k * d,
        "covariances": {"full": k * pairs, "tied": pairs, "diag": k * d}.get(kind, k),
    }
    if bounds is None:
        return sum(sizes.values()) - 1
    still = dict.fromkeys(BLOCKS, 0)
    for name, ends in zip(BLOCKS, (bounds.weights, bounds.means, bounds.variances), strict=True):
        if ends is not None:
            each = pairs if name == "covariances" and kind in ("full", "tied") else 1
            still[name] = each * int((ends[0] == ends[1]).sum())
        if name in bounds.fixed:
            still[name] = sizes[name]
    return sum(sizes[name] - still[name] for name in BLOCKS) - (1 if still["weights"] < k else 0)


def _range(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Range | None:
    """A pair of arrays of this shape, None standing for no bound."""
    if value is None:
        return None
    if isinstance(value, (str, dict)) or not hasattr(value, "__len__") or len(value) != 2:
        raise InvalidInputError(f"{name} must be a pair (low, high), got {value!r}; None for no bound, as in (0, None)")
    ends = []
    for word, end, none in zip(("low", "high"), value, (-np.inf, np.inf), strict=True):
        try:
            array = np.asarray(none if end is None else end, np.float64)
            ends.append(np.broadcast_to(array, shape).copy())
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{name}: {word} must be a number or an array that broadcasts to {meaning} = {shape}, got "
                f"{_described(end)}"
            ) from None
        if np.isnan(array).any():
            raise InvalidInputError(f"{name}: {word} must not be NaN; write -inf or inf where there is no bound")
    low, high = ends
    crossed = low > high
    if crossed.any():
        at = tuple(int(index[0]) for index in np.nonzero(np.atleast_1d(crossed)))
        where = f" at {list(at)}" if shape else ""
        raise InvalidInputError(
            f"{name}: low must not be above high, got {np.atleast_1d(low)[at]:g} and {np.atleast_1d(high)[at]:g}"
            f"{where}; swap them"
        )
    wrong = (low == np.inf) | (high == -np.inf)
    if wrong.any():
        raise InvalidInputError(f"{name}: low must be below inf and high above -inf; write (-inf, inf) for no bound")
    return low, high


def _weights_range(value: Any, k: int) -> Range | None:
    ends = _range("weights_bounds", value, (k,), "(n_components,)")
    if ends is None:
        return None
    low, high = np.maximum(ends[0], 0.0), np.minimum(ends[1], 1.0)
    if (low > 1).any() or (high < 0).any():
        raise InvalidInputError(
            f"weights_bounds must be proportions in [0, 1], got low {low.max():g} and high {high.min():g}"
        )
    if low.sum() > 1 + _SUM_TOLERANCE:
        raise InvalidInputError(
            f"weights_bounds: the lowest proportions sum to {low.sum():g}, more than 1; lower some, or n_components"
        )
    if high.sum() < 1 - _SUM_TOLERANCE:
        raise InvalidInputError(
            f"weights_bounds: the highest proportions sum to {high.sum():g}, less than 1; raise some, or n_components"
        )
    return low, high


def _variances_range(value: Any, shape: tuple[int, ...], kind: str) -> Range | None:
    meaning = {
        "full": "(n_components,), bounds of eigenvalues,",
        "tied": "(), a number that bounds eigenvalues,",
        "diag": "(n_components, n_features)",
        "spherical": "(n_components,)",
    }[kind]
    ends = _range("variances_bounds", value, shape, meaning)
    if ends is None:
        return None
    if not (ends[1] > 0).all():
        raise InvalidInputError(
            f"variances_bounds: high must be positive, got {ends[1].min():g}; None stands for no bound"
        )
    return np.maximum(ends[0], 0.0), ends[1]


def _described(value: Any) -> str:
    try:
        return f"shape {np.shape(value)}" if np.ndim(value) else repr(value)
    except ValueError:
        return "rows of different lengths"
