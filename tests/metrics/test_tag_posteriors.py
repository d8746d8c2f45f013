"""Sparsity of posteriors by word and their entropy, against loops over the definition."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import average_l1_linf, posterior_entropy


@given(st.lists(st.sampled_from("abc"), max_size=15), st.integers(0, 3), st.integers(0, 1000))
def test_l1_linf_is_the_mean_over_frequent_words(words, min_count, seed):
    posteriors = np.random.default_rng(seed).dirichlet(np.full(3, 0.3), len(words))
    norms = []
    for word in set(words):
        own = [row for row, w in zip(posteriors, words, strict=True) if w == word]
        if len(own) > min_count:
            norms.append(sum(max(row[t] for row in own) for t in range(3)))
    found = average_l1_linf(posteriors, words, min_count=min_count)
    assert found == pytest.approx(sum(norms) / len(norms)) if norms else math.isnan(found)


def test_l1_linf_lies_between_one_and_the_number_of_states():
    certain = np.eye(3)
    assert average_l1_linf(certain, ["a", "a", "a"], min_count=2) == 3.0
    assert average_l1_linf(certain[[1, 1, 1]], ["a", "a", "a"], min_count=2) == 1.0
    assert math.isnan(average_l1_linf(certain, ["a", "a", "a"], min_count=3))  # more often than, not as often as


@given(st.integers(0, 1000), st.integers(1, 5))
def test_entropy_sums_its_definition(seed, n_states):
    posteriors = np.random.default_rng(seed).dirichlet(np.full(n_states, 0.3), 4)
    posteriors[0] = np.eye(n_states)[0]
    expected = [sum(-p * math.log2(p) for p in row if p > 0) for row in posteriors]
    assert posterior_entropy(posteriors) == pytest.approx(expected, abs=1e-12)
    assert str(posterior_entropy(posteriors)[0]) == "0.0"


def test_sentences_may_be_apart():
    table = np.random.default_rng(0).dirichlet(np.ones(2), 5)
    apart = [table[:2], table[2:2], table[2:]]
    objects = np.empty(3, dtype=object)
    objects[:] = apart
    for given_ in (apart, objects, [rows.tolist() for rows in (apart[0], apart[2])], table.tolist()):
        assert posterior_entropy(given_) == pytest.approx(posterior_entropy(table))
        assert average_l1_linf(given_, list("aabba"), min_count=1) == average_l1_linf(table, list("aabba"), min_count=1)


def test_no_tokens():
    assert posterior_entropy([]).shape == (0,)
    assert math.isnan(average_l1_linf([], []))


@pytest.mark.parametrize(
    ("posteriors", "message"),
    [
        (np.zeros(3), "posteriors must be of shape (n_tokens, n_states), or one such array per sentence; got shape "
         "(3,); pass what predict_proba returns"),
        (np.zeros((1, 2, 3)), "one such array per sentence; got shape (1, 2, 3); pass what"),
        ([np.zeros((1, 2)), np.zeros((1, 3))], "one such array per sentence; got shape (1, 2) and (1, 3); pass what"),
        ([[0.5, 0.5], [1.0]], "one such array per sentence; got shape (2,) and (1,); pass what"),
        ([[1.0, 0.0], [np.nan, 1.0]], "posteriors must be probabilities, 0 or more; got [nan, 1.0] for token 1; look "
         "for an impossible sentence"),
        ([[1.5, -0.5]], "posteriors must be probabilities, 0 or more; got [1.5, -0.5] for token 0; look for"),
    ],
)  # fmt: skip
def test_posteriors_refuse(posteriors, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        posterior_entropy(posteriors)


def test_words_must_be_those_of_the_posteriors():
    message = "posteriors and words must be of the same tokens; got 2 and 1; drop or keep the same sentences in both"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        average_l1_linf([[1.0, 0.0], [0.0, 1.0]], ["a"])
