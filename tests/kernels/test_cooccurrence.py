"""Meetings of words, against dictionaries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels import cooccurrence

N_SOURCE, N_TARGET = 6, 5
SIDES = st.lists(
    st.tuples(
        st.lists(st.integers(0, N_SOURCE - 1), max_size=5),
        st.lists(st.integers(0, N_TARGET - 1), max_size=5),
    ),
    max_size=6,
)


def flatten(sentences):
    """Tokens and offsets of a list of lists."""
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in sentences], dtype=np.int64)])
    return np.array([word for s in sentences for word in s], np.int32), offsets


def index(pairs):
    """Row offsets, partners and cells, as the package makes them."""
    source, source_offsets = flatten([s for s, _ in pairs])
    target, target_offsets = flatten([t for _, t in pairs])
    cell_offsets = np.concatenate([[0], np.cumsum([len(s) * len(t) for s, t in pairs], dtype=np.int64)])
    posted = cooccurrence.postings(source, source_offsets, N_SOURCE)
    counts = cooccurrence.count_partners(posted[0], posted[1], target, target_offsets, N_TARGET)
    row_offsets = np.concatenate([[0], np.cumsum(counts)])
    partners, cells = np.full(row_offsets[-1], -9, np.int32), np.full(cell_offsets[-1], -9, np.int32)
    cooccurrence.index_cells(*posted, target, target_offsets, cell_offsets, row_offsets, N_TARGET, partners, cells)
    return row_offsets, partners, cells


@given(SIDES)
def test_postings_list_every_occurrence(pairs):
    tokens, offsets = flatten([s for s, _ in pairs])
    starts, sentences, places = cooccurrence.postings(tokens, offsets, N_SOURCE)
    for word in range(N_SOURCE):
        expected = [(n, k) for n, (s, _) in enumerate(pairs) for k, other in enumerate(s) if other == word]
        own = slice(starts[word], starts[word + 1])
        assert list(zip(sentences[own].tolist(), places[own].tolist(), strict=True)) == expected


@given(SIDES)
def test_table_and_cells_are_those_of_a_dictionary(pairs):
    row_offsets, partners, cells = index(pairs)
    met = {word: set() for word in range(N_SOURCE)}
    for source, target in pairs:
        for e in source:
            met[e].update(target)
    for word in range(N_SOURCE):
        listed = partners[row_offsets[word] : row_offsets[word + 1]].tolist()
        assert len(listed) == len(set(listed))
        assert set(listed) == met[word]
    sources = np.repeat(np.arange(N_SOURCE), np.diff(row_offsets))
    expected = [(e, f) for source, target in pairs for e in source for f in target]
    assert [(sources[c], partners[c]) for c in cells] == expected


@given(SIDES, st.lists(st.tuples(st.lists(st.integers(-1, N_SOURCE - 1), max_size=4), st.lists(
    st.integers(-1, N_TARGET - 1), max_size=4)), max_size=4))  # fmt: skip
def test_look_up_finds_known_meetings_and_leaves_the_others(pairs, new_pairs):
    row_offsets, partners, _ = index(pairs)
    sources = np.repeat(np.arange(N_SOURCE), np.diff(row_offsets))
    entry = {(int(e), int(f)): k for k, (e, f) in enumerate(zip(sources, partners, strict=True))}
    source, source_offsets = flatten([s for s, _ in new_pairs])
    target, target_offsets = flatten([t for _, t in new_pairs])
    cell_offsets = np.concatenate([[0], np.cumsum([len(s) * len(t) for s, t in new_pairs], dtype=np.int64)])
    cells = np.full(cell_offsets[-1], len(partners), np.int32)
    numbered = np.where(source < 0, N_SOURCE, source).astype(np.int32)
    posted = cooccurrence.postings(numbered, source_offsets, N_SOURCE + 1)
    cooccurrence.look_up_cells(*posted, target, target_offsets, cell_offsets, row_offsets, partners, N_TARGET, cells)
    expected = [entry.get((e, f), len(partners)) for s, t in new_pairs for e in s for f in t]
    assert cells.tolist() == expected


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=4))
def test_localise_ranks_values_and_restores_its_space(runs):
    seen, numbers = np.zeros(10, np.bool_), np.zeros(10, np.int32)
    for values in runs:
        cells, found = np.array(values, np.int32), np.empty(len(values), np.int32)
        n_found = cooccurrence.localise(cells, seen, numbers, found)
        distinct = sorted(set(values))
        assert found[:n_found].tolist() == distinct
        assert cells.tolist() == [distinct.index(v) for v in values]
        assert not seen.any()
