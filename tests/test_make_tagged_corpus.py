from itertools import chain, pairwise

import pytest

from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import InvalidInputError

TAGS = {"DET", "ADJ", "NOUN", "VERB", "ADV", "PRON", "ADP", "AUX", "PART", "CCONJ", "PROPN", "PUNCT"}


@pytest.fixture(scope="module")
def corpus():
    return make_tagged_corpus(500, seed=0)


def test_the_same_seed_gives_the_same_sentences(corpus):
    few, other = make_tagged_corpus(20, seed=0), make_tagged_corpus(20, seed=1)
    assert few.words == corpus.words[:20]
    assert few.tags == corpus.tags[:20]
    assert few.dictionary == corpus.dictionary == other.dictionary
    assert few.words != other.words


def test_shapes(corpus):
    assert len(corpus.words) == len(corpus.tags) == 500
    assert list(map(len, corpus.words)) == list(map(len, corpus.tags))
    assert min(map(len, corpus.words)) >= 3
    assert set(chain.from_iterable(corpus.tags)) == TAGS


def test_the_dictionary_allows_the_gold_tags(corpus):
    for words, tags in zip(corpus.words, corpus.tags, strict=True):
        assert all(tag in corpus.dictionary[word] for word, tag in zip(words, tags, strict=True))
    assert set(chain.from_iterable(corpus.dictionary.values())) == TAGS


def test_many_words_are_ambiguous_and_used_so(corpus):
    tokens = list(chain.from_iterable(corpus.words))
    share = sum(len(corpus.dictionary[word]) > 1 for word in tokens) / len(tokens)
    assert 0.3 < share < 0.6
    used = {(word, tag) for word, tag in zip(tokens, chain.from_iterable(corpus.tags), strict=True)}
    assert {("saw", "NOUN"), ("saw", "VERB"), ("her", "DET"), ("her", "PRON"), ("to", "ADP"), ("to", "PART")} <= used


def test_grammar(corpus):
    """What the constraints of the examples rely on, and what makes neighbours tell."""
    follows = set()
    for tags in corpus.tags:
        assert "VERB" in tags
        assert tags[-1] == "PUNCT"
        follows |= set(pairwise(tags))
    assert ("DET", "VERB") not in follows
    assert ("DET", "NOUN") in follows
    assert ("AUX", "NOUN") not in follows


def test_forms_agree(corpus):
    assert {"watches", "cries", "plays", "children", "leaves", "wrote", "danced", "cried"} <= set(corpus.dictionary)
    for sentence in corpus.words:
        assert not {("this", "houses"), ("these", "house"), ("every", "dogs")} & set(pairwise(sentence))


def test_too_few():
    with pytest.raises(InvalidInputError, match=r"^n_sentences must be at least 1, but is 0$"):
        make_tagged_corpus(0)
