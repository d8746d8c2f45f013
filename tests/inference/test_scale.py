"""What multiplies rows and bounds, or scores and gamma, changes nothing but units."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem import E, part
from spectrem import project as project_table
from spectrem.constraints import compile_constraints, linear
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference import Accelerated, Status, project_batch
from spectrem.structures import Categorical, Chain, Parts

FACTORS = [1e-12, 1e-9, 1e-3, 1e6, 1e12]
GAMMAS = [0.0, 0.2, 1.0, 3.0]


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_row_in_other_units_is_met_as_well(factor, gamma):
    proba = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]
    rule = factor * E[part("label") == 1] >= 2.7 * factor
    table = project_table(proba, rule.named("rule"), gamma)
    plain = project_table(proba, (E[part("label") == 1] >= 2.7).named("rule"), gamma)
    assert table.proba[:, 1].sum() >= 2.7 - 1e-6
    np.testing.assert_allclose(table.proba, plain.proba, atol=1e-6)
    np.testing.assert_allclose(table.prices["rule"] * factor, plain.prices["rule"], rtol=1e-5)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("gamma", [-np.inf, *GAMMAS])
@pytest.mark.parametrize("scope", ["instance", "corpus"])
def test_a_row_in_other_units_is_refused_as_well(factor, gamma, scope):
    labels = Categorical([2, 2])
    rows = compile_constraints(
        linear(factor * np.array([[1.0, 0.0, 0.0, 0.0]]), 1.01 * factor, ">=", scope=scope, name="too much"), labels
    )
    with pytest.raises(InfeasibleConstraintError, match="'too much': no feasible q"):
        project_batch(labels, Parts(np.zeros(4)), rows, gamma)


@pytest.mark.parametrize("factor", [1e-12, 1e-9, 1e-4, 1e4])
@pytest.mark.parametrize("gamma", [-np.inf, 0.0])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_an_optimum_is_certified_in_the_unit_of_the_scores(factor, gamma, shift):
    rng = np.random.default_rng(3)
    chain = Chain([3, 3, 2], n_states=3)
    scores = Parts(rng.normal(size=chain.n_unary), (rng.normal(size=(3, 3)),))
    rows = compile_constraints(
        [(E[part("tag") == 0] >= 1).per("sentence"), E[part("tag") == 1] == 3, (E[part("tag") == 2] <= 1.5)], chain
    )
    small = Parts(factor * (scores.unary + shift), (factor * scores.factors[0],))
    plain = project_batch(chain, Parts(scores.unary + shift, scores.factors), rows, gamma)
    result = project_batch(chain, small, rows, gamma)
    assert result.status <= Status.SOLVED
    assert result.primal_value == pytest.approx(factor * plain.primal_value, rel=1e-6)
    assert result.dual_value == pytest.approx(factor * plain.dual_value, rel=1e-6)


@pytest.mark.parametrize(
    "slack", [{"penalty": 2.0, "norm": "l2"}, {"penalty": 2.0, "norm": "linf"}, {"bound": 0.2, "norm": "l1"},
              {"bound": 0.2, "norm": "l2"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("equality", [False, True], ids=["below", "equal"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_very_different_size_that_slack_ties_together(slack, equality, seed):
    """Accelerated reaches the tolerance, in no more passes than ten times those of rows of one size."""
    rng = np.random.default_rng(seed)
    labels = Categorical(np.full(30, 4))
    scores = Parts(rng.normal(size=120) * 2)
    matrix = rng.integers(0, 2, (6, 120)) * 1.0
    mean = matrix @ np.full(120, 0.25)
    scale = 10.0 ** np.linspace(-3, 3, 6)
    plain, spread = (
        compile_constraints(
            linear(d[:, None] * matrix, d * (mean - 1.0), "==" if equality else "<=").slack(**slack), labels
        )
        for d in (np.ones(6), scale)
    )
    solver = Accelerated()
    easy, hard = (project_batch(labels, scores, rows, 1.0, solver=solver) for rows in (plain, spread))
    assert easy.status == hard.status == Status.SOLVED
    assert hard.n_iter <= 10 * easy.n_iter
    assert hard.primal_value == pytest.approx(hard.dual_value, abs=1e-5 * (1 + abs(hard.dual_value)))
    mu = hard.marginals.unary
    entropy = -(mu[mu > 0] @ np.log(mu[mu > 0]))
    excess = spread.matrix @ mu - spread.bounds
    lost = 0.0
    if "penalty" in slack:
        violation = np.abs(excess) if equality else np.maximum(excess, 0.0)
        lost = 2.0 * np.linalg.norm(violation, 2 if slack["norm"] == "l2" else np.inf)
    assert scores.unary @ mu + entropy - lost == pytest.approx(hard.dual_value, abs=1e-5 * (1 + abs(hard.dual_value)))


def test_prices_are_in_the_units_of_the_user():
    labels, scores = Categorical([3, 3]), Parts(np.log([0.6, 0.3, 0.1, 0.2, 0.5, 0.3]))
    matrix, bounds = np.array([[1.0, 0, 0, 1, 0, 0], [0, 1.0, 0, 0, 1, 0]]), np.array([0.5, 0.4])
    plain = compile_constraints(linear(matrix, bounds).slack(bound=0.01, norm="l2"), labels)
    result = project_batch(labels, scores, plain, 1.0)
    unit = 1e7
    other = replace(
        plain,
        matrix=sp.csr_array(plain.matrix * unit),
        bounds=plain.bounds * unit,
        blocks=(replace(plain.blocks[0], slack=replace(plain.blocks[0].slack, strength=0.01 * unit)),),
    )
    scaled = project_batch(labels, scores, other, 1.0)
    assert scaled.status == Status.SOLVED
    np.testing.assert_allclose(scaled.multipliers * unit, result.multipliers, rtol=1e-6)
