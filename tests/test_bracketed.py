import pytest

from spectrem.datasets import make_bracketed_corpus
from spectrem.exceptions import InvalidInputError


def test_brackets_are_binary_trees_and_sentences_short():
    corpus = make_bracketed_corpus(200, max_length=7, seed=1)
    assert len(corpus.sentences) == len(corpus.brackets) == 200
    for sentence, brackets in zip(*corpus, strict=True):
        assert 2 <= len(sentence) <= 7
        assert (0, len(sentence)) in brackets
        assert len(brackets) == len(sentence) - 1
        assert not any(a < c < b < d for a, b in brackets for c, d in brackets)


def test_fewer_sentences_are_the_first_of_more():
    assert make_bracketed_corpus(3, seed=2).sentences == make_bracketed_corpus(5, seed=2).sentences[:3]
    assert make_bracketed_corpus(3, seed=2) != make_bracketed_corpus(3, seed=3)


def test_bad_sizes():
    with pytest.raises(InvalidInputError, match="max_length"):
        make_bracketed_corpus(3, max_length=1)
    with pytest.raises(InvalidInputError, match="n_sentences"):
        make_bracketed_corpus(-1)
