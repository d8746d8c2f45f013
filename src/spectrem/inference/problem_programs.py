"""The problems of a batch as programs: structures as polytopes, rows, slack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats, Ints
from spectrem.inference.oracle import BatchDual
from spectrem.inference.program import Program
from spectrem.inference.segments import members_of, sum_by
from spectrem.inference.slack_variables import SlackVariables, compile_slack_variables, largest_excess
from spectrem.structures.parts import Parts
from spectrem.structures.structure import has_one_label


@dataclass(frozen=True)
class ProblemProgram:
    """The program of one problem of a batch, or of several that are solved side by side.

    Attributes
    ----------
    rows, instances : ndarray of int64
        Numbers in the batch.
    shapes : Shapes
        Of ``instances``.
    slack : ndarray of int64
        Which slack variables of the batch are its.
    program : Program
    """

    rows: Ints
    instances: Ints
    shapes: Shapes
    slack: Ints
    program: Program


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
    right_hand_side: Floats
    objective: Floats
    owner: Ints
    unary_index: Ints
    unary: sp.csr_array
    factors: tuple[sp.csr_array, ...]


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

    def write(self, p: int | Ints) -> ProblemProgram:
        """The program of problem ``p``, or of all of several."""
        dual, some = self.dual, np.atleast_1d(p)
        rows, instances, slack, ties = (
            np.sort(np.concatenate([members[edges[k] : edges[k + 1]] for k in some])) for members, edges in self._of
        )
        shapes = write_shapes(dual, instances)
        possible = ~np.isneginf(shapes.objective)
        program = Program(
            cost=-dual.instance_weight[instances][shapes.owner] * np.where(possible, shapes.objective, 0.0),
            upper=possible.astype(np.float64),
            body=sp.csr_array(dual.matrix[rows][:, shapes.unary_index] @ shapes.unary),
            bounds=dual.rows.bounds[rows],
            equality=dual.terms.equality[rows],
            shapes=shapes.equalities,
            ones=shapes.right_hand_side,
            slack=self.variables.pick(rows, slack, ties),
        )
        return ProblemProgram(rows, instances, shapes, slack, program)

    def owners(self, problem: ProblemProgram) -> Ints:
        """The problem of every variable of a program."""
        instances = problem.instances[problem.shapes.owner]
        return np.concatenate([self.dual.instance_problem[instances], problem.program.slack.variable_problem])


def read_structures(program: ProblemProgram, x: Floats, weights: Floats | None, parts: Parts) -> Floats:
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


def write_shapes(dual: BatchDual, instances: Ints) -> Shapes:
    """The polytopes of some instances."""
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
