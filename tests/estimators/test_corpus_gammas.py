"""Constraints over the corpus mean the same at every gamma: the optimum by enumeration, or an error or a warning."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from tagger_helpers import DICTIONARY, SENTENCES, WORDS, make, sequences, tables_of

from spectrem import E, GaussianMixture, SelfTrainer, part
from spectrem.constraints import at_least, label_proportions
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError
from spectrem.models import tagging as shards

GAMMAS = [2.0, 1.0, 0.5, 0.0, -math.inf]


def verbs_are(n):
    return E[part("tag") == "VB"] == n


@pytest.fixture(params=[1, 6], ids=["one shard", "a shard per sentence"], autouse=True)
def cut(request, monkeypatch):
    if request.param > 1:
        for name in ("_LEAST_PARTS", "_MOST_PARTS"):
            monkeypatch.setattr(shards, name, 5)


@pytest.fixture(scope="module")
def start():
    """A tagger whose tables tell all tag sequences apart."""
    return make(dictionary=DICTIONARY, smoothing=0.3, init="random", random_state=4, max_iter=2).fit(SENTENCES)


@pytest.fixture(scope="module")
def listed(start):
    """Log-probability and number of verbs of all tag sequences of every sentence."""
    tables = tables_of(start)
    every = [sequences(tables, words, [DICTIONARY[word] for word in words]) for words in WORDS]
    return [(np.log(list(own.values())), np.array([tags.count("VB") for tags in own])) for own in every]


def fit(start, constraints, gamma, **settings):
    settings = {"max_iter": 1, "init": start, "dual_steps": 200} | settings
    return make(dictionary=DICTIONARY, constraints=constraints, gamma=gamma, **settings).fit(SENTENCES)


def relaxed(listed, n):
    """The linear program: the best distributions over sequences with n verbs expected."""
    scores, verbs = (np.concatenate([own[k] for own in listed]) for k in (0, 1))
    sentence = np.repeat(np.arange(len(listed)), [len(own[0]) for own in listed])
    simplex = (sentence == np.arange(len(listed))[:, None]).astype(float)
    found = linprog(-scores, A_eq=np.vstack([simplex, verbs]), b_eq=[1.0] * len(listed) + [n], method="highs")
    return -found.fun if found.success else None


def integer(listed, n):
    """The best choice of a sequence per sentence with n verbs; None if there is none."""
    choices = itertools.product(*(zip(*own, strict=True) for own in listed))
    return max((sum(s for s, _ in choice) for choice in choices if sum(v for _, v in choice) == n), default=None)


def dual(listed, n, gamma):
    def value(price):
        return sum(gamma * logsumexp((s - price * v) / gamma) for s, v in listed) + price * n

    return minimize_scalar(value, bracket=(-1, 1), tol=1e-12).fun


@pytest.mark.parametrize("n", [3, 4.5, 5, 6])
def test_gamma_0_ends_on_the_bound(start, listed, n):
    record = fit(start, [verbs_are(n)], 0.0).history_[0]
    assert record.objective == pytest.approx(relaxed(listed, n), rel=1e-9)
    assert record.violation <= 1e-9


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
def test_gamma_minus_infinity_finds_the_best_whole_sequences(start, listed, n):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = fit(start, [verbs_are(n)], -math.inf).history_[0]
    best = integer(listed, n)
    assert record.violation == 0.0
    if caught:
        assert issubclass(caught[0].category, ConvergenceWarning)
        assert "not proven to be the best" in str(caught[0].message)
        assert record.objective <= best + 1e-9
    else:
        assert record.objective == pytest.approx(best, rel=1e-6)


def test_gamma_minus_infinity_says_where_whole_sequences_cannot_meet_a_bound(start, listed):
    assert integer(listed, 4.5) is None
    with pytest.raises(InfeasibleConstraintError, match=r"no choice of whole structures .* or use gamma = 0"):
        fit(start, [verbs_are(4.5)], -math.inf)


@pytest.mark.parametrize("gamma", GAMMAS[:3])
@pytest.mark.parametrize("n", [3, 4.5, 6])
def test_positive_gammas_reach_the_optimum(start, listed, gamma, n):
    for steps in (200, 0):
        record = fit(start, [verbs_are(n)], gamma, dual_steps=steps).history_[0]
        assert record.objective == pytest.approx(dual(listed, n, gamma), rel=1e-7)
        assert record.violation < 1e-3


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("steps", [8, 1, 0])
@pytest.mark.parametrize("inside", [[], [at_least(1, "NN")]], ids=["alone", "beside others"])
@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")  # of solves at prices without end
def test_what_cannot_hold_is_an_error_at_every_gamma(start, gamma, steps, inside):
    impossible = (E[part("tag") == "VB"] >= 9).named("many verbs")
    with pytest.raises(InfeasibleConstraintError, match="many verbs"):
        fit(start, [impossible, *inside], gamma, dual_steps=steps, max_iter=12)


def test_what_few_steps_leave_violated_is_said(start):
    with pytest.warns(ConvergenceWarning, match="constraints over the corpus are still missed by"):
        tagger = fit(start, [verbs_are(7.5)], 1.0, dual_steps=1)
    assert tagger.history_[-1].violation > 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(start, [verbs_are(7.5)], 1.0, dual_steps=50, max_iter=20)


X = np.random.default_rng(1).normal(size=(40, 2))


@pytest.mark.parametrize("gamma", GAMMAS)
def test_shares_that_cannot_hold_are_an_error_of_mixtures(gamma):
    y = np.array([0] * 20 + [-1] * 20)
    shares = label_proportions({0: 0.25, 1: 0.75})
    with pytest.raises(InfeasibleConstraintError):
        GaussianMixture(2, constraints=[shares], partial_labels=True, gamma=gamma, random_state=0).fit(X, y)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_shares_that_cannot_hold_are_an_error_of_self_training(gamma):
    y = np.array([0] * 20 + [1] + [-1] * 19)
    shares = (E[part("label") == 1] >= 30).named("many ones")
    with pytest.raises(InfeasibleConstraintError, match="many ones"):
        SelfTrainer(LogisticRegression(), [shares], gamma=gamma).fit(X, y)
