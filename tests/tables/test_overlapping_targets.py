"""Targets from batches whose constraints over the whole set overlap, beside the projection of all rows at once."""

import json

import numpy as np
import pytest

from spectrem import ConstrainedTargets, E, Lattice, part

LABEL, ALL = part("label"), E.count(..., each="row")
SHARES = {0: 0.8, 1: 0.15, 2: 0.05}
N = 400


def predictions(n=N, k=3, sharpness=2.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = sharpness * rng.normal(size=(n, k))
    columns = {"cost": rng.uniform(0.5, 1.5, n), "document": np.arange(n) // 2, "domain": rng.integers(12, size=n)}
    columns |= {f"f{j}": rng.integers(2, size=n) for j in range(12)}
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)), columns


def take(columns, rows):
    return {name: column[rows] for name, column in columns.items()}


def learn(targets, scores, columns, updates, size=20, seed=1):
    """Batches of neighbouring rows two by two, in a new order in every epoch."""
    rng, done, pair = np.random.default_rng(seed), 0, 2 if size > 1 else 1
    while done < updates:
        order = rng.permutation(len(scores) // pair)
        for start in range(0, len(order) * pair // size * size // pair, size // pair):
            chosen = order[start : start + size // pair]
            rows = (pair * chosen[:, None] + np.arange(pair)).ravel()
            targets.update(scores[rows], take(columns, rows))
            done += 1
            if done == updates:
                return


def compare(rules, scores, columns, updates, size=20, gamma=1.0, **options):
    """Targets after some updates, and those of the whole set, with the prices of both."""
    options = {"n_rows": len(scores), "within_batch": ["document"], "across_batches": ["domain"]} | options
    exact, targets = ConstrainedTargets(rules, gamma, **options), ConstrainedTargets(rules, gamma, **options)
    expected = exact.solve(scores, columns)
    learn(targets, scores, columns, updates, size)
    return targets.targets(scores, columns), expected, targets.prices_, exact.prices_


def share(number, value, name=None):
    return (E[number == LABEL] == value * ALL).named(name or f"share of {number}")


def test_shares_that_leave_nothing_to_other_labels():
    scores, columns = predictions(k=6, sharpness=3.0, seed=5)
    found, expected, _, _ = compare([share(*own) for own in SHARES.items()], scores, columns, 300)
    np.testing.assert_allclose(found.mean(axis=0)[:3], list(SHARES.values()), atol=2e-3)
    assert np.abs(found - expected).mean() < 1e-3  # the other labels have 1 / t at the t-th update


@pytest.mark.parametrize(("size", "tolerance"), [(50, 1e-3), (20, 1e-3), (1, 0.02)])
def test_shares_that_sum_to_one(size, tolerance):
    """Their joint curvature is singular: prices are unique but for what is added to all three."""
    scores, columns = predictions()
    found, expected, prices, exact = compare([share(*own) for own in SHARES.items()], scores, columns, 400, size)
    np.testing.assert_allclose(found.mean(axis=0), list(SHARES.values()), atol=max(tolerance, 0.005))
    np.testing.assert_allclose(found, expected, atol=5 * tolerance)
    apart = [np.ptp([own[name][0] for own in (prices, exact)]) for name in exact]
    np.testing.assert_allclose(apart, apart[0], atol=10 * tolerance)


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_that_are_undecided(seed):
    """A batch moves prices no farther than those before it allow, however often it is looked at."""
    scores, columns = predictions(n=200, sharpness=3.0, seed=seed)
    found, expected, _, _ = compare([share(*own) for own in SHARES.items()], scores, columns, 80, gamma=0.05)
    assert np.abs(found - expected).mean() < 2e-3


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_a_share_and_a_cost_on_one_label(gamma):
    scores, columns = predictions()
    rules = [share(0, 0.5, "share"), (E[part("cost") * (LABEL == 0)] == 0.55 * ALL).named("cost")]
    found, expected, prices, exact = compare(rules, scores, columns, 400, gamma=gamma)
    np.testing.assert_allclose(found, expected, atol=0.01)
    for name in exact:
        np.testing.assert_allclose(prices[name], exact[name], atol=0.05)


def features(n=12):
    """Rows over many columns that all overlap."""
    return [(E[(LABEL == 0) & (part(f"f{j}") == 1)] <= 0.3 * E.count(part(f"f{j}") == 1, each="row")) for j in range(n)]


@pytest.mark.parametrize(
    "rules",
    [
        features(),
        [*features(4), share(1, 0.5)],
        [share(0, 0.6), (E[LABEL == 1] >= 0.3 * ALL), (E[LABEL != 0] >= 0.3 * ALL), (E[LABEL == 2] <= 0.2 * ALL)],
        [share(0, 0.5), (E[LABEL == 0] == 0.4 * ALL).slack(penalty=0.4, norm="l1"), (E[LABEL <= 1] <= 0.7 * ALL)],
        [share(0, 0.5), (E[LABEL == 1] == 0.3 * ALL).per("domain").slack(bound=4.0, norm="l2")],
        [share(0, 0.5), (E[LABEL == 1] == 0.3 * ALL).per("domain").slack(penalty=0.7, norm="l2")],
        [share(0, 0.5), (E[LABEL == 1] == 0.4 * ALL).per("domain").slack(bound=4.0, norm="linf")],
        [share(0, 0.5), (E[LABEL == 1].between("20%", "25%")).per("domain")],
    ],
    ids=["columns", "more rows than labels", "inequalities", "l1", "l2 bound", "l2 penalty", "linf bound", "groups"],
)
def test_rows_that_overlap(rules):
    scores, columns = predictions(n=200)
    found, expected, _, exact = compare(rules, scores, columns, 200)
    assert np.abs(found - expected).mean() < 6e-3
    assert sum(np.abs(own).sum() for own in exact.values()) > 0.5


def test_multipliers_of_inequalities_are_never_below_0():
    scores, columns = predictions(n=100)
    targets, rng = ConstrainedTargets(features(), n_rows=100), np.random.default_rng(0)
    held = np.zeros(12, bool)
    for _ in range(50):
        rows = rng.permutation(100)[:5]
        targets.update(scores[rows], take(columns, rows))
        prices = np.concatenate(list(targets.prices_.values()))
        assert (prices >= 0).all()
        held |= prices == 0
    assert held.any()


def test_a_label_that_has_hardly_any_probability():
    """Its price has far to go, which holds back neither the other rows nor those that the batch does not show."""
    scores, columns = predictions()
    scores[:, 2] -= 900.0
    rules = [share(2, 0.05), (E[LABEL == 0] == 0.6 * ALL), (E[LABEL == 1] >= 10).per("domain")]
    found, expected, prices, exact = compare(rules, scores, columns, 100)
    np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(prices["share of 2"], exact["share of 2"], atol=0.5)
    assert exact["share of 2"][0] < -890


def test_what_is_impossible_holds_nothing_back():
    scores, columns = predictions()
    scores[:, 2] = -np.inf
    targets = ConstrainedTargets([share(2, 0.05), share(0, 0.6)], n_rows=N)
    learn(targets, scores, columns, 100)
    assert targets.prices_["share of 2"] == 0
    np.testing.assert_allclose(targets.targets(scores, columns).mean(axis=0), [0.6, 0.4, 0.0], atol=0.005)


def test_groups_that_a_batch_does_not_show():
    """Their rows demand a number, of which a label without probability in their first batch gives none."""
    scores = np.log(np.tile([1.0 - 1e-12, 1e-12], (40, 1)))
    rule = (E[LABEL == 1] >= 5).per("domain")
    targets = ConstrainedTargets(rule, n_rows=40, across_batches=["domain"])
    targets.update(scores[:1], {"domain": [0]})
    for _ in range(40):
        targets.update(scores[:1], {"domain": [1]})
    before = targets.prices_[repr(rule)]
    assert np.isfinite(before).all()
    for _ in range(150):
        for domain in (0, 1):
            targets.update(scores[:20], {"domain": np.full(20, domain)})
    np.testing.assert_allclose(targets.prices_[repr(rule)], np.log(1e12 / 3), rtol=0.01)


def test_lattices_whose_rows_overlap():
    rng = np.random.default_rng(3)
    rows, moves = [rng.normal(size=(n, 3)) for n in rng.integers(1, 6, size=60)], 0.7 * np.eye(3)
    rules = [(E[number == LABEL] == f"{value:.0%}").named(str(number)) for number, value in SHARES.items()]
    exact, targets = (ConstrainedTargets(rules, n_rows=60) for _ in range(2))
    expected = np.concatenate(exact.solve(Lattice(rows, moves)))
    for _ in range(100):
        order = rng.permutation(60)
        for start in range(0, 60, 20):
            targets.update(Lattice([rows[k] for k in order[start : start + 20]], moves))
    np.testing.assert_allclose(np.concatenate(targets.targets(Lattice(rows, moves))), expected, atol=0.01)


def test_a_state_keeps_the_joint_curvature():
    scores, columns = predictions()
    first, second = (ConstrainedTargets(features(), n_rows=N) for _ in range(2))
    learn(first, scores, columns, 10)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for targets in (first, second):
        learn(targets, scores, columns, 10, seed=2)
    assert first.state_dict() == second.state_dict()


def test_a_row_times_a_thousand_says_the_same():
    scores, columns = predictions()
    rules = [share(0, 0.5), E[LABEL == 1] <= 0.2 * ALL]
    plain = [*rules, E[part("cost") * (LABEL == 0)] == 0.55 * ALL]
    large = [*rules, E[1000 * part("cost") * (LABEL == 0)] == 550 * ALL]
    found = [compare(own, scores, columns, 40)[0] for own in (plain, large)]
    np.testing.assert_allclose(*found, atol=1e-9)


def test_a_row_said_twice_changes_nothing():
    scores, columns = predictions()
    rules = [share(0, 0.5), E[LABEL == 1] <= 0.2 * ALL]
    once, expected, _, _ = compare(rules, scores, columns, 200)
    twice, *_ = compare([*rules, E[7 * (LABEL == 1)] <= 1.4 * ALL], scores, columns, 200)
    np.testing.assert_allclose(once, expected, atol=0.01)
    np.testing.assert_allclose(twice, expected, atol=0.01)


def test_rows_within_batches_take_up_curvature():
    """Of two rows of a document one at most has label 1, which most would both have."""
    scores, columns = predictions(sharpness=3.0)
    scores[:, 1] += 4.0
    rules = [(E[LABEL == 1] <= 1).per("document"), (E[LABEL == 1] == 0.45 * ALL)]
    found, expected, _, _ = compare(rules, scores, columns, 200)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_many_rows_in_groups():
    """So many that their joint curvature is not factorised."""
    rng = np.random.default_rng(0)
    scores, _ = predictions(n=1200)
    columns = {"domain": rng.permutation(np.arange(1200) // 2)}
    rules = [(E[LABEL == 0] <= 0.3 * ALL).per("domain"), share(1, 0.5)]
    found, expected, prices, _ = compare(rules, scores, columns, 200, size=200)
    assert np.abs(found - expected).mean() < 0.02
    assert len(prices[repr(rules[0])]) == 600
    assert (prices[repr(rules[0])] >= 0).all()
