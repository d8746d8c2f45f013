"""Hidden Markov models of all families of emissions against all paths, and their EM."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from emission_cases import CASES, NAMES, draw, params_of

from spectrem.corpus import Local
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.emissions import Gaussian, Joined, Poisson, StudentT
from spectrem.models.priors import DirichletPrior, Multinomials, Tables
from spectrem.models.series import SeriesModel, SeriesParameters, build_shards

FAMILIES = list(CASES)
INITIAL, TRANSITION = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])


def make_model(emission, pseudo_count=0.0, n_states=2):
    rows = {"initial": Multinomials.dense((n_states,)), "transition": Multinomials.dense((n_states, n_states))}
    return SeriesModel(
        tuple(range(n_states)), emission, Tables(rows, dict.fromkeys(rows, DirichletPrior(pseudo_count)))
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_likelihood_and_posteriors_are_sums_over_all_paths(name):
    x, _ = draw(name, 7, 0.0, seed=9)
    if name != "multinomial":
        x[2, 0] = np.nan
    x[4] = np.nan
    lengths, weights = np.array([5, 2]), np.array([1.0, 2.5])
    evidence = np.zeros((7, 2))
    evidence[1, 0] = -np.inf  # a set that holds the second state alone
    evidence[5] = np.log([0.3, 0.7])
    model = make_model(CASES[name].emission)
    params = SeriesParameters(INITIAL, TRANSITION, params_of(name))
    shard = build_shards(x, lengths, 2, weights=weights, evidence=evidence)[0]
    values, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    posteriors, moves, start = model.distributions(shard, marginals), [], 0
    table = np.zeros((7, 2))
    for row, cells in enumerate(x):
        for k in range(2):
            if not np.isnan(cells).any():
                table[row, k] = CASES[name].density(CASES[name].arrays, k, cells)
            elif not np.isnan(cells).all():  # emissions/test_densities.py compares these with sums and integrals
                table[row, k] = model.emission.scores(params.emission, cells[None])[0, k]
    for sequence, length in enumerate(lengths):
        total, counts, pairs = 0.0, np.zeros((length, 2)), np.zeros((2, 2))
        for path in itertools.product(range(2), repeat=int(length)):
            p = INITIAL[path[0]] * np.prod([TRANSITION[a, b] for a, b in itertools.pairwise(path)])
            rows = start + np.arange(length)
            p *= np.exp((table + evidence)[rows, path].sum())
            total += p
            counts[np.arange(length), path] += p
            for a, b in itertools.pairwise(path):
                pairs[a, b] += p
        np.testing.assert_allclose(values[sequence], np.log(total), rtol=1e-9)
        np.testing.assert_allclose(posteriors[start : start + length], counts / total, rtol=1e-8, atol=1e-12)
        moves.append(pairs / total)
        start += length
    stats = model.gather(params, shard, marginals)
    shares = posteriors * np.repeat(weights, lengths)[:, None]
    np.testing.assert_allclose(stats.initial, shares[[0, 5]].sum(axis=0))
    assert stats.transition.sum() == pytest.approx(sum(one.sum() for one in moves))
    expected = model.emission.m_step(params.emission, model.emission.gather(params.emission, x, shares))
    for key, array in model.emission.arrays(model.m_step(params, stats).emission).items():
        np.testing.assert_allclose(array, model.emission.arrays(expected)[key], rtol=1e-12)
    record = run_em(model, Local([shard], 1), params, EStep(), stopping=Stopping(1)).history[0]
    assert record.free_objective == pytest.approx(float(weights @ values))


def rises(model, x, states, n_iterations=25, sharp=0.6):
    """Train on sequences of several lengths in several shards; the objective of every iteration must not fall."""
    lengths = np.array([100, 1, 0, 60, len(x) - 161])
    shares = sharp * np.eye(model.n_states)[states] + (1 - sharp) / model.n_states
    start = SeriesParameters(
        np.full(model.n_states, 1 / model.n_states),
        np.full((model.n_states, model.n_states), 1 / model.n_states),
        model.emission.start(x, shares),
    )
    shards = build_shards(x, lengths, model.n_states, weights=np.array([1.0, 0.5, 1.0, 2.0, 1.0]))
    result = run_em(model, Local(shards, 1), start, EStep(), stopping=Stopping(n_iterations, 0.0))
    objectives = np.array([record.objective for record in result.history])
    assert np.isfinite(objectives).all()
    assert (np.diff(objectives) >= -1e-9 * np.abs(objectives[1:])).all(), np.diff(objectives).min()
    return result.params


FIXED = {
    "full": "means", "tied": "covars", "diag": "covars", "spherical": "means", "grouped": "means", "t full": "dof",
    "t diag": "scales", "mixture full": "weights", "mixture tied": "covars", "mixture diag": "means",
    "mixture spherical": "weights", "poisson": "lambdas", "negative binomial": "means", "categorical": "emissionprob",
    "multinomial": "emissionprob",
}  # fmt: skip


@pytest.mark.parametrize("gaps", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("name", FAMILIES)
def test_em_never_lowers_the_objective(name, gaps):
    x, states = draw(name, 400, gaps, seed=1)
    rises(make_model(CASES[name].emission.learn(x, NAMES)), x, states)
    if name in FIXED:
        emission = replace(CASES[name].emission, fixed=[FIXED[name]]).learn(x, NAMES)
        rises(make_model(emission, 0.5), x, states, 10)


@pytest.mark.parametrize("name", FAMILIES)
def test_planted_parameters_are_found(name):
    x, states = draw(name, 12_000, 0.1, seed=11, stay=0.95)
    emission = CASES[name].emission.learn(x, NAMES)
    params = rises(make_model(emission), x, states, 40, 0.8)
    np.testing.assert_allclose(np.diag(params.transition), 0.95, atol=0.02)
    truth = CASES[name].arrays
    for key, array in emission.arrays(params.emission).items():
        if name.startswith("mixture"):
            continue
        loose = {"dof": 0.5, "dispersions": 0.35}.get(key, 0.1)
        np.testing.assert_allclose(array, truth[key], rtol=loose, atol=0.12)
    spreads = np.sqrt(emission.variances(params_of(name)))
    assert (np.abs(emission.means(params.emission) - emission.means(params_of(name))) < 0.1 * spreads).all()
    if name.startswith("mixture"):
        new, _ = draw(name, 4000, 0.0, seed=12)
        ours, best = (emission.scores(one, new).sum() for one in (params.emission, params_of(name)))
        assert ours > best - 0.01 * abs(best)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e150])
@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical", "t full", "t diag"])
def test_units_of_numbers_do_not_matter(name, scale):
    x, states = draw(name, 400, 0.2, seed=1)
    emission = CASES[name].emission
    one, other = (emission.learn(values, NAMES) for values in (x, scale * x))
    first, second = rises(make_model(one), x, states, 5), rises(make_model(other), scale * x, states, 5)
    location, spread = ("locations", "scales") if name.startswith("t ") else ("means", "covars")
    before, after = one.arrays(first.emission), other.arrays(second.emission)
    np.testing.assert_allclose(after[location] / scale, before[location], rtol=1e-6)
    np.testing.assert_allclose(after[spread] / scale / scale, before[spread], rtol=1e-6)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("name", FAMILIES)
def test_odd_rows_give_numbers(name, gaps):
    """One row, columns of one value, more states than rows."""
    x, _ = draw(name, 400, gaps, seed=1)
    complete = draw(name, 1, 0.0)[0]
    for rows in (complete, np.repeat(complete, 5, axis=0), np.concatenate([np.repeat(complete, 5, axis=0), x[:2]])):
        emission = replace(CASES[name].emission, tied=()) if name == "grouped" else CASES[name].emission
        emission = emission.learn(rows, NAMES)
        model = make_model(emission, n_states=4)
        shares = np.eye(4)[np.arange(len(rows)) % 4]
        start = SeriesParameters(np.full(4, 0.25), np.full((4, 4), 0.25), emission.start(rows, shares))
        shards = build_shards(rows, np.array([len(rows)]), 4)
        result = run_em(model, Local(shards, 1), start, EStep(), stopping=Stopping(20, 0.0))
        objectives = np.array([record.objective for record in result.history])
        assert np.isfinite(objectives).all()
        assert (np.diff(objectives) >= -1e-9 * np.abs(objectives[1:]) - 1e-9).all()
        for array in emission.arrays(result.params.emission).values():
            assert np.isfinite(array).all()
        new = emission.scores(result.params.emission, x)
        assert not np.isnan(new).any()


def test_outliers_do_not_move_a_student_t_as_they_do_a_gaussian():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [5.0, 5.0]], 150, axis=0)
    x[::30] = rng.normal(0, 60, size=(10, 2))
    states = np.repeat([0, 1], 150)
    t = rises(make_model(StudentT().learn(x, NAMES)), x, states, 40, 0.9).emission
    normal = rises(make_model(Gaussian().learn(x, NAMES)), x, states, 40, 0.9).emission
    assert np.abs(np.sort(t.normal.means, axis=0) - [[0.0, 0.0], [5.0, 5.0]]).max() < 0.3
    assert np.abs(np.sort(normal.means, axis=0) - [[0.0, 0.0], [5.0, 5.0]]).max() > 1.0


def test_joined_columns_score_as_the_sum_of_their_emissions():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=50), rng.poisson(3.0, 50), rng.normal(size=50)])
    x[rng.uniform(size=x.shape) < 0.3] = np.nan
    joined = Joined({(2, 0): Gaussian(), 1: Poisson()}).learn(x, ["a", "b", "c"])
    shares = rng.dirichlet(np.ones(2), 50)
    params = joined.start(x, shares)
    apart = Gaussian().learn(x[:, [2, 0]], ["c", "a"]), Poisson().learn(x[:, [1]], ["b"])
    numbers, counts = apart[0].start(x[:, [2, 0]].copy(), shares), apart[1].start(x[:, [1]], shares)
    expected = apart[0].scores(numbers, x[:, [2, 0]].copy()) + apart[1].scores(counts, x[:, [1]])
    np.testing.assert_allclose(joined.scores(params, x), expected)
    np.testing.assert_array_equal(joined.means(params)[:, [2, 0]], numbers.means)
    assert sorted(joined.arrays(params)) == ["b_lambdas", "c_a_covars", "c_a_means"]
    filled = joined.impute(params, x, shares)
    np.testing.assert_array_equal(filled[~np.isnan(x)], x[~np.isnan(x)])
    assert np.isfinite(filled).all()
