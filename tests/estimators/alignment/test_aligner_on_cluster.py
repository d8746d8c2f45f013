"""A word aligner on a cluster whose workers cannot hold the table of word pairs."""

from functools import partial

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.corpus import OnDask, Spilled
from spectrem.datasets import make_bitext
from spectrem.learning import Stepwise, posed_corpus
from spectrem.learning.em import leaves
from spectrem.models.alignment import CoupledKernel, PairTable, pairs

pytest.importorskip("distributed", reason="needs the extra `dask`")

TEXT = make_bitext(150, seed=3)
SETTINGS = {"max_iter": 2, "model1_iterations": 1, "n_threads": 1, "max_chance": 0.2, "max_jump": 20}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    for name, size in {"_LEAST_CELLS": 1 << 11, "_MOST_CELLS": 1 << 11, "_FEW_CELLS": 0}.items():
        monkeypatch.setattr(pairs, name, size)


def fit(**settings):
    return WordAligner(**SETTINGS, **settings).fit(TEXT.source, TEXT.target)


def outcome(aligner):
    records = [(record.objective, record.free_objective, record.violation) for record in aligner.history_]
    return [None if own is None else own.tobytes() for own in leaves(aligner.params_)], records, aligner.threshold_


@pytest.mark.parametrize("schedule", [None, Stepwise(n_batches=3)], ids=["batch", "stepwise"])
def test_workers_get_rows_of_the_table_and_never_the_whole(monkeypatch, schedule, client, tmp_path):
    sizes, asked = [], []

    def written(table):
        sizes.append(table.n_pairs)
        return vars(table)

    def restricted(kernel, params, needs):
        asked.append(len(needs.entries))
        return restrict(kernel, params, needs)

    restrict = CoupledKernel.restrict
    monkeypatch.setattr(posed_corpus, "_LARGE", 0)
    monkeypatch.setattr(CoupledKernel, "restrict", restricted)
    monkeypatch.setattr(PairTable, "__getstate__", written, raising=False)
    found = fit(corpus=partial(OnDask, client=client), schedule=schedule)
    n_shards = len(asked) // 3
    assert n_shards > 5
    assert len(asked) == 3 * n_shards  # a pass of Model 1 and two of the HMM
    assert len(sizes) == len(asked)
    assert max(sizes) < found.table_.n_pairs / 2
    asked.clear()
    expected = outcome(fit(corpus=partial(Spilled, folder=tmp_path), schedule=schedule))
    assert not asked
    assert outcome(found) == expected
    in_files = fit(corpus=partial(OnDask, client=client, folder=tmp_path), schedule=schedule, checkpoint=tmp_path / "c")
    assert outcome(in_files) == expected
    assert np.array_equal(in_files.table_.targets, found.table_.targets)
