"""One label per instance such that the constraints hold exactly: transportations, and programs over whole numbers.

A problem whose rows only count labels over all its instances is a transportation, solved by shortest paths. Its matrix
is totally unimodular: at gamma = 0 and -inf the linear relaxation has whole optima where bounds are whole, so that
fractions gain nothing, and the prices of the labels give the multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, setting, warn_unconverged
from spectrem.inference.conflict import explain_whole
from spectrem.inference.dual import BatchDual, refuse_impossible, sum_by
from spectrem.inference.program import (
    INFEASIBLE,
    OPTIMAL,
    Deadline,
    ProblemProgram,
    ProblemPrograms,
    run_integer,
    run_linear,
)
from spectrem.inference.result import Status
from spectrem.inference.solvers.linear_program import LinearProgram, follow_temperatures
from spectrem.inference.solvers.smooth import Solution
from spectrem.kernels import transport
from spectrem.kernels.categorical import max_pass
from spectrem.structures._ragged import indicators, no_parts
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels, has_one_label

WHOLE = 1e-6
"""Bounds this close to a whole number count as that number; the tolerance of HiGHS."""

_MOST_LABELS = 500
_ROUNDING = 1e-9  # relative rounding error of bounds that are whole numbers times a factor


@dataclass(frozen=True)
class Counts:
    """Which problems of a dual only count labels, and their bounds.

    Attributes
    ----------
    counted : ndarray of shape (n_problems,), bool
    low, high : ndarray of shape (n_problems, n_labels), int64
        Of the number of instances with each label, where ``counted``.
    label : ndarray of shape (n_rows,), int64
        The label that a row counts, in problems ``counted``.
    factor : ndarray of shape (n_rows,)
        The coefficient of that label in the row.
    """

    counted: Bools
    low: Ints
    high: Ints
    label: Ints
    factor: Floats


def tidy_rows(rows: Rows) -> Rows:
    """The same rows without explicit zeros or duplicate entries."""
    if rows.matrix.has_canonical_format and rows.matrix.data.all():
        return rows
    matrix = rows.matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return replace(rows, matrix=matrix)


def find_counts(dual: BatchDual) -> Counts:
    """The problems of a dual over `Labels` that only count labels; its rows are tidy.

    Where an equality demands a fraction, the lower bound lies above the upper one.
    """
    structure, matrix, row_problem, n_problems = dual.structure, dual.matrix, dual.row_problem, dual.n_problems
    assert has_one_label(structure)
    n, n_rows, sizes = structure.n_instances, len(row_problem), np.diff(structure.offsets)
    k = int(sizes[0]) if n else 0
    entries = np.diff(matrix.indptr)
    simple = np.zeros(n_rows, np.bool_)
    label, factor = np.zeros(n_rows, np.int64), np.ones(n_rows)
    if n_rows and 0 < k <= _MOST_LABELS and (sizes == k).all():
        filled = np.flatnonzero(entries)
        starts = matrix.indptr[filled]
        labels = matrix.indices % k
        data = matrix.data
        if len(filled):
            label[filled], factor[filled] = labels[starts], data[starts]
            simple[filled] = np.minimum.reduceat(labels, starts) == np.maximum.reduceat(labels, starts)
            simple[filled] &= np.minimum.reduceat(data, starts) == np.maximum.reduceat(data, starts)
            simple &= factor != 0
        simple &= dual.terms.slackless
    size = dual.problem_size
    counted = np.bincount(row_problem, simple & (entries == size[row_problem]), n_problems) == np.bincount(
        row_problem, minlength=n_problems
    )
    low, high = np.zeros((n_problems, k), np.int64), np.repeat(size[:, None], k, axis=1)
    counting = np.flatnonzero(counted[row_problem])
    bounds = dual.rows.bounds[counting] / factor[counting]
    place = row_problem[counting], label[counting]
    equal = dual.terms.equality[counting]
    above, below = equal | (factor[counting] < 0), equal | (factor[counting] > 0)
    largest = float(n + 1)
    least = np.ceil(np.clip(bounds, -1.0, largest) - WHOLE).astype(np.int64)
    most = np.floor(np.clip(bounds, -1.0, largest) + WHOLE).astype(np.int64)
    np.maximum.at(low, (place[0][above], place[1][above]), least[above])
    np.minimum.at(high, (place[0][below], place[1][below]), most[below])
    return Counts(counted, low, high, label, factor)


def transport_labels(dual: BatchDual, counts: Counts, chosen: Bools, labels: Ints) -> tuple[Floats, Bools]:
    """Solve the chosen transportation problems, and write the labels of their instances into ``labels``.

    Returns
    -------
    prices : ndarray of shape (n_problems, n_labels)
        Nats per instance with a label; every label is the best one at ``scores - prices``. A price is above 0 only if
        as many instances as allowed have the label, below 0 only if as few do.
    infeasible : ndarray of shape (n_problems,), bool
    """
    prices, infeasible = np.zeros(counts.low.shape), np.zeros(dual.n_problems, np.bool_)
    size, low, high = dual.problem_size, counts.low, counts.high
    infeasible[chosen] = ((low > high).any(axis=1) | (low.sum(axis=1) > size) | (high.sum(axis=1) < size))[chosen]
    groups = np.flatnonzero(chosen & ~infeasible)
    if len(groups):
        k = low.shape[1]
        inside = np.flatnonzero(dual.instances_of(chosen & ~infeasible))
        order = inside[np.argsort(dual.instance_problem[inside], kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(size[groups])])
        capacity = max(8, min(64, int(size[groups].max()), 2**22 // k**2))
        label_prices, status = np.zeros((len(groups), k)), np.zeros(len(groups), np.int8)
        transport.solve_groups(
            dual.scores.unary.reshape(-1, k), order, offsets, low[groups], high[groups], capacity, labels,
            label_prices, status,
        )  # fmt: skip
        prices[groups], infeasible[groups] = label_prices, status == transport.INFEASIBLE
    return prices, infeasible


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
    """The solution of the problems of a dual that are transportations, at a gamma of 0 or -inf.

    Attributes
    ----------
    dual : BatchDual
    problems : ndarray of shape (n_problems,), bool
        The problems that are solved.
    infeasible : ndarray of shape (n_problems,), bool
        Those of them that no labels meet.
    labels : ndarray of shape (n_instances,), int64
        The best labels in these problems; all other instances have their own best label.
    multipliers : ndarray of shape (n_rows,)
    """

    dual: BatchDual
    problems: Bools
    infeasible: Bools
    labels: Ints
    multipliers: Floats

    def read(self, problems: Bools, parts: Parts) -> tuple[Bools, Floats]:
        """Write the labels of some of the problems into ``parts``; their instances, and the scores of these labels."""
        assert has_one_label(self.dual.structure)
        inside = self.dual.instances_of(problems)
        cells = self.dual.structure.offsets[:-1][inside] + self.labels[inside]
        parts.unary[cells] = 1.0
        return inside, self.dual.scores.unary[cells]

    @property
    def status(self) -> NDArray[np.int8]:
        """The status of every problem, where it is one of ``problems``; shape (n_problems,)."""
        return np.where(self.infeasible, Status.INFEASIBLE, Status.CERTIFIED).astype(np.int8)


def find_transports(dual: BatchDual, *, whole: bool) -> Transports | None:
    """Solve the problems whose rows count labels and whose instances weigh the same; None if there are none.

    Unless labels must be ``whole`` (gamma = -inf), bounds must be whole numbers of instances, or never met: others have
    fractional optima.

    Raises
    ------
    InvalidInputError
        If all labels of an instance are impossible.

    Examples
    --------
    >>> from spectrem.constraints import E, compile_constraints
    >>> from spectrem.structures import Categorical
    >>> labels = Categorical([2, 2, 2])
    >>> rows = compile_constraints((E[...] <= 2).per("label"), labels)
    >>> dual = BatchDual(labels, Parts(np.array([3.0, 0.0, 2.0, 0.0, 1.0, 0.0])), rows, 0.0)
    >>> find_transports(dual, whole=False).multipliers
    array([1., 0.])
    """
    structure = dual.structure
    if not has_one_label(structure):
        return None
    counts = find_counts(dual)
    chosen = counts.counted.copy()
    if not whole and chosen.any():
        chosen &= ~_has_fractions(dual, counts)
    problem, weight = dual.instance_problem[dual.inside], dual.weights[dual.inside]
    most, least = np.zeros(len(chosen)), np.full(len(chosen), np.inf)
    np.maximum.at(most, problem, weight)
    np.minimum.at(least, problem, weight)
    chosen &= (least == most) & (most > 0)
    if not chosen.any():
        return None
    n = structure.n_instances
    free, labels = np.zeros(n), np.full(n, -1)
    max_pass(np.arange(n + 1), structure.offsets, dual.scores.unary, np.ones(n, np.bool_), free, labels)
    refuse_impossible(free)
    dual.free_value = float(dual.problem_weight @ dual.per_problem(free, np.zeros(len(dual.row_problem))))
    prices, infeasible = transport_labels(dual, counts, chosen, labels)
    return Transports(dual, chosen, infeasible, labels, _row_multipliers(dual, counts, chosen, prices, whole))


def _row_multipliers(dual: BatchDual, counts: Counts, chosen: Bools, prices: Floats, whole: bool) -> Floats:
    """Multipliers, shape (n_rows,): the price of a label goes to the first row whose bound its count attains.

    A price without such a row belongs to a label that all instances have, or none, and can be dropped.
    """
    rows, equality = dual.rows, dual.terms.equality
    priced = np.flatnonzero(chosen[dual.row_problem])
    place = dual.row_problem[priced], counts.label[priced]
    price, bound = prices[place], rows.bounds[priced] / counts.factor[priced]
    above = equality[priced] | (counts.factor[priced] < 0)
    below = equality[priced] | (counts.factor[priced] > 0)
    room = 0.999 if whole else _room(bound)  # bounds were rounded to whole numbers
    meets = (price > 0) & below & (np.abs(bound - counts.high[place]) <= room)
    meets |= (price < 0) & above & (np.abs(bound - counts.low[place]) <= room)
    priced, price = priced[meets], price[meets]
    first = np.unique(place[0][meets] * prices.shape[1] + place[1][meets], return_index=True)[1]
    priced, price = priced[first], price[first]
    multipliers = np.zeros(len(rows.bounds))
    # ``rows`` has coefficients before the weights multiply them: a multiplier is the price of one copy.
    multipliers[priced] = price / rows.matrix.data[rows.matrix.indptr[priced]]
    return multipliers


def _has_fractions(dual: BatchDual, counts: Counts) -> Bools:
    """Problems with a bound that is not whole and may be met, shape (n_problems,)."""
    counting = np.flatnonzero(counts.counted[dual.row_problem])
    bound, problem = dual.rows.bounds[counting] / counts.factor[counting], dual.row_problem[counting]
    never_met = np.where(counts.factor[counting] > 0, bound >= dual.problem_size[problem], bound <= 0)
    never_met &= ~dual.terms.equality[counting]
    broken = ~never_met & (np.abs(bound - np.rint(bound)) > _room(bound))
    return np.bincount(problem, broken, dual.n_problems) > 0


def _room(bound: Floats) -> Floats:
    """The rounding error that a bound may have."""
    return _ROUNDING * np.maximum(1.0, np.abs(bound))


def solve_relaxation(dual: BatchDual, program: LinearProgram, start: Floats) -> Solution:
    """The linear relaxation (gamma = 0): transportations by shortest paths, the other problems by ``program``."""
    transports = find_transports(dual, whole=False)
    if transports is None:
        return program.solve(dual, start)
    solved, n = transports.problems, dual.n_problems
    rest = Solution(start, transports.status, np.zeros(n), 0)
    if not (solved.all() or transports.infeasible.any()):
        rest = program.solve(dual, start, ~solved)

    def mixture(problems: Bools) -> tuple[Parts, Floats]:
        parts, score = rest.mixture(problems & ~solved) if rest.mixture else (no_parts(dual.structure), np.zeros(n))
        inside, scores = transports.read(problems & solved, parts)
        problem, weight = dual.instance_problem[inside], dual.instance_weight[inside]
        return parts, score + sum_by(problem, weight * scores, n)

    return Solution(
        np.where(solved[dual.row_problem], transports.multipliers, rest.multipliers),
        np.where(solved, transports.status, rest.status),
        rest.residual,
        int(solved.sum()) + rest.n_iter,
        solved if rest.mixed is None else solved | rest.mixed,
        mixture,
    )


OnStep: TypeAlias = Callable[[float], None]
"""Hears which share of the work is done, from 0 to 1."""


def unheard(done: float) -> None:
    """Nobody listens."""


_MANY_CELLS = 20_000
_STEPS = 25  # iterations at each temperature for prices that only have to bound scores
_NODES, _SLIP = 200, 3e-7  # of the search among few labels, and which share of the bound it may miss


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
        ``CERTIFIED``: proven best, up to the gap that was allowed; ``MAX_ITERATIONS`` where the time limit came first.
    """

    labels: Ints
    score: float
    relaxation: float
    gap: float
    violation: float
    status: Status


def assign(
    structure: Labels,
    scores: Floats,
    rows: Rows,
    *,
    weights: Floats | None = None,
    time_limit: float | None = None,
    gap: float = 0.0,
    on_step: OnStep = unheard,
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
    gap : float
        Where rows tie more than 20,000 labels together: labels that are proven to score less than the best by at most
        this share of the score will do. Fewer labels are the best ones at any gap.
    on_step : callable
        Hears which share of the work is done.

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
    if not gap >= 0:
        raise InvalidInputError(f"gap must be a share of the score >= 0, got {gap!r}; 0 looks for the best labels")
    if weights is None:
        return _assign(structure, scores, scores, tidy_rows(rows), deadline, gap, on_step)
    counted = _counted(structure, rows, weights, weights)
    weight = np.repeat(weights, np.diff(structure.offsets))
    possible = ~np.isneginf(scores)
    weighted = np.where(possible, np.where(possible, scores, 0.0) * weight, -np.inf)
    assigned = _assign(structure, weighted, scores, counted, deadline, gap, on_step)
    touched = np.zeros(structure.n_instances, np.bool_)
    touched[structure.instance[counted.matrix.indices]] = True
    touched[rows.row_instance[rows.row_instance >= 0]] = True
    if not (touched & (weights == 0)).any() or assigned.status != Status.CERTIFIED:
        return assigned
    chosen = np.zeros(structure.n_unary, np.bool_)
    chosen[structure.offsets[:-1] + assigned.labels] = True
    rest = np.where(weight == 0, scores, np.where(chosen, 0.0, -np.inf))
    counted = _counted(structure, rows, weights, np.where(weights > 0, weights, 1.0))
    again = _assign(structure, rest, rest, counted, deadline, gap)
    return Assignment(again.labels, assigned.score, assigned.relaxation, assigned.gap, again.violation, assigned.status)


def _assign(
    structure: Labels,
    scores: Floats,
    alone: Floats,
    rows: Rows,
    deadline: Deadline,
    gap: float = 0.0,
    on_step: OnStep = unheard,
) -> Assignment:
    """Assign labels by ``scores``; instances that no row touches take their best label by ``alone``."""
    n, offsets = structure.n_instances, structure.offsets
    labels = np.full(n, -1)
    max_pass(np.arange(n + 1), offsets, alone, np.ones(n, np.bool_), np.zeros(n), labels)
    dual = BatchDual(structure, Parts(scores), rows, 0.0)
    counts = find_counts(dual)
    infeasible = transport_labels(dual, counts, counts.counted, labels)[1][dual.row_problem]
    if infeasible.any():
        raise no_assignment(block.name for block in rows.blocks if infeasible[block.start : block.stop].any())
    left, unit, status = 0.0, 1.0, Status.CERTIFIED
    if not counts.counted.all():
        programs = ProblemPrograms(dual)
        programs.variables.refuse_curved("by decide", "")
        problem = programs.write(np.flatnonzero(~counts.counted), _whole_bounds(rows))
        unit, solved = problem.unit, solve_program(dual, problem, deadline, gap, on_step)
        if solved is None:
            raise explain_whole(dual, ~counts.counted) or no_assignment(
                block.name for block in rows.blocks if block.slack is None or block.slack.kind == "bound"
            )
        labels[problem.instances] = solved.cells - offsets[problem.instances]
        left, status = solved.gap, solved.status
        if status != Status.CERTIFIED:
            warn_unconverged(
                f"the labels were not proven best within {setting('time_limit')}={deadline.limit:g} seconds; raise "
                f"it, or look at the gap ({left:.3g} nats)",
            )
    cell = offsets[:-1] + labels
    excess = rows.matrix @ indicators(labels, offsets) - rows.bounds
    score = float(scores[cell].sum() - dual.terms.cost(excess).sum())
    left = left if left > 1e-9 * max(unit, abs(score)) else 0.0
    return Assignment(
        labels, score, score + left, left, float(dual.terms.worst_violation(excess).max(initial=0.0)), status
    )


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
    """The part chosen of every instance, and by how much the linear relaxation may score more, nats."""

    cells: Ints
    gap: float
    status: Status


def solve_program(
    dual: BatchDual, problem: ProblemProgram, deadline: Deadline, gap: float = 0.0, on_step: OnStep = unheard
) -> Solved | None:
    """The best labels under the program of some problems, None if none meet the rows.

    Prices of the rows bound what any labels can score, and what a label costs that is not its instance's best at these
    prices. Labels are first sought among those that cost least. If their score is within ``gap`` of the bound it is
    near enough; else the program over the labels that cost at most what is open is as good as one over all.

    Raises
    ------
    InvalidInputError
        If nothing was found within the time limit.
    """
    n = len(problem.owner)
    if n <= _MANY_CELLS:
        return _solve(problem, np.ones(n, np.bool_), deadline)
    bound, cost = _price(dual, problem, lambda done: on_step(done / 2))  # the other half is one program or two
    spread = np.sort(cost[cost > 0])
    unit = max(problem.unit, abs(bound))
    allowed, kept = gap * unit, _MANY_CELLS // 40
    reach = float(spread[min(kept, len(spread) - 1)]) if len(spread) else 0.0
    first, best = True, None
    while True:
        taking = cost <= reach
        if taking.all():
            return _solve(problem, taking, deadline)
        slip, nodes = (_SLIP * unit, _NODES) if first else (0.1 * allowed, None)
        try:
            solved = _solve(problem, taking, deadline, slip, nodes)
        except InvalidInputError:  # there is no time left
            if best is None:
                raise
            return best
        if solved is None:
            kept *= 4
            reach = max(4 * reach, float(spread[min(kept, len(spread) - 1)]))
            continue
        chosen = np.zeros(len(dual.scores.unary))
        chosen[solved.cells] = 1.0
        penalty = dual.terms.cost(dual.matrix @ chosen - dual.rows.bounds)[np.unique(dual.row_problem[problem.rows])]
        left = bound - float(dual.scores.unary[solved.cells].sum() - penalty.sum())
        # Any choice with a label that was left out scores less than the bound by more than ``reach``.
        left, within = max(left, 0.0), left <= reach + 1e-9 * unit
        proven = min(left, max(solved.gap, left - reach))
        if left <= allowed or (within and not first and solved.status == Status.CERTIFIED):
            return Solved(solved.cells, proven, Status.CERTIFIED)
        if within and not first:
            return Solved(solved.cells, left, solved.status)
        best = Solved(solved.cells, left, Status.MAX_ITERATIONS)
        first, reach = False, max(reach, left)


def _price(dual: BatchDual, problem: ProblemProgram, on_step: OnStep) -> tuple[float, Floats]:
    """An upper bound of every score, and what each label costs at prices that prove it (any prices give a bound)."""
    prices = follow_temperatures(dual, _STEPS, on_step)[0].multipliers
    among = np.zeros(dual.n_problems, np.bool_)
    among[dual.row_problem[problem.rows]] = True
    bound = (dual.evaluate(prices, among).value + dual.terms.value(prices))[among].sum()
    reduced = (dual.scores.unary - dual.transpose @ prices)[problem.polytope.unary_index]
    best = np.maximum.reduceat(reduced, np.flatnonzero(np.diff(problem.owner, prepend=-1)))
    return float(bound), best[problem.owner] - reduced


def _solve(
    problem: ProblemProgram, taking: Bools, deadline: Deadline, slip: float = 0.0, nodes: int | None = None
) -> Solved | None:
    """The best choice among the labels ``taking`` by the problem's program, first by its relaxation; None if none.

    A choice that is worse than the best by at most ``slip`` nats will do, and the best after so many ``nodes``, if
    they are limited.
    """
    owner, every = problem.owner, problem.program
    program, x, columns = every.among(owner, taking, len(problem.rows))
    n_whole = int((columns < len(owner)).sum())

    def cells() -> Ints:
        return problem.polytope.unary_index[np.rint(x[: len(owner)]) == 1]

    relaxed = run_linear(program, deadline.left, accurate=False)
    if relaxed.status == INFEASIBLE:
        return None
    if relaxed.x is not None and (np.abs(relaxed.x - np.rint(relaxed.x))[:n_whole] <= WHOLE).all():
        x[columns] = relaxed.x
        return Solved(cells(), 0.0, Status.CERTIFIED)
    size = problem.unit * abs(relaxed.cost)
    solved = run_integer(program, n_whole, deadline.left, slip / size if slip and size > 0 else 0.0, nodes)
    if solved.status == INFEASIBLE or (solved.x is None and nodes is not None and deadline.left):
        return None
    if solved.x is None:
        raise InvalidInputError(
            f"no labels that meet the constraints were found within {setting('time_limit')}={deadline.limit:g} seconds "
            f"({solved.message}); allow more time, or give the constraints slack"
        )
    x[columns] = solved.x
    status = Status.CERTIFIED if solved.status == OPTIMAL else Status.MAX_ITERATIONS
    lowest = solved.bound if relaxed.x is None else relaxed.cost
    return Solved(cells(), (solved.cost - lowest) * problem.unit, status)


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
