"""Tables read, converted and written: CSV, TSV, Parquet."""

import csv
import gzip
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spectrem.constraints.columns import as_column
from spectrem.data import TableFile, open_table, read_table, table_file
from spectrem.data.table_file import as_label_names, as_typed
from spectrem.exceptions import InvalidInputError

ROWS = 'id,kind,size,seen\n007,cat,1.5,true\n8,"big, dog",-2,false\n9,cat,1e3,true\n'


polars = pytest.importorskip("polars")


@pytest.fixture
def table(tmp_path):
    def make(content, name="t.csv"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return make


def refuses(message, call, *arguments):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        call(*arguments)


def test_cells_become_what_is_asked_for(table):
    frame = read_table(table(ROWS))
    assert (len(frame), frame.names) == (3, ["id", "kind", "size", "seen"])
    assert frame.numbers(["size"])[:, 0].tolist() == [1.5, -2.0, 1000.0]
    assert frame.numbers(["id"])[:, 0].tolist() == [7.0, 8.0, 9.0]
    assert frame.values("id").to_list() == ["007", "8", "9"]
    assert frame.values("kind").to_list() == ["cat", "big, dog", "cat"]
    assert frame.values("seen").to_list() == [True, False, True]
    assert frame.values("seen").dtype == polars.Boolean
    assert frame.numeric() == ["size"]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2"], "i"),
        (["1", "2.0"], "f"),
        (["1", "2.0", "01"], "T"),
        (["9223372036854775807", "0"], "i"),
        (["9223372036854775808", "0"], "T"),
        (["12345678901234567", "0.5"], "T"),
        (["True", "FALSE"], "b"),
        (["true", "1"], "T"),
        (["1_000"], "T"),
        ([" 1", "2 "], "i"),
        (["", ""], "T"),
    ],
)
def test_types_lose_nothing(cells, kind):
    typed = as_typed(polars.Series([cell.strip() or None for cell in cells], dtype=polars.String))
    assert typed.dtype == {"i": polars.Int64, "f": polars.Float64, "b": polars.Boolean, "T": polars.String}[kind]
    if kind == "i":
        assert [str(value) for value in typed.to_list()] == [cell.strip() for cell in cells]


def test_cells_that_nobody_asked_for_stay_as_they_are(table, tmp_path):
    content = 'id,text,x\n007," a ""b"" ",1.50\n,"two\nlines",2\n'
    frame = read_table(table(content))
    with open_table(tmp_path / "out.csv") as write:
        write(frame.extended({"x": [0.1, 2.0], "new": [True, False]}))
    assert (tmp_path / "out.csv").read_text() == ('id,text,x,new\n007," a ""b"" ",0.1,true\n,"two\nlines",2.0,false\n')
    refuses("line 2, column 'text'", frame.numbers, ["text"])
    refuses("line 3, column 'id': the cell is empty; fill it in", frame.values, "id")


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.text('a1", \n\ré', max_size=4), min_size=width, max_size=width), min_size=1, max_size=5
        )
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(0, 2),
)
def test_cells_are_those_of_the_csv_module(rows, end, quoting, n_blank):
    written = io.StringIO()
    header = ["x", "y", "z"][: len(rows[0])]
    csv.writer(written, lineterminator=end, quoting=quoting).writerows([header, *rows])
    text = written.getvalue() + n_blank * end
    expected = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row][1:]
    assume(expected and all(len(row) == len(header) for row in expected))  # a bare carriage return ends a line
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        path.write_bytes(text.encode())
        frame = read_table(path)
        assert frame.data.collect().fill_null("").rows() == [tuple(row) for row in expected]
        with open_table(Path(folder, "again.csv")) as write:
            write(frame)
        again = read_table(Path(folder, "again.csv"))
        assert again.data.collect().fill_null("").rows() == [tuple(row) for row in expected]


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ('a,b\n1,3" nail\n2,x\n', [("1", '3" nail'), ("2", "x")]),
        ("a,b\n\n1,2\n\n\n3,\n", [("1", "2"), ("3", "")]),
        ("a\n1\n\n3\n\n", [("1",), ("3",)]),
        ("a,b\r1,2\r3,4\r", [("1", "2"), ("3", "4")]),
        ("\ufeffa,b\n1,2\n", [("1", "2")]),
    ],
)
def test_text_that_polars_alone_would_misread(table, content, cells):
    assert read_table(table(content)).data.collect().fill_null("").rows() == cells


def test_formats_agree(table, tmp_path):
    frame = read_table(table(ROWS))
    outputs = {}
    for name in ("a.csv", "a.tsv", "a.csv.gz", "a.TSV.gz", "a.parquet"):
        with open_table(tmp_path / name) as write:
            write(frame)
        again = read_table(tmp_path / name)
        assert again.names == frame.names
        for column in frame.names:
            assert again.values(column).to_list() == frame.values(column).to_list(), (name, column)
        assert again.numeric() == ["size"], name
        with open_table(tmp_path / "back.csv") as write:
            write(again)
        outputs[name] = (tmp_path / "back.csv").read_text()
    assert outputs.pop("a.parquet") == ROWS.replace("1.5,", "1.5,").replace("-2,", "-2.0,").replace("1e3", "1000.0")
    assert set(outputs.values()) == {ROWS}
    assert (tmp_path / "a.tsv").read_text().splitlines()[2] == "8\tbig, dog\t-2\tfalse"
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == ROWS.encode()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_of_files_need_not_be_utf8(table, tmp_path, suffix):
    frame = read_table(table(ROWS))
    path = tmp_path / os.fsdecode(b"n\xff" + suffix.encode())
    with open_table(path) as write:
        write(frame)
    assert read_table(path).values("kind").to_list() == frame.values("kind").to_list()


def test_decimals_in_parquet_are_numbers(tmp_path):
    cells = polars.Series("x", ["0.25", "1.50"]).cast(polars.Decimal(10, 2))
    polars.DataFrame([cells]).write_parquet(tmp_path / "a.parquet")
    frame = read_table(tmp_path / "a.parquet")
    assert frame.numbers(["x"])[:, 0].tolist() == [0.25, 1.5]
    assert as_column("x", frame.keys("x")).tolist() == [0.25, 1.5]


def test_parquet_of_parquet_keeps_types_and_missing_cells(tmp_path):
    first = polars.DataFrame(
        {"day": [1, None, 3], "list": [[1], [2], []], "name": ["a", None, "c"], "x": [1.0, 2.0, 3.0]}
    )
    first.write_parquet(tmp_path / "a.parquet")
    frame = read_table(tmp_path / "a.parquet")
    assert frame.numeric() == ["day", "x"]
    with open_table(tmp_path / "b.parquet") as write:
        write(frame.extended({"x": [3.0, 2.0, 1.0]}))
    again = polars.read_parquet(tmp_path / "b.parquet")
    assert again.equals(first.with_columns(x=polars.Series([3.0, 2.0, 1.0])))
    refuses("row 1 (from 0), column 'day': the cell is empty; fill it in", frame.values, "day")
    refuses("row 1 (from 0), column 'name': the cell is empty; fill it in", frame.values, "name")
    refuses("column 'list': holds List(Int64), one value per cell is needed", frame.values, "list")
    with (
        pytest.raises(InvalidInputError, match=r"column 'list': holds List.*write \.parquet"),
        open_table(tmp_path / "b.csv") as write,
    ):
        write(frame)
    assert not (tmp_path / "b.csv").exists()


def test_parquet_is_told_by_its_bytes(tmp_path, monkeypatch):
    polars.DataFrame({"x": [1, 2]}).write_parquet(tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read_table("-").values("x").to_list() == [1, 2]
    (tmp_path / "cut.parquet").write_bytes(data[:40])
    refuses(f"{tmp_path / 'cut.parquet'}: damaged Parquet: ", read_table, tmp_path / "cut.parquet")


def test_tables_need_polars(table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    message = "tables are read and written by polars, which is not installed; pip install 'spectrem[tables]'"
    refuses(f"a.csv: {message}", read_table, table(ROWS, "a.csv"))
    refuses(f"b.parquet: {message}", open_table(tmp_path / "b.parquet").__enter__)
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; give a file of at least one line"),
        ("\n\n", "has no lines but blank ones; its first line must name the columns"),
        ("0,1\n", "names columns but has no rows; the first line must name the columns; give it one or more"),
        ("a,b\n", "names columns but has no rows; give it one or more"),
        ("a,b\n1,2\n\n3\n", "line 4: has 1 cells, and line 1 names 2 columns; correct the line"),
        ("a,b\n1,2,3\n", "line 2: has 3 cells, and line 1 names 2 columns"),
        ('a,b\n1,"2\n3,4\n', 'line 2: cannot be read as a table: unexpected end of data; look for a " without'),
        (",a\n0,1\n", "line 1: column 1 has no name; give it one, or leave it out (pandas: to_csv(..., index=False))"),
        (
            "a,b,a\n1,2,3\n",
            "line 1: there are two columns 'a'; the first line must name every column, each differently",
        ),
        ("0.5,0.5\n1,2\n", "line 1: the first line must name the columns, found only numbers: 0.5, 0.5; write names"),
        ("a;b\n1;2\n", "line 1: the columns seem to be separated by semicolons: 'a;b'; write commas in their place"),
        ("a\tb\n1\t2\n", "line 1: the columns seem to be separated by tabs: 'a\\tb'; name the file .tsv"),
        ('a,b\n"1\n1",2\n\n3,"4\n', 'line 5: cannot be read as a table: unexpected end of data; look for a " without'),
        ('\na,b\n"1\n1",2\n5,6,7\n', "line 5: has 3 cells, and line 2 names 2 columns"),
        ("a,b\n1,2\n".encode("utf-16"), "line 1: this is UTF-16, not UTF-8; convert the text with `iconv -f utf-16 "),
        (b"a,b\n1,2\n1,\xe9\n", "line 3: byte 3 of the line (0xe9) is not UTF-8; convert the text, for example with"),
    ],
)
def test_text_that_is_no_table(table, content, message):
    path = table(content)
    with pytest.raises(InvalidInputError) as error:
        read_table(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


def test_numbers_may_name_columns_as_labels_do(table):
    assert read_table(table("0,1\n0.5,0.5\n")).names == ["0", "1"]


def test_places_and_formats_that_are_refused(table, tmp_path):
    refuses("none.csv: no such file; check the path", read_table, tmp_path / "none.csv")
    for name in ("a.txt", "a", "a.parquet.gz", "a.gz"):
        message = f"{tmp_path / name}: the format cannot be told by the name; let it end in .csv, .tsv"
        refuses(message, read_table, tmp_path / name)
        refuses(message, open_table(tmp_path / name).__enter__)
    refuses("a.parquet: this is not a Parquet file; name it .csv or .tsv", read_table, table("a\n1\n", "a.parquet"))
    refuses("does not exist; make it first", open_table(tmp_path / "no" / "a.csv").__enter__)


def interrupted(path):
    with open_table(path) as write:
        write(TableFile("t", polars.LazyFrame({"x": [1, 2]})))
        raise KeyboardInterrupt


def test_nothing_is_left_of_an_interrupted_write(tmp_path):
    for name in ("a.csv", "a.csv.gz", "a.parquet"):
        with pytest.raises(KeyboardInterrupt):
            interrupted(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_devices_are_comma_separated():
    with open_table(os.devnull) as write:
        write(TableFile("t", polars.LazyFrame({"x": [1, 2]})))
    assert not os.path.isfile(os.devnull)


def test_cells_that_are_no_numbers(table):
    frame = read_table(table("x,y,z,note\n1,,nan,a\n2,2,2,3\nn/a,3,3,b\n"))
    place = f"{frame.name}, line"
    refuses(f"{place} 4, column 'x': 'n/a' is not a number; correct it", frame.numbers, ["x"])
    refuses(
        f"{place} 2, column 'y': the cell is empty; drop the row", frame.numbers, ["y"], lambda name: "drop the row"
    )
    refuses(f"{place} 2, column 'z': the cell is not a number (nan); correct it", frame.numbers, ["z"])
    refuses(
        f"{place} 4, column 'x': 'n/a' is not a number, in a column of numbers; correct it, or name the columns to use "
        "by --features",
        frame.numeric,
        (),
        "--features",
    )
    assert frame.numeric(["x"]) == ["y", "z"]  # "note" is text with a number in it
    refuses("line 2, column 't': 'true' is not a number", read_table(table("t\ntrue\n")).numbers, ["t"])


@pytest.mark.parametrize("written", ["1,000", "12'000", "1,000.50", "0,7", "30%"])
def test_numbers_as_people_write_them_are_not_left_out(table, written):
    frame = read_table(table(f'x,size\n1,"{written}"\n2,"{written}"\n3,900\n'))
    refuses(
        f"column 'size': {written!r} is not a number, in a column of numbers; correct it",
        frame.numeric,
        (),
        "--features",
    )


def test_labels(table):
    frame = read_table(table("k,bad\n0,0\n,1.5\n-1,\n2.0,-3\n"))
    assert frame.labels("k", "--known").tolist() == [0, -1, -1, 2]
    refuses(
        "line 3, column 'bad': --known needs whole numbers from 0, or empty cells where unknown, found '1.5'; correct",
        frame.labels,
        "bad",
        "--known",
    )


def test_columns_that_do_not_exist(table):
    frame = read_table(table(ROWS))
    frame.check(["id"], "--id")
    message = f"--id: {frame.name} has no column 'ID'; did you mean 'id'? its columns are 'id', 'kind', 'size', 'seen'"
    refuses(message, frame.check, ["ID"], "--id")


def test_a_table_of_typed_columns():
    frame = TableFile("t", polars.LazyFrame({"n": [1, 2], "b": [True, False], "s": ["1", ""]}))
    assert frame.numeric() == ["n"]
    assert frame.values("s").to_list() == ["1", ""]
    refuses("row 0 (from 0), column 'b': 'true' is not a number", frame.numbers, ["b"])


def test_keys_keep_their_type_and_say_where_they_are_missing(table, tmp_path):
    content = "n,x,flag,name,code\n1,1.5,true,a,007\n,NA,,NA,\n2,2,false,null,NaN\n"
    keys = {
        "n": [1, None, 2],
        "x": [1.5, None, 2.0],
        "flag": [True, None, False],
        "name": ["a", None, None],
        "code": ["007", None, None],
    }
    frame = read_table(table(content))
    assert {name: frame.keys(name).to_list() for name in frame.names} == keys
    polars.DataFrame({**keys, "big": [2**60 + 1, None, 2**60], "x": [1.5, float("nan"), 2.0]}).write_parquet(
        tmp_path / "k.parquet"
    )
    frame = read_table(tmp_path / "k.parquet")
    for name, values in keys.items():
        assert frame.keys(name).to_list() == values, name
    assert frame.keys("big").to_list() == [2**60 + 1, None, 2**60]
    whole = read_table(table("n,name\n1,a\n2,b\n"))
    assert [whole.keys(name).dtype for name in whole.names] == [polars.Int64, polars.String]


def test_cells_of_any_length(table):
    """The csv module stops at 131,072 characters by itself."""
    limit, long = csv.field_size_limit(), "x" * 200_000
    frame = read_table(table(f'a,{long}\n1,"{long}\n"\n'))
    assert frame.values("a").to_list() == [1]
    assert frame.data.collect()[long].to_list() == [long + "\n"]
    refuses("line 2: has 3 cells", read_table, table(f"a,b\n{long},{long},{long}\n"))
    assert csv.field_size_limit() == limit


def test_whole_numbers_of_any_length(table):
    """Python reads no text of more than 4,300 digits as a number, and 64 bits hold 19 of them."""
    digits = "9" * 5000
    frame = read_table(table(f"a,b,c\n1,{digits},{2**63}\n2,3,4\n"))
    assert frame.values("b").to_list() == [digits, "3"]
    for name in "bc":
        refuses(f"line 2, column '{name}': --known needs whole numbers from 0", frame.labels, name, "--known")
    refuses("9999... (5002 characters); correct it", frame.labels, "b", "--known")
    assert as_label_names([digits, "1"]) == [digits, "1"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["0.5", "01", "0.3", "0.2"],
            "line 3, column 'x': '01' has a zero in front, in a column of numbers; correct",
        ),
        (["0.5", "00", "0.3", "0.2"], "line 3, column 'x': '00' has a zero in front"),
        (["?"] * 1000 + ["0.5"] * 1500, "line 2, column 'x': '?' is not a number, in a column of numbers"),
        (["0.5"] * 1500 + ["?"] * 1000, "line 1502, column 'x': '?' is not a number, in a column of numbers"),
    ],
)
def test_a_bad_cell_does_not_turn_a_column_into_text(table, cells, message):
    frame = read_table(table("x\n" + "\n".join(cells) + "\n"))
    refuses(message, frame.numeric, (), "--labels")


def test_columns_that_are_not_used_say_which_cell_makes_them_text(table):
    frame = read_table(table("a,b,c,d\n1,x,007,\n2,3,8,\n4,y,9,\n"))
    assert frame.numeric() == ["a"]
    assert frame.others(["a"]) == [
        "'b' (line 2: 'x' is not a number)",
        "'c' (line 2: '007' has a zero in front)",
        "'d'",
    ]


def test_numbers_are_read_piece_by_piece(monkeypatch):
    monkeypatch.setattr(table_file, "_ROWS_AT_ONCE", 7)
    values = np.arange(100.0).reshape(50, 2)
    frame = TableFile("t", polars.LazyFrame({"a": values[:, 0], "b": values[:, 1]}))
    np.testing.assert_array_equal(frame.numbers(["b", "a"]), values[:, ::-1])


def test_the_first_odd_cell_of_the_first_column_is_told_wherever_it_stands(monkeypatch):
    monkeypatch.setattr(table_file, "_ROWS_AT_ONCE", 7)
    a, b = ["1"] * 50, ["1"] * 50
    a[33], a[40], b[2] = "x", "y", "z"
    frame = TableFile("t", polars.LazyFrame({"a": a, "b": b}), is_text=True)
    with pytest.raises(InvalidInputError, match=r"t, row 33 \(from 0\), column 'a': 'x' is not a number; correct it"):
        frame.numbers(["a", "b"])
