"""Groups and comparisons over a structure's own columns, against plain Python."""

import itertools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structure_cases import FAMILIES

from spectrem import E, part
from spectrem.constraints import compile_constraints
from spectrem.structures import NULL, Alignment, Known, Parts, Product, ProjectiveTrees, ValenceTrees

WHATEVER = 0.5  # a bound that no row meets whatever q is, so that none is left out


def is_missing(value):
    return value is None or value != value


def null_parts(structure, name):
    """Links to NULL of the side that is chosen from: a value that equals NULL, and no group."""
    if isinstance(structure, Product):
        return [null for member in structure.members.values() for null in null_parts(member, name)]
    if isinstance(structure, Alignment) and name in ("state", "target" if structure.reverse else "source"):
        return (structure.columns[name] == NULL).tolist()
    return [False] * structure.n_unary


def plain_groups(structure, names):
    """Parts by the tuple of their values, in the order of the tuples."""
    columns = [np.asarray(structure.columns[name]).tolist() for name in names]
    lacking = [null_parts(structure, name) for name in names]
    groups = {}
    for index in range(structure.n_unary):
        key = tuple(column[index] for column in columns)
        if not any(map(is_missing, key)) and not any(null[index] for null in lacking):
            groups.setdefault(key, []).append(index)
    return dict(sorted(groups.items()))


def compiled(constraints, structure):
    """For every constraint the parts of its rows, by the values of their groups."""
    rows = compile_constraints(constraints, structure)
    parts = [row.nonzero()[0].tolist() for row in rows.matrix.toarray()]
    for block in rows.blocks:
        own = parts[block.start : block.stop]
        keys = [values.tolist() for values in block.keys.values()]
        yield dict(zip(zip(*keys, strict=True) if keys else [()] * len(own), own, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=15)
def test_parts_are_grouped_as_by_a_loop(family, data):
    structure = data.draw(FAMILIES[family])
    names = list(structure.columns)
    tuples = [(name,) for name in names] + list(itertools.permutations(names, 2))
    found = compiled([(E[...] <= WHATEVER).per(*own) for own in tuples], structure)
    for own, groups in zip(tuples, found, strict=True):
        assert groups == plain_groups(structure, own), own


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=15)
def test_parts_are_compared_as_by_a_loop(family, data):
    structure = data.draw(FAMILIES[family])
    conditions, expected = [], []
    for name, column in structure.columns.items():
        values = np.asarray(column).tolist()
        known = sorted({value for value in values if not is_missing(value)})
        if not known:
            continue
        wanted = data.draw(st.sampled_from(known))
        for compare in (operator.eq, operator.lt, operator.le, operator.gt, operator.ge):
            conditions.append(compare(part(name), wanted))
            expected.append([not is_missing(value) and compare(value, wanted) for value in values])
        conditions += [part(name) != wanted, part(name).isin([wanted]), part(name) == part(name)]
        expected.append([is_missing(value) or value != wanted for value in values])
        expected.append([not is_missing(value) and value == wanted for value in values])
        expected.append([not is_missing(value) for value in values])
    found = compiled([E[condition] <= 0 for condition in conditions], structure)
    for condition, groups, marks in zip(conditions, found, expected, strict=True):
        assert groups.get((), []) == np.flatnonzero(marks).tolist(), condition


def test_arcs_from_the_root_have_no_direction():
    rows = compile_constraints((E[...] <= 1).per("direction"), ProjectiveTrees([2, 2, 1]))
    assert rows.blocks[0].keys["direction"].tolist() == ["left", "right"]
    assert [row.nonzero()[0].tolist() for row in rows.matrix.toarray()] == [[1, 5], [2, 6]]


@pytest.mark.parametrize("trees", [ProjectiveTrees([1, 1]), ValenceTrees([1, 1])], ids=repr)
def test_a_direction_that_no_part_has_makes_no_rows(trees):
    for rule in ((E[...] == 1).per("direction"), (E[...] >= 1).per("sentence", "direction")):
        assert len(compile_constraints(rule, trees).bounds) == 0
    for condition in (part("direction") == "left", part("direction").isin(["left"])):
        assert compile_constraints(E[condition] <= 0, trees).matrix.nnz == 0


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
@pytest.mark.parametrize("kind", [ProjectiveTrees, ValenceTrees])
def test_columns_of_no_parts_are_compared_with_anything(kind, lengths):
    trees = kind(np.array(lengths, np.int64))
    columns = trees.arc_columns({"tag": [], "number": np.zeros(0)})
    for condition in (
        part("direction") == "left",
        part("head_tag") == "VERB",
        part("head_tag") != "VERB",
        part("head_tag") == part("dependent_tag"),
        part("head_number") == 1,
        part("dependent_tag").isin(["VERB"]),
    ):
        assert compile_constraints((E[condition] <= 0).per("sentence"), trees, columns).matrix.shape == (0, 0)


def test_a_structure_that_is_known_has_the_groups_of_the_one_inside():
    pairs = Alignment([2, 1], [1, 2])
    _, marginals = pairs.smoothed_max(Parts(np.zeros(pairs.n_unary)), 1.0)
    fertility = (E[...] <= WHATEVER).per("sentence", "source")
    assert list(compiled(fertility, Known(pairs, marginals.unary))) == list(compiled(fertility, pairs))


def spelled(missing):
    """The words a, missing, b in everything that holds them."""
    listed = ["a", missing, "b"]
    yield from (listed, tuple(listed), np.array(listed, object))
    yield np.ma.array(["a", "a", "b"], mask=[False, True, False])
    yield np.array(["a", missing if missing != missing else float("nan"), "b"], np.dtypes.StringDType(na_object=np.nan))


@pytest.mark.parametrize("trees", [ProjectiveTrees([2, 1]), ValenceTrees([2, 1])], ids=repr)
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_words_without_a_value_give_their_arcs_none(trees, missing):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    texts = [*spelled(missing), pandas.Series(["a", pandas.NA, "b"], dtype="string"), polars.Series(["a", None, "b"])]
    numbers = [[7, None, 8], [7.0, missing, 8.0], pandas.Series([7, pandas.NA, 8], dtype="Int64")]
    numbers += [polars.Series([7, None, 8]), np.ma.array([7, 7, 8], mask=[0, 1, 0])]
    word = np.where(np.isnan(trees.columns["dependent"]), 9, trees.columns["dependent"] + 2 * trees.instance)
    head = np.where(np.isnan(trees.columns["head"]), 9, trees.columns["head"] + 2 * trees.instance)
    for columns, (first, last) in ((texts, ("a", "b")), (numbers, (7, 8))):
        for column in columns:
            made = trees.arc_columns({"x": column})
            for name, of_part in (("dependent_x", word), ("head_x", head)):
                rows = compile_constraints((E[...] <= WHATEVER).per(name), trees, made)
                expected = {
                    value: np.flatnonzero(of_part == at).tolist()
                    for value, at in ((first, 0), (last, 2))
                    if (of_part == at).any()
                }
                found = zip(rows.blocks[0].keys[name].tolist(), rows.matrix.toarray(), strict=True)
                assert {value: row.nonzero()[0].tolist() for value, row in found} == expected, repr(column)
