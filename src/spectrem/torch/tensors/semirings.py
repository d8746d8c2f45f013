"""Sums and maxima of scores, whose derivatives are finite where scores are -inf."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Total = Callable[[Tensor, int], Tensor]


def log_sum(scores: Tensor, dim: int) -> Tensor:
    """Logarithm of the sum of exp(score) along a dimension, which must not be empty.

    `torch.logsumexp` is the same, but has derivatives of NaN where all scores are -inf.
    """
    tops = scores.detach().amax(dim, keepdim=True)
    sums = (scores - tops.clamp_min(torch.finfo(scores.dtype).min)).exp().sum(dim)
    # a sum is at least 1, that of its largest score, unless all are -inf, and so are tops
    return sums.clamp_min(1.0).log() + tops.squeeze(dim)


def largest(scores: Tensor, dim: int) -> Tensor:
    """The largest score along a dimension; among equals, one of them alone has a derivative."""
    return scores.max(dim).values


def total_of(gamma: float) -> Total:
    """What adds up alternatives whose scores were divided by gamma."""
    return log_sum if gamma > 0.0 else largest


def sum_dtype(*tensors: Tensor) -> torch.dtype:
    """The widest type of tensors, at least float32: that of sums over structures."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def over_gamma(gamma: float, *scores: Tensor) -> list[Tensor]:
    """Scores in the widest of their types, at least float32, over gamma, unless that is 0."""
    dtype = sum_dtype(*scores)
    return [one.to(dtype) if gamma in (0.0, 1.0) else one.to(dtype) / gamma for one in scores]


def times_gamma(gamma: float, totals: Tensor, empty: Tensor) -> Tensor:
    """Values in nats: 0 where an instance is empty; -inf, without derivatives, where it has no possible structure."""
    values = totals.masked_fill(totals == -torch.inf, -torch.inf).masked_fill(empty, 0.0)
    return values if gamma in (0.0, 1.0) else values * gamma


def fill_outside(real: Tensor, scores: Tensor, value: float = 0.0) -> Tensor:
    """Scores with a value in place of padding; ``real`` has the first dimensions of ``scores``."""
    return scores.masked_fill(~real.reshape(real.shape + (1,) * (scores.dim() - real.dim())), value)


def at_lengths(table: Tensor, lengths: Tensor) -> Tensor:
    """Rows ``table[b, lengths[b] - 1]``, the first one where a length is 0; shape (batch, ...)."""
    return table[torch.arange(len(table), device=table.device), (lengths - 1).clamp_min(0)]
