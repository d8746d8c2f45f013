"""One constraint over one shard: the columns that it can name, and its rows before other shards are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.columns import Column, as_column, column_names, compared, evaluate, missing_of, no_such_column
from spectrem.constraints.compilation.facts import Counted, Head, RowFacts, Tally, Unit
from spectrem.constraints.compilation.groups import (
    NO_GROUP,
    Coded,
    Key,
    Repeats,
    as_key,
    distinct,
    join_keys,
    number_groups,
    numbers_of,
)
from spectrem.constraints.constraint import Constraint, LinearConstraint, Term
from spectrem.constraints.links import RowLinks
from spectrem.exceptions import InvalidInputError, no_such, quoted
from spectrem.structures._ragged import offsets_of, ranges_of
from spectrem.structures.structure import Structure

_FREQUENCY = "_frequency"
_PIECE = 1 << 16


@dataclass(frozen=True, eq=False)
class RepeatedParts:
    """The parts of every choice, once for each thing of which the choice has several, as constraints read them.

    Attributes
    ----------
    structure : Structure
    choice : ndarray of shape (n_repeated,), int64
        The thing that every repeated part is for.
    part_of : ndarray of shape (n_repeated,), int64
        The part of the structure.
    columns : mapping of name -> ndarray of shape (n_repeated,)
    """

    structure: Structure
    choice: Ints
    part_of: Ints
    columns: Mapping[str, Key]

    @classmethod
    def of(cls, structure: Structure, repeats: Mapping[str, Repeats]) -> RepeatedParts:
        """The parts of a structure for the things that columns, at least one, say something of."""
        choice = next(iter(repeats.values())).choice
        order = np.argsort(structure.choice, kind="stable")
        offsets = np.searchsorted(structure.choice[order], np.arange(structure.choice.max(initial=-1) + 2))
        sizes = np.diff(offsets)[choice]
        thing = np.repeat(np.arange(len(choice)), sizes)
        columns = {name: column.values[thing] for name, column in repeats.items()}
        return cls(structure, thing, order[ranges_of(offsets[choice], sizes)], columns)

    @property
    def n_unary(self) -> int:
        return len(self.part_of)

    @property
    def n_instances(self) -> int:
        return self.structure.n_instances

    @property
    def instance_name(self) -> str:
        return self.structure.instance_name

    @cached_property
    def instance(self) -> Ints:
        return self.structure.instance[self.part_of]


@dataclass(frozen=True)
class PartTable:
    """A structure's own columns and a user's, each with one value per part.

    Parameters
    ----------
    structure : Structure
    extra_columns : mapping of name -> array
        One value per part, per instance, or (where the structure has a column ``"occurrence"``) per
        occurrence; its length says which. A column named like one of the structure's takes its place.
    first_instance, first_occurrence : int
        Added to the structure's instance column and to ``"occurrence"``, which count from 0 in every shard.
    frequencies : mapping of name -> counts, or None
        How often each value of a column occurs in the corpus; None where the batch is the corpus.
    weights : ndarray of shape (n_instances,) or None
        How often each instance counts in counts over the corpus.
    base : PartTable, or None
        The table of which this repeats the parts, see `named_by`.

    Notes
    -----
    ``"label"`` is the column ``"tag"`` where a structure has tags and no column is called so.

    A name like ``"word_frequency"`` that no column has is derived from the column ``"word"``: the number of
    occurrences in the corpus with the same value.

    Raises
    ------
    InvalidInputError
        If an extra column takes the place of the instance column or of ``"occurrence"`` but has the same value in two
        instances or occurrences.
    """

    structure: Structure
    extra_columns: Mapping[str, ArrayLike] = field(default_factory=dict)
    first_instance: int = 0
    first_occurrence: int = 0
    frequencies: Mapping[str, Mapping[object, int]] | None = None
    weights: Floats | None = None
    base: PartTable | None = None

    def __post_init__(self) -> None:
        for name in {self.structure.instance_name, "occurrence"} & set(self.extra_columns):
            is_instance = name == self.structure.instance_name
            unit = self.structure.instance if is_instance else np.asarray(self.structure_columns["occurrence"])
            _check_numbering(name, distinct(self.column(name))[1], unit)

    @cached_property
    def structure_columns(self) -> Mapping[str, NDArray]:
        """The structure's columns, asked for once since structures may build them anew."""
        return self.structure.columns

    @cached_property
    def _known(self) -> dict[str, Key]:
        """The columns that were asked for: constraints name the same ones again and again."""
        return {}

    @cached_property
    def n_occurrences(self) -> int:
        """Occurrences (tokens) in the batch, 0 where the structure knows none."""
        occurrence = np.asarray(self.structure_columns.get("occurrence", ()))
        return int(np.fmax.reduce(occurrence, initial=-1)) + 1

    def named_by(self, constraint: Constraint | LinearConstraint) -> PartTable:
        """The table that a constraint reads: this, or one that has the parts of every choice for each of its `Repeats`.

        The latter where the constraint names a column of these.
        """
        return self._repeated if self._repeats.keys() & used_columns(constraint) else self

    @cached_property
    def _repeats(self) -> dict[str, Repeats]:
        columns: Mapping[str, Any] = self.extra_columns
        return {name: values for name, values in columns.items() if isinstance(values, Repeats)}

    @cached_property
    def _repeated(self) -> PartTable:
        """The table of repeated parts, made once for all constraints that read it."""
        structure: Any = RepeatedParts.of(self.structure, self._repeats)  # as much of a structure as tables read
        return replace(self, structure=structure, extra_columns={}, base=self)

    @property
    def numbered(self) -> dict[str, Unit]:
        """Columns that number instances or occurrences, counted on from shard to shard."""
        units: dict[str, Unit] = {self.structure.instance_name: "instance", "occurrence": "occurrence"}
        return {name: unit for name, unit in units.items() if self.is_own(name)}

    def is_own(self, name: str) -> bool:
        """Whether the column is the structure's, and no other took its place."""
        return name in self.structure_columns and name not in self.extra_columns

    def derived_from(self, name: str) -> str | None:
        """The column whose frequency a derived column gives: ``"word"`` for ``"word_frequency"``."""
        counted, known = name.removesuffix(_FREQUENCY), {*self.structure_columns, *self.extra_columns}
        return counted if counted != name and counted in known and name not in known else None

    def column(self, name: str) -> Key:
        """Values of a column, shape (n_unary,); text of which some is missing is coded.

        Raises
        ------
        InvalidInputError
            If there is no such column, or the length of a user's column is none of these numbers, or several of them.
        """
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> Key:
        if name in self.extra_columns:
            return self._spread(name, as_column(name, self.extra_columns[name]))
        if self.base is not None and name not in self.structure_columns:
            assert isinstance(self.structure, RepeatedParts)
            return self.base.column(name)[self.structure.part_of]
        if name in self.structure_columns:
            values = as_column(name, self.structure_columns[name])
            firsts = {"occurrence": self.first_occurrence, self.structure.instance_name: self.first_instance}
            return numbers_of(values) + firsts[name] if firsts.get(name) else values
        if (counted := self.derived_from(name)) is not None:
            counts = self.count(counted) if self.frequencies is None else self.frequencies[counted]
            values, code = distinct(self.column(counted))
            return np.array([counts[value] for value in values.tolist()], np.int64)[code]
        if name == "label" and "tag" in self.structure_columns:
            return self.column("tag")
        raise InvalidInputError(no_such_column(name, dict.fromkeys([*self.structure_columns, *self.extra_columns])))

    def count(self, name: str) -> Counter[object]:
        """How many occurrences of the batch have each value of a column.

        Raises
        ------
        InvalidInputError
            If the structure knows no occurrences.
        """
        if "occurrence" not in self.structure_columns:
            raise InvalidInputError(
                f"there is no column {name + _FREQUENCY!r}, and the structure has no occurrences to count; "
                "give the column yourself"
            )
        occurrence = np.asarray(self.structure_columns["occurrence"])
        _, first = number_groups([occurrence], self.structure.n_unary, missing_of(occurrence))
        values = self.column(name)
        missing = self.missing(name, values)
        return Counter(values[first if missing is None else first[~missing[first]]].tolist())

    def missing(self, name: str, values: Key) -> Bools | None:
        """Where a column gives no group: where values are missing, and where the structure says so of its own."""
        lacking = missing_of(values)
        declared = self.structure.missing(name) if self.is_own(name) and hasattr(self.structure, "missing") else None
        return declared if lacking is None else lacking if declared is None else lacking | declared

    def is_steady(self, name: str) -> bool:
        """Whether the parts of every instance that have a value in a column have the same one."""
        column, instance = self.column(name), self.structure.instance
        values, missing = numbers_of(column), self.missing(name, column)
        known = np.arange(len(values)) if missing is None else np.flatnonzero(~missing)
        first = np.empty(self.structure.n_instances, np.int64)
        first[instance[known[::-1]]] = known[::-1]  # a repeated index keeps the last value: the first part
        pieces = (known[start : start + _PIECE] for start in range(0, len(known), _PIECE))
        return all(bool((values[piece] == values[first[instance[piece]]]).all()) for piece in pieces)

    def _spread(self, name: str, values: Key) -> Key:
        structure = self.structure
        if isinstance(values, np.ndarray) and values.ndim == 2:
            return self._flat(name, values)
        units: dict[str, tuple[int, NDArray | None]] = {
            "parts": (structure.n_unary, None),
            "instances": (structure.n_instances, structure.instance),
        }
        if "occurrence" in self.structure_columns:
            units["occurrences"] = self.n_occurrences, np.asarray(self.structure_columns["occurrence"])
        spread = [_spread(values, unit) for size, unit in units.values() if len(values) == size]
        sizes = ", ".join(f"{size} {what}" for what, (size, _) in units.items())
        if not spread:
            raise InvalidInputError(
                f"extra column {name!r} has {len(values)} values, and the batch has {sizes}; "
                "give one value for each of one of these"
            )
        first, *others = map(numbers_of, spread)
        if not all(np.array_equal(first, other, equal_nan=first.dtype.kind == "f") for other in others):
            raise InvalidInputError(
                f"extra column {name!r} has {len(values)} values, which fits more than one of {sizes}; "
                f"spread it over the parts yourself, as in values[structure.instance]"
            )
        return spread[0]

    def _flat(self, name: str, values: NDArray) -> NDArray:
        """A matrix with a row for every choice (a row of a table, a token) and a column for every label, by parts."""
        choice, state_part = self.structure.choice, getattr(self.structure, "state_part", None)
        if state_part is not None:  # of an edge chain, whose parts are pairs of labels
            choice = choice[np.unique(state_part, return_index=True)[1]]
        _, sizes = np.unique(choice, return_counts=True)
        ordered = bool((np.diff(choice) >= 0).all())
        if not ordered or values.size != len(choice) or not (sizes == values.shape[1]).all():
            labels = f"{sizes.min()} to {sizes.max()}" if len(set(sizes.tolist())) > 1 else str(sizes.max(initial=0))
            raise InvalidInputError(
                f"extra column {name!r} is a matrix of shape {values.shape}, and the batch has {len(sizes)} rows or "
                f"tokens with {labels} labels; give a value for each label of each"
            )
        return values.ravel() if state_part is None else values.ravel()[state_part]


def _spread(values: Key, unit: NDArray | None) -> Key:
    """The value of the unit of every part, shape (n_unary,), missing where the part has no unit; None for its own."""
    lacking = None if unit is None else missing_of(unit)
    if unit is None or lacking is None:
        return values if unit is None else values[unit]
    known = as_key(values[unit[~lacking].astype(np.int64)])
    out = np.full(len(lacking), -1, np.int32) if isinstance(known, Coded) else np.full(len(lacking), np.nan)
    out[~lacking] = numbers_of(known)
    return Coded(known.values, out) if isinstance(known, Coded) else out


def _check_numbering(name: str, code: Ints, unit: Ints) -> None:
    sizes = {len(number_groups(columns, len(unit))[1]) for columns in ([code, unit], [code], [unit])}
    if len(sizes) > 1:
        raise InvalidInputError(
            f"extra column {name!r} takes the place of the structure's own and must number the same things, each with "
            "a value of its own; choose another name"
        )


@dataclass(frozen=True)
class Draft:
    """The rows of one constraint in one shard, before the bounds that depend on other shards are known.

    Attributes
    ----------
    head : Head
    rows : RowFacts
        A row is known across shards by its side and keys.
    entries : tuple of sparse arrays of shape (n_rows, n_unary)
        The entries, and then those that are divided by one of ``rows.wholes`` each, once the corpus is known.
    row_instance : ndarray of shape (n_rows,)
        The instance of every row; -1 for rows over several instances.
    """

    head: Head
    rows: RowFacts
    entries: tuple[sp.coo_array | sp.csr_array, ...]
    row_instance: Ints

    def matrix(self, factors: Sequence[Floats]) -> sp.csr_array:
        """The entries row by row, shape (n_rows, n_unary), those of each share times a factor of its own per row."""
        matrix = self.entries[0].tocsr()
        for share, factor in zip(self.entries[1:], factors, strict=True):
            matrix = matrix + sp.diags_array(factor) @ share.tocsr()
        return sp.csr_array(matrix)


def head_of(constraint: Constraint | LinearConstraint, table: PartTable) -> Head:
    """The properties that all rows of a constraint share, whatever the parts of the batch."""
    if isinstance(constraint, Constraint):
        return Head(
            constraint.name,
            repr(constraint),
            table.structure.instance_name in constraint.groups,
            constraint.equality,
            constraint.allowance,
            constraint.groups if constraint.over is not None else (),
            shares=_shares(constraint, table),
        )
    return Head(
        constraint.name,
        f"U @ mu {constraint.sense} b",
        constraint.scope == "instance",
        constraint.sense == "==",
        constraint.allowance,
        listed=True,
        weighted=constraint.weighted,
    )


def _shares(constraint: Constraint, table: PartTable) -> tuple[float, ...] | None:
    """The shares that bound a constraint; None where a sum of numbers is compared with a count of parts: a mean."""
    shares = constraint.shares
    kinds = {
        kind: all(_is_condition(term.weight, table) for term in constraint.quantities if term.kind == kind)
        for kind in ("expectation", "count")
        if shares is not None
    }
    return shares if len(set(kinds.values())) == 1 else None


def _is_condition(weight: Column | EllipsisType, table: PartTable) -> bool:
    """Whether a weight is 0 or 1 on every part."""
    if isinstance(weight, EllipsisType):
        return True
    if weight.operation == "part":
        values = table.column(weight.operands[0])
        return isinstance(values, np.ndarray) and values.dtype == np.bool_
    return weight.operation not in ("+", "-", "*", "/", "negative")


def draft_rows(constraint: Constraint | LinearConstraint, table: PartTable) -> Draft:
    """The rows that a constraint demands of the parts of one shard."""
    read = table.named_by(constraint)
    head = head_of(constraint, read)
    if not isinstance(constraint, Constraint):
        return _listed(constraint, head, table)
    draft = _draft(constraint, head, read)
    if not isinstance(read.structure, RepeatedParts):
        return draft
    n, part_of = table.structure.n_unary, read.structure.part_of
    there = (one.tocoo() for one in draft.entries)  # repeated parts add up
    folded = (sp.coo_array((one.data, (one.row, part_of[one.col])), (one.shape[0], n)) for one in there)
    return replace(draft, entries=tuple(folded))


def used_columns(constraint: object) -> set[str]:
    """Columns that a constraint of the language or a link names; none for matrices and users' own constraints."""
    if isinstance(constraint, RowLinks) and constraint.column is not None:
        return {constraint.column}
    if not isinstance(constraint, Constraint):
        return set()
    places = (name for term in constraint.quantities for name in term.at or ())
    return {*constraint.key_columns, *each_columns(constraint), *weight_columns(constraint), *places}


def each_columns(constraint: Constraint) -> set[str]:
    """Columns whose values are counted once each, by ``E.count(..., each=column)``."""
    return {term.each for term in constraint.quantities if term.each is not None}


def weight_columns(constraint: Constraint | LinearConstraint) -> set[str]:
    """Columns whose values the weights of a constraint are made of."""
    if isinstance(constraint, LinearConstraint):
        return set()
    return set().union(
        *(column_names(term.weight) for term in constraint.quantities if isinstance(term.weight, Column))
    )


def _draft(constraint: Constraint, head: Head, table: PartTable) -> Draft:
    """Evaluate a constraint of the language."""
    structure = table.structure
    _check_closed(constraint, table)
    names = list(constraint.key_columns)
    if head.inside:
        names.sort(key=lambda name: name != table.structure.instance_name)
    columns = {name: table.column(name) for name in names}
    missing = [mask for name in names if (mask := table.missing(name, columns[name])) is not None]
    no_group = np.logical_or.reduce(missing) if missing else None
    group, first = number_groups([columns[name] for name in names], structure.n_unary, no_group)

    sides, n = constraint.sides, len(constraint.sides)
    lowest = 1 if constraint.upper is None else 0
    wholes = list(dict.fromkeys(term.over for side in sides for term in side.terms if term.over is not None))
    add_up = partial(_add_up, constraint, head, table, group, first)
    entries, counts = zip(
        *(add_up([[term for term in side.terms if term.over == whole] for side in sides]) for whole in (None, *wholes)),
        strict=True,
    )
    rows = RowFacts.of_shard(
        side=np.repeat(np.arange(lowest, lowest + n, dtype=np.int8), len(first)),
        keys={name: join_keys([as_key(columns[name][first])] * n) for name in constraint.key_columns},
        constant=np.repeat([-side.constant for side in sides], len(first)).astype(np.float64),
        counts=counts,
        wholes=tuple(add_up([[replace(whole, coefficient=-1)]] * n)[1] for whole in wholes),
        entries=entries,
    )
    return Draft(head, rows, entries, np.tile(structure.instance[first] if head.inside else np.full(len(first), -1), n))


def _listed(constraint: LinearConstraint, head: Head, table: PartTable) -> Draft:
    """The rows of a matrix given by the user, checked against the batch."""
    matrix, structure = constraint.matrix, table.structure
    n_rows, n_parts = matrix.shape
    if n_parts != structure.n_unary:
        raise InvalidInputError(
            f"{quoted(constraint.name)}: U has {n_parts} columns, and the batch has {structure.n_unary} unary parts; "
            "give one column per part"
        )
    entries = matrix * (-1.0 if constraint.sense == ">=" else 1.0)
    rows = RowFacts.of_shard(
        side=np.full(n_rows, int(constraint.sense == ">="), np.int8),
        keys={
            name: as_key(as_column(name, values))
            for name, values in (constraint.keys or {"row": np.arange(n_rows)}).items()
        },
        constant=constraint.bounds * (-1.0 if constraint.sense == ">=" else 1.0),
        counts=(Tally(np.zeros(n_rows)),),
        wholes=(),
        entries=(entries,),
    )
    return Draft(head, rows, (entries,), _row_instances(constraint, table) if head.inside else np.full(n_rows, -1))


def _add_up(
    constraint: Constraint, head: Head, table: PartTable, group: Ints, first: Ints, sides: Sequence[Sequence[Term]]
) -> tuple[sp.coo_array, Tally]:
    """The entries and counts of terms, listed for every side, over the rows of all sides.

    Every group of parts, of which each has a ``first``, has a row for each side.
    """
    structure, n_groups = table.structure, len(first)
    shape = len(sides) * n_groups, structure.n_unary
    index = np.int32 if max(shape) < np.iinfo(np.int32).max else np.int64
    counts, counted = np.zeros((len(sides), n_groups)), []
    entries: list[tuple[NDArray, NDArray, NDArray]] = []
    for k, terms in enumerate(sides):
        weights = np.zeros(structure.n_unary)
        elsewhere: list[tuple[NDArray, NDArray, NDArray]] = []
        for term in terms:
            values = _weights(term.weight, constraint, table)
            if term.at is not None:
                if not head.inside:
                    raise InvalidInputError(
                        f"{quoted(constraint.name)}: .at(...) looks for parts inside instances; name their "
                        f'column in .per, as in .per("{structure.instance_name}", ...)'
                    )
                part, row = find_places(term.at, table, group, first, np.flatnonzero(values), constraint.name)
                elsewhere.append((term.coefficient * values[part].astype(np.float64), row, part))
                continue
            if term.kind == "expectation":
                if values.dtype == np.bool_:
                    weights[values] += term.coefficient
                else:
                    weights += np.multiply(values, term.coefficient, dtype=np.float64)
                continue
            if term.each is None and getattr(structure, "choices_vary", False):
                raise InvalidInputError(
                    f"{quoted(constraint.name)}: structures of this kind differ in how many parts they take, so that "
                    "shares and E.count(...) have no whole; compare expectations, as in E[...] <= 0.3 * E[...] for 30%"
                )
            each = structure.choice if term.each is None else table.column(term.each)
            part, largest = _counted(term, values, each, table, group)
            times = np.ones(len(part))
            if table.weights is not None and not head.inside:
                times = table.weights[structure.instance[part]]
            if term.each is None or head.inside or term.each in (structure.instance_name, "occurrence"):
                # multiplied once: 30 % of a million rows are a whole number of them; integers if there are none
                total = np.bincount(group[part], weights=times * largest, minlength=n_groups)
                counts[k] -= np.multiply(total, term.coefficient, dtype=np.float64)
            else:
                row = k * n_groups + group[part]
                counted.append(Counted(row, as_key(each[part]), largest, -term.coefficient * times))
        here = np.flatnonzero((weights != 0) & (group != NO_GROUP))
        for coefficients, row, part in ((weights[here], group[here], here), *elsewhere):
            entries.append((coefficients, (row + k * n_groups).astype(index), part.astype(index)))
    data, row, part = (_joined(list(arrays)) for arrays in zip(*entries, strict=True))
    return sp.coo_array((data, (row, part)), shape), Tally(counts.ravel(), tuple(counted))


def _counted(term: Term, values: NDArray, each: Key, table: PartTable, group: Ints) -> tuple[Ints, Floats]:
    """The summands of a count: a part and the largest weight of every choice, or value of a column, in a group."""
    inside = group != NO_GROUP
    if values.dtype == np.bool_:
        inside &= values
    if term.each is not None and (missing := table.missing(term.each, each)) is not None:
        inside &= ~missing
    parts = None if inside.all() else np.flatnonzero(inside)
    one_group = not group.any()
    keys = [each] if one_group else [group, each]
    number, first = number_groups(keys if parts is None else [key[parts] for key in keys], int(inside.sum()))
    if values.dtype == np.bool_:
        largest = np.ones(len(first))
    else:
        largest = np.full(len(first), -np.inf)
        np.maximum.at(largest, number, (values if parts is None else values[parts]).astype(np.float64))
    return first if parts is None else parts[first], largest


def _check_closed(constraint: Constraint, table: PartTable) -> None:
    """Refuse a value that a column of the structure cannot have in any batch."""
    weights = [term.weight for term in constraint.quantities if isinstance(term.weight, Column)]
    for name, _, listed in (test for weight in weights for test in compared(weight) if table.is_own(test[0])):
        known = getattr(table.structure, "column_values", {}).get(name, listed)
        absent = [value for value in listed if value not in known]
        if absent:
            raise InvalidInputError(f"{quoted(constraint.name)}: {no_such(name, absent[0], known)}")


def _weights(weight: Column | EllipsisType, constraint: Constraint, table: PartTable) -> NDArray:
    if isinstance(weight, EllipsisType):
        return np.ones(table.structure.n_unary, np.bool_)
    values = evaluate(weight, table.column)
    if isinstance(values, Coded) or values.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{quoted(constraint.name)}: {quoted(weight)} is text, not a weight; compare it, as in "
            f'E[{quoted(weight)} == "VERB"], or count every part with E[...]'
        )
    if weight.operation == "part" and values.dtype.kind in "iu" and table.is_own(weight.operands[0]):
        raise InvalidInputError(
            f"{quoted(constraint.name)}: {quoted(weight)} holds labels or positions, not weights; compare it, as in "
            f"E[{quoted(weight)} == 1], count every part with E[...], or write E[1 * {quoted(weight)}] to weigh by it"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidInputError(
            f"{quoted(constraint.name)}: weights must be finite, and {quoted(weight)} is {values[bad]} on part {bad}; "
            "replace missing values"
        )
    return values


def _row_instances(constraint: LinearConstraint, table: PartTable) -> Ints:
    matrix = constraint.matrix
    sizes = np.diff(matrix.indptr)
    if (sizes == 0).any():
        raise InvalidInputError(
            f"{quoted(constraint.name)}: row {int(np.argmin(sizes))} of U is empty, so it is in no instance; "
            'leave it out, or use scope="corpus"'
        )
    instance = table.structure.instance[matrix.indices]
    first = instance[matrix.indptr[:-1]]
    outside = np.flatnonzero(instance != np.repeat(first, sizes))
    if len(outside):
        bad = int(np.searchsorted(matrix.indptr, outside[0], side="right")) - 1
        raise InvalidInputError(
            f'{quoted(constraint.name)}: scope="instance", but row {bad} of U touches instances {first[bad]} and '
            f'{instance[outside[0]]}; use scope="corpus"'
        )
    return first.astype(np.int64)


def _joined(arrays: list[NDArray]) -> NDArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def find_places(
    at: tuple[str, str], table: PartTable, group: Ints, first: Ints, among: Ints, name: str
) -> tuple[Ints, Ints]:
    """The parts that groups refer to, each with a group that does; a part may have several.

    Parameters
    ----------
    at : (str, str)
        The column of the parts, and the column of a group whose value that of the part must be.
    table : PartTable
    group : ndarray of shape (n_unary,)
        The group of every part, which lies inside an instance, or `NO_GROUP`.
    first : ndarray of shape (n_groups,)
        A part of every group.
    among : ndarray of int64
        The parts that may be referred to.
    name : str
        Of the constraint, for errors.

    Raises
    ------
    InvalidInputError
        If there is no such column, one is text and the other is not, or a group has several values.
    """
    column, key = (table.column(one) for one in at)
    lacking = [table.missing(one, values) for one, values in zip(at, (column, key), strict=True)]
    known = group != NO_GROUP
    if lacking[0] is not None:
        among = among[~lacking[0][among]]
    if lacking[1] is not None:
        known &= ~lacking[1]
    keyed = np.flatnonzero(known)
    holder = np.full(len(first), -1)  # of every group, a part that has the key
    holder[group[keyed]] = keyed
    same = numbers_of(key[keyed]) == numbers_of(key[holder[group[keyed]]])
    if not same.all():
        bad = key[keyed[~same]].tolist()[0], key[holder[group[keyed[~same]]]].tolist()[0]
        raise InvalidInputError(
            f"{name!r}: {at[1]!r} must have one value in every group to look for {at[0]!r} there, got {bad[0]!r} and "
            f"{bad[1]!r} in one; name more columns in .per"
        )
    groups = np.flatnonzero(holder >= 0)
    instance = table.structure.instance
    values = join_keys([as_key(column[among]), as_key(key[holder[groups]])], at[1])
    instances = np.concatenate([instance[among], instance[first[groups]]])
    number, _ = number_groups([instances, numbers_of(values)], len(instances))
    there, wanted = number[: len(among)], number[len(among) :]
    sizes = np.bincount(there, minlength=int(number.max(initial=-1)) + 1)
    entries = ranges_of(offsets_of(sizes)[:-1][wanted], sizes[wanted])
    return (among[np.argsort(there, kind="stable")][entries], np.repeat(groups, sizes[wanted]))
