"""Whether rows over a corpus can hold at all, asked of the corpus by its sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.rows import Block
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference.corpus import CorpusDual, Evaluate, tell_divergence
from spectrem.inference.corpus_master import Master
from spectrem.inference.highs import Deadline
from spectrem.inference.slack import SlackTerms, compile_slack

_HOLDS, _CLASHES = 1e-9, -1e-9  # relative to the size of the rows


class Feasibility:
    """Rows whose violation a mixture of structures has to bring to 0, whatever its score.

    Parameters
    ----------
    dual : CorpusDual
        With a ``support``.
    expectations : sequence of ndarray of shape (n_rows,)
        ``U mu`` of distributions that are known already.
    """

    def __init__(self, dual: CorpusDual, expectations: list[NDArray[np.float64]]) -> None:
        self.dual = dual
        lever = np.where(dual.terms.penalised, 0.0, 1.0 / dual.size)
        self.master = Master(dual.bounds, dual.terms, dual.size, lever, 1)
        for k, expectation in enumerate(expectations):
            self.master.add(k, np.zeros(1), expectation[None])

    def decide(self, blocks: tuple[Block, ...], direction: NDArray[np.float64], looks: int = 20) -> bool:
        """True if some distribution meets the rows, False if that stays open.

        A linear program over the distributions known tells the prices at which they all break the rows; the corpus
        tells whether any other does not. That many ``looks`` are taken at it.

        Raises
        ------
        InfeasibleConstraintError
            If no distribution does.
        """
        if self.dual.terms.penalised.all():
            return True
        trial = self.dual.terms.recession(direction)
        if not trial.any() and not len(self.master.scores):
            trial = self.dual.terms.recession(self.dual.terms.project(np.ones(len(direction))))
        for _ in range(looks):
            if trial.any():
                slope, expectation = self.dual.slope(trial)
                if slope < _CLASHES * float(self.dual.size @ np.abs(trial)):
                    raise InfeasibleConstraintError(tell_divergence(self.dual, blocks, trial))
                self.master.add(len(self.master.scores), np.zeros(1), expectation[None])
            answer = self.master.solve(np.zeros(len(trial)), 1.0, Deadline(None))
            if answer is None:
                return False
            if answer.value >= -_HOLDS and not answer.rough:
                return True
            trial = self.dual.terms.recession(answer.prices)
        return False


def check_corpus_rows(
    support: Evaluate,
    bounds: ArrayLike,
    blocks: tuple[Block, ...],
    direction: ArrayLike,
    *,
    expectation: ArrayLike | None = None,
    norms: ArrayLike | None = None,
    terms: SlackTerms | None = None,
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
    bounds : array-like of shape (n_rows,)
    blocks : tuple of Block
        Covering rows 0 ... n_rows - 1.
    direction : array-like of shape (n_rows,)
        Multipliers so far; that of a conflict is looked for from there.
    expectation : array-like of shape (n_rows,) or None
        ``U mu`` at those multipliers.
    norms, terms
        As in `solve_corpus_dual`.
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

    >>> def support(direction):
    ...     return 2 * max(0.0, -direction[0]), np.array([2.0 * (direction[0] < 0)])
    >>> block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {})
    >>> check_corpus_rows(support, [1.5], (block,), [0.3])
    True
    >>> check_corpus_rows(support, [3.0], (block,), [-5.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    spectrem.exceptions.InfeasibleConstraintError: 'heads': no feasible q over the corpus; the price of row 0 grows ...
    """
    limits = np.asarray(bounds, np.float64)
    length = np.sqrt(np.maximum(1.0, np.abs(limits))) if norms is None else np.asarray(norms, np.float64)
    if terms is None:
        terms = compile_slack(blocks, np.zeros(len(limits), np.int64), 1)
    dual = CorpusDual(support, limits, terms, 1.0, length, support)
    known = [] if expectation is None else [np.asarray(expectation, np.float64)]
    return Feasibility(dual, known).decide(blocks, np.asarray(direction, np.float64), looks)
