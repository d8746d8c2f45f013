"""Hidden Markov models of series: against brute force over all paths, and as users call them."""

import itertools
import pickle
from functools import partial

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from spectrem import HMM, E, GaussianHMM, load, part
from spectrem.corpus import Spilled
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, NotFittedError
from spectrem.models.durations import Geometric
from spectrem.models.series import SeriesParameters

RNG = np.random.default_rng(5)


def planted(n_rows=400, rng=RNG):
    """A series that stays in one of two states for some 20 rows, and its states."""
    states = np.cumsum(rng.random(n_rows) < 0.05) % 2
    return np.array([[0.0, 1.0], [4.0, -1.0]])[states] + rng.normal(size=(n_rows, 2)), states


def fitted(**settings):
    x, _ = planted(rng=np.random.default_rng(0))
    return GaussianHMM(2, **({"random_state": 0, "n_threads": 1, "init": "clusters", "n_init": 1} | settings)).fit(x)


def paths(model, x):
    """Every path of states of a sequence, and the log-probability of it and the rows."""
    k, means, covars = len(model.states_), model.means_, model.covars_
    matrices = [covars[s] if covars.ndim == 3 else np.diag(covars[s]) for s in range(k)]

    def density(row, state):
        there = ~np.isnan(row)
        if not there.any():
            return 0.0
        return multivariate_normal.logpdf(row[there], means[state][there], matrices[state][np.ix_(there, there)])

    table = np.array([[density(row, state) for state in range(k)] for row in x])
    with np.errstate(divide="ignore"):
        first, moves = np.log(model.startprob_), np.log(model.transmat_)
    for path in itertools.product(range(k), repeat=len(x)):
        score = first[path[0]] + sum(moves[a, b] for a, b in itertools.pairwise(path))
        yield path, score + sum(table[t, state] for t, state in enumerate(path))


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_posteriors_likelihood_and_best_path_are_those_of_all_paths(kind):
    model, x = fitted(covariance_type=kind, max_iter=3, tol=0.0), planted(6)[0]
    every, scores = zip(*paths(model, x), strict=True)
    scores, total = np.array(scores), logsumexp(scores)
    weights = np.exp(scores - total)
    expected = [
        [sum(w for path, w in zip(every, weights, strict=True) if path[t] == s) for s in (0, 1)] for t in range(6)
    ]
    np.testing.assert_allclose(model.score_samples(x), [total], rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(x), expected, atol=1e-12)
    assert model.predict(x).tolist() == list(every[int(scores.argmax())])
    filtered = [logsumexp_by_last(model, x[: t + 1]) for t in range(6)]
    np.testing.assert_allclose(model.filter(x), filtered, atol=1e-12)


def logsumexp_by_last(model, x):
    every, scores = zip(*paths(model, x), strict=True)
    by_last = [logsumexp([s for path, s in zip(every, scores, strict=True) if path[-1] == state]) for state in (0, 1)]
    return np.exp(by_last - logsumexp(by_last))


def test_labels_sets_and_distributions_are_those_of_the_paths_they_leave():
    model, x = fitted(max_iter=3, tol=0.0, states=["a", "b"]), planted(4)[0]
    y = ["a", {"a", "b"}, None, {"a": 0.2, "b": 0.8}]
    weights = np.log([[1, 1e-300], [1, 1], [1, 1], [0.2, 0.8]])
    kept = [
        score + sum(weights[t, state] for t, state in enumerate(path))
        for path, score in paths(model, x)
        if path[0] == 0
    ]
    np.testing.assert_allclose(model.score_samples(x, y), [logsumexp(kept)], rtol=1e-12)


def test_em_never_lowers_its_objective_and_finds_what_was_planted():
    x, states = planted()
    model = GaussianHMM(
        2, covariance_type="full", tol=0, max_iter=30, random_state=0, n_threads=1, init="clusters", n_init=1
    ).fit(x)
    objectives = [record.objective for record in model.history_]
    assert np.diff(objectives).min() >= -1e-9 * abs(objectives[-1])
    agree = np.mean(model.predict(x) == states)
    assert max(agree, 1 - agree) > 0.97
    assert np.sort(model.means_[:, 0]) == pytest.approx([0, 4], abs=0.3)


def test_sequences_come_by_lengths_groups_lists_and_frames():
    x, _ = planted(60)
    model, lengths = fitted(), [20, 25, 15]
    expected = model.predict_proba(x, lengths=lengths)
    pieces = np.split(x, [20, 45])
    assert np.array_equal(np.concatenate(model.predict_proba(pieces)), expected)
    groups = np.repeat([2, 0, 1], lengths)
    assert np.array_equal(model.predict_proba(x, groups=groups), expected)
    shuffled = RNG.permutation(60)
    frame = pl.DataFrame({"x": x[:, 0], "y": x[:, 1], "who": groups, "when": np.arange(60)})[shuffled.tolist()]
    of_frame = GaussianHMM(2, group="who", time="when", random_state=0, n_threads=1, init="clusters", n_init=1).fit(
        frame
    )
    by_lengths = GaussianHMM(2, random_state=0, n_threads=1, init="clusters", n_init=1).fit(x, groups=groups)
    assert of_frame.objective_ == pytest.approx(by_lengths.objective_, rel=1e-12)
    assert np.array_equal(of_frame.predict(frame), by_lengths.predict(x, groups=groups)[shuffled])
    assert of_frame.column_names_ == ["x", "y"]
    pandas = pytest.importorskip("pandas")
    assert np.array_equal(of_frame.predict(pandas.DataFrame(frame.to_dict(as_series=False))), of_frame.predict(frame))


def test_known_states_are_counted_and_partly_known_ones_learnt_from():
    x, states = planted(200)
    names = np.where(states == 1, "high", "low")
    whole = GaussianHMM(random_state=0, covars_prior=0.0, n_threads=1).fit(x, names)
    assert whole.states_ == ("high", "low")
    np.testing.assert_allclose(whole.means_, [x[states == 1].mean(axis=0), x[states == 0].mean(axis=0)], rtol=1e-12)
    np.testing.assert_allclose(whole.covars_[0], x[states == 1].var(axis=0), rtol=1e-9)
    moves = np.zeros((2, 2))
    np.add.at(moves, (1 - states[:-1], 1 - states[1:]), 1)
    np.testing.assert_allclose(whole.transmat_, moves / moves.sum(axis=1, keepdims=True), rtol=1e-12)
    few = [name if t % 20 == 0 else None for t, name in enumerate(names)]
    partly = GaussianHMM(random_state=0, n_threads=1, init="clusters", n_init=1).fit(x, few)
    assert np.mean(partly.predict(x) == names) > 0.95


def test_constraints_name_states_and_hold_in_expectation():
    x, _ = planted(200)
    hours = pl.DataFrame({"x": x[:, 0], "when": pl.datetime_range(
        pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 9, 7), "1h", eager=True
    )})  # fmt: skip
    night = (part("hour") >= 20) | (part("hour") < 6)
    rules = [E[(part("state") == "in") & night] == 0, E[part("state") == "in"] >= "20%"]
    model = GaussianHMM(
        states=["out", "in"], time="when", constraints=rules, random_state=0, n_threads=1, init="clusters", n_init=1
    )
    model.fit(hours)
    model.set_params(project_at_predict=True, decode="posterior")
    posterior = model.predict_proba(hours)[:, 1]
    of_day = hours["when"].dt.hour().to_numpy()
    assert posterior[(of_day >= 20) | (of_day < 6)].sum() < 1e-2
    assert posterior.mean() >= 0.2 - 1e-4


@pytest.mark.parametrize(
    ("time", "forbidden", "where"),
    [
        ("stamp", part("stamp") < "2024-01-03", slice(0, 48)),
        ("text", part("text") < "2024-01-03", slice(0, 48)),
        ("row", part("row") >= 140, slice(140, 200)),
        ("date", part("date") == "2024-01-02", slice(24, 48)),  # of dates, a day and not a point in time
        ("hour", part("hour") >= 140, slice(140, 200)),  # of numbers, these
        ("stamp", part("room") == "north", slice(0, 100)),
    ],
)
def test_constraints_name_columns_of_time_and_group(time, forbidden, where):
    x, _ = planted(200)
    dates = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 9, 7), "1h", eager=True)
    rows = pl.Series(range(200))
    times = {"row": rows, "hour": rows, "text": dates.dt.to_string("%Y-%m-%d %H:%M")}.get(time, dates)
    mixed = np.random.default_rng(0).permutation(200)
    frame = pl.DataFrame({"x": x[:, 0], time: times, "room": np.repeat(["north", "south"], 100)})[mixed]
    model = GaussianHMM(
        states=["out", "in"], group="room", time=time, constraints=E[(part("state") == "in") & forbidden] == 0,
        project_at_predict=True, decode="posterior", random_state=0, n_threads=1, init="clusters", n_init=1,
    ).fit(frame)  # fmt: skip
    posterior = model.predict_proba(frame)[np.argsort(mixed), 1]
    assert model.column_names_ == ["x"]
    assert posterior[where].sum() < 0.5
    assert posterior.sum() > 10


def test_changes_can_be_counted():
    x = np.array([0.0, 0.1, 5.0, 0.0, 0.1, 5.1, 5.0, 0.0])
    at_most_two = (E[part("change")] <= 2).per("sequence")
    model = GaussianHMM(
        2, constraints=[at_most_two], project_at_predict=True, random_state=0, n_threads=1, init="clusters", n_init=1
    ).fit(x)
    assert np.abs(np.diff(model.predict(x))).sum() <= 2
    before = (E[(part("state") == 1) & (part("previous") == 0)] == 0).per("sequence")
    model = GaussianHMM(
        2, constraints=[before], project_at_predict=True, random_state=0, n_threads=1, init="clusters", n_init=1
    ).fit(x)
    assert not ((model.predict(x)[1:] == 1) & (model.predict(x)[:-1] == 0)).any()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 1.5])
def test_homes_and_threads_give_equal_bits(gamma, tmp_path):
    pieces = [planted(n)[0] for n in (300, 1, 0, 200, 700)] * 3
    one = GaussianHMM(2, gamma=gamma, max_iter=4, tol=0.0, random_state=0, n_threads=1, init="clusters", n_init=1).fit(
        pieces
    )
    spilled = partial(Spilled, folder=tmp_path)
    for other in ({"n_threads": 2}, {"corpus": spilled}):
        again = GaussianHMM(
            2, gamma=gamma, max_iter=4, tol=0.0, random_state=0, init="clusters", n_init=1, **other
        ).fit(pieces)
        assert again.objective_ == one.objective_
        assert np.array_equal(again.means_, one.means_)


def test_fixed_probabilities_and_priors():
    x, _ = planted()
    left_to_right = np.array([[np.nan, np.nan], [0.0, np.nan]])
    model = GaussianHMM(
        2, fixed={"transmat": left_to_right}, random_state=0, n_threads=1, init="clusters", n_init=1
    ).fit(x)
    assert model.transmat_[1].tolist() == pytest.approx([0.0, 1.0])
    assert np.diff(model.predict(x)).min() >= 0
    sticky = GaussianHMM(
        2, transmat_prior=1 + 1e6 * np.eye(2), random_state=0, n_threads=1, init="clusters", n_init=1
    ).fit(x)
    assert np.diag(sticky.transmat_).min() > 0.999
    objectives = [record.objective for record in sticky.history_]
    assert np.diff(objectives).min() >= -1e-9 * abs(objectives[-1])


def test_saved_models_predict_the_same(tmp_path):
    x, _ = planted()
    for model in (fitted(states=["a", "b"]), HMM(2, random_state=0, n_threads=1, init="clusters", n_init=1).fit(x)):
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert type(again) is type(model)
        assert np.array_equal(again.predict_proba(x), model.predict_proba(x))
        assert again.predict(x).tolist() == model.predict(x).tolist()


def test_rows_that_come_one_by_one_are_filtered_as_all_at_once():
    model, (x, _) = fitted(), planted(30)
    online = model.online_filter()
    for t, row in enumerate(x):
        online = pickle.loads(pickle.dumps(online))
        np.testing.assert_allclose(online.update(row), model.filter(x)[t], atol=1e-12)
    assert online.log_likelihood == pytest.approx(model.score_samples(x)[0], rel=1e-12)
    forecast = model.forecast(x, 3)
    np.testing.assert_allclose(forecast.states[2], online.probabilities @ np.linalg.matrix_power(model.transmat_, 3))
    np.testing.assert_allclose(forecast.means, forecast.states @ model.means_)
    second = forecast.states @ (model.covars_ + model.means_**2)
    np.testing.assert_allclose(forecast.variances, second - forecast.means**2)


def test_residuals_of_the_right_model_are_standard_normal():
    model = fitted()
    x, states = model.sample(4000, random_state=1)
    assert set(states) == {0, 1}
    residuals = model.pseudo_residuals(x)
    assert residuals.shape == x.shape
    assert abs(residuals.mean()) < 0.05
    assert residuals.std() == pytest.approx(1, abs=0.05)


def test_criteria_count_free_parameters():
    x, _ = planted()
    model = fitted()
    n_free = 1 + 2 + 4 + 4
    loglik = model.score_samples(x)[0]
    assert model.aic(x) == pytest.approx(2 * n_free - 2 * loglik)
    assert model.bic(x) == pytest.approx(np.log(len(x)) * n_free - 2 * loglik)


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e150])
def test_units_of_columns_do_not_matter(scale):
    x, _ = planted()
    one, other = (
        GaussianHMM(2, random_state=0, max_iter=5, tol=0, n_threads=1, init="clusters", n_init=1).fit(data)
        for data in (x, x * scale)
    )
    first, second = (np.argsort(model.means_[:, 0]) for model in (one, other))  # restarts may tie but for rounding
    np.testing.assert_allclose(other.means_[second], one.means_[first] * scale, rtol=1e-6)
    assert np.array_equal(np.argsort(second)[other.predict(x * scale)], np.argsort(first)[one.predict(x)])


@pytest.mark.filterwarnings("ignore:.* had no rows left")
def test_odd_data_give_numbers():
    constant = np.ones((10, 2))
    assert np.isfinite(
        GaussianHMM(3, random_state=0, n_threads=1, init="clusters", n_init=1).fit(constant).predict_proba(constant)
    ).all()
    one = GaussianHMM(2, random_state=0, n_threads=1, init="clusters", n_init=1).fit([[1.0, 2.0]])
    assert np.isfinite(one.means_).all()
    empty = GaussianHMM(2, random_state=0, n_threads=1, init="clusters", n_init=1).fit(
        [np.zeros((0, 1)), planted(9)[0][:, :1]]
    )
    assert [len(part) for part in empty.predict([np.zeros((0, 1)), np.zeros((2, 1))])] == [0, 2]


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, ([[np.inf, 1.0]],), "column 0 must hold finite numbers, or NaN where they are missing, got inf in row 0"),
        ({}, (np.zeros((0, 2)),), "X must have at least one row and one column"),
        ({}, (np.zeros((3, 2)), None, [1, 1]), r"lengths must add up to the 3 rows of X, got 2"),
        ({"states": ["a"]}, (np.zeros((3, 2)),), "states must name the 2 states of the model"),
        ({"states": ["a", "b"]}, (np.zeros((3, 2)), ["a", "c", None]), "got the label 'c' beside a, b"),
        ({}, (np.zeros((3, 2)), ["a"]), "y must have a label, or None, for each of 3 rows"),
        ({"fixed": {"transmat": np.eye(3)}}, (np.zeros((3, 2)),), r"fixed\['transmat'\] must have shape \(2, 2\)"),
        ({"fixed": {"means": 0.0}}, (np.zeros((3, 2)),), "fixed must be a mapping of 'startprob', 'transmat' or both"),
        (
            {"fixed": 3},
            (np.zeros((3, 2)),),
            "fixed must be a mapping of 'startprob', 'transmat' or both to arrays, got 3",
        ),
        ({"transmat_prior": 0.5}, (np.zeros((3, 2)),), "transmat_prior must be a parameter of a Dirichlet prior"),
        ({"constraints": [E[part("state") == "x"] <= 1]}, (np.zeros((3, 2)),), "'x'"),
        (
            {},
            (pl.DataFrame({"x": [1.0, 2, 3], "room": ["a", "b", "a"]}),),
            "column room must hold numbers where emissi",
        ),
        ({"constraints": [E[part("hours") == 1] <= 1]}, (np.zeros((3, 2)),), "hours"),
    ],
)
def test_errors_say_what_to_do(settings, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        GaussianHMM(2, n_threads=1, **settings).fit(*arguments)


def test_errors_of_predictions():
    with pytest.raises(NotFittedError):
        GaussianHMM(2).predict(np.zeros((3, 2)))
    with pytest.raises(InvalidInputError, match="X must have the 2 columns of training, 0, 1; got 1"):
        fitted().predict(np.zeros(3))
    impossible = [(E[part("state") == 0] >= 3).per("sequence"), (E[part("state") == 0] <= 1).per("sequence")]
    with pytest.raises(InfeasibleConstraintError):
        GaussianHMM(2, constraints=impossible, random_state=0, n_threads=1, init="clusters", n_init=1).fit(
            np.arange(5.0)
        )


def test_states_that_die_are_said_and_started_again():
    x = np.repeat([[0.0], [1.0]], 30, axis=0)
    alone = np.array([[np.nan, np.nan, 0], [np.nan, np.nan, 0], [0, 0, 1]])
    model = GaussianHMM(
        3,
        fixed={"startprob": np.array([1.0, 0, 0]), "transmat": alone},
        random_state=0,
        n_threads=1,
        init="clusters",
        n_init=1,
    )
    with pytest.warns(UserWarning, match="2 had no rows left after training and got a new start"):
        model.fit(x)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.predict_proba(x)).all()


def sojourning(n_rows, rng):
    """A series whose states last for 5 rows and more, by state, and these states."""
    states: list[int] = []
    while len(states) < n_rows:
        states += [0 if not states else 1 - states[-1]] * (
            5 + int(rng.poisson((3, 15)[len(states) and 1 - states[-1]]))
        )
    states = np.array(states[:n_rows])
    return np.array([0.0, 1.5])[states] + rng.normal(size=n_rows), states


@pytest.mark.parametrize("family", ["histogram", "poisson", "negative-binomial", "geometric", Geometric(3)])
@pytest.mark.parametrize("censored", ["right", "both"])
def test_durations_are_learnt_filtered_forecast_and_saved(family, censored, tmp_path):
    x, _ = sojourning(300, np.random.default_rng(1))
    model = GaussianHMM(
        2,
        durations=family,
        longest=40,
        censored=censored,
        max_iter=5,
        tol=0.0,
        n_init=1,
        init="clusters",
        random_state=0,
        n_threads=1,
    ).fit([x, x[:50]])
    objectives = [record.objective for record in model.history_]
    assert np.diff(objectives).min() >= -1e-9 * abs(objectives[-1])
    assert np.diag(model.transmat_).tolist() == [0.0, 0.0]
    online, new = model.online_filter(), x[20:60]
    for row in new:
        online.update(row)
    assert online.log_likelihood == pytest.approx(model.score_samples(new)[0], rel=1e-10)
    np.testing.assert_allclose(model.filter(new)[-1], model.predict_proba(new)[-1], atol=1e-9)
    np.testing.assert_allclose(model.forecast(new, 30).states.sum(axis=1), 1.0)
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict_proba(new), model.predict_proba(new))


def test_durations_find_states_that_transitions_alone_confuse():
    x, states = sojourning(2000, np.random.default_rng(0))
    accuracies = []
    for durations in (None, "poisson"):
        model = GaussianHMM(
            2, durations=durations, longest=60, random_state=0, n_threads=1, init="clusters", n_init=1
        ).fit(x)
        accuracies.append(np.mean((model.predict(x) == model.means_.argmax()) == states))
    assert accuracies[1] > accuracies[0]
    x, states = model.sample(3000, random_state=0)
    assert np.diff(np.flatnonzero(np.diff(states))).min() > 1


def test_a_geometric_duration_is_the_plain_model():
    x, _ = planted(80)
    plain = fitted()
    stay = np.diag(plain.transmat_)
    model = GaussianHMM(
        2,
        durations="geometric",
        longest=2000,
        random_state=0,
        n_threads=1,
        max_iter=1,
        tol=0.0,
        init="clusters",
        n_init=1,
    ).fit(x)
    swap = SeriesParameters(plain.startprob_, np.array([[0.0, 1], [1, 0]]), plain.params_.emission, 1 - stay[None])
    model.params_ = swap
    np.testing.assert_allclose(model.predict_proba(x), plain.predict_proba(x), atol=1e-9)
