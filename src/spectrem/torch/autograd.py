"""Values, marginals, expectations and covariances of structures as functions that PyTorch differentiates.

Scores are tensors on the CPU; the compiled kernels of `spectrem.structures` do the work, in float64. The gradient of
the log-partition are the marginals, and the gradient of expectations under these are covariances, which kernels
compute as well: no derivative is found by differences, and no graph of single steps is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from spectrem._arrays import Floats, Ints
from spectrem.structures import Parts
from spectrem.torch.tensors.semirings import sum_dtype


class Layout(Protocol):
    """How the scores of a user, padded tensors, are those of the parts of a structure.

    Attributes
    ----------
    structure : Structure
    """

    structure: Any

    def smoothed_max(self, scores: Parts, gamma: float, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """As `Structure.smoothed_max`."""
        result: tuple[Floats, Parts] = self.structure.smoothed_max(scores, gamma, weights=weights)
        return result

    def pack(self, scores: Sequence[Floats]) -> Parts:
        """Scores of parts, a linear function of padded scores; views of these where they are the same."""
        ...

    def unpack(self, parts: Parts) -> list[Floats]:
        """The adjoint of `pack`: numbers of parts, such as marginals, summed where padded scores were spread."""
        ...

    def log_partition(self, gamma: float, *scores: torch.Tensor) -> torch.Tensor:
        """The smoothed maximum of every instance in plain tensor operations, for other devices."""
        ...


def as_array(tensor: torch.Tensor) -> Floats:
    """The numbers of a tensor in float64; those of the tensor itself if it has this type."""
    array: Floats = tensor.detach().to("cpu", torch.float64).numpy()
    return array


def like(arrays: Sequence[Floats], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the types and on the devices of others, in memory of their own, since gradients are added in place."""
    return [torch.from_numpy(array).to(one, copy=True) for array, one in zip(arrays, tensors, strict=True)]


def _scaled(parts: Parts, factor: float) -> Parts:
    return parts if factor == 1.0 else parts.map(lambda numbers: numbers * factor)


class LogPartition(Function):
    """Smoothed maxima of instances, shape (n_instances,), nats: gamma times the log-sum-exp of score / gamma.

    They and the marginals are in ``computed``.
    """

    @staticmethod
    def forward(
        ctx: Any, layout: Layout, gamma: float, computed: tuple[Floats, Parts], *scores: torch.Tensor
    ) -> torch.Tensor:
        values, marginals = computed
        ctx.save_for_backward(*scores)
        ctx.layout, ctx.gamma, ctx.marginals = layout, gamma, marginals
        return torch.from_numpy(values).to(scores[0].device, sum_dtype(*scores))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        marginals = Marginals.apply if torch.is_grad_enabled() else _marginals
        return None, None, None, *marginals(ctx.layout, ctx.gamma, ctx.marginals, gradient, *ctx.saved_tensors)


class Marginals(Function):
    """Marginals in the form of the scores, where those of an instance count ``weights``, shape (n_instances,)."""

    @staticmethod
    def forward(
        ctx: Any, layout: Layout, gamma: float, marginals: Parts | None, weights: torch.Tensor, *scores: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(weights, *scores)
        ctx.layout, ctx.gamma = layout, gamma
        return _marginals(layout, gamma, marginals, weights, *scores)

    @staticmethod
    def backward(ctx: Any, *along: torch.Tensor) -> tuple[Any, ...]:
        weights, *scores = ctx.saved_tensors
        computed = _covariances(ctx.layout, ctx.gamma, (*along, *scores), None)
        means = Expectation.apply(ctx.layout, ctx.gamma, computed, None, *along, *scores)
        products = Covariances.apply(ctx.layout, ctx.gamma, computed[1], weights, *along, *scores)
        return None, None, None, means, *products


class Expectation(Function):
    """Expected sums of directions, tensors in the form of the scores, over the structure of every instance.

    What `_covariances` says of them and, for gradients, marginals are computed unless they are there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        layout: Layout,
        gamma: float,
        computed: tuple[Floats, Parts] | None,
        marginals: Parts | None,
        *tensors: torch.Tensor,
    ) -> torch.Tensor:
        means, products = _covariances(layout, gamma, tensors, None) if computed is None else computed
        ctx.save_for_backward(*tensors)
        ctx.layout, ctx.gamma, ctx.products, ctx.marginals = layout, gamma, products, marginals
        return torch.from_numpy(means).to(tensors[0].device, sum_dtype(*tensors))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        scores = tensors[len(tensors) // 2 :]
        marginals = Marginals.apply(ctx.layout, ctx.gamma, ctx.marginals, gradient, *scores)
        products = Covariances.apply(ctx.layout, ctx.gamma, ctx.products, gradient, *tensors)
        return None, None, None, None, *marginals, *products


class Covariances(Function):
    """Covariances of parts with the sum of a direction, over gamma, where those of an instance count ``weights``.

    Both directions and scores are in ``tensors``. Derivatives, third cumulants, are found in tensor operations.
    """

    @staticmethod
    def forward(
        ctx: Any, layout: Layout, gamma: float, products: Parts | None, weights: torch.Tensor, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(weights, *tensors)
        ctx.layout, ctx.gamma = layout, gamma

        def factors(of_instances: Floats) -> tuple[Floats, ...]:
            return _covariances(layout, gamma, tensors, of_instances)[1].factors

        products = _covariances(layout, gamma, tensors, None)[1] if products is None else products
        return tuple(like(_weighted(layout, products, as_array(weights), factors), tensors[len(tensors) // 2 :]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        n = len(gradients)
        with torch.enable_grad():
            weights, *tensors = (one.detach().requires_grad_() for one in ctx.saved_tensors)
            along, scores = tensors[:n], tensors[n:]
            values = ctx.layout.log_partition(ctx.gamma, *scores)
            marginals = torch.autograd.grad(values, scores, weights.to(values), create_graph=True)
            inner = sum((one * other).sum() for one, other in zip(marginals, along, strict=True))
            products = torch.autograd.grad(inner, scores, create_graph=True)
            inputs = (weights, *tensors)
            derivatives = torch.autograd.grad(products, inputs, gradients, allow_unused=True)
        return None, None, None, *derivatives


class Taken(NamedTuple):
    """Parts that one structure of every instance takes.

    Attributes
    ----------
    unary, cells : ndarray of int64, and a tuple of these
        Places in ``Parts.unary``, and in each of the raveled factors.
    instances : tuple of ndarray of int64
        The instance of every place, of unary parts and then of each factor.
    """

    unary: Ints
    cells: tuple[Ints, ...]
    instances: tuple[Ints, ...]


class TakenScores(Function):
    """Scores of one structure of every instance, shape (n_instances,), nats."""

    @staticmethod
    def forward(ctx: Any, layout: Layout, taken: Taken, *scores: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*scores)
        ctx.layout, ctx.taken = layout, taken
        parts = layout.pack([as_array(one) for one in scores])
        tables = zip(taken.instances, (parts.unary, *parts.factors), (taken.unary, *taken.cells), strict=True)
        values = sum(np.bincount(one, table.ravel()[at], layout.structure.n_instances) for one, table, at in tables)
        return torch.from_numpy(values).to(scores[0].device, sum_dtype(*scores))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return None, None, *_TakenParts.apply(ctx.layout, ctx.taken, gradient, *ctx.saved_tensors)


class _TakenParts(Function):
    """The parts taken in the form of the scores, where those of an instance count ``weights``."""

    @staticmethod
    def forward(
        ctx: Any, layout: Layout, taken: Taken, weights: torch.Tensor, *scores: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.layout, ctx.taken, structure = layout, taken, layout.structure
        each = [as_array(weights)[one] for one in taken.instances]
        factors = [
            np.bincount(at, numbers, math.prod(shape)).reshape(shape)
            for at, numbers, shape in zip(taken.cells, each[1:], structure.factor_shapes, strict=True)
        ]
        parts = Parts(np.bincount(taken.unary, each[0], structure.n_unary).astype(np.float64), tuple(factors))
        return tuple(like(layout.unpack(parts), scores))

    @staticmethod
    def backward(ctx: Any, *along: torch.Tensor) -> tuple[Any, ...]:
        return None, None, TakenScores.apply(ctx.layout, ctx.taken, *along), *[None] * len(along)


def _marginals(
    layout: Layout, gamma: float, marginals: Parts | None, weights: torch.Tensor, *scores: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """As `Marginals`, without a derivative; marginals are computed unless they are there."""

    def sums(of_instances: Floats | None) -> Parts:
        return layout.smoothed_max(layout.pack([as_array(one) for one in scores]), gamma, of_instances)[1]

    def factors(of_instances: Floats) -> tuple[Floats, ...]:  # kernels take weights that are at least 0
        positive = sums(np.maximum(of_instances, 0.0)).factors
        if (of_instances >= 0.0).all():
            return positive
        return tuple(map(np.subtract, positive, sums(np.maximum(-of_instances, 0.0)).factors))

    marginals = sums(None) if marginals is None else marginals
    return tuple(like(_weighted(layout, marginals, as_array(weights), factors), scores))


def _weighted(
    layout: Layout, sums: Parts, weights: Floats, factors_of: Callable[[Floats], tuple[Floats, ...]]
) -> list[Floats]:
    """Numbers of parts in the form of the scores where those of an instance count ``weights``; in ``sums`` all count 1.

    What is shared is summed over instances there, and so is computed again unless all weights are the same.
    """
    if len(weights) and (weights == weights[0]).all():
        same = float(weights[0])
        return [one if same == 1.0 else one * same for one in layout.unpack(sums)]
    factors = factors_of(weights) if sums.factors else ()
    return layout.unpack(Parts(sums.unary * weights[layout.structure.instance], factors))


def _covariances(
    layout: Layout, gamma: float, tensors: Sequence[torch.Tensor], weights: NDArray[np.float64] | None
) -> tuple[Floats, Parts]:
    """Means of directions, and covariances over gamma; ``tensors`` are directions, then scores."""
    arrays = [as_array(one) for one in tensors]
    along, scores = layout.pack(arrays[: len(arrays) // 2]), layout.pack(arrays[len(arrays) // 2 :])
    means, products = layout.structure.covariances(_scaled(scores, 1.0 / gamma), along, weights)
    return means, _scaled(products, 1.0 / gamma)
