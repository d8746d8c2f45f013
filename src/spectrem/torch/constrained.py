"""Posteriors of structures under constraints, as functions that PyTorch differentiates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from spectrem.constraints import compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.text import Constraints
from spectrem.exceptions import InvalidInputError
from spectrem.inference import Projection, project_batch
from spectrem.inference.sensitivity import pull_back
from spectrem.structures import Parts
from spectrem.tables.project import Cells
from spectrem.tables.targets import ConstrainedTargets
from spectrem.torch.autograd import as_array, like
from spectrem.torch.distribution import StructuredDistribution, finite
from spectrem.torch.tensors.semirings import sum_dtype


class Projected(Function):
    """Multipliers, and marginals in the form of the scores, of a projection that was found for them."""

    @staticmethod
    def forward(ctx: Any, posterior: Constrained, *scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(*scores)
        ctx.posterior, projection = posterior, posterior.projection
        multipliers = torch.from_numpy(projection.multipliers).to(scores[0].device, sum_dtype(*scores))
        return multipliers, *like(posterior.distribution._layout.unpack(projection.marginals), scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_multipliers: torch.Tensor, *of_parts: torch.Tensor) -> tuple[Any, ...]:
        scores, posterior = ctx.saved_tensors, ctx.posterior
        layout = posterior.distribution._layout
        packed, along = (layout.pack([as_array(one) for one in tensors]) for tensors in (scores, of_parts))
        where = layout.structure, packed, posterior.rows, posterior.projection, posterior.gamma
        slopes = pull_back(*where, along, as_array(of_multipliers))
        return None, *like(layout.unpack(slopes), scores)


@dataclass(frozen=True, eq=False)
class Constrained:
    """The distribution nearest to a structured distribution that meets constraints; see `constrained`.

    Attributes
    ----------
    distribution : StructuredDistribution
    gamma : float
    rows : Rows
        The compiled constraints.
    projection : Projection
        As `spectrem.inference.project_batch` returns it.

    Examples
    --------
    >>> import torch
    >>> from spectrem import E, part
    >>> from spectrem.torch import LinearChain, constrained
    >>> q = constrained(LinearChain(torch.zeros(1, 2, 2), torch.zeros(2, 2)), E[part("tag") == 1] <= 0.5)
    >>> q.marginals.round(decimals=4).tolist(), round(q.multipliers.item(), 4)
    ([[[0.75, 0.25], [0.75, 0.25]]], 1.0986)
    """

    distribution: StructuredDistribution
    gamma: float
    rows: Rows
    projection: Projection

    @property
    def marginals(self) -> torch.Tensor:
        """Probabilities of the parts, in the form of the first argument of the distribution."""
        return self.expected_parts[0]

    @property
    def expected_parts(self) -> tuple[torch.Tensor, ...]:
        """The expected number of uses of every score, tensor by tensor, summed over the instances that share it."""
        return self._projected[1:]

    @property
    def multipliers(self) -> torch.Tensor:
        """The price of every row, nats per unit, in the order of `Rows`; at least 0 but for equalities."""
        return self._projected[0]

    @property
    def value(self) -> torch.Tensor:
        """``<s, mu> + gamma H(q)`` less penalties, summed over the batch, nats; a scalar."""
        return _with_slopes(self.distribution, self.projection.dual_value, self.projection.marginals)

    @property
    def kl(self) -> torch.Tensor:
        """The value without constraints less that with them, nats, a scalar: gamma KL(q || p), with penalties."""
        return _divergence(self.distribution, self.gamma, self.projection.dual_value, self.projection.marginals)

    @property
    def violation(self) -> float:
        """The worst violation of any row beyond the slack it is allowed, in units of the row."""
        return self.projection.violation

    @property
    def _projected(self) -> tuple[torch.Tensor, ...]:
        tensors: tuple[torch.Tensor, ...] = Projected.apply(self, *self.distribution._scores)
        return tensors


def constrained(
    distribution: StructuredDistribution,
    constraints: Constraints,
    gamma: float | None = None,
    columns: Mapping[str, Any] | None = None,
    *,
    tol: float = 1e-9,
) -> Constrained:
    """The posterior of a structured distribution under constraints on its expectations [Ganchev2010].

    Its marginals and multipliers are differentiable in the scores, once: a backward pass is one linear system in the
    rows that hold with equality, and some passes over the batch. ``value`` and ``kl`` need no system, as their
    gradients are marginals (the envelope theorem): use them for a loss that is such a number, and marginals for one
    that looks at single probabilities of the constrained posterior.

    Parameters
    ----------
    distribution : StructuredDistribution
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        Over the columns of the structure, such as ``"sentence"``, ``"token"`` and ``"tag"`` of a chain, and others.
    gamma : float, optional
        Above 0; by default that of the distribution.
    columns : mapping of name -> array-like, optional
        What constraints name beside: a value per instance, per token, or per part of the structure. Those of tokens may
        be padded, of shape (batch, length).
    tol : float, default 1e-9
        Largest residual, relative to the size of a row.

    Returns
    -------
    Constrained

    Raises
    ------
    InvalidInputError
        If gamma is not above 0; and as `spectrem.project`.
    InfeasibleConstraintError
        If no distribution meets the constraints.

    Examples
    --------
    >>> import torch
    >>> from spectrem import E, part
    >>> from spectrem.torch import LinearChain, constrained
    >>> emissions = torch.tensor([[[0.9, 0.1], [0.5, 0.5]]]).log().requires_grad_()
    >>> chain = LinearChain(emissions, torch.tensor([[0.8, 0.2], [0.2, 0.8]]).log())
    >>> q = constrained(chain, (E[part("tag") == 1] >= 1).per("sentence"))
    >>> q.marginals.sum(dim=1).detach().round(decimals=3).tolist()
    [[1.0, 1.0]]
    >>> q.kl.backward()
    """
    gamma = distribution.gamma if gamma is None else gamma
    if not gamma > 0:
        raise InvalidInputError(
            f"gamma must be above 0 for constrained posteriors, which have no derivative at 0, got {gamma}; use a "
            "small gamma, or spectrem.project for decisions"
        )
    structure = distribution._layout.structure
    rows = compile_constraints(constraints, structure, _columns(distribution, columns))
    projection = project_batch(structure, distribution._packed(), rows, gamma, tol=tol)
    return Constrained(distribution, float(gamma), rows, projection)


def posterior_regularisation(
    distribution: StructuredDistribution,
    constraints: Constraints,
    columns: Mapping[str, Any] | None = None,
    *,
    tol: float = 1e-9,
) -> torch.Tensor:
    """How far a distribution is from meeting constraints, min KL(q || p) over those q that do [Ganchev2010].

    As a loss on batches without labels it trains a network towards them. All rows are solved in the batch; for those
    over a whole set of batches see `PosteriorRegularisation`.

    Parameters
    ----------
    distribution, constraints, columns, tol
        As of `constrained`.

    Returns
    -------
    Tensor of shape ()
        Nats times gamma, summed over the batch; with penalties, where slack has these. Its gradient are marginals
        without constraints less those with them.

    Raises
    ------
    InvalidInputError, InfeasibleConstraintError
        As `constrained`.

    Examples
    --------
    >>> import torch
    >>> from spectrem import E, part
    >>> from spectrem.torch import LinearChain, posterior_regularisation
    >>> emissions = torch.zeros(1, 2, 2, requires_grad=True)
    >>> loss = posterior_regularisation(LinearChain(emissions, torch.zeros(2, 2)), E[part("tag") == 1] <= 0.5)
    >>> loss.backward()
    >>> round(loss.item(), 4), emissions.grad.round(decimals=4).tolist()
    (0.2616, [[[-0.25, 0.25], [-0.25, 0.25]]])
    """
    return constrained(distribution, constraints, columns=columns, tol=tol).kl


class PosteriorRegularisation(nn.Module):
    """The loss KL(q || p) of constraints of which some span all batches of an unlabelled set [Ganchev2010].

    Constraints inside instances are solved in every batch. Those over the whole set, such as shares of tags, keep their
    prices from batch to batch, as of `spectrem.ConstrainedTargets`: in training mode every call makes a step down their
    dual. Prices, and what their steps rest on, are in ``state_dict``.

    Parameters
    ----------
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        As of `constrained`.
    n_rows : int, optional
        Instances of the whole set, needed for constraints over it. Every batch must be a random sample.
    gamma : float, default 1.0
        That of the distributions, above 0.
    within_batch : sequence of str
        Columns such as a document of which every batch holds all instances with a value or none.
    across_batches : sequence of str
        Columns such as a domain whose values are in many batches.
    memory : int or None, default 2
        Prices rest on about so many of the latest batches. More of them make prices steadier, but a network that learns
        quickly swings about constraints to which prices that rest on many batches pull it; None is all of them.
    tol : float, default 1e-9
        Largest residual, relative to the size of a row, of constraints inside instances.

    Raises
    ------
    InvalidInputError
        If a constraint cannot be used in batches, or is per a column of which nothing is said.

    Examples
    --------
    >>> import torch
    >>> from spectrem import E, part
    >>> from spectrem.torch import LinearChain, PosteriorRegularisation
    >>> half = PosteriorRegularisation(E[part("tag") == 1] == "50%", n_rows=100)
    >>> scores = torch.zeros(4, 3, 2, requires_grad=True)
    >>> half(LinearChain(scores, torch.zeros(2, 2))).item()
    0.0
    """

    def __init__(
        self,
        constraints: Constraints,
        n_rows: int | None = None,
        *,
        gamma: float = 1.0,
        within_batch: Sequence[str] = (),
        across_batches: Sequence[str] = (),
        memory: int | None = 2,
        tol: float = 1e-9,
    ) -> None:
        super().__init__()
        if not gamma > 0:
            raise InvalidInputError(f"gamma must be above 0, got {gamma}; 1 is posterior regularisation")
        self._targets = ConstrainedTargets(
            constraints, gamma, n_rows=n_rows, tol=tol, memory=memory, within_batch=[*_INSIDE, *within_batch],
            across_batches=[*_OWN, *across_batches],
        )  # fmt: skip

    def forward(self, distribution: StructuredDistribution, columns: Mapping[str, Any] | None = None) -> torch.Tensor:
        """The loss of a batch, after a step of the prices of constraints over the whole set.

        Parameters
        ----------
        distribution, columns
            As of `constrained`.

        Returns
        -------
        Tensor of shape ()
            Nats times gamma, summed over the batch, with penalties of constraints inside instances.

        Raises
        ------
        InvalidInputError
            If the gamma of the distribution is another, or ``n_rows`` is missing or smaller than the batch.
        InfeasibleConstraintError
            If constraints inside instances cannot hold.
        """
        gamma = self._targets.gamma
        if distribution.gamma != gamma:
            raise InvalidInputError(
                f"distribution must have the gamma of this loss, {gamma}, got {distribution.gamma}; give both the same"
            )
        cells = Cells(distribution._layout.structure, distribution._packed(), None, ragged=True)
        value, marginals = self._targets.project_cells(cells, _columns(distribution, columns), learns=self.training)
        return _divergence(distribution, gamma, value, marginals)

    @property
    def prices(self) -> dict[str, np.ndarray]:
        """Multipliers of the constraints over the whole set, by name, nats per unit."""
        return self._targets.prices_

    def get_extra_state(self) -> dict[str, Any]:
        """The prices, and what their steps rest on, for ``state_dict``.

        Returns
        -------
        dict
        """
        return self._targets.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on from the prices that `get_extra_state` gave.

        Parameters
        ----------
        state : dict
        """
        self._targets.load_state_dict(state)


# Columns of structures that number what lies inside instances, and others whose values are in all batches.
_INSIDE, _OWN = ("sentence", "instance"), ("tag", "state", "direction", "length")


def _columns(distribution: StructuredDistribution, columns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Columns of a user, in which what stands where no token is, is left out."""
    tokens, read = distribution._tokens, {}
    for name, values in (columns or {}).items():
        array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
        read[name] = tokens.take(np.asarray(array)) if np.shape(array) == tokens.shape else array
    return read


def _divergence(distribution: StructuredDistribution, gamma: float, value: float, marginals: Parts) -> torch.Tensor:
    """The value of a batch without constraints less that with them, with its gradient."""
    values, free = distribution._layout.structure.smoothed_max(distribution._packed(), gamma)
    return _with_slopes(distribution, float(values.sum()) - value, free.map(np.subtract, marginals))


def _with_slopes(distribution: StructuredDistribution, number: float, slopes: Parts) -> torch.Tensor:
    """A number whose gradient in the scores is known, for parts."""
    scores = distribution._scores
    unpacked = like(distribution._layout.unpack(slopes), scores)
    inner = sum((finite(one) * slope).sum().to(sum_dtype(*scores)) for one, slope in zip(scores, unpacked, strict=True))
    return inner - inner.detach() + number
