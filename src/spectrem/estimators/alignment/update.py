"""A WordAligner that learns from more text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from spectrem.data import Bitext
from spectrem.estimators.alignment.decoding import SAMPLE, sample_pairs
from spectrem.estimators.alignment.esteps import choose_estep, general_estep
from spectrem.estimators.alignment.knowledge import given_counts, listed_pairs
from spectrem.estimators.alignment.known_links import KnownLinks
from spectrem.estimators.alignment.posteriors import choose_threshold
from spectrem.estimators.alignment.report import report_fit
from spectrem.estimators.alignment.text import Lines, count_sides, read_training, recode, unseen_pairs
from spectrem.estimators.conventions import as_fitted, take_course
from spectrem.estimators.declare import check_parameters
from spectrem.estimators.homes import beside, make_corpus
from spectrem.estimators.shared_parameters import check_one_gamma
from spectrem.estimators.training import run_stage
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, Step, Stopping
from spectrem.models.alignment import (
    Continuation,
    expect_new_words,
    shards_to_train,
    splice,
    tabulate_pairs,
)


def update(
    aligner: Any,
    source: Bitext | Lines,
    target: Lines | None,
    known: KnownLinks | None,
    anchors: KnownLinks | None,
    sample_weight: ArrayLike | None,
) -> None:
    """Train a fitted aligner on more text, with what it knows as pseudo-counts; see `spectrem.WordAligner.update`.

    The work is that of the new text. The model takes part where its entries are looked up, and once at the end, when
    those that are new are put among them.
    """
    check_parameters(aligner)
    check_one_gamma(aligner)
    _check_unchanged(aligner)
    bitext, weights, held, n_skipped = read_training(aligner, source, target, known, anchors, sample_weight)
    table = tabulate_pairs(bitext)  # what meets by chance here may be translations that the model knows
    given = given_counts(aligner, table, bitext.source_vocabulary, bitext.target_vocabulary)
    old, strength = aligner.params_, aligner.update_strength
    unseen = replace(
        unseen_pairs(as_fitted(aligner)), stem_strength=aligner.stem_strength, cognate_strength=aligner.cognate_strength
    )
    new = Continuation.of(unseen, old, bitext, table, weights, strength, given)
    corpus = make_corpus(aligner, shards_to_train(bitext, table, weights, held))
    table, priors = beside(corpus, (table, new.priors))
    trained = aligner.model_
    listed = listed_pairs(aligner, bitext.source_vocabulary, bitext.target_vocabulary)
    model = replace(
        trained, table=table, forward_prior=priors[0], backward_prior=priors[1], kept=new.kept, listed=listed
    )
    gammas = list((aligner.schedule or Constant(aligner.gamma)).gammas())
    stopping = Stopping(aligner.update_iterations, aligner.tol)
    estep = choose_estep(aligner, model, min(gammas))
    result = run_stage(aligner, model, corpus, new.params, estep, "update", stopping=stopping)
    table, params, vocabularies = splice(
        aligner.table_, old, (aligner.source_vocabulary_, aligner.target_vocabulary_), new, result.params
    )
    own = recode(bitext, vocabularies)
    counts = count_sides(own)
    for now, before in zip(counts, (aligner.source_counts_, aligner.target_counts_), strict=True):
        now[: len(before)] += before
    aligner.source_vocabulary_, aligner.target_vocabulary_ = vocabularies
    aligner.source_counts_, aligner.target_counts_ = counts
    aligner.table_, aligner.n_skipped_ = table, n_skipped
    aligner.model_ = replace(trained, table=table, listed=listed_pairs(aligner, *vocabularies))
    aligner.params_ = expect_new_words(params, *counts)
    aligner.gamma_, aligner.n_given_ = gammas[-1], int((new.found[given.entries] < 0).sum())
    if aligner.threshold != "auto":
        aligner.threshold_ = aligner.threshold
    elif len(sample_pairs(weights)) == SAMPLE:
        aligner.threshold_ = choose_threshold(aligner, own, weights, held)
    take_course(aligner, list(result.history), result.status)
    # Rows over the corpus belong to its shards, and these to the new text alone.
    if result.posed.rows is None:
        model, params = aligner.model_, aligner.params_
    else:
        params = result.params
    step = Step(model, params, aligner.gamma_, general_estep(aligner, aligner.gamma_))
    aligner.report_ = report_fit(aligner, own, weights, held, step, result.posed, result.history)


def _check_unchanged(aligner: Any) -> None:
    """Raise unless the model is still of the kind that was trained, and knows the counts behind its probabilities."""
    sides = aligner.params_.forward, aligner.params_.backward
    model, jump = aligner.model_, sides[0].max_jump
    trained = "hmm" if model.chain else "ibm2" if model.learn_positions else "ibm1"
    for name, value in (("model", trained), ("max_jump", jump), ("null_probability", sides[0].null_probability)):
        if getattr(aligner, name) != value:
            raise InvalidInputError(
                f"{name} must be {value!r} as when the model was trained, got {getattr(aligner, name)!r}; set it back, "
                "or fit on all text"
            )
    if any(side.totals is None for side in sides):
        raise InvalidInputError(
            "update needs the counts behind the model's probabilities, which files saved by earlier versions lack; fit "
            "and save it again"
        )
