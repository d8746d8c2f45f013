"""Random constraints of the language over the columns of ``make_tagging`` and `EXTRA`."""

import numpy as np
from hypothesis import strategies as st

from spectrem.constraints import E, max_over, part

TAGS, WORDS = ("NOUN", "VERB", "ADJ"), ("be", "NO", "null", "3", "é: x", "be")
ODD_NAMES = ("all", "not", "E", "part", "class", "at_most", "lambda", ">=", "a: b", "ﬁ", "é", "", 'say "it"', "x" * 600)
EXTRA = {
    "word": np.array(WORDS),
    "n": np.array([0.5, 1.0, 2.0, 1e-7, 3.0, 1e20]),
    "flag": np.array([True, False, True, True, False, False]),
    **{name: np.arange(6) + 0.5 for name in ODD_NAMES},
}

numbers = st.sampled_from([0, 1, -2, 3.5, 1e-7, 1e10, 0.1, 10**30]) | st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
texts = st.sampled_from(WORDS + TAGS) | st.text(st.characters(codec="utf-8"), max_size=6)
numeric = st.sampled_from([part("n"), *map(part, ODD_NAMES)])
text_column = st.sampled_from([part("tag"), part("word")])
SIGNS = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def comparisons(column, values):
    return st.builds(lambda c, s, v: getattr(c, s)(v), column, st.sampled_from(list(SIGNS.values())), values)


sums = st.recursive(
    numeric,
    lambda inner: (
        st.builds(lambda a, b: a + b, inner, inner | numbers)
        | st.builds(lambda a, b: b - a, inner, inner | numbers)
        | st.builds(lambda a, b: a * b, inner, inner | numbers)
        | st.builds(lambda a: -a / 4, inner)
    ),
    max_leaves=4,
)
conditions = st.recursive(
    comparisons(text_column, texts | text_column)
    | comparisons(sums | st.sampled_from([part("token"), part("sentence")]), numbers | numeric)
    | st.builds(lambda c, v: c.isin(v), text_column, st.lists(texts, min_size=1, max_size=3))
    | st.builds(lambda v: (part("n") + 1).isin(v), st.lists(numbers, min_size=1, max_size=3))
    | st.just(part("flag"))
    | st.builds(lambda d: part("tag").allowed_by(part("word"), d), st.dictionaries(texts, st.lists(texts, max_size=2)))
    | st.builds(
        lambda d: part("token").allowed_by(part("sentence"), d),
        st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 2), max_size=2)),
    ),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(lambda a: ~a, inner)
    ),
    max_leaves=4,
)
weights = st.just(...) | conditions | sums | st.builds(lambda a, b: a * b, conditions, sums)
counts = st.builds(
    lambda w, each: E.count(w, each=each), conditions | st.just(...), st.sampled_from([None, "word", "a: b"])
)
terms = st.builds(lambda w, t: t * E[w], weights, numbers) | st.builds(lambda c, t: t * c, counts, numbers)
terms |= st.builds(lambda t, c, f: t / (f * c), terms, counts, numbers.filter(bool))
sides = st.builds(lambda first, rest, number: sum(rest, first) + number, terms, st.lists(terms, max_size=2), numbers)
sides |= st.builds(lambda w: E[w], weights)
groups = st.lists(st.sampled_from(["sentence", "word", "tag", "flag", "all", "a: b"]), unique=True, max_size=2)
slacks = st.none() | st.builds(
    lambda which, strength, norm: {which: strength, "norm": norm},
    st.sampled_from(["penalty", "bound"]), st.sampled_from([1, 0.25, 32]), st.sampled_from(["l1", "l2", "linf"]),
)  # fmt: skip
names = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from(["x" * 2000, "yes"])


@st.composite
def constraints(draw):
    side = E[draw(weights)] + (draw(terms) if draw(st.booleans()) else 0)
    bound, per = draw(numbers | sides), draw(groups)
    kind = draw(st.sampled_from(["<=", ">=", "==", "between", "range", "max_over"]))
    if kind == "max_over":
        made = max_over("occurrence", side.per(*per) if per else side).penalty(draw(st.sampled_from([1, 2.5])))
    else:
        low, high = sorted(draw(st.tuples(numbers, numbers)))
        term = draw(terms)
        made = {
            "<=": lambda: side <= bound,
            ">=": lambda: side >= bound,
            "==": lambda: side == bound,
            "between": lambda: side.between(low, high),
            "range": lambda: side.between(low * term, high * term),
        }[kind]()
        made = made.per(*per) if per else made
        slack = draw(slacks)
        made = made.slack(**slack) if slack else made
    made = made.allow_empty() if draw(st.booleans()) else made
    name = draw(names)
    return made.named(name) if name else made
