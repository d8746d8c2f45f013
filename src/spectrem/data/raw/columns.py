"""Sentence pairs in two columns of a table: Parquet, CSV, TSV, and JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spectrem.data.raw.json_lines import describe, read_objects
from spectrem.data.reading import display_name
from spectrem.data.table_file import TableFile, batches
from spectrem.data.table_formats import read_table
from spectrem.exceptions import InvalidInputError, no_such, quoted

JSON_LINES = (".jsonl", ".ndjson")
_TAB_SEPARATED = (".tsv", ".tab")
DEFAULT_COLUMNS = ("source", "target")


def iter_columns(path: str | os.PathLike[str], columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Two columns of text, row by row; line ends in cells are spaces, missing cells of tables are empty.

    In a table whose columns are separated by tabs no cell may hold both a tab and a line end: a quotation mark before a
    sentence would silently join it with the lines up to the next mark.

    Parameters
    ----------
    path : path
        ``.jsonl`` or ``.ndjson``, one JSON object a line, or a table that `read_table` knows.
    columns : (source, target)
        Their names. ``translation.en`` is field ``en`` of column ``translation`` where there is no column of that name.

    Raises
    ------
    InvalidInputError
        Naming file, line and column: no such file or column, something else than text in it (null in JSON, too), rows
        joined by quotation marks, no rows.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/trees.csv", ["id,en,fr", '1,"a tree, tall",un grand arbre', "2,wood,"])
    ...     list(iter_columns(f"{folder}/trees.csv", ["en", "fr"]))
    [('a tree, tall', 'un grand arbre'), ('wood', '')]
    """
    suffix = Path(Path(path).stem if os.fspath(path).endswith(".gz") else path).suffix.lower()
    if suffix in JSON_LINES:
        pairs = _of_objects(path, columns)
    else:
        table = read_table(path)
        pairs = _of_table(table, columns)
        if suffix in _TAB_SEPARATED:
            pairs = _unjoined(pairs, table, columns)
    for source, target in pairs:
        yield _one_line(source), _one_line(target)


def _one_line(text: str | None) -> str:
    return "" if text is None else text.replace("\n", " ").replace("\r", " ")


def _of_table(table: TableFile, columns: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    import polars

    expressions = [_expression(table, name) for name in columns]
    for rows in batches(table.data.select(e.cast(polars.String).alias(str(k)) for k, e in enumerate(expressions))):
        yield from rows.iter_rows()


def _unjoined(
    pairs: Iterator[tuple[str | None, ...]], table: TableFile, columns: Sequence[str]
) -> Iterator[tuple[str | None, ...]]:
    """The same pairs, unless a cell holds parts of several rows."""
    for row, pair in enumerate(pairs):
        for column, cell in zip(columns, pair, strict=True):
            if cell is not None and "\t" in cell and "\n" in cell:
                raise InvalidInputError(
                    f"{table.name}, {table.place(row)}: column {column!r} must not hold tabs and line ends together, "
                    f'got {quoted(cell)}, since the " before it quotes all up to the next "; double every " and put '
                    'the cell between ", or give lines of text in two files'
                )
        yield pair


def _expression(table: TableFile, name: str) -> Any:
    """A column of text, or a field of one."""
    import polars

    column, kind = polars.col(name), table.schema.get(name)
    outer, _, inner = name.partition(".")
    if kind is None and isinstance(table.schema.get(outer), polars.Struct):
        fields = {field.name: field.dtype for field in table.schema[outer].fields}
        if inner not in fields:
            raise InvalidInputError(f"--columns: column {outer!r} of {table.name}: {no_such('field', inner, fields)}")
        column, kind = polars.col(outer).struct.field(inner), fields[inner]
    if kind is None:
        table.check([name], "--columns")
    if isinstance(kind, polars.Struct):
        raise InvalidInputError(
            f"{table.name}, column {name!r}: holds fields, not text; name one of them: "
            f"{', '.join(repr(f'{name}.{field.name}') for field in kind.fields)}"
        )
    if kind not in (polars.String, polars.Categorical, polars.Enum):
        raise InvalidInputError(
            f"{table.name}, column {name!r}: holds {kind}, and text is needed; choose others by --columns "
            f"SOURCE,TARGET among {', '.join(map(repr, table.names))}"
        )
    return column


def _of_objects(path: str | os.PathLike[str], columns: Sequence[str]) -> Iterator[tuple[str | None, ...]]:
    name = display_name(path)
    for number, row in read_objects(path):
        pair = []
        for column in columns:
            outer, _, inner = column.partition(".")
            try:
                value = row[column] if column in row else row[outer][inner]
            except (KeyError, TypeError):
                raise InvalidInputError(
                    f"--columns: {name}, line {number}: {no_such('key', column, row)}; every line needs both"
                ) from None
            if not isinstance(value, str):
                raise InvalidInputError(
                    f"{name}, line {number}: {column!r} is {describe(value)}, and text is needed, got {quoted(value)}; "
                    'correct it, write "" for an empty sentence, or choose others by --columns SOURCE,TARGET'
                )
            pair.append(value)
        yield tuple(pair)
