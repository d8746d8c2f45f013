"""Saved models keep constraints as texts, and say which ones they cannot keep."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from tagger_helpers import DICTIONARY, SENTENCES, make

from spectrem import (
    CRFTagger,
    E,
    GaussianHMM,
    GaussianMixture,
    HMMTagger,
    MaxEntClassifier,
    SelfTrainer,
    WordAligner,
    agreement,
    part,
)
from spectrem.constraints import at_least, cluster_size, label_proportions, linear, must_link, sparsity
from spectrem.estimators.storage import read_constraints
from spectrem.exceptions import InvalidInputError

X = np.random.default_rng(0).normal(size=(30, 2)) + np.repeat([[0, 0], [6, 0], [0, 6]], 10, axis=0)
Y = np.where(np.arange(30) % 5 == 0, np.arange(30) // 10, -1)
LINK = must_link([[0, 1]])
ONE_START = {"init": "clusters", "n_init": 1}
TAGS = [["DT", "NN", "VB"], ["DT", "NN", None, "DT", "NN"]]


class Own:
    """A constraint that no text says."""

    name = "my own"

    def rows(self, structure):
        """Always true."""
        return linear(np.ones((1, structure.n_unary)), [1e6], sense="<=")


def fit(cls, **options):
    """An estimator of a class, trained for an iteration."""
    if cls is HMMTagger:
        return make(dictionary=DICTIONARY, max_iter=1, **options).fit(SENTENCES)
    if cls is WordAligner:
        settings = {"n_threads": 1, "max_iter": 1, "model1_iterations": 1} | options
        return WordAligner(**settings).fit(["a b c", "b d", "c"], ["x y z", "y w", "z v"])
    if cls is CRFTagger:
        return CRFTagger("words", n_threads=1, max_iter=1, tol=0, **options).fit(SENTENCES[:2], TAGS)
    if cls is MaxEntClassifier:
        return MaxEntClassifier(n_threads=1, max_iter=1, tol=0, **options).fit(X, Y)
    if cls is GaussianHMM:
        settings = {"states": ["a", "b"], "random_state": 0, "n_threads": 1, "max_iter": 1, "tol": 0, **ONE_START}
        return GaussianHMM(2, **(settings | options)).fit(X, lengths=[10, 20])
    if cls is GaussianMixture:
        return GaussianMixture(3, random_state=0, n_threads=1, **options).fit(X)
    pytest.importorskip("skops")
    return SelfTrainer(GaussianNB(), max_iter=1, tol=0, **options).fit(X, Y)


def reload(estimator, folder):
    estimator.save(folder / "model")
    return type(estimator).load(folder / "model")


class Alike(Own):
    """A constraint that prints as another one does."""

    def __repr__(self):
        return "E[part('label') == 1] <= 3"


GOOD = [
    (HMMTagger, [at_least(1, "NN"), sparsity(1.0), "E[tag == 'VB'] <= 20"]),
    (HMMTagger, {"few verbs": "E[tag == 'VB'] <= 20", "nouns": [at_least(1, "NN")]}),
    (WordAligner, ("agreement", "fertility")),
    (WordAligner, "agreement"),
    (WordAligner, {"both": [agreement(), "fertility"]}),
    (WordAligner, (agreement(), (E[part("state") == 0] <= 2).per("sentence").named("first words"))),
    (GaussianHMM, [(E[part("state") == "a"] >= 1).per("sequence"), "E[state == 'b'] >= 9"]),
    (GaussianHMM, {"calm": E[part("change") == 1] <= 8, "first": "E[(state == 'b') & (time == 0)] <= 1"}),
    (GaussianMixture, [cluster_size(min=5), must_link(column="group")]),
    (GaussianMixture, [E[part("label") == 0] >= 9]),
    (CRFTagger, [at_least(1, "NN"), "E[tag == 'VB'] <= 20"]),
    (MaxEntClassifier, [label_proportions({0: 1 / 3, 1: 1 / 3, 2: 1 / 3}), "E[label == 1] <= 15"]),
    (SelfTrainer, [label_proportions({0: 1 / 3, 1: 1 / 3, 2: 1 / 3}), "E[label == 1] <= 15"]),
]


def flat(constraints):
    """Constraints of lists in tuples, and those that stand for several one by one."""
    if isinstance(constraints, dict):
        return {name: flat(held) for name, held in constraints.items()}
    if isinstance(constraints, str) or not hasattr(constraints, "__iter__"):
        return constraints
    return tuple(map(flat, constraints))


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("cls", "constraints"), GOOD)
def test_constraints_come_back(cls, constraints, tmp_path):
    columns = cls is GaussianMixture and any("group" in repr(one) for one in constraints)
    estimator = fit(cls) if columns else fit(cls, constraints=constraints)
    estimator.set_params(constraints=constraints)
    loaded = reload(estimator, tmp_path)
    assert loaded.constraints == flat(constraints)
    assert type(loaded.constraints) is (type(constraints) if isinstance(constraints, str | dict) else tuple)


def test_a_loaded_tagger_projects_new_sentences(tmp_path):
    rules = [at_least(1, "VB"), (E[part("tag") == "NN"] <= 20).named("few nouns")]
    tagger = fit(HMMTagger, constraints=rules, infeasible="skip", dual_steps=0, smoothing=0.1)
    new = ["the walk", "a run barks", "the dog sees the walk"]
    free = tagger.predict_proba(new)
    loaded = reload(tagger.set_params(project_at_predict=True), tmp_path)
    assert loaded.project_at_predict
    for ours, theirs in zip(loaded.predict_proba(new), tagger.predict_proba(new), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours[:, 2].sum() > 1 - 1e-6
    assert free[0][:, 2].sum() < 1 - 1e-3


def test_loaded_states_of_series_project_new_rows(tmp_path):
    rules = [(E[part("state") == "a"] >= 7).per("sequence"), E[part("change") == 1] <= 1]
    model = fit(GaussianHMM, constraints=rules, project_at_predict=True)
    loaded = reload(model, tmp_path)
    assert loaded.project_at_predict
    proba = loaded.predict_proba(X[8:16])
    np.testing.assert_array_equal(proba, model.predict_proba(X[8:16]))
    assert proba[:, 0].sum() > 7 - 1e-6
    free = reload(model.set_params(project_at_predict=False), tmp_path)
    assert free.predict_proba(X[8:16])[:, 0].sum() < 7 - 1e-3


def test_a_loaded_aligner_projects_as_before(tmp_path):
    rules = [agreement(), (E[part("state") == 0] <= 1).per("sentence").named("first words")]
    aligner = fit(WordAligner, constraints=rules)
    loaded = reload(aligner, tmp_path)
    ours, theirs = (one.predict_proba(["a c"], ["x v"]) for one in (loaded, aligner))
    np.testing.assert_array_equal(ours.forward[0], theirs.forward[0])


def test_a_loaded_tagger_is_trained_on_under_its_constraints(tmp_path):
    tagger = fit(HMMTagger, constraints=[at_least(1, "NN")], smoothing=0.1)
    again = reload(tagger, tmp_path).fit(SENTENCES)
    assert again.objective_ == tagger.objective_


@pytest.mark.parametrize("cls", [HMMTagger, WordAligner, GaussianHMM])
def test_what_decoding_needs_is_not_left_out(cls, tmp_path):
    unit = "sequence" if cls is GaussianHMM else "sentence"
    estimator = fit(cls, constraints=[Own(), f"E[{unit} == 0] <= 1e9"], project_at_predict=False)
    estimator.set_params(project_at_predict=True)
    with pytest.raises(InvalidInputError) as error:
        estimator.save(tmp_path / "model")
    assert str(error.value) == (
        "constraints that project_at_predict needs must be texts, or made with E or shortcuts, to be saved, got Own "
        f"'my own'; set project_at_predict=False, or keep the {cls.__name__} in memory"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("cls", "constraints", "kept", "named"),
    [
        (HMMTagger, [Own(), "E[sentence == 0] <= 1e9"], ("E[sentence == 0] <= 1e9",), "Own 'my own'"),
        (HMMTagger, (Alike(),), (), "Alike 'my own'"),
        (WordAligner, {"mine": Own(), "other": "agreement"}, {"other": "agreement"}, "Own 'my own'"),
        (GaussianHMM, [Own(), "E[sequence == 0] <= 1e9"], ("E[sequence == 0] <= 1e9",), "Own 'my own'"),
        (GaussianMixture, [LINK, cluster_size(min=5)], (cluster_size(min=5),), "RowLinks 'must link'"),
        (SelfTrainer, [linear(np.ones((1, 72)), [99.0], sense="<=")], (), "LinearConstraint 'linear'"),
    ],
)
def test_what_only_training_needs_is_left_out_by_name(cls, constraints, kept, named, tmp_path):
    options = {} if cls in (GaussianMixture, SelfTrainer) else {"project_at_predict": False}
    estimator = fit(cls, **options).set_params(constraints=constraints)
    with pytest.warns(UserWarning, match="^constraints that") as caught:
        loaded = reload(estimator, tmp_path)
    assert [str(warning.message) for warning in caught] == [
        f"constraints that cannot be written as text are left out: {named}; to train the loaded {cls.__name__} under "
        "them, give them again"
    ]
    assert caught[0].filename == __file__
    assert flat(loaded.constraints) == flat(kept)


@pytest.mark.parametrize(
    "written", [3, {"text": "import os"}, {"other": "E[a] <= 1"}, {"text": "E[a] <= 1", "more": 1}]
)
def test_what_is_damaged_is_not_read(written):
    with pytest.raises((TypeError, ValueError, KeyError)):
        read_constraints(written)
