"""One label per instance such that the constraints hold exactly: the constrained argmax over whole numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats, Ints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InvalidInputError, setting, warn_unconverged
from spectrem.inference.batch import project_batch
from spectrem.inference.conflict import explain_conflict
from spectrem.inference.program import (
    INFEASIBLE,
    OPTIMAL,
    Deadline,
    Program,
    compile_slack_variables,
    largest_excess,
    run_integer,
    run_linear,
    write_program,
)
from spectrem.inference.result import Status
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.inference.transportation import WHOLE, find_counts, no_assignment, tidy_rows, transport_labels
from spectrem.kernels.categorical import max_pass
from spectrem.structures.categorical import Categorical
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels

_MANY_CELLS = 20_000


@dataclass(frozen=True, eq=False)
class Assignment:
    """The best labels that meet the constraints, and by how much the linear relaxation may score more.

    Attributes
    ----------
    labels : ndarray of shape (n_instances,), int64
        Which of its labels each instance has.
    score : float
        Sum of the scores of the labels chosen less penalties, nats.
    relaxation : float
        An upper bound on the score of all labels, nats: the value of the linear relaxation, up to tolerances.
    gap : float
        ``relaxation - score`` in nats; 0 proves that no other labels are better.
    violation : float
        Worst violation of any row after the slack it is allowed.
    status : Status
        ``CERTIFIED``, or ``MAX_ITERATIONS`` where the time limit came first.
    """

    labels: Ints
    score: float
    relaxation: float
    gap: float
    violation: float
    status: Status


def assign(
    structure: Labels, scores: Floats, rows: Rows, *, weights: Floats | None = None, time_limit: float | None = None
) -> Assignment:
    """Maximise the scores of one label per instance under constraints ([Chang2007]; [Samdani2012] eq. 10).

    Instances that rows tie together are a problem. Where all its rows count a label over all its instances (sizes of
    clusters, proportions, each label at most once per document) it is a transportation, solved by shortest paths; all
    other problems are one integer program (HiGHS). Instances that no row touches take their best label.

    Use when decisions, not probabilities, must meet the constraints.

    Parameters
    ----------
    structure : Categorical
    scores : ndarray of shape (n_unary,)
        Nats, -inf where impossible; every instance has a label that is possible.
    rows : Rows
    weights : ndarray of shape (n_instances,), optional
        How often an instance counts, in the scores and in rows of corpus scope. Those of weight 0 take the labels that
        suit them best among those that the others leave.
    time_limit : float, optional
        Seconds for all programs together; None is 300.

    Raises
    ------
    InfeasibleConstraintError
        If no labels meet the constraints.
    InvalidInputError
        If a slack has an l2 norm, or nothing was found within the time limit.

    Warns
    -----
    ConvergenceWarning
        If the labels were not proven best within the time limit.

    Examples
    --------
    >>> from spectrem.constraints import E, compile_constraints, part
    >>> from spectrem.structures import Categorical
    >>> structure = Categorical([2, 2, 2])
    >>> rows = compile_constraints(E[part("label") == 1] == 1, structure)
    >>> assign(structure, np.log([0.9, 0.1, 0.8, 0.2, 0.6, 0.4]), rows).labels
    array([0, 0, 1])
    """
    deadline = Deadline(time_limit)
    if weights is None:
        return _assign(structure, scores, scores, tidy_rows(rows), deadline)
    counted = _counted(structure, rows, weights, weights)
    weight = np.repeat(weights, np.diff(structure.offsets))
    possible = ~np.isneginf(scores)
    weighted = np.where(possible, np.where(possible, scores, 0.0) * weight, -np.inf)
    found = _assign(structure, weighted, scores, counted, deadline)
    touched = np.zeros(structure.n_instances, np.bool_)
    touched[structure.instance[counted.matrix.indices]] = True
    touched[rows.row_instance[rows.row_instance >= 0]] = True
    if not (touched & (weights == 0)).any() or found.status != Status.CERTIFIED:
        return found
    chosen = np.zeros(structure.n_unary, np.bool_)
    chosen[structure.offsets[:-1] + found.labels] = True
    rest = np.where(weight == 0, scores, np.where(chosen, 0.0, -np.inf))
    counted = _counted(structure, rows, weights, np.where(weights > 0, weights, 1.0))
    again = _assign(structure, rest, rest, counted, deadline)
    return Assignment(again.labels, found.score, found.relaxation, found.gap, again.violation, found.status)


def _assign(structure: Labels, scores: Floats, alone: Floats, rows: Rows, deadline: Deadline) -> Assignment:
    """Assign labels by ``scores``; instances that no row touches take their best label by ``alone``."""
    n, offsets = structure.n_instances, structure.offsets
    labels = np.full(n, -1)
    max_pass(np.arange(n + 1), offsets, alone, np.ones(n, np.bool_), np.zeros(n), labels)
    counts = find_counts(structure, rows)
    wrong = transport_labels(counts, counts.counted, structure, scores, labels)[1][counts.row_problem]
    if wrong.any():
        raise no_assignment(block.name for block in rows.blocks if wrong[block.start : block.stop].any())
    hard = np.flatnonzero(counts.instance_problem >= 0)
    hard = hard[~counts.counted[counts.instance_problem[hard]]]
    gap, unit, status = 0.0, 1.0, Status.CERTIFIED
    wanted = ~counts.counted[counts.row_problem]
    if wanted.any():
        own = np.zeros(n, np.bool_)
        own[hard] = True
        cells = np.flatnonzero(np.repeat(own, np.diff(offsets)))
        some = rows.pick(wanted)
        place = np.where(some.row_instance >= 0, np.cumsum(own)[some.row_instance] - 1, -1)
        some = Rows(sp.csr_array(some.matrix[:, cells]), some.bounds, place, some.blocks)
        sizes = np.diff(offsets)[hard]
        unit = _unit(scores[cells], sizes)
        solved = solve_program(scores[cells], sizes, some, unit, deadline)
        if solved is None:
            possible = Parts(np.where(np.isneginf(scores[cells]), -np.inf, 0.0))
            conflict = explain_conflict(Categorical(sizes), possible, some, whole=True)
            firm = (block.name for block in some.blocks if block.slack is None or block.slack.kind == "bound")
            raise no_assignment(firm) if conflict is None else conflict
        labels[hard] = cells[solved.cells] - offsets[hard]
        gap, status = solved.gap, solved.status
        if status != Status.CERTIFIED:
            warn_unconverged(
                f"the labels were not proven best within {setting('time_limit')}={deadline.limit:g} seconds; raise "
                f"it, or look at the gap ({gap:.3g} nats)",
            )
    cell = offsets[:-1] + labels
    chosen = np.zeros(structure.n_unary)
    chosen[cell] = 1.0
    excess = rows.matrix @ chosen - rows.bounds
    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    score = float(scores[cell].sum() - terms.cost(excess)[0])
    gap = gap if gap > 1e-9 * max(unit, abs(score)) else 0.0
    violation = float(terms.worst_violation(excess)[0]) if len(excess) else 0.0
    return Assignment(labels, score, score + gap, gap, violation, status)


def _unit(scores: Floats, sizes: Ints) -> float:
    """A power of two near the largest range of an instance's scores where that is far from 1, else 1; nats.

    HiGHS has absolute tolerances: in this unit they mean the same whatever multiplies the scores.
    """
    if not len(sizes):
        return 1.0
    possible = ~np.isneginf(scores)
    tops = np.repeat(np.maximum.reduceat(scores, np.cumsum(sizes) - sizes), sizes)
    spread = float((tops - scores)[possible].max(initial=0.0))
    return 1.0 if spread == 0.0 or 1e-3 <= spread <= 1e6 else float(2.0 ** np.rint(np.log2(spread)))


def _counted(structure: Labels, rows: Rows, weights: Floats, times: Floats) -> Rows:
    """Rows of corpus scope in which an instance counts ``weights`` times; penalties inside instances ``times``."""
    if (weights == 1.0).all():
        return tidy_rows(rows)
    paid = rows.penalised_inside
    counted = rows.times(rows.counted_by_weight, weights[structure.instance])
    counted = counted.times(paid, times[structure.instance])
    data = counted.matrix.data
    whole = np.rint(data)  # weights times shares in them: whole numbers but for rounding
    data[:] = np.where(np.abs(data - whole) <= 1e-12 * np.abs(data), whole, data)
    return tidy_rows(replace(counted, bounds=np.where(paid, times[rows.row_instance] * rows.bounds, rows.bounds)))


@dataclass(frozen=True)
class Solved:
    """The cell chosen in every instance, and by how much the linear relaxation may score more, nats."""

    cells: Ints
    gap: float
    status: Status


def solve_program(scores: Floats, sizes: Ints, rows: Rows, unit: float, deadline: Deadline) -> Solved | None:
    """The best labels of instances with ``sizes`` labels each, None if none meet the rows; ``unit`` is that of costs.

    Prices of the rows bound what any labels can score, and what a label costs that is not its instance's best at these
    prices. A program over the cells that cost at most the gap between that bound and the program's own score is as good
    as one over all.

    Raises
    ------
    InvalidInputError
        If a slack has an l2 norm, or nothing was found within the time limit.
    """
    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    if not len(sizes):  # rows without any instance
        met = float(terms.worst_violation(-rows.bounds)[0]) <= WHOLE
        return Solved(np.zeros(0, np.int64), 0.0, Status.CERTIFIED) if met else None
    slack = compile_slack_variables(terms, largest_excess(rows.matrix, rows.bounds))
    slack.refuse_curved("by decide", "")
    rows = Rows(rows.matrix, _whole_bounds(rows), rows.row_instance, rows.blocks)
    possible, offsets = ~np.isneginf(scores), np.concatenate([[0], np.cumsum(sizes)])
    program = write_program(
        cost=-np.where(possible, scores, 0.0) / unit,
        upper=possible.astype(np.float64),
        body=rows.matrix,
        bounds=rows.bounds,
        equality=terms.equality,
        shapes=sp.csr_array((np.ones(len(scores)), np.arange(len(scores)), offsets), shape=(len(sizes), len(scores))),
        ones=np.ones(len(sizes)),
        slack=replace(slack, cost=slack.cost / unit),
    )
    if len(scores) <= _MANY_CELLS:
        return _solve(program, len(scores), unit, deadline)
    bound, cost = _price(scores, sizes, rows, terms, unit)
    spread = np.sort(cost[cost > 0])
    reach = float(spread[min(_MANY_CELLS // 4, len(spread) - 1)]) if len(spread) else 0.0
    every_row, beyond = np.arange(len(program.bounds)), np.arange(len(scores), len(program.cost))
    while True:
        kept = cost <= reach
        cells = np.flatnonzero(kept)
        solved = _solve(program.pick(every_row, np.concatenate([cells, beyond])), len(cells), unit, deadline)
        if kept.all():
            return solved
        if solved is None:
            reach = max(4 * reach, float(spread[min(4 * int(kept.sum()), len(spread) - 1)]))
            continue
        cells = cells[solved.cells]
        chosen = np.zeros(len(scores))
        chosen[cells] = 1.0
        score = float(scores[cells].sum() - terms.cost(rows.matrix @ chosen - rows.bounds)[0])
        slop = 1e-9 * max(unit, abs(score))
        if bound - score <= reach + slop:
            # Any choice with a cell that was left out scores less.
            gap = min(solved.gap, max(bound - score, 0.0)) if solved.status == Status.CERTIFIED else bound - score
            return Solved(cells, gap, solved.status)
        reach = bound - score


def _price(scores: Floats, sizes: Ints, rows: Rows, terms: SlackTerms, unit: float) -> tuple[float, Floats]:
    """An upper bound of every score, and what each cell costs at the prices that prove it."""
    structure = Categorical(sizes)
    starts, instance = structure.offsets[:-1], structure.instance
    finite = scores[~np.isneginf(scores)]
    gamma = 0.01 * float(finite.std()) + 1e-9 * unit
    prices = None
    for sharper in (1.0, 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # any prices give a bound
            found = project_batch(structure, Parts(scores), rows, gamma * sharper, start=prices, tol=1e-4)
        prices = found.multipliers
    assert prices is not None
    reduced = scores - rows.matrix.T @ prices
    best = np.maximum.reduceat(reduced, starts)
    bound = float(best.sum() + rows.bounds @ prices + terms.value(prices).sum())
    return bound, best[instance] - reduced


def _solve(program: Program, n_cells: int, unit: float, deadline: Deadline) -> Solved | None:
    """The best cells of a program whose costs are counted in ``unit`` nats, first by its relaxation; None if none."""
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
            f"no labels that meet the constraints were found within {setting('time_limit')}={deadline.limit:g} seconds "
            f"({solved.message}); allow more time, or give the constraints slack"
        )
    status = Status.CERTIFIED if solved.status == OPTIMAL else Status.MAX_ITERATIONS
    lowest = solved.bound if relaxed.x is None else relaxed.cost
    return Solved(np.flatnonzero(np.rint(solved.x[:n_cells]) == 1), (solved.cost - lowest) * unit, status)


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
