"""Rows compiled shard by shard, put together as one batch, are solved like rows compiled over the batch."""

import functools
import operator
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints import E, compile_constraints, compile_shard, corpus_rows, facts_of, max_over, part
from spectrem.constraints.compilation.rows import Rows
from spectrem.inference import project_batch
from spectrem.structures import Chain, Parts

N_TAGS = 3
TAG = part("tag") == 1
RULES = {
    "frequency inside": (E[TAG & (part("word_frequency") >= 8)] <= 0.4).per("sentence"),
    "frequency": E[part("tag").isin([0]) & (part("word_frequency") >= 8)] <= 4,
    "document": (E[TAG] >= 0.45 * E.count(..., each="occurrence")).per("document"),
    "document and tag": (E[...] <= 0.4 * E.count(..., each="occurrence")).per("document", "tag"),
    "paid": (E[TAG] <= 1).per("document").slack(penalty=0.3, norm="l1"),
    "tied": (E[TAG] <= 1).per("document").slack(bound=0.5, norm="l2"),
    "largest": max_over("token", E[TAG].per("document")).penalty(0.5),
}
DOCUMENTS = {
    "in order": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    "straddling": [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3],
    "everywhere": [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3],
}


def batch(sentences, lengths, documents, words):
    """Some of the sentences as a structure, and their columns and unary parts."""
    starts = np.cumsum([0, *lengths])
    tokens = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in sentences])
    structure = Chain(lengths[sentences], N_TAGS)
    columns = {"document": documents[sentences][structure.instance], "word": np.repeat(words[tokens], N_TAGS)}
    return structure, columns, (tokens[:, None] * N_TAGS + np.arange(N_TAGS)).ravel()


def together(header, parts, places, n_unary):
    """The rows of all shards over one batch; ``places`` tells where the parts of each shard are in it."""
    matrices, bounds, owners, blocks, start, first = [], [], [], [], 0, 0
    spread = [sp.csr_array((np.ones(len(p)), (np.arange(len(p)), p)), shape=(len(p), n_unary)) for p, _ in places]
    for own, (_, n_instances), out in zip(parts, places, spread, strict=True):
        inside = own.inside
        matrices.append(inside.matrix @ out)
        bounds.append(inside.bounds)
        owners.append(np.where(inside.row_instance < 0, -1, inside.row_instance + first))
        blocks += [replace(b, start=start + b.start, stop=start + b.stop) for b in inside.blocks]
        start, first = start + len(inside.bounds), first + n_instances
    across = sp.csr_array((len(header.bounds), n_unary))
    for own, out in zip(parts, spread, strict=True):
        across = across + sp.csr_array(
            (np.ones(len(own.present)), (own.present, np.arange(len(own.present)))),
            shape=(len(header.bounds), len(own.present)),
        ) @ (own.matrix @ out)  # fmt: skip
    blocks += [replace(b, start=start + b.start, stop=start + b.stop) for b in header.blocks]
    return Rows(
        sp.csr_array(sp.vstack([*matrices, across])),
        np.concatenate([*bounds, header.bounds]),
        np.concatenate([*owners, np.full(len(header.bounds), -1)]).astype(np.int64),
        tuple(blocks),
    )


@pytest.mark.parametrize("order", DOCUMENTS)
@pytest.mark.parametrize("rule", RULES)
def test_one_shard_and_several_have_the_same_posteriors(rule, order):
    rng = np.random.default_rng(0)
    lengths, documents = rng.integers(1, 4, 12), np.array(DOCUMENTS[order])
    words, weights = rng.integers(0, 3, lengths.sum()), rng.choice([0.5, 1.0, 2.0], 12)
    structure, columns, _ = batch(np.arange(12), lengths, documents, words)
    scores = Parts(rng.normal(size=structure.n_unary), tuple(rng.normal(size=s) for s in structure.factor_shapes))
    rules = [RULES[rule].named("rule"), (E[part("tag") == 2] <= 0.9).per("sentence").named("other")]
    whole = compile_constraints(rules, structure, columns, weights)
    expected = project_batch(structure, scores, whole, weights=weights, tol=1e-10)
    free = structure.smoothed_max(scores, 1.0)[1].unary
    assert np.abs(expected.marginals.unary - free).max() > 1e-3
    for n_shards in (1, 3, 12):
        cut = np.array_split(np.arange(12), n_shards)
        batches = [batch(some, lengths, documents, words) for some in cut]
        given = [(made, named, weights[some]) for (made, named, _), some in zip(batches, cut, strict=True)]
        facts = functools.reduce(operator.add, [facts_of(rules, *shard) for shard in given])
        if not facts.complete:
            again = [facts_of(rules, *shard, facts, number) for number, shard in enumerate(given)]
            facts = functools.reduce(operator.add, again)
        parts = [compile_shard(rules, facts, number, *shard) for number, shard in enumerate(given)]
        places = [(place, len(some)) for (_, _, place), some in zip(batches, cut, strict=True)]
        rows = together(corpus_rows(facts), parts, places, structure.n_unary)
        assert len(rows.bounds) == len(whole.bounds)
        found = project_batch(structure, scores, rows, weights=weights, tol=1e-10)
        assert found.dual_value == pytest.approx(expected.dual_value, rel=1e-9)
        np.testing.assert_allclose(found.marginals.unary, expected.marginals.unary, atol=1e-6)
