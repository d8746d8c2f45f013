"""The E-step of any model under any constraints: scores, projection, expected counts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import compile_constraints, compile_corpus
from spectrem.constraints.constraint import AnyConstraint
from spectrem.constraints.rows import Rows
from spectrem.exceptions import ConvergenceWarning, InvalidInputError
from spectrem.execution import Executor
from spectrem.inference import Solver, Status, project, shift_scores, solve_corpus_dual, split_scopes
from spectrem.models.estep import EStepResult, EStepTask, Start
from spectrem.structures import Parts, Structure

Params = TypeVar("Params")
Stats = TypeVar("Stats")
Shard = TypeVar("Shard")
Params_contra = TypeVar("Params_contra", contravariant=True)
Shard_contra = TypeVar("Shard_contra", contravariant=True)
Stats_co = TypeVar("Stats_co", covariant=True)


class PosteriorModel(Protocol[Params_contra, Stats_co, Shard_contra]):
    """The part of a model that an E-step calls."""

    def scores(self, params: Params_contra, shard: Shard_contra, /) -> tuple[Structure, Parts]:
        """The shard's latent structures and their scores, log p(x, h) part by part."""
        ...

    def gather(self, params: Params_contra, shard: Shard_contra, marginals: Parts, /) -> Stats_co:
        """Expected counts; those of shared factors come weighted, those of unary parts do not."""
        ...

    def weights(self, shard: Shard_contra, /) -> NDArray[np.float64]:
        """Weight of every instance, shape (n_instances,)."""
        ...

    def is_known(self, shard: Shard_contra, /) -> bool:
        """Whether the shard's structures are given; constraints leave such shards alone."""
        ...


# No constraint that can hold needs prices (in nats over gamma) like this one.
_DIVERGED = 1e8


@dataclass(frozen=True)
class _CorpusRows(Generic[Shard]):
    """Constraints over the whole corpus: their rows in every shard, the multipliers found last."""

    shards: Sequence[Shard]
    rows: list[Rows]
    multipliers: NDArray[np.float64]


class ProjectedEStep(Generic[Params, Stats, Shard]):
    """Posteriors projected onto the constraints, by `project` ([Samdani2012] eq. 8, [Ganchev2010] eq. 17).

    Use when a model brings its own scores, or constraints are others than those with a compiled path.

    Parameters
    ----------
    model : PosteriorModel
    constraints : sequence of constraints
        Of instance or corpus scope.
    solver : Solver, optional
        For the multipliers inside shards; by default chosen by shape.
    alpha : float
        Strength of the constraints in the objective ``L(theta) - alpha KL(Q || p)``: the M-step sees
        ``(1 - alpha) p + alpha q`` ([Ganchev2010] appendix A). In [0, 1].
    warm_start : bool
        Start every solve from the shard's multipliers of the iteration before.
    tol : float
        Of every solve.

    Raises
    ------
    InvalidInputError
        If ``alpha`` lies outside [0, 1].
    """

    def __init__(
        self,
        model: PosteriorModel[Params, Stats, Shard],
        constraints: Sequence[AnyConstraint] = (),
        *,
        solver: Solver | None = None,
        alpha: float = 1.0,
        warm_start: bool = False,
        tol: float = 1e-8,
    ) -> None:
        if not 0 <= alpha <= 1:
            raise InvalidInputError(f"alpha must lie in [0, 1], got {alpha}; 1 is posterior regularisation, 0 plain EM")
        self.model = model
        self.constraints = tuple(constraints)
        self.solver = solver
        self.alpha = alpha
        self.warm_start = warm_start
        self.tol = tol
        self._corpus: _CorpusRows[Shard] | None = None

    def prepare(
        self, params: Params, gamma: float, shards: Sequence[Shard], executor: Executor
    ) -> EStepTask[Shard, Stats]:
        """Solve the multipliers of corpus constraints, if any, and return the E-step of one shard."""
        if not self._spans_corpus(params, shards):
            return EStepTask(partial(self._run_alone, params, gamma))
        assert self._corpus is not None
        corpus = self._corpus
        scopes = [split_scopes(rows) for rows in corpus.rows]
        shared = scopes[0][1]

        def evaluate(multipliers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            def one(item: tuple[int, Shard]) -> tuple[float, NDArray[np.float64]]:
                index, shard = item
                own, across = scopes[index]
                structure, scores = self.model.scores(params, shard)
                weights = self.model.weights(shard)
                shifted = shift_scores(scores, across.matrix.T.tocsr(), multipliers)
                rows = None if self.model.is_known(shard) else own
                projection = project(structure, shifted, rows, gamma, tol=self.tol / 10)
                part_weight = weights[structure.instance]
                return float(weights @ projection.objectives), across.matrix @ (
                    part_weight * projection.marginals.unary
                )

            value, expectation = 0.0, np.zeros(len(shared.bounds))
            for v, e in executor.map(one, list(enumerate(shards))):
                value, expectation = value + v, expectation + e
            return value, expectation

        def support(direction: NDArray[np.float64]) -> float:
            def one(item: tuple[int, Shard]) -> float:
                index, shard = item
                structure, scores = self.model.scores(params, shard)
                possible = Parts(*_zero_where_possible(scores))
                shifted = shift_scores(possible, scopes[index][1].matrix.T.tocsr(), direction)
                return float(self.model.weights(shard) @ structure.smoothed_max(shifted, 0.0)[0])

            return sum(executor.map(one, list(enumerate(shards))))

        solution = solve_corpus_dual(
            evaluate, shared.bounds, shared.blocks, gamma, support=support, start=corpus.multipliers, tol=self.tol
        )
        value, expectation = evaluate(solution.multipliers)
        violation = _worst_violation(shared, expectation - shared.bounds)
        largest = float(np.abs(solution.multipliers).max(initial=0.0))
        if solution.status == Status.MAX_ITERATIONS or violation > 1e-4 or largest > _DIVERGED * max(gamma, 1.0):
            warnings.warn(
                f"constraints over the corpus are not solved (violation {violation:.2g}, largest multiplier "
                f"{largest:.2g} nats); they may clash with other constraints: loosen them or give them slack",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.warm_start:
            self._corpus = replace(corpus, multipliers=solution.multipliers)
        run = partial(self._run_within, params, gamma, scopes, solution.multipliers)
        return EStepTask(run, constant=self.alpha * (solution.dual_value - value))

    def _spans_corpus(self, params: Params, shards: Sequence[Shard]) -> bool:
        if self._corpus is not None and self._corpus.shards is not shards:
            self._corpus = None
        if self._corpus is None and self.constraints:
            structures = [self.model.scores(params, shard)[0] for shard in shards[:1]]
            scopes = {block.scope for rows in map(self.compile, structures) for block in rows.blocks}
            if "corpus" not in scopes:
                return False
            structures = [self.model.scores(params, shard)[0] for shard in shards]
            rows = compile_corpus(self.constraints, structures)
            n_corpus = len(split_scopes(rows[0])[1].bounds)
            self._corpus = _CorpusRows(shards, rows, np.zeros(n_corpus))
        return self._corpus is not None

    def compile(self, structure: Structure) -> Rows:
        return compile_constraints(self.constraints, structure)

    def _run_alone(self, params: Params, gamma: float, index: int, shard: Shard, start: Start) -> EStepResult[Stats]:
        structure, scores = self.model.scores(params, shard)
        rows = self.compile(structure) if self.constraints and not self.model.is_known(shard) else None
        return self._project(params, shard, gamma, structure, scores, scores, rows, start)

    def _run_within(
        self,
        params: Params,
        gamma: float,
        scopes: Sequence[tuple[Rows, Rows]],
        multipliers: NDArray[np.float64],
        index: int,
        shard: Shard,
        start: Start,
    ) -> EStepResult[Stats]:
        own, across = scopes[index]
        structure, scores = self.model.scores(params, shard)
        shifted = shift_scores(scores, across.matrix.T.tocsr(), multipliers)
        rows = None if self.model.is_known(shard) else own
        return self._project(params, shard, gamma, structure, scores, shifted, rows, start)

    def _project(
        self,
        params: Params,
        shard: Shard,
        gamma: float,
        structure: Structure,
        scores: Parts,
        shifted: Parts,
        rows: Rows | None,
        start: Start,
    ) -> EStepResult[Stats]:
        weights = self.model.weights(shard)
        projection = project(
            structure, shifted, rows, gamma, solver=self.solver, start=start, weights=weights, tol=self.tol
        )
        marginals, free = projection.marginals, None
        free_values = projection.objectives
        if rows is not None or self.alpha < 1:
            free_values, free = structure.smoothed_max(scores, max(gamma, 0.0), weights=weights)
        objective, free_objective = float(weights @ projection.objectives), float(weights @ free_values)
        if self.alpha < 1 and free is not None:
            marginals = _mix(free, marginals, self.alpha)
            objective = (1 - self.alpha) * free_objective + self.alpha * objective
        return EStepResult(
            self.model.gather(params, shard, marginals),
            objective,
            free_objective,
            projection.violation,
            projection.multipliers if self.warm_start else None,
        )


def _worst_violation(rows: Rows, excess: NDArray[np.float64]) -> float:
    """Of the rows without slack, relative to their bounds."""
    relative = excess / np.maximum(1.0, np.abs(rows.bounds))
    worst = 0.0
    for block in rows.blocks:
        if block.slack is None:
            own = relative[block.start : block.stop]
            worst = max(worst, float(np.abs(own).max() if block.equality else own.max()))
    return worst


def _zero_where_possible(scores: Parts) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]:
    unary, *factors = (np.where(np.isneginf(array), -np.inf, 0.0) for array in (scores.unary, *scores.factors))
    return unary, tuple(factors)


def _mix(free: Parts, constrained: Parts, alpha: float) -> Parts:
    def both(p: Any, q: Any) -> Any:
        return (1 - alpha) * p + alpha * q

    factors = (both(p, q) for p, q in zip(free.factors, constrained.factors, strict=True))
    return Parts(both(free.unary, constrained.unary), tuple(factors))
