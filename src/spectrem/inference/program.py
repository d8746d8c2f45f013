"""Linear and integer programs over structures, rows and slack, and HiGHS, which solves them within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import BatchDual, SlackGroups, SlackTerms, choice_offsets, members_of, row_maxima, sum_by
from spectrem.structures._polytopes import join_polytopes
from spectrem.structures._ragged import offsets_of, ranges_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope

TIME_LIMIT = 300.0
"""Seconds that all programs of one call may take together unless the caller says otherwise."""
# Ways in which a program ends, as SciPy numbers them.
OPTIMAL, OUT_OF_TIME, INFEASIBLE, BROKEN = 0, 1, 2, 4
_GRACE = 2.0  # seconds that HiGHS may run beyond its limit, which it checks only at intervals
_ROUNDING = 1e-7  # HiGHS' own tolerance of feasibility
_ACCURATE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class SlackVariables:
    """Nonnegative slack variables y of a minimisation: ``U mu + matrix @ y <= b``, ``ties @ y <= 0``.

    Attributes
    ----------
    matrix : csr_array of shape (n_rows, n_variables)
        Takes the upward violation from a row and, for equality rows, adds the downward one.
    cost, upper : ndarray of shape (n_variables,)
        One variable per group holds its norm; it costs the penalty, or is at most the bound. All upper ends are finite;
        those that are no bound of slack are larger than any violation.
    ties : csr_array of shape (n_ties, n_variables)
    variable_problem, tie_problem : ndarray of int64
    curved : tuple of (SlackGroups, first row variable, norm variable)
        Groups under an l2 norm, of which ``ties`` holds only an outer approximation.
    """

    matrix: sp.csr_array
    cost: Floats
    upper: Floats
    ties: sp.csr_array
    variable_problem: Ints
    tie_problem: Ints
    curved: tuple[tuple[SlackGroups, int, int], ...]

    def pick(self, rows: Ints, variables: Ints, ties: Ints) -> SlackVariables:
        """Some rows, variables and ties, with an empty ``curved``."""
        return SlackVariables(
            sp.csr_array(self.matrix[rows][:, variables]),
            self.cost[variables],
            self.upper[variables],
            sp.csr_array(self.ties[ties][:, variables]),
            self.variable_problem[variables],
            self.tie_problem[ties],
            (),
        )

    def refuse_curved(self, use: str = "at gamma = -inf", other: str = ", or a gamma >= 0") -> None:
        """Raise if a slack has an l2 norm; the message names the ``use`` that it has no place in, and other advice."""
        if self.curved:
            raise InvalidInputError(
                f"slack with norm 'l2' cannot be used {use}, where the program must be linear; use norm='l1' or "
                f"norm='linf'{other}"
            )

    def tangents(self, y: Floats, size: Floats) -> sp.csr_array:
        """Ties, shape (n_new, n_variables), of the l2 groups whose norm in ``y`` is too small for its violations.

        ``size``, shape (n_rows,), is what a violation of each row is measured in.
        """
        cuts = []
        for group, first, norm in self.curved:
            sides, n = 2 if group.equality else 1, len(group.rows)
            violation = y[first : first + sides * n].reshape(sides, n).sum(axis=0)
            length = group.norm(violation, "l2")
            room = np.maximum.reduceat(size[group.rows], group.offsets[:-1])
            for g in np.flatnonzero(length > y[norm : norm + len(length)] + room):
                members = np.arange(group.offsets[g], group.offsets[g + 1])
                cut = np.zeros(len(y))
                for side in range(sides):
                    cut[first + side * n + members] = violation[members] / length[g]
                cut[norm + g] = -1.0
                cuts.append(cut)
        return sp.csr_array(np.array(cuts).reshape(len(cuts), len(y)))


def largest_excess(matrix: sp.csr_array, bounds: Floats) -> Floats:
    """A number that ``abs(matrix @ mu - bounds)`` never exceeds for parts in [0, 1], shape (n_rows,).

    Examples
    --------
    >>> largest_excess(sp.csr_array([[1.0, -2.0]]), np.array([-0.5]))
    array([3.5])
    """
    return np.asarray(abs(matrix).sum(axis=1), np.float64).ravel() + np.abs(bounds)


def compile_slack_variables(terms: SlackTerms, largest: Floats) -> SlackVariables:
    """Write the slack of all rows as a linear program (exact for l1, linf and single rows).

    Parameters
    ----------
    terms : SlackTerms
    largest : ndarray of shape (n_rows,)
        A number that the violation of a row never exceeds, as `largest_excess`.
    """
    # No solution reaches these upper ends, so that prices belong to rows and never to the ends of variables.
    end = 2.0 * largest + 1.0
    n_rows, n_variables = len(terms.row_problem), 0
    matrix, ties = [sp.csr_array((n_rows, 0))], [sp.csr_array((0, 0))]
    cost, upper = [np.zeros(0)], [np.zeros(0)]
    variable_problem, tie_problem = [terms.row_problem[:0]], [terms.row_problem[:0]]
    curved = []
    for group in terms.groups:
        n, n_groups, sizes = len(group.rows), len(group.problem), np.diff(group.offsets)
        signs = (-1.0, 1.0) if group.equality else (-1.0,)
        n_sides = len(signs)
        group_of = np.repeat(np.arange(n_groups), sizes)
        owner, each = np.tile(group_of, n_sides), np.arange(n_sides * n)
        taken = np.repeat(signs, n), (np.tile(group.rows, n_sides), each)
        matrix += [sp.csr_array(taken, shape=(n_rows, len(each))), sp.csr_array((n_rows, n_groups))]
        tie: list[list[Any]] = []
        if group.slack.norm in ("l1", "l2"):
            share = np.ones(len(each)) if group.slack.norm == "l1" else 1.0 / np.sqrt(sizes[owner])
            tie.append([sp.csr_array((share, (owner, each)), shape=(n_groups, len(each))), -sp.eye_array(n_groups)])
            tie_problem.append(group.problem)
        if group.slack.norm in ("linf", "l2"):
            of_norm = sp.csr_array((np.ones(len(each)), (each, owner)), shape=(len(each), n_groups))
            tie.append([sp.eye_array(len(each)), -of_norm])
            tie_problem.append(group.problem[owner])
        ties.append(sp.block_array(tie, format="csr"))
        if group.slack.norm == "l2" and n > n_groups:
            curved.append((group, n_variables, n_variables + len(each)))
        penalty, strength = group.slack.kind == "penalty", group.slack.strength
        ends = end[group.rows]
        cost += [np.zeros(len(each)), strength * group.weight if penalty else np.zeros(n_groups)]
        upper += [np.tile(ends, n_sides), sum_by(group_of, ends, n_groups) if penalty else np.full(n_groups, strength)]
        variable_problem += [group.problem[owner], group.problem]
        n_variables += len(each) + n_groups
    return SlackVariables(
        sp.csr_array(sp.hstack(matrix, format="csr")),
        np.concatenate(cost),
        np.concatenate(upper),
        sp.csr_array(sp.block_diag(ties, format="csr")),
        np.concatenate(variable_problem),
        np.concatenate(tie_problem),
        tuple(curved),
    )


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x`` where ``matrix @ x <= bounds`` or, where ``equality``, ``==``, and ``0 <= x <= upper``.

    Attributes
    ----------
    cost : ndarray of shape (n_variables,)
    upper : ndarray of shape (n_variables,)
        Finite: presolve may loop for ever over a variable without a bound, and does not check the time there.
    matrix : csr_array of shape (n_rows, n_variables)
    bounds : ndarray of shape (n_rows,)
    equality : ndarray of shape (n_rows,), bool
    """

    cost: Floats
    upper: Floats
    matrix: sp.csr_array
    bounds: Floats
    equality: Bools

    def pick(self, rows: Ints, columns: Ints) -> Program:
        """Some of the rows over some of the variables; the others are 0."""
        return Program(
            self.cost[columns],
            self.upper[columns],
            sp.csr_array(self.matrix[rows][:, columns]),
            self.bounds[rows],
            self.equality[rows],
        )

    def among(self, owner: Ints, taking: Bools, n_rows: int) -> tuple[Program, Floats, Ints]:
        """The program of the labels ``taking`` of categorical instances, in which those that stand alone are constants.

        Parameters
        ----------
        owner : ndarray of shape (n_x,), int64
            The instance of every label, increasing; the other variables are kept.
        taking : ndarray of shape (n_x,), bool
            One label of every instance, or more.
        n_rows : int
            The rows before those that give every instance one label.

        Returns
        -------
        program : Program
        x : ndarray of shape (n_variables,)
            1 for the labels that stand alone.
        columns : ndarray of int64
            The variables of the smaller program.
        """
        n = len(owner)
        several = np.bincount(owner[taking], minlength=int(owner.max(initial=-1)) + 1) > 1
        x = np.zeros(len(self.cost))
        x[:n] = taking & ~several[owner]
        columns = np.concatenate([np.flatnonzero(taking & several[owner]), np.arange(n, len(x))])
        kept = np.ones(len(self.bounds), np.bool_)
        kept[n_rows : n_rows + len(several)] = several
        left = replace(self, bounds=self.bounds - self.matrix @ x)
        return left.pick(np.flatnonzero(kept), columns), x, columns

    def with_rows(self, matrix: sp.csr_array) -> Program:
        """With the rows ``matrix @ x <= 0`` after the others."""
        n = matrix.shape[0]
        return replace(
            self,
            matrix=sp.csr_array(sp.vstack([self.matrix, matrix], format="csr")),
            bounds=np.append(self.bounds, np.zeros(n)),
            equality=np.append(self.equality, np.zeros(n, np.bool_)),
        )

    def elastic(self, miss: Floats) -> Program:
        """The first rows may be missed, at the costs per unit ``miss``, shape (n_elastic,).

        The new variables are the excess of each of these rows, then the shortfall of each equality among them.
        """
        n = len(miss)
        both = np.flatnonzero(self.equality[:n])
        way = np.concatenate([np.arange(n), both])
        signs = np.repeat([-1.0, 1.0], [n, len(both)])
        missed = sp.csr_array((signs, (way, np.arange(len(way)))), shape=(len(self.bounds), len(way)))
        # No solution reaches these upper ends, so that prices never belong to the ends of variables.
        reach = abs(self.matrix[:n]) @ self.upper + np.abs(self.bounds[:n])
        return replace(
            self,
            cost=np.append(self.cost, miss[way]),
            upper=np.append(self.upper, 2.0 * reach[way] + 1.0),
            matrix=sp.csr_array(sp.hstack([self.matrix, missed], format="csr")),
        )

    def scaled(self, row: Floats, column: Floats, unit: float = 1.0) -> Program:
        """The program in other units: rows times ``row``, variables divided by ``column``, costs divided by ``unit``.

        Factors that are missing at the end are 1. Powers of two change nothing but the units.
        """
        row = np.append(row, np.ones(len(self.bounds) - len(row)))
        matrix = self.matrix.copy()
        matrix.data = np.repeat(row, np.diff(matrix.indptr)) * matrix.data * column[matrix.indices]
        return replace(
            self, cost=self.cost * column / unit, upper=self.upper / column, matrix=matrix, bounds=self.bounds * row
        )


def write_program(
    cost: Floats,
    upper: Floats,
    body: sp.csr_array,
    bounds: Floats,
    equality: Bools,
    shapes: sp.csr_array,
    ones: Floats,
    slack: SlackVariables,
) -> Program:
    """The program of x made of the shapes of structures, under rows with slack.

    Parameters
    ----------
    cost, upper : ndarray of shape (n_x,)
    body : csr_array of shape (n_rows, n_x)
    bounds : ndarray of shape (n_rows,)
    equality : ndarray of shape (n_rows,), bool
    shapes : csr_array of shape (n_shapes, n_x)
        ``shapes @ x == ones``.
    ones : ndarray of shape (n_shapes,)
    slack : SlackVariables
        Of the rows.

    Returns
    -------
    Program
        Its variables are the x, then those of slack; its rows are those given, the shapes, then the ties of slack.
    """
    blocks: list[list[Any]] = [[body, slack.matrix], [shapes, None], [None, slack.ties]]
    n_shapes, n_ties = shapes.shape[0], slack.ties.shape[0]
    return Program(
        np.concatenate([cost, slack.cost]),
        np.concatenate([upper, slack.upper]),
        sp.csr_array(sp.block_array(blocks, format="csr")),
        np.concatenate([bounds, ones, np.zeros(n_ties)]),
        np.concatenate([equality, np.ones(n_shapes, np.bool_), np.zeros(n_ties, np.bool_)]),
    )


class Deadline:
    """The time that the programs of one call have together.

    Parameters
    ----------
    time_limit : float or None
        Seconds; None is ``TIME_LIMIT``, inf no limit.

    Raises
    ------
    InvalidInputError
        If the time limit is negative, NaN or not a number.
    """

    def __init__(self, time_limit: float | None) -> None:
        limit: Any = TIME_LIMIT if time_limit is None else time_limit
        if isinstance(limit, bool) or not isinstance(limit, int | float | np.integer | np.floating) or not limit >= 0:
            raise InvalidInputError(
                f"time_limit must be a number of seconds >= 0, got {time_limit!r}; leave None for {TIME_LIMIT:g}"
            )
        self.limit = float(limit)
        self._end = time.monotonic() + self.limit

    @property
    def left(self) -> float:
        """Seconds that remain, 0 when there are none."""
        return max(self._end - time.monotonic(), 0.0)


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes
    ----------
    status : int
        ``OPTIMAL``, ``OUT_OF_TIME``, ``INFEASIBLE``, or another number of SciPy's.
    x : ndarray of shape (n_variables,) or None
        The solution; of an integer program that is out of time, the best found so far, if any was.
    cost : float
        Of ``x``, NaN without.
    bound : float
        No solution of the integer program costs less.
    message : str
    prices : ndarray of shape (n_rows,)
        By how much a linear program's cost falls per unit of the bound of each row.
    """

    status: int
    x: Floats | None = None
    cost: float = np.nan
    bound: float = -np.inf
    message: str = ""
    prices: Floats = field(default_factory=lambda: np.zeros(0))


def run_linear(program: Program, seconds: float, *, method: str = "highs", accurate: bool = True) -> Outcome:
    """Solve a linear program.

    Parameters
    ----------
    program : Program
    seconds : float
        It is ``OUT_OF_TIME`` then.
    method : {"highs", "highs-ipm", "highs-ds"}
    accurate : bool
        Tolerances of 1e-10 in place of 1e-7.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> one = sp.csr_array([[1.0, 1.0]])
    >>> run_linear(Program(np.array([1.0, 2.0]), np.ones(2), one, np.ones(1), np.ones(1, bool)), 10.0).cost
    1.0
    """
    from scipy.optimize import linprog

    solve: Any = linprog  # its stubs know no sparse arrays
    below, equal = ~program.equality, program.equality

    def run(options: dict[str, Any]) -> Any:
        return solve(
            program.cost,
            A_ub=program.matrix[below] if below.any() else None,
            b_ub=program.bounds[below] if below.any() else None,
            A_eq=program.matrix[equal],
            b_eq=program.bounds[equal],
            bounds=np.column_stack([np.zeros(len(program.upper)), program.upper]),
            method=method,
            options=options | (_ACCURATE if accurate else {}),
        )

    return _run(program, seconds, run)


def run_integer(program: Program, n_whole: int, seconds: float, gap: float = 0.0, nodes: int | None = None) -> Outcome:
    """Solve a program of which the first ``n_whole`` variables are whole numbers.

    It ends once the cost is within ``gap`` times itself of the optimum, or after so many ``nodes`` of the search.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    equal, limit = program.equality, program.bounds
    constraints = [LinearConstraint(program.matrix[equal], limit[equal], limit[equal])]
    if not equal.all():
        constraints.append(LinearConstraint(program.matrix[~equal], -np.inf, limit[~equal]))
    solve: Any = milp

    def run(options: dict[str, Any]) -> Any:
        return solve(
            program.cost,
            integrality=(np.arange(len(program.cost)) < n_whole).astype(np.int64),
            bounds=Bounds(0.0, program.upper),
            constraints=constraints,
            options={"mip_rel_gap": gap, "node_limit": nodes} | options,
        )

    return _run(program, seconds, run)


def _run(program: Program, seconds: float, run: Callable[[dict[str, Any]], Any]) -> Outcome:
    """Run HiGHS within its time, and once more without presolve if it fails, as presolve does on a few programs."""
    if not len(program.cost):
        return _without_variables(program)
    deadline = Deadline(seconds)
    for presolve in (True, False):
        left = deadline.left
        result = _watch(partial(run, {"time_limit": left, "presolve": presolve}), left)
        if result is None:
            return Outcome(OUT_OF_TIME, message="HiGHS did not return within its time")
        if result.x is not None:
            cost, bound = float(result.fun), result.get("mip_dual_bound")  # None where nothing has to be whole
            prices = np.zeros(len(program.bounds))
            if "eqlin" in result:
                prices[program.equality], prices[~program.equality] = -result.eqlin.marginals, -result.ineqlin.marginals
            return Outcome(result.status, result.x, cost, cost if bound is None else bound, result.message, prices)
        if result.status != BROKEN:
            break
    return Outcome(result.status, message=result.message)


def _watch(call: Callable[[], Any], seconds: float) -> Any:
    """The result of a call, or None if it still runs ``_GRACE`` seconds after its time.

    HiGHS runs without Python's lock, in a thread of its own, so that the caller always gets an answer and can be
    interrupted. A thread that is given up ends with the process.
    """
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # raised again where the answer is waited for
            answer.set_exception(error)

    Thread(target=run, name="spectrem-highs", daemon=True).start()
    try:
        return answer.result(None if seconds == np.inf else seconds + _GRACE)
    except TimeoutError:
        return None


def _without_variables(program: Program) -> Outcome:
    """The outcome of a program without variables, which SciPy refuses: its rows hold, or they do not."""
    missed = np.where(program.equality, np.abs(program.bounds), -program.bounds)
    if (missed <= _ROUNDING).all():
        return Outcome(OPTIMAL, np.zeros(0), 0.0, 0.0, "nothing to choose", np.zeros(len(missed)))
    return Outcome(INFEASIBLE, message="nothing to choose")


@dataclass(frozen=True)
class ProblemProgram:
    """The program of one problem of a batch, or of several that are solved side by side.

    It is written in units in which the absolute tolerances of HiGHS mean the same for all problems: rows have
    coefficients near 1, costs are of the size of the scores' range. All factors are powers of two, hence exact.

    Attributes
    ----------
    program : Program
        Over the variables of the polytopes, then those of slack; the problems' rows come first.
    rows, instances : ndarray of int64
        Numbers in the batch.
    slack : ndarray of shape (n_slack,), int64
        Which slack variables of the batch are its.
    polytope : Polytope
        Of all instances side by side.
    owner : ndarray of shape (n_x,), int64
        Which of the instances a variable of the polytope belongs to, increasing.
    row : ndarray of shape (n_rows,)
        What a row is multiplied by.
    column : ndarray of shape (n_x + n_slack,)
        The unit in which a variable is counted.
    unit : float
        Nats that a cost of 1 is.
    """

    program: Program
    rows: Ints
    instances: Ints
    slack: Ints
    polytope: Polytope
    owner: Ints
    row: Floats
    column: Floats
    unit: float

    def read(self, x: Floats, weights: Floats, parts: Parts) -> Floats:
        """Write the parts of a solution into ``parts`` (factor counts times the weights); the score of each instance.

        ``x``, shape (n_x + n_slack,) or (n_x,), is a solution of the program: variables of polytopes have no unit.
        """
        shares = x[: len(self.owner)]
        chosen = shares > 0
        earned = np.where(chosen, self.polytope.objective, 0.0) * shares
        parts.unary[self.polytope.unary_index] = self.polytope.unary @ shares
        counted = shares * weights[self.instances][self.owner]
        for factor, counts in zip(parts.factors, self.polytope.factors, strict=True):
            factor += (counts @ counted).reshape(factor.shape)
        return sum_by(self.owner, earned, len(self.instances))


class ProblemPrograms:
    """Writes the program of any one problem of a batch, or of several that are solved side by side."""

    def __init__(self, dual: BatchDual) -> None:
        self.dual = dual
        largest = largest_excess(dual.matrix, dual.rows.bounds)
        self.variables: SlackVariables = compile_slack_variables(dual.terms, largest)
        of_problems = (
            dual.row_problem,
            dual.instance_problem,
            self.variables.variable_problem,
            self.variables.tie_problem,
        )
        self._of = [members_of(label, dual.n_problems) for label in of_problems]

    def write(self, p: int | Ints, bounds: Floats | None = None) -> ProblemProgram:
        """The program of problem ``p``, or of all of several, with other ``bounds`` of all rows if they are given."""
        dual, some = self.dual, np.atleast_1d(p)
        bounds = dual.rows.bounds if bounds is None else bounds
        rows, instances, variables, ties = (
            np.sort(np.concatenate([members[edges[k] : edges[k + 1]] for k in some])) for members, edges in self._of
        )
        polytope, owner = join_instances(dual, instances)
        slack = self.variables.pick(rows, variables, ties)
        possible = ~np.isneginf(polytope.objective)
        body = sp.csr_array(dual.matrix[rows][:, polytope.unary_index] @ polytope.unary)
        program = write_program(
            cost=-dual.instance_weight[instances][owner] * np.where(possible, polytope.objective, 0.0),
            upper=possible.astype(np.float64),
            body=body,
            bounds=bounds[rows],
            equality=dual.terms.equality[rows],
            shapes=polytope.equalities,
            ones=polytope.right_hand_side,
            slack=slack,
        )
        largest = row_maxima(body)
        row = 1.0 / _power(_or_one(np.where(largest > 0, largest, np.abs(program.bounds[: len(rows)]))))
        # A violation is measured in the unit of its row, a norm in that of its largest violation.
        largest = row_maxima(sp.csr_array(slack.matrix.T), row)
        violation = np.where(largest > 0, 1.0 / _or_one(largest), 0.0)
        reach = row_maxima(slack.ties, violation)
        norm = row_maxima(sp.csr_array(slack.ties.T), reach)
        column = np.concatenate([np.ones(len(owner)), np.where(violation > 0, violation, _or_one(norm))])
        levels = np.concatenate([row, np.ones(len(polytope.right_hand_side)), 1.0 / _or_one(reach)])
        spread = dual.spread[some].sum()
        unit = float(_power(spread / len(instances))) if spread > 0 else 1.0
        program = program.scaled(levels, column, unit)
        return ProblemProgram(program, rows, instances, variables, polytope, owner, row, column, unit)

    def owners(self, problem: ProblemProgram) -> Ints:
        """The problem of every variable of a program."""
        instances = problem.instances[problem.owner]
        return np.concatenate([self.dual.instance_problem[instances], self.variables.variable_problem[problem.slack]])


def join_instances(dual: BatchDual, instances: Ints) -> tuple[Polytope, Ints]:
    """The polytopes of some instances side by side, and which of them each variable belongs to."""
    structure = dual.structure
    starts = choice_offsets(structure)
    if starts is None:
        polytopes = [structure.polytope(dual.scores, int(i)) for i in instances]
        owner = np.repeat(np.arange(len(instances)), [len(q.objective) for q in polytopes])
        return join_polytopes(polytopes, [factor.size for factor in dual.scores.factors]), owner
    wanted = np.zeros(structure.n_instances, np.bool_)
    wanted[instances] = True
    holder = structure.instance[starts[:-1]]
    choices = np.flatnonzero(wanted[holder])
    choices = choices[np.argsort(holder[choices], kind="stable")]
    sizes = np.diff(starts)[choices]
    index = ranges_of(starts[:-1][choices], sizes)
    n = len(index)
    simplexes = sp.csr_array((np.ones(n), np.arange(n), offsets_of(sizes)), shape=(len(choices), n))
    every = sp.csr_array(sp.eye_array(n, format="csr"))
    polytope = Polytope(simplexes, np.ones(len(choices)), dual.scores.unary[index], index, every, ())
    return polytope, np.searchsorted(instances, structure.instance[index])


def _power(value: ArrayLike) -> Floats:
    """The power of two nearest to a positive number, on the scale of logarithms."""
    return np.asarray(2.0 ** np.rint(np.log2(value)), np.float64)


def _or_one(value: Floats) -> Floats:
    """Positive numbers as they are, 1 in place of all others."""
    return np.where(value > 0, value, 1.0)
