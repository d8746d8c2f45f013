"""Saved mixtures: what is read back is what was written."""

import numpy as np
import polars as pl
import pytest

from spectrem import GaussianMixture, HMMTagger
from spectrem.constraints import cluster_size
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal

X = np.random.default_rng(0).normal(size=(60, 2)) + 3.0 * np.eye(2)[np.arange(60) % 2]
BLOCKS = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")
COURSE = ("history_", "n_iter_", "objective_", "lower_bound_", "lower_bounds_", "converged_", "status_")


def reload(mixture, folder):
    mixture.save(folder / "mixture")
    return GaussianMixture.load(folder / "mixture")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_mixture_comes_back_to_the_bit(kind, dtype, tmp_path):
    x = X.astype(dtype)
    mixture = GaussianMixture(2, covariance_type=kind, random_state=0, n_threads=1).fit(x)
    loaded = reload(mixture, tmp_path)
    for name in BLOCKS:
        assert getattr(loaded, name).dtype == dtype
        assert (getattr(loaded, name) == getattr(mixture, name)).all()
    for name in COURSE:
        assert getattr(loaded, name) == getattr(mixture, name)
    assert (loaded.predict_proba(x) == mixture.predict_proba(x)).all()
    assert loaded.bic(x) == mixture.bic(x)
    assert (loaded.sample(5)[0] == mixture.sample(5)[0]).all()
    assert repr(loaded.set_params(fixed=())) == repr(mixture)  # which was read as a list
    assert not hasattr(loaded, "labels_")


def test_parameters_that_json_can_hold_come_back(tmp_path):
    bounds = (np.array([-10.0, -np.inf]), 9)
    given = {"means_bounds": bounds, "weights_init": np.array([0.25, 0.75]), "fixed": ("weights",)}
    lost = {"schedule": Anneal(0.5), "random_state": np.random.RandomState(0)}
    mixture = GaussianMixture(2, assign="feasible", constraints=[cluster_size(20)], **given, **lost).fit(X)
    loaded = reload(mixture, tmp_path)
    assert loaded.means_bounds == [[-10.0, -np.inf], 9]
    assert (loaded.weights_init, loaded.fixed, loaded.assign) == ([0.25, 0.75], ["weights"], "feasible")
    assert loaded.constraints == (cluster_size(20),)
    assert (loaded.schedule, loaded.random_state) == (None, None)
    assert loaded.aic(X) == mixture.aic(X)  # counts what may change


def test_training_goes_on_where_it_was_saved(tmp_path):
    whole = GaussianMixture(3, random_state=0, tol=0, max_iter=6).fit(X)
    first = reload(GaussianMixture(3, random_state=0, tol=0, max_iter=4).fit(X), tmp_path)
    second = first.set_params(warm_start=True, max_iter=2).fit(X)
    assert (second.means_ == whole.means_).all()


def test_names_of_features_come_back(tmp_path):
    frame = pl.DataFrame(X, schema=["length", "width"])
    loaded = reload(GaussianMixture(2, random_state=0).fit(frame), tmp_path)
    assert loaded.feature_names_in_.tolist() == ["length", "width"]
    assert len(loaded.predict(frame)) == 60


def test_a_mixture_that_kept_its_start(tmp_path):
    loaded = reload(GaussianMixture(2, random_state=0, max_iter=0).fit(X), tmp_path)
    assert (loaded.history_, loaded.n_iter_, loaded.objective_) == ([], 0, -np.inf)


def test_what_cannot_be_saved_or_read(tmp_path):
    with pytest.raises(NotFittedError, match="this GaussianMixture is not fitted yet; call fit, or load a saved one"):
        GaussianMixture(2).save(tmp_path / "mixture")
    GaussianMixture(2, random_state=0).fit(X).save(tmp_path / "mixture")
    with pytest.raises(InvalidInputError, match="expected a saved HMMTagger, found 'GaussianMixture'"):
        HMMTagger.load(tmp_path / "mixture")
    with pytest.raises(InvalidInputError, match="none: no such model file; train one and save it first"):
        GaussianMixture.load(tmp_path / "none")
