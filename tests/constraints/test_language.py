import copy
import pickle

import numpy as np
import pytest

from spectrem.constraints import E, Slack, agreement, fertility, linear, max_over, part
from spectrem.exceptions import InvalidInputError

VERB = part("tag") == "VERB"

TEXTS = [
    '(E[part("tag") == "VERB"] >= 1).per("sentence")',
    '(E[part("source") != -1] <= 1).per("sentence", "source")',
    '(E[part("direction") == "forward"] == E[part("direction") == "backward"]).per("sentence", "source", "target")',
    '(E[part("relation") == "Located_In"] <= E[part("type2") == "Loc"]).per("pair")',
    'E[part("relation") == "r"].between(3, 10)',
    '(E[...] >= 1).per("image", "component")',
    '(E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence")',
    'max_over("occurrence", E[...].per("word", "tag")).penalty(32)',
    'max_over("occurrence", E[part("n") >= 10]).penalty(0.5).named("sparse")',
    '(E[part("tag") == "VERB"] >= 1).slack(penalty=10, norm="l2")',
    '(E[part("tag") == "VERB"] >= 1).per("sentence").slack(bound=0.1, norm="l1").named("one verb")',
    'E[part("a")] - 2 * E[part("b")] + 1 == -0.5 * E[part("c")] - 3',
    '(-E[part("a")] + E.count(...)).between(-1, E[part("b")] + 2).per("x").named("odd")',
    "E.count(...) <= E[...]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_evaluates_back_to_an_equal_constraint(text):
    constraint = eval(text)
    assert repr(constraint) == text
    assert constraint == eval(text)
    assert len({constraint, eval(text), pickle.loads(pickle.dumps(constraint)), copy.deepcopy(constraint)}) == 1


def test_lines_of_the_design():
    relation, type2, component = part("relation"), part("type2"), part("component")
    lines = [
        (E[VERB] >= 1).per("sentence"),
        (E[part("source") != -1] <= 1).per("sentence", "source"),
        E[part("direction") == "forward"].per("sentence", "source", "target")
        == E[part("direction") == "backward"].per("sentence", "source", "target"),
        E[relation == "Located_In"].per("pair") <= E[type2 == "Loc"].per("pair"),
        E[relation == "r"].between(3, 10),
        E[component >= 0].per("image", "component") >= 1,
        E[part("conserved")].per("sentence") >= 0.9 * E.count(part("conserved")),
        max_over("occurrence", E[...].per("word", "tag")).penalty(32),
    ]
    assert [repr(line) for line in lines[:5]] == TEXTS[:5]
    assert [repr(line) for line in lines[6:]] == TEXTS[6:8]
    assert len(set(lines)) == len(lines)


def test_per_inside_and_outside_mean_the_same():
    outside = (E[VERB] >= 1).per("sentence")
    assert outside == (E[VERB].per("sentence") >= 1) == (np.int64(1) <= E[VERB].per("sentence"))
    assert hash(outside) == hash(E[VERB].per("sentence") >= 1)
    assert outside != (E[VERB] >= 1)
    assert outside != (E[VERB] <= 1).per("sentence")
    assert outside != "something else"


def test_arithmetic_of_expectations():
    assert repr(2 * (E[VERB] / 4 - 1) - E.count(VERB)) == f"0.5 * E[{VERB!r}] - E.count({VERB!r}) - 2"
    assert repr(np.float64(0.5) * E[...] + np.int64(1)) == "0.5 * E[...] + 1"
    assert repr(1 - E[...]) == "-E[...] + 1"
    assert repr(1 + E[...].per("x") - E[...]) == '(E[...] - E[...] + 1).per("x")'
    assert repr(-(E[...] * 3)) == "-3 * E[...]"
    assert repr(E) == "E"


def test_same_columns_in_another_order_are_one_grouping():
    assert (E[VERB].per("a", "b") <= E[...].per("b", "a")).groups == ("a", "b")


def test_between_equal_bounds_is_equality():
    assert E[VERB].between(2, 2) == (E[VERB] == 2)
    assert E[VERB].between(2, 2).equality


def test_name_and_slack():
    constraint = (E[VERB] >= 1).per("sentence")
    assert constraint.name == TEXTS[0]
    assert constraint.named("verbs").name == "verbs"
    assert constraint.slack(bound=2.0, norm="linf").allowance == Slack("bound", "linf", 2)
    assert constraint.slack(penalty=3).allowance == Slack("penalty", "l2", 3)
    assert constraint.allowance is None


def test_shortcuts_read_as_what_they_mean():
    names = '("sentence", "direction", "state").named("fertility")'
    assert repr(fertility(1)) == f'(E[part("state") != -1] <= 1).per{names}'
    assert repr(fertility(None, 0.5)) == f'(E[part("state") != -1] >= 0.5).per{names}'
    assert repr(fertility(2, 1)) == f'E[part("state") != -1].between(1, 2).per{names}'
    assert repr(agreement()) == TEXTS[2] + '.named("agreement")'
    assert agreement().slack(penalty=1, norm="l1").allowance == Slack("penalty", "l1", 1)


def test_linear_reads_as_its_shape():
    text = 'linear(<2 x 3 matrix, 4 stored>, b, ">=", name="mine", scope="instance").slack(bound=1, norm="l2")'
    U = np.array([[1, 0, 1], [0, 2.0, 3]])
    constraint = linear(U, [1, 2], ">=", name="other", scope="instance").named("mine").slack(bound=1)
    assert repr(constraint) == text
    assert constraint.name == "mine"
    assert repr(linear(U[0], 1)).startswith("linear(<1 x 3 matrix, 2 stored>")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: E["tag"], r'E\[\.\.\.\] takes a condition or weights.*got \'tag\'; write part\("tag"\)'),
        (lambda: E["tag" == "VERB"], r'got False; is the left side of == a part\("..."\)\?'),
        (lambda: E.count(np.ones(3)), r"E\.count\(\.\.\.\) takes a condition or weights"),
        (lambda: E[VERB] * E[VERB], "a product of expectations is not linear; use a number"),
        (lambda: E[VERB] / 0, "an expectation is divided by a count or a number but 0"),
        (lambda: E[VERB] * "a", "expected a number, a share as '20%' or an expectation, got the text \"a\""),
        (lambda: E[VERB] <= [1, 2], r"<= takes a finite number or an expectation, got \[1, 2\]; .* use linear\(U, b\)"),
        (lambda: E[VERB] >= float("inf"), ">= takes a finite number or an expectation, got inf"),
        (lambda: E[VERB] != 1, "!= is not a linear constraint; use <=, >=, == or between"),
        (lambda: E[VERB] < 1, "a strict bound is not closed; use <="),
        (lambda: E[VERB] > 1, "a strict bound is not closed; use >="),
        (lambda: E.count(VERB) <= 1, r"is compared with a constant; one side needs an expectation E\[...\]"),
        (lambda: E[VERB].between(3, 2), "between needs low <= high, got low=3 and high=2; swap them"),
        (lambda: 1 <= E[VERB] <= 2, r"neither true nor false; for two bounds write E\[...\].between\(low, high\)"),
        (
            lambda: E[VERB].per(),
            r'per takes one or more different names of columns, got \(\); write .per\("sentence"\)',
        ),
        (lambda: E[VERB].per("a", "a"), r"per takes one or more different names of columns, got \('a', 'a'\)"),
        (lambda: E[VERB].per("a") <= E[VERB].per("b"), r'one grouping, got .per\("a"\) and .per\("b"\); group both'),
        (lambda: (E[VERB].per("a") <= 1).per("b"), r"one constraint has one grouping"),
        (lambda: (E[VERB] <= 1).slack(), "exactly one of penalty= and bound=, got penalty=None and bound=None"),
        (lambda: (E[VERB] <= 1).slack(penalty=1, bound=1), "exactly one of penalty= and bound="),
        (lambda: (E[VERB] <= 1).slack(penalty=0), "penalty must be a positive finite number, got 0; for no slack"),
        (lambda: (E[VERB] <= 1).slack(bound=float("inf")), "bound must be a positive finite number, got inf"),
        (lambda: (E[VERB] <= 1).slack(bound=1, norm="l3"), 'norm must be "l1", "l2" or "linf", got \'l3\''),
        (lambda: (E[VERB] <= 1).named(""), "a constraint's name must be a text that is not empty, got ''"),
        (lambda: max_over(E[VERB], "occurrence"), "max_over takes the name of a column and an expectation"),
        (lambda: max_over("a", E[VERB].per("a")), 'max_over: "a" must not be among the groups of'),
        (lambda: max_over("a", E.count(VERB)), r"max_over needs an expectation E\[...\], got the constant"),
        (lambda: max_over("a", E[VERB]).penalty(-1), "penalty must be a positive finite number, got -1"),
        (lambda: max_over("a", E[VERB]).penalty(1).per("b"), "max_over is grouped inside"),
        (lambda: max_over("a", E[VERB]).penalty(1).slack(bound=1), r"is slack already; leave .slack\(...\) out"),
        (lambda: fertility(None), "fertility bounds nothing, got min=0 and max=None; give max or a min above 0"),
        (lambda: fertility(1, 2), "fertility needs 0 <= min <= max, got min=2 and max=1"),
        (lambda: fertility(1, -1), "fertility needs 0 <= min <= max, got min=-1 and max=1"),
        (lambda: linear(np.eye(2), [1, 2, 3]), r"b needs one number or one per row of U, got shape \(3,\) for 2 rows"),
        (lambda: linear(np.eye(2), 1, "<"), 'linear: sense must be "<=", ">=" or "==", got \'<\''),
        (lambda: linear(np.eye(2), 1, scope="row"), 'linear: scope must be "instance" or "corpus", got \'row\''),
        (lambda: linear(np.eye(2), np.nan), "linear: U and b must be finite, got NaN or infinity; leave rows"),
        (lambda: linear([[np.inf]], 1), "linear: U and b must be finite"),
    ],
)
def test_errors(act, message):
    with pytest.raises(InvalidInputError, match=message):
        act()


def test_values_cannot_be_changed():
    constraint = E[VERB] <= 1
    for value, name in [(VERB, "operation"), (E[VERB], "constant"), (constraint, "label")]:
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
