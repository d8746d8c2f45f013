"""Constraints on clusters that have a name: links between rows, sizes, groups, [Graca2007] §3, [Samdani2012]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.columns import Scalar, part
from spectrem.constraints.constraint import Constraint, LinearConstraint, linear
from spectrem.constraints.expectation import E
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of rows that belong together or apart, in expectation; made by `must_link` and `cannot_link`.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2), int
    together : bool
    """

    pairs: NDArray[np.int64]
    together: bool

    @property
    def name(self) -> str:
        """How errors and reports call it."""
        return "must link" if self.together else "cannot link"

    def rows(self, structure: Structure) -> LinearConstraint:
        """A row per pair and label: ``E[z_ij] - E[z_i'j] = 0`` or ``E[z_ij] + E[z_i'j] <= 1``.

        Raises
        ------
        InvalidInputError
            If the structure is no Categorical with the same labels everywhere, or has fewer rows than the pairs name.
        """
        n = structure.n_instances
        k = structure.n_unary // max(n, 1)
        if not np.array_equal(structure.instance, np.repeat(np.arange(n), k)) or "token" in structure.columns:
            raise InvalidInputError(
                f"{self.name} must be used on rows with the same labels each, got rows of different length or "
                "sequences; use it with GaussianMixture or on a table of shape (n_rows, n_labels)"
            )
        self.check(n)
        parts = self.pairs[:, :, None] * k + np.arange(k)  # (pair, side, label)
        columns = np.swapaxes(parts, 1, 2).ravel()
        values = np.tile([1.0, -1.0 if self.together else 1.0], len(columns) // 2)
        starts = np.arange(0, len(columns) + 1, 2)
        matrix = sp.csr_array((values, columns, starts), shape=(len(columns) // 2, structure.n_unary))
        rule = linear(matrix, 0.0, "==", name=self.name) if self.together else linear(matrix, 1.0, name=self.name)
        first, second = np.repeat(self.pairs, k, axis=0).T
        label = np.tile(np.asarray(structure.columns["label"])[:k], len(self.pairs))
        return replace(rule, keys={"row": first, "other row": second, "label": label}, weighted=False)

    def check(self, n_rows: int) -> None:
        """Raise `InvalidInputError` if a pair names a row that there is not."""
        if self.pairs.size and self.pairs.max() >= n_rows:
            raise InvalidInputError(
                f"{self.name}: pairs must name rows from 0 to {n_rows - 1}, got {self.pairs.max()}; count rows of X "
                "from 0"
            )


def must_link(pairs: ArrayLike) -> Links:
    """Rows of each pair expect every cluster alike, ``E[z_ij] = E[z_i'j]``.

    Use when it is known of some rows that they belong together.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2), int
        Rows of X, from 0.

    Raises
    ------
    InvalidInputError
        If pairs have another shape, are negative or not whole, or link a row to itself.

    Examples
    --------
    >>> must_link([[0, 3], [1, 2]]).pairs.tolist()
    [[0, 3], [1, 2]]
    """
    return Links(_as_pairs(pairs, "must_link"), True)


def cannot_link(pairs: ArrayLike) -> Links:
    """Rows of each pair expect no cluster together more than once, ``E[z_ij + z_i'j] <= 1`` ([Graca2007] §3).

    That holds in expectation, and is weaker than rows that are apart: posteriors of a half for the same two clusters
    meet it. So do more rows than there are clusters, all of them apart from each other: three rows and two clusters at
    a half each. Rows of which the model is certain are apart. Posteriors of rows of weight 0 are not bound.

    Use when it is known of some rows that they belong apart.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2), int
        Rows of X, from 0.

    Raises
    ------
    InvalidInputError
        As `must_link`.

    Examples
    --------
    >>> cannot_link([[0, 1]]).name
    'cannot link'
    """
    return Links(_as_pairs(pairs, "cannot_link"), False)


def cluster_size(min: float = 0, max: float | None = None) -> Constraint:
    """Bounds on the expected number of rows of every cluster.

    Use when clusters should be of similar size, or none may be empty.

    Parameters
    ----------
    min : float
        In rows; 0 for no bound.
    max : float, optional
        None for no bound.

    Raises
    ------
    InvalidInputError
        If no bound is given, or not ``0 <= min <= max``.

    Examples
    --------
    >>> cluster_size(min=10, max=20)
    E[...].between(10, 20).per("label").named("cluster size")
    """
    numbers = (min,) if max is None else (min, max)
    if not all(isinstance(end, Real) for end in numbers) or min < 0 or numbers[-1] < min:
        raise InvalidInputError(f"cluster_size needs 0 <= min <= max, got min={min!r} and max={max!r}; change either")
    if max is None:
        if min == 0:
            raise InvalidInputError("cluster_size bounds nothing with max=None and min=0; give max or a min above 0")
        bounded = E[...] >= min
    else:
        bounded = E[...] <= max if min == 0 else E[...].between(min, max)
    return bounded.per("label").named("cluster size")


def at_least_one_per(group: str, label: Scalar | None = None) -> Constraint:
    """In every group, at least one row is expected to belong to the cluster, or to each ([Graca2007] §3).

    Use when groups (documents, images, bags of instances) are known to hold such rows.

    Parameters
    ----------
    group : str
        A column given with the data.
    label : int, or a label of a table, optional
        Clusters count from 0. Without it, all clusters.

    Examples
    --------
    >>> at_least_one_per("bag", 0)
    (E[part("label") == 0] >= 1).per("bag").named("at least one 0 per bag")
    >>> at_least_one_per("image")
    (E[...] >= 1).per("image", "label").named("at least one of each per image")
    """
    if label is None:
        return (E[...] >= 1).per(group, "label").named(f"at least one of each per {group}")
    return (E[part("label") == label] >= 1).per(group).named(f"at least one {label} per {group}")


def _as_pairs(pairs: ArrayLike, name: str) -> NDArray[np.int64]:
    try:
        array = np.asarray(pairs)
    except ValueError:
        raise InvalidInputError(
            f"{name}: pairs must name two rows each, got {pairs!r}; write [[0, 1], [2, 3]]"
        ) from None
    if array.size == 0:
        array = np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name}: pairs must be integers of shape (n_pairs, 2), got {array.dtype} of shape {array.shape}; write "
            "[[0, 1], [2, 3]]"
        )
    if (array < 0).any():
        raise InvalidInputError(f"{name}: pairs must name rows from 0, got {array.min()}")
    same = array[:, 0] == array[:, 1]
    if same.any():
        raise InvalidInputError(f"{name}: pairs must link two rows, got row {array[same][0, 0]} with itself; drop it")
    return array.astype(np.int64)
