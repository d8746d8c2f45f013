"""A table in a file, read by polars column by column and piece by piece: CSV, TSV, Parquet."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Ints
from spectrem._reprs import brief_dataclass
from spectrem.data.files import STANDARD_INPUT, check_text, decode, display_name, is_plain_file, open_output, read_bytes
from spectrem.exceptions import InvalidInputError, did_you_mean, listed, quoted, shorten

if TYPE_CHECKING:
    import polars


MISSING_KEYS = ("", "NA", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None")
"""Cells of text that give a row no key; other programs write them in place of a missing value."""
_ANY = "."
_WHOLE = r"^-?(?:0|[1-9][0-9]*)$"
_CODE = r"^[+-]?0[0-9]+$"
_PADDED = r"^[+-]?0[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
_NUMBER = r"^[+-]?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))$"
_WRITTEN = r"^[+-]?(?:[0-9]{1,3}(?:[,' ][0-9]{3})+(?:\.[0-9]+)?|[0-9]+,[0-9]+|[0-9]+(?:\.[0-9]+)? ?%)$"
_BEGINS_SO = r"^\s*(?:[+-]?[.0-9]|[+-]?(?i:nan|inf))"  # whatever matches one of these, with spaces around it
_ZERO_IN_FRONT = r"^\s*[+-]?0[0-9]"
_ROWS_AT_ONCE = 50_000
_FIRST_ROWS = 1_000  # which mostly tell what a column holds
_ROUNDED = r"^-?[0-9]{16,}$"


@brief_dataclass(frozen=True, eq=False)
class TableFile:
    """A table of a file. Cells are read when they are asked for, and those that nobody asks for stay as they are.

    Parameters
    ----------
    name : str
        What errors call the table, such as the path of its file.
    data : polars.LazyFrame
    is_text : bool
        Whether all columns are text whose cells may mean numbers, as in CSV; an empty cell is null.
    line_of : callable, optional
        Gives the line of the file, from 1, where a row, from 0, starts.
    n_rows : int, optional
        Where it is known already.

    Examples
    --------
    >>> import polars
    >>> pets = TableFile("pets.csv", polars.LazyFrame({"kind": ["cat", "dog"], "age": ["3", "4.5"]}), is_text=True)
    >>> pets.numbers(["age"]).tolist(), pets.numeric(), pets.values("kind").to_list()
    ([[3.0], [4.5]], ['age'], ['cat', 'dog'])
    """

    name: str
    data: polars.LazyFrame
    is_text: bool = False
    line_of: Callable[[int], int] | None = None
    n_rows: int | None = None

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The type of every column by its name, in order."""
        return dict(self.data.collect_schema())

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema)

    def __len__(self) -> int:
        import polars

        return int(self._collect(polars.len()).item()) if self.n_rows is None else self.n_rows

    def place(self, row: int) -> str:
        """The row or line that messages name."""
        return f"row {row} (from 0)" if self.line_of is None else f"line {self.line_of(row)}"

    def check(self, names: Collection[str], option: str) -> None:
        """Refuse names of columns that do not exist.

        Raises
        ------
        InvalidInputError
            Naming the option that gave them, the column most like it and those that there are.
        """
        for name in names:
            if name not in self.schema:
                raise InvalidInputError(
                    f"{option}: {self.name} has no column {quoted(name)}; {did_you_mean(name, self.names)}its columns "
                    f"are {listed(self.names)}"
                )

    def extended(self, columns: Mapping[str, NDArray | Sequence[str]]) -> TableFile:
        """The same with columns replaced or, where the name is new, added at the end."""
        import polars

        added = [polars.Series(name, values) for name, values in columns.items()]
        return replace(self, data=self.data.with_columns(added))

    def numbers(
        self, names: Sequence[str], hint: Callable[[str], str] = lambda name: "correct it", missing: bool = False
    ) -> NDArray:
        """Columns as numbers, shape (n_rows, n_names); infinite ones are let through.

        With ``missing``, empty cells are NaN; in Parquet, null and NaN.

        Raises
        ------
        InvalidInputError
            Naming the row of the first cell that is missing or no number; ``hint`` says what to try about a column.
        """
        numbers, odd, start = np.empty((len(self), len(names))), dict[str, int](), 0
        for columns in self._number_pieces(names):
            for k, column in enumerate(columns):
                wrong = column.is_null() | column.is_nan()
                if wrong.any():
                    odd.setdefault(names[k], start + int(wrong.arg_max() or 0))
                numbers[start : start + len(column), k] = column.to_numpy()
            start += len(columns[0])
        for name in names:
            if name in odd and missing:
                text, number = self._text(name), self._number(name)
                empty = text.is_in(["", *([] if self.is_text else ["NaN"])])
                wrong = self._collect((number.is_null() | number.is_nan()) & ~empty).to_series()
                if not wrong.any():
                    continue
                odd[name] = int(wrong.arg_max() or 0)
            if name in odd:
                raise self.refusal(odd[name], name, f"{_wrong_cell(self._cell(odd[name], name))}; {hint(name)}")
        return numbers

    def values(self, name: str) -> polars.Series:
        """A column as whole numbers, numbers, truth values or text, whichever all of its cells are.

        Text with zeros in front (``007``) and whole numbers beyond 64 bits stay text.

        Raises
        ------
        InvalidInputError
            Naming the row of the first missing cell.
        """
        column = self._column(name, ("",))
        self._refuse(column.is_null(), name, "fill it in")
        return column

    def keys(self, name: str) -> polars.Series:
        """A column that constraints look at: as `values`, but null where cells are missing.

        Missing are null, NaN and, in text files, the cells ``MISSING_KEYS``.

        Examples
        --------
        >>> import polars
        >>> cells = polars.LazyFrame({"owner": ["7", "NA", "", "8"]})
        >>> TableFile("pets.csv", cells, is_text=True).keys("owner").to_list()
        [7, None, None, 8]
        """
        return self._column(name, MISSING_KEYS)

    def labels(self, name: str, option: str) -> Ints:
        """A column of whole numbers from 0, -1 where the cell is empty.

        Raises
        ------
        InvalidInputError
            Naming the option that chose the column and the row of the first cell that is something else.
        """
        text, numbers = self._collect(self._text(name), self._number(name).alias("\0")).iter_columns()
        known = ~text.str.to_lowercase().is_in(["", "nan", "-1"])
        whole = (numbers == numbers.floor()) & (numbers >= 0) & (numbers < 2**53)
        rule = f"{option} needs whole numbers from 0, or empty cells where unknown"
        self._refuse(known & ~whole.fill_null(False), name, "correct it", rule)
        return np.where(known, numbers.fill_null(-1).to_numpy(), -1).astype(np.int64)

    def numeric(self, without: Collection[str] = (), option: str = "") -> list[str]:
        """Names of the columns of numbers, but for those ``without``; numbers with zeros in front (``007``) are text.

        Raises
        ------
        InvalidInputError
            If a column is of numbers but for some cells, since that may be a mistake in them; ``option`` is where
            columns can be named.
        """
        names = []
        for name, (is_number, is_slip, _) in self._column_types.items():
            if is_number and name not in without:
                names.append(name)
            elif is_slip and name not in without:
                row, message = self._first_odd(name)
                hint = f"correct it, or name the columns to use by {option}"
                raise self.refusal(row, name, f"{message}, in a column of numbers; {hint}")
        return names

    def others(self, names: Collection[str]) -> list[str]:
        """Columns not among ``names``, in words: of text where some cells are numbers, also the first that is not.

        Examples
        --------
        >>> import polars
        >>> table = TableFile("t.csv", polars.LazyFrame({"a": ["1", "2"], "b": ["x", "2"]}), True, lambda row: row + 2)
        >>> table.others(["a"])
        ["'b' (line 2: 'x' is not a number)"]
        """
        others = []
        for name, (is_number, _, has_numbers) in self._column_types.items():
            if name not in names:
                row, odd = self._first_odd(name) if has_numbers and not is_number else (0, "")
                others.append(quoted(name) + (f" ({self.place(row)}: {odd})" if odd else ""))
        return others

    def refusal(self, row: int, name: str, message: str) -> InvalidInputError:
        """An error about one cell."""
        return InvalidInputError(f"{self.name}, {self.place(row)}, column {name!r}: {message}")

    def _refuse(self, odd: polars.Series, name: str, hint: str, rule: str = "") -> None:
        """Raise an error for the first cell that breaks the rule, if there is one."""
        row = odd.arg_max()
        if row is not None and odd[row]:
            cell = self._cell(row, name)
            raise self.refusal(
                row, name, (f"{rule}, found {quoted(cell)}" if rule else _wrong_cell(cell)) + f"; {hint}"
            )

    @cached_property
    def _column_types(self) -> Mapping[str, tuple[bool, bool, bool]]:
        """For every column: are all cells numbers; if not, does that seem a slip; are some."""
        if not self.is_text:
            return {name: (kind.is_numeric(), False, False) for name, kind in self.schema.items()}
        import polars

        first = self.data.head(_FIRST_ROWS).select(map(self._text, self.names)).collect()
        text = {column.name for column in first if not column.str.contains(_BEGINS_SO).any()}
        mixed = list[str]()
        for rows in batches(self.data):  # most columns hold nothing but numbers, or none at all
            for cells in rows.select(polars.exclude(mixed)).iter_columns():
                name = cells.name
                odd = cells.str.contains(_BEGINS_SO if name in text else _ZERO_IN_FRONT).any()
                if name not in text:
                    self._read_numbers.setdefault(name, []).append(cells.cast(polars.Float64, strict=False))
                    odd |= self._read_numbers[name][-1].null_count() > 0
                if odd:
                    mixed.append(name)
                    self._read_numbers.pop(name, None)
        types = {name: (name not in text, False, False) for name in self.names}
        patterns = (dict.fromkeys(mixed, one) for one in (_ANY, _NUMBER, _WHOLE, _CODE, _WRITTEN))
        filled, numbers, whole, codes, written = self._count(*patterns)
        for name in mixed:
            # names of rows may be 007 and 8, but not 0.5
            are_names = numbers[name] + codes[name] == filled[name] and numbers[name] == whole[name]
            slip = 2 * (numbers[name] + written[name]) >= filled[name] and not are_names
            complete = numbers[name] == filled[name]
            types[name] = (complete, slip and not complete, not complete and numbers[name] + codes[name] > 0)
        return types

    @cached_property
    def _read_numbers(self) -> dict[str, list[polars.Series]]:
        """Columns of numbers, piece by piece, that were read when columns were looked at, until somebody wants some."""
        return {}

    def _number_pieces(self, names: Sequence[str]) -> Iterator[Sequence[polars.Series]]:
        """Columns as numbers, null or NaN where a cell is something else, some ten thousand rows at a time."""
        known = dict(self._read_numbers)
        self._read_numbers.clear()
        if all(name in known for name in names):
            return zip(*(known[name] for name in names), strict=True)
        return (rows.get_columns() for rows in batches(self.data.select(*map(self._number, names))))

    def _count(self, *patterns: Mapping[str, str]) -> list[dict[str, int]]:
        """For each mapping from columns of text to patterns, in how many rows they match."""
        tests = [(name, one, self._text(name)) for names in patterns for name, one in names.items()]
        sums = [
            (text != "" if one == _ANY else text.str.contains(one)).sum().alias(str(k))
            for k, (_, one, text) in enumerate(tests)
        ]
        counts = iter(self._collect(*sums).row(0) if sums else ())
        return [dict(zip(names, counts, strict=False)) for names in patterns]

    def _first_odd(self, name: str) -> tuple[int, str]:
        """The first cell of a column of text that is not a number: its row, and what is said of it."""
        text = self._text(name)
        row = self._collect((~text.str.contains(_NUMBER) & (text != "")).arg_max()).item()
        return row, _wrong_cell(self._cell(row, name))

    def _column(self, name: str, missing: Collection[str]) -> polars.Series:
        """A column typed, null where it is missing."""
        if self.schema[name].is_nested():
            raise InvalidInputError(
                f"{self.name}, column {name!r}: holds {self.schema[name]}, one value per cell is needed; choose another"
            )
        import polars

        cells: polars.Expr | str = name
        if self.is_text:
            text = self._text(name)
            cells = polars.when(~text.is_in(list(missing))).then(text)
        column = self._collect(cells).to_series().alias(name)
        column = as_typed(column) if self.is_text else column
        return column.fill_nan(None) if column.dtype.is_float() else column

    def _text(self, name: str) -> polars.Expr:
        """A column as text without spaces around it, empty where it is missing."""
        import polars

        column = polars.col(name)
        return (column if self.is_text else column.cast(polars.String)).str.strip_chars().fill_null("")

    def _number(self, name: str) -> polars.Expr:
        """A column as numbers, null or NaN where it is something else."""
        import polars

        column = polars.col(name)
        return (column if self.schema[name].is_numeric() else self._text(name)).cast(polars.Float64, strict=False)

    def _cell(self, row: int, name: str) -> str:
        import polars

        text = polars.col(name).slice(row, 1)
        return self.data.select(text).select(self._text(name)).collect().item()

    def _collect(self, *expressions: polars.Expr | str) -> polars.DataFrame:
        return self.data.select(*expressions).collect(engine="streaming")


def batches(data: polars.LazyFrame) -> Iterator[polars.DataFrame]:
    """The rows of a table in order, some ten thousand at a time."""
    return data.collect_batches(chunk_size=_ROWS_AT_ONCE, maintain_order=True)


def as_typed(text: polars.Series) -> polars.Series:
    """Text as what all of its cells are that are not null: whole numbers, numbers, truth values, or the text itself.

    Examples
    --------
    >>> import polars
    >>> [as_typed(polars.Series(cells)).to_list() for cells in (["1", None], ["True", "false"], ["007", "1"])]
    [[1, None], [True, False], ['007', '1']]
    """
    import polars

    known = text.drop_nulls()
    kind: Any = polars.String
    if known.is_empty():
        return text

    def all_are(pattern: str) -> bool:
        return all(some.str.contains(pattern).all() for some in (known.head(_FIRST_ROWS), known))

    if all_are(_WHOLE):
        kind = polars.Int64
    elif all_are(_NUMBER) and not known.str.contains(_ROUNDED).any():
        kind = polars.Float64
    elif all_are("^(?i:true|false)$"):
        return text.str.to_lowercase() == "true"
    typed = text.cast(kind, strict=False)
    return typed if typed.null_count() == text.null_count() else text


def as_label_names(names: Sequence[str]) -> list[Any]:
    """Names of columns as labels: whole numbers if all are, else text.

    Examples
    --------
    >>> as_label_names(["0", "1"]), as_label_names(["ham", "1"])
    ([0, 1], ['ham', '1'])
    """
    # Python reads no text of thousands of digits.
    whole = all(re.match(_WHOLE, name) and len(name) <= 20 and -(2**63) <= int(name) < 2**63 for name in names)
    return [int(name) for name in names] if whole else list(names)


def _wrong_cell(text: str) -> str:
    if re.match(_PADDED, text):
        return f"{quoted(text)} has a zero in front"
    with suppress(ValueError):
        if not isnan(float(text)):
            return f"{quoted(text)} is not a number in the digits 0 to 9 alone"
    if text.lower() not in ("", "nan"):
        return f"{quoted(text)} is not a number"
    return f"the cell is {'not a number (nan)' if text else 'empty'}"


_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = ".parquet"
_PARQUET_MAGIC = b"PAR1"


def read_table(path: str | os.PathLike[str]) -> TableFile:
    """Look at a table whose first line names the columns.

    The name tells the format: ``.csv``, ``.tsv`` or ``.tab``, each also gzipped, or ``.parquet``. Text is UTF-8, quoted
    by ``"``; its cells are kept as they stand; blank lines do not count. A plain file stays where it is and is read
    again, piece by piece, whenever columns are asked for, so it must stay as it is until the work is done.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input, CSV (or Parquet, told by its first bytes).

    Returns
    -------
    TableFile
        Its columns are read when they are asked for.

    Raises
    ------
    InvalidInputError
        Naming file and line: no such file, none of these formats, no names of columns, or the same twice, a row of
        another length, no rows at all; or polars is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/pets.csv", ["kind,age", "cat,3", '"dog, big",4.5'])
    ...     pets = read_table(f"{folder}/pets.csv")
    ...     pets.numbers(["age"]).tolist(), pets.values("kind").to_list()
    ([[3.0], [4.5]], ['cat', 'dog, big'])
    """
    name = display_name(path)
    _import_polars(name)
    separator = _separator(path)
    # polars takes names in UTF-8 only
    by_name = is_plain_file(path) and not any("\udc80" <= letter <= "\udcff" for letter in os.fsdecode(path))
    source = Path(path) if by_name else read_bytes(path)
    with _open(source) as stream:
        head = stream.read(4096)
    if head.startswith(_PARQUET_MAGIC):
        table = _parquet(source, name)
    elif separator is None:
        raise InvalidInputError(f"{name}: this is not a Parquet file; name it .csv or .tsv if it is text")
    else:
        check_text(head, name)
        table = _Text(source, name, separator).table()
    if not len(table):
        hint = "; the first line must name the columns" if all(map(str.isdigit, table.names)) else ""
        raise InvalidInputError(f"{name} names columns but has no rows{hint}; give it one or more")
    return table


@contextmanager
def open_table(path: str | os.PathLike[str]) -> Iterator[Callable[[TableFile], None]]:
    """Open a file for one table, in the format that its name tells; it appears when the block ends, as `open_output`'s.

    Parameters
    ----------
    path : path or "-"
        As of `read_table`; ``-`` is standard output, CSV. In Parquet, columns of text are typed where all cells allow.

    Raises
    ------
    InvalidInputError
        If the place cannot be written, the format is not known, or polars is not installed.

    Examples
    --------
    >>> import polars
    >>> with open_table("-") as write:
    ...     write(TableFile("pets", polars.LazyFrame({"kind": ["cat", "dog"], "age": [3.0, 4.5]})))
    kind,age
    cat,3.0
    dog,4.5
    """
    separator = _separator(path)
    _import_polars(os.fspath(path))
    with open_output(path) as stream:
        if separator is None:
            yield lambda table: _write_parquet(table, stream)
        else:
            yield lambda table: _write_text(table, stream, separator)


def _separator(path: str | os.PathLike[str]) -> str | None:
    """The separator of columns that the name of a text file tells; None for Parquet."""
    place = Path(path)
    if os.fspath(path) == STANDARD_INPUT or (place.exists() and not place.is_file() and not place.is_dir()):
        return ","
    suffix = Path(place.stem).suffix if place.suffix == ".gz" else place.suffix
    if place.suffix.lower() == _PARQUET:
        return None
    if suffix.lower() not in _SEPARATORS:
        raise InvalidInputError(
            f"{os.fspath(path)}: the format cannot be told by the name; let it end in .csv, .tsv (or either with .gz) "
            "or .parquet"
        )
    return _SEPARATORS[suffix.lower()]


def _open(source: Path | bytes) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


class _Text:
    """A file of text, read by polars, and by Python's csv where that cannot say which line is wrong."""

    def __init__(self, source: Path | bytes, name: str, separator: str) -> None:
        self.source, self.name, self.separator = source, name, separator

    def table(self) -> TableFile:
        import polars

        first, header = next(self.rows(), (1, []))
        header = [cell.strip() for cell in header]
        _check_header(header, self.name, first, self.separator)
        settings: Any = {"infer_schema": False, "with_column_names": lambda _: header, "glob": False}
        scan: Any = partial(polars.scan_csv, separator=self.separator, **settings)
        n_rows, doubtful = -1, True  # polars takes a carriage return alone for text
        if not self._has_returns():
            with suppress(polars.exceptions.PolarsError):
                data = scan(self.source)
                counts = data.select(polars.len().alias("\0"), polars.all().null_count()).collect(engine="streaming")
                n_rows = int(counts.item(0, 0))
                doubtful = not n_rows or int(counts.item(0, -1)) > 0  # rows that are too short are filled up
        if doubtful and (counted := self._count(len(header), first)) != n_rows:
            data, n_rows = scan(self._rewritten()), counted
        return TableFile(self.name, data, is_text=True, line_of=self.line_of, n_rows=n_rows)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not blank, with the line where each starts; text between quotes may take several lines."""
        line = 1
        with io.TextIOWrapper(_open(self.source), encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter=self.separator, strict=True)
            limit = csv.field_size_limit(2**31 - 1)  # one for the whole process
            try:
                for row in reader:
                    if row:
                        yield line, row
                    line = reader.line_num + 1
            except csv.Error as error:
                raise InvalidInputError(
                    f'{self.name}, line {line}: cannot be read as a table: {error}; look for a " without a second one'
                ) from None
            except UnicodeDecodeError:
                decode(self.source if isinstance(self.source, bytes) else self.source.read_bytes(), self.name)
                raise
            finally:
                csv.field_size_limit(limit)

    def _has_returns(self) -> bool:
        """Whether a carriage return stands without a line feed behind it."""
        with _open(self.source) as stream:
            while piece := stream.read(1 << 20):
                if b"\r" in piece and (piece := piece + stream.readline()).count(b"\r") != piece.count(b"\r\n"):
                    return True
        return False

    def line_of(self, row: int) -> int:
        """The line where a row starts, from 1."""
        return next(line for line, _ in islice(self.rows(), row + 1, None))

    def _count(self, width: int, first: int) -> int:
        """The number of rows below the header, each of which must have so many cells."""
        count = -1
        for line, row in self.rows():
            count += 1
            if len(row) != width:
                raise InvalidInputError(
                    f"{self.name}, line {line}: has {len(row)} cells, and line {first} names {width} columns; "
                    'correct the line, and put text that holds the separator between "'
                )
        return count

    def _rewritten(self) -> bytes:
        """The table without blank lines, and with every \" where polars expects it."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self.separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerows(row for _, row in self.rows())
        return text.getvalue().encode()


def _check_header(header: list[str], name: str, line: int, separator: str) -> None:
    if not header:
        raise InvalidInputError(f"{name} has no lines but blank ones; its first line must name the columns")
    if len(header) == 1:
        for other, called in ((",", "commas"), ("\t", "tabs"), (";", "semicolons")):
            if other in header[0] and other != separator:
                hint = {",": "name the file .csv", "\t": "name the file .tsv", ";": "write commas in their place"}
                raise InvalidInputError(
                    f"{name}, line {line}: the columns seem to be separated by {called}: {quoted(header[0])}; "
                    f"{hint[other]}"
                )
    # numbers with a fraction, as whole ones may be labels
    if all(re.match(_NUMBER, title) and not title.lstrip("-").isdigit() for title in header):
        raise InvalidInputError(
            f"{name}, line {line}: the first line must name the columns, found only numbers: "
            f"{shorten(', '.join(header[:5]))}; write names above them"
        )
    for number, title in enumerate(header, start=1):
        if not title:
            raise InvalidInputError(
                f"{name}, line {line}: column {number} has no name; give it one, or leave it out (pandas: "
                "to_csv(..., index=False))"
            )
        if title in header[: number - 1]:
            raise InvalidInputError(
                f"{name}, line {line}: there are two columns {quoted(title)}; the first line must name "
                "every column, each differently"
            )


def _parquet(source: Path | bytes, name: str) -> TableFile:
    import polars

    try:
        data = polars.scan_parquet(source, glob=False)
        counts = data.select(polars.len().alias("\0"), polars.all().null_count()).collect(engine="streaming")
    except polars.exceptions.PolarsError as error:
        raise InvalidInputError(f"{name}: damaged Parquet: {str(error).splitlines()[0]}; write it again") from None
    return TableFile(name, data, n_rows=int(counts.item(0, 0)))


def _write_text(table: TableFile, stream: TextIO, separator: str) -> None:
    for name, kind in table.schema.items():
        if kind.is_nested():
            raise InvalidInputError(
                f"{table.name}, column {name!r}: holds {kind}, which no line of text can; write .parquet"
            )
    stream.flush()
    binary = getattr(stream, "buffer", None)  # a program may have put a stream of text in place of standard output
    for number, rows in enumerate(batches(table.data)):
        # polars leaves a carriage return without quotes, which others take for the end of a line
        for quotes in ("necessary", "non_numeric"):
            piece = io.BytesIO()
            rows.write_csv(piece, separator=separator, include_header=number == 0, quote_style=cast(Any, quotes))
            if b"\r" not in (written := piece.getvalue()):
                break
        if binary is None:
            stream.write(written.decode())
        else:
            binary.write(written)


def _write_parquet(table: TableFile, stream: TextIO) -> None:
    import polars

    data = table.data
    if table.is_text:
        rows = data.collect(engine="streaming")
        data = rows.with_columns([as_typed(column) for column in rows if column.dtype == polars.String]).lazy()
    file = io.BytesIO()  # polars would write past a stream into its descriptor, and errors would not name the file
    data.sink_parquet(file)
    stream.buffer.write(file.getbuffer())


def _import_polars(name: str) -> Any:
    try:
        import polars
    except ImportError:
        raise InvalidInputError(
            f"{name}: tables are read and written by polars, which is not installed; pip install 'spectrem[tables]'"
        ) from None
    return polars
