"""Linear chains: a tag for every token, and scores of neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from spectrem._arrays import Bools, Floats, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Chain, Chain2, EdgeChain, Parts
from spectrem.structures._ragged import rows_of
from spectrem.torch.autograd import Layout, Taken, TakenScores
from spectrem.torch.distribution import StructuredDistribution, weighted
from spectrem.torch.tensors.chains import linear_chain, second_order_chain
from spectrem.torch.tensors.semirings import sum_dtype
from spectrem.torch.tokens import Tokens


@dataclass(frozen=True, eq=False)
class _Layout(Layout):
    """Scores of states, of neighbours, and of the first and the last state where there are such.

    Scores of neighbours are the factors of a `Chain` or a `Chain2`; an `EdgeChain` has them at every token but the
    first, shape (batch, length - 1, n_tags, n_tags).
    """

    tokens: Tokens
    structure: Chain | Chain2 | EdgeChain
    has_begin: bool
    has_end: bool

    @cached_property
    def used(self) -> Bools:
        """Pairs of states that are parts of an `EdgeChain`: all, but of first tokens those of the first row."""
        k = self.structure.n_states
        used = np.ones((self.structure.n_tokens, k, k), np.bool_)
        used[self.tokens.ends[0], 1:] = False
        return used

    def smoothed_max(self, scores: Parts, gamma: float, weights: Floats | None = None) -> tuple[Floats, Parts]:
        if gamma == 0.0 or not isinstance(self.structure, Chain):
            return super().smoothed_max(scores, gamma, weights)
        return self.structure.sums(scores, gamma, weights=weights, least_filled=0.0)

    def pack(self, scores: Sequence[Floats]) -> Parts:
        emissions, *others = scores
        states = self.tokens.take(emissions)
        if self.has_begin or self.has_end:
            states = states.copy()
        if self.has_end:
            states[self.tokens.ends[1]] += others.pop()
        if self.has_begin:
            states[self.tokens.ends[0]] += others.pop()
        if not isinstance(self.structure, EdgeChain):
            return Parts(states.ravel(), tuple(others))
        k = self.structure.n_states
        pairs = np.zeros((*self.tokens.shape, k, k))
        pairs[:, 1:] = others[0]
        pairs = self.tokens.take(pairs)
        pairs[self.tokens.ends[0]] = 0.0
        pairs += states[:, None]
        return Parts(pairs[self.used], (np.zeros((k, k)),))

    def unpack(self, parts: Parts) -> list[Floats]:
        k = self.structure.n_states
        if isinstance(self.structure, EdgeChain):
            pairs = np.zeros((self.structure.n_tokens, k, k))
            pairs[self.used] = parts.unary
            states = pairs.sum(axis=1)
            pairs[self.tokens.ends[0]] = 0.0
            neighbours = [self.tokens.put(pairs)[:, 1:]]
        else:
            states, neighbours = parts.unary.reshape(-1, k), list(parts.factors)
        are_scored = (self.has_begin, self.has_end)
        sums = [states[self.tokens.ends[side]].sum(axis=0) for side in range(2) if are_scored[side]]
        return [self.tokens.put(states), *neighbours, *sums]

    def log_partition(self, gamma: float, *scores: torch.Tensor) -> torch.Tensor:
        emissions, *others = scores
        end = others.pop() if self.has_end else None
        begin = others.pop() if self.has_begin else None
        mask = None if self.tokens.mask is None else torch.from_numpy(self.tokens.mask).to(emissions.device)
        if len(others) == 2:
            return second_order_chain(emissions, others[0], others[1], gamma, mask, begin, end)
        return linear_chain(emissions, others[0], gamma, mask, begin, end)


class LinearChain(StructuredDistribution):
    """Sequences of tags: the distribution of a linear-chain CRF [Lafferty2001].

    Parameters
    ----------
    emissions : Tensor of shape (batch, length, n_tags), or nested tensor
        Scores of the tags of every token, nats; -inf forbids one. What stands where no token is, is not read.
    transitions : Tensor
        Scores of neighbours: (n_tags, n_tags), [from, to], for all places; (batch, length - 1, n_tags, n_tags) for each
        token but the first, before it; or (n_tags, n_tags, n_tags), of three neighbours.
    second : Tensor of shape (n_tags, n_tags), optional
        With scores of three neighbours, those of the first two tokens of a sentence; by default 0.
    begin, end : Tensor of shape (n_tags,), optional
        Scores of the first and of the last tag.
    lengths : Tensor of shape (batch,), int, optional
        Tokens of every sentence, which may be 0; by default all places hold tokens.
    mask : Tensor of shape (batch, length), bool, optional
        In place of lengths: where the tokens are. There may be gaps, across which tokens are neighbours.
    gamma : float, default 1.0
        Temperature: structures have probabilities in proportion to exp(score / gamma).

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    Values are tags, integers of shape (batch, length), -1 where no token is; `log_prob` also takes negative tags for
    tokens whose tag is not known, sets of possible tags (bool, with a last axis of n_tags), and soft tags (float),
    which are independent of each other, and whose expected log-probability it returns.
    On the CPU scores of any floating-point type are summed in float64 by compiled kernels. Derivatives of first and
    second order are exact, also where scores are -inf: such parts have gradient 0. A sentence without possible tags has
    the log-partition -inf and no gradient.

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import LinearChain
    >>> emissions = torch.tensor([[[0.9, 0.1], [0.5, 0.5]]], dtype=torch.float64).log()
    >>> chain = LinearChain(emissions, torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.float64).log())
    >>> chain.log_partition.exp().round(decimals=6).tolist(), chain.mode.tolist()
    ([0.5], [[0, 0]])
    >>> chain.marginals.round(decimals=6).tolist()
    [[[0.9, 0.1], [0.74, 0.26]]]
    """

    def __init__(
        self,
        emissions: torch.Tensor,
        transitions: torch.Tensor,
        *,
        second: torch.Tensor | None = None,
        begin: torch.Tensor | None = None,
        end: torch.Tensor | None = None,
        lengths: torch.Tensor | Sequence[int] | None = None,
        mask: torch.Tensor | None = None,
        gamma: float = 1.0,
    ) -> None:
        if emissions.is_nested:
            if lengths is not None or mask is not None:
                raise InvalidInputError("emissions that are nested have their own lengths; leave out lengths and mask")
            lengths = [len(one) for one in emissions.unbind()]
            emissions = torch.nested.to_padded_tensor(emissions, 0.0)
        if emissions.ndim != 3 or not emissions.shape[2]:
            raise InvalidInputError(
                f"emissions must have shape (batch, length, n_tags), got {tuple(emissions.shape)}; a single sentence "
                "is a batch of one"
            )
        batch, length, k = emissions.shape
        tokens = Tokens.of((batch, length), lengths, mask)
        edges = (batch, max(length - 1, 0), k, k)
        shape = tuple(transitions.shape)
        if shape not in ((k, k), (k, k, k), edges):
            raise InvalidInputError(
                f"transitions must have shape {(k, k)}, {edges} or {(k, k, k)} beside emissions of shape "
                f"{tuple(emissions.shape)}, got {shape}"
            )
        structure: Chain | Chain2 | EdgeChain
        neighbours: tuple[torch.Tensor, ...] = (transitions,)
        if shape == (k, k, k):
            structure = Chain2(tokens.lengths, k)
            neighbours = (transitions.new_zeros(k, k) if second is None else second, transitions)
        elif second is not None:
            raise InvalidInputError("second goes with transitions of three neighbours, got those of two; leave it out")
        else:
            structure = Chain(tokens.lengths, k) if shape == (k, k) else EdgeChain(tokens.lengths, k)
        second = neighbours[0] if len(neighbours) == 2 else None
        for name, one, sizes in (("second", second, (k, k)), ("begin", begin, (k,)), ("end", end, (k,))):
            if one is not None and tuple(one.shape) != sizes:
                raise InvalidInputError(f"{name} must have shape {sizes}, got {tuple(one.shape)}")
        self._tokens = tokens
        layout = _Layout(tokens, structure, begin is not None, end is not None)
        scores = (emissions, *neighbours, *(one for one in (begin, end) if one is not None))
        super().__init__(layout, scores, gamma, emissions.shape[1:2])

    @property
    def pair_marginals(self) -> torch.Tensor:
        """Probabilities of neighbouring tags, [from, to] into every token but the first.

        Shape (batch, length - 1, n_tags, n_tags); 0 where no token is. Only for scores of two neighbours.
        """
        return self._with_edges().expected_parts[1]

    def _with_edges(self) -> LinearChain:
        """The same distribution with scores of neighbours at every place."""
        emissions, transitions, *_ = self._scores
        if transitions.ndim == 4:
            return self
        if len(self._neighbours) == 2:
            raise InvalidInputError("pair_marginals are of two neighbours, got scores of three; use marginals")
        batch, length, k = emissions.shape
        edges = transitions.expand(batch, max(length - 1, 0), k, k)
        return self._like(emissions, (edges,))

    @property
    def _neighbours(self) -> tuple[torch.Tensor, ...]:
        layout = self._layout
        return self._scores[1 : len(self._scores) - layout.has_begin - layout.has_end]

    @property
    def _ends(self) -> dict[str, torch.Tensor]:
        names = [name for name, there in (("begin", self._layout.has_begin), ("end", self._layout.has_end)) if there]
        return dict(zip(names, self._scores[len(self._scores) - len(names) :], strict=True))

    @property
    def _options(self) -> dict[str, Any]:
        return {**super()._options, "begin and end": list(self._ends)}

    def _like(self, emissions: torch.Tensor, neighbours: tuple[torch.Tensor, ...]) -> LinearChain:
        second = {"second": neighbours[0]} if len(neighbours) == 2 else {}
        mask = torch.from_numpy(self._tokens.is_token)
        return LinearChain(emissions, neighbours[-1], **second, **self._ends, mask=mask, gamma=self.gamma)

    def _as_values(self, structures: Ints) -> Ints:
        return self._tokens.put(structures, -1)

    def _where(self, value: torch.Tensor) -> LinearChain:
        return self._like(self._scores[0].masked_fill(~value, -torch.inf), self._neighbours)

    def _score_of(self, value: torch.Tensor) -> torch.Tensor | None:
        if (self._checked(value) < 0).any():
            return None
        if not self._on_kernels:
            is_tag = torch.arange(self._scores[0].shape[2], device=value.device) == value[..., None]
            return self._expected_score(is_tag.to(self._scores[0].dtype))
        score: torch.Tensor = TakenScores.apply(self._layout, self._taken(value.numpy()), *self._scores)
        return score

    def _checked(self, value: torch.Tensor) -> Ints:
        """Tags of the tokens."""
        batch, length, k = self._scores[0].shape
        if value.shape != (batch, length):
            raise InvalidInputError(f"value, tags, must have shape {(batch, length)}, got {tuple(value.shape)}")
        tags = self._tokens.take(value.cpu().numpy())
        if tags.max(initial=0) >= k:
            raise InvalidInputError(f"value must hold tags below {k}, got {tags.max()}; -1 is an unknown tag")
        return tags

    def _sets_of(self, value: torch.Tensor) -> torch.Tensor:
        k = self._scores[0].shape[2]
        return torch.nn.functional.one_hot(value.clamp(0, k - 1).long(), k).bool() | (value < 0)[..., None]

    def _taken(self, value: Ints) -> Taken:
        """The parts of sequences of tags."""
        structure, tokens = self._layout.structure, self._tokens
        k, tags, sentence, position = structure.n_states, tokens.take(value), rows_of(tokens.lengths), tokens.position
        if isinstance(structure, EdgeChain):
            before = np.where(position > 0, np.roll(tags, 1), 0)
            return Taken(structure.offsets[:-1] + before * k + tags, (np.zeros(0, np.int64),), (sentence, sentence[:0]))
        cells, places = [], []
        for axes in range(2, 2 + len(structure.factor_shapes)):  # of two, then of three neighbours
            is_last = axes == 1 + len(structure.factor_shapes)
            at = np.flatnonzero(position >= axes - 1 if is_last else position == axes - 1)
            cells.append(sum(tags[at - back] * k**back for back in range(axes)))
            places.append(sentence[at])
        return Taken(np.arange(len(tags)) * k + tags, tuple(cells), (sentence, *places))

    def _expected_score(self, value: torch.Tensor) -> torch.Tensor:
        """Expected scores of sequences of tags that are independent of each other."""
        emissions, tokens, k = self._scores[0], self._tokens, self._scores[0].shape[2]
        if value.shape != emissions.shape:
            raise InvalidInputError(
                f"value, soft labels, must have shape {tuple(emissions.shape)}, got {tuple(value.shape)}"
            )
        kept, position = (torch.from_numpy(one).to(value.device) for one in (tokens.kept, tokens.position))
        sentence = torch.from_numpy(rows_of(tokens.lengths)).to(value.device)
        tags = value.reshape(-1, k)[kept]
        first, last = (torch.from_numpy(places).to(value.device) for places in tokens.ends)
        later = torch.nonzero(position)[:, 0]
        *_, transitions = self._neighbours
        # Scores by token or for all, and the tokens that read them with those before.
        terms = [(emissions.reshape(-1, k)[kept], torch.arange(len(kept), device=value.device), 1)]
        if transitions.ndim == 4:
            length = emissions.shape[1] - 1
            into = kept[later] // (length + 1) * length + kept[later] % (length + 1) - 1
            terms.append((transitions.reshape(-1, k, k)[into], later, 2))
        elif transitions.ndim == 2:
            terms.append((transitions, later, 2))
        else:
            terms.append((self._neighbours[0], torch.nonzero(position == 1)[:, 0], 2))
            terms.append((transitions, torch.nonzero(position > 1)[:, 0], 3))
        terms += [(scores, first if name == "begin" else last, 1) for name, scores in self._ends.items()]
        total = torch.zeros(tokens.shape[0], dtype=sum_dtype(*self._scores, value), device=value.device)
        for scores, at, order in terms:
            shapes = [[-1, *[1] * axis, k, *[1] * (order - 1 - axis)] for axis in range(order)]
            weights = math.prod(tags[at - order + 1 + axis].reshape(shape) for axis, shape in enumerate(shapes))
            numbers = weighted(scores, weights).flatten(1).sum(dim=1)
            total = total.index_add(0, sentence[at], numbers.to(total))
        return total
