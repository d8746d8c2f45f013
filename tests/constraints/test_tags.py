"""Constraints on tags: what they compile to, and what they do to the posterior of a few sentences."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from spectrem.constraints import (
    E,
    at_least,
    at_most,
    check_values,
    compile_constraints,
    dictionary_in_expectation,
    part,
    sparsity,
    tag_proportions,
)
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.structures import Chain, Parts

TAGS = np.array(["N", "V"])
WORDS = ["a", "b", "a", "a", "b"]
LENGTHS = [3, 2]
CHAIN = Chain(LENGTHS, 2)
COLUMNS = {"tag": TAGS[CHAIN.columns["tag"]], "word": WORDS}


def scores(seed=3):
    rng = np.random.default_rng(seed)
    return Parts(0.8 * rng.normal(size=CHAIN.n_unary), (rng.normal(size=(2, 2)),))


def sequences(given):
    """All tag sequences of each sentence with their probabilities: (tokens' tags, p), and where its tokens begin."""
    for begin, length in zip(np.cumsum([0, *LENGTHS[:-1]]), LENGTHS, strict=True):
        states = np.array(list(itertools.product(range(2), repeat=length)))
        score = sum(given.unary.reshape(-1, 2)[begin + t, states[:, t]] for t in range(length))
        score = score + sum(given.factors[0][states[:, t], states[:, t + 1]] for t in range(length - 1))
        yield int(begin), states, np.exp(score) / np.exp(score).sum()


def closest(rows, n_slack=0, price=0.0):
    """Unary marginals of the q nearest to p under ``rows(mu, xi) >= 0``, over all sequences, by SLSQP."""
    given = list(sequences(scores()))
    sizes = [len(p) for *_, p in given]
    p = np.concatenate([p for *_, p in given])
    to_marginals = np.zeros((CHAIN.n_unary, sum(sizes)))
    column = 0
    for begin, states, _ in given:
        for sequence in states:
            to_marginals[2 * (begin + np.arange(len(sequence))) + sequence, column] = 1.0
            column += 1
    n = len(p)

    def cost(x):
        q = np.maximum(x[:n], 1e-300)
        return float((q * np.log(q / p)).sum() + price * x[n:].sum())

    def slope(x):
        return np.concatenate([np.log(np.maximum(x[:n], 1e-300) / p) + 1, np.full(n_slack, price)])

    bounds = [(1e-9, 1)] * n + [(0, None)] * n_slack
    equal = [{"type": "eq", "fun": lambda x, a=a, b=b: x[a:b].sum() - 1} for a, b in
             itertools.pairwise(np.cumsum([0, *sizes]))]  # fmt: skip
    above = {"type": "ineq", "fun": lambda x: np.atleast_1d(rows(to_marginals @ x[:n], x[n:]))}
    start = np.concatenate([p, np.ones(n_slack)])
    found = minimize(cost, start, jac=slope, bounds=bounds, constraints=[*equal, above], method="SLSQP",
                     options={"maxiter": 500, "ftol": 1e-12})  # fmt: skip
    assert found.success, found.message
    return to_marginals @ found.x[:n]


def ours(constraints):
    return project_batch(CHAIN, scores(), compile_constraints(constraints, CHAIN, COLUMNS)).marginals.unary


def verbs(mu):
    return mu[1::2]


@pytest.mark.parametrize("tag", ["V", ["V"], {"V"}])
def test_at_least(tag):
    free = ours([])
    assert verbs(free)[:3].sum() < 1.0  # otherwise the constraint asks for nothing
    oracle = closest(lambda mu, _: [verbs(mu)[:3].sum() - 1.1, verbs(mu)[3:].sum() - 1.1])
    np.testing.assert_allclose(ours(at_least(1.1, tag)), oracle, atol=1e-5)
    assert np.abs(oracle - free).max() > 0.05


def test_at_most_of_several_tags():
    oracle = closest(lambda mu, _: [0.3 - verbs(mu)[:3].sum(), 0.3 - verbs(mu)[3:].sum()])
    np.testing.assert_allclose(ours(at_most(0.3, "V")), oracle, atol=1e-5)
    both = at_most(3, ["N", "V"])
    assert both.name == "at most 3 N or V per sentence"
    assert compile_constraints(both, CHAIN, COLUMNS).matrix.sum() == 10


def test_per_another_column():
    rows = compile_constraints(at_least(1, "V", per="word"), CHAIN, COLUMNS)
    assert rows.blocks[0].scope == "corpus"
    assert rows.blocks[0].keys["word"].tolist() == ["a", "b"]


@pytest.mark.parametrize(("share", "low", "high"), [((0.1, 0.2), 0.1, 0.2), (0.65, 0.65, 0.65), ((0, 0.3), 0, 0.3),
                                                    ((0.7, 1), 0.7, 1.0)])  # fmt: skip
def test_tag_proportions(share, low, high):
    oracle = closest(lambda mu, _: [verbs(mu).sum() - 5 * low, 5 * high - verbs(mu).sum()])
    marginals = ours(tag_proportions({"V": share}))
    np.testing.assert_allclose(marginals, oracle, atol=2e-5)
    assert 5 * low - 1e-6 <= verbs(marginals).sum() <= 5 * high + 1e-6


def test_dictionary_in_expectation():
    # "b" may only be N: each expected V of it beyond a tenth of its tokens costs 1.5 nats.
    oracle = closest(lambda mu, xi: [xi[0] + 0.1 * 2 - verbs(mu)[[1, 4]].sum()], n_slack=1, price=1.5)
    marginals = ours(dictionary_in_expectation({"b": ["N"], "z": ["V"]}, 1.5, share=0.1))
    np.testing.assert_allclose(marginals, oracle, atol=2e-5)
    assert verbs(marginals)[[1, 4]].sum() < verbs(ours([]))[[1, 4]].sum() - 0.05
    free = ours(dictionary_in_expectation({"z": ["V"]}, 1.5, share=0.1))
    np.testing.assert_allclose(free, ours([]), atol=1e-9)


def test_a_dictionary_without_a_share_is_a_prior_on_unlisted_tags():
    given = scores()
    given.unary[[3, 9]] -= 2.0  # V of both tokens of "b"
    oracle = CHAIN.smoothed_max(given, 1.0)[1].unary
    np.testing.assert_allclose(ours(dictionary_in_expectation({"b": ["N"]}, 2.0)), oracle, atol=1e-6)


@pytest.mark.parametrize(("min_count", "words"), [(3, "a"), (2, "ab"), (1, "ab")])
def test_sparsity(min_count, words):
    groups = [[2 * t + tag for t in range(5) if WORDS[t] == word] for word in words for tag in (0, 1)]
    pairs = [(g, k) for g, members in enumerate(groups) for k in members]

    def rows(mu, xi):
        return np.array([xi[g] - mu[k] for g, k in pairs])

    oracle = closest(rows, n_slack=len(groups), price=0.7)
    np.testing.assert_allclose(ours(sparsity(0.7, min_count)), oracle, atol=1e-4)
    assert np.abs(oracle - ours([])).max() > 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: at_least(0, "V"), r"at_least: n must be positive, got 0; at_least\(0, ...\) holds anyway"),
        (lambda: at_least(1, []), "at_least: tags is empty; name one tag or more"),
        (lambda: at_most(-1, "V"), "at_most: n must be at least 0, got -1; expected numbers of words are never below"),
        (
            lambda: tag_proportions({"V": 1.2}),
            r"the share of 'V' must be in \[0, 1\], or a pair low <= high in it",
        ),
        (lambda: tag_proportions({"V": (0.3, 0.2)}), r"the share of 'V' must be .*; got \(0.3, 0.2\)"),
        (
            lambda: tag_proportions({"V": 0.7, "N": (0.4, 1)}),
            "the lowest shares add up to 1.1, more than 1; lower",
        ),
        (lambda: dictionary_in_expectation({}, 1), "the dictionary is empty; leave the constraint out"),
        (lambda: dictionary_in_expectation({"a": ["N"]}, 1, share=1), r"share must be in \[0, 1\), got 1; 0.1 is a"),
        (lambda: dictionary_in_expectation({"a": "N"}, 1), "'a' of the dictionary must list values, got the text"),
        (lambda: sparsity(0), "penalty must be a positive finite number, got 0"),
        (lambda: sparsity(1, 0), "sparsity: min_count must be at least 1, got 0; 1 takes every word"),
        (lambda: part("tag").allowed_by("word", {}), "allowed_by takes a column and a dictionary"),
        (lambda: E.count(..., each=1), 'each must be the name of a column, got 1; write each="occurrence"'),
    ],
)
def test_input_that_cannot_be_meant(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    "constraint",
    [
        at_least(1, "VRB"),
        [at_most(1, "V"), (at_most(2, ["V", "VRB"]),)],
        tag_proportions({"VRB": 0.1}),
        dictionary_in_expectation({"b": ["N", "VRB"]}, 1),
        (E[~((part("word") == "a") & (part("tag") != "VRB"))] <= 1).per("sentence"),
    ],
)
def test_unknown_tags_are_refused(constraint):
    with pytest.raises(InvalidInputError, match="there is no tag 'VRB'; the tags are 'N', 'V'"):
        check_values(constraint, "tag", ["V", "N"])
    check_values(constraint, "tag", ["V", "N", "VRB"])
    check_values(constraint, "sentence", [])


def test_states_may_be_numbers():
    named = at_least(1.1, "V")
    numbered = compile_constraints(at_least(1.1, 1), CHAIN)
    assert (numbered.matrix != compile_constraints(named, CHAIN, COLUMNS).matrix).nnz == 0
    with pytest.raises(InvalidInputError, match="there is no tag 2; the tags are 0, 1"):
        check_values(at_least(1, 2), "tag", range(2))
