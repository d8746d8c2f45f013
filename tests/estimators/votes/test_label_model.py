"""Label models: against plain sums over classes, and as users call them."""

import itertools
import math
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from spectrem import E, LabelModel, load, part
from spectrem.constraints.text import flatten
from spectrem.corpus import Local, Spilled
from spectrem.estimators.votes.input import read_votes
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, NotFittedError
from spectrem.learning import EStep, pose
from spectrem.learning.estep import Step, expect
from spectrem.models.joint_votes import JointTables
from spectrem.models.vote_dependence import agreement_of_answers, agreement_of_rules, copies_in
from spectrem.models.votes import Answers, Rules, VoteModel, VoteParameters, build_shards, precisions

RNG = np.random.default_rng(11)
LABELS = np.array(["a", "b", "c"])


def planted(n=300, n_sources=6, k=3, rng=RNG, accuracy=(0.55, 0.9), coverage=0.6, shares=None):
    """Votes of sources with planted accuracies, -1 where silent, the labels of items, and the accuracies."""
    y = rng.choice(k, n, p=shares)
    right = np.linspace(*accuracy, n_sources)
    votes = np.where(
        rng.random((n, n_sources)) < right, y[:, None], (y[:, None] + rng.integers(1, k, (n, n_sources))) % k
    )
    return np.where(rng.random((n, n_sources)) < coverage, votes, -1), y, right


def model_of(k, n_sources, rng, *, zero=False, groups=1):
    table, shares = rng.dirichlet(np.ones(k), (n_sources, k)), rng.dirichlet(np.ones(k), groups)
    if zero:
        table[0, 0, 0] = 0.0
    model = VoteModel(np.arange(k), np.arange(n_sources), Answers(), np.arange(n_sources), 1e3, np.ones((groups, k)))
    return model, VoteParameters(shares, table)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("zero", [False, True])
def test_scores_and_compiled_estep_are_those_of_plain_sums(weighted, zero):
    rng = np.random.default_rng(3)
    votes, _, _ = planted(40, 4, rng=rng)
    model, params = model_of(3, 4, rng, zero=zero, groups=2)
    item, source = np.nonzero(votes >= 0)
    offsets = np.append(0, np.cumsum((votes >= 0).sum(axis=1)))
    strengths = rng.random(len(item)) + 0.5 if weighted else None
    weights, group = rng.random(40) + 0.1, rng.integers(0, 2, 40)
    evidence = np.where(rng.random((40, 3)) < 0.2, -np.inf, 0.0)
    evidence[:, 2] = 0.0
    [shard] = build_shards(np.diff(offsets), source * 3 + votes[item, source], 3, weights, strengths, group, evidence)
    with np.errstate(divide="ignore"):
        joint = np.log(params.shares)[group] + evidence
        each = np.log(params.table)[source, :, votes[item, source]] * (1.0 if strengths is None else strengths[:, None])
    np.add.at(joint, item, each)
    np.testing.assert_allclose(model.scores(params, shard).unary.reshape(40, 3), joint, atol=1e-10)
    for gamma in (1.0, 0.5, 0.0):
        [posed] = pose(model, Local([shard]), EStep()).shards.shards
        general = expect(posed, Step(model, params, gamma, EStep()))
        compiled = model.prepare(params, gamma)(shard)
        assert compiled.objective == pytest.approx(general.objective, rel=1e-9)
        np.testing.assert_allclose(compiled.stats.cells, general.stats.cells, atol=1e-9 * model._scale)
        np.testing.assert_allclose(compiled.stats.shares, general.stats.shares, atol=1e-9 * model._scale)
        top = joint.max(axis=1)
        value = weights @ (top + (gamma * np.log(np.exp((joint - top[:, None]) / gamma).sum(axis=1)) if gamma else 0.0))
        assert general.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("settings", [
    {}, {"confusion": "class"}, {"confusion": "source"}, {"strength": 0.3, "share_strength": 0.0},
    {"sources": "rules"}, {"source_groups": {0: "x", 1: "x", 2: "y", 3: "y"}}, {"source_weight": {0: 0.5, 1: 2.0}},
    {"shares": {0: 0.2, 1: 0.3, 2: 0.5}}, {"gamma": 0.5}, {"joint_groups": {0: "x", 1: "x", 4: "x"}},
])  # fmt: skip
def test_the_objective_never_falls(settings):
    votes, y, _ = planted(rng=np.random.default_rng(1))
    known = np.where(np.arange(len(y)) < 10, y, -1)
    model = LabelModel(n_threads=1, tol=0.0, max_iter=30, **settings).fit(votes, known)
    course = np.array([record.objective for record in model.history_])
    assert (np.diff(course) >= -1e-9 * abs(course[-1])).all()
    assert model.score(votes, y) > 0.7


def test_a_vote_of_weight_two_counts_as_two_votes():
    rng = np.random.default_rng(2)
    votes, _, _ = planted(60, 4, rng=rng)
    item, source = np.nonzero(votes >= 0)
    table = pl.DataFrame({"item": item, "source": source, "label": votes[item, source]})
    twice = pl.concat([table, table.filter(pl.col("source") == 1)])
    doubled = LabelModel(n_threads=1, repeated=True, max_iter=5, tol=0.0).fit(twice)
    weighted = LabelModel(n_threads=1, source_weight={1: 2.0}, max_iter=5, tol=0.0).fit(table)
    np.testing.assert_allclose(doubled.label_distributions_, weighted.label_distributions_, atol=1e-9)


def test_the_order_of_items_and_sources_and_shards_change_no_bit(monkeypatch, tmp_path):
    votes, _, _ = planted(500, 7, rng=np.random.default_rng(4))
    columns = [f"s{number}" for number in range(7)]
    frame = pd.DataFrame(votes, columns=columns)
    plain = LabelModel(n_threads=1).fit(frame)
    rows, order = RNG.permutation(500), RNG.permutation(7)
    moved = LabelModel(n_threads=1).fit(frame.iloc[rows, order])
    assert plain.history_[-1].objective == moved.history_[-1].objective
    assert np.array_equal(plain.label_distributions_[rows], moved.label_distributions_)
    assert np.array_equal(plain.confusion_[order], moved.confusion_)
    monkeypatch.setattr("spectrem.models.votes._LEAST_WORK", 200)
    for corpus in (None, partial(Spilled, folder=tmp_path)):
        cut = LabelModel(n_threads=2, corpus=corpus).fit(frame)
        assert np.array_equal(plain.label_distributions_, cut.label_distributions_)
        assert plain.history_[-1].objective == cut.history_[-1].objective


def test_planted_sources_are_recovered_within_two_standard_errors():
    outside = []
    for seed in range(20):
        votes, _, right = planted(10_000, 6, rng=np.random.default_rng(seed))
        model = LabelModel(confusion="source", n_threads=1).fit(votes)
        accuracy, there = model.confusion_[:, 0, 0], votes >= 0
        agrees = np.take_along_axis(model.label_distributions_, np.where(there, votes, 0), axis=1)
        slopes = np.where(there, agrees / accuracy - (1 - agrees) / (1 - accuracy), 0.0)  # of the log-likelihood
        errors = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
        outside += (np.abs(accuracy - right) > 2 * errors).tolist()
    assert np.mean(outside) < 0.1  # 0.046 are expected


def test_contrary_sources_are_understood():
    votes, y, _ = planted(2_000, 6, k=2, rng=np.random.default_rng(8), accuracy=(0.2, 0.9))
    model = LabelModel(n_threads=1).fit(votes)
    assert model.score(votes, y) > 0.8
    assert model.confusion_[0, 0, 0] < 0.3


def test_traps_of_identifiability():
    votes, y, _ = planted(1_000, 3, k=2, rng=np.random.default_rng(9), accuracy=(0.7, 0.85), coverage=0.9)
    always = np.column_stack([votes, np.zeros(len(y), int)])
    model = LabelModel("answers", n_threads=1).fit(always)
    assert model.score(always, y) > LabelModel(n_threads=1).fit(votes).score(votes, y) - 0.02
    np.testing.assert_allclose(model.confusion_[3, :, 0], 1.0, atol=0.01)  # says nothing
    silent = np.full((5, 3), -1)
    few = LabelModel(classes=[0, 1], n_threads=1).fit(np.vstack([votes, silent]))
    np.testing.assert_allclose(few.label_distributions_[-5:], few.shares_.repeat(5, axis=0))
    nothing = LabelModel(classes=["x", "y"], n_threads=1).fit(silent)
    assert nothing.label_distributions_.tolist() == [[0.5, 0.5]] * 5


def test_rules_have_precisions_and_silence_says_nothing():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 2_000)
    votes = np.full((2_000, 4), -1)
    for source, (label, precision) in enumerate([(0, 0.9), (1, 0.6), (1, 0.95), (0, 0.85)]):
        where = np.where(y == label, rng.random(2_000) < 0.4, rng.random(2_000) < 0.4 * (1 - precision) / precision)
        votes[where, source] = label
    model = LabelModel(n_threads=1).fit(votes)
    assert model.kind_ == "rules"
    assert model.confusion_ is None
    assert model.precision_[0, 1] == pytest.approx(0.85)  # that of the prior
    voted = model.precision_[[0, 1, 2, 3], [0, 1, 1, 0]]
    assert voted[1] < voted[[0, 2, 3]].min() - 0.02  # the prior counts thrice the votes, so that they are close
    silent = model.predict_proba(np.full((1, 4), -1))
    np.testing.assert_allclose(silent, model.shares_)
    majority = np.array([np.bincount(row[row >= 0], minlength=2).argmax() if (row >= 0).any() else 0 for row in votes])
    assert model.score(votes, y) >= (majority == y).mean()


def test_precisions_are_those_of_the_table():
    reference = np.array([0.3, 0.7])
    how = Rules(np.array([[5.0, 0.0]]), np.array([[0.01, 0.0]]), reference, per_vote=0.3)
    counts = np.array([[[4.0, 0.0], [1.0, 0.0]]])
    table = how.m_step(counts, np.array([0.5, 0.5]))
    prior = 10 + 0.3 * 5
    p = (0.85 * prior + 4) / (prior + 5)
    np.testing.assert_allclose(precisions(table, reference)[0, 0], p)
    np.testing.assert_allclose(table[0, :, 0], [p / 0.3, (1 - p) / 0.7])
    # No rule is right on more items than its class has.
    often = replace(how, coverage=np.array([[0.6, 0.0]]))
    assert precisions(often.m_step(counts, reference), reference)[0, 0] == pytest.approx(0.5)


def test_rules_that_speak_too_often_cannot_be_precise():
    rng = np.random.default_rng(3)
    y = (rng.random(1_000) < 0.2).astype(int)
    votes = np.full((1_000, 4), -1)
    votes[:, 0] = 1  # names the rare class everywhere
    for source, label in ((1, 0), (2, 0), (3, 1)):
        where = (y == label) & (rng.random(1_000) < 0.7)
        votes[where, source] = label
    model = LabelModel(n_threads=1, shares={0: 0.8, 1: 0.2}).fit(votes)
    assert model.precision_[0, 1] <= 0.2 + 1e-12
    assert model.score(votes, y) > 0.8


def test_agreement_is_that_of_plain_counts():
    rng = np.random.default_rng(4)
    votes = np.where(rng.random((60, 5)) < 0.6, rng.integers(0, 3, (60, 5)), -1)
    votes[:, 4] = np.where(rng.random(60) < 0.9, votes[:, 1], votes[:, 4])
    weights = rng.integers(0, 3, 60).astype(float)
    log_joint = np.log(rng.dirichlet(np.ones(3), 60))
    sizes, cells = (votes >= 0).sum(axis=1), (np.arange(5) * 3 + votes)[votes >= 0]
    of_rules = agreement_of_rules(sizes, cells, 5, np.exp(log_joint), weights)
    of_answers = agreement_of_answers(sizes, cells, 5, np.exp(log_joint), weights)
    assert of_rules.dependent.any()

    def check(pairs, row, agreed, expected, variance, most):
        z, similarity = (agreed - expected) / np.sqrt(max(variance, 0.09)), (agreed - expected) / (most - expected)
        numbers = [one[row] for one in pairs[2:6]]
        np.testing.assert_allclose(numbers, [agreed, expected, z, np.clip(similarity, 0, 1)], rtol=1e-9, atol=1e-6)
        assert pairs.dependent[row] == (z > 3 and similarity >= 0.5)

    together = (votes >= 0).astype(int).T @ (votes >= 0)
    assert len(of_answers.first) == (np.triu(together, 1) > 0).sum()
    for row, (s, t) in enumerate(zip(of_rules.first, of_rules.second, strict=True)):
        agreed = weights @ ((votes[:, s] >= 0) & (votes[:, s] == votes[:, t]))
        expected = variance = 0.0
        for y in range(3):
            mass = weights * np.exp(log_joint[:, y])
            for label in range(3):
                one, other = (mass[votes[:, source] == label].sum() / mass.sum() for source in (s, t))
                expected += mass.sum() * one * other
                variance += mass.sum() * one * (1 - one) * other * (1 - other)
        most = min(weights[votes[:, s] >= 0].sum(), weights[votes[:, t] >= 0].sum())
        check(of_rules, row, agreed, expected, variance, most)
    for row, (s, t) in enumerate(zip(of_answers.first, of_answers.second, strict=True)):
        both = np.flatnonzero((votes[:, s] >= 0) & (votes[:, t] >= 0))
        expected, q = 0.0, weights[both, None] * np.exp(log_joint[both])
        for y in range(3):
            for label in range(3):
                one, other = (q[votes[both, source] == label, y].sum() / q[:, y].sum() for source in (s, t))
                expected += q[:, y].sum() * one * other
        agreed, most = weights[both] @ (votes[both, s] == votes[both, t]), weights[both].sum()
        check(of_answers, row, agreed, expected, expected * (1 - expected / most), most)


def test_copies_are_votes_beside_those_of_the_best_source():
    rng = np.random.default_rng(4)
    votes = np.where(rng.random((60, 5)) < 0.6, rng.integers(0, 3, (60, 5)), -1)
    posteriors, strengths = rng.dirichlet(np.ones(3), 60), rng.random((60, 5))
    sizes, cells = (votes >= 0).sum(axis=1), (np.arange(5) * 3 + votes)[votes >= 0]
    members = np.array([True, False, True, True, False])
    copies, counts = copies_in(sizes, cells, members, posteriors, strengths[votes >= 0])
    right = [sum(strengths[i, s] * posteriors[i, votes[i, s]] for i in range(60) if votes[i, s] >= 0) for s in range(5)]
    number, plain, expected = np.cumsum((votes >= 0).ravel()).reshape(60, 5) - 1, [], np.zeros((5, 3, 3))
    for item in range(60):
        best, *others = sorted((s for s in (0, 2, 3) if votes[item, s] >= 0), key=lambda s: -right[s]) or [None]
        for s in others:
            plain.append(number[item, s])
            expected[s, votes[item, best], votes[item, s]] += strengths[item, s]
    assert sorted(copies) == sorted(plain)
    np.testing.assert_allclose(counts, expected, atol=1e-9)


def copied(rng=None):
    """Rules on 2,000 items, the last two of which speak where the third does, the very last a little less often."""
    rng = np.random.default_rng(11) if rng is None else rng
    y = rng.integers(0, 2, 2_000)
    votes = np.full((2_000, 6), -1)
    for source, (label, precision) in enumerate([(0, 0.8), (0, 0.85), (1, 0.7), (1, 0.9)]):
        where = np.where(y == label, rng.random(2_000) < 0.5, rng.random(2_000) < 0.5 * (1 - precision) / precision)
        votes[where, source] = label
    votes[:, 4] = votes[:, 2]
    votes[:, 5] = np.where(rng.random(2_000) < 0.9, votes[:, 2], -1)
    return votes, y


def test_copies_of_a_rule_are_said_and_count_once():
    votes, y = copied()
    weighed, naive = (LabelModel(dependence=how, n_threads=1).fit(votes) for how in ("weigh", "ignore"))
    once = LabelModel(n_threads=1).fit(votes[:, :4])
    pairs = weighed.dependent_sources(votes)
    assert {(pair.first, pair.second) for pair in pairs} == {(2, 4), (2, 5), (4, 5)}
    assert (pairs[0].first, pairs[0].second, pairs[0].similarity) == (2, 4, 1.0)
    assert pairs[0].n_agreements > pairs[0].n_expected
    assert once.dependent_sources(votes[:, :4]) == []
    q, q_naive, q_once = (one.label_distributions_ for one in (weighed, naive, once))
    assert np.abs(q - q_once).mean() < 0.1 * np.abs(q_naive - q_once).mean()
    assert np.array_equal(weighed.predict_proba(votes), q)
    losses = [-np.log(one[np.arange(len(y)), y]).mean() for one in (q, q_naive)]
    assert losses[0] < losses[1]


def test_weights_of_copies_are_saved_and_do_not_depend_on_order(tmp_path):
    votes, _ = copied()
    frame = pd.DataFrame(votes, columns=list("abcdef"))
    plain = LabelModel(n_threads=1).fit(frame)
    rows, order = RNG.permutation(2_000), RNG.permutation(6)
    moved = LabelModel(n_threads=1).fit(frame.iloc[rows, order])
    assert np.array_equal(plain.label_distributions_[rows], moved.label_distributions_)
    plain.save(tmp_path / "model")
    loaded = LabelModel.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(frame), plain.label_distributions_)


def test_a_worker_who_copies_another_is_said():
    votes, _, _ = planted(2_000, 6, k=3, rng=np.random.default_rng(5), coverage=0.8)
    copies = np.random.default_rng(6).random(2_000) < 0.95
    votes[:, 5] = np.where(copies, votes[:, 2], votes[:, 5])
    pairs = LabelModel(n_threads=1).fit(votes).dependent_sources(votes)
    assert (pairs[0].first, pairs[0].second) == (2, 5)


def reviewed(n, rng, corrected=0.5):
    """Votes of five annotators and of two who see that of the first and correct some of its errors, and the labels."""
    votes, y, _ = planted(n, 5, k=2, rng=rng, accuracy=(0.6, 0.8), coverage=1.0)
    seen = [np.where(rng.random(n) < corrected, y, votes[:, 0]) for _ in range(2)]
    return np.column_stack([votes, *seen]), y


def test_joint_tables_are_those_of_em_over_patterns_of_votes():
    votes, _ = reviewed(60, np.random.default_rng(3))
    model = LabelModel("answers", joint_groups=dict.fromkeys([0, 5, 6], "x"), n_threads=1, max_iter=4, tol=0.0)
    model.fit(votes)
    pattern = votes[:, [0, 5, 6]] @ [4, 2, 1]
    table = np.array([[1.6, 0.4], [0.4, 1.6]])  # votes that the prior of a source counts, [class, vote]
    prior_of_group = np.stack([np.einsum("i,j,k->ijk", *[one / 2] * 3).ravel() for one in table])
    prior_of_group[:, [0, 7]] += table / 2
    factors = [(votes[:, one], 2, table) for one in (1, 2, 3, 4)] + [(pattern, 8, prior_of_group)]
    shares_of_votes = np.zeros((60, 2))
    for row, of_item in enumerate(votes):
        for label in range(2):
            shares_of_votes[row, label] = (of_item[1:5] == label).sum() + (of_item[[0, 5, 6]] == label).any()
    q = shares_of_votes / shares_of_votes.sum(axis=1, keepdims=True)
    for _ in range(5):
        sizes = q.sum(axis=0) + 30.0
        log = np.tile(np.log(sizes / sizes.sum()), (60, 1))
        for vote, n_votes, prior in factors:
            counts = np.stack([np.bincount(vote, q[:, label], n_votes) for label in range(2)]) + prior
            log += np.log(counts / counts.sum(axis=1, keepdims=True))[:, vote].T
        q = np.exp(log - log.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.label_distributions_, q, atol=1e-6)


def test_joint_tables_of_sources_that_are_silent_are_probabilities_of_all_votes():
    joint = JointTables(np.array([0, -1, 0, 0]), 2, np.arange(4))
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(2), (len(joint.source), 2))
    for speaks in ([0, 2, 3], [2, 3], [0, 1, 3], [3]):
        every = np.array(list(itertools.product(range(2), repeat=len(speaks))))
        cells = joint.recode(np.full(len(every), len(speaks)), (np.array(speaks) * 2 + every).ravel())
        assert np.array_equal(joint.source[cells // 2].reshape(every.shape), np.tile(speaks, (len(every), 1)))
        of_votes = table[cells // 2, :, cells % 2].reshape(*every.shape, 2).prod(axis=1)
        np.testing.assert_allclose(of_votes.sum(axis=0), 1.0)


def test_joint_tables_learn_what_copies_that_count_once_miss():
    right = []
    for seed in range(5):
        votes, y = reviewed(400, np.random.default_rng(seed))
        models = [
            LabelModel(n_threads=1, joint_groups=group).fit(votes) for group in (None, dict.fromkeys([0, 5, 6], 1))
        ]
        right.append([model.score(votes, y) for model in models])
    weighed, joint = np.mean(right, axis=0)
    assert joint > weighed + 0.05
    accuracies = models[1].confusion_.diagonal(axis1=1, axis2=2).mean(axis=1)
    np.testing.assert_allclose(accuracies, (votes == y[:, None]).mean(axis=0), atol=0.07)
    shown = models[1].analyse(votes)
    assert shown.sources["source"].tolist() == list(range(7))
    assert set(shown.why(0)["name"]) >= set(range(7))


def test_joint_tables_do_not_depend_on_the_order_of_items_and_sources():
    votes, _, _ = planted(400, 6, rng=np.random.default_rng(2))
    frame = pd.DataFrame(votes, columns=list("abcdef"))
    groups = dict.fromkeys("ace", "x") | dict.fromkeys("bd", "y")
    plain = LabelModel(n_threads=1, joint_groups=groups).fit(frame)
    rows, columns = RNG.permutation(400), list("ecabfd")
    moved = LabelModel(n_threads=1, joint_groups=groups).fit(frame.iloc[rows][columns])
    np.testing.assert_allclose(moved.label_distributions_, plain.label_distributions_[rows], atol=1e-9)
    assert moved.predict(frame[columns]).tolist() == plain.predict(frame).tolist()


def test_groups_that_are_found_have_joint_tables():
    rng = np.random.default_rng(0)
    votes, y, _ = planted(2_000, 5, k=4, rng=rng, accuracy=(0.45, 0.85), coverage=1.0)
    anew = [np.where(rng.random(2_000) < 0.85, y, (y + rng.integers(1, 4, 2_000)) % 4) for _ in range(2)]
    votes = np.column_stack([votes, *(np.where(rng.random(2_000) < 0.9, votes[:, 4], one) for one in anew)])
    weighed, joint = (LabelModel(n_threads=1, dependence=how).fit(votes) for how in ("weigh", "joint"))
    assert joint.score(votes, y) > weighed.score(votes, y) + 0.01
    known = LabelModel(n_threads=1, joint_groups=dict.fromkeys([4, 5, 6], 1)).fit(votes)
    assert np.array_equal(joint.label_distributions_, known.label_distributions_)
    plain = planted(500, 6, k=2, rng=rng)[0]
    both = [LabelModel(n_threads=1, dependence=how).fit(plain).label_distributions_ for how in ("ignore", "joint")]
    assert np.array_equal(*both)


def test_labels_full_sets_soft_and_by_item():
    votes = pl.DataFrame({"item": ["i", "i", "j", "j", "k"], "source": list("ababa"), "label": list("xyxyy")})
    model = LabelModel(n_threads=1).fit(votes, {"i": "x", "j": {"x", "y"}, "k": {"x": 0.25, "y": 0.75}})
    assert model.items_.tolist() == ["i", "j", "k"]
    assert model.label_distributions_[0].tolist() == [1.0, 0.0]
    assert model.predict_proba(votes, {"i": "y"})[0].tolist() == [0.0, 1.0]
    with pytest.raises(InvalidInputError, match="y must label items of votes, got item 'z'"):
        model.fit(votes, {"z": "x"})


def test_constraints_by_source_and_vote_are_those_of_brute_force():
    votes, _, _ = planted(30, 4, k=2, rng=np.random.default_rng(7), coverage=0.8)
    right = part("vote") == part("label")
    rules = [
        E[(part("source") == 2) & right] >= 0.9 * E.count(part("source") == 2),
        (E[right] <= 0.8 * E.count(...)).per("source"),
        E[(part("label") == 1) & part("silent")] <= 0.3,
    ]
    for rule in rules:
        model = LabelModel("answers", constraints=rule, n_threads=1, classes=[0, 1], max_iter=40).fit(votes)
        q = model.label_distributions_
        for source in range(4):
            there = votes[:, source] >= 0
            share = q[there, votes[there, source]].mean()
            if rule is rules[0] and source == 2:
                assert share >= 0.9 - 1e-6
            if rule is rules[1]:
                assert share <= 0.8 + 1e-6
        silent = (votes < 0).all(axis=1)
        if rule is rules[2]:
            assert q[silent, 1].sum() <= 0.3 + 1e-6
    assert repr(next(iter(flatten([repr(rules[0])])))) == repr(rules[0])
    with pytest.raises(InfeasibleConstraintError):
        LabelModel(constraints=[rules[0], E[(part("source") == 2) & right] <= 1], n_threads=1).fit(votes)


def test_shares_by_group_and_given():
    votes, _, _ = planted(400, 5, k=2, rng=np.random.default_rng(5))
    groups = np.arange(400) % 2
    model = LabelModel(n_threads=1).fit(votes, groups=groups)
    assert model.shares_.shape == (2, 2)
    both = [model.predict_proba(votes, groups=groups)[:10], model.label_distributions_[:10]]
    np.testing.assert_allclose(*both)
    with pytest.raises(InvalidInputError, match="groups must be given"):
        model.predict(votes)
    kept = LabelModel(shares={0: 0.25, 1: 0.75}, n_threads=1).fit(votes)
    assert kept.shares_.tolist() == [[0.25, 0.75]]


def test_saved_models_and_pickles_predict_the_same(tmp_path):
    votes, _, _ = planted(80, 4, rng=np.random.default_rng(0))
    for settings in ({}, {"sources": "rules"}, {"source_groups": {0: "x", 1: "x"}}, {"joint_groups": {0: "x", 3: "x"}}):
        model = LabelModel(n_threads=1, **settings).fit(votes, groups=np.zeros(80, int))
        model.save(tmp_path / "model")
        for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(other.predict_proba(votes, groups=np.zeros(80, int)), model.label_distributions_)
            assert other.kind_ == model.kind_


@pytest.mark.parametrize("make", [
    lambda votes: votes,
    lambda votes: np.where(votes < 0, np.nan, votes),
    lambda votes: [[None if vote < 0 else int(vote) for vote in row] for row in votes],
    lambda votes: pd.DataFrame(votes).astype("Int64").mask(votes < 0),
    lambda votes: pl.from_numpy(votes).select(pl.all().replace(-1, None)),
])  # fmt: skip
def test_tables_of_all_kinds_are_read_alike(make):
    votes, _, _ = planted(20, 3, rng=np.random.default_rng(1))
    read, plain = (read_votes(one, ("item", "source", "label"), repeated=False) for one in (make(votes), votes))
    assert read.offsets.tolist() == plain.offsets.tolist()
    assert read.source.tolist() == plain.source.tolist()
    assert read.labels[read.label].tolist() == plain.labels[plain.label].tolist()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: LabelModel().fit([1, 2]), r"votes must be a table of items and sources, or a frame with the columns item"),
    (lambda: LabelModel().fit(np.zeros((0, 3), int)), "votes must hold at least one item, got none"),
    (lambda: LabelModel().fit([["a"], ["a"]]), r"votes must name at least two classes, got \['a'\]"),
    (lambda: LabelModel(classes=["a", "b"]).fit([["a", "c"]]), r"votes must be for classes \['a', 'b'\], got 'c'"),
    (lambda: LabelModel().fit([["a", 1]]), "votes must hold labels of one kind"),
    (lambda: LabelModel().fit([["a", "b"]], ["a", "b"]), "y must have a label, or None, for each of 1 items, got 2"),
    (lambda: LabelModel(strength=0).fit([["a", "b"]]), "strength must be finite and above 0"),
    (lambda: LabelModel(shares={"a": 0.5, "b": 0.6}).fit([["a", "b"]]), "shares must sum to 1, got 1.1"),
    (lambda: LabelModel(shares={"a": 0.5, "d": 0.5}).fit([["a", "b"]]), r"votes must be for classes \['a', 'd'\]"),
    (lambda: LabelModel(source_groups={"x": 1}).fit([["a", "b"]]), "source_groups must name sources of votes, got 'x'"),
    (lambda: LabelModel(joint_groups={"x": 1}).fit([["a", "b"]]), "joint_groups must name sources of votes, got 'x'"),
    (lambda: LabelModel("rules", dependence="joint").fit([["a", "b"]]), "joint tables must be of answers.* got rules"),
    (lambda: LabelModel("answers", joint_groups=dict.fromkeys(range(30), 1)).fit([list("ab") * 15]), "a group of 30"),
    (lambda: LabelModel(source_weight={5: 1}).fit([["a", "b"]]), "source_weight must name sources of votes, got 5"),
    (lambda: LabelModel().fit(long(item=[1, "1"], source=[1, 2], label=["a", "b"])), "column item must hold values of"),
    (lambda: LabelModel().fit(long(item=[1, None], source=[1, 2], label=["a", "b"])), "column item must be filled"),
    (lambda: LabelModel().fit(long(item=[1, 1], source=[1, 1], label=["a", "b"])), "one vote of a source on an item"),
    (lambda: LabelModel().fit([["a", "b"]]).predict([["a", "b", "b"]]), "votes must be of the sources of training"),
    (lambda: LabelModel().fit([["a", "b"]]).predict([["a", "z"]]), "votes must be for classes"),
    (lambda: LabelModel(constraints=E[part("label") == "z"] <= 1).fit([["a", "b"]]), "there is no label 'z'"),
    (lambda: LabelModel(constraints=E[part("source") == 7] <= 1).fit([["a", "b"]]), "there is no source 7"),
    (lambda: LabelModel().fit([["a", "b"]], groups=[1, 2]), "groups must name the group of each of 1 items"),
    (lambda: LabelModel().fit([["a", "b"]], columns={"vote": [1]}), "the name 'vote' belongs to the table"),
])  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def long(**columns):
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def test_gaps_that_numpy_wrote_as_text_are_silence():
    read = read_votes(np.array([["a", np.nan], ["b", "a"]]), ("item", "source", "label"), repeated=False)
    assert read.labels.tolist() == ["a", "b"]
    assert read.offsets.tolist() == [0, 1, 3]


def test_votes_that_are_there_twice_count_once():
    votes = long(item=[1, 1, 2], source=["p", "p", "q"], label=["a", "a", "b"])
    with pytest.warns(UserWarning, match="votes hold 1 votes twice"):
        model = LabelModel(n_threads=1).fit(votes)
    assert model.items_.tolist() == [1, 2]


def test_not_fitted():
    with pytest.raises(NotFittedError, match="this LabelModel is not fitted yet"):
        LabelModel().predict([["a"]])


def test_a_million_times_a_weight_changes_no_posterior():
    votes, _, _ = planted(50, 4, rng=np.random.default_rng(2))
    plain = LabelModel(n_threads=1, share_strength=0.0, strength=1e-9, max_iter=3, tol=0.0).fit(votes)
    heavy = LabelModel(n_threads=1, share_strength=0.0, strength=1e-9, max_iter=3, tol=0.0)
    heavy.fit(votes, sample_weight=np.full(50, 2.0**100))
    np.testing.assert_allclose(plain.label_distributions_, heavy.label_distributions_, atol=1e-6)
    assert math.isfinite(heavy.objective_)


def with_features(n=600, seed=12):
    """Rules on a third of the items, features of all of them, and the labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + 1.5 * y[:, None] * np.array([1.0, -1.0, 0.0])
    votes = np.full((n, 4), -1)
    for source, label in enumerate([0, 1, 0, 1]):
        where = np.where(y == label, rng.random(n) < 0.15, rng.random(n) < 0.03)
        votes[where, source] = label
    return votes, X, y


def test_a_classifier_learns_from_the_posteriors_of_items_with_votes():
    votes, X, y = with_features()
    model = LabelModel(n_threads=1, classifier=LogisticRegression(C=10)).fit(votes, X=X)
    q, covered = model.label_distributions_, (votes >= 0).any(axis=1)
    assert np.array_equal(q, LabelModel(n_threads=1).fit(votes).label_distributions_)
    weights = q[covered] * np.sqrt(model.shares_[0] / q[covered].mean(axis=0))
    expected = LogisticRegression(C=10).fit(
        np.repeat(X[covered], 2, axis=0), np.tile([0, 1], covered.sum()), sample_weight=weights.ravel()
    )
    np.testing.assert_allclose(model.predict_proba(X=X), expected.predict_proba(X), atol=1e-3)
    assert model.score(X=X, y=y) > 0.82 > 0.7 > model.score(votes, y)
    assert model.score(votes, y) == (model.predict(votes) == y).mean()


def test_joint_training_alternates_and_reaches_items_without_votes():
    votes, X, y = with_features()
    model = LabelModel("answers", n_threads=1, joint_steps=3, classifier=LogisticRegression()).fit(votes, X=X)
    silent = ~(votes >= 0).any(axis=1)
    assert (model.label_distributions_[silent].argmax(axis=1) == y[silent]).mean() > 0.8
    both = model.predict_proba(votes, X=X)
    prior = model.classifier_.predict_proba(X)
    there = np.where(votes >= 0, votes, 0)
    likelihood = np.where((votes >= 0)[:, :, None], model.confusion_[np.arange(4), :, there], 1.0).prod(axis=1)
    expected = prior * likelihood
    np.testing.assert_allclose(both, expected / expected.sum(axis=1, keepdims=True), rtol=1e-6)
    held = E[part("label") == 0] == 200
    under = LabelModel("answers", n_threads=1, joint_steps=2, constraints=held).fit(votes, X=X)
    assert under.label_distributions_[:, 0].sum() == pytest.approx(200, rel=1e-3)


@pytest.mark.parametrize(("call", "message"), [
    (lambda model, votes, X: model.fit(votes, X=X[1:]), "X must have a row for each of 600 items of votes"),
    (lambda model, votes, X: model.fit(votes).predict(X=X), "X needs the classifier that fit trains on features"),
    (lambda model, votes, X: model.fit(votes, X=X).predict(votes, X=X), "got joint_steps=0"),
    (lambda model, votes, X: model.fit(votes).predict(), "votes must be there, or X, got neither"),
    (lambda model, votes, X: model.set_params(classifier=LinearSVC()).fit(votes), "classifier must have predict_proba"),
    (lambda model, votes, X: model.set_params(classifier=KNeighborsClassifier()).fit(votes, X=X),
     "classifier must take sample_weight in fit, got KNeighborsClassifier, which does not; choose another$"),
])  # fmt: skip
def test_features_and_classifiers_that_do_not_fit_are_named(call, message):
    votes, X, _ = with_features()
    with pytest.raises(InvalidInputError, match=message):
        call(LabelModel(n_threads=1), votes, X)


def test_a_saved_model_is_without_its_classifier(tmp_path):
    votes, X, _ = with_features()
    model = LabelModel(n_threads=1).fit(votes, X=sp.csr_array(X))
    model.save(tmp_path / "model")
    model.classifier_.save(tmp_path / "classifier")
    loaded = LabelModel.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(votes), model.predict_proba(votes))
    loaded.classifier_ = load(tmp_path / "classifier")
    assert np.array_equal(loaded.predict_proba(X=X), model.predict_proba(X=X))
