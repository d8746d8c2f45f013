"""One problem written out for HiGHS: structures as polytopes, rows, slack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.inference.highs import Matrices
from spectrem.inference.oracle import BatchDual
from spectrem.inference.segments import sum_by
from spectrem.inference.slack_variables import SlackVariables, compile_slack_variables, largest_excess
from spectrem.structures.parts import Parts
from spectrem.structures.structure import has_one_label


@dataclass(frozen=True)
class Program(Matrices):
    """One problem of a batch.

    Attributes
    ----------
    rows_below, rows_equal : ndarray of int64
        The rows of the constraints at the head of ``below`` and of ``equal``.
    instances : ndarray of int64
    shapes : Shapes
        Of ``instances``, whose variables come first.
    slack : ndarray of int64
        Slack variables (of the batch) that follow them.
    """

    rows_below: NDArray[np.int64]
    rows_equal: NDArray[np.int64]
    instances: NDArray[np.int64]
    shapes: Shapes
    slack: NDArray[np.int64]


@dataclass(frozen=True)
class Shapes:
    """The polytopes of some instances side by side.

    Attributes
    ----------
    equalities : csr_array of shape (n_equalities, n_variables)
    right_hand_side : ndarray of shape (n_equalities,)
    objective : ndarray of shape (n_variables,)
        Nats, ``-inf`` for what is impossible.
    owner : ndarray of shape (n_variables,), int64
        Which of the instances a variable belongs to.
    unary_index : ndarray of shape (n_parts,), int64
    unary : csr_array of shape (n_parts, n_variables)
    factors : tuple of csr_array of shape (factor.size, n_variables)
    """

    equalities: sp.csr_array
    right_hand_side: NDArray[np.float64]
    objective: NDArray[np.float64]
    owner: NDArray[np.int64]
    unary_index: NDArray[np.int64]
    unary: sp.csr_array
    factors: tuple[sp.csr_array, ...]


class ProblemPrograms:
    """Writes the program of any one problem of a batch, or of several that are solved side by side."""

    def __init__(self, dual: BatchDual) -> None:
        self.dual = dual
        largest = largest_excess(dual.matrix, dual.rows.bounds)
        self.variables: SlackVariables = compile_slack_variables(dual.terms, largest)
        n = dual.n_problems
        self._instances = _members(dual.instance_problem, n)
        self._rows = _members(dual.row_problem, n)
        self._slack = _members(self.variables.variable_problem, n)
        self._ties = _members(self.variables.tie_problem, n)

    def write(self, p: int | NDArray[np.int64]) -> Program:
        """The program of problem ``p``, or of all of several."""
        dual, some = self.dual, np.atleast_1d(p)
        rows, instances, slack, own_ties = (
            np.sort(np.concatenate([members[k] for k in some]))
            for members in (self._rows, self._instances, self._slack, self._ties)
        )
        shapes = _write_shapes(dual, instances)
        possible = ~np.isneginf(shapes.objective)
        scores = dual.instance_weight[instances][shapes.owner] * np.where(possible, shapes.objective, 0.0)
        body = _beside(
            sp.csr_array(dual.matrix[rows][:, shapes.unary_index] @ shapes.unary),
            self.variables.matrix[rows][:, slack],
        )
        both = dual.terms.equality[rows]
        ties = self.variables.ties[own_ties][:, slack]
        bounds = dual.rows.bounds[rows]
        return Program(
            cost=np.concatenate([-scores, self.variables.cost[slack]]),
            upper=np.concatenate([np.where(possible, 1.0, 0.0), self.variables.upper[slack]]),
            equal=_above(
                body[both], _beside(shapes.equalities, sp.csr_array((len(shapes.right_hand_side), len(slack))))
            ),
            equal_to=np.concatenate([bounds[both], shapes.right_hand_side]),
            below=_above(body[~both], _beside(sp.csr_array((ties.shape[0], len(scores))), ties)),
            limit=np.concatenate([bounds[~both], np.zeros(ties.shape[0])]),
            rows_below=rows[~both],
            rows_equal=rows[both],
            instances=instances,
            shapes=shapes,
            slack=slack,
        )

    def owners(self, program: Program) -> NDArray[np.int64]:
        """The problem of every variable of a program."""
        instances = program.instances[program.shapes.owner]
        return np.concatenate([self.dual.instance_problem[instances], self.variables.variable_problem[program.slack]])


def read_structures(
    program: Program, x: NDArray[np.float64], weights: NDArray[np.float64] | None, parts: Parts
) -> NDArray[np.float64]:
    """Write the parts of a solution into ``parts`` (factor counts times the weights); the score of each instance."""
    shapes = program.shapes
    own = x[: len(shapes.objective)]
    chosen = own > 0
    earned = np.where(chosen, shapes.objective, 0.0) * own
    parts.unary[shapes.unary_index] = shapes.unary @ own
    counted = own if weights is None else own * weights[program.instances][shapes.owner]
    for factor, counts in zip(parts.factors, shapes.factors, strict=True):
        factor += (counts @ counted).reshape(factor.shape)
    return sum_by(shapes.owner, earned, len(program.instances))


def _write_shapes(dual: BatchDual, instances: NDArray[np.int64]) -> Shapes:
    structure = dual.structure
    if has_one_label(structure):
        wanted = np.zeros(structure.n_instances, np.bool_)
        wanted[instances] = True
        index = np.flatnonzero(wanted[structure.instance])
        n = len(index)
        owner = np.searchsorted(instances, structure.instance[index])
        starts = np.concatenate([[0], np.cumsum(np.diff(structure.offsets)[instances])])
        simplexes = sp.csr_array((np.ones(n), np.arange(n), starts), shape=(len(instances), n))
        every = sp.csr_array(sp.eye_array(n, format="csr"))
        return Shapes(simplexes, np.ones(len(instances)), dual.scores.unary[index], owner, index, every, ())
    polytopes = [structure.polytope(dual.scores, int(i)) for i in instances]
    sizes = [len(q.objective) for q in polytopes]
    return Shapes(
        sp.csr_array(sp.block_diag([q.equalities for q in polytopes], format="csr")),
        np.concatenate([q.right_hand_side for q in polytopes]),
        np.concatenate([q.objective for q in polytopes]),
        np.repeat(np.arange(len(instances)), sizes),
        np.concatenate([q.unary_index for q in polytopes]),
        sp.csr_array(sp.block_diag([q.unary for q in polytopes], format="csr")),
        tuple(
            sp.csr_array(sp.hstack(counts, format="csr"))
            for counts in zip(*(q.factors for q in polytopes), strict=True)
        ),
    )


def _members(label: NDArray[np.int64], n: int) -> list[NDArray[np.int64]]:
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(n + 1))
    return [order[edges[k] : edges[k + 1]] for k in range(n)]


def _beside(left: sp.csr_array, right: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.hstack([left, right], format="csr"))


def _above(top: sp.csr_array, bottom: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.vstack([top, bottom], format="csr"))
