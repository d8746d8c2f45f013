"""Semi-Markov chains against enumeration, `Segmentations`, `Chain` and the engine of derivations."""

import itertools
import pickle

import numpy as np
import pytest

from spectrem.constraints import E, compile_constraints, part
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.structures import Chain, Parts, Segmentations, SemiMarkovChain, derivations, entropy
from spectrem.testing import check_structure
from spectrem.testing.check import random_scores

GAMMAS = (0.0, 0.3, 1.0)


def listed(chain, instance):
    """Every sequence of segments by recursion over the first segment, without the structure's own ``enumerate``."""
    n, first = int(chain.lengths[instance]), int(chain.token_offsets[instance])

    def segments(left):
        if left == 0:
            yield []
        for size in range(1, min(left, chain.longest) + 1):
            for state in range(chain.n_states):
                for others in segments(left - size):
                    yield [(size, state), *others]

    for sequence in segments(n):
        whole = Parts(np.zeros(chain.n_unary), tuple(np.zeros(shape) for shape in chain.factor_shapes))
        at = first
        for number, (size, state) in enumerate(sequence):
            whole.unary[np.arange(at, at + size) * chain.n_states + state] = 1.0
            whole.factors[1][int(number == 0), int(number == len(sequence) - 1), size - 1, state] += 1.0
            at += size
        for (_, before), (_, after) in itertools.pairwise(sequence):
            whole.factors[0][before, after] += 1.0
        yield whole


def assert_same(one, other, atol=1e-10):
    np.testing.assert_allclose(one.unary, other.unary, rtol=0, atol=atol)
    for counts, expected in zip(one.factors, other.factors, strict=True):
        np.testing.assert_allclose(counts, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("lengths", "n_states", "longest"), [([0, 1, 2, 3, 4], 2, 2), ([3, 1, 5], 1, 3), ([4, 2], 3, 9), ([2, 3], 2, 1)]
)
def test_promises(lengths, n_states, longest):
    chain = SemiMarkovChain(lengths, n_states, longest)
    check_structure(chain, np.random.default_rng(0))
    check_structure(chain, np.random.default_rng(1), enumerator=listed)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("impossible", [0.0, 0.25])
def test_whole_segments_are_those_of_segmentations(gamma, impossible):
    """Where all four tables of durations are the same, segments are scored as `Segmentations.scores_of` does."""
    chain, cuts, rng = (
        SemiMarkovChain([0, 1, 7, 30], 3, 5),
        Segmentations([0, 1, 7, 30], 3, 5),
        np.random.default_rng(1),
    )
    scores, weights, active = (
        random_scores(chain, rng),
        np.array([1.0, 0.0, 2.0, 0.5]),
        np.array([1, 1, 0, 1], np.bool_),
    )
    scores.factors[1][:] = scores.factors[1][0, 0]
    scores = scores.map(lambda part: np.where(rng.random(part.shape) < impossible, -np.inf, part))
    scores.factors[1][:] = scores.factors[1][0, 0]
    tokens = scores.unary.reshape(-1, 3)
    of_cuts = Parts(cuts.scores_of(tokens, scores.factors[1][0, 0]), scores.factors[:1])
    values, marginals = chain.smoothed_max(scores, gamma, active=active, weights=weights)
    expected, of_segments = cuts.smoothed_max(of_cuts, gamma, active=active, weights=weights)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(marginals.factors[0], of_segments.factors[0], atol=1e-11)
    columns = cuts.columns
    lengths = np.zeros((5, 3))
    np.add.at(lengths, (columns["length"] - 1, columns["state"]), of_segments.unary * weights[cuts.instance])
    np.testing.assert_allclose(marginals.factors[1].sum(axis=(0, 1)), lengths, atol=1e-11)
    first = np.bincount(columns["state"], of_segments.unary * weights[cuts.instance] * (columns["start"] == 0), 3)
    np.testing.assert_allclose(marginals.factors[1][1].sum(axis=(0, 1)), first, atol=1e-11)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_geometric_durations_are_a_chain(gamma):
    chain, semi, rng = Chain([0, 1, 9, 40], 3), SemiMarkovChain([0, 1, 9, 40], 3, 40), np.random.default_rng(0)
    scores = random_scores(chain, rng)
    transition = scores.factors[0]
    stay, moves = np.diag(transition), np.where(np.eye(3) > 0, -np.inf, transition)
    durations = np.broadcast_to(np.arange(40)[:, None] * stay, (2, 2, 40, 3)).copy()
    values, marginals = semi.smoothed_max(Parts(scores.unary, (moves, durations)), gamma)
    expected, of_chain = chain.smoothed_max(scores, gamma)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(marginals.unary, of_chain.unary, atol=1e-11)
    stays = (marginals.factors[1] * np.arange(40)[:, None]).sum(axis=(0, 1, 2))
    np.testing.assert_allclose(marginals.factors[0] + np.diag(stays), of_chain.factors[0], atol=1e-10)
    assert semi.decode(Parts(scores.unary, (moves, durations))).tolist() == chain.decode(scores).tolist()


@pytest.mark.parametrize("kind", ["alike", "sharp", "late", "far apart", "few"])
@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_posteriors_are_those_of_derivations(kind, gamma):
    """Also where a state's starts are hundreds of nats apart, and only some durations are possible."""
    chain, rng = SemiMarkovChain([60, 5, 90], 9, 30), np.random.default_rng(0)
    scores = random_scores(chain, rng)
    unary, (moves, durations) = scores.unary, scores.factors
    if kind in ("sharp", "late"):
        unary *= 50.0
    if kind == "late":
        durations[:, :, :25] = -np.inf  # young segments weigh e^1000 times as much as those that may end
        durations[:, 1] = 0.0
    if kind == "far apart":
        unary[:] = 1e3 * rng.choice([-1.0, 1.0], len(unary))
        durations[:] = 1e3 * rng.choice([-1.0, 0.0, 1.0], durations.shape)
    if kind == "few":
        durations[rng.random(durations.shape) < 0.7] = -np.inf
        unary[rng.random(len(unary)) < 0.05] = -np.inf
    values, marginals = chain.smoothed_max(scores, gamma)
    expected, of_steps = derivations.smoothed_max(chain, scores, gamma, None, None)
    assert np.isfinite(values).any()
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert_same(marginals, of_steps)
    np.testing.assert_allclose(moves, scores.factors[0])


def test_impossible_and_empty_sentences():
    chain = SemiMarkovChain([2, 0, 3, 1], 1, 2)
    unary, durations = np.zeros(chain.n_unary), np.zeros((2, 2, 2, 1))
    unary[:2] = -np.inf
    durations[1, 1, 0] = -np.inf  # a sentence of one token has no segment
    scores = Parts(unary, (np.zeros((1, 1)), durations))
    for gamma in GAMMAS:
        values, marginals = chain.smoothed_max(scores, gamma)
        assert (values == -np.inf).tolist() == [True, False, False, True]
        assert values[1] == 0.0
        assert marginals.unary.tolist() == pytest.approx([0, 0, 1, 1, 1, 0])
    assert chain.decode(scores).tolist() == [-1, -1, 0, 0, 0, -1]
    apart = Parts(np.zeros(chain.n_unary), (np.full((1, 1), -np.inf), np.zeros((2, 2, 2, 1))))
    assert chain.smoothed_max(apart, 1.0)[0].tolist() == [0.0, 0.0, -np.inf, 0.0]  # longer than a segment


def test_ties_go_to_the_lowest_last_state_and_the_longest_last_segment():
    chain = SemiMarkovChain([4], 2, 3)
    scores = Parts(np.zeros(8), (np.zeros((2, 2)), np.zeros((2, 2, 3, 2))))
    values, best = chain.smoothed_max(scores, 0.0)
    assert values.tolist() == [0.0]
    assert best.factors[0].tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert [index.tolist() for index in np.nonzero(best.factors[1])] == [[0, 1], [1, 0], [2, 0], [0, 0]]
    _, best = SemiMarkovChain([3], 2, 3).smoothed_max(Parts(np.zeros(6), scores.factors), 0.0)
    assert [index.tolist() for index in np.nonzero(best.factors[1])] == [[1], [1], [2], [0]]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e150])
def test_long_sentences_and_large_scores_stay_in_range(scale):
    chain = SemiMarkovChain([10_000, 3], 3, 50)
    scores = random_scores(chain, np.random.default_rng(0)).map(lambda part: part * scale)
    values, marginals = chain.smoothed_max(scores, 1.0)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(marginals.unary.reshape(-1, 3).sum(axis=1), 1.0, atol=1e-11)
    lasting = (marginals.factors[1] * np.arange(1, 51)[:, None]).sum()
    np.testing.assert_allclose(lasting, chain.n_tokens, rtol=1e-11)
    best, indicators = chain.smoothed_max(scores, 0.0)
    np.testing.assert_allclose(best.sum(), scores.dot(indicators), rtol=1e-12)
    assert (values >= best * (1 - 1e-12)).all()
    if scale > 1.0:
        np.testing.assert_allclose(values, best, rtol=1e-3)


def test_a_long_sentence_keeps_its_digits():
    chain = SemiMarkovChain([10_000], 2, 20)
    scores = random_scores(chain, np.random.default_rng(0)).map(lambda part: part * 1e3)
    scores.factors[1][:] = scores.factors[1][0, 0] / 1e3
    scores.unary[:] = np.round(scores.unary[:] / 1e3) * 1e3 / 7.0
    values, marginals = chain.smoothed_max(scores, 1.0)
    expected, of_steps = derivations.smoothed_max(chain, scores, 1.0, None, None)
    np.testing.assert_allclose(values, expected, rtol=1e-14)
    assert_same(marginals, of_steps)
    np.testing.assert_allclose(marginals.unary.reshape(-1, 2).sum(axis=1), 1.0, atol=1e-12)


def test_entropy_is_that_of_the_distribution():
    chain = SemiMarkovChain([4], 2, 3)
    scores = random_scores(chain, np.random.default_rng(0))
    totals = np.array([scores.dot(one) for one in listed(chain, 0)])
    p = np.exp(totals - np.logaddexp.reduce(totals))
    assert entropy(chain, scores, 1.0, *chain.smoothed_max(scores, 1.0)) == pytest.approx(-p @ np.log(p))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, -np.inf])
def test_constraints_see_the_states_of_tokens(gamma):
    chain = SemiMarkovChain([4, 6], 2, 3, instance_name="series", label_name="state")
    scores = random_scores(chain, np.random.default_rng(0))
    rows = compile_constraints([(E[part("state") == 1] == 2).per("series")], chain)
    marginals = project_batch(chain, scores, rows, gamma=gamma).marginals
    taken = np.bincount(chain.instance, marginals.unary * chain.columns["state"])
    np.testing.assert_allclose(taken, 2.0, atol=1e-5)
    if gamma == -np.inf:
        for n in (0, 1):
            allowed = [one for one in listed(chain, n) if one.unary[1::2].sum() == 2]
            here = chain.instance == n
            best = max(allowed, key=scores.dot)
            np.testing.assert_allclose(marginals.unary[here], best.unary[here], atol=1e-6)


def test_bad_input_is_named():
    for arguments, name in (([[-1], 1, 1], "lengths"), ([[1], 0, 1], "n_states"), ([[1], 1, 0], "longest")):
        with pytest.raises(InvalidInputError, match=name):
            SemiMarkovChain(*arguments)
    chain = SemiMarkovChain([2], 2, 3)
    with pytest.raises(InvalidInputError, match=r"factors\[1\] must have shape \(2, 2, 3, 2\)"):
        chain.smoothed_max(Parts(np.zeros(4), (np.zeros((2, 2)), np.zeros((3, 2)))), 1.0)


def test_shapes_travel():
    chain = pickle.loads(pickle.dumps(SemiMarkovChain([2, 3], 2, 4)))
    assert chain.factor_shapes == ((2, 2), (2, 2, 4, 2))
    assert chain.columns["tag"].tolist() == [0, 1] * 5
