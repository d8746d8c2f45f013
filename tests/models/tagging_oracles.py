"""Small corpora, random parameters, and the hidden Markov model's definition, state sequence by state sequence."""

import itertools

import numpy as np

from spectrem.models.estep import Statistics
from spectrem.models.tagging import HMMModel, HMMParameters, Lexicon, build_shards

TABLES = ("initial", "transition", "second", "emission")


def random_parameters(lexicon, order, rng, *, low=0.05):
    n = lexicon.n_states

    def rows(*shape):
        table = rng.uniform(low, 1.0, shape)
        return table / table.sum(axis=-1, keepdims=True)

    emission = rng.uniform(low, 1.0, lexicon.n_cells)
    emission /= np.bincount(lexicon.cell_states, emission, n)[lexicon.cell_states]
    second = rows(n, n) if order == 2 else None
    return HMMParameters(rows(n), rows(*(n,) * (order + 1)), second, emission)


def make_problem(order, seed, *, lengths=(3, 1, 0, 4, 2), n_states=3, dense=False, weights=None, **options):
    """A model, its shards (some tokens labelled, restricted or never seen) and random parameters."""
    rng = np.random.default_rng(seed)
    n_words, n_tokens = 5, sum(lengths)
    if dense:
        lexicon = Lexicon.full(n_words, n_states)
        entries = rng.integers(0, n_words, n_tokens)
    else:
        allowed = [(0,), tuple(range(n_states)), (0, n_states - 1), (1,), (1, n_states - 1)]
        lexicon = Lexicon.from_allowed(
            np.cumsum([0, *map(len, allowed)]), list(itertools.chain.from_iterable(allowed)), n_states
        )
        lexicon, more = lexicon.with_entries([1, 1, -1, -1], [(0,), (0, 1), tuple(range(n_states)), (1, n_states - 1)])
        entries = rng.permutation(np.arange(n_tokens) % (n_words + len(more)))
    if weights is None:
        weights = rng.uniform(0.3, 2.0, len(lengths))
    shards = build_shards(lexicon, lengths, entries, weights)
    return HMMModel(lexicon, order, **options), shards, random_parameters(lexicon, order, rng)


def sentences(shard):
    """The entries of every sentence of a shard."""
    return np.split(shard.entries, np.cumsum(shard.lengths)[:-1])


def sequences(lexicon, entries):
    """All state sequences of a sentence, each with the cells of its tokens."""
    spans = [range(*lexicon.entry_offsets[e : e + 2]) for e in entries]
    for parts in itertools.product(*spans):
        yield [int(lexicon.entry_states[k]) for k in parts], [int(lexicon.entry_cells[k]) for k in parts]


def events(states, cells, n_cells, order):
    """Table and index of every event of a sentence."""
    for t, (state, cell) in enumerate(zip(states, cells, strict=True)):
        if t == 0:
            yield "initial", (state,)
        elif order == 2:
            yield ("second" if t == 1 else "transition"), tuple(states[max(t - 2, 0) : t + 1])
        else:
            yield "transition", (states[t - 1], state)
        if cell < n_cells:
            yield "emission", (cell,)


def log_probability(params, states, cells):
    n_cells = len(params.emission)
    return sum(np.log(getattr(params, table)[at]) for table, at in events(states, cells, n_cells, params.order))


def no_counts(model):
    n = model.n_states
    second = np.zeros((n, n)) if model.order == 2 else None
    transition, emission = np.zeros((n,) * (model.order + 1)), np.zeros(model.lexicon.n_cells)
    return Statistics(initial=np.zeros(n), transition=transition, second=second, emission=emission)


def literal_counts(model, params, shard, gamma=1.0, reference=None):
    """Weighted expected counts and weighted value of a shard at gamma > 0; gamma > 1 may be skewed."""
    counts, value = no_counts(model), 0.0
    for entries, weight in zip(sentences(shard), shard.weights, strict=True):
        found = list(sequences(model.lexicon, entries))
        scores = np.array([log_probability(params, *sequence) for sequence in found])
        if reference is not None and gamma > 1:
            scores = scores + (gamma - 1) * np.array([log_probability(reference, *sequence) for sequence in found])
        total = np.logaddexp.reduce(scores / gamma)
        value += weight * gamma * total
        for sequence, p in zip(found, np.exp(scores / gamma - total), strict=True):
            for table, at in events(*sequence, len(params.emission), params.order):
                getattr(counts, table)[at] += weight * p
    return counts, value


def literal_m_step(lexicon, counts):
    """Relative frequencies; rows without counts are uniform over what exists."""

    def rows(table):
        sums = table.sum(axis=-1, keepdims=True)
        return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1.0 / table.shape[-1])

    emission = np.empty(lexicon.n_cells)
    for state in range(lexicon.n_states):
        own = lexicon.cell_states == state
        if own.any():
            emission[own] = rows(counts.emission[own])
    second = None if counts.second is None else rows(counts.second)
    return HMMParameters(rows(counts.initial), rows(counts.transition), second, emission)


def assert_same_tables(found, expected, rtol=1e-10, atol=1e-12):
    for table in TABLES:
        a, b = getattr(found, table), getattr(expected, table)
        assert (a is None) == (b is None), table
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=table)
