"""Labels of tokens: one, several that are allowed, a distribution, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem.estimators.conventions import PerSentence, row_weights
from spectrem.estimators.labels import Kind, Known, LabelReader, place_of, plain_tokens
from spectrem.estimators.tagging.text import Tag, as_sentences, check_tag, sort_tags
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear import Labels
from spectrem.structures._ragged import offsets_of, ranges_of


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
    kinds: list[Kind]
    lengths: Ints

    @property
    def tags(self) -> tuple[Tag, ...]:
        """All tags that occur, sorted."""
        return sort_tags(tag for tags, _ in self.kinds for tag in tags)

    def score(self, predicted: Sequence[Sequence[Any]], sample_weight: ArrayLike | None, tags: Sequence[Tag]) -> float:
        """The share of tokens with a label, by the weight of their sentences, whose tag is right; see `Known.score`."""
        weights = np.repeat(row_weights(sample_weight, len(self.lengths), "sentence"), self.lengths)
        return Known(self.kind, self.kinds).score(chain.from_iterable(predicted), weights, tags, "token")

    def known(self) -> Bools:
        """Sentences where every token has one label or a distribution, shape (n_sentences,).

        Raises
        ------
        InvalidInputError
            If a sentence has a distribution beside tokens without one and without a label.
        """
        given = Known(self.kind, self.kinds).certain
        soft = np.append([shares is not None for _, shares in self.kinds], False)[self.kind]
        whole = self._count(given) == self.lengths
        mixed = (self._count(soft) > 0) & ~whole
        if mixed.any():
            sentence = int(np.argmax(mixed))
            start = int(self.lengths[:sentence].sum())
            token = int(np.argmin(given[start : start + int(self.lengths[sentence])]))
            error = InvalidInputError(
                "y must give every token of a sentence a label or a distribution where one has a distribution, got "
                f"neither for {place_of(sentence, token)}; give it a distribution, or leave them all out"
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
        return place_of(sentence, token - int(self.lengths[:sentence].sum()))


def read_labels(y: Any, lengths: Ints, tags: Sequence[Tag] | None = None, *, stacked: bool = False) -> TokenLabels:
    """Read the labels of sentences.

    Parameters
    ----------
    y : sequence of (sequence of labels, array of shape (n_tokens, n_tags), or None)
        A label is a tag; a set, list or tuple of those that the token may have; a mapping of tags to probabilities; or
        None, -1, NaN or another missing value. Arrays hold probabilities of ``tags``.
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
    listed = as_sentences(y, "y")
    if stacked and len(listed) == lengths.sum() and (len(listed) != len(lengths) or not _is_row(listed)):
        listed = list(PerSentence.cut(listed, lengths))

    def tokens(own: Any, number: int) -> Any:
        if not (isinstance(own, np.ndarray) and own.ndim == 2):
            return plain_tokens(own)
        if tags is None or own.shape[1] != len(tags):
            raise InvalidInputError(
                f"tags must name the columns of distributions in y, got {'none' if tags is None else len(tags)} for "
                f"the {own.shape[1]} columns of sentence {number}; set tags"
            )
        return [dict(zip(tags, row, strict=True)) for row in own.tolist()]

    known = LabelReader(check_tag, "tag").read_sentences(listed, lengths, tokens)
    return TokenLabels(known.kind, [possible(kind) for kind in known.kinds], lengths)


def possible(kind: Kind) -> Kind:
    """The same labels without those of probability 0."""
    labels, shares = kind
    if shares is None:
        return kind
    kept = [(label, share) for label, share in zip(labels, shares, strict=True) if share > 0]
    return tuple(label for label, _ in kept), tuple(share for _, share in kept)


def _is_row(listed: list[Any]) -> bool:
    """Whether the entries look like sentences of labels."""
    return all(own is None or isinstance(own, list | tuple | np.ndarray) for own in listed)


def _shown(tags: Sequence[Tag], most: int = 12) -> str:
    text = ", ".join(map(str, tags[:most]))
    return text if len(tags) <= most else f"{text} and {len(tags) - most} more"
