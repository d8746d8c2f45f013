"""Rows with slack over variables as programs, against linear programs written out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from spectrem.constraints.compilation.rows import Block, Slack
from spectrem.inference.dual import compile_slack
from spectrem.inference.program import compile_slack_variables, largest_excess, run_linear, write_program

SIZES = (3, 2, 3)


def parts(seed, strength=None):
    """The parts of a program: three rows, the last an equality, over three labels; all have an l1 penalty or none."""
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
    return {
        "cost": rng.normal(size=n), "upper": upper, "body": matrix, "bounds": bounds, "equality": terms.equality,
        "shapes": shapes, "ones": ones, "slack": variables,
    }  # fmt: skip


def by_hand(given, penalty):
    """The least cost where a violation of row r costs ``penalty[r]`` per unit, by one variable for each row."""
    n, body = len(given["cost"]), given["body"].toarray()
    both = given["equality"]
    above = np.vstack([np.hstack([body, -np.eye(3)]), np.hstack([-body[both], -np.eye(3)[both]])])
    result = linprog(
        np.concatenate([given["cost"], penalty]),
        above,
        np.concatenate([given["bounds"], -given["bounds"][both]]),
        np.hstack([given["shapes"].toarray(), np.zeros((len(SIZES), 3))]),
        given["ones"],
        [(0, 1)] * n + [(0, None)] * 3,
    )
    return result.fun


@pytest.mark.parametrize("seed", range(20))
def test_rows_may_be_missed_at_a_cost(seed):
    given, miss = parts(seed), np.array([0.3, 0.5, 0.4])
    result = run_linear(write_program(**given).elastic(miss), 10.0)
    assert result.cost == pytest.approx(by_hand(given, miss), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_slack_costs_what_its_penalty_says(seed):
    given = parts(seed, 0.6)
    result = run_linear(write_program(**given), 10.0)
    assert result.cost == pytest.approx(by_hand(given, np.full(3, 0.6)), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_prices_are_those_of_rows(seed):
    given, miss = parts(seed), np.array([0.3, 0.5, 0.4])
    result = run_linear(write_program(**given).elastic(miss), 10.0)
    prices = result.prices[:3]
    body = given["body"].toarray()
    # By duality the prices prove the cost: the best label of each instance at them, and what the bounds then cost.
    reduced = given["cost"] + prices @ body
    least = sum(part.min() for part in np.split(reduced, np.cumsum(SIZES)[:-1]))
    assert least - prices @ given["bounds"] == pytest.approx(result.cost, abs=1e-8)
    assert (np.abs(prices) <= miss + 1e-9).all()
    assert (prices[~given["equality"]] >= -1e-9).all()


@pytest.mark.parametrize("seed", range(5))
def test_some_of_the_variables(seed):
    given, miss = parts(seed, 0.6 if seed % 2 else None), np.full(3, 0.7)
    whole = write_program(**given)
    labels = np.array([0, 3, 4, 5])
    columns = np.concatenate([labels, np.arange(sum(SIZES), len(whole.cost))])
    picked = whole.pick(np.arange(len(whole.bounds)), columns)
    free = np.zeros(sum(SIZES))
    free[labels] = 1.0
    held = write_program(**(given | {"upper": free}))
    assert run_linear(picked.elastic(miss), 10.0).cost == pytest.approx(run_linear(held.elastic(miss), 10.0).cost)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_left_out_and_added(seed):
    given = parts(seed) | {"equality": np.zeros(3, bool), "bounds": np.full(3, 0.1)}
    whole, miss = write_program(**given), np.full(2, 0.7)
    fewer = whole.pick(np.delete(np.arange(len(whole.bounds)), 2), np.arange(len(whole.cost)))
    kept = {name: given[name][:2] for name in ("body", "bounds", "equality")}
    first = compile_slack((), np.zeros(2, np.int64), 1)
    without = write_program(**(given | kept | {"slack": compile_slack_variables(first, np.ones(2))}))
    cost = run_linear(without.elastic(miss), 10.0).cost
    assert run_linear(fewer.elastic(miss), 10.0).cost == pytest.approx(cost, abs=1e-9)
    level = replace(fewer, bounds=np.where(fewer.equality, fewer.bounds, 0.0))
    again = level.pick(np.arange(1, len(level.bounds)), np.arange(len(level.cost))).with_rows(level.matrix[:1])
    assert run_linear(again, 10.0).cost == pytest.approx(run_linear(level, 10.0).cost, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("strength", [None, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_other_units(seed, strength):
    rng = np.random.default_rng(seed)
    whole = write_program(**parts(seed, strength))
    if strength is None:
        whole = whole.elastic(np.full(3, 0.7))
    row, column = 2.0 ** rng.integers(-3, 4, 3), 2.0 ** rng.integers(-3, 4, len(whole.cost))
    ours, wanted = run_linear(whole.scaled(row, column, 0.25), 10.0), run_linear(whole, 10.0)
    assert 0.25 * ours.cost == pytest.approx(wanted.cost, abs=1e-9)
    assert whole.cost @ (ours.x * column) == pytest.approx(wanted.cost, abs=1e-9)
    np.testing.assert_allclose(0.25 * ours.prices[:3] * row, wanted.prices[:3], atol=1e-8)
