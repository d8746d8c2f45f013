"""Tables of translation probabilities are kept in single precision; all that is computed from them is double."""

from dataclasses import replace

import numpy as np
import pytest

from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.models.alignment import AlignmentModel, build_shards
from spectrem.models.alignment.coupled import CoupledKernel
from spectrem.models.alignment.model import as_single

TEXT = make_bitext(60, seed=4)


@pytest.mark.parametrize("n", [0, 1, 2, 7, (1 << 16) + 1, 3 << 16])
def test_an_array_that_owns_its_memory_gives_half_of_it_back(n):
    double = np.random.default_rng(n).uniform(1e-12, 1.0, n)
    expected = double.astype(np.float32)
    single = as_single(double)
    assert single.dtype == np.float32
    assert np.array_equal(single, expected)
    assert single.base is double
    assert double.nbytes <= expected.nbytes + 4


def test_part_of_another_array_leaves_that_as_it_was():
    whole = np.random.default_rng(0).uniform(size=(9, 2))
    before = whole.copy()
    for part in (whole[2:7, 0], whole[3], as_single(whole[3])):
        assert np.array_equal(as_single(part), part.astype(np.float32))
    assert np.array_equal(whole, before)


def test_an_m_step_rounds_the_probabilities_of_word_pairs_and_nothing_else():
    table, (shard,) = build_shards(encode_bitext(TEXT.source, TEXT.target))
    model = AlignmentModel(table, 5, chain=True, learn_positions=True)
    start = model.initial(0.2)
    kernel = CoupledKernel(model, agreement=True)
    stats = kernel.prepare(start, 1.0)(shard).stats
    links = stats.forward.links / np.bincount(table.sources, stats.forward.links)[table.sources]
    params = model.m_step(start, stats)
    for side in (params.forward, params.backward):
        assert side.translation.dtype == np.float32
        assert {getattr(side, name).dtype for name in ("null", "jump", "end")} == {np.dtype(np.float64)}
    assert np.array_equal(params.forward.translation[:-1], np.maximum(links, 1e-12).astype(np.float32))


def test_e_steps_compute_in_double_precision():
    """Bit for bit as with the same probabilities in an array of doubles, in compiled code and out of it."""
    table, (shard,) = build_shards(encode_bitext(TEXT.source, TEXT.target))
    model = AlignmentModel(table, 5, chain=True, learn_positions=True)
    kernel, start = CoupledKernel(model, agreement=True), model.initial(0.2)
    params = model.m_step(start, kernel.prepare(start, 1.0)(shard).stats)
    double = replace(
        params,
        **{
            name: replace(side, translation=side.translation.astype(np.float64))
            for name, side in (("forward", params.forward), ("backward", params.backward))
        },
    )
    one, other = (kernel.prepare(own, 1.0)(shard) for own in (params, double))
    assert one.objective == other.objective
    assert np.array_equal(one.stats.forward.links, other.stats.forward.links)
    assert np.array_equal(model.scores(params, shard).unary, model.scores(double, shard).unary)
