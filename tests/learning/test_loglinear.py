"""A discriminative model on the contract of learning: its promises, constraints, and a peer's optimum."""

import numpy as np
import pytest
from loglinear_toy import LogLinear, Rows

from spectrem.constraints import E, part
from spectrem.corpus import Local
from spectrem.learning import Constant, EStep, Stopping, run_em
from spectrem.testing import check_model

MODEL = LogLinear(3)


def shards_of(n_shards, n_rows=24, known=0.4):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, n_rows)
    x = np.eye(3, 4)[label] * 2 + rng.normal(size=(n_rows, 4))
    labels = np.where(rng.random(n_rows) < known, label, -1)
    return [Rows(x[own], labels[own]) for own in np.array_split(np.arange(n_rows), n_shards)]


def join(shards):
    return Rows(*(np.concatenate(columns) for columns in zip(*shards, strict=True)))


@pytest.mark.usefixtures("process_kept")
def test_it_keeps_the_promises_of_a_model():
    rng = np.random.default_rng(1)
    start = 0.1 * rng.normal(size=(3, 4))
    check_model(
        MODEL, start, shards_of(3), rng,
        perturb=lambda theta, rng: theta + 0.1 * rng.normal(size=theta.shape), join=join, iterations=3,
    )  # fmt: skip


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_constraints_guide_it_and_the_objective_never_falls(gamma):
    third = E[part("label") == 0] == 8.0
    results = [
        run_em(
            MODEL, Local(shards_of(n_shards), n_threads), np.zeros((3, 4)), EStep([third]),
            schedule=Constant(gamma), stopping=Stopping(6),
        )
        for n_shards, n_threads in ((1, 1), (4, 1), (4, 3))
    ]  # fmt: skip
    for result in results:
        objectives = np.array([record.objective for record in result.history])
        assert (np.diff(objectives) >= -1e-8 * np.abs(objectives[1:])).all()
        assert result.history[-1].violation < 1e-6
        np.testing.assert_allclose(result.params, results[0].params, atol=1e-5)
    assert np.array_equal(results[1].params, results[2].params)
    free = run_em(MODEL, shards_of(4), np.zeros((3, 4)), schedule=Constant(gamma), stopping=Stopping(6))
    assert np.abs(free.params - results[0].params).max() > 0.01


def test_without_unlabelled_rows_it_is_the_optimum_of_logistic_regression():
    shards = shards_of(2, known=1.1)
    theta = run_em(MODEL, shards, np.zeros((3, 4)), stopping=Stopping(1)).params
    from sklearn.linear_model import LogisticRegression

    whole = join(shards)
    other = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(whole.x, whole.labels)
    np.testing.assert_allclose(theta, other.coef_, atol=1e-5)
