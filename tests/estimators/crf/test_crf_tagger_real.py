"""CRFTagger on the shared task CoNLL-2000, and on generated text where that is missing."""

import gzip

import numpy as np
import pytest

from spectrem import CRFTagger, E, part
from spectrem.data import read_tagged
from spectrem.datasets import make_tagged_corpus
from spectrem.metrics import chunk_scores, tagging_accuracy


def read(folder, name):
    """Pairs of words and tags, and labels, of a file of columns."""
    with gzip.open(folder / "data" / "chunk" / f"conll2000-{name}.txt.gz", "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    rows = [[line.split() for line in block.splitlines()] for block in blocks]
    return [[(row[0], row[1]) for row in own] for own in rows], [[row[2] for row in own] for own in rows]


def test_generated_text():
    train, test = make_tagged_corpus(60, seed=0), make_tagged_corpus(40, seed=1)
    tagger = CRFTagger("words", n_threads=1).fit(train.words, train.tags)
    assert tagger.score(test.words, test.tags) > 0.85
    few = CRFTagger("words", n_threads=1).fit(train.words[:8], train.tags[:8])
    assert few.score(test.words, test.tags) < tagger.score(test.words, test.tags)


def test_a_part_of_conll_2000(shared):
    x, y = read(shared, "train")
    new, gold = read(shared, "test")
    tagger = CRFTagger("chunking", C=0.5, n_threads=2).fit(iter(x[:400]), y[:400])
    scores = chunk_scores(tagger.predict(new[:150]), gold[:150])
    assert scores.f1 > 0.88
    inside = [tag for tag in tagger.tags_ if tag.startswith("I-")]
    rules = [
        (E[(part("tag") == tag) & ~part("previous").isin([tag, f"B{tag[1:]}"])] <= 0).per("sentence") for tag in inside
    ]
    few = slice(0, 20)
    tagger.set_params(constraints=rules, project_at_predict=True)
    valid = tagger.predict(new[few])
    for tags in valid:
        for before, tag in zip(["O", *tags], tags, strict=False):
            assert not tag.startswith("I-") or before in (tag, f"B{tag[1:]}")
    assert chunk_scores(valid, gold[few]).f1 > 0.85


@pytest.mark.slow
def test_conll_2000(shared):
    x, y = read(shared, "train")
    new, gold = read(shared, "test")
    tagger = CRFTagger("chunking", C=0.5).fit(x, y)
    assert len(tagger.theta_) == 452_755  # as many as crfsuite has
    # crfsuite stops at a loss of 13139.36 with c2 = 1
    assert -tagger.objective_ == pytest.approx(13139.27, rel=1e-5)
    assert chunk_scores(tagger.predict(new), gold).f1 > 0.935


def test_partial_labels_of_a_dictionary(shared):
    corpus = read_tagged(shared / "data" / "tag" / "wsj_sample.pos.gz")
    words, tags = corpus.words[:400], corpus.tags[:400]
    dictionary = corpus.dictionary()
    partial = [own if k < 100 else [set(dictionary[word]) for word in words[k]] for k, own in enumerate(tags)]
    new, gold = corpus.words[400:500], corpus.tags[400:500]
    accuracies = []
    for y in (partial[:100], partial):
        tagger = CRFTagger("words", n_threads=2, max_iter=3, tol=0.0, m_tol=0.1)
        predicted = tagger.fit(words[: len(y)], y).predict(new)
        accuracies.append(tagging_accuracy(*(list(np.concatenate(own)) for own in (predicted, gold))))
    assert accuracies[1] > accuracies[0] + 0.02
