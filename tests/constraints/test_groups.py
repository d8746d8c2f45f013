import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spectrem.constraints.compilation.groups import number_groups

values = st.one_of(st.integers(-3, 3), st.sampled_from([-(10**12), 10**12]))


@given(st.lists(st.tuples(values, st.sampled_from("abc"), values, st.booleans()), max_size=30))
def test_equals_sorted_distinct_tuples(rows):
    columns = [np.array([row[k] for row in rows], dtype=t) for k, t in enumerate((np.int64, "U1", np.int64))]
    missing = np.array([row[3] for row in rows], dtype=bool)
    group, first = number_groups(columns, len(rows), missing)
    tuples = sorted({row[:3] for row in rows if not row[3]})
    assert group.tolist() == [-1 if row[3] else tuples.index(row[:3]) for row in rows]
    heads = [[row[:3] for row in rows if not row[3]].index(key) for key in tuples]
    assert first.tolist() == [np.flatnonzero(~missing)[head] for head in heads]


def test_without_columns_there_is_one_group_even_of_nothing():
    assert number_groups([], 0)[1].tolist() == [0]
    assert number_groups([], 2)[0].tolist() == [0, 0]


def test_wide_keys_do_not_overflow():
    column = np.array([0, 2**40, 2**62, 0])
    assert number_groups([column, column, column], 4)[0].tolist() == [0, 1, 2, 0]
