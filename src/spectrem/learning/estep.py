"""The E-step of any model under any constraints: scores, projection, expected counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints import compile_constraints, compile_shards
from spectrem.constraints.compile import Constraints, flatten
from spectrem.constraints.groups import KeyColumns
from spectrem.constraints.rows import CorpusRows, Rows
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, warn_unconverged
from spectrem.execution import Executor
from spectrem.inference import (
    CorpusSolution,
    Infeasible,
    Solver,
    Spectral,
    Status,
    Subgradient,
    check_infeasible,
    project,
    solve_corpus_dual,
)
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.learning.corpus import CorpusPass, PosedShard, ShardPosterior, count_skipped, transposed
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

    def columns(self, shard: Shard_contra, /) -> Mapping[str, ArrayLike]:
        """Columns for constraints beside the structure's own: a value per part, per instance or per occurrence.

        One with the name of a column of the structure takes its place. Empty if there are none.
        """
        ...

    def weights(self, shard: Shard_contra, /) -> NDArray[np.float64]:
        """Weight of every instance, shape (n_instances,)."""
        ...

    def is_known(self, shard: Shard_contra, /) -> bool:
        """Whether the shard's structures are given; constraints leave such shards alone."""
        ...


# No constraint that can hold needs prices (in nats over gamma) like this one.
_DIVERGED = 1e8
# Rows inside shards take up to this many bytes between iterations; those of further shards are compiled again.
_MOST_KEPT = 1 << 28


class ProjectedEStep(Generic[Params, Stats, Shard]):
    """Posteriors projected onto the constraints, by `project` ([Samdani2012] eq. 8, [Ganchev2010] eq. 17).

    Use when a model brings its own scores, or constraints are others than those with a compiled path.

    Parameters
    ----------
    model : PosteriorModel
    constraints : sequence of constraints
        Of instance or corpus scope.
    solver : Solver, optional
        For the multipliers inside shards; by default chosen by shape. Beside rows over the corpus, those inside shards
        are solved to ``tol`` whatever it is.
    alpha : float
        Strength of the constraints in the objective ``L(theta) - alpha KL(Q || p)``: the M-step sees
        ``(1 - alpha) p + alpha q`` ([Ganchev2010] appendix A). In [0, 1].
    warm_start : bool
        Start every solve from the multipliers of the iteration before.
    tol : float
        Of every solve.
    dual_steps : int, optional
        Run this many steps of `Spectral` on the multipliers of rows over the corpus, from those of the iteration
        before, in place of a solve to ``tol``: an E-step then costs ``dual_steps + 2`` passes. The objective is still a
        bound from above, and the violation is recorded.
    reference : callable, optional
        From a shard to log r, nats per part of the shard's structure (factors may be left out): at gamma > 1 the
        posterior becomes ``q`` in proportion to ``p^beta r^(1 - beta)`` with beta = 1 / gamma, skewed annealing
        ([SmithEisner2004] §5). At gamma <= 1 it has no effect, so that annealing ends in plain EM. Parts with
        ``-inf`` are impossible while gamma > 1.
    infeasible : {"raise", "skip"}
        What to do about constraints of instance scope that an instance cannot meet: `InfeasibleConstraintError`, or
        leave them out there (`run_em` then warns once).

    Raises
    ------
    InvalidInputError
        If ``alpha`` lies outside [0, 1], ``dual_steps`` is negative or ``infeasible`` unknown.
    """

    def __init__(
        self,
        model: PosteriorModel[Params, Stats, Shard],
        constraints: Constraints = (),
        *,
        solver: Solver | None = None,
        alpha: float = 1.0,
        warm_start: bool = False,
        tol: float = 1e-8,
        dual_steps: int | None = None,
        reference: Callable[[Shard], Parts] | None = None,
        infeasible: Infeasible = "raise",
    ) -> None:
        if not 0 <= alpha <= 1:
            raise InvalidInputError(f"alpha must lie in [0, 1], got {alpha}; 1 is posterior regularisation, 0 plain EM")
        if dual_steps is not None and dual_steps < 0:
            raise InvalidInputError(f"dual_steps must be at least 0, got {dual_steps}; None solves to tol")
        check_infeasible(infeasible)
        self.model = model
        self.constraints = tuple(flatten(constraints))
        self.solver = solver
        self.alpha = alpha
        self.warm_start = warm_start
        self.tol = tol
        self.dual_steps = dual_steps
        self.reference = reference
        self.infeasible: Infeasible = infeasible
        self._shards: Sequence[Shard] | None = None
        self._corpus: CorpusState | None = None
        self._inside: dict[int, Rows] = {}
        self._room = _MOST_KEPT

    def prepare(
        self, params: Params, gamma: float, shards: Sequence[Shard], executor: Executor
    ) -> EStepTask[Shard, Stats]:
        """Solve the multipliers of corpus constraints, if any, and return the E-step of one shard."""
        if self._shards is not shards:
            self._shards, self._inside, self._room = shards, {}, _MOST_KEPT
            self._corpus = self._compile_corpus(params, shards)
        corpus = self._corpus
        if corpus is None:
            return EStepTask(partial(self._run_alone, params, gamma))

        def pose(index: int) -> PosedShard:
            structure, scores = self._scores(params, gamma, shards[index])
            known = self.model.is_known(shards[index])
            inside = None if known else corpus.rows.shards[index].inside
            return PosedShard(structure, scores, self.model.weights(shards[index]), inside)

        posed = list(executor.map(pose, range(len(shards))))
        passes = CorpusPass(
            posed, corpus.rows, corpus.transposes, gamma, executor, self.tol / 10, self.infeasible, corpus.starts
        )
        solution = self._solve_corpus(corpus, passes)
        value, expectation = passes.evaluate(solution.multipliers)
        violation = _worst_violation(corpus.rows, expectation - corpus.rows.bounds)
        largest = float(np.abs(solution.multipliers).max(initial=0.0))
        unsolved = solution.status == Status.MAX_ITERATIONS or violation > 1e-4
        if self.dual_steps is None and (unsolved or largest > _DIVERGED * max(gamma, 1.0)):
            warn_unconverged(
                f"constraints over the corpus are not solved (violation {violation:.2g}, largest multiplier "
                f"{largest:.2g} nats); they may clash with other constraints: loosen them or give them slack",
                stacklevel=4,
            )
        run = partial(self._run_within, params, gamma, passes)
        return EStepTask(run, self.alpha * (solution.dual_value - value), violation)

    def _scores(self, params: Params, gamma: float, shard: Shard) -> tuple[Structure, Parts]:
        structure, scores = self.model.scores(params, shard)
        if self.reference is None or gamma <= 1:
            return structure, scores
        return structure, skew(scores, self.reference(shard), gamma)

    def _compile_corpus(self, params: Params, shards: Sequence[Shard]) -> CorpusState | None:
        """Rows of all shards, if any of them span the corpus."""
        if not self.constraints or not shards:
            return None
        first = self.compile(self.model.scores(params, shards[0])[0], shards[0])
        if all(block.scope == "instance" for block in first.blocks):
            return None
        rows = compile_shards(
            self.constraints,
            [self.model.scores(params, shard)[0] for shard in shards],
            [self.model.columns(shard) for shard in shards],
            [self.model.weights(shard) for shard in shards],
        )
        n = len(rows.bounds)
        terms = compile_slack(rows.blocks, np.zeros(n, np.int64), 1)
        return CorpusState(rows, transposed(rows), terms, np.zeros(n), [None] * len(shards))

    def compile(self, structure: Structure, shard: Shard) -> Rows:
        """Rows of all constraints over one shard, over which alone those of corpus scope are then taken."""
        return compile_constraints(self.constraints, structure, self.model.columns(shard))

    def _solve_corpus(self, corpus: CorpusState, passes: CorpusPass) -> CorpusSolution:
        squares = passes.squared_norms() if corpus.norms is None else corpus.norms**2
        corpus.norms = np.sqrt(squares)
        steps, solver = self.dual_steps, None
        if steps is not None:
            solver = Spectral(steps, corpus.length, self.tol) if passes.gamma > 0 else Subgradient(max(steps, 1))
        solution = solve_corpus_dual(
            passes.evaluate,
            corpus.rows.bounds,
            corpus.rows.blocks,
            max(passes.gamma, 0.0),
            norms=corpus.norms,
            terms=corpus.terms,
            support=passes.support,
            solver=solver,
            start=corpus.multipliers,
            tol=self.tol,
        )
        if self.warm_start or steps is not None:
            corpus.multipliers = solution.multipliers
            corpus.length = corpus.length if solution.length is None else solution.length
        else:
            corpus.starts = [None] * len(corpus.starts)
        return solution

    def _rows_of(self, index: int, structure: Structure, shard: Shard) -> Rows | None:
        """Rows of a shard, kept from the first time on while there is room for them."""
        if not self.constraints or self.model.is_known(shard):
            return None
        rows = self._inside.get(index)
        if rows is None:
            rows = self.compile(structure, shard)
            if (room := self._room - _bytes_of(rows)) >= 0:
                self._inside[index], self._room = rows, room
        return rows

    def _run_alone(self, params: Params, gamma: float, index: int, shard: Shard, start: Start) -> EStepResult[Stats]:
        structure, scores = self._scores(params, gamma, shard)
        rows = self._rows_of(index, structure, shard)
        weights = self.model.weights(shard)
        try:
            projection = project(
                structure, scores, rows, gamma,
                solver=self.solver, start=start, weights=weights, tol=self.tol, infeasible=self.infeasible,
            )  # fmt: skip
        except InfeasibleConstraintError as error:
            if (
                self._shards is None
                or len(self._shards) == 1
                or next(iter(structure.columns)) in self.model.columns(shard)
            ):
                raise
            found = InfeasibleConstraintError(f"{error} (instances are counted from 0 in shard {index})")
            found.keys = error.keys
            raise found from error
        skipped = {} if rows is None else count_skipped(rows, projection.skipped)
        posterior = ShardPosterior(
            projection.dual_value, projection.marginals, projection.violation, projection.multipliers, skipped
        )
        return self._gather(params, shard, gamma, structure, scores, posterior, free=rows is None)

    def _run_within(
        self, params: Params, gamma: float, passes: CorpusPass, index: int, shard: Shard, start: Start
    ) -> EStepResult[Stats]:
        structure, scores, _, _ = passes.posed[index]
        return self._gather(params, shard, gamma, structure, scores, passes.posteriors[index], free=False)

    def _gather(
        self,
        params: Params,
        shard: Shard,
        gamma: float,
        structure: Structure,
        scores: Parts,
        posterior: ShardPosterior,
        *,
        free: bool,
    ) -> EStepResult[Stats]:
        """Statistics of a posterior; ``free`` tells that no constraint took part in it."""
        marginals, free_objective = posterior.marginals, posterior.value
        if not free:
            weights = self.model.weights(shard)
            free_values, free_marginals = structure.smoothed_max(scores, max(gamma, 0.0), weights=weights)
            free_objective = float(weights @ free_values)
            if self.alpha < 1:
                marginals = _mix(free_marginals, marginals, self.alpha)
        objective = (1 - self.alpha) * free_objective + self.alpha * posterior.value
        return EStepResult(
            self.model.gather(params, shard, marginals),
            objective,
            free_objective,
            posterior.violation,
            posterior.multipliers if self.warm_start else None,
            posterior.skipped,
        )


@dataclass
class CorpusState:
    """What an E-step over the corpus remembers from one iteration to the next."""

    rows: CorpusRows
    transposes: list[sp.csr_array]
    terms: SlackTerms
    multipliers: NDArray[np.float64]
    starts: list[NDArray[np.float64] | None]
    norms: NDArray[np.float64] | None = None
    length: float = 1.0


def skew(scores: Parts, reference: Parts, gamma: float) -> Parts:
    """Scores whose posterior at ``gamma`` > 1 is ``p^beta r^(1 - beta)``, beta = 1 / gamma ([SmithEisner2004] §5).

    Parameters
    ----------
    scores : Parts
        log p, nats.
    reference : Parts
        log r, nats; without factors those count as 0.
    gamma : float

    Returns
    -------
    Parts
        ``s + (gamma - 1) log r``.

    Raises
    ------
    InvalidInputError
        If the reference has other shapes than the scores, or is NaN or +inf somewhere.

    Examples
    --------
    >>> skew(Parts(np.zeros(2)), Parts(np.array([-1.0, -np.inf])), 3.0).unary
    array([ -2., -inf])
    """
    factors = reference.factors or tuple(np.zeros_like(factor) for factor in scores.factors)
    for name, given, wanted in zip(
        ["unary", *(f"factors[{k}]" for k in range(len(scores.factors)))],
        [reference.unary, *factors],
        [scores.unary, *scores.factors],
        strict=True,
    ):
        if given.shape != wanted.shape or not (given < np.inf).all():
            raise InvalidInputError(
                f"reference: {name} must be {wanted.shape} logarithms of probabilities, -inf or finite, got shape "
                f"{given.shape} with {int((~(given < np.inf)).sum())} values that are NaN or +inf; "
                "return log r on the structure of model.scores"
            )
    share = gamma - 1.0
    return Parts(
        scores.unary + share * reference.unary,
        tuple(score + share * factor for score, factor in zip(scores.factors, factors, strict=True)),
    )


def _bytes_of(rows: Rows) -> int:
    arrays = [rows.matrix.data, rows.matrix.indices, rows.matrix.indptr, rows.bounds, rows.row_instance]
    keys = sum(block.keys.nbytes for block in rows.blocks if isinstance(block.keys, KeyColumns))
    return keys + sum(array.nbytes for array in [*arrays, *(block.slack_group for block in rows.blocks)])


def _worst_violation(rows: CorpusRows, excess: NDArray[np.float64]) -> float:
    """Of the rows without slack, relative to their bounds."""
    worst = 0.0
    for block in rows.blocks:
        if block.slack is None:
            span = slice(block.start, block.stop)
            own = excess[span] / np.maximum(1.0, np.abs(rows.bounds[span]))
            worst = max(worst, float((np.abs(own) if block.equality else own).max(initial=0.0)))
    return worst


def _mix(free: Parts, constrained: Parts, alpha: float) -> Parts:
    def both(p: Any, q: Any) -> Any:
        return (1 - alpha) * p + alpha * q

    factors = (both(p, q) for p, q in zip(free.factors, constrained.factors, strict=True))
    return Parts(both(free.unary, constrained.unary), tuple(factors))
