"""A linear-chain CRF as a layer of a network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from spectrem._validate import as_bool
from spectrem.exceptions import InvalidInputError
from spectrem.models.tag_schemes import possible_moves
from spectrem.torch.chains import LinearChain


class CRF(nn.Module):
    """Scores of transitions, learnt with the network below: a linear-chain CRF [Lafferty2001].

    It takes the calls of pytorch-crf as they are, its parameters have the same names and shapes, and it gives the same
    numbers where these are right; there is more beside them.

    Parameters
    ----------
    num_tags : int
        At least 1.
    batch_first : bool, default False
        Whether tensors are (batch, length, ...) or (length, batch, ...), as pytorch-crf has them by default.
    allowed : Tensor of shape (num_tags + 1, num_tags + 1), bool, optional
        Which tag may follow which, [from, to]; the last row says what may begin a sentence, the last column what may
        end one. See `bio`. Moves that are not allowed have the score -inf and no gradient.
    gamma : float, default 1.0
        Temperature, as in `LinearChain`.

    Raises
    ------
    InvalidInputError
        If a size is out of range.

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import CRF
    >>> crf = CRF(3, batch_first=True)
    >>> emissions, tags = torch.zeros(2, 4, 3), torch.ones(2, 4, dtype=torch.long)
    >>> loss = -crf(emissions, tags, reduction="mean")
    >>> loss.backward()
    >>> len(crf.decode(emissions)), crf.marginals(emissions).shape
    (2, torch.Size([2, 4, 3]))
    """

    def __init__(
        self, num_tags: int, batch_first: bool = False, *, allowed: torch.Tensor | None = None, gamma: float = 1.0
    ) -> None:
        if num_tags < 1:
            raise InvalidInputError(f"num_tags must be at least 1; invalid number of tags: {num_tags}")
        super().__init__()
        self.num_tags, self.batch_first, self.gamma = num_tags, as_bool(batch_first, "batch_first"), gamma
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        if allowed is not None and tuple(allowed.shape) != (num_tags + 1, num_tags + 1):
            raise InvalidInputError(
                f"allowed must have shape {(num_tags + 1, num_tags + 1)}, tags and the ends of a sentence, got "
                f"{tuple(allowed.shape)}; bio(tags) makes it"
            )
        self.register_buffer("allowed", None if allowed is None else allowed.bool(), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all transitions uniformly from -0.1 to 0.1."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_tags={self.num_tags})"

    def distribution(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> LinearChain:
        """The distribution of the tags of a batch.

        Parameters
        ----------
        emissions : Tensor of shape (length, batch, num_tags), or (batch, length, num_tags) with ``batch_first``
        mask : Tensor of the first two axes of that shape, optional
            True, or 1, at tokens.

        Returns
        -------
        LinearChain
            Of shape (batch, length).
        """
        return self._distribution(emissions, mask)

    def forward(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None = None,
        reduction: str = "sum",
    ) -> torch.Tensor:
        """Log-likelihood of tags.

        Parameters
        ----------
        emissions, mask
            As in `distribution`.
        tags : Tensor
            Tags; negative ones are not known, and summed over. Or sets of tags (bool) or soft tags (float), with a last
            axis of num_tags, as in `LinearChain.log_prob`.
        reduction : {"sum", "none", "mean", "token_mean"}
            Over sentences, and for ``token_mean`` divided by the number of tokens.

        Returns
        -------
        Tensor
            Nats; of shape (batch,) with ``none``.
        """
        self._check(emissions, tags, mask)
        if reduction not in ("none", "sum", "mean", "token_mean"):
            raise InvalidInputError(f"reduction must be none, sum, mean or token_mean; invalid reduction: {reduction}")
        chain = self._distribution(emissions, mask)
        likelihood = chain.log_prob(tags if self.batch_first else tags.transpose(0, 1))
        if reduction == "none":
            return likelihood
        if reduction == "mean":
            return likelihood.mean()
        total = likelihood.sum()
        return total if reduction == "sum" else total / int(chain._tokens.lengths.sum())

    def decode(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> list[list[int]]:
        """The best tags of every sentence.

        Parameters
        ----------
        emissions, mask
            As in `distribution`.

        Returns
        -------
        list of list of int
            Each as long as its sentence.
        """
        mode = self._distribution(emissions, mask).mode
        return [[tag for tag in row if tag >= 0] for row in mode.tolist()]

    def marginals(self, emissions: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Probabilities of the tags of every token.

        Parameters
        ----------
        emissions, mask
            As in `distribution`.

        Returns
        -------
        Tensor in the shape of ``emissions``
            0 where no token is.
        """
        marginals = self._distribution(emissions, mask).marginals
        return marginals if self.batch_first else marginals.transpose(0, 1)

    def n_best(
        self, emissions: torch.Tensor, n: int, mask: torch.Tensor | None = None
    ) -> list[list[tuple[float, list[int]]]]:
        """The n best sequences of tags of every sentence.

        Parameters
        ----------
        emissions, mask
            As in `distribution`.
        n : int
            At least 1.

        Returns
        -------
        list of list of (float, list of int)
            Of every sentence the scores, in nats, and the tags, best first; fewer where there are fewer.
        """
        scores, tags = self._distribution(emissions, mask).n_best(n)
        sentences: list[list[tuple[float, list[int]]]] = [[] for _ in range(scores.shape[1])]
        for best_scores, best_tags in zip(scores.tolist(), tags.tolist(), strict=True):
            for sentence, score, row in zip(sentences, best_scores, best_tags, strict=True):
                if score > float("-inf"):
                    sentence.append((score, [tag for tag in row if tag >= 0]))
        return sentences

    def _distribution(self, emissions: torch.Tensor, mask: torch.Tensor | None) -> LinearChain:
        self._check(emissions, None, mask)
        if not self.batch_first:
            emissions, mask = emissions.transpose(0, 1), None if mask is None else mask.transpose(0, 1)
        moves, begin, end = self.transitions, self.start_transitions, self.end_transitions
        if self.allowed is not None:
            forbidden = ~self.allowed
            moves = moves.masked_fill(forbidden[:-1, :-1], -torch.inf)
            begin, end = (
                one.masked_fill(never, -torch.inf)
                for one, never in ((begin, forbidden[-1, :-1]), (end, forbidden[:-1, -1]))
            )
        return LinearChain(emissions, moves, begin=begin, end=end, mask=mask, gamma=self.gamma)

    def _check(self, emissions: torch.Tensor, tags: torch.Tensor | None, mask: torch.Tensor | None) -> None:
        """Refuse what pytorch-crf refuses, in words that contain its own."""
        if emissions.dim() != 3:
            raise InvalidInputError(f"emissions must have dimension of 3, got {emissions.dim()}")
        if emissions.size(2) != self.num_tags:
            raise InvalidInputError(f"expected last dimension of emissions is {self.num_tags}, got {emissions.size(2)}")
        for name, one in (("tags", tags), ("mask", mask)):
            if one is not None and emissions.shape[:2] != one.shape[:2]:
                raise InvalidInputError(
                    f"the first two dimensions of emissions and {name} must match, got {tuple(emissions.shape[:2])} "
                    f"and {tuple(one.shape[:2])}"
                )
        if mask is not None and not bool((mask[:, 0] if self.batch_first else mask[0]).all()):
            raise InvalidInputError(
                "mask of the first timestep must all be on, as in pytorch-crf; LinearChain takes any mask"
            )


def bio(tags: Sequence[str], scheme: str = "bio") -> torch.Tensor:
    """Which tags may follow each other, for `CRF`.

    Parameters
    ----------
    tags : sequence of str
        Such as ``["O", "B-PER", "I-PER"]``, in the order of their numbers.
    scheme : {"bio", "bioes"}, default "bio"

    Returns
    -------
    Tensor of shape (n_tags + 1, n_tags + 1), bool
        [from, to]; the last row is the beginning of a sentence, the last column its end.

    Raises
    ------
    InvalidInputError
        If a tag does not belong to the scheme.

    Examples
    --------
    >>> from spectrem.torch import bio
    >>> bio(["O", "B", "I"]).int().tolist()
    [[1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]]
    """
    if scheme not in ("bio", "bioes"):
        raise InvalidInputError(f"scheme must be bio or bioes, got {scheme!r}")
    return torch.from_numpy(possible_moves(scheme, tags))
