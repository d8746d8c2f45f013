"""Structures whose distribution is given: labelled data, with certainty or in shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem._validate import as_gamma
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import declared_missing
from spectrem.structures._ragged import check_inputs, check_instance
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope, Structure


@dataclass(frozen=True, eq=False)
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
    shares: NDArray[np.float64]
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
    def instance(self) -> NDArray[np.int64]:
        """Instance of every unary part, shape (n_unary,)."""
        return self.inside.instance

    @property
    def choice(self) -> NDArray[np.int64]:
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

    def missing(self, name: str) -> NDArray[np.bool_] | None:
        """Parts that belong to no group of a column, as the structure inside says."""
        return declared_missing(self.inside, name)

    @cached_property
    def _by_instance(self) -> sp.csr_array:
        """Shares as a matrix of shape (n_instances, n_unary)."""
        entries = (self.shares, (self.instance, np.arange(self.n_unary)))
        return sp.csr_array(entries, shape=(self.n_instances, self.n_unary))

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Expected scores, shape (n_instances,) in nats, and the marginals given; see `Structure.smoothed_max`.

        Where a part of positive share has the score ``-inf``, the value is ``-inf`` and the marginals are 0.
        """
        as_gamma(gamma)
        checked = check_inputs(self, scores, active, weights)
        values = _product(self._by_instance, checked.unary)
        for table, factor in zip(self.counts, checked.factors, strict=True):
            values += _product(table, factor.ravel())
        values[~checked.active] = 0.0
        present = checked.active & (values > -np.inf)
        shares = np.where(present[self.instance], self.shares, 0.0)
        weighted = np.where(present, checked.weights, 0.0)
        factors = (
            np.asarray(table.T @ weighted).reshape(shape)
            for table, shape in zip(self.counts, self.factor_shapes, strict=True)
        )
        return values, Parts(shares, tuple(factors))

    def decode(self, scores: Parts) -> NDArray[np.int64]:
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


def _product(table: sp.csr_array, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """``table @ scores`` with ``0 * -inf = 0``."""
    impossible = scores == -np.inf
    if not impossible.any():
        return np.asarray(table @ scores)
    values = np.asarray(table @ np.where(impossible, 0.0, scores))
    values[np.asarray(table @ impossible.astype(np.float64)) > 0] = -np.inf
    return values
