"""The input of a GaussianMixture: rows, bounds and starting values as arrays, and parameters to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_sample_weight, check_same_index
from spectrem.constraints import check_columns
from spectrem.constraints.columns import read_columns
from spectrem.data.frames import Columns
from spectrem.estimators.mixture.parameters import BLOCKS, BoundsLike
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters as Parameters
from spectrem.exceptions import InvalidInputError, quoted, setting, warn
from spectrem.models.mixture import (
    Bounds,
    MixtureModel,
    MixtureParameters,
    MixtureShard,
    covariance_shape,
    from_covariances,
    from_posteriors,
    from_precisions,
    has_gaps,
)
from spectrem.models.mixture.constrained import Chunks
from spectrem.models.mixture.parameters import Range

KEPT = (np.float64, np.float32)
"""Data of these types are taken as they are, others made the first; results are of the same type, whatever is
computed."""
FINITE = "allow-nan"
"""NaN stands for missing values; infinite ones are refused."""
RUNS = 10
"""Runs of k-means under must-links: each is quick, since it counts chunks, and several seldom end in a bad optimum."""
_BOUNDED_BY = dict(zip(BLOCKS, ("weights_bounds", "means_bounds", "variances_bounds"), strict=True))
_STARTED_BY = dict(zip(BLOCKS, ("weights_init", "means_init", "precisions_init"), strict=True))
_SUM_TOLERANCE = 1e-9
_OUTSIDE = 1e-9


class MixtureRows(NamedTuple):
    """Rows to be trained on.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_features), float64
    dtype : dtype
        The dtype of the data as they were given, which results have, too.
    labels : ndarray of shape (n_rows,), or None
        Known components, -1 where unknown.
    weights : ndarray of shape (n_rows,), or None
        None where no weights are given.
    columns : mapping of name -> ndarray of shape (n_rows,)
        Columns that constraints name: the number of the row, and those given with the data.
    """

    x: Floats
    dtype: np.dtype[np.floating]
    labels: Ints | None
    weights: Floats | None
    columns: Mapping[str, NDArray]


# ---- rows -----------------------------------------------------------------------------------------------------------


def read_rows(
    settings: Parameters, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, columns: Columns
) -> MixtureRows:
    """The arguments of `GaussianMixture.fit`, checked.

    Raises
    ------
    InvalidInputError
        If one of them breaks its rule.
    """
    check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
    x = validate_data(settings, X, dtype=KEPT, order="C", ensure_min_samples=2, ensure_all_finite=FINITE)
    labels = _known(settings, y, len(x))
    weights = as_sample_weight(sample_weight, len(x), "row of X")
    counted = len(x) if weights is None else int((weights > 0).sum())
    if counted < settings.n_components:
        raise InvalidInputError(
            f"X must have at least {setting('n_components')} = {settings.n_components} rows of positive weight, got "
            f"n_samples = {counted}; lower {setting('n_components')}"
        )
    empty = np.isnan(x if weights is None else x[weights > 0]).all(axis=0)
    if empty.any():
        names, j = vars(settings).get("feature_names_in_", range(len(empty))), int(empty.argmax())
        raise InvalidInputError(
            f"X must have a value in every column, in rows of positive weight, got NaN throughout column {names[j]!r}; "
            "leave the column out"
        )
    arrays = {"row": np.arange(len(x)), **read_row_columns(columns, len(x))}
    check_columns(settings.constraints, arrays)
    return MixtureRows(np.asarray(x, np.float64), x.dtype, labels, weights, arrays)


def read_row_columns(columns: Columns, n_rows: int) -> dict[str, NDArray]:
    """A user's columns for constraints as arrays of shape (n_rows,)."""
    cells = read_columns(columns, {"rows": n_rows}, taken=("row", "label"))
    return {name: np.asarray(cells[name]) for name in cells}


def _known(settings: Parameters, y: ArrayLike | None, n_rows: int) -> Ints | None:
    """Known components of rows, shape (n_rows,), -1 where unknown; None if no component is known."""
    if y is None:
        return None
    labels, k = np.asarray(y), settings.n_components
    if not settings.partial_labels:
        if labels.dtype.kind == "i" and labels.size and labels.min() == -1 and 0 <= labels.max() < k:
            warn("y looks like known components and is ignored: set partial_labels=True")
        return None
    if labels.shape != (n_rows,):
        raise InvalidInputError(f"y must have shape ({n_rows},), a component or -1 per row of X; got {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise InvalidInputError(
            f"y must hold integers with partial_labels=True, got dtype {labels.dtype}; number the components from 0"
        )
    wrong = (labels < -1) | (labels >= k)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidInputError(
            f"y must hold components from 0 to {k - 1}, or -1 for unknown; got {labels[at]} at row "
            f"{at}; raise n_components or leave y out"
        )
    return labels.astype(np.int64)


# ---- bounds ---------------------------------------------------------------------------------------------------------


def as_bounds(settings: Parameters, n_features: int) -> Bounds:
    """``fixed``, ``weights_bounds``, ``means_bounds`` and ``variances_bounds``.

    Raises
    ------
    InvalidInputError
        If a block is both fixed and bounded, or bounds have another shape than the mixture, contain
        NaN, cross, or leave no proportions that sum to 1.
    """
    k, d = settings.n_components, n_features
    for block, name in _BOUNDED_BY.items():
        if block in settings.fixed and getattr(settings, name) is not None:
            raise InvalidInputError(
                f"{block} must not be fixed and bounded at once, got fixed={list(settings.fixed)!r} and {name}; "
                "drop one"
            )
    return Bounds(
        frozenset(settings.fixed),
        _weights_range(settings.weights_bounds, k),
        _range("means_bounds", settings.means_bounds, (k, d), "(n_components, n_features)"),
        _variances_range(settings.variances_bounds, settings.covariance_type, k, d),
    )


def count_free(bounds: Bounds, k: int, d: int, kind: str) -> int:
    """Number of parameters that the M-step may change."""
    entries = d * (d + 1) // 2 if kind in ("full", "tied") else 1  # of a covariance that has one pair of bounds
    covariances = {"tied": 1, "diag": k * d}.get(kind, k)
    free = {"weights": k, "means": k * d, "covariances": entries * covariances}
    for block, ends in zip(BLOCKS, (bounds.weights, bounds.means, bounds.variances), strict=True):
        if block in bounds.fixed:
            free[block] = 0
        elif ends is not None:
            free[block] -= (entries if block == "covariances" else 1) * int((ends[0] == ends[1]).sum())
    return sum(free.values()) - (free["weights"] > 0)


def _range(name: str, value: BoundsLike, shape: tuple[int, ...], meaning: str) -> Range | None:
    """A pair of arrays of this shape, None standing for no bound."""
    if value is None:
        return None
    if isinstance(value, (str, dict)) or not hasattr(value, "__len__") or len(value) != 2:
        raise InvalidInputError(f"{name} must be a pair (low, high), got {value!r}; None for no bound, as in (0, None)")
    ends = []
    for word, end, unbounded in zip(("low", "high"), value, (-np.inf, np.inf), strict=True):
        try:
            array = np.asarray(unbounded if end is None else end, np.float64)
            ends.append(np.broadcast_to(array, shape).copy())
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{name}: {word} must be a number or an array that broadcasts to {meaning} = {shape}, got "
                f"{_shape_text(end)}"
            ) from None
        if np.isnan(array).any():
            raise InvalidInputError(f"{name}: {word} must not be NaN; write -inf or inf where there is no bound")
    low, high = ends
    crossed = np.argwhere(low > high).tolist()
    if crossed:
        at = crossed[0]
        where = f" at {at}" if shape else ""
        raise InvalidInputError(
            f"{name}: low must not be above high, got {low[*at]:g} and {high[*at]:g}{where}; swap them"
        )
    if ((low == np.inf) | (high == -np.inf)).any():
        raise InvalidInputError(f"{name}: low must be below inf and high above -inf; write (-inf, inf) for no bound")
    return low, high


def _weights_range(value: BoundsLike, k: int) -> Range | None:
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


def _variances_range(value: BoundsLike, kind: str, k: int, d: int) -> Range | None:
    shape, meaning = {
        "full": ((k,), "(n_components,), bounds of eigenvalues,"),
        "tied": ((), "(), a number that bounds eigenvalues,"),
        "diag": ((k, d), "(n_components, n_features)"),
        "spherical": ((k,), "(n_components,)"),
    }[kind]
    ends = _range("variances_bounds", value, shape, meaning)
    if ends is None:
        return None
    if not (ends[1] > 0).all():
        raise InvalidInputError(
            f"variances_bounds: high must be positive, got {ends[1].min():g}; None stands for no bound"
        )
    return np.maximum(ends[0], 0.0), ends[1]


def _shape_text(value: object) -> str:
    try:
        shape = np.asarray(value).shape
    except ValueError:
        return "rows of different lengths"
    return f"shape {shape}" if shape else repr(value)


# ---- the start of EM ------------------------------------------------------------------------------------------------


def random_state_of(value: int | np.random.RandomState | np.random.Generator | None) -> np.random.RandomState:
    """The source of random numbers that a user's value stands for, as scikit-learn takes them."""
    if isinstance(value, np.random.Generator):
        return np.random.RandomState(value.bit_generator)
    try:
        return check_random_state(value)
    except ValueError:
        raise InvalidInputError(
            f"random_state must be None, a whole number from 0 to {2**32 - 1} or a generator of random numbers, got "
            f"{quoted(value)}; a number gives the same results each time"
        ) from None


def start_parameters(
    settings: Parameters,
    model: MixtureModel,
    shards: Sequence[MixtureShard],
    rows: MixtureRows,
    rng: np.random.RandomState,
    chunks: Chunks | None = None,
) -> MixtureParameters:
    """Parameters from ``init_params``, with those given in their places, all within the model's bounds.

    For the same seed the draws are those of scikit-learn. They see the mean of its column in place of a missing value.

    Parameters
    ----------
    settings : GaussianMixtureParameters
    model, shards
        As for `run_em`.
    rows : MixtureRows
    rng : RandomState
    chunks : Chunks, optional
        Rows that must-links tie together.

    Raises
    ------
    InvalidInputError
        If given parameters do not fit the data, or a covariance is not positive definite.

    Warns
    -----
    UserWarning
        If given parameters lie outside the bounds.
    """
    kind, (weights, means, precisions) = model.covariance_type, given_start(settings, rows.x.shape[1])
    if weights is None or means is None or precisions is None:
        if has_gaps(rows.x):
            rows = rows._replace(x=np.where(np.isnan(rows.x), column_means(rows.x, rows.weights), rows.x))
            shards = [shard._replace(x=rows.x[shard.instances]) for shard in shards]
        drawn = from_posteriors(model, shards, start_posteriors(settings, rows, rng, chunks))
        weights = drawn.weights if weights is None else weights
        means = drawn.means if means is None else means
    if precisions is None:
        start = from_covariances(kind, weights, means, drawn.covariances)
    else:
        start = from_precisions(kind, weights, means, precisions)
    moved = model.bounds.project(start)
    for block, name in _STARTED_BY.items():
        before, after = getattr(start, block), getattr(moved, block)
        if getattr(settings, name) is not None and not np.allclose(before, after, rtol=_OUTSIDE, atol=0):
            warn(f"{name} lies outside {_BOUNDED_BY[block]}; EM starts from the nearest point within")
    return moved


def column_means(x: Floats, weights: Floats | None = None) -> Floats:
    """Means of columns, shape (n_features,), over the rows where they are not NaN.

    Examples
    --------
    >>> column_means(np.array([[1.0, np.nan], [3.0, 5.0]])).tolist()
    [2.0, 5.0]
    """
    observed = ~np.isnan(x)
    weight = observed if weights is None else observed * weights[:, None]
    return (np.where(observed, x, 0.0) * weight).sum(axis=0) / weight.sum(axis=0)


def last_parameters(last: MixtureParameters, model: MixtureModel, n_features: int) -> MixtureParameters:
    """Parameters of the last fit, within the model's bounds, to go on from.

    Raises
    ------
    InvalidInputError
        If their shapes are not those of the components and features of this fit.
    """
    means = (model.n_components, n_features)
    covariances = covariance_shape(model.covariance_type, *means)
    if last.means.shape != means or last.covariances.shape != covariances:
        raise InvalidInputError(
            f"warm_start must go on with means of shape {means} and covariances of shape {covariances}, got "
            f"{last.means.shape} and {last.covariances.shape} from the last fit; set warm_start=False"
        )
    return model.bounds.project(last)


def given_start(settings: Parameters, n_features: int) -> tuple[Floats | None, ...]:
    """``weights_init``, ``means_init`` and ``precisions_init`` as arrays, or None.

    Raises
    ------
    InvalidInputError
        If one has another shape than the mixture, or holds impossible values.
    """
    k, d, kind = settings.n_components, n_features, settings.covariance_type
    shapes = dict(zip(_STARTED_BY.values(), ((k,), (k, d), covariance_shape(kind, k, d)), strict=True))
    weights, means, precisions = (_array(name, getattr(settings, name), shape) for name, shape in shapes.items())
    if weights is not None and not ((weights >= 0).all() and abs(weights.sum() - 1) <= 1e-6):
        raise InvalidInputError(
            f"weights_init must be proportions that sum to 1, got {weights.tolist()}; divide them by their sum"
        )
    if precisions is not None and kind in ("diag", "spherical") and not (precisions > 0).all():
        raise InvalidInputError(f"precisions_init must be positive, got {precisions.min()}")
    if precisions is not None and kind in ("full", "tied"):
        for matrix in precisions.reshape(-1, d, d):
            symmetric, lowest = np.allclose(matrix, matrix.T), np.linalg.eigvalsh(matrix)[0]
            if not symmetric or not lowest > 0:
                wrong = f"eigenvalue {lowest:.3g}" if symmetric else "a matrix that is not symmetric"
                raise InvalidInputError(f"precisions_init must be symmetric and positive definite, got {wrong}")
    return weights, means, precisions


def start_posteriors(
    settings: Parameters, rows: MixtureRows, rng: np.random.RandomState, chunks: Chunks | None = None
) -> Floats:
    """Posteriors by ``init_params``, shape (n_rows, n_components); rows with known components are theirs."""
    x, weights, labels = rows.x, rows.weights, rows.labels
    n, k = len(x), settings.n_components
    posteriors = np.zeros((n, k))
    if settings.init_params == "kmeans":
        seeded = labels is not None and (labels >= 0).any()
        if seeded or chunks is None or not k <= len(chunks.weights) < n:
            clusters = _by_kmeans(x, k, weights, labels, rng)
        else:
            # The distance of a chunk's rows to a centre is that of their mean, times their weight, and a constant: so
            # means take the places of their rows ([Basu2004] starts from such means, too).
            search = KMeans(k, n_init=RUNS, random_state=rng).fit(chunks.mean @ x, sample_weight=chunks.weights)
            clusters = search.labels_[chunks.chunk]
        posteriors[np.arange(n), clusters] = 1.0
    elif settings.init_params == "random":
        posteriors = rng.uniform(size=(n, k))
        posteriors /= posteriors.sum(axis=1, keepdims=True)
    elif settings.init_params == "random_from_data":
        share = None if weights is None else weights / weights.sum()
        posteriors[rng.choice(n, size=k, replace=False, p=share), np.arange(k)] = 1.0
    else:
        _, drawn = kmeans_plusplus(x, k, sample_weight=weights, random_state=rng)
        posteriors[drawn, np.arange(k)] = 1.0
    if labels is not None:
        known = np.flatnonzero(labels >= 0)
        posteriors[known] = np.eye(k)[labels[known]]
    return posteriors


def _by_kmeans(x: Floats, k: int, weights: Floats | None, labels: Ints | None, rng: np.random.RandomState) -> Ints:
    """Clusters of k-means; those of components with labelled rows start from the means of these."""
    start: str | Floats = "k-means++"
    if labels is not None:
        counted = labels if weights is None else np.where(weights > 0, labels, -1)
        if (counted >= 0).any():
            start = _seeded_centres(x, k, weights, counted, rng)
    return KMeans(k, init=start, n_init=1, random_state=rng).fit(x, sample_weight=weights).labels_


def _seeded_centres(x: Floats, k: int, weights: Floats | None, labels: Ints, rng: np.random.RandomState) -> Floats:
    """Means of labelled rows; for components without any, rows drawn by squared distance from all before."""
    weight = np.ones(len(x)) if weights is None else weights
    seen = np.unique(labels[labels >= 0])
    centres = np.zeros((k, x.shape[1]))
    for component in seen:
        labelled = labels == component
        centres[component] = np.average(x[labelled], axis=0, weights=weight[labelled])
    nearest = np.min([((x - centres[component]) ** 2).sum(axis=1) for component in seen], axis=0)
    for component in np.setdiff1d(np.arange(k), seen):
        share = nearest * weight
        row = rng.choice(len(x), p=share / share.sum() if share.sum() > 0 else weight / weight.sum())
        centres[component] = x[row]
        nearest = np.minimum(nearest, ((x - x[row]) ** 2).sum(axis=1))
    return centres


def _array(name: str, value: ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
    if value is None:
        return None
    array = np.asarray(value, np.float64)
    if array.shape != shape:
        raise InvalidInputError(f"{name} must have shape {shape}, got {array.shape}; it depends on covariance_type")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} must hold finite numbers, got {array[~np.isfinite(array)][0]}")
    return array
