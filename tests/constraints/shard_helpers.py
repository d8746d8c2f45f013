"""Constraints over a corpus cut into shards, compiled as learning does it."""

import functools
import operator
import pickle

import numpy as np

from spectrem.constraints import compile_shard, corpus_rows, facts_of


def add_up(constraints, structures, columns=None, weights=None):
    """Facts of all shards, found again where they are not complete."""
    shards = list(
        zip(
            structures,
            [None] * len(structures) if columns is None else columns,
            [None] * len(structures) if weights is None else weights,
            strict=True,
        )
    )
    facts = functools.reduce(operator.add, [facts_of(constraints, *shard) for shard in shards])
    if not facts.complete:
        again = [facts_of(constraints, *shard, facts, number) for number, shard in enumerate(shards)]
        facts = functools.reduce(operator.add, again)
    return facts, shards


def compile_all(constraints, structures, columns=None, weights=None):
    """The rows over the corpus and those of every shard, from facts that were sent to it."""
    facts, shards = add_up(constraints, structures, columns, weights)
    rows = corpus_rows(facts)
    facts = pickle.loads(pickle.dumps(facts))
    return rows, [compile_shard(constraints, facts, number, *shard) for number, shard in enumerate(shards)]


def spread_out(shard, n_rows):
    """A shard's part of all rows over the corpus, shape (n_rows, n_unary)."""
    out = np.zeros((n_rows, shard.matrix.shape[1]))
    out[shard.present] = shard.matrix.toarray()
    return out
