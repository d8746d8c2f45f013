"""One label per instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_gamma, as_lengths
from spectrem.kernels import categorical as kernel
from spectrem.structures._polytopes import simplex_polytope
from spectrem.structures._ragged import (
    check_direction,
    check_inputs,
    check_instance,
    check_scores,
    covariances_of_choices,
    indicators,
    no_parts,
    offsets_of,
    positions_of,
    rows_of,
)
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


@brief_dataclass(frozen=True, eq=False)
class Categorical:
    """Instances that choose one of their own labels: mixture components, classes, relations.

    The smoothed max is ``gamma * logsumexp(s / gamma)`` per instance, its gradient a softmax.

    Use when the parts of an instance exclude each other.

    Parameters
    ----------
    sizes : array-like of shape (n_instances,), int
        Number of labels of every instance, >= 0. An instance of size 0 has no possible structure (value ``-inf``).
    instance_name : str
        What the column that numbers the instances is called.

    Raises
    ------
    InvalidInputError
        If a size is negative or not an integer.

    Notes
    -----
    ``Parts.unary`` holds the labels of instance 0, then of instance 1, and so on; there are no shared factors.
    Columns: ``instance`` (or as ``instance_name`` says), ``label``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts
    >>> labels = Categorical([2, 3])
    >>> values, marginals = labels.smoothed_max(Parts(np.log([0.5, 0.5, 0.2, 0.2, 0.6])), gamma=1.0)
    >>> np.round(values, 12).tolist(), np.round(marginals.unary, 12).tolist()
    ([0.0, 0.0], [0.5, 0.5, 0.2, 0.2, 0.6])
    """

    label_columns: ClassVar[tuple[str, ...]] = ("label",)
    one_label: ClassVar[bool] = True

    sizes: Ints
    instance_name: str

    def __init__(self, sizes: ArrayLike, instance_name: str = "instance") -> None:
        lengths = as_lengths(sizes, "sizes")
        if len(lengths) and (lengths == lengths[0]).all():
            lengths = np.broadcast_to(np.array(lengths[0]), len(lengths))  # a million times one number takes no memory
        object.__setattr__(self, "sizes", lengths)
        object.__setattr__(self, "instance_name", instance_name)

    @property
    def n_instances(self) -> int:
        """Number of instances of the batch."""
        return len(self.sizes)

    @property
    def n_unary(self) -> int:
        """Number of unary parts: all labels of all instances."""
        return int(self.sizes.sum())

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is shared by the batch."""
        return ()

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the instances in ``Parts.unary``, shape (n_instances + 1,)."""
        return offsets_of(self.sizes)

    @cached_property
    def instance(self) -> Ints:
        """Instance of every unary part, shape (n_unary,)."""
        return rows_of(self.sizes)

    @property
    def choice(self) -> Ints:
        """Every instance is one choice."""
        return self.instance

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """``instance``, by its name, and ``label``, each of shape (n_unary,); built anew at every call."""
        return {self.instance_name: self.instance, "label": positions_of(self.sizes)}

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and marginals; see `Structure.smoothed_max`.

        ``weights`` change nothing, as there are no shared factors.
        """
        gamma = as_gamma(gamma)
        inputs = check_inputs(self, scores, active, weights)
        values = np.zeros(self.n_instances)
        groups = np.arange(self.n_instances + 1)
        if gamma == 0.0:
            choices = np.full(self.n_instances, -1)
            kernel.max_pass(groups, self.offsets, inputs.unary, inputs.active, values, choices)
            return values, Parts(indicators(choices, self.offsets))
        marginals = np.zeros(self.n_unary)
        kernel.sum_pass(groups, self.offsets, inputs.unary, gamma, inputs.active, values, marginals)
        return values, Parts(marginals)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Examples
        --------
        >>> coin, scores = Categorical([2]), Parts(np.log([0.2, 0.8]))
        >>> means, products = coin.covariances(scores, Parts(np.array([1.0, 0.0])))
        >>> means.round(12), products.unary.round(12)
        (array([0.2]), array([ 0.16, -0.16]))
        """
        along, _ = check_direction(self, along, weights)
        marginals = self.smoothed_max(scores, 1.0)[1].unary
        means, products = covariances_of_choices(marginals, along.unary, self.offsets)
        return means, Parts(products)

    def decode(self, scores: Parts) -> Ints:
        """Best label of every instance, shape (n_instances,); the lowest among equals, -1 if none is possible."""
        inputs = check_inputs(self, scores)
        choices = np.full(self.n_instances, -1)
        groups = np.arange(self.n_instances + 1)
        kernel.max_pass(groups, self.offsets, inputs.unary, inputs.active, np.zeros(self.n_instances), choices)
        return choices

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """The simplex over the labels of one instance."""
        n = check_instance(self, instance)
        return simplex_polytope(check_scores(self, scores).unary, int(self.offsets[n]), self.sizes[n : n + 1])

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every label of one instance as indicators over the batch.

        Parameters
        ----------
        instance : int
            From 0; a small one, as there may be very many structures.

        Yields
        ------
        Parts
            Indicators, 0 or 1.
        """
        n = check_instance(self, instance)
        for k in range(self.offsets[n], self.offsets[n + 1]):
            indicator = no_parts(self)
            indicator.unary[k] = 1.0
            yield indicator
