"""Predictions of a fitted estimator depend on what was fitted, and on the parameters that say how to decode, alone."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    EdgeFactoredParser,
    GaussianHMM,
    GaussianMixture,
    HMMTagger,
    MaxEntClassifier,
    RelationExtractor,
    SelfTrainer,
    Views,
    WordAligner,
)
from spectrem.data import RelationSentence
from spectrem.datasets import make_bitext, make_treebank
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.shared_parameters import AT_PREDICT, NOT_SAVED
from spectrem.exceptions import NotFittedError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 4)) + 1, np.arange(20) % 2
WORDS = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
TAGS = [["DT", "NN", "VB"], ["DT", "NN", "VB"], ["DT", None, "VB"]]
TREES = make_treebank(8)
NEW = [one.upos for one in make_treebank(4, seed=1)]
SENTENCES = [
    RelationSentence(("Ray", verb, "King"), [(0, 1), (2, 3)], ["P", "Q"], own)
    for verb, own in [("met", {}), ("shot", {(0, 1): "Kill"})] * 2
]
BITEXT = make_bitext(80, seed=1)
SOURCE, TARGET = BITEXT.source, BITEXT.target
PAIR = [("left", MaxEntClassifier()), ("right", MaxEntClassifier(fit_intercept=False))]
SPLIT = {"left": [0, 1], "right": [2, 3]}
TAGGERS = [("one", CRFTagger("words")), ("two", CRFTagger("words", pairs="all"))]
FEW = np.where(np.arange(20) < 6, Y, -1)

# Of every estimator one that is not fitted, what it is fitted to, and what its methods read. All have parameters that
# predictions could be tempted to read.
CASES = {
    "MaxEntClassifier": (
        MaxEntClassifier(fit_intercept=True, columns={"document": 0}), (X, Y),
        {"predict": (X,), "predict_proba": (X,), "decision_function": (X,), "score": (X, Y)},
    ),
    "SelfTrainer": (
        SelfTrainer(LogisticRegression(), columns={"document": 1}), (X, FEW),
        {"predict": (X,), "predict_proba": (X,), "score": (X, Y)},
    ),
    "Views": (
        Views(PAIR, feature_groups=SPLIT, max_iter=2, tol=0.0), (X, FEW), {"predict": (X,), "predict_proba": (X,)},
    ),
    "Views with groups": (
        Views(PAIR, agreement={"left": {}}, agreement_penalty=0.3, feature_groups=SPLIT, max_iter=2, tol=0.0), (X, FEW),
        {"predict": (X,), "predict_proba": (X,)},
    ),
    "Views of taggers": (
        Views(TAGGERS, max_iter=2, tol=0.0), ({"one": WORDS, "two": WORDS}, TAGS),
        {"predict": ({"one": WORDS, "two": WORDS},), "predict_proba": ({"one": WORDS, "two": WORDS},)},
    ),
    "CRFTagger": (
        CRFTagger("words", scheme="any", max_iter=3, tol=0.0), (WORDS, TAGS),
        {"predict": (WORDS,), "predict_proba": (WORDS,), "n_best": (WORDS,), "score_samples": (WORDS, TAGS)},
    ),
    "HMMTagger": (
        HMMTagger(random_state=0, max_iter=3, tol=0.0, unknown="<rare>"), (WORDS, TAGS),
        {"predict": ([["a", "wug"]],), "predict_proba": (WORDS,), "score": (WORDS,), "score_samples": (WORDS,)},
    ),
    "DependencyModel": (
        DependencyModel(adjacency=False, single_root=False, max_iter=3, tol=0.0), (NEW, None),
        {"predict": (NEW,), "predict_proba": (NEW,), "score": (NEW,), "score_samples": (NEW,)},
    ),
    "BracketingModel": (
        BracketingModel(by_length=False, max_iter=3, tol=0.0), (NEW,),
        {"predict": (NEW,), "predict_proba": (NEW,), "score_samples": (NEW,)},
    ),
    "EdgeFactoredParser": (
        EdgeFactoredParser(projective=False, single_root=False, bits=8, min_count=1, passes=2), (TREES,),
        {"predict": (TREES,), "predict_proba": (TREES,), "score_samples": (TREES,), "score": (TREES,)},
    ),
    "RelationExtractor": (
        RelationExtractor(relation_features=True), (SENTENCES,),
        {"predict": (SENTENCES,), "predict_proba": (SENTENCES,)},
    ),
    "GaussianMixture": (
        GaussianMixture(2, covariance_type="diag", random_state=0), (X,),
        {"predict": (X,), "predict_proba": (X,), "score_samples": (X,), "aic": (X,)},
    ),
    "GaussianHMM": (
        GaussianHMM(2, covariance_type="diag", init="clusters", n_init=1, random_state=0), (X,),
        {"predict": (X,), "predict_proba": (X,), "score_samples": (X,), "filter": (X,), "bic": (X,)},
    ),
    "WordAligner": (
        WordAligner(stem_strength=3.0, threshold=0.3, max_jump=20), (SOURCE[:60], TARGET[:60]),
        {"predict": (SOURCE, TARGET), "predict_proba": (SOURCE, TARGET), "score_pairs": (SOURCE, TARGET)},
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", CASES)


class Unreadable:
    """What is an error wherever it is read."""

    def __getattribute__(self, name):
        if name in ("__class__", "__reduce_ex__", "__reduce__"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"a parameter was read: {name}")

    def __bool__(self):
        raise AssertionError("a parameter was read")

    __eq__ = __iter__ = __float__ = __index__ = __bool__
    __hash__ = None


def results(fitted, calls):
    """The bytes of everything that methods return."""
    return {method: pickle.dumps(getattr(fitted, method)(*data)) for method, data in calls.items()}


def spoil(estimator):
    for parameter in set(parameters_of(estimator)) - {*AT_PREDICT, *NOT_SAVED}:
        setattr(estimator, parameter, Unreadable())


@each
def test_predictions_do_not_read_parameters_of_training(name):
    estimator, data, calls = CASES[name]
    fitted = copy.deepcopy(estimator).fit(*data)
    before = results(fitted, calls)
    spoil(fitted)
    for own in getattr(fitted, "views_", {}).values():
        spoil(own)
    assert results(fitted, calls) == before


@each
def test_a_file_holds_the_parameters_of_training(name, tmp_path):
    if name == "SelfTrainer":
        pytest.importorskip("skops")
    estimator, data, calls = CASES[name]
    fitted = copy.deepcopy(estimator).fit(*data)
    before, given = results(fitted, calls), {**fitted.get_params(deep=False)}
    for parameter in ("fit_intercept", "features", "single_root", "by_length", "covariance_type", "model"):
        if parameter in given:
            other = {"features": "tokens", "covariance_type": "full", "model": "ibm1"}.get(parameter)
            fitted.set_params(**{parameter: not given[parameter] if other is None else other})
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert results(loaded, calls) == before
    now = {name: value for name, value in fitted.get_params(deep=False).items() if value != given[name]}
    assert {name: loaded.get_params(deep=False)[name] for name in now} == now  # for another fit


@each
def test_before_fit_nothing_is_predicted(name):
    estimator, _, calls = CASES[name]
    for method, data in calls.items():
        with pytest.raises(NotFittedError):
            getattr(copy.deepcopy(estimator), method)(*data)


def test_parameters_that_say_how_to_decode_are_read():
    tagger = CRFTagger("words", pairs="all").fit(WORDS, TAGS)
    free = tagger.predict_proba(WORDS)
    tagger.set_params(constraints=["E[tag == 'NN'] <= 1"], project_at_predict=True, decode="posterior")
    assert sum(own[:, 1].sum() for own in tagger.predict_proba(WORDS)) <= 1 + 1e-3
    tagger.set_params(project_at_predict=False)
    for one, other in zip(free, tagger.predict_proba(WORDS), strict=True):
        np.testing.assert_array_equal(one, other)
