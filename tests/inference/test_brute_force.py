"""Decisions and projections at gamma = 0 and -inf on small random tables against every choice of labels there is."""

import itertools
import warnings

import numpy as np
import pytest

from spectrem import project as project_table
from spectrem.constraints import E, cannot_link, compile_constraints, must_link, part
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import project_batch
from spectrem.inference.assignment import assign
from spectrem.structures import Categorical, Parts

LABEL = part("label")
NEAR = 2e-6


def draw(seed):
    """A table of up to five rows with impossible labels, weights of which many are 0, and some constraints."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    sizes = np.full(n, rng.integers(1, 4)) if rng.random() < 0.8 else rng.integers(1, 4, n)
    structure = Categorical(sizes, "row")
    scores = rng.integers(0, 4, structure.n_unary).astype(float) if rng.random() < 0.3 else rng.normal(size=sizes.sum())
    open_one = structure.offsets[:-1] + rng.integers(0, sizes)
    closed = (rng.random(len(scores)) < 0.15) & ~np.isin(np.arange(len(scores)), open_one)
    scores[closed] = -np.inf
    weights = None
    if rng.random() < 0.7:
        weights = (rng.random(n) < 0.6) * rng.choice([0.5, 1.0, 2.0, 3.0], n)
        weights[0] = max(weights[0], 1.0)
    columns = {"group": rng.integers(0, 2, n), "value": rng.choice([0.0, 1.0, 2.0, -1.0, 0.5, 1e3], n)}
    last = int(sizes.max()) - 1
    kinds = [
        (E[...], ("label",)),
        (E[LABEL.isin([last])], ("label",)),
        (E[LABEL == 0], ("row",)),
        (E[...], ("group", "label")),
        (E[LABEL.isin([0, last])], ()),
        (E[(LABEL.isin([last])) * part("value")], ()),
        (E[...], ("row", "label")),
    ]
    chosen = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.15 and n > 1 and (sizes == sizes[0]).all():
            pair = rng.choice(n, 2, replace=False)[None, :]
            chosen.append((must_link if rng.random() < 0.3 else cannot_link)(pair))
            continue
        counted, keys = kinds[rng.integers(len(kinds))]
        bound = float(rng.choice([-1.0, 0.0, 0.5, 1.0, 1.2, 2.0, 3.0]))
        rule = [counted <= bound, counted >= bound, counted == bound][rng.integers(3)]
        rule = rule.per(*keys) if keys else rule
        if rng.random() < 0.6:
            kind, norm = str(rng.choice(["bound", "penalty"])), str(rng.choice(["l1", "linf"]))
            rule = rule.slack(**{kind: float(rng.choice([0.3, 0.5, 1.0, 20.0, 1e3]))}, norm=norm)
        chosen.append(rule)
    return structure, scores, weights, compile_constraints(chosen, structure, columns, weights)


def counted_rows(structure, rows, weights, links_bind):
    """The matrix in which instances count by their weights."""
    matrix = rows.matrix.toarray().astype(float)
    if weights is not None:
        for block in rows.blocks:
            if block.scope != "instance":
                factor = weights if block.weighted else np.where(links_bind, 1.0, weights > 0)
                matrix[block.start : block.stop] *= factor[structure.instance]
    return matrix


def price(rows, matrix, parts, weights):
    """Penalties, and the worst violation beyond the slack allowed."""
    cost, worst = 0.0, 0.0
    excess = matrix @ parts - rows.bounds
    for block in rows.blocks:
        own = excess[block.start : block.stop]
        own = np.abs(own) if block.equality else np.maximum(own, 0.0)
        if block.slack is None:
            worst = max(worst, own.max(initial=0.0))
            continue
        for group in np.unique(block.slack_group):
            at = block.slack_group == group
            norm = {"l1": own[at].sum(), "linf": own[at].max()}[block.slack.norm]
            if block.slack.kind == "bound":
                worst = max(worst, norm - block.slack.strength)
                continue
            instance = rows.row_instance[block.start : block.stop][at][0]
            times = 1.0 if weights is None or instance < 0 else weights[instance]
            cost += times * block.slack.strength * norm
    return cost, worst


def by_enumeration(structure, scores, weights, rows, matrix):
    """The best score less penalties of any labels, -inf if none meet the rows."""
    best, unit = -np.inf, np.ones(structure.n_instances) if weights is None else weights
    for labels in itertools.product(*[range(size) for size in structure.sizes]):
        cells = structure.offsets[:-1] + np.array(labels)
        parts = np.zeros(structure.n_unary)
        parts[cells] = 1.0
        cost, worst = price(rows, matrix, parts, weights)
        if worst <= 1e-7 and np.isfinite(scores[cells]).all():
            best = max(best, float(unit @ scores[cells]) - cost)
    return best


def check(structure, scores, weights, rows, matrix, best, parts):
    """The parts are whole, meet the rows and are worth ``best``."""
    unit = np.ones(structure.n_instances) if weights is None else weights
    assert set(parts) <= {0.0, 1.0}
    np.testing.assert_array_equal(np.add.reduceat(parts, structure.offsets[:-1]), 1.0)
    cost, worst = price(rows, matrix, parts, weights)
    assert worst <= NEAR
    value = float((unit[structure.instance] * parts) @ np.where(parts > 0, scores, 0.0)) - cost
    assert value == pytest.approx(best, rel=NEAR, abs=NEAR)
    return value


def ties_weight_zero(structure, weights, rows):
    """Whether a must-link, which `project` refuses then, ties a row of weight 0."""
    links = [rows.matrix[b.start : b.stop].indices for b in rows.blocks if b.equality and not b.weighted]
    return weights is not None and any((weights[structure.instance[own]] == 0).any() for own in links)


@pytest.mark.parametrize("seed", range(150))
def test_against_every_choice_of_labels(seed):
    structure, scores, weights, rows = draw(seed)
    matrix = counted_rows(structure, rows, weights, True)
    best = by_enumeration(structure, scores, weights, rows, matrix)
    if best == -np.inf:
        with pytest.raises(InfeasibleConstraintError):
            assign(structure, scores, rows, weights=weights)
    else:
        found = assign(structure, scores, rows, weights=weights)
        parts = np.zeros(structure.n_unary)
        parts[structure.offsets[:-1] + found.labels] = 1.0
        value = check(structure, scores, weights, rows, matrix, best, parts)
        assert found.score == pytest.approx(value, rel=NEAR, abs=NEAR)
    if ties_weight_zero(structure, weights, rows):
        with pytest.raises(InvalidInputError, match="must tie instances of positive weight"):
            project_batch(structure, Parts(scores), rows, -np.inf, weights=weights)
        return
    matrix = counted_rows(structure, rows, weights, False)
    best = by_enumeration(structure, scores, weights, rows, matrix)
    if best == -np.inf:
        with pytest.raises(InfeasibleConstraintError):
            project_batch(structure, Parts(scores), rows, -np.inf, weights=weights)
    else:
        found = project_batch(structure, Parts(scores), rows, -np.inf, weights=weights)
        check(structure, scores, weights, rows, matrix, best, found.marginals.unary)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            relaxed = project_batch(structure, Parts(scores), rows, 0.0, weights=weights)
        except InfeasibleConstraintError:
            assert best == -np.inf
            return
    assert relaxed.dual_value >= best - NEAR * max(1.0, abs(best))


def test_labels_that_no_whole_row_of_two_scopes_allows():
    structure = Categorical([3, 3, 3], "row")
    rules = [(E[LABEL == 1] <= 1).per("row"), (E[LABEL.isin([1, 2])] >= 2).named("two of them")]
    weights = np.array([0.0, 0.0, 1.0])
    rows = compile_constraints(rules, structure, {}, weights)
    with pytest.raises(InfeasibleConstraintError, match="'two of them': no feasible q over the corpus"):
        assign(structure, np.zeros(9), rows, weights=weights)


@pytest.mark.parametrize("way", ["decide", -np.inf, 0.0])
def test_a_row_that_no_part_can_meet(way):
    weights = np.array([1.0, 0.0])
    rule = (E[LABEL == 0] >= 0.5).per("group").named("some")
    structure, columns = Categorical([2, 2], "row"), {"group": np.array([0, 1])}
    rows = compile_constraints(rule, structure, columns, weights)
    scores = np.log([0.6, 0.4, 0.3, 0.7])
    if way == "decide":
        with pytest.raises(InfeasibleConstraintError, match="'some'"):
            assign(structure, scores, rows, weights=weights)
        return
    with pytest.raises(InfeasibleConstraintError, match="'some'"):
        project_batch(structure, Parts(scores), rows, way, weights=weights)


def test_penalties_of_a_row_of_weight_zero_are_its_own():
    rule = (E[LABEL == 1] >= 1).per("row").slack(penalty=2)
    table = project_table([[0.9, 0.1], [0.6, 0.4], [0.99, 0.01]], rule, sample_weight=[1, 0, 0])
    assert table.decide().labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_penalised_rows_over_nothing_that_weighs(gamma):
    rule = (E[(LABEL == 0) & (part("group") == "b")] >= 0.5).slack(penalty=1e4)
    groups = {"group": ["a", "b"]}
    table = project_table([[0.6, 0.4], [0.3, 0.7]], rule, gamma, sample_weight=[1, 0], columns=groups)
    assert table.proba[0].tolist() == [1.0, 0.0]
    assert table.objective == pytest.approx(np.log(0.6) - 0.5e4)
