"""Frames from files and into files: CSV and TSV, plain or gzipped, and Parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from spectrem.data.decoding import decode
from spectrem.data.frames import TEXT, Frame, as_typed
from spectrem.data.readers import STANDARD_INPUT, display_name, read_bytes
from spectrem.data.writers import open_output
from spectrem.exceptions import InvalidInputError, quoted, shorten

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = ".parquet"
_PARQUET_MAGIC = b"PAR1"
_ROWS_AT_ONCE = 20_000


def read_frame(path: str | os.PathLike[str]) -> Frame:
    """Read a table whose first line names the columns.

    The name tells the format: ``.csv``, ``.tsv`` or ``.tab``, each also gzipped, or ``.parquet``. Text is UTF-8, quoted
    by ``"``; its cells are kept as they stand; blank lines do not count.

    Parameters
    ----------
    path : path or "-"
        ``-`` is standard input, CSV (or Parquet, told by its first bytes).

    Raises
    ------
    InvalidInputError
        Naming file and line: no such file, none of these formats, no names of columns, or the same twice, a row of
        another length, no rows at all; or polars, which Parquet needs, is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/pets.csv", ["kind,age", "cat,3", '"dog, big",4.5'])
    ...     frame = read_frame(f"{folder}/pets.csv")
    >>> frame.numbers("age"), frame.values("kind").tolist()
    (array([3. , 4.5]), ['cat', 'dog, big'])
    """
    name = display_name(path)
    separator = _separator(path)
    data = read_bytes(path)
    if data.startswith(_PARQUET_MAGIC):
        frame = _read_parquet(data, name)
    elif separator is None:
        raise InvalidInputError(f"{name}: this is no Parquet; name it .csv or .tsv if it is text")
    else:
        frame = _read_text(data, name, separator)
    if not len(frame):
        hint = "; the first line must name the columns" if all(map(str.isdigit, frame.names)) else ""
        raise InvalidInputError(f"{name} names columns but has no rows{hint}; give it one or more")
    return frame


@contextmanager
def open_frame(path: str | os.PathLike[str]) -> Iterator[Callable[[Frame], None]]:
    """Open a file for one frame, in the format that its name tells; it appears when the block ends, as `open_output`'s.

    Parameters
    ----------
    path : path or "-"
        As of `read_frame`; ``-`` is standard output, CSV. In Parquet, columns of text are typed where all cells allow.

    Raises
    ------
    InvalidInputError
        If the place cannot be written, the format is not known, or polars, which Parquet needs, is not installed.

    Examples
    --------
    >>> with open_frame("-") as write:
    ...     write(Frame("pets", {"kind": np.array(["cat", "dog"], TEXT), "age": np.array([3.0, 4.5])}))
    kind,age
    cat,3.0
    dog,4.5
    """
    separator = _separator(path)
    if separator is None:
        _polars(os.fspath(path))
    with open_output(path) as stream:
        if separator is None:
            yield lambda frame: _write_parquet(frame, stream)
        else:
            yield lambda frame: _write_text(frame, stream, separator)


def _separator(path: str | os.PathLike[str]) -> str | None:
    """Of a text file; None for Parquet."""
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


def _read_text(data: bytes, name: str, separator: str) -> Frame:
    text = decode(data, name)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # one for the whole process
    try:
        rows = _rows(reader, name)
        header, first = next(rows, ([], 1))
        header = [cell.strip() for cell in header]
        _check_header(header, name, first, separator)
        chunks: list[list[NDArray]] = []
        lines: list[int] = []
        while chunk := list(islice(rows, _ROWS_AT_ONCE)):
            for row, line in chunk:
                if len(row) != len(header):
                    raise InvalidInputError(
                        f"{name}, line {line}: has {len(row)} cells, and line {first} names {len(header)} columns; "
                        'correct the line, and put text that holds the separator between "'
                    )
            lines.extend(line for _, line in chunk)
            chunks.append([np.array(cells, TEXT) for cells in zip(*(row for row, _ in chunk), strict=True)])
    finally:
        csv.field_size_limit(limit)
    parts = zip(*chunks, strict=True) if chunks else [[np.array([], TEXT)] for _ in header]
    columns = {title: np.concatenate(list(cells)) for title, cells in zip(header, parts, strict=True)}
    return Frame(name, columns, np.array(lines, np.int64))


def _rows(reader: Any, name: str) -> Iterator[tuple[list[str], int]]:
    """Rows that are not blank, with the line where each starts; text between quotes may take several lines."""
    line = 1
    try:
        for row in reader:
            if row:
                yield row, line
            line = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInputError(
            f'{name}, line {line}: cannot be read as a table: {error}; look for a " without a second one'
        ) from None


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


def _write_text(frame: Frame, stream: TextIO, separator: str) -> None:
    columns = [_printed(frame, name) for name in frame.names]
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
    writer.writerow(frame.names)
    writer.writerows(zip(*columns, strict=True))


def _printed(frame: Frame, name: str) -> list[Any]:
    column = frame.columns[name]
    if not isinstance(column, np.ndarray):
        if column.dtype.is_nested():
            raise InvalidInputError(
                f"{frame.name}, column {name!r}: holds {column.dtype}, which no line of text can; write .parquet"
            )
        values = column.to_list()
    else:
        values = column.tolist()
    return [str(value).lower() if isinstance(value, bool) else value for value in values]


def _read_parquet(data: bytes, name: str) -> Frame:
    polars = _polars(name)
    try:
        table = polars.read_parquet(io.BytesIO(data))
    except polars.exceptions.PolarsError as error:
        raise InvalidInputError(f"{name}: damaged Parquet: {str(error).splitlines()[0]}; write it again") from None
    return Frame(name, {column.name: column for column in table.get_columns()})


def _write_parquet(frame: Frame, stream: TextIO) -> None:
    polars = _polars(frame.name)
    columns = []
    for name, column in frame.columns.items():
        if isinstance(column, np.ndarray):
            typed = as_typed(column)
            series = polars.Series(name, typed.tolist() if typed.dtype == TEXT else typed)
            columns.append(series.fill_nan(None) if column.dtype == TEXT and typed.dtype.kind == "f" else series)
        else:
            columns.append(column)
    table = io.BytesIO()  # polars would write past a stream into its descriptor, and errors would not name the file
    polars.DataFrame(columns).write_parquet(table)
    stream.buffer.write(table.getbuffer())


def _polars(name: str) -> Any:
    try:
        import polars
    except ImportError:
        raise InvalidInputError(
            f"{name}: Parquet needs polars, which is not installed; pip install 'spectrem[tables]', or use .csv"
        ) from None
    return polars
