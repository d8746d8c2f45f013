"""The recorded objective has the log-prior in it and never falls."""

from dataclasses import replace

import numpy as np
import pytest
from bitext_oracles import make_problem as make_bitext_problem
from scipy.special import gammaln, psi
from scipy.stats import dirichlet
from tagging_oracles import TABLES, log_probability, make_problem, sentences, sequences

from spectrem import E, part
from spectrem.learning import Constant, EStep, Stopping, run_em
from spectrem.models.alignment import lexical_priors
from spectrem.models.priors import DirichletPrior, MeanFieldPrior
from spectrem.models.tagging import HMMModel, TagKernel

PRIORS = {"smoothed": DirichletPrior(2.0), "sparse": MeanFieldPrior(0.05), "very sparse": MeanFieldPrior(1e-4)}
SHARE = [(E[part("tag") == 1] >= 0.4 * E.count(part("tag") >= 0)).named("share")]
ONCE = [(E[part("tag") == 1] >= 0.5).per("sentence").named("once")]


def with_prior(model, prior):
    return replace(model, initial_prior=prior, transition_prior=prior, emission_prior=prior)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("constraints", [[], ONCE, SHARE], ids=["free", "once", "share"])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("order", [1, 2])
def test_the_objective_never_falls(order, prior, constraints, gamma):
    model, shards, params = make_problem(order, seed=5, lengths=(4, 6, 3, 5, 7, 4, 6), dense=True)
    model = with_prior(model, PRIORS[prior])
    estep = EStep(constraints, tol=1e-12, kernel=None if constraints else TagKernel(model))
    history = run_em(model, shards, params, estep, schedule=Constant(gamma), stopping=Stopping(60)).history
    values = np.array([record.objective for record in history])
    if "sparse" in prior:  # a start is nobody's posterior
        assert values[0] == -np.inf
        values = values[1:]
    assert np.isfinite(values).all()
    assert (np.diff(values) >= -1e-9 * np.abs(values[:-1])).all()
    assert values[-1] > values[0]
    for record in history[1:]:
        assert record.penalty == pytest.approx(record.free_objective - (record.objective - record.log_prior))
        assert record.penalty >= -1e-7
    if not constraints:
        assert history[-1].penalty == pytest.approx(0.0, abs=1e-9)


def divergence(counts, alpha):
    """KL between the Dirichlet posterior of one row and its prior, by its definition."""
    posterior = counts + alpha
    expected = psi(posterior) - psi(posterior.sum())
    normaliser = gammaln(alpha * len(counts)) - len(counts) * gammaln(alpha)
    return -dirichlet(posterior).entropy() - (normaliser + (alpha - 1) * expected.sum())


def rows_of(model, tables):
    """The rows of all tables, emissions state by state."""
    for name in TABLES[:3]:
        if getattr(tables, name) is not None:
            yield from np.atleast_2d(getattr(tables, name)).reshape(-1, model.n_states)
    for state in range(model.n_states):
        yield tables.emission[model.lexicon.cell_states == state]


@pytest.mark.parametrize("order", [1, 2])
def test_under_a_mean_field_prior_the_objective_is_the_variational_lower_bound(order):
    alpha = 0.3
    model, shards, start = make_problem(order, seed=6)
    model = with_prior(model, MeanFieldPrior(alpha))
    counts = None
    for shard in shards:
        structure, scores = model.structure(shard), model.scores(start, shard)
        found = model.gather(start, shard, structure.smoothed_max(scores, 1.0, weights=shard.weights)[1])
        counts = found if counts is None else counts + found
    params = model.m_step(start, counts, None)
    bound = -sum(divergence(row, alpha) for row in rows_of(model, counts) if len(row) > 1)
    for shard in shards:
        for entries, weight in zip(sentences(shard), shard.weights, strict=True):
            scores = np.array([log_probability(params, *own) for own in sequences(model.lexicon, entries)])
            q = np.exp(scores - np.logaddexp.reduce(scores))
            bound += weight * float(q @ (scores - np.log(q)))
    (record,) = run_em(model, shards, params, EStep(kernel=TagKernel(model)), stopping=Stopping(1)).history
    assert record.objective == pytest.approx(bound, rel=1e-10)


def test_smoothing_counts_every_free_entry():
    rule = np.array([[0.0, np.nan, np.nan], [np.nan, 0.4, np.nan], [0.5, 0.5, 0.0]])
    model, _, params = make_problem(1, seed=7, dense=True, restrictions={"transition": rule})
    model = replace(model, transition_prior=DirichletPrior(2.0), emission_prior=DirichletPrior(0.5))
    params = model.restrict(params)
    first, second = params.transition[0, 1:], params.transition[1, [0, 2]] / 0.6
    expected = 2.0 * np.log([*first, *second]).sum() + 0.5 * np.log(params.emission).sum()
    assert model.log_prior(params) == pytest.approx(expected, rel=1e-12)
    without = replace(params, emission=np.zeros_like(params.emission))
    assert model.log_prior(without) == -np.inf
    assert HMMModel(model.lexicon, 1).log_prior(without) == 0.0


@pytest.mark.parametrize("kind", ["ibm1", "ibm2", "hmm"])
@pytest.mark.parametrize("cognates", [False, True])
def test_the_objective_of_aligners_never_falls(kind, cognates):
    lengths = [(3, 4), (2, 2), (4, 3), (3, 3), (2, 4)]
    model, shard, params = make_bitext_problem(kind, lengths, seed=8, jump_pseudo_count=0.5, end_pseudo_count=0.7)
    table = model.table
    priors = DirichletPrior(0.6), DirichletPrior(0.6)
    if cognates:
        words = [tuple(map(str, range(n))) for n in (table.n_source_words, table.n_target_words)]
        counts = [np.ones(len(own), np.int64) for own in words]
        priors = lexical_priors(table, *words, *counts, stem_strength=0.0, cognate_strength=2.0)
        assert len(priors[0].alike) > 0
    model = replace(model, forward_prior=priors[0], backward_prior=priors[1])
    history = run_em(model, [shard], params, stopping=Stopping(40)).history
    values = np.array([record.objective for record in history])
    assert (np.diff(values) >= -1e-9 * np.abs(values[:-1])).all()
    assert history[0].log_prior == model.log_prior(params) != 0.0


@pytest.mark.parametrize("prior", PRIORS)
def test_a_run_that_goes_on_has_the_same_bits(tmp_path, prior):
    model, shards, params = make_problem(1, seed=10)
    model, estep = with_prior(model, PRIORS[prior]), EStep(kernel=TagKernel(model))

    class InterruptError(Exception):
        pass

    def stop(record):
        raise InterruptError

    whole = run_em(model, shards, params, estep, stopping=Stopping(4))
    with pytest.raises(InterruptError):
        run_em(model, shards, params, estep, stopping=Stopping(4), on_iteration=stop, checkpoint=tmp_path)
    resumed = run_em(model, shards, params, estep, stopping=Stopping(4), checkpoint=tmp_path)
    assert [record.objective for record in resumed.history] == [record.objective for record in whole.history]
    for table in ("initial", "transition", "emission"):
        assert np.array_equal(getattr(resumed.params, table), getattr(whole.params, table))
    assert resumed.params.log_prior == whole.params.log_prior


def test_gains_are_not_measured_from_parameters_that_the_prior_rules_out():
    model, shards, params = make_problem(1, seed=9)
    model = with_prior(model, MeanFieldPrior(0.1))
    result = run_em(model, shards, params, EStep(kernel=TagKernel(model)), stopping=Stopping(50, tol=1e-4))
    assert len(result.history) > 3
    assert np.isnan(result.history[0].penalty)
