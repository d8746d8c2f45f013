"""A mixture under constraints: all rows of data are one shard, so that those not tied together are solved apart.

Rows of data are cheap to hold at once, unlike sentences, and constraints on pairs and groups of them tie few together:
`project_batch` then solves each such set with a step size of its own. Densities and moments still go block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.constraints import check_values
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.constraint import AnyConstraint
from spectrem.constraints.links import RowLinks, resolve_links
from spectrem.constraints.text import flatten
from spectrem.corpus import Corpus, Local
from spectrem.estimators.mixture.chunks import Chunks, compile_chunks, make_chunks
from spectrem.estimators.mixture.sizes import check_sizes
from spectrem.exceptions import InvalidInputError
from spectrem.inference.assignment import assign
from spectrem.models.estep import Statistics
from spectrem.models.mixture import MixtureModel, MixtureParameters, MixtureShard
from spectrem.structures import Categorical, Parts

# Tolerances of constraints, relative to the size of a row: while parameters still move, and at the end.
ROUGH, FINE = 1e-4, 1e-6
TIME_LIMIT = 60.0
"""Seconds for integer programs; most take far less, and none is run where constraints only count labels."""


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """All rows of the data, those that must-links tie together as one, and the constraints on them.

    Attributes
    ----------
    blocks : Corpus
        A corpus of `MixtureShard`.
    constraints : tuple of constraints
        Links with names resolved.
    chunks : Chunks
    structure : Categorical
        An instance per chunk, a label per component.
    rows : Rows
        The rows of all constraints but must-links, over ``structure``.
    columns : mapping of name -> ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,)
    """

    blocks: Corpus
    constraints: tuple[AnyConstraint, ...]
    chunks: Chunks
    structure: Categorical
    rows: Rows
    columns: dict[str, NDArray]
    weights: Floats

    @cached_property
    def must_links(self) -> tuple[RowLinks, ...]:
        """Constraints that chunks meet."""
        return tuple(c for c in self.constraints if isinstance(c, RowLinks) and c.together)


def make_table(
    model: MixtureModel, constraints: Any, shards: Sequence[MixtureShard], k: int, n_threads: int | None
) -> ChunkTable:
    """Compile the constraints for k components, and say which rows of data are one.

    Raises
    ------
    InvalidInputError
        If links contradict each other, or a constraint names a column, row or label that there is not.
    InfeasibleConstraintError
        If sizes of clusters cannot hold together.
    """
    listed = tuple(flatten(constraints))
    check_values(listed, "label", range(k))
    weights = np.concatenate([shard.weights for shard in shards])
    own = [model.columns(shard) for shard in shards]
    columns = {name: np.concatenate([block[name] for block in own]) for name in own[0]}
    resolved = tuple(resolve_links(listed, columns, len(weights)))
    chunks = make_chunks([constraint for constraint in resolved if isinstance(constraint, RowLinks)], weights)
    structure, rows = compile_chunks(resolved, chunks, k, columns, weights)
    check_sizes(rows, chunks.weights, k)
    return ChunkTable(Local(shards, n_threads), resolved, chunks, structure, rows, columns, weights)


@dataclass(frozen=True)
class ChunkModel:
    """A mixture whose only shard is a `ChunkTable`.

    Parameters
    ----------
    model : MixtureModel
    """

    model: MixtureModel

    def structure(self, table: ChunkTable) -> Categorical:
        """A label for every chunk."""
        return table.structure

    def scores(self, params: MixtureParameters, table: ChunkTable) -> Parts:
        """Mean log joint densities of the rows of each chunk, nats."""
        joint = np.concatenate(list(table.blocks.collect(_scores, self.model, params)))
        means = table.chunks.mean @ joint.reshape(-1, len(params.weights))
        nowhere = np.isneginf(means).all(axis=1)
        if nowhere.any():
            tied = np.flatnonzero(table.chunks.chunk == int(np.argmax(nowhere))).tolist()
            raise InvalidInputError(
                f"must_link must not tie rows of different known components, got the rows {tied}; drop a link or a "
                "label"
            )
        return Parts(means.ravel())

    def weights(self, table: ChunkTable) -> Floats:
        """The weight of every chunk, shape (n_chunks,)."""
        return table.chunks.weights

    def gather(self, params: MixtureParameters, table: ChunkTable, marginals: Parts) -> Statistics:
        """Moments of all rows, each with the posterior of its chunk."""
        posteriors = rows_of(table, marginals)
        stats: Statistics = table.blocks.sum(_gather, self.model, params, posteriors)
        return stats

    def m_step(self, params: MixtureParameters, stats: Statistics, corpus: Corpus) -> MixtureParameters:
        """The M-step of the mixture."""
        return self.model.m_step(params, stats, corpus)


def rows_of(table: ChunkTable, marginals: Parts) -> Floats:
    """Posteriors of the rows of data, shape (n_rows, n_components), from those of their chunks."""
    return marginals.unary.reshape(len(table.chunks.weights), -1)[table.chunks.chunk]


def feasible_labels(model: ChunkModel, params: MixtureParameters, table: ChunkTable, skipped: Ints) -> Ints:
    """The labels that maximise the sum of weighted log joint densities under the constraints, shape (n_rows,).

    Rows that must-links tie together have one label; rows of weight w count w times in constraints across rows, but
    links hold whatever rows weigh.

    Parameters
    ----------
    model : ChunkModel
    params : MixtureParameters
    table : ChunkTable
    skipped : ndarray of int
        Rows of the constraints that are left out.

    Raises
    ------
    InfeasibleConstraintError
        If no labels meet the constraints.
    """
    kept = np.ones(len(table.rows.bounds), np.bool_)
    kept[skipped] = False
    found = assign(
        table.structure, model.scores(params, table).unary,
        table.rows if kept.all() else table.rows.pick(kept),
        weights=table.chunks.weights, time_limit=TIME_LIMIT,
    )  # fmt: skip
    return found.labels[table.chunks.chunk]


def _scores(shard: MixtureShard, model: MixtureModel, params: MixtureParameters) -> Floats:
    return model.scores(params, shard).unary


def _gather(shard: MixtureShard, model: MixtureModel, params: MixtureParameters, posteriors: Floats) -> Statistics:
    return model.gather(params, shard, Parts(posteriors[shard.instances].ravel()))
