"""From a model and a shard of sentences to brackets, posteriors of spans and log-likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.probability_tables import RARE, floored
from spectrem.estimators.projecting import collect_at_predict
from spectrem.learning import Posed, Step, posterior
from spectrem.models.bracketing import BracketShard, ConstituentContextModel, SpanParameters
from spectrem.structures import Bracketings, Parts


def bracket(estimator: Any, model: ConstituentContextModel, corpus: Corpus) -> Ints:
    """Constituents of two words and more of all sentences, as `Bracketings.decode` gives them."""
    params, exact = floored(estimator.params_), estimator.decode == "viterbi"
    free, best = (_best, "trees") if exact else (_most_expected, None)
    parts = collect_at_predict(estimator, model, params, corpus, free, _most_expected_projected, best=best)
    return np.concatenate([np.zeros((0, 2), np.int64), *parts])


def span_posteriors(estimator: Any, model: ConstituentContextModel, corpus: Corpus) -> Floats:
    """Probability of every span to be a constituent, shape (n_spans,)."""
    params = floored(estimator.params_)
    parts = collect_at_predict(estimator, model, params, corpus, _shares, _projected_shares)
    return np.concatenate([np.zeros(0), *parts])


def log_likelihoods(shard: BracketShard, model: ConstituentContextModel, params: SpanParameters) -> Floats:
    """Log-probabilities of the tags of every sentence, nats, always finite.

    In sentences that are impossible, events of probability 0 count as 1e-9. A yield or context never seen counts as
    one more event of its distribution, as probable as the average one, whatever its span is.
    """
    structure = model.structure(shard)
    values, _ = structure.smoothed_max(model.scores(params, shard), 1.0)
    impossible = np.isneginf(values)
    if impossible.any():
        again, _ = structure.smoothed_max(model.scores(floored(params, RARE), shard), 1.0, active=impossible)
        values = np.where(impossible, again, values)
    vocabulary = model.vocabulary
    start, end = structure.spans
    sizes = np.full(int(max(shard.lengths.max(initial=0), len(vocabulary.yield_offsets) - 1)), vocabulary.n_yields)
    if model.by_length:
        sizes[:] = 0
        sizes[: len(vocabulary.yield_offsets) - 1] = np.diff(vocabulary.yield_offsets)
    cost = np.where(shard.yields < 0, np.log(sizes[end - start - 1] + 1.0), 0.0)
    cost += np.where(shard.contexts < 0, np.log(vocabulary.n_contexts + 1.0), 0.0)
    return values - np.bincount(structure.instance[::2], cost, len(values))


def _best(shard: BracketShard, model: ConstituentContextModel, params: SpanParameters) -> Ints:
    return model.structure(shard).decode(model.scores(params, shard))


def _shares(shard: BracketShard, model: ConstituentContextModel, params: SpanParameters) -> Floats:
    _, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    return marginals.unary[::2]


def _most_expected(shard: BracketShard, model: ConstituentContextModel, params: SpanParameters) -> Ints:
    return _tree_of(shard.lengths, _shares(shard, model, params))


def _projected_shares(posed: Posed, step: Step) -> Floats:
    return posterior(posed, step).marginals.unary[::2]


def _most_expected_projected(posed: Posed, step: Step) -> Ints:
    """Of indicators of trees, which gamma -inf gives, the trees themselves."""
    return _tree_of(posed.shard.lengths, _projected_shares(posed, step))


def _tree_of(lengths: Ints, shares: Floats) -> Ints:
    """The trees with the largest sums of these shares."""
    scores = np.zeros((len(shares), 2))
    scores[:, 0] = shares
    return Bracketings(lengths).decode(Parts(scores.ravel()))
