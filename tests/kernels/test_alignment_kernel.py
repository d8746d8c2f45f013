"""The scaled pass of the alignment chain and its derivations, against each other and against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.kernels.alignments import alignment as kernel
from spectrem.structures import Alignment, Parts
from spectrem.structures.derivations import smoothed_max
from spectrem.testing import brute_force_smoothed_max, enumerate_structures

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=4)  # the wrapper skips empty targets
SEEDS = st.integers(0, 2**32 - 1)


def problem(pairs, width, seed, spread=1.0, impossible=0.0):
    rng = np.random.default_rng(seed)
    structure = Alignment([i for i, _ in pairs], [j for _, j in pairs], max_jump=width)

    def draw(shape):
        values = spread * rng.normal(size=shape)
        return np.where(rng.random(shape) < impossible, -np.inf, values)

    scores = Parts(draw(structure.n_unary), tuple(draw(shape) for shape in structure.factor_shapes))
    return structure, scores, rng.uniform(0.2, 2.0, len(pairs))


def layout(structure, scores):
    lengths = structure.source_lengths, structure.target_lengths
    return kernel.Scores(*lengths, structure.offsets, scores.unary, *scores.factors)


def both(structure, scores, gamma, weights, active=None):
    n = structure.n_instances
    status, chosen = np.zeros(n, np.bool_), np.ones(n, np.bool_) if active is None else active
    values, marginals = np.zeros(n), np.zeros(structure.n_unary)
    counts = kernel.Expected(*(np.zeros(shape) for shape in structure.factor_shapes))
    kernel.sum_pass(layout(structure, scores), None, gamma, chosen, weights, values, marginals, counts, status)
    others, derived = smoothed_max(structure, scores, gamma, chosen, weights)
    flat = [
        np.concatenate([one, *(part.ravel() for part in parts)])
        for one, parts in ((marginals, counts), (derived.unary, derived.factors))
    ]
    return (values, flat[0]), (others, flat[1]), status


@given(PAIRS, st.integers(1, 4), SEEDS, st.sampled_from([0.3, 1.0, 2.5]), st.sampled_from([0.0, 0.25]))
def test_both_passes_are_enumeration(pairs, width, seed, gamma, impossible):
    structure, scores, weights = problem(pairs, width, seed, impossible=impossible)
    scaled, derived, status = both(structure, scores, gamma, weights)
    assert not status.any()
    expected = brute_force_smoothed_max(structure, scores, gamma, weights=weights)
    flat = np.concatenate([expected.marginals.unary, *(f.ravel() for f in expected.marginals.factors)])
    for values, marginals in (scaled, derived):
        np.testing.assert_allclose(values, expected.values, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(marginals, flat, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_passes_agree_on_longer_pairs(gamma):
    structure, scores, weights = problem([(12, 9), (1, 15), (20, 1), (7, 25)], 5, seed=1, spread=3.0)
    (values, marginals), (others, expected), status = both(structure, scores, gamma, weights)
    assert not status.any()
    np.testing.assert_allclose(values, others, rtol=1e-11)
    np.testing.assert_allclose(marginals, expected, rtol=1e-8, atol=1e-12)


def dense(structure, scores, gamma, weights):
    """All moves one by one, one pair at a time, by matrices of every p and i."""
    jump, departure, end = scores.factors
    width, values, unary = structure.max_jump, [], []
    counts = [np.zeros(shape) for shape in structure.factor_shapes]
    for n, (n_source, n_target) in enumerate(zip(structure.source_lengths, structure.target_lengths, strict=True)):
        row = scores.unary[slice(*structure.offsets[n : n + 2])].reshape(n_target, n_source + 1)
        cell = np.clip(np.arange(n_source) - np.arange(-1, n_source)[:, None], -width, width) + width
        left = np.minimum(n_source - np.arange(n_source + 1), width)
        move = np.exp((jump[cell] + departure[n_source, : n_source + 1, None]) / gamma)
        emit = np.exp(row / gamma)
        alpha = [np.eye(n_source + 1)[0]]
        for j in range(n_target):
            alpha.append(emit[j, -1] * alpha[j] + np.append(0.0, (alpha[j] @ move) * emit[j, :-1]))
        beta = np.exp(end[left] / gamma)
        total = alpha[-1] @ beta
        values.append(gamma * np.log(total))
        np.add.at(counts[2], left, weights[n] * alpha[-1] * beta / total)
        own = np.empty_like(row)
        for j in reversed(range(n_target)):
            pair = alpha[j][:, None] * move * (emit[j, :-1] * beta[1:]) / total
            own[j] = np.append(pair.sum(axis=0), emit[j, -1] * (alpha[j] @ beta) / total)
            np.add.at(counts[0], cell, weights[n] * pair)
            counts[1][n_source, : n_source + 1] += weights[n] * pair.sum(axis=1)
            beta = emit[j, -1] * beta + move @ (emit[j, :-1] * beta[1:])
        unary.append(own.ravel())
    return np.array(values), np.concatenate([*unary, *(count.ravel() for count in counts)])


@given(
    st.lists(st.tuples(st.integers(0, 24), st.integers(1, 8)), min_size=1, max_size=3),
    st.integers(1, 9),
    SEEDS,
    st.sampled_from([0.1, 0.3, 1.0, 3.0]),
    st.sampled_from([0.0, 0.2]),
)
def test_clipped_jumps_are_those_of_a_dense_pass(pairs, width, seed, gamma, impossible):
    """Entry by entry: the tails beyond the widest jump are sums of positive numbers, however small."""
    structure, scores, weights = problem(pairs, width, seed, impossible=impossible)
    with np.errstate(all="ignore"):
        expected_values, expected = dense(structure, scores, gamma, weights)
    possible = np.isfinite(expected_values)
    scaled, derived, status = both(structure, scores, gamma, weights, possible)
    assert not status.any()
    if not possible.all():
        return
    for values, marginals in (scaled, derived):
        np.testing.assert_allclose(values, expected_values, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(marginals, expected, rtol=3e-12, atol=1e-200)


def test_what_the_scaled_pass_loses_it_reports():
    """Scores of a thousand nats: either a pair is exact, or its status says that it is not."""
    reported = 0
    for seed in range(40):
        structure, scores, weights = problem([(4, 6), (3, 3), (6, 5)], 2, seed, spread=1e3)
        (values, _), (others, _), status = both(structure, scores, 1.0, weights)
        good = status == 0
        np.testing.assert_allclose(values[good], others[good], rtol=1e-9)
        reported += int((~good).sum())
    assert reported > 0


def test_only_active_pairs_are_touched():
    structure, scores, weights = problem([(2, 2), (3, 2), (2, 3)], 2, seed=2)
    active = np.array([True, False, True])
    for values, marginals in both(structure, scores, 1.0, weights, active)[:2]:
        assert values[1] == 0.0
        assert not marginals[: structure.n_unary][structure.instance == 1].any()
        assert values[0] != 0.0


@given(PAIRS, st.integers(1, 4), SEEDS)
def test_max_pass_finds_a_best_alignment(pairs, width, seed):
    structure, scores, weights = problem(pairs, width, seed)
    n = structure.n_instances
    values, choices = np.zeros(n), np.full(structure.n_positions, -9)
    counts = kernel.Expected(*(np.zeros(shape) for shape in structure.factor_shapes))
    kernel.max_pass(layout(structure, scores), np.ones(n, np.bool_), weights, values, choices, counts)
    expected = [np.zeros(shape) for shape in structure.factor_shapes]
    for k, (n_source, n_target) in enumerate(pairs):
        ranked = sorted(enumerate_structures(structure, k), key=scores.dot)
        assert values[k] == pytest.approx(scores.dot(ranked[-1]), rel=1e-10, abs=1e-10)
        own = slice(*structure.target_offsets[k : k + 2])
        picked = ranked[-1].unary[structure.instance == k].reshape(n_target, n_source + 1)
        assert choices[own].tolist() == picked.argmax(axis=1).tolist()
        for total, count in zip(expected, ranked[-1].factors, strict=True):
            total += weights[k] * count
    for got, total in zip(counts, expected, strict=True):
        np.testing.assert_allclose(got, total, rtol=1e-10, atol=1e-12)
