"""Tables from files and into files, by polars: CSV and TSV, plain or gzipped, and Parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from spectrem.data.decoding import check_text, decode
from spectrem.data.reading import STANDARD_INPUT, display_name, is_plain_file, read_bytes
from spectrem.data.table_file import TableFile, as_typed, batches
from spectrem.data.writers import open_output
from spectrem.exceptions import InvalidInputError, quoted, shorten

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
            while piece := stream.read(1 << 22) + stream.readline():
                if piece.count(b"\r") != piece.count(b"\r\n"):
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
    if all(map(_is_measured, header)):
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


def _is_measured(text: str) -> bool:
    """Whether it is a number with a fraction: whole ones may be labels."""
    try:
        float(text)
    except ValueError:
        return False
    return not text.lstrip("-").isdigit()


def _parquet(source: Path | bytes, name: str) -> TableFile:
    import polars

    try:
        data = polars.scan_parquet(source, glob=False)
        counts = data.select(polars.len().alias("\0"), polars.all().null_count()).collect(engine="streaming")
    except polars.exceptions.PolarsError as error:
        raise InvalidInputError(f"{name}: damaged Parquet: {str(error).splitlines()[0]}; write it again") from None
    return TableFile(name, data, n_rows=int(counts.item(0, 0)))


def _write_text(table: TableFile, stream: TextIO, separator: str) -> None:
    import polars

    for name, kind in table.schema.items():
        if kind.is_nested():
            raise InvalidInputError(
                f"{table.name}, column {name!r}: holds {kind}, which no line of text can; write .parquet"
            )
    header = True
    for rows in batches(table.data):
        # polars leaves a carriage return without quotes, which others take for the end of a line
        returns = any(column.str.contains("\r", literal=True).any() for column in rows if column.dtype == polars.String)
        quotes: Any = "non_numeric" if returns else "necessary"
        stream.write(rows.write_csv(separator=separator, include_header=header, quote_style=quotes))
        header = False


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
