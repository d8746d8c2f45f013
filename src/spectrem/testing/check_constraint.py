"""Check compiled constraints against an evaluation part by part."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem.constraints.columns import evaluate
from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.compilation.draft import PartTable, used_columns
from spectrem.constraints.compilation.rows import Rows, row_text
from spectrem.constraints.constraint import AnyConstraint, Constraint, Expectation, LinearConstraint, Term
from spectrem.structures.structure import Structure

Key = tuple[Any, ...]
LiteralRow = tuple[dict[int, float], float]


def check_constraint(
    constraint: AnyConstraint,
    structure: Structure,
    extra_columns: Mapping[str, ArrayLike] | None = None,
    *,
    seed: int = 0,
) -> Rows:
    """Check what a constraint compiles to over one batch; for tests of one's own constraints.

    The transpose is that of the matrix (``⟨U mu, lambda⟩ = ⟨mu, Uᵀ lambda⟩``), rows of instance scope stay inside
    their instance, slack groups are numbered without gaps, and the rows of a constraint in the language equal those
    of a slow evaluation, part by part.

    Parameters
    ----------
    constraint : constraint
        A constraint of the language, a matrix (`spectrem.constraints.linear`), or an object with a method ``rows``.
    structure : Structure
    extra_columns : mapping of name -> array, optional
    seed : int
        Seed of the random vectors.

    Returns
    -------
    Rows
        The compiled rows.

    Raises
    ------
    AssertionError
        Naming the row that differs.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.structures.categorical import Categorical
    >>> rows = check_constraint((E[part("label") == 1] >= 0.5).per("instance"), Categorical([2, 3]))
    >>> rows.bounds
    array([-0.5, -0.5])
    """
    rows = compile_constraints(constraint, structure, extra_columns)
    (block,) = rows.blocks
    n_rows = len(rows.bounds)
    assert rows.matrix.shape == (n_rows, structure.n_unary), f"the matrix has shape {rows.matrix.shape}"
    assert (block.start, block.stop) == (0, n_rows), "the block does not cover the rows"
    assert np.isfinite(rows.bounds).all(), "a bound is not finite"
    assert np.isfinite(rows.matrix.data).all(), "a coefficient is not finite"
    rng = np.random.default_rng(seed)
    multipliers, marginals = rng.normal(size=n_rows), rng.normal(size=structure.n_unary)
    left, right = float((rows.matrix @ marginals) @ multipliers), float(marginals @ (rows.matrix.T @ multipliers))
    assert math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9), f"<U mu, l> = {left}, <mu, U' l> = {right}"
    groups = np.unique(block.slack_group)
    assert np.array_equal(groups, np.arange(len(groups))), "slack groups are not numbered 0, 1, ..."
    for row in range(n_rows):
        inside = rows.matrix.indices[rows.matrix.indptr[row] : rows.matrix.indptr[row + 1]]
        if block.scope == "instance":
            wrong = structure.instance[inside] != rows.row_instance[row]
            assert not wrong.any(), f"{row_text(rows, row)} leaves instance {rows.row_instance[row]}"
        else:
            assert rows.row_instance[row] == -1, f"{row_text(rows, row)} of corpus scope names an instance"
    if not isinstance(constraint, (Constraint, LinearConstraint)):
        constraint = constraint.rows(structure)
    if isinstance(constraint, Constraint):
        _check_literally(constraint, PartTable(structure, extra_columns or {}), rows)
    return rows


def _check_literally(constraint: Constraint, table: PartTable, rows: Rows) -> None:
    expected = _literal_rows(constraint, table)
    compiled: dict[Key, list[LiteralRow]] = defaultdict(list)
    (block,) = rows.blocks
    for row in range(len(rows.bounds)):
        span = slice(rows.matrix.indptr[row], rows.matrix.indptr[row + 1])
        entries = dict(zip(rows.matrix.indices[span].tolist(), rows.matrix.data[span].tolist(), strict=True))
        compiled[tuple(values[row].item() for values in block.keys.values())].append((entries, rows.bounds[row]))
    assert compiled.keys() == expected.keys(), f"rows for {sorted(compiled)}, and by parts for {sorted(expected)}"
    for key, row_list in expected.items():
        same = len(row_list) == len(compiled[key]) and all(map(_same, row_list, compiled[key]))
        assert same, f"{constraint.name!r} at {key}: compiled to {compiled[key]}, and by parts to {row_list}"


def _same(one: LiteralRow, other: LiteralRow) -> bool:
    (weights, bound), (other_weights, other_bound) = one, other
    return (
        weights.keys() == other_weights.keys()
        and math.isclose(bound, other_bound, rel_tol=1e-12, abs_tol=1e-12)
        and all(math.isclose(weights[part], other_weights[part], rel_tol=1e-12) for part in weights)
    )


def _literal_rows(constraint: Constraint, table: PartTable) -> dict[Key, list[LiteralRow]]:
    """The rows of every group, for one side of the constraint after the other, upper side first."""
    names = constraint.key_columns
    batch = _Parts(table, constraint)
    groups: dict[Key, list[int]] = {} if names else {(): []}
    for part, values in enumerate(batch.values):
        if all(name in values for name in names):
            groups.setdefault(tuple(values[name] for name in names), []).append(part)
    result: dict[Key, list[LiteralRow]] = defaultdict(list)
    for side in constraint.sides:
        for key, members in groups.items():
            if not all(batch.count(term.over, members) for term in side.terms if term.over is not None):
                continue
            entries, bound = batch.row(side, members)
            if entries or (bound != 0 if constraint.equality else bound < 0):
                result[key].append((entries, bound))
    return result


class _Parts:
    """The parts of a batch: the values of each by column, without those that are missing, and its choice by None."""

    def __init__(self, table: PartTable, constraint: Constraint) -> None:
        self._instance = table.structure.instance.tolist()
        terms = (term for side in constraint.sides for term in side.terms)
        self._weights = {one: _weights(one, table) for term in terms for one in (term, term.over) if one is not None}
        self.values: list[dict[str | None, Any]] = [{None: choice} for choice in table.structure.choice.tolist()]
        for name in used_columns(constraint):
            column = table.column(name)
            mask = table.missing(name, column)
            missing = [False] * len(self.values) if mask is None else mask.tolist()
            for values, value, is_missing in zip(self.values, column.tolist(), missing, strict=True):
                if not is_missing:
                    values[name] = value

    def row(self, side: Expectation, members: Sequence[int]) -> LiteralRow:
        """``side <= 0`` for a group of parts: coefficients that are not 0, and the bound."""
        entries: dict[int, float] = defaultdict(float)
        bound = float(-side.constant)
        for term in side.terms:
            factor = term.coefficient / (1 if term.over is None else self.count(term.over, members))
            if term.kind == "count":
                bound -= factor * self.count(term, members)
            else:
                weights = self._weights[term]
                for part in members if term.at is None else self._elsewhere(*term.at, members):
                    entries[part] += factor * weights[part]
        return {part: weight for part, weight in entries.items() if weight != 0}, bound

    def count(self, term: Term, members: Sequence[int]) -> float:
        """The sum over choices, or values of a column, of the largest weight among the parts that have one."""
        largest: dict[Any, float] = {}
        for part in members:
            if term.each in self.values[part]:
                value = self.values[part][term.each]
                largest[value] = max(self._weights[term][part], largest.get(value, -math.inf))
        return sum(largest.values())

    def _elsewhere(self, column: str, key: str, members: Sequence[int]) -> list[int]:
        """The parts whose ``column`` has the value that ``key`` has in the group, in the same instance."""
        wanted = {(self.values[part][key], self._instance[part]) for part in members if key in self.values[part]}
        places = zip((values.get(column) for values in self.values), self._instance, strict=True)
        return [part for part, place in enumerate(places) if column in self.values[part] and place in wanted]


def _weights(term: Term, table: PartTable) -> list[float]:
    """The weight of every part in a term."""
    if isinstance(term.weight, EllipsisType):
        return [1.0] * table.structure.n_unary
    return np.asarray(evaluate(term.weight, table.column), np.float64).tolist()
