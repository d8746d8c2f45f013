"""Label models on the patients of Dawid and Skene, and where classes could be taken for each other."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_label_model import planted

from spectrem import LabelModel

pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
# What five anaesthetists, the first of them three times, said of 45 patients ([DawidSkene1979], table 1).
PATIENTS = (
    "1111111 3334334 1122122 2223121 2223222 2223322 1222111 3333433 2222223 2322223 4444444 2223343 1111111 "
    "2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 "
    "2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 "
    "1111111 1111111 1212111 2322222 1211111 2222222"
)
SPEAKERS = (0, 0, 0, 1, 2, 3, 4)


def slow_em(counts, steps):
    """Maximum likelihood of votes counted as [item, source, class], item by item."""
    q = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    for _ in range(steps):
        shares = q.mean(axis=0)
        table = np.einsum("ny,nsl->syl", q, counts)
        table /= table.sum(axis=2, keepdims=True)
        likelihood = 0.0
        for item in range(len(counts)):
            joint = shares * np.prod(table ** counts[item][:, None, :], axis=(0, 2))
            likelihood += np.log(joint.sum())
            q[item] = joint / joint.sum()
    return shares, table, q, likelihood


def test_the_patients_of_dawid_and_skene():
    rows = [
        (item, source, said)
        for item, heard in enumerate(PATIENTS.split())
        for source, said in zip(SPEAKERS, heard, strict=True)
    ]
    votes = pl.DataFrame(rows, ["item", "source", "label"], orient="row")
    settings = {"strength": 1e-12, "share_strength": 0.0, "repeated": True, "n_threads": 1}
    model = LabelModel("answers", max_iter=60, tol=0.0, **settings).fit(votes)
    counts = np.zeros((45, 5, 4))
    for item, source, said in rows:
        counts[item, source, int(said) - 1] += 1
    shares, table, q, likelihood = slow_em(counts, 60)
    assert model.objective_ == pytest.approx(likelihood, abs=1e-6)
    np.testing.assert_allclose(model.shares_[0], shares, atol=1e-7)
    np.testing.assert_allclose(model.confusion_, table, atol=1e-7)
    np.testing.assert_allclose(model.label_distributions_, q, atol=1e-7)
    assert np.round(model.shares_[0], 2).tolist() == [0.4, 0.42, 0.11, 0.07]
    first = [[0.89, 0.11, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0], [0, 0, 0.56, 0.44]]
    assert np.round(model.confusion_[0], 2).tolist() == first


def test_classes_do_not_change_places():
    """Votes are as likely with the classes renamed; the start and the prior say which is which."""
    for seed in range(20):
        votes, y, _ = planted(
            400, 5, k=3, rng=np.random.default_rng(seed), accuracy=(0.45, 0.7), shares=[0.6, 0.3, 0.1]
        )
        model = LabelModel(n_threads=1, max_iter=40).fit(votes)
        assert np.einsum("skk->sk", model.confusion_).mean() > 0.45
        assert model.score(votes, y) > 0.5  # 0.34 on average where classes change places
        renamed = LabelModel(n_threads=1, max_iter=40).fit(np.where(votes < 0, -1, 2 - votes))
        np.testing.assert_allclose(renamed.label_distributions_[:, ::-1], model.label_distributions_, atol=1e-9)


@pytest.mark.parametrize("n", [100, 3_000])
@pytest.mark.parametrize("faithful", [0.95, 1.0])
def test_copies_of_a_weak_source_do_not_outvote_good_ones(n, faithful):
    votes, y, _ = planted(n, 5, k=2, rng=np.random.default_rng(3), accuracy=(0.6, 0.85), coverage=1.0)
    rng = np.random.default_rng(4)
    copies = [np.where(rng.random(n) < faithful, votes[:, 0], 1 - votes[:, 0]) for _ in range(2)]
    copied = np.column_stack([votes, *copies])
    alone = LabelModel(n_threads=1, max_iter=40).fit(votes).score(votes, y)
    naive, weighed = (
        LabelModel(n_threads=1, max_iter=40, dependence=dependence).fit(copied) for dependence in ("ignore", "weigh")
    )
    assert naive.score(copied, y) < alone - 0.1
    assert weighed.score(copied, y) > max(alone - 0.04, ((copied.mean(axis=1) > 0.5) == y).mean())
    assert {(pair.first, pair.second) for pair in naive.dependent_sources(copied)} >= {(0, 5), (0, 6)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [80, 1_000])
def test_good_annotators_among_guessers_are_no_copies(seed, n):
    """The two agree far beyond the labels of a first step, which guessers spoil."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    votes = np.where(rng.random((n, 5)) < (0.95, 0.9, 0.55, 0.5, 0.5), y[:, None], 1 - y[:, None])
    model = LabelModel(n_threads=1, max_iter=40).fit(votes)
    assert model.dependent_sources(votes) == []
    assert model.score(votes, y) >= ((votes.mean(axis=1) > 0.5) == y).mean()


def test_copies_do_not_depend_on_the_order_of_items_and_sources():
    votes, _, _ = planted(400, 5, k=3, rng=np.random.default_rng(5), accuracy=(0.5, 0.8), coverage=0.8)
    rng = np.random.default_rng(6)
    copies = [np.where(rng.random(400) < 0.9, votes[:, 0], rng.integers(0, 3, 400)) for _ in range(2)]
    frame = pd.DataFrame(np.column_stack([votes, *copies]), columns=list("abcdefg"))
    plain, rows = LabelModel(n_threads=1).fit(frame), rng.permutation(400)
    moved = frame.iloc[rows, rng.permutation(7)]
    assert len(plain.dependent_sources(frame)) == 2
    assert plain.dependent_sources(moved) == plain.dependent_sources(frame)
    assert np.array_equal(LabelModel(n_threads=2).fit(moved).label_distributions_, plain.label_distributions_[rows])
