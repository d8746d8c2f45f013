"""Measures of tag posteriors: the number of tags that a word uses, and the entropy of every token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.metrics._labels import Labels, check_same_length, encode, flat_labels

_SHAPE = (
    "posteriors must be of shape (n_tokens, n_states), or one such array per sentence; got shape {}; "
    "pass what predict_proba returns"
)


def average_l1_linf(posteriors: ArrayLike | Sequence[ArrayLike], words: Labels, *, min_count: int = 10) -> float:
    """States per word, counted softly: ``mean over words w of Σ_t max over occurrences i of w of q(t | i)``.

    Between 1 (every occurrence of a word has the same state for sure) and the number of states
    ([Ganchev2010] §8.2, "L1LMax").

    Parameters
    ----------
    posteriors : array-like of shape (n_tokens, n_states), or a sequence of one such array per sentence
        Rows sum to 1.
    words : sequence of hashable, length n_tokens
        All sentences one after another.
    min_count : int
        The mean is over words that occur more often than this, as in the paper.

    Returns
    -------
    float
        NaN where no word occurs often enough.

    Raises
    ------
    InvalidInputError
        If the number of tokens differs, or the posteriors are not two-dimensional or hold NaN.

    Examples
    --------
    >>> posteriors = [[[0.75, 0.25], [0.5, 0.5]], [[0.25, 0.75]]]  # two sentences
    >>> average_l1_linf(posteriors, ["a", "b", "a"], min_count=1)
    1.5
    """
    table = _table(posteriors)
    listed = flat_labels(words, "words")
    check_same_length("posteriors", len(table), "words", len(listed))
    kinds, word = encode(listed)
    counts = np.bincount(word, minlength=len(kinds))
    frequent = counts > min_count
    if not frequent.any():
        return float("nan")
    # The occurrences of a word stand side by side, so that one call takes the maximum of each run.
    order = np.argsort(word, kind="stable")
    highest = np.maximum.reduceat(table[order], np.cumsum(counts) - counts, axis=0)
    return float(highest[frequent].sum(axis=1).mean())


def posterior_entropy(posteriors: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Entropy of every token's posterior, bits ([SmithEisner2004] note 7).

    Parameters
    ----------
    posteriors : array-like of shape (n_tokens, n_states), or a sequence of one such array per sentence
        Rows sum to 1.

    Returns
    -------
    ndarray of shape (n_tokens,)
        Between 0 and log2(n_states).

    Raises
    ------
    InvalidInputError
        If the posteriors are not two-dimensional or hold NaN.

    Examples
    --------
    >>> posterior_entropy([[0.5, 0.5], [1.0, 0.0]]).tolist()
    [1.0, 0.0]
    """
    table = _table(posteriors)
    logs = np.log2(table, where=table > 0, out=np.zeros_like(table))
    return -(table * logs).sum(axis=1) + 0.0


def _table(posteriors: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.float64]:
    """The posteriors of all sentences as one table, shape (n_tokens, n_states)."""
    if isinstance(posteriors, np.ndarray) and posteriors.dtype != object:
        table = np.asarray(posteriors, dtype=np.float64)
    else:
        table = _stack([np.asarray(rows, dtype=np.float64) for rows in posteriors])  # type: ignore[union-attr]
    if table.ndim != 2:
        raise InvalidInputError(_SHAPE.format(table.shape))
    if not (table >= 0).all():
        at = int(np.argmax(~(table >= 0).all(axis=1)))
        raise InvalidInputError(
            f"posteriors must be probabilities, 0 or more; got {table[at].tolist()} for token {at}; "
            "look for an impossible sentence"
        )
    return table


def _stack(items: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """One table of all items, which are arrays of sentences or rows of tokens."""
    if not items:
        return np.zeros((0, 1))
    shapes = {(item.ndim, item.shape[-1:]) for item in items}
    if len(shapes) > 1:
        raise InvalidInputError(_SHAPE.format(" and ".join(str(item.shape) for item in items[:2])))
    return np.concatenate(items) if items[0].ndim == 2 else np.asarray(items)
