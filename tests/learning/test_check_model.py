"""check_model accepts a right model and names what is wrong with the others."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from toy_models import Tagger, TaggerParams, TaggerStats, join, perturb, random_params, random_shards

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Parts
from spectrem.testing import check_model


def reweigh(shard, weights):
    return shard._replace(weights=weights)


def check(model, **options):
    rng = np.random.default_rng(4)
    options = {"perturb": perturb, "reweigh": reweigh, "join": join, **options}
    check_model(model, random_params(rng), random_shards(rng), rng, **options)


def test_a_right_model_passes():
    """And in a process that `check_model` starts itself, which the other tests spare."""
    check(Tagger())


class ColumnOfAnotherLength(Tagger):
    def columns(self, shard):
        return {"word": np.zeros(len(shard.tokens) + 1)}


def test_columns_must_fit():
    with pytest.raises(InvalidInputError, match=r"extra column 'word' has .* values, and the batch has"):
        check(ColumnOfAnotherLength())


class Smoothed(Tagger):
    def m_step(self, params, stats, corpus=None):
        return super().m_step(params, TaggerStats(stats.start + 1, stats.transition + 1, stats.emission + 1))


class Maximal(Smoothed):
    def log_prior(self, params):
        return float(sum(np.log(p).sum() for p in params))


@pytest.mark.usefixtures("process_kept")
def test_a_prior_must_be_declared():
    with pytest.raises(AssertionError, match=r"perturbed parameters beat|lowered the objective"):
        check(Smoothed())
    check(Maximal())


class WrongShape(Tagger):
    def scores(self, params, shard):
        scores = super().scores(params, shard)
        return Parts(scores.unary[:-1], scores.factors)


class WithoutTransitions(Tagger):
    def scores(self, params, shard):
        return Parts(super().scores(params, shard).unary)


class NotANumber(Tagger):
    def scores(self, params, shard):
        scores = super().scores(params, shard)
        return Parts(scores.unary * np.nan, scores.factors)


class Squares(Tagger):
    def gather(self, params, shard, marginals):
        return super().gather(params, shard, Parts(marginals.unary**2, marginals.factors))


class ForgetsWeights(Tagger):
    def gather(self, params, shard, marginals):
        return super().gather(params, shard._replace(weights=np.ones(len(shard.weights))), marginals)


class AddsOne(Tagger):
    def gather(self, params, shard, marginals):
        stats = super().gather(params, shard, marginals)
        return TaggerStats(stats.start + 1, stats.transition, stats.emission)


class ScribblesOnMarginals(Tagger):
    def gather(self, params, shard, marginals):
        stats = super().gather(params, shard, marginals)
        marginals.unary[:] = 0
        return stats


class ScribblesOnParams(Tagger):
    def m_step(self, params, stats, corpus=None):
        params.start[:] = 0.5
        return super().m_step(params, stats)


class ForgetsTransitions(Tagger):
    def m_step(self, params, stats, corpus=None):
        return super().m_step(params, stats)._replace(transition=params.transition)


class Overshoots(Tagger):
    def m_step(self, params, stats, corpus=None):
        best = super().m_step(params, stats)
        return TaggerParams(*((s := p**3) / s.sum(axis=-1, keepdims=True) for p in best))


class WrongWeights(Tagger):
    def weights(self, shard):
        return shard.weights[:-1]


class GivesNumbers(Tagger):
    def given(self, shard):
        return np.flatnonzero(shard.weights > 1)


class GivesTokens(Tagger):
    def given(self, shard):
        return np.zeros(len(shard.tokens), np.bool_)


class CountsBelowZero(Tagger):
    def counts(self, shard):
        return -shard.weights


class CountsTokens(Tagger):
    def counts(self, shard):
        return np.ones(len(shard.tokens))


class DependsOnTheProcess(Tagger):
    def scores(self, params, shard):
        scores = super().scores(params, shard)
        return Parts(scores.unary + 1e-3 * os.getpid(), scores.factors)


class GivesAll(Tagger):
    def given(self, shard):
        return np.ones(len(shard.weights), np.bool_)


@pytest.mark.usefixtures("process_kept")
def test_given_instances_pass():
    check(GivesAll())


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GivesNumbers(), r"given must be None or a bool per instance, shape \(n_instances,\)"),
        (GivesTokens(), r"given must be None or a bool per instance, shape \(n_instances,\)"),
        (CountsBelowZero(), r"counts must be None or a number of at least 0 per instance, shape \(n_instances,\)"),
        (CountsTokens(), r"counts must be None or a number of at least 0 per instance, shape \(n_instances,\)"),
        (WrongShape(), r"scores.unary must have shape"),
        (WithoutTransitions(), r"scores.factors must have the shapes"),
        (NotANumber(), r"finite or -inf"),
        (WrongWeights(), r"weights must have shape"),
        (Squares(), r"linear in the marginals"),
        (ForgetsWeights(), r"linear in the weights"),
        (AddsOne(), r"linear in the weights"),
        (ScribblesOnMarginals(), r"must neither change nor return the marginals"),
        (ScribblesOnParams(), r"m_step must not change"),
        (ForgetsTransitions(), r"perturbed parameters beat those of the M-step"),
        (Overshoots(), r"perturbed parameters beat those of the M-step"),
        (DependsOnTheProcess(), r"must have the same bits in another process"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Tagger) else "",
)
def test_wrong_models_are_named(model, message):
    with pytest.raises(AssertionError, match=message) as error:
        check(model)
    assert str(error.value).startswith(type(model).__name__)


@dataclass(frozen=True)
class Backwards(Tagger):
    """An M-step that moves away from the maximum, which only the objective shows when nothing is perturbed."""

    def m_step(self, params, stats, corpus=None):
        best = super().m_step(params, stats)
        return TaggerParams(*((p := 1.0 - 0.99 * b) / p.sum(axis=-1, keepdims=True) for b in best))


def test_a_falling_objective_is_named():
    with pytest.raises(AssertionError, match=r"EM lowered the objective at gamma=-inf"):
        check(Backwards(), perturb=lambda params, rng: params)
