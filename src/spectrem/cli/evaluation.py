"""The shared part of commands that compare predictions with gold data: checks, tables, sign tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import typer

from spectrem.exceptions import InvalidInputError, printable, quoted

if TYPE_CHECKING:
    from rich.table import Table


def check_same_text(
    names: tuple[str, str], sides: tuple[Any, Any], words: Callable[[Any], list[Sequence[str]]]
) -> None:
    """Raise unless two files have the same words in the same sentences.

    Parameters
    ----------
    names : (str, str)
        Names of the files.
    sides : (object, object)
        Their contents; a method ``place`` says where a sentence, counted from 0, stands.
    words : callable
        The words of a side, sentence by sentence.

    Raises
    ------
    InvalidInputError
        Naming the first sentence that differs.

    Examples
    --------
    >>> check_same_text(("a", "b"), ([["go"]], [["went"]]), list)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    InvalidInputError: a, sentence 1, and b, sentence 1, must have the same words, but have 'go' and 'went' in 'go'; ...
    """
    texts = [words(side) for side in sides]
    if len(texts[0]) != len(texts[1]):
        raise InvalidInputError(
            f"{names[0]} has {len(texts[0])} sentences, but {names[1]} has {len(texts[1])}; give labellings of one text"
        )
    for number, (left, right) in enumerate(zip(*texts, strict=True)):
        if list(left) != list(right):
            pair = next(pair for pair in zip_longest(left, right) if pair[0] != pair[1])
            differ = f"{len(left)} and {len(right)} words" if None in pair else " and ".join(map(quoted, pair))
            places = [side.place(number) if hasattr(side, "place") else f"sentence {number + 1}" for side in sides]
            first, second = (f"{name}, {place}" for name, place in zip(names, places, strict=True))
            raise InvalidInputError(
                f"{first}, and {second}, must have the same words, but have {differ} in {quoted(' '.join(left))}; give "
                "labellings of one text"
            )


def column_titles(names: Sequence[str]) -> list[str]:
    """Names of files above columns of a table, without their folders where that leaves them different.

    Examples
    --------
    >>> column_titles(["here/a.txt", "there/b.txt"]), column_titles(["here/a.txt", "there/a.txt"])
    (['a.txt', 'b.txt'], ['here/a.txt', 'there/a.txt'])
    """
    short = [name.rpartition("/")[2] for name in names]
    return [printable(name) for name in (short if len(set(short)) == len(names) else names)]


def json_numbers(scores: Any, names: Iterable[str]) -> dict[str, float | None]:
    """Attributes of scores by name; None for NaN, which JSON does not have."""
    values = {name: getattr(scores, name) for name in names}
    return {name: None if value != value else value for name, value in values.items()}


def print_result(result: Mapping[str, Any], as_json: bool, show: Callable[[], None]) -> None:
    """Print scores as JSON, or as ``show`` does."""
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show()


def score_cell(value: float | None, percent: bool = False) -> str:
    """A score as tables show it, with a dash where there is none."""
    if value is None:
        return "–"  # noqa: RUF001 -- a dash
    return f"{100 * value:.2f}" if percent else f"{value:.4f}"


def print_scores(titles: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None) -> None:
    """Print a table of a first column of names, and columns of numbers."""
    from rich.table import Table

    table = Table("", title=title)
    for each in titles:
        table.add_column(each, justify="right")
    for row in rows:
        table.add_row(*row)
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table on standard output, its text as it stands: brackets and colons are no markup."""
    from rich.console import Console

    Console(markup=False, emoji=False).print(table)


def print_sign_tests(tests: Mapping[str, Mapping[str, Any]], about: str = "") -> None:
    """Print the outcome of sign tests of two predictions, by the unit that each counts."""
    for unit, test in tests.items():
        chance = f"p = {test['p_value']:.3g}" if test["p_value"] > 0 else "p < 1e-300"
        typer.echo(
            f"sign test by {unit.removesuffix('s')}{about}: the first is better in {test['n_first']} {unit}, the "
            f"second in {test['n_second']}, {chance}"
        )
