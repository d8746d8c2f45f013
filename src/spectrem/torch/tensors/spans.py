"""Segmentations and binary trees, whose parts are spans of the words of a sentence."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from spectrem.torch.tensors.semirings import at_lengths, fill_outside, over_gamma, times_gamma, total_of


def segmentations(scores: Tensor, transitions: Tensor, lengths: Tensor, gamma: float) -> Tensor:
    """Smoothed maxima over the cuts of sentences into segments with states, shape (batch,), in nats.

    Parameters
    ----------
    scores : Tensor of shape (batch, n, longest, n_states)
        Of segments, [first token, number of tokens - 1, state]; those beyond the end of a sentence are not used.
    transitions : Tensor of shape (n_states, n_states)
        Of neighbouring segments, from and to.
    lengths : Tensor of shape (batch,), int
        Tokens of every sentence.
    gamma : float
    """
    total = total_of(gamma)
    scores, transitions = over_gamma(gamma, scores, transitions)
    batch, n, longest, n_states = scores.shape
    if n == 0:
        return scores.sum((1, 2, 3))
    by_end = by_last(scores, lengths, -torch.inf)
    # by the last 1, 2, ... tokens that are left: totals of the tokens before them, by the state that comes next
    before = scores.new_full((batch, longest, n_states), -torch.inf)
    before = torch.cat([scores.new_zeros(batch, 1, n_states), before[:, 1:]], 1)
    done = []
    for t in range(n):
        done.append(total(before + by_end[:, t], 1))
        next_state = total(done[-1][..., None] + transitions, 1)
        before = torch.cat([next_state[:, None], before[:, :-1]], 1)
    return times_gamma(gamma, total(at_lengths(torch.stack(done, 1), lengths), 1), lengths == 0)


def by_last(segments: Tensor, lengths: Tensor, value: float) -> Tensor:
    """Segments by their last token, [last token, number of tokens - 1, state], with a value where there is none."""
    last, more = (torch.arange(size, device=segments.device) for size in segments.shape[1:3])
    first = last[:, None] - more
    there = (first >= 0) & (last < lengths[:, None])[..., None]
    return fill_outside(there, segments[:, first.clamp_min(0), more], value)


def bracketings(scores: Tensor, lengths: Tensor, gamma: float, distituents: Tensor | None = None) -> Tensor:
    """Smoothed maxima over binary trees over the words of sentences, shape (batch,), in nats.

    Parameters
    ----------
    scores : Tensor of shape (batch, n, n)
        Of spans as constituents, [first word, last word]; only those from the diagonal up are used. Words and whole
        sentences are constituents of every tree.
    lengths : Tensor of shape (batch,), int
        Words of every sentence.
    gamma : float
    distituents : Tensor of shape (batch, n, n), optional
        Scores of spans that are not constituents; those of words and whole sentences are not used. A span with -inf is
        a constituent of every possible tree. Default: 0.
    """
    total = total_of(gamma)
    scores, *others = over_gamma(gamma, scores, *([] if distituents is None else [distituents]))
    n = scores.shape[1]
    if n == 0:
        return scores.sum((1, 2))
    word = torch.arange(n, device=scores.device)
    inside = (word[:, None] <= word) & (word < lengths[:, None])[:, None]
    scores, rest = fill_outside(inside, scores), 0.0
    if others:
        whole = (word[:, None] == 0) & (word == lengths[:, None] - 1)[:, None]
        apart = fill_outside(inside & (word[:, None] < word) & ~whole, others[0])
        needed = apart == -torch.inf
        apart = apart.masked_fill(needed, 0.0)
        scores, rest = (scores - apart).masked_fill(_crossing(needed), -torch.inf), apart.sum((1, 2))
    # rows are first words, or last words by end; columns widths, from 0 up, or reversed by end
    spans = by_end = scores.diagonal(0, 1, 2)[..., None]
    for w in range(1, n):
        wider = total(spans[:, :-w] + by_end[:, w:], 2) + scores.diagonal(w, 1, 2)
        spans = add_width(spans, wider, by_end=False)
        by_end = add_width(by_end, wider, by_end=True, reverse=True)
    return times_gamma(gamma, at_lengths(spans[:, 0], lengths) + rest, lengths == 0)


def add_width(table: Tensor, spans: Tensor, *, by_end: bool, reverse: bool = False) -> Tensor:
    """A table of spans, shape (batch, n, n_widths), and another width, in front if widths are reversed.

    Parameters
    ----------
    table : Tensor of shape (batch, n, n_widths)
        Rows are first words, or last ones.
    spans : Tensor of shape (batch, n_spans)
        Those of the new width, by first word.
    by_end : bool
        Whether rows are last words.
    reverse : bool
    """
    missing = table.shape[1] - spans.shape[1]
    column = pad(spans, (missing, 0) if by_end else (0, missing), value=-torch.inf)[..., None]
    return torch.cat([column, table] if reverse else [table, column], 2)


def _crossing(spans: Tensor) -> Tensor:
    """Which spans cross one of some spans, all of shape (batch, n, n), bool, [first word, last word]."""
    n = spans.shape[1]
    word = torch.arange(n, device=spans.device)
    # the last word of the longest span from each first word, and the largest of first words i + 1 to j
    reach = torch.where(spans, word, -1).amax(2)
    after = torch.where(word > word[:, None], reach[:, None], -1).cummax(2).values > word
    # the first word of the longest span to each last word, and the smallest of last words i to j - 1
    back = torch.where(spans, word[:, None], n).amin(1)
    before = torch.where(word < word[:, None], back[:, None], n).flip(2).cummin(2).values.flip(2).mT < word[:, None]
    return after | before
