"""Finding, reading and cutting the tagged corpora."""

import re
import shutil
from itertools import chain

import pytest

from reproductions.tagging.corpora import (
    BOSQUE,
    DICTIONARY,
    PENN,
    first_tokens,
    read_bosque,
    read_penn,
    read_penn_dictionary,
    replace_rare,
    split_at_random,
)
from spectrem.data import TaggedCorpus
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import ambiguous_tokens

CORPUS = TaggedCorpus([["a", "b"], [], ["c"], ["a", "b", "d"]], [["A", "B"], [], ["C"], ["A", None, "D"]])


@pytest.mark.parametrize(
    ("read", "missing"), [(read_penn, PENN), (read_penn_dictionary, DICTIONARY), (read_bosque, BOSQUE[1])]
)
def test_a_missing_corpus_is_told(tagged, tmp_path, read, missing):
    root = tmp_path / "copy"
    shutil.copytree(tagged, root)
    read(root)
    (root / missing).unlink()
    message = f", but {root} lacks {missing}; pass --data or set SPECTREM_DATA"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read(root)


def test_corpora_are_read(tagged):
    penn, bosque = read_penn(tagged), read_bosque(tagged)
    assert (len(penn.words), len(bosque.words)) == (400, 300)
    assert list(map(len, penn.words)) == list(map(len, penn.tags))
    assert set(chain.from_iterable(penn.tags)) >= {"DT", "NN", "VB", "."}
    assert set(chain.from_iterable(bosque.tags)) >= {"DET", "NOUN", "VERB", "PUNCT"}
    dictionary = read_penn_dictionary(tagged)
    for words, tags in zip(*penn, strict=True):
        assert all(tag in dictionary[word] for word, tag in zip(words, tags, strict=True))
    assert first_tokens(penn, None) is penn


@pytest.mark.parametrize("n_tokens", range(1, 7))
def test_the_last_sentence_is_cut(n_tokens):
    found = first_tokens(CORPUS, n_tokens)
    assert [word for sentence in found.words for word in sentence] == list("abcabd")[:n_tokens]
    assert [tag for sentence in found.tags for tag in sentence] == ["A", "B", "C", "A", None, "D"][:n_tokens]
    assert found.words[-1]
    assert list(map(len, found.words)) == list(map(len, found.tags))
    assert CORPUS.words[-1] == ["a", "b", "d"]


@pytest.mark.parametrize(("n_tokens", "spelled"), [(0, "0"), (7, "7"), (12345, "12,345")])
def test_tokens_must_be_there(n_tokens, spelled):
    message = f"tokens must be between 1 and the 6 of the corpus, got {spelled}; ask for as many as there are"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        first_tokens(CORPUS, n_tokens)


def test_sentences_are_parted_at_random():
    corpus = TaggedCorpus([[str(n)] for n in range(20)], [[f"T{n}"] for n in range(20)])
    rest, drawn = split_at_random(corpus, 5, seed=1)
    numbers = [[int(sentence[0]) for sentence in part.words] for part in (rest, drawn)]
    assert sorted(numbers[0] + numbers[1]) == list(range(20))
    assert [sorted(part) for part in numbers] == numbers
    assert len(numbers[1]) == 5
    assert len(split_at_random(corpus, 19, seed=1)[1].words) == 19
    assert drawn.tags == [[f"T{n}"] for n in numbers[1]]
    assert split_at_random(corpus, 5, seed=1) == (rest, drawn)
    assert split_at_random(corpus, 5, seed=2) != (rest, drawn)


@pytest.mark.parametrize("n_second", [0, 4])
def test_both_parts_must_have_sentences(n_second):
    message = f"sentences to part off must be between 1 and 3, got {n_second}; leave some to train on"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        split_at_random(CORPUS, n_second, seed=0)


def test_rare_words_become_one():
    found = replace_rare(CORPUS)
    assert found.words == [["a", "b"], [], ["unk"], ["a", "b", "unk"]]
    assert found.tags == CORPUS.tags
    assert replace_rare(CORPUS, min_count=3, unknown="?").words[0] == ["?", "?"]


def test_real_corpora(shared):
    root = shared / "data"
    penn = first_tokens(read_penn(root), 24_115)
    words = list(chain.from_iterable(penn.words))
    assert (len(penn.words), len(words), len(penn.words[-1])) == (1025, 24_115, 14)
    assert ambiguous_tokens(words, read_penn_dictionary(root)).mean() == pytest.approx(0.543, abs=5e-4)
    assert len(read_bosque(root).words) > 30
