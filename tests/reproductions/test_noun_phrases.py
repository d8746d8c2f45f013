"""Noun phrases of generated text: what views see, gains over the best tagger, and the command."""

import gzip

import numpy as np
import pytest

from reproductions.relatives.tasks import Sentence
from reproductions.views import pr_table6
from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import InvalidInputError

WITHIN = {"DET": "DT", "ADJ": "JJ", "NOUN": "NN", "PROPN": "NNP"}


@pytest.fixture(scope="module")
def chunks(tmp_path_factory):
    """110 sentences in columns, a run of determiners, adjectives and nouns being a phrase, and a copy of the first."""
    root = tmp_path_factory.mktemp("chunks")
    corpus, blocks = make_tagged_corpus(110, seed=2), []
    for words, tags in zip(corpus.words, corpus.tags, strict=True):
        lines, inside = [], False
        for word, tag in zip(words, tags, strict=True):
            chunk = ("I-NP" if inside else "B-NP") if tag in WITHIN else "B-VP" if tag == "VERB" else "O"
            inside = tag in WITHIN
            lines.append(f"{word} {WITHIN.get(tag, tag)} {chunk}\n")
        blocks.append("".join(lines))
    (root / "chunk").mkdir()
    for part in ("train", "test"):
        text = "\n".join([*blocks, blocks[0]])
        (root / "chunk" / f"conll2000-{part}.txt.gz").write_bytes(gzip.compress(text.encode()))
    return root


def test_views_share_no_feature():
    sentence = Sentence([("the", "DT"), ("old", "JJ"), ("dog", "NN")], ["B-NP", "I-NP", "I-NP"])
    left, right = pr_table6.content(sentence), pr_table6.context(sentence)
    assert left[1] == ["w=old", "p=JJ"]
    assert right[1] == ["w-=the", "p-=DT", "w+=dog", "p+=NN"]
    assert pr_table6.all_six(sentence)[1] == left[1] + right[1]
    assert not {name for own in left for name in own} & {name for own in right for name in own}


def fit(size, draw, method, f1):
    return pr_table6.Fit(size, draw, method, f1, 0.0)


def test_gains_are_of_the_same_draws():
    fits = [
        fit(10, draw, method, f1 + 0.05 * draw)
        for draw in (0, 1)
        for method, f1 in (("CRF", 0.6), ("CRF+e", 0.5), ("content", 0.7), ("UEM+e", 0.75))
    ]
    np.testing.assert_allclose(pr_table6.gains(fits, "UEM+e", "CRF")[10], [15, 15])
    assert pr_table6.best_baseline(fits, 10) == "content"


def test_the_command(reproduce, chunks):
    printed, numbers = reproduce("pr-table6", chunks)
    assert len(numbers) == 2 * len(pr_table6.METHODS)
    assert all(0.2 < float(row["f1"]) <= 1 for row in numbers)
    assert "agree_0+e" in printed


def test_sentences_must_suffice(chunks):
    with pytest.raises(InvalidInputError, match="sizes must leave sentences for 500 without labels and 500 tests, got"):
        pr_table6.run(chunks, (10,))
