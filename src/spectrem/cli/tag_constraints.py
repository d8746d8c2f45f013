"""What `--constraint` of `spectrem tag train` understands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from spectrem.constraints import Constraint

_NUMBER = r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?"
_BOUND = re.compile(rf"(?P<tags>[^<>=]+?)\s*(?P<sign><=|>=|=)\s*(?P<number>{_NUMBER})\s*(?P<percent>%?)")
_SPARSITY = re.compile(rf"sparsity\s+(?P<strength>{_NUMBER})(?:\s+(?P<count>[0-9]+))?")


def read_constraint(text: str) -> Constraint:
    """A constraint on tags from a few words.

    * ``VERB AUX >= 1``: every sentence expects one of these tags at least; also ``<=`` and ``=``.
    * ``NOUN <= 30%``: the same of the share of all words of the text.
    * ``sparsity 32 10``: words that occur 10 times or more (1 if left out) have few tags, with strength 32
      ([Ganchev2010] §8).

    Raises
    ------
    InvalidInputError
        If it is none of these.

    Examples
    --------
    >>> read_constraint("VERB AUX >= 1")
    (E[part("tag").isin(["VERB", "AUX"])] >= 1).per("sentence").named("VERB AUX >= 1")
    >>> read_constraint("NOUN<=30%")
    (E[part("tag") == "NOUN"] <= 0.3 * E.count(..., each="occurrence")).named("NOUN <= 30%")
    """
    stripped = text.strip()
    if match := _SPARSITY.fullmatch(stripped):
        from spectrem.constraints import sparsity

        return sparsity(float(match["strength"]), min_count=int(match["count"] or 1))
    if match := _BOUND.fullmatch(stripped):
        if match["percent"] and float(match["number"]) > 100:
            raise InvalidInputError(f"--constraint {text!r}: is a share of all words, 100% at most; lower it")
        return _bound(match["tags"].split(), match["sign"], float(match["number"]), bool(match["percent"]))
    raise InvalidInputError(
        f"--constraint {text!r} is not understood; write 'VERB >= 1' (in every sentence), 'NOUN <= 30%' (of all words) "
        "or 'sparsity 32'"
    )


def check_tags(constraints: Collection[str], tags: Collection[str]) -> None:
    """Refuse constraints on tags that do not exist.

    Raises
    ------
    InvalidInputError
        If a tag of a bound is not among ``tags``.
    """
    for text in constraints:
        match = _BOUND.fullmatch(text.strip())
        for tag in match["tags"].split() if match else ():
            if tag not in tags:
                known = ", ".join(sorted(tags)) or "none"
                raise InvalidInputError(f"--constraint {text!r}: there is no tag {tag!r}; the tags are {known}")


def _bound(tags: list[str], sign: str, number: float, percent: bool) -> Constraint:
    from spectrem.constraints import E, part

    chosen = E[part("tag") == tags[0]] if len(tags) == 1 else E[part("tag").isin(tags)]
    limit: Any = number / 100 * E.count(..., each="occurrence") if percent else number
    comparison = chosen >= limit if sign == ">=" else chosen <= limit if sign == "<=" else chosen == limit
    name = f"{' '.join(tags)} {sign} {number:g}{'%' * percent}"
    return (comparison if percent else comparison.per("sentence")).named(name)
