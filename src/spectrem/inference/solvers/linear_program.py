"""The linear relaxation at gamma = 0, solved to full accuracy by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.inference.highs import INFEASIBLE, Deadline, Outcome, run_linear
from spectrem.inference.oracle import BatchDual, DualFunction
from spectrem.inference.program import ProblemPrograms, Program, read_structures
from spectrem.inference.result import Status
from spectrem.inference.scaling import ScaledProgram, scale_program
from spectrem.inference.segments import sum_by
from spectrem.inference.slack_variables import SlackVariables
from spectrem.inference.solvers.columns import NEAR, follow_temperatures, solve_by_columns
from spectrem.inference.solvers.solver import Solution
from spectrem.inference.solvers.subgradient import Subgradient
from spectrem.structures.parts import Parts
from spectrem.structures.structure import has_one_label

_LARGE = 2_000  # variables above which most labels are left out of a program, and of programs solved together
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
        Seconds for all programs together, None for 300; where they did not come to an end, the subgradient's average is
        kept.
    """

    tol: float = 1e-8
    max_iter: int = 30
    max_cuts: int = 100
    most_rows: int = 100_000
    time_limit: float | None = None

    def solve(self, dual: DualFunction, start: NDArray[np.float64]) -> Solution:
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
        solved: list[tuple[Program, NDArray[np.float64]]] = []
        warm: tuple[Solution, float] | None = None
        weight = np.where(dual.row_weight > 0, dual.row_weight, 1.0)
        waiting = _batches(dual, programs, hard)
        while waiting:
            some = waiting.pop()
            p = int(some[0])
            program = programs.write(some)
            scaled = scale_program(program, dual.spread[some].sum())
            below, equal = program.rows_below, program.rows_equal
            if len(some) == 1 and _is_large(dual, program, programs.variables):
                warm = follow_temperatures(dual) if warm is None else warm
                if warm[0].status[p] == Status.INFEASIBLE:
                    status[p] = Status.INFEASIBLE
                    own = dual.row_problem == p
                    multipliers[own] = warm[0].multipliers[own]
                    continue
                begin = scaled.scale_prices(warm[0].multipliers * weight)
                found = solve_by_columns(scaled.program, *begin, NEAR * warm[1] / scaled.unit, self.tol, deadline)
                if found is not None:
                    prices[below] = scaled.below_prices(found.below) / weight[below]
                    prices[equal] = scaled.equal_prices(found.equal) / weight[equal]
                if found is not None and found.cost == np.inf:
                    proof = np.zeros(len(prices))
                    proof[below], proof[equal] = prices[below], prices[equal]
                    wanted = np.arange(dual.n_problems) == p
                    if dual.infeasible(proof, wanted)[p]:
                        status[p] = Status.INFEASIBLE
                        multipliers = np.where(dual.row_problem == p, proof, multipliers)
                        continue
                elif found is not None:
                    primal[p] = -found.cost * scaled.unit
                    solved.append((program, found.x * scaled.column))
                    continue
            result = self._solve(scaled, programs.variables, deadline)
            if result.x is None:
                if len(some) > 1:
                    waiting += [some[k : k + 1] for k in range(len(some))]
                elif result.status == INFEASIBLE:
                    status[p] = Status.INFEASIBLE
                continue
            prices[below] = scaled.below_prices(result.below_prices) / weight[below]
            prices[equal] = scaled.equal_prices(result.equal_prices) / weight[equal]
            x = result.x * scaled.column
            primal -= sum_by(programs.owners(program), program.cost * x, dual.n_problems)
            solved.append((program, x))
        prices = dual.terms.project(prices)
        done = np.zeros(dual.n_problems, bool)
        done[hard] = True
        bound = dual.evaluate(prices, done).value + dual.terms.value(prices)
        gap = np.abs(bound - primal) / dual.gap_unit(bound)
        done &= (gap <= self.tol) & (status == Status.MAX_ITERATIONS)
        status[done] = Status.SOLVED
        residual = np.where(done, gap, residual)
        multipliers = np.where(done[dual.row_problem], prices, multipliers)
        kept = [(program, x) for program, x in solved if done[programs.owners(program)].any()]
        assert first.mixed is not None
        mixed = first.mixed & (status != Status.INFEASIBLE)
        mixture = partial(_mixture, dual, first, kept, done, mixed & ~done)
        return Solution(multipliers, status, residual, first.n_iter + len(hard), mixed, mixture)

    def _solve(self, scaled: ScaledProgram, variables: SlackVariables, deadline: Deadline) -> Outcome:
        """HiGHS, with tangents to the l2 norms until the slack it chooses lies under them."""
        program = scaled.program
        below, limit = program.below, program.limit
        for _ in range(self.max_cuts):
            result = run_linear(replace(program, below=below, limit=limit), deadline.left)
            if result.x is None or not variables.curved:
                break
            cuts = _tangents(scaled, variables, result.x * scaled.column)
            if not cuts.shape[0]:
                break
            below = sp.csr_array(sp.vstack([below, cuts], format="csr"))
            limit = np.concatenate([limit, np.zeros(cuts.shape[0])])
        return result


def _batches(dual: BatchDual, programs: ProblemPrograms, hard: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Small problems together, so that few programs are run; only those whose scores are of one order share a unit."""
    if programs.variables.curved:
        return [hard[k : k + 1] for k in range(len(hard))]
    size = sum_by(dual.row_problem, np.ones(len(dual.row_problem)), dual.n_problems)
    inside = dual.instance_problem >= 0
    parts = np.bincount(dual.structure.instance, minlength=dual.structure.n_instances)[inside].astype(np.float64)
    size = (size + sum_by(dual.instance_problem[inside], parts, dual.n_problems))[hard]
    order_of = np.floor(np.log10(np.maximum(dual.spread[hard], 1e-300)) / 2.0)
    order = np.lexsort((hard, order_of))
    batches: list[NDArray[np.int64]] = []
    start, total = 0, 0.0
    for k, at in enumerate(order):
        if k > start and (total + size[at] > _LARGE or order_of[at] != order_of[order[start]]):
            batches.append(np.sort(hard[order[start:k]]))
            start, total = k, 0.0
        total += size[at]
    return [*batches, np.sort(hard[order[start:]])]


def _is_large(dual: BatchDual, program: Program, variables: SlackVariables) -> bool:
    """Whether column generation pays."""
    return has_one_label(dual.structure) and not variables.curved and len(program.cost) > _LARGE


def _tangents(scaled: ScaledProgram, variables: SlackVariables, x: NDArray[np.float64]) -> sp.csr_array:
    """One tangent per l2 group whose norm variable is too small for its slack; ``x`` is in the original units."""
    program, column = scaled.program, scaled.column
    n_before = len(x) - len(program.slack)
    slack = np.zeros(len(variables.cost))
    slack[program.slack] = x[n_before:]
    place = np.full(len(variables.cost), -1)
    place[program.slack] = n_before + np.arange(len(program.slack))
    found = []
    for group, first, norm in variables.curved:
        sides = 2 if group.equality else 1
        n = len(group.rows)
        violation = slack[first : first + sides * n].reshape(sides, n).sum(axis=0)
        length = group.norm(violation, "l2")
        own = place[norm + np.arange(len(length))]
        unit = np.where(own >= 0, column[own], 1.0)
        for g in np.flatnonzero((own >= 0) & (length > slack[norm : norm + len(length)] + 1e-11 * unit)):
            members = np.arange(group.offsets[g], group.offsets[g + 1])
            cut = np.zeros(len(x))
            for side in range(sides):
                cut[place[first + side * n + members]] = violation[members] / length[g]
            cut[own[g]] = -1.0
            found.append(cut * column / unit[g])
    return sp.csr_array(np.array(found).reshape(len(found), len(x)))


def _mixture(
    dual: BatchDual,
    first: Solution,
    solved: list[tuple[Program, NDArray[np.float64]]],
    done: NDArray[np.bool_],
    averaged: NDArray[np.bool_],
    weights: NDArray[np.float64] | None,
) -> tuple[Parts, NDArray[np.float64]]:
    structure = dual.structure
    parts = Parts(np.zeros(structure.n_unary), tuple(np.zeros(s) for s in structure.factor_shapes))
    score = np.zeros(dual.n_problems)
    for program, x in solved:
        problem = dual.instance_problem[program.instances]
        own = np.maximum(x, 0.0)
        own[: len(program.shapes.owner)] *= done[problem][program.shapes.owner]
        scores = read_structures(program, own, weights, parts)
        score += sum_by(problem, dual.instance_weight[program.instances] * scores, dual.n_problems)
    if averaged.any() and first.mixture is not None:
        share = dual.instances_of(averaged).astype(float)
        rest, rest_score = first.mixture(share if weights is None else share * weights)
        parts.unary[:] += share[structure.instance] * rest.unary
        for factor, counts in zip(parts.factors, rest.factors, strict=True):
            factor += counts
        score += np.where(averaged, rest_score, 0.0)
    return parts, score
