"""Check projections onto constraints against all structures of a small batch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from brute_project import ListedStructures, list_structures
from numpy.typing import ArrayLike

from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.text import Constraints
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError
from spectrem.inference.assignment import assign
from spectrem.inference.batch import project_batch
from spectrem.inference.result import Projection, Status
from spectrem.inference.solvers.smooth import Solver
from spectrem.structures import Parts, Structure
from spectrem.structures.structure import has_one_label
from spectrem.testing.check import Enumerator, enumerate_structures, random_scores

GAMMAS = (-np.inf, 0.0, 0.2, 1.0, 3.0)
# Relative to the size of a row, and to the larger of gamma and the range of the scores.
_TOLERANCE = 1e-6


def check_projection(
    constraints: Constraints,
    structure: Structure,
    scores: Parts | None = None,
    extra_columns: Mapping[str, ArrayLike] | None = None,
    *,
    gammas: Sequence[float] = GAMMAS,
    solver: Solver | None = None,
    enumerator: Enumerator = enumerate_structures,
    seed: int = 0,
) -> dict[float, Projection | None]:
    """Project onto constraints at several gammas and compare with brute force over all structures.

    At gamma > 0, the distribution over structures that belongs to the multipliers must have the marginals and the
    values handed back, meet the rows, and be as good as the dual, which proves that no other is better. At gamma = 0
    the marginals must be those of a mixture as good as the best one that a linear program finds; at gamma = -inf, of
    structures as good as the best that trying all of them finds, and so must the labels of `decide` be where the
    structure is a table. Constraints must be refused where they cannot be met, and only there.

    Parameters
    ----------
    constraints : constraint or iterable of constraints
    structure : Structure
        A few small instances.
    scores : Parts, optional
        In nats. Default: random scores.
    extra_columns : mapping of name -> array, optional
    gammas : sequence of float
        -inf is left out for a slack with an l2 norm, of which no integer program can be made.
    solver : Solver, optional
        For gammas >= 0. Default: chosen for the problem, as by `spectrem.inference.project_batch`.
    enumerator : callable
        From (structure, instance) to every structure, as indicators over the batch.
    seed : int
        Seed of the random scores.

    Returns
    -------
    dict of float to Projection
        By gamma; None where the constraints cannot be met.

    Raises
    ------
    AssertionError
        Naming what differs, at which gamma.
    InvalidInputError
        If there are too many structures to try, or instances without any.

    Examples
    --------
    A constraint over two short sentences that can be met at every gamma:

    >>> from spectrem.constraints import E, part
    >>> from spectrem.structures import Chain
    >>> from check_projection import check_projection
    >>> verb = (E[part("tag") == 1] >= 1).per("sentence").named("one verb per sentence")
    >>> found = check_projection(verb, Chain([2, 3], n_states=3))
    >>> [found[gamma].status.name for gamma in (-float("inf"), 1.0)]
    ['CERTIFIED', 'SOLVED']

    A constraint that no sentence of two tokens can meet is rightly refused:

    >>> check_projection((E[part("tag") == 1] >= 3).per("sentence"), Chain([2], n_states=2), gammas=[1.0])
    {1.0: None}
    """
    if scores is None:
        scores = random_scores(structure, np.random.default_rng(seed))
    rows = compile_constraints(constraints, structure, extra_columns)
    listed = list_structures(structure, scores, rows, enumerator)
    curved = any(block.slack is not None and block.slack.norm == "l2" for block in rows.blocks)
    return {
        gamma: _check(structure, scores, rows, listed, gamma, solver)
        for gamma in gammas
        if not (curved and gamma == -np.inf)
    }


def _check(
    structure: Structure, scores: Parts, rows: Rows, listed: ListedStructures, gamma: float, solver: Solver | None
) -> Projection | None:
    at = f"at gamma = {gamma:g}"
    with warnings.catch_warnings():
        # The status, which is checked below, says which problems did not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            result: Projection | None = project_batch(
                structure, scores, rows, gamma, solver=None if gamma == -np.inf else solver
            )
        except InfeasibleConstraintError as error:
            result, reason = None, str(error)
    if result is None:
        if gamma == -np.inf:
            assert listed.best_choice() is None, f"{at}, structures that meet the rows were refused: {reason}"
        else:
            assert not listed.missing() <= 1e-10, f"{at}, distributions that meet the rows were refused: {reason}"
        return None
    assert result.status <= Status.SOLVED, f"{at}, {result.status.message} (residual {result.residual:.2g})"
    if gamma > 0:
        _check_smooth(listed, result, gamma, at)
        return result
    best = listed.best_choice() if gamma == -np.inf else listed.best_mixture()
    assert best is not None, f"{at}, the rows cannot be met, and the status is {result.status.name}"
    cost, worst = listed.judge(rows.matrix @ result.marginals.unary - rows.bounds)
    assert worst <= _TOLERANCE, f"{at}, rows are violated by {worst:.2g} of their size"
    score = scores.dot(result.marginals) - cost
    _check_value("the score of the marginals", score, best, listed, 0.0, at)
    _check_value("the primal value", result.primal_value, best, listed, 0.0, at)
    _check_value("the dual value", result.dual_value, best, listed, 0.0, at)
    if gamma == -np.inf:
        whole = np.abs(result.marginals.unary - np.rint(result.marginals.unary)).max(initial=0.0)
        assert whole <= _TOLERANCE, f"{at}, a marginal is {whole:.2g} off a whole number"
        if has_one_label(structure):
            labels = assign(structure, scores.unary, rows)
            _check_value("the score of the labels decided on", labels.score, best, listed, 0.0, at)
    return result


def _check_smooth(listed: ListedStructures, result: Projection, gamma: float, at: str) -> None:
    outside = listed.outside(result.multipliers) / max(gamma, 1.0)
    assert outside <= _TOLERANCE, f"{at}, a multiplier leaves the set that its sense and slack allow by {outside:.2g}"
    q, dual, primal = listed.tilted(gamma, result.multipliers)
    apart = np.abs(q @ listed.unary - result.marginals.unary).max(initial=0.0)
    assert apart <= _TOLERANCE, f"{at}, marginals are {apart:.2g} off those of the multipliers"
    _, worst = listed.judge(listed.left @ q - listed.rows.bounds)
    if worst > _TOLERANCE:
        missing = listed.missing()
        reason = "" if missing <= 1e-10 else f", and cannot be met (by {missing:.2g})"
        raise AssertionError(f"{at}, rows are violated by {worst:.2g} of their size{reason}")
    _check_value("the dual value of the multipliers", dual, primal, listed, gamma, at)
    _check_value("the dual value", result.dual_value, dual, listed, gamma, at)
    _check_value("the primal value", result.primal_value, primal, listed, gamma, at)


def _check_value(name: str, value: float, expected: float, listed: ListedStructures, gamma: float, at: str) -> None:
    unit = max(gamma, listed.spread) + 1e-6 * abs(listed.shift)
    if abs(value - expected) > _TOLERANCE * max(unit, 1e-300):
        raise AssertionError(f"{at}, {name} is {value:.12g}, and by brute force {expected:.12g}")
