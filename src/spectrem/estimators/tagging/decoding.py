"""From a model and a shard of sentences to tags, posteriors and log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints import check_values
from spectrem.corpus import Corpus
from spectrem.estimators.probability_tables import RARE, floored
from spectrem.estimators.projecting import collect_at_predict, projects
from spectrem.learning import Posed, Step, posterior
from spectrem.models.tagging import HMMModel, HMMParameters, TagKernel, TagShard
from spectrem.structures import Parts, TiedChain, TiedChain2


@dataclass(frozen=True, eq=False)
class Marginals:
    """Probabilities of the states of a shard's tokens.

    Attributes
    ----------
    offsets : ndarray of shape (n_tokens + 1,), int64
    states : ndarray of shape (n_parts,), int64
        States of token t are ``states[offsets[t]:offsets[t + 1]]``.
    probability : ndarray of shape (n_parts,)
    """

    offsets: Ints
    states: Ints
    probability: Floats

    def best(self) -> Ints:
        """Most probable state of every token, the lowest among equals."""
        if not len(self.states):
            return np.zeros(0, np.int64)
        top = np.maximum.reduceat(self.probability, self.offsets[:-1])
        at = np.flatnonzero(self.probability == np.repeat(top, np.diff(self.offsets)))
        return self.states[at[np.searchsorted(at, self.offsets[:-1])]]

    def dense(self, n_states: int) -> Floats:
        """As an array of shape (n_tokens, n_states)."""
        table = np.zeros((len(self.offsets) - 1, n_states))
        token = np.repeat(np.arange(len(table)), np.diff(self.offsets))
        table[token, self.states] = self.probability
        return table


def best_states(tagger: Any, model: HMMModel, corpus: Corpus) -> Iterator[Ints]:
    """States of every token, shard after shard, as the settings of a fitted HMMTagger say."""
    if tagger.decode == "viterbi" and not projects(tagger):
        return corpus.collect(viterbi, model, tagger.params_)
    found = marginals_of(tagger, model, corpus, exact=tagger.decode == "viterbi")
    return (marginals.best() for marginals in found)


def marginals_of(tagger: Any, model: HMMModel, corpus: Corpus, *, exact: bool = False) -> Iterator[Marginals]:
    """Posteriors of every shard or, if ``exact``, indicators of the best sequences that meet the constraints."""
    for name in ("tag", "label") if projects(tagger) else ():
        check_values(tagger.constraints, name, tagger.coding_.tag_values)
    best = "sequences" if exact else None
    return collect_at_predict(tagger, model, tagger.params_, corpus, posteriors, projected, floored=floored, best=best)


def posteriors(shard: TagShard, model: HMMModel, params: HMMParameters) -> Marginals:
    """p(state | sentence) of every token; of impossible sentences, with impossible events made improbable."""
    structure, scores = model.structure(shard), model.scores(params, shard)
    values, marginals = structure.smoothed_max(scores, 1.0)
    found = as_marginals(model, shard, marginals)
    impossible = np.isneginf(values)
    if impossible.any():
        again = posteriors(pick(shard, impossible), model, floored(params))
        token = np.repeat(impossible, shard.lengths)
        found.probability[np.repeat(token, np.diff(found.offsets))] = again.probability
    return found


def viterbi(shard: TagShard, model: HMMModel, params: HMMParameters) -> Ints:
    """The best sequence of states; of impossible sentences, with the fewest impossible events."""
    structure, scores = model.structure(shard), model.scores(params, shard)
    states = structure.decode(scores)
    impossible = states < 0
    if impossible.any():
        sentences = np.zeros(len(shard.lengths), np.bool_)
        sentences[np.repeat(np.arange(len(sentences)), shard.lengths)[impossible]] = True
        states[np.repeat(sentences, shard.lengths)] = viterbi(pick(shard, sentences), model, floored(params))
    return states


def log_likelihoods(shard: TagShard, table: TiedChain | TiedChain2) -> Floats:
    """log p(sentence) of every sentence of a shard, nats; -inf if impossible. ``table`` is that of gamma = 1."""
    return table.expected_counts(shard.lengths, shard.entries, shard.weights)[0]


def finite_log_likelihoods(
    shard: TagShard, model: HMMModel, params: HMMParameters, table: TiedChain | TiedChain2
) -> Floats:
    """Log-likelihoods that are always finite, so that models can be compared on text that they were not trained on.

    In sentences that are impossible, events of probability 0 count as 1e-9. A word never seen counts as one more word
    of the vocabulary, as probable as the average one, whatever its tag: if it counted for nothing, a model that knows
    fewer words would seem the better one.
    """
    values = log_likelihoods(shard, table)
    impossible = np.isneginf(values)
    if impossible.any():
        rare = TagKernel(model).table(floored(params, RARE), 1.0)
        values = np.where(impossible, 0.0, values)
        values[impossible] = log_likelihoods(pick(shard, impossible), rare)
    sentence = np.repeat(np.arange(len(shard.lengths)), shard.lengths)
    never = model.lexicon.entry_words[shard.entries] < 0
    return values - np.log(model.lexicon.n_words + 1.0) * np.bincount(sentence, never, len(values))


def projected(posed: Posed, step: Step) -> Marginals:
    """Posteriors of a shard under constraints."""
    return as_marginals(step.model, posed.shard, posterior(posed, step).marginals)


def as_marginals(model: HMMModel, shard: TagShard, marginals: Parts) -> Marginals:
    """Marginals of a structure that `HMMModel.structure` made, with the states they belong to."""
    layout = model.layout(shard)
    return Marginals(layout.offsets, layout.states, marginals.unary)


def pick(shard: TagShard, sentences: Bools) -> TagShard:
    """Some sentences of a shard."""
    return replace(
        shard,
        lengths=shard.lengths[sentences],
        entries=shard.entries[np.repeat(sentences, shard.lengths)],
        weights=shard.weights[sentences],
        instances=shard.instances[sentences],
        columns=shard.columns.take(np.flatnonzero(sentences), shard.lengths),
    )
