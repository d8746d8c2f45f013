"""The report of the training of a WordAligner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Local
from spectrem.data import Bitext
from spectrem.estimators.alignment.decoding import sample_pairs
from spectrem.estimators.alignment.parameters import rules_of
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.learning import PosedCorpus, Record, Step, pose
from spectrem.models.alignment import Anchors, PairTable, iter_shards
from spectrem.reports import (
    ConstraintReport,
    ConstraintSummary,
    FitReport,
    OnDemand,
    gamma_course,
    report_posed,
    report_training,
)

# Pairs of more possible links are left out of the sample: the general E-step takes some hundred bytes for each.
_MOST_CELLS = 1 << 16


def report_fit(
    aligner: Any,
    bitext: Bitext,
    weights: Floats,
    held: Anchors | None,
    step: Step,
    posed: PosedCorpus,
    last_stage: Sequence[Record],
) -> FitReport:
    """The report of an aligner that has learned its parameters.

    Constraints over the corpus are reported at once, by one more sum over it. Where all lie inside sentence pairs, a
    sum would cost as much as an iteration; they are summarised when the report is read, over a sample of the pairs.

    Parameters
    ----------
    aligner : WordAligner
    bitext : Bitext
        The training pairs.
    weights : ndarray of shape (n_pairs,)
    held : Anchors, optional
        Known links of the pairs; where all are, no constraint concerns a pair.
    step : Step
        The general E-step at the parameters that were learned.
    posed : PosedCorpus
        The corpus as the last E-step left it.
    last_stage : sequence of Record
    """
    notes = [f"{aligner.n_skipped_} sentence pairs too long, not trained on"] * (aligner.n_skipped_ > 0)
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: Sequence[ConstraintSummary] = ()
    if posed.rows is not None:
        constraints, summaries = report_posed(posed, step)
    elif step.estep.constraints:
        free = np.ones(bitext.n_pairs, np.bool_) if held is None else ~held.complete
        cells = bitext.source_lengths * bitext.target_lengths
        pairs = sample_pairs(np.where(free & (cells <= _MOST_CELLS), weights, 0.0))
        anchors = None if held is None else held.take(pairs)
        sample = _Sample(bitext.take(pairs), weights[pairs], anchors, aligner.table_, step, aligner.n_threads or 1)
        summaries = OnDemand(sample.summaries)
        if len(pairs) < free.sum():
            notes.append(f"constraints are summarised over a sample of {len(pairs)} sentence pairs")
    return report_training(
        aligner,
        bitext.n_pairs,
        {
            "model": aligner.model,
            "constraints": constraint_names(rules_of(aligner)),
            "gamma": gamma_course(last_stage, aligner.gamma),
        },
        constraints,
        notes=tuple(notes),
        unit="sentence pairs",
        summaries=summaries,
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """Sentence pairs of the training text, and the step at which their constraints are summarised."""

    bitext: Bitext
    weights: Floats
    anchors: Anchors | None
    table: PairTable
    step: Step
    n_threads: int

    def summaries(self) -> Sequence[ConstraintSummary]:
        """One entry per constraint."""
        corpus = Local(list(iter_shards(self.bitext, self.table, self.weights, self.anchors)), self.n_threads)
        return report_posed(pose(self.step.model, corpus, self.step.estep), self.step)[1]
