"""Rows with slack over some variables, written out for HiGHS."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.inference.highs import Matrices, Outcome
from spectrem.inference.slack_variables import SlackVariables


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x + slack.cost @ y`` where rows with slack hold and x is made of the shapes of structures.

    ``body @ x + slack.matrix @ y <= bounds`` or, where ``equality``, ``==``; ``shapes @ x == ones``;
    ``slack.ties @ y <= 0``; ``0 <= x <= upper`` and ``0 <= y <= slack.upper``.

    Attributes
    ----------
    cost, upper : ndarray of shape (n_x,)
    body : csr_array of shape (n_rows, n_x)
    bounds : ndarray of shape (n_rows,)
    equality : ndarray of shape (n_rows,), bool
    shapes : csr_array of shape (n_shapes, n_x)
    ones : ndarray of shape (n_shapes,)
    slack : SlackVariables
    """

    cost: Floats
    upper: Floats
    body: sp.csr_array
    bounds: Floats
    equality: Bools
    shapes: sp.csr_array
    ones: Floats
    slack: SlackVariables

    def matrices(self, miss: Floats | None = None) -> Matrices:
        """The variables x, then y.

        With costs ``miss``, shape (n_rows,), rows may be missed: variables follow that tell how far each is missed
        upward, then how far each equality is downward.
        """
        n, both, slack = len(self.bounds), np.flatnonzero(self.equality), self.slack
        pieces, costs, ends = [self.body, slack.matrix], [self.cost, slack.cost], [self.upper, slack.upper]
        if miss is not None:
            way = np.concatenate([np.arange(n), both])
            signs = np.repeat([-1.0, 1.0], [n, len(both)])
            pieces.append(sp.csr_array((signs, (way, np.arange(len(way)))), shape=(n, len(way))))
            # So far away that no solution comes near, and no price falls to the ends of variables.
            reach = abs(self.body) @ self.upper + abs(slack.matrix) @ slack.upper + np.abs(self.bounds)
            costs, ends = [*costs, miss[way]], [*ends, 2.0 * reach[way] + 1.0]
        rows = sp.csr_array(sp.hstack(pieces, format="csr"))
        below, width = np.flatnonzero(~self.equality), rows.shape[1]
        ties = _widen(slack.ties, len(self.cost), width)
        return Matrices(
            cost=np.concatenate(costs),
            upper=np.concatenate(ends),
            equal=sp.csr_array(sp.vstack([rows[both], _widen(self.shapes, 0, width)], format="csr")),
            equal_to=np.concatenate([self.bounds[both], self.ones]),
            below=sp.csr_array(sp.vstack([rows[below], ties], format="csr")),
            limit=np.concatenate([self.bounds[below], np.zeros(ties.shape[0])]),
        )

    def pick(self, columns: Ints) -> Program:
        """The same over some of the x."""
        return replace(
            self,
            cost=self.cost[columns],
            upper=self.upper[columns],
            body=sp.csr_array(self.body[:, columns]),
            shapes=sp.csr_array(self.shapes[:, columns]),
        )

    def prices(self, outcome: Outcome) -> Floats:
        """By how much the cost falls per unit of the bound of each row, shape (n_rows,)."""
        prices = np.empty(len(self.bounds))
        n_equal = int(self.equality.sum())
        prices[self.equality] = outcome.equal_prices[:n_equal]
        prices[~self.equality] = outcome.below_prices[: len(prices) - n_equal]
        return prices


def _widen(matrix: sp.csr_array, before: int, width: int) -> sp.csr_array:
    """Columns of zeros on both sides."""
    shape = matrix.shape[0], width
    return sp.csr_array((matrix.data, matrix.indices + before, matrix.indptr), shape=shape)
