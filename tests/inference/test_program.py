"""Rows with slack over variables as programs, against linear programs written out by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from spectrem.constraints.rows import Block, Slack
from spectrem.inference.highs import run_linear
from spectrem.inference.program import Program
from spectrem.inference.slack import compile_slack
from spectrem.inference.slack_variables import compile_slack_variables, largest_excess

SIZES = (3, 2, 3)


def program(seed, strength=None):
    """Three rows, the last an equality, over three labels; all rows have an l1 penalty or none has slack."""
    rng = np.random.default_rng(seed)
    n = sum(SIZES)
    body, bounds = rng.normal(size=(3, n)), rng.normal(size=3)
    slack = None if strength is None else Slack("penalty", "l1", strength)
    blocks = tuple(
        Block(name, start, stop, name == "equal", "corpus", slack, np.zeros(stop - start, np.int64), {})
        for name, start, stop in (("most", 0, 2), ("equal", 2, 3))
    )
    terms = compile_slack(blocks, np.zeros(3, np.int64), 1)
    matrix = sp.csr_array(body)
    variables = compile_slack_variables(terms, largest_excess(matrix, bounds))
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    shapes = sp.csr_array((np.ones(n), (owner, np.arange(n))), shape=(len(SIZES), n))
    ones, upper = np.ones(len(SIZES)), np.ones(n)
    return Program(rng.normal(size=n), upper, matrix, bounds, terms.equality, shapes, ones, variables)


def by_hand(given, penalty):
    """The least cost where a violation of row r costs ``penalty[r]`` per unit, by one variable for each row."""
    n, body = len(given.cost), given.body.toarray()
    both = given.equality
    above = np.vstack([np.hstack([body, -np.eye(3)]), np.hstack([-body[both], -np.eye(3)[both]])])
    result = linprog(
        np.concatenate([given.cost, penalty]),
        above,
        np.concatenate([given.bounds, -given.bounds[both]]),
        np.hstack([given.shapes.toarray(), np.zeros((len(SIZES), 3))]),
        given.ones,
        [(0, 1)] * n + [(0, None)] * 3,
    )
    return result.fun


@pytest.mark.parametrize("seed", range(20))
def test_rows_may_be_missed_at_a_cost(seed):
    given, miss = program(seed), np.array([0.3, 0.5, 0.4])
    result = run_linear(given.matrices(miss), 10.0)
    assert result.cost == pytest.approx(by_hand(given, miss), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_slack_costs_what_its_penalty_says(seed):
    given = program(seed, 0.6)
    result = run_linear(given.matrices(), 10.0)
    assert result.cost == pytest.approx(by_hand(given, np.full(3, 0.6)), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_prices_are_told_by_row(seed):
    given, miss = program(seed), np.array([0.3, 0.5, 0.4])
    result = run_linear(given.matrices(miss), 10.0)
    prices = given.prices(result)
    body = given.body.toarray()
    # By duality the prices prove the cost: the best label of each instance at them, and what the bounds then cost.
    reduced = given.cost + prices @ body
    least = sum(part.min() for part in np.split(reduced, np.cumsum(SIZES)[:-1]))
    assert least - prices @ given.bounds == pytest.approx(result.cost, abs=1e-8)
    assert (np.abs(prices) <= miss + 1e-9).all()
    assert (prices[~given.equality] >= -1e-9).all()


def test_some_of_the_variables():
    given = program(0)
    columns = np.array([0, 3, 4, 5])
    picked = given.pick(columns)
    free = np.zeros(len(given.cost))
    free[columns] = 1.0
    miss = np.full(3, 0.7)
    held = Program(given.cost, free, given.body, given.bounds, given.equality, given.shapes, given.ones, given.slack)
    assert run_linear(picked.matrices(miss), 10.0).cost == pytest.approx(run_linear(held.matrices(miss), 10.0).cost)
