"""A small tagger as a user would write it, with its log-likelihood by enumeration."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spectrem.structures import Chain, Parts


class TaggerParams(NamedTuple):
    start: np.ndarray  # (k,)
    transition: np.ndarray  # (k, k)
    emission: np.ndarray  # (k, v)


class Sentences(NamedTuple):
    tokens: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    known: np.ndarray | None = None  # states, if given


@dataclass
class TaggerStats:
    start: np.ndarray
    transition: np.ndarray
    emission: np.ndarray

    def __add__(self, other):
        return TaggerStats(self.start + other.start, self.transition + other.transition, self.emission + other.emission)

    def __rmul__(self, factor):
        return TaggerStats(factor * self.start, factor * self.transition, factor * self.emission)


@dataclass(frozen=True)
class Tagger:
    """A hidden Markov model with maximum-likelihood M-step."""

    n_states: int = 2
    n_symbols: int = 3

    def structure(self, shard):
        return Chain(shard.lengths, self.n_states)

    def scores(self, params, shard):
        with np.errstate(divide="ignore"):
            start, transition, emission = (np.log(p) for p in params)
        unary = emission.T[shard.tokens]
        first = np.cumsum(shard.lengths) - shard.lengths
        unary[first] += start
        if shard.known is not None:
            unary[np.arange(self.n_states) != shard.known[:, None]] = -np.inf
        return Parts(unary.ravel(), (transition,))

    def gather(self, params, shard, marginals):
        weight = np.repeat(shard.weights, shard.lengths)[:, None]
        mass = marginals.unary.reshape(-1, self.n_states) * weight
        first = np.cumsum(shard.lengths) - shard.lengths
        emission = np.zeros((self.n_symbols, self.n_states))
        np.add.at(emission, shard.tokens, mass)
        return TaggerStats(mass[first].sum(axis=0), marginals.factors[0], emission.T)

    def m_step(self, params, stats, corpus=None):
        counts = (stats.start, stats.transition, stats.emission)
        totals = [c.sum(axis=-1, keepdims=True) for c in counts]
        return TaggerParams(*(
            np.divide(c, t, out=old.copy(), where=t > 0) for c, t, old in zip(counts, totals, params, strict=True)
        ))  # fmt: skip

    def columns(self, shard):
        return {}

    def weights(self, shard):
        return shard.weights

    def is_known(self, shard):
        return shard.known is not None


def random_params(rng, n_states=2, n_symbols=3):
    return TaggerParams(
        rng.dirichlet(np.ones(n_states)),
        rng.dirichlet(np.ones(n_states), n_states),
        rng.dirichlet(np.ones(n_symbols), n_states),
    )


def perturb(params, rng):
    return TaggerParams(*((p := a * rng.uniform(0.8, 1.25, a.shape)) / p.sum(axis=-1, keepdims=True) for a in params))


def random_shards(rng, n_shards=2, n_sentences=4, n_symbols=3):
    shards = []
    for _ in range(n_shards):
        lengths = rng.integers(1, 5, n_sentences)
        shards.append(Sentences(rng.integers(0, n_symbols, lengths.sum()), lengths, rng.uniform(0.5, 2.0, n_sentences)))
    return shards


def join(shards):
    """Several shards as one."""
    return Sentences(*(np.concatenate([getattr(s, name) for s in shards]) for name in ("tokens", "lengths", "weights")))


def log_likelihood(params, shards):
    """sum_n w_n log sum_h p(x, h), state sequence by state sequence."""
    total = 0.0
    for shard in shards:
        begin = 0
        for length, weight in zip(shard.lengths, shard.weights, strict=True):
            tokens = shard.tokens[begin : begin + length]
            begin += length
            probability = 0.0
            for states in itertools.product(range(len(params.start)), repeat=length):
                p = params.start[states[0]]
                for a, b in itertools.pairwise(states):
                    p *= params.transition[a, b]
                for state, token in zip(states, tokens, strict=True):
                    p *= params.emission[state, token]
                probability += p
            total += weight * np.log(probability)
    return total
