"""CRFTagger at every gamma, in several homes, interrupted, cloned and pickled."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from spectrem import CRFTagger, E, MaxEntClassifier, part
from spectrem.constraints import at_most
from spectrem.corpus import OnDask, Spilled
from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, Posteriors
from spectrem.models.loglinear import features as shards

CORPUS = make_tagged_corpus(40, seed=1)
LABELS = [*CORPUS.tags[:15], *([None] * 25)]
# of other sentences every third tag, or it and another one
PARTIAL = [
    *CORPUS.tags[:15],
    *(
        [tag if k % 3 == 0 else {tag, "NOUN"} if k % 3 == 1 else None for k, tag in enumerate(tags)]
        for tags in CORPUS.tags[15:]
    ),
]


def make(**options):
    return CRFTagger("words", **({"n_threads": 1, "max_iter": 3, "tol": 0.0, "m_steps": 5} | options))


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("constraints", [(), ["at_least(1, 'VERB')"], ["E[tag == 'NOUN'] <= '15%'"]])
@pytest.mark.filterwarnings("ignore:whole structures that meet the constraints")
def test_the_objective_never_falls(gamma, constraints):
    tagger = make(schedule=Constant(gamma), constraints=constraints, dual_steps=0).fit(CORPUS.words, LABELS)
    course = [record.objective for record in tagger.history_]
    assert len(course) == 3
    slack = 1e-3 if gamma == -np.inf else 1e-6  # whole structures are found within a gap
    assert (np.diff(course) >= -slack * abs(course[0])).all()
    assert tagger.gamma_ == gamma


def test_several_gammas_in_turn():
    tagger = make(schedule=Anneal(0.5, alpha=2.0), max_iter=1).fit(CORPUS.words, LABELS)
    assert [record.gamma for record in tagger.history_] == [2.0, 1.0]


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards.build_shards, "__kwdefaults__", {**shards.build_shards.__kwdefaults__, "least": 1})
    monkeypatch.setattr(shards, "_PER_WEIGHT", 0)


RULES = [
    (E[(part("tag") == "VERB") & (part("previous") == "DET")] <= 0).per("sentence"),
    E[part("tag") == "NOUN"] <= "15%",
    at_most(3, "NOUN", per="document"),
]
DOCUMENTS = {"document": [None if number < 15 else number // 2 for number in range(40)]}


def outcome(labels=LABELS, **options):
    options = {"max_iter": 2, "m_steps": 3, "dual_steps": 3} | options
    tagger = make(**options).fit(CORPUS.words, labels, columns=DOCUMENTS)
    tagger.set_params(project_at_predict=bool(tagger.constraints), decode="posterior")
    tables = tagger.predict_proba(CORPUS.words, columns=DOCUMENTS)
    return [tagger.theta_, [record.objective for record in tagger.history_], *tables]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


CASES = {
    "labelled": {"labels": CORPUS.tags, "m_tol": 0.0},
    "partly labelled": {"labels": PARTIAL, "m_steps": 50},
    "unlabelled, softer": {"gamma": 2.0},
    "edges": {"edge_features": "w[0]="},
    "constraints": {"constraints": RULES},
}


@pytest.mark.usefixtures("small_shards")
@pytest.mark.filterwarnings("ignore:constraints over the corpus are still missed")
@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same_in_every_home(tmp_path, case):
    expected = outcome(**CASES[case])
    assert_same(outcome(n_threads=2, **CASES[case]), expected)
    assert_same(outcome(corpus=partial(Spilled, folder=tmp_path), **CASES[case]), expected)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.filterwarnings("ignore:constraints over the corpus are still missed")
@pytest.mark.parametrize("case", ["labelled", "partly labelled", "constraints"])
def test_results_are_the_same_on_a_cluster(client, case):
    assert_same(outcome(corpus=partial(OnDask, client=client), **CASES[case]), outcome(**CASES[case]))


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": Constant()},
        {"m_steps": 25, "m_tol": 1e-9},
        {"m_steps": 15, "m_tol": 1e-9, "criterion": Posteriors(), "constraints": ["E[tag == 'NOUN'] <= '25%'"]},
    ],
    ids=["EM", "likelihood", "criterion"],
)
@pytest.mark.filterwarnings("ignore:the objective still rose")
def test_an_interrupted_run_goes_on(tmp_path, options):
    def stop(record):
        seen.append(record)
        if len(seen) == stop_at:
            raise KeyboardInterrupt

    seen, stop_at = [], 2 if "schedule" in options else 13
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=tmp_path, on_iteration=stop, **options).fit(CORPUS.words, PARTIAL)
    heard = []
    again = make(checkpoint=tmp_path, on_iteration=heard.append, **options).fit(CORPUS.words, PARTIAL)
    whole = make(**options).fit(CORPUS.words, PARTIAL)
    np.testing.assert_array_equal(again.theta_, whole.theta_)
    assert [record.objective for record in heard] == [record.objective for record in whole.history_]
    assert len(whole.history_) == 3 if "schedule" in options else len(whole.history_) > 13


def test_conventions_of_scikit_learn():
    tagger = make(C=0.5).fit(CORPUS.words, LABELS)
    copied = pickle.loads(pickle.dumps(tagger))
    assert copied.predict(CORPUS.words) == tagger.predict(CORPUS.words)
    assert repr(clone(tagger)) == "CRFTagger(C=0.5, features='words', m_steps=5, max_iter=3, n_threads=1, tol=0.0)"
    assert clone(tagger).get_params() == tagger.get_params()
    search = GridSearchCV(make(m_steps=None), {"C": [1e-3, 1.0]}, cv=3).fit(CORPUS.words, CORPUS.tags)
    assert search.best_params_ == {"C": 1.0}
    assert "CRFTagger on 40 sentences" in tagger.report_.summary()


@pytest.mark.parametrize("estimator", ["tagger", "elastic net", "classifier"])
def test_an_interrupted_training_on_labels_goes_on(tmp_path, estimator):
    def fit(**more):
        options = {"n_threads": 1, "m_tol": 1e-9, **more}
        if estimator == "classifier":
            X = np.random.default_rng(0).normal(size=(60, 5))
            return MaxEntClassifier(C=100.0, **options).fit(X, (X @ np.arange(5) > 1).astype(int))
        ratio = 0.3 if estimator == "elastic net" else 0.0
        return CRFTagger("words", l1_ratio=ratio, **options).fit(CORPUS.words, CORPUS.tags)

    def stop(record):
        seen.append(record.objective)
        if len(seen) == 13:
            raise KeyboardInterrupt

    whole, heard, seen = fit(), [], []
    fit(on_iteration=lambda record: heard.append(record.objective))
    assert (np.diff(heard) >= 0).all()
    assert heard[-1] == whole.objective_
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=tmp_path, on_iteration=stop)
    assert seen == heard[:13]
    told, retold = [], []
    again = fit(checkpoint=tmp_path, on_iteration=lambda record: told.append(record.objective))
    np.testing.assert_array_equal(*(vars(one).get("theta_", getattr(one, "coef_", None)) for one in (again, whole)))
    assert told == heard
    assert again.objective_ == whole.objective_
    finished = fit(checkpoint=tmp_path, on_iteration=lambda record: retold.append(record.objective))
    assert retold == heard
    assert finished.objective_ == whole.objective_
    with pytest.raises(InvalidInputError, match="is that of a run with other data, another start or other settings"):
        fit(checkpoint=tmp_path, m_tol=1e-8)
