"""How the dual over a corpus curves, where rows inside instances are solved for within each of its evaluations."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats
from spectrem.constraints.compilation.rows import Rows
from spectrem.inference.choices import choice_offsets
from spectrem.inference.oracle import per_copy, split_problems
from spectrem.inference.slack import compile_slack
from spectrem.inference.solvers.newton import choices_of, problems_of
from spectrem.kernels.duals.newton import Instances, curve_minima
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


def curvature_of_batch(
    structure: Structure,
    scores: Parts,
    rows: Rows,
    multipliers: Floats,
    gamma: float,
    weights: Floats,
    across: sp.csr_array,
) -> Floats:
    """The second derivatives of a batch's dual value in the prices of rows over the corpus.

    Where the own rows are off their bounds their multipliers follow the prices (the implicit function theorem), so that
    this is the covariance of the rows over the corpus, over gamma, less the part that the own rows take up.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats, less the prices of the rows over the corpus.
    rows : Rows
        The batch's own.
    multipliers : ndarray of shape (n_own_rows,)
        That solve for ``scores``.
    gamma : float, > 0
    weights : ndarray of shape (n_instances,)
    across : csr_array of shape (n_unary, n_rows)
        Coefficients of the rows over the corpus.

    Returns
    -------
    ndarray of shape (n_rows, n_rows)
        NaN where it is not known: labels are not independent choices, slack ties own rows together, or very many own
        rows of an instance are off their bounds.
    """
    n_shared = across.shape[1]
    unknown = np.full((n_shared, n_shared), np.nan)
    if choice_offsets(structure) is None:
        return unknown
    rows = per_copy(structure, rows.whole, weights)
    instance_problem, row_problem, n = split_problems(structure, rows)
    terms = compile_slack(rows.blocks, row_problem, n)
    if not terms.is_box:
        return unknown
    starts, own = choices_of(structure)
    # What no row of the batch touches is a problem without rows.
    choice_problem = np.where(instance_problem < 0, n, instance_problem)[own]
    problems, place = problems_of(row_problem, choice_problem, n + 1)
    both = sp.csr_array(sp.hstack([rows.transpose, across], format="csr"))
    instances = Instances(
        starts, starts[:-1], 1, scores.unary, both.indptr, both.indices, both.data,
        np.concatenate([place + n_shared, np.arange(n_shared)]),
        np.ascontiguousarray(weights[own], np.float64), float(gamma),
    )  # fmt: skip
    lower = np.zeros((n_shared, n_shared))
    if not curve_minima(problems, instances, terms.lower, terms.upper, n_shared, multipliers, lower):
        return unknown
    return lower + np.tril(lower, -1).T
