"""A shard's part in the dual of constraints that span the corpus, and in proofs that they cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats
from spectrem.constraints.compilation.rows import CorpusRows, no_rows
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.learning.estep import Latest, Posed, Step, expectation, less_cost, posterior, scores_of
from spectrem.learning.model import is_known
from spectrem.models.estep import RowSum
from spectrem.structures import Parts

if TYPE_CHECKING:
    from spectrem.inference import ShardVariants


def with_scores(posed: Posed, step: Step) -> Posed:
    """The shard with its scores, which stay while multipliers over the corpus are optimised."""
    return replace(posed, scores=scores_of(posed, step), latest=Latest())


@dataclass(frozen=True)
class DualSum:
    """Sum over instances of ``smax_gamma(s - U^T lambda)``, nats, and ``U mu``; a value with ``+``."""

    value: float
    expectation: RowSum

    @property
    def dense(self) -> tuple[float, Floats]:
        """The value and the expectations of all rows, shape (n_rows,)."""
        return self.value, self.expectation.dense

    def __add__(self, other: DualSum) -> DualSum:
        return DualSum(self.value + other.value, self.expectation + other.expectation)


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


def gathered(scored: Corpus, together: bool, f: Callable[..., DualSum], *broadcast: Any) -> tuple[Floats, Floats]:
    """Values and expectations of every shard, or, ``together``, their sum as a single row."""
    found = [scored.sum(f, *broadcast)] if together else list(scored.collect(f, *broadcast))
    values, expectations = zip(*(own.dense for own in found), strict=True)
    return np.array(values), np.array(expectations)


def evaluate_shard(posed: Posed, step: Step) -> DualSum:
    """The contribution of a shard to the dual over the corpus and to its gradient."""
    found = posterior(posed, step)
    return DualSum(found.value, expectation(posed, found.marginals))


def evaluate_and_keep(posed: Posed, step: Step) -> tuple[DualSum, Posed]:
    """The same, and the shard with its own multipliers to start from next time, wherever it lives."""
    found = posterior(posed, step)
    kept = replace(posed, multipliers=found.multipliers, latest=None)
    return DualSum(found.value, expectation(posed, found.marginals)), kept


def curvature_of(posed: Posed, step: Step) -> Floats:
    """The second derivatives of a shard's value in the prices, at its own multipliers; NaN where they are not known."""
    from spectrem.inference.corpus.curvature import curvature_of_batch

    structure, across, prices = posed.structure, posed.transpose, step.prices
    assert across is not None
    assert prices is not None
    if is_known(step.model, posed.shard):
        return np.zeros((len(prices), len(prices)))
    scores = scores_of(posed, step)
    shifted = Parts(less_cost(posed, scores.unary, prices), scores.factors)
    inside = no_rows(structure.n_unary) if posed.inside is None else posed.inside
    own = np.zeros(0) if posed.multipliers is None else posed.multipliers
    return curvature_of_batch(structure, shifted, inside, own, step.gamma, posed.weights, across)


def support_of(posed: Posed, step: Step, direction: Floats) -> DualSum:
    """``sum over instances of max over structures of -direction . U h``, for proofs that rows cannot hold, and U h.

    Rows inside the shard enter by their multipliers at the prices of ``step``, scaled like the direction. Any
    multipliers give an upper bound on the maximum under these rows; these ones give a close one where prices diverge.
    """
    from spectrem.inference.oracle import possible_parts
    from spectrem.inference.slack import compile_slack

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
        own, copies = terms.recession(multipliers) / largest, np.append(weights, 1.0)
        unary = unary - inside.matrix.T @ own
        added = float(copies @ terms.value(own) + (copies[owner] * inside.bounds) @ own)
    values, marginals = structure.smoothed_max(Parts(unary, possible.factors), 0.0)
    return DualSum(float(weights @ values + added), expectation(posed, marginals))


def variants_of(posed: Posed, step: Step, points: Floats) -> ShardVariants:
    """The structures that instances take at several multipliers of the rows over the corpus, where these differ.

    Raises
    ------
    InvalidInputError
        If constraints tie instances of the shard, whose structures can then not be chosen one by one.
    """
    from spectrem.inference import find_variants

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
    from spectrem.inference.slack import compile_slack

    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    return float(terms.worst_violation(excess, np.maximum(1.0, np.abs(rows.bounds)))[0])
