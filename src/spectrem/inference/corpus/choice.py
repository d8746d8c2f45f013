"""gamma = -inf over a corpus: whole structures that meet rows of corpus scope, chosen near the relaxation's prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows
from spectrem.exceptions import InfeasibleConstraintError, quoted, warn_unconverged
from spectrem.inference.batch import project_batch
from spectrem.inference.conflict import place_of
from spectrem.inference.corpus.dual import CorpusMixture
from spectrem.inference.dual import SlackTerms, compile_slack, row_maxima, shift_scores, sum_by
from spectrem.inference.program import Deadline, Program, compile_slack_variables, run_integer, write_program
from spectrem.inference.result import Infeasible, Status
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure

_ROUNDS = 3
_NODES = 200  # of a search: what lies deeper is not worth the wait
_MORE = 16  # points per round
_HOLDS = 1e-6  # violations relative to the size of a row: HiGHS' own tolerance


@dataclass(frozen=True)
class ShardVariants:
    """The structures among which the instances of a shard choose, with their scores and expectations.

    Attributes
    ----------
    score : float
        Of the instances that rows see no difference in, at the first point, nats.
    expectation : ndarray of shape (n_rows,)
        ``U h`` of those.
    instance : ndarray of shape (n_variants,), int64
        Increasing; every instance of the others has several variants.
    point : ndarray of shape (n_variants,), int64
        The first point at which the instance takes the variant.
    scores : ndarray of shape (n_variants,)
        Times the instance's weight, less what rows inside it cost, nats.
    expectations : csr_array of shape (n_variants, n_rows)
        Times the instance's weight.
    """

    score: float
    expectation: Floats
    instance: Ints
    point: Ints
    scores: Floats
    expectations: sp.csr_array


def find_variants(
    structure: Structure,
    scores: Parts,
    matrix: sp.csr_array,
    points: Floats,
    *,
    weights: Floats | None = None,
    inside: Rows | None = None,
    infeasible: Infeasible = "raise",
) -> ShardVariants:
    """The best structures at several points, without those that differ in nothing that rows of corpus scope see.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats.
    matrix : csr_array of shape (n_rows, n_unary)
        U of the rows of corpus scope.
    points : ndarray of shape (n_points, n_rows)
        Multipliers.
    weights : ndarray of shape (n_instances,) or None
    inside : Rows or None
        Rows inside instances, which the structures meet.
    infeasible : {"raise", "skip"}
        As in `project_batch`.

    Examples
    --------
    >>> from spectrem.structures import Categorical
    >>> found = find_variants(Categorical([2, 2]), Parts(np.array([1.0, 0.0, 5.0, 0.0])),
    ...                       sp.csr_array([[1.0, 0.0, 1.0, 0.0]]), np.array([[0.0], [2.0]]))
    >>> found.instance, found.point, found.scores, found.expectations.toarray().ravel(), found.score
    (array([0, 0]), array([0, 1]), array([1., 0.]), array([1., 0.]), 5.0)
    """
    n, n_rows = structure.n_instances, len(matrix.indptr) - 1
    weight = np.ones(n) if weights is None else weights
    transpose = sp.csr_array(matrix.T)
    entry_row = np.repeat(np.arange(n_rows), np.diff(matrix.indptr))
    owner = structure.instance[matrix.indices]
    # One number tells rows of expectations apart; structures that are best at some prices and equal there score alike.
    key = np.random.default_rng(0).normal(size=n_rows)
    mark, score = np.zeros((len(points), n)), np.zeros((len(points), n))
    expectations = []
    for k, point in enumerate(points):
        unary, values = _best(structure, shift_scores(scores, transpose, point), weights, inside, infeasible)
        score[k] = weight * (values + sum_by(structure.instance, (transpose @ point) * unary, n))
        data = matrix.data * unary[matrix.indices] * weight[owner]
        taken = data != 0
        counted = sp.csr_array((data[taken], (owner[taken], entry_row[taken])), shape=(n, n_rows))
        mark[k] = counted @ key
        expectations.append(counted)
    instance = np.tile(np.arange(n), len(points))
    order = np.lexsort((mark.ravel(), instance))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(instance[order]) != 0) | (np.diff(mark.ravel()[order]) != 0)
    kept = order[first]
    several = (np.bincount(instance[kept], minlength=n) > 1)[instance[kept]]
    chosen = np.sort(kept[several])
    chosen = chosen[np.argsort(instance[chosen], kind="stable")]
    fixed = np.ones(n, np.bool_)
    fixed[instance[chosen]] = False
    every = sp.csr_array(sp.vstack(expectations, format="csr"))
    return ShardVariants(
        float(score[0][fixed].sum()),
        fixed.astype(np.float64) @ expectations[0],
        instance[chosen],
        chosen // n if n else chosen,
        score.ravel()[chosen],
        sp.csr_array(every[chosen]),
    )


def _best(
    structure: Structure, scores: Parts, weights: Floats | None, inside: Rows | None, infeasible: Infeasible
) -> tuple[Floats, Floats]:
    """Indicators and scores of the best structures, less what rows inside instances cost."""
    if inside is None or not len(inside.bounds):
        values, marginals = structure.smoothed_max(scores, 0.0)
        return marginals.unary, values
    projection = project_batch(structure, scores, inside, -np.inf, weights=weights, infeasible=infeasible)
    terms = compile_slack(inside.blocks, inside.row_instance, structure.n_instances)
    best = projection.marginals.unary
    return best, projection.values - terms.cost(inside.matrix @ best - inside.bounds)


Variants = Callable[[Floats], Iterable[ShardVariants]]


def choose_structures(
    variants: Variants,
    mixture: CorpusMixture,
    rows: CorpusRows,
    *,
    tol: float = 1e-6,
    time_limit: float | None = None,
) -> CorpusMixture:
    """Whole structures for all instances that meet rows of corpus scope, near the optimum (gamma = -inf).

    The points of the linear program agree on almost all instances. The others choose among the structures that they
    have at these points and at some around them, by an integer program; what it finds is measured against the bound of
    the relaxation. While the gap is too wide, points from further around add structures to choose from.

    Use when gamma = -inf and corpus rows span several shards; `project_batch` is exact on a single batch.

    Parameters
    ----------
    variants : callable
        From points of shape (n_points, n_rows) to what `find_variants` gives for every shard, in order.
    mixture : CorpusMixture
        The solution of the linear program of the same rows.
    rows : CorpusRows
    tol : float
        Relative gap.
    time_limit : float or None
        Seconds for all integer programs, None for 300.

    Returns
    -------
    CorpusMixture
        With ``choices``, and ``CERTIFIED`` if the gap is within ``tol``.

    Raises
    ------
    InfeasibleConstraintError
        If no choice that meets the rows was found; the message names those that come nearest.
    InvalidInputError
        If a slack has an l2 norm.

    Warns
    -----
    ConvergenceWarning
        If the gap is above ``tol``.
    """
    terms = compile_slack(rows.blocks, np.zeros(len(rows.bounds), np.int64), 1)
    deadline = Deadline(time_limit)
    points = np.concatenate([mixture.multipliers[None], mixture.points])
    away = np.abs(points - mixture.multipliers).max(axis=0)
    away = np.maximum(away, 1e-4 * max(1e-3, float(np.abs(mixture.multipliers).max(initial=0.0))))
    rng = np.random.default_rng(0)
    best: CorpusMixture | None = None
    for _ in range(_ROUNDS):
        task = _Task(list(variants(points)), rows.bounds, terms)
        selection = task.solve(mixture.bound, tol, deadline)
        if selection is not None:
            choice = task.choice(selection, points, mixture, tol)
            best = choice if best is None or choice.value > best.value else best
            if best.gap <= tol:
                return best
        if not deadline.left:
            break
        around = mixture.multipliers + away * rng.normal(size=(_MORE, len(rows.bounds)))
        points = np.concatenate([points, [terms.project(point) for point in around]])
        away = 4.0 * away
    if best is None:
        raise InfeasibleConstraintError(task.describe(rows.blocks, deadline))
    warn_unconverged(
        f"whole structures that meet the constraints over the corpus were found, but not proven to be the best: they "
        f"may miss {best.gap:.2g} of the objective; raise tol, or use gamma = 0",
    )
    return best


class _Selection(NamedTuple):
    taken: Ints
    value: float
    excess: Floats


class _Task:
    """The integer program of some variants."""

    def __init__(self, shards: list[ShardVariants], bounds: Floats, terms: SlackTerms) -> None:
        self.shards, self.bounds, self.terms = shards, bounds, terms
        self.scores = np.concatenate([shard.scores for shard in shards])
        self.table = sp.csr_array(sp.vstack([shard.expectations for shard in shards], format="csr"))
        self.score = sum(shard.score for shard in shards)
        self.rest = bounds - np.sum([shard.expectation for shard in shards], axis=0)
        members, n = [], 0
        for shard in shards:
            _, member = np.unique(shard.instance, return_inverse=True)
            members.append(n + member)
            n += int(member.max(initial=-1)) + 1
        self.member, self.n_members = np.concatenate(members).astype(np.int64), n
        largest = np.abs(self.rest) + np.asarray(abs(self.table).sum(axis=0), np.float64).ravel()
        self.slack = compile_slack_variables(terms, largest)
        self.slack.refuse_curved()
        peak = row_maxima(sp.csr_array(self.table.T)) if len(self.scores) else largest
        self.unit = np.where(peak > 0, peak, np.maximum(1.0, np.abs(self.rest)))

    def program(self, cost: Floats, slack_cost: Floats, constant: float) -> Program:
        """Over the variants, and a variable that is 1 and carries the constant."""
        n = len(cost)
        members = np.append(self.member, self.n_members), np.arange(n + 1)
        program = write_program(
            cost=np.append(cost, constant),
            upper=np.ones(n + 1),
            body=sp.csr_array(sp.hstack([self.table.T, sp.csr_array((len(self.bounds), 1))], format="csr")),
            bounds=self.rest,
            equality=self.terms.equality,
            shapes=sp.csr_array((np.ones(n + 1), members), shape=(self.n_members + 1, n + 1)),
            ones=np.ones(self.n_members + 1),
            slack=replace(self.slack, cost=slack_cost),
        )
        return program.scaled(1.0 / self.unit, np.ones(len(program.cost)))

    def solve(self, bound: float, tol: float, deadline: Deadline) -> _Selection | None:
        """The best choice that meets the rows, or None."""
        tops = np.full(self.n_members, -np.inf)
        np.maximum.at(tops, self.member, self.scores)
        program = self.program(tops[self.member] - self.scores, self.slack.cost, max(1.0, abs(bound)))
        result = run_integer(program, len(self.scores), deadline.left, gap=0.1 * tol, nodes=_NODES)
        if result.x is None:
            return None
        choice = self.read(result.x)
        size = np.maximum(np.abs(self.bounds), self.unit)
        return choice if self.terms.worst_violation(choice.excess, size)[0] <= _HOLDS else None

    def read(self, x: Floats) -> _Selection:
        taken = np.flatnonzero(x[: len(self.scores)] > 0.5)
        excess = np.asarray(self.table[taken].sum(axis=0), np.float64).ravel() - self.rest
        value = float(self.score + self.scores[taken].sum() - self.terms.cost(excess)[0])
        return _Selection(taken, value, excess)

    def choice(self, selection: _Selection, points: Floats, mixture: CorpusMixture, tol: float) -> CorpusMixture:
        edges = np.cumsum([len(shard.instance) for shard in self.shards])
        taken = np.split(selection.taken, np.searchsorted(selection.taken, edges[:-1]))
        picked = [
            (shard.instance[variants], shard.point[variants])
            for shard, stop, taken_there in zip(self.shards, edges, taken, strict=True)
            for variants in [taken_there - stop + len(shard.instance)]
        ]
        used = np.unique(np.concatenate([np.zeros(1, np.int64), *(point for _, point in picked)]))
        gap = (mixture.bound - selection.value) / max(1.0, abs(mixture.bound))
        return replace(
            mixture,
            points=points[used],
            weights=None,
            choices=tuple((at[point > 0], np.searchsorted(used, point[point > 0])) for at, point in picked),
            value=selection.value,
            gap=gap,
            status=Status.CERTIFIED if gap <= tol else Status.MAX_ITERATIONS,
            violation=float(self.terms.worst_violation(selection.excess)[0]),
            expectation=selection.excess + self.bounds,
        )

    def describe(self, blocks: tuple[Block, ...], deadline: Deadline) -> str:
        """The rows that the choice nearest to meeting them misses."""
        exact = self.program(np.zeros(len(self.scores)), np.zeros(len(self.slack.cost)), 0.0)
        elastic = exact.elastic(np.ones(len(self.bounds)))
        result = run_integer(elastic, len(self.scores), min(5.0, deadline.left), gap=0.01, nodes=_NODES)
        missed = []
        if result.x is not None:
            selection = self.read(result.x)
            over = self.terms.violation(selection.excess) * ~self.terms.penalised
            for block in blocks:
                for row in block.start + np.flatnonzero(over[block.start : block.stop] > _HOLDS):
                    k = int(row) - block.start
                    sign = -1.0 if block.senses[k] == ">=" else 1.0
                    nearest, limit = sign * (selection.excess[row] + self.bounds[row]), sign * self.bounds[row]
                    missed.append(
                        f"{quoted(block.name)} {place_of(block, k, -1)} comes to {nearest:g} ({block.senses[k]} "
                        f"{limit:g})"
                    )
        shown = "; ".join(missed[:3]) + (f" and {len(missed) - 3} more rows" if len(missed) > 3 else "")
        return (
            f"{shown or ', '.join(repr(block.name) for block in blocks)}: no choice of whole structures that meets the "
            "constraints over the corpus was found, though expectations can meet them; relax the bound, give the "
            "constraint slack (a penalty or a bound), or use gamma = 0"
        )
