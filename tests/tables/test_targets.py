"""Soft targets from batches: the prices of the whole set, found a batch at a time."""

import json

import numpy as np
import pytest

from spectrem import ConstrainedTargets, E, Lattice, part, project
from spectrem.constraints import must_link
from spectrem.exceptions import InvalidInputError

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


def test_a_state_goes_on_where_it_was_saved():
    scores, columns = predictions()
    constraints = [BY_DOMAIN, AT_LEAST, E[LABEL == "ham"] / E.count(..., each="row") <= 0.4]
    whole, first, second = make(constraints), make(constraints), make(constraints)
    go_through(whole, scores, columns, epochs=1)
    go_through(whole, scores, columns, epochs=1, seed=2)
    go_through(first, scores, columns, epochs=1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    go_through(second, scores, columns, epochs=1, seed=2)
    for name, prices in whole.prices_.items():
        np.testing.assert_array_equal(second.prices_[name], prices)
    earlier = {name: value for name, value in first.state_dict().items() if name != "curvature"}
    with pytest.raises(InvalidInputError, match="state must be what state_dict"):
        first.load_state_dict(earlier)
    with pytest.raises(InvalidInputError, match=r"state must be that of the same constraints, .*; make the object as"):
        make(SHARE).load_state_dict(first.state_dict())
    make(SHARE).load_state_dict(make(SHARE).state_dict())  # before any batch


def test_rows_of_values_that_come_late_have_prices_in_order():
    rule = (E[LABEL == 1] <= 5).per("domain")
    targets = ConstrainedTargets(rule, n_rows=30, across_batches=["domain"])
    scores, domains = np.log(np.tile([0.1, 0.9], (30, 1))), np.array(["b", "a", "c"])[np.arange(30) // 10]
    for start in range(0, 30, 10):
        targets.update(scores[:10], {"domain": domains[start : start + 10]})
    for _ in range(200):
        targets.update(scores, {"domain": domains})
    exact = project(scores, rule, columns={"domain": domains}, scores="log")
    np.testing.assert_allclose(targets.prices_[repr(rule)], exact.prices[repr(rule)], atol=0.01)
    seen = targets.targets(scores[:2], {"domain": ["z", "a"]})
    np.testing.assert_allclose(seen, [[0.1, 0.9], [0.5, 0.5]], atol=0.01)  # nothing is known of domain z
    assert targets.prices_[repr(rule)].shape == (3,)


def test_the_dual_of_sequences():
    rng = np.random.default_rng(3)
    rows = [rng.normal(size=(n, 2)) for n in rng.integers(1, 6, size=60)]
    moves = np.array([[0.5, -0.5], [0.0, 0.3]])
    constraints = [
        E[LABEL == "V"] == "30%",
        (E[LABEL == "V"] >= 0.5).per("row"),
        E[(LABEL == "V") & (part("previous") == "V")] <= 5,
    ]
    for rules in (constraints[:2], constraints):
        exact, targets = (ConstrainedTargets(rules, n_rows=60, labels=["N", "V"]) for _ in range(2))
        expected = exact.solve(Lattice(rows, moves))
        table = project(Lattice(rows, moves), rules, labels=["N", "V"])
        np.testing.assert_array_equal(np.concatenate(expected), np.concatenate(table.proba))
        for _ in range(30):
            order = rng.permutation(60)
            for start in range(0, 60, 20):
                targets.update(Lattice([rows[k] for k in order[start : start + 20]], moves))
        found = targets.targets(Lattice(rows, moves))
        assert [own.shape for own in found] == [own.shape for own in rows]
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=0.02)


def test_torch_like_arrays_and_impossible_labels():
    scores, columns = predictions()
    scores[::7, 0] = -np.inf
    targets = make(SHARE)
    soft = targets.update(scores.astype(np.float32), columns)
    assert soft.shape == scores.shape
    assert (soft[::7, 0] == 0).all()
    np.testing.assert_allclose(soft.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("constraints", "options", "message"),
    [
        (SHARE, {"gamma": -1.0}, "gamma must be -inf or at least 0"),
        (SHARE, {"n_rows": 0}, "n_rows must be an integer >= 1; got 0"),
        (SHARE, {"within_batch": "document"}, "within_batch must list names, got 'document'; put it in a list"),
        (ONE_EACH, {"within_batch": []}, "'once' is per 'document': name it in within_batch if every batch holds all"),
        (must_link([(0, 1)]), {}, "is about rows by number, or about a column that is not in within_batch"),
        (must_link(column="town"), {}, "is about rows by number, or about a column that is not in within_batch"),
        (E[LABEL == "spam"] <= E.count(..., each="domain"), {}, "looks at 'domain' over the whole set, which no batch"),
        (E[part("word_frequency")] <= 3, {}, "looks at 'word_frequency' over the whole set"),
        (E[LABEL == "span"] <= 3, {}, "there is no label 'span'; did you mean 'spam'"),
        (E[part("town") == "x"] <= 3, {}, "there is no column 'town'"),
        (SHARE, {"n_rows": None}, "n_rows must be given where constraints span batches, as 'share' does, got None"),
        (SHARE, {"n_rows": 3}, "log_probabilities must have at most n_rows = 3 rows, got 4; n_rows counts the whole"),
        (SHARE, {"gamma": 0.0}, "gamma must be above 0 where constraints span batches, as 'share' does, got 0.0"),
    ],
    ids=lambda own: None,
)
def test_what_is_refused(constraints, options, message):
    scores, columns = predictions(4)
    with pytest.raises(InvalidInputError, match=message):
        make(constraints, **options).update(scores, columns)


def test_solve_wants_all_rows():
    scores, columns = predictions(6)
    with pytest.raises(InvalidInputError, match="must hold all n_rows = 400 rows to be solved, got 6; give batches to"):
        make(SHARE).solve(scores, columns)


@pytest.mark.parametrize(("epochs", "tolerance"), [(2, 0.1), (20, 0.01)])
def test_prices_approach_the_exact_ones(epochs, tolerance):
    scores, columns = predictions()
    constraints = [SHARE, (E[LABEL == "ham"] >= "20%").per("domain").named("ham")]
    exact, targets = make(constraints), make(constraints)
    exact.solve(scores, columns)
    go_through(targets, scores, columns, epochs)
    assert np.abs(exact.prices_["share"]).min() > 0.3
    for name, prices in exact.prices_.items():
        np.testing.assert_allclose(targets.prices_[name], prices, atol=tolerance)


def test_prices_with_a_memory_follow_a_model_that_changes():
    scores, columns = predictions()
    other = np.log(scores[:, ::-1] * 0 + 1 / 3)
    errors = []
    for memory in (None, 2):
        targets = make(SHARE, memory=memory)
        go_through(targets, scores, columns, epochs=5)
        go_through(targets, other, columns, epochs=1)
        errors.append(abs(targets.targets(other)[:, 2].mean() - 0.25))
    assert errors[1] < 1e-3 < 0.02 < errors[0]
    with pytest.raises(InvalidInputError, match="memory must be"):
        make(SHARE, memory=0)
