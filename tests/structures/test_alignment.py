import numpy as np
import pytest
from hypothesis import given, settings
from structure_cases import alignments, random_scores, seeds

from spectrem.exceptions import InvalidInputError
from spectrem.structures import NULL, Alignment, Parts
from spectrem.structures import alignment as structure
from spectrem.testing import brute_force_smoothed_max


def test_columns_name_links_alike_in_both_directions():
    forward = Alignment([2, 0], [1, 1])
    assert forward.columns["sentence"].tolist() == forward.instance.tolist() == [0, 0, 0, 1]
    assert forward.columns["source"].tolist() == [0, 1, NULL, NULL]
    assert forward.columns["target"].tolist() == [0, 0, 0, 0]
    backward = Alignment([1, 1], [2, 0], reverse=True)
    assert backward.columns["source"].tolist() == [0, 0, 1, 1]
    assert backward.columns["target"].tolist() == [0, NULL, 0, NULL]
    assert backward.columns["state"].tolist() == [0, NULL, 0, NULL]
    assert forward.columns["direction"].tolist() == ["forward"] * 4
    assert backward.columns["direction"].tolist() == ["backward"] * 4


def test_factor_shapes():
    assert Alignment([2, 5], [1, 1]).factor_shapes == ()
    assert Alignment([2, 5], [1, 1], max_jump=3).factor_shapes == ((7,), (6, 6), (4,))
    assert Alignment([], [], max_jump=1).factor_shapes == ((3,), (1, 1), (2,))


@settings(max_examples=40)
@given(pairs=alignments(), seed=seeds())
def test_decode_equals_enumeration(pairs, seed):
    scores = random_scores(pairs, np.random.default_rng(seed))
    best = sum((one.unary for one in brute_force_smoothed_max(pairs, scores, 0.0).argmax), np.zeros(pairs.n_unary))
    found = pairs.decode(scores)
    assert found.shape == (pairs.n_positions,)
    choice = pairs.columns["target" if pairs.reverse else "source"]
    assert found.tolist() == choice[best.astype(bool)].tolist()


def test_null_keeps_the_last_source_position():
    # Links 0, NULL, 1: the second link jumps from 0 although NULL came between.
    pairs = Alignment([2], [3], max_jump=2)
    unary = np.full((3, 3), -np.inf)
    unary[[0, 1, 2], [0, 2, 1]] = [1.0, 2.0, 4.0]
    jump, departure, end = np.arange(5) * 10.0, np.arange(9.0).reshape(3, 3) * 100.0, np.array([0.5, 0.25, 0.125])
    scores = Parts(unary.ravel(), (jump, departure, end))
    expected = 7.0 + 2 * jump[1 + 2] + departure[2, 0] + departure[2, 1] + end[0]
    for gamma in (0.0, 1.0):
        values, marginals = pairs.smoothed_max(scores, gamma)
        assert values.tolist() == [expected]
        assert marginals.factors[0].tolist() == pytest.approx([0, 0, 0, 2, 0], rel=1e-15)
        assert marginals.factors[1].tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 0]]
        assert marginals.factors[2].tolist() == [1, 0, 0]
    assert pairs.decode(scores).tolist() == [0, NULL, 1]


def test_the_end_scores_what_is_left_of_the_source():
    # Three source words, one target word: NULL leaves all three (p = -1), a link to i leaves 2 - i.
    pairs, end = Alignment([3], [1], max_jump=2), np.array([1.0, 20.0, 300.0])
    for choice, cell in ((0, 2), (1, 1), (2, 0), (3, 2)):
        unary = np.full(4, -np.inf)
        unary[choice] = 0.0
        for gamma in (0.0, 1.0):
            values, marginals = pairs.smoothed_max(Parts(unary, (np.zeros(5), np.zeros((4, 4)), end)), gamma)
            assert values.tolist() == pytest.approx([end[cell]])
            assert marginals.factors[2].tolist() == pytest.approx((np.arange(3) == cell).astype(float).tolist())


def test_jumps_of_zero_score_are_independent_positions():
    rng = np.random.default_rng(0)
    unary = rng.normal(size=4 * 6)
    chain, free = Alignment([5], [4], max_jump=2), Alignment([5], [4])
    a_values, a = chain.smoothed_max(Parts(unary, (np.zeros(5), np.zeros((6, 6)), np.zeros(3))), 1.0)
    b_values, b = free.smoothed_max(Parts(unary), 1.0)
    np.testing.assert_allclose(a_values, b_values, rtol=1e-13)
    np.testing.assert_allclose(a.unary, b.unary, rtol=1e-12)


def test_underflowing_pairs_are_run_again_by_derivations(monkeypatch):
    asked = []
    sum_up = structure.sum_up

    def recorded(*arguments):
        asked.append(arguments[1].tolist())
        sum_up(*arguments)

    monkeypatch.setattr(structure, "sum_up", recorded)
    pairs, scores = must_come_from_behind([-800.0], [-np.inf])
    values, marginals = pairs.smoothed_max(scores, 1.0)
    assert asked == [[True]]
    np.testing.assert_allclose(values, [-800.0])
    assert marginals.unary.reshape(2, 4)[:, 2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("behind", "ahead"),
    [
        ([-800.0, *[0.0] * 20], [-50.0] * 20),
        ([-400.0, *[0.0] * 20, -400.0], [-100.0] * 20 + [0.0]),
        ([*[-100.0] * 8, *[0.0] * 20], [0.0] * 7 + [-100.0] * 20),
        ([*[-50.0] * 8, *[0.0] * 20, *[-50.0] * 8], [0.0] * 7 + [-100.0] * 20 + [0.0] * 8),
    ],
)
def test_no_path_is_lost_to_a_slow_leak(behind, ahead):
    pairs, scores = must_come_from_behind(behind, ahead)
    values, marginals = pairs.smoothed_max(scores, 1.0)
    np.testing.assert_allclose(values, [-800.0])
    np.testing.assert_allclose(marginals.unary.reshape(len(behind), 4)[:, 2], 1.0)


def must_come_from_behind(behind, ahead):
    """A pair whose links stay on source 0 (scores 0, then ``ahead``) or on source 2 (``behind``)."""
    n_target = len(ahead) + 1
    behind = [*behind, *[0.0] * (n_target - len(behind))]
    pairs = Alignment([3], [n_target], max_jump=3)
    unary = np.full((n_target, 4), -np.inf)
    unary[:, 0], unary[:, 2] = [0.0, *ahead], behind
    jump = np.zeros(7)
    jump[[3 - 2, 3 + 2]] = -np.inf
    return pairs, Parts(unary.ravel(), (jump, np.zeros((4, 4)), np.zeros(4)))


@pytest.mark.parametrize(("n_source", "n_target", "max_jump"), [(1000, 1000, None), (300, 1000, 5), (1000, 1, 5)])
def test_thousand_word_sentences(n_source, n_target, max_jump):
    rng = np.random.default_rng(0)
    pairs = Alignment([n_source], [n_target], max_jump=max_jump)
    factors = tuple(rng.normal(size=shape) for shape in pairs.factor_shapes)
    _, marginals = pairs.smoothed_max(Parts(-10.0 * rng.random(pairs.n_unary), factors), 1.0)
    np.testing.assert_allclose(marginals.unary.reshape(n_target, n_source + 1).sum(axis=1), 1.0, rtol=1e-9)
    if max_jump is not None:
        links = marginals.unary.reshape(n_target, n_source + 1)[:, :n_source].sum()
        np.testing.assert_allclose([f.sum() for f in marginals.factors], [links, links, 1.0], rtol=1e-9)


def test_impossible_pairs_decode_to_null():
    for max_jump, factors in ((None, ()), (1, (np.zeros(3), np.zeros((2, 2)), np.zeros(2)))):
        pairs = Alignment([1], [2], max_jump=max_jump)
        scores = Parts(np.array([0.0, 0.0, -np.inf, -np.inf]), factors)
        assert pairs.decode(scores).tolist() == [NULL, NULL]
        for gamma in (0.0, 1.0):
            values, marginals = pairs.smoothed_max(scores, gamma)
            assert values.tolist() == [-np.inf]
            assert not marginals.unary.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [-1]), r"target_lengths must not be negative; got -1 at index 0"),
        (([1, 2], [1]), r"source_lengths and target_lengths must have one entry per pair; got 2 and 1"),
        (([1], [1], 0), r"max_jump must be an integer >= 1; got 0"),
    ],
)
def test_bad_shapes_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Alignment(*arguments)
