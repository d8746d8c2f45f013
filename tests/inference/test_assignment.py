"""Labels under constraints against brute force, linear and integer programs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from spectrem.constraints import E, cannot_link, compile_constraints, part
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import assignment
from spectrem.inference.assignment import assign, find_counts
from spectrem.inference.dual import BatchDual, weigh_rows
from spectrem.inference.program import OUT_OF_TIME
from spectrem.inference.result import Status
from spectrem.structures import Categorical, Parts


def by_integer_program(scores, k, rows):
    """Best score by one integer program over everything, None if there is none; no slack."""
    n = len(scores) // k
    possible = np.isfinite(scores)
    once = np.kron(np.eye(n), np.ones((1, k)))
    equality = np.zeros(len(rows.bounds), bool)
    for block in rows.blocks:
        equality[block.start : block.stop] = block.equality
    lower = np.where(equality, rows.bounds, -np.inf)
    result = milp(
        -np.where(possible, scores, 0),
        integrality=np.ones(len(scores)),
        bounds=Bounds(0, possible.astype(float)),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(rows.matrix, lower, rows.bounds)],
        options={"mip_rel_gap": 0.0},
    )
    return None if result.x is None else -result.fun


def by_enumeration(scores, k, rows):
    """Best score less penalties of any labels."""
    n, best = len(scores) // k, -np.inf
    for labels in itertools.product(range(k), repeat=n):
        chosen = np.zeros(len(scores))
        cells = np.arange(n) * k + labels
        chosen[cells] = 1
        excess = rows.matrix @ chosen - rows.bounds
        score = scores[cells].sum()
        for block in rows.blocks:
            own = excess[block.start : block.stop]
            worst = np.abs(own) if block.equality else np.maximum(own, 0)
            if block.slack is None and (worst > 1e-9).any():
                score = -np.inf
            elif block.slack is not None:
                score -= block.slack.strength * worst.sum()
        best = max(best, score)
    return best


def check(scores, k, rows, best, **options):
    """The labels found are worth ``best`` and meet the rows."""
    n = len(scores) // k
    if best is None or best == -np.inf:
        with pytest.raises(InfeasibleConstraintError):
            assign(Categorical(np.full(n, k)), scores, rows, **options)
        return None
    found = assign(Categorical(np.full(n, k)), scores, rows, **options)
    assert found.score == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert found.score == pytest.approx(scores[np.arange(n) * k + found.labels].sum(), rel=1e-12)
    assert found.violation <= 1e-9
    assert found.status == Status.CERTIFIED
    assert found.relaxation >= found.score - 1e-9
    return found


def draw_scores(rng, n, k, ties, impossible):
    scores = rng.integers(0, 4, (n, k)).astype(float) if ties else rng.normal(size=(n, k)) * 3
    if impossible:
        scores[rng.random((n, k)) < 0.3] = -np.inf
        scores[np.arange(n), rng.integers(0, k, n)] = rng.normal(size=n)
    return scores.ravel()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 5), st.booleans(), st.booleans())
def test_counts_of_labels_against_an_integer_program(seed, n, k, ties, impossible):
    rng = np.random.default_rng(seed)
    scores = draw_scores(rng, n, k, ties, impossible)
    low = int(rng.integers(0, n // k + 1))
    rules = [
        (E[...] >= low).per("label").named("least"),
        (E[...] <= n / k + rng.random() * n / k).per("label").named("most"),
    ]
    if rng.random() < 0.3:
        rules.append(E[part("label") == 0] == low)
    structure = Categorical(np.full(n, k))
    rows = compile_constraints(rules, structure)
    assert find_counts(BatchDual(structure, Parts(scores), rows, 0.0)).counted.tolist() == [True]
    check(scores, k, rows, by_integer_program(scores, k, rows))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3), st.booleans(), st.booleans())
def test_any_constraint_against_brute_force(seed, n, k, ties, impossible):
    rng = np.random.default_rng(seed)
    scores = draw_scores(rng, n, k, ties, impossible)
    rules = [
        (E[...] <= 1).per("document", "label").named("once per document"),
        (E[part("label") == 0] >= 1).named("some"),
        (E[part("label") == k - 1] <= 1).slack(penalty=1.5, norm="l1").named("few"),
    ]
    chosen = [rule for rule in rules if rng.random() < 0.6]
    structure = Categorical(np.full(n, k))
    rows = compile_constraints(chosen, structure, {"document": rng.integers(0, 3, n)})
    best = by_enumeration(scores, k, rows)
    if best == -np.inf:
        with pytest.raises(InfeasibleConstraintError):
            assign(structure, scores, rows)
    else:
        assert assign(structure, scores, rows).score == pytest.approx(best, abs=1e-9)


def test_thousands_of_rows_and_prices_from_a_sample():
    rng = np.random.default_rng(0)
    n, k = 20_000, 6
    scores = rng.normal(size=(n, k)) * [1, 1, 1, 1, 1, 4]
    rows = compile_constraints((E[...]).per("label").between(3_000, 3_500), Categorical(np.full(n, k)))
    found = assign(Categorical(np.full(n, k)), scores.ravel(), rows)
    counts = np.bincount(found.labels)
    assert counts.min() >= 3_000
    assert counts.max() <= 3_500
    # Prices prove it: no cycle of moves between labels gains anything.
    loss = np.full((k + 1, k + 1), np.inf)
    for u in range(k):
        own = scores[found.labels == u]
        loss[u, :k] = (own[:, [u]] - own).min(axis=0)
        loss[u, k] = 0 if counts[u] < 3_500 else np.inf
        loss[k, u] = 0 if counts[u] > 3_000 else np.inf
    np.fill_diagonal(loss, 0)
    for v in range(k + 1):
        loss = np.minimum(loss, loss[:, [v]] + loss[[v], :])
    assert loss.diagonal().min() >= -1e-9


@pytest.mark.parametrize(("n", "k"), [(500, 3), (500, 8), (1500, 4)])
def test_many_moves_against_a_linear_program(n, k):
    rng = np.random.default_rng(n + k)
    scores = rng.normal(size=(n, k)) + np.linspace(0, 3, k)
    sizes = rng.multinomial(n, np.full(k, 1 / k))
    structure = Categorical(np.full(n, k))
    rows = compile_constraints([E[part("label") == j] == int(sizes[j]) for j in range(k)], structure)
    found = check(scores.ravel(), k, rows, by_integer_program(scores.ravel(), k, rows))
    assert np.bincount(found.labels).tolist() == sizes.tolist()


def test_more_moves_than_are_remembered():
    # Rows come in the order of what they lose, so that all but the first are forgotten on the way.
    scores = np.column_stack([np.arange(1.0, 201.0), np.zeros(200)]).ravel()
    structure = Categorical(np.full(200, 2))
    found = assign(structure, scores, compile_constraints(E[part("label") == 1] == 150, structure))
    assert np.flatnonzero(found.labels == 1).tolist() == list(range(150))


def test_documents_are_transportations_of_their_own():
    rng = np.random.default_rng(1)
    n, k = 60, 5
    scores = rng.normal(size=n * k)
    document = rng.permutation(np.repeat(np.arange(15), 4))
    structure = Categorical(np.full(n, k))
    rows = compile_constraints((E[...] <= 1).per("document", "label"), structure, {"document": document})
    assert find_counts(BatchDual(structure, Parts(scores), rows, 0.0)).counted.all()
    found = check(scores, k, rows, by_integer_program(scores, k, rows))
    assert len(set(zip(document.tolist(), found.labels.tolist(), strict=True))) == n


def test_rows_that_no_constraint_touches_take_their_best_label():
    scores = np.log([0.9, 0.1, 0.8, 0.2, 0.1, 0.9])
    structure = Categorical([2, 2, 2])
    rows = compile_constraints(
        E[(part("label") == 1) & (part("group") == 0)] == 1, structure, {"group": np.array([0, 0, 1])}
    )
    assert assign(structure, scores, rows).labels.tolist() == [0, 1, 1]
    assert assign(structure, scores, compile_constraints([], structure)).labels.tolist() == [0, 0, 1]


def test_one_label_and_ragged_rows():
    structure = Categorical([1, 1, 1])
    rows = compile_constraints(E[...] == 3, structure)
    assert assign(structure, np.zeros(3), rows).labels.tolist() == [0, 0, 0]
    ragged = Categorical([1, 3, 2])
    rows = compile_constraints((E[...] <= 1).per("label"), ragged)
    found = assign(ragged, np.log([1.0, 0.8, 0.1, 0.1, 0.5, 0.5]), rows)
    assert sorted(found.labels.tolist()) == [0, 1, 2]
    assert found.labels[0] == 0


@pytest.mark.parametrize("many", [4, 30])
@pytest.mark.parametrize(("n", "seed"), [(60, 0), (60, 1), (400, 2)])
def test_few_cells_are_as_good_as_all(monkeypatch, n, seed, many):
    monkeypatch.setattr(assignment, "_MANY_CELLS", many)
    rng = np.random.default_rng(seed)
    k = 4
    scores = draw_scores(rng, n, k, False, True)
    group = rng.integers(0, 3, n)
    rules = [
        (E[...] <= 0.4 * n).per("label").named("most"),
        (E[part("label") == 1] >= 2).per("group").named("some"),
        (E[...] <= n // 8).per("group", "label").named("of a group"),
    ]
    rows = compile_constraints(rules, Categorical(np.full(n, k)), {"group": group})
    check(scores, k, rows, by_integer_program(scores, k, rows))


@pytest.mark.parametrize("seed", range(3))
def test_few_cells_at_bad_prices(monkeypatch, seed):
    def price(dual, problem, on_step):
        table = dual.scores.unary.reshape(-1, 4)
        return float(table.max(1).sum()), (table.max(1, keepdims=True) - table).ravel()

    rng = np.random.default_rng(seed)
    scores = rng.normal(size=60 * 4) + np.tile([0, 0, 0, 2], 60)
    rule = (E[part("label").isin([2, 3])] <= 5).slack(penalty=1.5, norm="l1")
    structure = Categorical(np.full(60, 4))
    rows = compile_constraints(rule, structure)
    whole = assign(structure, scores, rows)
    monkeypatch.setattr(assignment, "_MANY_CELLS", 20)
    monkeypatch.setattr(assignment, "_price", price)
    assert assign(structure, scores, rows).score == pytest.approx(whole.score, abs=1e-9)


def test_labels_within_a_gap_of_the_best(monkeypatch):
    """Budgets leave a gap to the relaxation, up to which the search may stop; at a gap of 0 it goes on to the best."""
    monkeypatch.setattr(assignment, "_MANY_CELLS", 40)
    rng = np.random.default_rng(5)
    n, k = 200, 4
    structure = Categorical(np.full(n, k))
    columns = {"cost": rng.gamma(2.0, 1.0, n).round(2), "document": rng.integers(0, n // 4, n)}
    rules = [
        E[part("cost") * (part("label") == 0)] <= 20.0,
        E[part("cost") * (part("label") == 1)] <= 31.5,
        (E[part("label") == 2] <= 1).per("document"),
        cannot_link([[0, 1], [1, 2]]),
    ]
    rows, scores, heard = compile_constraints(rules, structure, columns), rng.normal(size=n * k) * 2, []
    best = check(scores, k, rows, by_integer_program(scores, k, rows))
    near = assign(structure, scores, rows, gap=0.05, on_step=heard.append)
    assert near.status == Status.CERTIFIED
    assert near.violation <= 1e-9
    assert best.score - 0.05 * abs(best.score) <= near.score <= best.score + 1e-9 <= near.relaxation + 2e-9
    assert near.gap == pytest.approx(near.relaxation - near.score)
    assert heard == sorted(heard)
    assert 0 < heard[0] <= heard[-1] <= 1
    with pytest.raises(InvalidInputError, match="gap must be a share of the score >= 0, got -1"):
        assign(structure, scores, rows, gap=-1)


def test_what_was_found_before_time_ran_out(monkeypatch):
    monkeypatch.setattr(assignment, "_MANY_CELLS", 40)
    rng = np.random.default_rng(6)
    structure, scores = Categorical(np.full(200, 4)), rng.normal(size=800)
    rule = E[part("cost") * (part("label") == 0)] <= 20.0
    rows = compile_constraints(rule, structure, {"cost": rng.gamma(2.0, 1.0, 200)})
    real, runs = assignment._solve, []

    def hurried(*given):
        runs.append(given)
        if len(runs) > 1:
            raise InvalidInputError("no time")
        return real(*given)

    monkeypatch.setattr(assignment, "_solve", hurried)
    with pytest.warns(ConvergenceWarning, match="not proven best"):
        found = assign(structure, scores, rows)
    assert found.status == Status.MAX_ITERATIONS
    assert found.violation <= 1e-9
    assert 0 < found.gap < 1


def test_few_cells_with_penalties(monkeypatch):
    rng = np.random.default_rng(3)
    n, k = 80, 3
    scores = rng.normal(size=n * k)
    structure = Categorical(np.full(n, k))
    rule = (E[part("label") == 0] <= 5).slack(penalty=0.4, norm="l1")
    rows = compile_constraints([rule, E[part("label").isin([0, 1])] >= 60], structure)
    whole = assign(structure, scores, rows)
    monkeypatch.setattr(assignment, "_MANY_CELLS", 4)
    few = assign(structure, scores, rows)
    assert few.score == pytest.approx(whole.score, abs=1e-9)
    assert few.gap == pytest.approx(0.0, abs=1e-7)


def test_weights_count():
    rng = np.random.default_rng(4)
    n, k = 40, 3
    scores, weights = rng.normal(size=n * k), rng.integers(1, 4, n).astype(float)
    structure = Categorical(np.full(n, k))
    rows = compile_constraints((E[...] <= 30).per("label"), structure)
    found = assign(structure, scores, rows, weights=weights)
    weighed = weigh_rows(structure, rows, weights)
    assert found.score == pytest.approx(by_integer_program(scores * np.repeat(weights, k), k, weighed), abs=1e-9)
    assert np.bincount(found.labels, weights).max() <= 30
    alike = assign(structure, scores, rows, weights=np.full(n, 2.0))
    halved = compile_constraints((E[...] <= 15).per("label"), structure)
    assert alike.labels.tolist() == assign(structure, scores, halved).labels.tolist()


def test_weight_zero_takes_what_is_left():
    structure = Categorical([2, 2, 2])
    scores = np.array([0.0, 5.0, 0.0, 9.0, 0.0, 1.0])
    found = assign(
        structure, scores, compile_constraints(cannot_link([[0, 1]]), structure), weights=np.array([1.0, 0.0, 0.0])
    )
    assert found.labels.tolist() == [1, 0, 1]
    assert found.score == pytest.approx(5.0)


def test_labels_that_no_bounds_allow():
    structure = Categorical([2, 2, 2])
    for rule, name in (
        ((E[...] >= 2).per("label").named("both"), "'both'"),
        ((E[part("label") == 1] == 1.5).named("half"), "'half'"),
        ((E[part("label") == 0] <= -1).named("negative"), "'negative'"),
        (((E[...] <= 1).per("label")).named("few"), "'few'"),
    ):
        with pytest.raises(InfeasibleConstraintError, match=f"{name}: no choice of one label per row"):
            assign(structure, np.zeros(6), compile_constraints(rule, structure))
    known = np.array([0.0, -np.inf, 0.0, -np.inf, 0.0, 0.0])
    with pytest.raises(InfeasibleConstraintError, match="'two'"):
        assign(structure, known, compile_constraints((E[part("label") == 1] >= 2).named("two"), structure))


def test_bounds_of_other_rows_are_rounded_too():
    structure = Categorical([3, 3])
    rows = compile_constraints(E[part("label").isin([1, 2])] <= 1.5, structure)
    found = assign(structure, np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0]), rows)
    assert (found.score, found.relaxation, found.gap) == (1.0, 1.0, 0.0)


def test_curved_slack_and_time():
    rng = np.random.default_rng(5)
    structure = Categorical(np.full(40, 2))
    curved = compile_constraints((E[...] <= 1).per("label").slack(penalty=1, norm="l2"), structure)
    with pytest.raises(InvalidInputError, match="slack with norm 'l2'"):
        assign(structure, np.zeros(80), curved)
    share = np.repeat(rng.integers(10**6, 2 * 10**6, 40), 2)
    rule = E[(part("label") == 1) * part("share")] == float(share[::4].sum() + 1)
    rows = compile_constraints(rule, structure, {"share": share.astype(float)})
    with pytest.raises(InvalidInputError, match=r"no labels .* were found within time_limit=0 seconds"):
        assign(structure, rng.normal(size=80), rows, time_limit=0.0)


def test_stopping_early_warns(monkeypatch):
    real = assignment.run_integer

    def hurried(*args):
        return replace(real(*args), status=OUT_OF_TIME)

    monkeypatch.setattr(assignment, "run_integer", hurried)
    structure = Categorical([2, 2, 2])
    pairs = np.array([[0, 0, 1], [1, 2, 2]])
    rules = [(E[(part("label") == 1) & part("row_of").isin(pair.tolist())] <= 1) for pair in pairs.T]
    rows = compile_constraints(rules, structure, {"row_of": np.arange(3)})
    with pytest.warns(ConvergenceWarning, match="not proven best"):
        found = assign(structure, np.tile([0.0, 1.0], 3), rows)
    assert found.status == Status.MAX_ITERATIONS
    assert found.gap == pytest.approx(0.5)


def test_a_program_on_which_presolve_breaks_down():
    p = [
        [0.11584702495521608, 0.6576827687510459, 0.2264702062937379],
        [0.37320628948434487, 0.11931206632792282, 0.5074816441877323],
        [0.2240962833437315, 0.2504907603917586, 0.52541295626451],
        [0.044753833618814756, 0.7038770561571509, 0.2513691102240346],
        [0.43845901946238275, 0.3773117971006089, 0.18422918343700828],
    ]
    structure = Categorical([3] * 5)
    rows = compile_constraints((E[part("label") == 1] == 2.5).slack(penalty=1, norm="l1"), structure)
    found = assign(structure, np.log(p).ravel(), rows)
    assert found.score == pytest.approx(by_enumeration(np.log(p).ravel(), 3, rows))
