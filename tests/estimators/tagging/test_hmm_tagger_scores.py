"""Scores of a tagger on text that it was not trained on: finite, so that cross-validation can choose."""

from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from spectrem import HMMTagger

WORDS = [f"w{k}" for k in range(40)]


def text(seed=0, n=45):
    """Sentences in which many words occur once, most with one of three tags and some with another."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(WORDS) + 1)
    sentences = [rng.choice(WORDS, size=rng.integers(3, 9), p=share / share.sum()).tolist() for _ in range(n)]
    tags = [["ABC"[(int(word[1:]) + (rng.random() < 0.2)) % 3] for word in sentence] for sentence in sentences]
    return sentences, tags


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options", [{}, {"min_count": 2}, {"smoothing": 0.1}, {"vocabulary": WORDS}, {"vocabulary": [*WORDS, "<unk>"]}]
)
@pytest.mark.parametrize("labelled", [False, True])
def test_grid_searches_choose_by_finite_scores(options, labelled):
    sentences, tags = text()
    tagger = HMMTagger(n_states=3, random_state=0, max_iter=5, **options)
    search = GridSearchCV(tagger, {"order": [1, 2]}, cv=3, error_score="raise").fit(
        sentences, tags if labelled else None
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_smoothing_is_chosen_above_none():
    sentences, tags = text()
    search = GridSearchCV(HMMTagger(max_iter=1, tol=0), {"smoothing": [0.0, 0.1]}, cv=3, error_score="raise")
    assert search.fit(sentences, tags).best_params_ == {"smoothing": 0.1}


def by_hand(tagger, words, tags=None):
    """log p of a sentence and its tags, or of the sentence, all events of probability 0 at 1e-9, by enumeration."""
    initial, transition, emission = (
        np.maximum(t, 1e-9) for t in (tagger.initial_, tagger.transition_, tagger.emission_)
    )
    index, n = tagger.vocabulary_.index, len(tagger.tags_)
    total = 0.0
    for path in product(range(n), repeat=len(words)):
        if tags is not None and [tagger.tags_[state] for state in path] != tags:
            continue
        p = initial[path[0]]
        for before, after in pairwise(path):
            p *= transition[before, after]
        for state, word in zip(path, words, strict=True):
            p *= emission[state, index[word]] if word in index else 1 / (len(index) + 1)
        total += p
    return np.log(total)


def test_what_impossible_events_and_unseen_words_count():
    sentences = [["the", "dog", "barks"], ["the", "cat", "sleeps"]]
    tags = [["DT", "NN", "VB"]] * 2
    tagger = HMMTagger(max_iter=1, tol=0, init_smoothing=1e-300).fit(sentences, tags)
    for words, own in [
        (["the", "dog", "barks"], ["DT", "NN", "VB"]),
        (["the", "mouse", "barks"], ["DT", "NN", "VB"]),
        (["mouse", "snake"], ["DT", "NN"]),
        (["dog", "dog", "snake"], ["VB", "NN", "NN"]),
    ]:
        assert tagger.score([words], [own]) == pytest.approx(by_hand(tagger, words, own) / len(words), rel=1e-6)
        assert tagger.score([words]) == pytest.approx(by_hand(tagger, words) / len(words), rel=1e-6)
    exact = tagger.score_samples([["the", "dog", "barks"], ["dog", "dog", "dog"], ["the", "mouse", "barks"]])
    assert exact[1] == -np.inf
    assert exact[2] == pytest.approx(np.log(0.5))  # of "barks" alone
    seen = tagger.score([["the", "dog", "barks"], ["dog"]], sample_weight=[1.0, 0.0])
    assert seen == pytest.approx(exact[0] / 3, rel=1e-12)


def test_a_trained_unknown_word_stands_for_unseen_ones():
    sentences, _ = text()
    tagger = HMMTagger(n_states=2, min_count=3, smoothing=0.1, random_state=0, max_iter=3, tol=0).fit(sentences)
    assert "<unk>" in tagger.vocabulary_.index
    new = [["w0", "never", "w1"], ["w0", "w2"]]
    assert tagger.score(new) == pytest.approx(tagger.score_samples(new).sum() / 5, rel=1e-12)
