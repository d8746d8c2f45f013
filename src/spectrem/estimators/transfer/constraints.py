"""What is demanded of the trees of target sentences."""

from __future__ import annotations

from spectrem.constraints import Constraint, E, part
from spectrem.exceptions import InvalidInputError, setting

CONSERVED, ALIGNED = "conserved", "aligned"
"""Names of the columns: of arcs, and of words (``head_aligned`` and ``dependent_aligned`` of arcs)."""


def conservation(share: float = 0.9) -> Constraint:
    """At least this share of the words that have a conserved arc take one, in expectation, in every sentence.

    [Ganchev2010] eq. 55, over the column ``conserved`` of arcs that `spectrem.data.conserved_arcs` makes. It is one
    row per sentence, so that posteriors are found by a line search.

    Parameters
    ----------
    share : float
        In (0, 1].

    Raises
    ------
    InvalidInputError
        If the share is out of range.

    Examples
    --------
    >>> conservation(0.8)
    (E[part("conserved")] >= 0.8 * E.count(part("conserved"))).per("sentence").named("conserved arcs")
    """
    if not (isinstance(share, int | float) and 0 < share <= 1):
        raise InvalidInputError(f"{setting('share')} must lie above 0 and be at most 1, got {share!r}; try 0.7")
    conserved = E[part(CONSERVED)] >= share * E.count(part(CONSERVED))
    return conserved.per("sentence").named("conserved arcs")


def few_children(most: float = 1.0) -> Constraint:
    """A word without a link has at most so many children, in expectation: what is dropped in translation is a leaf.

    [Ganchev2010] §7.1, for what conserved arcs leave open. Needs the column ``aligned`` of words.

    Parameters
    ----------
    most : float
        At least 0.

    Raises
    ------
    InvalidInputError
        If it is negative or not finite.

    Examples
    --------
    >>> few_children(1)
    (E[part("head_aligned") == 0] <= 1).per("sentence", "head").named("children of unaligned words")
    """
    if not (isinstance(most, int | float) and 0 <= most < float("inf")):
        raise InvalidInputError(f"most must be a finite number of children, at least 0, got {most!r}; try 1")
    children = E[part(f"head_{ALIGNED}") == 0] <= most
    return children.per("sentence", "head").named("children of unaligned words")
