"""One rule of which labels are missing, in all estimators, and one score that leaves them out."""

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from spectrem import CRFTagger, HMMTagger, MaxEntClassifier, SelfTrainer, Views
from spectrem.exceptions import InvalidInputError

NAN = float("nan")
X = np.random.default_rng(0).normal(size=(12, 3)) + np.repeat(np.eye(3), 4, axis=0)
GOLD = np.repeat([0, 1, 2], 4)
BOTH = {"left": X[:, :2], "right": X[:, 1:]}
PAIR = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"], ["a", "dog"]]
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"], ["D", "N"]]
TAGGERS = [("left", CRFTagger("words")), ("right", CRFTagger("words", pairs="all"))]
PARTLY = np.where(np.arange(12) % 4 < 2, GOLD, -1)

ROWS = {
    "MaxEntClassifier": (MaxEntClassifier, X),
    "SelfTrainer": (lambda: SelfTrainer(LogisticRegression()), X),
    "Views": (lambda: Views(PAIR, max_iter=3, tol=0.0), BOTH),
}
TOKENS = {
    "CRFTagger": (lambda: CRFTagger("words", pairs="all"), TEXT),
    "Views": (lambda: Views(TAGGERS, max_iter=3, tol=0.0), {"left": TEXT, "right": TEXT}),
}
of_rows, of_tokens = pytest.mark.parametrize("name", ROWS), pytest.mark.parametrize("name", TOKENS)


def spell(marks):
    """The labels of all rows, where those that are missing are marked in turn by these."""
    return [int(own) if own >= 0 else marks[row % len(marks)] for row, own in enumerate(PARTLY)]


@of_rows
@pytest.mark.parametrize(
    "y",
    [spell([-1]), spell([None]), spell([NAN]), spell([None, NAN, -1]), PARTLY, np.where(PARTLY < 0, NAN, PARTLY),
     pl.Series([None if own < 0 else own for own in PARTLY.tolist()]),
     pl.DataFrame({"label": [None if own < 0 else own for own in PARTLY.tolist()]})],
    ids=["-1", "None", "nan", "all", "array", "floats", "polars", "frame"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*column-vector")
def test_a_score_leaves_rows_without_a_label_out(name, y):
    make, data = ROWS[name]
    fitted = make().fit(data, PARTLY)
    predicted, labelled = fitted.predict(data), PARTLY >= 0
    assert fitted.score(data, y) == pytest.approx(np.mean(predicted[labelled] == GOLD[labelled]))
    weights = np.arange(12.0)
    right = np.average((predicted == GOLD)[labelled], weights=weights[labelled])
    assert fitted.score(data, y, weights) == pytest.approx(right)
    again = make().fit(data, y)
    np.testing.assert_array_equal(again.predict(data), predicted)
    is_whole = getattr(y, "dtype", None) != np.float64
    assert np.asarray(again.predict(data)).dtype.kind == ("i" if is_whole else "f")


@of_rows
@pytest.mark.filterwarnings("ignore:.*that training did not have")
def test_sets_and_distributions_are_scored(name):
    make, data = ROWS[name]
    fitted = make().fit(data, PARTLY)
    best = fitted.predict(data).tolist()
    y = [None] * 12
    y[0], y[1], y[2] = {best[0], 7}, {8, 9}, best[2]
    assert fitted.score(data, y) == pytest.approx(2 / 3)
    y[3] = {best[3]: 0.25, 7: 0.75}
    assert fitted.score(data, y) == pytest.approx(2.25 / 4)
    y[4] = 17  # a label that training did not see is not found
    assert fitted.score(data, y) == pytest.approx(2.25 / 5)
    table = np.full((12, 3), NAN)
    table[:2] = [0.5, 0.25, 0.25]
    shares = dict(zip([0, 1, 2], table[0].tolist(), strict=True))
    assert fitted.score(data, table) == pytest.approx(np.mean([shares[label] for label in best[:2]]))


@of_rows
def test_nothing_but_missing_labels_has_no_score(name):
    make, data = ROWS[name]
    fitted = make().fit(data, PARTLY)
    for y in ([None] * 12, np.full(12, -1), np.full(12, NAN), np.full((12, 3), NAN)):
        with pytest.raises(InvalidInputError, match="y must label some row of weight above 0 to be scored, got none"):
            fitted.score(data, y)


@of_tokens
@pytest.mark.filterwarnings("ignore:.*that training did not have")
def test_a_score_leaves_tokens_without_a_label_out(name):
    make, data = TOKENS[name]
    fitted = make().fit(data, [*TAGS[:3], None])
    assert fitted.predict(data) == TAGS
    y = [["D", None, "X"], None, ["D", NAN, "V"], [-1, {"N", "X"}]]
    assert fitted.score(data, y) == pytest.approx(4 / 5)
    assert fitted.score(data, y, [1.0, 1.0, 0.0, 2.0]) == pytest.approx((1 + 2) / 4)
    assert fitted.score(data, [None, None, None, [{"D": 0.3, "X": 0.7}, "N"]]) == pytest.approx(1.3 / 2)
    for nothing in ([None] * 4, [[None, -1, NAN], NAN, None, None]):
        with pytest.raises(InvalidInputError, match="y must label some token of weight above 0 to be scored, got none"):
            fitted.score(data, nothing)


@pytest.mark.parametrize("mark", [None, -1, NAN, np.int64(-1), np.nan])
def test_missing_labels_of_tokens_are_marked_as_those_of_rows(mark):
    y = [["D", mark, "V"], *TAGS[1:3], mark]
    wanted = [["D", None, "V"], *TAGS[1:3], None]
    for make in (TOKENS["CRFTagger"][0], lambda: HMMTagger(random_state=0, max_iter=3, tol=0.0)):
        one, other = make().fit(TEXT, y), make().fit(TEXT, wanted)
        assert one.tags_ == ("D", "N", "V")
        for left, right in zip(one.predict_proba(TEXT), other.predict_proba(TEXT), strict=True):
            np.testing.assert_array_equal(left, right)
    arrays = [np.array(["D", "-1", "V"]), *map(np.array, TAGS[1:3]), np.array(["nan", "nan"])]
    assert CRFTagger("words").fit(TEXT, arrays).tags_ == ("D", "N", "V")


@pytest.mark.parametrize("mark", [-1, None, NAN])
def test_what_marks_a_missing_label_is_none_of_a_collection(mark):
    y = [0, {1, mark}, *GOLD[2:].tolist()]
    with pytest.raises(InvalidInputError, match=r"y must hold labels in a collection, got .* in row 1, which"):
        MaxEntClassifier().fit(X, y)
    with pytest.raises(InvalidInputError, match="y must hold labels in a collection"):
        MaxEntClassifier().fit(X, [{0: 0.5, mark: 0.5}, *GOLD[1:].tolist()])
    for tagger in (CRFTagger("words"), HMMTagger()):
        with pytest.raises(InvalidInputError, match=r"y must hold tags in a collection, got .* in sentence 0, token 1"):
            tagger.fit(TEXT, [["D", {"N", mark}, "V"], *TAGS[1:]])


@pytest.mark.parametrize("tagger", [CRFTagger("words", tags=["A", -1]), HMMTagger(tags=["A", "-1"])])
def test_what_marks_a_missing_tag_is_no_tag(tagger):
    with pytest.raises(InvalidInputError, match=r"tags must not hold .*-1.*, which marks tokens without one"):
        tagger.fit(TEXT)


def test_a_hidden_markov_model_takes_no_distributions():
    with pytest.raises(InvalidInputError, match=r"y must hold no distributions, got .* in sentence 0, token 0; give"):
        HMMTagger().fit(TEXT, [[{"D": 1.0}, "N", "V"], None, None, None])


@of_rows
@pytest.mark.filterwarnings("ignore:.*hardly ever")
@pytest.mark.parametrize(
    ("values", "dtype", "kind"),
    [([3, None, 5, 3], "Int64", "i"), ([True, None, False, True], "boolean", "b"), ([3, None, 5, 3], "category", "i"),
     (["a", None, "b", "a"], "string", "U")],
)  # fmt: skip
def test_predictions_have_the_type_of_the_labels(name, values, dtype, kind):
    pandas = pytest.importorskip("pandas")
    make, data = ROWS[name]
    y = pandas.Series(values * 3, dtype=dtype)
    for form in (y, y.array) if name == "SelfTrainer" else (y,):
        fitted = make().fit(data, form)
        assert fitted.predict(data).dtype.kind == kind
        assert set(fitted.classes_.tolist()) == set(values) - {None}


@of_rows
@pytest.mark.filterwarnings("ignore:.*hardly ever")
def test_whole_numbers_of_polars_stay_whole(name):
    make, data = ROWS[name]
    assert make().fit(data, pl.Series([3, None, 5, 3] * 3)).predict(data).dtype == np.int64
    assert make().fit(data, [3, NAN, 5, 3] * 3).predict(data).dtype == np.int64
    assert make().fit(data, [3.0, NAN, 5.0, 3.0] * 3).predict(data).dtype == np.float64
