"""The linear relaxation at gamma = 0, solved to full accuracy by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.inference.highs import INFEASIBLE, Deadline, Outcome, run_linear
from spectrem.inference.oracle import BatchDual, DualFunction
from spectrem.inference.problems import ProblemProgram, ProblemPrograms
from spectrem.inference.program import SlackVariables
from spectrem.inference.result import Status
from spectrem.inference.segments import sum_by
from spectrem.inference.solvers.columns import NEAR, follow_temperatures, solve_by_columns
from spectrem.inference.solvers.solver import Solution
from spectrem.inference.solvers.subgradient import Subgradient
from spectrem.structures._ragged import no_parts
from spectrem.structures.parts import Parts
from spectrem.structures.structure import has_one_label

_LARGE = 2_000  # variables of a program solved by columns, at least, and of programs solved together, at most
_STEPS_OF_THE_LARGE = 300


@dataclass(frozen=True)
class LinearProgram:
    """Subgradient steps certify the easy problems; the others are linear programs, small ones many at a time.

    The program's prices are put back into the dual: where the structure's polytope is integral (chains, alignments,
    labels) the duality gap closes, which proves the solution; elsewhere the subgradient's average is kept. An l2
    slack is approximated by tangents, added until they fit. Of large tables of labels, only those near the best at the
    prices of a low temperature are in the program at first (`solve_by_columns`).

    Use when gamma = 0: the answer is exact, or its status tells that it is not. One problem of more than
    ``most_rows`` rows is left to ``Subgradient``.

    Parameters
    ----------
    tol : float
        Relative duality gap and violation.
    max_iter : int
        Subgradient steps before the programs.
    max_cuts : int
        Rounds of tangents per program.
    most_rows : int
        Rows of one problem.
    time_limit : float or None
        Seconds for all programs together, None for 300; where time runs out, the average of the subgradient is kept.
    """

    tol: float = 1e-8
    max_iter: int = 30
    max_cuts: int = 100
    most_rows: int = 100_000
    time_limit: float | None = None

    def solve(self, dual: DualFunction, start: Floats) -> Solution:
        if not isinstance(dual, BatchDual):
            raise InvalidInputError(
                "solver LinearProgram needs the whole batch; got a dual over shards; use Subgradient()"
            )
        deadline = Deadline(self.time_limit)
        n_rows = np.bincount(dual.row_problem, minlength=dual.n_problems)
        steps = self.max_iter if n_rows.max(initial=0) <= self.most_rows else max(self.max_iter, _STEPS_OF_THE_LARGE)
        first = Subgradient(steps=steps, tol=self.tol).solve(dual, start)
        hard = np.flatnonzero((first.status == Status.MAX_ITERATIONS) & (n_rows <= self.most_rows))
        if not len(hard):
            return first
        programs = ProblemPrograms(dual)
        multipliers, status, residual = first.multipliers.copy(), first.status.copy(), first.residual.copy()
        prices, primal = multipliers.copy(), np.zeros(dual.n_problems)
        solved: list[tuple[ProblemProgram, Floats]] = []
        warm: tuple[Solution, float] | None = None
        by_columns = has_one_label(dual.structure) and not programs.variables.curved
        waiting = _batches(dual, programs, hard)
        while waiting:
            some = waiting.pop()
            p = int(some[0])
            problem = programs.write(some)
            rows = problem.rows
            unit = problem.row * problem.unit / np.where(dual.row_weight > 0, dual.row_weight, 1.0)[rows]
            if by_columns and len(some) == 1 and len(problem.program.cost) > _LARGE:
                warm = follow_temperatures(dual) if warm is None else warm
                begin, near = warm[0].multipliers[rows] / unit, NEAR * warm[1] / problem.unit
                if warm[0].status[p] == Status.INFEASIBLE:
                    status[p] = Status.INFEASIBLE
                    multipliers[rows] = warm[0].multipliers[rows]
                    continue
                found = solve_by_columns(problem.program, problem.owner, begin, near, self.tol, deadline)
                if found is not None:
                    prices[rows], primal[p] = found.prices * unit, -found.cost * problem.unit
                    solved.append((problem, found.x))
                    continue
            result = self._solve(problem, programs.variables, deadline)
            if result.x is None:
                if len(some) > 1:
                    waiting += [some[k : k + 1] for k in range(len(some))]
                elif result.status == INFEASIBLE:
                    status[p] = Status.INFEASIBLE
                continue
            prices[rows] = result.prices[: len(rows)] * unit
            earned = problem.unit * problem.program.cost * result.x
            primal -= sum_by(programs.owners(problem), earned, dual.n_problems)
            solved.append((problem, result.x))
        prices = dual.terms.project(prices)
        done = np.zeros(dual.n_problems, bool)
        done[hard] = True
        bound = dual.evaluate(prices, done).value + dual.terms.value(prices)
        gap = np.abs(bound - primal) / dual.gap_unit(bound)
        done &= (gap <= self.tol) & (status == Status.MAX_ITERATIONS)
        status[done] = Status.SOLVED
        residual = np.where(done, gap, residual)
        multipliers = np.where(done[dual.row_problem], prices, multipliers)
        kept = [(problem, x) for problem, x in solved if done[programs.owners(problem)].any()]
        assert first.mixed is not None
        mixed = first.mixed & (status != Status.INFEASIBLE)
        mixture = partial(_mixture, dual, first, kept, done)
        return Solution(multipliers, status, residual, first.n_iter + len(hard), mixed, mixture)

    def _solve(self, problem: ProblemProgram, variables: SlackVariables, deadline: Deadline) -> Outcome:
        """Run HiGHS, and add tangents of the l2 norms until the slack that it chooses meets them."""
        program, n = problem.program, len(problem.owner)
        y, size = np.zeros(len(variables.cost)), np.zeros(len(variables.matrix.indptr) - 1)
        size[problem.rows] = 1e-11 / problem.row
        for _ in range(self.max_cuts):
            result = run_linear(program, deadline.left)
            if result.x is None or not variables.curved:
                break
            y[problem.slack] = (result.x * problem.column)[n:]
            cuts = variables.tangents(y, size)[:, problem.slack].toarray() * problem.column[n:]
            if not len(cuts):
                break
            new = sp.csr_array(cuts / -cuts.min(axis=1, keepdims=True))
            program = program.with_rows(sp.csr_array(sp.hstack([sp.csr_array((len(cuts), n)), new], format="csr")))
        return result


def _batches(dual: BatchDual, programs: ProblemPrograms, hard: Ints) -> list[Ints]:
    """Join small problems into few programs; only problems whose scores are of one order of magnitude share one."""
    if programs.variables.curved:
        return [hard[k : k + 1] for k in range(len(hard))]
    size = sum_by(dual.row_problem, np.ones(len(dual.row_problem)), dual.n_problems)
    inside = dual.instance_problem >= 0
    parts = np.bincount(dual.structure.instance, minlength=dual.structure.n_instances)[inside].astype(np.float64)
    size = (size + sum_by(dual.instance_problem[inside], parts, dual.n_problems))[hard]
    order_of = np.floor(np.log10(np.maximum(dual.spread[hard], 1e-300)) / 2.0)
    order = np.lexsort((hard, order_of))
    batches: list[Ints] = []
    start, total = 0, 0.0
    for k, at in enumerate(order):
        if k > start and (total + size[at] > _LARGE or order_of[at] != order_of[order[start]]):
            batches.append(np.sort(hard[order[start:k]]))
            start, total = k, 0.0
        total += size[at]
    return [*batches, np.sort(hard[order[start:]])]


def _mixture(
    dual: BatchDual,
    first: Solution,
    solved: list[tuple[ProblemProgram, Floats]],
    done: Bools,
    problems: Bools,
) -> tuple[Parts, Floats]:
    """Marginals and scores of solved programs, and averages of the subgradient for the other problems."""
    parts, score = no_parts(dual.structure), np.zeros(dual.n_problems)
    for program, x in solved:
        problem = dual.instance_problem[program.instances]
        own = np.maximum(x[: len(program.owner)], 0.0) * done[problem][program.owner]
        scores = program.read(own, dual.weights, parts)
        score += sum_by(problem, dual.instance_weight[program.instances] * scores, dual.n_problems)
    if (problems & ~done).any() and first.mixture is not None:
        rest, rest_score = first.mixture(problems & ~done)
        return parts.map(np.add, rest), score + rest_score
    return parts, score
