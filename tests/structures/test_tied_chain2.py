import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structure_cases import seeds

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Chain2, Parts, TiedChain2


def gathered(table, lengths, rows):
    """Chain2, its scores, the row part of every unary part and the first tokens' parts."""
    offsets, states, n_states, scores, initial, second, transition = table
    starts, widths = offsets[:-1][rows], np.diff(offsets)[rows]
    unary_offsets = np.append(0, np.cumsum(widths))
    parts = np.arange(unary_offsets[-1]) + np.repeat(starts - unary_offsets[:-1], widths)
    firsts = np.append(0, np.cumsum(lengths))[:-1][np.array(lengths) > 0]
    first = np.isin(np.repeat(np.arange(len(rows)), widths), firsts)
    tags = (np.tile(np.arange(n_states), len(offsets) - 1) if states is None else states)[parts]
    unary = scores[parts] + np.where(first, initial[tags], 0.0)
    return Chain2(lengths, n_states, (unary_offsets, tags)), Parts(unary, (second, transition)), parts, first


def same_as_gathered(table, gamma, lengths, rows, weights):
    tied = TiedChain2(*table, gamma)
    values, counts = tied.expected_counts(lengths, rows, weights)
    chain, scores, parts, first = gathered(table, lengths, rows)
    expected, marginals = chain.smoothed_max(scores, gamma, weights=weights)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    weighted = marginals.unary * weights[chain.instance]
    np.testing.assert_allclose(counts.rows, np.bincount(parts, weighted, len(table[3])), atol=1e-9)
    tags = chain.columns["tag"][first]
    np.testing.assert_allclose(counts.initial, np.bincount(tags, weighted[first], table[2]), atol=1e-9)
    np.testing.assert_allclose(counts.second, marginals.factors[0], atol=1e-9)
    np.testing.assert_allclose(counts.transition, marginals.factors[1], atol=1e-9)


@settings(max_examples=80)
@given(
    lengths=st.lists(st.integers(0, 6), max_size=5),
    n_states=st.integers(1, 6),
    n_rows=st.integers(1, 5),
    dense=st.booleans(),
    gamma=st.sampled_from([0.3, 1.0, 2.5]),
    spread=st.sampled_from([1.0, 1.0, 150.0, 1000.0]),
    impossible=st.sampled_from([0.0, 0.2]),
    seed=seeds(),
)
def test_counts_are_those_of_gathered_scores(lengths, n_states, n_rows, dense, gamma, spread, impossible, seed):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return np.where(rng.random(shape) < impossible, -np.inf, spread * rng.normal(size=shape))

    allowed = np.ones((n_rows, n_states), bool) if dense else rng.random((n_rows, n_states)) < 0.6
    offsets = np.append(0, np.cumsum(allowed.sum(axis=1)))
    states = None if dense else np.nonzero(allowed)[1]
    table = (
        offsets,
        states,
        n_states,
        draw(offsets[-1]),
        draw(n_states),
        draw(*(n_states,) * 2),
        draw(*(n_states,) * 3),
    )
    rows, weights = rng.integers(0, n_rows, sum(lengths)), rng.uniform(0, 3, len(lengths))
    same_as_gathered(table, gamma, lengths, rows, weights)


@pytest.mark.parametrize("n_states", [7, 12])
def test_wide_tables(n_states):
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=size) for size in (9 * n_states, n_states, (n_states,) * 2, (n_states,) * 3)]
    table = (np.arange(10) * n_states, None, n_states, *scores)
    lengths = [40, 3, 0, 1, 2, 25]
    same_as_gathered(table, 1.0, lengths, rng.integers(0, 9, 71), np.arange(6.0))


def test_an_empty_and_an_impossible_sentence():
    scores = np.array([0.0, -np.inf])
    block = np.where(np.eye(2) > 0, -np.inf, np.log(0.5))  # never the same state twice
    tied = TiedChain2([0, 1, 2], [0, 1], 2, scores, np.zeros(2), block, np.stack([block, block]), 1.0)
    values, counts = tied.expected_counts([0, 2, 1, 2], [0, 0, 0, 0, 1])
    assert values.tolist() == [0.0, -np.inf, 0.0, -np.inf]
    assert counts.rows.tolist() == [1.0, 0.0]
    assert counts.initial.tolist() == [1.0, 0.0]
    assert not counts.second.any()
    assert not counts.transition.any()


def test_batches_add_up():
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=size) for size in (8, 4, (4, 4), (4, 4, 4))]
    tied = TiedChain2([0, 4, 8], None, 4, *scores, 0.5)
    rows = rng.integers(0, 2, 12)
    values, counts = tied.expected_counts([5, 7], rows)
    one, first = tied.expected_counts([5], rows[:5])
    other, last = tied.expected_counts([7], rows[5:])
    assert values.tolist() == [*one, *other]
    for total, a, b in zip(counts, first, last, strict=True):
        np.testing.assert_allclose(total, a + b, rtol=1e-14)


def table_of(**changed):
    table = {
        "row_offsets": [0, 2],
        "row_states": None,
        "n_states": 2,
        "row_scores": np.zeros(2),
        "initial": np.zeros(2),
        "second": np.zeros((2, 2)),
        "transition": np.zeros((2, 2, 2)),
        "gamma": 1.0,
    }
    return TiedChain2(**{**table, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_states": 0}, r"n_states must be an integer >= 1; got 0"),
        (
            {"row_offsets": [0, 3]},
            r"row_offsets must give every row 2 parts when row_states is None; got rows of \[3\]",
        ),
        (
            {"row_states": [0]},
            r"row_states must have 2 entries, as its offsets say; got 1; flatten the states row after",
        ),
        ({"row_states": [0, 2]}, r"row_states must be in 0\.\.1; got 2 at index 1; raise n_states"),
        ({"row_states": [1, 0]}, r"row_states must increase within a row; got 0 after 1 at index 1; sort each row's"),
        ({"row_scores": np.zeros(3)}, r"row_scores must have shape \(2,\).*; got \(3,\)"),
        ({"initial": np.zeros(3)}, r"initial must have shape \(2,\).*; got \(3,\)"),
        ({"second": np.zeros(4)}, r"second must have shape \(2, 2\).*; got \(4,\)"),
        ({"transition": np.zeros((2, 2))}, r"transition must have shape \(2, 2, 2\).*; got \(2, 2\)"),
        ({"transition": np.full((2, 2, 2), np.nan)}, r"transition must hold finite scores in nats.*got NaN"),
        ({"gamma": 0}, r"gamma must be > 0 for expected counts; got 0; use Chain2\.smoothed_max"),
        ({"gamma": -1.0}, r"gamma must be >= 0; got -1\.0"),
    ],
)
def test_bad_tables_are_refused(changed, message):
    with pytest.raises(InvalidInputError, match=message):
        table_of(**changed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2], [0]), r"rows must have 2 entries, the sum of lengths; got 1; give every token its row"),
        (([1], [1]), r"rows must be in 0\.\.0; got 1 at index 0; add a row for unknown words"),
        (([1], [-1]), r"rows must be in 0\.\.0; got -1 at index 0"),
        (([1], [0], [-1.0]), r"weights must be finite and >= 0; got -1\.0 at index 0"),
    ],
)
def test_bad_batches_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        table_of().expected_counts(*arguments)
