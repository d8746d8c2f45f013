"""Sampled sentences follow the model's probabilities."""

import numpy as np
import pytest
from tagging_oracles import make_problem

from spectrem.exceptions import InvalidInputError
from spectrem.models.tagging import HMMParameters, Lexicon, sample_sentences

N = 60_000


def frequencies(keys, shape):
    return np.bincount(np.ravel_multi_index(keys, shape), minlength=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("order", [1, 2])
def test_frequencies_match_probabilities(order):
    model, _, params = make_problem(order, seed=41)
    lexicon = model.lexicon
    words, states = sample_sentences(params, lexicon, np.full(N, 3), np.random.default_rng(42))
    first, second, third = states.reshape(N, 3).T
    step = params.transition if order == 1 else params.second
    joint = params.initial[:, None] * step
    joint = joint[:, :, None] * params.transition if order == 2 else joint[:, :, None] * params.transition[None]
    np.testing.assert_allclose(frequencies((first, second, third), (3, 3, 3)) / N, joint, atol=0.008)
    counts = frequencies((states, words), (3, lexicon.n_words))
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), lexicon.table(params.emission), atol=0.008)


def test_lengths_of_any_kind_and_seeds():
    model, _, params = make_problem(2, seed=43)
    words, states = sample_sentences(params, model.lexicon, [0, 3, 1, 0], np.random.default_rng(1))
    assert len(words) == len(states) == 4
    again = sample_sentences(params, model.lexicon, [0, 3, 1, 0], np.random.default_rng(1))
    assert np.array_equal(again[0], words)
    assert len(sample_sentences(params, model.lexicon, [], np.random.default_rng(1))[0]) == 0


def test_rows_are_scaled_and_states_without_words_left_out():
    lexicon = Lexicon.from_allowed([0, 1, 2], [0, 1], n_states=3)
    params = HMMParameters(np.array([0.1, 0.1, 0.8]), np.full((3, 3), 0.2), None, np.array([0.5, 0.5]))
    words, states = sample_sentences(params, lexicon, [1000], np.random.default_rng(2))
    assert set(states.tolist()) == {0, 1}
    assert abs(states.mean() - 0.5) < 0.06
    assert np.array_equal(words, states)


def test_what_has_probability_zero_is_never_drawn():
    class Extreme:
        def __init__(self, value):
            self.value = value

        def random(self, n):
            return np.full(n, self.value)

    lexicon = Lexicon.full(3, 3)
    row = np.array([0.0, 1.0, 0.0])
    params = HMMParameters(row, np.tile(row, (3, 1)), None, np.tile(row[:, None], (1, 3)).ravel())
    for value in (0.0, np.nextafter(1.0, 0.0)):
        words, states = sample_sentences(params, lexicon, [3], Extreme(value))
        assert words.tolist() == states.tolist() == [1, 1, 1]


def test_a_dead_end_is_an_error():
    lexicon = Lexicon.from_allowed([0, 1], [0], n_states=2)
    params = HMMParameters(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.5, 0.5]]), None, np.ones(1))
    assert sample_sentences(params, lexicon, [1], np.random.default_rng(3))[0].tolist() == [0]
    with pytest.raises(InvalidInputError, match=r"params must let every state be followed by one that emits words"):
        sample_sentences(params, lexicon, [2], np.random.default_rng(3))
