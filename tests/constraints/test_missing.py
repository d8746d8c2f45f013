"""Values that are missing, however they are spelled, belong to no group and equal nothing."""

import datetime
from contextlib import suppress

import numpy as np
import pytest

from spectrem import E, GaussianMixture, part, project
from spectrem.constraints import compile_constraints, max_over, must_link
from spectrem.constraints.columns import as_column
from spectrem.data import TableFile
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical, Chain, Product
from spectrem.testing.check_constraint import check_constraint

P = np.full((6, 2), 0.5)
ONE = (E[part("label") == 0] == 0.5).per("key")
NAN = float("nan")
TEXTS = ["a", None, "b", "a", None, "c"]
NUMBERS = [1, None, 2, 1, None, 3]


def spelled(values):
    """The same column in everything that NumPy and Python have for it."""
    missing = np.array([value is None for value in values])
    listed = [
        [NAN if value is None else value for value in values],
        [np.float64("nan") if v is None else v for v in values],
    ]
    yield from (values, tuple(values), *listed)
    yield from (np.array(column, object) for column in (values, *listed))
    filled = np.array([values[0] if value is None else value for value in values])
    yield np.ma.array(filled, mask=missing)
    if isinstance(values[0], str):
        yield np.array(listed[0], np.dtypes.StringDType(na_object=NAN))
        yield np.array(values, np.dtypes.StringDType(na_object=None))
    else:
        yield np.array(listed[0])


def file_columns(values):
    polars = pytest.importorskip("polars")
    for missing in ("", "NA"):
        cells = polars.LazyFrame({"key": [missing if v is None else str(v) for v in values]})
        yield TableFile("t.csv", cells, is_text=True).keys("key")


def pandas_columns(values):
    pandas = pytest.importorskip("pandas")
    yield pandas.Series(values)
    yield pandas.Series(values, dtype=object)
    yield pandas.Series(values, dtype="category")
    yield pandas.Series(values, dtype="string" if isinstance(values[0], str) else "Int64")
    yield pandas.Series([pandas.NA if value is None else value for value in values], dtype=object)
    yield pandas.Series([pandas.NaT if value is None else value for value in values], dtype=object)


def polars_columns(values):
    polars = pytest.importorskip("polars")
    yield polars.Series(values)
    if isinstance(values[0], str):
        yield polars.Series(values, dtype=polars.Categorical)
        yield polars.Series(values, dtype=polars.Enum(["c", "b", "a"]))


def arrow_columns(values):
    pyarrow = pytest.importorskip("pyarrow")
    yield pyarrow.array(values)
    yield pyarrow.chunked_array([values[:2], values[2:]])
    yield pyarrow.array(values).dictionary_encode()


@pytest.mark.parametrize("columns", [spelled, file_columns, pandas_columns, polars_columns, arrow_columns])
@pytest.mark.parametrize("values", [TEXTS, NUMBERS])
def test_a_missing_key_belongs_to_no_group(columns, values):
    for column in columns(values):
        table = project(P, ONE, columns={"key": column})
        np.testing.assert_allclose(table.proba[:, 0], [0.25, 0.5, 0.5, 0.25, 0.5, 0.5], atol=1e-6, err_msg=repr(column))
        assert table.constraints[0].keys["key"].tolist() == sorted({value for value in values if value is not None})


@pytest.mark.parametrize("columns", [spelled, file_columns, pandas_columns, polars_columns, arrow_columns])
@pytest.mark.parametrize("values", [TEXTS, NUMBERS])
def test_a_missing_value_equals_nothing(columns, values):
    first, third = values[0], values[2]
    tests = {
        part("key") == first: [1, 0, 0, 1, 0, 0],
        part("key") != first: [0, 1, 1, 0, 1, 1],
        ~(part("key") == first): [0, 1, 1, 0, 1, 1],
        part("key").isin([first, third]): [1, 0, 1, 1, 0, 0],
        ~part("key").isin([first, third]): [0, 1, 0, 0, 1, 1],
        part("key") <= third: [1, 0, 1, 1, 0, 0],
        part("key") > first: [0, 0, 1, 0, 0, 1],
        part("key") == part("key"): [1, 0, 1, 1, 0, 1],
        part("label").allowed_by(part("key"), {first: [5]}): [0, 1, 1, 0, 1, 1],
        part("key").allowed_by(part("label"), {0: [first, third]}): [1, 0, 1, 1, 0, 0],
    }
    for column in columns(values):
        for test, expected in tests.items():
            rows = compile_constraints(E[test] <= 0, Categorical(np.ones(6, int)), {"key": as_column("key", column)})
            assert rows.matrix.toarray().tolist() == [expected], (test, column)


def test_truth_values_beside_missing_ones_are_numbers():
    for column in (
        [True, None, False],
        np.array([True, NAN, False], object),
        np.ma.array([True, True, False], mask=[0, 1, 0]),
    ):
        rows = compile_constraints((E[...] <= 1).per("flag"), Categorical([1, 1, 1]), {"flag": column})
        assert rows.blocks[0].keys["flag"].tolist() == [0.0, 1.0]
        rows = compile_constraints(E[part("flag") == True] <= 0, Categorical([1, 1, 1]), {"flag": column})  # noqa: E712
        assert rows.matrix.toarray().tolist() == [[1, 0, 0]]
        with pytest.raises(InvalidInputError, match=r"weights must be finite.*replace missing values"):
            compile_constraints(E[part("flag")] <= 0, Categorical([1, 1, 1]), {"flag": column})


def test_a_column_that_is_missing_throughout():
    columns = [[None, None], [NAN, NAN], np.array([NAN, NAN])]
    with suppress(ImportError):
        import polars

        columns.append(TableFile("t", polars.LazyFrame({"k": ["", ""]}), is_text=True).keys("k"))
        columns += [polars.Series([None, None], dtype=kind) for kind in (polars.Int64, polars.String, polars.Null)]
    for found in columns:
        labels = Categorical([2, 2])
        assert len(compile_constraints((E[...] <= 0.1).per("k"), labels, {"k": found}).bounds) == 0
        for test, number in (
            (part("k") == "a", 0),
            (part("k") == 1, 0),
            (part("k") < 1, 0),
            (part("k") != "a", 4),
            (part("k").isin(["a"]), 0),
            (~part("k").isin([1, 2]), 4),
        ):
            assert compile_constraints(E[test] <= 0, labels, {"k": found}).matrix.nnz == number


def test_whole_numbers_that_floats_would_round_stay_apart():
    keys = [2**60, 2**60 + 1, None]
    columns = [keys, np.array(keys, object)]
    with suppress(ImportError):
        import polars

        columns.append(polars.Series(keys))
    with suppress(ImportError):
        import pandas

        columns += [pandas.Series(keys, dtype="Int64"), pandas.Series(keys, dtype=object)]
    with suppress(ImportError):
        import pyarrow

        columns += [pyarrow.array(keys), pyarrow.chunked_array([keys]), pyarrow.array(keys).dictionary_encode()]
    for column in columns:
        rows = compile_constraints((E[...] <= 1).per("id"), Categorical([1, 1, 1]), {"id": as_column("id", column)})
        assert rows.blocks[0].keys["id"].tolist() == [str(2**60), str(2**60 + 1)]


@pytest.mark.parametrize("structure", [Categorical([2, 2, 3]), Chain([1, 1, 1], 2)], ids=repr)
def test_languages_agree_with_a_loop_over_parts(structure):
    extra = {"key": ["a", None, "b"], "size": [1.0, NAN, 2.0]}
    for constraint in (
        (E[part("key") != "a"] <= 1).per("key"),
        (E[part("size") >= 1] <= 1).per("size", "key"),
        max_over("key", E[...]).penalty(1),
        E[...] <= 0.5 * E.count(..., each="key"),
        E[part("key") == "a"] <= 0.5 * E.count(part("key") != "a"),
        (E[...] <= E.count(...)).per("key_frequency")
        if "occurrence" in structure.columns
        else (E[...] <= 1).per("size"),
    ):
        check_constraint(constraint, structure, extra)


def test_readings_that_agree_are_not_ambiguous():
    # three rows of one label each: a value per row and one per cell are the same
    for column in ([1.0, NAN, 1.0], ["a", None, "a"]):
        rows = compile_constraints((E[...] <= 1).per("key"), Categorical([1, 1, 1]), {"key": column})
        assert rows.matrix.toarray().tolist() == [[1, 0, 1]]
    with pytest.raises(InvalidInputError, match="fits more than one of"):
        compile_constraints((E[...] <= 1).per("key"), Categorical([2, 1, 0]), {"key": [1.0, NAN, 1.0]})


def test_mixtures_leave_rows_without_a_key_free():
    x = np.array([[0.0], [0.1], [10.0], [10.1]])
    apart = (E[...] <= 1).per("household", "label")
    settings = {"means_init": [[0.0], [10.0]], "max_iter": 3, "reg_covar": 0.1, "tol": 1e3}
    free = GaussianMixture(2, **settings).fit(x).predict_proba(x)
    mixture = GaussianMixture(2, constraints=[apart], **settings).fit(x, columns={"household": ["h", "h", None, NAN]})
    np.testing.assert_allclose(mixture.posteriors_[:2].sum(axis=0), [1, 1], atol=1e-3)
    np.testing.assert_allclose(mixture.posteriors_[2:], free[2:], atol=1e-2)


@pytest.mark.parametrize("columns", [spelled, file_columns, pandas_columns, polars_columns, arrow_columns])
@pytest.mark.parametrize("values", [TEXTS, NUMBERS])
def test_rows_without_a_value_are_not_linked(columns, values):
    for column in columns(values):
        assert must_link(column="key").links({"key": column}, 6).pairs.tolist() == [[0, 3]], repr(column)
    proba = np.array([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [0.2, 0.8], [0.5, 0.5]])
    table = project(proba, must_link(column="key"), columns={"key": values})
    np.testing.assert_allclose(table.proba[0], table.proba[3], atol=1e-6)
    np.testing.assert_allclose(table.proba[[1, 2, 4, 5]], proba[[1, 2, 4, 5]], atol=1e-6)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", 1, None], "got text beside other values; turn it into text or numbers"),
        ([datetime.time(1, 0), None, None], "got time, as in datetime.time"),
        (np.array([1, 2, 3], "m8[D]"), r"got dtype timedelta64\[D\]"),
        ([2**70, 1, None], "got whole numbers beyond 64 bits"),
    ],
)
def test_refused(column, message):
    with pytest.raises(
        InvalidInputError, match=f"extra column 'key' must hold numbers, truth values, text or dates, {message}"
    ):
        project(np.full((3, 2), 0.5), ONE, columns={"key": column})


def test_dates_are_text_that_sorts_as_they_do():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    first, last = datetime.date(2026, 1, 31), datetime.date(2026, 2, 1)
    days = [first, None, last]
    columns = [
        days,
        np.array(["2026-01-31", "NaT", "2026-02-01"], "M8[ns]"),
        polars.Series(days),
        polars.Series(days).cast(polars.Datetime("us")),
        pandas.Series(pandas.to_datetime(days)).dt.tz_localize("Europe/Berlin"),
    ]
    for column in columns:
        key = as_column("day", column)
        assert key.values.tolist() == ["2026-01-31", "2026-02-01"]
        assert key.codes.tolist() == [0, -1, 1]
    times = as_column("time", [datetime.datetime(2026, 1, 31, 12, 30), first])
    assert times.tolist() == ["2026-01-31T12:30", "2026-01-31T00:00"]
    proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    table = project(proba, (E[part("label") == 1] <= 0.5).per("day"), columns={"day": [first, first, last]})
    assert table.constraints[0].keys["day"].tolist() == ["2026-01-31", "2026-02-01"]
    np.testing.assert_allclose([table.proba[:2, 1].sum(), table.proba[2, 1]], 0.5)
    late = project(proba, "E[(label == 1) & (day >= '2026-02-01')] <= 0.2", columns={"day": [first, first, last]})
    np.testing.assert_allclose(late.proba[:, 1], [0.1, 0.6, 0.2])


def test_frequencies_of_a_column_that_some_members_of_a_product_lack():
    """Its parts without a value are not counted, and have no frequency."""
    both = Product({"text": Chain([2, 1], 2, ([0, 2, 3, 4], [0, 1, 0, 1])), "kind": Categorical([2, 2])})
    assert both.columns["tag"][:4].tolist() == [0.0, 1.0, 0.0, 1.0]
    rows = compile_constraints(E[part("tag_frequency") == 2] <= 1, both)
    assert rows.matrix.toarray().tolist() == [[1, 0, 1, 0, 0, 0, 0, 0]]  # tokens count once, by their first part
