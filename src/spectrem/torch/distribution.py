"""The methods that structured distributions share, whatever their structures are."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution, register_kl

from spectrem._arrays import Ints
from spectrem._validate import as_count
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Parts, draws
from spectrem.structures._ragged import no_parts
from spectrem.torch.autograd import Expectation, Layout, LogPartition, Marginals, as_array
from spectrem.torch.tensors.semirings import sum_dtype
from spectrem.torch.tokens import Tokens


class StructuredDistribution(Distribution):
    """Abstract: a distribution over the structures of every instance of a batch, in proportion to exp(score / gamma).

    A family, such as `LinearChain`, adds a constructor from scores of its parts, and how structures are written as
    tensors. All of its distributions have the methods that stand here.

    Parameters
    ----------
    layout : Layout
        How scores are those of the parts of a structure; the constructor of a family makes it.
    scores : tuple of Tensor
        Nats.
    gamma : float, at least 0
        Temperature.
    event_shape : torch.Size
        The shape of one structure as a tensor.

    Raises
    ------
    InvalidInputError
        If gamma is negative or infinite.

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import LinearChain
    >>> chain = LinearChain(torch.zeros(1, 3, 2), torch.zeros(2, 2))
    >>> round(float(chain.entropy() / torch.tensor(2.0).log()), 6)  # bits
    3.0
    """

    has_rsample = False
    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - of torch, which reads it from the class

    _tokens: Tokens

    def __init__(self, layout: Layout, scores: tuple[torch.Tensor, ...], gamma: float, event_shape: torch.Size) -> None:
        if not (isinstance(gamma, (int, float)) and 0.0 <= gamma < float("inf")):
            raise InvalidInputError(
                f"gamma must be a finite number, at least 0, got {gamma!r}; 1 is the distribution itself, 0 its mode"
            )
        self._layout: Any = layout
        self._scores, self.gamma = scores, float(gamma)
        super().__init__(torch.Size([layout.structure.n_instances]), event_shape, validate_args=False)

    def __repr__(self) -> str:
        shapes = [tuple(one) for one in (self._batch_shape, self._event_shape)]
        return f"{type(self).__name__}(batch_shape={shapes[0]}, event_shape={shapes[1]}, gamma={self.gamma:g})"

    @property
    def log_partition(self) -> torch.Tensor:
        """gamma times the log of the sum of exp(score / gamma) over structures, shape (batch,), nats."""
        if self._on_kernels:
            computed = self._layout.smoothed_max(self._packed(), self.gamma)
            values: torch.Tensor = LogPartition.apply(self._layout, self.gamma, computed, *self._scores)
            return values
        return self._layout.log_partition(self.gamma, *self._scores)

    @property
    def marginals(self) -> torch.Tensor:
        """Probabilities of the parts, in the form of the first argument of the distribution."""
        return self.expected_parts[0]

    @property
    def expected_parts(self) -> tuple[torch.Tensor, ...]:
        """The expected number of uses of every score, tensor by tensor, summed over the instances that share it."""
        return self._expected_parts(self.gamma, self._scores)

    @property
    def mode(self) -> torch.Tensor:
        """The best structure of every instance, integers; ties go to the first."""
        return self._tensor_of(self._layout.structure.decode(self._packed()))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Log-probability of structures, or of all structures that agree with what is known of them, nats.

        Parameters
        ----------
        value : Tensor
            The family says its forms: whole structures, sets of possible labels (bool), or soft labels (float), of
            which the expected log-probability is returned.

        Returns
        -------
        Tensor of shape (batch,)
        """
        self._check_gamma("log_prob")
        value = torch.as_tensor(value, device=self._scores[0].device)
        if value.is_floating_point():
            return self._normalised(self._expected_score(value))
        if value.dtype != torch.bool:
            score = self._score_of(value)
            if score is not None:
                return self._normalised(score)
            value = self._sets_of(value)
        if value.shape != self._scores[0].shape:
            raise InvalidInputError(
                f"value, sets of parts, must have shape {tuple(self._scores[0].shape)}, got {tuple(value.shape)}"
            )
        return self._normalised(self._where(value).log_partition)

    def entropy(self) -> torch.Tensor:
        """Entropies of the structures of every instance.

        Returns
        -------
        Tensor of shape (batch,)
            Nats; 0 where no structure is possible.
        """
        self._check_gamma("entropy")
        values, means = self._log_partition_and_means(self._scores)
        return torch.where(values > -torch.inf, (values - means) / self.gamma, 0.0)

    def cross_entropy(self, other: StructuredDistribution) -> torch.Tensor:
        """Expected minus log-probability that another distribution gives to structures of this one.

        Parameters
        ----------
        other : StructuredDistribution
            Of the same family and shape.

        Returns
        -------
        Tensor of shape (batch,)
            Nats.
        """
        self._check_same(other)
        values, (of_self, means) = other.log_partition, self._log_partition_and_means(other._scores)
        return self._divergence(other, (values - means) / other.gamma, of_self, values)

    def kl_divergence(self, other: StructuredDistribution) -> torch.Tensor:
        """Kullback-Leibler divergence from this distribution to another.

        Parameters
        ----------
        other : StructuredDistribution
            Of the same family and shape.

        Returns
        -------
        Tensor of shape (batch,)
            Nats, at least 0; infinite where the other one forbids what this one does not.
        """
        self._check_same(other)
        here, there = 1.0 / self.gamma, 1.0 / other.gamma
        along = tuple(
            finite(one) * here - finite(two) * there for one, two in zip(self._scores, other._scores, strict=True)
        )
        values, (of_self, means) = other.log_partition, self._log_partition_and_means(along)
        return self._divergence(other, values * there - of_self * here + means, of_self, values)

    def n_best(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The n best structures of every instance.

        Parameters
        ----------
        n : int
            At least 1.

        Returns
        -------
        scores : Tensor of shape (n, batch)
            Decreasing, nats, without gradient; -inf where an instance has fewer structures.
        structures : Tensor of shape (n, batch, ...), int64
            In the form of `mode`.
        """
        n = as_count(n, "n", minimum=1)
        values, structures = draws.n_best(self._layout.structure, self._packed(), n)
        scores = torch.from_numpy(values.T).to(self._scores[0].device)
        return scores, torch.stack([self._tensor_of(one) for one in structures])

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> torch.Tensor:
        """Draw structures; ``torch.manual_seed`` makes draws repeatable.

        Parameters
        ----------
        sample_shape : int or tuple of int, default ()
            How many.

        Returns
        -------
        Tensor of int64
            In the form of `mode`, with ``sample_shape`` before its shape.
        """
        shape = _as_shape(sample_shape)
        seed, n = int(torch.randint(2**62, ())), math.prod(shape)
        drawn = draws.sample(self._layout.structure, self._packed(), max(n, 1), seed, gamma=self.gamma)
        each = torch.stack([self._tensor_of(one) for one in drawn])[:n]
        return each.reshape(*shape, *each.shape[1:])

    def relaxed_sample(self, temperature: float = 1.0, sample_shape: Any = ()) -> torch.Tensor:
        """Draw marginals near one structure, through which gradients flow: perturb and parse [CorroTitov2019].

        Scores of parts, those of the first argument of the distribution, get Gumbel noise. Marginals at a temperature
        near 0 are the best structure of these. Where parts are independent choices, as links of an `Alignment` without
        jumps, this is the Gumbel softmax, and its structures are distributed as those of `sample`; else nearly so.

        Parameters
        ----------
        temperature : float, default 1.0
            Above 0; the lower, the nearer to one structure, and the larger the variance of gradients.
        sample_shape : int or tuple of int, default ()
            How many; ``torch.manual_seed`` makes draws repeatable.

        Returns
        -------
        Tensor
            In the form of `marginals`, with ``sample_shape`` before its shape.

        Raises
        ------
        InvalidInputError
            If the temperature is not a positive number, or gamma is 0.
        """
        self._check_gamma("relaxed_sample")
        if not (isinstance(temperature, (int, float)) and 0.0 < temperature < float("inf")):
            raise InvalidInputError(f"temperature must be a finite number above 0, got {temperature!r}; mode is at 0")
        shape = _as_shape(sample_shape)
        first, *others = (one / self.gamma for one in self._scores)
        drawn = [first.new_zeros(0, *first.shape)]
        for _ in range(math.prod(shape)):
            noise = -torch.empty(first.shape, device=first.device).exponential_().log()
            perturbed = (first + noise.to(first), *others)
            drawn.append(self._expected_parts(float(temperature), perturbed)[0][None])
        return torch.cat(drawn).reshape(*shape, *first.shape)

    # ---- what families add ------------------------------------------------------------------------------------------

    def _as_values(self, structures: Ints) -> Ints:
        """One structure of every instance, in the form of `Structure.decode`, as `mode` returns it."""
        raise NotImplementedError

    def _score_of(self, value: torch.Tensor) -> torch.Tensor | None:
        """Scores of whole structures, shape (batch,); None where they are those of `_sets_of` with one member each."""
        return None

    def _sets_of(self, value: torch.Tensor) -> torch.Tensor:
        """Whole structures, integers as `mode` returns them, as sets of parts: true where one may be taken."""
        raise NotImplementedError

    def _expected_score(self, value: torch.Tensor) -> torch.Tensor:
        """Expected scores of soft structures, shape (batch,)."""
        scores = self._scores[0]
        if value.shape != scores.shape:
            raise InvalidInputError(
                f"value, soft labels, must have shape {tuple(scores.shape)}, got {tuple(value.shape)}"
            )
        return self._sum(scores, value)

    def _where(self, value: torch.Tensor) -> StructuredDistribution:
        """The distribution over those structures that take none but the parts where ``value`` is true."""
        raise NotImplementedError

    # ---- helpers ----------------------------------------------------------------------------------------------------

    def _sum(self, scores: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Sums of weighted scores, both in the form of the first argument, over the parts there; shape (batch,)."""
        products = weighted(self._of_parts(scores), self._of_parts(weights))
        return products.flatten(1).sum(dim=1, dtype=sum_dtype(scores, weights))

    def _of_parts(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers in the form of the first argument, with 0 where no part is."""
        return torch.where(self._is_part, numbers, 0.0)

    @cached_property
    def _is_part(self) -> torch.Tensor:
        """Which entries of the first argument are parts."""
        ones = no_parts(self._layout.structure).map(np.ones_like)
        return torch.from_numpy(self._layout.unpack(ones)[0] > 0.0).to(self._scores[0].device)

    @property
    def _options(self) -> dict[str, Any]:
        """The shapes and settings that fix which structures there are, by name."""
        structure = self._layout.structure
        return {**{one.name: getattr(structure, one.name) for one in fields(structure)}, "mask": self._tokens.mask}

    @property
    def _on_kernels(self) -> bool:
        """Whether scores are where the compiled kernels run."""
        return self._scores[0].device.type == "cpu"

    def _expected_parts(self, gamma: float, scores: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """As `expected_parts`, of the same structures with other scores and another temperature."""
        ones = torch.ones(self._batch_shape, dtype=torch.float64, device=scores[0].device)
        if self._on_kernels:
            parts: tuple[torch.Tensor, ...] = Marginals.apply(self._layout, gamma, None, ones, *scores)
            return parts
        return _slopes(self._layout, gamma, scores, ones, create_graph=torch.is_grad_enabled())

    def _packed(self) -> Parts:
        return self._layout.pack([as_array(one) for one in self._scores])

    def _tensor_of(self, structures: Ints) -> torch.Tensor:
        return torch.from_numpy(self._as_values(structures)).to(self._scores[0].device)

    def _log_partition_and_means(self, along: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """The log-partition, and expected sums of directions over structures, both of shape (batch,)."""
        means: torch.Tensor
        along = tuple(map(finite, along))
        if self._on_kernels:
            computed = self._layout.smoothed_max(self._packed(), self.gamma)
            values: torch.Tensor = LogPartition.apply(self._layout, self.gamma, computed, *self._scores)
            tensors = computed[1], *along, *self._scores
            means = Expectation.apply(self._layout, self.gamma, None, *tensors)
            return values, means
        weights = torch.ones(self._batch_shape, dtype=self._scores[0].dtype, device=self._scores[0].device)
        weights.requires_grad_()
        with torch.enable_grad():
            slopes = _slopes(self._layout, self.gamma, self._scores, weights, create_graph=True)
            inner = sum((one * other).sum() for one, other in zip(slopes, along, strict=True))
            means = torch.autograd.grad(inner, weights, create_graph=True)[0]
        return self.log_partition, means

    def _normalised(self, scores: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of what has these scores; -inf where no structure is possible at all."""
        values = self.log_partition
        return torch.where(values > -torch.inf, (scores - values) / self.gamma, -torch.inf)

    def _divergence(
        self, other: StructuredDistribution, numbers: torch.Tensor, of_self: torch.Tensor, of_other: torch.Tensor
    ) -> torch.Tensor:
        """Numbers that are infinite where a structure of this distribution is impossible in another one.

        They are 0 where no structure of this one is possible. ``of_self`` and ``of_other`` are log-partitions.
        """
        only_here = [
            (two == -torch.inf) & (one != -torch.inf) for one, two in zip(self._scores, other._scores, strict=True)
        ]
        with torch.no_grad():
            is_possible, beyond = of_self > -torch.inf, of_other == -torch.inf
            if any(bool(one.any()) for one in only_here):
                shares = self._log_partition_and_means(tuple(one.to(torch.float64) for one in only_here))[1]
                beyond = beyond | (shares > 0.0)
        return torch.where(is_possible, torch.where(beyond, torch.inf, numbers), 0.0)

    def _check_gamma(self, what: str) -> None:
        if self.gamma == 0.0:
            raise InvalidInputError(f"gamma must be above 0 for {what}, got 0; use mode, or a small gamma")

    def _check_same(self, other: StructuredDistribution) -> None:
        self._check_gamma("divergences")
        shapes = [[tuple(one.shape) for one in each._scores] for each in (self, other)]
        if type(self) is not type(other) or shapes[0] != shapes[1]:
            raise InvalidInputError(
                f"other must be of the family and shape of this distribution, {type(self).__name__} of {shapes[0]}, "
                f"got {type(other).__name__} of {shapes[1]}"
            )
        for name, one, two in zip(self._options, self._options.values(), other._options.values(), strict=True):
            if not np.array_equal(one, two):
                raise InvalidInputError(
                    f"other must have the {name} of this distribution, {one!r:.100}, got {two!r:.100}; divergences are "
                    "over the same structures"
                )
        other._check_gamma("divergences")


def weighted(scores: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Products, where what is impossible and weighs nothing counts 0."""
    return torch.where((scores == -torch.inf) & (weights == 0), 0.0, scores) * weights


def finite(scores: torch.Tensor) -> torch.Tensor:
    """Scores with 0 in place of -inf, which no structure takes."""
    return scores.masked_fill(scores == -torch.inf, 0.0)


def _as_shape(sample_shape: Any) -> tuple[int, ...]:
    return (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)


def _slopes(
    layout: Layout, gamma: float, scores: tuple[torch.Tensor, ...], weights: torch.Tensor, create_graph: bool
) -> tuple[torch.Tensor, ...]:
    """Expected parts where those of an instance count ``weights``, by the derivative of tensor operations."""
    with torch.enable_grad():
        scores = tuple(one if one.requires_grad else one.detach().requires_grad_() for one in scores)
        values = layout.log_partition(gamma, *scores)
        return torch.autograd.grad(values, scores, weights.to(values), create_graph=create_graph)


@register_kl(StructuredDistribution, StructuredDistribution)
def _kl_divergence(p: StructuredDistribution, q: StructuredDistribution) -> torch.Tensor:
    return p.kl_divergence(q)
