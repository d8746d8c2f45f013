"""Newton's method on products of labels: instances of several independent choices, many rows at their bounds."""

import numpy as np
import pytest
from scipy.special import softmax
from typed_pairs import case, sentences

from spectrem.constraints import argument_types, compile_constraints
from spectrem.inference import Newton, QuasiNewton, Status, project_batch
from spectrem.inference.batch import choose_solver
from spectrem.inference.dual import BatchDual
from spectrem.structures import Categorical, Chain, Parts, Product


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_another_solver(seed, gamma):
    structure, scores, rows = case([2, 4, 3, 6], seed)
    assert isinstance(choose_solver(BatchDual(structure, scores, rows, gamma), 1e-8, None), Newton)
    found = project_batch(structure, scores, rows, gamma, solver=Newton(tol=1e-9))
    other = project_batch(structure, scores, rows, gamma, solver=QuasiNewton(tol=1e-9, max_iter=5000))
    assert found.status == Status.SOLVED
    assert found.violation <= 1e-8
    assert found.dual_value == pytest.approx(other.dual_value, abs=1e-7)
    np.testing.assert_allclose(found.marginals.unary, other.marginals.unary, atol=1e-5)


def test_weights_of_instances():
    structure, scores, rows = case([3, 3], 5)
    weights = np.array([2.0, 0.5])
    found = project_batch(structure, scores, rows, 1.0, weights=weights, solver=Newton(tol=1e-9))
    plain = project_batch(structure, scores, rows, 1.0, solver=Newton(tol=1e-9))
    np.testing.assert_allclose(found.marginals.unary, plain.marginals.unary, atol=1e-6)


def test_problems_with_more_rows_off_their_bounds_than_slots(monkeypatch):
    """They are handed to another solver, with the same result."""
    structure, scores, rows = case([3, 12], 1)
    few = project_batch(structure, scores, rows, 1.0)
    sharp = Parts(np.where(np.isneginf(scores.unary), -np.inf, 0.0))  # all rows are violated alike
    found = project_batch(structure, sharp, rows, 1.0, solver=Newton(tol=1e-9))
    other = project_batch(structure, sharp, rows, 1.0, solver=QuasiNewton(tol=1e-9, max_iter=5000))
    assert len(rows.bounds) > 400
    assert few.violation <= 1e-7
    assert found.violation <= 1e-7
    np.testing.assert_allclose(found.marginals.unary, other.marginals.unary, atol=1e-5)


def test_a_step_that_ends_at_bounds_is_shortened(monkeypatch):
    """From these multipliers the full step, cut at the bounds, goes uphill; no other solver is needed for that."""
    relations = ("none", "Kill", "Live_In", "Located_In", "OrgBased_In", "Work_For")
    kinds = {"Kill": "Peop Peop", "Live_In": "Peop Loc", "Located_In": "Loc Loc", "OrgBased_In": "Org Loc"}
    rules = argument_types({name: tuple(own.split()) for name, own in {**kinds, "Work_For": "Peop Org"}.items()})
    structure, columns = sentences([2], ("Loc", "Org", "Other", "Peop"), relations)
    rows = compile_constraints(rules, structure, columns)
    scores = [0.67, -1.93, -1.22, 2.47, 1.52, -0.1, -0.85, -0.57]
    scores += [1.66, -0.64, 3.44, 1.54, 0.34, 2.13, 6.13, -0.44, 0.48, 0.92, 1.06, 0.33]
    start = [0, 0, 0.7, 0, 0.12, 0, 0.29, 0, 0.32, 0, 0, 0]

    def refuse(*_):
        raise AssertionError("handed to another solver")

    monkeypatch.setattr(QuasiNewton, "solve", refuse)
    found = project_batch(structure, Parts(np.array(scores)), rows, 0.5, start=start, tol=1e-7)
    assert found.status == Status.SOLVED
    assert found.violation <= 1e-7


def test_without_violated_rows_nothing_moves():
    structure, scores, rows = case([3], 0)
    sure = np.where(structure.columns["mention_label"] == 2, 30.0, scores.unary)  # everybody is a person
    sure = np.where(structure.columns["pair_label"] > 1, -30.0, sure)  # who may kill
    found = project_batch(structure, Parts(sure), rows, 1.0, solver=Newton())
    own = np.concatenate([softmax(sure[:9].reshape(3, 3), axis=1).ravel(), softmax(sure[9:].reshape(6, 4), 1).ravel()])
    np.testing.assert_allclose(found.marginals.unary, own, atol=1e-9)


def test_products_with_chains_go_elsewhere():
    structure = Product({"row": Categorical([2, 2]), "chain": Chain([2, 1], 2)})
    rows = compile_constraints("(E[label == 1] <= 0.4).per('instance')", structure)
    dual = BatchDual(structure, Parts(np.zeros(structure.n_unary), (np.zeros((2, 2)),)), rows, 1.0)
    assert not isinstance(choose_solver(dual, 1e-8, None), Newton)
