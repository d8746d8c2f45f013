"""Heads of the words of a sentence: what is wrong with them, whether arcs cross, and how to make them not cross."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._validate import as_integers
from spectrem.exceptions import InvalidInputError


def describe_problem(heads: Ints, first: int = 0) -> tuple[int, str] | None:
    """The first word whose head cannot be part of a tree, and why; None if the known heads fit a tree.

    Parameters
    ----------
    heads : ndarray of shape (n_words,), int64
        From 0; ``ROOT`` (-1) for the root, ``UNKNOWN_HEAD`` (-2) where not known. Several words may hang on the root.
    first : int
        What the problem calls the first word: 0 as heads count here, 1 as in CoNLL-U.

    Returns
    -------
    (int, str) or None
        The position of the word, from 0, and the problem.

    Examples
    --------
    >>> describe_problem(np.array([1, -1, 3, 2]))
    (2, 'words 2 and 3 are heads of each other in a cycle')
    >>> describe_problem(np.array([1, 7]), first=1)
    (1, 'word 2 has the head 8, but the sentence has the words 1 to 2')
    >>> describe_problem(np.array([1, -2]))
    """
    n = len(heads)
    outside = np.flatnonzero((heads < UNKNOWN_HEAD) | (heads >= n))
    if len(outside):
        word = int(outside[0])
        own, last = heads[word] + first, n - 1 + first
        return word, f"word {word + first} has the head {own}, but the sentence has the words {first} to {last}"
    state = np.zeros(n, np.int64)  # the word from which a word was first reached, counted from 1
    for start in range(n):
        word, path = start, []
        while word >= 0 and not state[word]:
            state[word] = start + 1
            path.append(word)
            word = int(heads[word])
        if word >= 0 and state[word] == start + 1:
            cycle = sorted(path[path.index(word) :])
            if len(cycle) == 1:
                return word, f"word {word + first} is its own head"
            *others, last = (other + first for other in cycle)
            names = f"{', '.join(map(str, others))} and {last}"
            tail = "each other" if len(cycle) == 2 else "one another"
            return cycle[0], f"words {names} are heads of {tail} in a cycle"
    return None


def is_projective(heads: ArrayLike) -> bool:
    """Whether no two arcs cross, those from the root, which stands before the first word, included.

    Parameters
    ----------
    heads : array-like of shape (n_words,), int
        From 0; ``ROOT`` (-1) for the root, ``UNKNOWN_HEAD`` (-2) where not known; the latter cross nothing.

    Examples
    --------
    >>> is_projective([1, -1, 1]), is_projective([2, -1, 1]), is_projective([2, 3, -1, 1])
    (True, False, False)
    """
    head = as_integers(heads, "heads")
    if (head >= len(head)).any():
        raise InvalidInputError(f"heads must be positions in the sentence of {len(head)} words, got {head.max()}")
    word = np.flatnonzero(head > UNKNOWN_HEAD)
    left, right = np.minimum(word, head[word]), np.maximum(word, head[word])
    begins_inside = (left[:, None] < left) & (left < right[:, None])
    return not (begins_inside & (right > right[:, None])).any()


def projectivise(heads: ArrayLike) -> Ints:
    """Lift words to the heads of their heads until no arcs cross; trees that are projective stay as they are.

    The shortest arc over a word that does not descend from its head is lifted first [NivreNilsson2005], so that few
    heads change (0.2 to 0.5 % of those of treebanks). A single root stays single.

    Parameters
    ----------
    heads : array-like of shape (n_words,), int
        A tree: all known, without cycles.

    Returns
    -------
    ndarray of shape (n_words,), int64

    Raises
    ------
    InvalidInputError
        If heads are unknown, out of range, or form a cycle.

    Examples
    --------
    >>> projectivise([2, -1, 1]), projectivise([2, 3, -1, 2])
    (array([ 1, -1,  1]), array([ 2,  2, -1,  2]))
    """
    found = as_integers(heads, "heads").copy()
    problem = describe_problem(found)
    if problem is None and (found == UNKNOWN_HEAD).any():
        word = int(np.argmax(found == UNKNOWN_HEAD))
        problem = word, f"word {word} has no known head"
    if problem is not None:
        raise InvalidInputError(f"heads must be a tree, but {problem[1]}; repair them or leave the sentence out")
    if is_projective(found):
        return found
    while True:
        lifted = _shortest_lift(found)
        if lifted is None:
            return found
        found[lifted] = found[found[lifted]]


def _shortest_lift(heads: Ints) -> int | None:
    """The word of the shortest arc, of equals the first, over a word that does not descend from its head."""
    n = len(heads)
    below = np.zeros((n + 1, n + 1), np.bool_)  # [head, word], the root last: below the head, or the head itself
    for word in range(n):
        over = word
        while over != ROOT:
            below[over, word] = True
            over = int(heads[over])
    below[n] = True
    best: int | None = None
    least = n + 1
    for word, head in enumerate(heads.tolist()):
        low, high = min(word, head), max(word, head)
        if high - low < least and not below[head, low + 1 : high].all():
            best, least = word, high - low
    return best
