import itertools

import numpy as np
import pytest
import structure_cases
from check_projection import check_projection
from structure_cases import SCORE_KINDS

from spectrem.constraints import E, compile_constraints, part
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.kernels.chains.potentials import fill_potentials
from spectrem.kernels.trees import eisner, valence
from spectrem.structures import ROOT, Parts, ValenceTrees, _polytopes
from spectrem.structures.derivations import smoothed_max
from spectrem.testing import check_structure

GAMMAS = (-np.inf, 0.0, 0.3, 1.0, 2.5)
HEAD, DEPENDENT, ROOTED = part("head"), part("dependent"), part("root")
RULES = {
    "no second child to the right of the first word": (
        E[(HEAD == 0) & (part("direction") == "right") & ~part("adjacent")] <= 0
    ).per("sentence"),
    "few long arcs": (E[part("length") > 1] <= 0.5).per("sentence"),
    "the last word is not the root": (E[ROOTED & (DEPENDENT == 2)] <= 0.1).per("sentence"),
    "half of the words hang on their neighbour": E[part("length") == 1] >= 0.5 * E.count(~part("stop")),
}


def random_scores(structure, seed=0):
    return Parts(np.random.default_rng(seed).normal(size=structure.n_unary))


def score_of(heads, arcs, stops):
    """The score of a tree by its story: every head takes its children of each side from the inside out, and stops."""
    total = 0.0
    for word, head in enumerate(heads):
        if head == ROOT:
            total += arcs[word, word, 0]
        for side, children in enumerate(
            (
                [d for d in range(word - 1, -1, -1) if heads[d] == word],
                [d for d in range(word + 1, len(heads)) if heads[d] == word],
            )
        ):
            for number, child in enumerate(children):
                total += arcs[child, word, min(number, 1)]
            total += stops[word, side, min(len(children), 1)]
    return total


def is_tree(heads):
    """Whether all words lie below the root, and those below any word are neighbours of each other."""

    def below(word):
        return [word] + [d for child in range(len(heads)) if heads[child] == word for d in below(child)]

    reached = []
    for word in (w for w in range(len(heads)) if heads[w] == ROOT):
        reached += below(word)
    if sorted(reached) != list(range(len(heads))):
        return False
    return all(max(below(w)) - min(below(w)) == len(below(w)) - 1 for w in range(len(heads)))


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_values_are_sums_over_stories(n, single_root):
    trees = ValenceTrees([2, n], single_root=single_root)
    scores = random_scores(trees, n)
    own = scores.unary[trees.offsets[1] :]
    arcs, stops = own[: 2 * n * n].reshape(n, n, 2), own[2 * n * n :].reshape(n, 2, 2)
    found = {
        heads: score_of(heads, arcs, stops)
        for heads in itertools.product(range(ROOT, n), repeat=n)
        if is_tree(heads) and (not single_root or heads.count(ROOT) == 1)
    }
    for gamma in (0.3, 1.0, 2.5):
        expected = gamma * np.logaddexp.reduce(np.array(list(found.values())) / gamma)
        assert trees.smoothed_max(scores, gamma)[0][1] == pytest.approx(expected, rel=1e-12)
    assert trees.smoothed_max(scores, 0.0)[0][1] == pytest.approx(max(found.values()), rel=1e-12)
    assert tuple(trees.decode(scores)[2:]) == max(found, key=found.get)
    assert len(list(trees.enumerate(1))) == len(found)


def test_promises_for_longer_sentences():
    check_structure(ValenceTrees([5, 0, 1]), np.random.default_rng(0))


def test_parts_and_columns():
    trees = ValenceTrees([1, 0, 2])
    columns = trees.columns
    nan = np.nan
    assert trees.n_unary == 6 + 16
    np.testing.assert_array_equal(columns["sentence"], [0] * 6 + [2] * 16)
    np.testing.assert_array_equal(columns["dependent"][6:], [0, 0, 0, 0, 1, 1, 1, 1] + [nan] * 8)
    np.testing.assert_array_equal(columns["head"][6:], [nan, nan, 1, 1, 0, 0, nan, nan] + [nan] * 8)
    np.testing.assert_array_equal(columns["occurrence"][6:], [1, 1, 1, 1, 2, 2, 2, 2] + [nan] * 8)
    np.testing.assert_array_equal(columns["root"][6:14], [1, 0, 0, 0, 0, 0, 1, 0])
    directions = [str(value) for value in columns["direction"][6:14]]
    assert directions == ["nan", "nan", "left", "left", "right", "right", "nan", "nan"]
    np.testing.assert_array_equal(columns["length"][6:14], [nan, nan, 1, 1, 1, 1, nan, nan])
    np.testing.assert_array_equal(columns["adjacent"], ([True, False] + [False] * 4) + [True, False] * 4 + [False] * 8)
    np.testing.assert_array_equal(columns["stop"][6:], [False] * 8 + [True] * 8)
    np.testing.assert_array_equal(trees.choice, [0, 0, 3, 3, 4, 4, 1, 1, 1, 1, 2, 2, 2, 2, 5, 5, 6, 6, 7, 7, 8, 8])


def test_columns_of_words():
    found = ValenceTrees([1, 2]).arc_columns({"tag": ["V", "D", "N"], "number": [7, 8, 9]})
    text = {name: [str(value) for value in column] for name, column in found.items()}
    assert text["dependent_tag"] == ["V"] * 2 + ["nan"] * 4 + ["D"] * 4 + ["N"] * 4 + ["nan"] * 8
    assert text["head_tag"] == ["nan"] * 6 + ["nan", "nan", "N", "N", "D", "D", "nan", "nan"] + ["nan"] * 8
    np.testing.assert_array_equal(found["dependent_number"][6:14], [8, 8, 8, 8, 9, 9, 9, 9])
    np.testing.assert_array_equal(found["head_number"][8:12], [9, 9, 8, 8])


def test_given_trees_as_parts():
    trees = ValenceTrees([3, 2, 4])
    # The middle sentence is left out; the last tree is not projective.
    heads = np.array([1, ROOT, 1, -2, -2, 2, 3, ROOT, 0])
    indicator = trees.parts_of(heads).unary
    for m, own in enumerate([heads[:3], [], heads[5:]]):
        n, block = len(own), indicator[trees.offsets[m] : trees.offsets[m + 1]]
        if n == 0:
            assert not block.any()
            continue
        scores = np.random.default_rng(m).normal(size=len(block))
        arcs, stops = scores[: 2 * n * n].reshape(n, n, 2), scores[2 * n * n :].reshape(n, 2, 2)
        assert block @ scores == pytest.approx(score_of(own, arcs, stops))
    with pytest.raises(InvalidInputError, match=r"heads must be in 0\.\.1 .* got 2 for word 0 of sentence 1"):
        trees.parts_of([1, ROOT, 1, 2, ROOT, ROOT, 0, 0, 0])


def test_impossible_sentences():
    trees = ValenceTrees([2, 1])
    scores = np.zeros(trees.n_unary)
    scores[[8, 10]] = -np.inf  # the first word never stops on its left
    for gamma in (0.0, 1.0):
        values, marginals = trees.smoothed_max(Parts(scores), gamma)
        assert values.tolist() == [-np.inf, 0.0]
        assert not marginals.unary[:16].any()
        assert marginals.unary[16:].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert trees.decode(Parts(scores)).tolist() == [-2, -2, ROOT]


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_rules_are_projected_like_brute_force(rule, single_root):
    trees = ValenceTrees([3, 1, 2], single_root=single_root)
    found = check_projection(RULES[rule], trees, random_scores(trees, 1), gammas=GAMMAS)
    assert all(result is not None for result in found.values())


def test_best_trees_under_a_rule_over_the_batch():
    trees = ValenceTrees([3, 3])
    rows = compile_constraints(E[ROOTED & (DEPENDENT == 0)] == 1, trees)
    best = project_batch(trees, random_scores(trees), rows, gamma=-np.inf).marginals
    assert best.unary[trees.columns["root"] & (trees.columns["dependent"] == 0)].sum() == pytest.approx(1.0)


def test_a_long_sentence():
    trees = ValenceTrees([200])
    values, marginals = trees.smoothed_max(random_scores(trees), 1.0)
    columns = trees.columns
    assert np.isfinite(values[0])
    per_word = np.bincount(columns["dependent"][~columns["stop"]].astype(int), marginals.unary[~columns["stop"]])
    np.testing.assert_allclose(per_word, 1.0, atol=1e-9)
    assert marginals.unary[columns["root"]].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("single_root", [True, False])
def test_of_the_smallest_gamma_the_best_tree_is_left(single_root):
    trees = ValenceTrees([3, 5], single_root=single_root)
    scores = Parts(1000.0 * random_scores(trees).unary)
    best = trees.smoothed_max(scores, 0.0)
    for gamma in (1e-300, 1e-306, 5e-324):
        values, marginals = trees.smoothed_max(scores, gamma)
        np.testing.assert_allclose(values, best[0], rtol=1e-14)
        assert np.array_equal(marginals.unary, best[1].unary)


def test_a_program_that_would_be_too_large_is_refused_beforehand():
    trees = ValenceTrees([200])
    with pytest.raises(InvalidInputError, match=r"200 words need 5,413,600 variables, about .* GB .*gamma > 0"):
        trees.polytope(random_scores(trees), 0)


@pytest.mark.parametrize("single_root", [True, False])
def test_the_stated_number_of_variables_is_the_built_one(single_root, monkeypatch):
    for n in range(1, 7):
        trees = ValenceTrees([n], single_root=single_root)
        built = len(trees.polytope(random_scores(trees), 0).objective)
        monkeypatch.setattr(_polytopes, "_MOST", built)
        trees.polytope(random_scores(trees), 0)
        monkeypatch.setattr(_polytopes, "_MOST", built - 1)
        with pytest.raises(InvalidInputError, match=f"{built} variables"):
            trees.polytope(random_scores(trees), 0)
        monkeypatch.undo()


def with_wide_numbers(trees, scores, gamma):
    """Values and marginals by the pass that neither over- nor underflows."""
    values, marginals = smoothed_max(trees, scores, gamma, None, None)
    return values, marginals.unary


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("kind", SCORE_KINDS)
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_groups_of_any_lengths_equal_the_pass_with_wide_numbers(single_root, kind, gamma):
    rng = np.random.default_rng(1)
    trees = ValenceTrees(rng.integers(0, 13, 30), single_root=single_root)
    scores = structure_cases.random_scores(trees, rng, kind)
    values, marginals = trees.smoothed_max(scores, gamma)
    expected, slow = with_wide_numbers(trees, scores, gamma)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(marginals.unary, slow, rtol=0, atol=1e-10)


def test_sentences_near_the_limit_of_the_scaled_pass_are_exact():
    rng = np.random.default_rng(4)
    trees = ValenceTrees([8] * 60)
    scores = Parts(rng.normal(size=trees.n_unary) * np.repeat(np.linspace(1, 100, 60), 160))
    status, values = np.ones(60, np.int8), np.zeros(60)
    marginals, tops = np.empty(trees.n_unary), np.empty(3 * trees.n_tokens)
    fill_potentials(scores.unary, trees._choice_offsets, 1.0, 1e-307, marginals, tops)
    layout = (np.arange(60), trees.lengths, trees.offsets, trees.token_offsets)
    valence.sum_pass(*layout, (marginals,), tops, 1.0, True, values, status)
    expected, slow = with_wide_numbers(trees, scores, 1.0)
    kept = status == 0
    assert 20 < kept.sum() < 60  # some are beyond the limit
    assert (expected - tops.reshape(60, 24).sum(axis=1))[kept].min() < -450
    np.testing.assert_allclose(values[kept], expected[kept], rtol=1e-13)
    np.testing.assert_allclose(marginals.reshape(60, -1)[kept], slow.reshape(60, -1)[kept], atol=1e-11)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("kind", SCORE_KINDS)
def test_best_trees_in_groups_of_any_lengths(single_root, kind):
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, 13, 40)
    trees = ValenceTrees(lengths, single_root=single_root)
    scores = structure_cases.random_scores(trees, rng, kind)
    values, best = trees.smoothed_max(scores, 0.0)
    smoothed, _ = trees.smoothed_max(scores, 1e-4)
    np.testing.assert_allclose(values, smoothed, rtol=1e-12, atol=0.01)
    possible = np.where(np.isneginf(values)[trees.instance], 0.0, scores.unary)
    np.testing.assert_allclose(Parts(possible).dot(best), values[np.isfinite(values)].sum(), rtol=1e-12)
    heads = trees.decode(scores)
    for m, size in enumerate(lengths):
        alone = ValenceTrees([size], single_root=single_root)
        own = heads[trees.token_offsets[m] : trees.token_offsets[m + 1]]
        assert (alone.decode(Parts(scores.unary[trees.instance == m])) == own).all()


@pytest.mark.parametrize("single_root", [True, False])
def test_long_sentences_get_what_lanes_would_give_them(single_root, monkeypatch):
    trees = ValenceTrees([eisner.LONGEST + 9, 3], single_root=single_root)
    scores = random_scores(trees)
    values, marginals = trees.smoothed_max(scores, 1.0)
    best, heads = trees.smoothed_max(scores, 0.0)[0], trees.decode(scores)
    monkeypatch.setattr(eisner, "LONGEST", 300)
    monkeypatch.setattr(eisner, "LONGEST_MAX", 300)
    in_lanes, found = trees.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(values, in_lanes, rtol=1e-13)
    np.testing.assert_allclose(marginals.unary, found.unary, rtol=0, atol=1e-12)
    assert (trees.smoothed_max(scores, 0.0)[0] == best).all()
    assert (trees.decode(scores) == heads).all()


def test_a_long_sentence_with_large_scores():
    rng = np.random.default_rng(7)
    trees = ValenceTrees([220])
    scores = structure_cases.random_scores(trees, rng, "large")
    values, marginals = trees.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(np.bincount(trees.choice, marginals.unary), 1.0, atol=1e-12)
    assert (marginals.unary <= 1.0).all()
    assert values >= trees.smoothed_max(scores, 0.0)[0]
    along = rng.normal(size=trees.n_unary)
    up, down = (trees.smoothed_max(Parts(scores.unary + by * along), 1.0)[0][0] for by in (1e-3, -1e-3))
    np.testing.assert_allclose((up - down) / 2e-3, along @ marginals.unary, atol=1e-4)
