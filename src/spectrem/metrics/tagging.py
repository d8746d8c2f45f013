"""How well predicted tags agree with gold ones, and how well a model predicts the words."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.metrics._labels import Labels, as_mask, flat_labels, paired_labels


def tagging_accuracy(predicted: Labels, gold: Labels, *, mask: ArrayLike | None = None) -> float:
    """Share of tokens whose predicted tag is the gold one.

    Parameters
    ----------
    predicted, gold : sequence of hashable, length n_tokens
        Tags of all sentences one after another.
    mask : array-like of bool of shape (n_tokens,), optional
        Which tokens count, for example those that `ambiguous_tokens` marks.

    Returns
    -------
    float
        In [0, 1]; NaN where no token counts.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or labels are nested by sentence.

    Examples
    --------
    >>> tagging_accuracy(["DT", "NN", "VB"], ["DT", "NN", "NN"], mask=[False, True, True])
    0.5
    """
    right = correct_tokens(predicted, gold)
    chosen = right[as_mask(mask, right.size)]
    return float(chosen.mean()) if chosen.size else math.nan


def correct_tokens(predicted: Labels, gold: Labels) -> NDArray[np.bool_]:
    """Whether each token's predicted tag is the gold one, shape (n_tokens,).

    Examples
    --------
    >>> correct_tokens(["DT", "NN"], ["DT", "VB"]).tolist()
    [True, False]
    """
    left, right = paired_labels(predicted, gold, ("predicted", "gold"))
    return np.fromiter(map(operator.eq, left, right), np.bool_, len(left))


def ambiguous_tokens(words: Labels, dictionary: Mapping[Any, Collection[Any]]) -> NDArray[np.bool_]:
    """Which tokens are ambiguous by a dictionary: those of words with two tags or more, and of words not listed.

    Parameters
    ----------
    words : sequence of hashable, length n_tokens
    dictionary : mapping from word to tags

    Returns
    -------
    ndarray of bool of shape (n_tokens,)

    Examples
    --------
    >>> ambiguous_tokens(["the", "run", "xyzzy"], {"the": ("DT",), "run": ("NN", "VB")}).tolist()
    [False, True, True]
    """
    listed = flat_labels(words, "words")
    in_doubt = {word: len(set(dictionary.get(word, ()))) != 1 for word in dict.fromkeys(listed)}
    return np.fromiter((in_doubt[word] for word in listed), np.bool_, len(listed))


def cross_entropy(log_likelihood: float, n_tokens: int) -> float:
    """Bits per word that a model needs for a text: ``-log2 p(text) / n_tokens`` ([SmithEisner2004] table 1).

    Parameters
    ----------
    log_likelihood : float
        The log-likelihood of the whole text in nats, not the mean per token.
    n_tokens : int
        At least 1.

    Returns
    -------
    float
        Lower is better; infinite where the text is impossible.

    Raises
    ------
    InvalidInputError
        If ``n_tokens`` is below 1 or ``log_likelihood`` NaN.

    Examples
    --------
    >>> cross_entropy(math.log(1 / 8), 3)
    1.0
    """
    if n_tokens < 1:
        raise InvalidInputError(f"n_tokens must be at least 1, got {n_tokens}; count the words of the scored text")
    if math.isnan(log_likelihood):
        raise InvalidInputError(
            "log_likelihood must be a number of nats, got NaN; look for 0/0 in the model's probabilities"
        )
    return -float(log_likelihood) / (n_tokens * math.log(2.0)) + 0.0
