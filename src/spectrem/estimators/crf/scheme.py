"""Labels of tokens against schemes of chunk tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrem._arrays import Bools, Ints
from spectrem.estimators.sentences import Tag
from spectrem.exceptions import InvalidInputError, setting
from spectrem.models.loglinear import Labels
from spectrem.structures import Chain, Parts
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of, rows_of


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
