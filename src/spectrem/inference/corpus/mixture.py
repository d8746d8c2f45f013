"""The linear program at gamma = 0 over a corpus of which only sums come home: column generation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.exceptions import InvalidInputError, warn_unconverged
from spectrem.inference.corpus.dual import CorpusDual, Evaluate, by_shard
from spectrem.inference.corpus.master import Master, MasterSolution, can_hold
from spectrem.inference.highs import Deadline
from spectrem.inference.result import Status
from spectrem.inference.solvers.newton import smooth_solver
from spectrem.inference.solvers.solver import check_now

_FIRST_STEPS = 15  # of quasi-Newton
_NEAR = 1e-3  # residual at which they end
_MOST_PIECES = 64
_MOST_ENTRIES = 6_400  # of the columns of one point
_NO_BOX = 1e9
_HELD = 1e-7  # violations, relative to the size of a row, that pass for none


@dataclass(frozen=True)
class CorpusMixture:
    """A mixture of the best structures at several prices, which solves the linear program over a corpus.

    A statistic that is linear in marginals is the sum over points k and shards s of ``weights[k, s]`` times that of the
    best structures of shard s at ``points[k]``.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_rows)
        Multipliers, nats per unit of each row.
    weights : ndarray of shape (n_points, n_shards)
        In [0, 1]; every shard's sum to 1. At most ``n_rows`` of a solved program lie between 0 and 1 beyond one per
        shard.
    multipliers : ndarray of shape (n_rows,)
        The best found: at these the dual takes the value ``bound``.
    value : float
        Expected score less penalties, nats.
    bound : float
        No distribution that meets the rows is worth more, nats.
    gap : float
        ``bound - value`` relative to ``max(1, abs(bound))``.
    status : Status
        ``CERTIFIED`` if every shard takes one point (its structures are then whole), ``SOLVED``, or
        ``MAX_ITERATIONS``.
    violation : float
        Worst violation of any row or slack group after the slack it is allowed, in units of the row.
    expectation : ndarray of shape (n_rows,)
        ``U mu`` of the mixture.
    n_evaluations : int
    """

    points: Floats
    weights: Floats
    multipliers: Floats
    value: float
    bound: float
    gap: float
    status: Status
    violation: float
    expectation: Floats
    n_evaluations: int


def solve_corpus_program(
    evaluate: Evaluate,
    rows: CorpusRows,
    *,
    support: Evaluate | None = None,
    start: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
    time_limit: float | None = None,
) -> CorpusMixture:
    """The mixture of structures that is worth most among those that meet rows of corpus scope (gamma = 0).

    Every look at the corpus, at some prices, gives a bound and a column: the scores and expectations of the best
    structures there. A linear program over mixtures of the columns (Dantzig & Wolfe 1960) gives the next prices, until
    bound and mixture meet. A few quasi-Newton steps lead near the optimum, because the dual of a large corpus is all
    but smooth from afar; from there prices are held in a box around the best ones, which grows where the program is
    right about the dual (Marsten, Hogan & Blankenship 1975). Shards have weights of their own, which takes half the
    looks that common weights take, and fewer points per shard.

    Use when gamma = 0 and corpus rows span several shards; tens of looks for tens of rows. With thousands of rows it
    runs out of ``max_iter``, and gives the mixture that breaks the rows least with its violation and gap.

    Parameters
    ----------
    evaluate : callable
        From multipliers of shape (n_rows,) to values, shape (n_shards,), of ``smax_0(s - U^T lambda)`` in nats summed
        over the instances of each shard, and the expectations ``U h`` of the best structures, shape (n_shards, n_rows).
        The same multipliers must give the same structures again.
    rows : CorpusRows
    support : callable or None
        As ``evaluate``, with every possible part scoring 0: lets an infeasible constraint be proven.
    start : array-like of shape (n_rows,) or None
        Multipliers of an earlier solve.
    tol : float
        Relative gap.
    max_iter : int
        Looks at the corpus.
    time_limit : float or None
        Seconds for all linear programs, None for 300.

    Returns
    -------
    CorpusMixture

    Raises
    ------
    InfeasibleConstraintError
        If ``support`` proves that no distribution meets the rows.

    Examples
    --------
    Two coins, one per shard, together to show heads 0.5 times:

    >>> from spectrem.constraints.compilation.rows import Block, CorpusRows
    >>> def evaluate(multipliers):
    ...     worth = np.array([1.0, 0.5]) - multipliers
    ...     return np.maximum(worth, 0.0), (worth > 0).astype(float)[:, None]
    >>> block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {})
    >>> result = solve_corpus_program(evaluate, CorpusRows(np.array([0.5]), (block,)))
    >>> result.expectation, result.value, result.status.name
    (array([0.5]), 0.5, 'SOLVED')
    """
    if max_iter < 1:
        raise InvalidInputError(f"max_iter must be at least 1; got {max_iter}; the default is 200")
    mixture = _Bundle(evaluate, rows, support, max_iter, Deadline(time_limit)).run(tol, start)
    if mixture.status == Status.MAX_ITERATIONS:
        warn_unconverged(
            f"the linear program over the corpus {Status.MAX_ITERATIONS.message} (gap {mixture.gap:.2g}, violation "
            f"{mixture.violation:.2g}); raise max_iter or tol, or give the constraint slack",
        )
    return mixture


class _Bundle:
    """Column generation from the points looked at, in a box around the best of them."""

    def __init__(
        self, evaluate: Evaluate, rows: CorpusRows, support: Evaluate | None, max_iter: int, deadline: Deadline
    ) -> None:
        self.evaluate, self.rows, self.max_iter, self.deadline = evaluate, rows, max_iter, deadline
        self.dual = CorpusDual(evaluate, rows, support=support)
        self.lever = self.dual.size * self.dual.scale
        self.points: list[Floats] = []
        self.bounds: list[float] = []
        self.seen: list[Floats] = []

    def look(self, point: Floats) -> tuple[Floats, Floats]:
        """What the corpus says at a point, which gives a bound and a column for each piece."""
        values, expectations = by_shard(*self.evaluate(point))
        dual = self.dual
        if not self.points:
            n_shards, n_rows = expectations.shape
            n_pieces = max(1, min(n_shards, _MOST_PIECES, _MOST_ENTRIES // max(1, n_rows)))
            self.piece = np.arange(n_shards) * n_pieces // n_shards
            self.starts = np.searchsorted(self.piece, np.arange(n_pieces))
            self.master = Master(dual.bounds, dual.terms, dual.size, self.lever, n_pieces)
        self.bounds.append(float(dual.bounds @ point + values.sum() + dual.terms.value(point)[0]))
        scores = np.add.reduceat(values + expectations @ point, self.starts)
        self.master.add(len(self.points), scores, np.add.reduceat(expectations, self.starts, axis=0))
        self.points.append(point.copy())
        self.seen.append(expectations.sum(axis=0))
        return values, expectations

    def run(self, tol: float, start: ArrayLike | None) -> CorpusMixture:
        # From afar the dual of a large corpus is all but smooth.
        near = CorpusDual(self.look, self.rows, support=self.dual.support)
        near.solve(smooth_solver(near, _NEAR, min(_FIRST_STEPS, self.max_iter - 1)), start)
        del near  # it refers to this bundle, and a corpus is let go of when nothing refers to it
        points, best = self.points, int(np.argmin(self.bounds))
        away = np.array([np.abs((points[best] - point) / self.lever).max(initial=0.0) for point in points])
        box = float(np.clip(np.min(away[away > 0], initial=1.0), 1e-4, 1.0))
        feasible, worse = False, 0
        while True:
            bound = self.bounds[best]
            unit = max(1.0, abs(bound))
            answer = self.master.solve(points[best], box, self.deadline)
            if answer is None:
                break
            missing = bound - answer.value
            if missing <= tol * unit:
                if answer.rough:
                    continue
                if not answer.held:
                    return self.finish(answer, best, tol)
                if box >= _NO_BOX:
                    break
                box *= 10.0
                continue
            if len(points) >= self.max_iter:
                break
            if not feasible and answer.held and check_now(len(points)):
                feasible = self.decide()
            self.look(answer.prices)
            ratio = (bound - self.bounds[-1]) / missing
            if ratio > 0:
                best, worse = len(points) - 1, 0
                box *= 4.0 if ratio > 0.5 and answer.held else 1.0
                continue
            worse += 1
            excess = -ratio * min(1.0, box)
            if excess > 3.0 or (worse >= 3 and excess > 1.0):
                box, worse = box / min(max(excess, 1.5), 4.0), 0
        if not feasible:
            self.decide()
        answer = self.master.solve(points[best], _NO_BOX, Deadline(None)) or answer
        if answer is None:
            answer = MasterSolution((self.master.point == best) * 1.0, points[best], np.nan, held=True, rough=True)
        return self.finish(answer, best, tol)

    def decide(self) -> bool:
        """Whether the rows can hold, by what was seen so far and some more looks; raises if not."""
        if self.dual.support is None:
            return False
        return can_hold(self.dual, self.seen, self.points[int(np.argmin(self.bounds))])

    def finish(self, answer: MasterSolution, best: int, tol: float) -> CorpusMixture:
        points, master, terms = self.points, self.master, self.dual.terms
        own = np.zeros((len(points), master.n_pieces))
        own[master.point, master.piece] = answer.weights
        expectation = answer.weights @ master.expectations
        excess = expectation - self.dual.bounds
        value = float(answer.weights @ master.scores - terms.cost(excess)[0])
        bound = self.bounds[best]
        gap = (bound - value) / max(1.0, abs(bound))
        met = terms.worst_violation(excess, self.dual.size)[0] <= _HELD
        whole = bool((own.max(axis=0) == 1.0).all())
        used = np.flatnonzero(own.any(axis=1))
        status = Status.MAX_ITERATIONS
        if met and abs(gap) <= max(2.0 * tol, 1e-9):
            status = Status.CERTIFIED if whole else Status.SOLVED
        return CorpusMixture(
            np.array([points[k] for k in used]),
            own[used][:, self.piece],
            points[best],
            value,
            bound,
            gap,
            status,
            float(terms.worst_violation(excess)[0]),
            expectation,
            len(points),
        )
