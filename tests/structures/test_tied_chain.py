"""Tied chains against forward-backward by scipy's logsumexp, against Chain, and against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from spectrem.exceptions import InvalidInputError
from spectrem.kernels.chains import chain, chain_lanes, chain_log
from spectrem.structures import Chain, Parts, TiedChain
from spectrem.testing import brute_force_smoothed_max

GAMMAS = (0.3, 1.0, 2.5, 20.0)


class Setup:
    """A table of rows in two forms: as TiedChain takes it, and as a matrix with -inf where a row has no state."""

    def __init__(self, rng, n_rows, n_states, gamma, kind, spread=1.0, impossible=0.0):
        self.n_states, self.gamma = n_states, gamma
        allowed = rng.random((n_rows, n_states)) < 0.5
        allowed[np.arange(n_rows), rng.integers(n_states, size=n_rows)] = True
        if kind == "mixed":
            allowed[: n_rows // 2] = True
        elif kind == "dense":
            allowed[:] = True
        self.offsets = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))])
        self.states = np.nonzero(allowed)[1]
        self.scores = spread * rng.normal(size=len(self.states))
        self.scores[rng.random(len(self.scores)) < impossible] = -np.inf
        self.initial, self.transition = rng.normal(size=n_states), spread * rng.normal(size=(n_states, n_states))
        self.transition[rng.random(self.transition.shape) < impossible] = -np.inf
        self.allowed, self.dense = allowed, kind == "dense"
        self.matrix = np.full(allowed.shape, -np.inf)
        self.matrix[allowed] = self.scores

    def tied(self):
        states = None if self.dense else self.states
        return TiedChain(
            self.offsets, states, self.n_states, self.scores, self.initial, self.transition, gamma=self.gamma
        )

    def gathered(self, lengths, rows):
        """The same as Chain and Parts, and the table's part of every unary part."""
        widths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(widths)])
        parts = np.concatenate([np.zeros(0, int), *(np.arange(*self.offsets[r : r + 2]) for r in rows)])
        unary, states = self.scores[parts], self.states[parts]
        starts = (np.cumsum(lengths) - lengths)[np.asarray(lengths) > 0]
        is_first = np.isin(np.repeat(np.arange(len(rows)), widths), starts)
        unary[is_first] += self.initial[states[is_first]]
        structure = Chain(lengths, self.n_states, None if self.dense else (offsets, states))
        return structure, Parts(unary, (self.transition,)), parts, is_first

    def check(self, lengths, rows, weights, values, counts, rtol=1e-10):
        """By logsumexp, sentence by sentence."""
        lengths = np.asarray(lengths)
        by_row, initial = np.zeros(self.matrix.shape), np.zeros(self.n_states)
        transition, expected = np.zeros_like(self.transition), np.zeros(len(lengths))
        for n, (end, length) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
            own = rows[end - length : end]
            expected[n], posterior, pairs = forward_backward(self, own)
            if length and expected[n] > -np.inf:
                np.add.at(by_row, own, weights[n] * posterior)
                initial += weights[n] * posterior[0]
                transition += weights[n] * pairs
        np.testing.assert_allclose(values, expected, rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(counts.rows, by_row[self.allowed], rtol=rtol, atol=1e-10)
        np.testing.assert_allclose(counts.initial, initial, rtol=rtol, atol=1e-10)
        np.testing.assert_allclose(counts.transition, transition, rtol=rtol, atol=1e-10)


def forward_backward(setup, rows):
    """Value, posteriors and expected transitions of one sentence."""
    if len(rows) == 0:
        return 0.0, None, None
    emit, move = setup.matrix[rows] / setup.gamma, setup.transition / setup.gamma
    emit[0] += setup.initial / setup.gamma
    alpha, beta = [emit[0]], [np.zeros(setup.n_states)]
    with np.errstate(invalid="ignore"):
        for row in emit[1:]:
            alpha.append(row + logsumexp(alpha[-1][:, None] + move, axis=0))
        for row in emit[:0:-1]:
            beta.append(logsumexp(move + row + beta[-1], axis=1))
        beta.reverse()
        total = logsumexp(alpha[-1])
        if total == -np.inf:
            return total, None, None
        pairs = np.zeros_like(move)
        for t in range(1, len(rows)):
            pairs += np.exp(alpha[t - 1][:, None] + move + emit[t] + beta[t] - total)
    return setup.gamma * total, np.exp(np.array(alpha) + np.array(beta) - total), pairs


def batch(rng, n_rows, n_sentences=60, longest=12):
    lengths = rng.integers(0, longest + 1, n_sentences)
    weights = rng.uniform(0, 2, n_sentences) * (rng.random(n_sentences) < 0.8)
    return lengths, rng.integers(n_rows, size=lengths.sum()), weights


@pytest.mark.parametrize("kind", ["dense", "restricted", "mixed"])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("n_states", [2, 5, 8])
def test_equals_forward_backward_and_chain(kind, gamma, n_states):
    rng = np.random.default_rng([n_states, int(10 * gamma), len(kind)])
    setup = Setup(rng, 9, n_states, gamma, kind)
    lengths, rows, weights = batch(rng, 9)
    values, counts = setup.tied().expected_counts(lengths, rows, weights)
    setup.check(lengths, rows, weights, values, counts)

    structure, scores, parts, is_first = setup.gathered(lengths, rows)
    own_values, own = structure.smoothed_max(scores, gamma, weights=weights)
    columns = structure.columns
    posterior = own.unary * weights[columns["sentence"]]
    by_row = np.bincount(parts, posterior, len(setup.scores))
    initial = np.bincount(columns["tag"][is_first], posterior[is_first], n_states)
    np.testing.assert_allclose(values, own_values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(counts.rows, by_row, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(counts.initial, initial, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(counts.transition, own.factors[0], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", ["dense", "restricted", "mixed"])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_impossible_sentences_have_no_counts(kind, gamma):
    rng = np.random.default_rng(3)
    setup = Setup(rng, 7, 4, gamma, kind, impossible=0.45)
    lengths, rows, weights = batch(rng, 7)
    values, counts = setup.tied().expected_counts(lengths, rows, weights)
    impossible = np.isneginf(values)
    assert 0 < impossible.sum() < (lengths > 0).sum()
    setup.check(lengths, rows, weights, values, counts)


@pytest.mark.parametrize("spread", [20.0, 100.0, 1000.0])
@pytest.mark.parametrize("kind", ["dense", "restricted", "mixed"])
def test_sentences_that_scaling_loses(kind, spread, monkeypatch):
    asked = record(monkeypatch, chain_log)
    rng = np.random.default_rng(int(spread))
    setup = Setup(rng, 9, 4, 1.0, kind, spread=spread, impossible=0.3)
    lengths, rows, weights = batch(rng, 9)
    values, counts = setup.tied().expected_counts(lengths, rows, weights)
    setup.check(lengths, rows, weights, values, counts)
    assert bool(asked) == (spread >= 100)


def record(monkeypatch, module):
    """The number of sentences that a pass is asked for, call by call."""
    asked, sum_pass = [], module.sum_pass

    def recorded(*arguments):
        asked.append(len(arguments[0]) if module is chain_lanes else int((arguments[-1] == 1).sum()))
        sum_pass(*arguments)

    monkeypatch.setattr(module, "sum_pass", recorded)
    return asked


def test_which_pass_takes_which_sentence(monkeypatch):
    side_by_side, alone, in_logs = (record(monkeypatch, module) for module in (chain_lanes, chain, chain_log))
    # Row 0 takes both states, row 1 only state 1; row 2 leaves state 0 behind by 800 nats and row 3 needs it.
    offsets, states = [0, 2, 3, 5, 6], [0, 1, 1, 0, 1, 0]
    scores = [0.0, 0.0, 0.0, -800.0, 0.0, 0.0]
    stay = np.log([[0.75, 1e-300], [1e-300, 0.75]])
    tied = TiedChain(offsets, states, 2, scores, np.zeros(2), stay, gamma=1.0)
    lengths = np.array([2] * 20 + [2] + [2])
    rows = np.array([0, 0] * 20 + [0, 1] + [2, 3])
    values, counts = tied.expected_counts(lengths, rows)
    assert (side_by_side, alone, in_logs) == ([20], [2], [1])
    np.testing.assert_allclose(values, [np.log(1.5)] * 20 + [np.log(0.75), np.log(1e-300)], rtol=1e-12)
    np.testing.assert_allclose(counts.rows, [20, 21, 1, 0, 1, 1], atol=1e-12)
    np.testing.assert_allclose(counts.transition, [[10, 0], [1, 11]], atol=1e-12)


@pytest.mark.parametrize(("ruled_out", "in_log_space"), [(-np.inf, []), (0.0, [10])])
def test_what_is_lost_side_by_side_is_run_alone(monkeypatch, ruled_out, in_log_space):
    side_by_side, alone, in_logs = (record(monkeypatch, module) for module in (chain_lanes, chain, chain_log))
    # State 1 falls below the floor at row 0. Row 1 may rule it out, which only a bound by state can know; the others
    # are in favour of it.
    scores = np.array([[0.0, -250.0], [0.0, ruled_out], [-9.0, 0.0]])
    move = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    tied = TiedChain([0, 2, 4, 6], None, 2, scores.ravel(), np.zeros(2), move, gamma=1.0)
    lengths, rows = np.full(10, 25), np.tile([0, 1, *[2] * 23], 10)
    values, counts = tied.expected_counts(lengths, rows)
    assert (side_by_side, alone, in_logs) == ([10], [10], in_log_space)
    np.testing.assert_allclose(values, np.logaddexp(-9.0 * 23, -250.0 + ruled_out), rtol=1e-12)
    np.testing.assert_allclose(counts.initial, [10, 10 * np.exp(-43 + ruled_out)], rtol=1e-9)


def test_long_and_short_sentences():
    rng = np.random.default_rng(5)
    setup = Setup(rng, 30, 3, 1.0, "dense", spread=3.0)
    lengths = np.array([3000, *[7] * 40, 700, 1, 0])
    rows, weights = rng.integers(30, size=lengths.sum()), rng.uniform(0, 2, len(lengths))
    values, counts = setup.tied().expected_counts(lengths, rows, weights)
    setup.check(lengths, rows, weights, values, counts)
    np.testing.assert_allclose(counts.rows.sum(), weights @ lengths, rtol=1e-12)


def test_other_sentences_do_not_matter():
    rng = np.random.default_rng(6)
    setup = Setup(rng, 9, 5, 1.0, "dense")
    lengths, rows, weights = batch(rng, 9, n_sentences=100)
    tied = setup.tied()
    values, counts = tied.expected_counts(lengths, rows, weights)
    starts = np.cumsum(lengths) - lengths
    total = np.zeros_like(counts.rows)
    for n in range(len(lengths)):
        own, alone = tied.expected_counts(
            lengths[n : n + 1], rows[starts[n] : starts[n] + lengths[n]], weights[n : n + 1]
        )
        np.testing.assert_allclose(own[0], values[n], rtol=1e-12, atol=1e-12)
        total += alone.rows
    np.testing.assert_allclose(counts.rows, total, rtol=1e-11, atol=1e-12)
    again, same = tied.expected_counts(lengths, rows, weights)
    assert (again == values).all()
    assert all((a == b).all() for a, b in zip(same, counts, strict=True))


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_states=st.integers(1, 3),
    lengths=st.lists(st.integers(0, 4), max_size=3),
    gamma=st.sampled_from(GAMMAS),
    kind=st.sampled_from(["dense", "restricted"]),
)
def test_equals_enumeration(seed, n_states, lengths, gamma, kind):
    rng = np.random.default_rng(seed)
    setup = Setup(rng, 4, n_states, gamma, kind, impossible=0.1)
    rows = rng.integers(4, size=sum(lengths))
    weights = rng.uniform(0, 2, len(lengths))
    values, counts = setup.tied().expected_counts(lengths, rows, weights)
    structure, scores, parts, is_first = setup.gathered(np.array(lengths, int), rows)
    expected = brute_force_smoothed_max(structure, scores, gamma, weights=weights)
    posterior = expected.marginals.unary * weights[structure.columns["sentence"]]
    np.testing.assert_allclose(values, expected.values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(counts.rows, np.bincount(parts, posterior, len(setup.scores)), atol=1e-10)
    np.testing.assert_allclose(
        counts.initial, np.bincount(setup.states[parts][is_first], posterior[is_first], n_states), atol=1e-10
    )
    np.testing.assert_allclose(counts.transition, expected.marginals.factors[0], atol=1e-10)


def test_nothing_to_count():
    tied = TiedChain([0, 2], None, 2, [0.0, 0.0], [0.0, 0.0], np.zeros((2, 2)), gamma=1.0)
    for lengths in ([], [0, 0]):
        values, counts = tied.expected_counts(lengths, np.zeros(0, int))
        assert values.tolist() == [0.0] * len(lengths)
        assert not any(array.any() for array in counts)


def test_rows_without_states_are_impossible():
    tied = TiedChain([0, 0, 1], [1], 2, [0.0], [0.0, 0.0], np.zeros((2, 2)), gamma=1.0)
    assert tied.expected_counts([1, 1], [0, 1])[0].tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_states": 0}, r"n_states must be an integer >= 1; got 0"),
        ({"row_offsets": [1, 2]}, r"row_offsets must start at 0 and never fall"),
        (
            {"row_offsets": [0, 1]},
            r"row_offsets must give every row 2 parts when row_states is None; got rows of \[1\]",
        ),
        ({"row_states": [0, 2]}, r"row_states must be in 0\.\.1; got 2 at index 1"),
        ({"row_states": [1, 0]}, r"row_states must increase within a row; got 0 after 1 at index 1"),
        ({"row_states": [1]}, r"row_states must have 2 entries, as its offsets say; got 1"),
        ({"row_scores": [0.0]}, r"row_scores must have shape \(2,\)"),
        ({"initial": [0.0]}, r"initial must have shape \(2,\)"),
        ({"transition": [[0.0]]}, r"transition must have shape \(2, 2\)"),
        ({"transition": np.full((2, 2), np.nan)}, r"transition must hold finite scores in nats, or -inf"),
        ({"gamma": 0.0}, r"gamma must be > 0 for expected counts; got 0; use Chain\.smoothed_max"),
        ({"gamma": -1.0}, r"gamma must be >= 0; got -1\.0"),
    ],
)
def test_bad_tables_are_refused(changes, message):
    given = {
        "row_offsets": [0, 2],
        "row_states": None,
        "n_states": 2,
        "row_scores": [0.0, 0.0],
        "initial": [0.0, 0.0],
        "transition": np.zeros((2, 2)),
        "gamma": 1.0,
    }
    with pytest.raises(InvalidInputError, match=message):
        TiedChain(**(given | changes))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2], [0]), r"rows must have 2 entries, the sum of lengths; got 1; give every token its row"),
        (([1], [1]), r"rows must be in 0\.\.0; got 1 at index 0; add a row for unknown words"),
        (([1], [-1]), r"rows must be in 0\.\.0; got -1 at index 0"),
        (([-1], []), r"lengths must not be negative; got -1 at index 0"),
        (([1], [0], [-1.0]), r"weights must be finite and >= 0; got -1\.0 at index 0"),
        (([1], [0], [1.0, 1.0]), r"weights must have shape \(1,\), one per instance; got \(2,\)"),
    ],
)
def test_bad_batches_are_refused(arguments, message):
    tied = TiedChain([0, 2], None, 2, [0.0, 0.0], [0.0, 0.0], np.zeros((2, 2)), gamma=1.0)
    with pytest.raises(InvalidInputError, match=message):
        tied.expected_counts(*arguments)
