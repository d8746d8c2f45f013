"""Chains of tags of first and second order, whose tokens stand anywhere in padded batches."""

from __future__ import annotations

import torch
from torch import Tensor

from spectrem.torch.tensors.semirings import Total, fill_outside, over_gamma, times_gamma, total_of

# On a GPU the scan takes no longer than a step per token as long as products of matrices, of K³ sums, are small.
_MOST_TAGS_OF_SCAN = 16


def linear_chain(
    emissions: Tensor,
    transitions: Tensor,
    gamma: float,
    mask: Tensor | None = None,
    begin: Tensor | None = None,
    end: Tensor | None = None,
    *,
    scan: bool | None = None,
) -> Tensor:
    """Smoothed maxima over the tag sequences of sentences, shape (batch,), in nats.

    Parameters
    ----------
    emissions : Tensor of shape (batch, length, n_tags)
    transitions : Tensor of shape (n_tags, n_tags) or (batch, length - 1, n_tags, n_tags)
        From and to. Those of places stand before the token that they lead to: ``transitions[b, t - 1]`` lead to the
        token at place t, from the token before it, wherever that stands.
    gamma : float
    mask : Tensor of shape (batch, length), bool, optional
        Where tokens stand; others are left out, and the tokens around them are neighbours. Default: everywhere.
    begin, end : Tensor of shape (n_tags,), optional
        Scores of the first and the last tag of a sentence.
    scan : bool, optional
        Whether matrices of neighbours are multiplied in pairs, then their products, and so on, in log2(length) rounds
        of ``length * n_tags**3`` operations; otherwise there are ``length`` steps of ``n_tags**2`` operations. Results
        are equal. Default: on a GPU up to 16 tags.
    """
    total = total_of(gamma)
    emissions, transitions, *ends = over_gamma(gamma, emissions, transitions, *_present(begin, end))
    emissions, places, lengths = _compress(emissions, mask, begin is not None, end is not None, ends)
    n_places, n_tags = emissions.shape[1:]
    if n_places == 0:
        return emissions.sum((1, 2))
    real = torch.arange(n_places, device=lengths.device) < lengths[:, None]
    if transitions.dim() == 4:
        if mask is not None:
            rows = torch.arange(len(places), device=places.device)[:, None]
            transitions = transitions[rows, (places[:, 1:] - 1).clamp_min(0)]
        transitions = fill_outside(real[:, 1:], transitions)
    else:
        transitions = transitions.expand(1, n_places - 1, n_tags, n_tags)
    if (emissions.is_cuda and n_tags <= _MOST_TAGS_OF_SCAN) if scan is None else scan:
        last = _multiply_in_pairs(emissions, transitions, real, total)
    else:
        last = _step_by_step(emissions, transitions, real, total)
    return times_gamma(gamma, total(last, 1), lengths == 0)


def second_order_chain(
    emissions: Tensor,
    pair: Tensor,
    transitions: Tensor,
    gamma: float,
    mask: Tensor | None = None,
    begin: Tensor | None = None,
    end: Tensor | None = None,
) -> Tensor:
    """Smoothed maxima over tag sequences where three neighbours are scored together, shape (batch,), in nats.

    Parameters
    ----------
    emissions : Tensor of shape (batch, length, n_tags)
    pair : Tensor of shape (n_tags, n_tags)
        Scores of the first two tags of a sentence.
    transitions : Tensor of shape (n_tags, n_tags, n_tags)
        Two back, one back, to.
    gamma : float
    mask : Tensor of shape (batch, length), bool, optional
        As in `linear_chain`.
    begin, end : Tensor of shape (n_tags,), optional
        Scores of the first and the last tag of a sentence.
    """
    total = total_of(gamma)
    emissions, pair, transitions, *ends = over_gamma(gamma, emissions, pair, transitions, *_present(begin, end))
    emissions, _, lengths = _compress(emissions, mask, begin is not None, end is not None, ends)
    n_places = emissions.shape[1]
    if n_places == 0:
        return emissions.sum((1, 2))
    alone = total(emissions[:, 0], 1)
    if n_places == 1:
        return times_gamma(gamma, alone, lengths == 0)
    last_two = emissions[:, 0, :, None] + pair + emissions[:, 1, None]
    for t in range(2, n_places):
        stepped = total(last_two[..., None] + transitions, 1) + emissions[:, t, None]
        last_two = torch.where((t < lengths)[:, None, None], stepped, last_two)
    totals = torch.where(lengths > 1, total(last_two.flatten(1), 1), alone)
    return times_gamma(gamma, totals, lengths == 0)


def _present(*tensors: Tensor | None) -> list[Tensor]:
    return [one for one in tensors if one is not None]


def _compress(
    emissions: Tensor, mask: Tensor | None, has_begin: bool, has_end: bool, ends: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions of the tokens of every sentence side by side, those of its ends included; their places; and lengths."""
    batch, length, _ = emissions.shape
    places = torch.arange(length, device=emissions.device).expand(batch, length)
    lengths = places.new_full((batch,), length)
    if mask is not None:
        lengths, tokens = mask.sum(1), torch.argsort(~mask, dim=1, stable=True)
        emissions = fill_outside(places < lengths[:, None], emissions.gather(1, tokens[..., None].expand_as(emissions)))
        places = tokens
    position = torch.arange(length, device=emissions.device)
    if has_begin:
        emissions = torch.where((position == 0)[:, None], emissions + ends[0], emissions)
    if has_end:
        is_last = position == lengths[:, None] - 1
        emissions = torch.where(is_last[..., None], emissions + ends[-1], emissions)
    return emissions, places, lengths


def _step_by_step(emissions: Tensor, transitions: Tensor, real: Tensor, total: Total) -> Tensor:
    """Totals of all sequences by their last tag, shape (batch, n_tags)."""
    last = emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        stepped = total(last[..., None] + transitions[:, t - 1], 1) + emissions[:, t]
        last = torch.where(real[:, t, None], stepped, last)
    return last


def _multiply_in_pairs(emissions: Tensor, transitions: Tensor, real: Tensor, total: Total) -> Tensor:
    """The same; behind the last token stand identities."""
    identity = emissions.new_full(transitions.shape[2:], -torch.inf).fill_diagonal_(0.0)
    steps = torch.where(real[:, 1:, None, None], transitions + emissions[:, 1:, None], identity)
    while (n := steps.shape[1]) > 1:
        products = total(steps[:, : n - 1 : 2, :, :, None] + steps[:, 1::2, None], 3)
        steps = torch.cat([products, steps[:, n - n % 2 :]], 1)
    return total(emissions[:, 0, :, None] + steps[:, 0], 1) if n else emissions[:, 0]
