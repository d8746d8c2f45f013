"""Links between rows: pairs that belong together or apart, [Graca2007] §3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.columns import as_column, missing_of, quote
from spectrem.constraints.compilation.groups import distinct
from spectrem.constraints.constraint import LinearConstraint, check_name, join, linear
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure


@dataclass(frozen=True, eq=False, repr=False)
class RowLinks:
    """Rows that belong together or apart, in expectation; made by `must_link` and `cannot_link`.

    They are pairs of rows, or all rows with the same value of a column, of whatever data they are used on, such as each
    fold of a cross-validation.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2), int, or None
        None where only the column says which rows are linked.
    together : bool
    column : str or None
        The column whose equal values make the pairs.
    label : str or None
        Name given with `named`.
    """

    pairs: Any
    together: bool
    column: str | None = None
    label: str | None = None

    @property
    def name(self) -> str:
        """How errors and reports call it."""
        return self.label or f"{self._kind} link" + ("" if self.column is None else f" by {self.column}")

    @property
    def _kind(self) -> str:
        return "must" if self.together else "cannot"

    def named(self, name: str) -> RowLinks:
        """Give the name that errors and reports use."""
        return replace(self, label=check_name(name))

    __and__ = join

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowLinks) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.together, self.label, self.column if self.pairs is None else self.pairs.tobytes()

    def __repr__(self) -> str:
        arguments = f"column={quote(str(self.column))}" if self.pairs is None else str(self.pairs.tolist())
        return f"{self._kind}_link({arguments})" + ("" if self.label is None else f".named({quote(self.label)})")

    def rows(self, structure: Structure) -> LinearConstraint:
        """A row per pair and label: ``E[z_ij] - E[z_i'j] = 0`` or ``E[z_ij] + E[z_i'j] <= 1``.

        A column is one of the structure itself; columns given with the data go to `links`.

        Raises
        ------
        InvalidInputError
            If the instances do not choose one of the same labels each, or the pairs name more rows than there are.
        """
        n = structure.n_instances
        pairs = self.links(structure.columns, n).pairs if self.pairs is None else self.pairs
        k = structure.n_unary // max(n, 1)
        if not np.array_equal(structure.instance, np.repeat(np.arange(n), k)) or "token" in structure.columns:
            raise InvalidInputError(
                f"{self.name} must be used on rows with the same labels each, got rows of different length or "
                "sequences; use it with GaussianMixture or on a table of shape (n_rows, n_labels)"
            )
        self.check(n)
        parts = pairs[:, :, None] * k + np.arange(k)  # (pair, side, label)
        columns = np.swapaxes(parts, 1, 2).ravel()
        values = np.tile([1.0, -1.0 if self.together else 1.0], len(columns) // 2)
        starts = np.arange(0, len(columns) + 1, 2)
        matrix = sp.csr_array((values, columns, starts), shape=(len(columns) // 2, structure.n_unary))
        rule = linear(matrix, 0.0, "==", name=self.name) if self.together else linear(matrix, 1.0, name=self.name)
        first, second = np.repeat(pairs, k, axis=0).T
        label = np.tile(np.asarray(structure.columns["label"])[:k], len(pairs))
        return replace(rule, keys={"row": first, "other row": second, "label": label}, weighted=False)

    def check(self, n_rows: int) -> None:
        """Raise `InvalidInputError` if a pair names a row that there is not."""
        if self.pairs is not None and self.pairs.size and self.pairs.max() >= n_rows:
            raise InvalidInputError(
                f"{self.name}: pairs must name rows from 0 to {n_rows - 1}, got {self.pairs.max()}; count rows from 0"
            )

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
        assert self.column is not None
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
            return RowLinks(np.column_stack([rows[:-1][follows], rows[1:][follows]]), True, self.column, self.label)
        starts = np.cumsum(sizes) - sizes
        pairs = [
            rows[start + np.column_stack(np.triu_indices(size, 1))] for start, size in zip(starts, sizes, strict=True)
        ]
        return RowLinks(np.concatenate([np.zeros((0, 2), np.int64), *pairs]), False, self.column, self.label)


def resolve_links(constraints: Iterable[Any], columns: Mapping[str, ArrayLike], n_rows: int) -> tuple[Any, ...]:
    """The constraints, with links by a column replaced by links of pairs of rows."""
    return tuple(
        one.links(columns, n_rows) if isinstance(one, RowLinks) and one.pairs is None else one for one in constraints
    )


def must_link(pairs: ArrayLike | None = None, *, column: str | None = None) -> RowLinks:
    """Rows of each pair expect every cluster alike, ``E[z_ij] = E[z_i'j]``.

    Use when it is known of some rows that they belong together.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2), int
        Rows of X, from 0.
    column : str, in place of pairs
        A column given with the data: rows with the same value belong together, those without a value are free. Unlike
        pairs this refers to whatever rows are fitted, as the folds of a cross-validation.

    Returns
    -------
    RowLinks
        One row per pair and cluster.

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


def cannot_link(pairs: ArrayLike | None = None, *, column: str | None = None) -> RowLinks:
    """Rows of each pair expect no cluster together more than once, ``E[z_ij + z_i'j] <= 1`` ([Graca2007] §3).

    The constraint holds in expectation, which does not make labels different: two rows with posteriors of a half for
    the same two clusters meet it, and so do three such rows of which all pairs are linked. Rows of which the model is
    certain do get different clusters. Posteriors of rows of weight 0 are not constrained.

    Use when it is known of some rows that they belong apart.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2), int
        Rows of X, from 0.
    column : str, in place of pairs
        A column given with the data: all rows with the same value belong apart from each other, m (m - 1) / 2 pairs of
        m rows. Otherwise as for `must_link`.

    Returns
    -------
    RowLinks
        One row per pair and cluster.

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


def _make_links(name: str, pairs: ArrayLike | None, column: str | None, together: bool) -> RowLinks:
    if (pairs is None) == (column is None):
        raise InvalidInputError(
            f"{name} takes pairs of rows or a column, got {'neither' if pairs is None else 'both'}; write "
            f"{name}([[0, 1], [2, 3]]) or {name}(column='household')"
        )
    if pairs is not None:
        return RowLinks(_as_pairs(pairs, name), together)
    if not isinstance(column, str):
        raise InvalidInputError(f"{name}: column must be the name of a column, got {column!r}")
    return RowLinks(None, together, column)


def _as_pairs(pairs: ArrayLike, name: str) -> Ints:
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
