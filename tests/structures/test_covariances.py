"""Covariances of parts with a sum along a direction, against enumeration and against differences of marginals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structure_cases import FAMILIES, SCORE_KINDS, random_scores, seeds

from spectrem.exceptions import InvalidInputError
from spectrem.kernels import brackets
from spectrem.kernels.chains import covariances as kernel
from spectrem.kernels.trees import eisner
from spectrem.structures import (
    Alignment,
    Bracketings,
    Categorical,
    Chain,
    EdgeChain,
    Known,
    NonProjectiveTrees,
    Parts,
    Product,
    ProjectiveTrees,
    Segmentations,
    ValenceTrees,
)
from spectrem.structures._ragged import no_parts
from spectrem.structures.derivations import covariances as derived_covariances
from spectrem.testing import enumerate_structures

segmentations = st.builds(
    Segmentations, st.lists(st.integers(0, 4), max_size=3), n_states=st.integers(1, 2), longest=st.integers(1, 3)
)
families = pytest.mark.parametrize("family", [*FAMILIES, "segmentations"])


def by_enumeration(structure, scores, along, weights):
    means, found = np.zeros(structure.n_instances), no_parts(structure)
    for n in range(structure.n_instances):
        listed = list(enumerate_structures(structure, n))
        score = np.array([scores.dot(h) for h in listed])
        if not np.isfinite(score).any():
            continue
        p = np.exp(score - score.max())
        p /= p.sum()
        totals = np.array([along.dot(h) for h in listed])
        means[n] = p @ totals
        for share, h in zip(p * (totals - means[n]), listed, strict=True):
            found.add(h, share, weights[n] * share)
    return means, found


def spoil_impossible(along, scores):
    """A direction that no structure goes: huge where scores are -inf."""
    return np.where(scores == -np.inf, 1e12, along)


def possible_scores(trees, rng):
    """Some scores are -inf, but most long sentences have a tree; many binary trees need words 1 and 2 as a span."""
    if not isinstance(trees, Bracketings):
        return random_scores(trees, rng, "impossible")
    scores, (start, end) = random_scores(trees, rng), trees.spans
    scores.unary[2 * np.flatnonzero((rng.random(trees.n_spans) < 0.1) & (end - start > 2))] = -np.inf
    scores.unary[2 * np.flatnonzero((start == 1) & (end == 3) & (trees.instance[::2] % 3 > 0)) + 1] = -np.inf
    assert np.isfinite(trees.smoothed_max(scores, 1.0)[0][trees.lengths > 4]).sum() > trees.n_instances // 4
    return scores


def assert_same(found, expected, atol):
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=atol)
    for one, other in zip((found[1].unary, *found[1].factors), (expected[1].unary, *expected[1].factors), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@families
@settings(max_examples=60)
@given(data=st.data(), kind=st.sampled_from(SCORE_KINDS), seed=seeds())
def test_equal_to_enumeration(family, data, kind, seed):
    structure, rng = data.draw(FAMILIES.get(family, segmentations)), np.random.default_rng(seed)
    scores, along = random_scores(structure, rng, kind), random_scores(structure, rng)
    along, weights = along.map(spoil_impossible, scores), rng.normal(size=structure.n_instances)
    found = structure.covariances(scores, along, weights)
    assert_same(found, by_enumeration(structure, scores, along, weights), 1e-8)
    assert not found[1].unary[structure.smoothed_max(scores, 1.0)[1].unary == 0.0].any()
    means, plain = structure.covariances(scores, along)
    np.testing.assert_allclose(means, found[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(plain.unary, found[1].unary, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [Chain, EdgeChain])
def test_long_sentences_are_as_exact_as_short_ones(make):
    rng = np.random.default_rng(0)
    structure = make([300, 1, 0, 200], n_states=4)
    scores = Parts(3 * rng.normal(size=structure.n_unary), (3 * rng.normal(size=(4, 4)),))
    along, step = random_scores(structure, rng), 1e-5
    up, down = (
        structure.smoothed_max(scores.map(lambda s, d, by=by: s + by * d, along), 1.0)[1] for by in (step, -step)
    )
    _, found = structure.covariances(scores, along)
    np.testing.assert_allclose(found.unary, (up.unary - down.unary) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(found.factors[0], (up.factors[0] - down.factors[0]) / (2 * step), atol=1e-5)


@pytest.mark.parametrize("size", [1.0, 30.0])
@pytest.mark.parametrize("single_root", [True, False])
def test_trees_of_many_words_move_with_their_arcs(single_root, size):
    """Covariances are symmetric: of the arcs of one set with the sum over another, whichever is the direction.

    At 30 nats most arcs are nearly certain, and best heads make cycles, where an inverse Laplacian has no digits left.
    """
    rng, lengths = np.random.default_rng(3), [17, 1, 0, 30, 17]
    for make in (ProjectiveTrees, NonProjectiveTrees, ValenceTrees):
        trees = make(lengths, single_root=single_root)
        scores, one, other = (random_scores(trees, rng) for _ in range(3))
        scores.unary[:] *= size
        scores.unary[rng.random(trees.n_unary) < 0.1] = -np.inf
        means, products = trees.covariances(scores, one)
        marginals = trees.smoothed_max(scores, 1.0)[1].unary
        np.testing.assert_allclose(means, np.bincount(trees.instance, marginals * one.unary, 5), atol=1e-9)
        crossed = trees.covariances(scores, other)[1]
        np.testing.assert_allclose(
            np.bincount(trees.instance, products.unary * other.unary, 5),
            np.bincount(trees.instance, crossed.unary * one.unary, 5),
            atol=1e-8,
        )
        np.testing.assert_allclose(np.bincount(trees.choice, products.unary), 0.0, atol=1e-9)  # heads are exclusive


@pytest.mark.parametrize("make", [ProjectiveTrees, ValenceTrees])
@pytest.mark.parametrize("size", [1.0, 20.0, 60.0, 200.0])
@pytest.mark.parametrize("single_root", [True, False])
def test_trees_over_spans_in_groups_equal_the_engine_of_derivations(make, size, single_root, monkeypatch):
    rng = np.random.default_rng(4)
    trees = make(rng.integers(0, 13, 40), single_root=single_root)
    scores, along = random_scores(trees, rng, "impossible"), random_scores(trees, rng)
    scores.unary[:] *= size
    found = trees.covariances(scores, along)
    assert_same(found, derived_covariances(trees, scores, along, None), 1e-9)
    monkeypatch.setattr(eisner, "LONGEST", 7)
    assert_same(trees.covariances(scores, along), found, 1e-9)


@pytest.mark.parametrize("size", [1.0, 20.0, 60.0, 200.0])
def test_binary_trees_in_groups_equal_the_engine_of_derivations(size, monkeypatch):
    rng = np.random.default_rng(4)
    trees = Bracketings(rng.integers(0, 13, 40))
    scores, along = possible_scores(trees, rng), random_scores(trees, rng)
    scores.unary[:] *= size
    along = along.map(spoil_impossible, scores)
    found = trees.covariances(scores, along)
    monkeypatch.setattr(brackets, "LONGEST", 7)
    assert_same(trees.covariances(scores, along), found, 1e-9)
    monkeypatch.setattr(brackets, "sum_pass", lambda *arguments: None)  # leaves all of them
    assert_same(trees.covariances(scores, along), found, 1e-9)


@pytest.mark.parametrize("make", [ProjectiveTrees, NonProjectiveTrees, ValenceTrees, Bracketings])
@pytest.mark.parametrize("size", [1.0, 60.0])
def test_a_tree_has_the_same_bits_in_any_batch(make, size):
    rng, lengths = np.random.default_rng(6), [3, 0, 9, 1, *range(2, 18), 2, 21]
    trees = make(lengths)
    scores, along = random_scores(trees, rng).map(lambda s: size * s), random_scores(trees, rng)
    means, products = trees.covariances(scores, along)
    for n, length in enumerate(lengths):
        parts = trees.instance == n
        mean, alone = make([length]).covariances(Parts(scores.unary[parts]), Parts(along.unary[parts]))
        assert mean[0] == means[n]
        assert np.array_equal(alone.unary, products.unary[parts])


@pytest.mark.parametrize("make", [ProjectiveTrees, NonProjectiveTrees, ValenceTrees, Bracketings])
def test_directions_of_trees_may_be_as_large_or_small_as_numbers_are(make):
    rng = np.random.default_rng(5)
    trees = make([5, 0, 3, 9, 1, 9])
    scores, along = possible_scores(trees, rng), random_scores(trees, rng)
    along.unary[trees.instance == 2] = 0.0
    scores.unary[:] *= 30.0
    means, products = trees.covariances(scores, along)
    for power in (-1000, -60, 60, 1000):
        factors = np.where(trees.instance == 5, 1.0, 2.0**power)
        found = trees.covariances(scores, Parts(along.unary * factors))
        np.testing.assert_allclose(found[0][:5], means[:5] * 2.0**power, rtol=1e-12)
        np.testing.assert_allclose(found[1].unary / factors, products.unary, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [ProjectiveTrees, NonProjectiveTrees])
def test_where_a_marginal_underflows_nothing_moves(make):
    depths = np.linspace(700.0, 760.0, 241)  # in nats, of one of three trees below the others
    trees, zero = make([2] * 241, single_root=False), np.zeros(241)
    scores = Parts(np.stack([zero, -depths, zero, zero], axis=1).ravel())
    along = Parts(np.tile([0.0, 1e3, 0.0, 0.0], 241))
    marginals = trees.smoothed_max(scores, 1.0)[1].unary
    products = trees.covariances(scores, along)[1].unary
    assert (marginals == 0.0).any()
    np.testing.assert_array_equal(products[marginals == 0.0], 0.0)
    kept = np.repeat(depths < 705.0, 4)
    np.testing.assert_allclose(products[kept].reshape(-1, 4)[:, 1], 500.0 * np.exp(-depths[:20]), rtol=1e-9)


@pytest.mark.parametrize("size", [1.0, 20.0, 60.0, 200.0])
def test_alignments_with_jumps_equal_the_engine_of_derivations(size):
    rng = np.random.default_rng(7)
    lengths = (np.append(rng.integers(0, 7, 26), more) for more in ([12, 1, 20, 7], [9, 15, 1, 25]))
    pairs = Alignment(*lengths, max_jump=3)
    scores, along = (random_scores(pairs, rng).map(lambda s: size * s) for _ in range(2))
    scores.unary[rng.random(pairs.n_unary) < 0.1] = -np.inf
    scores.factors[0][1] = scores.factors[2][2] = -np.inf
    along, weights = along.map(spoil_impossible, scores), rng.normal(size=30)
    found, expected = pairs.covariances(scores, along, weights), derived_covariances(pairs, scores, along, weights)
    assert_same(found, expected, 1e-9 * size)
    for power in (-900, -60, 60, 900):
        means, products = pairs.covariances(scores, along.map(lambda s, p=power: s * 2.0**p), weights)
        assert_same((means / 2.0**power, products.map(lambda s, p=power: s / 2.0**p)), found, 1e-9 * size)


@pytest.mark.parametrize("size", [1.0, 60.0])
def test_a_pair_with_jumps_has_the_same_bits_in_any_batch(size):
    rng = np.random.default_rng(8)
    pairs = Alignment(np.append(rng.integers(0, 7, 19), 7), rng.integers(0, 7, 20), max_jump=2)
    scores, along = random_scores(pairs, rng).map(lambda s: size * s), random_scores(pairs, rng)
    means, products = pairs.covariances(scores, along)
    for n in range(20):
        parts, last = pairs.instance == n, pairs.source_lengths[n] + 1
        alone = Alignment(pairs.source_lengths[n : n + 1], pairs.target_lengths[n : n + 1], max_jump=2)
        one, other = (
            Parts(s.unary[parts], (s.factors[0], s.factors[1][:last, :last], s.factors[2])) for s in (scores, along)
        )
        mean, product = alone.covariances(one, other)
        assert mean[0] == means[n]
        assert np.array_equal(product.unary, products.unary[parts])


def test_a_nearly_certain_cycle_of_heads_keeps_its_digits():
    """Two words that prefer each other by 40 nats, one of which hangs on a third: of two trees, each has one half."""
    trees = NonProjectiveTrees([3])
    scores = Parts(np.array([[-99.0, 0.0, -40.0], [0.0, -99.0, -40.0], [-99.0, -99.0, 0.0]]).ravel())
    along = Parts(np.array([[0.0, 1.0, 0.0], [0.0] * 3, [0.0] * 3]).ravel())
    means, products = trees.covariances(scores, along)
    expected = np.array([[0.0, 0.25, -0.25], [-0.25, 0.0, 0.25], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(means, [0.5], atol=1e-12)
    np.testing.assert_allclose(products.unary.reshape(3, 3), expected, atol=1e-12)


def some_states(rng, n_tokens, n_states, share_full):
    """Allowed states: all of them at a share of the tokens, some elsewhere."""
    sizes = np.where(rng.random(n_tokens) < share_full, n_states, rng.integers(1, n_states + 1, n_tokens))
    states = np.concatenate([np.sort(rng.permutation(n_states)[:size]) for size in sizes])
    return np.append(0, np.cumsum(sizes)), states


@pytest.mark.parametrize("size", [1.0, 60.0])
@pytest.mark.parametrize("n_states", [1, 3, 8, 9, 19])
def test_chains_have_those_of_chains_of_edges(n_states, size):
    """In one, two and three vectors of states, of all states, of runs of tokens with all of them, and of some.

    At 60 nats, scaled sums lose what counts in some of the sentences with many states.
    """
    rng, lengths = np.random.default_rng(n_states), [7, 0, 1, 12, 2, 5, 9]
    for share_full in (1.0, 0.7, 0.0):
        allowed = some_states(rng, sum(lengths), n_states, share_full) if share_full < 1.0 else None
        chain, edges = (make(lengths, n_states, allowed) for make in (Chain, EdgeChain))
        scores, along = random_scores(chain, rng).map(lambda s: size * s), random_scores(chain, rng)
        scores.unary[chain.instance == 4] = -np.inf
        scores.unary[rng.random(chain.n_unary) < 0.05] = -np.inf
        scores.factors[0][rng.random((n_states, n_states)) < 0.05 * (n_states > 1)] = -np.inf
        along, weights = along.map(spoil_impossible, scores), rng.normal(size=len(lengths))
        places = edges.state_part
        of_edges, along_edges = (Parts(parts.unary[places], parts.factors) for parts in (scores, along))
        means, products = edges.covariances(of_edges, along_edges, weights)
        expected = Parts(np.bincount(places, products.unary, chain.n_unary), products.factors)
        assert_same(chain.covariances(scores, along, weights), (means, expected), 1e-10)


@pytest.mark.parametrize("lowest", [-1.0, -1000.0])
def test_scaled_sums_and_derivations_agree(monkeypatch, lowest):
    """Where masses are found on the way, and where they are those of the pass that counts what it loses."""
    rng, lengths = np.random.default_rng(5), [6, 1, 20]
    for allowed in (None, some_states(rng, sum(lengths), 5, 0.5)):
        chain = Chain(lengths, 5, allowed)
        scores, along = random_scores(chain, rng), random_scores(chain, rng)
        scores.factors[0][2, 3] = lowest
        weights = rng.normal(size=len(lengths))
        scaled = chain.covariances(scores, along, weights)
        with monkeypatch.context() as patched:
            patched.setattr(kernel, "covary", lambda *arguments: None)
            assert_same(scaled, chain.covariances(scores, along, weights), 1e-12)


@pytest.mark.parametrize("unlikely", [[-150.0] * 12, [-1000.0] + [0.0] * 11])
def test_a_course_that_scaled_sums_lose_is_still_there(unlikely):
    """State 1 is unlikely and never entered, but the last token has to take it; the rest is lost below the floor."""
    unary = np.stack([np.zeros(12), unlikely], axis=1)
    unary[-1, 0] = -np.inf
    scores, along = (
        Parts(unary.ravel(), (np.array([[0.0, -np.inf], [0.0, 0.0]]),)),
        Parts(np.arange(24.0), (np.eye(2),)),
    )
    means, products = Chain([12], 2).covariances(scores, along)
    assert means[0] == pytest.approx(np.arange(1.0, 24.0, 2.0).sum() + 11.0, rel=1e-14)
    assert not np.any(products.unary)
    assert not np.any(products.factors[0])


def test_likely_states_that_nothing_leads_to_are_left_alone():
    """Their futures, which no mass goes with, would grow without bounds from token to token."""
    unary = np.tile([0.0, 50.0, 0.0], 40)
    unary[1] = -np.inf
    moves = np.array([[0.0, -np.inf, 0.0], [0.0, 0.0, 0.0], [0.0, -np.inf, 0.0]])
    along = Parts(np.tile([1.0, 5.0, 0.0], 40), (np.zeros((3, 3)),))
    means, products = Chain([40], 3).covariances(Parts(unary, (moves,)), along)
    np.testing.assert_allclose(means, 20.0, rtol=1e-14)
    np.testing.assert_allclose(products.unary.reshape(40, 3), np.tile([0.25, 0.0, -0.25], (40, 1)), atol=1e-13)


@pytest.mark.parametrize("size", [1.0, 60.0, 300.0])
def test_a_sentence_has_the_same_bits_in_any_batch(size):
    rng, lengths = np.random.default_rng(1), np.array([3, 0, 1, 5, 2, 0, 40])
    for allowed in (None, some_states(rng, sum(lengths), 3, 0.5)):
        chain = Chain(lengths, 3, allowed)
        scores, along = random_scores(chain, rng).map(lambda s: size * s), random_scores(chain, rng)
        means, products = chain.covariances(scores, along)
        for n, length in enumerate(lengths.tolist()):
            tokens, parts = slice(*chain.token_offsets[n : n + 2]), chain.instance == n
            offsets = chain.offsets[tokens.start : tokens.stop + 1]
            alone = None if allowed is None else (offsets - offsets[0], allowed[1][offsets[0] : offsets[-1]])
            own_scores, own_along = (Parts(one.unary[parts], one.factors) for one in (scores, along))
            mean, own = Chain([length], 3, alone).covariances(own_scores, own_along)
            assert mean[0] == means[n]
            assert np.array_equal(own.unary, products.unary[parts])


def test_a_product_has_them_where_all_members_have():
    labels = Categorical([2, 2])
    assert hasattr(Product({"a": labels, "b": labels}), "covariances")
    assert not hasattr(Product({"a": labels, "b": Known(labels, [1.0, 0.0, 0.0, 1.0])}), "covariances")


@pytest.mark.parametrize(
    ("along", "weights", "message"),
    [
        ([0.0, -np.inf], None, r"along must be finite; got -inf; use 0 where a part is not to count"),
        ([0.0, np.nan], None, r"along must be finite; got nan; use 0 where"),
        ([0.0] * 3, None, r"along.unary must have shape \(2,\), one score per part of the structure; got \(3,\)"),
        ([0.0] * 2, [np.inf], r"weights must be finite; got inf at index 0; use 0 to leave an instance out"),
        ([0.0] * 2, [1.0, 1.0], r"weights must have shape \(1,\), one per instance; got \(2,\)"),
    ],
)
def test_bad_directions_are_named(along, weights, message):
    with pytest.raises(InvalidInputError, match=message):
        Categorical([2]).covariances(Parts(np.zeros(2)), Parts(np.array(along)), weights)
