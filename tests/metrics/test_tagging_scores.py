"""Accuracies, ambiguous tokens, cross-entropy, sign tests: against definitions and scipy's binomial distribution."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import (
    ambiguous_tokens,
    compare_taggings,
    correct_tokens,
    cross_entropy,
    sign_test,
    tagging_accuracy,
)

TAGS = st.sampled_from(["DT", "NN", "VB"])
TOKENS = st.lists(st.tuples(TAGS, TAGS, TAGS, st.booleans()), min_size=1, max_size=20)


def columns(tokens):
    return [list(column) for column in zip(*tokens, strict=True)]


@given(TOKENS)
def test_accuracy_is_the_share_of_equal_tags(tokens):
    predicted, gold, _, mask = columns(tokens)
    equal = [a == b for a, b in zip(predicted, gold, strict=True)]
    assert correct_tokens(predicted, gold).tolist() == equal
    assert tagging_accuracy(predicted, gold) == pytest.approx(sum(equal) / len(equal))
    counted = [right for right, taken in zip(equal, mask, strict=True) if taken]
    accuracy = tagging_accuracy(predicted, gold, mask=mask)
    assert accuracy == pytest.approx(sum(counted) / len(counted)) if counted else math.isnan(accuracy)


def test_labels_may_be_arrays_numbers_or_tuples():
    assert tagging_accuracy(np.array(["DT", "NN"]), ["DT", "VB"]) == 0.5
    assert tagging_accuracy(np.array([0, 1]), (0, 1)) == 1.0
    assert tagging_accuracy([("NN", 1), ("VB", 0)], [("NN", 1), ("VB", 1)]) == 0.5
    assert math.isnan(tagging_accuracy([], []))


def test_a_missing_tag_is_right_only_where_gold_is_missing():
    assert correct_tokens([None, None, "NN"], [None, "NN", None]).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("predicted", "gold", "mask", "message"),
    [
        (["A"], ["A", "B"], None, "predicted and gold must be of the same tokens; got 1 and 2; drop or keep the same"),
        ([["A"], ["B"]], ["A", "B"], None, "predicted must hold one tag per token, all sentences in one flat sequence; "
         "got 2 sequences; try list(itertools.chain.from_iterable(predicted))"),
        (["A"], "A", None, "gold must hold one tag per token, all sentences in one flat sequence; got a string; try"),
        (np.zeros((2, 1)), [0, 0], None, "predicted must hold one tag per token"),
        (["A"], ["A"], [0], "mask must be boolean of shape (1,), one per token; got dtype int64, shape (1,); turn "
         "indices into a mask first"),
        (["A"], ["A"], [True, False], "mask must be boolean of shape (1,), one per token; got dtype bool, shape (2,)"),
    ],
)  # fmt: skip
def test_accuracy_refuses(predicted, gold, mask, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        tagging_accuracy(predicted, gold, mask=mask)


def test_ambiguous_are_words_without_exactly_one_tag():
    dictionary = {"the": ("DT",), "run": {"NN", "VB"}, "twice": ["NN", "NN"], "none": ()}
    words = ["the", "run", "twice", "none", "unlisted", "the"]
    assert ambiguous_tokens(words, dictionary).tolist() == [False, True, False, True, True, False]
    assert ambiguous_tokens([], dictionary).shape == (0,)
    with pytest.raises(InvalidInputError, match="words must hold one tag per token"):
        ambiguous_tokens([["the"]], dictionary)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=10))
def test_cross_entropy_is_the_mean_code_length(probabilities):
    bits = sum(-math.log2(p) for p in probabilities) / len(probabilities)
    found = cross_entropy(sum(math.log(p) for p in probabilities), len(probabilities))
    assert found == pytest.approx(bits, abs=1e-12)


def test_cross_entropy_limits():
    assert cross_entropy(-math.inf, 3) == math.inf
    assert str(cross_entropy(0.0, 3)) == "0.0"
    with pytest.raises(InvalidInputError, match="n_tokens must be at least 1, got 0; count the words of the scored"):
        cross_entropy(-1.0, 0)
    with pytest.raises(InvalidInputError, match="log_likelihood must be a number of nats, got NaN; look for 0/0 in"):
        cross_entropy(math.nan, 3)


def two_sided(n_first, n):
    """Total probability of every split that is no likelier than the one observed."""
    observed = binom.pmf(n_first, n, 0.5)
    return sum(p for k in range(n + 1) if (p := binom.pmf(k, n, 0.5)) <= observed * (1 + 1e-9))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30))
def test_sign_test_counts_winners_and_sums_the_tails(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    test = sign_test(first, second)
    assert test.n_first == sum(a > b for a, b in pairs)
    assert test.n_second == sum(a < b for a, b in pairs)
    assert test.p_value == pytest.approx(two_sided(test.n_first, test.n_first + test.n_second))


def test_sign_test_of_the_paper():
    first = np.repeat([1.0, 0.0], [1652, 726])  # [SmithEisner2004] table 1: words
    assert sign_test(first, 1 - first).p_value < 1e-6
    assert sign_test([], []) == sign_test([1.0], [1.0])


def test_infinite_values_are_compared():
    assert sign_test([-np.inf, 1.0, np.inf], [0.0, -np.inf, np.inf]).n_first == 1


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1, 2], [1], "first and second must be one-dimensional and of one length; got shapes (2,) and (1,); give one"),
        ([[1]], [[1]], "first and second must be one-dimensional and of one length; got shapes (1, 1) and (1, 1)"),
        ([0, 0], [math.nan, 1.0], "first and second must be numbers, got NaN"),
        ([1.0, math.nan], [0, 0], "first and second must be numbers, got NaN; leave out the pairs that have no value"),
    ],
)
def test_sign_test_refuses(first, second, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        sign_test(first, second)


@given(st.lists(TOKENS, min_size=1, max_size=6), st.booleans())
def test_taggings_are_compared_by_word_and_by_sentence(sentences, masked):
    first, second, gold, mask = columns([token for sentence in sentences for token in sentence])
    found = compare_taggings(first, second, gold, [len(s) for s in sentences], mask=mask if masked else None)
    words, by_sentence = [0, 0], [0, 0]
    for sentence in sentences:
        counted = [token for token in sentence if token[3] or not masked]
        rights = [sum(token[k] == token[2] for token in counted) for k in (0, 1)]
        words[0] += sum(a == g != b for a, b, g, _ in counted)
        words[1] += sum(b == g != a for a, b, g, _ in counted)
        by_sentence[0] += rights[0] > rights[1]
        by_sentence[1] += rights[0] < rights[1]
    assert [found.words.n_first, found.words.n_second] == words
    assert [found.sentences.n_first, found.sentences.n_second] == by_sentence


def test_empty_sentences_are_ties():
    found = compare_taggings(["A"], ["B"], ["A"], [0, 1, 0])
    assert (found.sentences.n_first, found.sentences.n_second) == (1, 0)
    assert compare_taggings([], [], [], []).words.p_value == 1.0


@pytest.mark.parametrize(
    ("lengths", "got"),
    [
        ([1], "shape (1,), 1 in all"),
        ([3, -1], "shape (2,), 2 in all"),
        ([0.5, 1.5], "shape (2,), 2 in all"),
        ([[2]], "shape (1, 1), 2 in all"),
        (["2"], "shape (1,), dtype <U1"),
    ],
)
def test_lengths_must_fit(lengths, got):
    message = (
        f"lengths must be whole numbers that add up to the number of tokens, 2; got {got}; give the number of tokens "
        "of every sentence"
    )
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        compare_taggings(["A", "A"], ["A", "B"], ["A", "B"], lengths)


def test_taggings_must_be_of_the_same_tokens():
    with pytest.raises(InvalidInputError, match="predicted and gold must be of the same tokens; got 1 and 2"):
        compare_taggings(["A", "B"], ["A"], ["A", "B"], [2])
