"""Rows that constraints do not tell apart share their coefficients; results are those of every row by itself."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from spectrem import E, part, project
from spectrem.constraints import at_most, cannot_link, linear
from spectrem.constraints.compilation import rows as pieces
from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.text import flatten
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference.batch import project_batch
from spectrem.inference.dual import BatchDual
from spectrem.tables.project import compile_table, expected_before, expected_of, read_cells

LABEL = part("label")
N, K = 60, 3
FEW = {
    "shares": [E[LABEL == 0].between("25%", "30%"), E[LABEL == 2] <= "45%"],
    "kinds": [(E[LABEL == 1] <= "30%").per("kind")],
    "two columns": [(E[LABEL == 1] <= 2).per("kind", "owner"), E[LABEL == 0] >= 25],
    "missing keys": [at_most(1, 1, per="owner")],
    "a condition": [E[(LABEL == 1) & (part("size") > 2)] <= 3],
    "weights": [E[part("size") * (LABEL == 0)] >= 40],
    "a ratio": [E[LABEL == 0] == 0.4 * E.count(part("size") > 1)],
    "penalty": [(E[LABEL == 0] >= 45).slack(penalty=0.7)],
    "tied penalty": [(E[LABEL == 0] <= 3).per("kind").slack(penalty=2.0)],
    "bounded slack": [(E[LABEL == 0] <= 3).per("kind").slack(bound=1.5)],
    "many rows": [(E[...] <= 2.2).per("serial", "label")],
}


def table(seed=0, impossible=True):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(K), N)
    if impossible:
        proba[::7, 1] = 0.0
        proba /= proba.sum(axis=1, keepdims=True)
    columns = {
        "kind": rng.choice(["a", "b", "c"], N).tolist(),
        "owner": [None if k % 5 == 0 else f"o{k % 8}" for k in range(N)],
        "size": rng.integers(1, 4, N),
        "serial": np.arange(N) // 3,
    }
    return proba, columns


def cells_of(proba, columns, weights=None, labels=None, scores="probabilities"):
    cells = read_cells(proba, labels, scores)
    cells = replace(cells, weights=weights)
    return cells, cells.user_columns(columns)


WEIGHTS = {"none": None, "some": np.linspace(0.5, 2.0, N), "zeros": np.where(np.arange(N) % 6 == 0, 0.0, 1.5)}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("constraints", FEW.values(), ids=FEW.keys())
def test_rows_are_those_of_every_row_by_itself(constraints, weights):
    cells, given = cells_of(*table(), weights)
    found = compile_table(flatten(constraints), cells, given)
    assert found.alike is not None
    assert found.matrix.shape[1] < cells.structure.n_unary
    whole = compile_constraints(constraints, cells.structure, given, weights)
    np.testing.assert_allclose(found.whole.matrix.toarray(), whole.matrix.toarray())
    np.testing.assert_allclose(found.bounds, whole.bounds)
    for own, other in zip(found.blocks, whole.blocks, strict=True):
        assert {k: v.tolist() for k, v in own.keys.items()} == {k: v.tolist() for k, v in other.keys.items()}
        assert own.slack_group.tolist() == other.slack_group.tolist()
    values = np.random.default_rng(1).random(cells.structure.n_unary)
    np.testing.assert_allclose(expected_of(cells, found, values), expected_of(cells, whole, values))
    np.testing.assert_allclose(expected_before(cells, found), expected_before(cells, whole))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("constraints", FEW.values(), ids=FEW.keys())
def test_projection_is_that_of_every_row_by_itself(constraints, weights, gamma, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 7)
    cells, given = cells_of(*table(), weights)
    rows = compile_table(flatten(constraints), cells, given)
    structure = cells.structure
    found = project_batch(structure, cells.scores, rows, gamma, weights=weights, tol=1e-10)
    wanted = project_batch(structure, cells.scores, rows.whole, gamma, weights=weights, tol=1e-10)
    assert found.status == wanted.status
    np.testing.assert_allclose(found.marginals.unary, wanted.marginals.unary, atol=1e-7)
    np.testing.assert_allclose(found.multipliers, wanted.multipliers, atol=1e-6)
    for name in ("dual_value", "primal_value", "kl"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-6)
    np.testing.assert_allclose(found.objectives, wanted.objectives, atol=1e-6)
    np.testing.assert_allclose(found.instance_violation, wanted.instance_violation, atol=1e-7)
    assert found.instance_status.tolist() == wanted.instance_status.tolist()


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("constraints", FEW.values(), ids=FEW.keys())
def test_problems_have_the_same_units(constraints, weights):
    cells, given = cells_of(*table(), weights)
    rows = compile_table(flatten(constraints), cells, given)
    found, wanted = (BatchDual(cells.structure, cells.scores, own, 1.0, weights) for own in (rows, rows.whole))
    for name in ("scale", "size", "lever", "row_weight", "instance_weight"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), err_msg=name)
    direction = 9 * found.terms.project(np.ones(len(rows.bounds)))

    def by_row(dual):  # problems may be numbered otherwise
        unmet = dual.infeasible(direction, np.ones(dual.n_problems, np.bool_))
        return np.stack([dual.problem_weight, unmet])[:, dual.row_problem]

    np.testing.assert_allclose(by_row(found), by_row(wanted))
    assert found.n_problems == wanted.n_problems


@pytest.mark.parametrize("largest", [0.3, 4000.0], ids=["common prices", "normalisers underflow"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_passes_over_sorted_rows_are_those_over_every_row(weights, largest):
    cells, given = cells_of(*table(), weights)
    rows = compile_table(flatten(FEW["many rows"]), cells, given)
    found, wanted = (BatchDual(cells.structure, cells.scores, own, 0.5, weights) for own in (rows, rows.whole))
    assert found.row_problem.tolist() == wanted.row_problem.tolist()
    prices = largest * np.random.default_rng(2).random(len(rows.bounds))
    everything = np.ones(found.n_problems, np.bool_)
    assert (found._pass_by_kind(prices, everything) is None) == (largest > 1)
    for active in (everything, np.arange(found.n_problems) % 3 > 0):
        own, other = found.evaluate(prices, active), wanted.evaluate(prices, active)
        np.testing.assert_allclose(own.value[active], other.value[active], rtol=1e-12)
        at = active[found.row_problem]
        np.testing.assert_allclose(own.gradient[at], other.gradient[at], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_project_hands_back_the_same(gamma, monkeypatch):
    proba, columns = table()
    constraints = [*FEW["shares"], *FEW["kinds"], E[LABEL == 1] >= 0.5]  # whose size is that of its coefficients
    found = project(proba, constraints, gamma, columns=columns, tol=1e-10)
    monkeypatch.setattr(import_module("spectrem.tables.project"), "_distinct_rows", lambda *_: None)
    wanted = project(proba, constraints, gamma, columns=columns, tol=1e-10)
    np.testing.assert_allclose(found.proba, wanted.proba, atol=1e-7)
    np.testing.assert_allclose(found.objective, wanted.objective, rtol=1e-9)
    np.testing.assert_allclose(found.violation_before, wanted.violation_before)
    assert found.decide().labels.tolist() == wanted.decide().labels.tolist()
    assert found.decide().score == pytest.approx(wanted.decide().score)
    for own, other in zip(found.constraints, wanted.constraints, strict=True):
        for name in ("bound", "before", "after", "tolerance"):
            np.testing.assert_allclose(getattr(own, name), getattr(other, name), atol=1e-6)


APART = {
    "a row": (E[LABEL == 1] <= 0.5).per("row"),
    "the number of a row": E[(LABEL == 1) & (part("row") < 5)] <= 2,
    "values counted once": E[LABEL == 1] <= 0.5 * E.count(LABEL == 1, each="kind"),
    "links": cannot_link([[0, 1]]),
    "a matrix": linear(np.eye(2, N * K), 0.4, "<="),
    "a value for every cell": E[part("cell") * (LABEL == 1)] <= 4,
    "most rows of their own": (E[LABEL == 1] <= 0.5).per("mostly"),
}


@pytest.mark.parametrize("constraint", APART.values(), ids=APART.keys())
def test_rows_that_are_told_apart_are_compiled_one_by_one(constraint):
    proba, columns = table()
    columns |= {"cell": np.random.default_rng(2).random((N, K)), "mostly": np.arange(N) // 1.5}
    cells, given = cells_of(proba, columns)
    rows = compile_table(flatten(constraint), cells, given)
    assert rows.alike is None
    assert rows.whole is rows
    assert rows.matrix.shape[1] == N * K


@pytest.mark.parametrize("constraints", [[E[LABEL == 0] >= 70], [E[LABEL == 0] >= 30, E[LABEL == 0] <= 20]])
def test_constraints_that_cannot_hold_are_told_as_for_every_row_by_itself(constraints, monkeypatch):
    proba, _ = table()
    with pytest.raises(InfeasibleConstraintError) as found:
        project(proba, constraints)
    monkeypatch.setattr(import_module("spectrem.tables.project"), "_distinct_rows", lambda *_: None)
    with pytest.raises(InfeasibleConstraintError) as wanted:
        project(proba, constraints)
    assert str(found.value) == str(wanted.value)


def test_an_error_names_parts_of_the_table():
    proba, columns = table()
    columns["size"] = np.where(np.arange(N) == 37, np.nan, 1.0)
    with pytest.raises(InvalidInputError, match=f"on part {37 * K}"):
        project(proba, E[part("size") * (LABEL == 0)] <= 4, columns=columns)
