"""Arcs of target sentences that stand in the trees of their aligned source sentences, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._heads import ROOT
from spectrem._validate import as_bool
from spectrem.data.links import Links


def conserved_arcs(
    heads: Sequence[ArrayLike], links: Links, lengths: ArrayLike, *, name: str = "links", roots: bool = True
) -> list[NDArray[np.bool_]]:
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
    trees = [np.asarray(own, np.int64) for own in heads]
    links.check_inside([own.size for own in trees], sizes, name)
    found = []
    for n, own in enumerate(trees):
        span = slice(links.offsets[n], links.offsets[n + 1])
        found.append(_project(own, links.source[span], links.target[span], int(sizes[n]), roots))
    return found


def _project(
    heads: NDArray[np.int64], source: NDArray[np.int32], target: NDArray[np.int32], length: int, roots: bool
) -> NDArray[np.bool_]:
    head = heads[source]
    # One row and one column per link: does the link of the row join a dependent of the word that the column links?
    meets = head[:, None] == source[None, :]
    arcs = np.zeros((length, length), np.bool_)
    dependent, parent = np.nonzero(meets)
    arcs[target[dependent], target[parent]] = True
    np.fill_diagonal(arcs, False)  # a word is not its own head
    if roots:
        own = target[head == ROOT]
        arcs[own, own] = True
    return arcs


def one_to_one(links: Links) -> Links:
    """The links both of whose words have no other link.

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


def aligned_words(links: Links, lengths: ArrayLike) -> list[NDArray[np.bool_]]:
    """Which words of every target sentence have a link, each of shape (n_target_words,).

    Examples
    --------
    >>> aligned_words(Links.from_pairs([[(0, 1)]]), [3])
    [array([False,  True, False])]
    """
    sizes = np.asarray(lengths, np.int64).tolist()
    marks = [np.zeros(size, np.bool_) for size in sizes]
    for n, own in enumerate(marks):
        own[links.target[links.offsets[n] : links.offsets[n + 1]]] = True
    return marks
