"""Conditional random fields whose parts say a tag and the tag before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.groups import Coded
from spectrem.corpus import Corpus
from spectrem.models.estep import Statistics
from spectrem.models.loglinear.coordinates import Coordinates, Scales
from spectrem.models.loglinear.model import LogLinearModel
from spectrem.models.loglinear.optimise import m_step
from spectrem.models.loglinear.shards import LogLinearShard
from spectrem.models.loglinear.support import Support
from spectrem.structures import EdgeChain, Known, Parts, Structure


@dataclass(frozen=True, eq=False)
class PairModel:
    """A `LogLinearModel` of chains on an `EdgeChain`, which has the column ``previous`` and a score for every edge.

    Without ``edges`` the distribution is that of the model. Parameters are those of the model, then those of edges.

    Use when a constraint names two neighbouring tags, or when transitions depend on features; otherwise the model
    itself is cheaper.

    Parameters
    ----------
    model : LogLinearModel
        Of chains, without an intercept.
    edges : Support, optional
        Pairs of a feature of a token and of a transition to it, ``before * n_labels + tag``, that have a weight.
    """

    model: LogLinearModel
    edges: Support | None = None

    @property
    def n_weights(self) -> int:
        """The number of parameters."""
        return self.model.n_weights + (0 if self.edges is None else self.edges.n_weights)

    @property
    def n_penalised(self) -> int:
        """The number of parameters that the prior is on."""
        return self.n_weights

    def initial(self) -> Floats:
        """All weights 0."""
        return np.zeros(self.n_weights)

    def log_prior(self, theta: Floats) -> float:
        """Log-density of the weights, nats, up to a constant."""
        return -self.model.prior.penalty(theta)

    def structure(self, shard: LogLinearShard) -> Structure:
        """The chains of the model with a part for every pair of neighbouring tags."""
        chain, inside = self._pairs(shard), self.model.structure(shard)
        if not isinstance(inside, Known):
            return chain
        before = chain.part_before
        shares = inside.shares[chain.state_part] * np.where(before >= 0, inside.shares[before], 1.0)
        return Known(chain, shares, inside.counts)

    def scores(self, theta: Floats, shard: LogLinearShard) -> Parts:
        """Scores of all parts, nats: those of tags and, with ``edges``, of pairs."""
        n = self.model.n_weights
        scores = self.model.scores(theta[:n], shard)
        if shard.labels is None:
            table, first, kept = self.edge_table(theta, shard), *self._places(shard)
            table += scores.factors[0]
            table[first] = 0.0
            table += scores.unary.reshape(-1, 1, self.model.n_labels)
            return Parts(table[kept], (np.zeros_like(scores.factors[0]),))
        chain = self._pairs(shard)
        unary = scores.unary[chain.state_part]
        if self.edges is not None:
            table = np.zeros((shard.features.n_choices, self.edges.n_labels))
            self.edges.add_scores(shard.features, theta[n:], table)
            part, place = self._edge_places(chain)
            unary[part] += table.ravel()[place]
        return Parts(unary, scores.factors)

    def gather(self, theta: Floats, shard: LogLinearShard, marginals: Parts) -> Floats:
        """Expected values of all features."""
        n = self.model.n_weights
        if shard.labels is None:
            first, kept = self._places(shard)
            table = np.zeros(kept.shape)
            table[kept] = marginals.unary
            counts = self.model.gather(theta[:n], shard, Parts(table.sum(axis=1).ravel(), marginals.factors))
            table[first] = 0.0
            return self._with_edges(counts, shard, table)
        chain = self._pairs(shard)
        counts = self.model.gather(theta[:n], shard, _of_states(chain, marginals))
        part, place = self._edge_places(chain)
        table = np.zeros((shard.features.n_choices, self.model.n_labels, self.model.n_labels))
        table.ravel()[place] = marginals.unary[part]
        return self._with_edges(counts, shard, table)

    def distributions(self, shard: LogLinearShard, marginals: Parts) -> Floats:
        """The marginals of all tags of all tokens, shape (n_tokens, n_labels); 0 for those not allowed."""
        return self.model.distributions(shard, _of_states(self._pairs(shard), marginals))

    def moments(self, theta: Floats, shard: LogLinearShard) -> Statistics:
        """The log-normalisers of a shard, weighted, and their gradient, the expected values of all features."""
        if self.edges is None:
            return self.model.moments(theta, shard)
        free = replace(shard, labels=None)
        chain = self._pairs(free)
        values, marginals = chain.smoothed_max(self.scores(theta, free), 1.0, weights=shard.weights)
        return Statistics(value=float(shard.weights @ values), gradient=self.gather(theta, free, marginals))

    def log_normaliser(self, theta: Floats, shard: LogLinearShard) -> float:
        """Sum over sentences of weight times the log of the sum of ``exp(score)`` over all sequences, nats."""
        return self.moments(theta, shard).value

    def coordinates(self, scales: Scales, mean: Floats) -> Coordinates:
        """The variables of the M-step, from scales and means of features."""
        single = self.model.coordinates(scales, mean)
        if self.edges is None:
            return single
        return replace(single, scale=np.concatenate([single.scale, self.edges.per_weight(scales.features)]))

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """Weights that maximise ``theta . stats`` less the log-normaliser plus the log-prior, from ``theta`` on."""
        return m_step(self, theta, stats, corpus)

    def columns(self, shard: LogLinearShard) -> Mapping[str, Any]:
        """Those of the model, and by name the tag of every part and the tag before it, ``previous``."""
        columns: dict[str, Any] = dict(self.model.columns(shard))
        own = self._pairs(shard).columns
        tag, before = own["tag"].astype(np.int64), own["previous"]
        if self.model.names is None:
            return {**columns, "tag": tag, "previous": before}
        names, number = np.unique(np.asarray(self.model.names), return_inverse=True)
        codes = np.append(number, -1).astype(np.int32)  # that of a missing tag last
        columns["tag"] = Coded(names, codes[tag])
        columns["previous"] = Coded(names, codes[np.where(np.isnan(before), -1, before).astype(np.int64)])
        return columns

    def edge_table(self, theta: Floats, shard: LogLinearShard) -> Floats:
        """Scores of the transitions to every token by its features, shape (n_tokens, n_labels, n_labels)."""
        k = self.model.n_labels
        table = np.zeros((shard.features.n_choices, k * k))
        if self.edges is not None:
            self.edges.add_scores(shard.features, theta[self.model.n_weights :], table)
        return table.reshape(-1, k, k)

    def __getattr__(self, name: str) -> Any:
        """What is the same for both: weights of sentences, prior, optimiser, names."""
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def _pairs(self, shard: LogLinearShard) -> EdgeChain:
        assert shard.lengths is not None
        allowed = None if shard.labels is None else (shard.labels.offsets, shard.labels.labels)
        return EdgeChain(shard.lengths, self.model.n_labels, allowed)

    def _places(self, shard: LogLinearShard) -> tuple[Ints, Bools]:
        """First tokens of sentences, and which cells of a table of tokens and pairs of tags are parts, in their order.

        Of a shard where every token may have any tag. First tokens have parts for the tags after the first one.
        """
        assert shard.lengths is not None
        k = self.model.n_labels
        first = (np.cumsum(shard.lengths) - shard.lengths)[shard.lengths > 0]
        kept = np.ones((shard.features.n_choices, k, k), np.bool_)
        kept[first, 1:] = False
        return first, kept

    def _with_edges(self, counts: Floats, shard: LogLinearShard, table: Floats) -> Floats:
        """Counts of the model, and those of edges from shares of pairs, shape (n_tokens, n_labels, n_labels)."""
        if self.edges is None:
            return counts
        assert shard.lengths is not None
        weights, of_edges = np.repeat(shard.weights, shard.lengths), np.zeros(self.edges.n_weights)
        self.edges.add_counts(shard.features, table.reshape(len(table), -1) * weights[:, None], of_edges)
        return np.concatenate([counts, of_edges])

    def _edge_places(self, chain: EdgeChain) -> tuple[Ints, Ints]:
        """The parts that have a token before them, and the place of each in a table of tokens and transitions."""
        own, k = chain.columns, self.model.n_labels
        part = np.flatnonzero(chain.part_before >= 0)
        cell = own["previous"][part].astype(np.int64) * k + own["tag"][part].astype(np.int64)
        return part, own["occurrence"][part].astype(np.int64) * k * k + cell


def _of_states(chain: EdgeChain, marginals: Parts) -> Parts:
    """Marginals of the tags of every token, from those of pairs of tags."""
    return Parts(np.bincount(chain.state_part, marginals.unary).astype(np.float64), marginals.factors)
