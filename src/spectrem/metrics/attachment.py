"""How well predicted heads of words agree with gold ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Ints
from spectrem._heads import ROOT
from spectrem._validate import as_array, as_lengths
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.metrics.tagging import TaggingComparison, compare_taggings

__all__ = ["AttachmentScores", "attachment_scores", "compare_attachments", "head_is_next", "not_punctuation"]


@dataclass(frozen=True)
class AttachmentScores:
    """Agreement of predicted trees with gold ones over the tokens that count.

    Attributes
    ----------
    uas : float
        Unlabelled attachment score: share of tokens whose predicted head is the gold one, in [0, 1].
    las : float
        Labelled attachment score: share of tokens whose head and relation are the gold ones; NaN without relations.
    undirected : float
        Share of tokens whose gold arc is predicted in either direction ([KleinManning2004] §3).
    exact_match : float
        Share of sentences whose tokens all have their gold head, of those with a token that counts.
    roots : float
        Share of the gold roots that are predicted as roots.
    n_tokens, n_sentences, n_roots : int
        What the shares are taken of. A share of nothing is NaN.

    Examples
    --------
    >>> scores = attachment_scores([[1, -1, 1]], [[1, -1, 0]])
    >>> round(scores.uas, 3), scores.exact_match, scores.n_tokens
    (0.667, 0.0, 3)
    """

    uas: float
    las: float
    undirected: float
    exact_match: float
    roots: float
    n_tokens: int
    n_sentences: int
    n_roots: int


def attachment_scores(
    gold: Sequence[ArrayLike],
    predicted: Sequence[ArrayLike],
    *,
    mask: Sequence[ArrayLike] | None = None,
    gold_relations: Sequence[Sequence[str]] | None = None,
    predicted_relations: Sequence[Sequence[str]] | None = None,
) -> AttachmentScores:
    """Score dependency trees over all sentences together.

    Parameters
    ----------
    gold, predicted : sequence of array-like of int of shape (n_words,), one per sentence
        The head of every word: its position in the sentence, counted from 0, or -1 for the root. Predictions may hold
        -2, no head at all, as where no tree is possible; these are wrong.
    mask : sequence of array-like of bool of shape (n_words,), optional
        Which words count: ``not_punctuation(upos)`` for scores without punctuation. Default: all.
    gold_relations, predicted_relations : sequence of sequence of str, optional
        The relation of every word to its head, compared as they are: cut subtypes off (``nsubj:pass``) in both where
        they should not count, as in the shared task [Zeman2018].

    Returns
    -------
    AttachmentScores

    Raises
    ------
    InvalidInputError
        If sentences differ in number or length, a head is out of range, or only one side has relations.

    Examples
    --------
    >>> scores = attachment_scores([[1, -1, 1]], [[1, -1, 0]])
    >>> round(scores.uas, 3), round(scores.undirected, 3), scores.exact_match, scores.roots
    (0.667, 0.667, 0.0, 1.0)
    >>> attachment_scores([[1, -1, 1]], [[1, -1, 0]], mask=not_punctuation([["DET", "NOUN", "PUNCT"]])).uas
    1.0
    """
    truth, guess, lengths = _paired_heads(gold, predicted)
    counted = _flat_mask(mask, lengths)
    sentence = np.repeat(np.arange(lengths.size), lengths)
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    right = truth == guess
    inside = truth != ROOT
    turned = np.zeros(truth.size, np.bool_)  # the gold head is predicted to hang on the word
    position = np.arange(truth.size) - start
    turned[inside] = guess[(start + truth)[inside]] == position[inside]
    labelled = _equal_relations(gold_relations, predicted_relations, lengths)
    judged = np.bincount(sentence, counted, lengths.size) > 0
    whole = np.bincount(sentence, counted & ~right, lengths.size) == 0
    roots = counted & ~inside
    return AttachmentScores(
        uas=_share(right[counted]),
        las=math.nan if labelled is None else _share((right & labelled)[counted]),
        undirected=_share((right | turned)[counted]),
        exact_match=_share(whole[judged]),
        roots=_share(right[roots]),
        n_tokens=int(counted.sum()),
        n_sentences=int(judged.sum()),
        n_roots=int(roots.sum()),
    )


def compare_attachments(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    gold: Sequence[ArrayLike],
    *,
    mask: Sequence[ArrayLike] | None = None,
) -> TaggingComparison:
    """Sign tests between two parsers, by word and by sentence.

    Parameters
    ----------
    first, second, gold : sequence of array-like of int of shape (n_words,), one per sentence
        Heads, as for `attachment_scores`.
    mask : sequence of array-like of bool of shape (n_words,), optional
        Which words count.

    Returns
    -------
    TaggingComparison
        A sign test over words, and one over sentences.

    Raises
    ------
    InvalidInputError
        If sentences differ in number or length, or a head is out of range.

    Examples
    --------
    >>> compare_attachments([[1, -1]], [[-1, 0]], [[1, -1]]).words
    SignTest(n_first=2, n_second=0, p_value=0.5)
    """
    truth, one, lengths = _paired_heads(gold, first, "first")
    _, other, _ = _paired_heads(gold, second, "second")
    return compare_taggings(one, other, truth, lengths, mask=_flat_mask(mask, lengths))


def not_punctuation(tags: Iterable[Sequence[str]], punctuation: Iterable[str] = ("PUNCT",)) -> list[Bools]:
    """Which words of every sentence are not tagged as punctuation: a mask for `attachment_scores`.

    Parameters
    ----------
    tags : iterable of sequence of str
        Universal tags (UPOS) of every sentence, or other tags, where ``punctuation`` says which mark it.
    punctuation : iterable of str
        The tags of punctuation.

    Returns
    -------
    list of ndarray of shape (n_words,), bool
        One mask per sentence.

    Examples
    --------
    >>> [mask.tolist() for mask in not_punctuation([["NOUN", "PUNCT"], []])]
    [[True, False], []]
    """
    marks = frozenset(punctuation)
    return [np.array([tag not in marks for tag in sentence], np.bool_) for sentence in tags]


def head_is_next(lengths: ArrayLike) -> list[Ints]:
    """The trees in which every word hangs on the next one and the last is the root, as a baseline.

    Parameters
    ----------
    lengths : array-like of int of shape (n_sentences,)
        Words of every sentence, at least 0.

    Returns
    -------
    list of ndarray of shape (n_words,), int64

    Examples
    --------
    >>> [heads.tolist() for heads in head_is_next([3, 0, 1])]
    [[1, 2, -1], [], [-1]]
    """
    return [np.append(np.arange(1, n), ROOT)[:n] for n in as_lengths(lengths, "lengths").tolist()]


def _paired_heads(
    gold: Sequence[ArrayLike], predicted: Sequence[ArrayLike], name: str = "predicted"
) -> tuple[Ints, Ints, Ints]:
    """Checked gold and predicted heads of all sentences one after another, and the lengths of the sentences."""
    for side, heads in (("gold", gold), (name, predicted)):
        if isinstance(heads, str) or not hasattr(heads, "__iter__"):
            raise InvalidInputError(f"{side} must hold the heads of every sentence, got {quoted(heads)}; give a list")
    truth, guess = list(gold), list(predicted)
    if len(truth) != len(guess):
        raise InvalidInputError(
            f"gold and {name} must be of the same sentences, got {len(truth)} and {len(guess)}; drop or keep the same "
            "sentences in both"
        )
    flat: tuple[list[Ints], list[Ints]] = [], []
    for number, pair in enumerate(zip(truth, guess, strict=True)):
        right, guessed = (_heads_of(*one, number) for one in ((pair[0], "gold", ROOT), (pair[1], name, ROOT - 1)))
        if right.size != guessed.size:
            raise InvalidInputError(
                f"gold and {name} must have the same words, got {right.size} and {guessed.size} heads in sentence "
                f"{number}; give one head per word in both"
            )
        flat[0].append(right)
        flat[1].append(guessed)
    nothing = np.zeros(0, np.int64)
    lengths = np.array([heads.size for heads in flat[0]], np.int64)
    return np.concatenate([nothing, *flat[0]]), np.concatenate([nothing, *flat[1]]), lengths


def _heads_of(heads: ArrayLike, name: str, lowest: int, sentence: int) -> Ints:
    array = as_array(heads, name)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"{name} must hold a list of whole numbers per sentence, got dtype {array.dtype}, shape {array.shape} in "
            f"sentence {sentence}; give the head of every word"
        )
    outside = (array < lowest) | (array >= array.size)
    if outside.any():
        word = int(np.argmax(outside))
        raise InvalidInputError(
            f"{name} must hold heads from {lowest} to {array.size - 1}, as sentence {sentence} has {array.size} words; "
            f"got {array[word]} for word {word}; count words from 0, and say -1 for the root"
        )
    return array.astype(np.int64)


def _flat_mask(mask: Sequence[ArrayLike] | None, lengths: Ints) -> Bools:
    if mask is None:
        return np.ones(int(lengths.sum()), np.bool_)
    pieces = [np.asarray(one) for one in mask]
    if len(pieces) != lengths.size:
        raise InvalidInputError(
            f"mask must be of the same sentences as gold, got {len(pieces)} and {lengths.size}; give one list of truth "
            "values per sentence"
        )
    for number, (piece, length) in enumerate(zip(pieces, lengths.tolist(), strict=True)):
        if piece.shape != (length,) or (length and piece.dtype != np.bool_):
            raise InvalidInputError(
                f"mask must hold {length} truth values for sentence {number}, got dtype {piece.dtype}, shape "
                f"{piece.shape}; give one per word, as not_punctuation(upos) does"
            )
    return np.concatenate([np.zeros(0, np.bool_), *(piece.astype(np.bool_) for piece in pieces)])


def _equal_relations(
    gold: Sequence[Sequence[str]] | None, predicted: Sequence[Sequence[str]] | None, lengths: Ints
) -> Bools | None:
    """Whether the relation of each word is the gold one, shape (n_words,), or None without relations."""
    if gold is None and predicted is None:
        return None
    if gold is None or predicted is None:
        raise InvalidInputError(
            "gold_relations and predicted_relations must be given together, got one of them; leave both out for "
            "unlabelled scores"
        )
    for name, side in (("gold_relations", gold), ("predicted_relations", predicted)):
        sizes = [len(relations) for relations in side]
        if sizes != lengths.tolist():
            raise InvalidInputError(
                f"{name} must hold one relation per word, got {len(sizes)} sentences with {sum(sizes)} relations for "
                f"{lengths.size} sentences with {lengths.sum()} words; give '_' where a word has none"
            )
    pairs = [a == b for one, other in zip(gold, predicted, strict=True) for a, b in zip(one, other, strict=True)]
    return np.array(pairs, np.bool_)


def _share(right: Bools) -> float:
    return float(right.mean()) if right.size else math.nan
