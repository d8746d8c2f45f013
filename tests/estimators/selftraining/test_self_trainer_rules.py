"""How SelfTrainer keeps scikit-learn's conventions, what it reads, and what it refuses with which words."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from spectrem import E, SelfTrainer, part
from spectrem.estimators.table_input import split_columns
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Constant

# Where -1 is a label it cannot mark the rows without one.
EXPECTED = {"check_classifiers_classes": "fits labels {-1, 1}, and -1 means unlabelled"}
THIRD = (E[part("label") == 1] == E.count(..., each="row") / 3).named("a third")


def data(seed=0, n=60):
    rng = np.random.default_rng(seed)
    gold = (np.arange(n) % 3 == 0).astype(int)
    X = rng.normal(size=(n, 2)) + 2.0 * gold[:, None]
    y = np.where(np.arange(n) < 24, gold, -1)
    return X, y, gold


def error_of(call, kind=InvalidInputError):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [SelfTrainer(LogisticRegression()), SelfTrainer(DecisionTreeClassifier(random_state=0))],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_clone_and_pickle():
    X, y, _ = data()
    trainer = SelfTrainer(GaussianNB(), [THIRD], gamma=0.5, unlabelled_weight=0.5).fit(X, y)
    copied = clone(trainer)
    assert not hasattr(copied, "estimator_")
    assert copied.get_params()["estimator__var_smoothing"] == 1e-9
    assert (pickle.loads(pickle.dumps(trainer)).predict_proba(X) == trainer.predict_proba(X)).all()


def test_what_is_told_of_training():
    X, y, _ = data()
    heard = []
    trainer = SelfTrainer(GaussianNB(), [THIRD], tol=0.05, on_iteration=heard.append).fit(X, y)
    assert heard == trainer.history_
    assert (trainer.n_iter_, trainer.objective_) == (len(heard), heard[-1].objective)
    assert trainer.converged_
    assert trainer.report_.status == "converged"
    assert not SelfTrainer(GaussianNB(), [THIRD], max_iter=2, tol=0).fit(X, y).converged_


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.NoEffectWarning")
def test_fit_again_forgets():
    X, y, gold = data()
    trainer = SelfTrainer(GaussianNB(), [THIRD], max_iter=3, tol=0).fit(X, y)
    first = trainer.predict_proba(X)
    trainer.fit(X[:, :1], gold)
    assert trainer.n_features_in_ == 1
    assert (trainer.fit(X, y).predict_proba(X) == first).all()


def test_in_a_pipeline_with_columns():
    X, y, _ = data()
    pair = np.arange(len(y)) // 3
    once = (E[part("label") == 1] == 1).per("triple").named("one in three")
    pipeline = make_pipeline(StandardScaler(), SelfTrainer(LogisticRegression(), [once], gamma=0.5))
    pipeline.fit(X, y, selftrainer__columns={"triple": pair})
    q = pipeline[-1].label_distributions_
    np.testing.assert_allclose(np.bincount(pair, q[:, 1]), 1, atol=1e-5)
    scaled = StandardScaler().fit_transform(X)
    alone = SelfTrainer(LogisticRegression(), [once], gamma=0.5).fit(scaled, y, columns={"triple": pair})
    assert (alone.predict_proba(scaled) == pipeline.predict_proba(X)).all()


def test_columns_in_x_follow_their_rows_through_a_grid_search():
    X, y, gold = data()
    triple = np.arange(len(y)) // 3
    once = (E[part("label") == 1] <= 1).per("triple").named("at most one in three")
    trainer = SelfTrainer(LogisticRegression(), [once], columns={"triple": 0}, max_iter=3, tol=0)
    wide = np.column_stack([triple, X])
    grid = GridSearchCV(trainer, {"gamma": [0.5, 1.0], "estimator__C": [0.1, 1.0]}, cv=2, error_score="raise")
    grid.fit(wide, y)
    best = grid.best_estimator_
    assert best.n_features_in_ == 3
    assert best.estimator_.n_features_in_ == 2
    assert best.score(wide, gold) > 0.8
    given = clone(best).set_params(columns=None).fit(X, y, columns={"triple": triple})
    np.testing.assert_allclose(given.predict_proba(X), best.predict_proba(wide), atol=1e-9)
    sparse = clone(best).fit(sp.csr_array(wide), y)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(wide)), best.predict_proba(wide), atol=1e-4)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("names", [lambda k: k, lambda k: f"t{k}"])
def test_columns_of_a_frame(library, names):
    frame_of = pytest.importorskip(library).DataFrame
    X, y, _ = data()
    frame = frame_of({"a": X[:, 0], "triple": [names(k // 3) for k in range(len(y))], "b": X[:, 1]})
    once = (E[part("label") == 1] == 1).per("triple").named("one in three")
    inside = SelfTrainer(GaussianNB(), [once], columns=["triple"], max_iter=2, tol=0).fit(frame, y)
    beside = SelfTrainer(GaussianNB(), [once], max_iter=2, tol=0).fit(X, y, columns=frame[["triple"]])
    assert (inside.predict_proba(frame) == beside.predict_proba(X)).all()
    assert inside.n_features_in_ == 3
    assert inside.feature_names_in_.tolist() == ["a", "triple", "b"]


def test_columns_of_pandas_may_be_numbers():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.arange(6.0).reshape(2, 3), index=["y", "x"])
    features, inside = split_columns(X, {"document": 1})
    assert features.columns.tolist() == [0, 2]
    assert features.index.tolist() == ["y", "x"]
    assert inside["document"].to_list() == [1.0, 4.0]


def test_metadata_routing():
    X, y, _ = data()
    with sklearn.config_context(enable_metadata_routing=True):
        trainer = SelfTrainer(GaussianNB(), [THIRD], max_iter=2, tol=0).set_fit_request(sample_weight=True)
        trainer.set_score_request(sample_weight=True)
        scores = cross_val_score(trainer, X, y, cv=2, params={"sample_weight": np.ones(len(y))})
    assert (scores > 0.5).all()


@pytest.mark.parametrize(
    "mark", [lambda y: [*y], lambda y: np.array(y, object), lambda y: [None if v == -1 else v for v in y]]
)
def test_text_labels(mark):
    X, y, _ = data()
    named = mark([{0: "no", 1: "yes", -1: -1}[label] for label in y.tolist()])
    third = E[part("label") == "yes"] == E.count(..., each="row") / 3
    trainer = SelfTrainer(GaussianNB(), [third], max_iter=2, tol=0).fit(X, named)
    numbers = SelfTrainer(GaussianNB(), [THIRD], max_iter=2, tol=0).fit(X, y)
    assert trainer.classes_.tolist() == ["no", "yes"]
    assert (trainer.predict(X) == np.array(["no", "yes"])[numbers.predict(X)]).all()
    assert trainer.score(X, named) == numbers.score(X, y)
    assert set(trainer.transduction_) == {"no", "yes"}


def test_rows_of_weight_0_are_as_if_absent():
    X, y, _ = data()
    weights = np.ones(len(y))
    weights[[1, 30, 31, 50]] = 0
    kept = weights > 0
    options = {"gamma": 0.5, "max_iter": 3, "tol": 0}
    weighted = SelfTrainer(GaussianNB(), [THIRD], **options).fit(X, y, sample_weight=weights)
    absent = SelfTrainer(GaussianNB(), [THIRD], **options).fit(X[kept], y[kept])
    np.testing.assert_allclose(weighted.predict_proba(X), absent.predict_proba(X), atol=1e-5)
    assert weighted.history_[-1].objective == pytest.approx(absent.history_[-1].objective, rel=1e-6)


def test_score_leaves_unlabelled_rows_out():
    X, y, _ = data()
    trainer = SelfTrainer(GaussianNB(), [THIRD], max_iter=2, tol=0).fit(X, y)
    known = y >= 0
    assert trainer.score(X, y) == np.mean(trainer.predict(X[known]) == y[known])
    weights = np.arange(len(y))
    right = (trainer.predict(X) == y)[known]
    assert trainer.score(X, y, weights) == pytest.approx(np.average(right, weights=weights[known]))
    assert error_of(lambda: trainer.score(X, np.full(len(y), -1))) == (
        "y must label some row of weight above 0 to be scored, got none; None, NaN and -1 mark what has no label and "
        "is left out"
    )
    assert error_of(lambda: trainer.score(X, y[:-1])) == (
        "y must have one value per row of X, got 59 for 60 rows; -1 marks missing labels (found input variables with "
        "inconsistent numbers of samples)"
    )
    assert error_of(lambda: trainer.score(X, y, y < 0)).startswith("y must label some row of weight above 0")


def test_not_fitted():
    for kind in (NotFittedError, SklearnNotFittedError):
        message = error_of(lambda: SelfTrainer(GaussianNB()).predict([[0.0]]), kind)
        assert message == "this SelfTrainer is not fitted yet; call fit, or load a saved one"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"estimator": RidgeClassifier()},
            "estimator must have predict_proba, got RidgeClassifier, which has none; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or try LogisticRegression()",
        ),
        (
            {"estimator": KNeighborsClassifier()},
            "estimator must take sample_weight in fit, got KNeighborsClassifier, which does not; choose another, or, "
            "if its fit takes an array of probabilities as y, set soft_targets=True",
        ),
        (
            {"estimator": make_pipeline(StandardScaler(), KNeighborsClassifier())},
            "estimator must take sample_weight in fit, got Pipeline, whose last step is KNeighborsClassifier, which "
            "does not; choose another, or, if its fit takes an array of probabilities as y, set soft_targets=True",
        ),
        (
            {"estimator": LogisticRegression},
            "estimator must be a scikit-learn classifier, got <class "
            "'sklearn.linear_model._logistic.LogisticRegression'>; try LogisticRegression()",
        ),
        ({"constraints": "x"}, "constraint 'x', character 1: there is no shortcut 'x'; they are agreement, "),
        ({"constraints": (one for one in ())}, "constraints must be a sequence of constraints, got <generator"),
        ({"constraints": [3]}, "constraints must be made with E or shortcuts, got 3; see spectrem.constraints"),
        ({"gamma": "1"}, "gamma must be a number, got '1'"),
        ({"gamma": -1.0}, "gamma must be -inf or at least 0 and finite, got -1.0; "),
        ({"unlabelled_weight": -1}, "unlabelled_weight must be finite and at least 0, got -1"),
        ({"unlabelled_weight": True}, "unlabelled_weight must be a number, got True"),
        ({"tol": np.inf}, "tol must be finite and at least 0, got inf"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"max_iter": 2.0}, "max_iter must be an integer, got 2.0"),
        (
            {"columns": "document"},
            "columns must list or map names of columns of X, got 'document'; arrays go to fit(columns=...)",
        ),
        ({"classes": "ab"}, "classes must list the labels that there are, got 'ab'; write ['ham', 'spam']"),
        ({"classes": []}, "classes must list the labels that there are, got []"),
        ({"classes": [0, 1, 1]}, "classes must be distinct, got [0, 1, 1]; list every label once"),
        ({"classes": [-1, 0, 1]}, "classes must hold labels, got -1, which marks rows without one; leave it out"),
        ({"classes": ["a", 1]}, "y must hold labels of classes=['1', 'a'], got 0; add it"),
        ({"classes": [0, 2]}, "y must hold labels of classes=[0, 2], got 1; add it"),
        ({"infeasible": "no"}, "infeasible must be one of raise, skip, got 'no'"),
        (
            {"schedule": 3},
            "schedule must yield gammas, such as Anneal(beta_min=0.1), got 3; for one, give gamma",
        ),
        (
            {"schedule": Constant(), "gamma": 0.5},
            "gamma and schedule must not both be given, got gamma 0.5; put it into the schedule",
        ),
    ],
)
def test_parameters_that_break_a_rule(options, message):
    X, y, _ = data()
    trainer = SelfTrainer(**{"estimator": GaussianNB(), **options})
    assert error_of(lambda: trainer.fit(X, y)).startswith(message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": None}, "SelfTrainer requires y to be passed, but the target y is None; -1 marks missing labels"),
        (
            {"y": np.full(60, -1)},
            "y must hold a label for some rows, got 60 rows and none with a label; -1 marks those without; to learn "
            "from constraints alone, list the labels in classes",
        ),
        (
            {"y": ["a", 1, None] * 20},
            "y must hold labels of one kind, got 20 that are text and 20 that are not; write None or -1 for no label",
        ),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape (60,), one per row of X, got (3,); leave"),
        ({"sample_weight": np.full(60, -1.0)}, "sample_weight must be finite and at least 0, got -1.0 in row 0; "),
        (
            {"columns": [1, 2]},
            'columns must be a data frame or a mapping from names to arrays, got list; write columns={"document": [',
        ),
        (
            {"columns": {"document": [1, 2]}},
            "columns: 'document' has shape (2,), and the table has 60 rows; give one value for each; where rows are "
            "chosen by cross-validation, put the columns into X and name them in SelfTrainer(columns=...)",
        ),
        (
            {"columns": {"label": np.zeros(60)}},
            "columns: the name 'label' belongs to the table; rename the column",
        ),
    ],
)
def test_input_that_breaks_a_rule(given, message):
    X, y, _ = data()
    trainer = SelfTrainer(GaussianNB(), [THIRD])
    assert error_of(lambda: trainer.fit(X, **{"y": y, **given})).startswith(message)


def test_constraints_that_name_what_is_not_there():
    X, y, _ = data()
    wrong = (E[part("label") == 2] <= 1).named("a third class")
    message = error_of(lambda: SelfTrainer(GaussianNB(), [wrong]).fit(X, y))
    assert message == "'a third class': there is no label 2; the labels are 0, 1"
    far = (E[part("row") == 60] <= 1).named("a row")
    message = error_of(lambda: SelfTrainer(GaussianNB(), [far]).fit(X, y))
    assert message.startswith("'a row': there is no row 60; ")
    missing = (E[...] <= 1).per("document", "label")
    message = error_of(lambda: SelfTrainer(GaussianNB(), [missing]).fit(X, y, columns={"group": y}))
    assert message.startswith("there is no column 'document'; the columns are 'row', 'label', 'group'")
    message = error_of(lambda: SelfTrainer(GaussianNB(), columns=["document"]).fit(X, y))
    assert message == (
        "columns must be in X, got 'document' for 'document', and X has 0, 1; for an array map names to positions, "
        'as in {"document": 0}'
    )


class Liar(GaussianNB):
    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan)


def test_a_classifier_whose_probabilities_are_none():
    X, y, _ = data()
    assert error_of(lambda: SelfTrainer(Liar()).fit(X, y)).startswith(
        "estimator.predict_proba must give probabilities of the 2 classes, got shape (60, 2) with values from nan"
    )
