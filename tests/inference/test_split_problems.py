"""Which instances and rows belong together, against a search of its own."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.inference.dual import split_problems
from spectrem.structures import Categorical


def by_search(n, k, rows):
    """Labels of instances and rows: the least instance (or row) that they are tied to."""
    group = np.arange(n + len(rows.bounds))
    dense = rows.matrix.toarray()
    for _ in range(n + len(rows.bounds)):
        for r in range(len(rows.bounds)):
            tied = [n + r, *np.unique(np.flatnonzero(dense[r]) // k)]
            group[tied] = group[tied].min()
    return group


@pytest.mark.parametrize("seed", range(30))
def test_instances_and_rows_that_are_tied(seed):
    rng = np.random.default_rng(seed)
    n, k, m = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    dense = (rng.random((m, n * k)) < rng.choice([0.1, 0.3, 0.9])).astype(float)
    if seed % 3 == 0:
        dense[0, np.arange(n) * k] = 1.0  # one row over all instances
    block = Block("some", 0, m, False, "corpus", None, np.zeros(m, int), {})
    rows = Rows(sp.csr_array(dense), np.ones(m), np.full(m, -1), (block,))
    instance, row, count = split_problems(Categorical(np.full(n, k)), rows)
    group = by_search(n, k, rows)
    found = np.concatenate([np.where(instance >= 0, instance, -1 - np.arange(n)), row])
    np.testing.assert_array_equal(found[:, None] == found, group[:, None] == group)
    assert set(row) == set(range(count))
    np.testing.assert_array_equal(instance < 0, ~np.isin(group[:n], group[n:]))


def test_a_row_of_many_entries_over_few_instances():
    block = Block("two of them", 0, 1, False, "corpus", None, np.zeros(1, int), {})
    rows = Rows(sp.csr_array([[1.0] * 6 + [0.0] * 3]), np.ones(1), np.full(1, -1), (block,))
    assert split_problems(Categorical([3, 3, 3]), rows)[0].tolist() == [0, 0, -1]


def test_the_transpose_is_made_once():
    rows = Rows(sp.csr_array([[1.0, 2.0]]), np.ones(1), np.full(1, -1), ())
    assert rows.transpose is rows.transpose
    np.testing.assert_array_equal(rows.transpose.toarray(), [[1.0], [2.0]])
