"""How projections change with the scores that are projected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spectrem._arrays import Floats
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.rows import Rows
from spectrem.inference.dual import compile_slack, shift_scores
from spectrem.inference.result import Projection
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Differentiable

# Added to the diagonal of a system of unit diagonal, and how often the residual is solved for again: rows that repeat
# each other leave a solution that is not unique.
_RIDGE, _REFINED = 1e-9, 3
# Variance, relative to the square of the largest coefficient, from which on rounding is most of it.
_STILL = 1e-13


def pull_back(
    structure: Differentiable,
    scores: Parts,
    rows: Rows,
    projection: Projection,
    gamma: float,
    of_marginals: Parts,
    of_multipliers: Floats,
) -> Parts:
    """The gradient in the scores of a function of the marginals and multipliers of their projection.

    By the implicit function theorem at the minimum of the dual: with the covariances K of parts under the projected
    distribution, over gamma, and the rows A off their bounds, marginals move by ``K ds - K A^T dx``, where
    ``(A K A^T + C) dx = A K ds``, with the curvature C of slack. Where rows are about to leave their bounds, this is
    the derivative of one side.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats.
    rows : Rows
    projection : Projection
        Of the scores onto the rows, without weights and at a gamma above 0.
    gamma : float, > 0
    of_marginals : Parts
        The gradient of the function in the marginals.
    of_multipliers : ndarray of shape (n_rows,)
        Its gradient in the multipliers.

    Returns
    -------
    Parts

    Examples
    --------
    A label whose probability is fixed does not change with its score:

    >>> from spectrem import E, part
    >>> from spectrem.constraints import compile_constraints
    >>> from spectrem.inference import project_batch
    >>> from spectrem.structures import Categorical
    >>> structure, scores = Categorical([3]), Parts(np.log([0.6, 0.3, 0.1]))
    >>> rows = compile_constraints(E[part("label") == 0] <= 0.2, structure)
    >>> first, none = Parts(np.array([1.0, 0.0, 0.0])), np.zeros(1)
    >>> projection = project_batch(structure, scores, rows)
    >>> pull_back(structure, scores, rows, projection, 1.0, first, none).unary.round(6) + 0.0
    array([0., 0., 0.])
    """
    excess = rows.matrix @ projection.marginals.unary - rows.bounds
    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    directions, curvature = terms.freedom(projection.multipliers, excess)
    prices = sp.csr_array(rows.transpose @ directions)  # of every part, a column per free direction
    shifted = shift_scores(scores, rows.transpose, projection.multipliers)
    shifted = shifted.map(lambda numbers: numbers / gamma)

    def covary(along: Parts) -> Parts:
        return structure.covariances(shifted, along)[1].map(lambda numbers: numbers / gamma)

    if prices.shape[1] == 0:
        return covary(of_marginals)
    slope = prices.T @ covary(of_marginals).unary - directions.T @ of_multipliers
    system = _moved(structure, prices, covary) + directions.T @ curvature @ directions
    least = _STILL * (prices * prices).max(axis=0).toarray() / gamma
    move = prices @ _solve(sp.csc_array(system), slope, least)
    return covary(Parts(of_marginals.unary - move, of_marginals.factors))


def _moved(structure: Differentiable, prices: sp.csr_array, covary: Callable[[Parts], Parts]) -> sp.csr_array:
    """``prices^T K prices``; directions that have no instance in common share a pass over the batch."""
    n_unary, n_free = prices.shape
    instance, parts = structure.instance, np.flatnonzero(np.diff(prices.indptr))
    columns = sp.csc_array(prices)
    touched = [np.unique(instance[parts_of]) for parts_of in np.split(columns.indices, columns.indptr[1:-1])]
    turns, taken = np.zeros(n_free, np.int64), np.zeros(structure.n_instances, np.int64)
    for direction, instances in enumerate(touched):
        turns[direction] = taken[instances].max(initial=0)
        taken[instances] = turns[direction] + 1
    kept, owners, products = [], [], []
    factors = tuple(np.zeros(shape) for shape in structure.factor_shapes)
    for turn in range(int(turns.max()) + 1):
        owner = np.full(structure.n_instances, -1)
        for direction in np.flatnonzero(turns == turn).tolist():
            owner[touched[direction]] = direction
        moved = covary(Parts(prices @ (turns == turn).astype(np.float64), factors)).unary
        kept.append(parts[owner[instance[parts]] >= 0])
        owners.append(owner[instance[kept[-1]]])
        products.append(moved[kept[-1]])
    entries = np.concatenate(products), (np.concatenate(kept), np.concatenate(owners))
    return sp.csr_array(prices.T @ sp.csr_array(entries, shape=(n_unary, n_free)))


def _solve(system: sp.csc_array, right: Floats, least: Floats) -> Floats:
    """A solution of a positive semidefinite system that has one; unknowns of a diagonal below ``least`` stay near 0."""
    from scipy.sparse.linalg import splu

    unit = 1.0 / np.sqrt(np.where(least > 0, np.maximum(system.diagonal(), least), 1.0))
    scaled = sp.csc_array(system * unit[:, None] * unit[None, :])
    factors = splu(sp.csc_array(scaled + _RIDGE * sp.eye_array(len(unit))))
    solution, right = np.zeros(len(unit)), unit * right
    for _ in range(1 + _REFINED):
        solution += factors.solve(right - scaled @ solution)
    return unit * solution
