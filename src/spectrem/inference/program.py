"""Linear and integer programs over structures, rows and slack: the one form in which all are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.inference.slack_variables import SlackVariables


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x`` where ``matrix @ x <= bounds`` or, where ``equality``, ``==``, and ``0 <= x <= upper``.

    Attributes
    ----------
    cost : ndarray of shape (n_variables,)
    upper : ndarray of shape (n_variables,)
        Finite: presolve may loop for ever over a variable without a bound, and does not look at the time there.
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

        Variables follow that tell how far each of them is missed upward, then how far each equality is downward.
        """
        n = len(miss)
        both = np.flatnonzero(self.equality[:n])
        way = np.concatenate([np.arange(n), both])
        signs = np.repeat([-1.0, 1.0], [n, len(both)])
        missed = sp.csr_array((signs, (way, np.arange(len(way)))), shape=(len(self.bounds), len(way)))
        # So far away that no solution comes near, and no price falls to the ends of variables.
        reach = abs(self.matrix[:n]) @ self.upper + np.abs(self.bounds[:n])
        return replace(
            self,
            cost=np.append(self.cost, miss[way]),
            upper=np.append(self.upper, 2.0 * reach[way] + 1.0),
            matrix=sp.csr_array(sp.hstack([self.matrix, missed], format="csr")),
        )

    def scaled(self, row: Floats, column: Floats, unit: float = 1.0) -> Program:
        """In other units: rows are multiplied by ``row``, variables divided by ``column``, costs by ``unit``.

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
