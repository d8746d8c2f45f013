"""What GaussianMixture refuses and with which words."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV

from spectrem import E, GaussianMixture
from spectrem.constraints.clusters import cluster_size
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, NotFittedError
from spectrem.learning import Anneal, Constant

X = np.random.default_rng(0).normal(size=(20, 2))


def error_of(call, kind=InvalidInputError):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_components": 2.5}, "n_components must be an integer, got 2.5"),
        ({"n_threads": 0}, "n_threads must be at least 1, got 0"),
        ({"covariance_type": "round"}, "covariance_type must be one of full, tied, diag, spherical, got 'round'"),
        (
            {"init_params": "best"},
            "init_params must be one of kmeans, k-means++, random, random_from_data, got 'best'",
        ),
        ({"tol": -1}, "tol must be finite and at least 0, got -1.0"),
        ({"reg_covar": "1"}, "reg_covar must be a number, got '1'"),
        ({"infeasible": "drop"}, "infeasible must be one of raise, skip, got 'drop'"),
        ({"constraints": "sizes"}, "constraints must be made with E or shortcuts, got the text 'sizes'"),
        (
            {"gamma": 0.5, "schedule": Constant(1.0)},
            "gamma and schedule must not both be given, got gamma 0.5; put it into the schedule, as in "
            "Anneal(beta_min, 1 / gamma)",
        ),
        ({"schedule": 3}, "schedule must yield gammas, such as Anneal(beta_min=0.1), got 3; for one, give gamma"),
        (
            {"weights_init": [0.5, 0.4]},
            "weights_init must be proportions that sum to 1, got [0.5, 0.4]; divide them by their sum",
        ),
        ({"means_init": [[0.0]]}, "means_init must have shape (2, 2), got (1, 1); it depends on covariance_type"),
        ({"means_init": [[0.0, np.nan]] * 2}, "means_init must hold finite numbers, got nan"),
        (
            {"precisions_init": [1.0, -1.0], "covariance_type": "spherical"},
            "precisions_init must be positive, got -1.0",
        ),
        (
            {"precisions_init": [[1.0, 0.5], [0.0, 1.0]], "covariance_type": "tied"},
            "precisions_init must be symmetric and positive definite, got a matrix that is not symmetric",
        ),
        (
            {"precisions_init": [[1.0, 2.0], [2.0, 1.0]], "covariance_type": "tied"},
            "precisions_init must be symmetric and positive definite, got eigenvalue -1",
        ),
    ],
)
def test_settings(options, message):
    assert error_of(lambda: GaussianMixture(**({"n_components": 2} | options)).fit(X)) == message


def test_input():
    mixture = GaussianMixture(2, partial_labels=True)
    assert error_of(lambda: mixture.fit(X, [0, 1])) == (
        "y must have shape (20,), a component or -1 per row of X; got (2,)"
    )
    assert error_of(lambda: mixture.fit(X, np.zeros(20))) == (
        "y must hold integers with partial_labels=True, got dtype float64; number the components from 0"
    )
    assert error_of(lambda: mixture.fit(X, np.arange(20) // 5)) == (
        "y must hold components from 0 to 1, or -1 for unknown; got 2 at row 10; raise n_components or leave y out"
    )
    assert error_of(lambda: mixture.fit(X, sample_weight=np.zeros(20))) == (
        "sample_weight must be positive for some row, got zeros only"
    )
    assert error_of(lambda: GaussianMixture(21).fit(X)) == (
        "X must have at least n_components = 21 rows of positive weight, got n_samples = 20; lower n_components"
    )
    assert error_of(lambda: mixture.fit(X, columns=[1])) == (
        "columns must map names to arrays, or be a frame, got list; write {'group': values}"
    )
    assert error_of(lambda: mixture.fit(X).sample(0)) == "n_samples must be at least 1, got 0"


@pytest.mark.parametrize("kind", [NotFittedError, SklearnNotFittedError])
def test_not_fitted(kind):
    for call in (GaussianMixture().predict, GaussianMixture().score_samples, lambda _: GaussianMixture().sample()):
        assert error_of(lambda call=call: call(X), kind) == "this GaussianMixture is not fitted yet; call fit"


def test_warm_start_needs_the_same_shapes():
    mixture = GaussianMixture(2, warm_start=True, random_state=0).fit(X)
    assert error_of(lambda: mixture.set_params(n_components=3).fit(X)) == (
        "warm_start must go on with means of shape (3, 2) and covariances of shape (3, 2, 2), got (2, 2) and "
        "(2, 2, 2) from the last fit; set warm_start=False"
    )


def test_constraints_that_cannot_hold():
    assert error_of(
        lambda: GaussianMixture(3, constraints=[cluster_size(7)], random_state=0).fit(X), InfeasibleConstraintError
    ).startswith("'cluster size': no feasible q in label ")
    unique = [(E[...] <= 1).per("bag", "label")]
    assert error_of(lambda: GaussianMixture(3, constraints=unique).fit(X)) == (
        "there is no column 'bag'; the columns are 'instance', 'label', 'instance', 'row'"
    )


def test_clone_and_grid_search():
    mixture = GaussianMixture(2, schedule=Anneal(0.5), covariance_type="diag")
    assert repr(clone(mixture).get_params()) == repr(mixture.get_params())
    search = GridSearchCV(GaussianMixture(random_state=0, n_threads=1), {"n_components": [1, 2]}, cv=2).fit(X)
    assert search.best_estimator_.n_components in (1, 2)


def test_verbose_prints(capsys):
    GaussianMixture(2, verbose=2, verbose_interval=1, random_state=0, tol=0.1).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "start 1 of 1"
    assert lines[1].startswith("  iteration 1  -")
    assert lines[1].endswith(" s")
