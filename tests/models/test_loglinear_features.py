"""Features, pairs with weights, merging and shards against dense matrices, and what they refuse with which words."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear import (
    Features,
    Labels,
    LogLinearModel,
    Support,
    WeightPrior,
    build_shards,
    merge_features,
)


def matrix_of(shape=(12, 9), seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.4, rng.normal(size=shape), 0.0).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_scores_and_counts_are_products_of_matrices(k, binary, dtype):
    dense = (matrix_of(dtype=dtype) != 0).astype(dtype) if binary else matrix_of(dtype=dtype)
    features, rng = Features.of(sp.csr_array(dense)), np.random.default_rng(1)
    assert (features.values is None) == binary
    some = rng.random((9, k)) < 0.6
    for support in (Support(9, k), Support.pairs(*np.nonzero(some), 9, k)):
        weights = rng.normal(size=support.n_weights)
        scores, shares, counts = np.ones((12, k)), rng.random((12, k)), np.ones(support.n_weights)
        support.add_scores(features, weights, scores)
        np.testing.assert_allclose(scores, 1 + dense @ support.table(weights), atol=1e-12)
        support.add_counts(features, shares, counts)
        expected = dense.T.astype(np.float64) @ shares
        np.testing.assert_allclose(counts, 1 + expected[support.table(np.ones(support.n_weights)) > 0], atol=1e-12)


def containers(dense):
    """The same numbers as every kind of matrix: with zeros stored, entries in parts, and rows out of order."""
    n, k = dense.shape
    rows, columns = np.divmod(np.random.default_rng(8).permutation(2 * n * k) // 2, k)
    halves = sp.coo_array((0.5 * dense[rows, columns], (rows, columns)), dense.shape)  # two at every place
    backward = sp.csr_array((dense[:, ::-1].ravel(), np.tile(np.arange(k)[::-1], n), k * np.arange(n + 1)), dense.shape)
    twice = np.repeat(0.5 * dense.ravel(), 2), np.repeat(np.tile(np.arange(k), n), 2), 2 * k * np.arange(n + 1)
    return {
        "dense": dense, "by column": np.asfortranarray(dense), "csr": sp.csr_array(dense), "csc": sp.csc_array(dense),
        "coo": halves, "zeros": backward, "csc zeros": backward.tocsc(), "twice": sp.csr_array(twice, dense.shape),
        "csr matrix": sp.csr_matrix(backward),
    }  # fmt: skip


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.5, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_are_those_of_the_numbers_whatever_holds_them(share, dtype):
    rng = np.random.default_rng(6)
    dense = np.where(rng.random((20, 5)) < share, rng.normal(size=(20, 5)), 0.0).astype(dtype)
    own = Features.of(dense)
    assert (own.matrix.toarray() == dense).all()
    for name, matrix in containers(dense).items():
        stored = matrix.data.copy() if sp.issparse(matrix) else None
        found = Features.of(matrix)
        assert stored is None or (matrix.data == stored).all(), name  # what was given stays as it is
        assert found.indptr.tolist() == own.indptr.tolist(), name
        assert found.indices.tolist() == own.indices.tolist(), name
        if own.values is None:
            assert found.values is None
        else:
            assert found.values.tobytes() == own.values.tobytes(), name
            assert found.values.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.2, 0.9, 1.0])
def test_products_are_with_the_whole_table_where_most_of_it_is_not_0(share, dtype):
    rng = np.random.default_rng(6)
    dense = np.where(rng.random((30, 4)) < share, rng.normal(size=(30, 4)), 0.0).astype(dtype)
    features, support = Features.of(dense), Support(4, 3)
    assert (features.table is None) == (share < 0.5)
    if features.table is not None:
        assert (features.table == dense).all()
        rows = np.arange(3, 9)
        assert (features.take(rows).table == dense[3:9]).all()
        assert features.take(np.array([7, 2])).table.tolist() == dense[[7, 2]].tolist()
    weights, shares = rng.normal(size=12), rng.random((30, 3))
    scores, counts = np.ones((30, 3)), np.ones(12)
    support.add_scores(features, weights, scores)
    support.add_counts(features, shares, counts)
    np.testing.assert_allclose(scores, 1 + dense @ weights.reshape(4, 3), atol=1e-12)
    np.testing.assert_allclose(counts, 1 + (dense.T @ shares).ravel(), atol=1e-12)


def test_a_feature_listed_twice_is_in_the_table_once():
    twice = Features(np.array([0, 2, 3]), np.array([0, 0, 1], np.int32), np.array([1.0, 2.0, 5.0]), 2)
    assert twice.table.tolist() == [[3.0, 0.0], [0.0, 5.0]]


def test_features_are_cut_and_taken():
    dense = matrix_of()
    features = Features.of(dense)
    assert (features.matrix.toarray() == dense).all()
    rows = np.array([5, 0, 5])
    assert (features.take(rows).matrix.toarray() == dense[rows]).all()


def test_observed_pairs():
    dense, rng = matrix_of(), np.random.default_rng(2)
    sets = [np.sort(rng.choice(4, rng.integers(1, 4), replace=False)) for _ in range(12)]
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in sets])])
    support = Support.observed(Features.of(dense), offsets, np.concatenate(sets), 4)
    table = support.table(np.ones(support.n_weights))
    for f in range(9):
        seen = {label for row, own in enumerate(sets) if dense[row, f] != 0 for label in own.tolist()}
        assert set(np.flatnonzero(table[f]).tolist()) == seen


def test_merged_features_give_the_scores_and_the_penalty_of_all():
    dense = matrix_of((6, 5), seed=3)
    singles = np.diag([2.0, -3.0, 1.0, 0.0, 5.0, 7.0])
    whole = np.hstack([dense, -2.0 * dense[:, :3], singles, singles[:, ::-1], np.zeros((6, 2))])
    merged = merge_features(Features.of(whole))
    n = merged.features.n_features
    used = whole[:, whole.any(axis=0)]
    directions = {tuple((column / column[column != 0][0]).round(12).tolist()) for column in used.T}
    assert n == len(directions)
    weights = np.random.default_rng(4).normal(size=(n, 3))
    expanded = merged.expand(weights)
    np.testing.assert_allclose(whole @ expanded, merged.features.matrix @ weights, atol=1e-12)
    assert (expanded**2).sum() == pytest.approx((weights**2).sum(), rel=1e-12)
    assert (expanded[~whole.any(axis=0)] == 0).all()


def test_merging_does_not_rely_on_codes(monkeypatch):
    from spectrem.models.loglinear import features

    dense = matrix_of((6, 5), seed=3)
    whole = np.hstack([dense, 3.0 * dense])
    monkeypatch.setattr(features, "_codes", lambda rows, pattern, starts: np.zeros(len(starts), np.uint64))
    merged = merge_features(Features.of(whole))
    weights = np.random.default_rng(4).normal(size=(merged.features.n_features, 2))
    np.testing.assert_allclose(whole @ merged.expand(weights), merged.features.matrix @ weights, atol=1e-12)
    nothing = merge_features(Features.of(np.zeros((2, 3))))
    assert nothing.features.n_features == 0
    assert nothing.group.tolist() == [-1, -1, -1]


def test_shards_hold_every_instance_once_and_do_not_change_the_optimum():
    dense, rng = matrix_of((40, 5)), np.random.default_rng(5)
    codes = rng.integers(0, 3, 40)
    labels = Labels(np.arange(41), codes, np.ones(40))
    known = rng.random(40) < 0.7
    found = []
    for least in (1, 1000):
        shards = build_shards(Features.of(dense), labels=labels, known=known, least=least)
        numbers = np.concatenate([shard.instances for shard in shards])
        assert sorted(numbers.tolist()) == list(range(40))
        assert all(known[shard.instances].all() == shard.known for shard in shards)
        assert (len(shards) > 2) == (least == 1)
        found.append(LogLinearModel(Support(5, 3), prior=WeightPrior(0.5)).fit(shards))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert [shard.instances.tolist() for shard in build_shards(Features.of(np.zeros((0, 2))))] == [[]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Features.of(np.zeros(3)), "features must have the shape (n_choices, n_features), got (3,)"),
        (lambda: Features.of([[0.0, np.nan]]), "features must be finite, got nan in row 0, column 1; replace or"),
        (lambda: Features.of([[0.0, 1e200]]), "features must be below 1e+100 in size, got 1e+200 in row 0, column 1"),
        (lambda: Features.of(sp.csr_array([[0.0], [np.inf]])), "got inf in row 1, column 0"),
        (lambda: Support.pairs([0], [0, 1], 2, 2), "features and labels must have one length, got 1 and 2"),
        (lambda: Support.pairs([2], [0], 2, 2), "features must be in 0..1; got 2 at index 0; raise n_features"),
        (lambda: WeightPrior(-1.0), "l2 must be finite and at least 0, got -1.0"),
        (lambda: WeightPrior(l1=np.inf), "l1 must be finite and at least 0, got inf"),
        (lambda: build_shards(Features.of(np.eye(3)), [1, 1]), "lengths must add up to the number of tokens, got 2"),
        (lambda: build_shards(Features.of(np.eye(3)), columns={"a": np.zeros(2)}), "columns['a'] must have 3 values"),
    ],
)  # fmt: skip
def test_what_is_refused(call, message):
    with pytest.raises(InvalidInputError) as error:
        call()
    assert message in str(error.value)
