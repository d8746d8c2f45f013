"""The E-step of a mixture under constraints: all rows are one batch, so that those not tied together are solved apart.

Rows of data are cheap to hold at once, unlike sentences, and constraints on pairs and groups of them tie few together:
`project` then solves each such set with a step size of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import check_values
from spectrem.constraints.clusters import Links, resolve_links
from spectrem.constraints.compile import flatten
from spectrem.constraints.rows import Rows
from spectrem.estimators.mixture_chunks import Chunks, compile_chunks, make_chunks
from spectrem.estimators.mixture_sizes import check_sizes
from spectrem.exceptions import InvalidInputError
from spectrem.execution import Executor
from spectrem.inference import Infeasible, Projection, project
from spectrem.learning.corpus import count_skipped
from spectrem.models.estep import EStepResult, EStepTask, Start
from spectrem.models.mixture import MixtureModel, MixtureParameters, MixtureShard, MixtureStats
from spectrem.structures import Categorical, Parts

# Of constraints, relative to the size of a row: while parameters still move, and at the end.
ROUGH, FINE = 1e-4, 1e-6


class ConstrainedEStep:
    """Posteriors of all rows projected onto constraints; multipliers start from those of the iteration before.

    Use when there are constraints.

    Parameters
    ----------
    model : MixtureModel
    constraints : sequence of constraints
    infeasible : {"raise", "skip"}
        What to do about rows that cannot meet a constraint of their own.
    """

    def __init__(self, model: MixtureModel, constraints: Any, infeasible: Infeasible = "raise") -> None:
        self.model, self.infeasible = model, infeasible
        self.constraints = tuple(flatten(constraints))
        self.multipliers: NDArray[np.float64] | None = None
        self.skipped = np.zeros(0, np.int64)
        self._posed: _Posed | None = None

    def pose(self, shards: Sequence[MixtureShard], k: int) -> Chunks:
        """Compile the constraints for k components, and say which rows of data are one.

        Raises
        ------
        InvalidInputError
            If links contradict each other, or a constraint names a column, row or label that there is not.
        InfeasibleConstraintError
            If sizes of clusters cannot hold together.
        """
        if self._posed is None:
            check_values(self.constraints, "label", range(k))
            self._posed = self._pose(shards, k)
            check_sizes(self._posed.rows, self._posed.chunks.weights, k)
        return self._posed.chunks

    def prepare(
        self, params: MixtureParameters, gamma: float, shards: Sequence[MixtureShard], executor: Executor
    ) -> EStepTask[MixtureShard, MixtureStats]:
        """Project the posteriors of all shards; the task of a shard gathers its part."""
        scores = self._scores(params, shards, executor)
        posteriors, projection, objective = self._project(scores, gamma, shards, ROUGH)
        run = partial(self._run, params, gamma, scores, posteriors, projection)
        return EStepTask(run, objective, projection.violation)

    def project(
        self, params: MixtureParameters, gamma: float, shards: Sequence[MixtureShard], executor: Executor, tol: float
    ) -> tuple[NDArray[np.float64], Projection, float]:
        """Posteriors, shape (n_rows, n_components), the projection they come from and its dual value, nats."""
        return self._project(self._scores(params, shards, executor), gamma, shards, tol)

    def _scores(
        self, params: MixtureParameters, shards: Sequence[MixtureShard], executor: Executor
    ) -> NDArray[np.float64]:
        """Log joint densities of all rows, shape (n_rows, n_components), nats."""
        scores = executor.map(lambda shard: self.model.scores(params, shard)[1].unary, shards)
        return np.concatenate(list(scores)).reshape(-1, len(params.weights))

    def _project(
        self, scores: NDArray[np.float64], gamma: float, shards: Sequence[MixtureShard], tol: float
    ) -> tuple[NDArray[np.float64], Projection, float]:
        k = scores.shape[1]
        self.pose(shards, k)
        assert self._posed is not None
        chunks, structure, rows = self._posed
        means = chunks.mean @ scores
        if np.isneginf(means).all(axis=1).any():
            chunk = int(np.argmax(np.isneginf(means).all(axis=1)))
            tied = np.flatnonzero(chunks.chunk == chunk).tolist()
            raise InvalidInputError(
                f"must_link must not tie rows of different known components, got the rows {tied}; drop a link or a "
                "label"
            )
        projection = project(
            structure, Parts(means.ravel()), rows, gamma,
            start=self.multipliers, weights=chunks.weights, tol=tol, infeasible=self.infeasible,
        )  # fmt: skip
        self.multipliers, self.skipped = projection.multipliers, projection.skipped
        posteriors = projection.marginals.unary.reshape(-1, k)[chunks.chunk]
        return posteriors, projection, projection.dual_value

    @property
    def chunks(self) -> Chunks:
        """Which rows are one; known once there was a projection."""
        assert self._posed is not None
        return self._posed.chunks

    @property
    def problem(self) -> tuple[Categorical, Rows]:
        """Chunks as a structure and the rows over them; known once there was a projection."""
        assert self._posed is not None
        return self._posed.structure, self._posed.rows

    def _pose(self, shards: Sequence[MixtureShard], k: int) -> _Posed:
        weights = np.concatenate([shard.weights for shard in shards])
        columns = join_columns(self.model, shards)
        self.constraints = resolve_links(self.constraints, columns, len(weights))
        links = [constraint for constraint in self.constraints if isinstance(constraint, Links)]
        chunks = make_chunks(links, weights)
        return _Posed(chunks, *compile_chunks(self.constraints, chunks, k, columns, weights))

    def _run(
        self,
        params: MixtureParameters,
        gamma: float,
        scores: NDArray[np.float64],
        posteriors: NDArray[np.float64],
        projection: Projection,
        index: int,
        shard: MixtureShard,
        start: Start = None,
    ) -> EStepResult[MixtureStats]:
        own = Categorical(np.full(len(shard.rows), scores.shape[1]))
        free = float(shard.weights @ own.smoothed_max(Parts(scores[shard.rows].ravel()), max(gamma, 0.0))[0])
        stats = self.model.gather(params, shard, Parts(posteriors[shard.rows].ravel()))
        posed = self._posed if index == 0 else None
        skipped = {} if posed is None else count_skipped(posed.rows, projection.skipped)
        return EStepResult(stats, 0.0, free, 0.0, None, skipped)


def join_columns(model: MixtureModel, shards: Sequence[MixtureShard]) -> dict[str, NDArray]:
    """Columns for constraints, over the rows of all shards."""
    columns = [model.columns(shard) for shard in shards]
    return {name: np.concatenate([own[name] for own in columns]) for name in columns[0]}


class _Posed(NamedTuple):
    """What does not change between iterations."""

    chunks: Chunks
    structure: Categorical
    rows: Rows
