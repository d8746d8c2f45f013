"""One `HMMTagger.fit`: from text and settings to trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from spectrem._arrays import Floats
from spectrem._validate import as_generator
from spectrem.constraints import check_values
from spectrem.corpus import Corpus
from spectrem.estimators.conventions import check_words_to_learn
from spectrem.estimators.model_tables import table_priors
from spectrem.estimators.probability_tables import Trained, log_likelihood, train_from_starts
from spectrem.estimators.tagging.coding import Coding, learn_coding
from spectrem.estimators.tagging.decoding import log_likelihoods
from spectrem.estimators.tagging.parameters import TABLES, check_size
from spectrem.estimators.tagging.start import Start, make_reference
from spectrem.estimators.tagging.tables import restrictions
from spectrem.estimators.tagging.text import LabelledText
from spectrem.estimators.training import estep_of
from spectrem.learning import EStep
from spectrem.models.tagging import HMMModel, HMMParameters, TagKernel, TagShard, build_shards
from spectrem.structures import Parts


def train(
    tagger: Any, text: LabelledText, weights: Floats, place: Callable[[Iterable[TagShard]], Corpus]
) -> tuple[Coding, Trained]:
    """Train with the settings of a HMMTagger, which have been checked.

    Parameters
    ----------
    tagger : HMMTagger
    text : LabelledText
    weights : ndarray of shape (n_sentences,)
    place : callable
        A function from shards to the corpus that keeps them.

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
    labelled = bool((text.labelled() | (text.lengths == 0)).all())

    def likelihood(params: HMMParameters) -> float:
        return corpus.sum(log_likelihood, log_likelihoods, TagKernel(model).table(params, 1.0))

    begin = partial(start.parameters, rng)
    return coding, train_from_starts(tagger, model, corpus, begin, estep, likelihood, labelled=labelled)


def _estep(tagger: Any, model: HMMModel, reference: HMMParameters | Callable[[TagShard], Parts] | None) -> EStep:
    if not tagger.constraints and not callable(reference):
        return EStep(kernel=TagKernel(model, reference))
    if isinstance(reference, HMMParameters):
        reference = partial(model.scores, reference)
    return estep_of(tagger, reference=reference)
