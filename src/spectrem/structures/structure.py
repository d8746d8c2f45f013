"""The protocol of a family of latent structures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeGuard

from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem.structures.parts import Parts


@brief_dataclass(frozen=True)
class Polytope:
    """One instance's structures as the 0/1 points of ``equalities @ x == right_hand_side``.

    Attributes
    ----------
    equalities : csr_array of shape (n_equalities, n_variables)
    right_hand_side : ndarray of shape (n_equalities,)
    objective : ndarray of shape (n_variables,)
        Score of each variable in nats; ``-inf`` where the variable must be 0.
    unary_index : ndarray of shape (n_instance_unary,), int64
        Positions of this instance's parts in ``Parts.unary``.
    unary : csr_array of shape (n_instance_unary, n_variables)
        ``unary @ x`` are the values of those parts.
    factors : tuple of csr_array of shape (factor.size, n_variables)
        ``factors[k] @ x`` are the (raveled) counts of shared factor k.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts
    >>> simplex = Categorical([3]).polytope(Parts(np.zeros(3)), 0)
    >>> simplex.equalities.toarray().tolist(), simplex.right_hand_side.tolist()
    ([[1.0, 1.0, 1.0]], [1.0])
    """

    equalities: sp.csr_array
    right_hand_side: Floats
    objective: Floats
    unary_index: Ints
    unary: sp.csr_array
    factors: tuple[sp.csr_array, ...]


class Structure(Protocol):
    """A family of latent structures over the instances of one ragged batch; immutable, holds shapes only.

    ``ARCHITECTURE.md`` says how to add one; `spectrem.testing.check_structure` checks it. A family may also have the
    following, which are used where they exist:

    ``one_label``, with ``offsets``
        True where every instance takes exactly one of its parts, ``offsets[n]:offsets[n + 1]``, and nothing is shared,
        as in `Categorical`: inference then has faster ways, which do not always ask for ``smoothed_max``.
    ``choices_vary``
        True where structures differ in which choices they make, as `Segmentations` do: ``E.count`` of choices, and so
        shares such as ``"30%"``, have no fixed whole, and constraints with them are refused.
    ``enumerate(instance)``
        Yields every structure of a small instance as indicators over the batch, for `spectrem.testing`.
    ``label_columns``
        Names of columns whose values have a meaning in this structure only, such as ``tag``; a `Product` does not join
        such columns of several members.
    ``state_part``
        Where parts are pairs of labels, as in `EdgeChain`: for every part, shape (n_unary,), the place of its choice
        and label in a table of one row per choice, flattened. A user's matrices are spread over the parts by it.
    ``covariances(scores, along, weights=None)``
        At gamma = 1, of every part, with the sum of ``along``, a number per part, over the parts that a structure
        takes: the derivative of the marginals as scores move along these numbers. Returns the means of this sum, shape
        (n_instances,), and covariances as `Parts`: of unary parts in their own instance, of shared factors summed over
        instances times ``weights``, which may be negative. `Expectations` needs it.
    ``sample(scores, gamma, n, rng)``, ``n_best(scores, n)``
        Draws, and best structures with their scores, of a structure without ``derivations``, as `spectrem.structures`
        returns them from its functions of these names, which check the arguments; see `NonProjectiveTrees`.
    ``column_values``
        Of text columns of which that is known, all values that there may be in any batch, by the name of the column:
        constraints that name another are refused.
    ``missing(name)``
        A mask of shape (n_unary,) of the parts that belong to no group of a column, or None if all do. Parts whose
        value is missing belong to none anyway.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts
    >>> structure = Categorical([2, 2])
    >>> value, marginals = structure.smoothed_max(Parts(np.log([0.2, 0.8, 0.5, 0.5])), 1.0)
    >>> value.round(12) + 0.0, marginals.unary.round(3), sorted(structure.columns)
    (array([0., 0.]), array([0.2, 0.8, 0.5, 0.5]), ['instance', 'label'])
    """

    @property
    def n_instances(self) -> int: ...

    @property
    def n_unary(self) -> int: ...

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]: ...

    @property
    def instance_name(self) -> str:
        """The column that numbers the instances; constraints that are grouped by it stay inside instances."""
        ...

    @property
    def instance(self) -> Ints:
        """Instance of every unary part, shape (n_unary,)."""
        ...

    @property
    def choice(self) -> Ints:
        """The choice of which every unary part is an outcome, shape (n_unary,); no structure has two parts of a choice.

        A row chooses its label, a token its tag, a position of an alignment what it is linked to. ``E.count`` counts
        choices.
        """
        ...

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """Named columns over the unary parts, each of shape (n_unary,), for the constraint language.

        A part to which a column does not apply has NaN there (text: of ``StringDType`` with ``na_object=nan``). Missing
        values meet no comparison but ``!=`` and belong to no group.
        """
        ...

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Value (nats, one per instance) and gradient (marginals) of the smoothed maximum.

        ``gamma > 0``: ``gamma * log sum exp(score / gamma)`` over structures. ``gamma == 0``: the best
        structure's score and its indicators (ties broken toward the lowest index). Instances outside ``active`` get
        value 0 and zero marginals. ``weights`` (one per instance) multiply the counts of shared factors
        only. An instance without any possible structure has value ``-inf`` and zero marginals.

        Parameters
        ----------
        scores : Parts
            Nats, ``-inf`` for impossible.
        gamma : float
            At least 0.
        active : ndarray of shape (n_instances,), bool, optional
            By default all are.
        weights : ndarray of shape (n_instances,), optional
            At least 0; by default 1.

        Returns
        -------
        values : ndarray of shape (n_instances,)
            Nats.
        marginals : Parts
            In [0, 1], those of shared factors summed over instances.
        """
        ...

    def decode(self, scores: Parts) -> Ints:
        """The best structure in the family's own form (labels, states, source positions ...).

        Parameters
        ----------
        scores : Parts
            Nats, ``-inf`` for impossible.

        Returns
        -------
        ndarray of int64
            The family says its shape.
        """
        ...

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """The linear description of one instance, for integer programs (gamma of minus infinity).

        Parameters
        ----------
        scores : Parts
            Nats, ``-inf`` for impossible.
        instance : int
            From 0.

        Returns
        -------
        Polytope
        """
        ...


class Differentiable(Structure, Protocol):
    """A structure that knows how its marginals change with scores.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Differentiable, Parts
    >>> coin: Differentiable = Categorical([2])
    >>> means, products = coin.covariances(Parts(np.log([0.2, 0.8])), Parts(np.array([1.0, 0.0])))
    >>> means.round(12).tolist(), products.unary.round(12).tolist()
    ([0.2], [0.16, -0.16])
    """

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """The mean of a sum over the parts that a structure takes, and covariances of all parts with it, at gamma = 1.

        Covariances are the derivatives of marginals as scores move along the numbers that are summed.

        Parameters
        ----------
        scores : Parts
            Nats, ``-inf`` for impossible.
        along : Parts
            What every part, and every cell of a shared factor, adds to the sum: finite, also where scores are ``-inf``.
        weights : ndarray of shape (n_instances,), optional
            Multiply covariances of shared factors: any finite numbers, by default 1.

        Returns
        -------
        means : ndarray of shape (n_instances,)
            Expected sums; 0 where no structure is possible.
        products : Parts
            Covariances of unary parts, of one instance each, and of shared factors, summed over instances.
        """
        ...


class Labels(Structure, Protocol):
    """A structure that is one label per instance and nothing else, for which inference has faster ways."""

    @property
    def one_label(self) -> bool:
        """True."""
        ...

    @property
    def offsets(self) -> Ints:
        """Boundaries of the instances in ``Parts.unary``, shape (n_instances + 1,)."""
        ...


def has_one_label(structure: Structure) -> TypeGuard[Labels]:
    """Whether a structure offers to be taken for `Labels`."""
    return bool(getattr(structure, "one_label", False))
