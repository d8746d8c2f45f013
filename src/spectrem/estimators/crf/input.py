"""What CRFTagger accepts as sentences, read into compressed rows of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from spectrem._arrays import Ints
from spectrem._validate import as_lengths
from spectrem.constraints.compilation.groups import Key
from spectrem.data.features import FeatureIndex, TokenFeatures, token_features
from spectrem.data.features.tokens import check_sentence
from spectrem.estimators.sentence_columns import read_sentence_columns
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.loglinear import Features


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
