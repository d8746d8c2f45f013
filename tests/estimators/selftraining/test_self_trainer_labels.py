"""SelfTrainer: how labels are missing, classes without any, pipelines inside, and shares of what is predicted."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from spectrem import E, SelfTrainer, part
from spectrem.constraints import label_proportions
from spectrem.estimators.table_input import number_labels
from spectrem.exceptions import InvalidInputError

NAN = float("nan")


def data(seed=0, n=90):
    rng = np.random.default_rng(seed)
    gold = (np.arange(n) % 3 == 0).astype(int)
    X = rng.normal(size=(n, 2)) + 2.5 * gold[:, None]
    return X, np.where(np.arange(n) < 24, gold, -1), gold


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, None, 1, -1], [0, 1]),
        ([0.0, NAN, 1.0, -1.0], [0, 1]),
        (np.array([0, NAN, 1, NAN], np.float32), [0, 1]),
        (np.array([0, NAN, 1, None], object), [0, 1]),
        ([False, None, True, NAN], [False, True]),
        (["no", None, "yes", NAN], ["no", "yes"]),
        (["no", NAN, "yes", -1], ["no", "yes"]),
        (np.array(["no", "nan", "yes", "-1"]), ["no", "yes"]),
        (np.array(["no", None, "yes", np.datetime64("NaT")], object), ["no", "yes"]),
        (pl.Series([0, None, 1, None]), [0, 1]),
        (pl.Series(["no", None, "yes", None]), ["no", "yes"]),
        (pl.Series(["no", None, "yes", None], dtype=pl.Categorical), ["no", "yes"]),
    ],
    ids=str,
)
def test_missing_labels(y, classes):
    found, codes = number_labels(y)
    assert found.tolist() == classes
    assert codes.tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize(
    ("values", "dtype", "classes"),
    [
        (["no", None, "yes", NAN], "category", ["no", "yes"]),
        ([0, None, 1, NAN], "category", [0, 1]),
        ([0, None, 1, None], "Int64", [0, 1]),
        ([0, None, 1, None], "Float64", [0, 1]),
        ([False, None, True, None], "boolean", [False, True]),
        (["no", None, "yes", None], "string", ["no", "yes"]),
        (["no", None, "yes", NAN], "object", ["no", "yes"]),
        ([0, None, 1, NAN], "object", [0, 1]),
    ],
)
def test_missing_labels_of_pandas(values, dtype, classes):
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(values, dtype=dtype, index=[7, 3, 5, 1])
    for form in (y, y.array):
        found, codes = number_labels(form)
        assert found.tolist() == classes
        assert codes.tolist() == [0, -1, 1, -1]
    found, codes = number_labels(np.array([values[0], pandas.NA, values[2], pandas.NaT], object))
    assert (found.tolist(), codes.tolist()) == (classes, [0, -1, 1, -1])


@pytest.mark.parametrize("mark", [None, NAN])
def test_a_mark_changes_nothing_else(mark):
    X, y, _ = data()
    usual = SelfTrainer(GaussianNB(), label_proportions({1: 1 / 3})).fit(X, y)
    other = SelfTrainer(GaussianNB(), label_proportions({1: 1 / 3}))
    other.fit(X, np.array([mark if own == -1 else int(own) for own in y], object))
    np.testing.assert_array_equal(other.predict_proba(X), usual.predict_proba(X))
    assert other.classes_.tolist() == [0, 1]


def test_infinite_labels_are_refused():
    with pytest.raises(ValueError, match="contains infinity"):
        number_labels([0.0, np.inf, 1.0])


def groups(seed=0, n=240):
    """Groups of rows whose shares of two labels are known, and no label."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 4
    gold = (rng.random(n) < np.array([0.1, 0.4, 0.6, 0.9])[group]).astype(int)
    X = rng.normal(size=(n, 2)) + 3.0 * gold[:, None]
    shares = [
        (E[(part("label") == "b") & (part("group") == g)] == float(gold[group == g].sum())).named(f"group {g}")
        for g in range(4)
    ]
    return X, np.array(["a", "b"])[gold], group, shares


def test_classes_without_any_label():
    X, gold, group, shares = groups()
    trainer = SelfTrainer(LogisticRegression(), shares, classes=["b", "a"])
    for y in (None, [None] * len(X), np.full(len(X), NAN), np.full(len(X), -1)):
        trainer.fit(X, y, columns={"group": group})
        assert trainer.classes_.tolist() == ["a", "b"]
        assert trainer.score(X, gold) > 0.9
    with pytest.raises(InvalidInputError, match="y holds no label, and the constraints expect the same of every row"):
        SelfTrainer(LogisticRegression(), label_proportions({"b": 0.5}), classes=["a", "b"]).fit(X)
    with pytest.raises(InvalidInputError, match="y holds no label, and the constraints expect the same of every row"):
        SelfTrainer(LogisticRegression(), classes=["a", "b"]).fit(X)
    trainer = SelfTrainer(LogisticRegression(), shares, classes=["a", "b"], unlabelled_weight=0)
    with pytest.raises(InvalidInputError, match="unlabelled_weight must be above 0 where no row has a label, got 0"):
        trainer.fit(X, columns={"group": group})


def test_a_class_of_which_no_row_is_labelled():
    X, gold, group, shares = groups()
    y = np.where((gold == "a") & (np.arange(len(X)) < 40), gold, None)
    trainer = SelfTrainer(LogisticRegression(), shares, classes=["a", "b"]).fit(X, y, columns={"group": group})
    assert trainer.score(X, gold) > 0.9
    assert (trainer.transduction_[y == "a"] == "a").all()


def test_a_class_that_the_classifier_was_not_trained_on():
    X, y, _ = data()
    trainer = SelfTrainer(GaussianNB(), classes=[0, 1, 2], unlabelled_weight=0).fit(X, y)
    proba = trainer.predict_proba(X)
    assert proba.shape == (len(X), 3)
    assert (proba[:, 2] == 0).all()
    np.testing.assert_array_equal(proba[:, :2], GaussianNB().fit(X[y >= 0], y[y >= 0]).predict_proba(X))
    assert (trainer.label_distributions_[:, 2] < 1e-9).all()


def test_pipelines_are_estimators():
    X, y, gold = data()
    third = label_proportions({1: 1 / 3})
    wide = X * [1.0, 1000.0]
    trainer = SelfTrainer(make_pipeline(StandardScaler(), LogisticRegression()), third).fit(wide, y)
    assert trainer.score(wide, gold) > 0.85
    # repeated rows weigh as much as the row did: the scaler, which takes weights, sees what it would without them
    np.testing.assert_allclose(trainer.estimator_[0].mean_, wide.mean(axis=0), rtol=1e-4)
    before = make_pipeline(StandardScaler(), SelfTrainer(LogisticRegression(), third)).fit(wide, y)
    np.testing.assert_allclose(trainer.predict_proba(wide), before.predict_proba(wide), atol=0.05)
    nested = make_pipeline(MinMaxScaler(), make_pipeline(SelectKBest(k=1), GaussianNB()))
    assert SelfTrainer(nested, third).fit(wide, y).score(wide, gold) > 0.75
    assert (cross_val_score(trainer, wide, y, cv=3) > 0.6).all()


def test_pipelines_where_metadata_is_routed():
    X, y, _ = data()
    with sklearn.config_context(enable_metadata_routing=True):
        inner = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=True),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        routed = SelfTrainer(inner, label_proportions({1: 1 / 3})).fit(X, y)
    usual = SelfTrainer(make_pipeline(StandardScaler(), LogisticRegression()), label_proportions({1: 1 / 3})).fit(X, y)
    np.testing.assert_allclose(routed.predict_proba(X), usual.predict_proba(X))


@pytest.mark.parametrize("last", [-1, np.int64(-1), 2])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_positions_from_the_last_column(form, last):
    X, y, _ = data()
    triple = np.arange(len(y)) // 3
    once = (E[part("label") == 1] == 1).per("triple").named("one in three")
    trainer = SelfTrainer(LogisticRegression(), [once], columns={"triple": last}, max_iter=2, tol=0)
    wide = form(np.column_stack([X, triple]))
    trainer.fit(wide, y)
    beside = SelfTrainer(LogisticRegression(), [once], max_iter=2, tol=0).fit(X, y, columns={"triple": triple})
    np.testing.assert_allclose(trainer.predict_proba(wide), beside.predict_proba(X), atol=1e-4)
    with pytest.raises(InvalidInputError, match="columns must be in X, got -4 for 'triple', and X has 0, 1, 2"):
        trainer.set_params(columns={"triple": -4}).fit(wide, y)


def test_shares_are_told_beside_each_other():
    X, y, _ = data()
    trainer = SelfTrainer(LogisticRegression(), label_proportions({1: 1 / 3})).fit(X, y)
    hidden = y == -1
    expected = trainer.label_distributions_[hidden].mean(axis=0)
    predicted = np.bincount(trainer.predict(X[hidden]), minlength=2) / hidden.sum()
    shares = "; ".join(f"{c}: {expected[c]:.1%}, {predicted[c]:.1%}" for c in (0, 1))
    note = f"shares of the unlabelled rows, expected and predicted: {shares}"
    assert trainer.report_.notes == (note,)
    assert note in trainer.report_.summary()
    assert SelfTrainer(LogisticRegression()).fit(X, np.abs(y)).report_.notes == ()


def test_a_label_that_is_hardly_ever_predicted_is_told():
    X = np.zeros((200, 1))  # which say nothing about the labels
    y = np.where(np.arange(200) < 30, np.arange(200) % 10 == 0, -1)
    message = (
        r"hardly ever that should have many of the unlabelled rows: 1 2\d\.\d% \(predicted: 0\.0%\); .*transduction_"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        SelfTrainer(LogisticRegression(), label_proportions({1: 0.2})).fit(X, y)
    assert [w.filename for w in caught] == [__file__]
    SelfTrainer(LogisticRegression(), label_proportions({1: 0.1})).fit(X, y)  # few rows: nothing is said


class Probabilities(MLPRegressor):
    """A classifier that learns from probabilities."""

    def predict_proba(self, X):
        raw = np.clip(self.predict(X), 1e-6, 1)
        return raw / raw.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_soft_targets_of_a_pipeline():
    X, y, gold = data()
    inner = make_pipeline(StandardScaler(), Probabilities(hidden_layer_sizes=8, random_state=0, max_iter=300))
    trainer = SelfTrainer(inner, label_proportions({1: 1 / 3}), soft_targets=True, max_iter=2, tol=0).fit(X, y)
    assert trainer.score(X, gold) > 0.8
