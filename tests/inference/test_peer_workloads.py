"""Projections of tables of probabilities at scale, with optima found beforehand by other solvers."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.inference import Status, project_batch
from spectrem.structures import Categorical, Parts


def posteriors(rng, n, k):
    p = np.maximum(rng.dirichlet(np.full(k, 0.3), size=n), 1e-8)
    return p / p.sum(axis=1, keepdims=True)


def corpus_counts(n=10_000, k=20):
    """Every label's count is held to 0.8 (even labels) or 1.3 (odd ones) times what the model expects."""
    p = posteriors(np.random.default_rng(4), n, k)
    matrix = sp.csr_array((np.ones(n * k), (np.tile(np.arange(k), n), np.arange(n * k))), shape=(k, n * k))
    bounds = np.where(np.arange(k) % 2 == 0, 0.8, 1.3) * p.sum(axis=0)
    block = Block("counts", 0, k, False, "corpus", None, np.zeros(k, np.int64), {})
    return p, Rows(matrix, bounds, np.full(k, -1), (block,))


def rows_per_instance(n=10_000, k=20, m=3):
    """Three random sets of labels per instance, each held to 0.7 times its probability."""
    rng = np.random.default_rng(5)
    p = posteriors(rng, n, k)
    sets = (rng.random((n, m, k)) < 0.25).astype(float)
    sets[:, :, -1] = 0
    sets[np.arange(n)[:, None], np.arange(m)[None], rng.integers(0, k - 1, (n, m))] = 1
    bounds = 0.7 * np.einsum("nmk,nk->nm", sets, p).ravel()
    i, j, y = np.nonzero(sets)
    matrix = sp.csr_array((np.ones(len(i)), (i * m + j, i * k + y)), shape=(n * m, n * k))
    instance = np.repeat(np.arange(n), m)
    return p, Rows(matrix, bounds, instance, (Block("sets", 0, n * m, False, "instance", None, instance, {}),))


@pytest.mark.parametrize(("case", "kl"), [(corpus_counts, 236.832959), (rows_per_instance, 895.161564)])
def test_known_optima_are_reached(case, kl):
    p, rows = case()
    result = project_batch(Categorical(np.full(len(p), p.shape[1])), Parts(np.log(p).ravel()), rows)
    assert result.status == Status.SOLVED
    assert result.kl == pytest.approx(kl, abs=2e-6)
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-5)
    assert (rows.matrix @ result.marginals.unary <= rows.bounds + 1e-6 * np.maximum(1.0, rows.bounds)).all()
    assert result.n_evaluations < 100
