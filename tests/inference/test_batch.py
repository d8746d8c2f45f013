"""Every kind of row and slack, at every gamma, against explicit distributions."""

import numpy as np
import pytest
from enumerated import (
    SLACKS,
    best_integer,
    best_primal,
    enumerated_from,
    explicit_primal,
    make_rows,
    random_structure,
    slack_cost,
)

from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status, project_batch
from spectrem.structures import Alignment, Categorical, Chain, Parts, Product
from spectrem.testing import enumerate_structures

SCOPES = ("instance", "corpus")
SLACK_NAMES = ["none" if s is None else f"{s.kind}-{s.norm}" for s in SLACKS]
every_slack = pytest.mark.parametrize("slack", SLACKS, ids=SLACK_NAMES)
every_scope = pytest.mark.parametrize("scope", SCOPES)
every_sense = pytest.mark.parametrize("equality", [False, True], ids=["below", "equal"])


def case(seed, n_instances=3, **how):
    rng = np.random.default_rng(seed)
    structure, scores = random_structure(rng, n_instances)
    return structure, scores, make_rows(structure, rng, **how)


@every_slack
@every_scope
@every_sense
@pytest.mark.parametrize(("gamma", "seed"), [(0.3, 5), (1.0, 0), (2.5, 5)])
def test_the_dual_meets_the_primal_of_an_explicit_distribution(slack, scope, equality, gamma, seed):
    structure, scores, rows = case(seed, scope=scope, equality=equality, slack=slack)
    result = project_batch(structure, scores, rows, gamma)
    primal, violation = explicit_primal(structure, scores, rows, gamma, result.multipliers)
    assert result.status == Status.SOLVED
    assert primal == pytest.approx(result.dual_value, abs=1e-6)
    assert primal == pytest.approx(result.primal_value, abs=1e-8)
    assert violation == pytest.approx(result.violation, abs=1e-9)
    assert violation < 1e-6


@every_slack
@every_scope
@every_sense
def test_an_independent_optimiser_finds_nothing_better(slack, scope, equality):
    structure, scores, rows = case(3, 2, scope=scope, equality=equality, slack=slack)
    best = best_primal(structure, scores, rows, 1.0)
    assert project_batch(structure, scores, rows, 1.0).primal_value == pytest.approx(best, abs=2e-6)


@every_slack
@every_scope
@every_sense
@pytest.mark.parametrize("seed", [0, 1])
def test_gamma_zero_is_the_linear_relaxation(slack, scope, equality, seed):
    structure, scores, rows = case(seed, 2, scope=scope, equality=equality, slack=slack)
    result = project_batch(structure, scores, rows, 0.0)
    assert result.status <= Status.SOLVED
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-7)
    mu = result.marginals.unary
    cost, violation = slack_cost(rows, rows.matrix @ mu - rows.bounds)
    assert violation < 1e-7
    factors = scores.factors[0] @ result.marginals.factors[0]
    assert scores.unary @ mu + factors - cost == pytest.approx(result.primal_value, abs=1e-8)
    if slack is None or slack.norm != "l2":
        assert result.dual_value == pytest.approx(best_primal(structure, scores, rows, 0.0), abs=1e-7)


@every_slack
@every_scope
@every_sense
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gamma_minus_infinity_is_the_best_feasible_choice(slack, scope, equality, seed):
    structure, scores, rows = case(seed, scope=scope, equality=equality, slack=slack)
    if slack is not None and slack.norm == "l2":
        with pytest.raises(InvalidInputError, match=r"norm 'l2' cannot be used at gamma = -inf.*norm='l1'"):
            project_batch(structure, scores, rows, -np.inf)
        return
    best = best_integer(structure, scores, rows)
    if best == -np.inf:
        with pytest.raises(InfeasibleConstraintError, match="'test rows': no feasible q"):
            project_batch(structure, scores, rows, -np.inf)
        return
    result = project_batch(structure, scores, rows, -np.inf)
    mu = result.marginals.unary
    cost, violation = slack_cost(rows, rows.matrix @ mu - rows.bounds)
    assert result.status == Status.CERTIFIED
    assert result.primal_value == pytest.approx(best, abs=1e-9)
    assert result.dual_value == pytest.approx(best, abs=1e-6)
    assert set(mu) <= {0.0, 1.0}
    assert violation < 1e-9
    assert result.values.sum() - cost == pytest.approx(best, abs=1e-9)
    assert scores.unary @ mu + scores.factors[0] @ result.marginals.factors[0] - cost == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("norm", [0, 1, 2])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_slack_groups_are_separate_norms(norm, gamma):
    structure, scores, rows = case(4, n_rows=3, slack=SLACKS[1 + norm], groups="own")
    result = project_batch(structure, scores, rows, gamma)
    # one row a group: all norms are one, so the l1 penalty says it all
    by_rows = project_batch(structure, scores, case(4, n_rows=3, slack=SLACKS[1])[2], gamma)
    assert result.dual_value == pytest.approx(by_rows.dual_value, abs=1e-6)


@every_scope
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_rows_that_are_not_tight_cost_nothing(scope, gamma):
    tight = []
    for seed in range(4):
        structure, scores, rows = case(seed, scope=scope, n_rows=3)
        result = project_batch(structure, scores, rows, gamma)
        room = rows.bounds - rows.matrix @ result.marginals.unary
        assert (result.multipliers >= 0).all()
        assert (room > -1e-7).all()
        assert np.abs(room * result.multipliers).max() < 1e-6
        tight += list(result.multipliers > 1e-3)
    assert any(tight)
    assert not all(tight)


def families():
    lengths = np.array([2, 1, 3])
    alignment = Alignment(np.array([2, 1, 2]), np.array([2, 2, 1]), max_jump=2)
    back = Alignment(np.array([2, 2, 1]), np.array([2, 1, 2]), max_jump=1, reverse=True)
    return {
        "categorical": Categorical([3, 2, 4]),
        "chain": Chain(lengths, n_states=2),
        "alignment": alignment,
        "product": Product({"forward": alignment, "backward": back}, name="direction"),
    }


@pytest.mark.parametrize("family", ["categorical", "chain", "alignment", "product"])
@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.3, 1.0, 2.5])
@every_scope
def test_real_structures_are_projected_like_lists_of_their_members(family, gamma, scope):
    structure = families()[family]
    rng = np.random.default_rng(7)
    scores = Parts(rng.normal(size=structure.n_unary), tuple(rng.normal(size=s) for s in structure.factor_shapes))
    weights = np.array([1.0, 0.5, 1.25])
    listed, order = enumerated_from(structure, enumerate_structures)
    flat = np.concatenate([np.zeros(0), *[f.ravel() for f in scores.factors]])
    listed_scores = Parts(scores.unary[order], (flat,))
    listed_rows = make_rows(listed, rng, scope=scope, slack=SLACKS[1] if gamma == -np.inf else None)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    rows = Rows(listed_rows.matrix[:, back], listed_rows.bounds, listed_rows.row_instance, listed_rows.blocks)
    ours = project_batch(structure, scores, rows, gamma, weights=weights)
    theirs = project_batch(listed, listed_scores, listed_rows, gamma, weights=weights)
    assert ours.dual_value == pytest.approx(theirs.dual_value, abs=1e-7)
    if gamma > 0:
        np.testing.assert_allclose(ours.marginals.unary[order], theirs.marginals.unary, atol=1e-6)
        counts = np.concatenate([np.zeros(0), *[f.ravel() for f in ours.marginals.factors]])
        np.testing.assert_allclose(counts, theirs.marginals.factors[0], atol=1e-5)


def test_weights_count_an_instance_as_often_in_corpus_rows():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 4))
    structure, twice = Categorical([4, 4, 4]), Categorical([4] * 4)
    row = rng.normal(size=(3, 4))

    def rows(which):
        from scipy.sparse import csr_array

        from spectrem.constraints.compilation.rows import Block

        block = Block("count", 0, 1, True, "corpus", None, np.zeros(1, np.int64), {})
        return Rows(csr_array(row[which].reshape(1, -1)), np.array([0.4]), np.array([-1]), (block,))

    weighted = project_batch(structure, Parts(scores.ravel()), rows([0, 1, 2]), 0.7, weights=[1.0, 2.0, 1.0])
    copied = project_batch(twice, Parts(scores[[0, 1, 1, 2]].ravel()), rows([0, 1, 1, 2]), 0.7)
    assert weighted.dual_value == pytest.approx(copied.dual_value, abs=1e-9)
    assert weighted.primal_value == pytest.approx(copied.primal_value, abs=1e-9)
    assert weighted.kl == pytest.approx(copied.kl, abs=1e-9)
    np.testing.assert_allclose(weighted.multipliers, copied.multipliers, atol=1e-7)
    np.testing.assert_allclose(
        weighted.marginals.unary, copied.marginals.unary[[0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15]]
    )


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_weights_multiply_factor_counts(gamma):
    structure, scores, rows = case(0)
    weights = np.array([0.0, 3.0, 1.0])
    parts = [project_batch(structure, scores, rows, gamma, weights=np.eye(3)[i]) for i in range(3)]
    together = project_batch(structure, scores, rows, gamma, weights=weights)
    expected = sum(w * p.marginals.factors[0] for w, p in zip(weights, parts, strict=True))
    np.testing.assert_allclose(together.marginals.factors[0], expected, atol=1e-7)
    assert together.dual_value == pytest.approx(3 * parts[1].dual_value + parts[2].dual_value)


@every_slack
@every_scope
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_a_warm_start_gives_the_same_in_less(slack, scope, gamma):
    structure, scores, rows = case(6, scope=scope, slack=slack)
    cold = project_batch(structure, scores, rows, gamma)
    warm = project_batch(structure, scores, rows, gamma, start=cold.multipliers)
    assert warm.dual_value == pytest.approx(cold.dual_value, abs=1e-7)
    assert gamma == 0 or warm.n_evaluations <= cold.n_evaluations
    astray = project_batch(structure, scores, rows, gamma, start=cold.multipliers + 3.0)
    assert astray.dual_value == pytest.approx(cold.dual_value, abs=1e-6)


def test_kl_is_the_divergence_from_the_model():
    structure, scores, rows = case(1)
    result = project_batch(structure, scores, rows, 1.0)
    free = project_batch(structure, scores)
    assert free.kl == 0.0
    assert result.kl == pytest.approx(free.dual_value - result.primal_value, abs=1e-6)
    assert result.kl > 0.01
    assert project_batch(structure, scores, rows, 1.0, start=result.multipliers).kl is None


def test_shares_of_the_dual_value_add_up():
    for scope in SCOPES:
        structure, scores, rows = case(1, scope=scope, slack=SLACKS[4])
        result = project_batch(structure, scores, rows, 1.0)
        assert result.objectives.sum() == pytest.approx(result.dual_value)


def test_instances_without_rows_keep_their_distribution():
    structure, scores, rows = case(0)
    inside = rows.row_instance == 1
    block = rows.blocks[0].__class__("one", 0, 2, False, "instance", None, np.zeros(2, np.int64), {})
    some = Rows(rows.matrix[inside], rows.bounds[inside], rows.row_instance[inside], (block,))
    for gamma in (-np.inf, 0.0, 1.0):
        result, free = project_batch(structure, scores, some, gamma), project_batch(structure, scores, None, gamma)
        keep = structure.instance != 1
        np.testing.assert_allclose(result.marginals.unary[keep], free.marginals.unary[keep])
        np.testing.assert_allclose(result.values[[0, 2]], free.values[[0, 2]])
        assert result.violation < 1e-7


@pytest.mark.parametrize("gamma", [-np.inf, -3.0, 0.0])
def test_without_rows_every_gamma_up_to_zero_is_hard(gamma):
    structure, scores = random_structure(np.random.default_rng(0))
    result = project_batch(structure, scores, None, gamma)
    assert result.status == Status.CERTIFIED
    assert set(result.marginals.unary) == {0.0, 1.0}


def test_status_says_when_iterations_ran_out():
    from spectrem.exceptions import ConvergenceWarning

    structure, scores, rows = case(0, n_rows=3, equality=True)
    with pytest.warns(ConvergenceWarning, match=r"3 of 3 constrained problems ran out of iterations .*raise max_iter"):
        result = project_batch(structure, scores, rows, 1.0, max_iter=2)
    assert result.status == Status.MAX_ITERATIONS
    assert (result.instance_status == Status.MAX_ITERATIONS).all()
    assert result.residual > 1e-8
