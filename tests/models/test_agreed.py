"""Views in full agreement: the promises of a model, the dual of the product, and the Bhattacharyya distance."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from test_loglinear_model import K, corpus_of, model_of, reweigh

from spectrem import E, part
from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.inference import project_batch
from spectrem.learning import Constant, EStep, Step, Stopping, posterior, run_em
from spectrem.models.loglinear import (
    AgreedModel,
    Features,
    LogLinearShard,
    WeightPrior,
    build_joint_shards,
    build_shards,
)
from spectrem.structures import Parts, Product
from spectrem.testing import check_model

KINDS = ("rows", "rows with intercept and reference", "chains")


def views_of(kind, n_views=2):
    """A model of views with features of their own, and its shards: unlabelled, in part labelled, and labelled."""
    features, lengths, labels, known, weights = corpus_of(kind)
    models, members = {}, {}
    for view in range(n_views):
        order = np.random.default_rng(view).permutation(features.n_choices)
        name = f"view {view}"
        members[name] = LogLinearShard.whole(features.take(order), lengths, labels)
        models[name] = model_of(kind, features, labels, prior=WeightPrior(l2=0.5 + view))
    shards = build_joint_shards(members, dict.fromkeys(members, K), known, weights, least=1)
    assert {shard.known for shard in shards} == {True, False}
    return AgreedModel(models), shards


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize(("kind", "n_views"), list(zip(KINDS, (3, 2, 2), strict=True)))
def test_it_keeps_the_promises_of_a_model(kind, n_views):
    model, shards = views_of(kind, n_views)
    rng = np.random.default_rng(1)

    def weighed(shard, weights):
        members = {name: reweigh(own, weights) for name, own in shard.members.items()}
        return replace(shard, members=members, weights=weights)

    check_model(
        model, 0.1 * rng.normal(size=model.n_weights), shards, rng,
        perturb=lambda theta, rng: theta + 0.1 * rng.normal(size=theta.shape), reweigh=weighed, iterations=3,
    )  # fmt: skip


@pytest.mark.parametrize("gamma", [0.4, 1.0, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_closed_form_is_the_dual_of_the_product_under_equality_rows(kind, gamma):
    model, shards = views_of(kind)
    theta = 0.5 * np.random.default_rng(3).normal(size=model.n_weights)
    shard = next(own for own in shards if not own.known)
    structure, scores = model.structure(shard), model.scores(theta, shard)
    values, marginals = structure.smoothed_max(scores, gamma)
    weights = model.split(theta)
    own = [part.scores(weights[name], shard.members[name]) for name, part in model.members.items()]
    # Rows are about unary parts, and tie factors to each other where both models have the same.
    own = [Parts(part.unary, scores.factors) for part in own]
    product = Product(dict.fromkeys(model.members, structure))
    n = structure.n_unary
    matrix = sp.hstack([sp.eye_array(n), -sp.eye_array(n)], format="csr")
    block = Block("agree", 0, n, True, "instance", None, np.zeros(n, np.int64), {})
    rows = Rows(matrix, np.zeros(n), structure.instance, (block,))
    found = project_batch(product, product.join(*own), rows, gamma, tol=1e-10)
    for share in product.split(found.marginals):
        np.testing.assert_allclose(share.unary, marginals.unary, atol=1e-6)
    np.testing.assert_allclose(found.values, 2 * values, rtol=1e-9)


def test_agreement_costs_twice_the_bhattacharyya_distance():
    model, shards = views_of("rows")
    theta = 0.5 * np.random.default_rng(3).normal(size=model.n_weights)
    shard = next(own for own in shards if own.members["view 0"].labels is None)
    values, _ = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
    cost = 2 * (model.log_normaliser(theta, shard) - shard.weights @ values)
    split = model.split(theta)
    tables = [own.scores(split[name], shard.members[name]).unary.reshape(-1, K) for name, own in model.members.items()]
    left, right = (softmax(table, axis=1) for table in tables)
    distance = -np.log(np.sqrt(left * right).sum(axis=1))
    assert cost == pytest.approx(2 * shard.weights @ distance, rel=1e-10)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_objective_never_falls_under_other_constraints(kind, gamma):
    model, shards = views_of(kind)
    name = "tag" if kind == "chains" else "label"
    few = E[part(name) == 2] <= 0.2 * E.count(...)
    stopping = Stopping(6, 0.0)
    found = run_em(model, shards, model.initial(), EStep([few]), schedule=Constant(gamma), stopping=stopping)
    objectives = [record.objective for record in found.history]
    assert all(after >= before - 1e-6 for before, after in itertools.pairwise(objectives))
    assert found.history[-1].violation < 1e-6


def test_counts_count_every_instance_once():
    model, shards = views_of("rows")
    shards = [shard for shard in shards if not shard.known]
    three = E[part("label") == 1] == 2.5
    found = run_em(model, shards, model.initial(), EStep([three]), stopping=Stopping(1, 0.0))
    corpus, step = found.posed.at_prices(Step(model, model.initial(), 1.0, EStep([three])))
    expected = sum(
        shard.weights @ model.distributions(shard, posterior(posed, step).marginals)[:, 1]
        for shard, posed in zip(shards, corpus.collect(lambda posed: posed), strict=True)
    )
    assert expected == pytest.approx(2.5, abs=1e-6)


def test_a_view_may_have_labelled_instances_of_its_own():
    """Such instances train that view alone, as in [Ganchev2010] §6.1."""
    model, shards = views_of("rows")
    known = next(shard for shard in shards if shard.known)
    nothing = build_shards(Features.of(np.zeros((0, 7))))[0]
    alone = replace(known, members={**known.members, "view 1": nothing})
    theta = 0.1 * np.random.default_rng(0).normal(size=model.n_weights)
    structure, scores = model.structure(alone), model.scores(theta, alone)
    _, marginals = structure.smoothed_max(scores, 1.0, weights=alone.weights)
    stats = model.split(model.gather(theta, alone, marginals))
    assert not stats["view 1"].any()
    both = model.split(model.gather(theta, known, marginals))
    np.testing.assert_array_equal(stats["view 0"], both["view 0"])
    assert model.log_normaliser(theta, alone) == pytest.approx(
        model.members["view 0"].log_normaliser(model.split(theta)["view 0"], known.members["view 0"]) / 2
    )
