"""Schemes of chunk tags: which tags may follow each other, begin a sentence and end it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrem._arrays import Bools
from spectrem.exceptions import InvalidInputError, quoted, setting

# By the letter of a tag: whether a chunk of its type must go on from the token before, and whether one must go on to
# the next token; None where it may or may not. Other letters, such as O, are outside of chunks.
_LETTERS: dict[str, dict[str, tuple[bool, bool | None]]] = {
    "bio": {"B": (False, None), "I": (True, None)},
    "bioes": {"B": (False, True), "I": (True, True), "E": (True, False), "S": (False, False)},
}
_OUTSIDE = (False, False)


def possible_moves(scheme: str, tags: Sequence[str | int]) -> Bools | None:
    """Which tags may follow each other, shape (n_tags + 1, n_tags + 1), [from, to]; None where all may.

    The last row is about first tokens of sentences, the last column about last ones.

    Raises
    ------
    InvalidInputError
        If a tag does not belong to the scheme.

    Examples
    --------
    >>> possible_moves("bio", ["B-NP", "I-NP", "O"]).astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 1, 1]]
    """
    if scheme == "any":
        return None
    parts = [_parsed(tag, scheme) for tag in tags]
    edge = ("O", "")  # what stands around a sentence
    return np.array([[_fits(scheme, left, right) for right in [*parts, edge]] for left in [*parts, edge]], np.bool_)


def _parsed(tag: str | int, scheme: str) -> tuple[str, str]:
    """The letter and the type of a tag."""
    letter, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if letter not in ("O", *_LETTERS[scheme]):
        known = ", ".join(f"{one}-TYPE" for one in _LETTERS[scheme])
        raise InvalidInputError(
            f"scheme {scheme!r} needs tags that are O or one of {known}, got {quoted(tag)}; rename it, or set "
            f"{setting('scheme', 'any')}"
        )
    return letter, kind


def _fits(scheme: str, left: tuple[str, str], right: tuple[str, str]) -> bool:
    """Whether a tag may stand right before another one."""
    _, goes_on = _LETTERS[scheme].get(left[0], _OUTSIDE)
    continues, _ = _LETTERS[scheme].get(right[0], _OUTSIDE)
    if continues:
        return goes_on is not False and left[1] == right[1]
    return not goes_on
