"""Whether rows over a corpus can hold at all, asked of the corpus by its sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem.constraints.rows import CorpusRows
from spectrem.inference.corpus import CorpusDual, Evaluate
from spectrem.inference.corpus_master import Master
from spectrem.inference.highs import Deadline

_HOLDS, _CLASHES = 1e-9, -1e-9  # relative to the size of the rows


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

    >>> from spectrem.constraints.rows import Block
    >>> def support(direction):
    ...     return 2 * max(0.0, -direction[0]), np.array([2.0 * (direction[0] < 0)])
    >>> block = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {})
    >>> check_corpus_rows(support, CorpusRows(np.array([1.5]), (block,)), [0.3])
    True
    >>> check_corpus_rows(support, CorpusRows(np.array([3.0]), (block,)), [-5.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    spectrem.exceptions.InfeasibleConstraintError: 'heads': no feasible q over the corpus; the price of row 0 grows ...
    """
    dual = CorpusDual(support, rows, support=support)
    known = [] if expectation is None else [np.asarray(expectation, np.float64)]
    return can_hold(dual, known, np.asarray(direction, np.float64), looks)
