"""Labels of GaussianMixture that meet the constraints exactly."""

import itertools

import numpy as np
import pytest

from spectrem import E, GaussianMixture, part
from spectrem.constraints import at_least_one_per, cannot_link, cluster_size, must_link
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.models.mixture import log_joint


def draw(n=60, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 2, (k, 2))[rng.choice(k, n, p=np.arange(1, k + 1) / (k * (k + 1) / 2))] + rng.normal(
        size=(n, 2)
    )


def fit(x, k, constraints, y=None, weights=None, columns=None, **options):
    mixture = GaussianMixture(
        k,
        covariance_type="spherical",
        constraints=constraints,
        assign="feasible",
        random_state=0,
        n_threads=1,
        **options,
    )
    return mixture.fit(x, y, sample_weight=weights, columns=columns)


def test_sizes_hold_and_no_other_labels_are_better():
    x = draw(9)
    mixture = fit(x, 3, [cluster_size(3, 3)])
    joint = log_joint(mixture._params(), x)
    wanted = max(
        (joint[np.arange(9), labels].sum(), labels)
        for labels in map(list, itertools.product(range(3), repeat=9))
        if (np.bincount(labels, minlength=3) == 3).all()
    )
    assert mixture.labels_.tolist() == wanted[1]


def test_bounds_are_rounded_inwards():
    x = draw(200, 4)
    mixture = fit(x, 4, [cluster_size(45.5, 54.2)])
    counts = np.bincount(mixture.labels_, minlength=4)
    assert counts.min() >= 46
    assert counts.max() <= 54
    probable = GaussianMixture(
        4, covariance_type="spherical", constraints=[cluster_size(45.5, 54.2)], random_state=0, n_threads=1
    ).fit(x)
    assert (probable.labels_ == probable.posteriors_.argmax(1)).all()
    assert not 46 <= np.bincount(probable.labels_, minlength=4).min() <= 54


def test_links_sizes_groups_and_known_components():
    x, rng = draw(80, 3), np.random.default_rng(1)
    together, apart = [[0, 1], [1, 2], [10, 40]], [[0, 20], [20, 30], [30, 0], [41, 42]]
    known = np.full(80, -1)
    known[[5, 6, 7]] = 2
    bag = rng.integers(0, 10, 80)
    rules = [must_link(together), cannot_link(apart), cluster_size(20, 40), at_least_one_per("bag", 1)]
    labels = fit(x, 3, rules, known, columns={"bag": bag}, partial_labels=True).labels_
    assert all(labels[i] == labels[j] for i, j in together)
    assert all(labels[i] != labels[j] for i, j in apart)
    assert labels[[5, 6, 7]].tolist() == [2, 2, 2]
    counts = np.bincount(labels, minlength=3)
    assert counts.min() >= 20
    assert counts.max() <= 40
    assert set(bag[labels == 1]) == set(bag)


def test_weights_of_rows():
    x, rng = draw(50, 2), np.random.default_rng(2)
    weights = rng.integers(0, 3, 50).astype(float)
    labels = fit(x, 2, [cluster_size(0.45 * weights.sum())], weights=weights).labels_
    assert np.bincount(labels, weights).min() >= 0.45 * weights.sum()
    assert labels.min() >= 0
    zero = np.flatnonzero(weights == 0)
    pairs = [[zero[0], zero[1]], [zero[2], int(np.argmax(weights))]]
    linked = fit(x, 2, [cannot_link(pairs)], weights=weights).labels_
    assert all(linked[i] != linked[j] for i, j in pairs)


def test_weights_of_rows_weigh_their_densities():
    x, rng = draw(9, 2, 3), np.random.default_rng(3)
    weights = rng.uniform(0.2, 4.0, 9)
    rule = E[part("label") == 0] <= 0.3 * weights.sum()
    mixture = fit(x, 2, [must_link([[0, 5], [1, 2]]), rule], weights=weights, tol=1e9)
    joint, cells = log_joint(mixture._params(), x), np.arange(9)
    allowed = [
        labels
        for labels in map(list, itertools.product(range(2), repeat=9))
        if labels[0] == labels[5] and labels[1] == labels[2]
        if np.bincount(labels, weights, 2)[0] <= 0.3 * weights.sum()
    ]
    best = max(allowed, key=lambda labels: weights @ joint[cells, labels])
    assert mixture.labels_.tolist() == best
    assert best != max(allowed, key=lambda labels: joint[cells, labels].sum())


def test_repeated_rows_are_weights():
    x = draw(40, 3)
    times = np.random.default_rng(3).integers(1, 3, 40)
    start = {"means_init": x[:3], "weights_init": [1 / 3] * 3, "precisions_init": [1.0] * 3, "max_iter": 3, "tol": 0}
    repeated = np.repeat(np.arange(40), times)
    weighted = fit(x, 3, [cluster_size(10, 30)], weights=times.astype(float), **start).labels_
    tied = must_link([[i, j] for i, j in itertools.pairwise(range(len(repeated))) if repeated[i] == repeated[j]])
    plain = fit(x[repeated], 3, [cluster_size(10, 30), tied], **start).labels_
    assert plain.tolist() == weighted[repeated].tolist()


def test_one_component_and_no_constraints():
    x = draw(30, 2)
    assert fit(x, 1, [cluster_size(5)]).labels_.tolist() == [0] * 30
    assert fit(x, 2, []).labels_.tolist() == fit(x, 2, [], tol=1e-3).predict(x).tolist()


def test_rows_that_are_skipped_bind_no_labels():
    x = draw(30, 2)
    known = np.full(30, -1)
    known[4] = 1
    never = (E[part("label") == 1] <= 0).per("row").named("never 1")
    some = (E[part("label") == 1] <= 0.2).per("row").named("rarely 1")
    with pytest.warns(UserWarning, match="left out: 'never 1' in 1 of the instances"):
        mixture = fit(x, 2, [never], known, infeasible="skip", partial_labels=True)
    assert np.flatnonzero(mixture.labels_).tolist() == [4]
    assert fit(x, 2, [some]).labels_.tolist() == [0] * 30


def test_labels_that_cannot_be():
    x = draw(30, 2)
    with pytest.raises(InfeasibleConstraintError, match="'cluster size': no choice of one label per row"):
        fit(x, 2, [cluster_size(14.2, 15.8), must_link([[i, i + 1] for i in range(0, 30, 2)])])
    with pytest.raises(InvalidInputError, match="assign must be one of probable, feasible, got 'best'"):
        GaussianMixture(2, assign="best").fit(x)
