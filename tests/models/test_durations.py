"""Distributions of durations against SciPy, numeric maximisation, Kaplan and Meier, and EM over semi-Markov chains."""

import numpy as np
import pytest
from scipy import optimize, stats

from spectrem.exceptions import InvalidInputError
from spectrem.models.durations import Geometric, Histogram, NegativeBinomial, Poisson, duration_scores
from spectrem.structures import Parts, SemiMarkovChain

LONGEST = 12
PARAMETERS = {
    Poisson(): np.array([[3.0, 0.4]]),
    NegativeBinomial(): np.array([[3.0, 1.0], [0.7, 5.0]]),
    Geometric(): np.array([[0.2, 0.7]]),
    Geometric(3): np.array([[0.2, 0.7]]),
}
families = pytest.mark.parametrize("family", PARAMETERS)
censored = pytest.mark.parametrize(("left", "right"), [(False, False), (False, True), (True, False), (True, True)])


def random_counts(rng, least=1):
    counts = rng.gamma(0.7, 4.0, (2, 2, LONGEST, 2)) * np.exp(-0.2 * np.arange(LONGEST))[:, None]
    counts[:, :, : least - 1] = 0.0
    return counts


def score(family, counts, parameters, left, right):
    """The sum of counts times scores, by state."""
    scores = duration_scores(family.log_probabilities(parameters, LONGEST), left=left, right=right)
    return np.where(counts > 0.0, counts * np.maximum(scores, -1e300), 0.0).sum(axis=(0, 1, 2))


@pytest.mark.parametrize(
    ("family", "untruncated"),
    [
        (Poisson(), lambda p: stats.poisson(p[0], loc=1)),
        (NegativeBinomial(), lambda p: stats.nbinom(p[1], p[1] / (p[0] + p[1]), loc=1)),
        (Geometric(), lambda p: stats.geom(p[0])),
        (Geometric(3), lambda p: stats.geom(p[0], loc=2)),
    ],
)
def test_probabilities_are_those_of_scipy_cut_off_at_the_longest(family, untruncated):
    parameters, durations = PARAMETERS[family], np.arange(1, LONGEST + 1)
    log_p = family.log_probabilities(parameters, LONGEST)
    for state in (0, 1):
        expected = untruncated(parameters[:, state]).pmf(durations)
        np.testing.assert_allclose(np.exp(log_p[:, state]), expected / expected.sum(), rtol=1e-10)


def test_far_tails_are_finite():
    log_p = Poisson().log_probabilities(np.array([[3.0]]), 2000)
    scores = duration_scores(log_p, left=True, right=True)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores[0, 1, 1500:, 0], log_p[1500:, 0], atol=1e-2)


@censored
def test_scores_are_those_of_a_process_seen_for_a_while(left, right):
    """A segment of l tokens that is met at a random time is longer; what is left of it is any number up to l."""
    p = np.array([0.5, 0.2, 0.2, 0.1])
    scores = np.exp(duration_scores(np.log(p)[:, None], left=left, right=right))[..., 0]
    met = p * np.arange(1, 5)
    begins = {False: {length: p[length - 1] for length in range(1, 5)}}
    begins[True] = {d: sum(met[k - 1] / k for k in range(d, 5)) / met.sum() for d in range(1, 5)}
    for first in (0, 1):
        for last in (0, 1):
            whole = begins[bool(first and left)]
            for d in range(1, 5):
                expected = sum(whole[k] for k in range(d, 5)) if last and right else whole[d]
                assert scores[first, last, d - 1] == pytest.approx(expected)


@families
@censored
def test_fits_are_maxima(family, left, right):
    for seed in range(3):
        counts = random_counts(np.random.default_rng(seed), getattr(family, "minimum", 1))
        fitted = family.fit(counts, left=left, right=right)
        reached = score(family, counts, fitted, left, right)
        for state in (0, 1):

            def loss(logarithms, state=state, counts=counts):
                x = np.exp(np.clip(logarithms, -20, 20))
                there = np.tile((x / (1 + x) if isinstance(family, Geometric) else x)[:, None], 2)
                return -score(family, counts, there, left, right)[state]

            starts = [np.zeros(len(fitted)), np.full(len(fitted), 1.5)]
            found = [optimize.minimize(loss, x, method="Nelder-Mead", options={"xatol": 1e-7}) for x in starts]
            assert reached[state] >= max(-one.fun for one in found) - 1e-6


@families
@censored
def test_rounding_of_counts_moves_fits_no_more_than_rounding(family, left, right):
    """Sums over data that are cut otherwise differ by rounding; a search that ends early made 1e-8 of it."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        counts = random_counts(rng, getattr(family, "minimum", 1))
        rounded = counts * (1.0 + 4e-16 * rng.choice([-1, 0, 1], counts.shape))
        one, other = (
            np.exp(family.log_probabilities(family.fit(numbers, left=left, right=right), LONGEST))
            for numbers in (counts, rounded)
        )
        # Mean and size of negative binomials say nearly the same of some counts.
        atol = 2e-9 if isinstance(family, NegativeBinomial) else 1e-12
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("pseudo_count", [0.0, 0.5])
@censored
def test_histograms_are_maxima(pseudo_count, left, right):
    family, counts = Histogram(pseudo_count), random_counts(np.random.default_rng(0))
    fitted = family.fit(counts, left=left, right=right)
    np.testing.assert_allclose(fitted.sum(axis=0), 1.0)

    def loss(logits):
        p = np.exp(logits.reshape(LONGEST, 2) - np.logaddexp.reduce(logits.reshape(LONGEST, 2)))
        return -score(family, counts, p, left, right).sum() - family.log_density(p)

    best = optimize.minimize(loss, np.zeros(LONGEST * 2), method="L-BFGS-B", options={"maxfun": 10**5, "ftol": 1e-14})
    reached = score(family, counts, fitted, left, right).sum() + family.log_density(fitted)
    assert reached >= -best.fun - 1e-5


def test_right_censored_histograms_are_kaplan_and_meiers():
    """One that is cut off after d tokens may end with the d-th, so that it says nothing of the hazard there."""
    counts = random_counts(np.random.default_rng(1))
    whole, cut = counts[:, 0].sum(axis=0), counts[:, 1].sum(axis=0)
    whole[-1] += cut[-1]  # nothing is longer
    cut[-1] = 0.0
    hazards = whole / (whole[::-1].cumsum(axis=0)[::-1] + cut[::-1].cumsum(axis=0)[::-1] - cut)
    survival = np.concatenate([np.ones((1, 2)), np.cumprod(1.0 - hazards, axis=0)[:-1]])
    fitted = Histogram().fit(counts, left=False, right=True)
    np.testing.assert_allclose(fitted, survival * hazards, atol=1e-4)


@pytest.mark.parametrize("family", [*PARAMETERS, Histogram(0.1)])
@censored
def test_fits_never_lower_the_score_and_states_without_segments_stay(family, left, right):
    rng = np.random.default_rng(0)
    counts = random_counts(rng, getattr(family, "minimum", 1))
    counts[..., 1] = 0.0
    previous = PARAMETERS.get(family)
    if previous is None:
        previous = rng.dirichlet(np.ones(LONGEST), 2).T
    fitted = family.fit(counts, left=left, right=right, previous=previous)
    before, after = (score(family, counts, one, left, right)[0] for one in (previous, fitted))
    if isinstance(family, Histogram):
        before, after = (value + family.log_density(one[:, :1]) for value, one in ((before, previous), (after, fitted)))
    else:
        np.testing.assert_allclose(fitted[:, 1], previous[:, 1], rtol=1e-15)
    assert after > before


@pytest.mark.parametrize("family", [*PARAMETERS, Histogram(), Histogram(0.1)])
@censored
def test_em_over_semi_markov_chains_never_falls(family, left, right):
    rng = np.random.default_rng(0)
    chain = SemiMarkovChain([30, 5, 40, 4], 2, LONGEST)
    unary, turns = rng.normal(size=chain.n_unary), np.array([[-np.inf, 0.0], [0.0, -np.inf]])
    parameters = family.fit(np.ones((2, 2, LONGEST, 2)), left=left, right=right)
    objective = -np.inf
    for _ in range(6):
        scores = duration_scores(family.log_probabilities(parameters, LONGEST), left=left, right=right)
        values, marginals = chain.smoothed_max(Parts(unary, (turns, scores)), 1.0)
        reached = values.sum() + family.log_density(parameters)
        assert reached >= objective - 1e-9 * abs(reached)
        objective = reached
        parameters = family.fit(marginals.factors[1], left=left, right=right, previous=parameters)


def test_durations_of_one_token_are_a_limit():
    counts = np.zeros((2, 2, LONGEST, 1))
    counts[0, 0, 0] = 5.0
    for family in (Poisson(), NegativeBinomial(), Geometric(), Histogram()):
        p = np.exp(family.log_probabilities(family.fit(counts, left=False, right=False), LONGEST))
        np.testing.assert_allclose(p[:2, 0], [1.0, 0.0], atol=1e-6)


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match=r"pseudo_count must be at least 0, got -1"):
        Histogram(-1)
    with pytest.raises(InvalidInputError, match=r"minimum must be an integer >= 1; got 0"):
        Geometric(0)
