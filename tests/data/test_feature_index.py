"""Features of tokens and their numbers, against plain dictionaries."""

import numpy as np
import pytest

from spectrem.data.features import FeatureIndex, pairs_of, token_features
from spectrem.exceptions import InvalidInputError


def rows(tokens, index):
    """Every token as a mapping of names to summed values."""
    found = []
    for start, stop in zip(tokens.indptr[:-1], tokens.indptr[1:], strict=True):
        row = {}
        for entry in range(start, stop):
            value = 1.0 if tokens.values is None else tokens.values[entry]
            name = index.names[tokens.indices[entry]]
            row[name] = row.get(name, 0.0) + value
        found.append(row)
    return found


def test_lists_and_mappings_mean_the_same():
    lists = [[["a", "b"], ["b", "b", "c"]], [], [[]]]
    mappings = [[{"a": 1, "b": True}, {"b": 2.0, "c": 1}], [], [{}]]
    for sentences in (lists, mappings, [[["a", "b"], {"b": 2.0, "c": 1}], [], [()]]):
        index, tokens = FeatureIndex.learn(sentences)
        assert rows(tokens, index) == [{"a": 1, "b": 1}, {"b": 2, "c": 1}, {}]
        assert tokens.lengths.tolist() == [2, 0, 1]
        assert (tokens.values is None) == (sentences is lists)


def test_values_before_and_after_sentences_without():
    index, tokens = FeatureIndex.learn([[["a"]], [{"b": 0.5}], [["a", "b"]]])
    assert rows(tokens, index) == [{"a": 1}, {"b": 0.5}, {"a": 1, "b": 1}]


def test_features_never_learned_are_left_out():
    index, _ = FeatureIndex.learn([[["a"], {"b": 2}]])
    again = index.encode([[["a", "z"], ["y"]], [{"b": 3, "z": 4, "a": False}]])
    assert rows(again, index) == [{"a": 1}, {}, {"b": 3}]
    assert again.indptr.tolist() == [0, 1, 1, 2]


def test_a_token_does_not_have_features_of_value_0():
    with_zeros = [[{"a": 1.5, "b": 0.0, "c": {"d": False, "e": 2}}, {"b": np.float32(-0.0)}], [{"b": 1, "z": 0}]]
    without = [[{"a": 1.5, "c": {"e": 2}}, {}], [{"b": 1}]]
    for min_count in (1, 2):
        (index, tokens), (other, others) = (FeatureIndex.learn(own, min_count) for own in (with_zeros, without))
        assert index.names == other.names == (("a", "c:e", "b") if min_count == 1 else ())
        for one, two in zip(tokens, others, strict=True):
            np.testing.assert_array_equal(one, two)
    assert pairs_of({"a": 0, "b": 0.0, "c": False, "d": "0"}, 0, 0) == (["d:0"], [1.0])


def test_rare_features_are_left_out():
    index, tokens = FeatureIndex.learn([[["a", "b"], ["c", "b"]], [["c", "d"]]], min_count=2)
    assert index.names == ("b", "c")
    assert rows(tokens, index) == [{"b": 1}, {"c": 1, "b": 1}, {"c": 1}]


def test_nothing_to_learn():
    index, tokens = FeatureIndex.learn([])
    assert len(index) == 0
    assert tokens.indptr.tolist() == [0]
    assert FeatureIndex(()).encode([[["a"]]]).indptr.tolist() == [0, 0]


def test_numbers_do_not_depend_on_the_order_of_a_set():
    names, _ = pairs_of({"near": {"b", "a", "c"}}, 0, 0)
    assert names == ["near:a", "near:b", "near:c"]


def test_a_generator_is_gone_through_once():
    _, tokens = FeatureIndex.learn(sentence for sentence in [[["a"]], [["b"], ["a"]]])
    assert tokens.indices.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["dog"]], "every token must be a list of features, .* got 'dog' in sentence 0, token 0; for text, name"),
        (["the dog"], "every sentence must be a sequence of tokens, got 'the dog' for sentence 0"),
        ([{"a": 1}], "every sentence must be a sequence of tokens"),
        ([[["a"]], [["b"], ["a", 7]]], "names of features must be text, got 7 in sentence 1, token 1; write '7'"),
        ([[{"a": np.nan}]], "the value of the feature 'a' must be finite, got nan in sentence 0, token 0; leave"),
        ([[{"a": -1e100}]], "the value of the feature 'a' must be below 1e.100 in size, got -1e.100 in sentence 0"),
        ([[{"a": {"b": np.inf}}]], "the value of the feature 'a:b' must be finite, got inf"),
        ([[{"a": None}]], "the value of the feature 'a' must be a number, text, or a list or mapping of further"),
        ([[{3: 1}]], "names of features must be text, got 3"),
    ],
)
def test_what_is_not_a_feature_is_named(sentences, message):
    with pytest.raises(InvalidInputError, match=message):
        FeatureIndex.learn(sentences)
    with pytest.raises(InvalidInputError, match=message):
        FeatureIndex(("a", "b")).encode(sentences)


def test_names_must_be_distinct():
    with pytest.raises(InvalidInputError, match="names of features must be distinct, got 'a' twice"):
        FeatureIndex(("a", "b", "a"))


CHUNKING = [
    *[[("w", k)] for k in range(-2, 3)],
    [("w", -1), ("w", 0)],
    [("w", 0), ("w", 1)],
    *[[("pos", k)] for k in range(-2, 3)],
    *[[("pos", k), ("pos", k + 1)] for k in range(-2, 2)],
    *[[("pos", k), ("pos", k + 1), ("pos", k + 2)] for k in range(-2, 1)],
]


def chunking_features(sentence):
    """The templates one by one, as CRFsuite's tutorial applies them."""
    found = []
    for t in range(len(sentence)):
        own = []
        for template in CHUNKING:
            if all(0 <= t + k < len(sentence) for _, k in template):
                values = [sentence[t + k][0 if name == "w" else 1] for name, k in template]
                own.append("|".join(f"{name}[{k}]" for name, k in template) + "=" + "|".join(values))
        found.append(own + ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(sentence) - 1))
    return found


@pytest.mark.parametrize("length", range(8))
def test_chunking_templates(length):
    sentence = [(f"w{k}", f"T{k % 3}") for k in range(length)]
    [found] = token_features([sentence], "chunking")
    assert list(map(sorted, found)) == list(map(sorted, chunking_features(sentence)))
    if length > 4:
        assert max(map(len, found)) == 19


def test_word_templates():
    [found] = token_features([["Mid-90s", "x"]], "words")
    assert found[0] == [
        "w[0]=Mid-90s",
        "lower=mid-90s",
        *[f"prefix={prefix}" for prefix in ("M", "Mi", "Mid", "Mid-")],
        *[f"suffix={suffix}" for suffix in ("s", "0s", "90s", "-90s")],
        "shape=Xx-dx",
        "has-capital",
        "has-digit",
        "has-hyphen",
        "w[1]=x",
        "w[0]|w[1]=Mid-90s|x",
        "shape[1]=x",
        "__BOS__",
    ]
    assert "w[-1]=Mid-90s" in found[1]
    assert "__EOS__" in found[1]


def test_words_and_tags_are_both_sets():
    sentence = [("a", "T"), ("b", "U"), ("c", "T")]
    [both] = token_features([sentence], "words+tags")
    [words] = token_features([[word for word, _ in sentence]], "words")
    [chunking] = token_features([sentence], "chunking")
    for own, first, second in zip(both, words, chunking, strict=True):
        assert len(own) == len(set(own))
        assert set(own) == set(first) | set(second)


@pytest.mark.parametrize(
    ("sentence", "templates", "message"),
    [
        (["a"], "chunk", "templates must be one of words, chunking, words.tags, got 'chunk'"),
        (["a"], "chunking", "every token must be a pair of a word and its tag .* got 'a' in sentence 0, token 0"),
        ([("a", "T"), ("b", None)], "chunking", r"got \('b', None\) in sentence 0, token 1"),
        ([("a", "T")], "words", r"every token must be a word for the templates 'words', got \('a', 'T'\)"),
        ("a b", "words", "got 'a b' in sentence 0"),
    ],
)
def test_tokens_must_suit_the_templates(sentence, templates, message):
    with pytest.raises(InvalidInputError, match=message):
        list(token_features([sentence], templates))
