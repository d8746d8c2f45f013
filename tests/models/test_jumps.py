"""Jump potentials: normalisers against double loops, the fit against a general optimiser."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrem.models.alignment.model import fit_jumps, normalisers


def width_of(jump, distance):
    half = (len(jump) - 1) // 2
    return min(max(distance, -half), half) + half


def slow_normalisers(jump, lengths):
    out = np.zeros((len(lengths), max(lengths, default=0) + 1))
    for k, length in enumerate(lengths):
        for p in range(-1, length):
            out[k, p + 1] = sum(jump[width_of(jump, i - p)] for i in range(length))
    return out


def objective(jump, jump_counts, departures, lengths, pseudo_count):
    """Expected log-probability of the jumps; pseudo-counts are links made where every width is reached once."""
    total = (jump_counts + pseudo_count) @ np.log(np.maximum(jump, 1e-300))
    total -= pseudo_count * len(jump) * np.log(jump.sum())
    sums = slow_normalisers(jump, lengths)
    used = departures > 0
    return total - departures[used] @ np.log(sums[used])


def problem(seed, half=None):
    """Counts that real alignments could have given: departures and jumps agree in number."""
    rng = np.random.default_rng(seed)
    half = int(rng.integers(1, 5)) if half is None else half
    lengths = np.arange(int(rng.integers(2, 7)))
    counts, departures = np.zeros(2 * half + 1), np.zeros((len(lengths), len(lengths)))
    true = rng.random(2 * half + 1) ** 2 + 0.01
    for length in lengths[1:]:
        for p in range(-1, length):
            n = rng.random() * 10
            p_i = np.array([true[width_of(true, i - p)] for i in range(length)])
            p_i = p_i / p_i.sum() * rng.uniform(0.5, 1.5, length)
            p_i /= p_i.sum()
            departures[length, p + 1] = n
            for i in range(length):
                counts[width_of(true, i - p)] += n * p_i[i]
    return counts, departures, lengths, rng.random(2 * half + 1) + 0.05


@given(st.lists(st.integers(0, 8), max_size=5), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_normalisers_are_double_loops(lengths, half, seed):
    jump = np.random.default_rng(seed).random(2 * half + 1)
    got = normalisers(jump, np.array(lengths, np.int64))
    np.testing.assert_allclose(got, slow_normalisers(jump, lengths), rtol=1e-12, atol=1e-14)


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_fit_reaches_the_optimum_of_a_general_optimiser(seed, pseudo_count):
    counts, departures, lengths, start = problem(seed)
    fitted = fit_jumps(start, counts, departures, lengths, pseudo_count=pseudo_count, tol=0.0, max_iter=3_000)
    assert fitted.sum() == pytest.approx(1.0)
    arguments = (counts, departures, lengths, pseudo_count)
    best = scipy.optimize.minimize(lambda logs: -objective(np.exp(logs), *arguments), np.log(start), method="BFGS")
    reached = objective(fitted, *arguments)
    assert reached >= -best.fun - 1e-5 * (1 + abs(best.fun))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 2.0]))
def test_no_round_lowers_the_objective(seed, pseudo_count):
    counts, departures, lengths, jump = problem(seed)
    values = []
    for _ in range(8):
        values.append(objective(jump, counts, departures, lengths, pseudo_count))
        jump = fit_jumps(jump, counts, departures, lengths, pseudo_count=pseudo_count, max_iter=1)
    assert (np.diff(values) >= -1e-9 * (1 + np.abs(values[1:]))).all()


def test_the_scale_of_potentials_and_counts_does_not_matter():
    counts, departures, lengths, start = problem(3)
    once = fit_jumps(start, counts, departures, lengths, pseudo_count=0.0)
    scaled = fit_jumps(7.0 * start, 5.0 * counts, 5.0 * departures, lengths, pseudo_count=0.0)
    np.testing.assert_allclose(scaled, once, rtol=1e-8)


def test_pseudo_counts_without_data_give_uniform_potentials():
    fitted = fit_jumps(np.array([0.7, 0.2, 0.1]), np.zeros(3), np.zeros((4, 4)), np.arange(4), pseudo_count=1.0)
    np.testing.assert_allclose(fitted, 1 / 3)


def test_pseudo_counts_keep_unseen_widths_possible():
    counts, departures, lengths, start = problem(5, half=4)
    counts[0] = 0.0
    assert fit_jumps(start, counts, departures, lengths, pseudo_count=0.0)[0] == 0.0
    assert fit_jumps(start, counts, departures, lengths, pseudo_count=1.0)[0] > 0.0


def test_a_single_word_leaves_no_choice_so_any_potentials_are_best():
    departures = np.zeros((2, 2))
    departures[1] = [2.0, 3.0]  # from the start, and back to the only word
    counts = np.array([0.0, 3.0, 2.0])
    start = np.array([0.2, 0.5, 0.3])
    fitted = fit_jumps(start, counts, departures, np.arange(2), pseudo_count=0.0)
    values = [objective(jump, counts, departures, np.arange(2), 0.0) for jump in (fitted, start)]
    assert values == pytest.approx([0.0, 0.0], abs=1e-12)
