"""Rows over the whole corpus: a dual at gamma > 0 and a linear program at gamma = 0, evaluated by sums over shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.rows import CorpusRows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, quoted, setting, warn_unconverged
from spectrem.inference.conflict import demand_of, place_of
from spectrem.inference.dual import Evaluation, SlackTerms, compile_slack
from spectrem.inference.program import Deadline, compile_slack_variables, run_linear, write_program
from spectrem.inference.result import Status
from spectrem.inference.solvers.smooth import MOST_ROWS, QuasiNewton, Solution, Solver, check_now, smooth_solver

Evaluate = Callable[[Floats], tuple[float | Floats, Floats]]
"""From multipliers to values and expectations, with a row per shard or summed over the corpus."""


def by_shard(values: float | Floats, expectations: Floats) -> tuple[Floats, Floats]:
    """Sums that came home, with a row per shard (one row if they are over the corpus), shape (n_shards, n_rows)."""
    value = np.atleast_1d(np.asarray(values, np.float64))
    expectation = np.asarray(expectations, np.float64).reshape(len(value), -1)
    if not (np.isfinite(value).all() and np.isfinite(expectation.sum())):
        raise InvalidInputError(
            "evaluate must return finite sums of values and expectations; got NaN or inf; "
            "look for an instance without any possible structure"
        )
    return value, expectation


@dataclass(frozen=True)
class CorpusSolution:
    """Prices of the corpus rows.

    Attributes
    ----------
    multipliers : ndarray of shape (n_rows,)
    status : Status
    dual_value : float
        Nats, with ``b . lambda`` and the slack terms.
    added : float
        These two alone: what the rows add to the values of the shards.
    residual : float
    n_evaluations, n_iter : int
    length : float or None
        Step of `Spectral`, to start from next time.
    """

    multipliers: Floats
    status: Status
    dual_value: float
    added: float
    residual: float
    n_evaluations: int
    n_iter: int
    length: float | None = None


class CorpusDual:
    """A dual with one problem, evaluated by the caller; see `solve_corpus_dual` for what it is made of."""

    def __init__(
        self, evaluate: Evaluate, rows: CorpusRows, gamma: float = 1.0, support: Evaluate | None = None
    ) -> None:
        self._evaluate, self.support, self.blocks, self.bounds = evaluate, support, rows.blocks, rows.bounds
        self.inside = rows.inside
        self.gamma, self.n_problems, self.n_evaluations = gamma, 1, 0
        n = len(self.bounds)
        self.row_problem, self.row_weight, self.lever = np.zeros(n, np.int64), np.ones(n), np.ones(n)
        self.terms = compile_slack(rows.blocks, self.row_problem, 1)
        length = np.sqrt(np.maximum(1.0, np.abs(self.bounds))) if rows.norms is None else rows.norms
        self.scale = 1.0 / np.where(length > 0, length * length, 1.0)
        size = np.maximum(np.abs(self.bounds), length)
        self.size = np.where(size > 0, size, 1.0)

    def solve(self, solver: Solver, start: ArrayLike | None) -> Solution:
        """From multipliers that may be missing or out of the feasible set.

        Raises
        ------
        InfeasibleConstraintError
            If ``support`` proves that no distribution meets the rows.
        """
        first = np.zeros(len(self.bounds)) if start is None else np.asarray(start, np.float64)
        solution = solver.solve(self, self.terms.project(first))
        if solution.status[0] == Status.INFEASIBLE:
            raise self.conflict(solution.multipliers)
        return solution

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        self.n_evaluations += 1
        values, expectations = by_shard(*self._evaluate(multipliers))
        return Evaluation(np.array([self.bounds @ multipliers + values.sum()]), self.bounds - expectations.sum(axis=0))

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        direction = self.terms.recession(multipliers)
        largest = np.abs(direction).max(initial=0.0)
        if self.support is None or largest == 0:
            return np.zeros(1, bool)
        direction = direction / largest
        return np.array([self.slope(direction)[0] < -1e-9 * (self.size @ np.abs(direction))])

    def slope(self, direction: Floats) -> tuple[float, Floats]:
        """How the dual rises far out in a direction, which proves a conflict if below 0, and the expectations there."""
        assert self.support is not None
        values, expectations = by_shard(*self.support(direction))
        slope = self.bounds @ direction + values.sum() + self.terms.value(direction)[0]
        return float(slope), expectations.sum(axis=0)

    def conflict(self, multipliers: Floats) -> InfeasibleConstraintError:
        """Names the constraints whose prices prove, without those of the others, that they cannot hold."""
        direction, proven = self.terms.recession(multipliers), np.ones(1, np.bool_)
        for block in sorted(self.blocks, key=lambda b: float(np.abs(direction[b.start : b.stop]).max(initial=0.0))):
            trial = direction.copy()
            trial[block.start : block.stop] = 0.0
            if self.infeasible(trial, proven)[0]:
                direction = trial
        worst = int(np.abs(direction).argmax())
        names = [block.name for block in self.blocks if direction[block.start : block.stop].any()]
        head = next(block for block in self.blocks if block.start <= worst < block.stop)
        others = "; it conflicts with " * (len(names) > 1)
        others += " and with ".join(quoted(name) for name in names if name != head.name)
        place = place_of(head, worst - head.start, -1)
        where = "" if place == "over the corpus" else f", {place},"
        demanded = ""
        if np.count_nonzero(direction) == 1:  # what one row can be, whatever the others demand
            reached = self.slope(direction / np.abs(direction[worst]))[1][worst]
            demanded = f" ({demand_of(head, worst, self.bounds[worst], reached, direction[worst] > 0)})"
        inside = ", ".join(map(quoted, self.inside))
        because = f", perhaps because of constraints inside instances or groups ({inside})" if inside else ""
        return InfeasibleConstraintError(
            f"{quoted(head.name)}: {setting('no feasible q')} over the corpus{demanded}{others}; "
            f"the price of row {worst}{where} grows without end{because}; relax the bound or give the constraint slack "
            "(a penalty or a bound)"
        )


def solve_corpus_dual(
    evaluate: Evaluate,
    rows: CorpusRows,
    gamma: float = 1.0,
    *,
    support: Evaluate | None = None,
    curvature: Callable[[Floats], Floats] | None = None,
    solver: Solver | None = None,
    start: ArrayLike | None = None,
    tol: float = 1e-8,
) -> CorpusSolution:
    """Multipliers of rows of corpus scope; the shards are seen only through ``evaluate``.

    Instance rows inside the shards are solved by a nested `project_batch` with scores
    ``shift_scores(s, U_c^T, lambda)``: its ``dual_value`` is the shard's value and ``U_c mu`` its expectation (the
    envelope theorem), so the corpus dual keeps its form. Solve the nested problems more sharply than this one (a tenth
    of ``tol``).

    Use when corpus rows span more than one shard; on a single batch `project_batch` does the same by itself.

    Parameters
    ----------
    evaluate : callable
        From multipliers of shape (n_rows,) to the sum over instances of ``smax_gamma(s - U^T lambda)`` in nats and the
        expectations ``U mu`` of shape (n_rows,); or to both with a row per shard.
    rows : CorpusRows
    gamma : float, > 0
        At gamma = 0 the solution is a mixture: `solve_corpus_program`.
    support : callable or None
        From a direction d to ``sum_i max over structures of -d . U h`` and ``U h`` of those structures, shaped as those
        of ``evaluate``; lets an infeasible constraint be proven.
    curvature : callable or None
        From the multipliers that ``evaluate`` saw last to the second derivatives of its value, shape (n_rows, n_rows),
        or NaN. Few rows are then solved in fewer evaluations, which pays where these solve rows inside shards.
    solver, start, tol
        As in `project_batch`.

    Returns
    -------
    CorpusSolution

    Raises
    ------
    InfeasibleConstraintError
        If ``support`` proves that no distribution meets the rows.

    Examples
    --------
    Two coins, together to show heads 0.5 times:

    >>> import numpy as np
    >>> from spectrem.constraints.compilation.rows import Block, CorpusRows
    >>> def evaluate(multipliers):
    ...     odds = np.exp([1.0, 0.0] - multipliers)
    ...     return float(np.log1p(odds).sum()), np.array([(odds / (1 + odds)).sum()])
    >>> block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {})
    >>> result = solve_corpus_dual(evaluate, CorpusRows(np.array([0.5]), (block,)))
    >>> evaluate(result.multipliers)[1].round(6)
    array([0.5])
    """
    if not gamma > 0:
        raise InvalidInputError(f"gamma must be positive; got {gamma:g}; at gamma = 0 call solve_corpus_program")
    dual = CorpusDual(evaluate, rows, gamma, support)
    if solver is None:
        few = dual.terms.is_box and len(dual.bounds) <= MOST_ROWS
        solver = smooth_solver(dual, tol) if curvature is None or not few else QuasiNewton(tol, curvature=curvature)
    solution = dual.solve(solver, start)
    value = dual.evaluate(solution.multipliers, np.ones(1, bool)).value + dual.terms.value(solution.multipliers)
    return CorpusSolution(
        solution.multipliers,
        Status(int(solution.status[0])),
        float(value[0]),
        float(rows.bounds @ solution.multipliers + dual.terms.value(solution.multipliers)[0]),
        float(solution.residual[0]),
        dual.n_evaluations,
        solution.n_iter,
        None if solution.length is None else float(solution.length[0]),
    )


_ROUNDS, _MOST_CUTS = 3, 2_000
_USED = 1e-9  # violations relative to the size of a row that pass for none
_HOLDS, _CLASHES = 1e-9, -1e-9  # relative to the size of the rows
_FIRST_STEPS = 15  # of quasi-Newton
_NEAR = 1e-3  # residual at which they end
_MOST_PIECES = 64
_MOST_ENTRIES = 6_400  # of the columns of one point
_NO_BOX = 1e9
_HELD = 1e-7  # violations, relative to the size of a row, that pass for none


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


def check_corpus_rows(
    support: Evaluate,
    rows: CorpusRows,
    direction: ArrayLike,
    *,
    expectations: ArrayLike | None = None,
    looks: int = 20,
) -> bool:
    """Whether rows over a corpus can hold: True if proven, False if it stays open; an error if they cannot.

    A linear program over the distributions known tells the prices at which they all break the rows; the corpus tells
    whether any other does not. Parameters do not matter but for what they make impossible, so that one proof is enough
    for a fit.

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
        Multipliers so far; the search for a conflict begins there.
    expectations : array-like of shape (n_rows,) or (n_known, n_rows), or None
        ``U mu`` of distributions that are known already.
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
    dual, trial = CorpusDual(support, rows, support=support), np.asarray(direction, np.float64)
    terms = dual.terms
    if terms.penalised.all():
        return True
    master = Master(dual.bounds, terms, dual.size, np.where(terms.penalised, 0.0, 1.0 / dual.size), 1)
    known = np.zeros((0, len(trial))) if expectations is None else np.atleast_2d(expectations)
    for k in range(len(known)):
        master.add(k, np.zeros(1), known[k : k + 1])
    trial = terms.recession(trial)
    if not trial.any() and not len(known):
        trial = terms.recession(terms.project(np.ones(len(trial))))
    for _ in range(looks):
        if trial.any():
            slope, reached = dual.slope(trial)
            if slope < _CLASHES * float(dual.size @ np.abs(trial)):
                raise dual.conflict(trial)
            master.add(len(master.scores), np.zeros(1), reached[None])
        answer = master.solve(np.zeros(len(trial)), 1.0, Deadline(None))
        if answer is None:
            return False
        if answer.value >= -_HOLDS and not answer.rough:
            return True
        trial = terms.recession(answer.prices)
    return False


@dataclass(frozen=True)
class CorpusMixture:
    """Best structures at several prices of the rows over a corpus: what solves the E-step at gamma <= 0.

    At gamma = 0 they are mixed: a statistic that is linear in marginals is the sum over points k and shards s of
    ``weights[k, s]`` times that of the best structures of shard s at ``points[k]``. At gamma = -inf every instance
    takes its best structure at one of the points.

    Attributes
    ----------
    points : ndarray of shape (n_points, n_rows)
        Multipliers, nats per unit of each row.
    weights : ndarray of shape (n_points, n_shards) or (n_points, 1), or None
        In [0, 1]; those of every shard, or of all together, sum to 1. At most ``n_rows`` of a solved program lie
        between 0 and 1 beyond one per shard. None at gamma = -inf.
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
    choices : tuple of (instances, points), one per shard
        At gamma = -inf: instances of the shard that take another structure than the best at ``points[0]``, increasing,
        and the number of the point at which theirs is the best.
    """

    points: Floats
    weights: Floats | None
    multipliers: Floats
    value: float
    bound: float
    gap: float
    status: Status
    violation: float
    expectation: Floats
    n_evaluations: int
    choices: tuple[tuple[Ints, Ints], ...] = ()


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
        self.evaluate, self.support, self.rows = evaluate, support, rows
        self.max_iter, self.deadline = max_iter, deadline
        self.dual = CorpusDual(evaluate, rows, support=support)
        self.lever = self.dual.size * self.dual.scale
        self.points: list[Floats] = []
        self.bounds: list[float] = []
        self.expectations: list[Floats] = []

    def look(self, point: Floats) -> tuple[Floats, Floats]:
        """Values and expectations of the shards at a point, which give a bound and a column for each piece."""
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
        self.expectations.append(expectations.sum(axis=0))
        return values, expectations

    def run(self, tol: float, start: ArrayLike | None) -> CorpusMixture:
        # From afar the dual of a large corpus is all but smooth.
        near = CorpusDual(self.look, self.rows, support=self.support)
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
                feasible = self.check()
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
            self.check()
        answer = self.master.solve(points[best], _NO_BOX, Deadline(None)) or answer
        if answer is None:
            answer = MasterSolution((self.master.point == best) * 1.0, points[best], np.nan, held=True, rough=True)
        return self.finish(answer, best, tol)

    def check(self) -> bool:
        """Whether the rows can hold, by what was seen so far and some more looks; raises if not."""
        if self.support is None:
            return False
        return check_corpus_rows(
            self.support, self.rows, self.points[int(np.argmin(self.bounds))], expectations=self.expectations
        )

    def finish(self, answer: MasterSolution, best: int, tol: float) -> CorpusMixture:
        points, master, terms = self.points, self.master, self.dual.terms
        shares = np.zeros((len(points), master.n_pieces))
        shares[master.point, master.piece] = answer.weights
        expectation = answer.weights @ master.expectations
        excess = expectation - self.dual.bounds
        value = float(answer.weights @ master.scores - terms.cost(excess)[0])
        bound = self.bounds[best]
        gap = (bound - value) / max(1.0, abs(bound))
        met = terms.worst_violation(excess, self.dual.size)[0] <= _HELD
        whole = bool((shares.max(axis=0) == 1.0).all())
        used = np.flatnonzero(shares.any(axis=1))
        status = Status.MAX_ITERATIONS
        if met and abs(gap) <= max(2.0 * tol, 1e-9):
            status = Status.CERTIFIED if whole else Status.SOLVED
        return CorpusMixture(
            np.array([points[k] for k in used]),
            shares[used][:, self.piece],
            points[best],
            value,
            bound,
            gap,
            status,
            float(terms.worst_violation(excess)[0]),
            expectation,
            len(points),
        )
