"""Facts about the whole corpus on which the rows of a shard depend: values with ``+``, in the order of the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem.constraints.compilation.groups import Key, join_keys, number_groups, numbers_of, same_keys
from spectrem.constraints.compilation.rows import Scope, Slack
from spectrem.exceptions import InvalidInputError, quoted

Unit = Literal["instance", "occurrence"]


@brief_dataclass(frozen=True)
class Head:
    """The properties that all rows of a constraint share, in every shard.

    Attributes
    ----------
    name, text : str
        The name in errors, and the text of what is demanded.
    equality : bool
        Whether rows are equalities.
    slack : Slack or None
    inside : bool
        Whether every row stays in one instance.
    slack_columns : tuple of str
        Columns whose values make the slack groups of ``max_over``; empty for other constraints.
    listed : bool
        Whether rows were listed by number, as in a matrix: none is ever left out.
    weighted : bool
        Whether instances count by their weights in rows over several instances.
    shares : tuple of float, or None
        What `Constraint.shares` says of the bounds.
    """

    name: str
    text: str
    inside: bool
    equality: bool
    slack: Slack | None
    slack_columns: tuple[str, ...] = ()
    listed: bool = False
    weighted: bool = True
    shares: tuple[float, ...] | None = None

    def wholes(self, side: NDArray[np.int8], bounds: Floats) -> Floats | None:
        """Counts that are 100 % in each row, shape (n_rows,), 1 where there is nothing to count; None without shares.

        ``side`` is 0 for upper rows and equalities, 1 for lower rows, with the ``bounds`` of `RowFacts.bounds`.
        """
        if not self.shares:
            return None if self.shares is None else np.ones(len(bounds))
        share = np.array(self.shares)[np.minimum(side, len(self.shares) - 1)]
        return np.where(bounds == 0, 1.0, np.abs(bounds) / share)

    @property
    def ties(self) -> bool:
        """Whether the norm of the slack ties all rows over the corpus together."""
        free = None if self.slack is None else ("l1" if self.slack.kind == "penalty" else "linf")
        return self.slack is not None and not self.slack_columns and self.slack.norm != free


@brief_dataclass(frozen=True)
class Counted:
    """The values counted by ``E.count(..., each=column)``, each once per row of the corpus.

    Attributes
    ----------
    row : ndarray of shape (n_values,), int64
        The row in which a value is counted.
    value : Key
        The value itself, which may also occur in other shards.
    largest : ndarray of shape (n_values,)
        The largest weight among the parts of the row with this value.
    factor : ndarray of shape (n_values,)
        What one unit of this weight adds to the bound of the row.
    """

    row: Ints
    value: Key
    largest: Floats
    factor: Floats

    def total(self, n_rows: int) -> Floats:
        """The sum that these values add to the bound of every row, shape (n_rows,)."""
        return np.bincount(self.row, self.factor * self.largest, n_rows).astype(np.float64)


@brief_dataclass(frozen=True)
class Tally:
    """The part of the bound of every row that is a sum of counts.

    Attributes
    ----------
    counts : ndarray of shape (n_rows,)
        The counts of rows or tokens, whose sum over shards is that of the corpus.
    counted : tuple of Counted
        The counts of values that may occur in several shards, where they count once.
    """

    counts: Floats
    counted: tuple[Counted, ...] = ()

    def total(self, start: Floats | float = 0.0) -> Floats:
        """All counts of every row, added to ``start``, shape (n_rows,)."""
        return sum((counted.total(len(self.counts)) for counted in self.counted), start + self.counts)


@brief_dataclass(frozen=True)
class RowFacts:
    """The distinct rows of a constraint over several instances, sorted by side and keys unless they are listed.

    Attributes
    ----------
    side : ndarray of shape (n_rows,), int8
        0 for upper rows and equalities, 1 for lower rows.
    keys : mapping of name -> Key
        The grouping columns, one value per row.
    constant : ndarray of shape (n_rows,)
        The part of the bound that is a number of the constraint.
    counts : tuple of Tally
        The part of the bound that is a sum of counts, and then the counts that are divided by one of ``wholes`` each.
    wholes : tuple of Tally
        The counts by which others are divided. The bound is ``constant + counts[0] + sum_k counts[k + 1] / wholes[k]``.
    filled : ndarray of shape (n_rows,), bool
        Rows that have entries somewhere.
    first, last : ndarray of shape (n_rows,), int32
        The first and the last shard that has the row.
    steady : frozenset of str
        Grouping columns that are constant inside every instance, but for missing values.
    """

    side: NDArray[np.int8]
    keys: dict[str, Key]
    constant: Floats
    counts: tuple[Tally, ...]
    wholes: tuple[Tally, ...]
    filled: Bools
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    steady: frozenset[str]

    @classmethod
    def of_shard(
        cls,
        side: NDArray[np.int8],
        keys: dict[str, Key],
        constant: Floats,
        counts: tuple[Tally, ...],
        wholes: tuple[Tally, ...],
        entries: Sequence[sp.coo_array | sp.csr_array],
    ) -> RowFacts:
        """The rows of one shard, which is number 0."""
        filled, zeros = np.zeros(len(side), np.bool_), np.zeros(len(side), np.int32)
        for matrix in entries:
            filled[matrix.tocoo().coords[0]] = True
        return cls(side, keys, constant, counts, wholes, filled, zeros, zeros, frozenset())

    def shift(self, shards: int, keys: Mapping[str, int]) -> RowFacts:
        """The same rows as those of later shards; what ``keys`` names is numbered on by so much."""
        moved = {name: numbers_of(key) + keys[name] if name in keys else key for name, key in self.keys.items()}
        first, last = self.first + np.int32(shards), self.last + np.int32(shards)
        return replace(self, keys=moved, first=first, last=last)

    def bounds(self, head: Head) -> tuple[Floats, Bools, tuple[Floats, ...]]:
        """Bounds, which rows are kept, and the reciprocals of the counts by which shares are divided.

        Each has shape (n_rows,). Rows that hold whatever q is are not kept, nor are rows with a share of a count of 0,
        which is not defined.
        """
        bounds, defined = self.counts[0].total(self.constant), np.ones(len(self.side), np.bool_)
        factors = []
        for counts, whole in zip(self.counts[1:], self.wholes, strict=True):
            total = whole.total()
            defined &= total != 0
            factors.append(np.divide(1.0, total, out=np.zeros(len(total)), where=total != 0))
            bounds = bounds + counts.total() * factors[-1]
        broken = (bounds != 0) if head.equality else (bounds < 0)
        return bounds, head.listed | ((self.filled | broken) & defined), tuple(factors)


@brief_dataclass(frozen=True)
class ConstraintFacts:
    """A constraint over some shards.

    Attributes
    ----------
    head : Head
    pieces : tuple of RowFacts
        The rows over several instances. Empty for a constraint inside instances, and as long as rows depend on facts
        of the corpus that are not known yet. There are several pieces only where no row is in two of them.
    apart : bool
        Whether a row is in one shard only, as rows of single tokens are: they are sorted once, at the end.
    once : bool
        Whether the constraint is about one batch and refuses others.
    """

    head: Head
    pieces: tuple[RowFacts, ...]
    apart: bool = False
    once: bool = False


@brief_dataclass(frozen=True)
class Placed:
    """Where the rows of a constraint are solved.

    Attributes
    ----------
    rows : RowFacts
    scope : {"instance", "group", "corpus"}
    columns : tuple of str
        Columns whose values split the rows into independent sets, or of ``max_over`` into slack groups.
    bounds : ndarray of shape (n_rows,)
    kept : ndarray of shape (n_rows,), bool
        Rows that do not hold for every q.
    home : ndarray of shape (n_rows,), int32
        The shard in which a row of a group is solved, -1 for others.
    factors : tuple of ndarray of shape (n_rows,)
        The reciprocal of the count by which each share is divided.
    """

    rows: RowFacts
    scope: Scope
    columns: tuple[str, ...]
    bounds: Floats
    kept: Bools
    home: NDArray[np.int32]
    factors: tuple[Floats, ...]

    @classmethod
    def of(cls, head: Head, rows: RowFacts) -> Placed:
        """Rows are solved in the instance, in the shard that holds all of their group, or over the corpus."""
        bounds, kept, factors = rows.bounds(head)
        columns = tuple(name for name in rows.keys if name in rows.steady)
        home = np.full(len(bounds), -1, np.int32)
        if columns:
            group, first = number_groups([numbers_of(rows.keys[name]) for name in columns], len(bounds))
            earliest, latest = np.full(len(first), np.iinfo(np.int32).max, np.int32), np.full(len(first), -1, np.int32)
            np.minimum.at(earliest, group, rows.first)
            np.maximum.at(latest, group, rows.last)
            home = np.where(earliest == latest, earliest, -1).astype(np.int32)[group]
        scope: Scope = "instance" if head.inside else "group" if columns else "corpus"
        return cls(rows, scope, head.slack_columns or columns, bounds, kept, home, factors)

    @property
    def across(self) -> Bools:
        """Rows over the corpus, shape (n_rows,)."""
        return self.kept & (self.home < 0)


@brief_dataclass(frozen=True)
class CorpusFacts:
    """The facts of shards that follow each other; a sum is associative and keeps the order of the shards.

    Attributes
    ----------
    n_instances, n_occurrences : tuple of int
        The numbers of instances and of occurrences in every shard.
    numbered : mapping of name -> {"instance", "occurrence"}
        Columns that number instances or occurrences from 0 in every shard.
    counts : mapping of name -> Counter
        How many occurrences have each value of the columns from which ``"word_frequency"`` and its like are derived.
    constraints : tuple of ConstraintFacts
    """

    n_instances: tuple[int, ...]
    n_occurrences: tuple[int, ...]
    numbered: Mapping[str, Unit]
    counts: Mapping[str, Counter[object]]
    constraints: tuple[ConstraintFacts, ...]

    @property
    def complete(self) -> bool:
        """Whether shards can be compiled; if not, the facts of every shard must be found again, given these."""
        return all(constraint.head.inside or constraint.pieces for constraint in self.constraints)

    def __add__(self, other: CorpusFacts) -> CorpusFacts:
        ahead: dict[Unit, int] = {"instance": sum(self.n_instances), "occurrence": sum(self.n_occurrences)}
        steps = {name: ahead[unit] for name, unit in other.numbered.items()}
        counts = {
            name: counter + _moved(other.counts[name], steps.get(name, 0))
            for name, counter in self.counts.items()
            if name in other.counts
        }
        joined = [
            _join(left, right, len(self.n_instances), steps)
            for left, right in zip(self.constraints, other.constraints, strict=True)
        ]
        return CorpusFacts(
            self.n_instances + other.n_instances,
            self.n_occurrences + other.n_occurrences,
            self.numbered,
            counts,
            tuple(joined),
        )

    @cached_property
    def placed(self) -> tuple[Placed | None, ...]:
        """The distinct rows of every constraint, and where they are solved; None for constraints inside instances."""
        return tuple(
            Placed.of(constraint.head, _join_rows(constraint.head, constraint.pieces)) if constraint.pieces else None
            for constraint in self.constraints
        )


def find_rows(shard_rows: RowFacts, rows: RowFacts, number: int) -> Ints:
    """Which of the corpus's rows the rows of shard ``number`` are, shape (n_own_rows,)."""
    candidates = np.flatnonzero((rows.first <= number) & (number <= rows.last))
    n = len(candidates)
    if n == len(shard_rows.side):
        return candidates
    keys = [join_keys([key[candidates], shard_rows.keys[name]]) for name, key in rows.keys.items()]
    row, _ = number_groups(
        [np.concatenate([rows.side[candidates], shard_rows.side]), *map(numbers_of, keys)], n + len(shard_rows.side)
    )
    place = np.empty(n, np.int64)
    place[row[:n]] = candidates
    return place[row[n:]]


def _moved(counts: Counter[object], step: int) -> Counter[object]:
    return Counter({value + step: n for value, n in counts.items()}) if step else counts  # type: ignore[operator]


def _join(left: ConstraintFacts, right: ConstraintFacts, shards: int, steps: Mapping[str, int]) -> ConstraintFacts:
    head = left.head
    if left.once or right.once:
        raise InvalidInputError(
            f"{quoted(head.name)} names parts or rows of one batch by number, and the corpus is cut into several "
            "shards; keep the data in one shard, or write a constraint of your own whose rows(structure) fits any "
            "shard"
        )
    if head != right.head:
        raise InvalidInputError(
            f"{quoted(head.name)}: rows(structure) must give the same constraint for every shard, got "
            f"{quoted(head.text)} and {quoted(right.head.text)}; leave to E.count what depends on the data"
        )
    pieces = left.pieces + tuple(piece.shift(shards, steps) for piece in right.pieces)
    return replace(left, pieces=pieces if left.apart or not pieces else (_join_rows(head, pieces),))


def _join_rows(head: Head, pieces: Sequence[RowFacts]) -> RowFacts:
    """The distinct rows of shards that follow each other."""
    one = pieces[0]
    if len(pieces) == 1:
        return one
    if head.listed:
        if not all(np.array_equal(one.constant, x.constant) and same_keys(one.keys, x.keys) for x in pieces):
            raise InvalidInputError(
                f"{quoted(head.name)}: rows over the corpus need the same bounds b in every shard, and the same keys; "
                "give b of the whole corpus, and rows without entries where a shard has none"
            )
        return replace(one, filled=np.logical_or.reduce([piece.filled for piece in pieces]), last=pieces[-1].last)
    keys = {name: join_keys([piece.keys[name] for piece in pieces], name) for name in one.keys}
    side = np.concatenate([piece.side for piece in pieces])
    row, first = number_groups([side, *map(numbers_of, keys.values())], len(side))
    last = np.empty(len(first), np.int64)
    last[row] = np.arange(len(row))  # a repeated index keeps the last value: the row of the last shard that has it
    filled = np.zeros(len(first), np.bool_)
    filled[row[np.concatenate([piece.filled for piece in pieces])]] = True
    rows = np.split(row, np.cumsum([len(piece.side) for piece in pieces])[:-1])

    def join_tallies(tallies: Iterable[tuple[Tally, ...]]) -> tuple[Tally, ...]:
        return tuple(_join_tally(of_pieces, rows, len(first)) for of_pieces in zip(*tallies, strict=True))

    return RowFacts(
        side[first],
        {name: key[first] for name, key in keys.items()},
        np.concatenate([piece.constant for piece in pieces])[first],
        join_tallies(piece.counts for piece in pieces),
        join_tallies(piece.wholes for piece in pieces),
        filled,
        np.concatenate([piece.first for piece in pieces])[first],
        np.concatenate([piece.last for piece in pieces])[last],
        frozenset.intersection(*(piece.steady for piece in pieces)),
    )


def _join_tally(pieces: Sequence[Tally], rows: Sequence[Ints], n_rows: int) -> Tally:
    """The counts of shards that follow each other; ``rows`` tells what the rows of each have become."""
    counts = np.bincount(np.concatenate(rows), np.concatenate([piece.counts for piece in pieces]), n_rows)
    counted = zip(*(piece.counted for piece in pieces), strict=True)
    return Tally(counts.astype(np.float64), tuple(_join_counted(of_pieces, rows) for of_pieces in counted))


def _join_counted(pieces: Sequence[Counted], rows: Sequence[Ints]) -> Counted:
    """Every value of a row once; ``rows`` tells what the rows of each piece have become."""
    row = np.concatenate([to[piece.row] for piece, to in zip(pieces, rows, strict=True)])
    value = join_keys([piece.value for piece in pieces])
    number, first = number_groups([row, numbers_of(value)], len(row))
    largest = np.full(len(first), -np.inf)
    np.maximum.at(largest, number, np.concatenate([piece.largest for piece in pieces]))
    return Counted(row[first], value[first], largest, np.concatenate([piece.factor for piece in pieces])[first])
