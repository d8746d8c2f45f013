"""Sizes as shares and links by a column: constraints about whatever rows there are."""

import numpy as np
import polars as pl
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_validate

from spectrem import GaussianMixture, SelfTrainer, project
from spectrem.constraints import cannot_link, cluster_size, label_proportions, must_link
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError


def pairs_of(values, n):
    """Brute force: all pairs of rows with the same value."""
    same = [(i, j) for i in range(n) for j in range(i + 1, n) if values[i] is not None and values[i] == values[j]]
    return np.array(same, np.int64).reshape(-1, 2)


def data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    household = rng.integers(n // 3, size=n)
    x = rng.normal(size=(n, 2)) + 1.5 * (household % 2)[:, None]
    return x, household


@pytest.mark.parametrize("seed", range(5))
def test_links_by_a_column_are_the_links_of_its_pairs(seed):
    x, household = data(seed=seed)
    person = np.where(household < 20, household, np.nan)  # who has none is free
    options = {"n_components": 3, "random_state": 0, "reg_covar": 1e-2}
    pairs = pairs_of([None if np.isnan(value) else value for value in person.tolist()], len(x))
    for link in (must_link, cannot_link):
        named = GaussianMixture(constraints=[link(column="person")], **options).fit(x, columns={"person": person})
        listed = GaussianMixture(constraints=[link(pairs)], **options).fit(x)
        np.testing.assert_allclose(named.posteriors_, listed.posteriors_, atol=1e-4)
    must = GaussianMixture(constraints=[must_link(column="person")], **options).fit(x, columns={"person": person})
    for i, j in pairs:
        assert must.labels_[i] == must.labels_[j]
    assert must.report_.notes[0].startswith("must link by person: ")


def test_links_by_text():
    names = np.array(["a", "b", "a", "c", "b", "a"])
    own = cannot_link(column="name").links({"name": names}, 6)
    np.testing.assert_array_equal(own.pairs[np.lexsort(own.pairs.T[::-1])], pairs_of(names.tolist(), 6))
    assert must_link(column="name").links({"name": names[3:4]}, 1).pairs.shape == (0, 2)
    assert cannot_link(column="name").links({"name": names[:0]}, 0).pairs.shape == (0, 2)


def test_links_by_a_column_survive_cross_validation():
    x, household = data()
    constraints = [must_link(column="household"), cluster_size(min="20%", max="60%")]
    mixture = GaussianMixture(3, constraints=constraints, assign="feasible", random_state=0, reg_covar=1e-2)
    frame = pl.DataFrame({"household": household})
    folds = KFold(3, shuffle=True, random_state=0)
    found = cross_validate(
        mixture, x, params={"columns": frame}, cv=folds, return_estimator=True, return_indices=True, error_score="raise"
    )
    assert np.isfinite(found["test_score"]).all()
    for fitted, rows in zip(found["estimator"], found["indices"]["train"], strict=True):
        labels = fitted.labels_
        assert len(labels) == len(rows)
        for value in np.unique(household[rows]):
            assert len(set(labels[household[rows] == value].tolist())) == 1
        sizes = np.bincount(labels, minlength=3) / len(rows)
        assert sizes.min() >= 0.2
        assert sizes.max() <= 0.6
    grid = GridSearchCV(mixture, {"n_components": [2, 3]}, cv=folds, error_score="raise").fit(x, columns=frame)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_links_by_a_column_elsewhere():
    scores = np.log([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    named = project(np.exp(scores), must_link(column="pair"), columns={"pair": ["x", "x", "y"]})
    listed = project(np.exp(scores), must_link([[0, 1]]))
    np.testing.assert_allclose(named.proba, listed.proba, atol=1e-6)
    from sklearn.naive_bayes import GaussianNB

    x, household = data()
    y = np.where(np.arange(len(x)) < 40, household % 2, -1)
    trainer = SelfTrainer(GaussianNB(), [must_link(column="household"), *label_proportions([(0.2, 0.8)] * 2)])
    q = trainer.fit(x, np.where(household < 15, -1, y), columns={"household": household}).label_distributions_
    for value in np.unique(household[household < 15]):
        assert np.ptp(q[household == value], axis=0).max(initial=0.0) < 1e-4


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("low", "high"), [("20%", None), ("20 %", "45%"), (0, "40%"), ("33.3%", "33.4%")])
def test_sizes_as_shares(low, high, weighted):
    x, _ = data()
    weights = np.random.default_rng(1).integers(1, 4, len(x)).astype(float) if weighted else None
    total = len(x) if weights is None else weights.sum()
    shares = [0.0 if low == 0 else float(low[:-1]) / 100, None if high is None else float(high[:-1]) / 100]
    counted = cluster_size(shares[0] * total, None if shares[1] is None else shares[1] * total)
    options = {"n_components": 3, "random_state": 0, "reg_covar": 1e-2}
    named = GaussianMixture(constraints=[cluster_size(low, high)], **options).fit(x, sample_weight=weights)
    listed = GaussianMixture(constraints=[counted], **options).fit(x, sample_weight=weights)
    # while parameters move, constraints are met to 1e-4 of their size
    np.testing.assert_allclose(named.posteriors_, listed.posteriors_, atol=1e-4)
    sizes = (named.posteriors_ if weights is None else named.posteriors_ * weights[:, None]).sum(axis=0) / total
    assert sizes.min() >= shares[0] - 1e-5
    assert sizes.max() <= (1 if shares[1] is None else shares[1]) + 1e-5


def test_shares_that_cannot_hold():
    x, _ = data()
    with pytest.raises(InfeasibleConstraintError, match="'cluster size': the smallest sizes of the 3 clusters add up"):
        GaussianMixture(3, constraints=[cluster_size(min="40%")]).fit(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cluster_size(min="20"),
            "cluster_size: expected a number, a share as '20%' or an expectation, got the text \"20\"",
        ),
        (
            lambda: cluster_size(min="x%"),
            "cluster_size: expected a number, a share as '20%'",
        ),
        (lambda: cluster_size(min="120%"), "cluster_size: a share is 100% at most, got '120%'; lower it"),
        (lambda: cluster_size(min="-1%"), 'got the text "-1%"'),
        (lambda: cluster_size(min="nan%"), 'got the text "nan%"'),
        (lambda: cluster_size(min="40%", max="20%"), "got min='40%' and max='20%'"),
        (
            lambda: cluster_size(min=5, max="20%"),
            "got min=5 and max='20%'; write both in one way",
        ),
        (lambda: cluster_size(min="0%"), "cluster_size bounds nothing, got min='0%'"),
        (
            lambda: must_link(),
            "must_link takes pairs of rows or a column, got neither; write must_link([[0, 1], [2, 3]])",
        ),
        (lambda: cannot_link([[0, 1]], column="a"), "cannot_link takes pairs of rows or a column, got both; write"),
        (lambda: must_link(column=3), "must_link: column must be the name of a column, got 3"),
        (
            lambda: GaussianMixture(2, constraints=[must_link(column="home")]).fit(
                data()[0], columns={"house": data()[1]}
            ),
            "must link by home: there is no column 'home'; those given with the data: 'row', 'house'",
        ),
        (
            lambda: GaussianMixture(2, constraints=[cannot_link(column="home")]).fit(data()[0]),
            "cannot link by home: there is no column 'home'; those given with the data: 'row'",
        ),
        (
            lambda: must_link(column="a").links({"a": [1, 2]}, 3),
            "must link by a: 'a' needs a value for each of 3 rows, got (2,)",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InvalidInputError) as error:
        call()
    assert message in str(error.value)
