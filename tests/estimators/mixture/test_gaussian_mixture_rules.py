"""What GaussianMixture refuses and with which words."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV

from spectrem import E, GaussianMixture, part
from spectrem.constraints import cannot_link, cluster_size, label_proportions, must_link
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
        ({"tol": -1}, "tol must be finite and at least 0, got -1"),
        ({"reg_covar": "1"}, "reg_covar must be a number, got '1'"),
        ({"infeasible": "drop"}, "infeasible must be one of raise, skip, got 'drop'"),
        ({"constraints": 3}, "constraints must be made with E or shortcuts, got 3; see spectrem.constraints"),
        ({"constraints": [3]}, "constraints must be made with E or shortcuts, got 3; see spectrem.constraints"),
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
        "sample_weight must be positive for some row, got zeros only; leave it out for ones"
    )
    assert error_of(lambda: mixture.fit(X, sample_weight=[1.0, 2.0])) == (
        "sample_weight must have shape (20,), one per row of X, got (2,); leave it out for ones"
    )
    assert error_of(lambda: mixture.fit(X, sample_weight=["a"] * 20)) == (
        "sample_weight must hold numbers, one per row of X; leave it out for ones"
    )
    assert error_of(lambda: GaussianMixture(21).fit(X)) == (
        "X must have at least n_components = 21 rows of positive weight, got n_samples = 20; lower n_components"
    )
    assert error_of(lambda: mixture.fit(X, columns=[1])) == (
        'columns must be a data frame or a mapping from names to arrays, got list; write columns={"document": [...]}'
    )
    assert error_of(lambda: mixture.fit(X, columns={"label": np.zeros(20)})) == (
        "columns: the name 'label' belongs to the table; rename the column"
    )
    assert error_of(lambda: mixture.fit(X, columns={"group": [1, 2]})) == (
        "columns: 'group' has shape (2,), and the table has 20 rows; give one for each"
    )
    assert error_of(lambda: mixture.fit(X).sample(0)) == "n_samples must be at least 1, got 0"


@pytest.mark.parametrize("kind", [NotFittedError, SklearnNotFittedError])
def test_not_fitted(kind):
    for call in (GaussianMixture().predict, GaussianMixture().score_samples, lambda _: GaussianMixture().sample()):
        message = error_of(lambda call=call: call(X), kind)
        assert message == "this GaussianMixture is not fitted yet; call fit, or load a saved one"


def test_warm_start_needs_the_same_shapes():
    mixture = GaussianMixture(2, warm_start=True, random_state=0).fit(X)
    assert error_of(lambda: mixture.set_params(n_components=3).fit(X)) == (
        "warm_start must go on with means of shape (3, 2) and covariances of shape (3, 2, 2), got (2, 2) and "
        "(2, 2, 2) from the last fit; set warm_start=False"
    )


def test_constraints_that_cannot_hold():
    unique = [(E[...] <= 1).per("bag", "label")]
    assert error_of(lambda: GaussianMixture(3, constraints=unique).fit(X)) == (
        "there is no column 'bag'; the columns are 'row', 'label'"
    )
    far = (E[part("row") == len(X)] <= 1).named("a row")
    message = error_of(lambda: GaussianMixture(3, constraints=[far]).fit(X))
    assert message.startswith(f"'a row': there is no row {len(X)}; ")


@pytest.mark.parametrize(
    ("constraints", "weight", "message"),
    [
        (
            [cluster_size(7)],
            1.0,
            "'cluster size': the smallest sizes of the 3 clusters add up to 21, but the rows weigh 20 in all; "
            "lower them, or n_components",
        ),
        (
            [cluster_size(max=6)],
            1.0,
            "'cluster size': the largest sizes of the 3 clusters add up to 18, but the rows weigh 20 in all; "
            "raise them, or n_components",
        ),
        (
            [cluster_size(7, 13)],
            2.0,
            "'cluster size': the largest sizes of the 3 clusters add up to 39, but the rows weigh 40 in all; "
            "raise them, or n_components",
        ),
        (
            [must_link([[0, 1]]), label_proportions({0: 0.5, 1: 0.4}), [cluster_size(3)]],
            1.0,
            "'proportion of 0', 'proportion of 1', 'cluster size': the smallest sizes of the 3 clusters add up to 21, "
            "but the rows weigh 20 in all; lower them, or n_components",
        ),
        (
            label_proportions({0: 0.5, 1: 0.4, 2: (0, 0.05)}),
            3.0,
            "'proportion of 0', 'proportion of 1', 'proportion of 2': the largest sizes of the 3 clusters add up to 57"
            ", but the rows weigh 60 in all; raise them, or n_components",
        ),
    ],
)
def test_sizes_that_cannot_hold_are_refused_before_any_start(constraints, weight, message, monkeypatch):
    monkeypatch.setattr("spectrem.estimators.mixture.gaussian_mixture.start_parameters", None)
    mixture = GaussianMixture(3, constraints=constraints, infeasible="skip")
    weights = None if weight == 1 else np.full(20, weight)
    assert error_of(lambda: mixture.fit(X, sample_weight=weights), InfeasibleConstraintError) == message


def test_sizes_that_can_hold():
    exact = GaussianMixture(2, constraints=[cluster_size(10, 10)], random_state=0).fit(X)
    np.testing.assert_allclose(exact.posteriors_.sum(axis=0), 10, atol=1e-4)
    rough = cluster_size(7).slack(penalty=1, norm="l1")
    assert GaussianMixture(3, constraints=[rough], random_state=0, tol=0.01).fit(X).posteriors_.sum(axis=0).min() < 7
    some = [(E[part("row") < 10] >= 5).per("label")]  # counts some rows only: no size of a cluster
    GaussianMixture(2, constraints=some, random_state=0, tol=0.01).fit(X)
    weightless = np.where(np.arange(20) < 14, 1.0, 0.0)
    with pytest.raises(InfeasibleConstraintError, match="add up to 15, but the rows weigh 14 in all"):
        GaussianMixture(3, constraints=[cluster_size(5)]).fit(X, sample_weight=weightless)


def test_three_rows_apart_in_two_clusters_are_apart_in_expectation_only():
    apart = cannot_link([[0, 1], [1, 2], [0, 2]])
    mixture = GaussianMixture(2, constraints=[apart], random_state=0, tol=0.01).fit(X)
    np.testing.assert_allclose(mixture.posteriors_[:3], 0.5, atol=1e-4)
    with pytest.raises(InfeasibleConstraintError, match="'cannot link': no feasible q"):
        GaussianMixture(1, constraints=[cannot_link([[0, 1]])], random_state=0).fit(X)


TAIL = "; raise reg_covar, scale the data or ask for fewer components"
DUPLICATES = np.repeat(X[:3], 7, axis=0)
COLLINEAR = np.outer(X[:, 0], [1.0, 0.3, 0.7])


@pytest.mark.parametrize(
    ("kind", "data", "k", "message"),
    [
        ("full", DUPLICATES, 3, "component 0 must be positive definite, got a lowest eigenvalue of 0"),
        ("tied", DUPLICATES, 3, r"all components must be positive definite, got a lowest eigenvalue of -?\d.*"),
        ("diag", DUPLICATES, 3, "component 0 must be positive definite, got a variance of 0"),
        ("spherical", DUPLICATES, 3, "component 0 must be positive definite, got a variance of 0"),
        ("full", COLLINEAR, 1, r"component 0 must be positive definite, got a lowest eigenvalue of -?\d.*"),
        ("tied", COLLINEAR, 1, r"all components must be positive definite, got a lowest eigenvalue of -?\d.*"),
        (
            "diag",
            np.column_stack([X, np.full(20, 0.1)]),
            1,
            "component 0 must be positive definite, got a variance of 0",
        ),
        ("full", np.eye(6), 3, "component . must be positive definite, .*"),
    ],
)
def test_singular_covariances(kind, data, k, message):
    mixture = GaussianMixture(k, covariance_type=kind, reg_covar=0, random_state=0)
    assert re.fullmatch(f"the covariance of {message}{TAIL}", error_of(lambda: mixture.fit(data)))
    mixture = mixture.set_params(reg_covar=1e-6).fit(data)
    assert np.isfinite(mixture.lower_bound_)
    assert np.isfinite(mixture.covariances_).all()


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_more_clusters_than_distinct_rows_leave_some_empty(kind):
    mixture = GaussianMixture(4, covariance_type=kind, random_state=0).fit(DUPLICATES)
    np.testing.assert_allclose(np.sort(mixture.weights_), [0, 1 / 3, 1 / 3, 1 / 3], atol=1e-9)
    assert np.bincount(mixture.labels_, minlength=4).tolist() != [0, 0, 0, 0]


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
