"""The program over mixtures of structures seen so far: column generation between looks at a corpus.

Its prices tell, too, whether rows over the corpus can hold at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.inference.corpus.dual import CorpusDual, Evaluate
from spectrem.inference.highs import Deadline, run_linear
from spectrem.inference.program import compile_slack_variables, write_program
from spectrem.inference.slack import SlackTerms

_ROUNDS, _MOST_CUTS = 3, 2_000
_USED = 1e-9  # violations relative to the size of a row that pass for none
_HOLDS, _CLASHES = 1e-9, -1e-9  # relative to the size of the rows


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

    weights: Floats
    prices: Floats
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

    def __init__(self, bounds: Floats, terms: SlackTerms, size: Floats, lever: Floats, n_pieces: int) -> None:
        self.bounds, self.terms, self.size, self.lever, self.n_pieces = bounds, terms, size, lever, n_pieces
        self.piece, self.point = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.scores, self.expectations = np.zeros(0), np.zeros((0, len(bounds)))
        self._cuts = sp.csr_array((0, len(compile_slack_variables(terms, np.zeros(len(bounds))).cost)))

    def add(self, point: int, scores: Floats, expectations: Floats) -> None:
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

    def solve(self, centre: Floats, box: float, deadline: Deadline) -> MasterSolution | None:
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
        give = sp.csr_array(sp.diags_array(length / self.size) @ slack.matrix)
        room = sp.csr_array((np.ones(len(free)), (free, np.arange(len(free)))), shape=(n_rows, len(free)))
        columns = sp.csr_array(((self.expectations - low[self.piece]) / self.size).T)
        price = centre * self.size
        program = write_program(
            cost=np.concatenate([best[self.piece] - reduced, price[free]]) / unit,
            upper=np.concatenate([np.ones(n), 2.0 * largest[free] / self.size[free] + 1.0]),
            body=sp.csr_array(sp.hstack([columns, room], format="csr")),
            bounds=(self.bounds - low.sum(axis=0)) / self.size,
            equality=np.ones(n_rows, np.bool_),
            shapes=sp.csr_array((np.ones(n), (self.piece, np.arange(n))), shape=(self.n_pieces, n + len(free))),
            ones=np.ones(self.n_pieces),
            slack=replace(
                slack, matrix=give, cost=(length * slack.cost + price @ give) / unit, upper=slack.upper / length
            ),
        )
        stay, start = box * self.lever * self.size / unit, n + len(free)
        stop = start + len(slack.cost)
        beyond = sp.csr_array((0, start))
        for _ in range(_ROUNDS):
            cuts = sp.csr_array(sp.block_diag([beyond, self._cuts], format="csr"))
            result = run_linear(program.with_rows(cuts).elastic(stay), deadline.left)
            if result.x is None:
                return None
            cuts = slack.tangents(result.x[start:stop] * length, 1e-10 * self.size)
            self._cuts = sp.csr_array(sp.vstack([self._cuts, cuts], format="csr"))
            if not cuts.shape[0]:
                break
        assert result.x is not None
        weights = np.maximum(result.x[:n], 0.0)
        weights[weights < 1e-12] = 0.0
        weights /= np.bincount(self.piece, weights, self.n_pieces)[self.piece]
        return MasterSolution(
            weights,
            self.terms.project(centre + result.prices[:n_rows] * unit / self.size),
            float(centre @ self.bounds + best.sum() - result.cost * unit),
            bool(result.x[stop:].max(initial=0.0) > _USED),
            cuts.shape[0] > 0 and self._cuts.shape[0] < _MOST_CUTS,
        )


def can_hold(dual: CorpusDual, expectations: list[Floats], direction: Floats, looks: int = 20) -> bool:
    """True if some distribution meets the rows, False if that stays open.

    A linear program over the distributions known tells the prices at which they all break the rows; the corpus tells
    whether any other does not. That many ``looks`` are taken at it.

    Parameters
    ----------
    dual : CorpusDual
        With a ``support``.
    expectations : list of ndarray of shape (n_rows,)
        ``U mu`` of distributions that are known already.
    direction : ndarray of shape (n_rows,)
        Multipliers to begin with.
    looks : int

    Raises
    ------
    InfeasibleConstraintError
        If no distribution does.
    """
    terms = dual.terms
    if terms.penalised.all():
        return True
    master = Master(dual.bounds, terms, dual.size, np.where(terms.penalised, 0.0, 1.0 / dual.size), 1)
    for k, expectation in enumerate(expectations):
        master.add(k, np.zeros(1), expectation[None])
    trial = terms.recession(direction)
    if not trial.any() and not expectations:
        trial = terms.recession(terms.project(np.ones(len(direction))))
    for _ in range(looks):
        if trial.any():
            slope, expectation = dual.slope(trial)
            if slope < _CLASHES * float(dual.size @ np.abs(trial)):
                raise dual.conflict(trial)
            master.add(len(master.scores), np.zeros(1), expectation[None])
        answer = master.solve(np.zeros(len(trial)), 1.0, Deadline(None))
        if answer is None:
            return False
        if answer.value >= -_HOLDS and not answer.rough:
            return True
        trial = terms.recession(answer.prices)
    return False


def check_corpus_rows(
    support: Evaluate,
    rows: CorpusRows,
    direction: ArrayLike,
    *,
    expectation: ArrayLike | None = None,
    looks: int = 20,
) -> bool:
    """Whether rows over a corpus can hold: True if proven, False if it stays open; an error if they cannot.

    Parameters do not matter but for what they make impossible, so that one proof is enough for a fit.

    Use where multipliers are not solved for but only take a few steps per iteration, and rows are still broken: such
    multipliers would grow for ever, in silence.

    Parameters
    ----------
    support : callable
        From a direction d of shape (n_rows,) to ``max over structures of -d . U h`` and ``U h`` of the structures that
        attain it, each summed over instances; with a row per shard or over the whole corpus. It is what evaluates the
        dual at gamma = 0, with every possible part scoring 0.
    rows : CorpusRows
    direction : array-like of shape (n_rows,)
        Multipliers so far; that of a conflict is looked for from there.
    expectation : array-like of shape (n_rows,) or None
        ``U mu`` at those multipliers.
    looks : int
        Calls of ``support``.

    Returns
    -------
    bool

    Raises
    ------
    InfeasibleConstraintError
        Naming the constraints that conflict.

    Examples
    --------
    Two coins cannot show heads three times:

    >>> from spectrem.constraints.compilation.rows import Block, CorpusRows
    >>> def support(direction):
    ...     return 2 * max(0.0, -direction[0]), np.array([2.0 * (direction[0] < 0)])
    >>> block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {})
    >>> check_corpus_rows(support, CorpusRows(np.array([1.5]), (block,)), [0.3])
    True
    >>> check_corpus_rows(support, CorpusRows(np.array([3.0]), (block,)), [-5.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    spectrem.exceptions.InfeasibleConstraintError: 'heads': no feasible q over the corpus (== 3, and it can be 2...; ...
    """
    dual = CorpusDual(support, rows, support=support)
    known = [] if expectation is None else [np.asarray(expectation, np.float64)]
    return can_hold(dual, known, np.asarray(direction, np.float64), looks)
