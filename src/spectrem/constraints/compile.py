"""From constraints to sparse rows over the parts of a batch, or of several shards alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from spectrem.constraints.constraint import AnyConstraint, Constraint, LinearConstraint, MaxOver
from spectrem.constraints.draft import BlockRows, draft_constraint, draft_linear, finish
from spectrem.constraints.rows import Block, Rows
from spectrem.constraints.table import PartTable
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure

ExtraColumns = Mapping[str, ArrayLike]


def compile_constraints(
    constraints: AnyConstraint | Iterable[AnyConstraint],
    structure: Structure,
    extra_columns: ExtraColumns | None = None,
) -> Rows:
    """Compile constraints over one batch.

    Parameters
    ----------
    constraints : constraint or iterable of constraints
        Made with ``E``, by shortcuts, by :func:`linear`, or a user's own object with a method ``rows``.
    structure : Structure
    extra_columns : mapping of name -> array, optional
        A user's columns: one value per part, per instance or per occurrence (token).

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
    return compile_corpus(constraints, [structure], None if extra_columns is None else [extra_columns])[0]


def compile_corpus(
    constraints: AnyConstraint | Iterable[AnyConstraint],
    structures: Sequence[Structure],
    extra_columns: Sequence[ExtraColumns | None] | None = None,
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
    listed = list(constraints) if isinstance(constraints, Iterable) else [constraints]
    extras = [None] * len(structures) if extra_columns is None else list(extra_columns)
    if not structures or len(extras) != len(structures):
        raise InvalidInputError(
            "compile_corpus needs one or more structures and as many extra_columns, "
            f"got {len(structures)} and {len(extras)}; give one of each per shard"
        )
    tables = _tables(structures, extras)
    blocks = [_compile_one(constraint, tables) for constraint in listed]
    return [_stack([block[shard] for block in blocks], structures[shard]) for shard in range(len(structures))]


def _tables(structures: Sequence[Structure], extras: Sequence[ExtraColumns | None]) -> list[PartTable]:
    tables: list[PartTable] = []
    instance = occurrence = 0
    for structure, extra in zip(structures, extras, strict=True):
        tables.append(PartTable(structure, extra or {}, instance, occurrence))
        instance += structure.n_instances
        occurrence += tables[-1].n_occurrences
    return tables


def _compile_one(constraint: AnyConstraint, tables: Sequence[PartTable]) -> list[BlockRows]:
    """The block of one constraint in every shard."""
    forms = [_resolve(constraint, table.structure) for table in tables]
    drafts = [
        draft_constraint(form, table) if isinstance(form, Constraint) else draft_linear(form, table)
        for form, table in zip(forms, tables, strict=True)
    ]
    if drafts[0].scope == "instance":
        return [finish([draft])[0] for draft in drafts]
    return finish(drafts)


def _resolve(constraint: object, structure: Structure) -> Constraint | LinearConstraint:
    if not isinstance(constraint, (Constraint, LinearConstraint)) and hasattr(constraint, "rows"):
        constraint = constraint.rows(structure)
    if isinstance(constraint, (Constraint, LinearConstraint)):
        return constraint
    hint = "finish it with .penalty(strength)" if isinstance(constraint, MaxOver) else "compare E[...] with a bound"
    raise InvalidInputError(f"constraints: expected constraints, got {constraint!r}; {hint}")


def _stack(blocks: Sequence[BlockRows], structure: Structure) -> Rows:
    if not blocks:
        nothing = np.zeros(0)
        return Rows(sp.csr_array((0, structure.n_unary)), nothing, nothing.astype(np.int64), ())
    stops = np.cumsum([len(block.bounds) for block in blocks])
    return Rows(
        matrix=blocks[0].matrix if len(blocks) == 1 else sp.csr_array(sp.vstack([b.matrix for b in blocks], "csr")),
        bounds=np.concatenate([block.bounds for block in blocks]),
        row_instance=np.concatenate([block.row_instance for block in blocks]),
        blocks=tuple(
            Block(
                block.name,
                int(stop) - len(block.bounds),
                int(stop),
                block.equality,
                block.scope,
                block.slack,
                block.slack_group,
                block.keys,
            )
            for block, stop in zip(blocks, stops, strict=True)
        ),
    )
