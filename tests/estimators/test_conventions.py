"""Estimators that do without scikit-learn behave as its BaseEstimator, side by side."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr, get_tags

from spectrem import HMMTagger, WordAligner
from spectrem.estimators.conventions import Estimator
from spectrem.exceptions import InvalidInputError

METHODS = ["__init__", "fit", "predict", "predict_proba", "score"]
OURS = [WordAligner, HMMTagger]
THEIRS = [type(cls.__name__, (BaseEstimator,), {name: vars(cls)[name] for name in METHODS}) for cls in OURS]
BOTH = pytest.mark.parametrize(("ours", "theirs"), list(zip(OURS, THEIRS, strict=True)))
SENTENCES = np.array(["the dog barks", "a cat sleeps", "the cat", "a dog"] * 3, dtype=object)
DICTIONARY = {"the": ["D"], "a": ["D"], "dog": ["N"], "cat": ["N"]}


def nested(base):
    class Meta(base):
        def __init__(self, inner=None, *, other=1):
            self.inner = inner
            self.other = other

    return Meta


@BOTH
def test_parameters_are_those_of_base_estimator(ours, theirs):
    given = {"gamma": 0.5, "n_threads": 1, "constraints": []}
    a, b = ours(**given), theirs(**given)
    assert a.get_params() == b.get_params()
    assert list(a.get_params(deep=False)) == list(b.get_params(deep=False))
    assert repr(ours()) == repr(theirs())
    assert repr(a) == repr(b)
    assert repr(clone(a)) == repr(b)
    assert a.set_params(gamma=2.0) is a
    assert a.gamma == 2.0
    assert a.set_params() is a


@BOTH
def test_unknown_parameters_are_refused_in_the_same_words(ours, theirs):
    messages = []
    for estimator in (ours(gamma=0.5), theirs(gamma=0.5)):
        for name in ("missing", "missing__inner"):
            with pytest.raises(ValueError, match="Invalid parameter 'missing' for estimator") as error:
                estimator.set_params(**{name: 1})
            messages.append(str(error.value))
    assert messages[:2] == messages[2:]


@pytest.mark.parametrize("base", [Estimator, BaseEstimator])
def test_nested_parameters(base):
    meta = nested(base)(WordAligner(gamma=0.5))
    assert meta.get_params()["inner__gamma"] == 0.5
    assert "inner__gamma" not in meta.get_params(deep=False)
    assert meta.set_params(inner__gamma=0.25, other=2).inner.gamma == 0.25
    assert meta.other == 2
    meta.set_params(inner=HMMTagger(), inner__order=2)
    assert meta.inner.order == 2
    assert repr(meta) == "Meta(inner=HMMTagger(order=2), other=2)"
    copied = clone(meta)
    assert copied.inner is not meta.inner
    assert copied.get_params().keys() == meta.get_params().keys()


def test_a_parameter_that_is_no_estimator_has_none():
    with pytest.raises(InvalidInputError) as error:
        WordAligner().set_params(gamma__beta=1)
    assert str(error.value) == ("gamma must be an estimator to have 'beta' set, got 1.0; give gamma one first")


@BOTH
def test_tags_diagrams_and_requests_are_those_of_base_estimator(ours, theirs):
    a, b = ours(gamma=0.5), theirs(gamma=0.5)
    assert get_tags(a) == get_tags(b)
    assert estimator_html_repr(a).count("gamma") == estimator_html_repr(b).count("gamma")
    assert "gamma" in a._repr_html_()
    assert set(a._repr_mimebundle_()) == set(b._repr_mimebundle_())
    with sklearn.config_context(enable_metadata_routing=True):
        a.set_fit_request(sample_weight=True)
        b.set_fit_request(sample_weight=True)
        assert str(clone(a).get_metadata_routing()) == str(b.get_metadata_routing())
        with pytest.raises(TypeError, match="Unexpected args"):
            a.set_fit_request(missing=True)


@pytest.mark.parametrize("cls", OURS)
def test_missing_attributes_are_missing(cls):
    for name in ("missing", "missing_", "_missing", "set_missing_request", "__missing__"):
        assert not hasattr(cls(), name)
        with pytest.raises(AttributeError, match=f"'{cls.__name__}' object has no attribute '{name}'"):
            getattr(cls(), name)


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_copies_are_whole(copied):
    tagger = HMMTagger(dictionary=DICTIONARY, n_threads=1, max_iter=2, tol=0.0).fit(SENTENCES)
    again = copied(tagger)
    assert repr(again) == repr(tagger)
    assert again.predict(SENTENCES[:2]) == tagger.predict(SENTENCES[:2])


def test_model_selection_and_pipelines():
    tagger = HMMTagger(dictionary=DICTIONARY, n_threads=1, max_iter=2, tol=0.0)
    scores = cross_val_score(tagger, SENTENCES, cv=2)
    assert np.isfinite(scores).all()
    pipeline = Pipeline([("tag", tagger)])
    search = GridSearchCV(pipeline, {"tag__smoothing": [0.01, 1.0]}, cv=2).fit(SENTENCES)
    assert search.best_params_["tag__smoothing"] in (0.01, 1.0)
    assert search.best_estimator_.named_steps["tag"] is not tagger
    assert len(search.predict(SENTENCES[:1])) == 1


def test_long_values_are_shown_in_part():
    shown = repr(HMMTagger(dictionary={f"w{n:03}": ["N"] for n in range(100)}))
    assert "w029" in shown
    assert "w030" not in shown
    assert shown.endswith("...})")
