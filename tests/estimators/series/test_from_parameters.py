"""Hidden Markov models that are given their parameters, and training that goes on from them."""

import numpy as np
import pytest

from spectrem import HMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM, load
from spectrem.exceptions import InvalidInputError

START, MOVES = [0.6, 0.4], [[0.9, 0.1], [0.2, 0.8]]
COUNTS = np.array([1.0, 0, 2, 1, 9, 11, 8, 10, 1, 0, 1, 2])


def poisson(lambdas=((1.0,), (9.0,)), **options):
    return PoissonHMM.from_parameters(START, MOVES, {"lambdas": lambdas}, n_threads=1, **options)


def test_the_model_has_the_parameters_it_was_given_also_in_a_file(tmp_path):
    model = poisson(states=["calm", "busy"])
    model.save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        assert one.startprob_.tolist() == START
        assert one.transmat_.tolist() == MOVES
        assert one.lambdas_.tolist() == [[1.0], [9.0]]
        assert one.predict([0, 1, 12]).tolist() == ["calm", "calm", "busy"]
        assert one.sample(5, random_state=0)[0].shape == (5, 1)


def test_training_goes_on_from_them():
    model = poisson(lambdas_weight=0.0, max_iter=1, tol=0.0, n_init=4)
    before, rates = model.predict_proba(COUNTS), model.lambdas_
    model.fit(COUNTS)
    np.testing.assert_allclose(model.lambdas_[:, 0], before.T @ COUNTS / before.sum(axis=0), rtol=1e-12)
    assert np.abs(model.lambdas_ - rates).max() > 1e-3


def test_parameters_of_a_fitted_model_with_durations_are_a_start():
    settings = {"durations": "poisson", "longest": 5, "random_state": 0, "n_threads": 1, "tol": 0.0}
    model = PoissonHMM(2, n_init=1, max_iter=5, **settings).fit(COUNTS)
    again = PoissonHMM(2, init=model.params_, max_iter=1, **settings).fit(COUNTS)
    assert again.history_[0].objective >= model.objective_ - 1e-12
    with pytest.raises(InvalidInputError, match="durations must be as in init, whose parameters are with them"):
        PoissonHMM(2, init=model.params_).fit(COUNTS)
    with pytest.raises(InvalidInputError, match="durations must be as in init, whose parameters are without them"):
        poisson(durations="poisson")


def test_columns_of_several_kinds():
    level = {"level_means": [[0.0], [3.0]], "level_covars": [[[1.0]], [[2.0]]]}
    emission, emissions = {"events_lambdas": [[1.0], [9.0]], **level}, {"events": "poisson", "level": "gaussian"}
    model = HMM.from_parameters(START, MOVES, emission, emissions=emissions, column_names=["events", "level"])
    assert model.predict([[0, 0.1], [12, 3.1]]).tolist() == [0, 1]
    assert model.column_names_ == ["events", "level"]


def test_categories_are_counted_from_the_table():
    model = CategoricalHMM.from_parameters(START, MOVES, {"emissionprob": [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]})
    assert model.aic([0, 1, 2]) == pytest.approx(2 * (1 + 2 + 4) - 2 * model.score_samples([0, 1, 2])[0])
    with pytest.raises(InvalidInputError, match="X must hold categories below 3, as emissionprob has no more, got 3"):
        model.score([0, 3])


def test_rows_of_a_multinomial_are_drawn_with_a_total_only():
    emission = {"emissionprob": [[0.5, 0.5], [0.1, 0.9]]}
    assert MultinomialHMM.from_parameters(START, MOVES, emission, n_trials=7).sample(3)[0].sum() == 21
    with pytest.raises(InvalidInputError, match="n_trials must be the total of the rows that are drawn, got None"):
        MultinomialHMM.from_parameters(START, MOVES, emission).sample(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: poisson([[1.0], [2.0], [3.0]]), "init must hold parameters of 2 states and 1 columns, got 2 states"),
        (lambda: poisson(states=["a"]), "init must hold parameters of 1 states"),
        (lambda: poisson().fit(np.ones((3, 2))), "init must hold parameters of 2 states and 2 columns"),
        (lambda: PoissonHMM(init=3).fit(COUNTS), "init must be one of auto, clusters, segments, quantiles, or params_"),
        (lambda: PoissonHMM.from_parameters([0.6, 0.5], MOVES, {"lambdas": [[1.0], [9.0]]}), "startprob must sum to 1"),
        (lambda: PoissonHMM.from_parameters(START, MOVES[:1], {"lambdas": [[1.0], [9.0]]}), "transmat must have shape"),
        (lambda: PoissonHMM.from_parameters(START, MOVES, {"rates": [[1.0]]}), "emission must have 'lambdas', got rat"),
        (
            lambda: GaussianHMM.from_parameters(START, MOVES, {"means": [[0.0], [1.0]], "covars": [[1.0]]}),
            r"covars must have shape \(2, 1\)",
        ),
    ],
)
def test_parameters_that_do_not_fit(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_a_given_start_is_kept_where_a_state_has_no_rows():
    """It gets no new start, which would have no zeros."""
    moves = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    emission = {"lambdas": [[1.0], [9.0], [1e6]]}
    model = PoissonHMM.from_parameters([1.0, 0.0, 0.0], moves, emission, lambdas_weight=0.0, max_iter=3, tol=0.0)
    model.fit([1, 0, 2, 1, 9, 8])
    assert model.lambdas_[2] == 1e6
    assert model.transmat_[:2][np.array(moves[:2]) == 0.0].tolist() == [0.0, 0.0]
    assert model.startprob_.tolist() == [1.0, 0.0, 0.0]
