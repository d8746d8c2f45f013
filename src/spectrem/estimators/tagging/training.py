"""One `HMMTagger.fit`: from text and settings to trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from spectrem._arrays import Floats
from spectrem._validate import as_generator
from spectrem.constraints import check_values
from spectrem.corpus import Corpus
from spectrem.estimators.conventions import check_words_to_learn
from spectrem.estimators.model_tables import table_priors
from spectrem.estimators.tagging.coding import Coding, learn_coding
from spectrem.estimators.tagging.decoding import floored, log_likelihood
from spectrem.estimators.tagging.parameters import TABLES, check_size
from spectrem.estimators.tagging.start import Start, make_reference
from spectrem.estimators.tagging.tables import restrictions
from spectrem.estimators.tagging.text import LabelledText
from spectrem.estimators.training import best_start, estep_of, run_stage, warn_unused
from spectrem.learning import EStep, FitResult, Step
from spectrem.models.tagging import HMMModel, HMMParameters, TagKernel, TagShard, build_shards
from spectrem.reports import ConstraintReport, ConstraintSummary, report_posed
from spectrem.structures import Parts


class Trained(NamedTuple):
    """The result of training.

    Attributes
    ----------
    coding : Coding
    result : FitResult
        The result of the start whose last objective is the largest.
    log_likelihood : float
        The log-likelihood of the text, nats.
    constraints : tuple of ConstraintReport
        Reports of the constraints over the corpus, at the parameters learned.
    summaries : tuple of ConstraintSummary
        Summaries of the constraints inside sentences, and of longer ones.
    """

    coding: Coding
    result: FitResult[HMMParameters]
    log_likelihood: float
    constraints: tuple[ConstraintReport, ...]
    summaries: tuple[ConstraintSummary, ...]


def train(tagger: Any, text: LabelledText, weights: Floats, place: Callable[[Iterable[TagShard]], Corpus]) -> Trained:
    """Train with the settings of a HMMTagger, which have been checked.

    Parameters
    ----------
    tagger : HMMTagger
    text : LabelledText
    weights : ndarray of shape (n_sentences,)
    place : callable
        A function from shards to the corpus that keeps them.

    Returns
    -------
    Trained

    Raises
    ------
    InvalidInputError
        If settings and text do not fit each other.
    """
    check_words_to_learn("sentences", text.lengths, weights)
    coding = learn_coding(tagger, text)
    check_size(len(coding.tags), tagger.order)
    for name in ("tag", "label"):
        check_values(tagger.constraints, name, coding.tag_values)
    if coding.names.words is not None:
        check_values(tagger.constraints, "word", [*coding.names.words, coding.names.unknown], every=False)
    lexicon, entries = coding.encode(text)
    initial, transition, emission = table_priors(TABLES, tagger.prior, tagger.smoothing)
    rules = restrictions(coding, tagger.order, tagger.fixed, tagger.transition_mask)
    model = HMMModel(lexicon, tagger.order, initial, transition, emission, rules, coding.names)
    corpus = place(build_shards(lexicon, text.lengths, entries, weights, known=text.labelled()))
    estep = _estep(tagger, model, make_reference(tagger.reference, coding, model, text.lengths))
    start, rng = Start(tagger, coding, model, corpus), as_generator(tagger.random_state)

    def run(number: int) -> FitResult[HMMParameters]:
        return run_stage(tagger, model, corpus, start.parameters(rng), estep, f"start-{number + 1}")

    result = best_start(run, tagger.n_init)
    if (text.labelled() | (text.lengths == 0)).all() and not tagger.project_at_predict:
        warn_unused(tagger.constraints)
    value = corpus.sum(log_likelihood, TagKernel(model).table(result.params, 1.0))
    step = Step(model, floored(result.params), result.history[-1].gamma, estep)
    return Trained(coding, result, value, *(report_posed(result.posed, step) if estep.constraints else ((), ())))


def _estep(tagger: Any, model: HMMModel, reference: HMMParameters | Callable[[TagShard], Parts] | None) -> EStep:
    if not tagger.constraints and not callable(reference):
        return EStep(kernel=TagKernel(model, reference))
    if isinstance(reference, HMMParameters):
        reference = partial(model.scores, reference)
    return estep_of(tagger, reference=reference)
