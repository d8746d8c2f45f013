"""One `BracketingModel.fit`: from sentences and settings to trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from spectrem._arrays import Floats
from spectrem.constraints import check_values
from spectrem.corpus import Corpus
from spectrem.estimators.bracketing.decoding import floored, log_likelihood
from spectrem.estimators.bracketing.input import SpanCoding, learn_spans
from spectrem.estimators.bracketing.parameters import span_smoothing
from spectrem.estimators.tagging.text import LabelledText
from spectrem.estimators.training import estep_of, run_stage
from spectrem.exceptions import InvalidInputError
from spectrem.learning import FitResult, Step
from spectrem.models.bracketing import (
    BracketShard,
    ConstituentContextModel,
    SpanParameters,
    start_from,
    tree_scores,
)
from spectrem.reports import ConstraintReport, ConstraintSummary, report_posed
from spectrem.structures import Parts


class Trained(NamedTuple):
    """The result of training.

    Attributes
    ----------
    coding : SpanCoding
    result : FitResult
    log_likelihood : float
        Of the sentences, nats.
    constraints : tuple of ConstraintReport
        Reports of the constraints over the corpus, at the parameters learned.
    summaries : tuple of ConstraintSummary
        Summaries of the constraints inside sentences, and of longer ones.
    """

    coding: SpanCoding
    result: FitResult[SpanParameters]
    log_likelihood: float
    constraints: tuple[ConstraintReport, ...]
    summaries: tuple[ConstraintSummary, ...]


def train(
    estimator: Any, text: LabelledText, weights: Floats, place: Callable[[Iterable[BracketShard]], Corpus]
) -> Trained:
    """Train with the settings of a BracketingModel, which have been checked.

    Parameters
    ----------
    estimator : BracketingModel
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
        If settings and sentences do not fit each other.
    """
    coding, shards = learn_spans(text, weights)
    for column in ("first", "last", "before", "after"):
        check_values(estimator.constraints, column, coding.names)
    model = make_model(estimator, coding)
    corpus = place(shards)
    estep = estep_of(estimator, reference=_split_reference if estimator.reference == "split" else None)
    result = run_stage(estimator, model, corpus, _start(estimator, model, corpus), estep)
    value = corpus.sum(log_likelihood, model, result.params)
    step = Step(model, floored(result.params, 1e-100), result.history[-1].gamma, estep)
    return Trained(coding, result, value, *(report_posed(result.posed, step) if estep.constraints else ((), ())))


def make_model(estimator: Any, coding: SpanCoding) -> ConstituentContextModel:
    """The model that the settings of an estimator describe."""
    smoothing = span_smoothing(estimator.smoothing)
    return ConstituentContextModel(coding.vocabulary, estimator.by_length, smoothing, coding.names)


def _start(estimator: Any, model: ConstituentContextModel, corpus: Corpus) -> SpanParameters:
    init = estimator.init
    if isinstance(init, str):
        return start_from(model, corpus, init)
    params: SpanParameters = getattr(init, "params_", init)
    shapes = (2, model.vocabulary.n_yields), (2, model.vocabulary.n_contexts)
    found = params.yields.shape, params.contexts.shape
    own = getattr(init, "coding_", None)
    if found != shapes or (own is not None and not _same(own, model)):
        raise InvalidInputError(
            f"init must have a probability for each yield and context of these sentences, arrays of shapes {shapes}, "
            f"got {found}{'' if own is None else ' of other spans'}; give a model that was fitted to the same sentences"
        )
    return params


def _same(coding: SpanCoding, model: ConstituentContextModel) -> bool:
    """Whether two vocabularies number the same spans of the same tags alike."""
    pairs = zip(vars(coding.vocabulary).items(), vars(model.vocabulary).items(), strict=False)
    return coding.names == model.names and all((a == b).all() for (_, a), (_, b) in pairs if hasattr(a, "all"))


def _split_reference(shard: BracketShard) -> Parts:
    return tree_scores(shard.lengths, "split")
