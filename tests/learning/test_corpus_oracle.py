"""E-steps at gamma = 0 and minus infinity against linear and integer programs over all structures of a corpus."""

import itertools
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from estep_helpers import of_corpus
from scipy.optimize import linprog
from toy_models import Tagger, TaggerParams, random_params

from spectrem.constraints import E, part
from spectrem.exceptions import ConvergenceWarning
from spectrem.learning import Constant, EStep, Stopping, run_em

N_STATES, N_DOCUMENTS, PENALTY = 2, 3, 0.7


class Sentences(NamedTuple):
    tokens: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray
    document: np.ndarray
    known: None = None


class WithDocuments(Tagger):
    def columns(self, shard):
        return {"document": shard.document}


class Counting(WithDocuments):
    """Statistics are the expected tokens of tag 1 in every document, by weight, and the score, nats."""

    def gather(self, params, shard, marginals):
        scores, weight = self.scores(params, shard), np.repeat(shard.weights, N_STATES * shard.lengths)
        score = (weight * marginals.unary) @ scores.unary + (marginals.factors[0] * scores.factors[0]).sum()
        ones = (weight * marginals.unary)[1::N_STATES]
        return np.append(np.bincount(np.repeat(shard.document, shard.lengths), ones, N_DOCUMENTS), score)


class Listed(NamedTuple):
    """All structures of all sentences: the number of the sentence, the score and the tokens of tag 1, by weight."""

    sentence: np.ndarray
    score: np.ndarray
    ones: np.ndarray


class Rows(NamedTuple):
    """``matrix @ q <= bounds`` over shares q of all structures; ``penalty`` of each, nats, or inf."""

    matrix: np.ndarray
    bounds: np.ndarray
    penalty: np.ndarray


class Problem(NamedTuple):
    """A corpus of a shard per sentence, constraints that it can meet, and the same as rows over all structures."""

    params: TaggerParams
    sentences: list[Sentences]
    rules: list
    listed: Listed
    rows: Rows

    def measure(self, ones):
        """From the counts of documents to the penalty, nats, and to the largest violation of rows without one."""
        used = np.unique([own.document[0] for own in self.sentences])
        over = np.maximum(ones[used] - self.rows.bounds[0], 0.0)
        missed = abs(ones.sum() - self.rows.bounds[len(used)])
        soft = np.isfinite(self.rows.penalty[0])
        return (PENALTY * over.sum(), missed) if soft else (0.0, max(missed, over.max()))


DOCUMENTS = {"inside": [0, 0, 1, 1, 2, 2], "straddling": [0, 1, 0, 1, 0, 1], "both": [0, 0, 1, 1, 1, 1]}


def listed_of(params, sentences):
    rows = []
    for k, own in enumerate(sentences):
        for states in itertools.product(range(N_STATES), repeat=len(own.tokens)):
            score = np.log(params.start[states[0]])
            score += sum(np.log(params.transition[a, b]) for a, b in itertools.pairwise(states))
            score += sum(np.log(params.emission[s, w]) for s, w in zip(states, own.tokens, strict=True))
            rows.append((k, own.weights[0] * score, own.weights[0] * sum(states)))
    return Listed(*map(np.array, zip(*rows, strict=True)))


def make(seed, documents, soft, *, n=6, whole=False):
    """A problem whose bounds are those that a random distribution, or choice, of structures reaches."""
    rng = np.random.default_rng(seed)
    params, document = random_params(rng, N_STATES), np.array(DOCUMENTS[documents][:n])
    weights = rng.choice([1.0, 2.0] if whole else [0.5, 1.0, 2.0], n)
    sentences = [
        Sentences(rng.integers(0, 3, length), np.array([length]), weights[[k]], document[[k]])
        for k, length in enumerate(rng.integers(1, 4, n))
    ]
    listed = listed_of(params, sentences)
    shares = rng.exponential(size=len(listed.score)) ** 3
    if whole:
        shares[:] = 0.0
        shares[[rng.choice(np.flatnonzero(listed.sentence == k)) for k in range(n)]] = 1.0
    shares /= np.bincount(listed.sentence, shares)[listed.sentence]
    inside = listed.ones * (document[listed.sentence] == np.unique(document)[:, None])
    most, in_all = float((inside @ shares).max()), float(listed.ones @ shares)
    expected, penalty = E[part("tag") == 1], np.inf
    in_document = (expected <= most).per("document")
    if soft:
        most, penalty = most / 2, PENALTY
        in_document = (expected <= most).per("document").slack(penalty=PENALTY, norm="l1")
    rules = [in_document, expected == in_all]
    rows = [*((own, most, penalty) for own in inside), (listed.ones, in_all, np.inf), (-listed.ones, -in_all, np.inf)]
    if seed % 2:
        least = float((np.bincount(listed.sentence, listed.ones * shares) / weights).min())
        rules.append((expected >= least).per("sentence"))
        rows += [(-listed.ones * (listed.sentence == k) / weights[k], -least, np.inf) for k in range(n)]
    return Problem(params, sentences, rules, listed, Rows(*map(np.array, zip(*rows, strict=True))))


def best_mixture(problem):
    """The largest value of a distribution over structures, nats, by a linear program."""
    listed, rows = problem.listed, problem.rows
    soft = np.flatnonzero(np.isfinite(rows.penalty))
    slack, n = np.zeros((len(rows.bounds), len(soft))), len(problem.sentences)
    slack[soft, np.arange(len(soft))] = -1.0
    simplex = (listed.sentence == np.arange(n)[:, None]).astype(float)
    found = linprog(
        np.append(-listed.score, rows.penalty[soft]), A_ub=np.hstack([rows.matrix, slack]), b_ub=rows.bounds,
        A_eq=np.hstack([simplex, np.zeros((n, len(soft)))]), b_eq=np.ones(n), method="highs",
    )  # fmt: skip
    return -found.fun


def best_choice(problem):
    """The largest value of a choice of one structure per sentence, nats, one by one."""
    listed, rows = problem.listed, problem.rows
    hard, best = np.isinf(rows.penalty), -np.inf
    for choice in itertools.product(*(np.flatnonzero(listed.sentence == k) for k in range(len(problem.sentences)))):
        excess = np.maximum(rows.matrix[:, list(choice)].sum(axis=1) - rows.bounds, 0.0)
        if (excess[hard] < 1e-9).all():
            best = max(best, listed.score[list(choice)].sum() - excess[~hard] @ rows.penalty[~hard])
    return best


def cut(problem, starts):
    stops = [*starts[1:], len(problem.sentences)]
    return [
        Sentences(*(np.concatenate([getattr(own, name) for own in problem.sentences[a:b]]) for name in FIELDS))
        for a, b in zip(starts, stops, strict=True)
    ]


FIELDS = Sentences._fields[:4]


def check(problem, shards, gamma, best):
    """The posteriors have the value that the E-step says, which is the best one, and meet the rows."""
    found = of_corpus(Counting(N_STATES), EStep(problem.rules), shards, problem.params, gamma)
    cost, missed = problem.measure(found.stats[:-1])
    assert found.objective == pytest.approx(best, rel=1e-7)
    assert found.stats[-1] - cost == pytest.approx(best, rel=1e-6)
    assert missed < 1e-6
    assert found.violation < 1e-6


@pytest.mark.parametrize("documents", DOCUMENTS)
@pytest.mark.parametrize("starts", [[0], [0, 2], [0, 1, 2, 3, 4, 5]], ids=["one shard", "two", "six"])
@pytest.mark.parametrize(("seed", "soft"), [(0, False), (1, True), (3, False)])
def test_at_gamma_zero_it_is_the_linear_program(seed, soft, starts, documents):
    problem = make(seed, documents, soft)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(problem, cut(problem, starts), 0.0, best_mixture(problem))


@pytest.mark.parametrize("documents", DOCUMENTS)
@pytest.mark.parametrize(("seed", "soft"), [(1, False), (2, True), (3, False), (9, True)])
def test_at_minus_infinity_it_is_the_best_choice_or_a_warning(seed, soft, documents):
    problem = make(seed, documents, soft, n=4, whole=True)
    shards, best = cut(problem, range(4)), best_choice(problem)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = of_corpus(WithDocuments(N_STATES), EStep(problem.rules), shards, problem.params, -np.inf)
        if caught:
            assert [w.category for w in caught] == [ConvergenceWarning]
            assert "were found, but not proven to be the best" in str(caught[0].message)
            assert found.objective <= best + 1e-9
            best = found.objective
        check(problem, shards, -np.inf, best)


@pytest.mark.parametrize("seed", range(4))
def test_hard_em_climbs_under_rows_of_groups_and_of_the_corpus(seed):
    problem = make(seed, "inside", soft=False)
    result = run_em(
        WithDocuments(N_STATES), cut(problem, [0, 2]), problem.params, EStep(problem.rules), schedule=Constant(0.0),
        stopping=Stopping(5),
    )  # fmt: skip
    values = np.array([record.objective for record in result.history])
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    assert max(record.violation for record in result.history) < 1e-6
