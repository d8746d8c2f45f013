"""One `HMMTagger.fit`: from text and settings to trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import check_values
from spectrem.corpus import Corpus
from spectrem.estimators.homes import stage_folder
from spectrem.estimators.tagger_coding import Coding, learn_coding
from spectrem.estimators.tagger_decode import log_likelihood
from spectrem.estimators.tagger_input import LabelledText
from spectrem.estimators.tagger_settings import check_size
from spectrem.estimators.tagger_start import Start, make_reference
from spectrem.estimators.tagger_tables import restrictions, table_priors
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, FitResult, Stopping, keep_best, run_em
from spectrem.models.tagging import HMMModel, HMMParameters, TagKernel, TagShard, build_shards
from spectrem.structures import Parts


@dataclass(frozen=True, eq=False)
class Trained:
    """What training leaves behind."""

    coding: Coding
    result: FitResult[HMMParameters]
    log_likelihood: float


def train(
    tagger: Any,
    text: LabelledText,
    weights: NDArray[np.float64],
    place: Callable[[Iterable[TagShard]], Corpus],
) -> Trained:
    """Train with the settings of a HMMTagger, which have been checked.

    Parameters
    ----------
    tagger : HMMTagger
    text : LabelledText
    weights : ndarray of shape (n_sentences,)
    place : callable
        From shards to the corpus that learning works on.

    Raises
    ------
    InvalidInputError
        If settings and text do not fit each other.
    """
    if not text.words:
        raise InvalidInputError(
            f"sentences must hold at least one word to train on, got {len(text.lengths)} sentences without any"
        )
    coding = learn_coding(
        text,
        tags=tagger.tags,
        n_states=tagger.n_states,
        dictionary=tagger.dictionary,
        vocabulary=tagger.vocabulary,
        unknown=tagger.unknown,
        min_count=tagger.min_count,
    )
    check_size(len(coding.tags), tagger.order)
    check_values(tagger.constraints, "tag", coding.tag_values)
    if coding.names.words is not None:
        check_values(tagger.constraints, "word", [*coding.names.words, coding.names.unknown], every=False)
    lexicon, entries = coding.encode(text)
    priors = table_priors(tagger.prior, tagger.smoothing)
    model = HMMModel(
        lexicon,
        tagger.order,
        initial_prior=priors["initial"],
        transition_prior=priors["transition"],
        emission_prior=priors["emission"],
        restrictions=restrictions(coding, tagger.order, tagger.fixed, tagger.transition_mask),
        names=coding.names,
    )
    labelled = text.labelled()
    corpus = place(build_shards(lexicon, text.lengths, entries, weights, known=labelled))
    reference = make_reference(tagger.reference, coding, model, text.lengths)
    start = Start(
        tagger.init,
        tagger.perturbation,
        tagger.init_smoothing,
        coding,
        model,
        corpus,
        place(
            build_shards(
                lexicon, text.lengths[labelled], entries[np.repeat(labelled, text.lengths)], weights[labelled]
            )
        ) if labelled.any() else None,
    )  # fmt: skip
    result = _best(tagger, model, corpus, start, reference)
    return Trained(coding, result, corpus.sum(log_likelihood, TagKernel(model).table(result.params, 1.0)))


def _best(
    tagger: Any,
    model: HMMModel,
    corpus: Corpus,
    start: Start,
    reference: HMMParameters | Callable[[TagShard], Parts] | None,
) -> FitResult[HMMParameters]:
    """The result of the restart whose last objective is the largest."""
    rng = np.random.default_rng(tagger.random_state)

    def run(number: int) -> FitResult[HMMParameters]:
        return run_em(
            model,
            corpus,
            start.parameters(rng),
            _estep(tagger, model, reference),
            schedule=tagger.schedule or Constant(tagger.gamma),
            stopping=Stopping(tagger.max_iter, tagger.tol),
            on_iteration=tagger.on_iteration,
            checkpoint=stage_folder(tagger, f"start-{number + 1}"),
        )

    runs = [partial(run, number) for number in range(tagger.n_init)]
    # warnings belong to the line that calls `fit`
    return keep_best(runs, lambda result: result.history[-1].objective, stacklevel=4)


def _estep(tagger: Any, model: HMMModel, reference: HMMParameters | Callable[[TagShard], Parts] | None) -> EStep:
    if not tagger.constraints and not callable(reference):
        return EStep(kernel=TagKernel(model, reference))
    if isinstance(reference, HMMParameters):
        reference = partial(model.scores, reference)
    return EStep(
        tagger.constraints,
        warm_start=True,
        dual_steps=tagger.dual_steps or None,
        reference=reference,
        infeasible=tagger.infeasible,
    )
