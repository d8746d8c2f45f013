"""From constraints to sparse rows over the parts of a batch, or of the shards of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.clusters import RowLinks, resolve_links
from spectrem.constraints.constraint import AnyConstraint, Constraint, LinearConstraint, MaxOver
from spectrem.constraints.draft import Draft, Head, draft_rows, head_of, used_columns, weight_columns
from spectrem.constraints.facts import ConstraintFacts, CorpusFacts, Placed, RowFacts, find_rows, row_facts
from spectrem.constraints.groups import Key, KeyColumns, number_groups, numbers_of
from spectrem.constraints.rows import Block, CorpusRows, Rows, Scope, ShardRows
from spectrem.constraints.table import PartTable
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
    counted = set().union(*(_counted_columns(form, table) for form in forms))
    if counted:
        table = replace(table, frequencies={name: table.count(name) for name in counted})
    facts, drafts = _describe(forms, table, True)
    blocks = []
    for form, draft, placed in zip(forms, drafts, facts.placed, strict=True):
        if draft is None or placed is None:
            blocks.append(_inside(draft_rows(form.constraint, table)))
        else:
            blocks.append(_picked(draft, placed, np.arange(len(draft.side)), placed.kept))
    return _stack(blocks, structure.n_unary)


def facts_of(
    constraints: Constraints,
    structure: Structure,
    columns: ExtraColumns | None = None,
    weights: NDArray[np.float64] | None = None,
    before: CorpusFacts | None = None,
    number: int = 0,
) -> CorpusFacts:
    """What the rows of the other shards of a corpus need to know of one shard; to be added in the order of the shards.

    Parameters
    ----------
    constraints, structure, columns, weights
        As in :func:`compile_constraints`, of the shard. Values of grouping columns must mean the same in every shard.
    before : CorpusFacts, optional
        The sum over all shards, if it is not ``complete``: constraints over several instances then read counts over
        the corpus (``part("word_frequency")``) or numbers of instances, and their rows are found in a second pass.
    number : int
        Of the shard in the corpus, from 0; needed with ``before`` only.

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
    blocks = []
    for own, rows, placed in zip(facts.constraints, facts.rows, facts.placed, strict=True):
        if rows is None or placed is None:
            continue
        across = placed.across
        if placed.scope == "corpus" or across.any():
            keys = {name: key[across] for name, key in rows.keys.items()}
            groups = [numbers_of(keys[name]) for name in placed.columns]
            blocks.append(_block(own.head, "corpus", groups, placed.bounds[across], keys, rows.side[across]))
    return CorpusRows(_chained([block.bounds for block in blocks], np.float64), _blocks(blocks))


def compile_shard(
    constraints: Constraints,
    facts: CorpusFacts,
    number: int,
    structure: Structure,
    columns: ExtraColumns | None = None,
    weights: NDArray[np.float64] | None = None,
) -> ShardRows:
    """Compile constraints over one shard of a corpus.

    Parameters
    ----------
    constraints, structure, columns, weights
        As they were given to :func:`facts_of` for this shard.
    facts : CorpusFacts
        The sum over all shards, complete.
    number : int
        Of the shard in the corpus, from 0.

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
    inside: list[_BlockRows] = []
    matrices: list[sp.csr_array] = []
    present: list[NDArray[np.int64]] = []
    start = 0
    for form, rows, placed in zip(_resolved(constraints, table), facts.rows, facts.placed, strict=True):
        draft = draft_rows(form.constraint, table)
        if placed is None or rows is None:
            inside.append(_inside(draft))
            continue
        index = find_rows(draft, rows, number)
        if placed.scope == "group":
            inside.append(_picked(draft, placed, index, placed.kept[index] & (placed.home[index] == number)))
        there = np.flatnonzero(placed.across[index] & draft.filled)
        matrices.append(_pick(draft.matrix, there))
        present.append(start + placed.number[index[there]])
        start += int(placed.across.sum())
    return ShardRows(
        _stack(inside, structure.n_unary), _stacked(matrices, structure.n_unary), _chained(present, np.int64)
    )


def flatten(constraints: Constraints) -> list[AnyConstraint]:
    """One list of constraints, of one constraint or of lists and tuples of them inside each other."""
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        return [cast(AnyConstraint, constraints)]
    return [single for listed in constraints for single in flatten(listed)]


@dataclass(frozen=True)
class _Form:
    """A constraint as the language or a matrix, and whether it is about one batch by its parts' or rows' numbers."""

    constraint: Constraint | LinearConstraint
    once: bool


@dataclass(frozen=True)
class _BlockRows:
    """The rows of one constraint; those over the corpus have their matrix elsewhere."""

    block: Block
    bounds: NDArray[np.float64]
    matrix: sp.csr_array | None
    row_instance: NDArray[np.int64]


def _table(
    structure: Structure,
    columns: ExtraColumns | None,
    weights: NDArray[np.float64] | None,
    facts: CorpusFacts | None,
    number: int,
) -> PartTable:
    """The columns of a shard, given those of the corpus."""
    if facts is None:
        return PartTable(structure, columns or {}, weights=weights)
    ahead = sum(facts.n_instances[:number]), sum(facts.n_occurrences[:number])
    return PartTable(structure, columns or {}, *ahead, frequencies=facts.counts, weights=weights)


def _resolved(constraints: Constraints, table: PartTable) -> list[_Form]:
    """Constraints of users as what they demand of the batch."""
    structure, forms = table.structure, []
    for given in resolve_links(flatten(constraints), table.extra_columns, structure.n_instances):
        made = given
        if not isinstance(given, (Constraint, LinearConstraint)) and hasattr(given, "rows"):
            made = given.rows(structure)
        if not isinstance(made, (Constraint, LinearConstraint)):
            hint = "finish it with .penalty(strength)" if isinstance(made, MaxOver) else "compare E[...] with a bound"
            raise InvalidInputError(f"constraints: expected constraints, got {made!r}; {hint}")
        forms.append(_Form(made, isinstance(given, (LinearConstraint, RowLinks))))
    return forms


def _counted_columns(form: _Form, table: PartTable) -> set[str]:
    """Columns whose frequencies a constraint reads."""
    return {counted for name in used_columns(form.constraint) if (counted := table.derived_from(name)) is not None}


def _describe(forms: Sequence[_Form], table: PartTable, settled: bool) -> tuple[CorpusFacts, list[Draft | None]]:
    """Facts of one shard, and from the same work its rows over several instances.

    ``settled`` tells that the table knows the whole corpus.
    """
    derived = [_counted_columns(form, table) for form in forms]
    counts = {name: table.count(name) for name in sorted(set().union(*derived))}
    numbered = table.numbered
    steady: dict[str, bool] = {}
    found: list[ConstraintFacts] = []
    drafts: list[Draft | None] = []
    for form, counted in zip(forms, derived, strict=True):
        head, draft = head_of(form.constraint, table), None
        pieces: tuple[RowFacts, ...] = ()
        if not head.inside and (settled or not (counted or numbered.keys() & weight_columns(form.constraint))):
            draft = draft_rows(form.constraint, table)
            names = form.constraint.groups if isinstance(form.constraint, Constraint) and not head.ties else ()
            for name in names:
                if name not in steady:
                    steady[name] = table.is_steady(name)
            pieces = (row_facts(draft, frozenset(name for name in names if steady[name])),)
        apart = draft is not None and not head.listed and bool(numbered.keys() & draft.keys.keys())
        found.append(ConstraintFacts(head, pieces, apart, form.once))
        drafts.append(draft)
    n = table.structure.n_instances
    facts = CorpusFacts((n,), (table.n_occurrences,), {} if settled else numbered, counts, tuple(found))
    return facts, drafts


def _inside(draft: Draft) -> _BlockRows:
    """The rows of a constraint of instance scope, but for those that always hold."""
    bounds = draft.constant + draft.counts
    kept = np.flatnonzero(draft.head.listed | draft.filled | ((bounds != 0) if draft.head.equality else (bounds < 0)))
    keys = {name: key[kept] for name, key in draft.keys.items()}
    assert draft.row_instance is not None
    instance = draft.row_instance[kept]
    groups = [numbers_of(keys[name]) for name in draft.head.slack_columns] or [instance]
    return _block(
        draft.head, "instance", groups, bounds[kept], keys, draft.side[kept], _pick(draft.matrix, kept), instance
    )


def _picked(draft: Draft, placed: Placed, index: NDArray[np.int64], wanted: NDArray[np.bool_]) -> _BlockRows:
    """Some of the rows of a constraint over several instances; ``index`` tells which rows of the corpus they are."""
    rows = np.flatnonzero(wanted)
    keys = {name: key[rows] for name, key in draft.keys.items()}
    groups = [numbers_of(keys[name]) for name in placed.columns]
    matrix = _pick(draft.matrix, rows)
    return _block(draft.head, placed.scope, groups, placed.bounds[index[rows]], keys, draft.side[rows], matrix)


def _block(
    head: Head,
    scope: Scope,
    groups: Sequence[NDArray],
    bounds: NDArray[np.float64],
    keys: dict[str, Key],
    side: NDArray[np.int8],
    matrix: sp.csr_array | None = None,
    instance: NDArray[np.int64] | None = None,
) -> _BlockRows:
    """Rows whose slack groups are the distinct values of ``groups``."""
    block = Block(
        head.name, 0, len(bounds), head.equality, scope, head.slack, number_groups(groups, len(bounds))[0],
        KeyColumns(keys), head.weighted, side == 1,
    )  # fmt: skip
    return _BlockRows(block, bounds, matrix, np.full(len(bounds), -1) if instance is None else instance)


def _pick(matrix: sp.csr_array, rows: NDArray[np.int64]) -> sp.csr_array:
    return matrix if len(rows) == matrix.shape[0] else sp.csr_array(matrix[rows])


def _stack(blocks: Sequence[_BlockRows], n_unary: int) -> Rows:
    return Rows(
        _stacked([own.matrix for own in blocks if own.matrix is not None], n_unary),
        _chained([own.bounds for own in blocks], np.float64),
        _chained([own.row_instance for own in blocks], np.int64),
        _blocks(blocks),
    )


def _stacked(matrices: Sequence[sp.csr_array], n_unary: int) -> sp.csr_array:
    if not matrices:
        return sp.csr_array((0, n_unary))
    return matrices[0] if len(matrices) == 1 else sp.csr_array(sp.vstack(matrices, "csr"))


def _chained(arrays: Sequence[NDArray], dtype: type) -> NDArray:
    return np.concatenate([np.zeros(0, dtype), *arrays])


def _blocks(blocks: Sequence[_BlockRows]) -> tuple[Block, ...]:
    """The blocks one after the other."""
    stops = np.cumsum([own.block.stop for own in blocks]).tolist()
    return tuple(
        replace(own.block, start=stop - own.block.stop, stop=stop) for own, stop in zip(blocks, stops, strict=True)
    )
