"""Check that a family of structures does what the protocol `spectrem.structures.Structure` promises, by enumeration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from spectrem._arrays import Floats
from spectrem._reprs import briefly_shown
from spectrem._validate import as_gamma, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Parts, Structure
from spectrem.structures._ragged import no_parts

Enumerator = Callable[[Structure, int], Iterable[Parts]]
"""Yields every structure of one instance as an indicator over the parts of the whole batch."""


@briefly_shown
class BruteForce(NamedTuple):
    """The smoothed maximum and its gradient as sums over all structures.

    Attributes
    ----------
    values : ndarray of shape (n_instances,)
        Smoothed max in nats, ``-inf`` where no structure is possible.
    marginals : Parts
    entropy : ndarray of shape (n_instances,)
        Nats; 0 at ``gamma == 0`` and for impossible instances.
    argmax : tuple of (Parts or None), one per instance
        The first best structure; None where none is possible.

    Examples
    --------
    >>> from spectrem.structures import Categorical, Parts
    >>> brute_force_smoothed_max(Categorical([2]), Parts(np.log([0.25, 0.75])), 1.0).marginals.unary.round(12)
    array([0.25, 0.75])
    """

    values: Floats
    marginals: Parts
    entropy: Floats
    argmax: tuple[Parts | None, ...]


def random_scores(structure: Structure, rng: np.random.Generator) -> Parts:
    """Independent scores of all parts from a standard normal distribution, nats."""
    return no_parts(structure).map(lambda zeros: rng.normal(size=zeros.shape))


def enumerate_structures(structure: Structure, instance: int) -> Iterator[Parts]:
    """Every structure of one instance, as the structure's own ``enumerate`` gives them.

    Their number is exponential in the length: for instances of a few positions only.

    Parameters
    ----------
    structure : Structure
    instance : int

    Yields
    ------
    Parts
        Indicators of the size of the whole batch, zero outside the instance; factors hold counts.

    Raises
    ------
    InvalidInputError
        If the structure has no method ``enumerate``.

    Examples
    --------
    >>> from spectrem.structures import Chain
    >>> from spectrem.testing import enumerate_structures
    >>> [one.unary.astype(int).tolist() for one in enumerate_structures(Chain([2], n_states=2), 0)]
    [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]]
    """
    enumerate_instance = getattr(structure, "enumerate", None)
    if enumerate_instance is None:
        raise InvalidInputError(
            f"structure must have a method enumerate(instance); got {type(structure).__name__}; write one, or pass "
            "your own enumerator"
        )
    yield from enumerate_instance(instance)


def brute_force_smoothed_max(
    structure: Structure,
    scores: Parts,
    gamma: float,
    *,
    weights: Floats | None = None,
    enumerator: Enumerator = enumerate_structures,
) -> BruteForce:
    """The smoothed max and its gradient by enumeration.

    Parameters
    ----------
    structure, scores, gamma, weights
        As for ``structure.smoothed_max``.
    enumerator : callable
        From (structure, instance) to every structure, as indicators over the batch.

    Returns
    -------
    BruteForce
        Values, marginals and best structures of the batch.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts
    >>> from spectrem.testing import brute_force_smoothed_max
    >>> result = brute_force_smoothed_max(Categorical([4]), Parts(np.zeros(4)), gamma=1.0)
    >>> np.exp(result.values).round(12).tolist(), np.exp(result.entropy).round(12).tolist()
    ([4.0], [4.0])
    """
    gamma = as_gamma(gamma)
    weight = as_weights(weights, structure.n_instances)
    values, entropies = np.full(structure.n_instances, -np.inf), np.zeros(structure.n_instances)
    marginals = no_parts(structure)
    argmax: list[Parts | None] = []
    for n in range(structure.n_instances):
        structures = list(enumerator(structure, n))
        score = np.array([scores.dot(h) for h in structures])
        if not np.isfinite(score).any():
            argmax.append(None)
            continue
        best = int(np.argmax(score))
        argmax.append(structures[best])
        if gamma == 0.0:
            posterior = np.zeros(len(structures))
            posterior[best] = 1.0
            values[n] = score[best]
        else:
            excess = (score - score[best]) / gamma
            log_total = np.log(np.exp(excess).sum())
            posterior = np.exp(excess - log_total)
            values[n] = score[best] + gamma * log_total
            likely = posterior > 0
            entropies[n] = -(posterior[likely] * (excess[likely] - log_total)).sum()
        for probability, h in zip(posterior, structures, strict=True):
            marginals.add(h, probability, weight[n] * probability)
    return BruteForce(values, marginals, entropies, tuple(argmax))


_GAMMAS = (0.0, 0.3, 1.0, 2.5)


def check_structure(structure: Structure, rng: np.random.Generator, *, enumerator: Enumerator | None = None) -> None:
    """Check the promises of the Structure protocol on random scores.

    Value and marginals equal enumeration (where there is an enumerator), marginals are the gradient of the value,
    small gamma reaches the maximum, the value is homogeneous and follows a shift of all scores, instances do not
    influence each other, no two parts of a choice are taken together, ``active`` and ``weights`` do what they say,
    parts with score ``-inf`` get probability 0, scores of a thousand nats neither over- nor underflow, the integer
    program over ``polytope`` finds the maximum, and ``covariances`` are derivatives of marginals, beside the means of
    what they are covariances with (where these two are implemented).

    Parameters
    ----------
    structure : Structure
        A small batch; include instances of length 0, 1 and 2 where the family has lengths.
    rng : numpy.random.Generator
    enumerator : callable, optional
        From (structure, instance) to every structure, as indicators over the parts of the batch. Default: the
        structure's own method ``enumerate``, if it has one.

    Raises
    ------
    AssertionError
        Naming the promise that is broken.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Chain
    >>> from spectrem.testing import check_structure
    >>> check_structure(Chain([0, 1, 2, 3], n_states=3), np.random.default_rng(0))
    """
    if enumerator is None and hasattr(structure, "enumerate"):
        enumerator = enumerate_structures
    scores = random_scores(structure, rng)
    _check_shapes(structure, scores)
    for gamma in _GAMMAS:
        for drawn in (scores, _with_impossible(scores, rng), random_scores(structure, rng).map(lambda s: s * 1e3)):
            if enumerator is not None:
                _check_enumeration(structure, drawn, gamma, enumerator)
            _check_marginals(structure, drawn, gamma)
            _check_apart(structure, drawn, gamma, rng)
        _check_homogeneous(structure, scores, gamma)
        _check_shift(structure, scores, gamma, rng)
        if gamma > 0.0:
            _check_gradient(structure, scores, gamma, rng)
    if hasattr(structure, "covariances"):
        for drawn in (scores, _with_impossible(scores, rng)):
            _check_covariances(structure, drawn, rng)
    _check_limit(structure, scores)
    _check_polytope(structure, scores)
    _check_polytope(structure, _with_impossible(scores, rng))


def require(subject: object, promise: str, condition: object) -> None:
    """Raise an error, which names the kind of the subject, unless a condition holds."""
    if not condition:
        raise AssertionError(f"{subject if isinstance(subject, str) else type(subject).__name__}: {promise}")


def require_same(
    subject: object, promise: str, value: Any, expected: Any, rtol: float = 0.0, atol: float | None = None
) -> None:
    """Raise an error unless all numbers inside two values are equal up to tolerances; ``atol`` is ``rtol`` if None."""
    require(subject, promise, are_same(value, expected, rtol, atol))


def are_same(value: Any, expected: Any, rtol: float = 0.0, atol: float | None = None) -> bool:
    """Whether all numbers inside two values are equal, up to tolerances."""
    a, b = flat(value), flat(expected)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=rtol, atol=rtol if atol is None else atol))


def flat(value: Any) -> Floats:
    """All numbers inside parts, parameters, statistics or shards, in a fixed order."""
    if value is None or isinstance(value, str):
        return np.zeros(0)
    if isinstance(value, np.ndarray | np.generic | float | int):
        array = np.asarray(value).ravel()
        return array.astype(np.float64) if array.dtype.kind in "biuf" else np.zeros(0)
    if dataclasses.is_dataclass(value):
        inside = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, Sequence):
        inside = list(value)
    else:
        inside = list(vars(value).values()) if hasattr(value, "__dict__") else []
    return np.concatenate([np.zeros(0), *map(flat, inside)])


def _with_impossible(scores: Parts, rng: np.random.Generator) -> Parts:
    return Parts(
        np.where(rng.random(scores.unary.shape) < 0.2, -np.inf, scores.unary),
        tuple(np.where(rng.random(f.shape) < 0.1, -np.inf, f) for f in scores.factors),
    )


def _check_shapes(structure: Structure, scores: Parts) -> None:
    values, marginals = structure.smoothed_max(scores, 1.0)
    require(structure, "values must have shape (n_instances,)", values.shape == (structure.n_instances,))
    columns = {f"column {name!r}": column for name, column in structure.columns.items()}
    instance, choice = structure.instance, structure.choice
    of_parts = {"marginals.unary": marginals.unary, "instance": instance, "choice": choice, **columns}
    for name, array in of_parts.items():
        require(structure, f"{name} must have shape (n_unary,)", array.shape == (structure.n_unary,))
    shapes = tuple(f.shape for f in marginals.factors)
    require(structure, "marginals.factors must have the shapes of factor_shapes", shapes == structure.factor_shapes)
    require(structure, "instance_name must be the name of a column", structure.instance_name in structure.columns)
    pairs = np.unique(np.stack([choice, instance]), axis=1)
    require(structure, "a choice must stay inside one instance", len(np.unique(choice)) == pairs.shape[1])


def _check_enumeration(structure: Structure, scores: Parts, gamma: float, enumerator: Enumerator) -> None:
    weights = np.linspace(0.5, 1.5, structure.n_instances)
    values, marginals = structure.smoothed_max(scores, gamma, weights=weights)
    expected = brute_force_smoothed_max(structure, scores, gamma, weights=weights, enumerator=enumerator)
    at = f"at gamma={gamma}"
    require_same(structure, f"values differ from enumeration {at}", values, expected.values, 1e-9)
    same = are_same(marginals, expected.marginals, 1e-8)
    if gamma > 0.0:
        require(structure, f"marginals differ from enumeration {at}", same)
    elif not same:
        # Another structure is fine if it is as good.
        _, alone = structure.smoothed_max(scores, gamma)
        best = float(values[np.isfinite(values)].sum())
        require_same(structure, "the structure is not a best one", scores.dot(alone), best, 1e-9)


def _check_marginals(structure: Structure, scores: Parts, gamma: float) -> None:
    values, marginals = structure.smoothed_max(scores, gamma)
    at = f"at gamma={gamma}"
    require(structure, f"values are NaN {at}", not np.isnan(values).any())
    require(structure, f"marginals are NaN {at}", not np.isnan(flat(marginals)).any())
    within = (marginals.unary >= 0.0) & (marginals.unary <= 1.0 + 1e-9)
    require(structure, f"marginals leave [0, 1] {at}", within.all())
    _, choice = np.unique(structure.choice, return_inverse=True)
    chosen = np.bincount(choice, marginals.unary)
    require(structure, f"two parts of one choice are taken together {at}", (chosen <= 1.0 + 1e-9).all())
    forbidden = np.isneginf(flat(scores))
    require(structure, f"a part with score -inf has a positive marginal {at}", not flat(marginals)[forbidden].any())
    dead = np.isneginf(values)[structure.instance]
    require(structure, f"an impossible instance has positive marginals {at}", not marginals.unary[dead].any())


def _check_apart(structure: Structure, scores: Parts, gamma: float, rng: np.random.Generator) -> None:
    """The batch is its instances one by one; ``weights`` multiply factor counts only."""
    weights = rng.uniform(0.0, 2.0, structure.n_instances)
    values, marginals = structure.smoothed_max(scores, gamma)
    _, weighted = structure.smoothed_max(scores, gamma, weights=weights)
    require_same(structure, "weights change unary marginals", weighted.unary, marginals.unary, 1e-12)
    total = no_parts(structure)
    for n in range(structure.n_instances):
        active = np.arange(structure.n_instances) == n
        value, alone = structure.smoothed_max(scores, gamma, active=active)
        require(structure, "an inactive instance has a value", (value[~active] == 0.0).all())
        outside = structure.instance != n
        require(structure, "an inactive instance has marginals", not alone.unary[outside].any())
        require_same(structure, "the value depends on the other instances", value[active], values[active], 1e-10)
        total.add(alone, 1.0, weights[n])
    require_same(structure, "marginals depend on the other instances", total.unary, marginals.unary, 1e-10)
    promise = "expected counts of the factors are not the weighted sum over instances"
    require_same(structure, promise, total.factors, weighted.factors, 1e-9)


def _check_homogeneous(structure: Structure, scores: Parts, gamma: float) -> None:
    """smax_{c gamma}(c s) = c smax_gamma(s), with the same marginals."""
    values, marginals = structure.smoothed_max(scores, gamma)
    for by in (0.1, 1e3):
        scaled, same = structure.smoothed_max(scores.map(lambda part, by=by: part * by), by * gamma)
        require_same(structure, f"scores and gamma times {by} must scale the value", scaled / by, values, 1e-9)
        require_same(structure, f"scores and gamma times {by} change the marginals", same, marginals, 1e-8)


def _check_shift(structure: Structure, scores: Parts, gamma: float, rng: np.random.Generator) -> None:
    """Where all structures of an instance have the same number of unary parts, a constant moves the value only."""
    values, marginals = structure.smoothed_max(scores, gamma)
    sizes = np.bincount(structure.instance, marginals.unary, structure.n_instances)
    for _ in range(3):
        _, other = structure.smoothed_max(random_scores(structure, rng), gamma)
        if not are_same(np.bincount(structure.instance, other.unary, structure.n_instances), sizes, 1e-8):
            return
    for by in (-3.7, 500.0):
        moved, same = structure.smoothed_max(Parts(scores.unary + by, scores.factors), gamma)
        require_same(structure, f"adding {by} to all scores must add to the value", moved, values + by * sizes, 1e-9)
        require_same(structure, f"adding {by} to all scores moves the marginals", same.unary, marginals.unary, 1e-8)


def _check_gradient(structure: Structure, scores: Parts, gamma: float, rng: np.random.Generator) -> None:
    values, marginals = structure.smoothed_max(scores, gamma)
    possible, step = np.isfinite(values), 1e-5
    for _ in range(5):
        direction = random_scores(structure, rng)
        up, _ = structure.smoothed_max(scores.map(lambda s, d: s + step * d, direction), gamma)
        down, _ = structure.smoothed_max(scores.map(lambda s, d: s - step * d, direction), gamma)
        difference, slope = float((up[possible] - down[possible]).sum()) / (2 * step), direction.dot(marginals)
        require(
            structure,
            f"marginals are not the gradient of the value at gamma={gamma}: slope {slope}, differences {difference}",
            abs(difference - slope) <= 1e-5 * (1.0 + abs(slope)) * (1.0 + 1.0 / gamma),
        )


def _check_covariances(structure: Any, scores: Parts, rng: np.random.Generator) -> None:
    """Covariances are the derivatives of marginals along a direction in scores, means those of values."""
    along, weights, step = random_scores(structure, rng), rng.normal(size=structure.n_instances), 1e-5
    means, slopes = np.zeros(structure.n_instances), no_parts(structure)
    up, down = (scores.map(lambda s, d, by=by: s + by * d, along) for by in (step, -step))
    for n in range(structure.n_instances):
        active = np.arange(structure.n_instances) == n
        means[n] = along.dot(structure.smoothed_max(scores, 1.0, active=active)[1])
        for moved, share in ((up, 0.5 / step), (down, -0.5 / step)):
            slopes.add(structure.smoothed_max(moved, 1.0, active=active)[1], share, share * weights[n])
    found, products = structure.covariances(scores, along, weights)
    require_same(structure, "means beside covariances are not those of marginals", found, means, 1e-8)
    require_same(structure, "covariances are not the derivatives of marginals", products, slopes, 1e-6)


def _check_limit(structure: Structure, scores: Parts) -> None:
    """max <= smax_gamma <= max + gamma log(number of structures), told apart by their unary parts."""
    best, _ = structure.smoothed_max(scores, 0.0)
    possible = np.isfinite(best)
    sizes = np.bincount(structure.instance, minlength=structure.n_instances)
    for gamma in (1.0, 1e-2, 1e-4):
        values, _ = structure.smoothed_max(scores, gamma)
        require(structure, "gamma changes which instances are possible", (np.isfinite(values) == possible).all())
        excess = values[possible] - best[possible]
        room = 1e-9 * (1.0 + np.abs(best[possible]))
        require(structure, f"the smoothed max at gamma={gamma} is below the maximum", (excess >= -room).all())
        near = excess <= gamma * np.log(2.0) * sizes[possible] + room
        require(structure, f"the smoothed max at gamma={gamma} does not approach the maximum", near.all())


def _check_polytope(structure: Structure, scores: Parts) -> None:
    best, _ = structure.smoothed_max(scores, 0.0)
    for n in range(min(structure.n_instances, 4)):
        try:
            polytope = structure.polytope(scores, n)
        except NotImplementedError:
            return
        n_variables = len(polytope.objective)
        promise, parts = f"polytope: unary_index must list the parts of instance {n}", polytope.unary_index
        require_same(structure, promise, np.sort(parts), np.flatnonzero(structure.instance == n))
        total = polytope.right_hand_side
        if n_variables == 0:
            promise = "polytope: empty for an instance that has structures"
            require(structure, promise, (not total.any()) == (best[n] == 0.0))
            continue
        allowed = polytope.objective > -np.inf
        objective = np.where(allowed, polytope.objective, 0.0)
        solution = scipy.optimize.milp(
            -objective,
            integrality=np.ones(n_variables, dtype=np.int64),
            bounds=scipy.optimize.Bounds(0.0, allowed.astype(np.float64)),
            constraints=scipy.optimize.LinearConstraint(polytope.equalities, total, total),
        )
        if solution.x is None:
            require(structure, f"polytope: infeasible for instance {n}, which is possible", np.isneginf(best[n]))
            continue
        promise = f"polytope: the integer program of instance {n} does not reach the maximum"
        require_same(structure, promise, objective @ solution.x, best[n : n + 1], 1e-6)
        indicator = no_parts(structure)
        indicator.unary[polytope.unary_index] = (polytope.unary @ solution.x).round()
        for counts, matrix in zip(indicator.factors, polytope.factors, strict=True):
            counts += (matrix @ solution.x).round().reshape(counts.shape)
        promise = f"polytope: unary and factors of instance {n} do not recover the parts of its solution"
        require_same(structure, promise, scores.dot(indicator), best[n : n + 1], 1e-6)
