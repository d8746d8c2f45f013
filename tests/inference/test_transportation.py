"""Projections at gamma = 0 and -inf onto counts of labels, against linear and integer programs."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from spectrem.constraints import E, compile_constraints, part
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import LinearProgram, Status, project_batch
from spectrem.inference.assignment import find_transports, tidy_rows
from spectrem.inference.dual import BatchDual
from spectrem.structures import Categorical, Parts


def by_program(scores, sizes, rows, weights, whole):
    """Best value by one program over everything, None if there is none; no slack."""
    possible = np.isfinite(scores)
    instance = np.repeat(np.arange(len(sizes)), sizes)
    once = (instance == np.arange(len(sizes))[:, None]).astype(float)
    equality = np.zeros(len(rows.bounds), bool)
    for block in rows.blocks:
        equality[block.start : block.stop] = block.equality
    matrix = rows.matrix.toarray() * np.where(rows.row_instance[:, None] < 0, weights[instance], 1.0)
    result = milp(
        -np.where(possible, scores, 0) * weights[instance],
        integrality=np.full(len(scores), int(whole)),
        bounds=Bounds(0, possible.astype(float)),
        constraints=[
            LinearConstraint(once, 1, 1),
            LinearConstraint(matrix, np.where(equality, rows.bounds, -np.inf), rows.bounds),
        ],
        options={"mip_rel_gap": 0.0},
    )
    return None if result.x is None else -result.fun


def dual_value(scores, sizes, rows, weights, multipliers):
    """``b . lambda + sum of w max(s - U^T lambda)``, from the multipliers alone."""
    copies = np.where(rows.row_instance >= 0, weights[rows.row_instance], 1.0)
    shifted = scores - rows.matrix.T @ multipliers
    tops = np.array([own.max() for own in np.split(shifted, np.cumsum(sizes)[:-1])])
    return float((copies * rows.bounds) @ multipliers + weights @ tops)


def check(structure, scores, rows, gamma, weights=None, **options):
    """The projection is optimal, and at gamma = 0 its multipliers prove it."""
    n, sizes = structure.n_instances, structure.sizes
    unit = np.ones(n) if weights is None else weights
    best = by_program(scores, sizes, rows, unit, gamma == -np.inf)
    if best is None:
        with pytest.raises(InfeasibleConstraintError):
            project_batch(structure, Parts(scores), rows, gamma, weights=weights, **options)
        return None
    found = project_batch(structure, Parts(scores), rows, gamma, weights=weights, **options)
    scale = max(1.0, abs(best))
    near = {"rel": 0.0, "abs": 1e-8 * scale}
    q = found.marginals.unary
    assert found.primal_value == pytest.approx(best, **near)
    assert float((unit[structure.instance] * q) @ np.where(q > 0, scores, 0)) == pytest.approx(best, **near)
    assert found.dual_value == pytest.approx(best, **near)
    assert float(unit @ found.objectives) == pytest.approx(best, **near)
    np.testing.assert_allclose(np.add.reduceat(q, structure.offsets[:-1]), 1.0)
    matrix = rows.matrix.toarray() * np.where(rows.row_instance[:, None] < 0, unit[structure.instance], 1.0)
    excess = matrix @ q - rows.bounds
    for block in rows.blocks:
        own = slice(block.start, block.stop)
        assert (np.abs(excess[own]) if block.equality else excess[own]).max(initial=0.0) <= 1e-9 * n
        assert block.equality or (found.multipliers[own] >= 0).all()
    assert found.violation <= 1e-9 * n
    if gamma == 0:
        assert dual_value(scores, sizes, rows, unit, found.multipliers) == pytest.approx(best, **near)
        tops = scores - rows.matrix.T @ found.multipliers
        np.testing.assert_allclose(found.values, np.maximum.reduceat(tops, structure.offsets[:-1]), atol=1e-9)
        free = unit @ np.maximum.reduceat(scores, structure.offsets[:-1])
        assert found.kl == pytest.approx(free - best, **near)
    else:
        assert not found.multipliers.any()
        assert found.kl is None
    return found


def transported(structure, rows, gamma, weights=None):
    """Which of the problems are transportations."""
    scores = np.zeros(structure.n_unary)
    transports = find_transports(BatchDual(structure, Parts(scores), tidy_rows(rows), 0.0, weights), whole=gamma < 0)
    return np.zeros(1, bool) if transports is None else transports.problems


def draw_scores(rng, n, k, ties, impossible):
    scores = rng.integers(0, 4, (n, k)).astype(float) if ties else rng.normal(size=(n, k)) * 3
    if impossible:
        scores[rng.random((n, k)) < 0.3] = -np.inf
        scores[np.arange(n), rng.integers(0, k, n)] = rng.normal(size=n)
    return scores.ravel()


def certified(found):
    """Whether all labels are whole and proven best."""
    q = found.marginals.unary
    return found.status == Status.CERTIFIED and set(np.unique(q)) <= {0.0, 1.0}


def scaled(rows, factor):
    """The same rows, each multiplied by a positive number."""
    matrix = sp.csr_array(sp.diags_array(factor) @ rows.matrix)
    return Rows(matrix, factor * rows.bounds, rows.row_instance, rows.blocks)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 20),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, -np.inf]),
    st.sampled_from([None, 1.0, 0.3, 7.0]),
)
def test_counts_of_labels_against_a_program(seed, n, k, ties, impossible, gamma, weight):
    rng = np.random.default_rng(seed)
    scores = draw_scores(rng, n, k, ties, impossible)
    unit = 1.0 if weight is None else weight
    least, most = int(rng.integers(0, n // k + 1)), int(rng.integers(-(-n // k), n + 2))
    rules = [(E[...] >= least * unit).per("label").named("least"), (E[...] <= most * unit).per("label").named("most")]
    if rng.random() < 0.4:
        rules.append(E[part("label") == 0] == least * unit)
    if rng.random() < 0.4:
        rules.append(E[part("label") == k - 1] <= (n + 0.5) * unit)  # never met
    structure = Categorical(np.full(n, k))
    rows = compile_constraints(rules, structure)
    rows = scaled(rows, rng.choice([0.1, 1.0, 3.0], len(rows.bounds)))
    weights = None if weight is None else np.full(n, weight)
    assert transported(structure, rows, gamma, weights).all()
    found = check(structure, scores, rows, gamma, weights)
    assert found is None or certified(found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from([0.0, -np.inf]), st.booleans())
def test_documents_some_of_which_do_not_only_count(seed, ties, impossible, gamma, weighed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 16)), int(rng.integers(2, 5))
    document = rng.integers(0, 4, n)
    scores = draw_scores(rng, n, k, ties, impossible)
    columns = {"document": document, "odd": rng.integers(0, 2, n)}
    rules = [(E[...] <= int(rng.integers(1, 4))).per("document", "label").named("most")]
    if rng.random() < 0.7:
        rules.append((E[part("document") == 0] <= 1.5).per("label").named("a fraction"))
    if rng.random() < 0.7:
        rules.append(E[(part("label") == 0) & (part("odd") == 1) & (part("document") == 1)] <= 1)
    if rng.random() < 0.5:
        rules.append((E[part("label") == 1] <= 0).per("instance").named("inside"))
    structure = Categorical(np.full(n, k))
    rows = compile_constraints(rules, structure, columns)
    # Documents of one weight, or not.
    weights = rng.choice([1.0, 2.0], 4)[document] if weighed else None
    if weighed and rng.random() < 0.5:
        weights = rng.choice([1.0, 2.0], n)
    check(structure, scores, rows, gamma, weights)


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_the_other_problems_take_the_usual_path(gamma):
    rng = np.random.default_rng(3)
    document = np.repeat([0, 1, 2], 6)
    structure = Categorical(np.full(18, 3))
    rules = [
        (E[part("document") == 0] <= 2).per("label"),
        (E[part("document") == 1] <= 2.5).per("label"),
        E[(part("document") == 2) & part("label").isin([0, 1])] <= 2,
    ]
    rows = compile_constraints(rules, structure, {"document": document})
    assert transported(structure, rows, gamma).tolist() == [True, gamma == -np.inf, False]
    scores = rng.normal(size=54)
    found = check(structure, scores, rows, gamma)
    assert certified(found) or gamma == 0
    if gamma == 0:
        usual = project_batch(structure, Parts(scores), rows, gamma, solver=LinearProgram())
        assert found.dual_value == pytest.approx(usual.dual_value, abs=1e-8)
        np.testing.assert_allclose(found.marginals.unary, usual.marginals.unary, atol=1e-8)


@pytest.mark.parametrize("rule", [E[part("label") == 1] <= 0.5, E[part("label") == 1] == 1.5])
def test_fractions_of_an_instance_at_zero_and_whole_ones_below(rule):
    structure = Categorical(np.full(3, 2))
    scores = np.array([0.0, 1.0, 0.0, 2.0, 0.0, 3.0])
    rows = compile_constraints(rule, structure)
    assert not transported(structure, rows, 0.0).any()
    found = check(structure, scores, rows, 0.0)
    assert found.marginals.unary.reshape(3, 2)[:, 1].sum() == pytest.approx(rows.bounds[0])
    check(structure, scores, rows, -np.inf)  # rounded inwards, or infeasible


def test_weights_that_differ_take_the_usual_path():
    structure, weights = Categorical(np.full(4, 2)), np.array([1.0, 2.0, 1.0, 1.0])
    rows = compile_constraints(E[part("label") == 1] <= 1, structure)
    assert not transported(structure, rows, 0.0, weights).any()
    assert not transported(structure, rows, -np.inf, weights).any()
    assert not transported(structure, rows, 0.0, np.zeros(4)).any()
    found = check(structure, np.tile([0.0, 1.0], 4), rows, 0.0, weights)
    assert found.primal_value == pytest.approx(1.0)


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_instances_of_no_weight_take_the_prices_of_the_others(gamma):
    structure, weights = Categorical(np.full(5, 2)), np.array([2.0, 2.0, 2.0, 0.0, 0.0])
    rows = compile_constraints(E[part("label") == 1] <= 2, structure)
    scores = np.array([0.0, 1.0, 0.0, 2.0, 0.0, 4.0, 0.0, 0.5, 0.0, 9.0])
    assert transported(structure, rows, gamma, weights).all()
    found = check(structure, scores, rows, gamma, weights)
    assert found.marginals.unary.reshape(5, 2)[:, 1].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0]
    if gamma == -np.inf:  # rounded inwards
        rows = compile_constraints(E[part("label") == 1] <= 3.5, structure)
        assert check(structure, scores, rows, gamma, weights).marginals.unary[6:].tolist() == [1.0, 0.0, 0.0, 1.0]
    label, instance = part("label"), part("instance")
    few, half = E[(label == 1) & (instance < 2)] <= 2, E[(label == 0) & (instance == 2)] <= 1
    for rules, whole in (([few], [True]), ([few, half], [True, gamma < 0])):
        rows = compile_constraints(rules, structure)
        assert transported(structure, rows, gamma, weights).tolist() == whole
        check(structure, scores, rows, gamma, weights)


def test_weights_that_differ_in_rows_that_count_instances_once():
    structure, weights = Categorical(np.full(2, 2)), np.array([1.0, 5.0])
    rows = compile_constraints(E[part("label") == 1] <= 1, structure)
    once = replace(rows, blocks=(replace(rows.blocks[0], weighted=False),))
    for gamma in (0.0, -np.inf):
        found = project_batch(structure, Parts(np.array([0.0, 2.0, 0.0, 1.0])), once, gamma, weights=weights)
        assert found.marginals.unary.tolist() == [1.0, 0.0, 0.0, 1.0]
        assert found.primal_value == pytest.approx(5.0)


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_rows_inside_instances_that_weigh_more(gamma):
    structure, weights = Categorical(np.full(3, 2)), np.array([3.0, 2.0, 3.0])
    rows = compile_constraints((E[part("label") == 1] >= 1).per("instance"), structure)
    assert transported(structure, rows, gamma, weights).all()
    found = check(structure, np.array([1.0, 0.0, 0.0, 1.0, 4.0, 0.0]), rows, gamma, weights)
    np.testing.assert_allclose(found.objectives, [0.0, 1.0, 0.0])
    if gamma == 0:
        np.testing.assert_allclose(found.multipliers, [1.0, 0.0, 4.0])


def test_slack_and_a_solver_that_is_given_take_the_usual_path():
    structure = Categorical(np.full(4, 2))
    soft = compile_constraints((E[part("label") == 1] <= 1).slack(penalty=0.5, norm="l1"), structure)
    assert not transported(structure, soft, 0.0).any()
    rows = compile_constraints(E[part("label") == 1] <= 1, structure)
    scores = Parts(np.array([0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0]))
    assert project_batch(structure, scores, rows, 0.0, solver=LinearProgram()).n_evaluations > 1
    assert project_batch(structure, scores, rows, 0.0).n_evaluations == 1


def test_duplicate_entries_and_zeros():
    structure = Categorical(np.full(2, 2))
    data, place = np.array([0.5, 0.0, 1.0, 0.5]), np.array([1, 0, 3, 1])
    matrix = sp.csr_array((data, place, np.array([0, 4])), shape=(1, 4))
    block = compile_constraints(E[part("label") == 1] <= 1, structure).blocks[0]
    rows = Rows(matrix, np.array([1.0]), np.array([-1]), (block,))
    assert transported(structure, rows, 0.0).all()
    assert matrix.nnz == 4
    found = check(structure, np.array([0.0, 1.0, 0.0, 2.0]), rows, 0.0)
    assert found.marginals.unary.tolist() == [1.0, 0.0, 0.0, 1.0]


def test_labels_that_all_instances_have_cost_nothing():
    # A price on the label that all must take, as no other is possible, would belong to no row.
    structure = Categorical(np.full(3, 2))
    scores = np.array([5.0, -np.inf] * 3)
    rows = compile_constraints([E[part("label") == 0] <= 3, E[part("label") == 1] >= 0], structure)
    found = check(structure, scores, rows, 0.0)
    assert found.multipliers.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_errors_are_those_of_the_usual_path(gamma):
    structure = Categorical(np.full(4, 2))
    scores = np.zeros(8)
    for rules in (
        [E[part("label") == 0] >= 5],
        [E[part("label") == 0] >= 3, (E[part("label") == 1] >= 2).named("more of the other")],
        [(E[...] <= 1).per("label").named("few")],
    ):
        rows = compile_constraints(rules, structure)
        with pytest.raises(InfeasibleConstraintError) as counted:
            project_batch(structure, Parts(scores), rows, gamma)
        with pytest.raises(InfeasibleConstraintError) as usual:
            project_batch(structure, Parts(scores), rows, 0.0, solver=LinearProgram())
        assert str(counted.value) == str(usual.value)
        assert counted.value.rows == usual.value.rows
    few = scores.copy()
    few[[0, 2, 4]] = -np.inf
    rows = compile_constraints(E[part("label") == 0] >= 2, structure)
    with pytest.raises(InfeasibleConstraintError, match="at most"):
        project_batch(structure, Parts(few), rows, gamma)
    few[:2] = -np.inf
    with pytest.raises(InvalidInputError, match="at least one structure possible"):
        project_batch(structure, Parts(few), rows, gamma)


def test_whole_numbers_that_no_labels_meet():
    structure = Categorical(np.full(3, 2))
    rows = compile_constraints((E[part("label") == 0] == 1.5).named("half"), structure)
    with pytest.raises(InfeasibleConstraintError, match=r"'half'.*whole structures cannot"):
        project_batch(structure, Parts(np.zeros(6)), rows, -np.inf)


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_infeasible_documents_can_be_skipped(gamma):
    structure = Categorical(np.full(3, 2))
    rules = [(E[part("label") == 0] <= 0).per("instance").named("none"), (E[part("label") == 1] <= 1).named("few")]
    scores = np.array([1.0, -np.inf, 1.0, 0.0, 1.0, 0.0])
    rows = compile_constraints(rules[:1], structure)
    found = project_batch(structure, Parts(scores), rows, gamma, infeasible="skip")
    assert found.skipped.tolist() == [0]
    assert found.marginals.unary.tolist() == [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]


def test_a_hundred_thousand_rows_at_once(python_steps):
    def solve(n, k=20):
        rng = np.random.default_rng(0)
        structure = Categorical(np.full(n, k))
        scores = Parts((rng.normal(size=(n, k)) + np.linspace(0, 2, k)).ravel())
        rows = compile_constraints((E[...]).per("label").between(n // 40, n // 10), structure)
        found = []
        steps = python_steps(lambda: found.append(project_batch(structure, scores, rows, 0.0)))
        return found[0], steps

    solve(400)  # compiles
    few, (found, many) = solve(400)[1], solve(100_000)
    assert many < few + 100  # no loop over instances outside the kernels
    assert found.dual_value == pytest.approx(found.primal_value, rel=1e-12)
    assert certified(found)
    sizes = found.marginals.unary.reshape(100_000, 20).sum(axis=0)
    assert sizes.min() >= 2_500
    assert sizes.max() <= 10_000
