"""Optima of MaxEntClassifier whatever the units of features, the weights of rows and the strength of the prior."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from spectrem import MaxEntClassifier
from spectrem.exceptions import ConvergenceWarning
from spectrem.models.loglinear import optimise


def draw(scales, offset=0.0, n=300, seed=0):
    """Rows of features of these scales, whose labels depend on all of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(scales)))
    y = (rng.random(n) < expit(X @ np.linspace(1.5, -1.5, len(scales)))).astype(int)
    return offset + X * scales, y


def fit(X, y, weights=None, **settings):
    """A classifier that converged, and the number of its steps."""
    steps = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        classifier = MaxEntClassifier(on_iteration=steps.append, n_threads=1, **settings).fit(X, y, weights)
    assert classifier.converged_
    return classifier, len(steps)


def loss(X, y, weights, coef, intercept):
    """The log-loss of two classes, nats."""
    signs = 1 - 2 * y
    return float(weights @ np.logaddexp(0.0, signs * (X @ coef + intercept)))


def gradient(X, y, weights, coef, intercept):
    """Derivatives of the log-loss by coefficients and by the intercept."""
    errors = weights * (expit(X @ coef + intercept) - y)
    return X.T @ errors, float(errors.sum())


@pytest.mark.parametrize(
    ("scales", "offset"),
    [((1e7,) * 5, 0.0), ((1e-6, 1e-3, 1.0, 1e3, 1e6), 0.0), ((1.0,) * 5, 1e5), ((1e3, 1e5), 1.7e9)],
    ids=["large", "mixed", "far from 0", "timestamps"],
)
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_units_and_offsets_of_features_do_not_matter(scales, offset, C):
    """The prior is that of features in their own units, so coefficients are compared where it is weak or strong."""
    X, y = draw(np.array(scales), offset)
    ours, n_steps = fit(X, y, C=C)
    # the same optimum, found by Newton's method on features that are centred and of size 1
    middle, size = X.mean(axis=0), X.std(axis=0)
    assert n_steps < 100
    Z = (X - middle) / size
    coef, intercept = newton(Z, y, 1.0 / (C * size**2))
    np.testing.assert_allclose(ours.coef_[0] * size, coef, rtol=1e-3, atol=1e-4)
    shifted = ours.intercept_[0] + middle @ ours.coef_[0]
    assert shifted == pytest.approx(intercept, abs=1e-4)


def newton(Z, y, l2):
    """Coefficients and the free intercept of logistic regression with a prior of its own for every coefficient."""
    A, prior, theta = np.column_stack([Z, np.ones(len(Z))]), np.append(l2, 0.0), np.zeros(Z.shape[1] + 1)
    for _ in range(100):
        p = expit(A @ theta)
        step = np.linalg.solve((A * (p * (1 - p))[:, None]).T @ A + np.diag(prior), A.T @ (p - y) + prior * theta)
        theta -= step
    assert np.abs(step).max() < 1e-12
    return theta[:-1], theta[-1]


def test_a_timestamp_that_separates_classes():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = (1.7e9 + 86_400.0 * y + rng.uniform(0, 3600, 200))[:, None]
    ours, n_steps = fit(X, y)
    assert ours.score(X, y) == 1.0
    assert n_steps < 200


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_optimality_of_the_elastic_net_for_features_of_scales_from_1_to_10000(l1_ratio):
    X, y = draw(np.geomspace(1.0, 1e4, 30))
    C = 0.1
    ours, n_steps = fit(X, y, l1_ratio=l1_ratio, C=C)
    coef, ones = ours.coef_[0], np.ones(len(y))
    slope, of_intercept = gradient(X, y, ones, coef, ours.intercept_[0])
    slope += (1 - l1_ratio) / C * coef
    size = np.linalg.norm(X, axis=0)
    l1 = l1_ratio / C
    rest = np.where(coef != 0, slope + l1 * np.sign(coef), np.maximum(np.abs(slope) - l1, 0.0))
    np.testing.assert_allclose(rest / size, 0.0, atol=1e-4)
    assert of_intercept == pytest.approx(0.0, abs=1e-3)
    assert n_steps < 50
    theirs = LogisticRegression(l1_ratio=l1_ratio, C=C, solver="saga", max_iter=20, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(X, y)
    penalty = l1 * np.abs(theirs.coef_).sum() + 0.5 * (1 - l1_ratio) / C * float((theirs.coef_**2).sum())
    assert -ours.objective_ <= loss(X, y, ones, theirs.coef_[0], theirs.intercept_[0]) + penalty + 1e-9


@pytest.mark.parametrize(("C", "tolerance"), [(1e-8, {}), (1e-4, {"m_tol": 1e-4}), (1e-4, {})])
def test_a_free_intercept_has_the_share_of_its_class_under_any_prior(C, tolerance):
    y = (np.arange(8) > 0).astype(int)
    X = np.random.default_rng(0).normal(size=(8, 2))
    ours, _ = fit(X, y, C=C, **tolerance)
    assert ours.predict_proba(X)[:, 1] == pytest.approx(np.full(8, 7 / 8), abs=2e-3)
    p = LogisticRegression(C=C, tol=1e-10).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(ours.predict_proba(X), p, atol=1e-3 if tolerance else 1e-4)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_weights_of_rows_and_the_prior_in_proportion_change_nothing(factor):
    X, y = draw(np.ones(2))
    plain, _ = fit(X, y)
    ours, _ = fit(X, y, np.full(len(y), factor), C=1.0 / factor)
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.intercept_, plain.intercept_, atol=1e-4)
    theirs = LogisticRegression(tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3)


def test_features_far_from_0_without_an_intercept_are_not_said_to_have_converged():
    """Two columns that differ by one part in 1e9 tell classes apart only by a difference that rounding hides."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = 1e9 + np.column_stack([rng.normal(size=60), rng.normal(size=60) + 4.0 * y])
    with pytest.warns(ConvergenceWarning, match="not within m_tol of its maximum .*subtract from features") as caught:
        classifier = MaxEntClassifier(fit_intercept=False, n_threads=1, C=1e4).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not classifier.converged_


def test_steps_are_bounded_where_none_are_named(monkeypatch):
    monkeypatch.setattr(optimise, "MOST_STEPS", 3)
    X, y = draw(np.ones(5))
    with pytest.warns(ConvergenceWarning, match=r"\(after 3 steps\): bring features to similar sizes") as caught:
        classifier = MaxEntClassifier(n_threads=1).fit(X, y)
    assert len(caught) == 1
    assert not classifier.converged_
    with pytest.warns(ConvergenceWarning) as caught:
        MaxEntClassifier(n_threads=1, max_iter=1, gamma=0.5).fit(X, np.where(np.arange(300) % 3, y, -1))
    in_em = "the objective of an M-step was not within m_tol of its maximum after 3 steps: bring features"
    assert any(str(one.message).startswith(in_em) for one in caught)


def test_one_numeric_feature_of_other_units_among_words():
    """Words keep about one scale, and the number of another unit has its own."""
    rng = np.random.default_rng(0)
    words = (rng.random((300, 400)) < 0.02).astype(float)
    y = (rng.random(300) < expit(words[:, :40].sum(axis=1) * 2.0 - 1.5)).astype(int)
    X = np.column_stack([words, 1e6 * (y + rng.normal(size=300))])
    ours, n_steps = fit(X, y)
    coef, _ = newton(X / np.append(np.ones(400), 1e6), y, np.append(np.ones(400), 1e-12))
    np.testing.assert_allclose(ours.coef_[0] * np.append(np.ones(400), 1e6), coef, atol=2e-3)
    assert n_steps < 100
