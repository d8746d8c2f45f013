import re
from collections import Counter

import numpy as np
import pytest

from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def bitext():
    return make_bitext(1000)


def words(lines):
    return [line.split() for line in lines]


def test_shapes(bitext):
    assert len(bitext.source) == len(bitext.target) == bitext.links.n_sentences == 1000
    lengths = [len(line) for line in words(bitext.source)]
    assert min(lengths) >= 3
    assert max(lengths) <= 20
    assert min(len(line) for line in words(bitext.target)) >= 1
    assert bitext.links.sure.all()


def test_links_stay_inside_their_sentences(bitext):
    encoded = encode_bitext(bitext.source, bitext.target)
    assert np.all(bitext.links.source < encoded.source_lengths[bitext.links.sentence])
    assert np.all(bitext.links.target < encoded.target_lengths[bitext.links.sentence])


def test_linked_words_translate_each_other(bitext):
    """Every word has few translations, and the most frequent is clearly ahead."""
    seen = {}
    for n, (source, target) in enumerate(zip(words(bitext.source), words(bitext.target), strict=True)):
        for i, j in bitext.links.pairs(n):
            seen.setdefault(source[i], Counter())[target[j]] += 1
    assert max(len(counts) for counts in seen.values()) <= 4
    frequent = [counts for counts in seen.values() if counts.total() >= 100]
    assert len(frequent) >= 10
    assert all(0.3 < counts.most_common(1)[0][1] / counts.total() < 0.8 for counts in frequent)


def test_it_holds_what_makes_alignment_hard(bitext):
    links = bitext.links
    encoded = encode_bitext(bitext.source, bitext.target)
    fertility = Counter(zip(links.sentence.tolist(), links.source.tolist(), strict=True))
    assert 2 in fertility.values()
    assert len(fertility) < encoded.source_tokens.size  # source words without counterpart
    assert links.n_links < encoded.target_tokens.size  # target words without counterpart
    same_sentence = np.diff(links.sentence) == 0
    jumps = np.diff(links.target)[same_sentence]
    assert 0.1 < np.mean(jumps != 1) < 0.6
    assert np.any(jumps > 5)
    assert np.any(jumps < -5)
    counts = np.bincount(encoded.source_tokens)
    assert np.sum(counts == 1) > 100  # rare words
    assert np.sort(counts)[::-1][:10].sum() > 0.2 * counts.sum()  # Zipf


def test_languages_share_no_word(bitext):
    source = {word for line in words(bitext.source) for word in line}
    target = {word for line in words(bitext.target) for word in line}
    assert not source & target


def test_seed_decides_everything(bitext):
    again = make_bitext(1000)
    assert (again.source, again.target) == (bitext.source, bitext.target)
    assert np.array_equal(again.links.keys, bitext.links.keys)
    assert make_bitext(1000, seed=1).source != bitext.source


@pytest.mark.parametrize("vocabulary", [50, 3000])
def test_other_vocabulary_sizes(vocabulary):
    generated = make_bitext(20, vocabulary=vocabulary, seed=4)
    assert generated.links.n_sentences == 20


def test_errors():
    with pytest.raises(InvalidInputError, match=re.escape("n_pairs must be at least 1, but is 0")):
        make_bitext(0)
    message = "vocabulary must be at least 50 words, but is 9; give more words"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        make_bitext(vocabulary=9)
