"""Known shares of labels: what they compile to, what they do to posteriors, and what they refuse."""

import numpy as np
import pytest

from spectrem import GaussianMixture, project
from spectrem.constraints import E, compile_constraints, label_proportions, part
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical

PROBA = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 50)


def test_rows():
    rows = compile_constraints(label_proportions({0: 0.25, 2: (0.5, 1)}), Categorical([3, 3]), {"row": [0, 1]})
    assert rows.matrix.toarray().tolist() == [[1, 0, 0, 1, 0, 0], [0, 0, -1, 0, 0, -1]]
    assert rows.bounds.tolist() == [0.5, -1.0]
    assert [block.equality for block in rows.blocks] == [True, False]


def test_sequences_are_shares_of_all_labels():
    assert label_proportions([0.2, (0.3, 0.4), 0.5]) == label_proportions({0: 0.2, 1: (0.3, 0.4), 2: 0.5})
    assert label_proportions(np.array([0.2, 0.8])) == label_proportions({0: 0.2, 1: 0.8})


def test_series_name_their_labels():
    pandas = pytest.importorskip("pandas")
    counted = pandas.Series([1, 1, 0, 1]).value_counts(normalize=True)
    assert label_proportions(counted) == label_proportions({1: 0.75, 0: 0.25})


def test_tables_have_the_shares():
    table = project(PROBA, label_proportions({"a": 0.5, "c": (0.1, 0.2)}), labels=["a", "b", "c"])
    shares = table.proba.mean(axis=0)
    np.testing.assert_allclose(shares[0], 0.5, atol=1e-6)
    assert 0.1 - 1e-6 <= shares[2] <= 0.2 + 1e-6
    assert abs(PROBA.mean(axis=0)[0] - 0.5) > 0.1
    one = E[part("label") == "a"] == 25
    np.testing.assert_allclose(
        project(PROBA, label_proportions({"a": 0.5}), labels=["a", "b", "c"]).proba,
        project(PROBA, one, labels=["a", "b", "c"]).proba,
        atol=1e-8,
    )


def test_slack_lets_shares_be_rough():
    [share] = label_proportions({0: 0.5})
    strict, rough = (project(PROBA, own).proba.mean(axis=0)[0] for own in (share, share.slack(penalty=0.1, norm="l1")))
    assert abs(strict - 0.5) < 1e-6 < abs(rough - 0.5)


def test_shares_of_a_mixture_are_of_the_weight_of_its_rows():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 2)) + np.repeat([[0, 0], [1.5, 0], [0, 1.5]], 30, axis=0)
    weights = rng.integers(1, 4, 90).astype(float)
    shares = label_proportions([0.2, (0.3, 0.35), 0.5])
    mixture = GaussianMixture(3, constraints=shares, random_state=0, n_threads=1, tol=1e-2)
    found = weights @ mixture.fit(x, sample_weight=weights).posteriors_ / weights.sum()
    np.testing.assert_allclose(found[[0, 2]], [0.2, 0.5], atol=1e-4)
    assert 0.3 - 1e-4 <= found[1] <= 0.35 + 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: label_proportions({"a": 0.7, "b": (0.4, 1)}),
            "label_proportions: the lowest shares add up to 1.1, more than 1; lower some",
        ),
        (
            lambda: label_proportions({"a": -0.1}),
            "label_proportions: the share of 'a' must be in [0, 1], or a pair low <= high in it; got -0.1",
        ),
        (
            lambda: label_proportions({"a": (0.1, 0.2, 0.3)}),
            "label_proportions: the share of 'a' must be in [0, 1], or a pair low <= high in it; got (0.1, 0.2, 0.3)",
        ),
        (
            lambda: label_proportions({"a": np.nan}),
            "label_proportions: the share of 'a' must be in [0, 1], or a pair low <= high in it; got nan",
        ),
        (
            lambda: label_proportions([0.2, "many"]),
            "label_proportions: the share of 1 must be in [0, 1], or a pair low <= high in it; got 'many'",
        ),
        (
            lambda: label_proportions([0.2, 0.3]),
            "label_proportions: the shares of all labels add up to 0.5, less than 1; raise some, or write {label: "
            "share} for a few labels only",
        ),
        (lambda: label_proportions([]), "label_proportions: there are no shares; leave the constraint out"),
        (
            lambda: label_proportions(0.2),
            "label_proportions takes a mapping or a sequence of shares, got 0.2; write {'spam': 0.1}",
        ),
        (
            lambda: project(PROBA, label_proportions({3: 0.2})),
            "'proportion of 3': there is no label 3; the labels are 0, 1, 2",
        ),
        (
            lambda: GaussianMixture(3, constraints=label_proportions({3: 0.2})).fit(PROBA),
            "'proportion of 3': there is no label 3; the labels are 0, 1, 2",
        ),
    ],
)
def test_input_that_cannot_be_meant(make, message):
    with pytest.raises(InvalidInputError) as error:
        make()
    assert str(error.value) == message
