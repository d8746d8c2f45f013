"""Classifiers and CRFs whose own expectations meet constraints."""

from functools import partial

import numpy as np
import pytest
from scipy.special import xlogy

from spectrem import CRFTagger, E, MaxEntClassifier, part
from spectrem.constraints import label_proportions
from spectrem.corpus import OnDask, Spilled
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, Expectations, FitStatus, Posteriors

SHARES = label_proportions({"a": 0.5, "b": 0.3, "c": 0.2})
SENTENCES = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat"], ["dogs", "bark"], ["a", "dog", "sleeps"]]
TAGS = [["DT", "NN", "VB"], None, None, [None, {"NN", "VB"}], None]
RULES = [(E[part("tag") == "VB"] <= 1).per("sentence"), E[part("tag") == "NN"] == 5, E[part("tag") == "DT"] <= 4]


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    gold = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[gold]
    y = np.array(["a", "b", "c"])[gold].astype(object)
    y[np.arange(n) >= 9] = None
    return X, y, np.array(["a", "b", "c"])[gold]


@pytest.mark.parametrize("distance", ["squares", "divergence"])
def test_the_stronger_the_criterion_the_nearer_are_the_shares(distance):
    X, y, _ = table()
    missed = []
    for strength in (0.01, 1.0, 100.0):
        classifier = MaxEntClassifier(SHARES, criterion=Expectations(strength, distance)).fit(X, y)
        assert classifier.status_ is FitStatus.CONVERGED
        shares = classifier.label_distributions_.mean(axis=0)
        missed.append(np.abs(shares - [0.5, 0.3, 0.2]).sum())
        objectives = [record.objective for record in classifier.history_]
        assert (np.diff(objectives) >= 0).all()
    assert missed[0] > missed[1] > missed[2]
    assert missed[2] < 0.01
    free = y == None  # noqa: E711
    np.testing.assert_allclose(classifier.label_distributions_[free], classifier.predict_proba(X)[free])
    report = classifier.report_.constraints
    np.testing.assert_allclose([own.after[0] for own in report], 60 * shares)
    assert [own.name for own in report] == ["proportion of a", "proportion of b", "proportion of c"]
    assert f"criterion Expectations(strength=100.0, distance='{distance}')" in classifier.report_.summary()


def test_the_objective_is_that_of_the_paper():
    X, y, _ = table()
    weight = np.random.default_rng(1).uniform(0.5, 2, 60)
    classifier = MaxEntClassifier(SHARES, C=2.0, criterion=Expectations(3.0, "divergence"), unlabelled_weight=0.5)
    classifier.fit(X, y, sample_weight=weight)
    p, labelled = classifier.predict_proba(X), np.arange(60) < 9
    own = np.searchsorted(classifier.classes_, y[:9].astype(str))
    expected = weight @ np.where(labelled[:, None], np.eye(3)[np.append(own, np.zeros(51, int))], p)
    target = weight.sum() * np.array([0.5, 0.3, 0.2])
    cost = 3.0 * (xlogy(target, target / expected) - target + expected).sum()
    likelihood = weight[:9] @ np.log(p[np.arange(9), own])
    prior = -0.25 * (classifier.coef_**2).sum()
    np.testing.assert_allclose(classifier.objective_, likelihood + prior - cost, rtol=1e-9)
    last = classifier.history_[-1]
    np.testing.assert_allclose([last.free_objective, last.log_prior], [likelihood, prior], rtol=1e-6)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_posteriors_are_climbed_to_where_em_ends(gamma):
    X, y, _ = table()
    rules = [SHARES, (E[part("label") == "c"] <= 0.7).per("row")]
    em = MaxEntClassifier(rules, gamma=gamma, tol=1e-10, max_iter=1000).fit(X, y)
    climbed = MaxEntClassifier(rules, criterion=Posteriors(gamma)).fit(X, y)
    np.testing.assert_allclose(climbed.objective_, em.objective_, rtol=1e-6)
    np.testing.assert_allclose(climbed.label_distributions_, em.label_distributions_, atol=1e-3)
    np.testing.assert_allclose(climbed.label_distributions_.sum(axis=0), [30, 18, 12], atol=1e-4)
    prices, expected = (np.concatenate([own.price for own in one.report_.constraints]) for one in (climbed, em))
    # three shares of a whole: a price more for all of them changes nothing
    np.testing.assert_allclose(prices - prices.mean(), expected - expected.mean(), atol=0.02)
    assert climbed.gamma_ == gamma
    assert (np.diff([record.objective for record in climbed.history_]) >= -1e-9).all()


def test_posteriors_of_sentences_are_climbed_to_where_em_ends():
    settings = {"pairs": "all", "tags": ["DT", "NN", "VB"], "n_threads": 1, "constraints": RULES}
    em = CRFTagger("words", dual_steps=0, m_tol=1e-9, tol=1e-10, max_iter=500, **settings).fit(SENTENCES, TAGS)
    climbed = CRFTagger("words", criterion=Posteriors(), m_tol=1e-9, **settings).fit(SENTENCES, TAGS)
    np.testing.assert_allclose(climbed.objective_, em.objective_, rtol=1e-6)
    assert climbed.report_.constraints[0].violation_after.max() < 1e-5


PARTLY = [["DT", "NN", "VB"], ["DT", {"NN", "VB"}, "VB"], [None, "NN"], None, [None, {"NN", "VB"}, None]]
WEIGHTS = np.array([1.0, 2.0, 1.0, 1.0, 0.5])


def fit_partly(kind, **settings):
    """An estimator fitted to labels, sets of labels, distributions and missing labels, with weights."""
    if kind is CRFTagger:
        tagger = CRFTagger("words", pairs="all", unlabelled_weight=0.5, **settings)
        return tagger.fit(SENTENCES, PARTLY, WEIGHTS)
    X, y, gold = table()
    y[9:30] = [frozenset({label, "c"}) if k % 2 else {"a": 0.9, "b": 0.1} for k, label in enumerate(gold[9:30])]
    weight = np.random.default_rng(1).uniform(0.5, 2, 60)
    return MaxEntClassifier(unlabelled_weight=0.5, **settings).fit(X, y, weight)


@pytest.mark.parametrize("kind", [MaxEntClassifier, CRFTagger])
def test_without_constraints_the_likelihood_of_partial_labels_is_climbed_to_where_em_ends(kind):
    climbed = fit_partly(kind, m_tol=1e-12, n_threads=1)
    em = fit_partly(kind, m_tol=1e-12, schedule=Constant(1.0), tol=1e-11, max_iter=5000)
    assert climbed.status_ is FitStatus.CONVERGED
    assert (np.diff([record.objective for record in climbed.history_]) >= -1e-12).all()
    assert climbed.objective_ >= em.objective_ - 1e-10  # which comes near from below
    np.testing.assert_allclose(climbed.objective_, em.objective_, rtol=1e-7)
    weights = "coef_" if kind is MaxEntClassifier else "theta_"
    np.testing.assert_allclose(getattr(climbed, weights), getattr(em, weights), atol=1e-3)
    for settings in ({"criterion": Posteriors()}, {"n_threads": 2}):
        again = fit_partly(kind, m_tol=1e-12, **settings)
        np.testing.assert_array_equal(getattr(again, weights), getattr(climbed, weights))


def test_the_likelihood_of_partial_labels_is_flat_where_training_ends():
    tagger = fit_partly(CRFTagger, m_tol=1e-12)
    known = WEIGHTS * [1.0, 0.5, 0.5, 0.5, 0.5]

    def objective(theta):  # log-probabilities are those of enumeration, see test_crf_tagger.py
        tagger.theta_ = theta
        likelihoods = tagger.score_samples(SENTENCES, [tags or [None] * 2 for tags in PARTLY])
        return known @ likelihoods - theta @ theta / (2 * tagger.C)

    found, step = tagger.theta_.copy(), 1e-5
    assert objective(found) == pytest.approx(tagger.objective_, abs=1e-9)
    for along in step * np.eye(len(found)):
        assert abs(objective(found + along) - objective(found - along)) < 2 * step * 1e-5


@pytest.mark.parametrize("criterion", [Expectations(2.0), Posteriors()])
def test_under_an_elastic_net_most_weights_are_none(criterion):
    X, y, _ = table()
    noise = np.random.default_rng(3).normal(size=(60, 20))
    wide = np.hstack([X, noise])
    classifier = MaxEntClassifier(SHARES, l1_ratio=1.0, C=0.3, criterion=criterion, m_tol=1e-6).fit(wide, y)
    assert 0.3 < (classifier.coef_ == 0).mean() < 0.99
    last = classifier.history_[-1]
    np.testing.assert_allclose(last.log_prior, -np.abs(classifier.coef_).sum() / 0.3, rtol=1e-9)
    assert (np.diff([record.objective for record in classifier.history_]) >= -1e-9).all()


def test_two_classes_and_merged_features_are_the_same_model():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 15)) * (rng.random((20, 15)) < 0.3)
    wide = np.hstack([X, 2 * X])  # more columns than rows, half of them in proportion to others
    y = np.where(np.arange(20) < 6, np.arange(20) % 2, -1)
    half = E[part("label") == 1] == 12
    narrow = MaxEntClassifier([half], C=5.0, criterion=Expectations(2.0), m_tol=1e-12).fit(X, y)
    merged = MaxEntClassifier([half], C=1.0, criterion=Expectations(2.0), m_tol=1e-12).fit(wide, y)
    np.testing.assert_allclose(merged.predict_proba(wide), narrow.predict_proba(X), atol=1e-5)


def test_without_any_label_something_has_to_tell_classes_apart():
    X, _, _ = table()
    with pytest.raises(InvalidInputError, match="nothing tells the classes apart"):
        MaxEntClassifier(SHARES, classes=["a", "b", "c"], criterion=Expectations(1.0)).fit(X)
    large = {"large": X[:, 0] > 1}
    rules = [
        label_proportions({"a": 0.5, "b": 0.5}),
        E[(part("label") == "a") & part("large")] == 0.9 * E.count(part("large")),
    ]
    with pytest.raises(InvalidInputError, match="nothing tells the classes apart"):  # the intercept does it all
        MaxEntClassifier(rules[1:], classes=["a", "b"], criterion=Expectations(1.0)).fit(X, columns=large)
    found = MaxEntClassifier(rules, classes=["a", "b"], criterion=Expectations(1.0)).fit(X, columns=large)
    assert found.coef_[0, 0] < -0.1


def test_homes_do_not_matter(tmp_path, monkeypatch, client):
    from spectrem.models.loglinear import features as shards_module

    monkeypatch.setitem(shards_module.build_shards.__kwdefaults__, "least", 50)
    X, y, _ = table()
    homes = [None, partial(Spilled, folder=tmp_path), partial(OnDask, client=client)]
    fits = [
        MaxEntClassifier(SHARES, criterion=Expectations(2.0), m_tol=1e-3, n_threads=threads, corpus=corpus).fit(X, y)
        for threads, corpus in ((1, homes[0]), (3, homes[0]), (1, homes[1]), (1, homes[2]))
    ]
    for other in fits[1:]:
        assert np.array_equal(other.coef_, fits[0].coef_)


@pytest.mark.parametrize("rules", [RULES, [*RULES, (E[(part("tag") == "NN") & (part("previous") == "NN")] <= 0)]])
@pytest.mark.parametrize("edge_features", [(), "w"])
def test_a_crf_comes_near_its_constraints(rules, edge_features):
    settings = {"pairs": "all", "tags": ["DT", "NN", "VB"], "n_threads": 1, "edge_features": edge_features}
    plain = CRFTagger("words", **settings).fit(SENTENCES, TAGS)
    tagger = CRFTagger("words", constraints=rules, criterion=Expectations(300.0), **settings).fit(SENTENCES, TAGS)
    objectives = [record.objective for record in tagger.history_]
    assert (np.diff(objectives) >= 0).all()
    report = tagger.report_.constraints[0]
    np.testing.assert_allclose(report.after, 5.0, atol=0.05)
    verbs = [own[:, 2].sum() for own in tagger.predict_proba(SENTENCES)]
    assert max(verbs) < 1.1
    assert max(own[:, 2].sum() for own in plain.predict_proba(SENTENCES)) > 1.0
    assert tagger.converged_


def test_saved_models_come_back_without_the_criterion(tmp_path):
    X, y, _ = table()
    classifier = MaxEntClassifier(SHARES, criterion=Expectations(2.0)).fit(X, y)
    classifier.save(tmp_path / "model.npz")
    loaded = MaxEntClassifier.load(tmp_path / "model.npz")
    assert loaded.criterion is None
    assert np.array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    tagger = CRFTagger("words", criterion=Expectations(2.0), constraints=RULES, n_threads=1).fit(SENTENCES, TAGS)
    tagger.save(tmp_path / "tagger.npz")
    assert CRFTagger.load(tmp_path / "tagger.npz").predict(SENTENCES) == tagger.predict(SENTENCES)


@pytest.mark.parametrize("make", [MaxEntClassifier, lambda **given: CRFTagger("words", **given)])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"criterion": "expectations"},
            r"criterion must be None, Expectations\(...\) or Posteriors\(...\) of spectrem.learning, got 'expec",
        ),
        (
            {"criterion": Expectations(1.0), "gamma": 0.5},
            "criterion must be None where gamma is 0.5, which EM reads; leave one",
        ),
        ({"criterion": Posteriors(0.5), "gamma": 0.5}, "criterion must be None where gamma is 0.5, which EM reads"),
        ({"criterion": Expectations(1.0), "schedule": Anneal(0.5)}, "criterion must be None where schedule is Anneal"),
        (
            {"criterion": Expectations(1.0), "constraints": SHARES.slack(penalty=1, norm="l1")},
            "'proportion of a' has slack",
        ),
    ],
)
def test_bad_settings_are_named(make, settings, message):
    X, y, _ = table()
    given = (SENTENCES, [["a", "b", "c"], *[None] * 4]) if make is not MaxEntClassifier else (X, y)
    with pytest.raises(InvalidInputError, match=message):
        make(**settings).fit(*given)
