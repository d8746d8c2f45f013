"""Word alignments: a source word, or none, for every target word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from spectrem import structures
from spectrem._arrays import Ints
from spectrem.exceptions import InvalidInputError
from spectrem.torch.distribution import StructuredDistribution
from spectrem.torch.places import Placed
from spectrem.torch.tensors.alignments import alignments
from spectrem.torch.tokens import Tokens


def _sums(sources: Tokens, targets: Tokens, gamma: float, scores: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
    of_source, of_target = (torch.from_numpy(one.lengths).to(scores.device) for one in (sources, targets))
    return alignments(scores, of_source, of_target, gamma, *factors)


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
    gamma : float, default 1.0
        Temperature.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    A link after NULL jumps from the last source word that was linked; the first one jumps from before the sentence.
    Values are source words, integers of shape (batch, n_target), -1 for NULL and where no word is. `log_prob` also
    takes sets of possible links (bool, in the shape of the scores) and, without jumps, soft links (float).

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
        sources = Tokens.of((batch, n_links - 1), source_lengths, None)
        targets = Tokens.of((batch, n_target), target_lengths, None)
        width = None if jumps is None else len(jumps) // 2
        structure = structures.Alignment(sources.lengths, targets.lengths, max_jump=width)
        column = np.arange(n_links)
        real = (column < sources.lengths[:, None]) | (column == n_links - 1)
        is_target = np.arange(n_target) < targets.lengths[:, None]
        places = np.flatnonzero(is_target[:, :, None] & real[:, None])
        factors = []
        if jumps is not None and width is not None:
            longest = int(sources.lengths.max(initial=0))
            factors = [jumps, scores.new_zeros(longest + 1, longest + 1), scores.new_zeros(width + 1)]

        self._tokens, self._sources, self._jumps = targets, sources, jumps
        sums = partial(_sums, sources, targets)
        layout = Placed(structure, ((batch, n_target, n_links),), (places,), (slice(None),), sums)
        super().__init__(layout, (scores, *factors), gamma, torch.Size([n_target]))

    def _as_values(self, structures: Ints) -> Ints:
        return self._tokens.put(structures, -1)

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
        if self._jumps is not None:
            raise InvalidInputError("value must be links or sets of links where there are jumps, got soft links")
        return super()._expected_score(value)

    def _where(self, value: torch.Tensor) -> Alignment:
        lengths = {
            "source_lengths": torch.from_numpy(self._sources.lengths),
            "target_lengths": torch.from_numpy(self._tokens.lengths),
        }
        scores = self._scores[0].masked_fill(~value, -torch.inf)
        return Alignment(scores, self._jumps, **lengths, gamma=self.gamma)
