"""A shard with its structure and compiled constraints, and its E-step: scores, projection, expected statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_bool
from spectrem.constraints.compilation.compile import compile_shard
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.text import Constraints, flatten
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference.result import Infeasible, check_infeasible
from spectrem.kernels.sparse import less_prices
from spectrem.learning.model import Kernel, columns_of, counts_of, given_of, is_known, weights_of
from spectrem.models.estep import EStepResult, RowSum
from spectrem.structures import Parts, Structure
from spectrem.structures._ragged import no_parts

if TYPE_CHECKING:
    from spectrem.inference import Solver
    from spectrem.inference.corpus.dual import CorpusMixture


@brief_dataclass(frozen=True, eq=False)
class EStep:
    """How posteriors are found: a frozen value that pickles.

    Posteriors are projected onto the constraints by `project_batch` ([Samdani2012] eq. 8, [Ganchev2010] eq. 17);
    without any they are the model's own.

    Parameters
    ----------
    constraints : constraint or iterable of constraints, nested as you like
    solver : Solver, optional
        For the multipliers of constraints inside shards; by default chosen by shape. If constraints
        span the corpus, too, those inside shards are solved to ``tol`` by the solver chosen by shape.
    alpha : float
        Strength of the constraints in the objective ``L(theta) - alpha KL(Q || p)``: the M-step sees
        ``(1 - alpha) p + alpha q`` ([Ganchev2010] appendix A). In [0, 1].
    warm_start : bool
        Keep the multipliers of constraints inside shards beside the shard and start from them in the next iteration.
    tol : float
        Tolerance of every solve.
    dual_steps : int, optional
        At gamma > 0 run this many steps of `Spectral` on the multipliers of constraints that span the corpus, from
        those of the iteration before, in place of a solve to ``tol``. The objective is then a bound from above, and the
        violation is recorded.
    reference : callable, optional
        From a shard to log r, nats per part of the shard's structure (factors may be left out): at gamma > 1 the
        posterior becomes ``q`` in proportion to ``p^beta r^(1 - beta)`` with beta = 1 / gamma, skewed annealing
        ([SmithEisner2004] §5). At gamma <= 1 it has no effect, so that annealing ends in plain EM. Parts with
        ``-inf`` are impossible while gamma > 1.
    infeasible : {"raise", "skip"}
        What to do about constraints inside instances that an instance cannot meet: raise `InfeasibleConstraintError`,
        or leave them out there (`run_em` then warns once).
    weight : float
        The weight in the objective of an instance whose structure is not given, relative to how often it counts in
        constraints (``counts`` of the model); at least 0. The cost of constraints is multiplied by it, so that
        posteriors do not depend on it.
    rows : Rows, optional
        Constraints that are compiled already, for a corpus of one shard; in place of ``constraints``.
    kernel : Kernel, optional
        A compiled E-step in place of all of the above.

    Raises
    ------
    InvalidInputError
        If ``alpha`` lies outside [0, 1], ``dual_steps`` or ``weight`` is negative, or ``infeasible`` unknown.

    Examples
    --------
    >>> from spectrem import E, part
    >>> EStep((E[part("tag") == "VERB"] >= 1).per("sentence"), dual_steps=5).dual_steps
    5
    """

    constraints: Constraints = ()
    solver: Solver | None = None
    alpha: float = 1.0
    warm_start: bool = False
    tol: float = 1e-8
    dual_steps: int | None = None
    reference: Callable[[Any], Parts] | None = None
    infeasible: Infeasible = "raise"
    weight: float = 1.0
    rows: Rows | None = None
    kernel: Kernel[Any, Any] | None = None

    def __post_init__(self) -> None:
        as_bool(self.warm_start, "warm_start")
        if not 0 <= self.alpha <= 1:
            raise InvalidInputError(
                f"alpha must lie in [0, 1], got {self.alpha}; 1 is posterior regularisation, 0 plain EM"
            )
        if self.dual_steps is not None and self.dual_steps < 0:
            raise InvalidInputError(f"dual_steps must be at least 0, got {self.dual_steps}; None solves to tol")
        if not 0 <= self.weight < np.inf:
            raise InvalidInputError(f"weight must be finite and at least 0, got {self.weight}; 1 counts costs in full")
        check_infeasible(self.infeasible)
        object.__setattr__(self, "constraints", tuple(flatten(self.constraints)))


class Numbered(NamedTuple):
    """A shard and its number in the corpus, from 0."""

    shard: Any
    number: int


@brief_dataclass(frozen=True, eq=False)
class Posed:
    """A shard with its structure, weights and compiled constraints, which are made once per fit.

    It stays where the shard lives.

    Attributes
    ----------
    shard
    number : int
        Number of the shard in the corpus, counted from 0.
    structure : Structure
    weights : ndarray of shape (n_instances,)
        How often an instance counts, in constraints and, unless there are ``objective_weights``, in the objective.
    inside : Rows or None
        Constraints whose rows lie in the shard; None if there are none, or the shard's structures are known.
    where : str
        Text that error messages add to say which shard they mean.
    across : sp.csr_array of shape (n_present, n_unary), or None
        The shard's part of the rows that span the corpus.
    present : ndarray of shape (n_present,), int
        Which of the rows over the corpus those are.
    transpose : sp.csr_array of shape (n_unary, n_rows), or None
        The transpose of ``across``, with one column for every row over the corpus.
    multipliers : ndarray or None
        Multipliers of ``inside`` to start from.
    scores : Parts or None
        Scores under fixed parameters, kept while the multipliers over the corpus are optimised.
    objective_weights : ndarray of shape (n_instances,), or None
        Weights in the objective and the statistics, where they are others.
    latest : Latest or None
        Posteriors at the multipliers evaluated last, kept as long; mostly they are those of the solution.
    """

    shard: Any
    number: int
    structure: Structure
    weights: Floats
    inside: Rows | None = None
    where: str = ""
    across: sp.csr_array | None = None
    present: Ints | None = None
    transpose: sp.csr_array | None = None
    multipliers: Floats | None = None
    scores: Parts | None = None
    objective_weights: Floats | None = None
    latest: Latest | None = None


@brief_dataclass()
class Latest:
    """The posteriors of a shard at the latest ``evaluation`` of the dual over the corpus; a pickle leaves them out."""

    evaluation: int = 0
    posterior: Posterior | None = None

    def __reduce__(self) -> tuple[type[Latest], tuple[()]]:
        return Latest, ()


@briefly_shown
class Step(NamedTuple):
    """The arguments that the E-step of every shard has in common; sent once per call.

    ``prices`` are the multipliers of the rows that span the corpus, shape (n_rows,), or None; ``mixture`` replaces
    them at gamma <= 0. ``evaluation`` counts those of the dual over the corpus, from 1; 0 if none is under way.

    Attributes
    ----------
    model, params
    gamma : float
    estep : EStep
    prices : ndarray of shape (n_rows,), or None
        Nats per unit.
    mixture : CorpusMixture or None
    evaluation : int
    """

    model: Any
    params: Any
    gamma: float
    estep: EStep
    prices: Floats | None = None
    mixture: CorpusMixture | None = None
    evaluation: int = 0


class Posterior(NamedTuple):
    """Posteriors of a shard under constraints.

    ``value`` is the value of the dual, nats, without the bounds and the slack of rows over the corpus; ``left_out`` the
    rows of ``inside`` that cannot hold, and ``skipped`` in how many instances, by the name of the constraint.
    """

    value: float
    marginals: Parts
    violation: float = 0.0
    multipliers: Floats | None = None
    skipped: Counter[str] | None = None
    left_out: Ints | None = None


def pose_shard(numbered: Numbered, model: Any, constrained: bool = True) -> Posed:
    """A shard's structure and weights, and how often instances count in constraints, if there are any."""
    shard, number = numbered
    structure = model.structure(shard)
    weights, counts = weights_of(model, shard, structure), counts_of(model, shard)
    if counts is None or not constrained or np.array_equal(counts, weights):
        return Posed(shard, number, structure, weights)
    return Posed(shard, number, structure, counts, objective_weights=weights)


def with_rows(posed: Posed, model: Any, constraints: Constraints, facts: CorpusFacts, n_rows: int) -> Posed:
    """A shard with its own rows and its part of those over the corpus."""
    columns = columns_of(model, posed.shard)
    rows = compile_shard(constraints, facts, posed.number, posed.structure, columns, posed.weights)
    inside, given = rows.inside, given_of(model, posed.shard)
    if is_known(model, posed.shard):
        given = np.ones(posed.structure.n_instances, np.bool_)
    if given is not None and len(inside.bounds):
        # rows of a single instance leave alone what is given; those of several are held against it
        instance = inside.row_instance
        inside = inside.pick((instance < 0) | ~given[np.maximum(instance, 0)])
    alone = len(facts.n_instances) == 1 or posed.structure.instance_name in columns
    where = "" if alone else f" (instances are counted from 0 in shard {posed.number})"
    posed = replace(posed, inside=inside if len(inside.bounds) else None, where=where)
    if not n_rows:
        return posed
    flipped = sp.csr_array(rows.matrix.T)
    index = np.int32 if n_rows < 2**31 else np.int64
    columns_over_corpus = rows.present[flipped.indices].astype(index)
    transpose = sp.csr_array(
        (flipped.data, columns_over_corpus, flipped.indptr.astype(index)), shape=(posed.structure.n_unary, n_rows)
    )
    return replace(posed, across=rows.matrix, present=rows.present, transpose=transpose)


def posed_of(shard: Posed | Numbered, step: Step, facts: CorpusFacts | None) -> Posed:
    """A shard with its structure and rows, which are made for one use where they are not kept."""
    if isinstance(shard, Posed):
        return shard
    assert facts is not None
    return with_rows(pose_shard(shard, step.model), step.model, step.estep.constraints, facts, 0)


def expect(shard: Posed | Numbered, step: Step, facts: CorpusFacts | None = None) -> Any:
    """The E-step of a shard, an `EStepResult`; pure.

    With ``warm_start`` it stands in a pair with the shard, which then has the multipliers to start from next time.
    """
    posed, model, params, estep = posed_of(shard, step, facts), step.model, step.params, step.estep
    scores = posed.scores
    if scores is None:
        scores = _skewed(model.scores(params, posed.shard), posed.shard, step)
    projected = posterior(posed if posed.scores is scores else replace(posed, scores=scores), step)
    value, free_value, marginals = objective_of(posed, step, scores, projected)
    if posed.objective_weights is not None and not is_known(model, posed.shard):
        # Those of shared factors come multiplied by counts, and enter the statistics by weights.
        marginals = Parts(marginals.unary, tuple(estep.weight * factor for factor in marginals.factors))
    known_already = step.gamma == 1.0 and hasattr(model, "is_free") and model.is_free(posed.shard)
    normaliser = free_value if known_already else 0.0
    if not known_already and hasattr(model, "log_normaliser"):
        normaliser = float(model.log_normaliser(params, posed.shard))
    expected = EStepResult(
        model.gather(params, posed.shard, marginals),
        value - normaliser,
        free_value - normaliser,
        projected.violation,
        projected.skipped or Counter(),
    )
    if not estep.warm_start:
        return expected
    return expected, replace(posed, multipliers=projected.multipliers, scores=None, latest=None)


def objective_of(posed: Posed, step: Step, scores: Parts, projected: Posterior) -> tuple[float, float, Parts]:
    """The objective of a shard with the cost of its constraints and without, nats, and what the M-step sees.

    With counts c, weights w and scores s of instances, and the value of the dual, the cost of the constraints is
    ``sum c smax(s) - value``, and the objective ``sum w smax(s)`` less ``alpha * weight`` times this cost.
    """
    weights, alpha = posed.objective_weights, step.estep.alpha
    if step.prices is None and posed.inside is None and weights is None:
        return projected.value, projected.value, projected.marginals
    values, marginals = posed.structure.smoothed_max(scores, max(step.gamma, 0.0), weights=posed.weights)
    counted, share = float(posed.weights @ values), alpha * step.estep.weight
    free = counted if weights is None else float(weights @ values)
    mixed = (
        marginals.map(lambda p, q: (1 - alpha) * p + alpha * q, projected.marginals)
        if alpha < 1
        else projected.marginals
    )
    return (1 - share) * counted + share * projected.value + (free - counted), free, mixed


def scores_of(posed: Posed, step: Step) -> Parts:
    """Scores of the shard under the model, skewed toward a reference at gamma > 1; nats."""
    if posed.scores is not None:
        return posed.scores
    return _skewed(step.model.scores(step.params, posed.shard), posed.shard, step)


def _skewed(scores: Parts, shard: Any, step: Step) -> Parts:
    if step.estep.reference is None or step.gamma <= 1:
        return scores
    return skew(scores, step.estep.reference(shard), step.gamma)


def posterior(posed: Posed, step: Step) -> Posterior:
    """Posteriors of a shard at fixed prices of the rows that span the corpus."""
    latest = posed.latest
    if latest is not None and latest.evaluation == step.evaluation > 0 and latest.posterior is not None:
        return latest.posterior
    if step.mixture is not None:
        result = _mixed(posed, step, step.mixture)
    else:
        scores = scores_of(posed, step)
        if step.prices is not None:
            scores = Parts(less_cost(posed, scores.unary, step.prices), scores.factors)
        if posed.inside is not None:
            result = _projected(posed, posed.inside, scores, step)
        else:
            from spectrem.inference.dual import refuse_impossible

            values, marginals = posed.structure.smoothed_max(scores, max(step.gamma, 0.0), weights=posed.weights)
            refuse_impossible(values)
            result = Posterior(float(posed.weights @ values), marginals)
    if latest is not None and step.evaluation:
        latest.evaluation, latest.posterior = step.evaluation, result
    return result


def _projected(posed: Posed, rows: Rows, scores: Parts, step: Step) -> Posterior:
    """Posteriors of a shard under the rows that lie in it."""
    from spectrem.inference import project_batch

    estep = step.estep

    try:
        projection = project_batch(
            posed.structure, scores, rows, step.gamma,
            solver=estep.solver if step.prices is None else None,
            start=posed.multipliers,
            weights=posed.weights,
            # The solver of the dual over the corpus treats these values as exact.
            tol=estep.tol if step.prices is None else estep.tol / 10,
            infeasible=estep.infeasible,
        )  # fmt: skip
    except InfeasibleConstraintError as error:
        if not posed.where:
            raise
        located = InfeasibleConstraintError(f"{error}{posed.where}")
        located.keys = error.keys
        raise located from error
    skipped: Counter[str] = Counter()
    for block in rows.blocks:
        left_out = projection.skipped[(projection.skipped >= block.start) & (projection.skipped < block.stop)]
        if len(left_out):
            skipped[block.name] = len(np.unique(rows.row_instance[left_out]))
    return Posterior(
        projection.dual_value,
        projection.marginals,
        projection.violation,
        projection.multipliers,
        skipped,
        projection.skipped,
    )


def multipliers_of(shard: Any) -> Floats | None:
    """The multipliers that a shard keeps from one iteration to the next."""
    return shard.multipliers if isinstance(shard, Posed) else None


def with_multipliers(shard: Any, multipliers: Floats | None) -> Any:
    """The shard with these multipliers to start from."""
    return replace(shard, multipliers=multipliers)


def _mixed(posed: Posed, step: Step, mixture: CorpusMixture) -> Posterior:
    """Best structures at several multipliers, in a mixture or one per instance.

    The value is 0 here: the caller knows that of the whole corpus.
    """
    structure = posed.structure
    marginals, violation, skipped, left_out = no_parts(structure), 0.0, Counter[str](), None
    if mixture.weights is not None:
        # With the weights that the points were evaluated with: rows that tie instances would else be looser.
        shares = mixture.weights[:, posed.number if mixture.weights.shape[1] > 1 else 0]
        pieces = ((posed, share, share) for share in shares)
    else:
        point = np.zeros(structure.n_instances, np.int64)
        instances, points = mixture.choices[posed.number]
        point[instances] = points
        taken = ((point == k).astype(np.float64) for k in range(len(mixture.points)))
        # Weights select the instances whose expected counts of shared factors are counted.
        pieces = ((replace(posed, weights=posed.weights * mask), mask[structure.instance], 1.0) for mask in taken)
    for prices, (part, share, of_factors) in zip(mixture.points, pieces, strict=True):
        if np.any(share):
            piece_posterior = posterior(part, step._replace(prices=prices, mixture=None, evaluation=0))
            marginals.add(piece_posterior.marginals, share, of_factors)
            violation = max(violation, piece_posterior.violation)
            skipped, left_out = piece_posterior.skipped or skipped, piece_posterior.left_out
    return Posterior(0.0, marginals, violation, None, skipped, left_out)


def less_cost(posed: Posed, scores: Floats, prices: Floats) -> Floats:
    """``scores - U^T prices`` with U the rows that span the corpus, nats."""
    assert posed.transpose is not None
    out = np.empty_like(scores)
    less_prices(posed.transpose.indptr, posed.transpose.indices, posed.transpose.data, prices, scores, out)
    return out


def expectation(posed: Posed, marginals: Parts) -> RowSum:
    """``U mu`` of the rows that span the corpus, instances counted by their weights."""
    assert posed.across is not None
    assert posed.present is not None
    assert posed.transpose is not None
    unary = marginals.unary
    if not (posed.weights == 1.0).all():
        unary = posed.weights[posed.structure.instance] * unary
    return RowSum(((posed.present, posed.across @ unary),), posed.transpose.shape[1])


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
        If the shapes of the reference differ from those of the scores, or it holds NaN or +inf.

    Examples
    --------
    >>> skew(Parts(np.zeros(2)), Parts(np.array([-1.0, -np.inf])), 3.0).unary
    array([ -2., -inf])
    """
    factors = reference.factors or tuple(np.zeros_like(factor) for factor in scores.factors)
    names = ["unary", *(f"factors[{k}]" for k in range(len(scores.factors)))]
    for name, logs, score in zip(names, [reference.unary, *factors], [scores.unary, *scores.factors], strict=True):
        if logs.shape != score.shape or not (logs < np.inf).all():
            raise InvalidInputError(
                f"reference: {name} must be {score.shape} logarithms of probabilities, -inf or finite, got shape "
                f"{logs.shape} with {int((~(logs < np.inf)).sum())} values that are NaN or +inf; "
                "return log r on the structure of the model"
            )
    share = gamma - 1.0
    return scores.map(lambda s, r: s + share * r, Parts(reference.unary, factors))
