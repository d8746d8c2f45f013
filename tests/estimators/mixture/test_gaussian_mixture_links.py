"""GaussianMixture under links: rows that must-links tie together are one row, exactly."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from spectrem import E, GaussianMixture, part
from spectrem.constraints import cannot_link, cluster_size, compile_constraints, must_link
from spectrem.constraints.compilation.rows import no_rows
from spectrem.corpus import Local
from spectrem.estimators.mixture.gaussian_mixture import FINE
from spectrem.estimators.mixture.input import MixtureRows, start_posteriors
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.models.mixture import MixtureModel, build_shards, from_covariances, log_joint
from spectrem.models.mixture.constrained import ConstrainedMixture, constrain, make_chunks
from spectrem.structures import Categorical, Parts


def make_problem(seed, n=12, k=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    params = from_covariances("spherical", rng.dirichlet(np.full(k, 5.0)), rng.normal(size=(k, 2)), np.ones(k))
    return x, params


def project_chunks(params, constraints, gamma, shards):
    """Posteriors of the rows of data from those of chunks, and the value of the dual."""
    weights = np.concatenate([shard.weights for shard in shards])
    data = constrain(constraints, 3, {"row": np.arange(len(weights))}, weights, Local(shards))
    model = ConstrainedMixture(MixtureModel(3, "spherical"))
    structure, scores = model.structure(data), model.scores(params, data)
    projection = project_batch(structure, scores, data.rows, gamma, weights=data.chunks.weights, tol=1e-10)
    return data.spread(projection.marginals), projection.dual_value


def error_of(call):
    with pytest.raises(InvalidInputError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_chunks_are_the_projection_onto_the_links(gamma, seed):
    x, params = make_problem(seed)
    constraints = [
        must_link([[0, 1], [1, 2], [5, 6]]),
        cannot_link([[0, 3], [6, 7], [2, 8]]),
        cluster_size(2, 5),
        E[part("label") == 1].per("row") <= 0.9,
    ]
    structure = Categorical(np.full(12, 3))
    rows = compile_constraints(constraints, structure, {"row": np.arange(12)})
    wanted = project_batch(structure, Parts(log_joint(params, x).ravel()), rows, gamma, tol=1e-10)
    found, value = project_chunks(params, constraints, gamma, build_shards(x, rows=5))
    np.testing.assert_allclose(found.ravel(), wanted.marginals.unary, atol=1e-6)
    np.testing.assert_allclose(value, wanted.dual_value, rtol=1e-8)


def test_rows_weigh_in_sizes_but_not_in_links():
    x, params = make_problem(2)
    share = E[part("label") == 2] >= 0.4 * E.count(part("label") == 2)
    constraints = [must_link([[0, 1]]), cannot_link([[0, 3]]), cluster_size(max=7.5), share]
    weights = np.where(np.arange(12) < 6, 2.0, 1.0)
    found, value = project_chunks(params, constraints, 1.0, build_shards(x, weights))
    twice = np.concatenate([np.arange(12), np.arange(6)])
    copies = [*constraints, must_link([[j, 12 + j] for j in range(6)])]
    wanted, same = project_chunks(params, copies, 1.0, build_shards(x[twice]))
    np.testing.assert_allclose(found, wanted[:12], atol=1e-6)
    np.testing.assert_allclose(value, same, rtol=1e-8)
    assert (found[0] + found[3]).max() <= 1 + FINE


def test_rows_without_weight_follow_the_others():
    chunks = make_chunks([must_link([[0, 1], [2, 3]])], np.array([1.0, 0.0, 0.0, 0.0]))
    assert chunks.chunk.tolist() == [0, 0, 1, 1]
    assert chunks.weights.tolist() == [1.0, 0.0]
    assert chunks.mean.toarray().tolist() == [[1, 0, 0, 0], [0, 0, 0.5, 0.5]]
    assert chunks.compress(no_rows(8)).matrix.shape == (0, 4)


def test_links_find_the_clusters():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=150)
    x = 1.2 * rng.normal(size=(3, 2))[z] + rng.normal(size=(150, 2))
    pairs = rng.integers(150, size=(250, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = z[pairs[:, 0]] == z[pairs[:, 1]]
    links = [must_link(pairs[same]), cannot_link(pairs[~same])]
    linked = GaussianMixture(3, covariance_type="tied", random_state=0, constraints=links, n_threads=1).fit(x)
    free = GaussianMixture(3, covariance_type="tied", random_state=0, n_threads=1).fit(x)
    ours = adjusted_rand_score(z, linked.labels_)
    assert ours > adjusted_rand_score(z, free.labels_) + 0.2
    together, apart = linked.posteriors_[pairs[same]], linked.posteriors_[pairs[~same]]
    np.testing.assert_array_equal(together[:, 0], together[:, 1])
    assert apart.sum(axis=1).max() < 1 + 1e-5


def make_uneven(seed, n=500, d=5):
    """Eight clusters, three of them small, and links drawn over all true pairs."""
    rng = np.random.default_rng(seed)
    z = rng.choice(8, n, p=[0.3, 0.25, 0.2, 0.1, 0.06, 0.05, 0.02, 0.02])
    x = rng.normal(0, 3, (8, d))[z] + 1.2 * rng.normal(size=(n, d))
    pairs = rng.integers(n, size=(1500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = z[pairs[:, 0]] == z[pairs[:, 1]]
    return x, z, pairs[same], pairs[~same]


def test_starts_keep_tied_rows_together():
    x, _, together, apart = make_uneven(0)
    chunks = make_chunks([must_link(together), cannot_link(apart)], np.ones(len(x)))
    mixture, rng = GaussianMixture(8), np.random.RandomState(0)
    rows = MixtureRows(x, x.dtype, None, None, {})
    linked = start_posteriors(mixture, rows, rng, chunks).argmax(axis=1)
    free = start_posteriors(mixture, rows, rng).argmax(axis=1)
    assert (linked[together[:, 0]] == linked[together[:, 1]]).all()
    assert (free[together[:, 0]] != free[together[:, 1]]).any()
    # As k-means on rows, of the clusters that keep tied rows together it finds ones near the best.
    spread = sum(((x[linked == k] - x[linked == k].mean(axis=0)) ** 2).sum() for k in range(8))
    means = chunks.mean @ x
    inertia = KMeans(8, n_init=20, random_state=1).fit(means, sample_weight=chunks.weights).inertia_
    inside = ((x - means[chunks.chunk]) ** 2).sum()
    np.testing.assert_allclose(spread, inertia + inside, rtol=0.02)
    few = make_chunks([must_link([[j, j + 1] for j in range(len(x) - 5)])], np.ones(len(x)))  # fewer than clusters
    assert start_posteriors(mixture, rows, rng, few).sum() == len(x)


@pytest.mark.parametrize("seed", [0, 1])
def test_links_find_small_clusters(seed):
    x, z, together, _ = make_uneven(seed)
    mixture = GaussianMixture(8, reg_covar=0.01, random_state=seed, constraints=[must_link(together)], n_threads=1)
    assert adjusted_rand_score(z, mixture.fit(x).labels_) > 0.97


def test_links_that_contradict():
    x, _ = make_problem(0)
    links = [must_link([[0, 1], [1, 2]]), cannot_link([[4, 5], [0, 2]])]
    assert error_of(lambda: GaussianMixture(2, constraints=links).fit(x)) == (
        "cannot_link must not contradict must_link, got the pair (0, 2) of rows that must-links tie together; drop "
        "one of these links"
    )
    y = np.where(np.arange(12) < 2, np.arange(12), -1)
    labelled = GaussianMixture(2, constraints=[must_link([[0, 1]])], partial_labels=True)
    assert error_of(lambda: labelled.fit(x, y)) == (
        "must_link must not tie rows of different known components, got the rows [0, 1]; drop a link or a label"
    )
    assert error_of(lambda: GaussianMixture(2, constraints=[must_link([[0, 99]])]).fit(x)) == (
        "must link: pairs must name rows from 0 to 11, got 99; count rows from 0"
    )
