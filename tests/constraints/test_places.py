"""Expectations of parts elsewhere in an instance, which a group refers to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrem.constraints import E, argument_types, compile_constraints, parse_constraint, part
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical, Product
from spectrem.testing import check_constraint

TYPES, RELATIONS = ("Loc", "Org", "Peop"), ("none", "Kill", "Live_In", "Work_For")
RULES = {"Kill": ("Peop", "Peop"), "Live_In": ("Peop", "Loc"), "Work_For": ("Peop", ["Org", "Loc"])}


def sentences(sizes, chosen=None):
    """The structure of sentences of so many mentions, with all ordered pairs, or those chosen; its columns."""
    pairs = [(n, a, b) for n, size in enumerate(sizes) for a in range(size) for b in range(size) if a != b]
    pairs = pairs if chosen is None else [pair for pair, keep in zip(pairs, chosen, strict=False) if keep]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    structure = Product(
        {"mention": Categorical(np.full(sum(sizes), 3)), "pair": Categorical(np.full(len(pairs), 4))},
        owners={"mention": owner, "pair": np.array([n for n, _, _ in pairs], np.int64)},
        n_instances=len(sizes),
        instance_name="sentence",
    )
    lacking = [np.nan] * (3 * sum(sizes))
    return structure, {
        "type": [*TYPES * sum(sizes), *[None] * (4 * len(pairs))],
        "relation": [*[None] * (3 * sum(sizes)), *RELATIONS * len(pairs)],
        "first": [*lacking, *np.repeat([float(a) for _, a, _ in pairs], 4)],
        "second": [*lacking, *np.repeat([float(b) for _, _, b in pairs], 4)],
    }


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.lists(st.booleans(), min_size=18, max_size=18))
def test_type_rules_equal_a_slow_evaluation(sizes, chosen):
    structure, columns = sentences([2, *sizes], chosen)
    for rule in argument_types(RULES):
        check_constraint(rule, structure, columns)


def test_rows_of_type_rules():
    structure, columns = sentences([2])
    rule = (E[part("relation") == "Live_In"] <= E[part("type") == "Loc"].at("mention", "second")).per(
        "sentence", "pair"
    )
    rows = compile_constraints(rule, structure, columns)
    expected = np.zeros((2, 14))
    expected[0, [8, 5]] = 1, -1  # pair (0, 1) has Live_In; mention 1 is Loc, part 3
    expected[0, [5, 3]] = 0, -1
    expected[1, [12, 0]] = 1, -1
    assert np.array_equal(rows.matrix.toarray(), expected)
    assert rows.row_instance.tolist() == [0, 0]


def test_terms_elsewhere_add_up_with_others():
    structure, columns = sentences([3, 2])
    text = (
        '(2 * E[part("relation") == "Kill"] - 0.5 * E[part("type").isin(["Peop", "Org"])].at("mention", "first") - '
        'E[part("type") == "Peop"].at("mention", "second") <= 0.25 * E.count(...)).per("sentence", "pair")'
    )
    rule = parse_constraint(text)
    assert repr(rule) == text
    check_constraint(rule, structure, columns)
    shares = (E[part("type") == "Loc"].at("mention", "first") / E.count(...) >= 0.1).per("sentence", "pair")
    check_constraint(shares, structure, columns)


def test_pairs_of_sentences_of_one_shard_stay_apart():
    structure, columns = sentences([2, 2])
    rows = compile_constraints(argument_types(RULES), structure, columns)
    assert np.array_equal(
        structure.instance[rows.matrix.indices], np.repeat(rows.row_instance, np.diff(rows.matrix.indptr))
    )


def test_texts():
    rules = argument_types(RULES)
    assert [rule.name for rule in rules] == [
        "first argument of Kill, Live_In, Work_For: Peop",
        "second argument of Live_In: Loc",
        "second argument of Work_For: Org or Loc",
        "second argument of Kill: Peop",
    ]
    assert [parse_constraint(repr(rule)) for rule in rules] == list(rules)
    again = parse_constraint("argument_types({'Kill': ('Peop', 'Peop'), 'Born': ['Peop', ['Loc', 'Org']]})")
    assert again == argument_types({"Kill": ("Peop", "Peop"), "Born": ("Peop", ("Loc", "Org"))})
    assert len(argument_types({"Kill": ("Peop", None)})) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: argument_types({"Kill": "Peop"}), "'Kill' needs types for 2 arguments, first, second, got 'Peop'"),
        (lambda: argument_types({"Kill": ("Peop",)}), "needs types for 2 arguments"),
        (lambda: argument_types({"Kill": (None, None)}), "nothing is demanded"),
        (lambda: argument_types({"Kill": ("Peop", [])}), "labels is empty"),
        (lambda: E.count(...).at("mention", "first"), "at takes the names of two columns, once, behind an expectation"),
        (lambda: E[...].at("a", "b").at("a", "b"), "once, behind an expectation"),
        (lambda: E[...].at("a", 1), "at takes the names of two columns"),
    ],
)
def test_what_is_not_a_rule_is_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            (E[...] <= E[...].at("mention", "first")).per("pair"),
            r'looks for parts inside instances; .* \.per\("sentence"',
        ),
        ((E[...] <= E[...].at("mention", "first")).per("sentence"), "'first' must have one value in every group"),
        ((E[...] <= E[...].at("mention", "third")).per("sentence", "pair"), "there is no column 'third'"),
        ((E[...] <= E[...].at("type", "first")).per("sentence", "pair"), "column 'first' must be text in all"),
    ],
)
def test_columns_that_do_not_fit_are_named(rule, message):
    structure, columns = sentences([3])
    with pytest.raises(InvalidInputError, match=message):
        compile_constraints(rule, structure, columns)
