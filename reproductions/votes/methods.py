"""Ways to label from weak votes: majority vote, ours, and what both train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from reproductions.votes.sets import SentenceSet, VoteSet
from spectrem import CRFTagger, LabelModel, SequenceLabelModel
from spectrem.data import WeakSentences
from spectrem.metrics import find_chunks

Floats = NDArray[np.float64]
Taggings = list[list[str]]


# ---- items ----------------------------------------------------------------------------------------------------------


def majority(votes: NDArray[np.int16], n_classes: int) -> Floats:
    """The classes with most votes, which share 1 where they tie; an item without votes is of all.

    Examples
    --------
    >>> majority(np.array([[0, 0, 1], [0, 1, -1], [-1, -1, -1]], np.int16), 2).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """
    counts = (votes[:, :, None] == np.arange(n_classes)).sum(axis=1)
    best = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def posteriors(one: VoteSet, threads: int | None = None) -> Floats:
    """Ours, of the items of all parts."""
    model = LabelModel(classes=range(one.n_classes), n_threads=threads).fit(one.fitted.votes)
    return np.asarray(model.predict_proba(one.votes))


def learn_with_features(one: VoteSet, threads: int | None = None) -> NDArray[np.int64]:
    """Classes of the texts of all parts, by the classifier that our label model trains in the same call."""
    x, n = features(one), len(one.fitted.y)
    model = LabelModel(classes=range(one.n_classes), n_threads=threads).fit(one.fitted.votes, X=x[:n])
    return np.asarray(model.predict(X=x))


def features(one: VoteSet) -> Any:
    """Words, punctuation and pairs of them in the texts of all parts, those that the training part has."""
    texts = [text for items in one.parts.values() for text in items.texts]
    words = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]+", ngram_range=(1, 2), sublinear_tf=True)
    return words.fit(one.fitted.texts).transform(texts)


def classify(one: VoteSet, table: Floats, *, hard: bool) -> NDArray[np.int64]:
    """Classes of the texts of all parts, by a logistic regression on the labels of the training part.

    Parameters
    ----------
    one : VoteSet
    table : ndarray of shape (n_items, n_classes)
        Probabilities of classes, of which those of the training part are learnt from.
    hard : bool
        Whether they are labels, with 1/k where k tie, and are not weighted.
    """
    rows, x = np.flatnonzero((one.fitted.votes >= 0).any(axis=1)), features(one)
    weights = table[rows]
    if not hard:
        mean = weights.mean(axis=0)
        weights = weights * np.sqrt((0.5 * mean + 0.5 / one.n_classes) / np.maximum(mean, 1e-12))
    row, label = np.nonzero(weights > 1e-3)
    if (label == label[0]).all():  # as where a label model has collapsed
        return np.full(x.shape[0], label[0])
    model = LogisticRegression(C=10.0, max_iter=2000)
    return np.asarray(model.fit(x[rows[row]], label, weights[row, label]).predict(x))


# ---- sentences ------------------------------------------------------------------------------------------------------


def majority_tags(sentences: WeakSentences, tags: Sequence[str], first: str) -> Taggings:
    """The tags with most votes, O where all sources are silent, and I for B where it follows nothing of its type.

    Parameters
    ----------
    sentences : WeakSentences
    tags : sequence of str
        All that there are. Of those that tie, the first in this order is taken,
    first : {"B", "I"}
        and before that those with this letter.

    Examples
    --------
    >>> sentences = WeakSentences(["0"], [["Ada"]], [np.array([["B-PER", "I-LOC"]])], [None], ["a", "b"])
    >>> tags = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    >>> majority_tags(sentences, tags, "B"), majority_tags(sentences, tags, "I")
    ([['B-PER']], [['B-LOC']])
    """
    order = sorted((tag for tag in tags if tag != "O"), key=lambda tag: tag[0] != first)
    number = {None: -1, "O": -1} | {tag: k for k, tag in enumerate(order)}
    taggings = []
    for table in sentences.votes:
        votes = np.vectorize(number.__getitem__, otypes=[np.int16])(table)
        best = majority(votes, len(order)).argmax(axis=1)
        spoken = (votes >= 0).any(axis=1)
        taggings.append(_begun([order[k] if some else "O" for k, some in zip(best, spoken, strict=True)]))
    return taggings


def _begun(tags: list[str]) -> list[str]:
    """The same chunks, of which each begins with B."""
    for chunk in find_chunks(tags):
        tags[chunk.start] = f"B-{chunk.type}"
    return tags


def label_sentences(one: SentenceSet, threads: int | None = None, **parameters: Any) -> SequenceLabelModel:
    """Ours, learnt from the votes of the training part."""
    model = SequenceLabelModel(source_names=one.fitted.sources, n_threads=threads, **parameters)
    return model.fit(one.fitted.words, one.fitted.votes)


def train_tagger(one: SentenceSet, labels: Any, tags: Sequence[str], threads: int | None = None) -> CRFTagger:
    """A tagger of text, learnt from labels of the training part: tags, or probabilities of these tags."""
    tagger = CRFTagger("words", tags=tags, scheme="bio", n_threads=threads)
    return tagger.fit(one.fitted.words, labels)
