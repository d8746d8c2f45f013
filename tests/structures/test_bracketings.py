import numpy as np
import pytest
from check_projection import check_projection

from spectrem.constraints import E, part
from spectrem.exceptions import InvalidInputError
from spectrem.kernels import brackets
from spectrem.structures import Bracketings, Parts, _polytopes
from spectrem.testing import brute_force_smoothed_max, check_structure
from spectrem.testing.check_constraint import check_constraint

GAMMAS = (-np.inf, 0.0, 0.3, 1.0, 2.5)
CONSTITUENT, LENGTH = part("constituent"), part("span_length")
RULES = {
    "few pairs": (E[CONSTITUENT & (LENGTH == 2)] <= 1.2).per("sentence"),
    "a constituent ends before the last word": (E[CONSTITUENT & (LENGTH > 1) & (part("end") == 3)] >= 0.7).per(
        "sentence"
    ),
    "most spans at the start are distituents": (
        E[~CONSTITUENT & (part("start") == 0)] >= 0.5 * E.count(part("start") == 0)
    ).per("sentence"),
    "three of the long spans in all": E[CONSTITUENT & (LENGTH == 3)] == 1.5,
}


def random_scores(structure, seed=0):
    return Parts(np.random.default_rng(seed).normal(size=structure.n_unary))


def test_spans_and_columns():
    trees = Bracketings([2, 0, 1])
    assert (trees.n_instances, trees.n_spans, trees.n_unary) == (3, 4, 8)
    columns = trees.columns
    assert list(columns) == ["sentence", "start", "end", "span_length", "constituent"]
    assert columns["sentence"].tolist() == [0, 0, 0, 0, 0, 0, 2, 2]
    assert columns["start"].tolist() == [0, 0, 0, 0, 1, 1, 0, 0]
    assert columns["end"].tolist() == [1, 1, 2, 2, 2, 2, 1, 1]
    assert columns["span_length"].tolist() == [1, 1, 2, 2, 1, 1, 1, 1]
    assert columns["constituent"].tolist() == [True, False] * 4
    assert trees.choice.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert trees.bracket_offsets.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("lengths", [[], [0, 1, 2], [5, 3, 4, 3], [6]])
def test_promises(lengths):
    check_structure(Bracketings(lengths), np.random.default_rng(0))


@pytest.mark.parametrize(("n", "number"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 5), (5, 14)])
def test_every_binary_tree_is_enumerated_once(n, number):
    trees = Bracketings([n])
    listed = [tuple(one.unary) for one in trees.enumerate(0)]
    assert len(set(listed)) == len(listed) == number
    assert all(sum(one[::2]) == max(2 * n - 1, 0) for one in listed)
    start, end = trees.spans
    for one in listed:
        taken = [(a, b) for a, b, c in zip(start, end, one[::2], strict=True) if c]
        assert not any(a < c < b < d for a, b in taken for c, d in taken)


@pytest.mark.parametrize("rule", RULES)
def test_constraints_are_projected_like_brute_force(rule):
    trees = Bracketings([4, 5])
    found = check_projection(RULES[rule], trees, random_scores(trees, 1), gammas=GAMMAS)
    assert any(result is not None for result in found.values())
    check_constraint(RULES[rule], Bracketings([4, 3]))


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.5])
def test_spans_that_cannot_be_distituents_are_in_every_tree(gamma):
    trees = Bracketings([5, 4, 4])
    scores = random_scores(trees, 2)
    start, end = trees.spans
    sentence = trees.instance[::2]
    forced = (sentence == 0) & (start == 1) & (end == 3)
    crossing = (sentence == 1) & ((start == 0) & (end == 2) | (start == 1) & (end == 3))
    scores.unary[1::2][forced | crossing] = -np.inf
    values, marginals = trees.smoothed_max(scores, gamma)
    expected = brute_force_smoothed_max(trees, scores, gamma)
    np.testing.assert_allclose(values, expected.values, rtol=1e-13)
    np.testing.assert_allclose(marginals.unary, expected.marginals.unary, atol=1e-13)
    assert marginals.unary[::2][forced].tolist() == [1.0]
    assert values[1] == -np.inf  # neither of two spans that cross can be left out


@pytest.mark.parametrize("gamma", [0.01, 1.0])
def test_a_thousand_nats_between_trees_are_summed_exactly(gamma):
    trees = Bracketings([5] * 9)
    scores = Parts(1e3 * np.random.default_rng(3).choice([-1.0, 0.0, 1.0], trees.n_unary))
    values, marginals = trees.smoothed_max(scores, gamma)
    expected = brute_force_smoothed_max(trees, scores, gamma)
    np.testing.assert_allclose(values, expected.values, rtol=1e-13, atol=1e-11)
    np.testing.assert_allclose(marginals.unary, expected.marginals.unary, atol=1e-12)


@pytest.mark.parametrize("gain", [100.0, 244.0, 2e3])
def test_one_span_may_be_far_above_the_best_tree(gain):
    """The span (0, 2) gains most, but no possible tree has it: others fall behind by more than doubles say well."""
    trees = Bracketings([5])
    scores = Parts(np.zeros(30))
    start, end = trees.spans
    scores.unary[2 * np.flatnonzero((start == 0) & (end == 2))] = gain
    scores.unary[2 * np.flatnonzero((start == 0) & (end > 2) & (end < 5) | (start == 2) & (end == 5))] = -np.inf
    values, marginals = trees.smoothed_max(scores, 1.0)
    expected = brute_force_smoothed_max(trees, scores, 1.0)
    np.testing.assert_allclose(values, expected.values, rtol=1e-13)
    np.testing.assert_allclose(marginals.unary, expected.marginals.unary, atol=1e-13)


def test_long_sentences_side_by_side_with_short_ones():
    """Trees over n words without scores: their number is a Catalan number, and lanes of other lengths do not mix."""
    lengths = np.array([60, 3, 59, 200, 1, 2, 0, 40, 41, 270, 42, 7])
    trees = Bracketings(lengths)
    values, marginals = trees.smoothed_max(Parts(np.zeros(trees.n_unary)), 1.0)
    catalan = [0.0]
    for n in range(1, 270):
        catalan.append(catalan[-1] + np.log(2 * (2 * n - 1) / (n + 1)))
    np.testing.assert_allclose(values, [catalan[max(n - 1, 0)] for n in lengths], rtol=1e-12, atol=1e-12)
    inside = np.bincount(trees.instance[::2], marginals.unary[::2], len(lengths))
    assert brackets.LONGEST < 270  # one at a time, which takes less memory
    np.testing.assert_allclose(inside, np.maximum(2 * lengths - 1, 0), rtol=1e-12)


@pytest.mark.parametrize("lengths", [[12, 30, 17, 3, 25], [190]])
def test_sentences_side_by_side_and_one_at_a_time_agree(lengths, monkeypatch):
    trees = Bracketings(lengths)
    scores = Parts(2.0 * np.random.default_rng(4).normal(size=trees.n_unary))
    found = trees.smoothed_max(scores, 0.7)
    monkeypatch.setattr(brackets, "sum_pass", lambda *arguments: None)  # leaves all of them
    again = trees.smoothed_max(scores, 0.7)
    np.testing.assert_allclose(found[0], again[0], rtol=1e-13)
    np.testing.assert_allclose(found[1].unary, again[1].unary, atol=1e-13)


def test_decode_gives_the_brackets_of_the_best_tree():
    trees = Bracketings([3, 0, 1, 2, 3])
    scores = Parts(np.zeros(trees.n_unary))
    scores.unary[8] = 1.0  # the last two words of the first sentence
    scores.unary[-2] = -np.inf  # the last word of the last one
    assert trees.decode(scores).tolist() == [[0, 3], [1, 3], [0, 2], [-1, -1], [-1, -1]]
    assert trees.bracket_offsets.tolist() == [0, 2, 2, 2, 3, 5]
    assert Bracketings([3]).decode(Parts(np.zeros(12))).tolist() == [[0, 3], [1, 3]]  # cut at the first place


def test_a_program_that_would_be_too_large_is_refused_before_it_is_built(monkeypatch):
    trees = Bracketings([200])
    with pytest.raises(
        InvalidInputError, match=r"200 words need 1,353,399 variables, about 20\.3 GB with the solver, .* gamma > 0"
    ):
        trees.polytope(Parts(np.zeros(trees.n_unary)), 0)
    for n in range(7):
        monkeypatch.undo()
        short = Bracketings([n])
        scores = Parts(np.zeros(short.n_unary))
        built = short.polytope(scores, 0).equalities.shape[1]
        monkeypatch.setattr(_polytopes, "_MOST", built)
        short.polytope(scores, 0)
        monkeypatch.setattr(_polytopes, "_MOST", built - 1)
        with pytest.raises(InvalidInputError, match=f"{n} words need {built} variables"):
            short.polytope(scores, 0)


def test_lengths_are_checked():
    with pytest.raises(InvalidInputError, match="lengths"):
        Bracketings([-1])


@pytest.mark.parametrize("size", [1e9, 1e16, 1e100])
def test_trees_keep_their_number_of_constituents_however_large_scores_are(size):
    rng, lengths = np.random.default_rng(0), np.array([1, 2, 3, 6, 12])
    trees = Bracketings(lengths)
    for _ in range(10):
        scores = rng.normal(size=trees.n_unary) + size * rng.integers(-3, 4, trees.n_unary) / 7
        constituents = trees.smoothed_max(Parts(scores), 1.0)[1].unary[::2]
        assert np.add.reduceat(constituents, trees.span_offsets[:-1]) == pytest.approx(2 * lengths - 1)
