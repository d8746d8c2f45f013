"""From a model and a shard of sentences to tags, posteriors and log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints import check_values, compile_constraints
from spectrem.constraints.constraint import AnyConstraint
from spectrem.exceptions import InvalidInputError
from spectrem.execution import Executor
from spectrem.inference import Infeasible
from spectrem.learning import ProjectedEStep
from spectrem.models.tagging import CompiledEStep, HMMModel, HMMParameters, TagShard
from spectrem.structures import Parts, Structure

# On the multipliers of constraints over the sentences to tag, which have no iteration before to start from.
_DUAL_STEPS = 100
# What an impossible event costs in a sentence that cannot do without: 230 nats.
_TINY = 1e-100
# What it counts as when models are compared: 20.7 nats, and a table of a million words still sums to 1.001.
_RARE = 1e-9


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

    offsets: NDArray[np.int64]
    states: NDArray[np.int64]
    probability: NDArray[np.float64]

    def best(self) -> NDArray[np.int64]:
        """Most probable state of every token, the lowest among equals."""
        if not len(self.states):
            return np.zeros(0, np.int64)
        top = np.maximum.reduceat(self.probability, self.offsets[:-1])
        at = np.flatnonzero(self.probability == np.repeat(top, np.diff(self.offsets)))
        return self.states[at[np.searchsorted(at, self.offsets[:-1])]]

    def dense(self, n_states: int) -> NDArray[np.float64]:
        """As an array of shape (n_tokens, n_states)."""
        table = np.zeros((len(self.offsets) - 1, n_states))
        token = np.repeat(np.arange(len(table)), np.diff(self.offsets))
        table[token, self.states] = self.probability
        return table


def best_states(
    tagger: Any, model: HMMModel, shards: Sequence[TagShard], executor: Executor
) -> Iterator[NDArray[np.int64]]:
    """States of every token, shard after shard, as the settings of a fitted HMMTagger say."""
    if tagger.decode == "viterbi" and not _projects(tagger):
        return executor.map(partial(viterbi, model, tagger.params_), shards)
    found = marginals_of(tagger, model, shards, executor, exact=tagger.decode == "viterbi")
    return (marginals.best() for marginals in found)


def marginals_of(
    tagger: Any, model: HMMModel, shards: Sequence[TagShard], executor: Executor, *, exact: bool = False
) -> Iterator[Marginals]:
    """Posteriors of every shard or, if ``exact``, indicators of the best sequences that meet the constraints."""
    params, constraints = tagger.params_, tagger.constraints
    if not _projects(tagger):
        return executor.map(partial(posteriors, model, params), shards)
    check_values(constraints, "tag", tagger.coding_.tag_values)
    if exact:
        _check_inside(model, params, shards[0], constraints)
    gamma = -np.inf if exact else tagger.gamma_
    return projected(model, params, shards, constraints, gamma, tagger.infeasible, executor)


def posteriors(model: HMMModel, params: HMMParameters, shard: TagShard) -> Marginals:
    """p(state | sentence) of every token; of impossible sentences, with impossible events made improbable."""
    structure, scores = model.scores(params, shard)
    values, marginals = structure.smoothed_max(scores, 1.0)
    found = as_marginals(model, shard, marginals)
    impossible = np.isneginf(values)
    if impossible.any():
        again = posteriors(model, floored(params), pick(shard, impossible))
        token = np.repeat(impossible, shard.lengths)
        found.probability[np.repeat(token, np.diff(found.offsets))] = again.probability
    return found


def viterbi(model: HMMModel, params: HMMParameters, shard: TagShard) -> NDArray[np.int64]:
    """The best sequence of states; of impossible sentences, with the fewest impossible events."""
    structure, scores = model.scores(params, shard)
    states = structure.decode(scores)
    impossible = states < 0
    if impossible.any():
        sentences = np.zeros(len(shard.lengths), np.bool_)
        sentences[np.repeat(np.arange(len(sentences)), shard.lengths)[impossible]] = True
        states[np.repeat(sentences, shard.lengths)] = viterbi(model, floored(params), pick(shard, sentences))
    return states


def log_likelihoods(
    model: HMMModel, params: HMMParameters, shards: Sequence[TagShard], executor: Executor, *, finite: bool = False
) -> Iterator[NDArray[np.float64]]:
    """log p(sentence) of every sentence, shard after shard, nats; -inf if impossible.

    If ``finite``, models can be compared on text that they were not trained on. In sentences that are impossible,
    events of probability 0 then count as 1e-9. A word never seen counts as one more word of the vocabulary, as probable
    as the average one, whatever its tag: for nothing, a model would be the better the fewer words it knows.
    """
    table = CompiledEStep(model).table(params, 1.0)
    found = executor.map(lambda shard: table.expected_counts(shard.lengths, shard.entries, shard.weights)[0], shards)
    return _made_finite(model, params, shards, found, executor) if finite else found


def _made_finite(
    model: HMMModel,
    params: HMMParameters,
    shards: Sequence[TagShard],
    found: Iterator[NDArray[np.float64]],
    executor: Executor,
) -> Iterator[NDArray[np.float64]]:
    unseen = -np.log(model.lexicon.n_words + 1.0)
    for shard, values in zip(shards, found, strict=True):
        impossible = np.isneginf(values)
        if impossible.any():
            own = [pick(shard, impossible)]
            values = np.where(impossible, 0.0, values)
            values[impossible] = next(log_likelihoods(model, floored(params, _RARE), own, executor))
        sentence = np.repeat(np.arange(len(shard.lengths)), shard.lengths)
        never = model.lexicon.entry_words[shard.entries] < 0
        yield values + unseen * np.bincount(sentence, never, len(values))


def weighted_sum(weights: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Sum in which weight 0 leaves out even -inf."""
    counted = weights > 0
    return float(np.sum(weights[counted] * values[counted]))


def projected(
    model: HMMModel,
    params: HMMParameters,
    shards: Sequence[TagShard],
    constraints: Sequence[AnyConstraint],
    gamma: float,
    infeasible: Infeasible,
    executor: Executor,
) -> Iterator[Marginals]:
    """Posteriors projected onto constraints, shard after shard; constraints over the corpus span all shards."""
    estep = ProjectedEStep(_MarginalReader(model), constraints, infeasible=infeasible, dual_steps=_DUAL_STEPS)
    task = estep.prepare(floored(params), gamma, shards, executor)

    def run(item: tuple[int, TagShard]) -> Marginals:
        return as_marginals(model, item[1], task.run(*item, None).stats)

    return executor.map(run, list(enumerate(shards)))


@dataclass(frozen=True, eq=False)
class _MarginalReader:
    """A model whose statistics are the marginals themselves."""

    model: HMMModel

    def scores(self, params: HMMParameters, shard: TagShard) -> tuple[Structure, Parts]:
        return self.model.scores(params, shard)

    def gather(self, params: HMMParameters, shard: TagShard, marginals: Parts) -> Parts:
        return marginals

    def columns(self, shard: TagShard) -> Mapping[str, NDArray]:
        return self.model.columns(shard)

    def weights(self, shard: TagShard) -> NDArray[np.float64]:
        return shard.weights

    def is_known(self, shard: TagShard) -> bool:
        return shard.known


def _projects(tagger: Any) -> bool:
    return tagger.project_at_predict and bool(tagger.constraints)


def _check_inside(
    model: HMMModel, params: HMMParameters, shard: TagShard, constraints: Sequence[AnyConstraint]
) -> None:
    """Raise unless all constraints are inside sentences."""
    structure, _ = model.scores(params, shard)
    rows = compile_constraints(constraints, structure, model.columns(shard))
    across = next((block.name for block in rows.blocks if block.scope == "corpus"), None)
    if across is not None:
        raise InvalidInputError(
            f"decode must be 'posterior' where project_at_predict meets constraints over the corpus ({across!r}): the "
            "best sequences that meet them are out of reach; set decode='posterior'"
        )


def as_marginals(model: HMMModel, shard: TagShard, marginals: Parts) -> Marginals:
    """Marginals of a structure that `HMMModel.scores` made, with the states they belong to."""
    lexicon = model.lexicon
    starts = lexicon.entry_offsets[shard.entries]
    widths = lexicon.entry_offsets[shard.entries + 1] - starts
    offsets = np.concatenate([[0], np.cumsum(widths)])
    states = lexicon.entry_states[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], widths)]
    return Marginals(offsets, states, marginals.unary)


def floored(params: HMMParameters, least: float = _TINY) -> HMMParameters:
    """Parameters under which every sentence is possible, and others are as probable as they were."""
    second = None if params.second is None else np.maximum(params.second, least)
    return HMMParameters(
        np.maximum(params.initial, least),
        np.maximum(params.transition, least),
        second,
        np.maximum(params.emission, least),
    )


def pick(shard: TagShard, sentences: NDArray[np.bool_]) -> TagShard:
    """Some sentences of a shard."""
    return replace(
        shard,
        lengths=shard.lengths[sentences],
        entries=shard.entries[np.repeat(sentences, shard.lengths)],
        weights=shard.weights[sentences],
        sentences=shard.sentences[sentences],
    )
