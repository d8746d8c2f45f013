"""Which options go together: tables of rules against which a command holds what was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spectrem.cli.declare import Given
from spectrem.exceptions import InvalidInputError


class Rule(NamedTuple):
    """An error if all of some options were given and none of some others.

    Attributes
    ----------
    present, absent : tuple of str
        Keys of `Given`: arguments, options, and options with a value. A command may add others for what it knows of a
        file, such as ``"a model of --dmv"``.
    message : str
        Options in braces become what was given: ``"{--gamma}"``.
    """

    present: tuple[str, ...]
    absent: tuple[str, ...]
    message: str


def needs(option: str, *others: str, message: str = "") -> Rule:
    """An option that changes nothing, or makes no sense, without any of some others."""
    usual = f"{{{option}}} changes nothing without {' or '.join(others)}; add that or drop this"
    return Rule((option,), others, message or usual)


def excludes(option: str, other: str, message: str) -> Rule:
    """Two options that cannot both be given."""
    return Rule((option, other), (), message)


CONSTRAINED = tuple(
    needs(option, "--constraint", "--constraints") for option in ("--infeasible", "--project-at-predict")
)
"""Rules of commands that learn under constraints."""


def check_rules(rules: Iterable[Rule], given: Given) -> None:
    """Refuse options that cannot be given together, or that change nothing in this run.

    Raises
    ------
    InvalidInputError
        By the first rule that is broken.

    Examples
    --------
    >>> check_rules([needs("--rate", "--anneal")], {"--rate": "--rate 2"})
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: --rate 2 changes nothing without --anneal; add that or drop this
    """
    for rule in rules:
        if given.keys() >= set(rule.present) and given.keys().isdisjoint(rule.absent):
            raise InvalidInputError(rule.message.format_map(given))
