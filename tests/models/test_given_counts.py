"""Pseudo-counts of single word pairs: their places in the table, and EM with them against dictionaries."""

import numpy as np
import pytest
from bitext_oracles import KINDS, literal_counts, make_bitext, make_model, random_parameters

from spectrem.learning import Stopping, run_em
from spectrem.models.alignment import PriorWithCounts, PseudoCounts, build_shards, lexical_priors
from spectrem.models.priors import DirichletPrior


@pytest.mark.parametrize("seed", range(5))
def test_entries_are_found_and_counts_of_repeated_pairs_added(seed):
    rng = np.random.default_rng(seed)
    table, _ = build_shards(make_bitext([(2, 3), (3, 1), (0, 2), (1, 4)], rng, 6, 7))
    n = 60
    source, target = rng.integers(-1, 8, n), rng.integers(-1, 9, n)
    forward, backward = rng.uniform(0.1, 2.0, (2, n))
    expected = {}
    for k, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        sums = expected.setdefault(pair, [0.0, 0.0])
        sums[0] += forward[k]
        sums[1] += backward[k]
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    found = PseudoCounts.of(table, source, target, forward, backward)
    assert found.entries.tolist() == [k for k, pair in enumerate(pairs) if pair in expected]
    wanted = np.array([expected[pair] for pair in pairs if pair in expected])
    np.testing.assert_allclose(np.array([found.forward, found.backward]).T, wanted)


def test_nothing_given_changes_nothing():
    table, _ = build_shards(make_bitext([(2, 3)], np.random.default_rng(0)))
    priors = DirichletPrior(), DirichletPrior()
    assert PseudoCounts.of(table, [-1, 3], [0, 99], [1.0, 1.0]).added_to(priors) is priors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("doubles")
def test_em_adds_them_in_both_directions_and_the_objective_rises(kind):
    rng = np.random.default_rng(1)
    table, (shard,) = build_shards(make_bitext([(2, 3), (3, 2), (1, 2), (2, 1)], rng))
    entries = np.array([0, table.n_pairs // 2, table.n_pairs - 1])
    given = PseudoCounts(entries, np.array([0.5, 2.0, 1.0]), np.array([3.0, 0.1, 1.0]))
    priors = given.added_to((DirichletPrior(), DirichletPrior()))
    model = make_model(kind, table, forward_prior=priors[0], backward_prior=priors[1])
    params = random_parameters(kind, table, rng)
    objectives = []
    for _ in range(6):
        expected, value = literal_counts(kind, model, params, shard)
        density = given.forward @ np.log(params.forward.translation[entries])
        density += given.backward @ np.log(params.backward.translation[entries])
        result = run_em(model, [shard], params, stopping=Stopping(1))
        objectives.append(result.history[0].objective)
        assert objectives[-1] == pytest.approx(value + density, rel=1e-9)
        for direction, counts, row, own in (
            ("forward", expected[0][0], table.sources, given.forward),
            ("backward", expected[1][0], table.targets, given.backward),
        ):
            total = counts.copy()
            for entry, count in zip(entries.tolist(), own.tolist(), strict=True):
                total[entry] += count
            wanted = total / np.bincount(row, total)[row]
            got = getattr(result.params, direction).translation[:-1]
            np.testing.assert_allclose(got, np.maximum(wanted, 1e-12), rtol=1e-8)
        params = result.params
    assert (np.diff(objectives) >= -1e-9).all()


def test_stems_learn_from_them():
    """Other forms of a listed word gain, too: the pairs of stems are counted with the given counts."""
    rng = np.random.default_rng(2)
    table, _ = build_shards(make_bitext([(2, 2), (2, 2), (3, 3)], rng))
    words = ("house", "houses", "tree", "trees"), ("maison", "maisons", "arbre", "arbres", "x")
    priors = lexical_priors(table, *words, np.ones(4, int), np.ones(5, int))
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    listed = pairs.index((0, 0)) if (0, 0) in pairs else 0
    prior = PriorWithCounts(priors[0], np.array([listed]), np.array([4.0]))
    counts = rng.uniform(0.1, 1.0, table.n_pairs)
    before = counts.copy()
    got = prior.normalise(counts, table.sources, np.diff(table.row_offsets))
    assert np.array_equal(counts, before)  # left as they were
    counts[listed] += 4.0
    np.testing.assert_array_equal(got, priors[0].normalise(counts, table.sources, np.diff(table.row_offsets)))
