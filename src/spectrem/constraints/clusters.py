"""Constraints on clusters that have a name: links between rows, sizes, groups, [Graca2007] §3, [Samdani2012]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.cells import as_column, missing_of
from spectrem.constraints.columns import Scalar, part
from spectrem.constraints.constraint import Constraint, LinearConstraint, linear
from spectrem.constraints.expectation import E
from spectrem.constraints.groups import distinct
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure


@dataclass(frozen=True, eq=False)
class RowLinks:
    """Pairs of rows that belong together or apart, in expectation; made by `must_link` and `cannot_link`.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2), int
    together : bool
    column : str, optional
        Whose values made the pairs.
    """

    pairs: NDArray[np.int64]
    together: bool
    column: str | None = None

    @property
    def name(self) -> str:
        """How errors and reports call it."""
        return _link_name(self.together, self.column)

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


@dataclass(frozen=True, eq=False)
class ColumnLinks:
    """Links between all rows with the same value of a column; made by `must_link` and `cannot_link`.

    They are about whatever rows there are, and so hold for the rows of each fold of a cross-validation.

    Attributes
    ----------
    column : str
    together : bool
    """

    column: str
    together: bool

    @property
    def name(self) -> str:
        """How errors and reports call it."""
        return _link_name(self.together, self.column)

    def links(self, columns: Mapping[str, ArrayLike], n_rows: int) -> RowLinks:
        """The pairs of rows; missing values link nothing.

        Parameters
        ----------
        columns : mapping of name -> array-like of shape (n_rows,)
        n_rows : int

        Raises
        ------
        InvalidInputError
            If there is no such column, or it has not one value per row.

        Examples
        --------
        >>> must_link(column="household").links({"household": ["a", "b", "a", "a"]}, 4).pairs.tolist()
        [[0, 2], [2, 3]]
        >>> cannot_link(column="photo").links({"photo": [1.0, 1.0, np.nan, 1.0, np.nan]}, 5).pairs.tolist()
        [[0, 1], [0, 3], [1, 3]]
        """
        if self.column not in columns:
            listed = ", ".join(map(repr, columns)) or "none"
            raise InvalidInputError(
                f"{self.name}: there is no column {self.column!r}; those given with the data: {listed}"
            )
        values = as_column(self.column, columns[self.column])
        if values.shape != (n_rows,):
            raise InvalidInputError(
                f"{self.name}: {self.column!r} needs a value for each of {n_rows} rows, got {values.shape}"
            )
        missing = missing_of(values)
        rows = np.arange(n_rows) if missing is None else np.flatnonzero(~missing)
        _, group = distinct(values[rows])
        order = np.argsort(group, kind="stable")
        rows, sizes = rows[order], np.bincount(group)
        if self.together:
            follows = np.diff(group[order]) == 0
            return RowLinks(np.column_stack([rows[:-1][follows], rows[1:][follows]]), True, self.column)
        starts = np.cumsum(sizes) - sizes
        pairs = [
            rows[start + np.column_stack(np.triu_indices(size, 1))] for start, size in zip(starts, sizes, strict=True)
        ]
        return RowLinks(np.concatenate([np.zeros((0, 2), np.int64), *pairs]), False, self.column)

    def rows(self, structure: Structure) -> LinearConstraint:
        """As `RowLinks.rows`, by a column of the structure itself; columns given with the data go to `links`."""
        return self.links(structure.columns, structure.n_instances).rows(structure)


AnyLinks = RowLinks | ColumnLinks


def resolve_links(constraints: Iterable[Any], columns: Mapping[str, ArrayLike], n_rows: int) -> tuple[Any, ...]:
    """Constraints in which links by a column are pairs of rows."""
    return tuple(own.links(columns, n_rows) if isinstance(own, ColumnLinks) else own for own in constraints)


@overload
def must_link(pairs: ArrayLike) -> RowLinks: ...
@overload
def must_link(*, column: str) -> ColumnLinks: ...
def must_link(pairs: ArrayLike | None = None, *, column: str | None = None) -> RowLinks | ColumnLinks:
    """Rows of each pair expect every cluster alike, ``E[z_ij] = E[z_i'j]``.

    Use when it is known of some rows that they belong together.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2), int
        Rows of X, from 0.
    column : str, in place of pairs
        A column given with the data: rows with the same value belong together, those without a value are free. Unlike
        pairs this refers to whatever rows are fitted, as the folds of a cross-validation.

    Raises
    ------
    InvalidInputError
        If pairs have another shape, are negative or not whole, or link a row to itself; or not one of pairs and column
        is given.

    Examples
    --------
    >>> must_link([[0, 3], [1, 2]]).pairs.tolist()
    [[0, 3], [1, 2]]
    >>> must_link(column="household").name
    'must link by household'
    """
    return _make_links("must_link", pairs, column, True)


@overload
def cannot_link(pairs: ArrayLike) -> RowLinks: ...
@overload
def cannot_link(*, column: str) -> ColumnLinks: ...
def cannot_link(pairs: ArrayLike | None = None, *, column: str | None = None) -> RowLinks | ColumnLinks:
    """Rows of each pair expect no cluster together more than once, ``E[z_ij + z_i'j] <= 1`` ([Graca2007] §3).

    That holds in expectation, and is weaker than rows that are apart: posteriors of a half for the same two clusters
    meet it. So do more rows than there are clusters, all of them apart from each other: three rows and two clusters at
    a half each. Rows of which the model is certain are apart. Posteriors of rows of weight 0 are not bound.

    Use when it is known of some rows that they belong apart.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2), int
        Rows of X, from 0.
    column : str, in place of pairs
        A column given with the data: all rows with the same value belong apart from each other, m (m - 1) / 2 pairs of
        m rows. Otherwise as for `must_link`.

    Raises
    ------
    InvalidInputError
        As `must_link`.

    Examples
    --------
    >>> cannot_link([[0, 1]]).name
    'cannot link'
    """
    return _make_links("cannot_link", pairs, column, False)


def cluster_size(min: float | str = 0, max: float | str | None = None) -> Constraint:
    """Bounds on the expected number of rows of every cluster.

    Use when clusters should be of similar size, or none may be empty.

    Parameters
    ----------
    min : float or str
        In rows, 0 for no bound; or a share of the rows, ``"20%"``, which refers to whatever rows are fitted, as the
        folds of a cross-validation.
    max : float or str, optional
        None for no bound.

    Raises
    ------
    InvalidInputError
        If no bound is given, not ``0 <= min <= max``, a share is not in 0 % to 100 %, or one bound is a share and the
        other is not.

    Examples
    --------
    >>> cluster_size(min=10, max=20)
    E[...].between(10, 20).per("label").named("cluster size")
    >>> cluster_size(min="20%")
    (E[...] >= 0.2 * E.count(..., each="row")).per("label").named("cluster size")
    """
    if isinstance(min, str) or isinstance(max, str):
        return _cluster_share(min, max)
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


def _cluster_share(low: float | str, high: float | str | None) -> Constraint:
    """`cluster_size` in shares of the rows."""
    ends = [0.0 if low == 0 else _as_share(low), 1.0 if high is None else _as_share(high)]
    if any(np.isnan(ends)) or not 0 <= ends[0] <= ends[1] <= 1 or ends == [0, 1]:
        raise InvalidInputError(
            f"cluster_size needs shares 0% <= min <= max <= 100% that bound something, got min={low!r} and "
            f"max={high!r}; write both as '20%', or both in rows"
        )
    total = E.count(..., each="row")
    if ends[1] == 1:
        bounded = E[...] >= ends[0] * total
    else:
        bounded = E[...] <= ends[1] * total if ends[0] == 0 else E[...].between(ends[0] * total, ends[1] * total)
    return bounded.per("label").named("cluster size")


def _as_share(text: object) -> float:
    """Of a percentage; NaN for anything else."""
    try:
        return float(text[:-1]) / 100 if isinstance(text, str) and text.endswith("%") else float("nan")
    except ValueError:
        return float("nan")


def _link_name(together: bool, column: str | None) -> str:
    kind = "must link" if together else "cannot link"
    return kind if column is None else f"{kind} by {column}"


def _make_links(name: str, pairs: ArrayLike | None, column: str | None, together: bool) -> RowLinks | ColumnLinks:
    if (pairs is None) == (column is None):
        raise InvalidInputError(
            f"{name} takes pairs of rows or a column, got {'neither' if pairs is None else 'both'}; write "
            f"{name}([[0, 1], [2, 3]]) or {name}(column='household')"
        )
    if pairs is not None:
        return RowLinks(_as_pairs(pairs, name), together)
    if not isinstance(column, str):
        raise InvalidInputError(f"{name}: column must be the name of a column, got {column!r}")
    return ColumnLinks(column, together)


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
