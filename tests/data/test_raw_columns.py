"""Two columns of text in tables and JSON lines."""

import gzip
import json
import re

import pytest

from spectrem.data.pairs import iter_columns
from spectrem.exceptions import InvalidInputError

polars = pytest.importorskip("polars", reason="tables are read by polars, which is not installed")

PAIRS = [("a tree, tall", "un grand\tarbre"), ('a "b"', "c|d"), ("e f", "g h")]


@pytest.fixture
def frame():
    source, target = zip(*PAIRS, strict=True)
    return polars.DataFrame({"id": [1, 2, 3], "source": source, "target": target})


def rows(path, *columns):
    return list(iter_columns(path, columns or ("source", "target")))


def refuses(path, columns, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        rows(path, *columns)


def lines_of(tmp_path, *objects, name="t.jsonl"):
    path = tmp_path / name
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in objects))
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.tsv", "t.jsonl", "t.ndjson"])
def test_every_format_gives_the_same(frame, tmp_path, name):
    path = tmp_path / name
    writers = {
        ".parquet": frame.write_parquet,
        ".csv": frame.write_csv,
        ".tsv": lambda p: frame.write_csv(p, separator="\t"),
    }
    writers.get(path.suffix, frame.write_ndjson)(path)
    assert rows(path) == PAIRS
    assert rows(path, "target", "source") == [pair[::-1] for pair in PAIRS]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_gzipped_tables(frame, tmp_path, name):
    path = tmp_path / f"{name}.gz"
    plain = frame.write_csv() if name == "t.csv" else frame.write_ndjson()
    path.write_bytes(gzip.compress(plain.encode()))
    assert rows(path) == PAIRS


def test_missing_cells_are_empty_and_line_ends_are_spaces(tmp_path):
    frame = polars.DataFrame({"source": ["a\nb", None, "c\r\nd"], "target": [None, None, "e"]})
    expected = [("a b", ""), ("", ""), ("c  d", "e")]
    frame.write_parquet(tmp_path / "t.parquet")
    assert rows(tmp_path / "t.parquet") == expected
    frame.fill_null("").write_ndjson(tmp_path / "t.jsonl")
    assert rows(tmp_path / "t.jsonl") == expected


@pytest.mark.parametrize(
    ("wrong", "columns", "said"),
    [
        ({"source": None, "target": None}, (), "t.jsonl, line 2: 'source' is null, and text is needed, got None; "),
        ({"source": "a", "target": None}, (), "t.jsonl, line 2: 'target' is null, and text is needed, got None; "),
        (
            {"source": "a"},
            (),
            "t.jsonl, line 2: there is no key 'target'; the keys are 'source'; every line needs both",
        ),
        (
            {"pair": None},
            ("pair.source", "pair.target"),
            "t.jsonl, line 2: there is no key 'pair.source'; the keys are 'pair'",
        ),
        ({"pair": {"source": None}}, ("pair.source", "pair.target"), "t.jsonl, line 2: 'pair.source' is null"),
    ],
)
def test_lines_of_json_say_both_sides(tmp_path, wrong, columns, said):
    both = {"source": "a", "target": "b"}
    refuses(lines_of(tmp_path, {"pair": both} if columns else both, wrong, name="t.jsonl"), columns, said)


def test_fields_of_a_column_are_named_by_a_dot(tmp_path):
    frame = polars.DataFrame({"translation": [{"en": "a", "fr": "b"}, {"en": "c", "fr": None}, None]})
    expected = [("a", "b"), ("c", ""), ("", "")]
    frame.write_parquet(tmp_path / "t.parquet")
    frame[:1].write_ndjson(tmp_path / "t.jsonl")
    assert rows(tmp_path / "t.parquet", "translation.en", "translation.fr") == expected
    assert rows(tmp_path / "t.jsonl", "translation.en", "translation.fr") == expected[:1]
    assert rows(lines_of(tmp_path, {"a.b": "c", "d": "e"}, name="dots.jsonl"), "a.b", "d") == [("c", "e")]
    refuses(
        tmp_path / "t.parquet",
        ("translation.en", "translation.ft"),
        "there is no field 'ft'; the fields are 'en', 'fr'",
    )
    said = "column 'translation': holds fields, not text; name one of them: 'translation.en', 'translation.fr'"
    refuses(tmp_path / "t.parquet", ("translation.en", "translation"), said)
    refuses(
        tmp_path / "t.jsonl",
        ("translation.en", "translation"),
        "line 1: 'translation' is an object, and text is needed",
    )


def test_columns_that_do_not_exist_are_named(frame, tmp_path):
    frame.write_parquet(tmp_path / "t.parquet")
    said = "--columns: {} has no column 'sauce'; did you mean 'source'? its columns are 'id', 'source', 'target'"
    refuses(tmp_path / "t.parquet", ("sauce", "target"), said.format(tmp_path / "t.parquet"))
    path = lines_of(tmp_path, {"source": "a", "target": "b"}, {"target": "c"})
    refuses(
        path,
        ("sauce", "target"),
        f"--columns: {path}, line 1: there is no key 'sauce'; did you mean 'source'? the keys are",
    )


def test_columns_of_something_else_than_text_are_refused(frame, tmp_path):
    frame.write_parquet(tmp_path / "t.parquet")
    said = "column 'id': holds Int64, and text is needed; choose others by --columns SOURCE,TARGET among 'id', 'source'"
    refuses(tmp_path / "t.parquet", ("id", "target"), said)
    path = lines_of(tmp_path, {"source": "a", "target": "b"}, {"source": 3, "target": "b"})
    refuses(path, (), f"{path}, line 2: 'source' is a number, and text is needed, got 3; correct it")
    refuses(lines_of(tmp_path, {"source": ["a"], "target": "b"}), (), "line 1: 'source' is a list, and text is needed")


def test_files_that_are_wrong_are_named_by_line(tmp_path):
    refuses(
        lines_of(tmp_path, {"source": "a", "target": "b"}, '{"source": }'),
        (),
        "line 2: is not JSON: Expecting value at character 12",
    )
    refuses(
        lines_of(tmp_path, "[1]"), (), "line 1: holds a list, not a JSON object; write one JSON object on every line"
    )
    refuses(lines_of(tmp_path), (), "t.jsonl is empty; give a file of at least one line")
    refuses(tmp_path / "no.jsonl", (), "no such file")
    refuses(tmp_path / "no.parquet", (), "no such file")
    (tmp_path / "latin.jsonl").write_bytes(b'{"source": "a"}\n{"source": "\xe9"}\n')
    refuses(tmp_path / "latin.jsonl", (), "latin.jsonl, line 2: byte 13 of the line (0xe9) is not UTF-8")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
    refuses(tmp_path / "t.parquet", (), "damaged Parquet")
    refuses(lines_of(tmp_path, "\n"), (), "t.jsonl: holds no JSON object; give it one a line")


def test_rows_that_a_quotation_mark_joins_are_refused(tmp_path):
    """Marks that open on one line and close on another are common in text: the lines between were one row."""
    path = tmp_path / "t.tsv"
    path.write_text('source\ttarget\n"Hello.\tBonjour.\nHow are you?"\tComment ?\n')
    said = "line 2: column 'source' must not hold tabs and line ends together, got 'Hello.\\tBonjour.\\nHow are you?'"
    refuses(path, (), said)
    path.write_text('source\ttarget\nHi.\t"Bonjour.\nHe said "no".\tNon.\nHow are you?\tComment ?"\n')
    refuses(path, (), "line 2: cannot be read as a table: '\t' expected after '\"'")
    path.write_text('source\ttarget\n"a\nb"\tc\n"a\tb"\td\n')
    assert rows(path) == [("a b", "c"), ("a\tb", "d")]


def test_text_that_utf8_cannot_write_is_named_by_line(tmp_path):
    found = lines_of(
        tmp_path, *[{"source": "\u00e9", "target": r"\ud83d"}] * 2100, r'{"source": "\ud83d", "target": 1}'
    )
    refuses(found, (), "line 2101: holds an unpaired surrogate, which UTF-8 cannot write")
    refuses(lines_of(tmp_path, r'{"\udc00": 1}'), (), "line 1: holds an unpaired surrogate")
    assert rows(lines_of(tmp_path, r'{"source": "\ud83d\ude00", "target": "b"}')) == [("\U0001f600", "b")]
