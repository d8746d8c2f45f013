"""Check compiled constraints against an evaluation part by part."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem.constraints.columns import Column
from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.compilation.draft import PartTable, used_columns
from spectrem.constraints.compilation.rows import Rows, row_text
from spectrem.constraints.constraint import AnyConstraint, Constraint, LinearConstraint, Term
from spectrem.structures.structure import Structure

Key = tuple[Any, ...]
LiteralRow = tuple[dict[int, float], float]
LiteralPart = tuple[dict[str | None, Any], set[str | None]]

_OPERATORS: dict[str, Any] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "&": lambda a, b: a and b,
    "|": lambda a, b: a or b,
    "~": lambda a: not a,
    "negative": operator.neg,
    "isin": lambda value, values: value in values,
}


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
        What it compiled to.

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
    """The rows of every group, from a loop over all parts for each side of the constraint, upper side first."""
    names = constraint.key_columns
    parts, instances = list(_parts(table, used_columns(constraint))), table.structure.instance.tolist()
    result: dict[Key, list[LiteralRow]] = defaultdict(list)
    for side in constraint.sides:
        wholes = {over: _literal_counts(over, names, parts) for over in {term.over for term in side.terms}}
        weights: dict[Key, dict[int, float]] = {} if names else {(): {}}
        largest: dict[Key, float] = {}
        places: dict[tuple[Key, int], tuple[Any, int]] = {}
        for part, (values, absent) in enumerate(parts):
            if not absent.isdisjoint(names):
                continue
            key = tuple(values[name] for name in names)
            group = weights.setdefault(key, {})
            for number, term in enumerate(side.terms):
                if term.at is not None:
                    if term.at[1] not in absent:
                        places[key, number] = values[term.at[1]], instances[part]
                    continue
                weight = 1 if term.weight is ... else _value(term.weight, values)
                weight = weight / (wholes[term.over].get(key, 0) or math.nan)
                if term.kind == "count":
                    if term.each not in absent:
                        place = (key, id(term), term.coefficient, values[term.each])
                        largest[place] = max(float(weight), largest.get(place, -math.inf))
                else:
                    group[part] = group.get(part, 0) + term.coefficient * weight
        for (key, number), there in places.items():
            _add_elsewhere(
                weights[key], side.terms[number], there, parts, instances, wholes[side.terms[number].over][key]
            )
        counts: dict[Key, float] = defaultdict(float)
        for (key, _, coefficient, _), weight in largest.items():
            counts[key] += coefficient * weight
        for key, group in weights.items():
            if not all(whole.get(key, 0) for whole in wholes.values()):
                continue
            entries = {part: weight for part, weight in group.items() if weight != 0}
            bound = -side.constant - counts[key]
            if entries or (bound != 0 if constraint.equality else bound < 0):
                result[key].append((entries, bound))
    return result


def _add_elsewhere(
    group: dict[int, float],
    term: Term,
    place: tuple[Any, int],
    parts: Sequence[LiteralPart],
    instances: Sequence[int],
    whole: float,
) -> None:
    """Add a term of parts elsewhere: at a value of a column, in an instance."""
    assert term.at is not None
    for part, (values, absent) in enumerate(parts):
        if term.at[0] not in absent and (values[term.at[0]], instances[part]) == place:
            weight = 1 if term.weight is ... else _value(term.weight, values)
            group[part] = group.get(part, 0) + term.coefficient * weight / (whole or math.nan)


def _literal_counts(over: Term | None, names: tuple[str, ...], parts: Sequence[LiteralPart]) -> dict[Key, float]:
    """The count by which a term is divided in every group; 1 for a term that is not divided."""
    largest: dict[Key, dict[Any, float]] = defaultdict(dict)
    for values, absent in parts:
        if not absent.isdisjoint(names) or (over is not None and over.each in absent):
            continue
        group = largest[tuple(values[name] for name in names)]
        if over is None:
            group[None] = 1.0
        else:
            weight = float(1 if over.weight is ... else _value(over.weight, values))
            group[values[over.each]] = max(weight, group.get(values[over.each], -math.inf))
    totals = {key: sum(group.values()) for key, group in largest.items()}
    return totals if names or over is not None else {(): 1.0}


def _parts(table: PartTable, names: set[str]) -> Iterator[LiteralPart]:
    """The values of every part by column, with its choice under None, and the columns whose value is missing."""
    columns = {name: table.column(name) for name in names}
    missing = {name: table.missing(name, column) for name, column in columns.items()}
    for part, choice in enumerate(table.structure.choice.tolist()):
        values: dict[str | None, Any] = {None: choice}
        values.update((name, column[part : part + 1].tolist()[0]) for name, column in columns.items())
        yield values, {name for name, mask in missing.items() if mask is not None and mask[part]}


def _value(expression: object, values: Mapping[str | None, Any]) -> Any:
    """The value of an expression on one part."""
    if not isinstance(expression, Column):
        return expression
    if expression.operation == "allowed_by":
        value, key = (_value(operand, values) for operand in expression.operands[:2])
        return value in dict(expression.operands[2]).get(key, [value])
    if expression.operation == "part":
        return values[expression.operands[0]]
    return _OPERATORS[expression.operation](*(_value(operand, values) for operand in expression.operands))
