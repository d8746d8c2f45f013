"""Dependency trees over the words of sentences, whose arcs may cross or not."""

from __future__ import annotations

import torch
from torch import Tensor

from spectrem.exceptions import InvalidInputError
from spectrem.torch.tensors.semirings import at_lengths, fill_outside, log_sum, over_gamma, times_gamma, total_of
from spectrem.torch.tensors.spans import add_width


def projective_trees(scores: Tensor, lengths: Tensor, gamma: float, *, single_root: bool = True) -> Tensor:
    """Smoothed maxima over dependency trees without crossing arcs, shape (batch,), in nats.

    The spans of [Eisner1996], all spans of a width at once.

    Parameters
    ----------
    scores : Tensor of shape (batch, n, n)
        Of arcs, [dependent, head]; those from the root on the diagonal.
    lengths : Tensor of shape (batch,), int
        Words of every sentence.
    gamma : float
    single_root : bool, default True
        Whether exactly one word hangs on the root, or one or more.
    """
    total = total_of(gamma)
    (scores,) = over_gamma(gamma, scores)
    batch, n, _ = scores.shape
    if n == 0:
        return scores.sum((1, 2))
    inside = torch.arange(n, device=scores.device) < lengths[:, None]
    scores = fill_outside(inside[:, :, None] & inside[:, None], scores)
    # Words i to i + w that all descend from i are row i of to_right, and row i + w by end; to_left has those that
    # descend from i + w. Linked spans have an arc between their ends. Columns are widths: from 0 or 1 up, and from the
    # largest down to 0 where they are reversed.
    no_width = scores.new_zeros(batch, n, 1)
    to_right = to_right_by_end = to_left = to_left_by_end = no_width
    linked_right = linked_left_by_end = no_width[..., :0]
    for w in range(1, n):
        joint = total(to_right[:, :-w] + to_left_by_end[:, w:], 2)
        linked_right = add_width(linked_right, joint + scores.diagonal(-w, 1, 2), by_end=False)
        linked_left_by_end = add_width(linked_left_by_end, joint + scores.diagonal(w, 1, 2), by_end=True)
        right = total(linked_right[:, :-w] + to_right_by_end[:, w:], 2)
        left = total(linked_left_by_end[:, w:] + to_left[:, :-w], 2)
        to_right = add_width(to_right, right, by_end=False)
        to_right_by_end = add_width(to_right_by_end, right, by_end=True, reverse=True)
        to_left = add_width(to_left, left, by_end=False, reverse=True)
        to_left_by_end = add_width(to_left_by_end, left, by_end=True, reverse=True)
    roots = scores.diagonal(0, 1, 2)
    if single_root:
        heads = (lengths[:, None] - 1 - torch.arange(n - 1, -1, -1, device=scores.device)).clamp_min(0)
        rooted = (roots + to_left[:, 0].flip(1)).gather(1, heads)
        totals = total(rooted + at_lengths(to_right_by_end, lengths), 1)
    else:
        prefixes, rooted = no_width[:, 0], no_width[:, 0, :0]  # the first words with all their roots; the last root
        for d in range(n):
            last_root = roots[:, d] + total(prefixes + to_left_by_end[:, d, n - 1 - d :], 1)
            rooted = torch.cat([rooted, last_root[:, None]], 1)
            prefixes = torch.cat([prefixes, total(rooted + to_right_by_end[:, d, n - 1 - d :], 1)[:, None]], 1)
        totals = at_lengths(prefixes[:, 1:], lengths)
    return times_gamma(gamma, totals, lengths == 0)


def nonprojective_trees(scores: Tensor, lengths: Tensor, gamma: float, *, single_root: bool = True) -> Tensor:
    """Smoothed maxima over dependency trees whose arcs may cross, shape (batch,), in nats.

    Parameters
    ----------
    scores, lengths, gamma, single_root
        As in `projective_trees`, but that gamma must be above 0.

    Raises
    ------
    InvalidInputError
        If gamma is 0: the best tree is not found by sums.

    Notes
    -----
    The determinant of the matrix-tree theorem [Koo2007] by elimination without subtraction, as in
    ``spectrem.kernels.trees.matrix_tree``, in log space. `torch.linalg.slogdet` is faster, but where words that are
    certain of their heads make a cycle, digits cancel: with scores of a standard deviation of 20 nats over 40 words its
    marginals are wrong by 1 in single precision. Nor does it tell an impossible sentence from such a one.
    """
    if gamma == 0.0:
        raise InvalidInputError(
            "gamma must be above 0 where non-projective trees are summed, got 0; use mode for the best tree, or a "
            "small gamma"
        )
    (scores,) = over_gamma(gamma, scores)
    batch, n, _ = scores.shape
    if n == 0:
        return scores.sum((1, 2))
    inside = torch.arange(n, device=scores.device) < lengths[:, None]
    arcs = fill_outside(inside[:, :, None] & inside[:, None], scores, -torch.inf)
    roots = arcs.diagonal(0, 1, 2)
    totals = scores.new_zeros(batch)
    # With a single root, arcs from it are infinitely small beside others, until a word has no others left: it, or one
    # that was eliminated before it, is the root, and from there on what leads to it is not small.
    rooted = torch.full_like(lengths, not single_root, dtype=torch.bool)
    for k in range(n - 1, -1, -1):
        row, root = arcs[:, k, :k], roots[:, k, None]
        starts = inside[:, k] & ~rooted & (row == -torch.inf).all(1)
        rooted = rooted | starts
        sums = log_sum(torch.cat([row, root.masked_fill(~rooted[:, None], -torch.inf)], 1), 1)
        totals = totals + sums.masked_fill(~inside[:, k], 0.0)
        column = arcs[:, :k, k] - sums.masked_fill(sums == -torch.inf, 0.0)[:, None]
        # dependents of k are handed on to its heads; the diagonal, words that become their own heads, is not used
        arcs = log_sum(torch.stack([arcs[:, :k, :k], column[..., None] + row[:, None]]), 0)
        roots = log_sum(torch.stack([roots[:, :k].masked_fill(starts[:, None], -torch.inf), column + root]), 0)
    return times_gamma(gamma, totals, lengths == 0)
