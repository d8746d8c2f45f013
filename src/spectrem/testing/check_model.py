"""Check that the scores, statistics and M-step of a model fit together, in this process and in others."""

from __future__ import annotations

import copy
import dataclasses
import math
import multiprocessing
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.compilation.draft import PartTable
from spectrem.corpus import Local
from spectrem.learning import EStep, Model, Step, Stopping, pose, posterior, run_em
from spectrem.learning.model import columns_of, counts_of, given_of, is_known, log_normaliser, log_prior, weights_of
from spectrem.learning.posed_corpus import needs_of
from spectrem.learning.schedule import Constant
from spectrem.structures import Parts

Params = TypeVar("Params")
Stats = TypeVar("Stats")
Shard = TypeVar("Shard")

_GAMMAS = (-math.inf, 0.0, 0.3, 1.0, 2.5)


def check_model(
    model: Model[Params, Stats, Shard],
    params: Params,
    shards: Sequence[Shard],
    rng: np.random.Generator,
    *,
    perturb: Callable[[Params, np.random.Generator], Params],
    reweigh: Callable[[Shard, NDArray[np.float64]], Shard] | None = None,
    join: Callable[[Sequence[Shard]], Shard] | None = None,
    iterations: int = 5,
    tol: float = 1e-8,
) -> None:
    """Check the promises of a model to the EM loop; see `spectrem.learning.Model`.

    Scores have the shapes of their structure and no method changes its arguments. Statistics are values with ``a + b``
    and ``factor * a``, linear in the marginals and (where ``reweigh`` is given) in the weights. At gamma -inf, 0, 0.3,
    1 and 2.5 no perturbed parameters have a larger expected log-probability
    ``sum_i w_i <s_i, mu_i> - log-normaliser + log-prior`` than those of the M-step, and EM with exact posteriors never
    lowers the objective ``sum_i w_i smax_gamma(s_i) - log-normaliser + log-prior``. One shard gives what several do
    (where ``join`` is given), and another process, to which model, parameters and shards are sent, the same bits. A
    model that says which parameters a shard needs gives the same bits from these alone.

    Parameters
    ----------
    model : Model
    params
        Parameters to start from, preferably not a stationary point of EM.
    shards : sequence
        Small, at least one.
    rng : numpy.random.Generator
    perturb : callable
        From (params, rng) to valid parameters near by, such as probabilities times noise, normalised.
    reweigh : callable, optional
        From (shard, weights) to the shard with these weights.
    join : callable, optional
        From several shards to one with all their instances.
    iterations : int
        Number of iterations of EM at every gamma.
    tol : float
        Relative to the objective: by how much it may fall, and perturbed parameters may be better.

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
    >>> model = AlignmentModel(table, max_jump=1, chain=False, learn_positions=False)
    >>> def perturb(params, rng):
    ...     translation = params.forward.translation * rng.uniform(0.9, 1.0)  # rows may sum to less than one
    ...     return replace(params, forward=replace(params.forward, translation=translation))
    >>> start = model.initial(null_probability=0.2)
    >>> check_model(model, start, shards, np.random.default_rng(0), perturb=perturb)
    """
    for shard in shards:
        _check_scores(model, params, shard)
        _check_linear_in_marginals(model, params, shard, rng)
        if reweigh is not None:
            _check_linear_in_weights(model, params, shard, rng, reweigh)
        if hasattr(model, "needs"):
            _check_needs(model, params, shard)
    for gamma in _GAMMAS:
        now, before = params, -np.inf
        for _ in range(iterations):
            objective, stats, marginals = _expect(model, now, shards, gamma)
            _require(
                objective >= before - tol * max(1.0, abs(before)),
                model,
                f"EM lowered the objective at gamma={gamma}, from {before!r} to {objective!r}",
            )
            given = copy.deepcopy(now)
            following = model.m_step(now, stats, Local(shards))
            _require(np.array_equal(_flat(now), _flat(given)), model, "m_step must not change the parameters")
            best = _expected_score(model, following, shards, marginals)
            for _ in range(5):
                other = _expected_score(model, perturb(following, rng), shards, marginals)
                _require(
                    other <= best + 0.1 * tol * max(1.0, abs(best)),
                    model,
                    f"perturbed parameters beat those of the M-step at gamma={gamma}: expected log-probability "
                    f"{other!r} against {best!r}",
                )
            now, before = following, objective
    if join is not None:
        _check_cuts(model, params, shards, join(shards))
    _check_processes(model, params, shards)


def _check_needs(model: Any, params: Any, shard: Any) -> None:
    """The E-step of a shard has the same bits with the parameters that it needs, sent as they are on a cluster."""
    given = copy.deepcopy((params, shard))
    for gamma in _GAMMAS:
        posed, step = pose(model, Local([shard]), EStep()), Step(model, params, gamma, EStep())
        whole = posed.expect(step)[0]
        needs = pickle.loads(pickle.dumps([needs_of(shard, model.needs)]))
        found = replace(posed, needs=needs).expect(step)[0]
        same = np.array_equal(_flat(whole), _flat(found))
        _require(same, model, f"restrict and place must give the bits of the whole model at gamma={gamma}")
    _require(np.array_equal(_flat((params, shard)), _flat(given)), model, "restrict must not change parameters")


def _check_cuts(model: Any, params: Any, shards: Sequence[Any], joined: Any) -> None:
    """One shard and several give the same fit, up to rounding."""
    for gamma in (0.0, 1.0):
        several, one = (
            run_em(model, corpus, params, schedule=Constant(gamma), stopping=Stopping(2)).history
            for corpus in (shards, [joined])
        )
        for left, right in zip(several, one, strict=True):
            _require(
                abs(left.objective - right.objective) <= 1e-7 * max(1.0, abs(right.objective)),
                model,
                f"one shard must give the objective of several at gamma={gamma}, got {right.objective!r} and "
                f"{left.objective!r}",
            )


def _check_processes(model: Any, params: Any, shards: Sequence[Any]) -> None:
    """The E-step of every shard has the same bits in another process."""
    try:
        pickle.dumps((model, params, shards))
    except Exception as error:
        raise AssertionError(
            f"{type(model).__name__}: model, parameters and shards must pickle to go where shards live; got "
            f"{type(error).__name__}: {error}"
        ) from error
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = pool.submit(_all_gammas, model, params, shards).result()
    here = _all_gammas(model, params, shards)
    _require(np.array_equal(here, there), model, "the E-step must have the same bits in another process")


def _all_gammas(model: Any, params: Any, shards: Sequence[Any]) -> NDArray[np.float64]:
    """Objectives and statistics of the E-step at every gamma, as one array of numbers."""
    return _flat([_expect(model, params, shards, gamma)[:2] for gamma in _GAMMAS])


def _check_scores(model: Any, params: Any, shard: Any) -> None:
    given = copy.deepcopy((params, shard))
    structure, scores = model.structure(shard), model.scores(params, shard)
    _require(scores.unary.shape == (structure.n_unary,), model, "scores.unary must have shape (structure.n_unary,)")
    shapes = tuple(factor.shape for factor in scores.factors)
    _require(shapes == structure.factor_shapes, model, "scores.factors must have the shapes of structure.factor_shapes")
    for array in (scores.unary, *scores.factors):
        _require(bool((array < np.inf).all()), model, "scores must be finite or -inf, not NaN or +inf")
    weights = weights_of(model, shard, structure)
    _require(weights.shape == (structure.n_instances,), model, "weights must have shape (structure.n_instances,)")
    _require(is_known(model, shard) in (True, False), model, "is_known must return a bool")
    mask = given_of(model, shard)
    if mask is not None:
        fits = mask.shape == (structure.n_instances,) and mask.dtype == np.bool_
        _require(fits, model, "given must be None or a bool per instance, shape (n_instances,)")
    counts = counts_of(model, shard)
    if counts is not None:
        fits = counts.shape == (structure.n_instances,) and bool(((counts >= 0) & (counts < np.inf)).all())
        _require(fits, model, "counts must be None or a number of at least 0 per instance, shape (n_instances,)")
    _require(math.isfinite(log_normaliser(model, params, shard)), model, "log_normaliser must be finite")
    columns = PartTable(structure, columns_of(model, shard))
    for name in columns.extra_columns:
        columns.column(name)  # raises where it fits neither parts nor instances nor occurrences
    again = model.scores(params, shard)
    same = np.array_equal(_flat(again), _flat(scores)) and np.array_equal(_flat((params, shard)), _flat(given))
    _require(same, model, "scores must not change its arguments and give the same for the same")


def _check_linear_in_marginals(model: Any, params: Any, shard: Any, rng: np.random.Generator) -> None:
    structure, scores = model.structure(shard), model.scores(params, shard)
    weights = weights_of(model, shard, structure)
    near = [scores.map(lambda part: part + rng.normal(size=part.shape)) for _ in range(2)]
    first, second = (structure.smoothed_max(drawn, 1.0, weights=weights)[1] for drawn in near)
    given = copy.deepcopy(first)
    share = 0.3
    mixed = first.map(lambda a, b: share * a + (1 - share) * b, second)
    one, other, both = (model.gather(params, shard, marginals) for marginals in (first, second, mixed))
    kept = copy.deepcopy((one, other))
    together = share * one + (1 - share) * other
    _require(_close(_flat(both), _flat(together)), model, "gather must be linear in the marginals")
    in_order, in_turn = (one + other) + together, one + (other + together)
    _require(_close(_flat(in_order), _flat(in_turn)), model, "a + b of statistics must be associative")
    _require(np.array_equal(_flat((one, other)), _flat(kept)), model, "a + b of statistics must change neither")
    total = one
    total += other
    _require(_close(_flat(total), _flat(kept[0] + kept[1])), model, "a += b of statistics must give a + b")
    _require(np.array_equal(_flat(other), _flat(kept[1])), model, "a += b of statistics must not change b")
    _require(np.array_equal(_flat(first), _flat(given)), model, "gather must neither change nor return the marginals")


def _check_linear_in_weights(model: Any, params: Any, shard: Any, rng: np.random.Generator, reweigh: Any) -> None:
    structure, scores = model.structure(shard), model.scores(params, shard)
    n = structure.n_instances
    drawn = rng.uniform(0.2, 2.0, (2, n))

    def counted(weights: NDArray[np.float64]) -> Any:
        weighed = reweigh(shard, weights)
        _require(
            np.array_equal(weights_of(model, weighed, structure), weights),
            model,
            "weights must be those that reweigh set",
        )
        _, marginals = structure.smoothed_max(scores, 1.0, weights=weights)
        return model.gather(params, weighed, marginals)

    together, apart = counted(drawn[0] + 2.0 * drawn[1]), counted(drawn[0]) + 2.0 * counted(drawn[1])
    _require(_close(_flat(together), _flat(apart)), model, "gather must be linear in the weights")
    nothing = 0.0 * together
    _require(_close(_flat(counted(np.zeros(n))), _flat(nothing)), model, "instances of weight 0 must not be counted")


def _expect(model: Any, params: Any, shards: Sequence[Any], gamma: float) -> tuple[float, Any, list[Parts]]:
    """The E-step without constraints: objective, statistics, and the marginals they were gathered from."""
    estep = EStep()
    step = Step(model, params, gamma, estep)
    posed = pose(model, Local(shards), estep)
    total, _ = posed.expect(step)
    marginals = [found.marginals for found in posed.shards.collect(posterior, step)]
    return total.objective + log_prior(model, params), total.stats, marginals


def _expected_score(model: Any, params: Any, shards: Sequence[Any], marginals: Sequence[Parts]) -> float:
    """The expected log-probability of the parameters, with their log-prior, under marginals of every shard, nats."""
    total = log_prior(model, params)
    for shard, expectation in zip(shards, marginals, strict=True):
        structure, scores = model.structure(shard), model.scores(params, shard)
        weighted = weights_of(model, shard, structure)[structure.instance] * expectation.unary
        total += scores.dot(Parts(weighted, expectation.factors)) - log_normaliser(model, params, shard)
    return total


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
