"""What CRFTagger accepts: sentences, read into compressed rows of features, and labels of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_lengths
from spectrem.constraints.compilation.groups import Key
from spectrem.data.features import FeatureIndex, TokenFeatures, check_sentence, token_features
from spectrem.estimators.conventions import PerSentence, row_weights
from spectrem.estimators.labels import Kind, Known, LabelReader, place_of, plain_tokens
from spectrem.estimators.sentence_columns import read_sentence_columns
from spectrem.estimators.tagging.text import Tag, as_sentences, check_tag, sort_tags
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Features, Labels
from spectrem.structures._ragged import offsets_of, ranges_of


class TokenText(NamedTuple):
    """Sentences as tokens with features.

    Attributes
    ----------
    features : Features
    lengths : ndarray of shape (n_sentences,), int64
    columns : dict of name -> ndarray of shape (n_tokens,)
        For constraints.
    """

    features: Features
    lengths: Ints
    columns: dict[str, Key]


def read_training(
    tagger: Any, sentences: Any, lengths: ArrayLike | None, columns: Mapping[str, Any] | None
) -> tuple[TokenText, FeatureIndex | None]:
    """Read sentences to train on, and number their features; columns of a matrix have their numbers already.

    Raises
    ------
    InvalidInputError
        If they are not what ``tagger.features`` and ``lengths`` say.
    """
    matrix = _as_matrix(tagger, sentences, lengths)
    if matrix is not None:
        features, sizes = matrix
        return TokenText(features, sizes, _read_columns(columns, sizes)), None
    source = _Source(tagger, sentences)
    index, tokens = FeatureIndex.learn(source, tagger.min_count)
    return _with_columns(source, tokens, len(index), columns), index


def read_more(
    tagger: Any,
    index: FeatureIndex | None,
    n_features: int,
    sentences: Any,
    lengths: ArrayLike | None,
    columns: Mapping[str, Any] | None,
) -> TokenText:
    """Read further sentences, with the features that training numbered.

    Raises
    ------
    InvalidInputError
        As `read_training`, and if a matrix has other columns than that of training.
    """
    matrix = _as_matrix(tagger, sentences, lengths)
    if (matrix is None) != (index is not None):
        wanted = "a matrix of numbers" if index is None else "sentences of tokens with features"
        raise InvalidInputError(f"X must be {wanted}, as in fit, got {quoted(sentences)}; give the same kind")
    if matrix is not None:
        features, sizes = matrix
        if features.n_features != n_features and features.n_choices:
            raise InvalidInputError(
                f"X must have {n_features} features, as in fit, got {features.n_features}; give the same columns"
            )
        return TokenText(features, sizes, _read_columns(columns, sizes))
    assert index is not None
    source = _Source(tagger, sentences)
    return _with_columns(source, index.encode(source), n_features, columns)


class _Source:
    """Sentences of tokens with features, gone through once, of which the words are remembered for constraints."""

    def __init__(self, tagger: Any, sentences: Any) -> None:
        if isinstance(sentences, str | bytes | Mapping) or not hasattr(sentences, "__iter__"):
            raise InvalidInputError(
                f"X must be a sequence of sentences, got {quoted(sentences)}; put a single sentence in a list"
            )
        self._templates, self._sentences = tagger.features, sentences
        self.words: list[str] | None = [] if tagger.constraints and tagger.features != "tokens" else None

    def __iter__(self) -> Iterator[Sequence[Any]]:
        if self._templates == "tokens":
            return iter(self._sentences)
        return token_features(self._remembering(), self._templates)

    def _remembering(self) -> Iterator[Sequence[Any]]:
        for number, sentence in enumerate(self._sentences):
            tokens = sentence.split() if isinstance(sentence, str) and self._templates == "words" else sentence
            check_sentence(tokens, number)
            yield tokens
            if self.words is not None:
                self.words += tokens if self._templates == "words" else [token[0] for token in tokens]


def _with_columns(
    source: _Source, tokens: TokenFeatures, n_features: int, columns: Mapping[str, Any] | None
) -> TokenText:
    features = Features(tokens.indptr, tokens.indices, tokens.values, n_features)
    own = {} if source.words is None else {"word": np.array(source.words, np.str_)}
    return TokenText(features, tokens.lengths, {**own, **_read_columns(columns, tokens.lengths)})


def _as_matrix(tagger: Any, sentences: Any, lengths: ArrayLike | None) -> tuple[Features, Ints] | None:
    """Features and lengths of sentences given as matrices, one of all tokens or one each; None if they are not."""
    if lengths is not None:
        sizes = as_lengths(lengths, "lengths")
        _refuse_templates(tagger)
        features = _checked(sentences)
        if sizes.sum() != features.n_choices:
            raise InvalidInputError(
                f"lengths must add up to the rows of X, got {sizes.sum()} and {features.n_choices}; X stacks the "
                "tokens of all sentences"
            )
        return features, sizes
    if _is_matrix(sentences) and sentences.ndim == 2:
        raise InvalidInputError(
            f"lengths must say where sentences end in a single matrix, got none for X of shape {sentences.shape}; give "
            "the tokens of every sentence, or a list of one matrix per sentence"
        )
    if not isinstance(sentences, Sequence | np.ndarray) or not len(sentences) or not _is_matrix(sentences[0]):
        return None
    _refuse_templates(tagger)
    widths = []
    for number, sentence in enumerate(sentences):
        if not _is_matrix(sentence) or sentence.ndim != 2:
            shape = f"shape {sentence.shape}" if _is_matrix(sentence) else quoted(sentence)
            raise InvalidInputError(
                f"X must hold one matrix of shape (n_tokens, n_features) per sentence, got {shape} for sentence "
                f"{number}; give all the same kind"
            )
        widths.append(sentence.shape[1])
    if len(set(widths)) > 1:
        other = next(n for n, width in enumerate(widths) if width != widths[0])
        raise InvalidInputError(
            f"X must have as many features in every sentence, got {widths[0]} in sentence 0 and {widths[other]} in "
            f"sentence {other}; give all matrices the same columns"
        )
    stacked = sp.vstack(list(sentences)) if any(map(sp.issparse, sentences)) else np.concatenate(list(sentences))
    return _checked(stacked), np.array([sentence.shape[0] for sentence in sentences], np.int64)


def _checked(matrix: Any) -> Features:
    try:
        return Features.of(matrix if sp.issparse(matrix) else np.asarray(matrix, np.float64))
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"X must be a matrix of numbers where lengths are given: {error}") from None


def _is_matrix(value: Any) -> bool:
    if sp.issparse(value):
        return True
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "buif"


def _refuse_templates(tagger: Any) -> None:
    if tagger.features != "tokens":
        raise InvalidInputError(
            f"features must be 'tokens' for matrices of numbers, got {tagger.features!r}; templates take words"
        )


def _read_columns(columns: Any, lengths: Ints) -> dict[str, Key]:
    """Columns for constraints, a value per token: those given with sentences are repeated."""
    taken = ("sentence", "token", "occurrence", "tag", "label", "previous", "labelled")
    found = read_sentence_columns(columns, lengths, taken, arcs=False)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    return {**{name: values[sentence] for name, values in found.of_sentences.items()}, **found.of_words}


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
