"""Checks that a model's scores, expected counts and M-step belong together."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.table import PartTable
from spectrem.structures import Parts, Structure

Params = TypeVar("Params")
Stats = TypeVar("Stats")
Shard = TypeVar("Shard")
AnyShard_contra = TypeVar("AnyShard_contra", contravariant=True)

_GAMMAS = (0.3, 1.0, 2.5)


class CheckedModel(Protocol[Params, Stats, AnyShard_contra]):
    """What `run_em` and `ProjectedEStep` call, together."""

    def zero_stats(self, params: Params, shards: Sequence[AnyShard_contra], /) -> Stats: ...

    def scores(self, params: Params, shard: AnyShard_contra, /) -> tuple[Structure, Parts]: ...

    def gather(self, params: Params, shard: AnyShard_contra, marginals: Parts, /) -> Stats: ...

    def m_step(self, params: Params, stats: Stats, /) -> Params: ...

    def columns(self, shard: AnyShard_contra, /) -> Mapping[str, ArrayLike]: ...

    def weights(self, shard: AnyShard_contra, /) -> NDArray[np.float64]: ...

    def is_known(self, shard: AnyShard_contra, /) -> bool: ...


def check_model(
    model: CheckedModel[Params, Stats, Shard],
    params: Params,
    shards: Sequence[Shard],
    rng: np.random.Generator,
    *,
    perturb: Callable[[Params, np.random.Generator], Params],
    reweigh: Callable[[Shard, NDArray[np.float64]], Shard] | None = None,
    log_prior: Callable[[Params], float] | None = None,
    iterations: int = 5,
) -> None:
    """Check the promises of a model to the EM loop.

    Scores have the shapes of their structure and no method changes its arguments; expected counts are linear in the
    marginals and (where ``reweigh`` is given) in the weights; at gamma 0.3, 1 and 2.5 no perturbed parameters have a
    larger expected log-probability ``sum_i w_i <s_i, mu_i>`` than those of the M-step, and EM with exact posteriors
    never lowers ``sum_i w_i smax_gamma(s_i)`` (relative 1e-8).

    Parameters
    ----------
    model
        With the methods ``zero_stats``, ``scores``, ``gather``, ``m_step``, ``columns``, ``weights`` and ``is_known``.
    params
        Where to start; better not at a stationary point.
    shards : sequence
        Small, at least one.
    rng : numpy.random.Generator
    perturb : callable
        Of (params, rng): valid parameters near by, such as probabilities multiplied by noise and normalised.
    reweigh : callable, optional
        Of (shard, weights): the shard with other weights.
    log_prior : callable, optional
        Of params: what the M-step maximises beside the expected log-probability, nats.
    iterations : int
        Of EM, at every gamma.

    Raises
    ------
    AssertionError
        Naming the promise that is broken.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> from spectrem.data import encode_bitext
    >>> from spectrem.models.alignment import AlignmentModel, build_shards
    >>> table, shards = build_shards(encode_bitext(["a b", "b"], ["x y", "y"]))
    >>> model = AlignmentModel(table, chain=False, learn_positions=False)
    >>> def perturb(params, rng):
    ...     translation = params.forward.translation * rng.uniform(0.9, 1.0)  # rows may sum to less than one
    ...     return replace(params, forward=replace(params.forward, translation=translation))
    >>> start = model.initial(max_jump=1, null_probability=0.2)
    >>> check_model(model, start, shards, np.random.default_rng(0), perturb=perturb)
    """
    prior = log_prior or (lambda _: 0.0)
    for shard in shards:
        _check_scores(model, params, shard)
        _check_linear_in_marginals(model, params, shard, rng)
        if reweigh is not None:
            _check_linear_in_weights(model, params, shard, rng, reweigh)
    for gamma in _GAMMAS:
        now, before = params, -np.inf
        for _ in range(iterations):
            objective, stats, marginals = _expect(model, now, shards, gamma)
            objective += prior(now)
            _require(
                objective >= before - 1e-8 * max(1.0, abs(before)),
                model,
                f"EM lowered the objective at gamma={gamma}, from {before!r} to {objective!r}",
            )
            given = copy.deepcopy((now, stats))
            following = model.m_step(now, stats)
            same = np.array_equal(_flat((now, stats)), _flat(given))
            _require(same, model, "m_step must not change its arguments")
            _check_maximum(model, following, shards, marginals, rng, perturb, prior, gamma)
            now, before = following, objective


def _check_scores(model: Any, params: Any, shard: Any) -> None:
    given = copy.deepcopy((params, shard))
    structure, scores = model.scores(params, shard)
    _require(scores.unary.shape == (structure.n_unary,), model, "scores.unary must have shape (structure.n_unary,)")
    shapes = tuple(factor.shape for factor in scores.factors)
    _require(shapes == structure.factor_shapes, model, "scores.factors must have the shapes of structure.factor_shapes")
    for array in (scores.unary, *scores.factors):
        _require(bool((array < np.inf).all()), model, "scores must be finite or -inf, not NaN or +inf")
    weights = model.weights(shard)
    _require(weights.shape == (structure.n_instances,), model, "weights must have shape (structure.n_instances,)")
    _require(model.is_known(shard) in (True, False), model, "is_known must return a bool")
    columns = PartTable(structure, model.columns(shard))
    for name in columns.extra_columns:
        columns.column(name)  # raises where it fits neither parts nor instances nor occurrences
    again = model.scores(params, shard)[1]
    same = np.array_equal(_flat(again), _flat(scores)) and np.array_equal(_flat((params, shard)), _flat(given))
    _require(same, model, "scores must not change its arguments and give the same for the same")


def _check_linear_in_marginals(model: Any, params: Any, shard: Any, rng: np.random.Generator) -> None:
    structure, scores = model.scores(params, shard)
    first, second = (
        structure.smoothed_max(_jittered(scores, rng), 1.0, weights=model.weights(shard))[1] for _ in range(2)
    )
    given = copy.deepcopy(first)
    share = 0.3
    mixed = Parts(
        share * first.unary + (1 - share) * second.unary,
        tuple(share * a + (1 - share) * b for a, b in zip(first.factors, second.factors, strict=True)),
    )
    one, other, both = (_total(model, params, shard, marginals) for marginals in (first, second, mixed))
    _require(np.array_equal(_flat(first), _flat(given)), model, "gather must not change the marginals")
    _require(_close(both, share * one + (1 - share) * other), model, "gather must be linear in the marginals")


def _check_linear_in_weights(model: Any, params: Any, shard: Any, rng: np.random.Generator, reweigh: Any) -> None:
    structure, scores = model.scores(params, shard)
    n = structure.n_instances
    drawn = rng.uniform(0.2, 2.0, (2, n))
    nothing = _flat(model.zero_stats(params, [shard]))

    def counted(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        weighed = reweigh(shard, weights)
        _require(np.array_equal(model.weights(weighed), weights), model, "weights must return those that reweigh set")
        _, marginals = structure.smoothed_max(scores, 1.0, weights=weights)
        return _total(model, params, weighed, marginals) - nothing

    together = counted(drawn[0] + 2.0 * drawn[1])
    _require(
        _close(together, counted(drawn[0]) + 2.0 * counted(drawn[1])), model, "gather must be linear in the weights"
    )
    _require(_close(counted(np.zeros(n)), np.zeros(len(nothing))), model, "instances of weight 0 must not be counted")


def _expect(model: Any, params: Any, shards: Sequence[Any], gamma: float) -> tuple[float, Any, list[Parts]]:
    """The E-step without constraints: value, statistics, and the marginals they were gathered from."""
    total, value, kept = model.zero_stats(params, shards), 0.0, []
    for shard in shards:
        structure, scores = model.scores(params, shard)
        weights = model.weights(shard)
        values, marginals = structure.smoothed_max(scores, gamma, weights=weights)
        total += model.gather(params, shard, marginals)
        value += float(weights @ values)
        kept.append(marginals)
    return value, total, kept


def _check_maximum(
    model: Any,
    best: Any,
    shards: Sequence[Any],
    marginals: Sequence[Parts],
    rng: np.random.Generator,
    perturb: Any,
    prior: Any,
    gamma: float,
) -> None:
    def expected(params: Any) -> float:
        total = prior(params)
        for shard, expectation in zip(shards, marginals, strict=True):
            structure, scores = model.scores(params, shard)
            weighted = model.weights(shard)[structure.instance] * expectation.unary
            total += scores.dot(Parts(weighted, expectation.factors))
        return float(total)

    top = expected(best)
    for _ in range(5):
        other = expected(perturb(best, rng))
        _require(
            other <= top + 1e-9 * max(1.0, abs(top)),
            model,
            f"perturbed parameters beat those of the M-step at gamma={gamma}: expected log-probability {other!r} "
            f"against {top!r}",
        )


def _total(model: Any, params: Any, shard: Any, marginals: Parts) -> NDArray[np.float64]:
    total = model.zero_stats(params, [shard])
    total += model.gather(params, shard, marginals)
    return _flat(total)


def _jittered(scores: Parts, rng: np.random.Generator) -> Parts:
    return Parts(
        scores.unary + rng.normal(size=scores.unary.shape),
        tuple(factor + rng.normal(size=factor.shape) for factor in scores.factors),
    )


def _flat(value: Any) -> NDArray[np.float64]:
    """All numbers inside parameters, statistics or shards, in a fixed order."""
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
    return np.concatenate([np.zeros(0), *(_flat(part) for part in inside)])


def _close(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-11))


def _require(condition: bool, model: Any, promise: str) -> None:
    if not condition:
        raise AssertionError(f"{type(model).__name__}: {promise}")
