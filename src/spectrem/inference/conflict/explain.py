"""Constraints that cannot hold: tests before any solve, proofs after one, and the errors that name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.exceptions import InfeasibleConstraintError, setting
from spectrem.inference.conflict.search import Conflict, find_conflict, find_proof, unproven
from spectrem.inference.oracle import BatchDual
from spectrem.inference.program import Deadline
from spectrem.inference.result import Status
from spectrem.inference.segments import max_by, sum_by
from spectrem.inference.solvers.solver import Solution
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

_MOST_PROBLEMS = 100
_SHOWN = 3


def refuse_unreachable(scores: Parts, rows: Rows) -> None:
    """Raise if a row cannot hold even if every possible part takes any value in [0, 1].

    Raises
    ------
    InfeasibleConstraintError
        Naming the constraint, the instance and the number out of reach.
    """
    bad, least, most = _reach(scores, rows)
    for block in rows.blocks:
        span = slice(block.start, block.stop)
        if not bad[span].any():
            continue
        n_bad, k = int(bad[span].sum()), int(np.flatnonzero(bad[span])[0])
        row = block.start + k
        low, high, bound, sign = least[row], most[row], rows.bounds[row], block.senses[k]
        low, high, bound = (-high, -low, -bound) if sign == ">=" else (low, high, bound)
        more = f" (and {n_bad - 1} more rows)" if n_bad > 1 else ""
        error = InfeasibleConstraintError(
            f"{block.name!r}: no feasible q {place_of(block, k, int(rows.row_instance[row]))}: its possible parts "
            f"reach {low + 0.0:g} to {high + 0.0:g}, and the row demands {sign} {bound:g}{more}; relax the bound, "
            "give the constraint slack (a penalty or a bound), drop the instance, or leave the constraint out there "
            f"with {setting('infeasible', 'skip')}"
        )
        error.rows = tuple((block.start + np.flatnonzero(bad[span])).tolist())
        error.keys = keys_of(rows, row)
        raise error


def drop_unreachable(scores: Parts, rows: Rows) -> Bools:
    """The rows to keep, shape (n_rows,), bool: none of a constraint in an instance where one of them cannot hold."""
    return drop_rows(rows, np.flatnonzero(_reach(scores, rows)[0]))


def drop_rows(rows: Rows, bad: ArrayLike) -> Bools:
    """The rows to keep: none of a constraint in an instance where it has a bad row; all over several instances."""
    kept = np.ones(len(rows.bounds), np.bool_)
    marked = np.zeros(len(rows.bounds), np.bool_)
    marked[np.asarray(bad, np.int64)] = True
    for block in rows.blocks:
        if block.scope == "instance":
            span = slice(block.start, block.stop)
            instance = rows.row_instance[span]
            kept[span] = ~np.isin(instance, instance[marked[span]])
    return kept


def _reach(scores: Parts, rows: Rows) -> tuple[Bools, Floats, Floats]:
    """Rows that cannot hold, and the least and largest value of each with its possible parts anywhere in [0, 1]."""
    n = len(rows.bounds)
    if (rows.row_instance < 0).all():
        return np.zeros(n, np.bool_), np.zeros(n), np.zeros(n)
    data = np.where(np.isneginf(scores.unary[rows.matrix.indices]), 0.0, rows.matrix.data)
    row = np.repeat(np.arange(n), np.diff(rows.matrix.indptr))
    least = sum_by(row, np.minimum(data, 0.0), n)
    most = sum_by(row, np.maximum(data, 0.0), n)
    bad = np.zeros(n, np.bool_)
    for block in rows.blocks:
        # Weights of instances may multiply corpus rows; this check does not know them.
        if block.scope != "instance" or (block.slack is not None and block.slack.kind == "penalty"):
            continue
        give = 0.0 if block.slack is None else block.slack.strength
        span = slice(block.start, block.stop)
        bounds = rows.bounds[span]
        room = give + 1e-9 * np.maximum.reduce([np.abs(bounds), -least[span], most[span]])
        bad[span] = least[span] > bounds + room
        if block.equality:
            bad[span] |= most[span] < bounds - room
    return bad, least, most


def prove_infeasible(dual: BatchDual, solution: Solution) -> Solution:
    """Test problems that ran out of iterations by linear programs; those that cannot hold get a proof."""
    status, multipliers = solution.status.copy(), solution.multipliers.copy()
    for p in np.flatnonzero(status == Status.MAX_ITERATIONS)[:_MOST_PROBLEMS]:
        proof = find_proof(dual, int(p))
        if proof is not None:
            status[p] = Status.INFEASIBLE
            multipliers = np.where(dual.row_problem == p, proof, multipliers)
    return replace(solution, status=status, multipliers=multipliers)


def explain_infeasible(
    dual: BatchDual, status: NDArray[np.int8], multipliers: Floats | None = None, *, whole: bool = False
) -> InfeasibleConstraintError:
    """The error for infeasible problems: the rows of the first one that conflict, by constraint.

    ``multipliers``, shape (n_rows,), may prove it. The error's ``rows`` are those of all problems; where neither a
    proof nor a search, of a hundred problems at most, finds which rows conflict, all without a penalty.
    """
    bad = status == Status.INFEASIBLE
    prices = np.zeros(len(dual.row_problem)) if multipliers is None else multipliers
    direction = _shorten(dual, dual.terms.recession(prices), bad)
    problems = np.flatnonzero(bad)
    # Rows that the proof uses; in problems without one, all that have no penalty.
    proven = max_by(dual.row_problem, np.abs(direction), dual.n_problems) > 0
    involved = np.where(proven[dual.row_problem], direction != 0, ~dual.terms.penalised) & bad[dual.row_problem]
    # The first problem is described; of the others only those are searched whose rows no proof names.
    first = problems[0]
    described = unproven(np.flatnonzero(involved & (dual.row_problem == first)))
    for p in [first, *problems[1:_MOST_PROBLEMS][~proven[problems[1:_MOST_PROBLEMS]]]]:
        conflict = find_conflict(dual, int(p), direction, whole=whole)
        if conflict is None:
            continue
        described = conflict if p == first else described
        involved[dual.row_problem == p] = False
        involved[conflict.rows] = True
    return _error(described, dual.rows, np.flatnonzero(involved), len(problems))


def explain_conflict(
    structure: Structure,
    scores: Parts,
    rows: Rows,
    *,
    weights: Floats | None = None,
    whole: bool = False,
    seconds: float = 5.0,
) -> InfeasibleConstraintError | None:
    """The error for rows that another method found infeasible, or None if no conflict is found in time.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Only where they are ``-inf`` matters.
    rows : Rows
        With the bounds that could not be met.
    weights : ndarray of shape (n_instances,) or None
    whole : bool
        Whether whole structures had to meet the rows; with False, expectations.
    seconds : float
        For all problems together.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.constraints.compilation.compile import compile_constraints
    >>> from spectrem.structures import Categorical
    >>> half = (E[part("label") == 1] == 1.5).named("half")
    >>> labels = Categorical([2, 2])
    >>> print(explain_conflict(labels, Parts(np.zeros(4)), compile_constraints(half, labels), whole=True))
    ... # doctest: +ELLIPSIS
    'half': no feasible q over the corpus (== 1.5); expectations could meet it, whole structures cannot; relax ...
    """
    dual, deadline = BatchDual(structure, scores, rows, 0.0, weights), Deadline(seconds)
    for problem in range(min(dual.n_problems, _MOST_PROBLEMS)):
        conflict = find_conflict(dual, problem, whole=whole, seconds=deadline.left)
        if conflict is not None:
            return _error(conflict, rows, conflict.rows)
    return None


def _error(conflict: Conflict, rows: Rows, involved: Ints, n_problems: int = 1) -> InfeasibleConstraintError:
    error = InfeasibleConstraintError(describe_conflict(conflict, rows, n_problems))
    error.rows, error.keys = tuple(involved.tolist()), keys_of(rows, int(conflict.rows[0]))
    return error


def _shorten(dual: BatchDual, direction: Floats, problems: Bools) -> Floats:
    """Keep the largest entries of every problem's proof of infeasibility, as few as still prove it (by bisection)."""
    size = np.where(dual.row_weight > 0, np.abs(direction), 0.0)
    order = np.lexsort((np.arange(len(size)), -size, dual.row_problem))
    rank = np.empty(len(size), np.int64)
    rank[order] = np.arange(len(size)) - np.searchsorted(dual.row_problem[order], dual.row_problem[order])
    few = np.zeros(dual.n_problems, np.int64)
    many = np.bincount(dual.row_problem[size > 0], minlength=dual.n_problems)
    while (unsettled := problems & (many - few > 1)).any():
        middle = (few + many) // 2
        trial = np.where(rank < middle[dual.row_problem], direction, 0.0)
        proven = dual.infeasible(trial, unsettled)
        many = np.where(proven, middle, many)
        few = np.where(unsettled & ~proven, middle, few)
    return np.where((rank < many[dual.row_problem]) & (size > 0), direction, 0.0)


def describe_conflict(conflict: Conflict, rows: Rows, n_problems: int = 1) -> str:
    """The message of an `InfeasibleConstraintError`: constraints, groups, bounds, how sure it is, and what to try.

    Parameters
    ----------
    conflict : Conflict
    rows : Rows
        Of the batch.
    n_problems : int
        How many separate problems are infeasible; the conflict is of one of them.

    Returns
    -------
    str
    """
    total = _sum(conflict, rows)
    sentences = []
    for block in rows.blocks:
        inside = np.flatnonzero((conflict.rows >= block.start) & (conflict.rows < block.stop))
        if not len(inside):
            continue
        shown = [_row(conflict, rows, block, int(k), bool(total)) for k in inside[:_SHOWN]]
        text = shown[0] + "".join(f", {place.removeprefix('in ')}" for place in shown[1:])
        n_more = len(inside) - len(shown)
        sentences.append((block.name, text + (f" and {n_more} more row{'s' * (n_more > 1)}" if n_more else "")))
    text = f"{sentences[0][0]!r}: no feasible q {sentences[0][1]}"
    if len(sentences) > 1:
        text += "; it conflicts with " + " and with ".join(f"{name!r} {where}" for name, where in sentences[1:])
    text += total
    if conflict.whole:
        it = "it" if len(conflict.rows) == 1 else "them"
        text += f"; expectations could meet {it}, whole structures cannot"
    if len(conflict.rows) > 1:
        if conflict.smallest:
            text += "; this is the smallest set of rows that conflict"
        elif conflict.irreducible:
            text += "; no subset of these rows conflicts"
        else:
            text += "; the conflict is among these rows, of which some may have no part in it"
    if n_problems > 1:
        text += f" ({n_problems} separate problems are infeasible)"
    return f"{text}; {_advice(conflict, rows)}"


def place_of(block: Block, k: int, instance: int) -> str:
    """The place of row ``k`` of a block, as messages name it."""
    keys = ", ".join(f"{name} {values[k]}" for name, values in block.keys.items())
    if list(block.keys) == ["row"] and block.scope == "corpus":
        return f"in {keys} of its matrix" if block.stop - block.start > 1 else "over the corpus"
    if keys:
        return f"in {keys}"
    return f"in instance {instance}" if instance >= 0 else "over the corpus"


def keys_of(rows: Rows, row: int) -> dict[str, Any]:
    """The values of the columns by which a row is named, for errors."""
    block = next(block for block in rows.blocks if block.start <= row < block.stop)
    return {name: values[row - block.start] for name, values in block.keys.items()}


def _row(conflict: Conflict, rows: Rows, block: Block, k: int, summed: bool) -> str:
    """Place, bound and what the others allow, of the k-th row of the conflict."""
    row = int(conflict.rows[k])
    place = place_of(block, row - block.start, int(rows.row_instance[row]))
    who = "the others leave" if len(conflict.rows) > 1 else "it can be"
    allowed = np.nan if summed else conflict.allowed[k]
    return f"{place} ({demand_of(block, row, rows.bounds[row], allowed, conflict.multipliers[k] >= 0, who)})"


def demand_of(block: Block, row: int, bound: float, allowed: float, from_above: bool, who: str = "it can be") -> str:
    """The demand of a row as it was written, and the expectation that it can have (NaN if that is not known).

    ``from_above`` says that the compiled row is ``U mu <= bound`` and ``allowed`` the least that it can be.
    """
    sense, sign = _sense(block, row)
    digits = _digits(bound, allowed)
    demand = f"{sense} {_number(sign * bound, digits)}"
    if block.slack is not None:
        demand += f" with slack {_number(block.slack.strength)}"
    if np.isnan(allowed):
        return demand
    least = from_above == (sign > 0)
    return f"{demand}, and {who} {_number(sign * allowed, digits)} at {'least' if least else 'most'}"


def _sense(block: Block, row: int) -> tuple[str, float]:
    """Comparison as it was written, and the sign that turns the compiled row into it."""
    sense = str(block.senses[row - block.start])
    return sense, -1.0 if sense == ">=" else 1.0


def _sum(conflict: Conflict, rows: Rows) -> str:
    """The sum of bounds of rows that are all least sizes, or all largest ones, and the sum that is possible."""
    if np.isnan(conflict.total):
        return ""
    pulls, demanded = set(), 0.0
    for row, multiplier in zip(conflict.rows, conflict.multipliers, strict=True):
        block = next(b for b in rows.blocks if b.start <= row < b.stop)
        pulls.add(float(np.sign(multiplier)) * _sense(block, int(row))[1])
        demanded += np.sign(multiplier) * rows.bounds[row]
    if len(pulls) > 1:
        return ""
    sign = 1.0 if pulls == {1.0} else -1.0
    digits = _digits(demanded, conflict.total)
    reach = ("reach", "most") if sign < 0 else ("come to", "least")
    return (
        f"; the bounds of these {len(conflict.rows)} rows sum to {_number(sign * demanded, digits)}, and together they "
        f"can {reach[0]} {_number(sign * conflict.total, digits)} at {reach[1]}"
    )


def _digits(left: float, right: float) -> int:
    """The number of digits in which two numbers differ."""
    return 7 if _number(left) != _number(right) else 12


def _number(value: float, digits: int = 7) -> str:
    return f"{value + 0.0:.{digits}g}"


def _advice(conflict: Conflict, rows: Rows) -> str:
    one = len(conflict.rows) == 1
    text = (
        "relax the bound, give the constraint slack (a penalty or a bound)"
        if one
        else "relax one of the bounds, give one of the constraints slack (a penalty or a bound)"
    )
    if (rows.row_instance[conflict.rows] < 0).all():
        return f"{text}, or leave {'it' if one else 'one of them'} out"
    return f"{text}, drop the instance, or leave constraints out there with {setting('infeasible', 'skip')}"
