"""Linear programs that test which rows of a problem can hold together; equal instances are one variable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.inference.highs import INFEASIBLE, OPTIMAL, run_integer, run_linear
from spectrem.inference.oracle import BatchDual
from spectrem.inference.problems import join_instances
from spectrem.inference.program import Program, SlackVariables, compile_slack_variables, largest_excess, write_program
from spectrem.inference.segments import row_maxima
from spectrem.structures.structure import has_one_label


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

    def excess(self, active: Bools, seconds: float) -> Excess:
        """The least violation of the active rows, shape (n_rows,), and its proof."""
        n_active, multipliers = int(active.sum()), np.zeros(len(self.rows))
        result = run_linear(self._of(active).elastic(np.ones(n_active)), seconds)
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

    def holds_whole(self, active: Bools, seconds: float) -> bool | None:
        """Whether whole structures can meet the active rows; None if that was not found out within the time."""
        result = run_integer(self._of(active), self.n_x, seconds)
        return True if result.x is not None else False if result.status == INFEASIBLE else None

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
