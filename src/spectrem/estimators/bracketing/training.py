"""One `BracketingModel.fit`: from sentences and settings to trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from spectrem._arrays import Floats
from spectrem.constraints import check_values
from spectrem.corpus import Corpus
from spectrem.estimators.bracketing.decoding import log_likelihoods
from spectrem.estimators.bracketing.input import SpanCoding, learn_spans
from spectrem.estimators.bracketing.parameters import span_smoothing
from spectrem.estimators.probability_tables import Trained, log_likelihood, train_from_starts
from spectrem.estimators.tagging.text import LabelledText
from spectrem.estimators.training import estep_of
from spectrem.exceptions import InvalidInputError
from spectrem.models.bracketing import (
    BracketShard,
    ConstituentContextModel,
    SpanParameters,
    start_from,
    tree_scores,
)
from spectrem.structures import Parts


def train(
    estimator: Any, text: LabelledText, weights: Floats, place: Callable[[Iterable[BracketShard]], Corpus]
) -> tuple[SpanCoding, Trained]:
    """Train with the settings of a BracketingModel, which have been checked.

    Parameters
    ----------
    estimator : BracketingModel
    text : LabelledText
    weights : ndarray of shape (n_sentences,)
    place : callable
        A function from shards to the corpus that keeps them.

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
    likelihood = partial(corpus.sum, log_likelihood, log_likelihoods, model)
    return coding, train_from_starts(
        estimator, model, corpus, partial(_start, estimator, model, corpus), estep, likelihood
    )


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
