"""Log-linear models of labels: maximum-entropy classifiers and linear-chain conditional random fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_bool
from spectrem.constraints.compilation.groups import Coded, Key
from spectrem.corpus import Corpus, Local
from spectrem.models.estep import Statistics
from spectrem.models.loglinear.features import Labels, LogLinearShard, Support
from spectrem.models.loglinear.optimise import Coordinates, Optimiser, Spread, WeightPrior, fit_known, m_step
from spectrem.structures import Categorical, Chain, EdgeChain, Known, Parts, Structure
from spectrem.structures._ragged import offsets_of, rows_of, runs_of

# Scores of chains that are worked on at once: a megabyte.
_AT_ONCE = 1 << 17


@briefly_shown
class Weights(NamedTuple):
    """The parts of the one flat array of parameters; views, so that what is written here is written there.

    Attributes
    ----------
    features : ndarray of shape (support.n_weights,)
    transitions : ndarray of shape (n_transitions,)
        Of chains; otherwise empty.
    intercept : ndarray of shape (support.n_labels,), or (0,) without one
    """

    features: Floats
    transitions: Floats
    intercept: Floats


@brief_dataclass(frozen=True, eq=False)
class LogLinearModel:
    """``p(y | x)`` in proportion to ``exp(theta . f(x, y))``, over labels or over sequences of labels.

    Parameters are one flat array, see `split`; so are statistics, the expected values of f, and gradients. The
    log-likelihood of labelled data is concave in them, and the M-step maximises it, or its expectation under
    posteriors, by a quasi-Newton method whose every evaluation is one sum over the corpus.

    Use when features overlap or are many, and some labels, partial labels or constraints are known.

    Parameters
    ----------
    support : Support
        The pairs of features and labels that have a weight.
    chain : bool
        Whether instances are sentences whose neighbouring labels have weights, as in a conditional random field.
    transitions : ndarray, int64, optional
        Of chains: the pairs of labels that have a weight, as ``before * n_labels + label``, increasing. By default
        all.
    possible : ndarray of shape (n_labels + 1, n_labels + 1), bool, optional
        Of chains: the labels that may follow each other, [from, to]; the last row says which may be first in a
        sentence, the last column which may be last. Other sequences have probability 0. By default all may.
    intercept : bool
        Whether every label has a weight of its own, without a prior.
    reference : bool
        Whether the first label has the score 0 (in chains: but for transitions) and the support is about the others
        only. With two labels, this is logistic regression as a difference of scores.
    prior : WeightPrior
        Of all weights but the intercept.
    optimiser : Optimiser
        How far the M-step goes.
    names : sequence of n_labels names, optional
        Of the labels, for the column ``label`` (chains: ``tag``) of constraints; by default their numbers.

    Examples
    --------
    >>> from spectrem.models.loglinear import Features, Labels, build_shards
    >>> model = LogLinearModel(Support(n_features=1, n_labels=2))
    >>> labels = Labels(np.array([0, 1, 2]), np.array([0, 1]), np.ones(2))
    >>> shards = build_shards(Features.of([[-1.0], [2.0]]), labels=labels, known=[True, True])
    >>> theta = model.fit(shards)
    >>> model.split(theta).features.round(3).tolist()
    [-0.503, 0.503]
    """

    support: Support
    chain: bool = False
    transitions: Ints | None = None
    possible: Bools | None = None
    intercept: bool = False
    reference: bool = False
    prior: WeightPrior = WeightPrior()
    optimiser: Optimiser = Optimiser()
    names: Sequence[Any] | NDArray | None = field(default=None)

    def __post_init__(self) -> None:
        as_bool(self.chain, "chain")
        as_bool(self.intercept, "intercept")
        as_bool(self.reference, "reference")

    @property
    def n_labels(self) -> int:
        return self.support.n_labels + self.reference

    @cached_property
    def _sizes(self) -> tuple[int, int, int]:
        k = self.n_labels
        n_transitions = 0 if not self.chain else k * k if self.transitions is None else len(self.transitions)
        return self.support.n_weights, n_transitions, self.support.n_labels if self.intercept else 0

    @property
    def n_weights(self) -> int:
        """The number of parameters."""
        return sum(self._sizes)

    def split(self, theta: Floats) -> Weights:
        """The parameters by what they belong to."""
        first, second, _ = self._sizes
        return Weights(theta[:first], theta[first : first + second], theta[first + second :])

    def initial(self) -> Floats:
        """All weights 0: every label is as probable as every other."""
        return np.zeros(self.n_weights)

    def structure(self, shard: LogLinearShard) -> Structure:
        """A label per row, or a chain of labels per sentence, among those that the shard allows or gives."""
        inside = self._structure(shard, shard.labels)
        if shard.labels is None or shard.labels.shares is None:
            return inside
        if not self.chain:
            return Known(inside, shard.labels.shares)
        (chain, pairs), k, before = self.known_pairs(shard), self.n_labels, shard.labels.labels
        later = np.flatnonzero(chain.part_before >= 0)
        cells = before[chain.part_before[later]] * k + before[chain.state_part[later]]
        counts = sp.csr_array((pairs[later], (chain.instance[later], cells)), shape=(chain.n_instances, k * k))
        return Known(inside, np.bincount(chain.state_part, pairs, inside.n_unary), (counts,))

    def known_pairs(self, shard: LogLinearShard) -> tuple[EdgeChain, Floats]:
        """The chains of labels given, and the probabilities of all pairs of neighbouring labels.

        Neighbours are independent, but for sequences that are not possible, which have probability 0 where others are.
        """
        labels, k = shard.labels, self.n_labels
        assert labels is not None
        assert labels.shares is not None
        assert shard.lengths is not None
        chain = EdgeChain(shard.lengths, k, (labels.offsets, labels.labels))
        before = chain.part_before
        pairs = labels.shares[chain.state_part] * np.where(before >= 0, labels.shares[before], 1.0)
        if self.possible is None:
            return chain, pairs
        scores, moves = np.zeros((shard.features.n_choices, k)), np.zeros((k, k))
        self._exclude(shard.lengths, scores, moves)
        unary = scores[rows_of(np.diff(labels.offsets)), labels.labels] + np.log(labels.shares)
        values, marginals = chain.smoothed_max(Parts(unary[chain.state_part], (moves,)), 1.0)
        return chain, np.where(values[chain.instance] > -np.inf, marginals.unary, pairs)

    def scores(self, theta: Floats, shard: LogLinearShard) -> Parts:
        """Scores of the labels that every choice may have, nats."""
        scores = self._all_scores(theta, shard)
        if shard.labels is None:
            return scores
        unary = self._by_choice(scores)[rows_of(np.diff(shard.labels.offsets)), shard.labels.labels]
        return Parts(unary, scores.factors)

    def log_normaliser(self, theta: Floats, shard: LogLinearShard) -> float:
        """Sum over instances of weight times the log of the sum of ``exp(score)`` over all labellings, nats."""
        values, _ = self._structure(shard, None).smoothed_max(self._all_scores(theta, shard), 1.0)
        return float(shard.weights @ values)

    def is_free(self, shard: LogLinearShard) -> bool:
        """Whether every choice of a shard may have any label."""
        return shard.labels is None

    def gather(self, theta: Floats, shard: LogLinearShard, marginals: Parts) -> Floats:
        """Expected values of all features, shape (n_weights,), instances counted by their weights."""
        return self._counts(shard, self.distributions(shard, marginals), marginals.factors)

    def distributions(self, shard: LogLinearShard, marginals: Parts) -> Floats:
        """The marginals of all labels of all choices, shape (n_choices, n_labels); 0 for those not allowed."""
        if shard.labels is None:
            return self._by_choice(marginals)
        table = np.zeros((shard.features.n_choices, self.n_labels))
        table[rows_of(np.diff(shard.labels.offsets)), shard.labels.labels] = marginals.unary
        return table

    def columns(self, shard: LogLinearShard) -> Mapping[str, Key]:
        """Columns for constraints beside the structure's own.

        The instance's number in the corpus (``row``; chains: ``sentence``), shape (n_instances,); the label of
        every part (``label``; chains: ``tag``) by name; ``labelled``, whether labels are given; and those of the shard.
        """
        if shard.labels is None:
            label = np.tile(np.arange(self.n_labels), shard.features.n_choices)
        else:
            label = shard.labels.labels
        return {
            "sentence" if self.chain else "row": shard.instances,
            "tag" if self.chain else "label": label if self.names is None else np.asarray(self.names)[label],
            "labelled": np.full(len(shard.weights), shard.known) if shard.given is None else shard.given,
            **shard.columns,
        }

    def log_prior(self, theta: Floats) -> float:
        """Log-density of the weights, nats, up to a constant."""
        return -self.prior.penalty(theta[: self.n_penalised])

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """Weights that maximise ``theta . stats`` less the log-normaliser plus the log-prior, from ``theta`` on."""
        return m_step(self, theta, stats, corpus)

    def fit(self, shards: Corpus | Sequence[LogLinearShard], theta: Floats | None = None) -> Floats:
        """The weights that are best for the shards that are known; the others have no part in it.

        Parameters
        ----------
        shards : Corpus or sequence of shards
        theta : ndarray of shape (n_weights,), optional
            Where to start; by default at 0.
        """
        return fit_known(self, Local(shards) if isinstance(shards, Sequence) else shards, theta).point

    def moments(self, theta: Floats, shard: LogLinearShard) -> Statistics:
        """The log-normalisers of a shard, weighted, and their gradient, the expected values of all features."""
        scores = self._all_scores(theta, shard)
        if not self.chain:
            values, marginals = self._structure(shard, None).smoothed_max(scores, 1.0)
            counts = self._counts(shard, self._by_choice(marginals), ())
            return Statistics(value=float(shard.weights @ values), gradient=counts)
        # A few sentences at a time, so that what is made of their scores stays in the processor's cache; posteriors
        # then take the place of scores.
        assert shard.lengths is not None
        table, total, moves = self._by_choice(scores), 0.0, np.zeros((self.n_labels, self.n_labels))
        starts = offsets_of(shard.lengths)
        for run in runs_of(np.arange(len(shard.lengths)), shard.lengths * self.n_labels, _AT_ONCE):
            here = slice(run[0], run[-1] + 1)
            tokens, weights = slice(starts[here.start], starts[here.stop]), shard.weights[here]
            few = Parts(table[tokens].ravel(), scores.factors)
            values, marginals = Chain(shard.lengths[here], self.n_labels).smoothed_max(few, 1.0, weights=weights)
            total += float(weights @ values)
            table[tokens] = self._by_choice(marginals)
            moves += marginals.factors[0]
        return Statistics(value=total, gradient=self._counts(shard, table, (moves,)))

    def spread(self, shard: LogLinearShard) -> Spread:
        """How the values of features spread over the choices of a shard."""
        plain = shard.features.values is None and not self.intercept
        return Spread.of(shard.weights, shard.sizes, self.n_labels, None if plain else shard.features)

    def coordinates(self, scales: Floats, constant: float, mean: Floats) -> Coordinates:
        """The variables of the M-step, from scales and means of features, and the scale of a transition."""
        _, n_transitions, n_intercepts = self._sizes
        of_features = self.support.per_weight(scales)
        scale = np.concatenate([of_features, np.full(n_transitions, constant), np.ones(n_intercepts)])
        return Coordinates(scale, self.support, mean if self.intercept else None)

    @property
    def n_penalised(self) -> int:
        """The number of parameters that the prior is on: all but the intercept, which comes last."""
        return self.n_weights - self._sizes[2]

    def _structure(self, shard: LogLinearShard, labels: Labels | None) -> Structure:
        """The labellings of a shard by these labels, or by all."""
        if shard.lengths is not None:
            allowed = None if labels is None else (labels.offsets, labels.labels)
            return Chain(shard.lengths, self.n_labels, allowed)
        n = shard.features.n_choices
        return Categorical(np.full(n, self.n_labels) if labels is None else np.diff(labels.offsets), "row")

    def _all_scores(self, theta: Floats, shard: LogLinearShard) -> Parts:
        """Scores of all labels of all choices, nats."""
        weights = self.split(theta)
        scores = np.zeros((shard.features.n_choices, self.support.n_labels))
        if self.intercept:
            scores += weights.intercept
        self.support.add_scores(shard.features, weights.features, scores)
        if self.reference:
            others, scores = scores, np.zeros((len(scores), self.n_labels))
            scores[:, 1:] = others
        if not self.chain:
            return Parts(scores.ravel())
        k = self.n_labels
        flat = np.zeros(k * k)
        flat[slice(None) if self.transitions is None else self.transitions] = weights.transitions
        moves = flat.reshape(k, k)
        if self.possible is not None:
            assert shard.lengths is not None
            self._exclude(shard.lengths, scores, moves)
        return Parts(scores.ravel(), (moves,))

    def _exclude(self, lengths: Ints, scores: Floats, moves: Floats) -> None:
        """Write -inf where scores of labels and of transitions are those of impossible sequences."""
        assert self.possible is not None
        ends, k = np.cumsum(lengths), self.n_labels
        for token, allowed in ((ends - lengths, self.possible[k, :k]), (ends - 1, self.possible[:k, k])):
            scores[np.ix_(token[lengths > 0], ~allowed)] = -np.inf
        moves[~self.possible[:k, :k]] = -np.inf

    def _by_choice(self, parts: Parts) -> Floats:
        """Numbers of all labels of all choices as a table of shape (n_choices, n_labels)."""
        return parts.unary.reshape(-1, self.n_labels)

    def _counts(self, shard: LogLinearShard, table: Floats, factors: tuple[Floats, ...]) -> Floats:
        """Expected values of all features from shares of labels, shape (n_choices, n_labels), and transitions."""
        counts = np.zeros(self.n_weights)
        by_kind = self.split(counts)
        weighted = np.ascontiguousarray(table[:, int(self.reference) :])
        if not (shard.weights == 1.0).all():
            weights = shard.weights if shard.lengths is None else np.repeat(shard.weights, shard.lengths)
            weighted = weighted * weights[:, None]
        self.support.add_counts(shard.features, weighted, by_kind.features)
        if self.chain:
            moves = factors[0].ravel()
            by_kind.transitions[:] = moves if self.transitions is None else moves[self.transitions]
        if self.intercept:
            by_kind.intercept[:] = weighted.sum(axis=0)
        return counts


@brief_dataclass(frozen=True, eq=False)
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
        inside = self.model.structure(shard)
        if not isinstance(inside, Known):
            return self._pairs(shard)
        return Known(*self.model.known_pairs(shard), inside.counts)

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

    def coordinates(self, scales: Floats, constant: float, mean: Floats) -> Coordinates:
        """The variables of the M-step, from scales and means of features, and the scale of a transition."""
        single = self.model.coordinates(scales, constant, mean)
        if self.edges is None:
            return single
        return replace(single, scale=np.concatenate([single.scale, self.edges.per_weight(scales)]))

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """Weights that maximise ``theta . stats`` less the log-normaliser plus the log-prior, from ``theta`` on."""
        return m_step(self, theta, stats, corpus)

    def columns(self, shard: LogLinearShard) -> Mapping[str, Any]:
        """Those of the model, and by name the tag of every part and the tag before it, ``previous``."""
        columns: dict[str, Any] = dict(self.model.columns(shard))
        of_parts = self._pairs(shard).columns
        tag, before = of_parts["tag"].astype(np.int64), of_parts["previous"]
        before = np.where(np.isnan(before), -1, before).astype(np.int64)
        named = np.arange(self.model.n_labels) if self.model.names is None else np.asarray(self.model.names)
        if named.dtype.kind != "U":
            return {**columns, "tag": named[tag], "previous": np.append(named, np.nan)[before]}
        names, number = np.unique(named, return_inverse=True)
        codes = np.append(number, -1).astype(np.int32)  # that of a missing tag last
        return {**columns, "tag": Coded(names, codes[tag]), "previous": Coded(names, codes[before])}

    def edge_table(self, theta: Floats, shard: LogLinearShard) -> Floats:
        """Scores of the transitions to every token by its features, shape (n_tokens, n_labels, n_labels)."""
        k = self.model.n_labels
        table = np.zeros((shard.features.n_choices, k * k))
        if self.edges is not None:
            self.edges.add_scores(shard.features, theta[self.model.n_weights :], table)
        return table.reshape(-1, k, k)

    def __getattr__(self, name: str) -> Any:
        """Attributes that both have: prior, optimiser, names, the spread of features."""
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
        of_parts, k = chain.columns, self.model.n_labels
        part = np.flatnonzero(chain.part_before >= 0)
        cell = of_parts["previous"][part].astype(np.int64) * k + of_parts["tag"][part].astype(np.int64)
        return part, of_parts["occurrence"][part].astype(np.int64) * k * k + cell


def _of_states(chain: EdgeChain, marginals: Parts) -> Parts:
    """Marginals of the tags of every token, from those of pairs of tags."""
    return Parts(np.bincount(chain.state_part, marginals.unary).astype(np.float64), marginals.factors)
