"""Two structures over the same instances, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem._validate import as_active, as_gamma, as_names
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import check_scores
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope, Structure


@dataclass(frozen=True, eq=False)
class Product:
    """Every instance carries one structure of each kind, independent but for constraints that couple them.

    Values add up, parts stand side by side. Equality rows over both make it the dual decomposition of
    [Samdani2012] alg. 3 and the agreement of [Ganchev2010] §5.

    Use when two models must agree, or inform each other, about the same instances.

    Parameters
    ----------
    left, right : Structure
        Of the same number of instances.
    names : tuple of two str, default ("forward", "backward")
        What column ``name`` says of the parts of each.
    name : str, default "direction"
        The column that tells the two apart.

    Raises
    ------
    InvalidInputError
        If the numbers of instances differ, or the names are equal or empty.

    Notes
    -----
    ``Parts.unary`` is the left's followed by the right's, ``Parts.factors`` likewise. Columns: those that both
    have, and ``name``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts, Product
    >>> both = Product(Categorical([2]), Categorical([3]))
    >>> values, marginals = both.smoothed_max(Parts(np.zeros(5)), gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), both.columns["direction"].tolist()
    (6.0, ['forward', 'forward', 'backward', 'backward', 'backward'])
    """

    left: Structure
    right: Structure
    names: tuple[str, str]
    name: str

    def __init__(
        self,
        left: Structure,
        right: Structure,
        names: Sequence[str] = ("forward", "backward"),
        name: str = "direction",
    ) -> None:
        if left.n_instances != right.n_instances:
            raise InvalidInputError(
                f"left and right must have the same instances; got {left.n_instances} and {right.n_instances}; "
                "build both from the same batch, with empty structures where one has none"
            )
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)
        object.__setattr__(self, "names", as_names(names, "names"))
        object.__setattr__(self, "name", name)

    @property
    def n_instances(self) -> int:
        """Number of instances of the batch."""
        return self.left.n_instances

    @property
    def n_unary(self) -> int:
        """Number of unary parts of both."""
        return self.left.n_unary + self.right.n_unary

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The left's, then the right's."""
        return self.left.factor_shapes + self.right.factor_shapes

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Instance of every unary part, shape (n_unary,)."""
        return np.concatenate([self.left.instance, self.right.instance])

    @property
    def choice(self) -> NDArray[np.int64]:
        """Choices of the left, then those of the right, shape (n_unary,); built anew at every call."""
        left, right = self.left.choice, self.right.choice
        return np.concatenate([left, right + left.max(initial=-1) + 1])

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """Common columns and the one that tells the two apart, each of shape (n_unary,); built anew at every call."""
        left, right = self.left.columns, self.right.columns
        columns = {key: np.concatenate([left[key], right[key]]) for key in left if key in right}
        columns[self.name] = np.repeat(np.array(self.names), [self.left.n_unary, self.right.n_unary])
        return columns

    def split(self, parts: Parts) -> tuple[Parts, Parts]:
        """The left's and the right's share of some parts (views)."""
        n_unary, n_factors = self.left.n_unary, len(self.left.factor_shapes)
        return (
            Parts(parts.unary[:n_unary], parts.factors[:n_factors]),
            Parts(parts.unary[n_unary:], parts.factors[n_factors:]),
        )

    def join(self, left: Parts, right: Parts) -> Parts:
        """The inverse of `split` (a copy)."""
        return Parts(np.concatenate([left.unary, right.unary]), left.factors + right.factors)

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Sum of both values, shape (n_instances,) in nats, and both marginals; see `Structure.smoothed_max`."""
        gamma = as_gamma(gamma)
        left, right = self.split(check_scores(self, scores))
        mask = as_active(active, self.n_instances)
        left_values, left_marginals = self.left.smoothed_max(left, gamma, active=mask, weights=weights)
        right_values, right_marginals = self.right.smoothed_max(right, gamma, active=mask, weights=weights)
        if (np.isneginf(left_values) != np.isneginf(right_values)).any():
            # One side is impossible and so is the instance: the other side must leave no marginals either.
            possible = mask & ~np.isneginf(left_values) & ~np.isneginf(right_values)
            _, left_marginals = self.left.smoothed_max(left, gamma, active=possible, weights=weights)
            _, right_marginals = self.right.smoothed_max(right, gamma, active=possible, weights=weights)
        return left_values + right_values, self.join(left_marginals, right_marginals)

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """The left's best structures, then the right's, each in its own form."""
        left, right = self.split(check_scores(self, scores))
        return np.concatenate([self.left.decode(left), self.right.decode(right)])

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Both polytopes, block by block."""
        left, right = self.split(check_scores(self, scores))
        a, b = self.left.polytope(left, instance), self.right.polytope(right, instance)
        n_left, n_right = len(a.objective), len(b.objective)
        return Polytope(
            equalities=_diagonal(a.equalities, b.equalities),
            right_hand_side=np.concatenate([a.right_hand_side, b.right_hand_side]),
            objective=np.concatenate([a.objective, b.objective]),
            unary_index=np.concatenate([a.unary_index, self.left.n_unary + b.unary_index]),
            unary=_diagonal(a.unary, b.unary),
            factors=tuple(_diagonal(f, _nothing(0, n_right)) for f in a.factors)
            + tuple(_diagonal(_nothing(0, n_left), f) for f in b.factors),
        )


def _nothing(n_rows: int, n_columns: int) -> sp.csr_array:
    return sp.csr_array((n_rows, n_columns), dtype=np.float64)


def _diagonal(a: sp.csr_array, b: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.block_diag((a, b), format="csr"))
