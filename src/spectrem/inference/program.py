"""One problem written out for HiGHS: structures as polytopes, rows, slack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.inference.oracle import BatchDual
from spectrem.inference.slack_variables import SlackVariables, compile_slack_variables
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x`` with ``0 <= x <= upper``, ``equal @ x == equal_to``, ``below @ x <= limit``.

    Attributes
    ----------
    rows_below, rows_equal : ndarray of int64
        The rows of the constraints at the head of ``below`` and of ``equal``.
    instances : ndarray of int64
    polytopes : tuple of Polytope
        Of ``instances``, whose variables come first and in order.
    slack : ndarray of int64
        Slack variables (of the batch) that follow them.
    """

    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    equal: sp.csr_array
    equal_to: NDArray[np.float64]
    below: sp.csr_array
    limit: NDArray[np.float64]
    rows_below: NDArray[np.int64]
    rows_equal: NDArray[np.int64]
    instances: NDArray[np.int64]
    polytopes: tuple[Polytope, ...]
    slack: NDArray[np.int64]


class ProblemPrograms:
    """Writes the program of any one problem of a batch."""

    def __init__(self, dual: BatchDual) -> None:
        self.dual = dual
        self.variables: SlackVariables = compile_slack_variables(dual.terms)
        n = dual.n_problems
        self._instances = _members(dual.instance_problem, n)
        self._rows = _members(dual.row_problem, n)
        self._slack = _members(self.variables.variable_problem, n)
        self._ties = _members(self.variables.tie_problem, n)

    def write(self, p: int) -> Program:
        """The program of problem ``p``."""
        dual, rows, instances, slack = self.dual, self._rows[p], self._instances[p], self._slack[p]
        polytopes = tuple(dual.structure.polytope(dual.scores, int(i)) for i in instances)
        scores = np.concatenate(
            [dual.instance_weight[i] * q.objective for i, q in zip(instances, polytopes, strict=True)]
        )
        possible = ~np.isneginf(scores)
        matrix = dual.matrix[rows]
        body = _beside(
            sp.hstack([matrix[:, q.unary_index] @ q.unary for q in polytopes], format="csr"),
            self.variables.matrix[rows][:, slack],
        )
        both = dual.terms.equality[rows]
        ties = self.variables.ties[self._ties[p]][:, slack]
        shapes = sp.block_diag([q.equalities for q in polytopes], format="csr")
        bounds = dual.rows.bounds[rows]
        return Program(
            cost=np.concatenate([-np.where(possible, scores, 0.0), self.variables.cost[slack]]),
            upper=np.concatenate([np.where(possible, 1.0, 0.0), self.variables.upper[slack]]),
            equal=_above(body[both], _beside(shapes, sp.csr_array((shapes.shape[0], len(slack))))),
            equal_to=np.concatenate([bounds[both], *[q.right_hand_side for q in polytopes]]),
            below=_above(body[~both], _beside(sp.csr_array((ties.shape[0], len(scores))), ties)),
            limit=np.concatenate([bounds[~both], np.zeros(ties.shape[0])]),
            rows_below=rows[~both],
            rows_equal=rows[both],
            instances=instances,
            polytopes=polytopes,
            slack=slack,
        )


def read_structures(
    program: Program, x: NDArray[np.float64], weights: NDArray[np.float64] | None, parts: Parts
) -> NDArray[np.float64]:
    """Write the parts of a solution into ``parts`` (factor counts times the weights); the score of each instance."""
    scores, start = [], 0
    for i, polytope in zip(program.instances, program.polytopes, strict=True):
        own = x[start : start + len(polytope.objective)]
        start += len(own)
        chosen = own > 0
        scores.append(polytope.objective[chosen] @ own[chosen])
        parts.unary[polytope.unary_index] = polytope.unary @ own
        for factor, counts in zip(parts.factors, polytope.factors, strict=True):
            factor += (1.0 if weights is None else weights[i]) * (counts @ own).reshape(factor.shape)
    return np.array(scores)


def _members(label: NDArray[np.int64], n: int) -> list[NDArray[np.int64]]:
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(n + 1))
    return [order[edges[k] : edges[k + 1]] for k in range(n)]


def _beside(left: sp.csr_array, right: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.hstack([left, right], format="csr"))


def _above(top: sp.csr_array, bottom: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.vstack([top, bottom], format="csr"))
