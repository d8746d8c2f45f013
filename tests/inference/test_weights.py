"""Weights against the obvious oracle: a batch in which every instance is repeated as often as its weight says."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from enumerated import SLACKS, Enumerated, random_structure

from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference import project_batch
from spectrem.structures import Categorical, Parts

WEIGHTS = np.array([2, 0, 1, 3, 0, 1])
OWN = {"own": [0, 1, 3], "corpus": [], "both": [0, 1, 3]}
TIED = {"own": [], "corpus": [0, 1, 2, 4], "both": [0, 1, 2, 4]}


@dataclass
class Case:
    """Instances 0, 1 and 3 have rows of their own, 0, 1, 2 and 4 are tied together, 5 is touched by no row."""

    structure: object
    scores: Parts
    rows: Rows

    def repeated(self, times):
        """The same with instances repeated; also which instance and part each one is a copy of."""
        copies = np.repeat(np.arange(len(times)), times)
        place = [np.flatnonzero(self.structure.instance == i) for i in copies]
        parts = np.concatenate(place)
        if isinstance(self.structure, Categorical):
            structure = Categorical(self.structure.sizes[copies])
        else:
            counts = self.structure.counts
            structure = Enumerated([self.structure.members[i] for i in copies], [counts[i] for i in copies])
        matrix, rows = self.rows.matrix.toarray()[:, parts], self.rows
        lines, sources, blocks = [], [], []
        for block in rows.blocks:
            start = len(lines)
            for r in range(block.start, block.stop):
                i = rows.row_instance[r]
                for copy in [-1] if i < 0 else np.flatnonzero(copies == i):
                    lines.append(matrix[r] * (1.0 if i < 0 else structure.instance == copy))
                    sources.append((r, copy))
            own = np.array([copy for _, copy in sources[start:]])
            group = np.zeros(len(own), int) if block.scope != "instance" else np.unique(own, return_inverse=True)[1]
            blocks.append(
                Block(block.name, start, len(lines), block.equality, block.scope, block.slack, group, block.keys)
            )
        source, instance = np.array(sources).T
        made = Rows(sp.csr_array(np.array(lines)), rows.bounds[source], instance, tuple(blocks))
        return Case(structure, Parts(self.scores.unary[parts], self.scores.factors), made), copies, parts, source


def make(scope, seed, slack=None, family="listed", equality=False):
    rng = np.random.default_rng(seed)
    if family == "listed":
        structure, scores = random_structure(rng, n_instances=6)
        mean = np.concatenate([0.7 * m[rng.integers(len(m))] + 0.3 * m.mean(axis=0) for m in structure.members])
    else:
        structure = Categorical(rng.integers(2, 5, 6))
        scores = Parts(rng.normal(size=structure.n_unary) * 2)
        mean = rng.random(structure.n_unary) + 0.1
        mean /= np.bincount(structure.instance, mean)[structure.instance]
    shift = 0.0 if slack is None else {"penalty": 0.3, "bound": 0.1}[slack.kind]
    lines, instances, bounds, blocks = [], [], [], []
    for name, many in (("own", OWN[scope]), ("across", [-1, -1] if TIED[scope] else [])):
        start = len(lines)
        for i in many:
            there = np.isin(structure.instance, TIED[scope] if i < 0 else [i])
            line = np.where(there, rng.uniform(-1, 2, structure.n_unary), 0.0)
            share = WEIGHTS[structure.instance] if i < 0 else 1
            lines.append(line)
            instances.append(i)
            bounds.append((line * share) @ mean - shift)
        if many:
            group = np.unique(instances[start:], return_inverse=True)[1]
            kind = "corpus" if name == "across" else "instance"
            blocks.append(Block(name, start, len(lines), equality, kind, slack, group, {}))
    rows = Rows(sp.csr_array(np.array(lines)), np.array(bounds), np.array(instances), tuple(blocks))
    return Case(structure, scores, rows)


def check(case, gamma, atol=1e-6, **options):
    many, copies, parts, source = case.repeated(WEIGHTS)
    ours = project_batch(case.structure, case.scores, case.rows, gamma, weights=WEIGHTS, **options)
    theirs = project_batch(many.structure, many.scores, many.rows, gamma, **options)
    assert ours.dual_value == pytest.approx(theirs.dual_value, abs=atol)
    assert ours.primal_value == pytest.approx(theirs.primal_value, abs=atol)
    assert (ours.kl is None) == (theirs.kl is None)
    if ours.kl is not None:
        assert ours.kl == pytest.approx(theirs.kl, abs=atol)
    assert ours.violation == pytest.approx(0.0, abs=10 * atol)
    if gamma > -np.inf:
        assert WEIGHTS @ ours.objectives == pytest.approx(ours.dual_value, abs=1e-9)
    if gamma > 0:
        np.testing.assert_allclose(ours.marginals.unary[parts], theirs.marginals.unary, atol=100 * atol)
        np.testing.assert_allclose(ours.multipliers[source], theirs.multipliers, atol=1e3 * atol)
        np.testing.assert_allclose(ours.objectives[copies], theirs.objectives, atol=1e3 * atol)
    for ours_own, theirs_own in zip(ours.marginals.factors, theirs.marginals.factors, strict=True):
        np.testing.assert_allclose(ours_own, theirs_own, atol=100 * atol)
    return ours


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("scope", ["own", "corpus", "both"])
@pytest.mark.parametrize("family", ["listed", "categorical"])
@pytest.mark.parametrize("slack", [None, SLACKS[1]], ids=["firm", "penalty"])
def test_weights_are_repetitions(gamma, scope, family, slack):
    if gamma == -np.inf:
        slack = Slack("penalty", "l1", 0.6)  # no single structure meets the rows
        if scope != "own":
            # copies may get different structures, an instance of weight 2 only one
            return
    check(make(scope, 0, slack, family), gamma)


@pytest.mark.parametrize("slack", SLACKS[1:], ids=lambda slack: f"{slack.kind}-{slack.norm}")
@pytest.mark.parametrize("scope", ["own", "both"])
def test_slack_of_a_row_counts_with_its_instance(scope, slack):
    check(make(scope, 1, slack), 1.0, atol=1e-5)


@pytest.mark.parametrize("scope", ["own", "both"])
def test_equalities(scope):
    case = make(scope, 2, equality=True)
    assert np.abs(check(case, 1.0).multipliers).max() > 0.1


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_without_rows(gamma):
    case = make("own", 0)
    result = project_batch(case.structure, case.scores, None, gamma, weights=WEIGHTS)
    assert result.dual_value == result.primal_value == pytest.approx(WEIGHTS @ result.values)


@pytest.mark.parametrize("family", ["listed", "categorical"])
def test_what_weighs_nothing_is_projected_at_the_prices_of_the_others(family):
    case = make("both", 3, family=family)
    nothing = project_batch(case.structure, case.scores, case.rows, 1.0, weights=WEIGHTS)
    little = project_batch(case.structure, case.scores, case.rows, 1.0, weights=np.maximum(WEIGHTS, 1e-7), tol=1e-10)
    assert np.abs(nothing.multipliers).max() > 0.1
    np.testing.assert_allclose(nothing.marginals.unary, little.marginals.unary, atol=1e-5)
    np.testing.assert_allclose(nothing.multipliers, little.multipliers, atol=1e-4)
    np.testing.assert_allclose(nothing.values, little.values, atol=1e-4)
    assert nothing.violation < 1e-7


def test_nothing_weighs_anything():
    case = make("both", 3)
    result = project_batch(case.structure, case.scores, case.rows, 1.0, weights=np.zeros(6), infeasible="skip")
    assert (result.dual_value, result.primal_value) == (0.0, 0.0)


def test_rows_left_out_and_rows_that_fail_keep_their_numbers():
    case = make("both", 0)
    bounds = case.rows.bounds.copy()
    bounds[1] = -30.0  # of instance 1, which weighs nothing
    rows = Rows(case.rows.matrix, bounds, case.rows.row_instance, case.rows.blocks)
    left = project_batch(case.structure, case.scores, rows, 1.0, weights=WEIGHTS, infeasible="skip")
    assert left.skipped.tolist() == [1]
    assert left.multipliers[1] == 0.0
    assert left.dual_value == pytest.approx(
        project_batch(case.structure, case.scores, case.rows, 1.0, weights=WEIGHTS).dual_value
    )
    bounds[1], bounds[3] = case.rows.bounds[1], -1e3
    with pytest.raises(InfeasibleConstraintError) as error:
        project_batch(case.structure, case.scores, rows, 1.0, weights=WEIGHTS)
    assert error.value.rows == (3,)


def test_at_gamma_zero_what_weighs_nothing_takes_the_best_at_the_prices():
    case = make("corpus", 3)
    result = project_batch(case.structure, case.scores, case.rows, 0.0, weights=WEIGHTS)
    assert np.abs(result.multipliers).max() > 0.1
    shifted = Parts(case.scores.unary - case.rows.matrix.T @ result.multipliers, case.scores.factors)
    _, best = case.structure.smoothed_max(shifted, 0.0)
    part = WEIGHTS[case.structure.instance] == 0
    np.testing.assert_allclose(result.marginals.unary[part], best.unary[part])


def test_integer_programs_sum_by_weight():
    structure, unary = Categorical([2, 2, 2]), np.array([3.0, 1.0, 4.0, 2.0, 6.0, 5.0])
    # the first row binds nothing, the second forbids the best label
    matrix = sp.csr_array(np.array([[0, 1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0, 0]]))
    block = Block("not this one", 0, 2, False, "instance", None, np.arange(2), {})
    rows = Rows(matrix, np.full(2, 0.5), np.array([0, 2]), (block,))
    result = project_batch(structure, Parts(unary), rows, -np.inf, weights=[2.0, 3.0, 0.5])
    assert result.primal_value == result.dual_value == pytest.approx(2 * 3 + 3 * 4 + 0.5 * 5)


@pytest.mark.parametrize("unit", [1e-5, 1e6])
@pytest.mark.parametrize("gamma", [0.0, 0.5])
@pytest.mark.parametrize("family", ["listed", "categorical"])
@pytest.mark.parametrize("seed", [10, 16])
def test_the_unit_of_the_weights_changes_nothing(seed, family, gamma, unit):
    case = make("both" if seed == 10 else "corpus", seed, family=family)
    bounds = case.rows.bounds * np.where(case.rows.row_instance < 0, unit, 1.0)
    rows = Rows(case.rows.matrix, bounds, case.rows.row_instance, case.rows.blocks)
    plain = project_batch(case.structure, case.scores, case.rows, gamma, weights=WEIGHTS)
    scaled = project_batch(case.structure, case.scores, rows, gamma, weights=unit * WEIGHTS)
    assert scaled.dual_value == pytest.approx(unit * plain.dual_value, rel=1e-6)
    assert scaled.kl == pytest.approx(unit * plain.kl, rel=1e-5)
    if gamma > 0:
        np.testing.assert_allclose(scaled.multipliers, plain.multipliers, atol=1e-4)
