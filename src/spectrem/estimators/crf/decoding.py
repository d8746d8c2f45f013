"""From a trained model and new sentences to tags, posteriors and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.crf.pairs import PairModel
from spectrem.estimators.crf.training import check_constraints, with_pairs
from spectrem.estimators.projecting import collect_at_predict, projects
from spectrem.learning import Posed, Step, posterior
from spectrem.models.loglinear import LogLinearShard
from spectrem.structures.chains.n_best import n_best


def best_states(tagger: Any, corpus: Corpus) -> Iterator[Ints]:
    """States of every token, shard after shard, as the settings of a fitted CRFTagger say."""
    exact = tagger.decode == "viterbi"
    if exact and not projects(tagger):
        return corpus.collect(viterbi, tagger.model_, tagger.theta_)
    return (table.argmax(axis=1) for table in posteriors_of(tagger, corpus, exact=exact))


def posteriors_of(tagger: Any, corpus: Corpus, *, exact: bool = False) -> Iterator[Floats]:
    """Posteriors of every shard, shape (n_tokens, n_tags), or indicators of best sequences that meet constraints."""
    model, best = tagger.model_, "sequences" if exact else None
    if projects(tagger):
        check_constraints(tagger.constraints, tagger.tags_)
        model = with_pairs(model, tagger.constraints)
    return collect_at_predict(tagger, model, tagger.theta_, corpus, posteriors, projected, best=best)


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
