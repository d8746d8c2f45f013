"""Joint log-linear models: the promises of a model, columns, and members that constraints tie together."""

from dataclasses import replace

import numpy as np
import pytest

from spectrem import E, part
from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, Stopping, pose, posterior, run_em
from spectrem.learning.estep import Step
from spectrem.models.loglinear import (
    Features,
    JointModel,
    Labels,
    LogLinearModel,
    LogLinearShard,
    Support,
    WeightPrior,
    build_joint_shards,
    build_shards,
)
from spectrem.models.loglinear.joint import MemberCorpus
from spectrem.models.loglinear.optimise import fit_known
from spectrem.testing import check_model

N = 7
KNOWN = np.arange(N) < 3
OWNERS = np.array([0, 0, 1, 2, 2, 2, 4, 4, 5, 6])
PAIR_OWNERS = np.array([6, 0, 2, 2, 4])
LENGTHS = np.array([2, 1, 3, 1, 2, 2, 1])
AGREE = E[part("view") == "one"].per("row", "label") == E[part("view") == "two"].per("row", "label")


def given(rng, n, k):
    """A label with certainty for each of n choices, and the list of all for those whose shares nobody will read."""
    return Labels(np.arange(n + 1), rng.integers(k, size=n), np.ones(n))


def all_labels(labels, known, k):
    """Labels of known choices, and every label for the others."""
    own = [[label] if is_known else list(range(k)) for label, is_known in zip(labels.labels, known, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in own])])
    flat = np.concatenate(own).astype(np.int64)
    return Labels(offsets, flat, np.ones(len(flat)))


def member_of(rng, n, k, *, known, lengths=None, owners=None, columns=None):
    sizes = np.ones(n, int) if lengths is None else lengths
    features = Features.of(rng.normal(size=(sizes.sum(), 4)))
    labels = all_labels(given(rng, int(sizes.sum()), k), np.repeat(known, sizes), k)
    return LogLinearShard.whole(features, lengths, labels, columns or {}, owners=owners)


def corpus_of(kind, seed=0):
    """A joint model, the members' data, numbers of labels."""
    rng = np.random.default_rng(seed)
    prior = WeightPrior(l2=0.5)
    if kind == "views":
        members = {key: member_of(rng, N, 3, known=KNOWN) for key in ("one", "two")}
        model = JointModel(dict.fromkeys(members, LogLinearModel(Support(4, 3), prior=prior)), joined=("label",))
        return model, members, dict.fromkeys(members, 3)
    if kind == "entities":
        members = {
            "mention": member_of(rng, len(OWNERS), 3, known=KNOWN[OWNERS], owners=OWNERS),
            "pair": member_of(rng, len(PAIR_OWNERS), 2, known=KNOWN[PAIR_OWNERS], owners=PAIR_OWNERS),
        }
        models = {
            "mention": LogLinearModel(Support(4, 3), prior=prior, names=["Loc", "Org", "Peop"]),
            "pair": LogLinearModel(Support(4, 1), reference=True, intercept=True, prior=prior, names=["none", "Kill"]),
        }
        labels = {"mention": "entity", "pair": "relation"}
        return JointModel(models, instance_name="sentence", labels=labels), members, {"mention": 3, "pair": 2}
    members = {
        "document": member_of(rng, N, 2, known=KNOWN),
        "sentence": member_of(rng, N, 3, known=KNOWN, lengths=LENGTHS),
    }
    models = {
        "document": LogLinearModel(Support(4, 2), prior=prior),
        "sentence": LogLinearModel(Support(4, 3), chain=True, prior=prior),
    }
    return JointModel(models), members, {"document": 2, "sentence": 3}


def shards_of(kind, **more):
    model, members, n_labels = corpus_of(kind)
    weights = np.random.default_rng(5).uniform(0.5, 2.0, N)
    return model, build_joint_shards(members, n_labels, KNOWN, weights, n_instances=N, **{"least": 1, **more})


def fit(model, shards):
    """The weights of every member that are best for the shards that are known."""
    corpora = {key: MemberCorpus(Local(shards), key) for key in model.members}
    return np.concatenate([fit_known(member, corpora[key]).point for key, member in model.members.items()])


def reweigh(shard, weights):
    members = {
        key: replace(own, weights=weights[slice(None) if own.owners is None else own.owners])
        for key, own in shard.members.items()
    }
    return replace(shard, members=members, weights=weights)


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("kind", ["views", "entities", "rows and chains"])
def test_it_keeps_the_promises_of_a_model(kind):
    model, shards = shards_of(kind)
    assert len(shards) > 3
    assert {shard.known for shard in shards} == {True, False}
    rng = np.random.default_rng(1)
    check_model(
        model, 0.1 * rng.normal(size=model.n_weights), shards, rng,
        perturb=lambda theta, rng: theta + 0.1 * rng.normal(size=theta.shape), reweigh=reweigh, iterations=3,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["views", "entities", "rows and chains"])
def test_without_constraints_members_are_trained_as_if_alone(kind):
    model, shards = shards_of(kind)
    _, members, n_labels = corpus_of(kind)
    weights = np.random.default_rng(5).uniform(0.5, 2.0, N)
    rng = np.random.default_rng(2)
    start = 0.1 * rng.normal(size=model.n_weights)
    found = run_em(model, shards, start, stopping=Stopping(3, 0.0))
    for key, own in model.split(found.params).items():
        member = members[key]
        owner = np.arange(N) if member.owners is None else member.owners
        alone = build_shards(
            member.features, member.lengths, member.labels, KNOWN[owner], weights[owner],
            n_labels=n_labels[key], least=1,
        )  # fmt: skip
        expected = run_em(model.members[key], alone, model.split(start)[key], stopping=Stopping(3, 0.0))
        np.testing.assert_allclose(own, expected.params, atol=1e-5)
        np.testing.assert_allclose(model.split(fit(model, shards))[key], model.members[key].fit(alone), atol=1e-5)


def test_columns_say_what_belongs_to_which_instance():
    model, shards = shards_of("entities", least=10**6)
    shard = next(shard for shard in shards if not shard.known)
    columns, structure = model.columns(shard), model.structure(shard)
    assert shard.instances.tolist() == [4, 5, 6]  # sentence 3 has neither mentions nor pairs
    table = list(zip(*(columns[name].tolist() for name in ("sentence", "mention", "pair", "view")), strict=True))
    mentions = [(4, 0.0), (4, 1.0), (5, 0.0), (6, 0.0)]
    assert [row[:2] for row in table if row[3] == "mention"] == [one for one in mentions for _ in range(3)]
    assert [(row[0], row[2]) for row in table if row[3] == "pair"] == [(4, 0.0)] * 2 + [(6, 0.0)] * 2
    entity = [value for value in columns["entity"].tolist() if isinstance(value, str)]
    relation = [value for value in columns["relation"].tolist() if isinstance(value, str)]
    assert entity == ["Loc", "Org", "Peop"] * 4
    assert relation == ["none", "Kill"] * 2
    assert not columns["labelled"].any()
    assert len(columns["labelled"]) == structure.n_unary


def test_a_rule_ties_two_members():
    model, shards = shards_of("entities")
    rule = E[part("relation") == "Kill"].per("sentence") <= E[part("entity") == "Peop"].per("sentence")
    theta = np.random.default_rng(3).normal(size=model.n_weights)
    posed = pose(model, Local(shards), EStep(rule))
    for shard in posed.shards.collect(_itself):
        if shard.shard.known:
            continue
        columns = model.columns(shard.shard)
        for gamma in (-np.inf, 0.0, 0.5, 1.0):
            found = posterior(shard, Step(model, theta, gamma, EStep(rule))).marginals.unary
            for number in np.unique(columns["sentence"]):
                own = columns["sentence"] == number
                kill, people = own & (columns["relation"] == "Kill"), own & (columns["entity"] == "Peop")
                if kill.any():
                    assert found[kill].sum() <= found[people].sum() + 1e-6


def _itself(shard):
    return shard


def test_views_that_agree_take_the_mean_of_their_scores():
    # [Ganchev2010] propositions 6.1 and 6.2: the dual finds what averaging scores gives.
    model, shards = shards_of("views")
    theta = np.random.default_rng(3).normal(size=model.n_weights)
    posed = pose(model, Local(shards), EStep(AGREE))
    checked = 0
    for shard in posed.shards.collect(_itself):
        if shard.shard.known:
            continue
        scores = model.scores(theta, shard.shard).unary.reshape(2, -1, 3)
        for gamma in (0.5, 1.0, 2.0):
            found = posterior(shard, Step(model, theta, gamma, EStep(AGREE))).marginals.unary.reshape(2, -1, 3)
            mean = np.exp(scores.mean(axis=0) / gamma)
            mean /= mean.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(found, [mean, mean], atol=1e-6)
            checked += 1
    assert checked


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_agreeing_views_never_lower_the_objective_however_shards_are_cut(gamma):
    results = []
    for least in (1, 10**6):
        model, shards = shards_of("views", least=least)
        start = fit(model, shards)
        found = run_em(model, shards, start, EStep(AGREE), stopping=Stopping(6, 0.0), schedule=Constant(gamma))
        objective = np.array([record.objective for record in found.history])
        assert (np.diff(objective) >= -1e-6 * np.abs(objective[:-1])).all()
        results.append(objective)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


def test_the_corpus_of_a_member_has_the_four_methods_of_a_corpus():
    _, shards = shards_of("entities")
    corpus = MemberCorpus(Local(shards), "pair")
    sizes = [len(shard.members["pair"].weights) for shard in shards]
    assert len(corpus) == len(shards)
    assert corpus.sum(_count) == sum(sizes)
    assert list(corpus.collect(_count)) == sizes
    assert corpus.derive(_count).sum(_plain) == sum(sizes)
    assert corpus.derive(_number, each=range(len(shards))).sum(_plain) == sum(range(len(shards)))
    total, after = corpus.advance(_count_and_keep)
    assert total == sum(sizes)
    assert after.sum(_count) == sum(sizes)


def _count(shard):
    return len(shard.weights)


def _plain(value):
    return value


def _number(shard, number):
    return number


def _count_and_keep(shard):
    return len(shard.weights), shard


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_instances": None}, "say n_instances where every member has owners"),
        ({"n_instances": 5}, r"members\['mention'\].owners must have an instance in 0..4"),
        ({"columns": {"title": np.zeros(3)}}, r"columns\['title'\] must have 7 values, one per instance; got 3"),
    ],
)
def test_members_that_do_not_fit_are_named(changes, message):
    _, members, n_labels = corpus_of("entities")
    with pytest.raises(InvalidInputError, match=message):
        build_joint_shards(members, n_labels, **{"n_instances": N, **changes})
