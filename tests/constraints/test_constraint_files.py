import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectrem.constraints import (
    E,
    agreement,
    at_least,
    at_least_one_per,
    at_most,
    cannot_link,
    cluster_size,
    compile_constraints,
    dictionary_in_expectation,
    fertility,
    label_proportions,
    max_over,
    must_link,
    part,
    sparsity,
    tag_proportions,
)
from spectrem.constraints import file_nodes as nodes
from spectrem.constraints.file_columns import RESERVED
from spectrem.constraints.file_nodes import ConstraintFileError
from spectrem.constraints.files import read_constraints, write_constraints
from spectrem.exceptions import InvalidInputError

FORMATS = ["json", "yaml"]
TAGS, WORDS = ("NOUN", "VERB", "ADJ"), ("be", "NO", "null", "3", "é: x", "be")
ODD_NAMES = ("all", "not", "column", ">=", "expect", "a: b", "x" * 600)
EXTRA = {
    "word": np.array(WORDS),
    "n": np.array([0.5, 1.0, 2.0, 1e-7, 3.0, 1e20]),
    "flag": np.array([True, False, True, True, False, False]),
    **{name: np.arange(6) + 0.5 for name in ODD_NAMES},
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "constraints.md"


def read(text, format="yaml", **options):
    if format == "yaml":
        pytest.importorskip("yaml")
    return read_constraints(io.StringIO(text), format=format, **options)


def written(constraints, format):
    stream = io.StringIO()
    write_constraints(constraints, stream, format=format)
    return stream.getvalue()


def assert_same_rows(left, right, structure, extra):
    one, other = (compile_constraints(listed, structure, extra) for listed in (left, right))
    assert (one.matrix != other.matrix).nnz == 0
    np.testing.assert_array_equal(one.bounds, other.bounds)
    np.testing.assert_array_equal(one.row_instance, other.row_instance)
    for a, b in zip(one.blocks, other.blocks, strict=True):
        assert (a.name, a.start, a.stop, a.equality, a.scope, a.slack) == (
            b.name, b.start, b.stop, b.equality, b.scope, b.slack
        )  # fmt: skip
        np.testing.assert_array_equal(a.slack_group, b.slack_group)


# Random constraints of the language.

numbers = st.sampled_from([0, 1, -2, 3.5, 1e-7, 1e10, 0.1]) | st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
texts = st.sampled_from(WORDS + TAGS) | st.text(st.characters(codec="utf-8"), max_size=6)
numeric = st.sampled_from([part("n"), *map(part, ODD_NAMES)])
text_column = st.sampled_from([part("tag"), part("word")])


def comparisons(column, values):
    sign = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    signs = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
    return st.builds(lambda c, s, v: getattr(c, signs[s])(v), column, sign, values)


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
terms = st.builds(lambda w, t: t * E[w], weights, numbers) | st.builds(
    lambda w, t, each: t * E.count(w, each=each), conditions | st.just(...), numbers, st.sampled_from([None, "word"])
)
sides = st.builds(lambda first, rest, number: sum(rest, first) + number, terms, st.lists(terms, max_size=2), numbers)
sides |= st.builds(lambda w: E[w], weights)
groups = st.lists(st.sampled_from(["sentence", "word", "tag", "flag", "all", "a: b"]), unique=True, max_size=2)
slacks = st.none() | st.builds(
    lambda which, strength, norm: {which: strength, "norm": norm},
    st.sampled_from(["penalty", "bound"]), st.sampled_from([1, 0.25, 32]), st.sampled_from(["l1", "l2", "linf"]),
)  # fmt: skip


@st.composite
def constraints(draw):
    side = E[draw(weights)] + (draw(terms) if draw(st.booleans()) else 0)
    bound = draw(numbers | sides)
    per = draw(groups)
    if draw(st.integers(0, 4)) == 0:
        made = max_over("occurrence", side.per(*per) if per else side).penalty(draw(st.sampled_from([1, 2.5])))
    else:
        made = draw(
            st.sampled_from([side <= bound, side >= bound, side == bound])
            | st.builds(lambda x: side.between(min(x), max(x)), st.tuples(numbers, numbers))
            | st.builds(lambda x, c: side.between(c * x[0], c * x[1]), st.tuples(numbers, numbers), terms)
        )
        made = made.per(*per) if per else made
        slack = draw(slacks)
        made = made.slack(**slack) if slack else made
    name = draw(st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=8))
    return made.named(name) if name else made


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(listed=st.lists(constraints(), max_size=2))
def test_what_is_written_reads_back_with_the_same_rows(make_tagging, format, listed):
    if format == "yaml":
        pytest.importorskip("yaml")
    again = read(written(listed, format), format)
    assert list(map(repr, again)) == list(map(repr, listed))
    assert_same_rows(listed, again, make_tagging(), EXTRA)


FIELDS = (*WORDS, *RESERVED, "tags", "at_least", "at_most", "equals", "between", "of", "per", "slack", "name", "times",
          "each", "max_over", "penalty", "bound", "norm", "l1", "strength", "share", "sparsity", "min_count", "max",
          "min", "tag_proportions", "dictionary_in_expectation", "fertility", "agreement", "10%", "tag")  # fmt: skip
anything = st.recursive(
    st.sampled_from([*FIELDS, None, True, 0, 1, -1, 0.5, 10**30, 10**400, float("nan"), ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
)
heads = st.sampled_from([{"expect": {"tag": "VERB"}, "at_most": 1}, {"tags": "VERB", "at_most": 1}, {"expect": "all"}])
entries = st.builds(lambda head, more: {**head, **more}, heads, st.dictionaries(st.sampled_from(FIELDS), anything))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(listed=st.lists(entries | anything, min_size=1, max_size=2))
def test_whatever_a_file_holds_it_is_read_or_refused(listed):
    try:
        made = read(json.dumps(listed), "json")
    except ConstraintFileError:
        return
    assert read(written(made, "json"), "json") == made


SHORTCUTS = [
    ("- {tags: VERB, at_least: 1}", [at_least(1, "VERB")]),
    ("- {tags: [VERB, AUX], at_most: 3, per: document}", [at_most(3, ["VERB", "AUX"], per="document")]),
    ("- {tags: NO, at_least: 1, name: x}", [at_least(1, "NO").named("x")]),
    ("- tag_proportions: {VERB: [10%, 0.2], DET: 10%}", tag_proportions({"VERB": (0.1, 0.2), "DET": 0.1})),
    ("- tag_proportions: [[0, 0.5], [1, 0.2]]", tag_proportions({0: 0.5, 1: 0.2})),
    (
        "- {tag_proportions: {DET: 0.1}, slack: {bound: 5, norm: l1}}",
        [c.slack(bound=5, norm="l1") for c in tag_proportions({"DET": 0.1})],
    ),
    (
        "- label_proportions: {spam: [10%, 0.2], ham: 0.7}",
        label_proportions({"spam": (0.1, 0.2), "ham": 0.7}),
    ),
    ("- label_proportions: {0: 0.5, 2: 10%}", label_proportions({0: 0.5, 2: 0.1})),
    ("- label_proportions: [[0, 0.5], [1, 0.5]]", label_proportions({0: 0.5, 1: 0.5})),
    ("- label_proportions: [20%, 30%, 50%]", label_proportions([0.2, 0.3, 0.5])),
    (
        "- {label_proportions: {VERB: 0.1}, of: occurrence, slack: {penalty: 5, norm: l1}}",
        [c.slack(penalty=5, norm="l1") for c in label_proportions({"VERB": 0.1}, of="occurrence")],
    ),
    ("- cluster_size: {min: 3, max: 5}", [cluster_size(3, 5)]),
    (
        "- {cluster_size: {max: 5}, name: few, slack: {bound: 1}}",
        [cluster_size(max=5).slack(bound=1, norm="l2").named("few")],
    ),
    ("- {at_least_one_per: bag, label: 0}", [at_least_one_per("bag", 0)]),
    ("- at_least_one_per: image", [at_least_one_per("image")]),
    ("- {at_least_one_per: document, label: title, name: t}", [at_least_one_per("document", "title").named("t")]),
    ("- sparsity: 32", [sparsity(32)]),
    ("- {sparsity: 32, min_count: 1}", [sparsity(32, min_count=1)]),
    (
        "- {dictionary_in_expectation: {run: [VERB, NOUN], be: VERB}, strength: 5, share: 10%}",
        [dictionary_in_expectation({"run": ["VERB", "NOUN"], "be": ["VERB"]}, 5, share=0.1)],
    ),
    ("- fertility\n- fertility: 2\n- fertility: {min: 0.5}", [fertility(), fertility(2), fertility(None, 0.5)]),
    (
        "- agreement\n- {agreement: [a, b], per: [pair, source]}",
        [agreement(), agreement(("pair", "source"), ("a", "b"))],
    ),
]


@pytest.mark.parametrize(("text", "made"), SHORTCUTS, ids=[text[:30] for text, _ in SHORTCUTS])
def test_shortcuts_are_those_of_the_library(text, made):
    assert read(text) == list(made)
    for format in FORMATS:
        assert read(written(made, format), format) == list(made)


def test_links_by_a_column_and_sizes_as_shares(tmp_path):
    links = [must_link(column="household"), cannot_link(column="photo")]
    path = tmp_path / "links.yaml"
    write_constraints(links, path)
    assert path.read_text() == "- must_link: {column: household}\n- cannot_link: {column: photo}\n"
    assert [(own.column, own.together) for own in read_constraints(path)] == [("household", True), ("photo", False)]
    path.write_text("- cluster_size: {min: 20%, max: 50%}\n- cluster_size: {max: 50%}\n")
    made = [cluster_size("20%", "50%"), cluster_size(max="50%")]
    assert [repr(own) for own in read_constraints(path)] == [repr(own) for own in made]
    path.write_text("- must_link: {column: home}\n")
    with pytest.raises(InvalidInputError, match="there is no column 'home'; did you mean 'house'"):
        read_constraints(path, columns=["house"])


@pytest.mark.parametrize("format", FORMATS)
def test_links(format):
    links = [must_link([[0, 3], [1, 2]]), cannot_link([[4, 5]]), must_link([])]
    again = read(written(links, format), format)
    assert [own.pairs.tolist() for own in again] == [own.pairs.tolist() for own in links]
    assert [own.together for own in again] == [True, False, True]
    if format == "yaml":
        assert written(links[:2], format) == "- must_link: [[0, 3], [1, 2]]\n- cannot_link: [[4, 5]]\n"


GENERAL = [
    ("{expect: {tag: VERB}, at_least: 1, per: sentence}", (E[part("tag") == "VERB"] >= 1).per("sentence")),
    ("{expect: all, at_least: 3, at_most: 10}", E[...].between(3, 10)),
    ("{expect: all, between: [3, 10]}", E[...].between(3, 10)),
    ("{expect: conserved, at_least: 90%, of: {count: conserved}}",
     E[part("conserved")] >= 0.9 * E.count(part("conserved"))),
    ("{expect: {label: spam}, between: [7%, 0.3], of: row}",
     E[part("label") == "spam"].between(0.07 * E.count(..., each="row"), 0.3 * E.count(..., each="row"))),
    ("{expect: {a: 1}, at_most: 10%, of: {b: [1, 2]}}", E[part("a") == 1] <= 0.1 * E[part("b").isin([1, 2])]),
    ("{expect: {d: f}, equals: {d: b}, per: [s, t]}", (E[part("d") == "f"] == E[part("d") == "b"]).per("s", "t")),
    ("{expect: [{a: 1}, {expect: {a: 2}, times: -2}], at_most: [{a: 3}, 0.5]}",
     E[part("a") == 1] - 2 * E[part("a") == 2] <= E[part("a") == 3] + 0.5),
    ('{expect: {n: {">=": 3, "<": 10}, tag: {not: [A, B]}}, at_most: 1}',
     E[(part("n") >= 3) & (part("n") < 10) & ~part("tag").isin(["A", "B"])] <= 1),
    ("{expect: {any: [{a: 1}, {all: [flag, {b: {not: 2}}]}]}, at_most: 1}",
     E[(part("a") == 1) | (part("flag") & (part("b") != 2))] <= 1),
    ('{expect: {"*": [2, length, {a: 1}]}, at_most: 5}', E[2 * part("length") * (part("a") == 1)] <= 5),
    ('{expect: {source: {"==": {column: target}}}, at_most: 5}', E[part("source") == part("target")] <= 5),
    ("{expect: {tag: {allowed_by: {word: {run: VERB}}}}, at_most: 5, slack: {penalty: 10, norm: l1}}",
     (E[part("tag").allowed_by(part("word"), {"run": ["VERB"]})] <= 5).slack(penalty=10, norm="l1")),
    ("{expect: {f: {'>=': 9}}, max_over: occurrence, per: [word, tag], penalty: 32, name: few}",
     max_over("occurrence", E[part("f") >= 9].per("word", "tag")).penalty(32).named("few")),
    ("{expect: all, at_most: 100000000000000000000}", E[...] <= 1e20),
    ("{expect: {n: 1e-3}, at_most: 1e2}", E[part("n") == 0.001] <= 100),
    ('{expect: {word: "3"}, at_most: 1, slack: {bound: 2}}', (E[part("word") == "3"] <= 1).slack(bound=2, norm="l2")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "made"), GENERAL, ids=[text[:40] for text, _ in GENERAL])
def test_general_entries(text, made):
    assert read("- " + text) == [made]
    assert read(written(made, "yaml")) == [made]


def test_writing_is_what_a_person_would_write():
    listed = [
        at_least(1, ["VERB", "NO"]),
        *tag_proportions({"DET": (0.1, 0.2)}),
        agreement(),
        sparsity(32).named("few tags: per word"),
        (E[(part("label") == "spam") & (part("length") > 3)] <= 5).per("document", "type").slack(penalty=10, norm="l1"),
        dictionary_in_expectation({f"word{n}": ["NOUN", "VERB"] for n in range(5)}, 5),
    ]
    assert (
        written(listed, "yaml")
        == """\
- expect: {tag: [VERB, "NO"]}
  at_least: 1
  per: sentence
  name: at least 1 VERB or NO per sentence
- expect: {tag: DET}
  between: [0.1, 0.2]
  of: occurrence
  name: proportion of DET
- expect: {direction: forward}
  equals: {direction: backward}
  per: [sentence, source, target]
  name: agreement
- expect: {word_frequency: {">=": 10}}
  max_over: occurrence
  per: [word, tag]
  penalty: 32
  name: "few tags: per word"
- expect: {label: spam, length: {">": 3}}
  at_most: 5
  per: [document, type]
  slack: {penalty: 10, norm: l1}
- expect: {not: {tag: {allowed_by: {word: {
      word0: [NOUN, VERB],
      word1: [NOUN, VERB],
      word2: [NOUN, VERB],
      word3: [NOUN, VERB],
      word4: [NOUN, VERB]
    }}}}}
  at_most: 0
  per: word
  slack: {penalty: 5, norm: l1}
  name: dictionary in expectation
"""
    )


@pytest.mark.parametrize("suffix", [".json", ".yaml", ".yml", ".YAML"])
def test_the_suffix_tells_the_format(tmp_path, suffix):
    if suffix != ".json":
        pytest.importorskip("yaml")
    path = tmp_path / f"c{suffix}"
    write_constraints((at_least(1, "é"), [agreement()]), str(path))
    assert path.read_text(encoding="utf-8").startswith("[" if suffix == ".json" else "-")
    assert read_constraints(path) == read_constraints(str(path)) == [at_least(1, "é"), agreement()]
    with path.open(encoding="utf-8") as stream:
        assert read_constraints(stream) == [at_least(1, "é"), agreement()]


def test_without_pyyaml_json_still_works(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    assert read(written(agreement(), "json"), "json") == [agreement()]
    assert written(agreement(), "yaml").startswith("- expect: {direction: forward}")
    with pytest.raises(InvalidInputError, match="reading YAML needs PyYAML, which is not installed; install pyyaml"):
        read_constraints(io.StringIO("[]"), format="yaml")


def test_nothing_is_written_as_an_empty_list():
    for format in FORMATS:
        assert written([], format) == "[]\n"
        assert read("[]", format) == []


def test_pure_python_yaml_reads_the_same(monkeypatch):
    yaml = pytest.importorskip("yaml")
    made = [constraint for _, listed in SHORTCUTS for constraint in listed]
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    nodes._loader.cache_clear()
    try:
        assert read(written(made, "yaml")) == made
    finally:
        nodes._loader.cache_clear()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("number", range(len(blocks("yaml"))))
def test_examples_of_the_document_are_read(number):
    text = blocks("yaml")[number]
    made = read(text)
    assert made
    for format in FORMATS:
        assert read(written(made, format), format) == made


def test_the_document_says_what_each_example_means():
    """Every row of its tables holds an entry and the constraint in Python that it stands for."""
    rows = re.findall(r"^\| `(\{.*\}|- .*|agreement|fertility)` \| `(.*)` \|$", DOCUMENT.read_text("utf-8"), re.M)
    assert len(rows) >= 15
    names = {n: globals()[n] for n in ("E", "part", "max_over", "at_least", "at_most", "tag_proportions", "sparsity",
             "dictionary_in_expectation", "fertility", "agreement", "label_proportions", "cluster_size", "must_link",
             "at_least_one_per", "cannot_link")}  # fmt: skip
    for entry, python in rows:
        made = eval(python.replace("\\|", "|"), names)
        wanted = list(made) if isinstance(made, tuple) else [made]
        assert list(map(repr, read("- " + entry.replace("\\|", "|")))) == list(map(repr, wanted)), entry


def test_json_and_yaml_of_the_document_are_the_same():
    [text] = blocks("json")
    assert (
        read(text, "json")
        == read(text, "yaml")
        == [(E[part("tag").isin(["VERB", "AUX"])] >= 1).per("sentence").named("a verb per sentence")]
    )
    assert replace(read(text, "json")[0], label=None) != read(text, "json")[0]
