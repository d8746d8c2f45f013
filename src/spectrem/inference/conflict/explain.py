"""Constraints that cannot hold: tests before any solve, proofs after one, and the errors that name them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError, setting
from spectrem.inference.conflict.search import Conflict, find_conflict, find_proof, unproven
from spectrem.inference.conflict.text import describe_conflict, keys_of, place_of
from spectrem.inference.highs import Deadline
from spectrem.inference.oracle import BatchDual
from spectrem.inference.result import Status
from spectrem.inference.segments import max_by, sum_by
from spectrem.inference.solvers.solver import Solution
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

_MOST_PROBLEMS = 100


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
