"""From constraints to sparse rows over the parts of a batch, or of the shards of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.draft import Draft, PartTable, draft_rows, head_of, used_columns, weight_columns
from spectrem.constraints.compilation.facts import (
    ConstraintFacts,
    CorpusFacts,
    Head,
    Placed,
    RowFacts,
    find_rows,
)
from spectrem.constraints.compilation.groups import KeyColumns, number_groups, numbers_of
from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows, Scope, ShardRows
from spectrem.constraints.constraint import Constraint, LinearConstraint, MaxOver
from spectrem.constraints.links import RowLinks, resolve_links
from spectrem.constraints.text import Constraints, flatten
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure

ExtraColumns = Mapping[str, ArrayLike]


def compile_constraints(
    constraints: Constraints,
    structure: Structure,
    extra_columns: ExtraColumns | None = None,
    weights: Floats | None = None,
) -> Rows:
    """Compile constraints over one batch.

    Parameters
    ----------
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        Made with ``E``, by shortcuts, by :func:`linear`, or a user's own object with a method ``rows``.
    structure : Structure
    extra_columns : mapping of name -> array, optional
        A user's columns: one value per part, per instance or per occurrence (token). One with the name of a column of
        the structure takes its place.
    weights : ndarray of shape (n_instances,), optional
        How often an instance counts in ``E.count`` over several instances. What they count in expectations over several
        instances is up to `spectrem.inference.project_batch`, given the same weights.

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
    table = PartTable(structure, extra_columns or {}, weights=weights)
    forms = _resolved(constraints, table)
    facts, drafts = _describe(forms, table, True)
    rows = [
        _rows_of(draft or draft_rows(constraint, table), placed)
        for (constraint, _), draft, placed in zip(forms, drafts, facts.placed, strict=True)
    ]
    return _stack(rows, structure.n_unary)


def facts_of(
    constraints: Constraints,
    structure: Structure,
    columns: ExtraColumns | None = None,
    weights: Floats | None = None,
    before: CorpusFacts | None = None,
    number: int = 0,
) -> CorpusFacts:
    """The facts of one shard on which the rows of other shards depend, to be added in the order of the shards.

    Parameters
    ----------
    constraints, structure, columns, weights
        As in :func:`compile_constraints`, of the shard. Values of grouping columns must mean the same in every shard.
    before : CorpusFacts, optional
        The sum over all shards, if it is not ``complete``: constraints over several instances then read counts over
        the corpus (``part("word_frequency")``) or numbers of instances, and their rows are found in a second pass.
    number : int
        The number of the shard in the corpus, from 0; needed with ``before`` only.

    Returns
    -------
    CorpusFacts

    Raises
    ------
    InvalidInputError
        As :func:`compile_constraints`. The sum also raises if a constraint names parts or rows of one batch by number
        (``linear``, ``must_link``), or a constraint of a user's own is not the same in every shard.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.structures.categorical import Categorical
    >>> few = (E[...] <= 1).per("label")
    >>> shards = [Categorical([2, 2]), Categorical([3])]
    >>> facts = facts_of(few, shards[0]) + facts_of(few, shards[1])
    >>> corpus_rows(facts).bounds
    array([1., 1., 1.])
    >>> [compile_shard(few, facts, number, shard).present for number, shard in enumerate(shards)]
    [array([0, 1]), array([0, 1, 2])]
    """
    table = _table(structure, columns, weights, before, number)
    return _describe(_resolved(constraints, table), table, before is not None)[0]


def corpus_rows(facts: CorpusFacts) -> CorpusRows:
    """The rows over the corpus, without their coefficients.

    Parameters
    ----------
    facts : CorpusFacts
        The sum over all shards, complete.

    Returns
    -------
    CorpusRows
    """
    blocks: list[Block] = []
    bounds: list[Floats] = []
    for constraint, placed in zip(facts.constraints, facts.placed, strict=True):
        if placed is None:
            continue
        across = np.flatnonzero(placed.across)
        if placed.scope == "corpus" or len(across):
            bounds.append(placed.bounds[across])
            blocks.append(_block(constraint.head, "corpus", placed.rows, across, bounds[-1], placed.columns))
    return CorpusRows(_chained(bounds, np.float64), _one_after_another(blocks))


def compile_shard(
    constraints: Constraints,
    facts: CorpusFacts,
    number: int,
    structure: Structure,
    columns: ExtraColumns | None = None,
    weights: Floats | None = None,
) -> ShardRows:
    """Compile constraints over one shard of a corpus.

    Parameters
    ----------
    constraints, structure, columns, weights
        As they were given to :func:`facts_of` for this shard.
    facts : CorpusFacts
        The sum over all shards, complete.
    number : int
        The number of the shard in the corpus, from 0.

    Returns
    -------
    ShardRows

    Raises
    ------
    InvalidInputError
        If the facts are not complete.

    Examples
    --------
    >>> from spectrem.constraints import E
    >>> from spectrem.structures.categorical import Categorical
    >>> rule, shard = (E[...] <= 0.5).per("document", "label"), Categorical([2, 2, 2])
    >>> columns = [{"document": ["a", "a", "b"]}, {"document": ["b", "c", "c"]}]
    >>> facts = facts_of(rule, shard, columns[0]) + facts_of(rule, shard, columns[1])
    >>> rows = compile_shard(rule, facts, 0, shard, columns[0])
    >>> rows.inside.blocks[0].keys["document"], corpus_rows(facts).blocks[0].keys["document"]
    (array(['a', 'a'], dtype='<U1'), array(['b', 'b'], dtype='<U1'))
    """
    if not facts.complete:
        raise InvalidInputError(
            "compile_shard needs complete facts; find them again in every shard, given the sum, with facts_of(..., "
            "before=facts, number=number)"
        )
    table = _table(structure, columns, weights, facts, number)
    inside: list[Rows] = []
    matrices: list[sp.csr_array] = []
    present: list[Ints] = []
    start = 0
    for (constraint, _), placed in zip(_resolved(constraints, table), facts.placed, strict=True):
        draft = draft_rows(constraint, table)
        if placed is None:
            inside.append(_rows_of(draft, None))
            continue
        index, across = find_rows(draft.rows, placed.rows, number), placed.across
        if placed.scope == "group":
            inside.append(_rows_of(draft, placed, index, placed.kept[index] & (placed.home[index] == number)))
        there = np.flatnonzero(across[index] & draft.rows.filled)
        matrices.append(_pick(draft.matrix([factor[index] for factor in placed.factors]), there))
        present.append(start - 1 + np.cumsum(across)[index[there]])
        start += int(across.sum())
    return ShardRows(
        _stack(inside, structure.n_unary), _stacked(matrices, structure.n_unary), _chained(present, np.int64)
    )


_Form = tuple[Constraint | LinearConstraint, bool]
"""A constraint of the language or a matrix, and whether it refers to parts or rows of one batch by number."""


def _table(
    structure: Structure, columns: ExtraColumns | None, weights: Floats | None, facts: CorpusFacts | None, number: int
) -> PartTable:
    """The columns of a shard, given those of the corpus."""
    if facts is None:
        return PartTable(structure, columns or {}, weights=weights)
    ahead = sum(facts.n_instances[:number]), sum(facts.n_occurrences[:number])
    return PartTable(structure, columns or {}, *ahead, frequencies=facts.counts, weights=weights)


def _resolved(constraints: Constraints, table: PartTable) -> list[_Form]:
    """The constraints as those of the language or matrices: users' own are asked for the rows they demand."""
    structure = table.structure
    forms: list[_Form] = []
    for constraint in resolve_links(flatten(constraints), table.extra_columns, structure.n_instances):
        rows = constraint
        if not isinstance(constraint, (Constraint, LinearConstraint)) and hasattr(constraint, "rows"):
            rows = constraint.rows(structure)
        if isinstance(constraint, RowLinks) and "label" in table.extra_columns:  # numbered until now
            names = np.asarray(table.column("label")[rows.keys["label"]])
            rows = replace(rows, keys={**rows.keys, "label": names})
        if not isinstance(rows, (Constraint, LinearConstraint)):
            hint = "finish it with .penalty(strength)" if isinstance(rows, MaxOver) else "compare E[...] with a bound"
            raise InvalidInputError(f"constraints: expected constraints, got {rows!r}; {hint}")
        forms.append((rows, isinstance(constraint, (LinearConstraint, RowLinks))))
    return forms


def _describe(forms: Sequence[_Form], table: PartTable, knows_corpus: bool) -> tuple[CorpusFacts, list[Draft | None]]:
    """Facts of one shard, and from the same work its rows over several instances.

    Rows that depend on counts over the corpus are left out unless the table ``knows_corpus``.
    """
    derived = [{of for name in used_columns(one) if (of := table.derived_from(name)) is not None} for one, _ in forms]
    counts = {name: table.count(name) for name in sorted(set().union(*derived))}
    numbered = table.numbered
    steady: dict[str, bool] = {}
    of_constraints: list[ConstraintFacts] = []
    drafts: list[Draft | None] = []
    for (constraint, once), counted in zip(forms, derived, strict=True):
        read = table.named_by(constraint)
        head, draft = head_of(constraint, read), None
        pieces: tuple[RowFacts, ...] = ()
        if not head.inside and (knows_corpus or not (counted or numbered.keys() & weight_columns(constraint))):
            draft = draft_rows(constraint, table)
            names = constraint.groups if isinstance(constraint, Constraint) and not head.ties else ()
            for name in names:
                if name not in steady:
                    steady[name] = read.is_steady(name)
            pieces = (replace(draft.rows, steady=frozenset(name for name in names if steady[name])),)
        apart = draft is not None and not head.listed and bool(numbered.keys() & draft.rows.keys.keys())
        of_constraints.append(ConstraintFacts(head, pieces, apart, once))
        drafts.append(draft)
    n = table.structure.n_instances
    facts = CorpusFacts((n,), (table.n_occurrences,), {} if knows_corpus else numbered, counts, tuple(of_constraints))
    return facts, drafts


def _rows_of(draft: Draft, placed: Placed | None, index: Ints | None = None, wanted: Bools | None = None) -> Rows:
    """The rows of a constraint, by default those that do not hold whatever q is.

    ``index`` says which rows of the corpus those of the draft are; by default it has no others.
    """
    placed = Placed.of(draft.head, draft.rows) if placed is None else placed
    index = np.arange(len(placed.kept)) if index is None else index
    kept = np.flatnonzero(placed.kept if wanted is None else wanted)
    bounds = placed.bounds[index[kept]]
    block = _block(draft.head, placed.scope, draft.rows, kept, bounds, placed.columns, draft.row_instance[kept])
    matrix = _pick(draft.matrix([factor[index] for factor in placed.factors]), kept)
    return Rows(matrix, bounds, draft.row_instance[kept], (block,))


def _block(
    head: Head,
    scope: Scope,
    rows: RowFacts,
    kept: Ints,
    bounds: Floats,
    columns: Sequence[str],
    instance: Ints | None = None,
) -> Block:
    """Some rows with their bounds.

    Their slack groups are the distinct values of some columns, or instances where there are none.
    """
    keys = {name: key[kept] for name, key in rows.keys.items()}
    groups = [numbers_of(keys[name]) for name in columns] or ([] if instance is None else [instance])
    return Block(
        head.name, 0, len(kept), head.equality, scope, head.slack, number_groups(groups, len(kept))[0],
        KeyColumns(keys), head.weighted, rows.side[kept] == 1, head.wholes(rows.side[kept], bounds),
    )  # fmt: skip


def _pick(matrix: sp.csr_array, rows: Ints) -> sp.csr_array:
    return matrix if len(rows) == matrix.shape[0] else sp.csr_array(matrix[rows])


def _stack(rows: Sequence[Rows], n_unary: int) -> Rows:
    """The rows of several constraints, one after the other."""
    return Rows(
        _stacked([some.matrix for some in rows], n_unary),
        _chained([some.bounds for some in rows], np.float64),
        _chained([some.row_instance for some in rows], np.int64),
        _one_after_another([block for some in rows for block in some.blocks]),
    )


def _stacked(matrices: Sequence[sp.csr_array], n_unary: int) -> sp.csr_array:
    if not matrices:
        return sp.csr_array((0, n_unary))
    return matrices[0] if len(matrices) == 1 else sp.csr_array(sp.vstack(matrices, "csr"))


def _chained(arrays: Sequence[NDArray], dtype: type) -> NDArray:
    return np.concatenate([np.zeros(0, dtype), *arrays])


def _one_after_another(blocks: Sequence[Block]) -> tuple[Block, ...]:
    stops = np.cumsum([block.stop for block in blocks]).tolist()
    return tuple(replace(block, start=stop - block.stop, stop=stop) for block, stop in zip(blocks, stops, strict=True))
