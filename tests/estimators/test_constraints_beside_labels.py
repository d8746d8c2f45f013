"""Where all labels are given, constraints are read and held against them as elsewhere, and said to change nothing."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from spectrem import (
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    GaussianMixture,
    HMMTagger,
    MaxEntClassifier,
    RelationExtractor,
    SelfTrainer,
    Views,
    part,
)
from spectrem.data import RelationSentence
from spectrem.datasets import make_treebank
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, NoEffectWarning
from spectrem.learning import Constant, Expectations, Posteriors, Quench

X, Y = np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2
TEXT, TAGS = [["a", "b"], ["b", "a"], ["a", "a"]], [["A", "B"], ["B", "A"], ["A", "A"]]
TREES = make_treebank(6)
SENTENCES = [
    RelationSentence(("Ray", verb, "King"), [(0, 1), (2, 3)], ["P", "Q"], own)
    for verb, own in [("met", {}), ("shot", {(0, 1): "Kill"})] * 2
]
PAIR = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
LABEL, TAG, LEFT = E[part("label") == 1], E[part("tag") == "A"], E[part("direction") == "left"]
N_LEFT = sum(int(((one.heads > np.arange(len(one.heads))) & (one.heads >= 0)).sum()) for one in TREES)

# An estimator under constraints, what it is fitted to, an expectation and its value by the labels.
CASES = {
    "MaxEntClassifier": (lambda **own: MaxEntClassifier(**own), (X, Y), LABEL, 5),
    "SelfTrainer": (lambda **own: SelfTrainer(LogisticRegression(), **own), (X, Y), LABEL, 5),
    "GaussianMixture": (lambda **own: GaussianMixture(2, partial_labels=True, **own), (X, Y), LABEL, 5),
    "Views": (
        lambda **own: Views(PAIR, unlabelled_weight=0.0, **own), ({"left": X, "right": X**2}, Y), LABEL, 5,
    ),
    "CRFTagger": (lambda **own: CRFTagger("words", **own), (TEXT, TAGS), TAG, 4),
    "HMMTagger": (lambda **own: HMMTagger(**own), (TEXT, TAGS), TAG, 4),
    "DependencyModel": (
        lambda **own: DependencyModel(**own), ([one.upos for one in TREES], [one.heads for one in TREES]), LEFT, N_LEFT,
    ),
    "EdgeFactoredParser": (lambda **own: EdgeFactoredParser(learner="batch", bits=6, **own), (TREES,), LEFT, N_LEFT),
    "RelationExtractor": (
        lambda **own: RelationExtractor(type_features=False, **own), (SENTENCES,), E[part("relation") == "Kill"], 2,
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", CASES)


@each
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_labels_that_break_a_constraint_are_an_error(name, gamma):
    make, data, expected, number = CASES[name]
    with pytest.raises(InfeasibleConstraintError, match=f"= {number + 3}"):
        make(constraints=[expected == number + 3], gamma=gamma).fit(*data)
    with pytest.raises(InvalidInputError, match="there is no column 'nope'"):
        make(constraints=[E[part("nope") == 1] <= 1000], gamma=gamma).fit(*data)


@each
def test_constraints_that_labels_meet_change_nothing_and_this_is_said(name):
    make, data, expected, number = CASES[name]
    met = [(expected == number).named("as it is"), (expected == number + 3).slack(penalty=0.1)]
    with pytest.warns(NoEffectWarning, match="constraints change nothing where all .* got as it is"):
        fitted = make(constraints=met, gamma=0.5).fit(*data)
    if name != "GaussianMixture":
        assert fitted.gamma_ == 0.5
    np.testing.assert_allclose([own.after[0] for own in fitted.report_.constraints], number, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"SelfTrainer", "GaussianMixture", "RelationExtractor"}))
def test_what_new_instances_have_to_meet_is_of_use(name):
    """Predictions of the three others do not depend on constraints over several instances."""
    make, data, expected, number = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoEffectWarning)
        make(constraints=[expected <= number + 100], project_at_predict=True).fit(*data)
        make().fit(*data)
    with pytest.raises(InvalidInputError, match="there is no column 'nope'"):
        make(constraints=[E[part("nope") == 1] <= 1000], project_at_predict=True).fit(*data)


@pytest.mark.parametrize("name", ["MaxEntClassifier", "CRFTagger", "EdgeFactoredParser", "Views"])
def test_labels_need_not_meet_what_is_for_new_instances(name):
    make, data, expected, number = CASES[name]
    make(constraints=[expected == number + 3], project_at_predict=True).fit(*data)


def test_constraints_inside_sentences_are_of_use_to_an_extractor():
    inside = (E[part("relation") == "Kill"] <= 1).per("sentence")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoEffectWarning)
        RelationExtractor([inside], type_features=False).fit(SENTENCES)
    with pytest.warns(NoEffectWarning, match="change nothing"):
        RelationExtractor([inside], type_features=False, project_at_predict=False).fit(SENTENCES)


@pytest.mark.parametrize("name", ["MaxEntClassifier", "CRFTagger", "EdgeFactoredParser", "RelationExtractor", "Views"])
def test_gamma_is_what_was_asked(name):
    make, data, _, _ = CASES[name]
    schedule = Quench(Constant(1.0), 0.25)
    assert make(schedule=schedule).fit(*data).gamma_ == 0.25
    if hasattr(make(), "criterion"):
        assert make(criterion=Posteriors(0.5)).fit(*data).gamma_ == 0.5
        assert make(criterion=Expectations(2.0)).fit(*data).gamma_ == 1.0


@pytest.mark.parametrize("labelled", [slice(10), slice(4)])
def test_a_criterion_has_to_measure_constraints_beside_labels_too(labelled):
    y = np.full(10, -1)
    y[labelled] = Y[labelled]
    slack = (LABEL == 5).slack(penalty=1.0)
    with pytest.raises(InvalidInputError, match="has slack, which a criterion of expectations replaces"):
        MaxEntClassifier([slack], criterion=Expectations(2.0)).fit(X, y)


def test_rows_of_weight_0_count_in_constraints_that_change_nothing():
    y = np.where(np.arange(10) < 4, Y, -1)
    with pytest.warns(NoEffectWarning):
        fitted = MaxEntClassifier([LABEL == 7], unlabelled_weight=0.0).fit(X, y)
    assert fitted.report_.constraints[0].after == pytest.approx(7, abs=1e-5)
    with pytest.raises(InfeasibleConstraintError):
        MaxEntClassifier([LABEL == 9], unlabelled_weight=0.0).fit(X, y)


def test_labelled_sentences_of_a_group_count_whatever_shard_they_are_in():
    """A document of labelled sentences alone is held against its labels, as one that has other sentences, too."""
    text, tags = [["a"], ["b"], ["b", "a"]], [["A"], ["A"], None]
    one = E[part("tag") == "A"] == 1.0
    with pytest.raises(InfeasibleConstraintError):
        CRFTagger("words", constraints=[one.per("doc").named("one A")], tags=["A", "B"]).fit(
            text, tags, columns={"doc": ["x", "x", "y"]}
        )
    paid = [one.slack(penalty=3.0, norm="l1").per("doc").named("one A")]
    settings = {"tags": ["A", "B"], "gamma": 1.0, "max_iter": 1, "tol": 0, "dual_steps": 0, "n_threads": 1}
    free = CRFTagger("words", **settings).fit(text, tags)
    apart = CRFTagger("words", constraints=paid, **settings).fit(text, tags, columns={"doc": ["x", "x", None]})
    assert apart.history_[0].objective == pytest.approx(free.history_[0].objective - 3.0, abs=1e-6)
