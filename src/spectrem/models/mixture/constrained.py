"""A mixture under constraints: all rows of data are one shard, and those that must-links tie together one instance.

Rows of data are cheap to hold at once, unlike sentences, and constraints on pairs and groups of them tie few together:
`project_batch` then solves each such set with a step size of its own. Densities and moments still go block by block.

The posteriors of the rows of a chunk C that must-links tie together are equal, so one of them is enough. It maximises
``sum over i in C of w_i (<s_i, q> + gamma H(q))``, which is W = sum of w_i times that of a single row with the mean
score: the reduction is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints import check_values, compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.links import RowLinks, resolve_links
from spectrem.constraints.text import flatten
from spectrem.corpus import Corpus
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, setting
from spectrem.inference.assignment import assign
from spectrem.models.estep import Statistics
from spectrem.models.mixture.model import MixtureModel, MixtureShard
from spectrem.models.mixture.parameters import MixtureParameters
from spectrem.structures import Categorical, Parts

TIME_LIMIT = 60.0
"""Seconds for integer programs; most take far less, and none is run where constraints only count labels."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Chunks:
    """Rows of data that count as one.

    Attributes
    ----------
    chunk : ndarray of shape (n_rows,), int
        The chunk of every row.
    weights : ndarray of shape (n_chunks,)
        Sums of those of the rows.
    share : ndarray of shape (n_rows,)
        The part of the weight of its chunk that a row has.
    """

    chunk: Ints
    weights: Floats
    share: Floats

    @cached_property
    def mean(self) -> sp.csr_array:
        """Averages over the rows of each chunk, shape (n_chunks, n_rows)."""
        kept = np.flatnonzero(self.share > 0)
        return sp.csr_array((self.share[kept], (self.chunk[kept], kept)), shape=(len(self.weights), len(self.chunk)))

    def compress(self, rows: Rows) -> Rows:
        """Rows of constraints over chunks from those over rows of data."""
        n, n_chunks = len(self.chunk), len(self.weights)
        if n_chunks == n:
            return rows
        k = rows.matrix.shape[1] // n
        # What `project_batch` multiplies by the weight of the chunk must come out as the sum over its rows of data, and
        # a penalty inside a row of data is paid as often as that row counts, not as often as its chunk does.
        paid, inside = rows.penalised_inside, rows.row_instance >= 0
        entries = rows.times(rows.counted_by_weight | paid, np.repeat(self.share, k)).matrix.tocoo()
        row, part = entries.coords
        cells = row, self.chunk[part // k] * k + part % k
        return replace(
            rows,
            matrix=sp.csr_array((entries.data, cells), shape=(len(rows.bounds), n_chunks * k)),
            bounds=np.where(paid, self.share[rows.row_instance], 1.0) * rows.bounds,
            row_instance=np.where(inside, self.chunk[rows.row_instance], -1),
        )


def make_chunks(links: Sequence[RowLinks], weights: Floats) -> Chunks:
    """Connected components of must-links.

    Raises
    ------
    InvalidInputError
        If a cannot-link lies inside a chunk, or a link names a row that there is not.
    """
    n = len(weights)
    for link in links:
        link.check(n)
    together, apart = (
        np.concatenate([np.zeros((0, 2), np.int64), *(link.pairs for link in links if link.together == kind)])
        for kind in (True, False)
    )
    graph = sp.coo_array((np.ones(len(together), np.int8), tuple(together.T)), shape=(n, n))
    from scipy.sparse.csgraph import connected_components

    n_chunks, label = connected_components(graph, directed=False)
    chunk = label.astype(np.int64)
    clash = apart[chunk[apart[:, 0]] == chunk[apart[:, 1]]]
    if len(clash):
        raise InvalidInputError(
            f"cannot_link must not contradict must_link, got the pair {tuple(clash[0].tolist())} of rows that "
            "must-links tie together; drop one of these links"
        )
    totals = np.bincount(chunk, weights, n_chunks).astype(np.float64)
    share = np.where(totals[chunk] > 0, weights, 1.0)
    return Chunks(chunk, totals, share / np.bincount(chunk, share, n_chunks)[chunk])


@dataclass(frozen=True, eq=False)
class ConstrainedRows:
    """All rows of the data, and the constraints on them.

    Attributes
    ----------
    blocks : Corpus
        A corpus of `MixtureShard`.
    weights : ndarray of shape (n_rows,)
    must_links : tuple of RowLinks
        Constraints that chunks meet.
    data_rows : Rows
        The rows of all other constraints, over rows of data.
    chunks : Chunks
    rows : Rows
        The same over chunks.
    """

    blocks: Corpus
    weights: Floats
    must_links: tuple[RowLinks, ...]
    data_rows: Rows
    chunks: Chunks
    rows: Rows

    def spread(self, marginals: Parts) -> Floats:
        """Posteriors of the rows of data, shape (n_rows, n_components), from those of their chunks."""
        return marginals.unary.reshape(len(self.chunks.weights), -1)[self.chunks.chunk]


def constrain(
    constraints: Any, k: int, columns: Mapping[str, NDArray], weights: Floats, blocks: Corpus
) -> ConstrainedRows:
    """Compile the constraints for k components, and find the rows of data that count as one.

    Raises
    ------
    InvalidInputError
        If links contradict each other, or a constraint names a column, row or label that there is not.
    InfeasibleConstraintError
        If sizes of clusters cannot hold together.
    """
    n, listed = len(weights), flatten(constraints)
    check_values(listed, "label", range(k))
    resolved = resolve_links(listed, columns, n)
    links = [one for one in resolved if isinstance(one, RowLinks)]
    must_links = tuple(link for link in links if link.together)
    chunks = make_chunks(links, weights)
    others = [one for one in resolved if not (isinstance(one, RowLinks) and one.together)]
    data_rows = compile_constraints(others, Categorical(np.full(n, k), "row"), columns, weights)
    rows = chunks.compress(data_rows)
    check_sizes(rows, chunks.weights, k)
    return ConstrainedRows(blocks, weights, must_links, data_rows, chunks, rows)


def check_sizes(rows: Rows, weights: Floats, k: int) -> None:
    """Check the bounds on the sizes of whole clusters against the number of rows of data, before anything is trained.

    A row counts a whole cluster if it has the same value at one label of every instance. Links count an instance once
    whatever its weight, and rows with slack bind nothing: they say nothing about sizes.

    Parameters
    ----------
    rows : Rows
        Over a categorical structure of ``k`` labels.
    weights : ndarray of shape (n_instances,)
    k : int

    Raises
    ------
    InfeasibleConstraintError
        If the smallest sizes add up to more than all rows weigh, or the largest to less.
    """
    total, counted = float(weights.sum()), int((weights > 0).sum())
    low, high = np.zeros(k), np.full(k, total)
    lowest: dict[int, str] = {}
    highest: dict[int, str] = {}
    binding = rows.where(lambda block: block.slack is None and block.weighted) & (rows.row_instance < 0)
    for row in np.flatnonzero(binding & (np.diff(rows.matrix.indptr) >= counted)).tolist():
        _, parts, values = sp.find(rows.matrix[[row]])
        weighing = weights[parts // k] > 0
        labels, values = parts[weighing] % k, values[weighing]
        if len(values) != counted or (labels != labels[0]).any() or np.ptp(values) > _ROUNDING * abs(values[0]):
            continue
        label, bound = int(labels[0]), float(rows.bounds[row] / values[0])
        block = next(block for block in rows.blocks if row < block.stop)
        if (block.equality or values[0] < 0) and bound > low[label]:
            low[label], lowest[label] = bound, block.name
        if (block.equality or values[0] > 0) and bound < high[label]:
            high[label], highest[label] = bound, block.name
    for wrong, sizes, names, size, change in (
        (low.sum() > total * (1 + _ROUNDING), low, lowest, "smallest", "lower"),
        (high.sum() < total * (1 - _ROUNDING), high, highest, "largest", "raise"),
    ):
        if wrong:
            distinct = list(dict.fromkeys(names.values()))
            listed = ", ".join(map(repr, distinct[:3])) + (", ..." if len(distinct) > 3 else "")
            raise InfeasibleConstraintError(
                f"{listed}: the {size} sizes of the {k} clusters add up to {sizes.sum():g}, but the rows weigh "
                f"{total:g} in all; {change} them, or {setting('n_components')}"
            )


@dataclass(frozen=True)
class ConstrainedMixture:
    """A mixture whose only shard is `ConstrainedRows`.

    Parameters
    ----------
    model : MixtureModel
    """

    model: MixtureModel

    def structure(self, shard: ConstrainedRows) -> Categorical:
        """A label for every chunk."""
        return Categorical(np.full(len(shard.chunks.weights), self.model.n_components))

    def row_scores(self, params: MixtureParameters, shard: ConstrainedRows) -> Parts:
        """Log joint densities of all rows of data, nats."""
        return Parts(np.concatenate(list(shard.blocks.collect(_scores, self.model, params))))

    def scores(self, params: MixtureParameters, shard: ConstrainedRows) -> Parts:
        """Mean log joint densities of the rows of each chunk, nats."""
        means = shard.chunks.mean @ self.row_scores(params, shard).unary.reshape(-1, len(params.weights))
        nowhere = np.isneginf(means).all(axis=1)
        if nowhere.any():
            tied = np.flatnonzero(shard.chunks.chunk == int(np.argmax(nowhere))).tolist()
            raise InvalidInputError(
                f"must_link must not tie rows of different known components, got the rows {tied}; drop a link or a "
                "label"
            )
        return Parts(means.ravel())

    def weights(self, shard: ConstrainedRows) -> Floats:
        """The weight of every chunk, shape (n_chunks,)."""
        return shard.chunks.weights

    def gather(self, params: MixtureParameters, shard: ConstrainedRows, marginals: Parts) -> Statistics:
        """Moments of all rows, each with the posterior of its chunk."""
        stats: Statistics = shard.blocks.sum(_gather, self.model, params, shard.spread(marginals))
        return stats

    def m_step(self, params: MixtureParameters, stats: Statistics, corpus: Corpus) -> MixtureParameters:
        """The M-step of the mixture."""
        return self.model.m_step(params, stats, corpus)

    def feasible_labels(self, params: MixtureParameters, shard: ConstrainedRows, skipped: Ints) -> Ints:
        """The labels that maximise the sum of weighted log joint densities under the constraints, shape (n_rows,).

        Rows that must-links tie together have one label; rows of weight w count w times in constraints across rows, but
        links hold whatever rows weigh. ``skipped`` lists the rows of the constraints that are left out.

        Raises
        ------
        InfeasibleConstraintError
            If no labels meet the constraints.
        """
        rows = shard.rows.pick(~np.isin(np.arange(len(shard.rows.bounds)), skipped)) if len(skipped) else shard.rows
        scores, weights = self.scores(params, shard).unary, shard.chunks.weights
        best = assign(self.structure(shard), scores, rows, weights=weights, time_limit=TIME_LIMIT)
        return best.labels[shard.chunks.chunk]


def _scores(shard: MixtureShard, model: MixtureModel, params: MixtureParameters) -> Floats:
    return model.scores(params, shard).unary


def _gather(shard: MixtureShard, model: MixtureModel, params: MixtureParameters, posteriors: Floats) -> Statistics:
    return model.gather(params, shard, Parts(posteriors[shard.instances].ravel()))
