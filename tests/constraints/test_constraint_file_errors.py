"""What files of constraints refuse, and what they say about it."""

import io
import re

import numpy as np
import pytest

from spectrem.constraints import E, at_least, linear, max_over, part
from spectrem.constraints.file_nodes import ConstraintFileError
from spectrem.constraints.files import read_constraints, write_constraints
from spectrem.exceptions import InvalidInputError


def read(text, format="yaml", **options):
    if format == "yaml":
        pytest.importorskip("yaml")
    return read_constraints(io.StringIO(text), format=format, **options)


ERRORS = [
    ("- expect: {tag: VERB}\n  at_lest: 1", 2, "[0].at_lest", "an entry with 'expect' has no field 'at_lest'; "
     "did you mean 'at_least'? its fields are expect, at_least, at_most, equals, between, of, per, slack, "
     "allow_empty, name"),
    ("- agreement\n- {}", 2, "[1]", "an entry starts with one of expect, tags, tag_proportions, sparsity, "
     "dictionary_in_expectation, fertility, agreement, label_proportions, cluster_size, at_least_one_per, must_link, "
     "cannot_link; found a mapping with no fields"),
    ("- expect: {tag: VERB}", 1, "[0]", "give one of at_least, at_most, equals, between, or at_least and at_most "
     "together; found none"),
    ("- expect: {tag: VERB}\n  at_least: many", 2, "[0].at_least", "expected a number, a percentage such as 30% with "
     'the field of, a condition in braces or a list of terms, found the text "many"'),
    ("- expect: {tag: VERB}\n  between: [5, 3]", 2, "[0].between[0]", "the lower bound 5 is above the upper one, 3; "
     "swap them"),
    ("- expect: all\n  at_most: 10%\n  at_least: 20%\n  of: row", 3, "[0].at_least", "the lower bound 20% is above "
     "the upper one, 10%; swap them"),
    ("- expect: all\n  at_most: 30%", 2, "[0].at_most", "30% of what? add the field of, as in of: occurrence (tokens) "
     "or of: {word: run}"),
    ("- expect: {tag: VERB}\n  at_least: 1\n  per:", 3, "[0].per", "expected the name of a column, found nothing "
     "(null; put quotes around it if it is a text)"),
    ("- expect: {tag: }\n  at_least: 1", 1, "[0].expect.tag", "expected a value, a list of values, or a mapping with "
     "==, !=, <, <=, >, >=, not, allowed_by, found nothing (null; put quotes around it if it is a text)"),
    ("- expect: {3: VERB}\n  at_least: 1", 1, "[0].expect.3", "expected the name of a column, which is a text, found "
     "3; put quotes around it"),
    ("- expect: all\n  at_least: .inf", 2, "[0].at_least", None),
    ("- expect: all\n  at_most: 1\n  slack: {penalty: 1,\n    norm: l3}", 4, "[0].slack.norm", "there is no norm 'l3'; "
     "the norms are l1, l2, linf"),
    ("- expect: all\n  at_most: 1\n  slack: {penalty: -1}", 3, "[0].slack.penalty", "expected a positive number, "
     "found -1; for no slack leave slack out"),
    ("- expect: all\n  at_most: 1\n  slack: {norm: l1}", 3, "[0].slack", "give one of penalty and bound, as in "
     "{penalty: 10, norm: l1}; found a mapping with norm"),
    ("- {tags: VERB, at_least: 0}", 1, "[0]", "at_least: n must be positive, got 0; at_least(0, ...) holds anyway"),
    ("\n- tag_proportions: {VERB: [0.2, 0.1]}", 2, "[0].tag_proportions", "tag_proportions: the share of 'VERB' must "
     "be in [0, 1], or a pair low <= high in it; got (0.2, 0.1)"),
    ("- label_proportions: {0: 0.5, 1: [0.6, 1]}", 1, "[0].label_proportions", "label_proportions: the lowest shares "
     "add up to 1.1, more than 1; lower some"),
    ("- label_proportions: [50%, 40%]", 1, "[0].label_proportions", "label_proportions: the shares of all labels "
     "add up to 0.9, less than 1; raise some, or write {label: share} for a few labels only"),
    ("- label_proportions: {0: [0.1]}", 1, "[0].label_proportions.0", "expected a share or [low, high], found a list "
     "of 1"),
    ("- agreement\n- cluster_size: {min: 3, max: 2}", 2, "[1]", "cluster_size needs 0 <= min <= max, got min=3 and "
     "max=2; change either"),
    ("- cluster_size: 3", 1, "[0].cluster_size", None),
    ("- {cluster_size: {minimum: 3}}", 1, "[0].cluster_size.minimum", "cluster_size has no field 'minimum'; did "
     "you mean 'min'? its fields are min, max"),
    ("- {at_least_one_per: bag, label: [0]}", 1, "[0].label", None),
    ("- must_link: [[0, 1], [2]]", 1, "[0].must_link[1]", "expected a pair of rows, as in [0, 3], found [2]"),
    ("- must_link: {columns: a}", 1, "[0].must_link.columns",
     "must_link has no field 'columns'; did you mean 'column'? its fields are column"),
    ("- cannot_link: {}", 1, "[0].cannot_link", "expected a column, found a mapping with no fields"),
    ("- cluster_size: {min: a}", 1, "[0].cluster_size.min",
     'expected a number, or a share as 20%, found the text "a"'),
    ("- cluster_size: {min: 120%}", 1, "[0]", "cluster_size needs shares 0% <= min <= max <= 100% that bound "
     "something, got min='120%' and max=None; write both as '20%', or both in rows"),
    ("- must_link: [[0, 1.5]]", 1, "[0].must_link[0]", "expected a pair of rows, as in [0, 3], found [0, 1.5]"),
    ("- cannot_link: [[4, 4]]", 1, "[0]", "cannot_link: pairs must link two rows, got row 4 with itself; drop it"),
    ("- {cannot_link: [[4, 5]], slack: {penalty: 1}}", 1, "[0].slack", None),
    ("- dictionary_in_expectation: {run: [VERB]}", 1, "[0]", "the field strength is missing"),
    ("- expect: {any: [{tag: A}], tag: B}\n  at_most: 1", 1, "[0].expect.any", "'any' stands alone in its braces, "
     "found a mapping with any, tag; join conditions by all: [...], and write a column of that name as {column: any}"),
    ("- expect: {tag: A, tag: B}\n  at_most: 1", 1, "[0].expect.tag", "'tag' stands here a second time, first on line "
     "1; drop one"),
    ("- expect: {a: {in: 3}}\n  at_most: 1", 1, "[0].expect.a.in", "the test of a column has no field 'in'; its "
     "fields are ==, !=, <, <=, >, >=, not, allowed_by"),
    ("- 3", 1, "[0]", "expected a mapping with 'expect' or 'tags', as in {tags: VERB, at_least: 1}, found 3"),
    ("- sparcity", 1, "[0]", "expected a mapping, 'agreement' or 'fertility', found the text \"sparcity\""),
    ("expect: {tag: VERB}\nat_least: 1", 1, "", "expected a list of constraints, found a mapping with "
     "expect, at_least"),
    ("", 1, "", "the file is empty; write [] for no constraints"),
    ("- a: 1\n- [b}\n- c", 2, "", None),
    ("- !!python/name:os.system x", 1, "[0]", "the tag tag:yaml.org,2002:python/name:os.system is not understood; "
     "leave it out"),
    ("- &a [*a]", 1, "", "lists are nested more than 100 deep; write them flat"),
    ("- agreement\n" + "- " * 50_000, 2, "", "lists are nested more than 100 deep; write them flat"),
    ("- agreement\n- " + "[" * 100_000, 2, "", "lists are nested more than 100 deep; write them flat"),
    ("{a: " * 100_000, 1, "", "lists are nested more than 100 deep; write them flat"),
    ("? " * 100_000, 1, "", "lists are nested more than 100 deep; write them flat"),
    ("[" * 101 + "]" * 101, 1, "", "lists are nested more than 100 deep; write them flat"),
    ("[" * 99 + "a\n" + "]" * 99, 1, "[0]", None),
    ("- agreement\n- expect: all\n  at_most: " + "9" * 5000, 3, "[1].at_most",
     f'"{"9" * 79}... (5002 characters) is no number below 1e308; put quotes around it if it is a text'),
    ("- expect: all\n  at_most: 0x" + "f" * 5000, 2, "[0].at_most", None),
    ("- expect: all\n  of: row\n  at_most: " + "9" * 400 + "%", 3, "[0].at_most", None),
    ("- expect: {row: 1" + "0" * 400 + "}\n  at_most: 1", 1, "[0].expect.row", None),
    (f"- must_link: [[0, {2**63}]]", 1, "[0].must_link[0]",
     f"expected a pair of rows, as in [0, 3], found [0, {2.0**63}]"),
    ("- a: \x07", 1, "", None),
    ("- expect: 3\n  at_most: 4", 1, "[0]", "3 is compared with a constant; one side needs an expectation E[...]"),
    ("- {expect: all, max_over: x}", 1, "[0]", "the field penalty is missing"),
    ("- {expect: {'+': [1, 2]}, at_most: 1}", 1, "[0].expect.+", "there is no column in it; name one as "
     "{column: name}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "field", "message"), ERRORS, ids=[repr(case[0])[:50] for case in ERRORS])
def test_errors_name_file_line_and_field(tmp_path, text, line, field, message):
    pytest.importorskip("yaml")
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConstraintFileError) as caught:
        read_constraints(path)
    assert caught.value.line == line
    if field is not None:
        assert caught.value.field == field
        assert str(caught.value).startswith(f"{path}, line {line}" + (f", {field}: " if field else ": "))
    if message is not None:
        assert str(caught.value).endswith(": " + message)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[\n {"expect": "all",\n  "at_most": "x"}]', 3, r"\[0\]\.at_most: expected a number"),
        ('[\n {"expect": "all",\n  "expect": "x"}]', 3, "'expect' stands here a second time, first on line 2"),
        ('[{"expect": "all",]', 1, "this is no JSON: Expecting property name"),
        ('[{"expect": "all", "at_most": NaN}]', 1, r"expected a number.* that is finite, found nan"),
        ("[" * 5000 + "]" * 5000, 1, "lists are nested more than 100 deep"),
        ("[\n" + "[" * 100_000, 2, "lists are nested more than 100 deep; write them flat"),
        ('[\n"[[[", ' + '{"a":' * 101, 2, "lists are nested more than 100 deep; write them flat"),
        ('[\n"' + "[" * 1000, 2, "this is no JSON: Unterminated string"),
        (
            '[{"expect": "all",\n"at_most": ' + "9" * 5000 + "}]",
            2,
            r"\[0\]\.at_most: .9999.*5002 characters\) is no number",
        ),
        ('[{"expect": "all",\n"at_most": 1e400}]', 2, r"\[0\]\.at_most: expected .* that is finite, found inf"),
    ],
)
def test_errors_of_json(text, line, message):
    with pytest.raises(ConstraintFileError, match=message) as caught:
        read(text, "json")
    assert caught.value.line == line


def test_aliases_do_not_fill_the_memory():
    layers = [f"- &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 10)}]" for n in range(40)]
    with pytest.raises(
        ConstraintFileError, match=r"aliases \(\*name\) repeat its 51 values until they are 1\d{40}; write"
    ):
        read("\n".join(layers))
    assert len(read("- &one {expect: all, at_most: 3}\n- *one")) == 2


def test_columns_that_do_not_exist_are_refused_where_they_stand():
    known = ["sentence", "tag", "word"]
    text = "- expect: {tag: VERB}\n  at_least: 1\n  per: sentense"
    with pytest.raises(ConstraintFileError) as caught:
        read(text, columns=known)
    assert str(caught.value) == (
        "<stream>, line 3, [0].per: there is no column 'sentense'; did you mean 'sentence'? "
        "the columns are sentence, tag, word"
    )
    assert read(text.replace("sentense", "word"), columns=known) == [(E[part("tag") == "VERB"] >= 1).per("word")]
    assert read("- {expect: {word_frequency: 1}, at_most: 1}", columns=known)
    with pytest.raises(ConstraintFileError, match=r"\[0\]\.expect\.not\.tg: there is no column 'tg'"):
        read("- {expect: {not: {tg: 1}}, at_most: 1}", columns=known)


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
        (E[part("")] <= 1, "a column whose name is empty cannot be written; rename it"),
        (E[part("a") + "x"] <= 1, "has no value, since 'x' is a text"),
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
