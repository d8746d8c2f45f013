"""Schemes of chunk tags: which tags may follow each other, begin a sentence and end it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem.estimators.sentences import Tag
from spectrem.exceptions import InvalidInputError, quoted, setting
from spectrem.models.loglinear import Labels
from spectrem.structures import Chain, Parts
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of, rows_of

# By the letter of a tag: whether a chunk of its type must go on from the token before, and whether one must go on to
# the next token; None where it may or may not. Other letters, such as O, are outside of chunks.
_LETTERS: dict[str, dict[str, tuple[bool, bool | None]]] = {
    "bio": {"B": (False, None), "I": (True, None)},
    "bioes": {"B": (False, True), "I": (True, True), "E": (True, False), "S": (False, False)},
}
_OUTSIDE = (False, False)


def possible_moves(scheme: str, tags: Sequence[Tag]) -> Bools | None:
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


def check_labels(
    possible: Bools,
    scheme: str,
    tags: Sequence[Tag],
    lengths: Ints,
    labels: Labels,
    known: Bools,
    *,
    other: str = "any",
) -> None:
    """Raise `InvalidInputError` if labels contradict the scheme.

    Parameters
    ----------
    possible : ndarray
        As `possible_moves` gives it.
    scheme, tags
    lengths : ndarray of shape (n_sentences,), int64
    labels : Labels
        Of all tokens.
    known : ndarray of shape (n_sentences,), bool
        Sentences whose tokens have labels or distributions throughout.
    other : str
        The scheme that a message proposes; empty for none.

    Notes
    -----
    Of a sentence whose every token has a single label, the sequence must follow the scheme, of others some sequence of
    what they may have.
    """
    sizes = np.bincount(rows_of(lengths), np.diff(labels.offsets) != 1, len(lengths))
    known = known & (sizes == 0)
    token = np.flatnonzero(np.repeat(known, lengths))
    taken, sizes = labels.take(token), lengths[known]
    _check_known(possible, scheme, tags, sizes, taken, np.flatnonzero(known), other)
    partial = np.flatnonzero(~known & (lengths > 0))
    taken, sizes = labels.take(np.flatnonzero(np.repeat(~known, lengths))), lengths[partial]
    n, ends = len(tags), np.cumsum(sizes)
    unary = np.zeros(len(taken.labels))
    for at, allowed in ((ends - sizes, possible[n, :n]), (ends - 1, possible[:n, n])):
        parts = ranges_of(taken.offsets[at], np.diff(taken.offsets)[at])
        unary[parts[~allowed[taken.labels[parts]]]] = -np.inf
    moves = np.where(possible[:n, :n], 0.0, -np.inf)
    best = Chain(sizes, n, (taken.offsets, taken.labels)).decode(Parts(unary, (moves,)))
    if (best < 0).any():
        sentence = int(partial[np.searchsorted(ends, np.argmax(best < 0), side="right")])
        raise _refused(
            f"allow tags of {setting('scheme', scheme)} in every sentence, got none for sentence {sentence}",
            sentence,
            other,
        )


def _check_known(
    possible: Bools, scheme: str, tags: Sequence[Tag], lengths: Ints, labels: Labels, numbers: Ints, other: str
) -> None:
    """The same for sentences whose tokens have a label each, which have these ``numbers``."""
    n, label = len(tags), labels.labels
    first = positions_of(lengths) == 0
    begins, ends = np.flatnonzero(first), np.flatnonzero(np.roll(first, -1))
    left, right = labels.neighbours(lengths)
    place = np.concatenate([begins, right, ends])
    before = np.concatenate([np.full(len(begins), n), label[left], label[ends]])
    after = np.concatenate([label[begins], label[right], np.full(len(ends), n)])
    bad = np.flatnonzero(~possible[before, after])
    if not len(bad):
        return
    k = bad[np.argmin(place[bad])]
    sentence = int(np.searchsorted(np.cumsum(lengths), place[k], side="right"))
    number, at = int(numbers[sentence]), int(place[k] - offsets_of(lengths)[sentence])
    pair = f"{[*tags, 'the end'][after[k]]} after {[*tags, 'the beginning'][before[k]]}"
    raise _refused(f"follow {setting('scheme', scheme)}, got {pair} in sentence {number}, token {at}", number, other)


def _refused(message: str, sentence: int, other: str) -> InvalidInputError:
    advice = f", or set {setting('scheme', other)}" if other else ""
    error = InvalidInputError(f"{setting('y')} must {message}; correct the labels{advice}")
    error.keys = {"sentence": sentence}
    return error


def _parsed(tag: Tag, scheme: str) -> tuple[str, str]:
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
