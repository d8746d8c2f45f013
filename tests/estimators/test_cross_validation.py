"""scikit-learn's cross-validation and searches, on every estimator that learns from labels."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, cross_val_score

from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    EdgeFactoredParser,
    HMMTagger,
    MaxEntClassifier,
    RelationExtractor,
    SelfTrainer,
    Views,
)
from spectrem.data import RelationSentence
from spectrem.datasets import make_treebank

GOLD = np.repeat([0, 1, 2], 10)
X = np.random.default_rng(0).normal(size=(30, 3)) + 2 * np.eye(3)[GOLD]
Y = np.where(np.arange(30) % 10 < 6, GOLD, -1)  # in the order of classes
TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"], ["a", "dog"]] * 3
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"], ["D", "N"]] * 3
TREES = make_treebank(12)
UPOS, HEADS = [one.upos for one in TREES], [one.heads for one in TREES]
SENTENCES = [
    RelationSentence(("Ray", verb, "King"), [(0, 1), (2, 3)], ["P", "Q"], own)
    for verb, own in [("met", {}), ("shot", {(0, 1): "Kill"})] * 6
]
PAIR = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
SPLIT = {"left": [0, 1], "right": [1, 2]}

CASES = {
    "MaxEntClassifier": (MaxEntClassifier(), X, Y, {"C": [0.1, 1.0]}),
    "MaxEntClassifier, sets": (
        MaxEntClassifier(classes=[0, 1, 2]), X[::3], [{0, 1} if n == 3 else int(y) for n, y in enumerate(Y[::3])],
        {"C": [0.1, 1.0]},
    ),
    "SelfTrainer": (SelfTrainer(LogisticRegression()), X, Y, {"unlabelled_weight": [0.1, 1.0], "estimator__C": [1.0]}),
    "Views": (Views(PAIR, feature_groups=SPLIT, max_iter=3, tol=0.0), X, Y, {"left__C": [0.1, 1.0]}),
    "CRFTagger": (CRFTagger("words"), TEXT, TAGS, {"C": [0.1, 1.0]}),
    "CRFTagger, partly": (
        CRFTagger("words", tags=["D", "N", "V"]), TEXT, [None if n % 5 == 0 else own for n, own in enumerate(TAGS)],
        {"pairs": ["observed", "all"]},
    ),
    "HMMTagger": (HMMTagger(random_state=0, max_iter=3, tol=0.0), TEXT, TAGS, {"smoothing": [0.1, 1.0]}),
    "EdgeFactoredParser": (EdgeFactoredParser(bits=8, passes=2), TREES, None, {"C": [0.1, 1.0]}),
    "EdgeFactoredParser, y": (EdgeFactoredParser(bits=8, passes=2), TREES, HEADS, {"C": [0.1, 1.0]}),
    "DependencyModel": (DependencyModel(max_iter=3, tol=0.0), UPOS, HEADS, {"smoothing": [0.1, 1.0]}),
    "BracketingModel": (BracketingModel(max_iter=3, tol=0.0), UPOS, None, {"by_length": [True, False]}),
    "RelationExtractor": (RelationExtractor(type_features=False), SENTENCES, None, {"C": [0.1, 1.0]}),
    "RelationExtractor, y": (
        RelationExtractor(type_features=False), [replace(one, relations=None) for one in SENTENCES],
        [one.relations for one in SENTENCES], {"C": [0.1, 1.0]},
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", CASES)
FOLDS = KFold(3)


def taken(data, rows):
    return None if data is None else data[rows] if isinstance(data, np.ndarray) else [data[row] for row in rows]


@each
@pytest.mark.filterwarnings("ignore:.*that training did not have", "ignore:.*hardly ever")
def test_predictions_scores_and_searches(name):
    estimator, data, y, grid = CASES[name]
    whole = cross_val_predict(estimator, data, y, cv=FOLDS)
    assert whole.shape[0] == len(data)
    scores = cross_val_score(estimator, data, y, cv=FOLDS, error_score="raise")
    for number, (train, test) in enumerate(FOLDS.split(data)):
        given = [] if y is None else [taken(y, train)]
        fitted = clone(estimator).fit(taken(data, train), *given)
        predicted = fitted.predict(taken(data, test))
        for own, found in zip(taken(whole, test), predicted, strict=True):
            assert np.array_equal(own, found)
        held_out = [] if y is None else [taken(y, test)]
        assert scores[number] == fitted.score(taken(data, test), *held_out)
    search = GridSearchCV(estimator, grid, cv=FOLDS, error_score="raise").fit(data, y)
    assert np.isfinite(search.best_score_)
    assert len(search.predict(data)) == len(data)


@pytest.mark.parametrize("name", ["MaxEntClassifier", "SelfTrainer", "Views"])
def test_folds_are_split_by_class_and_labels_that_a_fold_lacks_are_named(name):
    estimator, data, y, _ = CASES[name]
    assert is_classifier(estimator)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*that training did not have")
        warnings.filterwarnings("ignore", ".*hardly ever")
        by_class = cross_val_score(estimator, data, y, cv=3)
        assert np.array_equal(by_class, cross_val_score(estimator, data, y, cv=StratifiedKFold(3)))
    assert by_class.mean() > 0.6
    with pytest.warns(UserWarning, match=r"labels that training did not have, such as \d, which are never"):
        cross_val_score(estimator, data, y, cv=FOLDS)


def test_views_of_taggers_or_of_different_labels_are_no_classifier():
    assert not is_classifier(Views(PAIR, agreement={"left": {}}))
    assert not is_classifier(Views([("one", CRFTagger()), ("two", CRFTagger())]))


@pytest.mark.parametrize("name", ["MaxEntClassifier", "SelfTrainer"])
def test_probabilities_of_folds_with_missing_labels(name):
    """Numbered by scikit-learn, missing labels would be a class of their own."""
    estimator, data, y, _ = CASES[name]
    table = cross_val_predict(
        estimator, data, cv=StratifiedKFold(3).split(data, y), method="predict_proba", params={"y": y}
    )
    assert table.shape == (30, 3)
    best = cross_val_predict(estimator, data, y, cv=StratifiedKFold(3).split(data, y))
    assert np.array_equal(table.argmax(axis=1), best)


def test_a_tagger_scores_tags_that_training_did_not_have():
    tagger = CRFTagger("words").fit(TEXT[:3], [["D", "N", "N"]] * 3)
    with pytest.warns(UserWarning, match="y has labels that training did not have, such as 'V'"):
        assert tagger.score(TEXT[:1], TAGS[:1]) == pytest.approx(2 / 3)
    assert tagger.score(TEXT[:1], [["D", "N", {"N", "V"}]]) == 1.0  # and says nothing


def test_words_without_a_head_are_not_scored():
    parser = EdgeFactoredParser(bits=8, passes=2).fit(TREES)
    found = parser.predict(TREES)
    heads = [own.copy() for own in found]
    for own, one in zip(heads, TREES, strict=True):
        own[next(n for n, tag in enumerate(one.upos) if tag != "PUNCT")] = -2
    assert parser.score(TREES, heads) == 1.0
    n = len(TREES[0].forms)
    shares = np.full((n, n), 1 / n)
    assert parser.score(TREES[:1], [shares]) == pytest.approx(1 / n)
    wrong = [found[0], None, (found[2] * 0 - 2)]
    assert parser.score(TREES[:3], wrong) == 1.0
    gold = parser.score(TREES[:2])
    both = [parser.score([one]) for one in TREES[:2]]
    sizes = [sum(tag != "PUNCT" for tag in one.upos) for one in TREES[:2]]
    assert gold == pytest.approx(np.average(both, weights=sizes))
    assert parser.score(TREES[:2], None, [0.0, 3.0]) == pytest.approx(both[1])
