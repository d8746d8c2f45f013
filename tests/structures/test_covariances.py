"""Covariances of parts with a sum of values, against enumeration and against differences of marginals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structure_cases import FAMILIES, SCORE_KINDS, random_scores, seeds

from spectrem.structures import Chain, EdgeChain, Parts
from spectrem.structures._ragged import no_parts
from spectrem.structures.chains import chain as chain_module
from spectrem.testing import enumerate_structures

families = pytest.mark.parametrize(
    "family", ["categorical", "chain", "chain of edges", "projective trees", "semi-Markov chain"]
)


def by_enumeration(structure, scores, values, weights):
    found = no_parts(structure)
    for n in range(structure.n_instances):
        listed = list(enumerate_structures(structure, n))
        score = np.array([scores.dot(h) for h in listed])
        if not np.isfinite(score).any():
            continue
        p = np.exp(score - score.max())
        p /= p.sum()
        totals = np.array([values @ h.unary for h in listed])
        apart = p * (totals - p @ totals)
        for share, h in zip(apart, listed, strict=True):
            found.unary[:] += share * h.unary
            for total, count in zip(found.factors, h.factors, strict=True):
                total += weights[n] * share * count
    return found


@families
@settings(max_examples=60)
@given(data=st.data(), kind=st.sampled_from(SCORE_KINDS), seed=seeds())
def test_equal_to_enumeration(family, data, kind, seed):
    structure, rng = data.draw(FAMILIES[family]), np.random.default_rng(seed)
    scores, weights = random_scores(structure, rng, kind), rng.uniform(0, 3, structure.n_instances)
    values = rng.normal(size=structure.n_unary)
    found = structure.covariances(scores, values, weights)
    expected = by_enumeration(structure, scores, values, weights)
    np.testing.assert_allclose(found.unary, expected.unary, rtol=0, atol=1e-9)
    for own, brute in zip(found.factors, expected.factors, strict=True):
        np.testing.assert_allclose(own, brute, rtol=0, atol=1e-8)
    plain = structure.covariances(scores, values)
    np.testing.assert_allclose(plain.unary, found.unary, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [Chain, EdgeChain])
def test_long_sentences_are_as_exact_as_short_ones(make):
    rng = np.random.default_rng(0)
    structure = make([300, 1, 0, 200], n_states=4)
    scores = Parts(3 * rng.normal(size=structure.n_unary), (3 * rng.normal(size=(4, 4)),))
    values, step = rng.normal(size=structure.n_unary), 1e-5
    up, down = (
        structure.smoothed_max(Parts(scores.unary + sign * step * values, scores.factors), 1.0)[1] for sign in (1, -1)
    )
    found = structure.covariances(scores, values)
    np.testing.assert_allclose(found.unary, (up.unary - down.unary) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(found.factors[0], (up.factors[0] - down.factors[0]) / (2 * step), atol=1e-5)


def test_pieces_of_a_batch_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    lengths = [3, 0, 1, 5, 2, 0, 4]
    sizes = rng.integers(1, 4, sum(lengths))
    states = np.concatenate([np.sort(rng.permutation(3)[:size]) for size in sizes])
    for allowed in (None, (np.append(0, np.cumsum(sizes)), states)):
        chain = Chain(lengths, 3, allowed)
        scores = Parts(rng.normal(size=chain.n_unary), (rng.normal(size=(3, 3)),))
        values, weights = rng.normal(size=chain.n_unary), rng.uniform(0, 2, len(lengths))
        monkeypatch.setattr(chain_module, "_PAIRS", 1 << 18)
        assert len(list(chain._pieces())) == 1
        whole = chain.covariances(scores, values, weights)
        monkeypatch.setattr(chain_module, "_PAIRS", 10)
        assert len(list(chain._pieces())) > 2
        cut = chain.covariances(scores, values, weights)
        np.testing.assert_allclose(cut.unary, whole.unary, atol=1e-14)
        np.testing.assert_allclose(cut.factors[0], whole.factors[0], atol=1e-14)
