"""The program over mixtures of structures seen so far, which column generation solves between looks at a corpus."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.inference.highs import Deadline, Matrices, run_linear
from spectrem.inference.slack import SlackTerms
from spectrem.inference.slack_variables import SlackVariables, compile_slack_variables

_ROUNDS, _MOST_CUTS = 3, 2_000
_USED = 1e-9  # violations relative to the size of a row that pass for none


class MasterSolution(NamedTuple):
    """The best mixture of the columns while prices stay in a box.

    Attributes
    ----------
    weights : ndarray of shape (n_columns,)
        Sum to 1 over the columns of each piece.
    prices : ndarray of shape (n_rows,)
    value : float
        Least value of the dual's model in the box, nats.
    held : bool
        Whether the box holds prices back: the mixture then breaks rows.
    rough : bool
        Whether an l2 slack still lies beyond its tangents; the next solve adds more of them.
    """

    weights: NDArray[np.float64]
    prices: NDArray[np.float64]
    value: float
    held: bool
    rough: bool


class Master:
    """Columns and their program (Dantzig & Wolfe 1960), its prices in a box (Marsten, Hogan & Blankenship 1975).

    Parameters
    ----------
    bounds : ndarray of shape (n_rows,)
    terms : SlackTerms
    size, lever : ndarray of shape (n_rows,)
        Units of a row's violation and of its price.
    n_pieces : int
        Parts of the corpus that have weights of their own.
    """

    def __init__(
        self,
        bounds: NDArray[np.float64],
        terms: SlackTerms,
        size: NDArray[np.float64],
        lever: NDArray[np.float64],
        n_pieces: int,
    ) -> None:
        self.bounds, self.terms, self.size, self.lever, self.n_pieces = bounds, terms, size, lever, n_pieces
        self.piece, self.point = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.scores, self.expectations = np.zeros(0), np.zeros((0, len(bounds)))
        self._cuts: list[NDArray[np.float64]] = []

    def add(self, point: int, scores: NDArray[np.float64], expectations: NDArray[np.float64]) -> None:
        """Columns of all pieces at a point; those that are there already are left out."""
        known = np.zeros(self.n_pieces, np.bool_)
        same = (self.expectations == expectations[self.piece]).all(axis=1) & (
            np.abs(self.scores - scores[self.piece]) <= 1e-12 * np.abs(self.scores)
        )
        known[self.piece[same]] = True
        new = np.flatnonzero(~known)
        self.piece = np.concatenate([self.piece, new])
        self.point = np.concatenate([self.point, np.full(len(new), point)])
        self.scores = np.concatenate([self.scores, scores[new]])
        self.expectations = np.concatenate([self.expectations, expectations[new]])

    def solve(self, centre: NDArray[np.float64], box: float, deadline: Deadline) -> MasterSolution | None:
        """The program with prices within ``box * lever`` of ``centre``; None if HiGHS does not come to an end.

        Scores are counted from the best at the centre, and prices from the centre, so that the tolerances of HiGHS
        are relative to what is still to gain and not to the corpus.
        """
        n, n_rows = len(self.scores), len(self.bounds)
        reduced = self.scores - self.expectations @ centre
        best = np.full(self.n_pieces, -np.inf)
        np.maximum.at(best, self.piece, reduced)
        low, high = np.full((self.n_pieces, n_rows), np.inf), np.full((self.n_pieces, n_rows), -np.inf)
        np.minimum.at(low, self.piece, self.expectations)
        np.maximum.at(high, self.piece, self.expectations)
        largest = np.maximum(np.abs(low.sum(axis=0) - self.bounds), np.abs(high.sum(axis=0) - self.bounds))
        slack = compile_slack_variables(self.terms, largest)
        free = np.flatnonzero(~self.terms.equality)
        unit, length = float((self.lever * self.size).max()), float(self.size.max())
        columns = sp.csr_array(((self.expectations - low[self.piece]) / self.size).T)
        give = sp.csr_array(sp.diags_array(length / self.size) @ slack.matrix)
        room = sp.csr_array((np.ones(len(free)), (free, np.arange(len(free)))), shape=(n_rows, len(free)))
        short = sp.eye_array(n_rows, format="csr")
        convex = sp.csr_array((np.ones(n), (self.piece, np.arange(n))), shape=(self.n_pieces, n))
        n_slack, n_rest = len(slack.cost), len(free) + 2 * n_rows
        end, price = 2.0 * largest / self.size + 1.0, centre * self.size
        stay = box * self.lever * self.size
        program = Matrices(
            cost=np.concatenate(
                [best[self.piece] - reduced, length * slack.cost + price @ give, price[free], stay, stay]
            )
            / unit,
            upper=np.concatenate([np.ones(n), slack.upper / length, end[free], end, end]),
            equal=_stack(
                [columns, give, room, short, -short],
                [convex, sp.csr_array((self.n_pieces, n_slack + n_rest))],
            ),
            equal_to=np.concatenate([(self.bounds - low.sum(axis=0)) / self.size, np.ones(self.n_pieces)]),
            below=sp.csr_array(
                sp.hstack(
                    [sp.csr_array((slack.ties.shape[0], n)), slack.ties, sp.csr_array((slack.ties.shape[0], n_rest))]
                )
            ),
            limit=np.zeros(slack.ties.shape[0]),
        )
        rough = False
        for _ in range(_ROUNDS):
            result = run_linear(self._with_cuts(program, n, n_slack), deadline.left)
            if result.x is None:
                return None
            rough = self._cut(slack, result.x[n : n + n_slack] * length)
            if not rough:
                break
        assert result.x is not None
        weights = np.maximum(result.x[:n], 0.0)
        weights[weights < 1e-12] = 0.0
        weights /= np.bincount(self.piece, weights, self.n_pieces)[self.piece]
        return MasterSolution(
            weights,
            self.terms.project(centre + result.equal_prices[:n_rows] * unit / self.size),
            float(centre @ self.bounds + best.sum() - result.cost * unit),
            bool(result.x[n + n_slack + len(free) :].max(initial=0.0) > _USED),
            rough and len(self._cuts) < _MOST_CUTS,
        )

    def _with_cuts(self, program: Matrices, n: int, n_slack: int) -> Matrices:
        if not self._cuts:
            return program
        cuts = np.zeros((len(self._cuts), len(program.cost)))
        cuts[:, n : n + n_slack] = self._cuts
        below = sp.csr_array(sp.vstack([program.below, sp.csr_array(cuts)], format="csr"))
        return replace(program, below=below, limit=np.concatenate([program.limit, np.zeros(len(cuts))]))

    def _cut(self, slack: SlackVariables, y: NDArray[np.float64]) -> bool:
        """Add a tangent for every l2 norm variable that is too small for its slack; whether there was one."""
        before = len(self._cuts)
        for group, first, norm in slack.curved:
            sides = 2 if group.equality else 1
            n = len(group.rows)
            violation = y[first : first + sides * n].reshape(sides, n).sum(axis=0)
            length = group.norm(violation, "l2")
            unit = np.maximum.reduceat(self.size[group.rows], group.offsets[:-1])
            for g in np.flatnonzero(length > y[norm : norm + len(length)] + 1e-10 * unit):
                members = np.arange(group.offsets[g], group.offsets[g + 1])
                cut = np.zeros(len(y))
                for side in range(sides):
                    cut[first + side * n + members] = violation[members] / length[g]
                cut[norm + g] = -1.0
                self._cuts.append(cut)
        return len(self._cuts) > before


def _stack(*rows: list[sp.csr_array]) -> sp.csr_array:
    return sp.csr_array(sp.vstack([sp.hstack(row, format="csr") for row in rows], format="csr"))
