"""Which rows conflict: against all subsets of rows by linear programs, and the messages that name them."""

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize as so
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrem import E, part
from spectrem import project as project_table
from spectrem.constraints import cluster_size, linear
from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference import Status, project_batch
from spectrem.inference.conflict import explain_infeasible, find_conflict
from spectrem.inference.dual import BatchDual
from spectrem.structures import Categorical, Chain, Parts

LABEL = part("label")


def block(name, start, stop, equality=False, scope="corpus", slack=None):
    return Block(name, start, stop, equality, scope, slack, np.arange(stop - start), {})


def violation(structure, scores, rows, subset, weights):
    """Least sum of violations of some rows over all tables, beyond slack on each row alone."""
    matrix = rows.matrix.toarray() * np.where(rows.row_instance[:, None] < 0, weights[structure.instance], 1.0)
    n, m = structure.n_unary, len(subset)
    above, limit = [], []
    for at, row in enumerate(subset):
        own = next(b for b in rows.blocks if b.start <= row < b.stop)
        give = 0.0 if own.slack is None else own.slack.strength
        for sign in (1.0, -1.0)[: 2 if own.equality else 1]:
            above.append(np.concatenate([sign * matrix[row], -np.eye(m)[at]]))
            limit.append(sign * rows.bounds[row] + give)
    each = (structure.instance[None, :] == np.arange(structure.n_instances)[:, None]).astype(float)
    upper = np.concatenate([np.where(np.isneginf(scores.unary), 0.0, 1.0), np.full(m, np.inf)])
    found = so.linprog(
        np.concatenate([np.zeros(n), np.ones(m)]),
        A_ub=np.array(above) if above else None,
        b_ub=limit if above else None,
        A_eq=np.hstack([each, np.zeros((len(each), m))]),
        b_eq=np.ones(len(each)),
        bounds=np.column_stack([np.zeros(n + m), upper]),
    )
    return found.fun


def random_problem(rng):
    """A small table in one piece, with rows of every kind whose bounds are whole or halves."""
    sizes = rng.integers(1, 4, rng.integers(2, 5))
    structure = Categorical(sizes)
    unary = rng.normal(size=structure.n_unary)
    first = structure.offsets[:-1] + rng.integers(0, sizes)
    unary[(rng.random(len(unary)) < 0.2) & ~np.isin(np.arange(len(unary)), first)] = -np.inf
    weights = rng.choice([1.0, 1.0, 2.0, 0.5], len(sizes))
    likely = structure.smoothed_max(Parts(unary), 1.0)[1].unary
    matrix, bounds, instance, blocks = [np.ones(structure.n_unary)], [99.0], [-1], [block("whole", 0, 1)]
    for k in range(1, int(rng.integers(3, 7))):
        coefficients = rng.choice([-1.0, 0.0, 1.0, 2.0], structure.n_unary)
        inside = rng.random() < 0.3
        at = int(rng.integers(0, len(sizes))) if inside else -1
        if inside:
            coefficients *= structure.instance == at
        if not coefficients.any():  # a row without entries would be a problem of its own
            coefficients[structure.offsets[at] if inside else 0] = 1.0
        kind = rng.random()
        slack = Slack("penalty", "l1", 1.0) if kind < 0.1 else Slack("bound", "l1", 0.5) if kind < 0.3 else None
        matrix.append(coefficients)
        near = coefficients * np.where(inside, 1.0, weights[structure.instance]) @ likely
        bounds.append(np.rint(2 * near) / 2 + rng.choice([-0.5, -0.5, 0.0, 0.5]))
        instance.append(at)
        blocks.append(block(f"row {k}", k, k + 1, rng.random() < 0.3, "instance" if inside else "corpus", slack))
    rows = Rows(sp.csr_array(np.array(matrix)), np.array(bounds), np.array(instance), tuple(blocks))
    return structure, Parts(unary), rows, weights


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 2**32 - 1))
def test_conflicts_are_the_smallest_there_are(seed):
    structure, scores, rows, weights = random_problem(np.random.default_rng(seed))
    dual = BatchDual(structure, scores, rows, 1.0, weights)
    hard = [b.start for b in rows.blocks if b.slack is None or b.slack.kind == "bound"]
    far = violation(structure, scores, rows, hard, weights)
    conflict = find_conflict(dual, 0)
    if far < 1e-9:
        assert conflict is None
        return
    assert conflict is not None
    assert violation(structure, scores, rows, list(conflict.rows), weights) > 1e-6
    assert conflict.irreducible
    assert conflict.smallest
    assert conflict.multipliers.all()
    for k in range(1, len(conflict.rows)):
        for fewer in combinations(hard, k):
            assert violation(structure, scores, rows, list(fewer), weights) < 1e-9


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), gamma=st.sampled_from([0.0, 0.3, 1.0]))
def test_projections_name_a_smallest_conflict(seed, gamma):
    structure, scores, rows, weights = random_problem(np.random.default_rng(seed))
    hard = [b.start for b in rows.blocks if b.slack is None or b.slack.kind == "bound"]
    if violation(structure, scores, rows, hard, weights) < 1e-9:
        return
    with pytest.raises(InfeasibleConstraintError, match="no feasible q") as caught:
        project_batch(structure, scores, rows, gamma, weights=weights)
    named = list(caught.value.rows)
    assert violation(structure, scores, rows, named, weights) > 1e-6
    for fewer in combinations(hard, len(named) - 1):
        assert violation(structure, scores, rows, list(fewer), weights) < 1e-9
    for row in named:
        assert repr(rows.blocks[row].name) in str(caught.value) or "its possible parts" in str(caught.value)


def table(n=100, k=4):
    p = np.maximum(np.random.default_rng(0).dirichlet(np.full(k, 0.5), n), 1e-6)
    return p / p.sum(axis=1, keepdims=True)


CORPUS = "; relax one of the bounds, give one of the constraints slack (a penalty or a bound), or leave one of them out"
INSIDE = (
    "; relax one of the bounds, give one of the constraints slack (a penalty or a bound), drop the instance, or leave "
    'constraints out there with infeasible="skip"'
)
SMALLEST = "; this is the smallest set of rows that conflict"
IDLE = (E[LABEL == 3] <= 90).named("idle")
CASES = {
    "two": (
        [(E[LABEL == 1] >= 60).named("many"), (E[LABEL == 1] <= 40).named("few"), IDLE],
        "'many': no feasible q over the corpus (>= 60, and the others leave 40 at most); it conflicts with 'few' over "
        f"the corpus (<= 40, and the others leave 60 at least){SMALLEST}{CORPUS}",
    ),
    "names by default": (
        [E[LABEL == 1] >= 60, E[LABEL == 1] <= 40],
        "'E[part(\"label\") == 1] >= 60': no feasible q over the corpus (>= 60, and the others leave 40 at most); it "
        "conflicts with 'E[part(\"label\") == 1] <= 40' over the corpus (<= 40, and the others leave 60 at "
        f"least){SMALLEST}{CORPUS}",
    ),
    "three": (
        [
            (E[LABEL == 0] >= 30).named("a"),
            (E[LABEL == 1] >= 30).named("b"),
            IDLE,
            (E[LABEL <= 1] <= 50).named("both"),
        ],
        "'a': no feasible q over the corpus (>= 30, and the others leave 20 at most); it conflicts with 'b' over the "
        "corpus (>= 30, and the others leave 20 at most) and with 'both' over the corpus (<= 50, and the others leave "
        f"60 at least){SMALLEST}{CORPUS}",
    ),
    "shares": (
        [(E[LABEL == 0] >= 60).named("a"), (E[LABEL == 1] == 50).named("b"), IDLE],
        "'a': no feasible q over the corpus (>= 60); it conflicts with 'b' over the corpus (== 50); the bounds of "
        f"these 2 rows sum to 110, and together they can reach 100 at most{SMALLEST}{CORPUS}",
    ),
    "least sizes": (
        [IDLE, cluster_size(min=30)],
        "'cluster size': no feasible q in label 0 (>= 30), label 1 (>= 30), label 2 (>= 30) and 1 more row; the bounds "
        f"of these 4 rows sum to 120, and together they can reach 100 at most{SMALLEST}{CORPUS}",
    ),
    "largest sizes": (
        [IDLE, cluster_size(max=20)],
        "'cluster size': no feasible q in label 0 (<= 20), label 1 (<= 20), label 2 (<= 20) and 1 more row; the bounds "
        f"of these 4 rows sum to 80, and together they can come to 100 at least{SMALLEST}{CORPUS}",
    ),
    "rows": (
        [(E[LABEL <= 1] >= 0.7).per("row").named("high"), (E[LABEL <= 1] <= 0.6).per("row").named("low")],
        "'high': no feasible q in row 0 (>= 0.7, and the others leave 0.6 at most); it conflicts with 'low' in row 0 "
        f"(<= 0.6, and the others leave 0.7 at least){SMALLEST} (100 separate problems are infeasible){INSIDE}",
    ),
    "slack": (
        [
            (E[LABEL == 1] >= 60).slack(bound=5, norm="l1").named("many"),
            (E[LABEL == 1] <= 40).slack(bound=5).named("few"),
        ],
        "'many': no feasible q over the corpus (>= 60 with slack 5, and the others leave 45 at most); it conflicts "
        f"with 'few' over the corpus (<= 40 with slack 5, and the others leave 55 at least){SMALLEST}{CORPUS}",
    ),
    "penalties hold always": (
        [
            (E[LABEL == 1] <= 10).slack(penalty=1).named("soft"),
            (E[LABEL == 1] >= 60).named("many"),
            (E[LABEL == 1] <= 40).named("few"),
        ],
        "'many': no feasible q over the corpus (>= 60, and the others leave 40 at most); it conflicts with 'few' over "
        f"the corpus (<= 40, and the others leave 60 at least){SMALLEST}{CORPUS}",
    ),
    "alone": (
        [IDLE, (E[LABEL == 1] >= 101).named("many")],
        "'many': no feasible q over the corpus (>= 101, and it can be 100 at most); relax the bound, give the "
        "constraint slack (a penalty or a bound), or leave it out",
    ),
}


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_messages(case, gamma):
    constraints, message = CASES[case]
    with pytest.raises(InfeasibleConstraintError) as caught:
        project_table(table(), constraints, gamma)
    assert str(caught.value) == message


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_groups_and_labels_that_are_known(gamma):
    p = table()
    p[:70] = [1, 0, 0, 0]
    two = [(E[LABEL == 1] >= 20).named("many"), (E[LABEL == 2] >= 15).named("some"), IDLE]
    with pytest.raises(InfeasibleConstraintError, match=r"'many'.*>= 20.*'some'.*>= 15.*sum to 35.*reach 30 at most"):
        project_table(p, two, gamma)
    groups = [(E[LABEL == 1] >= 8).per("page").named("many"), (E[LABEL == 1] <= 6).per("page").named("few")]
    with pytest.raises(
        InfeasibleConstraintError,
        match=r"'many': no feasible q in page 0 \(>= 8, and the others leave 6 at most\).*10 separate problems",
    ):
        project_table(table(), groups, gamma, columns={"page": np.arange(100) // 10})


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_rows_of_the_corpus_beside_rows_inside_instances(gamma):
    rules = [(E[LABEL == 1] >= 30).named("many"), (E[LABEL == 1] <= 0.5).per("row").named("cap"), IDLE]
    with pytest.raises(InfeasibleConstraintError) as caught:
        project_table(table(50), rules, gamma)
    message = str(caught.value)
    assert message.startswith("'many': no feasible q over the corpus (>= 30); it conflicts with 'cap' in row ")
    assert f"and 38 more rows; no subset of these rows conflicts{INSIDE}" in message  # 41 rows capped: at most 29.5
    assert "idle" not in message
    assert len(caught.value.rows) == 42


def test_whole_structures_that_cannot_meet_what_expectations_can():
    rules = [(E[LABEL == 1] >= 2.2).named("many"), (E[LABEL == 1] <= 2.8).named("few"), IDLE]
    with pytest.raises(InfeasibleConstraintError) as caught:
        project_table(table(5), rules, -np.inf)
    assert str(caught.value) == (
        "'many': no feasible q over the corpus (>= 2.2); it conflicts with 'few' over the corpus (<= 2.8); "
        f"expectations could meet them, whole structures cannot; no subset of these rows conflicts{CORPUS}"
    )


def test_many_rows_take_little_time():
    rng = np.random.default_rng(0)
    p = table(3000, 10)
    cells = sp.random_array((500, p.size), density=0.003, rng=rng, format="csr")
    cells.data[:] = 1.0
    rules = [linear(cells, 0.7 * (cells @ p.ravel()), name="features"), (E[...] >= 301).per("label").named("sizes")]
    with pytest.raises(InfeasibleConstraintError, match=r"'sizes': .*sum to 3010, and together they can reach 3000"):
        project_table(p, rules)
    tight = linear(cells, 0.001 * (cells @ p.ravel()), name="features")
    with pytest.raises(InfeasibleConstraintError, match=r"'features': no feasible q in row .* of its matrix"):
        project_table(p, [tight, IDLE])


def test_of_too_many_rows_some_may_have_no_part_in_the_conflict():
    p = table(1000)
    rules = [(E[LABEL == 1] >= 600).named("many"), (E[LABEL == 1] <= 0.5).per("row").named("cap")]
    with pytest.raises(InfeasibleConstraintError, match="the conflict is among these rows, of which some may have no"):
        project_table(p, rules)


def test_paths_conflict_too():
    """Each tag is possible alone; only the forbidden transition keeps the sentence from having both."""
    structure = Chain([2], n_states=2)
    scores = Parts(np.zeros(4), (np.array([[0.0, -np.inf], [0.0, 0.0]]),))
    rules = [
        linear([[1.0, 0, 0, 0]], 0.8, ">=", name="first"),
        linear([[0, 1.0, 0, 0]], 0.9, name="idle"),
        linear([[0, 0, 0, 1.0]], 0.8, ">=", name="then"),
    ]
    dual = BatchDual(structure, scores, compile_constraints(rules, structure), 1.0)
    conflict = find_conflict(dual, 0)
    assert conflict.rows.tolist() == [0, 2]
    assert conflict.smallest
    assert conflict.allowed == pytest.approx([-0.2, -0.2])


def test_rows_that_hold_have_no_conflict():
    structure = Categorical([2, 2])
    rows = compile_constraints([E[LABEL == 1] <= 1, E[LABEL == 1] >= 1], structure)
    assert find_conflict(BatchDual(structure, Parts(np.zeros(4)), rows, 1.0), 0) is None


def test_one_row_of_very_many_different_parts():
    n = 100_001
    row = linear(np.random.default_rng(0).uniform(0.5, 1, (1, 2 * n)), 10.0, name="few")
    with pytest.raises(InfeasibleConstraintError) as error:
        project_table(np.full((n, 2), 0.5), row)
    assert str(error.value) == (
        "'few': no feasible q over the corpus (<= 10); relax the bound, give the constraint slack (a penalty or a "
        "bound), or leave it out"
    )


def test_rows_without_a_part_in_a_proof_are_not_left_out_with_it():
    """Of every problem, not only of the one that the message is about."""
    labels = Categorical([3, 3])
    rules = [E[LABEL == 0] >= 0.9, E[LABEL == 1] >= 0.9, E[LABEL == 2] <= 0.1]
    rows = compile_constraints([rule.per("instance") for rule in rules], labels)
    dual = BatchDual(labels, Parts(np.zeros(6)), rows, 1.0)
    proof = np.repeat([1.0, 1.0, 0.6], 2)
    infeasible = np.full(2, Status.INFEASIBLE, np.int8)
    assert dual.infeasible(proof, np.ones(2, bool)).all()
    assert explain_infeasible(dual, infeasible, proof).rows == (0, 1, 2, 3)
    rng = np.random.default_rng(0)
    scores = Parts(3 * rng.normal(size=300))
    labels = Categorical(np.full(100, 3))
    rows = compile_constraints([rule.per("instance") for rule in rules], labels)
    assert (project_batch(labels, scores, rows, infeasible="skip").skipped < 200).all()


def test_whole_structures_leave_out_the_rows_that_conflict_in_every_instance():
    """At gamma = -inf there is no proof by prices: each problem is searched, and its other rows stay."""
    labels = Categorical(np.full(4, 3))
    half = (E[LABEL == 0] == 0.5).per("instance").named("half")  # expectations can meet it, labels cannot
    not_first = (E[LABEL == 0] <= 0.5).per("instance").named("not the first")
    rows = compile_constraints([half, not_first], labels)
    scores = Parts(np.tile([1.0, 0.5, 0.0], 4))
    found = project_batch(labels, scores, rows, -np.inf, infeasible="skip")
    assert found.skipped.tolist() == [0, 1, 2, 3]
    assert found.marginals.unary.reshape(4, 3).argmax(axis=1).tolist() == [1, 1, 1, 1]
