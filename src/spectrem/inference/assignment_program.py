"""One label per instance by linear and integer programs (HiGHS), on few cells where that is proven to be enough."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats, Ints
from spectrem.constraints.rows import Rows
from spectrem.exceptions import InvalidInputError
from spectrem.inference.assignment_counts import WHOLE, no_assignment
from spectrem.inference.highs import INFEASIBLE, OPTIMAL, Deadline, run_integer, run_linear
from spectrem.inference.program import Program, write_program
from spectrem.inference.project import project
from spectrem.inference.result import Status
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.inference.slack_variables import compile_slack_variables, largest_excess
from spectrem.structures.categorical import Categorical
from spectrem.structures.parts import Parts

_MANY_CELLS = 20_000


@dataclass(frozen=True)
class Solved:
    """The cell chosen in every instance, and how much better fractions could be, nats."""

    cells: Ints
    gap: float
    status: Status


def solve_program(scores: Floats, sizes: Ints, rows: Rows, deadline: Deadline) -> Solved | None:
    """The best labels of instances with ``sizes`` labels each, None if none meet the rows.

    Prices of the rows bound what any labels can score, and what a label costs that is not its instance's best at these
    prices. A program over the cells that cost at most the gap between that bound and the program's own score is as good
    as one over all.

    Raises
    ------
    InvalidInputError
        If a slack has an l2 norm, or nothing was found within the time limit.
    """
    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    if not len(sizes):  # nothing takes part in these rows
        met = float(terms.worst_violation(-rows.bounds)[0]) <= WHOLE
        return Solved(np.zeros(0, np.int64), 0.0, Status.CERTIFIED) if met else None
    slack = compile_slack_variables(terms, largest_excess(rows.matrix, rows.bounds))
    if slack.curved:
        raise InvalidInputError(
            "slack with norm 'l2' cannot be used by decide, whose program must be linear; use norm='l1' or norm='linf'"
        )
    rows = Rows(rows.matrix, _whole_bounds(rows), rows.row_instance, rows.blocks)
    possible, offsets = ~np.isneginf(scores), np.concatenate([[0], np.cumsum(sizes)])
    program = write_program(
        cost=-np.where(possible, scores, 0.0),
        upper=possible.astype(np.float64),
        body=rows.matrix,
        bounds=rows.bounds,
        equality=terms.equality,
        shapes=sp.csr_array((np.ones(len(scores)), np.arange(len(scores)), offsets), shape=(len(sizes), len(scores))),
        ones=np.ones(len(sizes)),
        slack=slack,
    )
    if len(scores) <= _MANY_CELLS:
        return _solve(program, len(scores), deadline)
    bound, cost = _price(scores, sizes, rows, terms)
    spread = np.sort(cost[cost > 0])
    reach = float(spread[min(_MANY_CELLS // 4, len(spread) - 1)]) if len(spread) else 0.0
    every_row, beyond = np.arange(len(program.bounds)), np.arange(len(scores), len(program.cost))
    while True:
        kept = cost <= reach
        cells = np.flatnonzero(kept)
        solved = _solve(program.pick(every_row, np.concatenate([cells, beyond])), len(cells), deadline)
        if kept.all():
            return solved
        if solved is None:
            reach = max(4 * reach, float(spread[min(4 * int(kept.sum()), len(spread) - 1)]))
            continue
        cells = cells[solved.cells]
        chosen = np.zeros(len(scores))
        chosen[cells] = 1.0
        score = float(scores[cells].sum() - terms.cost(rows.matrix @ chosen - rows.bounds)[0])
        slop = 1e-9 * max(1.0, abs(score))
        if bound - score <= reach + slop:
            # No cell left out can be part of anything better.
            gap = min(solved.gap, max(bound - score, 0.0)) if solved.status == Status.CERTIFIED else bound - score
            return Solved(cells, gap, solved.status)
        reach = bound - score


def _price(scores: Floats, sizes: Ints, rows: Rows, terms: SlackTerms) -> tuple[float, Floats]:
    """An upper bound of every score, and what each cell costs at the prices that prove it."""
    structure = Categorical(sizes)
    starts, instance = structure.offsets[:-1], structure.instance
    finite = scores[~np.isneginf(scores)]
    gamma = 0.01 * float(finite.std()) + 1e-9
    prices = None
    for sharper in (1.0, 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # any prices give a bound
            found = project(structure, Parts(scores), rows, gamma * sharper, start=prices, tol=1e-4)
        prices = found.multipliers
    assert prices is not None
    reduced = scores - rows.matrix.T @ prices
    best = np.maximum.reduceat(reduced, starts)
    bound = float(best.sum() + rows.bounds @ prices + terms.value(prices).sum())
    return bound, best[instance] - reduced


def _solve(program: Program, n_cells: int, deadline: Deadline) -> Solved | None:
    relaxed = run_linear(program, deadline.left, accurate=False)
    if relaxed.status == INFEASIBLE:
        return None
    if relaxed.x is not None and (np.abs(relaxed.x - np.rint(relaxed.x))[:n_cells] <= WHOLE).all():
        return Solved(np.flatnonzero(np.rint(relaxed.x[:n_cells]) == 1), 0.0, Status.CERTIFIED)
    solved = run_integer(program, n_cells, deadline.left)
    if solved.status == INFEASIBLE:
        return None
    if solved.x is None:
        raise InvalidInputError(
            f"no labels that meet the constraints were found within time_limit={deadline.limit:g} seconds "
            f"({solved.message}); allow more time, or give the constraints slack"
        )
    status = Status.CERTIFIED if solved.status == OPTIMAL else Status.MAX_ITERATIONS
    lowest = solved.bound if relaxed.x is None else relaxed.cost
    return Solved(np.flatnonzero(np.rint(solved.x[:n_cells]) == 1), solved.cost - lowest, status)


def _whole_bounds(rows: Rows) -> Floats:
    """Bounds rounded down to whole numbers where whole coefficients allow it, so that fewer fractions are vertices.

    Raises
    ------
    InfeasibleConstraintError
        If an equality without slack demands a fraction of whole numbers.
    """
    bounds = rows.bounds.copy()
    entry_row = np.repeat(np.arange(len(bounds)), np.diff(rows.matrix.indptr))
    whole = np.ones(len(bounds), np.bool_)
    whole[entry_row[rows.matrix.data != np.rint(rows.matrix.data)]] = False
    floor = np.floor(bounds + WHOLE)
    for block in rows.blocks:
        if block.slack is not None:
            continue
        span = slice(block.start, block.stop)
        if block.equality:
            if (whole[span] & (np.abs(bounds[span] - np.rint(bounds[span])) > WHOLE)).any():
                raise no_assignment([block.name])
        else:
            bounds[span] = np.where(whole[span], floor[span], bounds[span])
    return bounds
