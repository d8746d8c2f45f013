"""The constraints of a whole corpus under given parameters, by one sum over its shards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.exceptions import Unconverged
from spectrem.learning import Posed, PosedCorpus, Step, posterior
from spectrem.learning.estep import expectation, scores_of
from spectrem.learning.posed_corpus import Numbered, pose_anew
from spectrem.models.estep import RowSum
from spectrem.reports.constraints import ConstraintReport, report_corpus_rows, report_weighted
from spectrem.reports.summaries import ConstraintSummary, summarise

LONGEST = 1000
"""Constraints of more rows than this are summarised."""


def report_posed(posed: PosedCorpus, step: Step) -> tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]:
    """What the constraints of a corpus demand and cost, by one E-step without statistics.

    The results are the same wherever the shards live.

    Parameters
    ----------
    posed : PosedCorpus
        With the multipliers of the last E-step, from which those over the corpus go on.
    step : Step
        Model, parameters, gamma and constraints.

    Returns
    -------
    reports : tuple of ConstraintReport
        Reports of the constraints that span the corpus and have at most `LONGEST` rows.
    summaries : tuple of ConstraintSummary
        Summaries of longer ones, then of those inside instances and groups of them; shards whose structures are known
        have none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Unconverged)  # training has said it
        if posed.facts is not None:
            total = posed.shards.sum(_measure_anew, step, posed.facts)
        else:
            shards, step = posed.at_prices(step)
            total = shards.sum(_measure, step)
    across: tuple[ConstraintReport, ...] = ()
    if posed.rows is not None and total.before is not None and total.after is not None:
        prices = np.full(len(posed.rows.bounds), np.nan) if step.prices is None else step.prices
        across = report_corpus_rows(posed.rows, prices, total.before.dense, total.after.dense)
    blocks = () if posed.rows is None else posed.rows.blocks
    long = [summarise(a, b.slack is not None) for a, b in zip(across, blocks, strict=True) if len(a.bound) > LONGEST]
    inside = [own for own in total.inside if own.n_rows + own.n_left_out]
    return tuple(own for own in across if len(own.bound) <= LONGEST), (*long, *inside)


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


def _measure(posed: Posed, step: Step) -> _Measured:
    """The constraints of a shard, under the model alone and as they are met."""
    found, scores = posterior(posed, step), scores_of(posed, step)
    free = posed.structure.smoothed_max(scores, max(step.gamma, 0.0))[1]
    inside: tuple[ConstraintSummary, ...] = ()
    if posed.inside is not None:
        rows, prices = posed.inside, found.multipliers
        prices = np.full(len(rows.bounds), np.nan) if prices is None else prices
        reports = report_weighted(rows, posed.structure, posed.weights, prices, free.unary, found.marginals.unary)
        left_out = np.zeros(len(rows.bounds), np.bool_)
        left_out[[] if found.left_out is None else found.left_out] = True
        inside = tuple(
            summarise(own, block.slack is not None, left_out[block.start : block.stop])
            for own, block in zip(reports, rows.blocks, strict=True)
        )
    if posed.across is None:
        return _Measured(inside)
    return _Measured(inside, expectation(posed, free), expectation(posed, found.marginals))


def _measure_anew(numbered: Numbered, step: Step, facts: CorpusFacts) -> _Measured:
    return _measure(pose_anew(numbered, step, facts), step)
