"""Trees that may cross, beyond what holds for every family: nearly certain posteriors, roots, constraints."""

import numpy as np
import pytest
from check_projection import check_projection
from structure_cases import GAMMAS, SCORE_KINDS, random_scores

from spectrem.constraints import E, part
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.trees import matrix_tree, matrix_tree_log
from spectrem.structures import ROOT, NonProjectiveTrees, Parts, ProjectiveTrees, _polytopes
from spectrem.testing import brute_force_smoothed_max, check_constraint, check_structure

roots = pytest.mark.parametrize("single_root", [True, False], ids=["single root", "several roots"])


def in_log_space(trees, scores, gamma):
    """Values and marginals by the pass that neither over- nor underflows."""
    return slopes_in_log_space(trees, scores, np.zeros(trees.n_unary), gamma)[:2]


def slopes_in_log_space(trees, scores, along, gamma=1.0):
    """The same, and the slopes of marginals along a direction."""
    values, marginals, slopes = np.zeros(trees.n_instances), np.zeros(trees.n_unary), np.zeros(trees.n_unary)
    status = (trees.lengths > 0).astype(np.int8)
    layout = (trees.lengths, trees.block_offsets, scores.unary, along)
    matrix_tree_log.sum_pass(*layout, trees.single_root, gamma, values, marginals, slopes, status)
    assert not status.any()
    return values, marginals, slopes


def by_inverse(scores, single_root):
    """Value and marginals of one sentence by the formulas of [Koo2007], which lose digits."""
    n = len(scores)
    weights = np.exp(scores).T  # [head, dependent], as there
    root = np.diag(weights).copy()
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=0)) - weights
    if single_root:
        laplacian[0] = root
    else:
        laplacian += np.diag(root)
    inverse = np.linalg.inv(laplacian)
    later = np.arange(n) > 0 if single_root else np.ones(n, np.bool_)
    marginals = weights * (np.diag(inverse) * later)[None, :] - weights * (inverse.T * later[:, None])
    np.fill_diagonal(marginals, root * (inverse[:, 0] if single_root else np.diag(inverse)))
    return np.linalg.slogdet(laplacian)[1], marginals.T


@roots
def test_numbers_of_trees(single_root):
    # Cayley's formula
    known = [1, *(n ** (n - 1) if single_root else (n + 1) ** (n - 1) for n in range(1, 7))]
    trees = NonProjectiveTrees(range(7), single_root=single_root)
    values, _ = trees.smoothed_max(Parts(np.zeros(trees.n_unary)), 1.0)
    np.testing.assert_allclose(np.exp(values), known, rtol=1e-12)
    assert [sum(1 for _ in trees.enumerate(n)) for n in range(5)] == known[:5]


@roots
def test_five_words_keep_the_promises(single_root):
    check_structure(NonProjectiveTrees([5, 0, 1, 2], single_root=single_root), np.random.default_rng(3))


@roots
@pytest.mark.parametrize("n", [1, 2, 7, 20, 41])
def test_easy_scores_equal_determinant_and_inverse(single_root, n):
    trees = NonProjectiveTrees([n] * 3, single_root=single_root)
    scores = random_scores(trees, np.random.default_rng(n))
    values, marginals = trees.smoothed_max(scores, 1.0)
    for k, block in enumerate(scores.unary.reshape(3, n, n)):
        value, expected = by_inverse(block, single_root)
        np.testing.assert_allclose(values[k], value, rtol=1e-12)
        np.testing.assert_allclose(marginals.unary.reshape(3, n, n)[k], expected, atol=1e-9)


@roots
@pytest.mark.parametrize("kind", [*SCORE_KINDS, "wide", "mostly impossible"])
@pytest.mark.parametrize("gamma", GAMMAS[1:])
def test_groups_of_any_lengths_equal_the_pass_in_log_space(single_root, kind, gamma):
    rng = np.random.default_rng(1)
    trees = NonProjectiveTrees(rng.integers(0, 12, 40), single_root=single_root)
    scores = random_scores(trees, rng, kind)
    if kind == "wide":
        scores = Parts(30.0 * scores.unary)
    elif kind == "mostly impossible":
        scores = Parts(np.where(rng.random(trees.n_unary) < 0.7, -np.inf, 5.0 * scores.unary))
    values, marginals = trees.smoothed_max(scores, gamma)
    expected, slow = in_log_space(trees, scores, gamma)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(marginals.unary, slow, rtol=0, atol=1e-10)


@roots
def test_pass_in_log_space_equals_enumeration(single_root):
    rng = np.random.default_rng(2)
    for kind in (*SCORE_KINDS, "mostly impossible"):
        for _ in range(4):
            trees = NonProjectiveTrees([4, 1, 3], single_root=single_root)
            scores = random_scores(trees, rng, kind)
            if kind == "mostly impossible":
                scores = Parts(np.where(rng.random(trees.n_unary) < 0.6, -np.inf, scores.unary))
            for found in (in_log_space(trees, scores, 0.7), trees.smoothed_max(scores, 0.7)):
                expected = brute_force_smoothed_max(trees, scores, 0.7)
                marginals = found[1] if isinstance(found[1], np.ndarray) else found[1].unary
                np.testing.assert_allclose(found[0], expected.values, rtol=1e-12, atol=1e-11)
                np.testing.assert_allclose(marginals, expected.marginals.unary, atol=1e-10)


@roots
@pytest.mark.parametrize("depth", [5.0, 20.0, 40.0, 100.0, 160.0, 170.0, 1e3, 1e5])
def test_small_marginals_keep_their_digits(single_root, depth):
    # each word of a pair wants the other, so that the determinant is e ** -depth times its terms, or less
    n, rng = 4, np.random.default_rng(4)
    trees = NonProjectiveTrees([n], single_root=single_root)
    block = rng.normal(size=(n, n)) - depth
    block[[0, 1, 2, 3], [1, 0, 3, 2]] += depth
    scores = Parts(block.ravel())
    values, marginals = trees.smoothed_max(scores, 1.0)
    expected = brute_force_smoothed_max(trees, scores, 1.0)
    np.testing.assert_allclose(values, expected.values, rtol=1e-14)
    kept = expected.marginals.unary > 1e-60
    np.testing.assert_allclose(marginals.unary[kept], expected.marginals.unary[kept], rtol=1e-9 * max(1, depth / 1e3))
    if depth == 40.0:  # where the formula with an inverse has lost them
        assert np.abs(by_inverse(block, single_root)[1].ravel() - expected.marginals.unary).max() > 1e-6


@roots
@pytest.mark.parametrize("way", ["only", "back"])
def test_chains_whose_products_leave_the_range_equal_the_pass_in_log_space(single_root, way):
    n, rare = 14, -140.0
    block = np.full((n, n), -np.inf)
    if way == "only":  # all words go to words 0 and 1, but for a way of rare arcs to the one root: e ** -1680 in all
        block[[0, 1], [1, 0]] = 0.0
        block[0, n - 1], block[2, 2] = rare, 0.0
        block[range(3, n), 0], block[range(3, n), range(2, n - 1)] = 0.0, rare
    else:  # going on is easy and going back is rare, and every word may be the root
        np.fill_diagonal(block, 0.0)
        block[range(n - 1), range(1, n)], block[range(1, n), range(n - 1)] = 0.0, rare
        block[n - 1, n - 2] = 0.0
    trees = NonProjectiveTrees([n], single_root=single_root)
    for scores in (Parts(block.ravel()), Parts(block[::-1, ::-1].ravel())):
        values, marginals = trees.smoothed_max(scores, 1.0)
        expected, slow = in_log_space(trees, scores, 1.0)
        assert np.isfinite(values).all()
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        np.testing.assert_allclose(marginals.unary, slow, atol=1e-12)


@roots
def test_known_heads_leave_one_tree(single_root):
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 15, 12)
    trees = NonProjectiveTrees(lengths, single_root=single_root)
    heads = trees.decode(random_scores(trees, rng))
    scores = random_scores(trees, rng)
    known = np.full(trees.n_unary, -np.inf)
    known[trees.arcs_of(heads)] = scores.unary[trees.arcs_of(heads)]
    for gamma in GAMMAS:
        values, marginals = trees.smoothed_max(Parts(known), gamma)
        taken = np.isfinite(known)
        np.testing.assert_allclose(values, np.bincount(trees.instance[taken], known[taken]), atol=1e-12)
        np.testing.assert_allclose(marginals.unary, taken, atol=1e-12)
    some = np.where(np.repeat(rng.random(trees.n_tokens) < 0.5, np.diff(trees.offsets)), known, scores.unary)
    values, marginals = trees.smoothed_max(Parts(some), 1.0)
    expected, slow = in_log_space(trees, Parts(some), 1.0)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(marginals.unary, slow, atol=1e-11)


@pytest.fixture
def recorded(monkeypatch):
    """How many sentences each call of the scaled pass left to log space."""
    n_left, sum_pass = [], matrix_tree.sum_pass

    def count(*arguments):
        sum_pass(*arguments)
        n_left.append(int(arguments[-1].sum()))

    monkeypatch.setattr(matrix_tree, "sum_pass", count)
    return n_left


@roots
@pytest.mark.parametrize("size", [1.0, 10.0, 20.0, 60.0])
@pytest.mark.parametrize("rare", [0.0, 0.2, 0.7])
def test_covariances_equal_those_in_log_space(single_root, size, rare, recorded):
    rng = np.random.default_rng(11)
    trees = NonProjectiveTrees(np.append(rng.integers(0, 14, 60), [25, 40]), single_root=single_root)
    scores = size * rng.normal(size=trees.n_unary)
    scores[rng.random(trees.n_unary) < rare] = -np.inf
    along = rng.normal(size=trees.n_unary)
    for factor in (1.0, 1e3):
        means, products = trees.covariances(Parts(scores), Parts(factor * along))
        _, marginals, slopes = slopes_in_log_space(trees, Parts(scores), factor * along)
        np.testing.assert_allclose(products.unary, slopes, rtol=1e-9, atol=1e-9 * factor)
        expected = np.bincount(trees.instance, marginals * factor * along, trees.n_instances)
        np.testing.assert_allclose(means, expected, rtol=1e-9, atol=1e-9 * factor)
    assert recorded[0] == recorded[1]
    assert recorded[0] == 0 if size <= 10.0 else recorded[0] < 55  # what is easy is not left to log space


@roots
def test_covariances_where_known_heads_leave_one_tree_are_none(single_root):
    rng = np.random.default_rng(12)
    trees = NonProjectiveTrees(rng.integers(1, 15, 12), single_root=single_root)
    scores = random_scores(trees, rng)
    arcs = trees.arcs_of(trees.decode(scores))
    known = np.full(trees.n_unary, -np.inf)
    known[arcs] = scores.unary[arcs]
    along = random_scores(trees, rng)
    means, products = trees.covariances(Parts(known), along)
    np.testing.assert_allclose(products.unary, 0.0, atol=1e-12)
    np.testing.assert_allclose(means, np.bincount(trees.instance[arcs], along.unary[arcs]), rtol=1e-12, atol=1e-12)
    some = np.where(np.repeat(rng.random(trees.n_tokens) < 0.5, np.diff(trees.offsets)), known, scores.unary)
    _, _, slopes = slopes_in_log_space(trees, Parts(some), along.unary)
    np.testing.assert_allclose(trees.covariances(Parts(some), along)[1].unary, slopes, atol=1e-11)


@roots
def test_what_a_sentence_gets_does_not_depend_on_its_group(single_root):
    rng = np.random.default_rng(6)
    lengths = np.append(rng.integers(0, 6, 21), [11, 29, 11, 30])
    trees = NonProjectiveTrees(lengths, single_root=single_root)
    scores = random_scores(trees, rng, "impossible")
    values, marginals = trees.smoothed_max(scores, 1.0)
    for n, size in enumerate(lengths):
        own = Parts(scores.unary[trees.block_offsets[n] : trees.block_offsets[n + 1]])
        value, found = NonProjectiveTrees([size], single_root=single_root).smoothed_max(own, 1.0)
        assert value[0] == values[n]
        assert (found.unary == marginals.unary[trees.instance == n]).all()
    along = random_scores(trees, rng)
    means, products = trees.covariances(scores, along)
    for n, size in enumerate(lengths):
        own = [Parts(one.unary[trees.block_offsets[n] : trees.block_offsets[n + 1]]) for one in (scores, along)]
        mean, found = NonProjectiveTrees([size], single_root=single_root).covariances(*own)
        assert mean[0] == means[n]
        assert (found.unary == products.unary[trees.instance == n]).all()


@roots
def test_the_best_tree_is_at_least_the_best_projective_one_and_equal_where_that_is_favoured(single_root):
    rng = np.random.default_rng(7)
    lengths = rng.integers(0, 20, 30)
    crossing, planar = (kind(lengths, single_root=single_root) for kind in (NonProjectiveTrees, ProjectiveTrees))
    scores = random_scores(crossing, rng)
    values, _ = crossing.smoothed_max(scores, 0.0)
    assert (values >= planar.smoothed_max(scores, 0.0)[0] - 1e-12).all()
    heads = planar.decode(scores)
    scores.unary[planar.arcs_of(heads)] += 10.0  # so that no tree with other arcs is better
    assert (crossing.decode(scores) == heads).all()
    np.testing.assert_allclose(*(kind.smoothed_max(scores, 0.0)[0] for kind in (crossing, planar)), rtol=1e-13)


@roots
@pytest.mark.parametrize("kind", ["normal", "ties", "impossible"])
def test_long_best_trees_equal_a_linear_program_and_the_limit_of_sums(single_root, kind):
    rng = np.random.default_rng(8)
    trees = NonProjectiveTrees([60, 37, 12], single_root=single_root)
    scores = random_scores(trees, rng, kind)
    values, _ = trees.smoothed_max(scores, 0.0)
    soft, _ = trees.smoothed_max(scores, 1e-4)
    np.testing.assert_allclose(values, soft, atol=1e-4 * 60 * np.log(60))
    heads = trees.decode(scores)
    chosen = np.add.reduceat(scores.unary[trees.arcs_of(heads)], trees.token_offsets[:-1])
    np.testing.assert_allclose(chosen, values, rtol=1e-13)


def test_a_single_root_is_chosen_with_the_whole_tree_in_view():
    # the best tree with two roots has words 0 and 1 there; one of them has to hang somewhere else
    scores = np.full((3, 3), -9.0)
    scores[0, 0], scores[1, 1], scores[2, 0] = 5.0, 4.0, 1.0
    scores[0, 2], scores[1, 2] = 2.0, -8.0
    several = NonProjectiveTrees([3], single_root=False)
    assert several.decode(Parts(scores.ravel())).tolist() == [ROOT, ROOT, 0]
    single = NonProjectiveTrees([3])
    expected = brute_force_smoothed_max(single, Parts(scores.ravel()), 0.0).argmax[0]
    assert single.decode(Parts(scores.ravel())).tolist() == [ROOT, 2, 0]
    assert expected.unary.reshape(3, 3)[[0, 1, 2], [0, 2, 0]].all()


def test_sums_at_a_gamma_whose_inverse_overflows_are_those_of_the_best_tree():
    scores = Parts(np.random.default_rng(4).normal(size=100))
    for single_root in (True, False):
        trees = NonProjectiveTrees([10], single_root=single_root)
        (values, marginals), (best, indicators) = (trees.smoothed_max(scores, gamma) for gamma in (1e-310, 0.0))
        np.testing.assert_allclose(values, best, rtol=1e-12)
        np.testing.assert_array_equal(marginals.unary, indicators.unary)


def test_ties_go_to_the_first_head():
    assert NonProjectiveTrees([3]).decode(Parts(np.zeros(9))).tolist() == [ROOT, 0, 0]
    assert NonProjectiveTrees([3], single_root=False).decode(Parts(np.zeros(9))).tolist() == [ROOT, 0, 0]


def test_impossible_sentences_are_told_apart():
    trees = NonProjectiveTrees([2, 1, 4, 2])
    scores = np.zeros(trees.n_unary)
    scores[[0, 3]] = -np.inf  # the first sentence has no root
    block = scores[trees.block_offsets[2] : trees.block_offsets[3]].reshape(4, 4)
    block[:2, 2:] = block[2:, :2] = -np.inf  # two halves of the third one never meet, so that each wants a root
    for gamma in GAMMAS:
        values, marginals = trees.smoothed_max(Parts(scores), gamma)
        assert np.isneginf(values).tolist() == [True, False, True, False]
        assert not marginals.unary[np.isneginf(values)[trees.instance]].any()
    assert (trees.decode(Parts(scores)) == -2).tolist() == [True] * 2 + [False] + [True] * 4 + [False] * 2


@roots
def test_two_hundred_words(single_root):
    rng = np.random.default_rng(9)
    trees = NonProjectiveTrees([200, 3], single_root=single_root)
    for scores in (Parts(np.zeros(trees.n_unary)), random_scores(trees, rng)):
        values, marginals = trees.smoothed_max(scores, 1.0)
        np.testing.assert_allclose(np.add.reduceat(marginals.unary, trees.offsets[:-1]), 1.0, atol=1e-12)
        assert scores.unary[trees.arcs_of(trees.decode(scores))[:200]].sum() <= values[0]
    value, expected = by_inverse(scores.unary[: 200 * 200].reshape(200, 200), single_root)
    np.testing.assert_allclose(values[0], value, rtol=1e-12)
    np.testing.assert_allclose(marginals.unary[: 200 * 200], expected.ravel(), atol=1e-9)


def test_a_program_that_would_be_too_large_is_refused_beforehand():
    trees = NonProjectiveTrees([200])
    with pytest.raises(InvalidInputError, match=r"200 words need 15,960,400 variables, about .* GB .*gamma > 0"):
        trees.polytope(Parts(np.zeros(trees.n_unary)), 0)


@roots
def test_the_stated_number_of_variables_is_the_built_one(single_root, monkeypatch):
    for n in range(1, 6):
        trees = NonProjectiveTrees([n], single_root=single_root)
        scores = Parts(np.zeros(n * n))
        built = len(trees.polytope(scores, 0).objective)
        monkeypatch.setattr(_polytopes, "_MOST", built - 1)
        with pytest.raises(InvalidInputError, match=f"{built} variables"):
            trees.polytope(scores, 0)
        monkeypatch.undo()


TAGS = {"tag": ["NOUN", "VERB", "NOUN", "VERB", "NOUN", "VERB", "NOUN"]}
RULES = {
    "roots are verbs": E[part("root") & (part("dependent_tag") == "VERB")] >= 0.7 * E[part("root")],
    "one child": (E[~part("root")] <= 1).per("sentence", "head"),
    "short arcs": (E[part("length") > 1] <= 0.5).per("sentence"),
}


@roots
@pytest.mark.parametrize("name", list(RULES))
def test_constraints_at_every_gamma(single_root, name):
    trees = NonProjectiveTrees([3, 4], single_root=single_root)
    columns = trees.arc_columns(TAGS)
    check_constraint(RULES[name], trees, columns)
    gammas = (-np.inf, 0.0, 0.3, 1.0, 2.5)
    assert None not in check_projection(RULES[name], trees, extra_columns=columns, gammas=gammas).values()
