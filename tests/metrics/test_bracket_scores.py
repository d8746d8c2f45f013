import math

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import binary_ceiling, bracket_scores, branching, compare_bracketings
from spectrem.structures import Bracketings


def random_trees(lengths, seed):
    rng = np.random.default_rng(seed)

    def cut(start, end):
        if end - start < 2:
            return []
        at = int(rng.integers(start + 1, end))
        return [(start, end), *cut(start, at), *cut(at, end)]

    return [cut(0, n) for n in lengths]


def test_whole_sentences_and_single_words_get_no_credit():
    gold = [[(0, 5), (0, 1), (1, 5), (1, 3)], [(0, 2)], []]
    predicted = [[(0, 5), (0, 1), (0, 4), (1, 4), (1, 3), (1, 3)], [(0, 2)], []]
    found = bracket_scores(predicted, gold, [5, 2, 0])
    assert (found.n_correct, found.n_predicted, found.n_gold) == (1, 3, 2)
    assert (found.precision, found.recall, found.f1) == (1 / 3, 1 / 2, 2 / 5)
    assert (found.n_crossing, found.n_sentences, found.crossing) == (1, 3, 1 / 3)
    found = bracket_scores(predicted, gold, [5, 2, 0], whole=True)
    assert (found.n_correct, found.n_predicted, found.n_gold) == (3, 5, 4)
    assert math.isnan(bracket_scores([[]], [[]], [3]).f1)
    assert math.isnan(bracket_scores([], [], []).crossing)


def test_counts_are_sums_over_sentences():
    lengths = np.random.default_rng(0).integers(1, 9, 30).tolist()
    predicted, gold = random_trees(lengths, 1), random_trees(lengths, 2)
    found = bracket_scores(predicted, gold, lengths)
    correct = crossing = 0
    for n, guess, truth in zip(lengths, predicted, gold, strict=True):
        own = [(a, b) for a, b in guess if b - a not in (1, n)]
        true = [(a, b) for a, b in truth if b - a not in (1, n)]
        correct += len(set(own) & set(true))
        crossing += sum(
            any(set(range(a, b)) & set(range(c, d)) not in (set(), set(range(a, b)), set(range(c, d))) for c, d in true)
            for a, b in own
        )
    assert (found.n_correct, found.n_crossing) == (correct, crossing)
    assert found.n_predicted == found.n_gold == sum(max(n - 2, 0) for n in lengths)
    assert found.f1 == found.precision == found.recall


def test_branching_trees_are_binary():
    lengths = [6, 2, 1, 0]
    for direction in ("right", "left"):
        for n, tree in zip(lengths, branching(lengths, direction), strict=True):
            assert len(tree) == max(n - 1, 0)
            assert all((end == n) if direction == "right" else (start == 0) for start, end in tree)
    with pytest.raises(InvalidInputError, match="direction must be right or left, got 'both'"):
        branching([3], "both")


def test_no_tree_scores_above_the_ceiling():
    gold = [[(0, 6), (0, 1), (1, 4), (4, 6)], [(1, 3)], [], [(0, 1)]]
    lengths = [6, 4, 3, 1]
    trees = binary_ceiling(gold, lengths)
    found = bracket_scores(trees, gold, lengths)
    assert found.recall == 1.0
    assert found.n_crossing == 0
    for n, tree in zip(lengths, trees, strict=True):
        every = Bracketings([n])
        start, end = every.spans
        shapes = [
            {(int(a), int(b)) for a, b, c in zip(start, end, one.unary[::2], strict=True) if c and b - a > 1}
            for one in every.enumerate(0)
        ]
        assert set(tree) in shapes
    assert binary_ceiling(random_trees([7, 5], 3), [7, 5]) == [sorted(tree) for tree in random_trees([7, 5], 3)]
    with pytest.raises(InvalidInputError, match=r"got \(1, 4\) across another one in sentence 1; no tree has both"):
        binary_ceiling([[], [(0, 3), (1, 4)]], [2, 5])


def test_sign_tests_are_by_sentence():
    gold = [[(1, 4), (2, 4)]] * 3
    right, left, mixed = branching([4] * 3), branching([4] * 3, "left"), [[(1, 4), (1, 3)]] * 3
    found = compare_bracketings(right, left, gold, [4] * 3)
    assert (found.matches.n_first, found.matches.n_second) == (3, 0)
    assert (found.crossing.n_first, found.crossing.n_second) == (3, 0)
    found = compare_bracketings(left, mixed, gold, [4] * 3)
    assert (found.matches.n_first, found.matches.n_second) == (0, 3)
    assert compare_bracketings(right, right, gold, [4] * 3).crossing.p_value == 1.0


@pytest.mark.parametrize(
    ("predicted", "gold", "lengths", "message"),
    [
        ([[]], [[], []], [3], "predicted and gold"),
        ([[]], [[]], [3, 4], "one number for each of the 1 sentences of predicted, got 2"),
        ([[(0, 4)]], [[]], [3], r"with 0 <= start < end <= 3 in sentence 0 of 3 words, got \(0, 4\)"),
        ([[]], [[(2, 2)]], [3], r"gold must hold brackets .* got \(2, 2\)"),
        (
            [[(0, 2, "NP")]],
            [[]],
            [3],
            r"predicted must hold brackets \(start, end\) of whole numbers, got \(0, 2, 'NP'\)",
        ),
        ([[]], [[("NP", 0, 2)]], [3], r"gold must hold brackets .* got \('NP', 0, 2\) in sentence 0; leave labels out"),
        ([[(0.5, 2.7)]], [[]], [3], r"predicted must hold brackets .* of whole numbers, got \(0\.5, 2\.7\)"),
        ([(0, 2)], [[]], [3], r"predicted must hold brackets .* of whole numbers, got 0 in sentence 0"),
        ([None], [[]], [3], "predicted must hold brackets .* of whole numbers, got None in sentence 0"),
        ([["ab"]], [[]], [3], "predicted must hold brackets .* of whole numbers, got 'ab'"),
    ],
)
def test_bad_input(predicted, gold, lengths, message):
    with pytest.raises(InvalidInputError, match=message):
        bracket_scores(predicted, gold, lengths)
