"""Rows of data that must-links tie together become one: their posteriors are equal, so one of them is enough.

The posterior of a chunk C with weights w maximises ``sum over i in C of w_i (<s_i, q> + gamma H(q))``, which is
W = sum of w_i times that of a single row with the mean score: the reduction is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from spectrem._arrays import Floats, Ints
from spectrem.constraints import compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.constraint import AnyConstraint
from spectrem.constraints.links import RowLinks
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical
from spectrem.tables import TableStructure


@dataclass(frozen=True, eq=False)
class Chunks:
    """Which rows of data count as one.

    Attributes
    ----------
    chunk : ndarray of shape (n_rows,), int
    weights : ndarray of shape (n_chunks,)
        Sums of those of the rows.
    mean : csr_array of shape (n_chunks, n_rows)
        Averages over the rows of each chunk.
    """

    chunk: Ints
    weights: Floats
    mean: sp.csr_array


def make_chunks(links: Sequence[RowLinks], weights: Floats) -> Chunks:
    """Connected components of must-links.

    Raises
    ------
    InvalidInputError
        If a cannot-link lies inside a chunk, or a link names a row that there is not.
    """
    n = len(weights)
    for own in links:
        own.check(n)
    joined = np.concatenate([np.zeros((0, 2), np.int64), *(own.pairs for own in links if own.together)])
    graph = sp.coo_array((np.ones(len(joined), np.int8), (joined[:, 0], joined[:, 1])), shape=(n, n))
    n_chunks, label = connected_components(graph, directed=False)
    chunk = label.astype(np.int64)
    for own in links:
        inside = np.flatnonzero(chunk[own.pairs[:, 0]] == chunk[own.pairs[:, 1]])
        if not own.together and len(inside):
            left, right = own.pairs[inside[0]].tolist()
            raise InvalidInputError(
                f"cannot_link must not contradict must_link, got the pair ({left}, {right}) of rows that must-links "
                "tie together; drop one of these links"
            )
    totals = np.bincount(chunk, weights, n_chunks).astype(np.float64)
    share = np.where(totals[chunk] > 0, weights, 1.0)
    share /= np.bincount(chunk, share, n_chunks)[chunk]
    keep = share > 0
    place = chunk[keep], np.flatnonzero(keep)
    return Chunks(chunk, totals, sp.csr_array((share[keep], place), shape=(n_chunks, n)))


def without_must_links(constraints: Sequence[AnyConstraint]) -> list[AnyConstraint]:
    """The constraints other than must-links, which chunks meet by themselves."""
    return [c for c in constraints if not (isinstance(c, RowLinks) and c.together)]


def compile_chunks(
    constraints: Sequence[AnyConstraint], chunks: Chunks, k: int, columns: Mapping[str, NDArray], weights: Floats
) -> tuple[Categorical, Rows]:
    """Chunks as a structure, and what the constraints other than must-links demand of them."""
    n, n_chunks = len(chunks.chunk), len(chunks.weights)
    own = without_must_links(constraints)
    rows = compile_constraints(own, TableStructure(Categorical(np.full(n, k))), columns, weights)
    if n_chunks == n and (chunks.weights == 1).all() and (chunks.chunk == np.arange(n)).all():
        return Categorical(np.full(n, k)), rows
    data, instance = rows.matrix.data.copy(), rows.matrix.indices // k
    entry_row = np.repeat(np.arange(len(rows.bounds)), np.diff(rows.matrix.indptr))
    # What `project_batch` multiplies by the weight of the chunk must come out as the sum over its rows of data.
    summed = rows.counted_by_weight
    means = chunks.mean.tocoo()
    share = np.bincount(means.coords[1], means.data, n)
    # A penalty inside a row of data is paid as often as that row counts, not as often as its chunk does.
    paid = rows.penalised_inside
    data *= np.where((summed | paid)[entry_row], share[instance], 1.0)
    bounds = np.where(paid, share[rows.row_instance], 1.0) * rows.bounds
    parts = chunks.chunk[instance] * k + rows.matrix.indices % k
    matrix = sp.csr_array((data, (entry_row, parts)), shape=(len(rows.bounds), n_chunks * k))
    row_instance = np.where(rows.row_instance >= 0, chunks.chunk[rows.row_instance], -1)
    return Categorical(np.full(n_chunks, k)), replace(rows, matrix=matrix, bounds=bounds, row_instance=row_instance)
