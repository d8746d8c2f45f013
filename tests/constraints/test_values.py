"""Conditions that name values which the data do not have."""

import numpy as np
import pytest
from shard_helpers import compile_all
from sklearn.naive_bayes import GaussianNB

from spectrem import (
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    GaussianMixture,
    HMMTagger,
    Lattice,
    SelfTrainer,
    part,
    project,
)
from spectrem.constraints import (
    check_columns,
    check_values,
    compile_constraints,
    label_proportions,
    read_constraints,
    tag_rules,
)
from spectrem.data import ParsedSentence
from spectrem.exceptions import InvalidInputError
from spectrem.structures import (
    Alignment,
    Categorical,
    Known,
    NonProjectiveTrees,
    Product,
    ProjectiveTrees,
    ValenceTrees,
)

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
    text, tags = [["the", "cat"], ["a", "cat"]], [["D", "N"], ["D", None]]
    few = (E[(part("word") == "cta") & (part("tag") == "N")] <= 5).named("rule")
    with pytest.raises(InvalidInputError, match="'rule': there is no word 'cta'; did you mean 'cat'"):
        HMMTagger(constraints=[few]).fit(text, tags)
    HMMTagger(constraints=[few.allow_empty()]).fit(text, tags)
    known = (E[(part("word") == "cat") & (part("tag") == "N")] <= 5).named("rule")
    tagger = HMMTagger(constraints=[known], project_at_predict=True).fit(text, tags)
    assert len(tagger.predict([["the", "the"]])[0]) == 2


TREES = [ProjectiveTrees([2, 1]), NonProjectiveTrees([2, 1]), ValenceTrees([2, 1])]
LINKS = Alignment([2], [1]), Alignment([1], [2], reverse=True)


@pytest.mark.parametrize(
    ("structure", "column", "value", "known"),
    [
        *((trees, "direction", "lfet", "'left'") for trees in TREES),
        (LINKS[0], "direction", "foreward", "'forward'"),
        (Product({"forward": LINKS[0], "backward": LINKS[1]}, name="direction"), "direction", "forwards", "'forward'"),
        (Product({"text": Categorical([2]), "links": Categorical([2])}), "view", "txet", "'text'"),
        (Known(TREES[0], np.array([0.0, 1, 0, 1, 1])), "direction", "lfet", "'left'"),
    ],
    ids=str,
)
def test_text_that_a_column_of_a_structure_never_has_is_refused(structure, column, value, known):
    for condition in (part(column) == value, part(column) != value, part(column).isin([value, known.strip("'")])):
        for rule in (E[condition] <= 1, (E[...] <= E.count(condition) + 9).per(structure.instance_name)):
            message = f"there is no {column} '{value}'; did you mean {known}[?] the {column}s are"
            with pytest.raises(InvalidInputError, match=message):
                compile_constraints(rule.allow_empty(), structure)
    compile_constraints(E[part(column) == known.strip("'")] <= 9, structure)


def test_a_column_given_in_the_place_of_the_own_one_has_its_own_values():
    rule = E[part("direction") == "up"] <= 1
    assert compile_constraints(rule, TREES[0], {"direction": ["up", "down"] * 2 + ["up"]}).matrix.nnz == 3


def test_a_structure_may_lack_a_value_that_there_is():
    for trees in (ProjectiveTrees([1, 1]), ProjectiveTrees([])):
        assert compile_constraints(E[part("direction") == "left"] <= 1, trees).matrix.nnz == 0


QUICK = {"max_iter": 2, "tol": 1e6, "n_threads": 1}
TEXT = ["DET NOUN VERB", "NOUN VERB", "VERB"]
PARSED = [ParsedSentence(tuple(own.split()), tuple(own.split()), ("_",) * len(own.split())) for own in TEXT]
KNOWN = PARSED[1]._replace(heads=np.array([1, -1]))
MISSPELT = tag_rules({"VREB": ["NOUN"], "NOUN": ["DET"]}, roots="VERB")
SLACK = MISSPELT.slack(penalty=4, norm="l1")


@pytest.mark.parametrize("rule", [MISSPELT, SLACK, tag_rules({"VERB": ["NUON", "DET"]}), tag_rules({}, roots="VREB")])
def test_a_misspelt_tag_of_a_rule_is_refused(rule):
    """With slack, a rule that no arc can follow had no effect; without it, prices grew without end."""
    for fit in (
        lambda rules: DependencyModel(constraints=rules, **QUICK).fit(TEXT),
        lambda rules: EdgeFactoredParser(bits=6, learner="batch", constraints=rules, **QUICK).fit([*PARSED, KNOWN]),
    ):
        message = r"^'tag rules': there is no (head|dependent)_tag .*did you mean '(VERB|NOUN)'.*; leave out a tag that"
        with pytest.raises(InvalidInputError, match=message):
            fit([rule])
        fit([tag_rules({"VERB": ["NOUN", "PROPN", "NNP", "QQQ"], "ADJ": "NUM"}, 0.3, roots="VERB")])


def test_tags_that_the_model_has_are_no_slips():
    rule = tag_rules({"VERB": ["NOUN", "VREB"]}, "30%", roots="VERB")
    model = DependencyModel(constraints=[rule], tags=["DET", "NOUN", "VERB", "VREB"], project_at_predict=True)
    model.set_params(**QUICK, dual_steps=0, decode="posterior").fit(TEXT)
    assert model.predict(["VERB"])[0].tolist() == [-1]  # a text without any of the others
    plain = (E[part("head_tag") == "NUM"] <= 3).named("rule")
    with pytest.raises(InvalidInputError, match="^'rule': there is no head_tag 'NUM'.*" + HINT + "$"):
        DependencyModel(constraints=[plain], **QUICK).fit(TEXT)
    DependencyModel(constraints=[plain.allow_empty()], **QUICK).fit(TEXT)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (
            lambda rule: DependencyModel(constraints=[rule], **QUICK).fit(TEXT, columns={"kind": ["a", "b", None]}),
            "there is no kind 'c'; the kinds are 'a', 'b'",
        ),
        (
            lambda rule: CRFTagger(features="words", constraints=[rule], **QUICK).fit(
                TEXT, [*[own.split() for own in TEXT[:-1]], None], columns={"kind": [["a"] * 3, [None] * 2, ["b"]]}
            ),
            "there is no kind 'c'; the kinds are 'a', 'b'",
        ),
        (
            lambda rule: EdgeFactoredParser(bits=6, n_threads=1, constraints=[rule]).fit(
                [*PARSED, KNOWN], columns={"kind": ["a", "b", None, "a"]}
            ),
            "there is no kind 'c'; the kinds are 'a', 'b'",
        ),
    ],
)
def test_columns_given_with_sentences_are_looked_at(fit, message):
    rule = (E[part("kind") == "c"] <= 5).named("rule")
    with pytest.raises(InvalidInputError, match=f"^'rule': {message}{HINT}$"):
        fit(rule)
    fit(rule.allow_empty())


def test_words_that_a_tagger_or_parser_does_not_meet():
    rule = (E[part("word") == "NUON"] <= 5).named("rule")
    with pytest.raises(InvalidInputError, match="'rule': there is no word 'NUON'; did you mean 'NOUN'"):
        CRFTagger(features="words", constraints=[rule], **QUICK).fit(TEXT, [own.split() for own in TEXT])
    rule = (E[part("head_form").isin(["NUON", "DTE"])] <= 5).named("rule")
    with pytest.raises(InvalidInputError, match="'rule': there is no head_form 'NUON'; did you mean 'NOUN'"):
        EdgeFactoredParser(bits=6, n_threads=1, constraints=[rule]).fit([*PARSED, KNOWN])


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


@pytest.mark.parametrize("tags", [[4, 5], ["4", "5"], np.array([4, 5])], ids=["numbers", "texts", "array"])
@pytest.mark.parametrize(("four", "five"), [(4, 5), ("4", "5"), ("4", 5)])
def test_a_tag_is_meant_whatever_its_type(tags, four, five):
    structure = Categorical([2, 2, 2])
    columns = {"head_tag": np.tile(tags, 3), "word": np.array(["a", "5", "b"])}
    real = [4, 5] if not isinstance(tags[0], str) else ["4", "5"]

    def compiled(one, other):
        tag = part("head_tag")
        rules = [
            E[tag == other] >= 0.5 * E.count((tag != other) | (part("word") == "5")),
            E[~tag.isin([other, one])] / E.count(tag == other) <= 0.5,
            E[tag.allowed_by(part("word"), {"a": [other], "5": [one, other]})].between(1, 2),
        ]
        check_values(rules, "head_tag", tags)
        return compile_constraints(rules, structure, columns)

    rows, expected = compiled(four, five), compiled(*real)
    assert rows.matrix.nnz > 0
    np.testing.assert_array_equal(rows.matrix.toarray(), expected.matrix.toarray())
    np.testing.assert_array_equal(rows.bounds, expected.bounds)


def test_tags_that_there_are_not_are_named_as_they_are_written():
    for value, shown in ((7, "7"), ("7", "'7'"), ("5.0", "'5.0'"), ("x", "'x'")):
        with pytest.raises(InvalidInputError, match=f"there is no tag {shown}; "):
            check_values([some(part("tag") == value)], "tag", [4, 5])
    check_values([some(part("word") == "a")], "tag", [4, 5])
    for value in (5, "5", 5.0):
        check_values([some(part("tag") == value), some(part("tag").isin([value]))], "tag", ["4", "5"])
    with pytest.raises(InvalidInputError, match="there is no first 3; the firsts are 'a', 'b'"):
        check_columns(some(part("first") == 3), {"first": ["a", "b"]})
    with pytest.raises(InvalidInputError, match="compares text with numbers"):
        compile_constraints(some(part("word") == 3), Categorical([2]), {"word": ["3"]})
