"""From a trained model and new sentences to tags, posteriors and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.crf.pairs import PairModel
from spectrem.estimators.crf.training import check_constraints, with_pairs
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, Posed, Step, pose, posterior
from spectrem.models.loglinear import LogLinearShard
from spectrem.structures.chains.n_best import n_best

# On the multipliers of constraints over the sentences to tag, which have no iteration before to start from.
_DUAL_STEPS = 100


def best_states(tagger: Any, corpus: Corpus) -> Iterator[Ints]:
    """States of every token, shard after shard, as the settings of a fitted CRFTagger say."""
    exact = tagger.decode == "viterbi"
    if exact and not _projects(tagger):
        return corpus.collect(viterbi, tagger.model_, tagger.theta_)
    return (table.argmax(axis=1) for table in posteriors_of(tagger, corpus, exact=exact))


def posteriors_of(tagger: Any, corpus: Corpus, *, exact: bool = False) -> Iterator[Floats]:
    """Posteriors of every shard, shape (n_tokens, n_tags), or indicators of best sequences that meet constraints."""
    model = tagger.model_
    if not _projects(tagger):
        return corpus.collect(posteriors, model, tagger.theta_)
    check_constraints(tagger.constraints, tagger.tags_)
    estep = EStep(tagger.constraints, infeasible=tagger.infeasible, dual_steps=_DUAL_STEPS)
    model = with_pairs(model, tagger.constraints)
    posed = pose(model, corpus, estep)
    if exact and posed.rows is not None:
        raise InvalidInputError(
            "decode must be 'posterior' where project_at_predict meets constraints over the corpus "
            f"({posed.rows.blocks[0].name!r}): the best sequences that meet them are out of reach; set "
            "decode='posterior'"
        )
    step = Step(model, tagger.theta_, -np.inf if exact else tagger.gamma_, estep)
    shards, step = posed.at_prices(step)
    return shards.collect(projected, step)


def viterbi(shard: LogLinearShard, model: Any, theta: Floats) -> Ints:
    """The best sequence of states of every sentence of a shard, flat."""
    return model.structure(shard).decode(model.scores(theta, shard))


def posteriors(shard: LogLinearShard, model: Any, theta: Floats) -> Floats:
    """p(state | sentence) of every token of a shard without labels."""
    _, marginals = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
    table: Floats = model.distributions(shard, marginals)
    return table


def projected(posed: Posed, step: Step) -> Floats:
    """Posteriors of a shard under constraints, shape (n_tokens, n_tags)."""
    table: Floats = step.model.distributions(posed.shard, posterior(posed, step).marginals)
    return table


def log_probabilities(shard: LogLinearShard, model: Any, theta: Floats) -> Floats:
    """log p(labels | sentence) of every sentence of a shard, nats; of partial labels, of all that they allow."""
    free = replace(shard, labels=None)
    values = (model.structure(own).smoothed_max(model.scores(theta, own), 1.0)[0] for own in (shard, free))
    return next(values) - next(values)


def best_sequences(shard: LogLinearShard, model: Any, theta: Floats, n: int) -> tuple[Floats, Ints]:
    """The n best sequences of every sentence, shape (n, n_tokens), and their log-probabilities, (n_sentences, n)."""
    normalisers, _ = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
    inside, edges = model, None
    if isinstance(model, PairModel):
        inside, edges = model.model, model.edge_table(theta, shard)
        theta = theta[: inside.n_weights]
    values, states = n_best(inside.structure(shard), inside.scores(theta, shard), n, edges)
    return values - normalisers[:, None], states


def _projects(tagger: Any) -> bool:
    return tagger.project_at_predict and bool(tagger.constraints)
