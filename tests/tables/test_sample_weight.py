"""Weights of rows against the obvious oracle: tables and lattices in which rows are repeated."""

import itertools

import numpy as np
import pytest

import spectrem
from spectrem import E, Lattice, part, project
from spectrem.constraints import must_link
from spectrem.exceptions import InvalidInputError

WEIGHTS = np.array([2, 1, 0, 3, 1])
GROUP = np.array(["a", "b", "a", "b", "b"])
ACROSS = [
    (E[part("label") == 0] <= 0.15 * E.count(part("label") == 0)).named("proportion"),
    (E[part("label") == 1].between(0.3, 2.5)).per("group").named("per group"),
]
INSIDE = (E[part("label") == 2] >= 0.4).per("row").named("inside")


def random_table(seed):
    return np.random.default_rng(seed).dirichlet([2.0, 1.5, 1.0], size=5)


def same(ours, theirs, copies, atol=1e-6):
    """The weighted result and that of copies: everything but the prices inside rows, which copies share."""
    assert ours.kl == pytest.approx(theirs.kl, abs=atol)
    assert ours.objective == pytest.approx(theirs.objective, abs=atol)
    assert ours.violation_before == pytest.approx(theirs.violation_before, abs=atol)
    assert ours.violation_after == pytest.approx(theirs.violation_after, abs=atol)
    for one, other in zip(ours.constraints, theirs.constraints, strict=True):
        if "row" in one.keys:
            price = np.bincount(copies, other.price, len(one.price))
            np.testing.assert_allclose(one.price, price, atol=1e2 * atol)
            continue
        for name in ("bound", "price", "before", "after", "violation_before", "violation_after"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e2 * atol)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("constraints", [ACROSS, [INSIDE], [*ACROSS, INSIDE]], ids=["across", "inside", "both"])
def test_weights_of_rows_are_repetitions(constraints, gamma):
    p, copies = random_table(0), np.repeat(np.arange(5), WEIGHTS)
    ours = project(p, constraints, gamma, columns={"group": GROUP}, sample_weight=WEIGHTS)
    theirs = project(p[copies], constraints, gamma, columns={"group": GROUP[copies]})
    same(ours, theirs, copies)
    np.testing.assert_allclose(ours.proba[copies], theirs.proba, atol=1e-6)
    assert max(np.abs(report.price).max() for report in ours.constraints) > 0.1
    assert ours.kl > 0.01


@pytest.mark.parametrize("slack", [{"penalty": 0.5}, {"bound": 0.2}], ids=["penalty", "bound"])
def test_slack(slack):
    p, copies = random_table(1), np.repeat(np.arange(5), WEIGHTS)
    constraints = [constraint.slack(norm="l1", **slack) for constraint in [*ACROSS, INSIDE]]
    ours = project(p, constraints, columns={"group": GROUP}, sample_weight=WEIGHTS)
    theirs = project(p[copies], constraints, columns={"group": GROUP[copies]})
    same(ours, theirs, copies, atol=1e-5)
    np.testing.assert_allclose(ours.proba[copies], theirs.proba, atol=1e-5)


def test_gamma_zero_is_the_same_program():
    p, copies = random_table(2), np.repeat(np.arange(5), WEIGHTS)
    ours = project(p, ACROSS, 0.0, columns={"group": GROUP}, sample_weight=WEIGHTS)
    theirs = project(p[copies], ACROSS, 0.0, columns={"group": GROUP[copies]})
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-8)
    assert ours.kl == pytest.approx(theirs.kl, abs=1e-8)


def test_ones_change_nothing():
    p = random_table(3)
    weighted = project(p, ACROSS, columns={"group": GROUP}, sample_weight=np.ones(5))
    np.testing.assert_array_equal(weighted.proba, project(p, ACROSS, columns={"group": GROUP}).proba)


def test_rows_without_weight_are_projected_at_the_prices_of_the_others():
    p = random_table(0)
    table = project(p, ACROSS[0], sample_weight=WEIGHTS)
    expected = p[2] * np.exp([-table.prices["proportion"][0], 0.0, 0.0])
    np.testing.assert_allclose(table.proba[2], expected / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_weights_of_a_lattice_are_those_of_its_sequences(gamma):
    rng = np.random.default_rng(0)
    rows, links = [rng.normal(size=(n, 3)) for n in (3, 2, 4)], rng.normal(size=(3, 3))
    weights, kind = np.array([2, 0, 3]), np.array(["x", "x", "y"])
    copies = np.repeat(np.arange(3), weights)
    constraints = [
        (E[part("label") == 0] <= 0.2 * E.count(part("label") == 0)).per("kind"),
        (E[part("label") == 1] >= 1.2).per("row"),
    ]
    ours = project(Lattice(rows, links), constraints, gamma, columns={"kind": kind}, sample_weight=weights)
    many = Lattice([rows[i] for i in copies], links)
    theirs = project(many, constraints, gamma, columns={"kind": kind[copies]})
    same(ours, theirs, copies)
    for i, proba in zip(copies, theirs.proba, strict=True):
        np.testing.assert_allclose(ours.proba[i], proba, atol=1e-6)
    assert ours.constraints[0].price.max() > 0.1


def best_by_trying(log_p, weights, feasible, cost=lambda labels: 0.0):
    scored = [
        (weights @ log_p[np.arange(len(log_p)), labels] - cost(np.array(labels)), labels)
        for labels in itertools.product(range(log_p.shape[1]), repeat=len(log_p))
        if feasible(np.array(labels))
    ]
    return max(scored)


@pytest.mark.parametrize("seed", range(3))
def test_decisions_count_rows_by_weight(seed):
    p, weights = random_table(seed), np.array([2.0, 1.5, 0.5, 3.0, 1.0])
    total = (E[part("label") == 0] <= 2.2).named("few")
    decision = project(p, total, sample_weight=weights).decide()
    score, labels = best_by_trying(np.log(p), weights, lambda y: weights @ (y == 0) <= 2.2)
    assert decision.labels.tolist() == list(labels)
    assert decision.score == pytest.approx(score)


def test_rows_that_touch_nobody_of_any_weight():
    p, once = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]], (E[...] <= 1).per("document", "label")
    table = project(p, once, columns={"document": [0, 1]}, sample_weight=[1, 0])
    assert table.decide().labels.tolist() == [0, 0]


def test_must_links_to_rows_without_weight_are_refused():
    with pytest.raises(InvalidInputError) as error:
        project([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]], must_link([[0, 2]]), sample_weight=[1, 2, 0])
    assert str(error.value) == (
        "'must link' must tie instances of positive weight, got weight 0 in instance 2; leave out what ties it, or "
        "give it a small weight"
    )


def test_penalties_inside_rows_count_by_weight_in_decisions():
    p, weights = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([3.0, 1.0])
    dear = (E[part("label") == 0] <= 0).per("row").slack(penalty=2.0, norm="l1")
    decision = project(p, dear, sample_weight=weights).decide()
    score, labels = best_by_trying(np.log(p), weights, lambda y: True, lambda y: 2.0 * weights @ (y == 0))
    assert decision.labels.tolist() == list(labels)
    assert decision.score == pytest.approx(score)


def test_decisions_of_a_lattice_count_sequences_by_weight():
    lattice = Lattice([np.log([[0.6, 0.4]]), np.log([[0.9, 0.1]])])
    one = E[part("label") == 1] >= 2
    assert project(lattice, one, sample_weight=[2, 2]).decide().labels.tolist() == [1, 0]
    # one sequence of weight 1 does not make two
    assert project(lattice, one, sample_weight=[1, 2]).decide().labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "sample_weight must be finite and at least 0, got -1.0 in row 1; 0 leaves a row out"),
        ([1.0, np.nan], "sample_weight must be finite and at least 0, got nan in row 1; 0 leaves a row out"),
        ([1.0, np.inf], "sample_weight must be finite and at least 0, got inf in row 1; 0 leaves a row out"),
        ([1.0], "sample_weight must have shape (2,), one per row of proba, got (1,); leave it out for ones"),
        ([0, 0], "sample_weight must be positive for some row, got zeros only; leave it out for ones"),
    ],
)
def test_weights_that_cannot_be_meant(weights, message):
    with pytest.raises(InvalidInputError) as error:
        project([[0.5, 0.5], [0.2, 0.8]], E[part("label") == 1] >= 1, sample_weight=weights)
    assert str(error.value) == message


def test_weights_per_token_are_refused():
    with pytest.raises(InvalidInputError, match=r"shape \(1,\), one per sequence of the lattice, got \(2,\)"):
        project(Lattice([np.zeros((2, 2))]), E[part("label") == 1] >= 1, sample_weight=[1, 1])


def test_lattice_is_at_the_top():
    assert spectrem.Lattice is spectrem.tables.Lattice
    assert "Lattice" in dir(spectrem)
