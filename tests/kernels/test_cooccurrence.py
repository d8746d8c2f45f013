"""Meetings of words, against dictionaries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels.alignments import cooccurrence
from spectrem.models.alignment.pairs import count_packed

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


def tabulate(pairs):
    """Row offsets and partners, as the package makes them."""
    source, source_offsets = flatten([s for s, _ in pairs])
    target, target_offsets = flatten([t for _, t in pairs])
    starts, sentences = cooccurrence.postings(target, target_offsets, N_TARGET)[:2]
    text = starts, sentences, source, source_offsets
    every = np.bincount(source, minlength=N_SOURCE), np.bincount(target, minlength=N_TARGET), np.inf
    counts = np.zeros(N_SOURCE, np.int64)
    cooccurrence.list_partners(*text, *every, counts, np.empty(0, np.int32))
    row_offsets = np.concatenate([[0], np.cumsum(counts)])
    partners = np.full(row_offsets[-1], -9, np.int32)
    cooccurrence.list_partners(*text, *every, row_offsets[:-1].copy(), partners)
    return row_offsets, partners


def index(pairs, row_offsets, partners):
    """Entries that occur and the place of every cell among them."""
    source, source_offsets = flatten([s for s, _ in pairs])
    target, target_offsets = flatten([t for _, t in pairs])
    cell_offsets = np.concatenate([[0], np.cumsum([len(s) * len(t) for s, t in pairs], dtype=np.int64)])
    cells, found = np.full(cell_offsets[-1], -9, np.int32), np.full(cell_offsets[-1] + 1, -9, np.int32)
    posted = cooccurrence.postings(np.where(source < 0, N_SOURCE, source), source_offsets, N_SOURCE + 1)
    n_found = cooccurrence.list_entries(*posted[:2], target, target_offsets, row_offsets, partners, N_TARGET, found)
    incomplete = cooccurrence.place_cells(
        *posted, target, target_offsets, cell_offsets, row_offsets, partners, N_TARGET, found[:n_found], cells
    )
    assert incomplete == (n_found in cells)
    return [*found[:n_found].tolist(), *[len(partners)] * incomplete], cells.tolist()


@given(SIDES)
def test_postings_list_every_occurrence(pairs):
    tokens, offsets = flatten([s for s, _ in pairs])
    starts, sentences, places = cooccurrence.postings(tokens, offsets, N_SOURCE)
    for word in range(N_SOURCE):
        expected = [(n, k) for n, (s, _) in enumerate(pairs) for k, other in enumerate(s) if other == word]
        own = slice(starts[word], starts[word + 1])
        assert list(zip(sentences[own].tolist(), places[own].tolist(), strict=True)) == expected


@given(SIDES)
def test_the_table_is_that_of_a_dictionary(pairs):
    row_offsets, partners = tabulate(pairs)
    met = {word: {} for word in range(N_SOURCE)}
    for source, target in pairs:
        for e in source:
            met[e].update(dict.fromkeys(target))
    for word in range(N_SOURCE):
        assert partners[row_offsets[word] : row_offsets[word + 1]].tolist() == sorted(met[word])


@given(SIDES, st.lists(st.tuples(st.lists(st.integers(-1, N_SOURCE - 1), max_size=4), st.lists(
    st.integers(-1, N_TARGET - 1), max_size=4)), max_size=4))  # fmt: skip
def test_cells_are_ranks_of_entries_that_occur(pairs, new_pairs):
    """Of the text itself and of a new one, whose unknown meetings come last."""
    row_offsets, partners = tabulate(pairs)
    sources = np.repeat(np.arange(N_SOURCE), np.diff(row_offsets))
    entry = {(int(e), int(f)): k for k, (e, f) in enumerate(zip(sources, partners, strict=True))}
    for text in (pairs, new_pairs, pairs + new_pairs):
        found, cells = index(text, row_offsets, partners)
        entries = [entry.get((e, f), len(partners)) for s, t in text for e in s for f in t]
        assert found == sorted(set(entries))
        assert [found[cell] for cell in cells] == entries


def test_few_of_many_entries_are_searched():
    """A row of a thousand partners, of which a text meets a few, the first and the last and some that it lacks."""
    partners = np.arange(0, 2000, 2, dtype=np.int32)
    row_offsets = np.array([0, 1000])
    for met in ([0], [1998], [1999], [0, 1, 998, 1998], [5, 3, 700, 1, 702]):
        target, offsets = flatten([met])
        starts, sentences, _ = cooccurrence.postings(np.zeros(1, np.int32), np.array([0, 1]), 1)
        found = np.empty(len(met) + 1, np.int32)
        n_found = cooccurrence.list_entries(starts, sentences, target, offsets, row_offsets, partners, 2000, found)
        assert found[:n_found].tolist() == sorted(f // 2 for f in met if f % 2 == 0)


@given(st.lists(st.integers(0, 2**31 - 1), unique=True).map(sorted))
def test_packed_entries_come_back(entries):
    entries = np.array(entries, np.int32)
    packed = np.empty(5 * len(entries), np.uint8)
    packed = packed[: cooccurrence.pack(entries, packed)]
    assert count_packed(packed) == len(entries)
    read = np.empty(len(entries), np.int32)
    cooccurrence.unpack(packed, read)
    assert read.tolist() == entries.tolist()


@given(SIDES, st.lists(st.integers(0, 2), min_size=N_SOURCE, max_size=N_SOURCE), st.lists(
    st.integers(0, 3), min_size=N_TARGET, max_size=N_TARGET))  # fmt: skip
def test_pairs_of_classes_are_numbered_in_order(pairs, source_class, target_class):
    row_offsets, partners = tabulate(pairs)
    place, target = (np.full(len(partners), 99, np.uint16) for _ in range(2))
    words = np.argsort(source_class, kind="stable")
    class_offsets = np.append(0, np.cumsum(np.bincount(source_class)))
    offsets = cooccurrence.list_class_pairs(
        words, class_offsets, row_offsets, partners, np.array(target_class), 4, place, target
    )
    source = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    sources = np.repeat(np.arange(N_SOURCE), np.diff(row_offsets))
    classes = [(source_class[e], target_class[f]) for e, f in zip(sources, partners, strict=True)]
    listed = list(zip(source.tolist(), target[: len(source)].tolist(), strict=True))
    assert listed == sorted(set(classes))
    first = offsets[np.array(source_class)[sources]]
    assert [listed[k] for k in first + place] == classes
