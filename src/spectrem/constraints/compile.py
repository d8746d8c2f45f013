"""From constraints to sparse rows over the parts of a batch, or of several shards alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Union, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.clusters import resolve_links
from spectrem.constraints.constraint import AnyConstraint, Constraint, LinearConstraint, MaxOver
from spectrem.constraints.draft import (
    BlockRows,
    Draft,
    derived_columns,
    draft_constraint,
    draft_linear,
    finish,
    spread_rows,
)
from spectrem.constraints.rows import Block, CorpusRows, Rows, ShardRows
from spectrem.constraints.table import PartTable, count_over
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure

ExtraColumns = Mapping[str, ArrayLike]
Constraints = Union[AnyConstraint, Iterable["Constraints"]]  # noqa: UP007


def compile_constraints(
    constraints: Constraints,
    structure: Structure,
    extra_columns: ExtraColumns | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Rows:
    """Compile constraints over one batch.

    Parameters
    ----------
    constraints : constraint or iterable of constraints, nested as you like
        Made with ``E``, by shortcuts, by :func:`linear`, or a user's own object with a method ``rows``.
    structure : Structure
    extra_columns : mapping of name -> array, optional
        A user's columns: one value per part, per instance or per occurrence (token). One with the name of a column of
        the structure takes its place.
    weights : ndarray of shape (n_instances,), optional
        How often an instance counts in ``E.count`` over several instances. What they count in expectations over several
        instances is up to `spectrem.inference.project`, given the same weights.

    Returns
    -------
    Rows
        One block per constraint, in the given order. ``>=`` is turned into ``<=`` by the factor -1;
        ``between`` has its upper rows first, then its lower ones. Rows of a block are sorted by the instance
        (in instance scope) and then by the group columns as written.

    Raises
    ------
    InvalidInputError
        If a column does not exist, has the wrong kind or length, or a weight is not finite.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.structures.categorical import Categorical
    >>> rows = compile_constraints((E[part("label") == 1] >= 0.5).per("instance"), Categorical([2, 3]))
    >>> rows.matrix.toarray()
    array([[ 0., -1.,  0.,  0.,  0.],
           [ 0.,  0.,  0., -1.,  0.]])
    >>> rows.bounds
    array([-0.5, -0.5])
    """
    extras = None if extra_columns is None else [extra_columns]
    return compile_corpus(constraints, [structure], extras, None if weights is None else [weights])[0]


def compile_corpus(
    constraints: Constraints,
    structures: Sequence[Structure],
    extra_columns: Sequence[ExtraColumns | None] | None = None,
    weights: Sequence[NDArray[np.float64]] | None = None,
) -> list[Rows]:
    """Compile constraints over a corpus cut into shards.

    Blocks of corpus scope have the same rows, in the same order, in every shard; their ``bounds`` are those of
    the whole corpus (numbers as they are, ``E.count`` added over shards), and they mean
    ``sum over shards of matrix @ mu <= bounds``. Blocks of instance scope are those of each shard. Group values must
    mean the same in every shard; the instance column and ``"occurrence"`` are counted on from shard to shard.

    Parameters
    ----------
    constraints : as in :func:`compile_constraints`
    structures : sequence of Structure
        One per shard, at least one.
    extra_columns : sequence of mappings, optional
        One per shard.
    weights : sequence of ndarrays of shape (n_instances,), optional
        One per shard: how often an instance counts in ``E.count`` over the corpus.

    Returns
    -------
    list of Rows
        One per shard.

    Raises
    ------
    InvalidInputError
        As :func:`compile_constraints`; and if a user's own constraint has not the same corpus rows and bounds in
        every shard.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.structures.categorical import Categorical
    >>> shards = compile_corpus(E[part("label") == 2] <= 1, [Categorical([2, 2]), Categorical([3])])
    >>> [rows.matrix.shape for rows in shards]
    [(1, 4), (1, 3)]
    """
    blocks = _compile(constraints, structures, extra_columns, weights)
    stacked = []
    for shard, structure in enumerate(structures):
        own, matrices = [], []
        for block in blocks:
            rows, at = (block[shard], 0) if isinstance(block, list) else (block, shard)
            own.append(rows)
            matrices.append(spread_rows(rows.matrices[at], rows.present[at], len(rows.bounds)))
        stacked.append(_stack(own, matrices, structure.n_unary))
    return stacked


def compile_shards(
    constraints: Constraints,
    structures: Iterable[Structure],
    extra_columns: Iterable[ExtraColumns | None] | None = None,
    weights: Sequence[NDArray[np.float64]] | None = None,
) -> CorpusRows:
    """As :func:`compile_corpus`, in memory that does not grow with the number of shards.

    Parameters
    ----------
    constraints, structures, extra_columns
        As in :func:`compile_corpus`.
    weights : sequence of ndarrays of shape (n_instances,), optional
        Of the instances of every shard: what they count in ``E.count`` over the corpus.

    Returns
    -------
    CorpusRows

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.structures.categorical import Categorical
    >>> rows = compile_shards((E[...] <= 1).per("label"), [Categorical([2, 2]), Categorical([3])])
    >>> rows.bounds, [shard.present for shard in rows.shards]
    (array([1., 1., 1.]), [array([0, 1]), array([0, 1, 2])])
    """
    structures = list(structures)
    blocks = _compile(constraints, structures, extra_columns, weights)
    inside = [block for block in blocks if isinstance(block, list)]
    across = [block for block in blocks if not isinstance(block, list)]
    shards = []
    for shard, structure in enumerate(structures):
        own = [block[shard] for block in inside]
        matrices = [spread_rows(b.matrices[0], b.present[0], len(b.bounds)) for b in own]
        starts = np.cumsum([0, *(len(block.bounds) for block in across)])
        present = [block.present[shard] + start for block, start in zip(across, starts, strict=False)]
        shards.append(
            ShardRows(
                _stack(own, matrices, structure.n_unary),
                _stacked([block.matrices[shard] for block in across], structure.n_unary),
                np.concatenate([np.zeros(0, np.int64), *present]),
            )
        )
    bounds = np.concatenate([np.zeros(0), *(block.bounds for block in across)])
    return CorpusRows(bounds, _blocks(across), tuple(shards))


def flatten(constraints: Constraints) -> list[AnyConstraint]:
    """One list of constraints, of one constraint or of lists and tuples of them inside each other."""
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        return [cast(AnyConstraint, constraints)]
    return [single for listed in constraints for single in flatten(listed)]


def _compile(
    constraints: Constraints,
    structures: Sequence[Structure],
    extra_columns: Iterable[ExtraColumns | None] | None,
    weights: Sequence[NDArray[np.float64]] | None,
) -> list[BlockRows | list[BlockRows]]:
    """Of every constraint its rows over the corpus, or those of every shard where it stays inside instances."""
    listed = flatten(constraints)
    extras = [None] * len(structures) if extra_columns is None else list(extra_columns)
    if not structures or len(extras) != len(structures):
        raise InvalidInputError(
            "compile_corpus needs one or more structures and as many extra_columns, "
            f"got {len(structures)} and {len(extras)}; give one of each per shard"
        )
    tables = _tables(structures, extras, weights)
    forms = [
        [_resolve(constraint, structure) for constraint in resolve_links(listed, extra or {}, structure.n_instances)]
        for structure, extra in zip(structures, extras, strict=True)
    ]
    counted = {name for form in forms[0] if isinstance(form, Constraint) for name in derived_columns(form)}
    frequencies = {name: count_over(tables, name) for name in counted if tables[0].has(name)}
    drafts: list[list[Draft]] = [[] for _ in listed]
    for table, shard_forms in zip(tables, forms, strict=True):
        whole = replace(table, frequencies=frequencies)
        for form, drafted in zip(shard_forms, drafts, strict=True):
            drafted.append(draft_constraint(form, whole) if isinstance(form, Constraint) else draft_linear(form, whole))
        whole.forget()
    inside = [drafted[0].scope == "instance" for drafted in drafts]
    return [
        [finish([draft]) for draft in drafted] if alone else finish(drafted)
        for drafted, alone in zip(drafts, inside, strict=True)
    ]


def _tables(
    structures: Sequence[Structure],
    extras: Sequence[ExtraColumns | None],
    weights: Sequence[NDArray[np.float64]] | None,
) -> list[PartTable]:
    tables: list[PartTable] = []
    instance = occurrence = 0
    for shard, (structure, extra) in enumerate(zip(structures, extras, strict=True)):
        weight = None if weights is None else weights[shard]
        tables.append(PartTable(structure, extra or {}, instance, occurrence, weights=weight))
        instance += structure.n_instances
        occurrence += tables[-1].n_occurrences
        tables[-1].forget()
    return tables


def _resolve(constraint: object, structure: Structure) -> Constraint | LinearConstraint:
    if not isinstance(constraint, (Constraint, LinearConstraint)) and hasattr(constraint, "rows"):
        constraint = constraint.rows(structure)
    if isinstance(constraint, (Constraint, LinearConstraint)):
        return constraint
    hint = "finish it with .penalty(strength)" if isinstance(constraint, MaxOver) else "compare E[...] with a bound"
    raise InvalidInputError(f"constraints: expected constraints, got {constraint!r}; {hint}")


def _stack(blocks: Sequence[BlockRows], matrices: Sequence[sp.csr_array], n_unary: int) -> Rows:
    return Rows(
        matrix=_stacked(matrices, n_unary),
        bounds=np.concatenate([np.zeros(0), *(block.bounds for block in blocks)]),
        row_instance=np.concatenate([np.zeros(0, np.int64), *(block.row_instance for block in blocks)]),
        blocks=_blocks(blocks),
    )


def _stacked(matrices: Sequence[sp.csr_array], n_unary: int) -> sp.csr_array:
    if not matrices:
        return sp.csr_array((0, n_unary))
    return matrices[0] if len(matrices) == 1 else sp.csr_array(sp.vstack(matrices, "csr"))


def _blocks(blocks: Sequence[BlockRows]) -> tuple[Block, ...]:
    stops = np.cumsum([len(block.bounds) for block in blocks])
    return tuple(
        Block(
            block.name,
            int(stop) - len(block.bounds),
            int(stop),
            block.equality,
            block.scope,
            block.slack,
            block.slack_group,
            block.keys,
            block.weighted,
            block.turned,
        )
        for block, stop in zip(blocks, stops, strict=True)
    )
