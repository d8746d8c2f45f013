"""Views that agree fully, against a loop over classifiers, against the dual, and against enumeration."""

import itertools
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from views_data import rows, sentences

from spectrem import CRFTagger, E, MaxEntClassifier, Views, part
from spectrem.corpus import Spilled
from spectrem.exceptions import InvalidInputError

TWO = [("left", MaxEntClassifier(C=0.5, m_tol=1e-12)), ("right", MaxEntClassifier(C=2.0, m_tol=1e-12))]
TAGGERS = [("content", CRFTagger(C=2.0, pairs="all")), ("context", CRFTagger(C=2.0, pairs="all"))]
FIXED = {"max_iter": 4, "tol": 0.0}


def test_it_is_the_loop_over_agreed_soft_labels():
    """What [Ganchev2010] §6 does, by classifiers that are fitted to the agreed distributions."""
    X, _, y = rows()
    labelled = [label is not None for label in y]
    views = Views(TWO, unlabelled_weight=0.7, **FIXED).fit(X, y)
    own = {name: clone(one).fit(X[name][labelled], [v for v in y if v is not None]) for name, one in TWO}
    weights = np.where(labelled, 1.0, 0.7)
    for _ in range(4):
        scores = sum(np.log(one.predict_proba(X[name])) for name, one in own.items()) / 2
        q = softmax(scores, axis=1)
        targets = np.where(np.array(labelled)[:, None], np.eye(3)[[v or 0 for v in y]], q)
        own = {name: clone(one).fit(X[name], targets, weights) for name, one in TWO}
    for name, one in own.items():
        np.testing.assert_allclose(views.views_[name].coef_, one.coef_, atol=1e-4)
        np.testing.assert_allclose(views.views_[name].predict_proba(X[name]), one.predict_proba(X[name]), atol=1e-5)
    expected = softmax(sum(np.log(one.predict_proba(X[name])) for name, one in own.items()) / 2, axis=1)
    np.testing.assert_allclose(views.predict_proba(X), expected, atol=1e-5)
    np.testing.assert_allclose(views.label_distributions_[12:], expected[12:], atol=1e-5)


def test_views_depend_on_the_numbers_and_not_on_what_holds_them():
    X, _, y = rows()
    left = X["left"] = np.where(X["left"] > 0, X["left"], 0.0)
    own = Views(TWO, **FIXED).fit(X, y)
    stored = sp.csr_array((left.ravel(), np.tile(np.arange(4), 40), 4 * np.arange(41)))
    for matrix in (sp.csr_array(left), stored, stored.tocsc()):
        found = Views(TWO, **FIXED).fit({**X, "left": matrix}, y)
        assert found.views_["left"].coef_.tobytes() == own.views_["left"].coef_.tobytes()
        assert found.predict_proba({**X, "left": matrix}).tobytes() == own.predict_proba(X).tobytes()


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_the_closed_form_is_the_dual_under_equality_rows(gamma):
    X, _, y = rows()
    full = Views(TWO, gamma=gamma, **FIXED).fit(X, y)
    tied = Views(TWO, agreement={"left": {}}, gamma=gamma, **FIXED).fit(X, y)
    assert [r.objective for r in tied.history_] == pytest.approx([2 * r.objective for r in full.history_], rel=1e-7)
    assert tied.bhattacharyya_ == pytest.approx(full.bhattacharyya_, rel=1e-3)
    found = tied.predict_proba(X)
    np.testing.assert_allclose(found["left"], found["right"], atol=1e-6)
    np.testing.assert_allclose(found["left"], full.predict_proba(X), atol=1e-4)


def test_the_bhattacharyya_distance_is_that_of_the_views():
    X, _, y = rows()
    views = Views(TWO).fit(X, y)
    left, right = (one.predict_proba(X[name])[12:] for name, one in views.views_.items())
    assert views.bhattacharyya_ == pytest.approx(-np.log(np.sqrt(left * right).sum(axis=1)).mean(), rel=1e-9)
    alone = Views(TWO, unlabelled_weight=0.0).fit(X, y)
    assert alone.bhattacharyya_ > 2 * views.bhattacharyya_
    assert f"by {views.bhattacharyya_:.3g} at the end" in views.report_.summary()


def test_without_weight_of_the_rest_views_are_fitted_alone_and_agree_when_they_predict():
    """The column "agree_0" of [Ganchev2010] table 5."""
    X, _, y = rows()
    views = Views(TWO, unlabelled_weight=0.0).fit(X, y)
    own = {name: clone(one).fit(X[name][:12], y[:12]) for name, one in TWO}
    expected = softmax(sum(np.log(one.predict_proba(X[name])) for name, one in own.items()) / 2, axis=1)
    np.testing.assert_allclose(views.predict_proba(X), expected, atol=1e-6)
    assert views.n_iter_ == 1
    assert views.objective_ == pytest.approx(np.mean([one.objective_ for one in own.values()]), rel=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("kind", ["rows", "sentences"])
def test_the_objective_never_falls(kind, gamma):
    if kind == "rows":
        X, _, y = rows()
        few = E[part("label") == 2] <= 0.25 * E.count(...)
        views = Views(TWO, gamma=gamma, constraints=[few], max_iter=8, tol=0.0).fit(X, y)
    else:
        X, _, y, _ = sentences()
        few = E[part("tag") == "V"] <= 0.25 * E.count(...)
        exact = [(name, clone(one).set_params(m_tol=1e-10)) for name, one in TAGGERS]
        views = Views(exact, gamma=gamma, constraints=[few], max_iter=8, tol=0.0).fit(X, y)
    objectives = np.array([record.objective for record in views.history_])
    assert (np.diff(objectives) >= -1e-6 * abs(objectives[0])).all()
    assert views.history_[-1].violation < 1e-4


def test_constraints_count_a_row_once_however_many_views_it_has():
    X, _, y = rows()
    nine = (E[part("label") == 0] == 9).named("nine")
    views = Views([*TWO, ("third", MaxEntClassifier())], constraints=[nine]).fit({**X, "third": X["left"]}, y)
    assert views.label_distributions_[:, 0].sum() == pytest.approx(9, abs=1e-4)
    assert views.report_.constraints[0].name == "nine"


def test_rows_are_tied_to_labelled_ones_and_to_columns():
    X, _, y = rows()
    pair = np.r_[np.arange(12), np.arange(12), np.arange(16)]  # rows 0 and 12 are of one pair, and so on
    once = (E[part("label") == 1] <= 1).per("pair")
    views = Views(TWO, constraints=[once], project_at_predict=True).fit(X, y, columns={"pair": pair})
    assert np.bincount(pair, views.label_distributions_[:, 1]).max() <= 1 + 1e-5
    assert np.bincount(pair, views.predict_proba(X, columns={"pair": pair})[:, 1]).max() <= 1 + 1e-5


def test_weights_are_copies():
    X, _, y = rows()
    twice = np.r_[np.arange(40), np.arange(30, 40)]
    weighted = Views(TWO, **FIXED).fit(X, y, sample_weight=np.where(np.arange(40) >= 30, 2.0, 1.0))
    copied = Views(TWO, **FIXED).fit({name: own[twice] for name, own in X.items()}, [y[row] for row in twice])
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-5)


def test_partial_labels_and_distributions():
    X, gold, _ = rows()
    y = [{0: 0.25, 1: 0.75} if row == 3 else {0, 2} if row < 20 else int(label) for row, label in enumerate(gold)]
    views = Views(TWO).fit(X, y)
    np.testing.assert_allclose(views.label_distributions_[3], [0.25, 0.75, 0.0])
    assert views.label_distributions_[:20, 1].sum() == pytest.approx(0.75)
    np.testing.assert_allclose(views.label_distributions_[20:], np.eye(3)[gold[20:]])


def brute_force(views, X, sentence):
    """Posteriors of the tags of a sentence under the mean of the views' scores, by all sequences."""
    logs = {}
    n = len(X["content"][sentence])
    for tags in itertools.product(views.tags_, repeat=n):
        own = [one.score_samples([X[name][sentence]], [list(tags)])[0] for name, one in views.views_.items()]
        logs[tags] = np.mean(own)
    p = softmax(list(logs.values()))
    table = np.zeros((n, len(views.tags_)))
    for tags, share in zip(logs, p, strict=True):
        for t, tag in enumerate(tags):
            table[t, views.tags_.index(tag)] += share
    return table, list(max(logs, key=logs.get))


def test_taggers_agree_on_sequences():
    X, gold, y, _ = sentences()
    views = Views(TAGGERS).fit(X, y)
    found, predicted = views.predict_proba(X), views.predict(X)
    for sentence in (0, 5, 9):
        table, best = brute_force(views, X, sentence)
        np.testing.assert_allclose(found[sentence], table, atol=1e-9)
        assert predicted[sentence] == best
    assert views.score(X, gold) > 0.9
    by_token = [[views.tags_[k] for k in own.argmax(axis=1)] for own in found]
    assert views.set_params(decode="posterior").predict(X) == by_token
    assert views.predict({name: [[]] for name in X}) == [[]]


def test_taggers_whose_transitions_depend_on_features_agree_with_others():
    X, gold, y, _ = sentences()
    edges = [("content", CRFTagger(edge_features="word=", pairs="all")), TAGGERS[1]]
    views = Views(edges).fit(X, y)
    table, best = brute_force(views, X, 5)
    np.testing.assert_allclose(views.predict_proba(X)[5], table, atol=1e-9)
    assert views.predict(X)[5] == best
    assert views.score(X, gold) > 0.9


def test_taggers_under_constraints_on_words_and_the_tag_before():
    X, _, y, text = sentences()
    words = [("content", CRFTagger("words", pairs="all")), TAGGERS[1]]
    rules = [
        E[(part("tag") == "N") & (part("previous") == "V")].per("sentence") == 0,
        E[(part("word") == "bird") & (part("tag") != "N")].per("sentence") == 0,
    ]
    views = Views(words, constraints=rules, project_at_predict=True).fit({**X, "content": text}, y)
    for sentence, tags in zip(text, views.predict({**X, "content": text}), strict=True):
        assert all(tag == "N" for word, tag in zip(sentence, tags, strict=True) if word == "bird")
        assert ("V", "N") not in itertools.pairwise(tags)


def test_results_depend_neither_on_threads_nor_on_where_shards_are(tmp_path):
    X, _, y = rows()
    found = [
        Views(TWO, **FIXED, **options).fit(X, y)
        for options in ({"n_threads": 1}, {"n_threads": 2}, {"corpus": partial(Spilled, folder=tmp_path)})
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.theta_, found[0].theta_)
    checkpoint = Views(TWO, **FIXED, checkpoint=tmp_path / "run").fit(X, y)
    again = Views(TWO, **FIXED, checkpoint=tmp_path / "run").fit(X, y)
    np.testing.assert_array_equal(checkpoint.theta_, again.theta_)


def test_conventions_of_scikit_learn():
    X, _, y = rows()
    views = Views(TWO, feature_groups={"left": range(4), "right": [4, 5, 6, 7]})
    assert views.get_params()["left__C"] == 0.5
    assert clone(views).set_params(left__C=3.0, gamma=0.5, right=MaxEntClassifier()).views[0][1].C == 3.0
    assert views.views[0][1].C == 0.5
    assert repr(Views(TWO, gamma=0.5)).startswith("Views(gamma=0.5, views=[('left', MaxEntClassifier(")
    table = np.hstack([X["left"], X["right"]])
    one, two = views.fit(table, y), Views(TWO).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(table), two.predict_proba(X))
    assert one.views_["left"].n_features_in_ == 4
    targets = np.array([-1 if label is None else label for label in y])
    views.set_params(left__classes=[0, 1, 2], right__classes=[0, 1, 2])
    assert len(cross_val_score(views, table, targets, cv=KFold(2, shuffle=True, random_state=0))) == 2
    with pytest.raises(InvalidInputError, match="Invalid parameter 'middle' for estimator"):
        views.set_params(middle__C=1)


def test_taggers_with_a_scheme_agree_on_sequences_that_follow_it():
    X, gold, _, _ = sentences()
    chunks = [["B-NP" if tag == "D" else "I-NP" if tag == "N" else "O" for tag in tags] for tags in gold]
    y = [own if number < 4 else None for number, own in enumerate(chunks)]
    views = Views([(name, CRFTagger(scheme="bio", pairs="all")) for name in X]).fit(X, y)
    assert all(("O", "I-NP") not in itertools.pairwise(tags) for tags in views.predict(X))
    assert views.score(X, chunks) > 0.9


@pytest.mark.parametrize("agreement", ["full", {}])
def test_at_minus_infinity_labels_are_whole(agreement):
    X, _, y = rows()
    views = Views(TWO, agreement=agreement, gamma=-np.inf, max_iter=3, tol=0.0).fit(X, y)
    found = views.label_distributions_
    for table in found.values() if agreement != "full" else [found]:
        assert set(table.ravel().round(9)) == {0.0, 1.0}
    if agreement != "full":
        np.testing.assert_array_equal(found["left"], found["right"])


def test_sentences_without_tokens():
    X, gold, y, _ = sentences()
    holes = {name: [*own[:3], [], *own[3:], []] for name, own in X.items()}
    views = Views(TAGGERS, **FIXED).fit(X, y)
    filled = Views(TAGGERS, **FIXED).fit(holes, [*y[:3], [], *y[3:], None])
    assert filled.objective_ == pytest.approx(views.objective_, rel=1e-9)
    predicted = filled.predict(holes)
    assert predicted[3] == predicted[-1] == []
    assert predicted[:3] + predicted[4:-1] == views.predict(X)
    assert [len(own) for own in filled.predict_proba(holes)] == [len(own) for own in predicted]
    assert [own.shape for own in views.predict_proba({name: [[]] for name in X})] == [(0, 3)]
    assert filled.score(holes, [*gold[:3], [], *gold[3:], []]) > 0.9
