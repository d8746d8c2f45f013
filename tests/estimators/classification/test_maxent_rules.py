"""How MaxEntClassifier keeps scikit-learn's conventions, what it reads, and what it refuses with which words."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from spectrem import E, MaxEntClassifier, part
from spectrem.estimators.table_input import read_targets
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError, NotFittedError
from spectrem.learning import Constant, Expectations, Posteriors

# Where -1 is a label it cannot mark the rows without one.
EXPECTED = {"check_classifiers_classes": "fits labels {-1, 1}, and -1 means unlabelled"}
THIRD = (E[part("label") == 1] == E.count(..., each="row") / 3).named("a third")


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([MaxEntClassifier(n_threads=1)], expected_failed_checks=lambda estimator: EXPECTED)
def test_estimator_checks(estimator, check):
    check(estimator)


def data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    gold = (np.arange(n) % 3 == 0).astype(int)
    X = rng.normal(size=(n, 2)) + 2.0 * gold[:, None]
    return X, np.where(np.arange(n) < 12, gold, -1), gold


def error_of(call, kind=InvalidInputError):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_clone_pickle_and_search():
    X, y, gold = data()
    classifier = MaxEntClassifier([THIRD], gamma=0.5, unlabelled_weight=0.5).fit(X, y)
    assert not hasattr(clone(classifier), "coef_")
    assert (pickle.loads(pickle.dumps(classifier)).predict_proba(X) == classifier.predict_proba(X)).all()
    found = GridSearchCV(MaxEntClassifier(n_threads=1), {"C": [0.1, 1.0]}, cv=3).fit(sp.csr_array(X), gold)
    assert found.best_score_ > 0.8


def test_saved_and_loaded(tmp_path):
    X, y, _ = data()
    frame = pd.DataFrame(X, columns=["a", "b"])
    labels = np.where(y == 1, "yes", np.where(y == 0, "no", "-1"))
    classifier = MaxEntClassifier(["E[label == 'yes'] == 10"], C=2.0).fit(frame, labels)
    classifier.save(tmp_path / "model.npz")
    loaded = MaxEntClassifier.load(tmp_path / "model.npz")
    assert (loaded.predict(frame) == classifier.predict(frame)).all()
    assert (loaded.predict_proba(frame) == classifier.predict_proba(frame)).all()
    assert loaded.C == 2.0
    assert loaded.classes_.tolist() == ["no", "yes"]
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    assert [record.objective for record in loaded.history_] == [record.objective for record in classifier.history_]
    assert "not a model saved by spectrem" in error_of(lambda: MaxEntClassifier.load(__file__))
    assert loaded.constraints == ("E[label == 'yes'] == 10",)
    classifier.set_params(project_at_predict=True).save(tmp_path / "other.npz")
    projected = MaxEntClassifier.load(tmp_path / "other.npz").predict_proba(frame)
    assert projected[:, 1].sum() == pytest.approx(10, rel=1e-5)
    with pytest.raises(NotFittedError):
        MaxEntClassifier().save(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("y", "allowed", "known"),
    [
        ([0, -1, 1], [[1, 0], [1, 1], [0, 1]], [True, False, True]),
        ([0, None, {0, 1}, (1,)], [[1, 0], [1, 1], [1, 1], [0, 1]], [True, False, False, True]),
        ([{0: 0.25, 1: 0.75}, np.nan, 1], [[0.25, 0.75], [1, 1], [0, 1]], [True, False, True]),
        (np.array([[0.5, 0.5], [np.nan, np.nan], [0, 1]]), [[0.5, 0.5], [1, 1], [0, 1]], [True, False, True]),
        ([[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0, 1]], [True, True]),
        (sp.csr_array([[1, 0], [0, 1]]), [[1, 0], [0, 1]], [True, True]),
        (pd.DataFrame({0: [0.5, 1.0], 1: [0.5, 0.0]}), [[0.5, 0.5], [1, 0]], [True, True]),
    ],
)
def test_targets_are_read(y, allowed, known):
    found = read_targets(y)
    assert found.classes.tolist() == [0, 1]
    assert found.allowed.tolist() == allowed
    assert found.known.tolist() == known


def test_columns_of_a_table_follow_the_classes():
    found = read_targets(np.array([[0.25, 0.75]]), ["spam", "ham"])
    assert found.classes.tolist() == ["ham", "spam"]
    assert found.allowed.tolist() == [[0.75, 0.25]]


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([-1, -1, -1], None, "y must hold a label for some rows, got 3 rows and none with a label; -1 marks those"),
        (
            [None, set(), 1],
            None,
            "y must allow a label, got an empty collection for row 1; use None to allow all",
        ),
        ([0, {0, 2}, 1], [0, 1], "y must hold labels of classes=[0, 1], got 2; add it"),
        ([0, {"a", 2}, 1], None, "y must hold labels of one kind, got 1 that are text and 3 that are not; write None"),
        (
            [0, {0: 0.5, 1: 0.6}, 1],
            None,
            "probabilities that add up to 1, got {0: 0.5, 1: 0.6} in row 1; divide",
        ),
        (np.array([[0.5, 0.4], [1, 0], [0, 1]]), None, "got [0.5, 0.4] in row 0; divide it by its sum"),
        (np.array([[1.5, -0.5], [1, 0], [0, 1]]), None, "got [1.5, -0.5] in row 0"),
        (np.eye(3), [0, 1], "y must have a column for each of the 2 classes, got 3"),
        ([1, 1, 1], None, "y must hold at least two classes, got one class, 1; list all in classes"),
        ([0, 1], None, "y must have one value per row of X, got 2 for 3 rows"),
        ([0, 1, 1], [0, 1, 2], "classes must be those of labelled rows where no other row is learnt from, got 2"),
    ],
)
def test_labels_that_are_refused(y, classes, message):
    X = np.arange(6.0).reshape(3, 2)
    assert message in error_of(lambda: MaxEntClassifier(classes=classes).fit(X, y))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "C must be finite and above 0, got 0.0"),
        ({"l1_ratio": 2}, "l1_ratio must lie in [0, 1], got 2"),
        ({"gamma": -1.0}, "gamma must be -inf or at least 0 and finite, got -1.0"),
        ({"gamma": 0.5, "schedule": Constant(1.0)}, "gamma and schedule must not both be given"),
        ({"class_weight": {2: 1.0}}, "class_weight must name labels of y, [0, 1], got 2; leave it out"),
        ({"class_weight": {0: -1.0}}, "class_weight[0] must be finite and at least 0, got -1.0"),
        ({"class_weight": "equal"}, "class_weight must be \"balanced\" or a mapping from labels to weights"),
        ({"constraints": [E[part("label") == 7] <= 1]}, "7"),
        ({"constraints": [E[part("colour") == 7] <= 1]}, "colour"),
        ({"columns": "document"}, "columns must list or map names of columns of X, got 'document'"),
    ],
)  # fmt: skip
def test_parameters_that_are_refused(parameters, message):
    X, y, _ = data()
    assert message in error_of(lambda: MaxEntClassifier(**parameters).fit(X, y))


def test_features_that_are_refused():
    X, y, _ = data()
    for bad, name in ((np.nan, "NaN"), (np.inf, "infinity")):
        X[3, 1] = bad
        for own in (X, sp.csr_array(X)):
            assert name in error_of(lambda own=own: MaxEntClassifier().fit(own, y), ValueError)


def test_a_partial_label_that_contradicts_a_constraint_is_named():
    X, y, _ = data(n=9)
    given = [*y[:4].tolist(), {0, 2}, 2, None, None, None]
    rule = (E[part("label") == 1] >= 0.5).per("row").named("half")
    message = error_of(lambda: MaxEntClassifier([rule]).fit(X, given), InfeasibleConstraintError)
    assert "'half'" in message
    assert "row 4" in message
    skipping = MaxEntClassifier([rule], infeasible="skip")
    with pytest.warns(UserWarning, match="'half' in 1 of the instances"):
        skipping.fit(X, given)


def test_nothing_tells_classes_apart():
    X, _, _ = data()
    half = E[part("label") == 1] == E.count(..., each="row") / 2
    message = error_of(lambda: MaxEntClassifier([half], classes=[0, 1]).fit(X))
    assert "nothing tells the classes apart; label some rows" in message


@pytest.mark.parametrize("criterion", [None, Posteriors(), Expectations(1e4)])
def test_constraints_count_rows_by_sample_weight_alone(criterion):
    X, y, _ = data()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    rule = (E[part("label") == 1] == "40%").named("share")
    classifier = MaxEntClassifier([rule], unlabelled_weight=0.3, class_weight={0: 3.0}, criterion=criterion)
    found = classifier.fit(X, y, weights).label_distributions_
    if isinstance(criterion, Expectations):
        found = np.where((y >= 0)[:, None], np.eye(2)[y], classifier.predict_proba(X))
    assert weights @ found[:, 1] / weights.sum() == pytest.approx(0.4, abs=2e-3)
    assert classifier.report_.constraints[0].bound == pytest.approx([0.4 * weights.sum()])


def test_running_out_of_steps_is_said_once():
    X, _, gold = data()
    with pytest.warns(
        ConvergenceWarning, match=r"not within m_tol of its maximum .* \(after 1 steps\): raise m_steps"
    ) as caught:
        classifier = MaxEntClassifier(m_steps=1).fit(X, gold)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not classifier.converged_


def test_rows_that_there_are_not_are_named():
    X, y, _ = data()
    far = (E[part("row") == len(X)] <= 1).named("a row")
    message = error_of(lambda: MaxEntClassifier([far]).fit(X, y))
    assert message.startswith(f"'a row': there is no row {len(X)}; ")
