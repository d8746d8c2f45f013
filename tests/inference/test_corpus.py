"""Corpus rows over shards: the same as one batch, with and without rows inside the shards."""

import numpy as np
import pytest
import scipy.sparse as sp
from enumerated import SLACKS, Enumerated, inner_point, make_rows, random_structure
from scipy.special import expit

from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status, project_batch
from spectrem.inference.corpus.dual import solve_corpus_dual
from spectrem.inference.dual import shift_scores
from spectrem.structures import Parts


def join(inside, corpus):
    n = len(inside.bounds)
    moved = tuple(
        Block(b.name, b.start + n, b.stop + n, b.equality, b.scope, b.slack, b.slack_group, b.keys)
        for b in corpus.blocks
    )
    return Rows(
        sp.csr_array(sp.vstack([inside.matrix, corpus.matrix])),
        np.concatenate([inside.bounds, corpus.bounds]),
        np.concatenate([inside.row_instance, corpus.row_instance]),
        inside.blocks + moved,
    )


def shard_case(seed, slack, nested):
    rng = np.random.default_rng(seed)
    structure, scores = random_structure(rng, 4)
    inner = inner_point(structure, rng)
    corpus = make_rows(structure, rng, scope="corpus", slack=slack, inner=inner)
    inside = make_rows(structure, rng, scope="instance", n_rows=1, inner=inner)
    if not nested:
        inside = Rows(inside.matrix[:0], inside.bounds[:0], inside.row_instance[:0], ())
    return structure, scores, inside, corpus


def shards_of(structure, scores, inside, corpus):
    for some in ([0, 1], [2, 3]):
        own = np.isin(structure.instance, some)
        part = Enumerated([structure.members[i] for i in some], [structure.counts[i] for i in some])
        mine = np.isin(inside.row_instance, some)
        n = int(mine.sum())
        block = Block("inside", 0, n, False, "instance", None, np.arange(n), {})
        rows = Rows(inside.matrix[mine][:, own], inside.bounds[mine], inside.row_instance[mine] - some[0], (block,))
        yield part, Parts(scores.unary[own], scores.factors), rows if n else None, sp.csr_array(corpus.matrix[:, own])


@pytest.mark.parametrize("slack", SLACKS, ids=lambda s: "none" if s is None else f"{s.kind}-{s.norm}")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_shards_give_what_one_batch_gives(slack, nested, gamma):
    structure, scores, inside, corpus = shard_case(1, slack, nested)
    shards = list(shards_of(structure, scores, inside, corpus))

    def evaluate(multipliers):
        value, expected = 0.0, np.zeros(len(multipliers))
        for part, s, rows, matrix in shards:
            result = project_batch(part, shift_scores(s, sp.csr_array(matrix.T), multipliers), rows, gamma, tol=1e-10)
            value += result.dual_value
            expected += matrix @ result.marginals.unary
        return value, expected

    ours = solve_corpus_dual(evaluate, CorpusRows(corpus.bounds, corpus.blocks), gamma)
    whole = project_batch(structure, scores, join(inside, corpus) if nested else corpus, gamma)
    assert ours.status == Status.SOLVED
    assert ours.dual_value == pytest.approx(whole.dual_value, abs=1e-6)
    np.testing.assert_allclose(ours.multipliers, whole.multipliers[len(inside.bounds) :], atol=1e-4)
    again = solve_corpus_dual(evaluate, CorpusRows(corpus.bounds, corpus.blocks), gamma, start=ours.multipliers)
    assert again.n_evaluations <= ours.n_evaluations


def coins(multipliers):
    logits = np.array([1.0, 0.0]) - multipliers
    return float(np.logaddexp(0.0, logits).sum()), np.array([expit(logits).sum()])


def test_rows_that_cannot_hold_over_the_corpus_are_named():
    block = Block("three heads", 0, 1, True, "corpus", None, np.zeros(1, np.int64), {})
    said = r"'three heads': no feasible q over the corpus \(== 3, and it can be 2 at most\); .*row 0 grows"
    with pytest.raises(InfeasibleConstraintError, match=said):
        solve_corpus_dual(
            coins, CorpusRows(np.array([3.0]), (block,)), support=lambda d: (2 * max(0.0, -d[0]), 2.0 * (d < 0))
        )


def test_a_map_that_returns_nan_is_refused():
    block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, np.int64), {})
    with pytest.raises(InvalidInputError, match="evaluate must return finite sums"):
        solve_corpus_dual(lambda m: (np.nan, np.zeros(1)), CorpusRows(np.array([1.0]), (block,)))


def test_gamma_of_0_is_sent_to_the_linear_program():
    block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, np.int64), {})
    with pytest.raises(InvalidInputError, match="gamma must be positive; got 0; at gamma = 0 call solve_corpus_prog"):
        solve_corpus_dual(coins, CorpusRows(np.array([1.0]), (block,)), 0.0)


def test_rows_are_picked_with_their_blocks():
    structure, _, inside, corpus = shard_case(0, None, nested=True)
    rows = join(corpus, inside)
    within = rows.where(lambda block: block.scope == "instance")
    first, second = rows.pick(within), rows.pick(~within)
    np.testing.assert_array_equal(first.matrix.toarray(), inside.matrix.toarray())
    np.testing.assert_array_equal(second.bounds, corpus.bounds)
    assert (first.blocks[0].start, first.blocks[0].stop) == (0, len(inside.bounds))
    assert first.matrix.shape[1] == structure.n_unary
