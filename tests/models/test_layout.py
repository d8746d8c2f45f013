"""Where the cells of sentence pairs lie among unary parts, against plain loops over words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels.alignments.bidirectional import Pairs
from spectrem.models.alignment.pairs import Layout
from spectrem.structures import Alignment

LENGTHS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4)


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@given(LENGTHS)
def test_cells_and_nulls_have_the_columns_of_their_parts(lengths):
    source, target = offsets_of([i for i, _ in lengths]), offsets_of([j for _, j in lengths])
    cell_offsets = offsets_of([i * j for i, j in lengths])
    pairs = Pairs(source, target, cell_offsets, np.zeros(0, np.int32), np.ones(len(lengths)))
    layout = Layout.of(pairs)
    cells = [
        (n, i, j) for n, (n_source, n_target) in enumerate(lengths) for i in range(n_source) for j in range(n_target)
    ]
    words = [(source[n] + i, target[n] + j) for n, i, j in cells]
    assert list(zip(layout.source, layout.target, strict=True)) == words
    sides = np.diff(source), np.diff(target)
    for backward in (False, True):
        columns = Alignment(*(sides[::-1] if backward else sides), reverse=backward).columns
        at = (columns[name][layout.parts[backward]].tolist() for name in ("sentence", "source", "target"))
        assert list(zip(*at, strict=True)) == cells
        assert layout.nulls[backward].tolist() == np.flatnonzero(columns["state"] < 0).tolist()


@given(LENGTHS, st.integers(0, 2**32 - 1))
def test_marks_of_cells_and_nulls_come_to_their_parts(lengths, seed):
    rng = np.random.default_rng(seed)
    source, target = offsets_of([i for i, _ in lengths]), offsets_of([j for _, j in lengths])
    cell_offsets = offsets_of([i * j for i, j in lengths])
    cells, null, other_null = (rng.random(n) < 0.5 for n in (cell_offsets[-1], target[-1], source[-1]))
    pairs = Pairs(source, target, cell_offsets, np.zeros(0, np.int32), np.ones(len(lengths)))
    expected = [[], []]
    for n, (n_source, n_target) in enumerate(lengths):
        block = cells[cell_offsets[n] : cell_offsets[n + 1]].reshape(n_source, n_target)
        for j in range(n_target):
            expected[0] += [*block[:, j], null[target[n] + j]]
        for i in range(n_source):
            expected[1] += [*block[i], other_null[source[n] + i]]
    assert Layout.of(pairs).spread(cells, null, other_null).tolist() == expected[0] + expected[1]
