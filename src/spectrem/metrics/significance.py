"""Whether one tagging is better than another by more than chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import check_same_index
from spectrem.exceptions import InvalidInputError
from spectrem.metrics._labels import Labels, as_mask, check_same_length
from spectrem.metrics.tagging import correct_tokens


@dataclass(frozen=True)
class SignTest:
    """Outcome of a two-sided binomial sign test.

    Attributes
    ----------
    n_first, n_second : int
        In how many pairs the first, or the second, has the higher value; ties count for neither.
    p_value : float
        Probability of a split as uneven as this or more, were both equally likely to win; 1 without a winner.
    """

    n_first: int
    n_second: int
    p_value: float


@dataclass(frozen=True)
class TaggingComparison:
    """Sign tests between two taggings of one text.

    Attributes
    ----------
    words : SignTest
        Tokens that only the first, or only the second, has right.
    sentences : SignTest
        Sentences in which the first, or the second, has more tokens right.
    """

    words: SignTest
    sentences: SignTest


def sign_test(first: ArrayLike, second: ArrayLike) -> SignTest:
    """Compare paired values; use when nothing is known of how differences are distributed.

    Parameters
    ----------
    first, second : array-like of shape (n_pairs,)
        The values of each pair, of which the larger one is better.

    Raises
    ------
    InvalidInputError
        If the shapes differ, or a value is NaN.

    Examples
    --------
    >>> sign_test([1, 1, 1, 1, 0], [0, 0, 0, 0, 0])
    SignTest(n_first=4, n_second=0, p_value=0.125)
    """
    check_same_index(first=first, second=second)
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if left.ndim != 1 or left.shape != right.shape:
        raise InvalidInputError(
            f"first and second must be one-dimensional and of one length; got shapes {left.shape} and {right.shape}; "
            "give one value per pair in both"
        )
    if np.isnan(left).any() or np.isnan(right).any():
        raise InvalidInputError("first and second must be numbers, got NaN; leave out the pairs that have no value")
    n_first, n_second = int((left > right).sum()), int((left < right).sum())
    if n_first + n_second == 0:
        return SignTest(0, 0, 1.0)
    from scipy.stats import binomtest

    return SignTest(n_first, n_second, float(binomtest(n_first, n_first + n_second).pvalue))


def compare_taggings(
    first: Labels, second: Labels, gold: Labels, lengths: ArrayLike, *, mask: ArrayLike | None = None
) -> TaggingComparison:
    """Sign tests between two taggings, by token and by sentence ([SmithEisner2004] table 1).

    Parameters
    ----------
    first, second, gold : sequence of hashable, length n_tokens
    lengths : array-like of int of shape (n_sentences,)
        Tokens of each sentence.
    mask : array-like of bool of shape (n_tokens,), optional
        Which tokens count.

    Raises
    ------
    InvalidInputError
        If the lengths do not fit.

    Examples
    --------
    >>> compare_taggings(["A", "B", "A"], ["A", "A", "B"], ["A", "B", "B"], [2, 1])
    TaggingComparison(words=SignTest(n_first=1, n_second=1, p_value=1.0), \
sentences=SignTest(n_first=1, n_second=1, p_value=1.0))
    """
    won, lost = correct_tokens(first, gold), correct_tokens(second, gold)
    check_same_length("first", won.size, "second", lost.size)
    counted = as_mask(mask, won.size)
    sizes = _sentence_lengths(lengths, won.size)
    sentence = np.repeat(np.arange(sizes.size), sizes)
    by_sentence = (np.bincount(sentence, right & counted, sizes.size) for right in (won, lost))
    return TaggingComparison(sign_test(won[counted], lost[counted]), sign_test(*by_sentence))


def _sentence_lengths(lengths: ArrayLike, n_tokens: int) -> NDArray[np.int64]:
    sizes = np.asarray(lengths)
    whole = sizes.size == 0 or (sizes.dtype.kind in "iu" and sizes.min() >= 0)
    if sizes.ndim != 1 or not whole or sizes.sum() != n_tokens:
        total = f"{sizes.sum():g} in all" if sizes.dtype.kind in "iuf" else f"dtype {sizes.dtype}"
        raise InvalidInputError(
            f"lengths must be whole numbers that add up to the number of tokens, {n_tokens}; got shape {sizes.shape}, "
            f"{total}; give the number of tokens of every sentence"
        )
    return sizes.astype(np.int64)
