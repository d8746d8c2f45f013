"""Constraints that have a name in the papers."""

from __future__ import annotations

from spectrem.constraints.columns import part
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.expectation import E
from spectrem.exceptions import InvalidInputError
from spectrem.structures.alignment import NULL


def agreement(
    per: tuple[str, ...] = ("sentence", "source", "target"), names: tuple[str, str] = ("forward", "backward")
) -> Constraint:
    """Both directions of an alignment expect each link alike, [Ganchev2010] §5.3, [Graca2007] §4.1.2.

    For a product of two alignments, the second one reversed. Links to NULL have no counterpart and belong to no
    group, so they stay free. Use when two directional models of one bitext are trained or applied together.

    Parameters
    ----------
    per : tuple of str
        Columns that tell which parts of the two correspond.
    names : pair of str
        The product's names of its two structures.

    Examples
    --------
    >>> agreement()  # doctest: +NORMALIZE_WHITESPACE
    (E[part("direction") == "forward"] == E[part("direction") == "backward"]).per("sentence", "source",
    "target").named("agreement")
    """
    left, right = names
    both = E[part("direction") == left] == E[part("direction") == right]
    return both.per(*per).named("agreement")


def fertility(max: float | None = 1, min: float = 0) -> Constraint:
    """Bounds on how many words align to each word, [Graca2007] §4.1.1, [Ganchev2010] §5.2.

    Per sentence, direction and word of the side that is chosen from (the source in the forward direction, the
    target in the backward one): the expected number of links to it. NULL may be chosen any number of times. Use when
    words should align one to one, and rare words should not gather everything ("garbage collectors").

    Parameters
    ----------
    max : float or None
        Largest expected number of links of a word; None for no bound.
    min : float
        Smallest one; 0 for no bound.

    Raises
    ------
    InvalidInputError
        If no bound is given, or not ``0 <= min <= max``.

    Examples
    --------
    >>> fertility(1)
    (E[part("state") != -1] <= 1).per("sentence", "direction", "state").named("fertility")
    >>> fertility(max=3, min=0.5)
    E[part("state") != -1].between(0.5, 3).per("sentence", "direction", "state").named("fertility")
    """
    links = E[part("state") != NULL]
    if min < 0 or (max is not None and max < min):
        raise InvalidInputError(f"fertility needs 0 <= min <= max, got min={min!r} and max={max!r}; change either")
    if max is None:
        if min == 0:
            raise InvalidInputError("fertility bounds nothing with max=None and min=0; give max or a min above 0")
        bounded = links >= min
    elif min == 0:
        bounded = links <= max
    else:
        bounded = links.between(min, max)
    return bounded.per("sentence", "direction", "state").named("fertility")
