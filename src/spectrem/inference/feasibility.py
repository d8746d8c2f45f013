"""Constraints that cannot hold: found early, and named."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.rows import Block, Rows
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference.oracle import BatchDual
from spectrem.inference.result import Status
from spectrem.inference.segments import max_by, sum_by
from spectrem.inference.solvers.solver import Solution
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

_SHOWN = 3


def refuse_unreachable(structure: Structure, scores: Parts, rows: Rows) -> None:
    """Raise if a row cannot hold even with every possible part free to be anything in [0, 1].

    Raises
    ------
    InfeasibleConstraintError
        Naming the constraint, the instance and the number out of reach.
    """
    data = np.where(np.isneginf(scores.unary[rows.matrix.indices]), 0.0, rows.matrix.data)
    row = np.repeat(np.arange(len(rows.bounds)), np.diff(rows.matrix.indptr))
    least = sum_by(row, np.minimum(data, 0.0), len(rows.bounds))
    most = sum_by(row, np.maximum(data, 0.0), len(rows.bounds))
    for block in rows.blocks:
        if block.slack is not None and block.slack.kind == "penalty":
            continue
        give = 0.0 if block.slack is None else block.slack.strength
        span = slice(block.start, block.stop)
        bounds = rows.bounds[span]
        room = give + 1e-9 * np.maximum(1.0, np.abs(bounds))
        bad = least[span] > bounds + room
        if block.equality:
            bad |= most[span] < bounds - room
        if bad.any() and _weightless(block):
            k = int(np.flatnonzero(bad)[0])
            reach = f"its possible parts reach {least[span][k]:g} to {most[span][k]:g}"
            sign = "==" if block.equality else "<="
            more = f" (and {int(bad.sum()) - 1} more rows)" if bad.sum() > 1 else ""
            raise InfeasibleConstraintError(
                f"{block.name!r}: no feasible q in {_place(block, k, int(rows.row_instance[block.start + k]))}: "
                f"{reach}, and the row demands {sign} {bounds[k]:g}{more}; {_ADVICE}"
            )


_ADVICE = "relax the bound, give the constraint slack (a penalty or a bound), or drop the instance"


def _weightless(block: Block) -> bool:
    """Corpus rows may be scaled by instance weights, which this check does not see."""
    return block.scope == "instance"


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
    return InfeasibleConstraintError(f"{text}; {_ADVICE}")


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
