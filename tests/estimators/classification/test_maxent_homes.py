"""MaxEntClassifier gives the same bits wherever its shards live, and goes on where it was interrupted."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem import E, MaxEntClassifier, part
from spectrem.corpus import OnDask, Spilled
from spectrem.models.loglinear import features as shards

RULES = [E[part("label") == 0] == 15.0, (E[part("label") == 1] <= 0.6).per("row").named("unsure")]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shards.build_shards, "__kwdefaults__", {**shards.build_shards.__kwdefaults__, "least": 1})
    monkeypatch.setattr(shards, "_PER_WEIGHT", 0)


def data():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 30)
    X = np.where(rng.random((30, 6)) < 0.3, 0.0, np.eye(3, 6)[labels] + rng.normal(size=(30, 6)))
    y = [
        label if row < 10 else {label, (label + 1) % 3} if row < 20 else None
        for row, label in enumerate(labels.tolist())
    ]
    return sp.csr_array(X), y


def outcome(fitted):
    course = [(record.objective, record.free_objective, record.violation) for record in fitted.history_]
    return fitted.coef_, fitted.intercept_, fitted.label_distributions_, np.array(course)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(outcome(one), outcome(other), strict=True))


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("gamma", [-np.inf, 0.5])
def test_the_same_bits_in_every_home(gamma, tmp_path):
    X, y = data()
    fit = partial(MaxEntClassifier, RULES, gamma=gamma, max_iter=2, tol=0.0)
    one = fit(n_threads=1).fit(X, y)
    threads = fit(n_threads=3).fit(X, y)
    assert same(one, threads)
    assert same(one, fit(corpus=partial(Spilled, folder=tmp_path)).fit(X, y))
    assert (one.predict_proba(X) == threads.predict_proba(X)).all()


def test_the_same_bits_on_a_cluster(client):
    X, y = data()
    there = MaxEntClassifier(RULES, max_iter=2, tol=0.0, corpus=partial(OnDask, client=client)).fit(X, y)
    assert same(there, MaxEntClassifier(RULES, max_iter=2, tol=0.0, n_threads=1).fit(X, y))


def test_an_interrupted_training_goes_on(tmp_path):
    X, y = data()
    fit = partial(MaxEntClassifier, RULES, gamma=0.5, max_iter=5, tol=0.0, m_steps=3)
    whole = fit().fit(X, y)

    def stop(record):
        seen.append(record)
        if len(seen) == 3:
            raise KeyboardInterrupt

    seen = []
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=tmp_path, on_iteration=stop).fit(X, y)
    assert same(whole, fit(checkpoint=tmp_path).fit(X, y))
