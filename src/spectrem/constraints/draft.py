"""One constraint over one shard, before its rows are matched with those of other shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.constraints.columns import Column, column_names, evaluate
from spectrem.constraints.constraint import Constraint, LinearConstraint
from spectrem.constraints.expectation import Expectation, Term
from spectrem.constraints.groups import NO_GROUP, Key, KeyColumns, as_key, join_keys, number_groups, numbers_of
from spectrem.constraints.rows import Slack
from spectrem.constraints.table import PartTable, counted_column
from spectrem.exceptions import InvalidInputError

Scope = Literal["instance", "corpus"]


@dataclass(frozen=True)
class Draft:
    """Rows of one constraint in one shard, sorted by ``side`` and then by ``keys``.

    A row is known across shards by its side (0 upper or equal, 1 lower) and keys. The bound is ``constant + counts``,
    of which the counts add over shards and the constant does not.
    """

    name: str
    equality: bool
    scope: Scope
    slack: Slack | None
    group_columns: tuple[str, ...]
    droppable: bool
    matrix: sp.csr_array
    constant: NDArray[np.float64]
    counts: NDArray[np.float64]
    row_instance: NDArray[np.int64]
    side: NDArray[np.int64]
    keys: dict[str, Key]
    weighted: bool = True


@dataclass(frozen=True)
class BlockRows:
    """The finished rows of one constraint, over one shard or several.

    Attributes
    ----------
    matrices : tuple of csr_array of shape (n_present, n_unary)
        Of every shard, the rows that are present there.
    present : tuple of ndarray of shape (n_present,), int64
        Which of the ``n_rows`` rows those are, increasing.
    """

    name: str
    equality: bool
    scope: Scope
    slack: Slack | None
    bounds: NDArray[np.float64]
    row_instance: NDArray[np.int64]
    slack_group: NDArray[np.int64]
    keys: KeyColumns
    matrices: tuple[sp.csr_array, ...]
    present: tuple[NDArray[np.int64], ...]
    weighted: bool
    turned: NDArray[np.bool_]


def draft_constraint(constraint: Constraint, table: PartTable) -> Draft:
    """Evaluate a constraint of the language over the parts of one shard."""
    structure = table.structure
    over = () if constraint.over is None else (constraint.over,)
    scope: Scope = "instance" if table.instance_column in constraint.groups else "corpus"
    names = [*constraint.groups, *over]
    if scope == "instance":
        names.sort(key=lambda name: name != table.instance_column)
    columns = {name: table.column(name) for name in names}
    missing = [mask for name in names if (mask := table.missing(name, columns[name])) is not None]
    no_group = np.logical_or.reduce(missing) if missing else None
    group, first = number_groups([columns[name] for name in names], structure.n_unary, no_group)

    sides = [] if constraint.upper is None else [constraint.expression - constraint.upper]
    if constraint.lower is not None and not constraint.equality:
        sides.append(constraint.lower - constraint.expression)
    compiled = [_side(side, constraint, table, group, len(first)) for side in sides]
    n, lowest = len(sides), 1 if constraint.upper is None else 0
    instance = structure.instance[first] if scope == "instance" else np.full(len(first), -1, dtype=np.int64)
    return Draft(
        name=constraint.name,
        equality=constraint.equality,
        scope=scope,
        slack=constraint.allowance,
        group_columns=constraint.groups if over else (),
        droppable=True,
        matrix=compiled[0][0] if n == 1 else sp.csr_array(sp.vstack([matrix for matrix, *_ in compiled], "csr")),
        constant=np.repeat([constant for _, constant, _ in compiled], len(first)).astype(np.float64),
        counts=_joined([counts for *_, counts in compiled]),
        row_instance=_joined([instance] * n),
        side=np.repeat(lowest + np.arange(n), len(first)),
        keys={name: join_keys([as_key(columns[name][first])] * n) for name in (*constraint.groups, *over)},
    )


def draft_linear(constraint: LinearConstraint, table: PartTable) -> Draft:
    """Check a matrix given by the user against one shard."""
    matrix, structure = constraint.matrix, table.structure
    n_rows, n_parts = matrix.shape
    if n_parts != structure.n_unary:
        raise InvalidInputError(
            f"{constraint.name!r}: U has {n_parts} columns, and the batch has {structure.n_unary} unary parts; "
            "give one column per part"
        )
    sign = -1.0 if constraint.sense == ">=" else 1.0
    return Draft(
        name=constraint.name,
        equality=constraint.sense == "==",
        scope=constraint.scope,
        slack=constraint.allowance,
        group_columns=(),
        droppable=False,
        matrix=matrix * sign,
        constant=constraint.bounds * sign,
        counts=np.zeros(n_rows),
        row_instance=(
            _row_instances(constraint, table) if constraint.scope == "instance" else np.full(n_rows, -1, dtype=np.int64)
        ),
        side=np.full(n_rows, int(constraint.sense == ">=")),
        keys={name: as_key(values) for name, values in (constraint.keys or {"row": np.arange(n_rows)}).items()},
        weighted=constraint.weighted,
    )


def derived_columns(constraint: Constraint) -> set[str]:
    """Columns whose frequencies a constraint may ask for by a name like ``"word_frequency"``."""
    sides = [side for side in (constraint.expression, constraint.lower, constraint.upper) if side is not None]
    weights = [term.weight for side in sides for term in side.terms if isinstance(term.weight, Column)]
    names = set(constraint.groups).union(*map(column_names, weights))
    return {counted for name in names if (counted := counted_column(name)) is not None}


def finish(drafts: Sequence[Draft]) -> BlockRows:
    """Match the rows of all shards by side and keys, add up their counts, and drop rows that always hold."""
    head = drafts[0]
    sizes = np.array([len(draft.constant) for draft in drafts])
    keys = {name: join_keys([draft.keys[name] for draft in drafts]) for name in head.keys}
    constant = _joined([draft.constant for draft in drafts])
    counts = _joined([draft.counts for draft in drafts])
    row_instance = _joined([draft.row_instance for draft in drafts])
    entries = _joined([np.diff(draft.matrix.indptr) for draft in drafts])
    side = _joined([draft.side for draft in drafts])
    row = np.arange(sizes[0])
    if len(drafts) > 1:
        if not head.droppable and any(not np.array_equal(draft.constant, head.constant) for draft in drafts):
            raise InvalidInputError(f"{head.name!r}: rows over the corpus need the same bounds b in every shard")
        row, first = number_groups([side, *map(numbers_of, keys.values())], len(side))
        keys = {name: values[first] for name, values in keys.items()}
        constant, row_instance, side = constant[first], row_instance[first], side[first]
        counts = np.bincount(row, weights=counts, minlength=len(first))
        entries = np.bincount(row, weights=entries, minlength=len(first))
    bounds = constant + counts
    kept = np.ones(len(bounds), dtype=np.bool_)
    if head.droppable:
        kept = (entries > 0) | ((bounds != 0) if head.equality else (bounds < 0))
    number = np.cumsum(kept) - 1
    if not kept.all():
        keys = {name: values[kept] for name, values in keys.items()}
        bounds, row_instance, side = bounds[kept], row_instance[kept], side[kept]
    groups = (
        [numbers_of(keys[name]) for name in head.group_columns]
        if head.group_columns
        else ([row_instance] if head.scope == "instance" else [])
    )
    slack_group, _ = number_groups(groups, len(bounds))
    shards = [
        _present(draft.matrix, rows, kept, number)
        for draft, rows in zip(drafts, np.split(row, np.cumsum(sizes)[:-1]), strict=True)
    ]
    return BlockRows(
        name=head.name,
        equality=head.equality,
        scope=head.scope,
        slack=head.slack,
        bounds=bounds,
        row_instance=row_instance,
        slack_group=slack_group,
        keys=KeyColumns(keys),
        matrices=tuple(matrix for matrix, _ in shards),
        present=tuple(rows for _, rows in shards),
        weighted=head.weighted,
        turned=side == 1,
    )


def spread_rows(matrix: sp.csr_array, rows: NDArray[np.int64], n_rows: int) -> sp.csr_array:
    """A matrix of ``n_rows`` rows: those of ``matrix`` at ``rows``, which increase, and empty ones."""
    if len(rows) == n_rows:
        return matrix
    sizes = np.zeros(n_rows, dtype=matrix.indptr.dtype)
    sizes[rows] = np.diff(matrix.indptr)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(matrix.indptr.dtype)
    return sp.csr_array((matrix.data, matrix.indices, indptr), shape=(n_rows, matrix.shape[1]))


def _side(
    side: Expectation, constraint: Constraint, table: PartTable, group: NDArray[np.int64], n_groups: int
) -> tuple[sp.csr_array, float, NDArray[np.float64]]:
    """``side <= 0`` as a matrix, and the constant and count parts of its bound."""
    shape = (n_groups, table.structure.n_unary)
    in_group = group != NO_GROUP
    weights, counts = np.zeros(shape[1]), np.zeros(n_groups)
    for term in side.terms:
        values = _weights(term.weight, constraint, table)
        if term.kind == "count":
            counted, amounts = _counted(term, values, table, group)
            if table.weights is not None and table.instance_column not in constraint.groups:
                amounts = amounts * table.weights[table.structure.instance[counted]]
            counts -= term.coefficient * np.bincount(group[counted], weights=amounts, minlength=n_groups)
        else:
            weights += np.multiply(values, term.coefficient, dtype=np.float64)
    part = np.flatnonzero((weights != 0) & in_group)
    if max(shape) < np.iinfo(np.int32).max:
        place = group[part].astype(np.int32), part.astype(np.int32)
        return sp.csr_array(sp.coo_array((weights[part], place), shape).tocsr()), -side.constant, counts
    return sp.csr_array(sp.coo_array((weights[part], (group[part], part)), shape).tocsr()), -side.constant, counts


def _counted(
    term: Term, values: NDArray, table: PartTable, group: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """What a count adds up: of every choice, or value of a column, in a group its first part and its largest weight."""
    each = table.structure.choice if term.each is None else table.column(term.each)
    inside = group != NO_GROUP
    if values.dtype == np.bool_:
        inside &= values
    if term.each is not None and (missing := table.missing(term.each, each)) is not None:
        inside &= ~missing
    parts = np.flatnonzero(inside)
    number, first = number_groups([group[parts], each[parts]], len(parts))
    largest = np.full(len(first), -np.inf)
    np.maximum.at(largest, number, values[parts].astype(np.float64))
    return parts[first], largest


def _weights(weight: Column | EllipsisType, constraint: Constraint, table: PartTable) -> NDArray:
    if isinstance(weight, EllipsisType):
        return np.ones(table.structure.n_unary)
    values = evaluate(weight, table.column)
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(
            f'{constraint.name!r}: {weight!r} is text, not a weight; compare it, as in E[{weight!r} == "VERB"], '
            "or count every part with E[...]"
        )
    if weight.operation == "part" and values.dtype.kind in "iu" and table.is_own(weight.operands[0]):
        raise InvalidInputError(
            f"{constraint.name!r}: {weight!r} holds labels or positions, not weights; compare it, as in "
            f"E[{weight!r} == 1], count every part with E[...], or write E[1 * {weight!r}] to weigh by it"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInputError(
            f"{constraint.name!r}: weights must be finite, and {weight!r} is {values[bad]} on part {bad}; "
            "replace missing values"
        )
    return values


def _row_instances(constraint: LinearConstraint, table: PartTable) -> NDArray[np.int64]:
    matrix = constraint.matrix
    sizes = np.diff(matrix.indptr)
    if (sizes == 0).any():
        raise InvalidInputError(
            f"{constraint.name!r}: row {int(np.argmin(sizes))} of U is empty, so it is in no instance; leave it out, "
            'or use scope="corpus"'
        )
    instance = table.structure.instance[matrix.indices]
    first = instance[matrix.indptr[:-1]]
    outside = np.flatnonzero(instance != np.repeat(first, sizes))
    if len(outside):
        bad = int(np.searchsorted(matrix.indptr, outside[0], side="right")) - 1
        raise InvalidInputError(
            f'{constraint.name!r}: scope="instance", but row {bad} of U touches instances {first[bad]} and '
            f'{instance[outside[0]]}; use scope="corpus"'
        )
    return first.astype(np.int64)


def _joined(arrays: list[NDArray]) -> NDArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _present(
    matrix: sp.csr_array, rows: NDArray[np.int64], kept: NDArray[np.bool_], number: NDArray[np.int64]
) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Rows of a shard that are kept and have entries, and their numbers among the kept ones."""
    there = kept[rows] & (np.diff(matrix.indptr) > 0)
    if there.all():
        return matrix, number[rows]
    return sp.csr_array(matrix[np.flatnonzero(there)]), number[rows[there]]
