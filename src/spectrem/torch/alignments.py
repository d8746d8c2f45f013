"""Word alignments: a source word, or none, for every target word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from spectrem import structures
from spectrem._arrays import Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import rows_of
from spectrem.torch.distribution import StructuredDistribution, weighted
from spectrem.torch.places import Placed
from spectrem.torch.tensors.alignments import alignments, jump_scores
from spectrem.torch.tensors.semirings import sum_dtype
from spectrem.torch.tokens import Tokens


def _sums(sources: Tokens, targets: Tokens, gamma: float, scores: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
    of_source, of_target = (torch.from_numpy(one.lengths).to(scores.device) for one in (sources, targets))
    return alignments(_compact(sources, targets, scores), of_source, of_target, gamma, *factors)


def _compact(sources: Tokens, targets: Tokens, links: torch.Tensor) -> torch.Tensor:
    """Links with the words of both sides first, and columns for those of the longest source and NULL only."""
    links, longest = targets.compact(links, 1), int(sources.lengths.max(initial=0))
    return torch.cat([sources.compact(links[..., :-1], 2)[..., :longest], links[..., -1:]], 2)


class Alignment(StructuredDistribution):
    """Alignments of sentence pairs: every target word links to a source word or to NULL [Vogel1996].

    Parameters
    ----------
    scores : Tensor of shape (batch, n_target, n_source + 1)
        Of links, [target word, source word], nats, NULL in the last column whatever the length of a source; -inf
        forbids one.
    jumps : Tensor of shape (2 W + 1,), optional
        Scores of jumps between the source words of neighbouring links, from -W to W; wider ones count as these. Without
        them target words are independent of each other.
    source_lengths, target_lengths : Tensor of shape (batch,), int, optional
        Words of every sentence, which may be 0; by default all.
    source_mask : Tensor of shape (batch, n_source), bool, optional
    target_mask : Tensor of shape (batch, n_target), bool, optional
        In place of lengths: where the words are, with any gaps, which jumps do not count.
    gamma : float, default 1.0
        Temperature.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    A link after NULL jumps from the last source word that was linked; the first one jumps from before the sentence.
    Values are source words, integers of shape (batch, n_target): their places, -1 for NULL and where no word is.
    `log_prob` also takes sets of possible links (bool) and soft links (float), both in the shape of the scores. Target
    words with soft links are independent of each other; jumps count by how likely each source word is the last one that
    was linked.

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import Alignment
    >>> scores = torch.tensor([[[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]]).log()
    >>> Alignment(scores).mode.tolist()
    [[0, -1]]
    """

    def __init__(
        self,
        scores: torch.Tensor,
        jumps: torch.Tensor | None = None,
        *,
        source_lengths: torch.Tensor | Sequence[int] | None = None,
        target_lengths: torch.Tensor | Sequence[int] | None = None,
        source_mask: torch.Tensor | None = None,
        target_mask: torch.Tensor | None = None,
        gamma: float = 1.0,
    ) -> None:
        if scores.ndim != 3 or not scores.shape[2]:
            raise InvalidInputError(
                f"scores must have shape (batch, n_target, n_source + 1), got {tuple(scores.shape)}; NULL is the last"
            )
        batch, n_target, n_links = (int(size) for size in scores.shape)
        if jumps is not None and (jumps.ndim != 1 or len(jumps) % 2 == 0 or len(jumps) < 3):
            raise InvalidInputError(
                f"jumps must have shape (2 W + 1,) for jumps from -W to W, W at least 1, got {tuple(jumps.shape)}"
            )
        sources = Tokens.of((batch, n_links - 1), source_lengths, source_mask, "source_")
        targets = Tokens.of((batch, n_target), target_lengths, target_mask, "target_")
        width = None if jumps is None else len(jumps) // 2
        structure = structures.Alignment(sources.lengths, targets.lengths, max_jump=width)
        is_link = np.pad(sources.is_token, ((0, 0), (0, 1)), constant_values=True)
        places = np.flatnonzero(targets.is_token[:, :, None] & is_link[:, None])
        factors = []
        if jumps is not None and width is not None:
            longest = int(sources.lengths.max(initial=0))
            factors = [jumps, scores.new_zeros(longest + 1, longest + 1), scores.new_zeros(width + 1)]

        self._tokens, self._sources, self._jumps = targets, sources, jumps
        sums = partial(_sums, sources, targets)
        layout = Placed(structure, ((batch, n_target, n_links),), (places,), (slice(None),), sums)
        super().__init__(layout, (scores, *factors), gamma, torch.Size([n_target]))

    def _as_values(self, structures: Ints) -> Ints:
        sentence = rows_of(self._tokens.lengths)
        return self._tokens.put(self._sources.places_of(sentence, structures), -1)

    @property
    def _options(self) -> dict[str, Any]:
        return {**super()._options, "source_mask": self._sources.mask}

    def _sets_of(self, value: torch.Tensor) -> torch.Tensor:
        if value.shape != self._tokens.shape:
            raise InvalidInputError(
                f"value, source words, must have shape {self._tokens.shape}, got {tuple(value.shape)}"
            )
        n_links = self._scores[0].shape[2]
        links = self._tokens.take(value.cpu().numpy())
        if ((links < -1) | (links >= n_links - 1)).any():
            raise InvalidInputError(
                f"value must hold source words below {n_links - 1}, or -1 for NULL, got "
                f"{links[(links < -1) | (links >= n_links - 1)][0]}"
            )
        columns = value.long().clamp(-1, n_links - 2) % n_links
        return torch.nn.functional.one_hot(columns, n_links).bool()

    def _expected_score(self, value: torch.Tensor) -> torch.Tensor:
        total = super()._expected_score(value)
        if self._jumps is None:
            return total
        links = _compact(self._sources, self._tokens, self._of_parts(value)).to(sum_dtype(*self._scores, value))
        # Probabilities of the source word that was linked last, plus 1, and expected numbers of [from + 1, to].
        last = torch.eye(1, links.shape[2], dtype=links.dtype, device=links.device)
        moves = links.new_zeros(len(links), links.shape[2], links.shape[2] - 1)
        for linked, null in zip(links[..., :-1].unbind(1), links[..., -1:].unbind(1), strict=True):
            moves = moves + last[..., None] * linked[:, None]
            last = last * null + torch.nn.functional.pad(linked, (1, 0))
        return total + weighted(jump_scores(self._jumps, links.shape[2] - 1), moves).flatten(1).sum(dim=1)

    def _where(self, value: torch.Tensor) -> Alignment:
        sources, targets = (torch.from_numpy(one.is_token) for one in (self._sources, self._tokens))
        scores = self._scores[0].masked_fill(~value, -torch.inf)
        return Alignment(scores, self._jumps, source_mask=sources, target_mask=targets, gamma=self.gamma)
