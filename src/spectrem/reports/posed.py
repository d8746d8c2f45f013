"""The constraints of a whole corpus under given parameters, by one sum over its shards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.corpus import Corpus
from spectrem.exceptions import Unconverged
from spectrem.learning import EStep, Expectations, Posed, PosedCorpus, Step, posterior
from spectrem.learning.estep import Numbered, expectation, posed_of, scores_of
from spectrem.models.estep import RowSum
from spectrem.reports.constraints import ConstraintSummary, summarise
from spectrem.reports.rows import ConstraintReport, report_rows, report_weighted
from spectrem.structures import Parts

LONGEST = 1000
"""Constraints of more rows than this are summarised."""


def report_posed(
    posed: PosedCorpus, step: Step, shards: Corpus | None = None
) -> tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]:
    """Reports of the constraints of a corpus, by one E-step without statistics.

    The results are the same wherever the shards live.

    Parameters
    ----------
    posed : PosedCorpus
        With the multipliers of the last E-step, from which those over the corpus go on.
    step : Step
        Model, parameters, gamma and constraints.
    shards : Corpus, optional
        Given where the constraints over the corpus are solved already: `PosedCorpus.at_prices` gave it with ``step``.

    Returns
    -------
    reports : tuple of ConstraintReport
        Reports of the constraints that span the corpus and have at most `LONGEST` rows.
    summaries : tuple of ConstraintSummary
        Summaries of longer ones, then of those inside instances and groups of them; shards whose structures are known
        have none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Unconverged)  # training has warned already
        if shards is None:
            shards, step = posed.at_prices(step)
        total = shards.sum(_measure, step, posed.facts)
    return _reports(posed, total, step.prices)


def report_expectations(
    posed: PosedCorpus, model: Any, theta: Floats, criterion: Expectations, estep: EStep
) -> tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]:
    """Reports of the constraints of a criterion of expectations, and the expected values under the model.

    Expected values before and after are the same here; prices are the derivatives of the costs.

    Parameters
    ----------
    posed : PosedCorpus
    model : LogLinearModel
    theta : ndarray of shape (n_weights,)
    criterion : Expectations
    estep : EStep
        With the constraints.

    Returns
    -------
    reports : tuple of ConstraintReport
    summaries : tuple of ConstraintSummary
        As of `report_posed`.
    """
    step, prices = Step(model, theta, 1.0, estep), None
    total = posed.shards.sum(_measure_expectations, step, criterion, posed.facts)
    if posed.rows is not None and total.after is not None:
        prices = criterion.costs(posed.rows.blocks, total.after.dense, posed.rows.bounds).price
    return _reports(posed, total, prices)


def _reports(
    posed: PosedCorpus, total: _Measured, prices: Floats | None
) -> tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]:
    """Reports and summaries of what was measured, at the prices of the rows that span the corpus."""
    across: tuple[ConstraintReport, ...] = ()
    if posed.rows is not None and total.before is not None and total.after is not None:
        prices = np.full(len(posed.rows.bounds), np.nan) if prices is None else prices
        across = report_rows(posed.rows, prices, total.before.dense, total.after.dense)
    long = [summarise(report) for report in across if len(report.bound) > LONGEST]
    inside = [report for report in total.inside if report.n_rows + report.n_left_out]
    return tuple(report for report in across if len(report.bound) <= LONGEST), (*long, *inside)


@dataclass(frozen=True)
class _Measured:
    """The constraints in some shards; a value with ``+``.

    ``inside`` has an entry per constraint, or none where no shard has any; ``before`` and ``after`` are expectations of
    the rows over the corpus.
    """

    inside: tuple[ConstraintSummary, ...]
    before: RowSum | None = None
    after: RowSum | None = None

    def __add__(self, other: _Measured) -> _Measured:
        both = zip_longest(self.inside, other.inside)
        inside = tuple(a if b is None else b if a is None else a + b for a, b in both)
        if self.before is None or other.before is None or self.after is None or other.after is None:
            return _Measured(inside)
        return _Measured(inside, self.before + other.before, self.after + other.after)


def _measure(shard: Posed | Numbered, step: Step, facts: CorpusFacts | None) -> _Measured:
    """The constraints of a shard, under the model alone and as they are met."""
    posed = posed_of(shard, step, facts)
    scores = scores_of(posed, step)
    projection = posterior(replace(posed, scores=scores), step)
    free = posed.structure.smoothed_max(scores, max(step.gamma, 0.0))[1]
    return _measured(posed, free, projection.marginals, projection.multipliers, projection.left_out)


def _measure_expectations(
    shard: Posed | Numbered, step: Step, criterion: Expectations, facts: CorpusFacts | None
) -> _Measured:
    """The constraints of a shard under the model."""
    from spectrem.learning.ascent import inside_costs  # and with it log-linear models

    posed = posed_of(shard, step, facts)
    _, marginals = posed.structure.smoothed_max(step.model.scores(step.params, posed.shard), 1.0)
    prices = None if posed.inside is None else inside_costs(posed, marginals, criterion).price
    return _measured(posed, marginals, marginals, prices)


def _measured(posed: Posed, before: Parts, after: Parts, prices: Floats | None, out: Ints | None = None) -> _Measured:
    """The constraints of a shard under two distributions, at prices of the rows inside, of which some are left out."""
    inside: tuple[ConstraintSummary, ...] = ()
    if posed.inside is not None:
        rows = posed.inside
        prices = np.full(len(rows.bounds), np.nan) if prices is None else prices
        reports = report_weighted(rows, posed.structure, posed.weights, prices, before.unary, after.unary)
        left_out = np.zeros(len(rows.bounds), np.bool_)
        left_out[[] if out is None else out] = True
        inside = tuple(
            summarise(report, left_out[block.start : block.stop])
            for report, block in zip(reports, rows.blocks, strict=True)
        )
    if posed.across is None:
        return _Measured(inside)
    return _Measured(inside, expectation(posed, before), expectation(posed, after))
