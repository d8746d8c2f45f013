"""The linear program over shards that are seen only through sums: the same as `project` of all in one batch."""

import numpy as np
import pytest
from cut import Cut, batch, counts_of, inner_of
from enumerated import SLACKS, make_rows, slack_cost

from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows, Slack
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status, project_batch
from spectrem.inference.corpus.dual import check_corpus_rows
from spectrem.structures import Chain, Parts


@pytest.mark.parametrize("slack", SLACKS, ids=lambda s: "none" if s is None else f"{s.kind}-{s.norm}")
@pytest.mark.parametrize("kind", ["categorical", "chain"])
@pytest.mark.parametrize("equality", [False, True])
def test_shards_give_the_optimum_of_one_batch(slack, kind, equality):
    rng = np.random.default_rng(7)
    structure, scores = batch(kind, rng)
    rows = make_rows(
        structure, rng, scope="corpus", slack=slack, equality=equality, n_rows=4, inner=inner_of(structure, rng)
    )
    whole = project_batch(structure, scores, rows, 0.0)
    for n_shards in (1, 3, 8):
        cut = Cut(structure, scores, rows, n_shards)
        ours = cut.solve(tol=1e-9)
        assert ours.status in (Status.SOLVED, Status.CERTIFIED)
        assert ours.bound == pytest.approx(whole.primal_value, abs=1e-7)
        score, expectation = cut.expected(ours)
        cost, worst = slack_cost(rows, expectation - rows.bounds)
        assert score - cost == pytest.approx(whole.primal_value, abs=1e-7)
        assert worst <= 1e-7
        np.testing.assert_allclose(ours.weights.sum(axis=0), 1.0, atol=1e-12)
        np.testing.assert_allclose(expectation, ours.expectation, atol=1e-12)
        assert ours.n_evaluations == len(cut.looks) - len(ours.points)
        if slack is None:
            assert (ours.weights > 0).sum() <= len(rows.bounds) + n_shards


@pytest.mark.parametrize("sense", ["==", "<=", ">="])
def test_weights_ties_and_senses(sense):
    rng = np.random.default_rng(3)
    # Scores on a grid tie all over, and instances come in equal pairs.
    structure = Chain(np.repeat(rng.integers(1, 4, 12), 2), 3)
    scores = Parts(np.rint(2 * rng.normal(size=structure.n_unary)) / 2, (np.eye(3),))
    weights = rng.integers(0, 3, 24).astype(float)
    n = float(weights @ structure.lengths)
    rows = counts_of(structure, [0.5 * n, 0.2 * n], sense)
    whole = project_batch(structure, scores, rows, 0.0, weights=weights)
    for n_shards in (1, 3, 8):
        cut = Cut(structure, scores, rows, n_shards, weights)
        ours = cut.solve()
        score, _ = cut.expected(ours)
        assert score == pytest.approx(whole.primal_value, abs=1e-6)
        assert ours.value == pytest.approx(score, abs=1e-9)
        assert ours.violation <= 1e-7
        again = cut.solve(start=ours.multipliers)
        assert again.value == pytest.approx(ours.value, abs=1e-6)


def test_structures_that_meet_the_rows_by_themselves_are_certified():
    rng = np.random.default_rng(3)
    structure, scores = batch("chain", rng)
    cut = Cut(structure, scores, counts_of(structure, [1e3, 1e3], "<="), 3)
    ours = cut.solve()
    assert ours.status == Status.CERTIFIED
    assert ours.n_evaluations <= 2
    assert (ours.weights == 1.0).all()


def test_rows_that_cannot_hold_are_named_alone_and_together():
    rng = np.random.default_rng(5)
    structure, scores = batch("chain", rng)
    n = float(structure.lengths.sum())
    reached = rf"\(== {2 * n:g}, and it can be {n:g} at most\)"
    for demands, match in (
        ([2.0 * n, 0.1 * n], rf"'label 0': no feasible q over the corpus {reached}; the price of row 0"),
        ([0.7 * n, 0.6 * n], "'label [01]': no feasible q over the corpus; it conflicts with 'label [01]'"),
    ):
        cut = Cut(structure, scores, counts_of(structure, demands), 3)
        with pytest.raises(InfeasibleConstraintError, match=match):
            cut.solve()
        with pytest.raises(InfeasibleConstraintError, match=match):
            check_corpus_rows(cut.support, CorpusRows(cut.rows.bounds, cut.rows.blocks), np.zeros(2))
        if "conflicts" not in match:
            continue
        with pytest.warns(ConvergenceWarning, match="ran out of iterations"):
            unproven = cut.solve(support=None, max_iter=40)
        assert unproven.status == Status.MAX_ITERATIONS
        # The least that the rows can be broken by, in all: what they demand beyond the tokens there are.
        assert unproven.violation == pytest.approx(0.3 * n, rel=0.6)


@pytest.mark.parametrize("seed", range(6))
def test_feasibility_is_decided_as_a_linear_program_decides_it(seed):
    rng = np.random.default_rng(seed)
    structure, scores = batch("categorical", rng, 10)
    for shift in (-3.0, -0.3, 0.0, 0.3, 3.0):
        rows = make_rows(structure, rng, scope="corpus", equality=True, n_rows=3, inner=inner_of(structure, rng))
        rows = Rows(rows.matrix, rows.bounds + shift * rng.normal(size=3), rows.row_instance, rows.blocks)
        cut = Cut(structure, scores, rows, 2)
        try:
            project_batch(structure, scores, rows, 0.0)
        except InfeasibleConstraintError:
            with pytest.raises(InfeasibleConstraintError, match="'test rows': no feasible q"):
                check_corpus_rows(cut.support, CorpusRows(rows.bounds, rows.blocks), rng.normal(size=3), looks=100)
        else:
            assert check_corpus_rows(cut.support, CorpusRows(rows.bounds, rows.blocks), rng.normal(size=3), looks=100)


def test_feasibility_stays_open_when_looks_run_out():
    rng = np.random.default_rng(0)
    structure, scores = batch("categorical", rng)
    rows = make_rows(structure, rng, scope="corpus", equality=True, n_rows=4, inner=inner_of(structure, rng))
    cut = Cut(structure, scores, rows, 2)
    assert not check_corpus_rows(cut.support, CorpusRows(rows.bounds, rows.blocks), np.zeros(4), looks=1)
    paid = tuple(Block("soft", 0, 4, True, "corpus", Slack("penalty", "l1", 1.0), np.zeros(4, int), {}) for _ in "x")
    assert check_corpus_rows(cut.support, CorpusRows(rows.bounds + 1e3, paid), np.zeros(4), looks=1)


def test_a_few_dozen_looks_are_enough_for_a_large_corpus():
    rng = np.random.default_rng(1)
    structure = Chain(rng.integers(5, 40, 600), 17)
    scores = Parts(3.0 * rng.normal(size=structure.n_unary), (rng.normal(size=(17, 17)),))
    free = np.bincount(structure.columns["tag"], structure.smoothed_max(scores, 0.0)[1].unary)[:10]
    rows = counts_of(structure, np.rint(free * rng.uniform(0.7, 1.3, 10)))
    for n_shards, most in ((8, 30), (1, 60)):
        cut = Cut(structure, scores, rows, n_shards)
        ours = cut.solve(tol=1e-6)
        assert ours.status == Status.SOLVED
        assert ours.gap <= 2e-6
        assert ours.n_evaluations <= most
        assert ours.violation <= 1e-6


def test_too_few_looks_give_the_gap_and_a_warning():
    rng = np.random.default_rng(1)
    structure, scores = batch("chain", rng, 60)
    cut = Cut(structure, scores, counts_of(structure, [40.0, 60.0]), 2)
    best = cut.solve()
    with pytest.warns(ConvergenceWarning, match=r"the linear program over the corpus .*gap"):
        few = cut.solve(max_iter=3)
    assert few.n_evaluations == 3
    assert few.status == Status.MAX_ITERATIONS
    assert few.bound >= best.value - 1e-9
    with pytest.raises(InvalidInputError, match="max_iter must be at least 1; got 0"):
        cut.solve(max_iter=0)
