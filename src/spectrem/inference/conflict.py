"""Constraints that cannot hold: tests, proofs, a search for few rows that conflict, and the errors that name them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.exceptions import InfeasibleConstraintError, quoted, setting
from spectrem.inference.dual import BatchDual, max_by, row_maxima, sum_by
from spectrem.inference.program import (
    INFEASIBLE,
    OPTIMAL,
    Deadline,
    Program,
    SlackVariables,
    compile_slack_variables,
    join_instances,
    largest_excess,
    run_integer,
    run_linear,
    write_program,
)
from spectrem.inference.result import Status
from spectrem.inference.solvers.smooth import Solution
from spectrem.structures.parts import Parts
from spectrem.structures.structure import has_one_label

_MOST_VARIABLES = 200_000
_MOST_ROWS = 400
_MOST_ALONE = 40
_MOST_SETS = 400
_EASY = 20  # rows that are tried one by one at once; of more, those of one or two constraints are tried first
_PROOF = 3.0  # seconds for a proof that the rows of a problem cannot hold
_WHOLE = 5.0  # seconds for all problems whose rows no whole structures meet, together
_LAST = 1.0  # seconds, at least, for each of the last two programs that describe the conflict
# Violations relative to the size of a row: above the first, rows cannot hold together; below the second, they can.
_CONFLICT, _HOLDS = 1e-8, 1e-9


class Excess(NamedTuple):
    """How far rows are from holding together.

    ``least`` is the least sum of their violations, each relative to the size of its row: 0 if they can hold, NaN if the
    time was too short. ``multipliers``, shape (n_rows,), then are a proof that they cannot, 0 where it needs no row.
    """

    least: float
    multipliers: Floats


@dataclass(frozen=True)
class ConflictSystem:
    """Rows, divided by their size, over x: how many instances of each kind choose which kinds of parts.

    Instances, and labels, with the same coefficients are of one kind. Where instances have other structures than one
    label, x are the variables of their polytopes.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,), int64
        Their numbers in the batch.
    size : ndarray of shape (n_rows,)
        Unit in which a violation is measured.
    program : Program
        Without costs; its first rows are ``rows``, divided by ``size``.
    n_x : int
        How many of its variables are x; those of slack follow.
    exact : bool
        Whether rows that can hold together here can do so in the batch; not under an l2 slack, which is approximated
        from outside.
    """

    rows: Ints
    size: Floats
    program: Program
    n_x: int
    exact: bool

    def excess(self, active: Bools, seconds: float, *, whole: bool = False) -> Excess:
        """The least violation of the active rows, shape (n_rows,), and its proof.

        With ``whole``, it is infinite where no whole structures meet the rows, and all of them are the proof.
        """
        program = self._of(active)
        if whole:
            outcome = run_integer(program, self.n_x, seconds)
            least = 0.0 if outcome.x is not None else np.inf if outcome.status == INFEASIBLE else np.nan
            return Excess(least, active / self.size)
        n_active, multipliers = int(active.sum()), np.zeros(len(self.rows))
        result = run_linear(program.elastic(np.ones(n_active)), seconds)
        if result.status != OPTIMAL:
            return Excess(np.nan, multipliers)
        price = result.prices[:n_active]
        multipliers[active] = np.where(np.abs(price) > 1e-9, price, 0.0) / self.size[active]
        return Excess(result.cost, multipliers)

    def least(self, signs: Floats, active: Bools, seconds: float) -> float:
        """The least that the sum of left sides, each times its sign, can be while the active rows hold, or NaN."""
        if not self.n_x:
            return 0.0
        unit = float(self.size[signs != 0].max())
        cost = np.zeros(len(self.program.cost))
        cost[: self.n_x] = (signs * self.size / unit) @ self.program.matrix[: len(self.rows), : self.n_x]
        result = run_linear(replace(self._of(active), cost=cost), seconds)
        return result.cost * unit if result.status == OPTIMAL else np.nan

    def _of(self, active: Bools) -> Program:
        others = np.arange(len(self.rows), len(self.program.bounds))
        return self.program.pick(np.concatenate([np.flatnonzero(active), others]), np.arange(len(self.program.cost)))


def write_system(dual: BatchDual, problem: int, rows: Ints, most: int) -> ConflictSystem | None:
    """The system of some rows of one problem; None if it has more than ``most`` variables."""
    matrix = sp.csr_array(dual.matrix[rows])
    touched = np.zeros(dual.structure.n_instances, np.bool_)
    touched[dual.structure.instance[matrix.indices]] = True
    if has_one_label(dual.structure):
        body, equal, equal_to = _kinds(dual, matrix, touched)
    else:
        if int(touched[dual.structure.instance].sum()) > most:
            return None
        touched[:1] |= not touched.any()  # a program needs an instance at least; one more changes nothing
        polytope, _ = join_instances(dual, np.flatnonzero(touched))
        possible = np.flatnonzero(~np.isneginf(polytope.objective))
        body = sp.csr_array((matrix[:, polytope.unary_index] @ polytope.unary)[:, possible])
        equal, equal_to = sp.csr_array(polytope.equalities[:, possible]), polytope.right_hand_side
    slack, exact = _slack(dual, rows)
    if body.shape[1] + len(slack.upper) > most:
        return None
    bounds = dual.rows.bounds[rows]
    size = np.maximum(np.abs(bounds), row_maxima(body))
    size = np.where(size > 0, size, 1.0)
    program = write_program(
        cost=np.zeros(body.shape[1]),
        # A kind has a number of instances; the variables of a polytope are at most 1.
        upper=np.asarray(equal.T @ equal_to) if has_one_label(dual.structure) else np.ones(body.shape[1]),
        body=body,
        bounds=bounds,
        equality=dual.terms.equality[rows],
        shapes=equal,
        ones=equal_to,
        slack=replace(slack, cost=np.zeros(len(slack.cost))),
    )
    program = program.scaled(1.0 / size, np.ones(len(program.cost)))
    return ConflictSystem(rows, size, program, body.shape[1], exact)


def _kinds(dual: BatchDual, matrix: sp.csr_array, touched: Bools) -> tuple[sp.csr_array, sp.csr_array, Floats]:
    """Columns of the kinds of parts of the kinds of instances, which of them belong to a kind, and how many are one."""
    part = np.flatnonzero(touched[dual.structure.instance] & ~np.isneginf(dual.scores.unary))
    instance = dual.structure.instance[part]
    # Columns that are alike have the same random projections, to the last bit; others almost never do.
    mark = (matrix.T @ np.random.default_rng(0).normal(size=(matrix.shape[0], 2)))[part]
    order = np.lexsort((mark[:, 1], mark[:, 0], instance))
    part, instance, mark = part[order], instance[order], mark[order]
    new = np.ones(len(part), np.bool_)
    new[1:] = (np.diff(instance) > 0) | (np.diff(mark, axis=0) != 0).any(axis=1)
    part, instance, mark = part[new], instance[new], mark[new]
    member, place = np.unique(instance, return_inverse=True)
    n = len(member)
    sums = [np.bincount(place, values, n) for values in (np.cos(mark[:, 0]), np.sin(mark[:, 1]), np.ones(len(place)))]
    _, first, count = np.unique(np.column_stack(sums), axis=0, return_index=True, return_counts=True)
    kind = np.full(n, -1)
    kind[first] = np.arange(len(first))
    chosen = kind[place] >= 0
    columns = kind[place[chosen]]
    equal = sp.csr_array((np.ones(len(columns)), (columns, np.arange(len(columns)))), shape=(len(first), len(columns)))
    return sp.csr_array(matrix[:, part[chosen]]), equal, count.astype(np.float64)


def _slack(dual: BatchDual, rows: Ints) -> tuple[SlackVariables, bool]:
    """The slack variables that touch the rows with what ties them, and whether they say all there is."""
    variables = compile_slack_variables(dual.terms, largest_excess(dual.matrix, dual.rows.bounds))
    wanted = np.zeros(len(variables.upper), np.bool_)
    wanted[variables.matrix[rows].indices] = True
    ties = np.flatnonzero(abs(variables.ties) @ wanted.astype(np.float64) > 0)
    wanted[variables.ties[ties].indices] = True
    curved = any(wanted[first : norm + len(group.problem)].any() for group, first, norm in variables.curved)
    return variables.pick(rows, np.flatnonzero(wanted), ties), not curved


@dataclass(frozen=True)
class Conflict:
    """Rows that cannot hold together.

    Attributes
    ----------
    rows : ndarray of shape (n_conflicting,), int64
        Increasing; numbers of the batch.
    irreducible : bool
        Whether all these rows but any one can hold together.
    smallest : bool
        Whether it is proven that no fewer rows of the problem conflict.
    multipliers : ndarray of shape (n_conflicting,)
        A proof by Farkas' lemma: prices along which the dual falls without bound; zeros if only whole structures
        conflict or the rows have too many parts.
    allowed : ndarray of shape (n_conflicting,)
        The least (for ``==`` under a negative multiplier: the greatest) value of the left side of each row while the
        others hold; NaN where it was not looked for.
    total : float
        Of rows without slack and with multipliers of one size: the least value of ``sum of sign(multiplier) * left
        side`` under no other rows; else NaN.
    whole : bool
        Whether expectations could meet the rows, and only whole structures cannot.
    """

    rows: Ints
    irreducible: bool
    smallest: bool
    multipliers: Floats
    allowed: Floats
    total: float
    whole: bool


def find_conflict(
    dual: BatchDual, problem: int, direction: Floats | None = None, *, whole: bool = False, seconds: float = 3.0
) -> Conflict | None:
    """Rows of a problem that cannot hold together, while all but any one of them can.

    The search starts from the rows of a proof of infeasibility. One row after the other is then removed if the others
    still conflict (the deletion filter: Chinneck & Dravnieks 1991). Each test is a linear program in which instances
    with the same coefficients in the rows are one variable with a count.

    Use when a solver found a problem infeasible, and users must know which constraints to change.

    Parameters
    ----------
    dual : BatchDual
    problem : int
        Which of the problems of ``dual``.
    direction : ndarray of shape (n_rows,) or None
        Prices of all rows; if they prove the conflict, the search starts from the rows whose price is not 0.
    whole : bool
        Ask for whole structures (gamma = -inf) in place of expectations.
    seconds : float

    Returns
    -------
    Conflict or None
        None if nothing is proven: the rows may hold after all, or the problem is too large.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from spectrem.constraints.compilation.rows import Block, Rows
    >>> from spectrem.structures import Categorical, Parts
    >>> most, least, idle = (Block(name, k, k + 1, False, "instance", None, np.zeros(1, int), {}) for k, name in
    ...                      enumerate(["most", "least", "idle"]))
    >>> matrix = sp.csr_array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]])
    >>> rows = Rows(matrix, np.array([0.3, -0.5, 0.9]), np.zeros(3, int), (most, least, idle))
    >>> conflict = find_conflict(BatchDual(Categorical([3]), Parts(np.zeros(3)), rows, 1.0), 0)
    >>> conflict.rows.tolist(), conflict.smallest
    ([0, 1], True)
    """
    search = _Search(dual, problem, Deadline(seconds))
    if len(search.candidates) == 0:
        return None
    alone = search.rows_alone()
    if len(alone):
        return search.finish(alone[:1], irreducible=True, smallest=True)
    used = search.candidates[:0] if direction is None else search.candidates[direction[search.candidates] != 0]
    proven = direction is not None and len(used) > 0 and search.proves(direction)
    start = used if proven else search.candidates
    if len(start) > _EASY:
        start = search.one_block(start)
    filtered = search.filtered(start)
    if filtered is None and whole and len(search.candidates) <= _MOST_ROWS:
        filtered = search.filtered(search.candidates, whole=True)
        return None if filtered is None else unproven(*filtered, whole=True)
    if filtered is None:
        return None if whole or not proven else unproven(start)
    rows, irreducible = filtered
    fewer = search.fewer(len(rows)) if irreducible else None
    if fewer is None:
        return search.finish(rows, irreducible, smallest=irreducible and len(rows) <= search.least_size)
    return search.finish(fewer, irreducible=True, smallest=True)


def find_proof(dual: BatchDual, problem: int) -> Floats | None:
    """Prices of all rows along which the dual falls without bound, if the rows of the problem cannot hold together.

    Returns
    -------
    ndarray of shape (n_rows,) or None
        None if the rows can hold, up to a tolerance, or nothing was proven in time.
    """
    search = _Search(dual, problem, Deadline(_PROOF))
    rows = search.candidates
    system = write_system(dual, problem, rows, _MOST_VARIABLES) if len(rows) else None
    if system is None:
        return None
    least, multipliers = system.excess(np.ones(len(rows), np.bool_), search.deadline.left)
    proof = np.zeros(len(dual.row_problem))
    proof[rows] = multipliers / dual.row_weight[rows]
    return proof if least > _CONFLICT and search.proves(proof) else None


def unproven(rows: Ints, irreducible: bool = False, *, whole: bool = False) -> Conflict:
    """A conflict without a proof in prices: of whole structures, or known to lie somewhere among the rows."""
    nothing = np.zeros(len(rows))
    return Conflict(rows, irreducible, irreducible and len(rows) == 1, nothing, nothing + np.nan, np.nan, whole)


class _Search:
    """The rows of one problem that may conflict, and the steps of the search."""

    def __init__(self, dual: BatchDual, problem: int, deadline: Deadline) -> None:
        self.dual, self.problem, self.deadline = dual, problem, deadline
        usable = (dual.row_problem == problem) & ~dual.terms.penalised & (dual.row_weight > 0)
        self.candidates = np.flatnonzero(usable)
        self.least_size = 2  # no fewer rows conflict
        self._active = np.zeros(dual.n_problems, np.bool_)
        self._active[problem] = True

    def proves(self, direction: Floats) -> bool:
        """Whether a direction proves that the rows in it cannot hold together."""
        return bool(self.dual.infeasible(direction, self._active)[self.problem])

    def rows_alone(self) -> Ints:
        """Rows that cannot hold by themselves; none is looked for where there are many."""
        if len(self.candidates) > _MOST_ALONE:
            self.least_size = 1
            return self.candidates[:0]
        direction = np.zeros(len(self.dual.row_problem))
        bad = []
        for row in self.candidates:
            for sign in (1.0, -1.0)[: 2 if self.dual.terms.equality[row] else 1]:
                direction[row] = sign
                if self.proves(direction):
                    bad.append(row)
            direction[row] = 0.0
        return np.array(bad, np.int64)

    def one_block(self, start: Ints) -> Ints:
        """The rows of one constraint, or of two, if they conflict without any others; else ``start``."""
        usable = self.candidates
        blocks = [usable[(usable >= block.start) & (usable < block.stop)] for block in self.dual.rows.blocks]
        few = sorted((rows for rows in blocks if 0 < len(rows) <= _MOST_ROWS), key=len)[:5]
        for rows in [*few, *(np.sort(np.concatenate(pair)) for pair in combinations(few, 2))]:
            system = write_system(self.dual, self.problem, rows, _MOST_VARIABLES // 20)
            if system is None or self.deadline.left <= 0:
                continue
            if system.excess(np.ones(len(rows), np.bool_), 0.3 * self.deadline.left).least > _CONFLICT:
                return rows
        return start

    def filtered(self, rows: Ints, *, whole: bool = False) -> tuple[Ints, bool] | None:
        """Rows among these that conflict, and whether none can be left out; None if no conflict is proven.

        With ``whole``, rows conflict that no whole structures meet, by integer programs.
        """
        while True:
            system = write_system(self.dual, self.problem, rows, _MOST_VARIABLES // 100 if whole else _MOST_VARIABLES)
            if system is None:
                return None
            least, multipliers = system.excess(np.ones(len(rows), np.bool_), self.deadline.left, whole=whole)
            if not least > _CONFLICT:
                return None
            if (multipliers != 0).sum() >= 0.7 * len(rows):
                break
            rows = rows[multipliers != 0]
        needed = np.zeros(len(rows), np.bool_)
        sure = system.exact and len(rows) <= _MOST_ROWS
        active = multipliers != 0
        while len(rows) <= _MOST_ROWS and self.deadline.left > 0:
            untried = np.flatnonzero(active & ~needed)
            if not len(untried):
                break
            row = untried[np.argmin(np.abs(multipliers[untried]) * system.size[untried])]
            trial = active.copy()
            trial[row] = False
            answer = system.excess(trial, self.deadline.left, whole=whole)
            if answer.least > _CONFLICT:
                multipliers = answer.multipliers
                active = multipliers != 0
            else:
                needed[row] = True
                sure &= answer.least <= _HOLDS
        return rows[active], bool(sure and needed[active].all())

    def fewer(self, size: int) -> Ints | None:
        """A smaller set of conflicting rows, if all smaller sets can be tried; raises ``least_size`` with each size."""
        if size <= self.least_size:
            return None
        system = write_system(self.dual, self.problem, self.candidates, _MOST_VARIABLES // 100)
        if system is None or not system.exact:
            return None
        for smaller in range(self.least_size, size):
            if comb(len(self.candidates), smaller) > _MOST_SETS:
                return None
            for chosen in combinations(range(len(self.candidates)), smaller):
                active = np.zeros(len(self.candidates), np.bool_)
                active[list(chosen)] = True
                least = system.excess(active, self.deadline.left).least
                if least > _CONFLICT:
                    return self.candidates[active]
                if not least <= _HOLDS:
                    return None
            self.least_size = smaller + 1
        return None

    def finish(self, rows: Ints, irreducible: bool, smallest: bool) -> Conflict:
        """Describe the conflict of the rows: its proof, and the values that each row could have beside the others."""
        system = write_system(self.dual, self.problem, rows, _MOST_VARIABLES)
        allowed = np.full(len(rows), np.nan)
        if system is None:
            return Conflict(rows, irreducible, smallest, np.zeros(len(rows)), allowed, np.nan, False)
        all_rows = np.ones(len(rows), np.bool_)
        multipliers = system.excess(all_rows, max(self.deadline.left, _LAST)).multipliers
        for row in range(len(rows)):
            if len(rows) > 12 or self.deadline.left <= 0:
                break
            sign = np.zeros(len(rows))
            sign[row] = 1.0 if multipliers[row] >= 0 else -1.0
            allowed[row] = sign[row] * system.least(sign, sign == 0, self.deadline.left)
        price, total = np.abs(multipliers), np.nan
        alike = len(rows) > 1 and price.min() > 0.999999 * price.max() > 0
        if alike and len(system.program.cost) == system.n_x:
            total = system.least(np.sign(multipliers), ~all_rows, _LAST)
        return Conflict(rows, irreducible, smallest, multipliers, allowed, total, False)


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
            f"{quoted(block.name)}: {setting('no feasible q')} {place_of(block, k, int(rows.row_instance[row]))}: "
            f"its possible parts reach {low + 0.0:g} to {high + 0.0:g}, and the row demands {sign} {bound:g}{more}; "
            "relax the bound, give the constraint slack (a penalty or a bound), drop the instance, or leave the "
            f"constraint out there with {setting('infeasible', 'skip')}"
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


def explain_whole(dual: BatchDual, problems: Bools) -> InfeasibleConstraintError | None:
    """The error for rows that no whole structures meet, or None if no conflict is found in time.

    Parameters
    ----------
    dual : BatchDual
        With the bounds that could not be met.
    problems : ndarray of shape (n_problems,), bool
        Where to search.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> from spectrem.constraints.compilation.compile import compile_constraints
    >>> from spectrem.structures import Categorical, Parts
    >>> half = (E[part("label") == 1] == 1.5).named("half")
    >>> labels = Categorical([2, 2])
    >>> dual = BatchDual(labels, Parts(np.zeros(4)), compile_constraints(half, labels), 0.0)
    >>> print(explain_whole(dual, np.ones(1, bool)))  # doctest: +ELLIPSIS
    'half': no feasible q over the corpus (== 1.5); expectations could meet it, whole structures cannot; relax ...
    """
    deadline = Deadline(_WHOLE)
    for problem in np.flatnonzero(problems)[:_MOST_PROBLEMS]:
        conflict = find_conflict(dual, int(problem), whole=True, seconds=deadline.left)
        if conflict is not None:
            return _error(conflict, dual.rows, conflict.rows)
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
    text = f"{quoted(sentences[0][0])}: {setting('no feasible q')} {sentences[0][1]}"
    if len(sentences) > 1:
        text += "; it conflicts with " + " and with ".join(f"{quoted(name)} {where}" for name, where in sentences[1:])
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
    which = "the bound, give the constraint" if one else "one of the bounds, give one of the constraints"
    text = f"relax {which} slack (a penalty or a bound)"
    if (rows.row_instance[conflict.rows] < 0).all():
        return f"{text}, or leave {'it' if one else 'one of them'} out"
    return f"{text}, drop the instance, or leave constraints out there with {setting('infeasible', 'skip')}"
