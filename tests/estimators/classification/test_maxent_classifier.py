"""MaxEntClassifier against scikit-learn, against weighted copies, and against SciPy on the same objective."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, minimize
from scipy.special import logsumexp, xlogy
from sklearn.linear_model import LogisticRegression

from spectrem import E, part
from spectrem import MaxEntClassifier as Classifier
from spectrem.learning import Constant, Quench
from spectrem.models.loglinear import features as shards


def exact(*given, **options):
    """A classifier whose weights are compared, not its objective alone."""
    return Classifier(*given, **{"m_tol": 1e-12, **options})


def data(k=3, n=40, d=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    X = np.eye(k, d)[labels] + rng.normal(size=(n, d))
    return np.where(rng.random(X.shape) < 0.3, 0.0, X), labels, rng


def objective_of(coef, intercept, X, labels, weights, C, l1_ratio=0.0):
    """scikit-learn's objective over C, weights of all classes in rows: its two forms, of one array and of several."""
    scores = X @ coef.T + intercept
    if len(coef) == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(labels)), labels]
    penalty = (1 - l1_ratio) / 2 * (coef**2).sum() + l1_ratio * np.abs(coef).sum()
    return weights @ losses + penalty / C


def test_the_model_depends_on_the_numbers_and_not_on_what_holds_them():
    X, labels, _ = data()
    stored = sp.csr_array((X.ravel(), np.tile(np.arange(6), 40), 6 * np.arange(41)))
    partial_labels = np.where(np.arange(40) < 25, labels, -1)
    own = exact([E[part("label") == 1] <= 16]).fit(X, partial_labels)
    frame = pl.DataFrame(X, [f"f{k}" for k in range(6)], orient="row")
    for matrix in (sp.csr_array(X), sp.csc_array(X), stored, stored.tocoo(), np.asfortranarray(X), frame):
        found = exact([E[part("label") == 1] <= 16]).fit(matrix, partial_labels)
        assert found.coef_.tobytes() == own.coef_.tobytes()
        assert found.predict_proba(matrix).tobytes() == own.predict_proba(X).tobytes()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_with_all_labels_it_is_the_optimum_of_scikit_learn(k, intercept, sparse):
    X, labels, rng = data(k)
    weights = rng.uniform(0.2, 3.0, len(labels))
    given = sp.csr_array(X) if sparse else X
    for class_weight in (None, "balanced", {1: 2.5}):
        options = {"C": 0.7, "fit_intercept": intercept, "class_weight": class_weight}
        ours = Classifier(**options).fit(given, labels, weights)
        theirs = LogisticRegression(**options, tol=1e-12, max_iter=10000).fit(given, labels, weights)
        counted = weights * np.array([1.0, 2.5, 1.0, 1.0, 1.0])[labels] if class_weight == {1: 2.5} else weights
        if class_weight == "balanced":
            mass = np.bincount(labels, weights)
            counted = weights * (mass.sum() / (k * mass))[labels]
        best = objective_of(theirs.coef_, theirs.intercept_, X, labels, counted, 0.7)
        assert objective_of(ours.coef_, ours.intercept_, X, labels, counted, 0.7) == pytest.approx(best, rel=1e-8)
        assert -ours.objective_ == pytest.approx(best, rel=1e-8)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
        np.testing.assert_allclose(ours.predict_proba(given), theirs.predict_proba(given), atol=1e-3)
        np.testing.assert_allclose(ours.decision_function(given), theirs.decision_function(given), atol=5e-3)
        assert ours.converged_
        assert ours.n_iter_ == 1


@pytest.mark.parametrize("l1_ratio", [0.4, 1.0])
@pytest.mark.parametrize("k", [2, 3])
def test_elastic_net_is_the_optimum_of_scikit_learn(k, l1_ratio):
    X, labels, _ = data(k)
    ours = exact(C=0.3, l1_ratio=l1_ratio).fit(X, labels)
    theirs = LogisticRegression(C=0.3, l1_ratio=l1_ratio, solver="saga", tol=1e-10, max_iter=100000).fit(X, labels)
    ones = np.ones(len(labels))
    best = objective_of(theirs.coef_, theirs.intercept_, X, labels, ones, 0.3, l1_ratio)
    assert objective_of(ours.coef_, ours.intercept_, X, labels, ones, 0.3, l1_ratio) <= best * (1 + 1e-8)
    assert (ours.coef_ == 0).sum() == (theirs.coef_ == 0).sum() > 0


def test_more_features_than_rows_are_merged_to_the_same_optimum():
    X, labels, rng = data(3, n=30)
    rare = sp.random_array((30, 200), density=0.02, rng=rng, format="csr")
    wide = sp.hstack([sp.csr_array(X), rare, sp.csr_array((30, 5)), 3 * sp.csr_array(X[:, :2])], format="csr")
    ours = exact().fit(wide, labels)
    theirs = LogisticRegression(tol=1e-12, max_iter=10000).fit(wide, labels)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert (ours.coef_[:, 206:211] == 0).all()


def test_distributions_are_weighted_copies_and_sets_are_sums():
    X, labels, rng = data(3)
    shares = rng.dirichlet(np.ones(3), len(labels))
    soft = exact().fit(X, shares)
    copies = exact().fit(np.repeat(X, 3, axis=0), np.tile(np.arange(3), len(X)), shares.ravel())
    np.testing.assert_allclose(soft.coef_, copies.coef_, atol=1e-5)
    assert soft.objective_ == pytest.approx(copies.objective_, rel=1e-9)
    mappings = [dict(enumerate(own)) for own in shares.tolist()]
    np.testing.assert_allclose(exact().fit(X, mappings).coef_, soft.coef_, atol=1e-10)

    allowed = [{0, 2} if row % 3 == 0 else label for row, label in enumerate(labels.tolist())]
    partial = exact(max_iter=3000, tol=1e-11).fit(X, allowed)
    mask = np.array(
        [[(not isinstance(own, set) and own != k) or (own == {0, 2} and k == 1) for k in range(3)] for own in allowed]
    )

    def loss(flat):
        coef, intercept = flat[:18].reshape(3, 6), flat[18:]
        scores = X @ coef.T + intercept
        given = np.where(mask, -np.inf, scores)
        normaliser, inside = logsumexp(scores, axis=1), logsumexp(given, axis=1)
        residual = np.exp(scores - normaliser[:, None]) - np.exp(given - inside[:, None])
        gradient = np.concatenate([(residual.T @ X + coef).ravel(), residual.sum(axis=0)])
        return (normaliser - inside).sum() + (coef**2).sum() / 2, gradient

    start = np.concatenate([partial.coef_.ravel(), partial.intercept_])
    best = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    assert -partial.objective_ == pytest.approx(best.fun, rel=1e-7)
    np.testing.assert_allclose(partial.coef_, best.x[:18].reshape(3, 6), atol=1e-2)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.7, 1.0])
def test_the_objective_never_falls(gamma):
    X, labels, _ = data(3, n=60)
    y = np.where(np.arange(60) < 15, labels, -1)
    rules = [E[part("label") == 0] == 30.0, (E[part("label") == 1] <= 0.6).per("row").named("unsure")]
    for m_steps in (None, 2):
        found = exact(rules, gamma=gamma, max_iter=6, tol=0.0, m_steps=m_steps).fit(X, y)
        objectives = np.array([record.objective for record in found.history_])
        assert (np.diff(objectives) >= -1e-8 * np.abs(objectives[1:])).all()
        assert found.label_distributions_[:, 0].sum() == pytest.approx(30.0, abs=1e-4)
        assert found.label_distributions_[15:, 1].max() <= 0.6 + 1e-6
        assert (found.label_distributions_[np.arange(15), labels[:15]] == 1).all()
        assert found.report_.constraints[0].after == pytest.approx([30.0], abs=1e-4)


def test_unlabelled_weight_multiplies_and_few_steps_start_at_the_same_optimum():
    X, labels, rng = data(3, n=60)
    y, weights = np.where(np.arange(60) < 15, labels, -1), rng.uniform(0.5, 2.0, 60)
    rules = [(E[(part("label") == 0) & ~part("labelled")] == 0.5 * E.count(~part("labelled"))).named("half")]
    options = {"max_iter": 4, "tol": 0.0}
    less = exact(rules, unlabelled_weight=0.3, **options).fit(X, y, weights)
    same = exact(rules, **options).fit(X, y, weights * np.where(y < 0, 0.3, 1.0))
    full = exact(rules, **options).fit(X, y, weights)
    np.testing.assert_allclose(less.coef_, same.coef_, atol=1e-10)
    assert np.abs(less.coef_ - full.coef_).max() > 0.01
    few = exact(rules, **options, m_steps=1).fit(X, y, weights)
    assert few.history_[0].objective == full.history_[0].objective
    assert few.history_[1].objective < full.history_[1].objective


def test_it_reaches_a_local_optimum_of_discriminative_posterior_regularisation():
    """Jointly over weights and distributions, by SciPy: log p of labels, E_q log p + H(q) of others, the penalty."""
    X, labels, _ = data(2, n=24, d=2)
    y = np.where(np.arange(24) < 6, labels, -1)
    rule = (E[(part("label") == 1) & ~part("labelled")] == 12.0).named("two thirds")
    ours = exact([rule], max_iter=3000, tol=1e-11, fit_intercept=False).fit(X, y)

    def objective(flat):
        w, q = flat[:2], flat[2:]
        margin = X @ w
        given, free = margin[:6], margin[6:]
        value = np.logaddexp(0, np.where(labels[:6] == 1, -given, given)).sum() + w @ w / 2
        return value + (xlogy(q, q) + xlogy(1 - q, 1 - q) - q * free + np.logaddexp(0, free)).sum()

    start = np.concatenate([ours.coef_[0], ours.label_distributions_[6:, 1]])
    at = objective(start)
    assert -ours.objective_ == pytest.approx(at, rel=1e-7)
    rows = np.concatenate([np.zeros(2), np.ones(18)])
    for seed in range(3):
        moved = start + 0.02 * np.random.default_rng(seed).normal(size=20)
        found = minimize(
            objective, np.clip(moved, [-9, -9] + [1e-6] * 18, [9, 9] + [1 - 1e-6] * 18), method="SLSQP",
            bounds=[(None, None)] * 2 + [(1e-9, 1 - 1e-9)] * 18,
            constraints=[LinearConstraint(rows, 12.0, 12.0)], options={"maxiter": 1000, "ftol": 1e-13},
        )  # fmt: skip
        assert found.fun == pytest.approx(at, rel=1e-5)
        np.testing.assert_allclose(found.x[:2], start[:2], atol=1e-2)


def test_without_constraints_rows_without_labels_change_nothing_at_gamma_one():
    X, labels, _ = data(3)
    y = np.where(np.arange(40) < 20, labels, -1)
    some, alone = exact().fit(X, y), exact().fit(X[:20], labels[:20])
    np.testing.assert_allclose(some.coef_, alone.coef_, atol=1e-4)
    hard = exact(schedule=Quench(Constant(1.0), 0.0)).fit(X, y)
    assert np.abs(hard.coef_ - alone.coef_).max() > 0.05
    ignored = exact(unlabelled_weight=0.0, gamma=0.0).fit(X, y)
    np.testing.assert_allclose(ignored.coef_, alone.coef_, atol=1e-4)


def test_a_class_without_labelled_rows_is_learnt_from_constraints():
    rng = np.random.default_rng(0)
    gold = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2)) + 3.0 * gold[:, None]
    document = np.repeat(np.arange(6), 10)
    shares = [(E[(part("label") == 1) & (part("document") == d)] == 10.0 * (d > 2)).named(f"{d}") for d in range(6)]
    found = exact(shares, classes=[0, 1]).fit(X, columns={"document": document})
    assert (found.predict(X) == gold).mean() > 0.9
    one = exact(shares, classes=[0, 1]).fit(X, [0] + [-1] * 59, columns={"document": document})
    assert (one.predict(X) == gold).mean() > 0.9


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0])
def test_predictions_meet_constraints_and_shards_do_not_matter(gamma, monkeypatch):
    X, labels, _ = data(2, n=48)
    y = np.where(np.arange(48) < 20, labels, -1)
    pairs = (E[part("label") == 1] == 1).per("pair").named("one of each pair")
    columns = {"pair": np.arange(48) // 2}
    options = {"project_at_predict": True, "gamma": gamma, "infeasible": "skip"}
    y[:20] = np.tile([0, 1], 10)
    one = exact([pairs], **options, n_threads=1).fit(X, y, columns=columns)
    assert one.predict(X, columns).reshape(-1, 2).sum(axis=1).tolist() == [1] * 24
    if gamma == -np.inf:
        return  # integer programs of groups that lie in several shards are refused, in words

    monkeypatch.setattr(shards, "_LEAST_WORK", 1)
    monkeypatch.setattr(shards.build_shards, "__kwdefaults__", {**shards.build_shards.__kwdefaults__, "least": 1})
    monkeypatch.setattr(shards, "_PER_WEIGHT", 0)
    several = [exact([pairs], **options, n_threads=t).fit(X, y, columns=columns) for t in (1, 3)]
    np.testing.assert_allclose(several[0].coef_, one.coef_, atol=1e-4)
    assert (several[0].coef_ == several[1].coef_).all()
    np.testing.assert_allclose(several[0].predict_proba(X, columns), one.predict_proba(X, columns), atol=1e-3)


def test_labelled_rows_stay_in_the_groups_that_constraints_tie_them_to():
    """Then a group is a small problem of its own, and not a row over the corpus, of which there would be hundreds."""
    rng = np.random.default_rng(0)
    document, gold = np.repeat(np.arange(300), 4), np.tile([1, 0, 0, 0], 300)
    X = rng.normal(size=(1200, 3)) + gold[:, None]
    y = np.where((rng.random(1200) < 0.2) & (np.arange(1200) % 4 < 2), gold, -1)
    y[4:8] = -1
    rules = [(E[part("label") == 1] == 1).per("document"), (E[part("label") == 1] <= 0.9).per("row").named("unsure")]
    found = Classifier(rules, gamma=0.5).fit(X, y, columns={"document": document})
    q = found.label_distributions_[:, 1]
    np.testing.assert_allclose(q.reshape(-1, 4).sum(axis=1), 1.0, atol=1e-5)
    assert (q[y >= 0] == y[y >= 0]).all()  # rules inside rows leave them alone
    assert q[y < 0].max() <= 0.9 + 1e-6
    assert found.report_.constraints == ()
    with_shares = [
        {1: 0.5, 0: 0.5} if row == 7 else None if label < 0 else label for row, label in enumerate(y.tolist())
    ]
    soft = Classifier(rules, gamma=0.5).fit(X, with_shares, columns={"document": document})
    assert soft.label_distributions_[7].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(soft.label_distributions_[:, 1].reshape(-1, 4).sum(axis=1), 1.0, atol=1e-5)
