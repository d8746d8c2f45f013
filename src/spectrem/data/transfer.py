"""Dependency trees carried from one language to another along alignment links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._validate import as_bool, as_generator
from spectrem.data.links import Links
from spectrem.data.treebank import describe_problem, is_projective
from spectrem.exceptions import InvalidInputError


def conserved_arcs(
    heads: Sequence[ArrayLike], links: Links, lengths: ArrayLike, *, name: str = "links", roots: bool = True
) -> list[Bools]:
    """Mark the arcs between target words whose aligned source words stand in an arc ([Ganchev2010] §7.1).

    The arc from head p' to dependent c' is conserved if some source word p linked with p' is the head of some source
    word c linked with c'. Links may be many-to-many; `one_to_one` keeps those that are not.

    Parameters
    ----------
    heads : sequence of array-like of shape (n_source_words,), int
        For every source sentence the head of each word, a position from 0, or -1 of the root.
    links : Links
        Between source and target words; possible links count like sure ones.
    lengths : array-like of shape (n_sentences,), int
        Number of words of every target sentence.
    name : str
        What error messages call the links, for example the name of their file.
    roots : bool
        Whether a target word linked with the root of the source sentence is marked as a root.

    Returns
    -------
    list of ndarray of shape (n_target_words, n_target_words), bool
        Per sentence, ``[dependent, head]``; the diagonal entry ``[d, d]`` is the arc from the root to d. This is the
        layout of arcs in `spectrem.structures.ProjectiveTrees`, so that a list of them makes a column for constraints.

    Raises
    ------
    InvalidInputError
        As `Links.check_inside`.

    Examples
    --------
    "the old house" against "la casa vieja", with the tree old <- house -> the, house the root:

    >>> links = Links.from_pairs([[(0, 0), (1, 2), (2, 1)]])
    >>> conserved_arcs([[2, 2, -1]], links, [3])[0].astype(int)
    array([[0, 1, 0],
           [0, 1, 0],
           [0, 1, 0]])
    """
    as_bool(roots, "roots")
    sizes = np.asarray(lengths, np.int64)
    trees = [np.asarray(tree, np.int64) for tree in heads]
    links.check_inside([tree.size for tree in trees], sizes, name)
    marked = []
    for n, tree in enumerate(trees):
        span = slice(links.offsets[n], links.offsets[n + 1])
        source, target = links.source[span], links.target[span]
        head = tree[source]
        # One row and one column per link: does the link of the row join a dependent of the word that the column links?
        dependent, parent = np.nonzero(head[:, None] == source[None, :])
        arcs = np.zeros((sizes[n], sizes[n]), np.bool_)
        arcs[target[dependent], target[parent]] = True
        np.fill_diagonal(arcs, False)  # a word is not its own head
        if roots:
            arcs[target[head == ROOT], target[head == ROOT]] = True
        marked.append(arcs)
    return marked


def one_to_one(links: Links) -> Links:
    """The links both of whose words have no other link.

    Parameters
    ----------
    links : Links
        Links that may share words.

    Returns
    -------
    Links
        Of the same sentences.

    Examples
    --------
    >>> one_to_one(Links.from_pairs([[(0, 0), (1, 1), (1, 2)]])).pairs(0)
    [(0, 0)]
    """
    alone = np.ones(links.n_links, np.bool_)
    for side in (links.source, links.target):
        _, inverse, counts = np.unique(
            np.stack([links.sentence, side]), axis=1, return_inverse=True, return_counts=True
        )
        alone &= counts[inverse.ravel()] == 1
    return links.where(alone)


def aligned_words(links: Links, lengths: ArrayLike) -> list[Bools]:
    """Which words of every target sentence have a link, each of shape (n_target_words,).

    Examples
    --------
    >>> aligned_words(Links.from_pairs([[(0, 1)]]), [3])
    [array([False,  True, False])]
    """
    sizes = np.asarray(lengths, np.int64).tolist()
    marks = [np.zeros(size, np.bool_) for size in sizes]
    for n, mark in enumerate(marks):
        mark[links.target[links.offsets[n] : links.offsets[n + 1]]] = True
    return marks


def complete_trees(arcs: Iterable[Bools], *, random_state: int | np.random.Generator | None = None) -> list[Ints]:
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

    Examples
    --------
    >>> marked = np.zeros((3, 3), dtype=bool)
    >>> marked[1, 1] = marked[0, 1] = marked[2, 1] = True  # the second word is the root, and the head of both others
    >>> complete_trees([marked], random_state=0)[0].tolist()
    [1, -1, 1]
    """
    rng = as_generator(random_state)
    return [complete_tree(marked, rng) for marked in arcs]


def complete_tree(arcs: ArrayLike, rng: np.random.Generator) -> Ints:
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
    return heads.count(ROOT) <= 1 and is_projective(heads) and describe_problem(np.array(heads)) is None
