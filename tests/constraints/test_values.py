"""Conditions that name values which the data do not have."""

import numpy as np
import pytest
from shard_helpers import compile_all
from sklearn.naive_bayes import GaussianNB

from spectrem import E, GaussianMixture, HMMTagger, Lattice, SelfTrainer, part, project
from spectrem.constraints import check_columns, check_values, label_proportions, read_constraints
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical

P = np.full((4, 2), 0.5)
COLUMNS = {"kind": ["invoice", "letter", None, "letter"], "year": [2019, 2020, 2020, None], "flag": [False] * 4}
SPAM = part("label") == 0
HINT = r"; write \.allow_empty\(\) behind the constraint if there may be none"


def some(condition):
    return (E[condition & SPAM] <= 1).named("rule")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            part("kind") == "invioce",
            "there is no kind 'invioce'; did you mean 'invoice'[?] the kinds are 'invoice'",
        ),
        (part("kind") == "LETTER", "there is no kind 'LETTER'; did you mean 'letter'[?] the kinds are"),
        (part("kind") != "lettre", "there is no kind 'lettre'; did you mean 'letter'[?]"),
        (~part("kind").isin(["x", "y"]), "there is no kind 'x'; the kinds are 'invoice', 'letter'"),
        (part("year") == 20200, "there is no year 20200; did you mean 2020[?] the years are 2019, 2020"),
        (part("kind") == "nan", "there is no kind 'nan'; the kinds are"),
        (part("row") == 4, "there is no row 4; the rows are 0, 1, 2, 3"),
    ],
)
def test_a_value_that_no_row_has_is_refused(condition, message):
    for constraint in (some(condition), (E[SPAM] <= 3 * E.count(condition) + 1).named("rule")):
        with pytest.raises(InvalidInputError, match=f"^'rule': {message}.*{HINT}$"):
            project(P, constraint, columns=COLUMNS)
        assert project(P, constraint.allow_empty(), columns=COLUMNS).violation_after <= 1e-6


@pytest.mark.parametrize(
    "condition",
    [
        part("kind") == "letter",
        part("kind").isin(["letter", "postcard"]),
        part("year") == 2019,
        part("year") > 3000,
        part("flag") == True,  # noqa: E712
        part("label").allowed_by(part("kind"), {"postcard": [1]}),
        part("kind").allowed_by(part("label"), {0: ["postcard"]}),
        (part("kind") == "invoice") & (part("year") == 2020),
    ],
    ids=repr,
)
def test_a_condition_that_may_bind_nothing_is_not(condition):
    project(P, some(condition), columns=COLUMNS)


def test_labels_are_all_looked_at():
    for constraint in (some(part("label").isin([0, 5])), some(part("label").allowed_by(part("kind"), {"x": [5]}))):
        with pytest.raises(InvalidInputError, match=r"^'rule': there is no label 5; the labels are 0, 1$"):
            project(P, constraint, columns=COLUMNS)
        project(P, constraint.allow_empty(), columns=COLUMNS)


def test_a_column_that_is_missing_throughout():
    with pytest.raises(InvalidInputError, match="^'rule': there is no kind 'a', as the column is empty" + HINT):
        project(P, some(part("kind") == "a"), columns={"kind": [None] * 4})


def test_text_and_numbers_are_not_compared():
    for constraint in (some(part("kind") == 3), some(part("kind") == 3).allow_empty()):
        with pytest.raises(InvalidInputError, match="compares text with numbers"):
            project(P, constraint, columns=COLUMNS)


def test_a_lattice():
    words = Lattice([np.zeros((2, 2)), np.zeros((1, 2))])
    with pytest.raises(InvalidInputError, match="there is no word 'teh'; did you mean 'the'"):
        project(words, some(part("word") == "teh"), columns={"word": ["the", "cat", "the"]})
    project(words, some(part("word").isin(["the", "a"])), columns={"word": ["the", "cat", "the"]})


def test_fits_look_at_their_data():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 2)), np.array([0, 1] + [-1] * 18)
    columns, rule = {"kind": ["a", "b"] * 10}, some(part("kind") == "c")
    message = "'rule': there is no kind 'c'; the kinds are 'a', 'b'" + HINT
    with pytest.raises(InvalidInputError, match=message):
        GaussianMixture(2, constraints=[rule]).fit(x, columns=columns)
    with pytest.raises(InvalidInputError, match=message):
        SelfTrainer(GaussianNB(), [rule]).fit(x, y, columns=columns)
    SelfTrainer(GaussianNB(), [rule.allow_empty()], max_iter=3, tol=1e6).fit(x, y, columns=columns)


def test_a_tagger_looks_at_the_words_it_learns_from_and_no_others():
    text, tags = [["the", "cat"], ["a", "cat"]], [["D", "N"], ["D", "N"]]
    few = (E[(part("word") == "cta") & (part("tag") == "N")] <= 5).named("rule")
    with pytest.raises(InvalidInputError, match="'rule': there is no word 'cta'; did you mean 'cat'"):
        HMMTagger(constraints=[few]).fit(text, tags)
    HMMTagger(constraints=[few.allow_empty()]).fit(text, tags)
    known = (E[(part("word") == "cat") & (part("tag") == "N")] <= 5).named("rule")
    tagger = HMMTagger(constraints=[known], project_at_predict=True).fit(text, tags)
    assert len(tagger.predict([["the", "the"]])[0]) == 2


def test_shards_may_lack_a_value():
    rules = [some(part("kind") == "letter")]
    columns = [{"kind": ["letter"]}, {"kind": ["invoice"]}]
    _, rows = compile_all(rules, [Categorical([2]), Categorical([2])], columns)
    assert [own.matrix.nnz for own in rows] == [1, 0]


def test_shortcuts_and_matrices():
    rough = [share.allow_empty() for share in label_proportions({5: 0.0})]
    with pytest.raises(InvalidInputError, match="there is no label 5"):
        check_values(label_proportions({5: 0.0}), "label", [0, 1])
    check_values(rough, "label", [0, 1])
    check_columns([some(part("other") == 3)], COLUMNS)


def test_files(tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "c.yaml"
    path.write_text("- rule: (E[(label == 0) & (kind == 'x')] <= 1).allow_empty()\n")
    [rule] = read_constraints(path)
    assert rule == (E[SPAM & (part("kind") == "x")] <= 1).allow_empty().named("rule")
    assert repr(rule).endswith('<= 1).allow_empty().named("rule")')
    path.write_text("- (E[label == 0] <= 1).allow_empty('maybe')\n")
    with pytest.raises(InvalidInputError, match=r"c\.yaml, line 1, column 3: allow_empty\(\): too many positional arg"):
        read_constraints(path)
