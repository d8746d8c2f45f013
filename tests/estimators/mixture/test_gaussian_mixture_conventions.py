"""GaussianMixture among scikit-learn's conventions: frames, warnings, types of numbers, pickles."""

import copy
import pickle
import warnings

import numpy as np
import polars as pl
import pytest
import sklearn.exceptions

from spectrem import E, GaussianMixture, HMMTagger, part
from spectrem.constraints import cannot_link, cluster_size, must_link
from spectrem.learning import FitStatus


def make_data(n=200, apart=6.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + apart * np.repeat([[0, 0], [1, 1]], n // 2, axis=0)


@pytest.mark.parametrize("constraints", [(), [cluster_size(min=20)]])
def test_frames_are_taken_without_a_warning(constraints):
    frame = pl.DataFrame(make_data(), schema=["length", "width"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mixture = GaussianMixture(2, constraints=constraints, random_state=0).fit(frame)
        assert (mixture.predict(frame) == mixture.labels_).all()
    assert not caught
    assert mixture.feature_names_in_.tolist() == ["length", "width"]


@pytest.mark.parametrize("constraints", [(), [cluster_size(min=20)]])
@pytest.mark.parametrize("n_init", [1, 5])
def test_one_warning_for_the_start_that_is_kept(n_init, constraints):
    mixture = GaussianMixture(3, max_iter=2, tol=1e-12, n_init=n_init, constraints=constraints, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mixture.fit(make_data())
    assert [w.category for w in caught if issubclass(w.category, sklearn.exceptions.ConvergenceWarning)] == [
        caught[0].category
    ]
    assert n_init == 1 or caught[0].filename == __file__


def test_no_warning_where_the_start_that_is_kept_converged():
    x = make_data(apart=2.0)
    options = {"max_iter": 45, "tol": 1e-5, "init_params": "random_from_data"}
    alone = []
    rng = np.random.RandomState(0)
    for _ in range(6):  # the same draws as those of six starts
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone.append(GaussianMixture(2, random_state=rng, **options).fit(x))
    best = max(alone, key=lambda mixture: mixture.lower_bound_)
    assert best.converged_
    assert not all(mixture.converged_ for mixture in alone)
    mixture = GaussianMixture(2, n_init=6, random_state=np.random.RandomState(0), **options).fit(x)
    assert mixture.converged_
    np.testing.assert_array_equal(mixture.means_, best.means_)


def test_one_warning_about_a_start_outside_its_bounds():
    mixture = GaussianMixture(2, weights_init=[0.9, 0.1], weights_bounds=(0.3, None), n_init=4, random_state=0)
    with pytest.warns(UserWarning, match="weights_init lies outside weights_bounds") as caught:
        mixture.fit(make_data())
    assert len(caught) == 1


def test_one_warning_of_a_tagger():
    tagger = HMMTagger(n_states=2, n_init=4, max_iter=2, tol=1e-12, random_state=0)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning) as caught:
        tagger.fit([["a", "b", "a"], ["b", "b", "a", "c"]])
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("constraints", [(), [cluster_size(min=60)]])
def test_warm_start_step_by_step_converges_as_in_one_fit(constraints):
    x = make_data(apart=2.0)
    whole = GaussianMixture(2, constraints=constraints, random_state=0).fit(x)
    steps = GaussianMixture(2, constraints=constraints, random_state=0, max_iter=1, warm_start=True)
    count = next(count for count in range(1, 101) if steps.fit(x).converged_)
    assert steps.converged_
    # without constraints step for step; multipliers of constraints start afresh in every fit
    assert abs(count - whole.n_iter_) <= (0 if not constraints else 1)
    np.testing.assert_allclose(steps.means_, whole.means_, atol=0 if not constraints else 1e-2)


@pytest.mark.parametrize("constraints", [(), [cluster_size(min=60)]])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_float32_stays_float32(kind, constraints):
    x = make_data()
    wide = GaussianMixture(2, covariance_type=kind, constraints=constraints, random_state=0).fit(x.astype(np.float32))
    exact = GaussianMixture(2, covariance_type=kind, constraints=constraints, random_state=0).fit(x)
    names = ["weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"]
    for name in [*names, "posteriors_"] if constraints else names:
        assert getattr(wide, name).dtype == np.float32, name
        np.testing.assert_allclose(getattr(wide, name), getattr(exact, name), atol=1e-4)
    assert wide.predict_proba(x.astype(np.float32)).dtype == wide.score_samples(x.astype(np.float32)).dtype
    assert wide.predict_proba(x.astype(np.float32)).dtype == np.float32
    assert wide.predict_proba(x).dtype == exact.predict_proba(x.astype(np.float32)).dtype == np.float64
    assert (wide.labels_ == exact.labels_).all()


def every_row(label):
    return (E[part("label") == label] <= 0.9).per("row")


@pytest.mark.parametrize("constraints", [(), [cluster_size(min=40)], [cluster_size(min=40), every_row(0)]])
def test_a_pickle_does_not_grow_with_the_rows(constraints):
    sizes = []
    for n in (2000, 20000):
        mixture = GaussianMixture(2, constraints=constraints, random_state=0, max_iter=3, tol=0).fit(make_data(n))
        sizes.append(len(pickle.dumps(mixture)))
    assert abs(sizes[1] - sizes[0]) < 100
    loaded = pickle.loads(pickle.dumps(mixture))
    x = make_data()
    np.testing.assert_array_equal(loaded.predict_proba(x), mixture.predict_proba(x))
    assert loaded.report_.summary().splitlines()[0] == mixture.report_.summary().splitlines()[0]
    if len(constraints) == 2:
        assert [own.name for own in loaded.report_.constraints] == ["cluster size"]
        assert "20000 rows, violation" in loaded.report_.notes[0]


def test_what_a_pickle_leaves_out_is_said():
    mixture = GaussianMixture(2, constraints=[must_link([[0, 1]]), cannot_link([[0, 150]])], random_state=0)
    assert not hasattr(mixture, "labels_")
    with pytest.raises(AttributeError, match="'GaussianMixture' object has no attribute 'labels_'"):
        mixture.labels_  # noqa: B018
    mixture.fit(make_data())
    for other in (pickle.loads(pickle.dumps(mixture)), copy.deepcopy(mixture)):
        for name in ("labels_", "posteriors_"):
            with pytest.raises(AttributeError, match=f"{name} has a value for every training row: pickles and copies"):
                getattr(other, name)
        assert len(other.report_.constraints) == 1
    assert len(mixture.labels_) == 200


@pytest.mark.parametrize("constraints", [(), [cluster_size(min=60)]])
def test_what_is_told_of_training(constraints):
    heard = []
    mixture = GaussianMixture(2, constraints=constraints, random_state=0, on_iteration=heard.append).fit(make_data())
    assert heard == mixture.history_
    assert mixture.n_iter_ == len(heard)
    assert mixture.objective_ == heard[-1].objective == pytest.approx(200 * mixture.lower_bound_)
    assert (mixture.converged_, mixture.status_) == (True, FitStatus.CONVERGED)
    again = GaussianMixture(2, constraints=constraints, random_state=0, max_iter=0).fit(make_data())
    assert (again.objective_, again.n_iter_, again.converged_, again.history_) == (-np.inf, 0, False, [])
