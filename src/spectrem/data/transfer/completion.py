"""Full trees from some arcs and chance, the baseline of [Ganchev2010] §7.3 after [Hwa2005]."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._validate import as_generator
from spectrem.exceptions import InvalidInputError


def complete_trees(
    arcs: Iterable[NDArray[np.bool_]], *, random_state: int | np.random.Generator | None = None
) -> list[NDArray[np.int64]]:
    """Complete the marked arcs of every sentence to a projective tree by a random process.

    Parameters
    ----------
    arcs : iterable of ndarray of shape (n_words, n_words), bool
        ``[dependent, head]``, with roots on the diagonal, as from `conserved_arcs`.
    random_state : int, Generator or None

    Returns
    -------
    list of ndarray of shape (n_words,), int64
        Heads, positions from 0; -1 of the root.

    See Also
    --------
    complete_tree : One sentence, and how it is done.
    """
    rng = as_generator(random_state)
    return [complete_tree(own, rng) for own in arcs]


def complete_tree(arcs: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Complete marked arcs, which may conflict, to one projective tree with a single root ([Ganchev2010] §7.3).

    Marked arcs are tried first, in random order; then the words without a head in random order, each with all words,
    and the root, as heads in random order. An arc is added if some projective tree with a single root has it and all
    that were added before.

    Parameters
    ----------
    arcs : array-like of shape (n_words, n_words), bool
        ``[dependent, head]``, with roots on the diagonal.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_words,), int64
        Heads, positions from 0; -1 of the root.

    Raises
    ------
    InvalidInputError
        If ``arcs`` is not square.

    Examples
    --------
    >>> arcs = np.array([[False, True], [False, False]])  # the first word depends on the second
    >>> complete_tree(arcs, np.random.default_rng(0))
    array([ 1, -1])
    """
    marked = np.asarray(arcs, np.bool_)
    if marked.ndim != 2 or marked.shape[0] != marked.shape[1]:
        raise InvalidInputError(
            f"arcs must be a square matrix of dependents and heads, got shape {marked.shape}; see conserved_arcs"
        )
    n = len(marked)
    heads = [UNKNOWN_HEAD] * n
    for dependent, head in rng.permutation(np.argwhere(marked)).tolist():
        _add(heads, dependent, head if head != dependent else ROOT)
    for dependent in rng.permutation(n).tolist():
        for head in rng.permutation(n).tolist():
            if heads[dependent] != UNKNOWN_HEAD:
                break
            _add(heads, dependent, head if head != dependent else ROOT)
    return np.array(heads, np.int64)


def _add(heads: list[int], dependent: int, head: int) -> None:
    """Add an arc, unless the word has a head or no projective tree with a single root has all arcs then."""
    if heads[dependent] == UNKNOWN_HEAD:
        heads[dependent] = head
        if not can_be_completed(heads):
            heads[dependent] = UNKNOWN_HEAD


def can_be_completed(heads: list[int]) -> bool:
    """Whether some projective tree with a single root has all these arcs.

    It has if and only if there is one root at most, no cycle, no two arcs cross, and no arc passes over the topmost
    word above its dependent: whatever the head of that word is, its arc would cross, unless the word is the root,
    over which no arc may pass.

    Parameters
    ----------
    heads : list of int
        -1 of the root, -2 where the head is open.

    Examples
    --------
    >>> can_be_completed([1, -2, -2])
    True
    >>> can_be_completed([2, -1, -2])  # over the root
    False
    """
    if heads.count(ROOT) > 1:
        return False
    spans = [(min(d, h), max(d, h)) for d, h in enumerate(heads) if h >= 0]
    root = heads.index(ROOT) if ROOT in heads else None
    for k, (left, right) in enumerate(spans):
        if root is not None and left < root < right:
            return False
        if any(left < a < right < b or a < left < b < right for a, b in spans[:k]):
            return False
    for dependent, head in enumerate(heads):
        top, steps = dependent, 0
        while heads[top] >= 0:
            top, steps = heads[top], steps + 1
            if steps > len(heads):
                return False
        if head >= 0 and min(dependent, head) < top < max(dependent, head):
            return False
    return True
