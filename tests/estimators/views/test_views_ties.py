"""Views with labels of their own: groups of labels, slack, partly labelled views, taggers and documents."""

import numpy as np
import pytest
from views_data import rows, sentences

from spectrem import CRFTagger, E, MaxEntClassifier, Views, part
from spectrem.exceptions import InvalidInputError

FINE = {0: "vehicle", 1: "cat", 2: "dog"}


def animals(n_labelled=12):
    """Fine labels of one view, coarse ones of the other, and features of both."""
    X, gold, _ = rows()
    fine = [FINE[label] for label in gold]
    coarse = ["vehicle" if label == 0 else "animal" for label in gold]
    y = {"fine": fine[:n_labelled] + [None] * 28, "coarse": coarse[:n_labelled] + [None] * 28}
    return {"fine": X["left"], "coarse": X["right"]}, y, fine, coarse


GROUPS = {"fine": {"cat": "animal", "dog": "animal"}}
VIEWS = [("fine", MaxEntClassifier(m_tol=1e-12)), ("coarse", MaxEntClassifier(m_tol=1e-12))]


def test_groups_of_labels_agree_in_closed_form_where_labels_have_no_structure():
    """[Ganchev2010] proposition 6.3, against the dual."""
    X, y, _, _ = animals()
    views = Views(VIEWS, agreement=GROUPS).fit(X, y)
    own = {name: one.predict_proba(X[name]) for name, one in views.views_.items()}
    assert views.views_["fine"].classes_.tolist() == ["cat", "dog", "vehicle"]
    assert views.views_["coarse"].classes_.tolist() == ["animal", "vehicle"]
    groups = [np.stack([own["fine"][:, :2].sum(axis=1), own["fine"][:, 2]], axis=1), own["coarse"]]
    z = np.sqrt(groups[0] * groups[1])
    distance = -np.log(z.sum(axis=1))
    z /= z.sum(axis=1, keepdims=True)
    found = views.predict_proba(X)
    np.testing.assert_allclose(found["coarse"], z, atol=1e-6)
    np.testing.assert_allclose(found["fine"], own["fine"] / groups[0][:, [0, 0, 1]] * z[:, [0, 0, 1]], atol=1e-6)
    assert views.bhattacharyya_ == pytest.approx(distance[12:].mean(), rel=1e-6)
    predicted = views.predict(X)
    assert set(predicted["coarse"]) == {"animal", "vehicle"}
    assert predicted["fine"].shape == (40,)


def test_a_coarse_label_teaches_the_fine_view():
    """Rows may be labelled in one view alone: the other has what is compatible with it."""
    X, y, fine, coarse = animals()
    views = Views(VIEWS, agreement=GROUPS).fit(X, {**y, "coarse": coarse})
    found = views.label_distributions_["fine"]
    animal = np.array(coarse) == "animal"
    np.testing.assert_allclose(found[animal][:, 2], 0, atol=1e-6)
    np.testing.assert_allclose(found[~animal][:, 2], 1, atol=1e-6)
    without = Views(VIEWS, agreement=GROUPS).fit(X, y)
    right = [np.mean(one.views_["fine"].predict(X["fine"]) == fine) for one in (views, without)]
    assert right[0] >= right[1]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_the_objective_never_falls(gamma):
    X, y, _, _ = animals()
    views = Views(VIEWS, agreement=GROUPS, gamma=gamma, max_iter=6, tol=0.0).fit(X, y)
    objectives = np.array([record.objective for record in views.history_])
    assert (np.diff(objectives) >= -1e-6 * abs(objectives[0])).all()


def test_a_penalty_lets_views_agree_in_part():
    X, y, _, _ = animals()
    fitted = {
        penalty: Views(VIEWS, agreement=GROUPS, agreement_penalty=penalty, max_iter=3, tol=0.0).fit(X, y)
        for penalty in (1e-9, 0.3, 100.0)
    }
    exact = Views(VIEWS, agreement=GROUPS, max_iter=3, tol=0.0).fit(X, y)
    np.testing.assert_allclose(fitted[100.0].predict_proba(X)["fine"], exact.predict_proba(X)["fine"], atol=1e-5)
    assert fitted[100.0].objective_ == pytest.approx(exact.objective_, rel=1e-6)
    for name, table in fitted[1e-9].predict_proba(X).items():
        np.testing.assert_allclose(table, fitted[1e-9].views_[name].predict_proba(X[name]), atol=1e-6)
    (summary,) = fitted[0.3].report_.summaries
    assert -0.3 - 1e-9 <= summary.lowest_price < 0 < summary.highest_price <= 0.3 + 1e-9
    apart = [one.predict_proba(X) for one in (fitted[1e-9], fitted[0.3], exact)]
    gaps = [np.abs(own["fine"][:, 2] - own["coarse"][:, 1]).max() for own in apart]
    assert gaps[0] > gaps[1] > gaps[2]


def test_constraints_choose_where_views_agree():
    """Partial agreement: on the group "vehicle" alone, and of some rows alone."""
    X, y, _, _ = animals()
    near = np.arange(40) % 2 == 0
    same = E[part("fine_label") == "vehicle"] == E[part("coarse_label") == "vehicle"]
    some = E[(part("fine_label") == "vehicle") & part("near")] == E[(part("coarse_label") == "vehicle") & part("near")]
    full = Views(VIEWS, agreement=GROUPS).fit(X, y)
    one = Views(VIEWS, agreement=[same.per("row")]).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X)["fine"], full.predict_proba(X)["fine"], atol=1e-4)
    half = Views(VIEWS, agreement=[some.per("row")]).fit(X, y, columns={"near": near})
    found = half.predict_proba(X, columns={"near": near})
    gap = np.abs(found["fine"][:, 2] - found["coarse"][:, 1])
    assert gap[near].max() < 1e-6 < gap[~near].max()


def test_labels_that_one_view_lacks_are_one_group():
    X, gold, _ = rows()
    names = {"left": ["a", "b", "c"], "right": ["a", "d", "e"]}
    y = {view: [names[view][label] for label in gold[:12]] + [None] * 28 for view in X}
    views = Views([("left", MaxEntClassifier()), ("right", MaxEntClassifier())], agreement={"left": {}}).fit(X, y)
    found = views.predict_proba(X)
    np.testing.assert_allclose(found["left"][:, 0], found["right"][:, 0], atol=1e-6)
    assert [own.name for own in views.report_.summaries] == ["left and right agree on 'a'"]


def test_taggers_of_different_tag_sets_agree_at_every_token():
    X, gold, y, _ = sentences()
    merged = [["X" if tag in "DV" else "N" for tag in tags] for tags in gold]
    coarse = [None if own is None else merged[number] for number, own in enumerate(y)]
    taggers = [("content", CRFTagger(pairs="all")), ("context", CRFTagger(pairs="all"))]
    groups = {"content": {"D": "X", "V": "X"}}
    views = Views(taggers, agreement=groups).fit(X, {"content": y, "context": coarse})
    found = views.predict_proba(X)
    for left, right in zip(found["content"], found["context"], strict=True):
        np.testing.assert_allclose(left[:, 1], right[:, 0], atol=1e-6)  # N
    predicted = views.predict(X)
    assert [len(own) for own in predicted["content"]] == [len(own) for own in gold]
    assert predicted["context"][0] == merged[0]


def test_labels_that_are_numbers_or_truth_values_may_be_grouped():
    """Also tags, which constraints call by their text, and when the views predict."""
    X, gold, y, _ = sentences()
    numbered = [None if own is None else ["DNV".index(tag) + 1 for tag in own] for own in y]
    coarse = [None if own is None else ["N" if tag == 2 else "X" for tag in own] for own in numbered]
    taggers = [("content", CRFTagger(pairs="all")), ("context", CRFTagger(pairs="all"))]
    groups = {"content": {1: "X", 2: "N", 3: "X"}}
    views = Views(taggers, agreement=groups, max_iter=2, tol=0.0).fit(X, {"content": numbered, "context": coarse})
    found = views.predict_proba(X)
    for left, right in zip(found["content"], found["context"], strict=True):
        np.testing.assert_allclose(left[:, 1], right[:, 0], atol=1e-6)
    assert {tag for own in views.predict(X)["content"] for tag in own} <= {1, 2, 3}
    X, gold, _ = rows()
    y = {"left": [bool(label) for label in gold[:12]] + [None] * 28, "right": [*gold[:12].tolist(), *[None] * 28]}
    groups = {"right": {0: False, 1: True, 2: True}}
    pair = [(name, MaxEntClassifier()) for name in X]
    found = Views(pair, agreement=groups, max_iter=2, tol=0.0).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found["left"][:, 0], found["right"][:, 0], atol=1e-6)


def reviews(n=24, n_labelled=6, seed=0):
    """Documents with a table of features and sentences, some of whose tokens say what the document thinks."""
    rng = np.random.default_rng(seed)
    gold = np.array(["bad", "good"])[np.arange(n) % 2]
    words = {"bad": ["awful", "broken"], "good": ["great", "lovely"]}
    text = [[str(rng.choice(["it", "was", "a"])), str(rng.choice(words[label])), "thing"] for label in gold]
    tags = [["O", "NEG" if label == "bad" else "POS", "O"] for label in gold]
    table = np.where(gold == "good", 1.0, -1.0)[:, None] + rng.normal(size=(n, 2))
    tagged = [own if number < 2 else None for number, own in enumerate(tags)]
    labelled = [str(label) if number < n_labelled else None for number, label in enumerate(gold)]
    return text, table, tags, tagged, gold, labelled


SAYS = [
    (E[part("words_tag") == "NEG"] == E[part("document_label") == "bad"]).per("row").named("a bad one says so"),
    (E[part("words_tag") == "POS"] == E[part("document_label") == "good"]).per("row").named("a good one says so"),
]
MIXED = [("words", CRFTagger("words", pairs="all")), ("document", MaxEntClassifier())]


def test_a_document_label_teaches_a_tagger():
    text, table, tags, tagged, gold, _ = reviews()
    X = {"words": text, "document": table}
    views = Views(MIXED, agreement=SAYS).fit(X, {"words": tagged, "document": gold})
    assert views.views_["words"].predict(text) == tags
    alone = CRFTagger("words", pairs="all").fit(text, tagged)
    assert alone.predict(text) != tags
    found = views.predict_proba(X)
    negative = [own[:, 0].sum() for own in found["words"]]
    np.testing.assert_allclose(negative, found["document"][:, 0], atol=1e-6)
    assert views.views_["words"].tags_ == ("NEG", "O", "POS")


def test_sentences_belong_to_documents():
    text, table, _, tagged, _, labelled = reviews()
    owners = np.repeat(np.arange(24), 2)
    filler = ["it", "was", "a"]
    several = [own for sentence in text for own in (filler, sentence)]
    y = [own for sentence in tagged for own in (None if sentence is None else ["O"] * 3, sentence)]
    X = {"words": several, "document": table}
    views = Views(MIXED, agreement=SAYS).fit(X, {"words": y, "document": labelled}, owners={"words": owners})
    found = views.predict_proba(X, owners={"words": owners})
    negative = np.bincount(owners, [own[:, 0].sum() for own in found["words"]])
    np.testing.assert_allclose(negative, found["document"][:, 0], atol=1e-6)
    mixed = np.random.default_rng(0).permutation(48)  # sentences in any order
    shuffled = {"words": [several[k] for k in mixed], "document": table}
    again = views.predict_proba(shuffled, owners={"words": owners[mixed]})
    for place, k in enumerate(mixed):
        np.testing.assert_allclose(again["words"][place], found["words"][k], atol=1e-6)
    counted = E[part("document_label") == "bad"] == 9
    under = Views(MIXED, agreement=SAYS, constraints=[counted])
    under.fit(X, {"words": y, "document": labelled}, owners={"words": owners})
    assert under.label_distributions_["document"][:, 0].sum() == pytest.approx(9, abs=1e-4)
    with pytest.raises(InvalidInputError, match="X must have the same rows or sentences in every view, got 48 of"):
        views.predict(X)


def test_views_may_have_labelled_rows_of_their_own():
    """[Ganchev2010] §6: the views need not share the labelled corpus, only rows without a label."""
    X, y, fine, coarse = animals(24)
    own = {"fine": np.r_[0:12, 24:40], "coarse": np.r_[12:40]}  # rows of each view: 12 labelled ones, and 16 of both
    data = {name: X[name][rows] for name, rows in own.items()}
    labels = {name: [y[name][row] for row in rows] for name, rows in own.items()}
    views = Views(VIEWS, agreement=GROUPS, max_iter=1, tol=0.0).fit(data, labels, owners=own)
    start = Views(VIEWS, agreement=GROUPS, unlabelled_weight=0.0).fit(data, labels, owners=own)
    for name, truth in (("fine", fine), ("coarse", coarse)):
        alone = MaxEntClassifier(m_tol=1e-12).fit(data[name][:12], np.array(truth)[own[name][:12]])
        np.testing.assert_allclose(start.views_[name].coef_, alone.coef_, atol=1e-5)
    shared = {name: X[name][24:] for name in X}
    q = start.predict_proba(shared)
    targets = np.concatenate([np.eye(3)[[["cat", "dog", "vehicle"].index(label) for label in fine[:12]]], q["fine"]])
    classifier = MaxEntClassifier(classes=["cat", "dog", "vehicle"], m_tol=1e-12).fit(data["fine"], targets)
    np.testing.assert_allclose(views.views_["fine"].coef_, classifier.coef_, atol=1e-4)


def test_labels_that_have_no_group_in_the_other_view_are_excluded_by_it():
    X, gold, _ = rows()
    y = {"left": ["abc"[label] for label in gold[:12]] + [None] * 28, "right": [None] * 40}
    y["right"][:12] = ["a" if label == 0 else "b" for label in gold[:12]]
    views = Views([("left", MaxEntClassifier()), ("right", MaxEntClassifier())], agreement={}).fit(X, y)
    found = views.predict_proba(X)
    np.testing.assert_allclose(found["left"][:, 2], 0, atol=1e-6)
    np.testing.assert_allclose(found["left"][:, :2], found["right"], atol=1e-6)
