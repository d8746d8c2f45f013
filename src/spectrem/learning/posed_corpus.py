"""A corpus with compiled constraints, and its E-step.

Multipliers of constraints that span the corpus are found first; one sum over shards then gives the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spectrem._arrays import Floats
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass
from spectrem.constraints.compilation.compile import corpus_rows, facts_of
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.constraints.compilation.rows import CorpusRows, Rows, no_rows
from spectrem.constraints.text import Constraints, flatten
from spectrem.corpus import Corpus, Local
from spectrem.corpus.corpus import fold, sums_of_neighbours
from spectrem.corpus.on_dask import size_of
from spectrem.exceptions import InvalidInputError, warn_unconverged
from spectrem.learning.estep import (
    EStep,
    Latest,
    Numbered,
    Posed,
    Posterior,
    Step,
    expect,
    expectation,
    less_cost,
    pose_shard,
    posterior,
    scores_of,
    with_rows,
)
from spectrem.learning.model import Restricted, columns_of, is_known
from spectrem.models.estep import EStepResult, Statistics
from spectrem.structures import Parts

if TYPE_CHECKING:
    from spectrem.inference.corpus.choice import ShardVariants

# Multipliers above this (nats, over gamma) show that constraints cannot hold.
_DIVERGED = 1e8
# Violations above this, relative to the bound, are reported.
_MISSED = 1e-4
# Structures and rows of larger corpora (in unary parts, some hundred bytes each) are made anew in every E-step, unless
# multipliers are kept beside them.
_MOST_PARTS = 1 << 23
# Evaluations of the corpus by the linear program at gamma <= 0: fewer with many rows, as all are kept in memory.
_EVALUATIONS, _MANY_ROWS, _FEW_EVALUATIONS = 200, 1000, 30
# Parameters of at least so many bytes are not sent as a whole to where shards live: each gets what it needs.
_LARGE = 1 << 25
_FEW = 8  # sums of so many shards, a power of two, are much smaller than that of all
_AT_ONCE = 256  # what so many shards need is written to one file


def pose(model: Any, corpus: Corpus, estep: EStep, params: Any = None) -> PosedCorpus:
    """Put structures and compiled rows beside every shard.

    A sum over shards first finds what the rows of a shard depend on in the rest of the corpus, such as counts of words.

    If parameters of the size of ``params``, where they are given, are large, and would have to travel to the shards,
    every shard will be sent only those that it needs: where the model says which (`Model`), no constraint spans the
    corpus, and shards keep no multipliers.
    """
    posed, owner = _pose(model, corpus, estep), _owner(model, estep)
    remote = getattr(corpus, "is_remote", False) and hasattr(owner, "needs")
    if not remote or params is None or posed.rows is not None or estep.warm_start or size_of(params) < _LARGE:
        return posed
    collected, needs = posed.shards.collect(needs_of, owner.needs), list[Any]()
    put_aside = getattr(corpus, "aside", list)
    while some := list(islice(collected, _AT_ONCE)):
        needs += put_aside(some)
    return replace(posed, needs=needs)


def _owner(model: Any, estep: EStep) -> Any:
    """The kernel that takes the E-step of a shard, or the model where there is none."""
    return model if estep.kernel is None else estep.kernel


def _pose(model: Any, corpus: Corpus, estep: EStep) -> PosedCorpus:
    if estep.kernel is not None:
        return PosedCorpus(corpus)
    if estep.rows is not None:
        return PosedCorpus(corpus.derive(pose_compiled, model, estep.rows))
    numbered = corpus.derive(Numbered, each=range(len(corpus)))
    shards = numbered.derive(pose_shard, model, bool(estep.constraints))
    if not estep.constraints:
        return PosedCorpus(shards)
    facts = shards.sum(find_facts, model, estep.constraints)
    if not facts.complete:  # constraints over several instances that read counts over the corpus
        facts = shards.sum(find_facts, model, estep.constraints, facts)
    rows = corpus_rows(facts)
    if not rows.blocks and not estep.warm_start and shards.sum(_n_parts) > _MOST_PARTS:
        return PosedCorpus(numbered, facts=facts)
    shards = shards.derive(with_rows, model, estep.constraints, facts, len(rows.bounds))
    if not len(rows.bounds):
        return PosedCorpus(shards)
    norms = np.sqrt(shards.sum(squared_norms, len(rows.bounds)))
    constraints = list(zip(flatten(estep.constraints), facts.placed, strict=True))
    nested = any(placed is None for _, placed in constraints)
    inside = tuple(
        str(getattr(constraint, "name", constraint))
        for constraint, placed in constraints
        if placed is None or (placed.kept & (placed.home >= 0)).any()
    )
    return PosedCorpus(shards, replace(rows, norms=norms, inside=inside), nested=nested)


def posterior_alone(shard: Any, step: Step) -> Posterior:
    """Posteriors of a shard whose constraints all lie inside it, by itself.

    Raises
    ------
    InvalidInputError
        If a constraint is over the corpus.
    """
    posed = pose(step.model, Local([shard]), step.estep)
    if posed.rows is not None:
        raise InvalidInputError(
            f"constraints must lie inside instances here, got {posed.rows.blocks[0].name!r} over the corpus; leave it "
            "out of decoding"
        )
    result: Posterior = next(posed.shards.collect(posterior, step))
    return result


class Solved(NamedTuple):
    """The solution for rows over the corpus.

    ``step`` holds the prices or the mixture that meet them; ``value`` is what the rows add to the objective, nats;
    ``shards`` have the multipliers of their own rows; ``expectation`` is ``U mu`` of the posteriors, by which rows are
    missed by ``violation``; ``proven`` says whether some distribution is known to meet them.
    """

    step: Step
    multipliers: Floats
    value: float
    length: float
    solved: bool
    shards: Corpus
    expectation: Floats
    violation: float = 0.0
    proven: bool = False


@brief_dataclass(frozen=True, eq=False)
class PosedCorpus:
    """A corpus under constraints. It is immutable: every E-step returns a new one.

    Attributes
    ----------
    shards : Corpus
        Its shards are `Posed`, or the model's own where a kernel does the E-step.
    rows : CorpusRows or None
        The rows that span the corpus, if there are any.
    multipliers : ndarray of shape (n_rows,) or None
        Multipliers of ``rows`` to start from.
    length : float
        Length of the first step of `Spectral`.
    n_solved : int
        Number of E-steps so far.
    proven : bool
        Whether some distribution is known to meet ``rows``.
    facts : CorpusFacts or None
        Given where structures and rows would take too much memory: ``shards`` are then ``Numbered``, and every E-step
        makes structures and rows anew.
    nested : bool
        Whether some constraint is inside instances, beside ``rows``.
    needs : sequence or None
        Given where parameters are too large to be sent as a whole: which of them every shard needs.
    """

    shards: Corpus
    rows: CorpusRows | None = None
    multipliers: Floats | None = None
    length: float = 1.0
    n_solved: int = 0
    proven: bool = False
    facts: CorpusFacts | None = None
    nested: bool = False
    needs: Sequence[Any] | None = None

    def expect(self, step: Step) -> tuple[EStepResult[Any], PosedCorpus]:
        """Statistics and numbers of the whole corpus, and the corpus with the multipliers to start from next time.

        Parameters
        ----------
        step : Step

        Returns
        -------
        result : EStepResult
        corpus : PosedCorpus
        """
        estep, following, shards, solved = step.estep, self, self.shards, None
        if self.rows is not None:
            # With a few steps per iteration violations vanish over the iterations, unless the rows cannot hold: whether
            # they can is checked after 1, 2, 4, 8, ... iterations.
            few = estep.dual_steps is not None and step.gamma > 0
            solved = self._solve(step, checked=not few or not self.n_solved & (self.n_solved + 1), warned=not few)
            following = replace(self, n_solved=self.n_solved + 1, proven=solved.proven)
            shards, step = solved.shards, solved.step
            if estep.warm_start or estep.dual_steps is not None:
                following = replace(following, multipliers=solved.multipliers, length=solved.length)
        if self.needs is not None:
            restricted = Restricted(_owner(step.model, estep), step.params, self.needs)
            common = step._replace(model=None, params=None, estep=replace(estep, kernel=None))
            results = restricted.placed(shards.collect(expect_restricted, common, self.facts, each=restricted))
            expected = fold(sums_of_neighbours(results, _FEW))
        elif estep.kernel is not None:
            expected = shards.sum(estep.kernel.prepare(step.params, step.gamma))
        elif estep.warm_start:
            expected, shards = shards.advance(expect, step)
            following = replace(following, shards=shards)
        else:
            expected = shards.sum(expect, step, self.facts)
        if solved is not None:
            expected.objective += estep.alpha * estep.weight * solved.value
            expected.violation = max(expected.violation, solved.violation)
        return expected, following

    def part(self, numbers: Sequence[int]) -> PosedCorpus:
        """The corpus of some of the shards, where no constraint spans the corpus.

        Parameters
        ----------
        numbers : sequence of int
            Numbers of shards, from 0, each at most once.

        Returns
        -------
        PosedCorpus
        """
        needs = None if self.needs is None else [self.needs[k] for k in numbers]
        return replace(self, shards=self.shards.part(numbers), needs=needs)

    def at_prices(self, step: Step) -> tuple[Corpus, Step]:
        """Shards and a step with which ``posterior`` gives posteriors that meet the constraints over the corpus, too.

        Parameters
        ----------
        step : Step

        Returns
        -------
        shards : Corpus
        step : Step

        Raises
        ------
        InfeasibleConstraintError
            If these constraints are proven not to hold.

        Warns
        -----
        ConvergenceWarning
            If the posteriors do not meet them.
        """
        if self.rows is None:
            return self.shards, step
        solved = self._solve(step, checked=True, warned=True)
        return solved.shards, solved.step

    def _solve(self, step: Step, *, checked: bool, warned: bool) -> Solved:
        """Find what meets the rows over the corpus, and measure how well it does.

        Where they are missed and it is not proven that they can hold, ``checked`` raises an error if they cannot, and
        ``warned`` warns.
        """
        rows = self.rows
        assert rows is not None
        scored = self.shards.derive(with_scores, step)
        solved = (self._solve_dual if step.gamma > 0 else self._solve_program)(scored, step)
        violation, proven = worst_violation(rows, solved.expectation - rows.bounds), self.proven
        largest, missed = float(np.abs(solved.multipliers).max(initial=0.0)), violation > _MISSED
        if step.gamma <= 0:
            missed = missed and solved.solved  # a program without a solution has warned itself
        else:
            if missed and checked and not proven:
                from spectrem.inference.corpus.dual import check_corpus_rows

                support = partial(gathered, solved.shards, True, support_of, solved.step)
                proven = check_corpus_rows(support, rows, solved.multipliers, expectations=solved.expectation)
            missed = missed or not solved.solved or largest > _DIVERGED * max(step.gamma, 1.0)
        if missed and warned:
            warn_unconverged(
                f"constraints over the corpus are not solved (violation {violation:.2g}, largest multiplier "
                f"{largest:.2g} nats); they may clash with other constraints: loosen them or give them slack",
            )
        return solved._replace(violation=violation, proven=proven)

    def _solve_dual(self, scored: Corpus, step: Step) -> Solved:
        """At gamma > 0 the multipliers of the rows; every evaluation of the dual is one sum over shards.

        Where shards have rows of their own, each evaluation starts from the multipliers of the one before.
        """
        from spectrem.inference import Spectral, Status
        from spectrem.inference.corpus.dual import solve_corpus_dual

        rows, steps = self.rows, step.estep.dual_steps
        assert rows is not None
        last: list[tuple[Step, Floats, Floats]] = []
        latest = scored

        def evaluate(prices: Floats) -> tuple[Floats, Floats]:
            # Solvers evaluate their last point again at the end.
            if not last or not np.array_equal(last[0][0].prices, prices):  # type: ignore[arg-type]
                number = last[0][0].evaluation + 1 if last else 1
                at_prices = step._replace(prices=prices.copy(), evaluation=number)
                if self.nested:
                    nonlocal latest
                    total, latest = latest.advance(evaluate_and_keep, at_prices)
                    last[:] = [(at_prices, np.array([total.value]), total.expectation.dense[None])]
                else:
                    last[:] = [(at_prices, *gathered(scored, True, evaluate_shard, at_prices))]
            return last[0][1:]

        def support(direction: Floats) -> tuple[Floats, Floats]:
            return gathered(latest, True, support_of, last[0][0], direction)

        def curvature(prices: Floats) -> Floats:
            evaluate(prices)
            curve: Floats = latest.sum(curvature_of, last[0][0])
            return curve

        solution = solve_corpus_dual(
            evaluate, rows, step.gamma, support=support, curvature=curvature if self.nested else None,
            solver=None if steps is None else Spectral(steps, self.length, step.estep.tol),
            start=self._start(), tol=step.estep.tol,
        )  # fmt: skip
        prices = solution.multipliers
        evaluate(prices)
        length = self.length if solution.length is None else solution.length
        is_solved = steps is not None or solution.status != Status.MAX_ITERATIONS
        return Solved(last[0][0], prices, solution.added, length, is_solved, latest, last[0][2].sum(axis=0))

    def _solve_program(self, scored: Corpus, step: Step) -> Solved:
        """At gamma = 0 the mixture that solves the linear program, at -inf whole structures near that mixture."""
        from spectrem.inference import Status
        from spectrem.inference.corpus.choice import choose_structures
        from spectrem.inference.corpus.dual import solve_corpus_program

        rows = self.rows
        assert rows is not None
        # With many rows the shards share the weights of the mixture, so that only sums over all of them are needed.
        many = len(rows.bounds) > _MANY_ROWS
        linear = step._replace(gamma=0.0)

        def evaluate(prices: Floats) -> tuple[Floats, Floats]:
            return gathered(scored, many, evaluate_shard, linear._replace(prices=prices))

        mixture = solve_corpus_program(
            evaluate, rows, support=partial(gathered, scored, many, support_of, linear._replace(prices=self._start())),
            start=self._start(), tol=step.estep.tol, max_iter=_FEW_EVALUATIONS if many else _EVALUATIONS,
        )  # fmt: skip
        is_solved = mixture.status != Status.MAX_ITERATIONS
        if step.gamma == -np.inf:
            mixture = choose_structures(partial(scored.collect, variants_of, step), mixture, rows)
        # Posteriors are kept beside the shards for this evaluation, as at gamma > 0.
        last = step._replace(mixture=mixture, prices=mixture.multipliers, evaluation=1)
        reached = scored.sum(evaluate_shard, last).expectation.dense
        return Solved(last, mixture.multipliers, mixture.value, self.length, is_solved, scored, reached)

    def _start(self) -> Floats:
        assert self.rows is not None
        return np.zeros(len(self.rows.bounds)) if self.multipliers is None else self.multipliers


def _n_parts(posed: Posed) -> int:
    return posed.structure.n_unary


def needs_of(shard: Any, needs: Callable[[Any], Any]) -> Any:
    """The parameters that a shard needs."""
    return needs(shard.shard if isinstance(shard, Posed | Numbered) else shard)


def expect_restricted(
    shard: Any, restricted: tuple[Any, Any], step: Step, facts: CorpusFacts | None
) -> EStepResult[Any]:
    """The E-step of a shard with a model, or a kernel, and parameters that are its own."""
    owner, params = restricted
    if isinstance(shard, Posed | Numbered):
        shard_result: EStepResult[Any] = expect(shard, step._replace(model=owner, params=params), facts)
        return shard_result
    result: EStepResult[Any] = owner.prepare(params, step.gamma)(shard)
    return result


def pose_compiled(shard: Any, model: Any, rows: Rows) -> Posed:
    """The only shard of a corpus, with rows that are compiled already."""
    return replace(pose_shard(Numbered(shard, 0), model), inside=rows if len(rows.bounds) else None)


def find_facts(posed: Posed, model: Any, constraints: Constraints, before: CorpusFacts | None = None) -> CorpusFacts:
    """The facts about a shard that rows of other shards depend on."""
    columns = columns_of(model, posed.shard)
    return facts_of(constraints, posed.structure, columns, posed.weights, before, posed.number)


def gathered(scored: Corpus, together: bool, f: Callable[..., Statistics], *broadcast: Any) -> tuple[Floats, Floats]:
    """Values and expectations of every shard, or, ``together``, their sum as a single row."""
    sums = [scored.sum(f, *broadcast)] if together else list(scored.collect(f, *broadcast))
    return np.array([one.value for one in sums]), np.array([one.expectation.dense for one in sums])


def with_scores(posed: Posed, step: Step) -> Posed:
    """The shard with its scores, which stay while multipliers over the corpus are optimised."""
    return replace(posed, scores=scores_of(posed, step), latest=Latest())


def evaluate_shard(posed: Posed, step: Step) -> Statistics:
    """The contribution of a shard to the ``value`` of the dual over the corpus, nats, and its ``expectation`` U mu."""
    return evaluate_and_keep(posed, step)[0]


def evaluate_and_keep(posed: Posed, step: Step) -> tuple[Statistics, Posed]:
    """The same, and the shard with its own multipliers to start from next time, wherever it lives."""
    result = posterior(posed, step)
    kept = replace(posed, multipliers=result.multipliers, latest=None)
    return Statistics(value=result.value, expectation=expectation(posed, result.marginals)), kept


def curvature_of(posed: Posed, step: Step) -> Floats:
    """The second derivatives of a shard's value in the prices, at its own multipliers; NaN where they are not known."""
    from spectrem.inference.solvers.smooth import curvature_of_batch

    structure, across, prices = posed.structure, posed.transpose, step.prices
    assert across is not None
    assert prices is not None
    if is_known(step.model, posed.shard):
        return np.zeros((len(prices), len(prices)))
    scores = scores_of(posed, step)
    shifted = Parts(less_cost(posed, scores.unary, prices), scores.factors)
    inside = no_rows(structure.n_unary) if posed.inside is None else posed.inside
    multipliers = np.zeros(0) if posed.multipliers is None else posed.multipliers
    return curvature_of_batch(structure, shifted, inside, multipliers, step.gamma, posed.weights, across)


def support_of(posed: Posed, step: Step, direction: Floats) -> Statistics:
    """``sum over instances of max over structures of -direction . U h``, for proofs that rows cannot hold, and U h.

    Rows inside the shard enter by their multipliers at the prices of ``step``, scaled like the direction. Any
    multipliers give an upper bound on the maximum under these rows; these ones give a close one where prices diverge.
    """
    from spectrem.inference.dual import compile_slack, possible_parts

    structure, weights, inside = posed.structure, posed.weights, posed.inside
    possible = possible_parts(scores_of(posed, step))
    unary, added = less_cost(posed, possible.unary, direction), 0.0
    assert step.prices is not None
    largest = np.abs(step.prices[direction != 0]).max(initial=0.0)
    multipliers = posterior(posed, step).multipliers if inside is not None and largest > 0 else None
    if inside is not None and multipliers is not None:
        # Rows over a group have an owner of their own, after all instances.
        owner = np.where(inside.row_instance < 0, structure.n_instances, inside.row_instance)
        terms = compile_slack(inside.blocks, owner, structure.n_instances + 1)
        direction_inside, copies = terms.recession(multipliers) / largest, np.append(weights, 1.0)
        unary = unary - inside.matrix.T @ direction_inside
        added = float(copies @ terms.value(direction_inside) + (copies[owner] * inside.bounds) @ direction_inside)
    values, marginals = structure.smoothed_max(Parts(unary, possible.factors), 0.0)
    return Statistics(value=float(weights @ values + added), expectation=expectation(posed, marginals))


def variants_of(posed: Posed, step: Step, points: Floats) -> ShardVariants:
    """The structures that instances take at several multipliers of the rows over the corpus, where these differ.

    Raises
    ------
    InvalidInputError
        If constraints tie instances of the shard, whose structures can then not be chosen one by one.
    """
    from spectrem.inference.corpus.choice import find_variants

    if posed.inside is not None and (posed.inside.row_instance < 0).any():
        tied = next(
            block.name for block in posed.inside.blocks if block.scope != "instance" and block.stop > block.start
        )
        raise InvalidInputError(
            f"gamma must be at least 0 where {tied!r} ties instances and other constraints span the corpus, got -inf; "
            "use gamma = 0, the linear relaxation"
        )
    assert posed.transpose is not None
    matrix = sp.csr_array(posed.transpose.T)
    scores = scores_of(posed, step)
    return find_variants(
        posed.structure, scores, matrix, points, weights=posed.weights, inside=posed.inside,
        infeasible=step.estep.infeasible,
    )  # fmt: skip


def squared_norms(posed: Posed, n_rows: int) -> Floats:
    """The contribution of a shard to the squared norms of the rows that span the corpus, shape (n_rows,)."""
    assert posed.across is not None
    assert posed.present is not None
    total = np.zeros(n_rows)
    total[posed.present] = posed.across.power(2) @ posed.weights[posed.structure.instance]
    return total


def worst_violation(rows: CorpusRows, excess: Floats) -> float:
    """The largest violation of a row, or of rows that share a slack, beyond the slack allowed, relative to bounds."""
    from spectrem.inference.dual import compile_slack

    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    return float(terms.worst_violation(excess, np.maximum(1.0, np.abs(rows.bounds)))[0])
