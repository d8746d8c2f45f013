"""The n best sequences of chains against enumeration."""

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Chain, Parts
from spectrem.structures.draws import n_best


def all_sequences(chain, scores, sentence):
    """Scores of every sequence, with its states."""
    states = chain.columns["tag"]
    return [
        (scores.dot(path), tuple(states[path.unary > 0].astype(int).tolist())) for path in chain.enumerate(sentence)
    ]


@pytest.mark.parametrize("n", [1, 2, 7, 200])
@pytest.mark.parametrize("restricted", [False, True])
def test_best_sequences_are_those_of_enumeration(n, restricted):
    rng = np.random.default_rng(n)
    lengths, k = [3, 0, 1, 4], 3
    allowed = None
    if restricted:
        rows = [np.flatnonzero(rng.random(k) < 0.7) for _ in range(sum(lengths))]
        rows = [row if len(row) else np.array([1]) for row in rows]
        allowed = (np.cumsum([0] + [len(row) for row in rows]), np.concatenate(rows))
    chain = Chain(lengths, k, allowed)
    transition = rng.normal(size=(k, k))
    transition[0, 2] = -np.inf
    scores = Parts(rng.normal(size=chain.n_unary), (transition,))
    values, states = n_best(chain, scores, n)
    starts = chain.token_offsets
    for s in range(len(lengths)):
        every = sorted((v for v, _ in all_sequences(chain, scores, s) if v > -np.inf), reverse=True)[:n]
        found = values[s][values[s] > -np.inf]
        np.testing.assert_allclose(found, every, atol=1e-12)
        by_states = {own: value for value, own in all_sequences(chain, scores, s)}
        own = [tuple(row) for row in states[: len(found), starts[s] : starts[s + 1]].tolist()]
        assert len(set(own)) == len(own)
        np.testing.assert_allclose([by_states[row] for row in own], found, atol=1e-12)
        assert (states[len(found) :, starts[s] : starts[s + 1]] == -1).all()
    np.testing.assert_array_equal(states[0], chain.decode(scores))


def test_equal_sequences_are_all_found():
    chain = Chain([3], 2)
    values, states = n_best(chain, Parts(np.zeros(6), (np.zeros((2, 2)),)), 9)
    assert (values[0, :8] == 0).all()
    assert values[0, 8] == -np.inf
    assert len({tuple(row) for row in states[:8].tolist()}) == 8
    assert states[0].tolist() == [0, 0, 0]


def test_n_must_be_positive():
    with pytest.raises(InvalidInputError, match="n must be an integer >= 1; got 0"):
        n_best(Chain([1], 2), Parts(np.zeros(2), (np.zeros((2, 2)),)), 0)
