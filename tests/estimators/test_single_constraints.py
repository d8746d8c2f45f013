"""Estimators over rows, and functions, take one constraint as a list; `score` takes columns as `predict` does."""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import spectrem
from spectrem import (
    ConstrainedTargets,
    CRFTagger,
    E,
    GaussianHMM,
    GaussianMixture,
    MaxEntClassifier,
    SelfTrainer,
    Views,
    part,
    project,
)
from spectrem.constraints import cannot_link, linear, write_constraints
from spectrem.plotting import plot_clusters

pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
RULE = E[part("label") == 1] <= "30%"
ALONE = [RULE, repr(RULE), "E[label == 1] <= '30%'", {"few": RULE}, {"few": repr(RULE)}, (RULE,), RULE & RULE]
X = np.random.default_rng(0).normal(size=(20, 2)) + np.repeat([[0.0], [2.0]], 10, axis=0)
Y = [0, 0, 1, *[None] * 16, 1]


def views(rules):
    pair = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
    return Views(pair, constraints=rules, project_at_predict=True, max_iter=2, n_threads=1)


def as_states(rules):
    """The same constraints, on the states of a series."""
    text = repr(rules).replace("label", "state")
    return eval(text, {"E": E, "part": part})


def in_views(rules):
    parts = {"left": X[:, :1], "right": X[:, 1:]}
    return views(rules).fit(parts, Y).predict_proba(parts)


STATES = {"max_iter": 2, "tol": 0, "random_state": 0, "init": "clusters", "n_init": 1, "n_threads": 1}
ROWS = {
    "MaxEntClassifier": lambda rules: (
        MaxEntClassifier(rules, max_iter=2, project_at_predict=True, n_threads=1).fit(X, Y).predict_proba(X)
    ),
    "SelfTrainer": lambda rules: (
        (
            SelfTrainer(LogisticRegression(), rules, max_iter=2).fit(X, [-1 if y is None else y for y in Y])
        ).label_distributions_
    ),
    "GaussianMixture": lambda rules: (
        GaussianMixture(2, constraints=rules, max_iter=2, random_state=0, n_threads=1).fit(X).posteriors_
    ),
    "GaussianHMM": lambda rules: (
        GaussianHMM(2, constraints=as_states(rules), project_at_predict=True, **STATES).fit(X).predict_proba(X)
    ),
    "Views": in_views,
    "project": lambda rules: project(np.full((4, 2), 0.5), rules).proba,
    "ConstrainedTargets": lambda rules: ConstrainedTargets(rules, n_rows=4).update(np.log(np.full((4, 2), 0.5))),
}


@pytest.mark.parametrize("name", ROWS)
def test_one_constraint_is_as_good_as_a_list(name):
    expected = ROWS[name]([RULE])
    for alone in ALONE:
        np.testing.assert_allclose(ROWS[name](alone), expected, atol=1e-5)


def test_an_agreement_of_views_is_one_constraint_or_several():
    tie = (E[part("left_label") == 1] == E[part("right_label") == 1]).per("row")
    found = [
        Views(views(()).views, agreement=ties, max_iter=2, n_threads=1)
        .fit({"left": X[:, :1], "right": X[:, 1:]}, Y)
        .predict_proba({"left": X[:, :1], "right": X[:, 1:]})
        for ties in ([tie], tie)
    ]
    np.testing.assert_allclose(found[0]["left"], found[1]["left"])


def test_what_no_text_says_stands_alone_too(tmp_path):
    """A matrix, and links: they are drawn, and left out of a saved model."""
    assert project(np.full((2, 2), 0.5), linear([[1, 0, 1, 0]], [0.5])).constraints[0].name == "linear"
    mixture = GaussianMixture(2, constraints=cannot_link([[0, 19]]), random_state=0, n_threads=1).fit(X)
    assert len(plot_clusters(X, mixture.labels_, links=mixture.constraints).axes[0].collections) == 3
    with pytest.warns(UserWarning, match="are left out: RowLinks"):
        mixture.save(tmp_path / "model.npz")
    assert spectrem.load(tmp_path / "model.npz").constraints == ()
    write_constraints(RULE, tmp_path / "c.yaml")
    assert (tmp_path / "c.yaml").read_text() == "- E[label == 1] <= 0.3 * E.count(...)\n"


@pytest.mark.parametrize("name", spectrem.__all__)
def test_what_predict_takes_beside_the_data_score_takes_too(name):
    estimator = getattr(spectrem, name)
    if hasattr(estimator, "predict") and hasattr(estimator, "score"):
        predicted, scored = (list(inspect.signature(f).parameters) for f in (estimator.predict, estimator.score))
        assert set(predicted) <= set(scored)


def test_scores_are_those_of_predictions_under_columns():
    rule = (E[part("label") == 1] <= 0).per("kind")
    known = MaxEntClassifier(max_iter=5, n_threads=1).fit(X, Y)
    known.set_params(constraints=rule, project_at_predict=True)
    y = np.zeros(20)
    assert known.score(X, y, columns={"kind": range(20)}) == 1.0
    with pytest.raises(spectrem.exceptions.InvalidInputError, match="there is no column 'kind'"):
        known.score(X, y)
    tagger = CRFTagger(features="words", max_iter=2, n_threads=1).fit(
        [["a", "b"], ["b", "b"]], [["A", "B"], ["B", "B"]]
    )
    tagger.set_params(constraints=(E[part("tag") == "A"] <= 0).per("kind"), project_at_predict=True)
    assert tagger.score([["a", "b"]], [["B", "B"]], columns={"kind": ["x"]}) == 1.0
