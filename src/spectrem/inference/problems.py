"""The problems of a batch written as linear programs over polytopes, rows and slack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem.inference.oracle import BatchDual
from spectrem.inference.program import Program, SlackVariables, compile_slack_variables, largest_excess, write_program
from spectrem.inference.segments import members_of, row_maxima, sum_by
from spectrem.structures import Product
from spectrem.structures._polytopes import join_polytopes
from spectrem.structures._ragged import offsets_of, ranges_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels, Polytope, Structure, has_one_label


def choice_offsets(structure: Structure) -> Ints | None:
    """Where the labels of every choice begin, shape (n_choices + 1,), if choices are independent; else None.

    Examples
    --------
    >>> from spectrem.structures import Categorical
    >>> choice_offsets(Product({"text": Categorical([2, 3]), "links": Categorical([2, 2])})).tolist()
    [0, 2, 5, 7, 9]
    """
    if has_one_label(structure):
        return structure.offsets
    members = list(structure.members.values()) if isinstance(structure, Product) else []
    if not members or not all(map(has_one_label, members)):
        return None
    return offsets_of(np.concatenate([np.diff(cast("Labels", member).offsets) for member in members]))


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
        own = x[: len(self.owner)]
        chosen = own > 0
        earned = np.where(chosen, self.polytope.objective, 0.0) * own
        parts.unary[self.polytope.unary_index] = self.polytope.unary @ own
        counted = own * weights[self.instances][self.owner]
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

    def write(self, p: int | Ints) -> ProblemProgram:
        """The program of problem ``p``, or of all of several."""
        dual, some = self.dual, np.atleast_1d(p)
        rows, instances, own, ties = (
            np.sort(np.concatenate([members[edges[k] : edges[k + 1]] for k in some])) for members, edges in self._of
        )
        polytope, owner = join_instances(dual, instances)
        slack = self.variables.pick(rows, own, ties)
        possible = ~np.isneginf(polytope.objective)
        body = sp.csr_array(dual.matrix[rows][:, polytope.unary_index] @ polytope.unary)
        program = write_program(
            cost=-dual.instance_weight[instances][owner] * np.where(possible, polytope.objective, 0.0),
            upper=possible.astype(np.float64),
            body=body,
            bounds=dual.rows.bounds[rows],
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
        return ProblemProgram(program, rows, instances, own, polytope, owner, row, column, unit)

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
