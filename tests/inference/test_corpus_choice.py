"""Whole structures over shards at gamma = -inf, held against the integer program of all in one batch."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cut import Cut, batch, counts_of, inner_of
from enumerated import best_integer, make_rows, random_structure, slack_cost

from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows, Slack
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status, project_batch
from spectrem.inference.corpus.choice import choose_structures, find_variants
from spectrem.inference.corpus.dual import solve_corpus_program
from spectrem.inference.dual import shift_scores
from spectrem.structures import Chain, Parts

SOME = [None, *(Slack(kind, norm, 1.6) for kind in ("penalty", "bound") for norm in ("l1", "linf"))]


def choose(cut, **options):
    """The choice, and whether it warned of its gap."""
    mixture = cut.solve()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = choose_structures(cut.variants, mixture, CorpusRows(cut.rows.bounds, cut.rows.blocks), **options)
    return found, [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


@pytest.mark.parametrize("slack", SOME, ids=lambda s: "none" if s is None else f"{s.kind}-{s.norm}")
@pytest.mark.parametrize("kind", ["categorical", "chain"])
@pytest.mark.parametrize("equality", [False, True])
def test_the_choice_and_its_bound_enclose_the_integer_optimum(slack, kind, equality):
    rng = np.random.default_rng(11)
    structure, scores = batch(kind, rng, 60)
    rows = make_rows(
        structure, rng, scope="corpus", slack=slack, equality=equality, n_rows=2, inner=inner_of(structure, rng, 0.0)
    )
    rows = Rows(rows.matrix, np.rint(rows.bounds), rows.row_instance, rows.blocks)
    best = project_batch(structure, scores, rows, -np.inf).primal_value
    for n_shards in (1, 3, 8):
        cut = Cut(structure, scores, rows, n_shards)
        ours, warned = choose(cut)
        score, expectation = cut.chosen(ours)
        cost, worst = slack_cost(rows, expectation - rows.bounds)
        assert worst <= 1e-9
        assert ours.value == pytest.approx(score - cost, abs=1e-9)
        np.testing.assert_allclose(expectation, ours.expectation, atol=1e-9)
        assert ours.value <= best + 1e-6
        assert ours.bound >= best - 1e-6
        assert ours.value >= best - 0.5
        assert (ours.status == Status.CERTIFIED) == (not warned)
        assert ours.gap == pytest.approx((ours.bound - ours.value) / max(1.0, abs(ours.bound)))


def test_a_gap_is_told_and_a_wide_enough_tolerance_is_content():
    rng = np.random.default_rng(11)
    structure, scores = batch("categorical", rng, 60)
    rows = counts_of(structure, [30.0, 11.0])
    cut = Cut(structure, scores, rows, 3)
    wide, warned = choose(cut, tol=0.1)
    assert wide.status == Status.CERTIFIED
    assert not warned
    narrow, warned = choose(cut, tol=1e-15)
    assert narrow.value >= wide.value
    if narrow.gap > 1e-15:
        assert "may miss" in warned[0]
        assert narrow.status == Status.MAX_ITERATIONS


def test_a_large_corpus_is_solved_to_the_tolerance():
    rng = np.random.default_rng(1)
    structure = Chain(rng.integers(5, 20, 600), 7)
    scores = Parts(3.0 * rng.normal(size=structure.n_unary), (rng.normal(size=(7, 7)),))
    weights = rng.integers(1, 3, 600).astype(float)
    taken = weights[structure.instance] * structure.smoothed_max(scores, 0.0)[1].unary
    free = np.bincount(structure.columns["tag"], taken)[:4]
    cut = Cut(structure, scores, counts_of(structure, np.rint(free * rng.uniform(0.7, 1.3, 4))), 8, weights)
    ours, warned = choose(cut)
    assert ours.status == Status.CERTIFIED
    assert not warned
    np.testing.assert_array_equal(cut.chosen(ours)[1], cut.rows.bounds)


def test_counts_that_no_whole_structures_have_are_named():
    rng = np.random.default_rng(2)
    structure, scores = batch("categorical", rng)
    cut = Cut(structure, scores, counts_of(structure, [9.5, 8.0]), 3)
    with pytest.raises(
        InfeasibleConstraintError, match=r"'label 0' over the corpus comes to (9|10) \(== 9.5\): no choice of whole str"
    ):
        choose(cut)


def test_an_l2_slack_is_refused():
    rng = np.random.default_rng(2)
    structure, scores = batch("categorical", rng)
    rows = make_rows(structure, rng, scope="corpus", slack=Slack("bound", "l2", 1.0), inner=inner_of(structure, rng))
    cut = Cut(structure, scores, rows, 3)
    with pytest.raises(InvalidInputError, match="slack with norm 'l2' cannot be used at gamma = -inf"):
        choose(cut)


@pytest.mark.parametrize("seed", range(5))
def test_variants_are_the_best_structures_that_rows_can_tell_apart(seed):
    rng = np.random.default_rng(seed)
    structure, scores = random_structure(rng, 6)
    matrix = sp.csr_array(rng.integers(-1, 2, (2, structure.n_unary)) * 1.0)
    points, weights = rng.normal(size=(5, 2)), rng.uniform(0.5, 2.0, 6)
    found = find_variants(structure, scores, matrix, points, weights=weights)
    fixed, expectation = 0.0, np.zeros(2)
    for i in range(6):
        own, seen = structure.instance == i, {}
        for k, point in enumerate(points):
            total = structure.scores_of(scores, i)
            counts = (matrix[:, own] @ structure.members[i].T).T
            h = (total - counts @ point).argmax()
            seen.setdefault(tuple(weights[i] * counts[h]), (k, weights[i] * total[h]))
        mine = found.instance == i
        if len(seen) == 1:
            assert not mine.any()
            fixed += next(iter(seen.values()))[1]
            expectation += next(iter(seen))
            continue
        rows = [tuple(row) for row in found.expectations[np.flatnonzero(mine)].toarray()]
        np.testing.assert_allclose(sorted(rows), sorted(seen), atol=1e-12)
        assert found.point[mine].tolist() == sorted(k for k, _ in seen.values())
        np.testing.assert_allclose(found.scores[mine], [score for _, score in sorted(seen.values())])
    assert found.score == pytest.approx(fixed)
    np.testing.assert_allclose(found.expectation, expectation, atol=1e-12)


@pytest.mark.parametrize("slack", [None, Slack("penalty", "l1", 0.4)])
def test_rows_inside_instances_are_met_by_every_variant(slack):
    rng = np.random.default_rng(4)
    structure, scores = random_structure(rng, 4)
    inner = np.concatenate([members[rng.integers(len(members))] for members in structure.members]) * 1.0
    corpus = make_rows(structure, rng, scope="corpus", n_rows=2, inner=inner)
    inside = make_rows(structure, rng, scope="instance", n_rows=1, inner=inner, slack=slack)
    both = Rows(
        sp.csr_array(sp.vstack([inside.matrix, corpus.matrix])),
        np.concatenate([inside.bounds, corpus.bounds]),
        np.concatenate([inside.row_instance, corpus.row_instance]),
        (
            *inside.blocks,
            Block("corpus", len(inside.bounds), len(inside.bounds) + 2, False, "corpus", None, np.zeros(2, int), {}),
        ),
    )
    transpose = sp.csr_array(corpus.matrix.T)

    def evaluate(multipliers):
        found = project_batch(structure, shift_scores(scores, transpose, multipliers), inside, -np.inf)
        return found.dual_value, corpus.matrix @ found.marginals.unary

    mixture = solve_corpus_program(evaluate, CorpusRows(corpus.bounds, corpus.blocks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = choose_structures(
            lambda points: [find_variants(structure, scores, corpus.matrix, points, inside=inside)],
            mixture, CorpusRows(corpus.bounds, corpus.blocks),
        )  # fmt: skip
    best = best_integer(structure, scores, both)
    assert ours.value <= best + 1e-7
    assert ours.bound >= best - 1e-7
    assert ours.value >= best - 0.5
    assert ours.violation <= 1e-9
