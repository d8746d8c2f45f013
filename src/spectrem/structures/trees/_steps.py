"""The steps by which projective trees are derived, with and without valence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures.derivations import Runs, keep_steps, places_of, spans_in_tiles, steps_of


def projective_steps(n: int, single_root: bool) -> Steps:
    """The steps of the projective trees over n words, whose parts are the arcs [dependent, head].

    The words of a sentence stand in a row, and every subtree spans an interval [Eisner1996]. Items are ``complete[h,
    e]``, the words from h to e, all of which descend from h; ``joint[i, j]``, a complete span of i and one of j that
    meet between them; ``incomplete[h, d]``, the same words under an arc from h to d. A complete span joins the
    incomplete span of the outermost dependent with the complete span of what hangs on its far side. The root stands
    before the first word: ``prefix[e]`` are the first e words with all their roots, ``rooted[d]`` is a prefix whose
    last root is d, without what hangs on the right of d. With a single root the only prefix that another root may
    follow is the empty one.
    """
    return keep_steps(_projective, n, single_root)


def valence_steps(n: int, single_root: bool) -> Steps:
    """The steps of the trees over n words whose heads take children one by one; parts are those of `ValenceTrees`.

    Every head is split into its left and its right half. A half that reaches no further than its head has no child
    yet, so that the first child of a side is told from later ones, and stopping without a child from stopping with one,
    by the width of spans alone: there are O(n^3) steps, as without valence. A half is named by the place where it ends;
    place b lies before word b. ``opened[h, b]`` is the half of h that ends at b, to its left where b <= h and to its
    right where b > h, before it stops; ``closed[h, b]`` the same half afterwards. ``linked[h, d]`` are the words from h
    to d under an arc from h to d, ``later[h, d]`` the same where d is a later child.
    """
    return keep_steps(_valence, n, single_root)


def _projective(n: int, single_root: bool) -> Steps:
    complete, by_end, incomplete, joint, prefix, rooted, arcs = places_of(n * n, n * n, n * n, n * n, n + 1, n, n * n)
    i, j = spans_in_tiles(n, n)
    ij, ji, ii, width, word = n * i + j, n * j + i, (n + 1) * i, j - i, np.arange(n)
    spans = [
        (joint + ij, joint + ij, ONE, complete + ii, complete + ji + 1, width),
        (incomplete + ij, incomplete + ij, arcs + ji, joint + ij, ONE, 1),
        (incomplete + ji, incomplete + ji, arcs + ij, joint + ij, ONE, 1),
        (complete + ij, by_end + ji, ONE, incomplete + ii + 1, by_end + ji + 1, width),
        (complete + ji, by_end + ij, ONE, incomplete + ji, by_end + ii, width),
    ]
    every = np.arange(n * n)
    return steps_of(
        spans,
        *_roots(n, single_root, prefix, rooted, arcs + (n + 1) * word, complete + n * word, by_end + n * word),
        parts=(arcs + every, every),
        ones=np.concatenate([[prefix], complete + (n + 1) * word, by_end + (n + 1) * word]),
    )


def _valence(n: int, single_root: bool) -> Steps:
    c, n_halves = n + 1, n * (n + 1)
    opened, closed, by_end, linked, later, prefix, rooted, parts = places_of(
        n_halves, n_halves, c * c, n_halves, n_halves, n + 1, n, 2 * n * n + 4 * n
    )
    word, stops = np.arange(n), parts + 2 * n * n
    alone = [
        (closed + c * word + word + side, by_end + c * (word + side) + word, stops + 4 * word + 2 * side, ONE, ONE, 1)
        for side in (0, 1)
    ]
    i, j = spans_in_tiles(n, n)
    ij, ji, ii, width = c * i + j, c * j + i, (c + 1) * i, j - i
    beyond = by_end + ji + c  # the halves that end behind j, from that of i on
    to_right, to_left = parts + 2 * (n * j + i), parts + 2 * (n * i + j)
    spans = [
        (later + ij, later + ij, to_right + 1, opened + ii + 2, closed + ji + 2, width - 1),
        (linked + ij, linked + ij, ONE, closed + ji + 1, to_right, 1),
        (linked + ij, linked + ij, ONE, later + ij, ONE, 1),
        (later + ji, later + ji, to_left + 1, closed + ii + 1, opened + ji + 1, width - 1),
        (linked + ji, linked + ji, ONE, closed + ij, to_left, 1),
        (linked + ji, linked + ji, ONE, later + ji, ONE, 1),
        (opened + ij + 1, opened + ij + 1, ONE, linked + ii + 1, beyond + 1, width),
        (closed + ij + 1, beyond, stops + 4 * i + 3, opened + ij + 1, ONE, 1),
        (opened + ji, opened + ji, ONE, linked + ji, by_end + ii, width),
        (closed + ji, by_end + ij, stops + 4 * j + 1, opened + ji, ONE, 1),
    ]
    every = np.arange(2 * n * n + 4 * n)
    never = np.zeros(len(every), np.bool_)
    never[2 * (n + 1) * word + 1] = True  # a second arc from the root to the same word
    return steps_of(
        alone,
        spans,
        *_roots(n, single_root, prefix, rooted, parts + 2 * (n + 1) * word, closed + c * word, by_end + c * (word + 1)),
        parts=(parts + every[~never], every[~never]),
        ones=np.concatenate([[prefix], opened + (c + 1) * word, opened + (c + 1) * word + 1]),
    )


def _roots(
    n: int,
    single_root: bool,
    prefix: int,
    rooted: int,
    arcs: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> list[Runs]:
    """The last steps, from arcs from the root and the places of what hangs on the left and on the right of words."""
    word = np.arange(n)
    below = (rooted + word, rooted + word, arcs, prefix, left, 1 if single_root else word + 1)
    if single_root:
        return [[below], [(prefix + word[-1:] + 1, prefix + word[-1:] + 1, ONE, rooted, right[-1:], n)]]
    return [[below, (prefix + word + 1, prefix + word + 1, ONE, rooted, right, word + 1)]]
