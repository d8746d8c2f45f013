"""Projective trees beyond what holds for every family: arcs, groups of sentences, scores of any size, constraints."""

import math

import numpy as np
import pytest
from check_projection import check_projection
from structure_cases import GAMMAS, SCORE_KINDS, random_scores

from spectrem.constraints import E, compile_constraints, part
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.kernels.trees import eisner
from spectrem.structures import ROOT, Parts, Product, ProjectiveTrees, _polytopes
from spectrem.structures.derivations import smoothed_max
from spectrem.testing import brute_force_smoothed_max, check_constraint, check_structure

roots = pytest.mark.parametrize("single_root", [True, False], ids=["single root", "several roots"])


def with_wide_numbers(trees, scores, gamma):
    """Values and marginals by the pass that neither over- nor underflows."""
    values, marginals = smoothed_max(trees, scores, gamma, None, None)
    return values, marginals.unary


@roots
def test_numbers_of_trees(single_root):
    # https://oeis.org/A006013 and https://oeis.org/A001764
    known = [1, 1, 2, 7, 30, 143, 728] if single_root else [1, 1, 3, 12, 55, 273, 1428]
    trees = ProjectiveTrees(range(7), single_root=single_root)
    values, _ = trees.smoothed_max(Parts(np.zeros(trees.n_unary)), 1.0)
    np.testing.assert_allclose(np.exp(values), known, rtol=1e-12)
    assert [sum(1 for _ in trees.enumerate(n)) for n in range(6)] == known[:6]


@roots
def test_five_words_keep_the_promises(single_root):
    check_structure(ProjectiveTrees([5, 0, 1, 2], single_root=single_root), np.random.default_rng(3))


@roots
@pytest.mark.parametrize("kind", SCORE_KINDS)
@pytest.mark.parametrize("gamma", GAMMAS[1:])
def test_groups_of_any_lengths_equal_the_pass_with_wide_numbers(single_root, kind, gamma):
    rng = np.random.default_rng(1)
    trees = ProjectiveTrees(rng.integers(0, 14, 40), single_root=single_root)
    scores = random_scores(trees, rng, kind)
    values, marginals = trees.smoothed_max(scores, gamma)
    expected, slow = with_wide_numbers(trees, scores, gamma)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(marginals.unary, slow, rtol=0, atol=1e-10)


@roots
def test_what_a_sentence_gets_does_not_depend_on_its_group(single_root):
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 12, 21)
    trees = ProjectiveTrees(lengths, single_root=single_root)
    scores = random_scores(trees, rng, "ties")
    values, marginals = trees.smoothed_max(scores, 1.0)
    best, heads = trees.smoothed_max(scores, 0.0)[0], trees.decode(scores)
    for n, size in enumerate(lengths):
        own = Parts(scores.unary[trees.block_offsets[n] : trees.block_offsets[n + 1]])
        alone = ProjectiveTrees([size], single_root=single_root)
        value, found = alone.smoothed_max(own, 1.0)
        assert value[0] == values[n]
        assert (found.unary == marginals.unary[trees.instance == n]).all()
        assert alone.smoothed_max(own, 0.0)[0][0] == best[n]
        assert (alone.decode(own) == heads[trees.token_offsets[n] : trees.token_offsets[n + 1]]).all()


@pytest.mark.parametrize("depth", [1.0, 500.0, 590.0, 600.0, 700.0, 1e4])
def test_no_tree_is_lost_where_all_of_them_are_far_below_the_best_heads(depth):
    # both words want each other: every tree gives up one of these arcs for the root
    trees = ProjectiveTrees([2])
    scores = Parts(np.array([-depth, 0.0, 0.0, -depth - 1.0]))
    values, marginals = trees.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(values[0], -depth + np.log1p(np.exp(-1.0)), rtol=1e-14)
    np.testing.assert_allclose(marginals.unary[:2], [1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(1.0))], rtol=1e-10)
    assert trees.decode(scores).tolist() == [ROOT, 0]


def test_sentences_near_the_limit_of_the_scaled_pass_are_exact():
    rng = np.random.default_rng(4)
    trees = ProjectiveTrees([12] * 60)
    scores = Parts(rng.normal(size=trees.n_unary) * np.repeat(np.linspace(1, 250, 60), 144))
    status, values, tops = np.ones(60, np.int8), np.zeros(60), scores.unary.reshape(-1, 12).max(axis=1)
    marginals = np.exp(scores.unary - np.repeat(tops, 12))
    layout = (np.arange(60), trees.lengths, trees.block_offsets, trees.token_offsets, (marginals,), tops)
    eisner.sum_pass(*layout, 1.0, True, values, status)
    expected, slow = with_wide_numbers(trees, scores, 1.0)
    assert 0 < status.sum() < 40  # some are beyond the limit
    kept = status == 0
    deepest = (expected - tops.reshape(60, 12).sum(axis=1))[kept].min()
    assert deepest < -450
    np.testing.assert_allclose(values[kept], expected[kept], rtol=1e-13)
    np.testing.assert_allclose(marginals.reshape(60, -1)[kept], slow.reshape(60, -1)[kept], atol=1e-11)


@roots
def test_two_hundred_words(single_root):
    rng = np.random.default_rng(5)
    trees = ProjectiveTrees([200, 3], single_root=single_root)
    for scores in (Parts(np.zeros(trees.n_unary)), random_scores(trees, rng)):
        values, marginals = trees.smoothed_max(scores, 1.0)
        np.testing.assert_allclose(np.add.reduceat(marginals.unary, trees.offsets[:-1]), 1.0, atol=1e-12)
        heads = trees.decode(scores)
        assert scores.unary[trees.arcs_of(heads)[:200]].sum() <= values[0]
    step = 1e-4
    up, down = (trees.smoothed_max(Parts(scores.unary * (1 + by)), 1.0)[0][0] for by in (step, -step))
    own = slice(0, 200 * 200)
    np.testing.assert_allclose((up - down) / (2 * step), scores.unary[own] @ marginals.unary[own], rtol=1e-6)


@pytest.mark.parametrize("n", [eisner.LONGEST + 1, 400])
def test_sentences_too_long_for_lanes(n):
    trees = ProjectiveTrees([n, 2])
    values, marginals = trees.smoothed_max(Parts(np.zeros(trees.n_unary)), 1.0)
    k = n - 1  # https://oeis.org/A006013: binomial(3 k + 1, k) / (k + 1) trees over k + 1 words
    known = math.log(math.comb(3 * k + 1, k)) - math.log(k + 1)
    np.testing.assert_allclose(values, [known, math.log(2.0)], rtol=1e-13)
    np.testing.assert_allclose(np.add.reduceat(marginals.unary, trees.offsets[:-1]), 1.0, atol=1e-12)


@roots
def test_long_sentences_get_what_lanes_would_give_them(single_root, monkeypatch):
    rng = np.random.default_rng(6)
    trees = ProjectiveTrees([eisner.LONGEST + 9, 3, eisner.LONGEST + 40], single_root=single_root)
    scores = random_scores(trees, rng)
    values, marginals = trees.smoothed_max(scores, 1.0)
    best, heads = trees.smoothed_max(scores, 0.0)[0], trees.decode(scores)
    monkeypatch.setattr(eisner, "LONGEST", 300)
    monkeypatch.setattr(eisner, "LONGEST_MAX", 300)
    in_lanes, found = trees.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(values, in_lanes, rtol=1e-13)
    np.testing.assert_allclose(marginals.unary, found.unary, rtol=0, atol=1e-12)
    assert (trees.smoothed_max(scores, 0.0)[0] == best).all()
    assert (trees.decode(scores) == heads).all()


def value_by_logs(arcs):
    """The log of the sum over trees of one root, by Eisner's recursion on logarithms."""
    n = len(arcs)
    right, left = np.full((n, n), -np.inf), np.full((n, n), -np.inf)  # complete spans [start, end]
    open_right, open_left = right.copy(), left.copy()
    right[np.diag_indices(n)] = left[np.diag_indices(n)] = 0.0
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            joint = np.logaddexp.reduce(right[i, i:j] + left[i + 1 : j + 1, j])
            open_right[i, j], open_left[i, j] = joint + arcs[j, i], joint + arcs[i, j]
            right[i, j] = np.logaddexp.reduce(open_right[i, i + 1 : j + 1] + right[i + 1 : j + 1, j])
            left[i, j] = np.logaddexp.reduce(left[i, i:j] + open_left[i:j, j])
    return np.logaddexp.reduce(left[0] + right[:, n - 1] + np.diag(arcs))


@pytest.mark.parametrize("kind", ["normal", "mixed"])
def test_a_long_sentence_equals_a_recursion_on_logarithms(kind):
    rng = np.random.default_rng(7)
    trees = ProjectiveTrees([240])
    scores = random_scores(trees, rng, kind)
    values, marginals = trees.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(values[0], value_by_logs(scores.unary.reshape(240, 240)), rtol=1e-13)
    np.testing.assert_allclose(np.add.reduceat(marginals.unary, trees.offsets[:-1]), 1.0, atol=1e-12)
    assert (marginals.unary <= 1.0).all()
    along = rng.normal(size=trees.n_unary)
    up, down = (trees.smoothed_max(Parts(scores.unary + by * along), 1.0)[0][0] for by in (1e-3, -1e-3))
    np.testing.assert_allclose((up - down) / 2e-3, along @ marginals.unary, atol=1e-4)


def test_a_long_sentence_under_constraints_takes_few_evaluations():
    trees = ProjectiveTrees([300])
    scores = Parts(np.random.default_rng(8).normal(size=trees.n_unary))
    rules = [(E[part("length") > 5] <= 60).per("sentence"), (E[part("direction") == "left"] >= 180).per("sentence")]
    found = project_batch(trees, scores, compile_constraints(rules, trees), gamma=1.0)
    assert found.violation < 1e-5
    assert found.n_evaluations <= 20


def test_a_program_that_would_be_too_large_is_refused_beforehand():
    trees = ProjectiveTrees([200])
    with pytest.raises(InvalidInputError, match=r"200 words need 4,040,100 variables, about .* GB .*gamma > 0"):
        trees.polytope(Parts(np.zeros(trees.n_unary)), 0)


@roots
def test_the_stated_number_of_variables_is_the_built_one(single_root, monkeypatch):
    for n in range(1, 7):
        trees = ProjectiveTrees([n], single_root=single_root)
        scores = Parts(np.zeros(n * n))
        built = len(trees.polytope(scores, 0).objective)
        monkeypatch.setattr(_polytopes, "_MOST", built)
        trees.polytope(scores, 0)
        monkeypatch.setattr(_polytopes, "_MOST", built - 1)
        with pytest.raises(InvalidInputError, match=f"{built} variables"):
            trees.polytope(scores, 0)
        monkeypatch.undo()


def test_impossible_sentences_are_told_apart():
    trees = ProjectiveTrees([2, 1, 2])
    scores = np.zeros(trees.n_unary)
    scores[[0, 3]] = -np.inf  # the first sentence has no root
    for gamma in GAMMAS:
        values, marginals = trees.smoothed_max(Parts(scores), gamma)
        assert np.isneginf(values).tolist() == [True, False, False]
        assert not marginals.unary[:4].any()
    assert trees.decode(Parts(scores)).tolist()[:3] == [-2, -2, ROOT]


def test_several_roots_may_be_better_than_one():
    scores = Parts(np.array([2.0, 0.0, 0.0, 2.0]))
    assert ProjectiveTrees([2], single_root=False).decode(scores).tolist() == [ROOT, ROOT]
    assert ProjectiveTrees([2]).decode(scores).tolist() == [ROOT, 0]


def test_columns():
    columns = ProjectiveTrees([1, 2]).columns
    assert columns["sentence"].tolist() == [0, 1, 1, 1, 1]
    assert columns["dependent"].tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(columns["head"], [np.nan, np.nan, 1, 0, np.nan])
    assert columns["occurrence"].tolist() == [0, 1, 1, 2, 2]
    assert columns["root"].tolist() == [True, True, False, False, True]
    assert columns["direction"][2:4].tolist() == ["left", "right"]
    assert np.isnan(columns["direction"].tolist()[0])
    np.testing.assert_array_equal(columns["length"], [np.nan, np.nan, 1, 1, np.nan])


def test_columns_from_values_of_words():
    trees = ProjectiveTrees([1, 2])
    columns = trees.arc_columns({"tag": ["V", "N", "V"], "year": [1, 2, 3], "verb": np.array([True, False, True])})
    assert set(columns) == {f"{end}_{name}" for end in ("head", "dependent") for name in ("tag", "year", "verb")}
    assert columns["head_tag"][2:4].tolist() == ["V", "N"]
    np.testing.assert_array_equal(columns["head_year"], [np.nan, np.nan, 3, 2, np.nan])
    np.testing.assert_array_equal(columns["head_verb"], [np.nan, np.nan, 1, 0, np.nan])
    assert columns["dependent_tag"].tolist() == ["V", "N", "N", "V", "V"]
    assert columns["dependent_verb"].tolist() == [True, False, False, True, True]
    with pytest.raises(InvalidInputError, match=r"values\['tag'\] must have shape \(3,\), one value per word"):
        trees.arc_columns({"tag": ["V"]})


def test_arcs_of_heads():
    trees = ProjectiveTrees([1, 3])
    assert trees.arcs_of([ROOT, 1, ROOT, -2]).tolist() == [0, 2, 5, -1]
    for heads, said in (
        ([0, 1, ROOT, 1], "got 0 for word 0 of sentence 0"),
        ([ROOT, 3, ROOT, 1], r"heads must be in 0\.\.2 .*got 3 for word 0 of sentence 1.*CoNLL's heads less one"),
        ([ROOT, 1, ROOT, -3], "got -3 for word 2"),
        ([ROOT], "heads must have 4 entries, one per word of the batch; got 1"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            trees.arcs_of(heads)


def test_bad_arguments_are_named():
    with pytest.raises(InvalidInputError, match="lengths must not be negative; got -1 at index 1"):
        ProjectiveTrees([2, -1])
    with pytest.raises(InvalidInputError, match="single_root must be True or False; got 2"):
        ProjectiveTrees([2], single_root=2)


TAGS = {"tag": ["NOUN", "VERB", "NOUN", "VERB", "NOUN", "VERB", "NOUN"]}
NOUN_BY_VERB = (part("head_tag") == "VERB") & (part("dependent_tag") == "NOUN")
RULES = {
    "roots are verbs": E[part("root") & (part("dependent_tag") == "VERB")] >= 0.7 * E[part("root")],
    "one subject": (E[NOUN_BY_VERB & (part("direction") == "left")] <= 1).per("sentence", "head"),
    "short arcs": (E[part("length") > 1] <= 0.5).per("sentence"),
    "conserved": (E[part("conserved")] >= 0.6 * E.count(part("conserved"))).per("sentence"),
    "few children": (E[~part("root")] <= 1).per("sentence", "head").slack(penalty=0.5),
}


@roots
@pytest.mark.parametrize("name", list(RULES))
def test_constraints_at_every_gamma(single_root, name):
    trees = ProjectiveTrees([3, 4], single_root=single_root)
    columns = trees.arc_columns(TAGS) | {"conserved": np.arange(trees.n_unary) % 4 == 1}
    check_constraint(RULES[name], trees, columns)
    gammas = (-np.inf, 0.0, 0.3, 1.0, 2.5)
    found = check_projection(RULES[name], trees, extra_columns=columns, gammas=gammas)
    assert None not in found.values()


def test_two_trees_over_the_same_words_can_be_made_to_agree():
    # the trees of a sentence by two parsers, whose arcs must be equally likely
    both = Product({"one": ProjectiveTrees([3]), "other": ProjectiveTrees([3])}, name="parser")
    rules = (E[part("parser") == "one"] == E[part("parser") == "other"]).per("sentence", "dependent", "head")
    scores = Parts(np.random.default_rng(0).normal(size=both.n_unary))
    expected = brute_force_smoothed_max(ProjectiveTrees([3]), Parts(scores.unary.reshape(2, 9).mean(axis=0)), 1.0)
    found = check_projection(rules, both, scores, gammas=[1.0])[1.0]
    arcs = ProjectiveTrees([3]).columns["root"]
    np.testing.assert_allclose(
        found.marginals.unary.reshape(2, 9)[:, ~arcs], expected.marginals.unary[None, ~arcs].repeat(2, 0), atol=1e-4
    )
