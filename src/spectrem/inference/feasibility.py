"""Constraints that cannot hold: found early, and named."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.rows import Block, Rows
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference.oracle import BatchDual
from spectrem.inference.result import Status
from spectrem.inference.segments import max_by, sum_by
from spectrem.inference.solvers.solver import Solution
from spectrem.structures.parts import Parts

_SHOWN = 3


def refuse_unreachable(scores: Parts, rows: Rows) -> None:
    """Raise if a row cannot hold even with every possible part free to be anything in [0, 1].

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
        flipped = most[row] <= 0 and not block.equality  # a lower bound, told as the user wrote it
        low, high, bound = least[row], most[row], rows.bounds[row]
        low, high, bound = (-high, -low, -bound) if flipped else (low, high, bound)
        sign = "==" if block.equality else ">=" if flipped else "<="
        more = f" (and {n_bad - 1} more rows)" if n_bad > 1 else ""
        error = InfeasibleConstraintError(
            f"{block.name!r}: no feasible q in {_place(block, k, int(rows.row_instance[row]))}: its possible parts "
            f"reach {low + 0.0:g} to {high + 0.0:g}, and the row demands {sign} {bound:g}{more}; {_ADVICE}"
        )
        error.rows = tuple((block.start + np.flatnonzero(bad[span])).tolist())
        raise error


def drop_unreachable(scores: Parts, rows: Rows) -> NDArray[np.bool_]:
    """Rows that can hold, shape (n_rows,), bool, but for others of a constraint and instance where one cannot."""
    return drop_rows(rows, np.flatnonzero(_reach(scores, rows)[0]))


def drop_rows(rows: Rows, bad: ArrayLike) -> NDArray[np.bool_]:
    """All rows but those of a constraint in an instance where it has a bad row; rows of corpus scope stay."""
    kept = np.ones(len(rows.bounds), np.bool_)
    marked = np.zeros(len(rows.bounds), np.bool_)
    marked[np.asarray(bad, np.int64)] = True
    for block in rows.blocks:
        if block.scope == "instance":
            span = slice(block.start, block.stop)
            instance = rows.row_instance[span]
            kept[span] = ~np.isin(instance, instance[marked[span]])
    return kept


def _reach(scores: Parts, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Rows out of reach, and the least and the most that each can be with its possible parts free in [0, 1]."""
    n = len(rows.bounds)
    data = np.where(np.isneginf(scores.unary[rows.matrix.indices]), 0.0, rows.matrix.data)
    row = np.repeat(np.arange(n), np.diff(rows.matrix.indptr))
    least = sum_by(row, np.minimum(data, 0.0), n)
    most = sum_by(row, np.maximum(data, 0.0), n)
    bad = np.zeros(n, np.bool_)
    for block in rows.blocks:
        # Corpus rows may be scaled by instance weights, which this check does not see.
        if block.scope == "corpus" or (block.slack is not None and block.slack.kind == "penalty"):
            continue
        give = 0.0 if block.slack is None else block.slack.strength
        span = slice(block.start, block.stop)
        bounds = rows.bounds[span]
        room = give + 1e-9 * np.maximum(1.0, np.abs(bounds))
        bad[span] = least[span] > bounds + room
        if block.equality:
            bad[span] |= most[span] < bounds - room
    return bad, least, most


_ADVICE = (
    "relax the bound, give the constraint slack (a penalty or a bound), drop the instance, or leave the constraint out "
    'there with infeasible="skip"'
)


def explain_infeasible(dual: BatchDual, solution: Solution) -> InfeasibleConstraintError:
    """The error for a solution with infeasible problems: the rows that conflict, by constraint."""
    bad = solution.status == Status.INFEASIBLE
    direction = _simplify(dual, dual.terms.recession(solution.multipliers), bad)
    problems = np.flatnonzero(bad)
    first = problems[0]
    rows = np.flatnonzero((dual.row_problem == first) & (direction != 0))
    if not len(rows):
        rows = np.flatnonzero((dual.row_problem == first) & ~dual.terms.penalised)
    sentences = []
    for block in dual.rows.blocks:
        inside = rows[(rows >= block.start) & (rows < block.stop)]
        if len(inside):
            inside = inside[np.argsort(-np.abs(direction[inside]), kind="stable")]
            places = [_place(block, int(r) - block.start, int(dual.rows.row_instance[r])) for r in inside[:_SHOWN]]
            more = f" and {len(inside) - _SHOWN} more rows" if len(inside) > _SHOWN else ""
            sentences.append(f"{block.name!r} in {', '.join(places)}{more}")
    head = sentences[0].split(" in ", 1)
    text = f"{head[0]}: no feasible q in {head[1]}"
    if len(sentences) > 1:
        text += f"; it conflicts with {'; '.join(sentences[1:])}"
    if len(problems) > 1:
        text += f" ({len(problems)} separate problems are infeasible)"
    error = InfeasibleConstraintError(f"{text}; {_ADVICE}")
    error.rows = tuple(np.flatnonzero(bad[dual.row_problem] & _involved(dual, direction)).tolist())
    return error


def _involved(dual: BatchDual, direction: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows that a proof uses; in problems without one, all that have no penalty."""
    proven = max_by(dual.row_problem, np.abs(direction), dual.n_problems) > 0
    return np.where(proven[dual.row_problem], direction != 0, ~dual.terms.penalised)


def _simplify(dual: BatchDual, direction: NDArray[np.float64], bad: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Drop small entries of a proof of infeasibility as long as what is left still proves it."""
    largest = max_by(dual.row_problem, np.abs(direction), dual.n_problems)
    relative = np.abs(direction) / np.where(largest > 0, largest, 1.0)[dual.row_problem]
    for least in (0.5, 0.1, 0.01):
        trial = np.where(relative >= least, direction, 0.0)
        if dual.infeasible(trial, bad)[bad].all():
            return trial
    return direction


def _place(block: Block, k: int, instance: int) -> str:
    keys = ", ".join(f"{name} {values[k]}" for name, values in block.keys.items())
    if keys:
        return keys
    return f"instance {instance}" if instance >= 0 else f"row {k} over the corpus"
