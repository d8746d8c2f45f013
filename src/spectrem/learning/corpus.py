"""Posteriors under constraints over the whole corpus: one dual, evaluated as a map over shards and a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.constraints.rows import CorpusRows, Rows
from spectrem.exceptions import InvalidInputError
from spectrem.execution import Executor
from spectrem.inference import Infeasible, project
from spectrem.inference.slack import compile_slack
from spectrem.kernels.sparse import less_prices, scatter_add
from spectrem.structures import Parts, Structure


class PosedShard(NamedTuple):
    """A shard's structures, scores and weights under fixed parameters, and its constraints of instance scope."""

    structure: Structure
    scores: Parts
    weights: NDArray[np.float64]
    inside: Rows | None


class ShardPosterior(NamedTuple):
    """Posteriors of a shard at some prices of the corpus rows; ``value`` is their dual's, nats."""

    value: float
    marginals: Parts
    violation: float
    multipliers: NDArray[np.float64] | None
    skipped: dict[str, int]


def count_skipped(rows: Rows, skipped: NDArray[np.int64]) -> dict[str, int]:
    """In how many instances each constraint was left out."""
    counts = {}
    for block in rows.blocks:
        own = skipped[(skipped >= block.start) & (skipped < block.stop)]
        if len(own):
            counts[block.name] = len(np.unique(rows.row_instance[own]))
    return counts


def transposed(rows: CorpusRows) -> list[sp.csr_array]:
    """U of every shard the other way round: a row per part, a column per row over the corpus."""
    n_rows = len(rows.bounds)
    out = []
    for shard in rows.shards:
        flipped = sp.csr_array(shard.matrix.T)
        columns = shard.present[flipped.indices].astype(np.int32 if n_rows < 2**31 else np.int64)
        indptr = flipped.indptr.astype(columns.dtype)
        out.append(sp.csr_array((flipped.data, columns, indptr), shape=(flipped.shape[0], n_rows)))
    return out


@dataclass
class CorpusPass:
    """``sum over shards of smax_gamma(s - U^T lambda)`` and ``U mu``; remembers the posteriors of the last call.

    Rows inside shards are solved in a nested ``project``, which starts from its multipliers of the last call.
    """

    posed: Sequence[PosedShard]
    rows: CorpusRows
    transposes: Sequence[sp.csr_array]
    gamma: float
    executor: Executor
    tol: float
    infeasible: Infeasible
    starts: list[NDArray[np.float64] | None]

    def __post_init__(self) -> None:
        self.multipliers: NDArray[np.float64] | None = None
        self.total: tuple[float, NDArray[np.float64]] = (0.0, np.zeros(0))
        self.posteriors: list[ShardPosterior] = []

    def evaluate(self, multipliers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Value in nats and expectations, shape (n_rows,), both summed in the order of the shards."""
        if self.multipliers is not None and np.array_equal(multipliers, self.multipliers):
            return self.total
        value, expectation, posteriors = 0.0, np.zeros(len(self.rows.bounds)), []

        def one(index: int) -> tuple[ShardPosterior, NDArray[np.float64]]:
            posterior = self._posterior(index, multipliers)
            return posterior, self._expectation(index, posterior.marginals.unary)

        for index, (posterior, expected) in enumerate(self.executor.map(one, range(len(self.posed)))):
            value += posterior.value
            scatter_add(expected, self.rows.shards[index].present, expectation)
            self.starts[index] = posterior.multipliers
            posteriors.append(posterior)
        self.multipliers, self.posteriors, self.total = multipliers.copy(), posteriors, (value, expectation)
        return self.total

    def support(self, direction: NDArray[np.float64]) -> float:
        """``sum over instances of max over structures of -direction . U h``, for proofs that rows cannot hold.

        Rows inside shards take part by their latest multipliers, which bound the maximum that they leave from above.
        """
        largest = 0.0 if self.multipliers is None else np.abs(self.multipliers[direction != 0]).max(initial=0.0)

        def one(index: int) -> float:
            structure, scores, weights, inside = self.posed[index]
            unary, *factors = (np.where(np.isneginf(array), -np.inf, 0.0) for array in (scores.unary, *scores.factors))
            unary, start = self._priced(index, unary, direction), self.starts[index]
            added = 0.0
            if inside is not None and start is not None and largest > 0:
                terms = compile_slack(inside.blocks, inside.row_instance, structure.n_instances)
                own = terms.recession(start) / largest
                unary = unary - inside.matrix.T @ own
                added = float(weights @ terms.value(own) + (weights[inside.row_instance] * inside.bounds) @ own)
            return float(weights @ structure.smoothed_max(Parts(unary, tuple(factors)), 0.0)[0] + added)

        return sum(self.executor.map(one, range(len(self.posed))))

    def squared_norms(self) -> NDArray[np.float64]:
        """Of every row over the corpus, shape (n_rows,)."""
        total = np.zeros(len(self.rows.bounds))
        for shard, posed in zip(self.rows.shards, self.posed, strict=True):
            weights = posed.weights[posed.structure.instance]
            total[shard.present] += shard.matrix.power(2) @ weights
        return total

    def _priced(self, index: int, scores: NDArray[np.float64], multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """``scores - U^T multipliers``."""
        transpose, out = self.transposes[index], np.empty_like(scores)
        less_prices(transpose.indptr, transpose.indices, transpose.data, multipliers, scores, out)
        return out

    def _expectation(self, index: int, unary: NDArray[np.float64]) -> NDArray[np.float64]:
        posed = self.posed[index]
        if not (posed.weights == 1.0).all():
            unary = posed.weights[posed.structure.instance] * unary
        return self.rows.shards[index].matrix @ unary

    def _posterior(self, index: int, multipliers: NDArray[np.float64]) -> ShardPosterior:
        structure, scores, weights, inside = self.posed[index]
        shifted = Parts(self._priced(index, scores.unary, multipliers), scores.factors)
        if inside is None or not len(inside.bounds):
            values, marginals = structure.smoothed_max(shifted, max(self.gamma, 0.0), weights=weights)
            if not np.isfinite(values).all():
                raise InvalidInputError(
                    f"scores of instance {int(np.argmin(np.isfinite(values)))} of shard {index} must leave at least "
                    "one structure possible; allow more parts there or drop the instance"
                )
            return ShardPosterior(float(weights @ values), marginals, 0.0, None, {})
        projection = project(
            structure, shifted, inside, self.gamma,
            start=self.starts[index], weights=weights, tol=self.tol, infeasible=self.infeasible,
        )  # fmt: skip
        return ShardPosterior(
            projection.dual_value,
            projection.marginals,
            projection.violation,
            projection.multipliers,
            count_skipped(inside, projection.skipped),
        )
