"""Compiled constraints: sparse rows over the unary parts of one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem.constraints.columns import literal_text, plain
from spectrem.constraints.compilation.groups import KeyColumns
from spectrem.kernels.categorical import add_up_kinds

PIECE = 1 << 16
"""Alike instances that are worked on at a time, so that working space stays small."""
Norm = Literal["l1", "l2", "linf"]
Scope = Literal["instance", "group", "corpus"]


@brief_dataclass(frozen=True)
class Slack:
    """How far the rows of a constraint may be violated, by the norm of their violation.

    The norm is taken over each slack group (all rows of one instance, all rows of a corpus constraint, or
    the groups of ``max_over``) and added over groups (penalty) or bounded in each (bound).

    Attributes
    ----------
    kind : {"penalty", "bound"}
        ``penalty`` subtracts ``strength * norm(violation)`` from the objective ([Ganchev2010] eq. 22);
        ``bound`` requires ``norm(violation) <= strength`` ([Ganchev2010] eq. 6).
    norm : {"l1", "l2", "linf"}
    strength : float
        sigma of a penalty (nats per unit of violation) or epsilon of a bound; positive.

    Examples
    --------
    >>> from spectrem import E, part
    >>> (E[part("label") == 1] <= 3).slack(penalty=2.0, norm="l1").allowance
    Slack(kind='penalty', norm='l1', strength=2)
    """

    kind: Literal["penalty", "bound"]
    norm: Norm
    strength: float


@brief_dataclass(frozen=True)
class Block:
    """The rows of one constraint.

    Attributes
    ----------
    name : str
        How errors and reports call it.
    start, stop : int
        Its rows in ``Rows.matrix``.
    equality : bool
        ``U mu == b`` (multipliers free) or ``U mu <= b`` (multipliers >= 0).
    scope : {"instance", "group", "corpus"}
        The instances of a row: one; those of a group, by a column that is constant inside every instance, so that rows
        of different groups have no instance in common; or any.
    slack : Slack or None
    slack_group : ndarray of shape (stop - start,), int64
        Rows with the same number share one norm; numbers are 0, 1, ... without gaps.
    keys : mapping of name -> ndarray of shape (stop - start,)
        The columns the constraint was grouped by, one value per row.
    weighted : bool
        Whether instances count by their weights in rows over several instances; those of a link do not.
    turned : ndarray of shape (stop - start,), bool, or None
        Rows that were written as ``>=`` and became ``<=`` by the factor -1; None if there are none.
    wholes : ndarray of shape (stop - start,), or None
        What is 100 % of the bound of every row; None where bounds are not shares.

    Examples
    --------
    >>> from spectrem import E, part
    >>> from spectrem.constraints import compile_constraints
    >>> from spectrem.structures import Categorical
    >>> few = (E[part("label") == 1] <= 0.5).per("instance").named("few")
    >>> (block,) = compile_constraints(few, Categorical([2, 2, 2])).blocks
    >>> block.name, block.start, block.stop, block.scope
    ('few', 0, 3, 'instance')
    """

    name: str
    start: int
    stop: int
    equality: bool
    scope: Scope
    slack: Slack | None
    slack_group: Ints
    keys: Mapping[str, NDArray]
    weighted: bool = True
    turned: Bools | None = None
    wholes: Floats | None = None

    def pick(self, wanted: Bools, start: int) -> Block:
        """Some of the rows, shape (stop - start,), as the rows from ``start`` on.

        Parameters
        ----------
        wanted : ndarray of shape (stop - start,), bool
        start : int
            The number of the first row of the new block.

        Returns
        -------
        Block
        """
        keys = self.keys
        return replace(
            self,
            start=start,
            stop=start + int(wanted.sum()),
            slack_group=np.unique(self.slack_group[wanted], return_inverse=True)[1].astype(np.int64),
            keys=keys.pick(wanted) if isinstance(keys, KeyColumns) else {name: v[wanted] for name, v in keys.items()},
            turned=None if self.turned is None else self.turned[wanted],
            wholes=None if self.wholes is None else self.wholes[wanted],
        )

    @property
    def senses(self) -> NDArray[np.str_]:
        """``"<="``, ``">="`` or ``"=="`` of every row as it was written, shape (stop - start,)."""
        n = self.stop - self.start
        turned = np.zeros(n, np.bool_) if self.turned is None else self.turned
        return np.where(turned, ">=", "==" if self.equality else "<=")


@brief_dataclass(frozen=True, eq=False)
class Alike:
    """Instances of one number of parts each, of which many have the same coefficients in every row.

    Attributes
    ----------
    kind : ndarray of shape (n_instances,), int32 or int64
        Instances of one kind have the same coefficients; kinds are 0, 1, ... without gaps.
    width : int
        Parts of every instance. Those of kind k have the columns ``k * width ... (k + 1) * width - 1`` of the matrix.

    Examples
    --------
    >>> Alike(np.array([0, 1, 0]), 2).add_up(np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7]), np.ones(3)).round(1)
    array([0.4, 1.6, 0.2, 0.8])
    """

    kind: NDArray[np.int32] | Ints
    width: int

    @property
    def columns(self) -> Ints:
        """The column of the matrix that holds the coefficients of every part, shape (n_unary,)."""
        return (self.kind[:, None] * self.width + np.arange(self.width)).ravel()

    def copies(self, weights: Floats | None = None) -> Floats:
        """How many parts have every column of the matrix, or their instances' weights in sum, shape (n_columns,)."""
        return np.repeat(np.bincount(self.kind, weights).astype(np.float64), self.width)

    def add_up(self, parts: Floats, weights: Floats) -> Floats:
        """Sums by column of the matrix, shape (n_columns,), of numbers of the parts; an instance counts by its weight.

        Parameters
        ----------
        parts : ndarray of shape (n_unary,)
        weights : ndarray of shape (n_instances,)
        """
        total = np.zeros((int(self.kind.max(initial=-1)) + 1) * self.width)
        for piece, cells in self.pieces():
            add_up_kinds(self.kind[piece], self.width, parts[cells], np.ascontiguousarray(weights[piece]), total)
        return total

    def pieces(self) -> Iterator[tuple[slice, slice]]:
        """Instances that follow each other, `PIECE` at a time, and their parts."""
        for start in range(0, len(self.kind), PIECE):
            stop = min(start + PIECE, len(self.kind))
            yield slice(start, stop), slice(start * self.width, stop * self.width)


@brief_dataclass(frozen=True)
class Rows:
    """Constraints of one batch: ``matrix @ mu <= bounds`` or ``==``, block by block.

    Attributes
    ----------
    matrix : csr_array of shape (n_rows, n_unary)
        Where instances are ``alike``, of shape (n_rows, n_columns), with the columns of every kind once.
    bounds : ndarray of shape (n_rows,)
    row_instance : ndarray of shape (n_rows,), int64
        The instance of each row of instance scope, -1 for rows over several instances.
    blocks : tuple of Block
    alike : Alike or None
        Which instances share their coefficients; all rows are then over several instances, and count them by weight.

    Examples
    --------
    >>> from spectrem import E, part
    >>> from spectrem.constraints import compile_constraints
    >>> from spectrem.structures import Categorical
    >>> rows = compile_constraints(E[part("label") == 1] <= 0.5, Categorical([2, 2]))
    >>> rows.matrix.toarray().tolist(), rows.bounds.tolist(), rows.row_instance.tolist()
    ([[0.0, 1.0, 0.0, 1.0]], [0.5], [-1])
    """

    matrix: sp.csr_array
    bounds: Floats
    row_instance: Ints
    blocks: tuple[Block, ...]
    alike: Alike | None = None

    @property
    def whole(self) -> Rows:
        """The same rows with a column for every part, also where instances are alike."""
        if self.alike is None:
            return self
        matrix = sp.csr_array(sp.csc_array(self.matrix)[:, self.alike.columns])
        return replace(self, matrix=matrix, alike=None)

    def where(self, test: Callable[[Block], bool]) -> Bools:
        """Rows of the constraints that pass a test, shape (n_rows,), bool.

        Parameters
        ----------
        test : callable
            From a `Block` to a bool.

        Returns
        -------
        ndarray of shape (n_rows,), bool
        """
        chosen = np.zeros(len(self.bounds), np.bool_)
        for block in self.blocks:
            chosen[block.start : block.stop] = test(block)
        return chosen

    def pick(self, wanted: Bools) -> Rows:
        """Some of the rows, shape (n_rows,), bool, with their blocks renumbered; blocks without any are dropped.

        Parameters
        ----------
        wanted : ndarray of shape (n_rows,), bool

        Returns
        -------
        Rows
        """
        blocks: list[Block] = []
        for block in self.blocks:
            own = wanted[block.start : block.stop]
            if own.any():
                blocks.append(block.pick(own, blocks[-1].stop if blocks else 0))
        index = np.flatnonzero(wanted)
        matrix, bounds, instance = sp.csr_array(self.matrix[index]), self.bounds[index], self.row_instance[index]
        return replace(self, matrix=matrix, bounds=bounds, row_instance=instance, blocks=tuple(blocks))

    def times(self, chosen: Bools, factor: Floats) -> Rows:
        """The same with entries of the chosen rows, shape (n_rows,), times the factor of their part, shape (n_unary,).

        The pattern of the matrix is shared, its entries are not.

        Parameters
        ----------
        chosen : ndarray of shape (n_rows,), bool
        factor : ndarray of shape (n_unary,)

        Returns
        -------
        Rows
        """
        m = self.matrix
        entries = np.repeat(chosen, np.diff(m.indptr))
        data = m.data * np.where(entries, factor[m.indices], 1.0)
        return replace(self, matrix=sp.csr_array((data, m.indices, m.indptr), shape=m.shape))

    @property
    def counted_by_weight(self) -> Bools:
        """Rows over many instances in which one of weight w counts w times, shape (n_rows,), bool."""
        return self.where(lambda block: block.scope != "instance" and block.weighted)

    @property
    def penalised_inside(self) -> Bools:
        """Rows inside instances whose violation is paid for, shape (n_rows,), bool."""
        return self.where(
            lambda block: block.scope == "instance" and block.slack is not None and block.slack.kind == "penalty"
        )

    @cached_property
    def transpose(self) -> sp.csr_array:
        """``matrix`` the other way round, a row per unary part; made once, as solves that follow each other need it."""
        return sp.csr_array(self.matrix.astype(np.float64, copy=False).T)


def no_rows(n_unary: int) -> Rows:
    """Rows of a batch without constraints."""
    return Rows(sp.csr_array((0, n_unary)), np.zeros(0), np.zeros(0, np.int64), ())


@brief_dataclass(frozen=True)
class ShardRows:
    """The compiled constraints of one shard of a corpus.

    Attributes
    ----------
    inside : Rows
        Rows of instance scope, and rows of groups whose instances all lie in this shard.
    matrix : csr_array of shape (n_present, n_unary)
        Rows over the corpus that have an entry in the shard.
    present : ndarray of shape (n_present,), int64
        Which rows of ``CorpusRows`` they are, increasing.
    """

    inside: Rows
    matrix: sp.csr_array
    present: Ints


@brief_dataclass(frozen=True)
class CorpusRows:
    """The rows that reach over several shards, but for their coefficients, which stay with the shards.

    Attributes
    ----------
    bounds : ndarray of shape (n_rows,)
        ``sum over shards of ShardRows.matrix @ mu <= bounds`` or ``==``.
    blocks : tuple of Block
        One for each constraint of corpus scope, and for each of group scope with groups that straddle shards; together
        they cover rows 0 ... n_rows - 1.
    norms : ndarray of shape (n_rows,) or None
        Euclidean norm of each row of U over the corpus, which levels rows of different size; None takes
        ``sqrt(max(1, |b|))``.
    inside : tuple of str
        Names of constraints inside instances, or inside groups of one shard, that hold beside these.
    """

    bounds: Floats
    blocks: tuple[Block, ...]
    norms: Floats | None = None
    inside: tuple[str, ...] = ()


def row_text(rows: Rows, row_index: int) -> str:
    """Name one row: ``'one verb per sentence' in sentence 12``.

    Parameters
    ----------
    rows : Rows
    row_index : int
        Row of ``rows.matrix``, counted from 0.

    Returns
    -------
    str

    Examples
    --------
    >>> from spectrem.constraints import E, compile_constraints
    >>> from spectrem.structures.categorical import Categorical
    >>> rows = compile_constraints((E[...] <= 0.5).per("instance", "label").named("even"), Categorical([2, 2]))
    >>> row_text(rows, 2)
    "'even' in instance 1, label 0"
    """
    block = next(block for block in rows.blocks if block.start <= row_index < block.stop)
    values = {name: plain(column[row_index - block.start]) for name, column in block.keys.items()}
    place = ", ".join(f"{name} {literal_text(value)}" for name, value in values.items())
    return f"'{block.name}'" + (f" in {place}" if place else "")
