"""Saved Views predict as before, whatever they agree on."""

import numpy as np
import pytest
from test_views_ties import GROUPS, MIXED, SAYS, VIEWS, animals, reviews
from views_data import rows, sentences

from spectrem import CRFTagger, E, MaxEntClassifier, Views, linear, part
from spectrem.exceptions import InvalidInputError


def both(views, X, path):
    """The prediction of views, and of the same after they were saved and loaded."""
    views.save(path)
    loaded = Views.load(path)
    assert loaded.bhattacharyya_ == views.bhattacharyya_
    assert loaded.objective_ == views.objective_
    assert [name for name, _ in loaded.views] == list(views.views_) == list(loaded.views_)
    return views.predict_proba(X), loaded.predict_proba(X), loaded


def test_classifiers_in_full_agreement(tmp_path):
    X, _, y = rows()
    views = Views([("left", MaxEntClassifier(C=0.5)), ("right", MaxEntClassifier())], gamma=0.5).fit(X, y)
    before, after, loaded = both(views, X, tmp_path / "views.npz")
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(loaded.predict(X), views.predict(X))
    assert loaded.gamma == 0.5
    assert loaded.views[0][1].C == 0.5
    np.testing.assert_array_equal(loaded.views_["left"].predict(X["left"]), views.views_["left"].predict(X["left"]))
    np.testing.assert_allclose(loaded.fit(X, y).predict_proba(X), before, atol=1e-9)


def test_taggers_in_full_agreement(tmp_path):
    X, _, y, _ = sentences()
    views = Views([("content", CRFTagger(edge_features="word=")), ("context", CRFTagger(pairs="all"))]).fit(X, y)
    before, after, loaded = both(views, X, tmp_path / "views.npz")
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.predict(X) == views.predict(X)


def test_groups_and_ties(tmp_path):
    X, y, _, _ = animals()
    before, after, loaded = both(Views(VIEWS, agreement=GROUPS).fit(X, y), X, tmp_path / "groups.npz")
    np.testing.assert_array_equal(before["fine"], after["fine"])
    assert loaded.agreement == GROUPS
    text, table, _, tagged, gold, _ = reviews()
    X = {"words": text, "document": table}
    views = Views(MIXED, agreement=SAYS).fit(X, {"words": tagged, "document": gold})
    before, after, _ = both(views, X, tmp_path / "ties.npz")
    np.testing.assert_array_equal(before["document"], after["document"])


def test_groups_may_be_numbers(tmp_path):
    X, _, y = rows()
    numbers = {"left": {0: 7, 1: 7}, "right": {0: 7, 1: 7}}
    views = [(name, MaxEntClassifier()) for name in X]
    _, _, loaded = both(Views(views, agreement=numbers).fit(X, y), X, tmp_path / "views.npz")
    assert loaded.agreement == numbers


def test_what_no_text_says(tmp_path):
    X, _, y = rows(n=14, n_labelled=12)
    views = [(name, MaxEntClassifier()) for name in X]
    free = linear(np.zeros((1, 2 * (12 + 2 * 3))), 1.0, name="nothing")
    about_all = [E[part("left_label") == 0] <= 14]  # labelled rows then stay with the others
    tied = Views(views, agreement=[free], constraints=about_all, max_iter=1, tol=0.0).fit(X, y)
    with pytest.raises(InvalidInputError) as error:
        tied.save(tmp_path / "views.npz")
    assert str(error.value) == (
        "agreement must be texts, or made with E or shortcuts, to be saved, got LinearConstraint 'nothing'; keep the "
        "Views in memory"
    )
    few = (E[part("label") == 0] <= 5).named("few")
    fitted = Views(views, constraints=[few]).fit(X, y)
    fitted.save(tmp_path / "views.npz")
    assert Views.load(tmp_path / "views.npz").constraints == (few,)


def test_damage_is_named(tmp_path):
    path = tmp_path / "views.npz"
    with pytest.raises(InvalidInputError, match="no such model file"):
        Views.load(path)
    X, _, y = rows()
    MaxEntClassifier().fit(X["left"], y).save(path)
    with pytest.raises(InvalidInputError, match="expected a saved Views, found 'MaxEntClassifier'"):
        Views.load(path)
    Views([(name, MaxEntClassifier()) for name in X], max_iter=1, tol=0.0).fit(X, y).save(path)
    content = dict(np.load(path))
    content["1_coef"] = content["1_coef"][:2]
    np.savez(path, **content)
    with pytest.raises(InvalidInputError, match="a damaged Views"):
        Views.load(path)
