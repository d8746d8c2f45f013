"""The structures that instances of one shard take at several prices, where these differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats, Ints
from spectrem.constraints.rows import Rows
from spectrem.inference.oracle import shift_scores
from spectrem.inference.project import project
from spectrem.inference.segments import sum_by
from spectrem.inference.slack import compile_slack
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


@dataclass(frozen=True)
class ShardVariants:
    """What a shard contributes to a choice of whole structures.

    Attributes
    ----------
    score : float
        Of the instances that rows see no difference in, at the first point, nats.
    expectation : ndarray of shape (n_rows,)
        ``U h`` of those.
    instance : ndarray of shape (n_variants,), int64
        Increasing; every instance of the others has several variants.
    point : ndarray of shape (n_variants,), int64
        The first point at which the instance takes the variant.
    scores : ndarray of shape (n_variants,)
        Times the instance's weight, less what rows inside it cost, nats.
    expectations : csr_array of shape (n_variants, n_rows)
        Times the instance's weight.
    """

    score: float
    expectation: Floats
    instance: Ints
    point: Ints
    scores: Floats
    expectations: sp.csr_array


def find_variants(
    structure: Structure,
    scores: Parts,
    matrix: sp.csr_array,
    points: Floats,
    *,
    weights: Floats | None = None,
    inside: Rows | None = None,
) -> ShardVariants:
    """The best structures at several points, without those that differ in nothing that rows of corpus scope see.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats.
    matrix : csr_array of shape (n_rows, n_unary)
        U of the rows of corpus scope.
    points : ndarray of shape (n_points, n_rows)
        Multipliers.
    weights : ndarray of shape (n_instances,) or None
    inside : Rows or None
        Rows inside instances, which the structures meet.

    Examples
    --------
    >>> from spectrem.structures import Categorical
    >>> found = find_variants(Categorical([2, 2]), Parts(np.array([1.0, 0.0, 5.0, 0.0])),
    ...                       sp.csr_array([[1.0, 0.0, 1.0, 0.0]]), np.array([[0.0], [2.0]]))
    >>> found.instance, found.point, found.scores, found.expectations.toarray().ravel(), found.score
    (array([0, 0]), array([0, 1]), array([1., 0.]), array([1., 0.]), 5.0)
    """
    n, n_rows = structure.n_instances, len(matrix.indptr) - 1
    weight = np.ones(n) if weights is None else weights
    transpose = sp.csr_array(matrix.T)
    entry_row = np.repeat(np.arange(n_rows), np.diff(matrix.indptr))
    owner = structure.instance[matrix.indices]
    # One number tells rows of expectations apart; structures that are best at some prices and equal there score alike.
    key = np.random.default_rng(0).normal(size=n_rows)
    mark, score = np.zeros((len(points), n)), np.zeros((len(points), n))
    expectations = []
    for k, point in enumerate(points):
        unary, values = _best(structure, shift_scores(scores, transpose, point), weights, inside)
        score[k] = weight * (values + sum_by(structure.instance, (transpose @ point) * unary, n))
        data = matrix.data * unary[matrix.indices] * weight[owner]
        taken = data != 0
        own = sp.csr_array((data[taken], (owner[taken], entry_row[taken])), shape=(n, n_rows))
        mark[k] = own @ key
        expectations.append(own)
    instance = np.tile(np.arange(n), len(points))
    order = np.lexsort((mark.ravel(), instance))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(instance[order]) != 0) | (np.diff(mark.ravel()[order]) != 0)
    kept = order[first]
    several = (np.bincount(instance[kept], minlength=n) > 1)[instance[kept]]
    chosen = np.sort(kept[several])
    chosen = chosen[np.argsort(instance[chosen], kind="stable")]
    fixed = np.ones(n, np.bool_)
    fixed[instance[chosen]] = False
    every = sp.csr_array(sp.vstack(expectations, format="csr"))
    return ShardVariants(
        float(score[0][fixed].sum()),
        fixed.astype(np.float64) @ expectations[0],
        instance[chosen],
        chosen // n if n else chosen,
        score.ravel()[chosen],
        sp.csr_array(every[chosen]),
    )


def _best(structure: Structure, scores: Parts, weights: Floats | None, inside: Rows | None) -> tuple[Floats, Floats]:
    """Indicators and scores of the best structures, less what rows inside instances cost."""
    if inside is None or not len(inside.bounds):
        values, marginals = structure.smoothed_max(scores, 0.0)
        return marginals.unary, values
    found = project(structure, scores, inside, -np.inf, weights=weights)
    terms = compile_slack(inside.blocks, inside.row_instance, structure.n_instances)
    return found.marginals.unary, found.values - terms.cost(inside.matrix @ found.marginals.unary - inside.bounds)
