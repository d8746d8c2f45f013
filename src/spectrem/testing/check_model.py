"""Check that the scores, statistics and M-step of a model fit together, in this process and in others."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from spectrem._arrays import Floats
from spectrem.constraints.compilation.draft import PartTable
from spectrem.corpus import Local
from spectrem.learning import EStep, Model, Step, Stopping, pose, posterior, run_em
from spectrem.learning.model import columns_of, counts_of, given_of, is_known, log_normaliser, log_prior, weights_of
from spectrem.learning.posed_corpus import needs_of
from spectrem.learning.schedule import Constant
from spectrem.structures import Parts
from spectrem.testing.check import flat, require, require_same

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
    reweigh: Callable[[Shard, Floats], Shard] | None = None,
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
            promise = f"EM lowered the objective at gamma={gamma}, from {before!r} to {objective!r}"
            require(model, promise, objective >= before - tol * max(1.0, abs(before)))
            kept = copy.deepcopy(now)
            following = model.m_step(now, stats, Local(shards))
            require_same(model, "m_step must not change the parameters", now, kept)
            best = _expected_score(model, following, shards, marginals)
            for _ in range(5):
                other = _expected_score(model, perturb(following, rng), shards, marginals)
                promise = (
                    f"perturbed parameters beat those of the M-step at gamma={gamma}: expected log-probability "
                    f"{other!r} against {best!r}"
                )
                require(model, promise, other <= best + 0.1 * tol * max(1.0, abs(best)))
            now, before = following, objective
    if join is not None:
        _check_cuts(model, params, shards, join(shards))
    _check_processes(model, params, shards)


def _check_needs(model: Any, params: Any, shard: Any) -> None:
    """The E-step of a shard has the same bits with the parameters that it needs, sent as they are on a cluster."""
    kept = copy.deepcopy((params, shard))
    for gamma in _GAMMAS:
        posed, step = pose(model, Local([shard]), EStep()), Step(model, params, gamma, EStep())
        whole = posed.expect(step)[0]
        needs = pickle.loads(pickle.dumps([needs_of(shard, model.needs)]))
        restricted = replace(posed, needs=needs).expect(step)[0]
        promise = f"restrict and place must give the bits of the whole model at gamma={gamma}"
        require_same(model, promise, whole, restricted)
    require_same(model, "restrict must not change parameters", (params, shard), kept)


def _check_cuts(model: Any, params: Any, shards: Sequence[Any], joined: Any) -> None:
    """One shard and several give the same fit, up to rounding."""
    for gamma in (0.0, 1.0):
        several, one = (
            run_em(model, corpus, params, schedule=Constant(gamma), stopping=Stopping(2)).history
            for corpus in (shards, [joined])
        )
        for left, right in zip(several, one, strict=True):
            promise = (
                f"one shard must give the objective of several at gamma={gamma}, got {right.objective!r} and "
                f"{left.objective!r}"
            )
            require(model, promise, math.isclose(left.objective, right.objective, rel_tol=1e-7, abs_tol=1e-7))


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
    require(model, "the E-step must have the same bits in another process", np.array_equal(here, there))


def _all_gammas(model: Any, params: Any, shards: Sequence[Any]) -> Floats:
    """Objectives and statistics of the E-step at every gamma, as one array of numbers."""
    return flat([_expect(model, params, shards, gamma)[:2] for gamma in _GAMMAS])


def _check_scores(model: Any, params: Any, shard: Any) -> None:
    kept = copy.deepcopy((params, shard))
    structure, scores = model.structure(shard), model.scores(params, shard)
    require(model, "scores.unary must have shape (structure.n_unary,)", scores.unary.shape == (structure.n_unary,))
    shapes = tuple(factor.shape for factor in scores.factors)
    require(model, "scores.factors must have the shapes of structure.factor_shapes", shapes == structure.factor_shapes)
    for array in (scores.unary, *scores.factors):
        require(model, "scores must be finite or -inf, not NaN or +inf", (array < np.inf).all())
    weights = weights_of(model, shard, structure)
    require(model, "weights must have shape (structure.n_instances,)", weights.shape == (structure.n_instances,))
    require(model, "is_known must return a bool", is_known(model, shard) in (True, False))
    mask = given_of(model, shard)
    if mask is not None:
        fits = mask.shape == (structure.n_instances,) and mask.dtype == np.bool_
        require(model, "given must be None or a bool per instance, shape (n_instances,)", fits)
    counts = counts_of(model, shard)
    if counts is not None:
        fits = counts.shape == (structure.n_instances,) and bool(((counts >= 0) & (counts < np.inf)).all())
        require(model, "counts must be None or a number of at least 0 per instance, shape (n_instances,)", fits)
    require(model, "log_normaliser must be finite", math.isfinite(log_normaliser(model, params, shard)))
    columns = PartTable(structure, columns_of(model, shard))
    for name in columns.extra_columns:
        columns.column(name)  # raises where it fits neither parts nor instances nor occurrences
    again = model.scores(params, shard)
    promise = "scores must not change its arguments and give the same for the same"
    require_same(model, promise, (again, params, shard), (scores, *kept))


def _check_linear_in_marginals(model: Any, params: Any, shard: Any, rng: np.random.Generator) -> None:
    structure, scores = model.structure(shard), model.scores(params, shard)
    weights = weights_of(model, shard, structure)
    near = [scores.map(lambda part: part + rng.normal(size=part.shape)) for _ in range(2)]
    first, second = (structure.smoothed_max(drawn, 1.0, weights=weights)[1] for drawn in near)
    before = copy.deepcopy(first)
    share = 0.3
    mixed = first.map(lambda a, b: share * a + (1 - share) * b, second)
    one, other, both = (model.gather(params, shard, marginals) for marginals in (first, second, mixed))
    kept = copy.deepcopy((one, other))
    together = share * one + (1 - share) * other
    require_same(model, "gather must be linear in the marginals", both, together, 1e-9, 1e-11)
    in_order, in_turn = (one + other) + together, one + (other + together)
    require_same(model, "a + b of statistics must be associative", in_order, in_turn, 1e-9, 1e-11)
    require_same(model, "a + b of statistics must change neither", (one, other), kept)
    total = one
    total += other
    require_same(model, "a += b of statistics must give a + b", total, kept[0] + kept[1], 1e-9, 1e-11)
    require_same(model, "a += b of statistics must not change b", other, kept[1])
    require_same(model, "gather must neither change nor return the marginals", first, before)


def _check_linear_in_weights(model: Any, params: Any, shard: Any, rng: np.random.Generator, reweigh: Any) -> None:
    structure, scores = model.structure(shard), model.scores(params, shard)
    n = structure.n_instances
    drawn = rng.uniform(0.2, 2.0, (2, n))

    def counted(weights: Floats) -> Any:
        weighed = reweigh(shard, weights)
        require_same(model, "weights must be those that reweigh set", weights_of(model, weighed, structure), weights)
        _, marginals = structure.smoothed_max(scores, 1.0, weights=weights)
        return model.gather(params, weighed, marginals)

    together, apart = counted(drawn[0] + 2.0 * drawn[1]), counted(drawn[0]) + 2.0 * counted(drawn[1])
    require_same(model, "gather must be linear in the weights", together, apart, 1e-9, 1e-11)
    nothing = 0.0 * together
    require_same(model, "instances of weight 0 must not be counted", counted(np.zeros(n)), nothing, 1e-9, 1e-11)


def _expect(model: Any, params: Any, shards: Sequence[Any], gamma: float) -> tuple[float, Any, list[Parts]]:
    """The E-step without constraints: objective, statistics, and the marginals they were gathered from."""
    estep = EStep()
    step = Step(model, params, gamma, estep)
    posed = pose(model, Local(shards), estep)
    total, _ = posed.expect(step)
    marginals = [projection.marginals for projection in posed.shards.collect(posterior, step)]
    return total.objective + log_prior(model, params), total.stats, marginals


def _expected_score(model: Any, params: Any, shards: Sequence[Any], marginals: Sequence[Parts]) -> float:
    """The expected log-probability of the parameters, with their log-prior, under marginals of every shard, nats."""
    total = log_prior(model, params)
    for shard, expectation in zip(shards, marginals, strict=True):
        structure, scores = model.structure(shard), model.scores(params, shard)
        weighted = weights_of(model, shard, structure)[structure.instance] * expectation.unary
        total += scores.dot(Parts(weighted, expectation.factors)) - log_normaliser(model, params, shard)
    return total
