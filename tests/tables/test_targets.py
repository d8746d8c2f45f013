"""Soft targets from batches: the prices of the whole set, found a batch at a time."""

import numpy as np
import pytest

from spectrem import ConstrainedTargets, E, part, project

LABEL = part("label")
SHARE = (E[LABEL == "spam"] == 0.25 * E.count(..., each="row")).named("share")
NUMBER = (E[LABEL == "spam"] == 120).named("number")
ONE_EACH = (E[LABEL == "spam"] <= 1).per("document").named("once")
BY_DOMAIN = (E[LABEL == "spam"].between("20%", "30%")).per("domain").named("by domain")
AT_LEAST = (E[LABEL == "eggs"] >= 50).per("domain").named("at least")
NAMES = ["eggs", "ham", "spam"]
N = 400


def predictions(n=N, k=3, sharpness=2.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = sharpness * rng.normal(size=(n, k))
    columns = {"document": np.arange(n) // 2, "domain": np.array(["b", "a", "c"])[rng.integers(3, size=n)]}
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)), columns


def take(columns, rows):
    return {name: column[rows] for name, column in columns.items()}


def go_through(targets, scores, columns, epochs, size=50, seed=1):
    """Batches of whole documents, in a new order in every epoch."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(scores) // 2)
        for start in range(0, len(order), size // 2):
            chosen = order[start : start + size // 2]
            rows = np.concatenate([2 * chosen, 2 * chosen + 1])
            targets.update(scores[rows], take(columns, rows))


def make(constraints, gamma=1.0, **options):
    known = {"n_rows": N, "labels": NAMES, "within_batch": ["document"], "across_batches": ["domain"]}
    return ConstrainedTargets(constraints, gamma, **(known | options))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("constraints", [SHARE, [SHARE, ONE_EACH], [BY_DOMAIN, AT_LEAST]])
def test_a_whole_epoch_is_projected_exactly(constraints, gamma):
    scores, columns = predictions()
    targets = make(constraints, gamma)
    expected = project(scores, constraints, gamma, columns=columns, labels=NAMES, scores="log")
    np.testing.assert_array_equal(targets.solve(scores, columns), expected.proba)
    for name, prices in targets.prices_.items():
        np.testing.assert_array_equal(prices, expected.prices[name])
    if gamma > 0:  # and batches at these prices have the same targets
        rows = np.arange(100, 200)
        np.testing.assert_allclose(targets.targets(scores[rows], take(columns, rows)), expected.proba[rows], atol=1e-6)


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 1.0])
def test_constraints_within_batches_are_solved_in_each(gamma):
    scores, columns = predictions()
    rule = (E[LABEL == "ham"] <= 0.5).per("row")
    constraints = [ONE_EACH] if gamma == -np.inf else [ONE_EACH, rule]
    targets = make(constraints, gamma, n_rows=None)
    rows = np.arange(100, 160)
    batch = project(scores[rows], constraints, gamma, columns=take(columns, rows), labels=NAMES, scores="log")
    np.testing.assert_array_equal(targets.update(scores[rows], take(columns, rows)), batch.proba)
    whole = project(scores, constraints, gamma, columns=columns, labels=NAMES, scores="log")
    np.testing.assert_allclose(batch.proba, whole.proba[rows], atol=1e-7)
    assert targets.prices_ == {}


@pytest.mark.filterwarnings("ignore:1 of 1 constrained problems ran out of iterations")  # at 1e-5 of 1e-8
@pytest.mark.parametrize(("gamma", "sharpness"), [(1.0, 1.0), (0.5, 5.0)])
@pytest.mark.parametrize(
    "constraints",
    [
        SHARE,
        NUMBER,
        [SHARE, ONE_EACH],
        BY_DOMAIN,
        [AT_LEAST, SHARE],
        [E[part("label") == name] == f"{share}%" for name, share in (("eggs", 50), ("ham", 30), ("spam", 20))],
        (E[LABEL == "spam"] == 0.25 * E.count(..., each="row")).slack(penalty=0.5, norm="l1"),
        (E[LABEL == "spam"] == "20%").per("domain").slack(bound=5.0, norm="l2"),
        (E[LABEL == "spam"] == 0.5 * E[LABEL == "ham"]).per("domain"),
        E[LABEL == "spam"] / E.count(part("domain") == "a", each="row") <= 0.4,
    ],
    ids=lambda own: None,
)
def test_prices_of_batches_become_those_of_the_whole_set(constraints, gamma, sharpness):
    scores, columns = predictions(sharpness=sharpness)
    exact, targets = make(constraints, gamma), make(constraints, gamma)
    expected = exact.solve(scores, columns)
    go_through(targets, scores, columns, epochs=1)
    first = np.abs(targets.targets(scores, columns) - expected).mean()
    go_through(targets, scores, columns, epochs=12, seed=2)
    last = np.abs(targets.targets(scores, columns) - expected).mean()
    assert first < 0.05
    assert last < 4e-3
