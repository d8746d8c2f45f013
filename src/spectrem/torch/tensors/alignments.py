"""Alignments of sentence pairs, whose target words each link to a source word or to NULL."""

from __future__ import annotations

import torch
from torch import Tensor

from spectrem.torch.tensors.semirings import fill_outside, over_gamma, times_gamma, total_of


def alignments(
    scores: Tensor,
    source_lengths: Tensor,
    target_lengths: Tensor,
    gamma: float,
    jump: Tensor | None = None,
    departure: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """Smoothed maxima over the alignments of sentence pairs, shape (batch,), in nats.

    With ``jump``, ``departure`` and ``end``, the three factors of `spectrem.structures.Alignment`, source positions
    form a chain; without them target words are independent.

    Parameters
    ----------
    scores : Tensor of shape (batch, n_target, n_source + 1)
        Of links, [target word, source word]; NULL is the last column, whatever the length of the source.
    source_lengths, target_lengths : Tensor of shape (batch,), int
    gamma : float
    jump : Tensor of shape (2 W + 1,), optional
    departure : Tensor of shape (n_source + 1, n_source + 1) or larger, optional
        [length of the source, position + 1], position -1 being the start.
    end : Tensor of shape (W + 1,), optional
    """
    total = total_of(gamma)
    factors = [one for one in (jump, departure, end) if one is not None]
    scores, *factors = over_gamma(gamma, scores, *factors)
    n_target, n_source = scores.shape[1], scores.shape[2] - 1
    if n_target == 0:
        return scores.sum((1, 2))
    source, target = (torch.arange(n, device=scores.device) for n in (n_source + 1, n_target))
    real, known = target < target_lengths[:, None], (source < source_lengths[:, None]) | (source == n_source)
    scores = fill_outside(real, scores.masked_fill(~known[:, None], -torch.inf))
    if not factors:
        return times_gamma(gamma, fill_outside(real, total(scores, 2)).sum(1), target_lengths == 0)
    jump, departure, end = factors
    width, jumps = len(end) - 1, jump_scores(jump, n_source)
    leaving = departure[source_lengths, : n_source + 1]
    # by the last source word of the links so far plus 1, 0 where there is none
    last = torch.where(source == 0, scores.new_zeros(len(scores), 1), -torch.inf)
    for j in range(n_target):
        links, null = scores[:, j, :-1], scores[:, j, -1:]
        linked = total((last + leaving)[..., None] + jumps, 1) + links
        stepped = last + null
        stepped = torch.cat([stepped[:, :1], total(torch.stack([stepped[:, 1:], linked]), 0)], 1)
        last = torch.where(real[:, j, None], stepped, last)
    remaining = (source_lengths[:, None] - source).clamp(0, width)
    return times_gamma(gamma, total(last + end[remaining], 1), target_lengths == 0)


def jump_scores(jump: Tensor, n_source: int) -> Tensor:
    """Scores of jumps by source words, shape (n_source + 1, n_source): [from + 1, to], from -1 before the first one."""
    source, width = torch.arange(n_source + 1, device=jump.device), len(jump) // 2
    return jump[(source[:-1] + 1 - source[:, None]).clamp(-width, width) + width]
