"""Objects of pandas are paired by position, so that their indices must be the same."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from spectrem import E, GaussianMixture, HMMTagger, Lattice, SelfTrainer, part, project
from spectrem._validate import check_same_index
from spectrem.constraints import label_proportions
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import sign_test, v_measure

P = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
ONCE = (E[part("label") == 0] == 0.5).per("group")


class Index(list):
    """What an index of pandas is here."""

    def equals(self, other):
        return list(self) == list(other)


class Indexed:
    def __init__(self, index):
        self.index = Index(index)


def test_the_first_place_that_differs_is_named():
    check_same_index(X=Indexed("abc"), y=Indexed("abc"), other=[1, 2], cells=Indexed("abcdef"), none=None)
    message = (
        r"^y must have the index of X, got 'c' where that has 'b' \(row 1\); to pair rows by index give y as "
        r"\.loc\[index of X\], to pair them by position \.to_numpy\(\)$"
    )
    with pytest.raises(InvalidInputError, match=message):
        check_same_index(X=Indexed("abc"), y=Indexed("acb"))
    with pytest.raises(InvalidInputError, match=r"^columns\['kind'\] must have the index of columns\['group'\], got 9"):
        check_same_index(X=P, columns={"group": Indexed([1, 2]), "kind": Indexed([1, 9]), "list": [3, 4]})


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


@pytest.mark.parametrize("index", [["c", "a", "b"], ["x", "y", "z"], [0, 1, 2], ["a", "b", "b"]])
def test_tables(pandas, index):
    proba = pandas.DataFrame(P, index=["a", "b", "c"], columns=["ham", "spam"])
    group, weight = pandas.Series([1, 1, 2], index), pandas.Series([1.0, 2.0, 1.0], index)
    rule = (E[part("label") == "ham"] <= 0.5).per("group")
    for given in (
        {"columns": {"group": group}},
        {"columns": pandas.DataFrame({"group": group})},
        {"columns": {"group": [1, 1, 2]}, "sample_weight": weight},
    ):
        with pytest.raises(InvalidInputError, match="must have the index of proba"):
            project(proba, rule, **given)
    with pytest.raises(InvalidInputError, match="sample_weight must have the index of columns"):
        project(P, ONCE, columns=pandas.DataFrame({"group": [1, 1, 2]}, ["a", "b", "c"]), sample_weight=weight)
    with pytest.raises(InvalidInputError, match=r"columns\['kind'\] must have the index of columns\['group'\]"):
        project(P, ONCE, columns={"group": pandas.Series([1, 1, 2], ["a", "b", "c"]), "kind": group})


def test_tables_of_one_index(pandas):
    index = ["c", "a", "b"]
    proba = pandas.DataFrame(P, index, ["ham", "spam"])
    rule = (E[part("label") == "ham"] == 0.5).per("group")
    columns = pandas.DataFrame({"group": [1, 1, 2]}, index)
    plain = project(P, rule, columns={"group": [1, 1, 2]}, labels=["ham", "spam"], sample_weight=[1, 2, 1])
    for given in (columns, {"group": columns["group"]}, columns.loc[["c", "a", "b"]]):
        weight = pandas.Series([1.0, 2.0, 1.0], index)
        assert (project(proba, rule, columns=given, sample_weight=weight).proba == plain.proba).all()
    assert (
        project(P, rule, columns=columns, labels=["ham", "spam"], sample_weight=[1, 2, 1]).proba == plain.proba
    ).all()


def test_columns_per_token_have_an_index_of_their_own(pandas):
    words = Lattice([np.zeros((2, 2)), np.zeros((1, 2))])
    token = pandas.Series([1, 1, 2], [7, 8, 9])
    project(words, ONCE, columns={"group": token}, sample_weight=pandas.Series([1.0, 2.0], ["s", "t"]))
    with pytest.raises(InvalidInputError, match="must have the index of"):
        project(words, ONCE, columns={"group": token, "other": pandas.Series([1, 1, 2])})


def test_labels(pandas):
    proba = pandas.DataFrame(P, columns=["p_ham", "p_spam"])
    rule = E[part("label") == "spam"] == 1
    plain = project(P, rule, labels=["ham", "spam"]).proba
    for index in (["p_ham", "p_spam"], None):
        assert (project(proba, rule, labels=pandas.Series(["ham", "spam"], index)).proba == plain).all()
    assert (project(P, rule, labels=pandas.Series(["ham", "spam"], [5, 6])).proba == plain).all()
    with pytest.raises(InvalidInputError, match=r"^labels must have the columns of proba as their index"):
        project(proba, rule, labels=pandas.Series(["spam", "ham"], ["p_spam", "p_ham"]))


def test_estimators(pandas):
    rng = np.random.default_rng(0)
    x = pandas.DataFrame(rng.normal(size=(12, 2)), columns=["u", "v"])
    y = pandas.Series([0, 1] + [-1] * 10)
    weight, group = pandas.Series(np.ones(12)), pandas.DataFrame({"group": [1, 2] * 6})
    fits = {
        "mixture": lambda **given: GaussianMixture(2, partial_labels=True, max_iter=50, tol=1e3).fit(x, **given),
        "trainer": lambda **given: SelfTrainer(GaussianNB(), max_iter=3, tol=1e6).fit(x, given.pop("y", y), **given),
    }
    trainer = fits["trainer"](y=y, sample_weight=weight, columns=group)
    for fit in fits.values():
        for name, value in (("y", y), ("sample_weight", weight), ("columns", group)):
            with pytest.raises(InvalidInputError, match=f"^{name} must have the index of X, got 11 where that has 0"):
                fit(**{name: value.iloc[::-1]})
            with pytest.raises(InvalidInputError, match=f"^{name} must have the index of X"):
                fit(**{name: value.set_axis(range(1, 13))})
    with pytest.raises(InvalidInputError, match=r"^y must have the index of X"):
        trainer.score(x, y.iloc[::-1])


def test_taggers_and_measures(pandas):
    text, tags = pandas.Series([["a", "b"], ["b"]]), pandas.Series([["D", "N"], ["N"]])
    HMMTagger().fit(text, tags)
    with pytest.raises(InvalidInputError, match=r"^y must have the index of sentences"):
        HMMTagger().fit(text, tags.iloc[::-1])
    one, other = pandas.Series([0, 1, 1]), pandas.Series([1, 0, 0])
    assert v_measure(one, other) == 1
    for measure in (v_measure, sign_test):
        with pytest.raises(InvalidInputError, match="must have the index of"):
            measure(one, other.iloc[::-1])


def test_shares_go_by_name(pandas):
    shares = pandas.Series({"spam": 0.25, "ham": 0.75})
    assert (
        label_proportions(shares) == label_proportions(shares.iloc[::-1])[::-1] == label_proportions(shares.to_dict())
    )
    assert label_proportions(shares) == label_proportions({"spam": 0.25, "ham": 0.75})
