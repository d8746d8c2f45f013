"""Constraint rows over the few kinds of instances there are, to ask many times which of them can hold together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.inference.highs import INFEASIBLE, OPTIMAL, Matrices, run_integer, run_linear
from spectrem.inference.oracle import BatchDual
from spectrem.inference.slack_variables import compile_slack_variables, largest_excess
from spectrem.structures.structure import has_one_label


class Excess(NamedTuple):
    """How far rows are from holding together.

    ``least`` is the least sum of their violations, each relative to the size of its row: 0 if they can hold, NaN if the
    time was too short. ``multipliers``, shape (n_rows,), then are a proof that they cannot, 0 where it needs no row.
    """

    least: float
    multipliers: NDArray[np.float64]


@dataclass(frozen=True)
class ConflictSystem:
    """``matrix @ x + slack @ y <= bounds`` or ``==``, ``equal @ x == equal_to``, ``ties @ y <= 0``, x and y >= 0.

    x counts how many instances of a kind choose which of their kinds of parts: those that are alike to the rows are
    taken together. Where every instance has one label this loses nothing; elsewhere x are variables of polytopes.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,), int64
        Their numbers in the batch.
    size : ndarray of shape (n_rows,)
        Unit in which a violation is measured.
    equality : ndarray of shape (n_rows,), bool
    most : ndarray of shape (n_x,)
        The largest that x can be.
    slack_upper : ndarray of shape (n_y,)
    exact : bool
        Whether rows that can hold together here can do so in the batch; not under an l2 slack, which is approximated
        from outside.
    """

    rows: NDArray[np.int64]
    matrix: sp.csr_array
    bounds: NDArray[np.float64]
    size: NDArray[np.float64]
    equality: NDArray[np.bool_]
    equal: sp.csr_array
    equal_to: NDArray[np.float64]
    most: NDArray[np.float64]
    slack: sp.csr_array
    slack_upper: NDArray[np.float64]
    ties: sp.csr_array
    exact: bool

    @property
    def n_variables(self) -> int:
        """How large its programs are."""
        return self.matrix.shape[1] + self.slack.shape[1]

    def excess(self, active: NDArray[np.bool_], seconds: float) -> Excess:
        """By how much the active rows, shape (n_rows,), fail to hold together."""
        index = np.flatnonzero(active)
        k, both = len(index), np.flatnonzero(self.equality[index])
        body, bounds = self._body(index)
        give = -sp.eye_array(k, format="csr")
        ties, shape = self._fixed(k)
        below = sp.vstack([sp.hstack([body, give]), sp.hstack([-body[both], give[both]]), ties], format="csr")
        limit = np.concatenate([bounds, -bounds[both], np.zeros(ties.shape[0])])
        cost = np.concatenate([np.zeros(self.n_variables), np.ones(k)])
        further = 2.0 * largest_excess(sp.csr_array(body @ sp.diags_array(self._upper)), bounds) + 1.0
        upper = np.concatenate([self._upper, further])
        result = run_linear(Matrices(cost, upper, shape, self.equal_to, below, limit), seconds)
        multipliers = np.zeros(len(self.rows))
        if result.status != OPTIMAL:
            return Excess(np.nan, multipliers)
        prices = result.below_prices
        price = prices[:k].copy()
        price[both] -= prices[k : k + len(both)]
        multipliers[index] = np.where(np.abs(price) > 1e-9, price, 0.0) / self.size[index]
        return Excess(result.cost, multipliers)

    def extreme(self, row: int, sign: float, others: NDArray[np.bool_], seconds: float) -> float:
        """Least (sign 1) or greatest (sign -1) value of the left side of a row while other rows hold, or NaN."""
        if not self.n_variables:
            return 0.0
        index = np.flatnonzero(others)
        both = np.flatnonzero(self.equality[index])
        body, bounds = self._body(index)
        ties, shape = self._fixed(0)
        below = sp.vstack([body, -body[both], ties], format="csr")
        limit = np.concatenate([bounds, -bounds[both], np.zeros(ties.shape[0])])
        cost = np.zeros(self.n_variables)
        cost[: self.matrix.shape[1]] = sign * self.matrix[[row]].toarray().ravel() / self.size[row]
        result = run_linear(Matrices(cost, self._upper, shape, self.equal_to, below, limit), seconds)
        return float(sign * result.cost * self.size[row]) if result.status == OPTIMAL else np.nan

    def holds_whole(self, active: NDArray[np.bool_], seconds: float) -> bool | None:
        """Whether whole structures can meet the active rows; None if that was not found out within the time."""
        index = np.flatnonzero(active)
        body, bounds = self._body(index)
        ties, shape = self._fixed(0)
        both = self.equality[index]
        program = Matrices(
            np.zeros(self.n_variables),
            self._upper,
            sp.csr_array(sp.vstack([shape, body[both]], format="csr")),
            np.concatenate([self.equal_to, bounds[both]]),
            sp.csr_array(sp.vstack([body[~both], ties], format="csr")),
            np.concatenate([bounds[~both], np.zeros(ties.shape[0])]),
        )
        whole = np.arange(self.n_variables) < self.matrix.shape[1]
        result = run_integer(program, whole, seconds)
        return True if result.x is not None else False if result.status == INFEASIBLE else None

    @property
    def _upper(self) -> NDArray[np.float64]:
        return np.concatenate([self.most, self.slack_upper])

    def _body(self, index: NDArray[np.int64]) -> tuple[sp.csr_array, NDArray[np.float64]]:
        unit = sp.diags_array(1.0 / self.size[index], format="csr")
        body = sp.hstack([self.matrix[index], self.slack[index]], format="csr")
        return sp.csr_array(unit @ body), self.bounds[index] / self.size[index]

    def _fixed(self, n_more: int) -> tuple[sp.csr_array, sp.csr_array]:
        """Ties of the slack and the structures, beside ``n_more`` variables that they do not touch."""
        n_x, n_y = self.matrix.shape[1], self.slack.shape[1]
        n_ties, n_equal = self.ties.shape[0], self.equal.shape[0]
        ties = sp.hstack([sp.csr_array((n_ties, n_x)), self.ties, sp.csr_array((n_ties, n_more))], format="csr")
        return ties, sp.hstack([self.equal, sp.csr_array((n_equal, n_y + n_more))], format="csr")


def write_system(dual: BatchDual, problem: int, rows: NDArray[np.int64], most: int) -> ConflictSystem | None:
    """The system of some rows of one problem; None if it has more than ``most`` variables."""
    matrix = sp.csr_array(dual.matrix[rows])
    touched = np.zeros(dual.structure.n_instances, np.bool_)
    touched[dual.structure.instance[matrix.indices]] = True
    if has_one_label(dual.structure):
        body, equal, equal_to = _kinds(dual, matrix, touched)
    else:
        if int(touched[dual.structure.instance].sum()) > most:
            return None
        body, equal, equal_to = _polytopes(dual, matrix, np.flatnonzero(touched))
    slack, upper, ties, exact = _slack(dual, rows)
    if body.shape[1] + len(upper) > most:
        return None
    bounds = dual.rows.bounds[rows]
    largest = np.zeros(len(rows)) if not body.nnz else np.asarray(abs(body).max(axis=1).todense()).ravel()
    size = np.maximum(np.abs(bounds), largest)
    size = np.where(size > 0, size, 1.0)
    # Of a kind there are so many instances; the variables of a polytope are at most 1.
    alike = has_one_label(dual.structure)
    ends = np.asarray(equal.T @ equal_to) if alike else np.ones(body.shape[1])
    return ConflictSystem(
        rows, body, bounds, size, dual.terms.equality[rows], equal, equal_to, ends, slack, upper, ties, exact
    )


def _kinds(
    dual: BatchDual, matrix: sp.csr_array, touched: NDArray[np.bool_]
) -> tuple[sp.csr_array, sp.csr_array, NDArray[np.float64]]:
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


def _polytopes(
    dual: BatchDual, matrix: sp.csr_array, instances: NDArray[np.int64]
) -> tuple[sp.csr_array, sp.csr_array, NDArray[np.float64]]:
    body, equal, equal_to = [], [], []
    for i in instances:
        polytope = dual.structure.polytope(dual.scores, int(i))
        possible = np.flatnonzero(~np.isneginf(polytope.objective))
        body.append(matrix[:, polytope.unary_index] @ polytope.unary[:, possible])
        equal.append(polytope.equalities[:, possible])
        equal_to.append(polytope.right_hand_side)
    empty = sp.csr_array((matrix.shape[0], 0))
    return (
        sp.csr_array(sp.hstack([empty, *body], format="csr")),
        sp.csr_array(sp.block_diag(equal, format="csr")) if equal else sp.csr_array((0, 0)),
        np.concatenate([np.zeros(0), *equal_to]),
    )


def _slack(dual: BatchDual, rows: NDArray[np.int64]) -> tuple[sp.csr_array, NDArray[np.float64], sp.csr_array, bool]:
    """The slack variables that touch the rows, what bounds and ties them, and whether they say all there is."""
    variables = compile_slack_variables(dual.terms, largest_excess(dual.matrix, dual.rows.bounds))
    ties = variables.ties
    wanted = np.zeros(len(variables.upper), np.bool_)
    wanted[variables.matrix[rows].indices] = True
    own = np.flatnonzero(abs(ties) @ wanted.astype(np.float64) > 0)
    wanted[ties[own].indices] = True
    curved = any(wanted[first : norm + len(group.problem)].any() for group, first, norm in variables.curved)
    return variables.matrix[rows][:, wanted], variables.upper[wanted], ties[own][:, wanted], not curved
