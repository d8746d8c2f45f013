"""Structures whose distribution is given: labelled data, with certainty or in shares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_gamma
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import declared_missing
from spectrem.structures._ragged import check_inputs, check_instance
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope, Structure


@brief_dataclass(frozen=True, eq=False)
class Known:
    """The instances of a structure under a distribution that scores do not change.

    The smoothed maximum is the expected score at every gamma, and the marginals are those given. What is learnt from
    them is learnt from labelled data: a distribution counts as copies of the instance, one for each of its structures,
    weighted by their probabilities. The entropy of the distribution, which is a constant, is left out.

    Use when instances are labelled, or have soft labels that stay as they are.

    Parameters
    ----------
    inside : Structure
        Whose parts they have; one that is restricted to the labels given has the fewest.
    shares : array-like of shape (n_unary,)
        The marginal of every unary part, from 0 to 1.
    counts : tuple of csr_array of shape (n_instances, factor.size)
        Of every shared factor, the expected number of times that each instance uses its (raveled) cells.

    Raises
    ------
    InvalidInputError
        If shares or counts do not have the shapes of the structure, or are negative, infinite or NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Known, Parts
    >>> labels = Known(Categorical([2, 1]), [0.25, 0.75, 1.0])
    >>> values, marginals = labels.smoothed_max(Parts(np.array([4.0, 8.0, 3.0])), gamma=1.0)
    >>> values.tolist(), marginals.unary.tolist()
    ([7.0, 3.0], [0.25, 0.75, 1.0])
    """

    inside: Structure
    shares: Floats
    counts: tuple[sp.csr_array, ...]

    def __init__(self, inside: Structure, shares: ArrayLike, counts: tuple[sp.csr_array, ...] = ()) -> None:
        array = np.require(shares, np.float64, ["C", "W"])
        shapes = [(inside.n_instances, int(np.prod(shape))) for shape in inside.factor_shapes]
        count_shapes = [table.shape for table in counts]
        if array.shape != (inside.n_unary,) or count_shapes != shapes:
            raise InvalidInputError(
                f"shares and counts must have the shapes {(inside.n_unary,)} and {shapes}, got {array.shape} and "
                f"{count_shapes}; give a share per unary part and, per shared factor, counts of its cells by instance"
            )
        for name, values in (("shares", array), *(("counts", table.data) for table in counts)):
            if not ((values >= 0) & (values < np.inf)).all():
                bad = values[~((values >= 0) & (values < np.inf))][0]
                raise InvalidInputError(f"{name} must be finite and at least 0, got {bad}; give probabilities")
        for name, value in (("inside", inside), ("shares", array), ("counts", tuple(counts))):
            object.__setattr__(self, name, value)

    @property
    def n_instances(self) -> int:
        """Number of instances of the batch."""
        return self.inside.n_instances

    @property
    def n_unary(self) -> int:
        """Number of unary parts, those of the structure inside."""
        return self.inside.n_unary

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the shared factors, those of the structure inside."""
        return self.inside.factor_shapes

    @property
    def instance_name(self) -> str:
        """The column that numbers the instances."""
        return self.inside.instance_name

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Columns whose values mean something in this structure only."""
        return getattr(self.inside, "label_columns", ())

    @property
    def instance(self) -> Ints:
        """Instance of every unary part, shape (n_unary,)."""
        return self.inside.instance

    @property
    def choice(self) -> Ints:
        """Choice of every unary part, shape (n_unary,)."""
        return self.inside.choice

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the structure inside."""
        return self.inside.columns

    @property
    def column_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of text columns, those of the structure inside."""
        return getattr(self.inside, "column_values", {})

    def missing(self, name: str) -> Bools | None:
        """Parts that belong to no group of a column, as the structure inside says.

        Parameters
        ----------
        name : str
            Of a column.

        Returns
        -------
        ndarray of shape (n_unary,), bool, or None
        """
        return declared_missing(self.inside, name)

    @cached_property
    def _products(self) -> tuple[sp.csr_array, ...]:
        """Shares, shape (n_instances, n_unary), and counts, without zeros: 0 times -inf counts as 0."""
        used = np.flatnonzero(self.shares)
        entries = (self.shares[used], (self.instance[used], used))
        counts = (sp.csr_array(table, copy=True) for table in self.counts)
        products = sp.csr_array(entries, shape=(self.n_instances, self.n_unary)), *counts
        for table in products[1:]:
            table.eliminate_zeros()
        return products

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Expected scores, shape (n_instances,) in nats, and the marginals given; see `Structure.smoothed_max`.

        Where a part of positive share has the score ``-inf``, the value is ``-inf`` and the marginals are 0.
        """
        as_gamma(gamma)
        checked = check_inputs(self, scores, active, weights)
        scored = (checked.unary, *(factor.ravel() for factor in checked.factors))
        values = sum(table @ part for table, part in zip(self._products, scored, strict=True))
        values[~checked.active] = 0.0
        present = checked.active & (values > -np.inf)
        shares = np.where(present[self.instance], self.shares, 0.0)
        weighted = np.where(present, checked.weights, 0.0)
        factors = (
            np.asarray(table.T @ weighted).reshape(shape)
            for table, shape in zip(self.counts, self.factor_shapes, strict=True)
        )
        return values, Parts(shares, tuple(factors))

    def decode(self, scores: Parts) -> Ints:
        """The best structure at scores that are the logarithm of the shares, as the structure inside decodes it."""
        with np.errstate(divide="ignore"):
            known = np.log(self.shares)
        return self.inside.decode(Parts(known, tuple(np.zeros(shape) for shape in self.factor_shapes)))

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """The one point of an instance: a single variable, which is 1."""
        n = check_instance(self, instance)
        parts = np.flatnonzero(self.instance == n)
        values, _ = self.smoothed_max(scores, 0.0)
        return Polytope(
            equalities=sp.csr_array(np.ones((1, 1))),
            right_hand_side=np.ones(1),
            objective=values[n : n + 1],
            unary_index=parts,
            unary=sp.csr_array(self.shares[parts][:, None]),
            factors=tuple(sp.csr_array(table[[n]].T) for table in self.counts),
        )
