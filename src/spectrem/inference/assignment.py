"""One label per instance such that the constraints hold exactly: transportations, and programs over whole numbers.

A problem whose rows only count labels over all its instances is a transportation, solved by shortest paths. Its matrix
is totally unimodular: at gamma = 0 and -inf the linear relaxation has whole optima where bounds are whole, so that
fractions gain nothing, and the prices of the labels give the multipliers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, setting, warn_unconverged
from spectrem.inference.conflict import explain_conflict, explain_infeasible
from spectrem.inference.oracle import BatchDual, refuse_impossible, split_problems, weigh_rows
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
from spectrem.inference.result import Projection, Status
from spectrem.inference.segments import max_by, share_equally, sum_by
from spectrem.inference.slack import compile_slack
from spectrem.inference.solvers.linear_program import follow_temperatures
from spectrem.kernels import transport
from spectrem.kernels.categorical import max_pass, shift_rows
from spectrem.structures.categorical import Categorical
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels, Structure, has_one_label

WHOLE = 1e-6
"""Bounds this close to a whole number count as that number; the tolerance of HiGHS."""

_MOST_LABELS = 500
_ROUNDING = 1e-9  # relative rounding error of bounds that are whole numbers times a factor


@dataclass(frozen=True)
class Counts:
    """Which problems are transportations, and their bounds.

    Attributes
    ----------
    instance_problem : ndarray of shape (n_instances,), int64
        -1 for instances that no row touches.
    row_problem : ndarray of shape (n_rows,), int64
    counted : ndarray of shape (n_problems,), bool
    low, high : ndarray of shape (n_problems, n_labels), int64
        Of the number of instances with each label, where ``counted``.
    label : ndarray of shape (n_rows,), int64
        The label that a row counts, in problems ``counted``.
    factor : ndarray of shape (n_rows,)
        The coefficient of that label in the row.
    equality : ndarray of shape (n_rows,), bool
    """

    instance_problem: Ints
    row_problem: Ints
    counted: Bools
    low: Ints
    high: Ints
    label: Ints
    factor: Floats
    equality: Bools


def tidy_rows(rows: Rows) -> Rows:
    """The same rows without explicit zeros or duplicate entries."""
    if rows.matrix.has_canonical_format and rows.matrix.data.all():
        return rows
    matrix = rows.matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return replace(rows, matrix=matrix)


def find_counts(structure: Labels, rows: Rows) -> Counts:
    """Split rows into problems, and find the bounds of those that only count labels.

    Where an equality demands a fraction, the lower bound lies above the upper one.
    """
    n, n_rows, sizes = structure.n_instances, len(rows.bounds), np.diff(structure.offsets)
    k = int(sizes[0]) if n else 0
    entries = np.diff(rows.matrix.indptr)
    simple = np.zeros(n_rows, np.bool_)
    label, factor = np.zeros(n_rows, np.int64), np.ones(n_rows)
    if n_rows and 0 < k <= _MOST_LABELS and (sizes == k).all():
        some = np.flatnonzero(entries)
        starts = rows.matrix.indptr[some]
        labels = rows.matrix.indices % k
        data = rows.matrix.data
        if len(some):
            label[some], factor[some] = labels[starts], data[starts]
            simple[some] = np.minimum.reduceat(labels, starts) == np.maximum.reduceat(labels, starts)
            simple[some] &= np.minimum.reduceat(data, starts) == np.maximum.reduceat(data, starts)
            simple &= factor != 0
        simple &= rows.where(lambda block: block.slack is None)
    instance_problem, row_problem, n_problems = split_problems(structure, rows)
    size = np.bincount(instance_problem[instance_problem >= 0], minlength=n_problems)
    counted = np.bincount(row_problem, simple & (entries == size[row_problem]), n_problems) == np.bincount(
        row_problem, minlength=n_problems
    )
    low, high = np.zeros((n_problems, k), np.int64), np.repeat(size[:, None], k, axis=1)
    wanted = np.flatnonzero(counted[row_problem])
    bounds = rows.bounds[wanted] / factor[wanted]
    place = row_problem[wanted], label[wanted]
    equal = rows.where(lambda block: block.equality)
    same = equal[wanted]
    above, below = same | (factor[wanted] < 0), same | (factor[wanted] > 0)
    largest = float(n + 1)
    least = np.ceil(np.clip(bounds, -1.0, largest) - WHOLE).astype(np.int64)
    most = np.floor(np.clip(bounds, -1.0, largest) + WHOLE).astype(np.int64)
    np.maximum.at(low, (place[0][above], place[1][above]), least[above])
    np.minimum.at(high, (place[0][below], place[1][below]), most[below])
    return Counts(instance_problem, row_problem, counted, low, high, label, factor, equal)


def transport_labels(
    counts: Counts, wanted: Bools, structure: Labels, scores: Floats, labels: Ints
) -> tuple[Floats, Bools]:
    """Solve the wanted transportation problems, and write the labels of their instances into ``labels``.

    Returns
    -------
    prices : ndarray of shape (n_problems, n_labels)
        Nats per instance with a label; every label is the best one at ``scores - prices``. A price is above 0 only if
        as many instances as allowed have the label, below 0 only if as few do.
    infeasible : ndarray of shape (n_problems,), bool
    """
    prices, wrong = np.zeros(counts.low.shape), np.zeros(len(counts.counted), np.bool_)
    size = np.bincount(counts.instance_problem[counts.instance_problem >= 0], minlength=len(wrong))
    low, high = counts.low, counts.high
    wrong[wanted] = ((low > high).any(axis=1) | (low.sum(axis=1) > size) | (high.sum(axis=1) < size))[wanted]
    groups = np.flatnonzero(wanted & ~wrong)
    if len(groups):
        k = int(structure.offsets[1])
        inside = np.flatnonzero(counts.instance_problem >= 0)
        inside = inside[(wanted & ~wrong)[counts.instance_problem[inside]]]
        order = inside[np.argsort(counts.instance_problem[inside], kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(size[groups])])
        capacity = max(8, min(64, int(size[groups].max()), 2**22 // k**2))
        label_prices, status = np.zeros((len(groups), k)), np.zeros(len(groups), np.int8)
        transport.solve_groups(
            scores.reshape(-1, k), order, offsets, low[groups], high[groups], capacity, labels, label_prices, status
        )
        prices[groups], wrong[groups] = label_prices, status == transport.INFEASIBLE
    return prices, wrong


_GIVE_WAY = "turn == into between(low, high), or give slack by .slack(penalty=..., norm='l1')"


def no_assignment(names: Iterable[str]) -> InfeasibleConstraintError:
    """The error that names constraints which no labels meet."""
    listed = ", ".join(repr(name) for name in dict.fromkeys(names))
    return InfeasibleConstraintError(
        f"{listed}: no choice of one label per row meets the constraints, although probabilities may; make bounds "
        f"whole numbers, {_GIVE_WAY}"
    )


@dataclass(frozen=True, eq=False)
class Transports:
    """The problems of a batch that are transportations, at a gamma of 0 or -inf.

    Attributes
    ----------
    structure : Labels
    rows : Rows
    gamma : float
    weights : ndarray of shape (n_instances,)
    counts : Counts
    chosen : ndarray of shape (n_problems,), bool
    """

    structure: Labels
    rows: Rows
    gamma: float
    weights: Floats
    counts: Counts
    chosen: Bools

    @property
    def own_rows(self) -> Bools:
        """Rows of these problems, shape (n_rows,)."""
        return self.chosen[self.counts.row_problem]

    @property
    def own_instances(self) -> Bools:
        """Instances of these problems, shape (n_instances,)."""
        problem = self.counts.instance_problem
        return (problem >= 0) & self.chosen[np.maximum(problem, 0)]

    def solve(self, scores: Parts) -> Projection:
        """The best labels in these problems; all other instances take their own best label.

        Raises
        ------
        InfeasibleConstraintError
            If no labels meet the rows.
        InvalidInputError
            If all labels of an instance are impossible.
        """
        structure, unary, n = self.structure, scores.unary, self.structure.n_instances
        free, labels = np.zeros(n), np.full(n, -1)
        max_pass(np.arange(n + 1), structure.offsets, unary, np.ones(n, np.bool_), free, labels)
        refuse_impossible(free)
        prices, infeasible = transport_labels(self.counts, self.chosen, structure, unary, labels)
        if infeasible.any():
            dual = BatchDual(structure, scores, self.rows, 0.0, self.weights)
            status = np.where(infeasible, Status.INFEASIBLE, Status.CERTIFIED).astype(np.int8)
            raise explain_infeasible(dual, status, whole=self.gamma == -np.inf)
        multipliers = self._multipliers(prices)
        weight, tops = self.weights, free
        if self.gamma == 0 or (weight == 0).any():
            tops, shifted = self._shifted(unary, multipliers)
            # Instances of weight 0 are in no problem, and take their best label at the prices of the others.
            max_pass(np.arange(n + 1), structure.offsets, shifted, weight == 0, np.zeros(n), labels)
        cell = structure.offsets[:-1] + labels
        marginals = np.zeros(structure.n_unary)
        marginals[cell] = 1.0
        values = objectives = unary[cell]
        primal_value = dual_value = float(weight @ values)
        if self.gamma == 0:
            values, objectives = tops, tops + self._shares(multipliers)
            dual_value = float(weight @ objectives)
        else:
            multipliers = np.zeros(len(multipliers))
        violation, place = self._violation(labels), self.counts.instance_problem
        return Projection(
            marginals=Parts(marginals),
            multipliers=multipliers,
            values=values,
            objectives=objectives,
            dual_value=dual_value,
            primal_value=primal_value,
            violation=float(violation.max(initial=0.0)),
            kl=float(weight @ free) - dual_value if self.gamma == 0 else None,
            status=Status.CERTIFIED,
            n_evaluations=1,
            n_iter=int(self.chosen.sum()),
            residual=abs(dual_value - primal_value) / max(1.0, abs(dual_value)),
            instance_status=np.full(n, Status.CERTIFIED, np.int8),
            instance_violation=np.where(place >= 0, violation[np.maximum(place, 0)], 0.0),
        )

    def _multipliers(self, prices: Floats) -> Floats:
        """Multipliers, shape (n_rows,): the price of a label goes to the first row whose bound its count attains.

        A price without such a row belongs to a label that all instances have, or none, and can be dropped.
        """
        counts, rows = self.counts, self.rows
        priced = np.flatnonzero(self.own_rows)
        place = counts.row_problem[priced], counts.label[priced]
        price, bound = prices[place], rows.bounds[priced] / counts.factor[priced]
        above = counts.equality[priced] | (counts.factor[priced] < 0)
        below = counts.equality[priced] | (counts.factor[priced] > 0)
        room = _room(bound) if self.gamma == 0 else 0.999  # at -inf, bounds were rounded to whole numbers
        meets = (price > 0) & below & (np.abs(bound - counts.high[place]) <= room)
        meets |= (price < 0) & above & (np.abs(bound - counts.low[place]) <= room)
        priced, price = priced[meets], price[meets]
        first = np.unique(place[0][meets] * prices.shape[1] + place[1][meets], return_index=True)[1]
        priced, price = priced[first], price[first]
        multipliers = np.zeros(len(rows.bounds))
        # ``rows`` has coefficients before the weights multiply them: a multiplier is the price of one copy.
        multipliers[priced] = price / rows.matrix.data[rows.matrix.indptr[priced]]
        return multipliers

    def _shifted(self, unary: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
        """The largest of ``s - U^T multipliers`` of each instance, and all of them less that."""
        matrix, offsets = self.rows.matrix, self.structure.offsets
        tops, shifted = np.empty(len(offsets) - 1), np.empty(len(unary))
        data = matrix.data.astype(np.float64, copy=False)
        shift_rows(offsets, unary, matrix.indptr, matrix.indices, data, multipliers, 1.0, shifted, tops)
        return tops, shifted

    def _shares(self, multipliers: Floats) -> Floats:
        """The term ``b . lambda`` of the dual, shared equally by the copies of the instances of a problem."""
        counts, once = self.counts, self.rows.row_instance >= 0
        # Of a row inside an instance, the multiplier is that of one copy.
        copies = np.where(once, self.weights[self.rows.row_instance], 1.0)
        total = sum_by(counts.row_problem, copies * self.rows.bounds * multipliers, len(self.chosen))
        return share_equally(counts.instance_problem, self.weights, total)

    def _violation(self, labels: Ints) -> Floats:
        """The largest violation of a row of each problem, shape (n_problems,)."""
        counts, rows = self.counts, self.rows
        inside = np.flatnonzero(self.own_instances)
        counted = np.zeros(counts.low.shape)
        np.add.at(counted, (counts.instance_problem[inside], labels[inside]), 1.0)
        solved = self.own_rows
        excess = counts.factor * counted[counts.row_problem, np.where(solved, counts.label, 0)] - rows.bounds
        worst = np.where(counts.equality, np.abs(excess), np.maximum(excess, 0.0))
        return max_by(counts.row_problem, np.where(solved, worst, 0.0), len(self.chosen))


def find_transports(structure: Structure, rows: Rows, gamma: float, weights: Floats | None) -> Transports | None:
    """The problems at gamma = 0 or -inf whose rows count labels and whose instances weigh the same; None if none.

    At gamma = 0 bounds must be whole numbers of instances, or never met: others have fractional optima.

    Examples
    --------
    >>> from spectrem.constraints import E, compile_constraints
    >>> from spectrem.structures import Categorical
    >>> labels = Categorical([2, 2, 2])
    >>> rows = compile_constraints((E[...] <= 2).per("label"), labels)
    >>> find_transports(labels, rows, 0.0, None).solve(Parts(np.array([3.0, 0.0, 2.0, 0.0, 1.0, 0.0]))).multipliers
    array([1., 0.])
    """
    if not has_one_label(structure):
        return None
    rows = tidy_rows(rows)
    weighed = weigh_rows(structure, rows, weights)
    counts = find_counts(structure, weighed)
    chosen = counts.counted.copy()
    if gamma == 0 and chosen.any():
        chosen &= ~_has_fractions(rows, counts)
    if weights is not None and chosen.any():
        inside = counts.instance_problem >= 0
        problem, weight = counts.instance_problem[inside], weights[inside]
        most, least = np.zeros(len(chosen)), np.full(len(chosen), np.inf)
        np.maximum.at(most, problem, weight)
        np.minimum.at(least, problem, weight)
        chosen &= (least == most) & (most > 0)
        if (weights == 0).any() and not chosen.all():
            return None  # instances of weight 0 need the prices of all problems at once
    weight = np.ones(structure.n_instances) if weights is None else weights
    return Transports(structure, rows, gamma, weight, counts, chosen) if chosen.any() else None


def _has_fractions(rows: Rows, counts: Counts) -> Bools:
    """Problems with a bound that is not whole and may be met, shape (n_problems,)."""
    counting = np.flatnonzero(counts.counted[counts.row_problem])
    n_problems = len(counts.counted)
    size = np.bincount(counts.instance_problem[counts.instance_problem >= 0], minlength=n_problems)
    bound, problem = rows.bounds[counting] / counts.factor[counting], counts.row_problem[counting]
    idle = np.where(counts.factor[counting] > 0, bound >= size[problem], bound <= 0) & ~counts.equality[counting]
    broken = ~idle & (np.abs(bound - np.rint(bound)) > _room(bound))
    return np.bincount(problem, broken, n_problems) > 0


def _room(bound: Floats) -> Floats:
    """The rounding error that a bound may have."""
    return _ROUNDING * np.maximum(1.0, np.abs(bound))


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
    assigned = _assign(structure, weighted, scores, counted, deadline)
    touched = np.zeros(structure.n_instances, np.bool_)
    touched[structure.instance[counted.matrix.indices]] = True
    touched[rows.row_instance[rows.row_instance >= 0]] = True
    if not (touched & (weights == 0)).any() or assigned.status != Status.CERTIFIED:
        return assigned
    chosen = np.zeros(structure.n_unary, np.bool_)
    chosen[structure.offsets[:-1] + assigned.labels] = True
    rest = np.where(weight == 0, scores, np.where(chosen, 0.0, -np.inf))
    counted = _counted(structure, rows, weights, np.where(weights > 0, weights, 1.0))
    again = _assign(structure, rest, rest, counted, deadline)
    return Assignment(again.labels, assigned.score, assigned.relaxation, assigned.gap, again.violation, assigned.status)


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
        is_hard = np.zeros(n, np.bool_)
        is_hard[hard] = True
        cells = np.flatnonzero(np.repeat(is_hard, np.diff(offsets)))
        some = rows.pick(wanted)
        place = np.where(some.row_instance >= 0, np.cumsum(is_hard)[some.row_instance] - 1, -1)
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
    bound, cost = _price(scores, sizes, rows)
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


def _price(scores: Floats, sizes: Ints, rows: Rows) -> tuple[float, Floats]:
    """An upper bound of every score, and what each cell costs at the prices that prove it (any prices give a bound)."""
    dual = BatchDual(Categorical(sizes), Parts(scores), rows, 0.0)
    prices = follow_temperatures(dual)[0].multipliers
    reduced = scores - rows.matrix.T @ prices
    best = np.maximum.reduceat(reduced, np.cumsum(sizes) - sizes)
    bound = float(best.sum() + rows.bounds @ prices + dual.terms.value(prices).sum())
    return bound, np.repeat(best, sizes) - reduced


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
