"""Files of constraints: what is written reads back, where errors are, and what is refused."""

import io
import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_constraints import constraints

from spectrem.constraints import (
    ConstraintTextError,
    E,
    agreement,
    at_least,
    cannot_link,
    dictionary_in_expectation,
    label_proportions,
    linear,
    max_over,
    must_link,
    part,
    read_constraints,
    sparsity,
    write_constraints,
)
from spectrem.exceptions import InvalidInputError

FORMATS = ["json", "yaml"]
KNOWN = ["row", "label", "document"]


def read(text, format="yaml", **options):
    if format == "yaml":
        pytest.importorskip("yaml")
    return read_constraints(io.StringIO(text), format=format, **options)


def written(listed, format):
    stream = io.StringIO()
    write_constraints(listed, stream, format=format)
    return stream.getvalue()


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(listed=st.lists(constraints(), max_size=2))
def test_what_is_written_reads_back(format, listed):
    if format == "yaml":
        pytest.importorskip("yaml")
    again = read(written(listed, format), format)
    assert list(map(repr, again)) == list(map(repr, listed))


MADE = [
    at_least(1, ["VERB", "NO"]),
    *label_proportions({"DET": (0.1, 0.2)}, per="domain"),
    agreement(),
    sparsity(32).named("few labels: per word"),
    (E[(part("label") == "spam") & (part("in") > 3)] <= "30%").per("document", "type").slack(penalty=10, norm="l1"),
    must_link([[0, 3], [1, 2]]),
    cannot_link(column="photo").named("apart"),
    dictionary_in_expectation({"it's": ["NOUN", "VERB"]}, 5),
]


def test_writing_is_what_a_person_would_write():
    assert (
        written(MADE, "yaml")
        == """\
- at least 1 VERB or NO per sentence: (E[label.isin(['VERB', 'NO'])] >= 1).per('sentence')
- proportion of DET: E[label == 'DET'].between(0.1 * E.count(...), 0.2 * E.count(...)).per('domain')
- agreement: (E[direction == 'forward'] == E[direction == 'backward']).per('sentence', 'source', 'target')
- 'few labels: per word': max_over('occurrence', E[word_frequency >= 10].per('word', 'label')).penalty(32)
- (E[(label == 'spam') & (part('in') > 3)] <= 0.3 * E.count(...)).per('document', 'type').slack(penalty=10, norm='l1')
- must_link([[0, 3], [1, 2]])
- apart: cannot_link(column='photo')
- dictionary in expectation: '(E[~label.allowed_by(word, {"it''s": [''NOUN'', ''VERB'']})] <= 0).per(''word'')\
.slack(penalty=5, norm=''l1'')'
"""
    )
    assert written(MADE[:1] + MADE[5:6], "json") == (
        "[\n"
        """  {"at least 1 VERB or NO per sentence": "(E[label.isin(['VERB', 'NO'])] >= 1).per('sentence')"},\n"""
        """  "must_link([[0, 3], [1, 2]])"\n]\n"""
    )
    for format in FORMATS:
        assert read(written(MADE, format), format) == MADE
        assert written([], format) == ("[]\n")


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("yaml", "- E[a] <= 1\n- few: E[b] <= 2 # two\n  some: |\n    (E[b]\n     >= 1)\n"),
        ("yaml", "# names\nfirst: E[a] <= 1\n'few': \"E[b] \\\n  <= 2\"\n? some\n: >-\n  E[b]\n  >= 1\n"),
        ("yaml", "[E[a] <= 1, {few: 'E[b] <= 2'}, some: E[b] >= 1]".replace("E[a] <= 1", "'E[a] <= 1'").replace(
            "some: E[b] >= 1", '"some": "E[b] >= 1"')),
        ("json", '["E[a] <= 1", {"few": "E[b] <= 2", "some": "E[b]\\n >= 1"}]'),
        ("json", '{"first": "E[a] <= 1",\n "few": "E[b] <= 2", "some": "E[\\u0062] >= 1"}'),
    ],
)  # fmt: skip
def test_lists_and_names(format, text):
    first, few, some = read(text, format)
    assert first in (E[part("a")] <= 1, (E[part("a")] <= 1).named("first"))
    assert (few, some) == ((E[part("b")] <= 2).named("few"), (E[part("b")] >= 1).named("some"))


def test_paths_and_streams(tmp_path):
    listed = [at_least(1, "é"), agreement()]
    for name in ("c.json", "c.yaml", "c.YML"):
        path = tmp_path / name
        if not name.endswith("json"):
            pytest.importorskip("yaml")
        write_constraints((listed[0], [listed[1]]), str(path))
        assert read_constraints(path) == read_constraints(str(path)) == listed
        with path.open(encoding="utf-8") as stream:
            assert read_constraints(stream) == listed
    path.write_text("- agreement\r\n- E[a] <= 1\r\n", newline="")
    assert read_constraints(path) == [agreement(), E[part("a")] <= 1]


UNKNOWN = (
    "there is no column 'lable'; did you mean 'label'? the columns are 'row', 'label', 'document'; put quotes around "
)
REFUSED = [
    ("yaml", "- agreement()\n- E[lable] <= 1", 1, 3, "there is no column 'direction'"),
    ("yaml", "- E[label == 1] <= 1\n- E[lable] <= 1", 2, 5, UNKNOWN),
    ("yaml", "- few: E[label == 1] <= 1\n-  some:  E[lable] <= 1", 2, 13, UNKNOWN),
    ("yaml", "- few:\n    E[label == 1]\n    <=\n    E[lable]", 4, 7, UNKNOWN),
    ("yaml", "- |\n  (E[label == 1]\n     <= E[lable])", 3, 11, UNKNOWN),
    ("yaml", "- >-\n\n  (E[label == 1]\n\n  <= E[lable])", 5, 8, UNKNOWN),
    ("yaml", "- 'E[label == ''it''] <= E[lable]'", 1, 28, UNKNOWN),
    ("yaml", '- "E[label == \\"it\\"]\\n \\t <= \\x45[\\u006cable]"', 1, 36, UNKNOWN),
    ("yaml", '- "E[label ==\n  1] <= \\\n  E[lable]"', 3, 5, UNKNOWN),
    ("yaml", "- E[label == 'é😀'] <= E[lable]", 1, 25, UNKNOWN),
    ("json", '["E[label == \\"it\\"] <= E[\\u006cable]"]', 1, 27, UNKNOWN),
    ("json", '[\n  {"few": "E[label == \'\\ud83d\\ude00\'] <= E[lable]"}]', 2, 44, UNKNOWN),
    ("yaml", "- (E[...] <= 1).per('rows')", 1, 21, "there is no column 'rows'; did you mean 'row'? the columns are"),
    ("yaml", "- label_proportions({'a': 0.1})", 1, 3,
     "this text holds ': ', which ends a name in YAML; put single quotes around all of it"),
    ("yaml", "- (E[label.allowed_by(label, {1: [2]})] <= 1).per('row')", 1, 3, "this text holds "),
    ("yaml", "- few: label_proportions({'a': 0.1})", 1, 30,
     "this is not valid YAML: mapping values are not allowed in this context; put single quotes around a text"),
    ("yaml", "- {expect: {label: spam}, at_most: 1}", 1, 12,
     "expected the text of a constraint, found a mapping; write a bound on an expectation"),
    ("yaml", "- few: [agreement]", 1, 8, "expected the text of a constraint, found a list"),
    ("yaml", "- few:", 1, 7, "there is nothing; write a bound"),
    ("yaml", "- [agreement]", 1, 3, "expected the text of a constraint, or name: text, found a list"),
    ("yaml", "- {[a]: agreement}", 1, 4, "expected the name of a constraint, found a list"),
    ("yaml", "- '': E[label] <= 1", 1, 4, "a name is a text that is not empty; give one, or put the text into a list"),
    ("yaml", "a: E[label] <= 1\nb: E[label] <= 2\na: E[label] <= 3", 3, 1,
     "'a' stands here a second time, first on line 1; drop one"),
    ("json", '{"a": "E[label] <= 1",\n "a": "E[label] <= 2"}', 2, 3, "'a' stands here a second time, first on line 1"),
    ("yaml", "", 1, 1, "the file is empty; write [] for no constraints"),
    ("yaml", "# nothing\n", 1, 1, "the file is empty"),
    ("json", " \n", 1, 1, "the file is empty"),
    ("yaml", "E[label] <= 1", 1, 1, "expected a list of constraints, or names with texts, found 'E[label] <= 1'"),
    ("json", '"E[label] <= 1"', 1, 2, "expected a list of constraints, or names with texts, found 'E[label] <= 1'"),
    ("json", "[3]", 1, 2, "expected the text of a constraint, or name: text, found '3'"),
    ("json", "[null]", 1, 2, "expected the text of a constraint, or name: text, found 'null'"),
    ("json", "[" + "9" * 5000 + "]", 1, 2, "expected the text of a constraint, or name: text, found '999"),
    ("json", '["E[label] <= 1",', 1, 18, "this is not valid JSON: Expecting value"),
    ("json", '["E[label] <= 1"', 1, 17, "this is not valid JSON: Expecting ',' delimiter"),
    ("json", "[" * 100_000, 1, 1, "expected a list of constraints, found lists inside each other without end"),
    ("yaml", "[" * 500, 1, 2, "expected the text of a constraint, or name: text, found a list"),
    ("yaml", "- " * 50_000, 1, 3, "expected the text of a constraint, or name: text, found a list"),
    ("yaml", "{a: " * 100_000, 1, 5, "expected the text of a constraint, found a mapping"),
    ("yaml", "- a\n- [b}\n- c", 2, 5, "this is not valid YAML: "),
    ("yaml", "- 'a", 1, 5, "this is not valid YAML: "),
    ("yaml", "- &a E[label] <= 1\n- *a", 2, 3, "aliases (*name) are not read; write the text out"),
    ("yaml", "- !!python/name:os.system x", 1, 3,
     "the tag tag:yaml.org,2002:python/name:os.system is not understood; leave it out"),
    ("yaml", "--- [E]\n---\n[]", 1, 6, "there is no shortcut 'E'"),
    ("yaml", "--- []\n--- []", 2, 5, "a file holds one list of constraints; put them together"),
    ("yaml", "- a: \x07", 1, 6, "this is not valid YAML: "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("format", "text", "line", "column", "message"), REFUSED, ids=[repr(case[1])[:60] for case in REFUSED]
)
def test_errors_name_file_line_and_column(tmp_path, format, text, line, column, message):
    if format == "yaml":
        pytest.importorskip("yaml")
    path = tmp_path / f"c.{format}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConstraintTextError) as caught:
        read_constraints(path, columns=KNOWN)
    assert str(caught.value).startswith(f"{path}, line {line}, column {column}: {message}"), str(caught.value)
    assert caught.value.place == f"{path}, line {line}, column {column}"


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 100_000, "- " + "[" * 50_000, "{a: [" * 50_000])
def test_yaml_nested_without_end_is_refused_by_every_release_of_pyyaml(tmp_path, text):
    pytest.importorskip("yaml")  # from 6.0.4 on PyYAML itself bounds the depth, before it tells of the first list
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConstraintTextError, match=r"line 1, column \d+: expected .* found (a list|a mapping|lists)"):
        read_constraints(tmp_path / "c.yaml", columns=KNOWN)


def test_yaml_without_libyaml(monkeypatch):
    yaml = pytest.importorskip("yaml")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read(written(MADE, "yaml")) == MADE
    with pytest.raises(ConstraintTextError, match=r"line 2, column 5: there is no column 'lable'"):
        read("- E[label] <= 1\n- E[lable] <= 1", columns=KNOWN)


def test_yaml_that_is_not_installed(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InvalidInputError, match="needs PyYAML, which is not installed; install pyyaml, or write the"):
        read_constraints(io.StringIO("[]"), format="yaml")


anything = st.recursive(
    st.sampled_from(
        [None, True, 0, -1.5, 10**30, "", "agreement", "E[a] <= 1", "x", "a: b", "E[a", '"', "'", "\n", "é"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "", "b: c"]), inner, max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(data=anything)
def test_whatever_a_file_holds_it_is_read_or_refused(data):
    try:
        made = read(json.dumps(data), "json")
    except ConstraintTextError:
        return
    assert read(written(made, "json"), "json") == made


class Own:
    def rows(self, structure):
        return at_least(1, "VERB")


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (Own(), "constraint 1 cannot be written: Own is an object with code of its own; make it where the file is"),
        (linear(np.eye(2), 1), "constraint 1 cannot be written: linear(<2 x 2 matrix, 2 stored>, b"),
        (max_over("x", E[...]), 'max_over("x", E[...]) is not finished; add .penalty(strength)'),
        (lambda q: q, "constraint 1 cannot be written: expected a constraint made with E[...], got <function"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, constraint, message):
    path = tmp_path / "c.json"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        write_constraints([at_least(1, "VERB"), constraint], path)
    assert not path.exists()


def test_formats_that_cannot_be_told(tmp_path):
    for call in (read_constraints, lambda file: write_constraints([], file)):
        with pytest.raises(InvalidInputError, match=r"ends in none of \.yaml, \.yml, \.json; give format='yaml'"):
            call(tmp_path / "c.txt")
        with pytest.raises(InvalidInputError, match="format of '<stream>' cannot be told"):
            call(io.StringIO())
        with pytest.raises(InvalidInputError, match="takes a path or a stream of text, got 3"):
            call(3)
    with pytest.raises(InvalidInputError, match="format must be 'yaml' or 'json', got 'toml'"):
        read_constraints("c.yaml", format="toml")
    with pytest.raises(InvalidInputError, match="gives bytes, not text; open it as text"):
        read_constraints(io.BytesIO(b"[]"), format="json")
    (tmp_path / "c.json").write_bytes(b'["\xff"]')
    with pytest.raises(InvalidInputError, match=r"c\.json, line 1: byte 3 of the line \(0xff\) is not UTF-8; convert"):
        read_constraints(tmp_path / "c.json")
