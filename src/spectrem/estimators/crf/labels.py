"""Labels of tokens: one, several that are allowed, a distribution, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.estimators.tagging.text import Tag, check_one_each, check_tag, sort_tags
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Labels
from spectrem.structures._ragged import offsets_of, ranges_of

# How far the probabilities of a token's labels may be from a sum of 1.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """What is known of the labels of tokens.

    Attributes
    ----------
    kind : ndarray of shape (n_tokens,), int64
        Which of ``kinds`` a token has; -1 for none.
    kinds : list of (tags, shares)
        Tags that a token may have, and their probabilities or None.
    lengths : ndarray of shape (n_sentences,), int64
    """

    kind: Ints
    kinds: list[tuple[tuple[Tag, ...], tuple[float, ...] | None]]
    lengths: Ints

    @property
    def tags(self) -> tuple[Tag, ...]:
        """All tags that occur, sorted."""
        return sort_tags(tag for tags, _ in self.kinds for tag in tags)

    def known(self) -> Bools:
        """Sentences where every token has one label or a distribution, shape (n_sentences,).

        Raises
        ------
        InvalidInputError
            If a sentence has a distribution beside tokens without one and without a label.
        """
        given = np.append([shares is not None or len(tags) == 1 for tags, shares in self.kinds], False)[self.kind]
        soft = np.append([shares is not None for _, shares in self.kinds], False)[self.kind]
        whole = self._count(given) == self.lengths
        mixed = (self._count(soft) > 0) & ~whole
        if mixed.any():
            sentence = int(np.argmax(mixed))
            start = int(self.lengths[:sentence].sum())
            token = int(np.argmin(given[start : start + int(self.lengths[sentence])]))
            error = InvalidInputError(
                "y must give every token of a sentence a label or a distribution where one has a distribution, got "
                f"neither for {_place(sentence, token)}; give it a distribution, or leave them all out"
            )
            error.keys = {"sentence": sentence, "token": token}
            raise error
        return whole & (self.lengths > 0)

    def numbered(self, tags: Sequence[Tag]) -> Labels:
        """The labels by number; tokens without any may have all.

        Raises
        ------
        InvalidInputError
            If a label is not among ``tags``.
        """
        number = {tag: k for k, tag in enumerate(tags)}
        rows: list[tuple[Ints, Floats]] = []
        for k, (own, shares) in enumerate(self.kinds):
            unknown = [tag for tag in own if tag not in number]
            if unknown:
                place = self._first(k)
                raise InvalidInputError(
                    f"y must hold tags of the tag set ({_shown(tags)}), got {unknown[0]!r} in {place}; add it to tags "
                    "or correct the label"
                )
            found = np.array([number[tag] for tag in own], np.int64)
            order = np.argsort(found)
            given = np.full(len(own), 1.0 / len(own)) if shares is None else np.array(shares)
            rows.append((found[order], given[order]))
        rows.append((np.arange(len(tags)), np.full(len(tags), 1.0 / max(len(tags), 1))))
        starts = offsets_of(np.array([len(row) for row, _ in rows], np.int64))
        kind = np.where(self.kind < 0, len(rows) - 1, self.kind)
        sizes = np.diff(starts)[kind]
        entries = ranges_of(starts[:-1][kind], sizes)
        return Labels(
            offsets_of(sizes),
            np.concatenate([row for row, _ in rows])[entries],
            np.concatenate([shares for _, shares in rows])[entries],
        )

    def _count(self, tokens: Bools) -> Ints:
        """Number of such tokens in every sentence."""
        return np.diff(np.concatenate([[0], np.cumsum(tokens)])[offsets_of(self.lengths)])

    def _first(self, kind: int) -> str:
        token = int(np.argmax(self.kind == kind))
        sentence = int(np.searchsorted(np.cumsum(self.lengths), token, side="right"))
        return _place(sentence, token - int(self.lengths[:sentence].sum()))


def read_labels(y: Any, lengths: Ints, tags: Sequence[Tag] | None = None, *, stacked: bool = False) -> TokenLabels:
    """Read the labels of sentences.

    Parameters
    ----------
    y : sequence of (sequence of labels, array of shape (n_tokens, n_tags), or None)
        A label is a tag; a set, list or tuple of those that the token may have; a mapping of tags to probabilities; or
        None. Arrays hold probabilities of ``tags``.
    lengths : ndarray of shape (n_sentences,), int64
    tags : sequence, optional
    stacked : bool
        Whether ``y`` may also be one sequence of the labels of all tokens.

    Raises
    ------
    InvalidInputError
        If ``y`` has other lengths, a label is not a tag, a collection is empty, or probabilities are negative or do not
        add up to 1.
    """
    listed = _listed(y)
    if stacked and len(listed) == lengths.sum() and (len(listed) != len(lengths) or not _is_row(listed)):
        ends = np.cumsum(lengths)
        listed = [listed[end - size : end] for size, end in zip(lengths.tolist(), ends.tolist(), strict=True)]
    check_one_each(listed, lengths, "labels")
    reader = _Reader(tags)
    kind = np.full(int(lengths.sum()), -1, np.int64)
    start = 0
    for number, (own, size) in enumerate(zip(listed, lengths.tolist(), strict=True)):
        if own is not None:
            kind[start : start + size] = reader.sentence(own, number, size)
        start += size
    return TokenLabels(kind, reader.kinds, lengths)


class _Reader:
    """Numbers the distinct labels, sets of labels and distributions of a text."""

    def __init__(self, tags: Sequence[Tag] | None) -> None:
        self.kinds: list[tuple[tuple[Tag, ...], tuple[float, ...] | None]] = []
        self._tags, self._number = tags, {None: -1}

    def sentence(self, own: Any, number: int, size: int) -> list[int]:
        if isinstance(own, np.ndarray) and own.ndim == 2:
            own = self._from_table(own, number)
        elif isinstance(own, np.ndarray):
            own = own.tolist()
        if isinstance(own, Mapping | set | frozenset | str) or not hasattr(own, "__len__") or len(own) != size:
            got = len(own) if isinstance(own, list | tuple) else quoted(own)
            raise InvalidInputError(
                f"y must have a label per token of sentence {number} ({size}), got {got}; use None for tokens without "
                "label"
            )
        try:
            return [self._number[label] for label in own]
        except (KeyError, TypeError):
            return [self._kind(label, number, t) for t, label in enumerate(own)]

    def _kind(self, label: Any, sentence: int, token: int) -> int:
        if isinstance(label, Mapping):
            key: Any = ("shares", *label.items())
        elif isinstance(label, set | frozenset | list | tuple | np.ndarray):
            key = frozenset(label)
        else:
            key = label
        if key not in self._number:
            self._number[key] = len(self.kinds)
            self.kinds.append(_read(label, _place(sentence, token)))
        return self._number[key]

    def _from_table(self, table: NDArray, number: int) -> list[dict[Tag, float]]:
        if self._tags is None or table.shape[1] != len(self._tags):
            raise InvalidInputError(
                "tags must name the columns of distributions in y, got "
                f"{'none' if self._tags is None else len(self._tags)} for the {table.shape[1]} columns of sentence "
                f"{number}; set tags"
            )
        return [
            {tag: share for tag, share in zip(self._tags, row, strict=True) if share != 0} for row in table.tolist()
        ]


def _read(label: Any, place: str) -> tuple[tuple[Tag, ...], tuple[float, ...] | None]:
    """A label, a set of labels or a distribution as tags and shares."""
    if isinstance(label, Mapping):
        shares = {check_tag(tag, f"y ({place})"): float(share) for tag, share in label.items()}
        whole = sum(shares.values())
        if (
            not shares
            or not all(0 <= share <= 1 + _ROUNDING for share in shares.values())
            or abs(whole - 1) > _ROUNDING
        ):
            raise InvalidInputError(
                f"y must hold distributions of probabilities that add up to 1, got {quoted(label)} in {place}; divide "
                "them by their sum"
            )
        kept = tuple((tag, share / whole) for tag, share in shares.items() if share > 0)
        return tuple(tag for tag, _ in kept), tuple(share for _, share in kept)
    if isinstance(label, set | frozenset | list | tuple | np.ndarray):
        tags = sort_tags(check_tag(tag, f"y ({place})") for tag in label)
        if not tags:
            raise InvalidInputError(
                f"y must allow a tag, got an empty collection for {place}; use None to allow all tags"
            )
        return tags, None
    return (check_tag(label, f"y ({place})"),), None


def _listed(y: Any) -> list[Any]:
    if isinstance(y, str | Mapping) or not hasattr(y, "__iter__"):
        raise InvalidInputError(f"y must be a sequence of sentences of labels, got {quoted(y)}; put it in a list")
    return list(y)


def _is_row(listed: list[Any]) -> bool:
    """Whether the entries look like sentences of labels."""
    return all(own is None or isinstance(own, list | tuple | np.ndarray) for own in listed)


def _place(sentence: int, token: int) -> str:
    return f"sentence {sentence}, token {token}"


def _shown(tags: Sequence[Tag], most: int = 12) -> str:
    text = ", ".join(map(str, tags[:most]))
    return text if len(tags) <= most else f"{text} and {len(tags) - most} more"


def flat(sentences: Sequence[Sequence[Any]]) -> list[Any]:
    """What stands at all tokens, one after another."""
    return list(chain.from_iterable(sentences))
