"""Links, sizes and groups of clusters: what they compile to and what they refuse."""

import numpy as np
import pytest

from spectrem.constraints import at_least_one_per, cannot_link, cluster_size, compile_constraints, must_link
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical


def error_of(call):
    with pytest.raises(InvalidInputError) as error:
        call()
    return str(error.value)


def test_rows_of_links():
    together = compile_constraints(must_link([[0, 2]]), Categorical([2, 2, 2]))
    assert together.matrix.toarray().tolist() == [[1, 0, 0, 0, -1, 0], [0, 1, 0, 0, 0, -1]]
    assert together.bounds.tolist() == [0, 0]
    assert together.blocks[0].equality
    apart = compile_constraints(cannot_link([[0, 2], [2, 1]]), Categorical([2, 2, 2]))
    assert apart.matrix.toarray().tolist() == [
        [1, 0, 0, 0, 1, 0],
        [0, 1, 0, 0, 0, 1],
        [0, 0, 1, 0, 1, 0],
        [0, 0, 0, 1, 0, 1],
    ]
    assert apart.bounds.tolist() == [1] * 4
    assert not apart.blocks[0].equality
    assert not len(compile_constraints(must_link([]), Categorical([2])).bounds)


def test_sizes():
    assert repr(cluster_size(max=3)) == '(E[...] <= 3).per("label").named("cluster size")'
    assert repr(cluster_size(min=3)) == '(E[...] >= 3).per("label").named("cluster size")'
    assert repr(cluster_size(1, 3)) == 'E[...].between(1, 3).per("label").named("cluster size")'
    assert error_of(cluster_size) == "cluster_size bounds nothing, got min=0 and max=None; give max or a min above 0"
    assert error_of(lambda: cluster_size("3")) == (
        "cluster_size: expected a number, a share as '20%' or an expectation, got the text \"3\""
    )
    assert error_of(lambda: cluster_size("20%", 3)) == (
        "cluster_size takes shares such as '20%', or numbers, got min='20%' and max=3; write both in one way"
    )
    assert error_of(lambda: cluster_size(None)) == (
        "cluster_size needs 0 <= min <= max, got min=None and max=None; change either"
    )
    assert repr(cluster_size("20%", "100%")) == '(E[...] >= 0.2 * E.count(...)).per("label").named("cluster size")'
    assert error_of(lambda: cluster_size(3, 2)) == (
        "cluster_size needs 0 <= min <= max, got min=3 and max=2; change either"
    )


def test_groups():
    bags = {"bag": np.array([0, 1, 0])}
    rows = compile_constraints(at_least_one_per("bag", 1), Categorical([2, 2, 2]), bags)
    assert rows.matrix.toarray().tolist() == [[0, -1, 0, 0, 0, -1], [0, 0, 0, -1, 0, 0]]
    assert rows.bounds.tolist() == [-1, -1]


def test_pairs_that_are_none():
    assert error_of(lambda: must_link([0, 1])) == (
        "must_link: pairs must be integers of shape (n_pairs, 2), got int64 of shape (2,); write [[0, 1], [2, 3]]"
    )
    assert error_of(lambda: cannot_link([[0.0, 1.0]])) == (
        "cannot_link: pairs must be integers of shape (n_pairs, 2), got float64 of shape (1, 2); write [[0, 1], [2, 3]]"
    )
    assert error_of(lambda: must_link([[0, 1], [2]])) == (
        "must_link: pairs must name two rows each, got [[0, 1], [2]]; write [[0, 1], [2, 3]]"
    )
    assert error_of(lambda: must_link([[0, -1]])) == "must_link: pairs must name rows from 0, got -1"
    assert error_of(lambda: must_link([[0, 1], [2, 2]])) == (
        "must_link: pairs must link two rows, got row 2 with itself; drop it"
    )
    assert error_of(lambda: must_link([[0, 5]]).rows(Categorical([2, 2]))) == (
        "must link: pairs must name rows from 0 to 1, got 5; count rows from 0"
    )
    assert error_of(lambda: cannot_link([[0, 1]]).rows(Categorical([2, 3]))) == (
        "cannot link must be used on rows with the same labels each, got rows of different length or "
        "sequences; use it with GaussianMixture or on a table of shape (n_rows, n_labels)"
    )
