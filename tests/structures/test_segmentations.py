"""Segmentations against an enumeration of their own: promises, scores of tokens, constraints and refusals."""

import itertools
import pickle

import numpy as np
import pytest

from spectrem.constraints import E, compile_constraints, part
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.structures import Chain, Parts, Segmentations, entropy, n_best
from spectrem.testing import check_structure
from spectrem.testing.check import random_scores


def compositions(n, longest):
    """Lengths of the segments of n tokens, by recursion over the last segment."""
    if n == 0:
        yield ()
    for last in range(1, min(n, longest) + 1):
        for before in compositions(n - last, longest):
            yield (*before, last)


def listed(cuts, instance):
    """Every segmentation, found without the structure's own ``enumerate`` and without its offsets."""
    columns = cuts.columns
    place = {
        key: at
        for at, key in enumerate(
            zip(*(columns[name] for name in ("sentence", "start", "length", "state")), strict=True)
        )
    }
    for sizes in compositions(int(cuts.lengths[instance]), cuts.longest):
        starts = np.cumsum([0, *sizes])[:-1]
        for states in itertools.product(range(cuts.n_states), repeat=len(sizes)):
            whole = Parts(np.zeros(cuts.n_unary), (np.zeros((cuts.n_states, cuts.n_states)),))
            for key in zip(starts, sizes, states, strict=True):
                whole.unary[place[instance, *key]] = 1.0
            for pair in itertools.pairwise(states):
                whole.factors[0][pair] += 1.0
            yield whole


@pytest.mark.parametrize(
    ("lengths", "n_states", "longest"), [([0, 1, 2, 3, 4], 2, 2), ([3, 1, 5], 1, 3), ([4, 2], 3, 9), ([2, 3], 2, 1)]
)
def test_promises(lengths, n_states, longest):
    cuts = Segmentations(lengths, n_states, longest)
    check_structure(cuts, np.random.default_rng(0))
    check_structure(cuts, np.random.default_rng(1), enumerator=listed)


def test_segments_of_one_token_are_a_chain():
    cuts, chain = Segmentations([4, 2], 3, 1), Chain([4, 2], 3)
    scores = random_scores(cuts, np.random.default_rng(0))
    (values, marginals), (others, expected) = (one.smoothed_max(scores, 0.7) for one in (cuts, chain))
    np.testing.assert_allclose(values, others, rtol=1e-12)
    np.testing.assert_allclose(marginals.unary, expected.unary, atol=1e-12)
    np.testing.assert_allclose(marginals.factors[0], expected.factors[0], atol=1e-12)
    assert cuts.decode(scores)[:, 1].tolist() == chain.decode(scores).tolist()


def test_columns_name_segments():
    cuts = Segmentations([1, 3], 2, 2)
    columns = cuts.columns
    assert columns["start"].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert columns["end"].tolist() == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    assert columns["state"].tolist() == [0, 1] * 6
    assert columns["occurrence"].tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert columns["sentence"].tolist() == [0, 0, *[1] * 10]


def test_scores_of_tokens_and_lengths_add_up():
    rng = np.random.default_rng(0)
    cuts, tokens, lengths = Segmentations([3, 2], 2, 2), rng.normal(size=(5, 2)), rng.normal(size=(2, 2))
    tokens[1, 0] = -np.inf
    columns, scores = cuts.columns, cuts.scores_of(tokens, lengths)
    for k in range(cuts.n_unary):
        first, length, state = (int(columns[name][k]) for name in ("occurrence", "length", "state"))
        expected = tokens[first : first + length, state].sum() + lengths[length - 1, state]
        assert scores[k] == pytest.approx(expected)
    np.testing.assert_allclose(cuts.scores_of(tokens), scores - lengths[columns["length"] - 1, columns["state"]])
    with pytest.raises(InvalidInputError, match=r"tokens"):
        cuts.scores_of(tokens[:4])


def test_entropy_is_that_of_the_distribution():
    cuts = Segmentations([4], 2, 3)
    scores = random_scores(cuts, np.random.default_rng(0))
    totals = np.array([scores.dot(one) for one in listed(cuts, 0)])
    p = np.exp(totals - np.logaddexp.reduce(totals))
    assert entropy(cuts, scores, 1.0, *cuts.smoothed_max(scores, 1.0)) == pytest.approx(-p @ np.log(p))
    derivations = cuts.derivations(0)
    assert derivations.entropy(derivations.scores(scores), 1.0) == pytest.approx(-p @ np.log(p))


def test_a_share_of_segments_is_one_of_expected_segments():
    cuts = Segmentations([3, 4], 2, 2)
    rows = compile_constraints([(E[part("length") > 1] <= 0.3 * E[...]).per("sentence")], cuts)
    marginals = project_batch(cuts, random_scores(cuts, np.random.default_rng(0)), rows, gamma=1.0).marginals.unary
    for sentence in (0, 1):
        here = cuts.instance == sentence
        long = marginals[here & (cuts.columns["length"] > 1)].sum()
        assert long <= 0.3 * marginals[here].sum() + 1e-6


@pytest.mark.parametrize(
    "constraint",
    [
        E[part("state") == 1] <= "30%",
        (E[part("state") == 1] <= "30%").per("sentence"),
        E[part("state") == 1] / E.count(...) <= 0.3,
        E[part("state") == 1] <= 0.3 * E.count(part("length") > 1),
    ],
)
def test_shares_of_an_unknown_number_of_segments_are_refused(constraint):
    with pytest.raises(InvalidInputError, match=r"E\[\.\.\.\] <= 0\.3 \* E\[\.\.\.\]"):
        compile_constraints([constraint], Segmentations([3, 4], 2, 2))


def test_integer_programs_keep_segments_whole():
    cuts = Segmentations([5], 2, 3)
    scores = random_scores(cuts, np.random.default_rng(0))
    rows = compile_constraints([E[...] <= 2, E[part("state") == 1] >= 1], cuts)
    best = project_batch(cuts, scores, rows, gamma=-np.inf).marginals
    allowed = [one for one in listed(cuts, 0) if one.unary.sum() <= 2 and one.unary[1::2].sum() >= 1]
    assert scores.dot(best) == pytest.approx(max(map(scores.dot, allowed)))


def test_long_sentences_and_large_scores_stay_in_range():
    cuts = Segmentations([3000], 2, 5)
    for scale in (1.0, 1e6):
        values, marginals = cuts.smoothed_max(
            random_scores(cuts, np.random.default_rng(0)).map(lambda s, by=scale: s * by), 1.0
        )
        assert np.isfinite(values).all()
        covered = np.zeros(3001)
        np.add.at(covered, cuts.columns["start"], marginals.unary)
        np.add.at(covered, cuts.columns["end"], -marginals.unary)
        np.testing.assert_allclose(np.cumsum(covered)[:-1], 1.0, atol=1e-8)


def test_impossible_and_empty_sentences():
    cuts = Segmentations([2, 0], 1, 2)
    scores = Parts(np.full(cuts.n_unary, -np.inf), (np.zeros((1, 1)),))
    values, marginals = cuts.smoothed_max(scores, 1.0)
    assert values.tolist() == [-np.inf, 0.0]
    assert not marginals.unary.any()
    assert cuts.decode(scores).tolist() == [[-1, -1], [-1, -1]]
    assert n_best(cuts, scores, 2)[0].tolist() == [[-np.inf, -np.inf], [0.0, -np.inf]]


def test_bad_input_is_named():
    for arguments, name in (([[-1], 1, 1], "lengths"), ([[1], 0, 1], "n_states"), ([[1], 1, 0], "longest")):
        with pytest.raises(InvalidInputError, match=name):
            Segmentations(*arguments)


def test_shapes_travel():
    cuts = pickle.loads(pickle.dumps(Segmentations([2, 3], 2, 2)))
    assert cuts.n_unary == Segmentations([2, 3], 2, 2).n_unary
