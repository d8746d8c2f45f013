import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.constraints import part
from spectrem.constraints.columns import evaluate
from spectrem.exceptions import InvalidInputError

COLUMNS = {
    "tag": np.array(["VERB", "NOUN", "VERB"]),
    "word": np.array(["a", "b", "c"]),
    "x": np.array([-1, 0, 4]),
    "y": np.array([0.5, 2.0, -3.0]),
    "flag": np.array([True, False, True]),
}


def value(expression):
    return evaluate(expression, COLUMNS.__getitem__).tolist()


def test_comparisons_and_connectives():
    assert value(part("tag") == "VERB") == [True, False, True]
    assert value((part("tag") != "VERB") | (part("x") > 0)) == [False, True, True]
    assert value((part("x") >= 0) & ~(part("x") == 4)) == [False, True, False]
    assert value(part("flag") & (part("y") < 0)) == [False, False, True]
    assert value(part("x") <= part("y")) == [True, True, False]
    assert value(np.int64(3) < part("x")) == [False, False, True]


def test_isin_on_text_and_numbers():
    assert value(part("tag").isin(["VERB", "ADJ"])) == [True, False, True]
    assert value(part("x").isin({4, 0})) == [False, True, True]
    assert value(part("x").isin([])) == [False, False, False]


def test_arithmetic_is_in_floats_and_takes_conditions_as_0_and_1():
    assert value(1 - part("flag")) == [0.0, 1.0, 0.0]
    assert value(-(part("x") * 2 + 1) / 2) == [0.5, -0.5, -4.5]
    assert value((part("tag") == "VERB") - (part("tag") == "NOUN")) == [1.0, -1.0, 1.0]
    assert value(np.float64(2) * part("x") - np.int64(1)) == [-3.0, -1.0, 7.0]


@pytest.mark.parametrize(
    "text",
    [
        'part("tag") == "VERB"',
        'part("a\\"b") != "c\\n"',
        '(part("x") == 1) & (part("y") < 2.5) & ~part("flag")',
        '(part("x") == 1) | (part("y") < 2) & part("flag")',
        '((part("x") == 1) | part("flag")) & part("flag")',
        '(part("x") == 1) == (part("y") == 2)',
        'part("x") - (part("y") - 1) - -2',
        '-(part("x") + 1) * 3 / part("y") >= part("x")',
        '(part("x") + 1).isin([1, 2])',
        '2 / part("x") - 1',
        '~~part("flag")',
    ],
)
def test_text_evaluates_back_to_itself(text):
    assert repr(eval(text)) == text


leaves = st.sampled_from([part("x"), part("y"), part("flag")])
numbers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner | st.integers(-3, 3)),
        st.builds(lambda a, b: b - a, inner, st.integers(-3, 3)),
        st.builds(lambda a: -a, inner),
    ),
)
conditions = st.recursive(
    st.builds(lambda a, b: a <= b, numbers, numbers),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a, b: a == b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
)


@given(conditions)
def test_any_text_evaluates_back_to_the_same_values(expression):
    again = eval(repr(expression))
    assert repr(again) == repr(expression)
    assert hash(again) == hash(expression)
    assert value(again) == value(expression)


def test_whole_numbers_print_alike():
    assert repr(part("x") == 2.0) == repr(part("x") == np.int32(2)) == 'part("x") == 2'


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: bool(part("x") == 1),
            r'part\("x"\) == 1 has one value per part, so it is neither true nor false; join',
        ),
        (lambda: 1 <= part("x") <= 3, r"join conditions with &, \|, ~"),
        (lambda: part("x") == np.array([1, 2]), "expected a finite number, a text or another part"),
        (lambda: part("x") == float("nan"), "expected a finite number.*got nan; pass"),
        (lambda: part("x") == None, "got None; pass arrays as extra columns"),  # noqa: E711
        (lambda: part(3), r'part takes the name of a column as text, got 3; write part\("tag"\)'),
        (lambda: part("tag").isin("VERB"), r'isin takes a list of values, got the text "VERB"; write isin\(\[...\]\)'),
        (lambda: value(part("x") == "VERB"), r'part\("x"\) == "VERB" compares numbers with text; use a value of'),
        (lambda: value(part("word").isin([1])), r'part\("word"\).isin\(\[1\]\) compares text with numbers'),
        (lambda: value(part("tag") < part("x")), "compares text with numbers"),
        (lambda: value(part("x") & part("flag")), r"& joins conditions, and part\(\"x\"\) holds numbers; compare it"),
        (lambda: value(~part("tag")), r'~ joins conditions, and part\("tag"\) holds text'),
        (lambda: value(part("tag") + 1), r'arithmetic needs numbers, and part\("tag"\) is text'),
    ],
)
def test_errors(act, message):
    with pytest.raises(InvalidInputError, match=message):
        act()
