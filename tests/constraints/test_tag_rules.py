import numpy as np
import pytest

from spectrem import DependencyModel
from spectrem.constraints import UNIVERSAL_RULES, compile_constraints, parse_constraint, tag_rules, universal_rules
from spectrem.exceptions import InvalidInputError
from spectrem.structures import ROOT, ValenceTrees

TAGS = ["DET", "NOUN", "VERB", "NOUN"]
RULES = {"VERB": "NOUN", "NOUN": ["DET", "ADJ"]}


def follow(heads, **options):
    """The expected number of arcs that follow the rules, less the least number, in the tree of one sentence."""
    trees = ValenceTrees([4])
    rows = compile_constraints(tag_rules(RULES, **options), trees, trees.arc_columns({"tag": TAGS}))
    [expected] = rows.matrix @ trees.parts_of(heads).unary
    [bound] = rows.bounds  # of `<=`, with both sides negative
    return abs(expected), abs(bound)


def test_arcs_that_follow_rules_are_counted_against_words():
    assert follow([1, 2, ROOT, 2], roots="VERB") == (4.0, 3.2)
    assert follow([1, 2, ROOT, 2]) == (3.0, 3.2)
    assert follow([2, ROOT, 1, 2], share="50%", roots=["VERB"]) == (1.0, 2.0)
    assert follow([1, ROOT, 1, 2], share=1, roots=["NOUN", "VERB"], per="sentence") == (3.0, 4.0)


def test_heads_may_have_no_children_and_none_is_the_root():
    expected = tag_rules(RULES, roots=["VERB"])
    assert tag_rules({**RULES, "AUX": [], "ADP": None, None: "VERB"}) == expected
    text = "tag_rules({'VERB': 'NOUN', 'AUX': [], 'NOUN': ['DET', 'ADJ']}, roots='VERB')"
    assert parse_constraint(text) == expected


def test_universal_rules_are_a_line_of_the_language():
    assert sum(map(len, UNIVERSAL_RULES.values())) == 31
    rules = tag_rules(UNIVERSAL_RULES, 1.0)
    assert parse_constraint("universal_rules") == rules.slack(penalty=4.0, norm="l1").named("universal rules")
    assert universal_rules("80%", penalty=None, per="sentence") == parse_constraint(
        "universal_rules(0.8, penalty=None, per='sentence')"
    )
    assert parse_constraint(repr(universal_rules())) == universal_rules()


def test_rules_for_other_tags_are_refused():
    """With slack they had no effect: every arc had the same price."""
    message = (
        "'universal rules': asks for words tagged 'ADJ', .*, but the tags of the text are 'DT', 'NN', 'VBD'; write"
    )
    with pytest.raises(InvalidInputError, match=message):
        DependencyModel(constraints="universal_rules").fit(["DT NN VBD"])


def test_it_is_a_line_of_the_language():
    rule = tag_rules(RULES, roots="VERB", per="sentence")
    assert parse_constraint(repr(rule)) == rule
    assert parse_constraint('tag_rules({"VERB": ["NOUN"]}, "90%", roots=["VERB"])') == tag_rules(
        {"VERB": ["NOUN"]}, 0.9, roots="VERB"
    )


def test_projection_reaches_the_share():
    from spectrem.inference import project_batch
    from spectrem.structures import Parts

    trees = ValenceTrees([4])
    rows = compile_constraints(tag_rules(RULES, roots="VERB"), trees, trees.arc_columns({"tag": TAGS}))
    found = project_batch(trees, Parts(np.zeros(trees.n_unary)), rows, 1.0)
    np.testing.assert_allclose(rows.matrix @ found.marginals.unary, rows.bounds, atol=1e-6)


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        ({}, {}, "tag_rules: rules allow no arc; name a head with its children, or roots"),
        ([("VERB", "NOUN")], {}, "tag_rules: rules must map tags of heads to tags of children, got "),
        ({"VERB": [], "NOUN": None}, {}, "tag_rules: rules allow no arc; name a head with its children, or roots"),
        (RULES, {"share": 0}, r"tag_rules: share must be in \(0, 1\], got 0; 0.8 is four of five words"),
        (RULES, {"share": "120%"}, "tag_rules: a share is 100% at most, got '120%'"),
    ],
)
def test_wrong_rules_are_named(rules, options, message):
    with pytest.raises(InvalidInputError, match=message):
        tag_rules(rules, **options)
