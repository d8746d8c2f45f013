"""One label per instance by linear and integer programs (HiGHS), on few cells where that is proven to be enough."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.constraints.rows import Rows
from spectrem.exceptions import InvalidInputError
from spectrem.inference.assignment_counts import WHOLE, no_assignment
from spectrem.inference.highs import INFEASIBLE, OPTIMAL, Deadline, Matrices, run_integer, run_linear
from spectrem.inference.project import project
from spectrem.inference.result import Status
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.inference.slack_variables import SlackVariables, compile_slack_variables, largest_excess
from spectrem.structures.categorical import Categorical
from spectrem.structures.parts import Parts

_MANY_CELLS = 20_000


@dataclass(frozen=True)
class Solved:
    """The cell chosen in every instance, and how much better fractions could be, nats."""

    cells: NDArray[np.int64]
    gap: float
    status: Status


def solve_program(
    scores: NDArray[np.float64], sizes: NDArray[np.int64], rows: Rows, deadline: Deadline
) -> Solved | None:
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
    program = _Program.write(scores, sizes, rows, terms, slack)
    if len(scores) <= _MANY_CELLS:
        return _solve(program, len(scores), deadline)
    bound, cost = _price(scores, sizes, rows, terms)
    spread = np.sort(cost[cost > 0])
    reach = float(spread[min(_MANY_CELLS // 4, len(spread) - 1)]) if len(spread) else 0.0
    while True:
        kept = cost <= reach
        solved = _solve(program.pick(kept), int(kept.sum()), deadline)
        if kept.all():
            return solved
        if solved is None:
            reach = max(4 * reach, float(spread[min(4 * int(kept.sum()), len(spread) - 1)]))
            continue
        cells = np.flatnonzero(kept)[solved.cells]
        score = program.score(cells, scores, rows, terms)
        slop = 1e-9 * max(1.0, abs(score))
        if bound - score <= reach + slop:
            # No cell left out can be part of anything better.
            gap = min(solved.gap, max(bound - score, 0.0)) if solved.status == Status.CERTIFIED else bound - score
            return Solved(cells, gap, solved.status)
        reach = bound - score


def _price(
    scores: NDArray[np.float64], sizes: NDArray[np.int64], rows: Rows, terms: SlackTerms
) -> tuple[float, NDArray[np.float64]]:
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


def _solve(program: _Program, n_cells: int, deadline: Deadline) -> Solved | None:
    relaxed = run_linear(program, deadline.left, accurate=False)
    if relaxed.status == INFEASIBLE:
        return None
    status = Status.CERTIFIED
    if relaxed.x is not None and _integral(relaxed.x[:n_cells]):
        return Solved(_chosen(relaxed.x[:n_cells]), 0.0, status)
    solved = run_integer(program, program.whole, deadline.left)
    if solved.status == INFEASIBLE:
        return None
    if solved.x is None:
        raise InvalidInputError(
            f"no labels that meet the constraints were found within time_limit={deadline.limit:g} seconds "
            f"({solved.message}); allow more time, or give the constraints slack"
        )
    if solved.status != OPTIMAL:
        status = Status.MAX_ITERATIONS
    lowest = solved.bound if relaxed.x is None else relaxed.cost
    return Solved(_chosen(solved.x[:n_cells]), solved.cost - lowest, status)


@dataclass(frozen=True)
class _Program(Matrices):
    """Cells first, then the variables of the slack; those in ``whole`` are whole numbers."""

    whole: NDArray[np.bool_]

    @classmethod
    def write(
        cls,
        scores: NDArray[np.float64],
        sizes: NDArray[np.int64],
        rows: Rows,
        terms: SlackTerms,
        slack: SlackVariables,
    ) -> _Program:
        possible = ~np.isneginf(scores)
        n, n_slack, n_cells = len(sizes), len(slack.cost), len(scores)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        one_each = sp.csr_array((np.ones(n_cells), np.arange(n_cells), offsets), shape=(n, n_cells))
        one_each = sp.hstack([one_each, sp.csr_array((n, n_slack))], format="csr")
        body = sp.csr_array(sp.hstack([rows.matrix, slack.matrix], format="csr"))
        ties = sp.hstack([sp.csr_array((slack.ties.shape[0], n_cells)), slack.ties], format="csr")
        both = terms.equality
        return cls(
            cost=np.concatenate([-np.where(possible, scores, 0.0), slack.cost]),
            upper=np.concatenate([possible.astype(np.float64), slack.upper]),
            whole=np.concatenate([np.ones(n_cells, np.bool_), np.zeros(n_slack, np.bool_)]),
            equal=sp.csr_array(sp.vstack([one_each, body[both]], format="csr")),
            equal_to=np.concatenate([np.ones(n), rows.bounds[both]]),
            below=sp.csr_array(sp.vstack([body[~both], ties], format="csr")),
            limit=np.concatenate([rows.bounds[~both], np.zeros(slack.ties.shape[0])]),
        )

    def pick(self, cells: NDArray[np.bool_]) -> _Program:
        """The same over some of the cells."""
        kept = np.concatenate([cells, np.ones(len(self.cost) - len(cells), np.bool_)])
        columns = np.flatnonzero(kept)
        return replace(
            self,
            cost=self.cost[kept],
            upper=self.upper[kept],
            whole=self.whole[kept],
            equal=sp.csr_array(self.equal[:, columns]),
            below=sp.csr_array(self.below[:, columns]),
        )

    @staticmethod
    def score(cells: NDArray[np.int64], scores: NDArray[np.float64], rows: Rows, terms: SlackTerms) -> float:
        """What the labels are worth, less penalties."""
        chosen = np.zeros(len(scores))
        chosen[cells] = 1.0
        return float(scores[cells].sum() - terms.cost(rows.matrix @ chosen - rows.bounds)[0])


def _whole_bounds(rows: Rows) -> NDArray[np.float64]:
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


def _integral(x: NDArray[np.float64]) -> bool:
    return bool((np.abs(x - np.rint(x)) <= WHOLE).all())


def _chosen(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of every instance that holds its one."""
    return np.flatnonzero(np.rint(x) == 1)
