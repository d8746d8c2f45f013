"""Links that a user of WordAligner knows: all of a sentence pair, or some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from spectrem.data import Bitext, Links
from spectrem.exceptions import InvalidInputError
from spectrem.models.alignment import Anchors

KnownLinks: TypeAlias = Links | Sequence[Sequence[tuple[int, int]] | None]
"""The known links of every sentence pair; None where there are none."""


def read_anchors(bitext: Bitext, known: KnownLinks | None, anchors: KnownLinks | None) -> Anchors | None:
    """What is known of the links of a bitext.

    Parameters
    ----------
    bitext : Bitext
    known : Links or sequence of (sequence of (source, target) or None), optional
        All links of some pairs, None for the others; possible links of `Links` are left out.
    anchors : the same, optional
        Some links of some pairs.

    Raises
    ------
    InvalidInputError
        If there are not as many entries as sentence pairs, a link lies outside its pair, or a pair has both.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> bitext = encode_bitext(["the house", "a tree"], ["das haus", "ein baum"])
    >>> found = read_anchors(bitext, None, [[(1, 1)], None])
    >>> found.links.pairs(0), found.held.tolist(), found.complete.tolist()
    ([(1, 1)], [True, False], [False, False])
    """
    if known is None and anchors is None:
        return None
    complete = np.zeros(bitext.n_pairs, np.bool_)
    parts = []
    for name, given in (("known", known), ("anchors", anchors)):
        if given is not None:
            links = _sure(given, name, bitext.n_pairs)
            links.check_inside(bitext.source_lengths, bitext.target_lengths, name)
            parts.append(links)
            if name == "known":
                complete[:] = True if isinstance(given, Links) else [entry is not None for entry in given]
    if len(parts) == 2:
        both = np.flatnonzero(complete & (np.diff(parts[1].offsets) > 0))
        if len(both):
            raise InvalidInputError(
                f"anchors are for pairs of which not all links are known, got both for sentence pair {both[0] + 1} "
                "(counted from 1); drop one of them"
            )
    merged = [np.concatenate([getattr(part, name) for part in parts]) for name in ("sentence", "source", "target")]
    return Anchors(Links.from_arrays(*merged, n_sentences=bitext.n_pairs), complete)


def impose(parts: Iterable[Links], anchors: Anchors | None) -> Iterator[Links]:
    """Links of consecutive runs of sentence pairs with those that are known, whatever else the words would link to."""
    begin = 0
    for links in parts:
        yield links if anchors is None else anchors.impose(links, begin)
        begin += links.n_sentences


def _sure(given: KnownLinks, name: str, n_pairs: int) -> Links:
    n_given = given.n_sentences if isinstance(given, Links) else len(given)
    if n_given != n_pairs:
        raise InvalidInputError(
            f"{name} must have one entry per sentence pair ({n_pairs}), got {n_given}; use None where unknown"
        )
    if isinstance(given, Links):
        return given.where(given.sure)
    return Links.from_pairs([entry or [] for entry in given])
