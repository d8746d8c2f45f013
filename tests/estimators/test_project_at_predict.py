"""Constraints over new instances hold, or an error or a warning says that they do not: every estimator, every gamma."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
from tagger_helpers import DICTIONARY, SENTENCES, make

from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    MaxEntClassifier,
    RelationExtractor,
    Views,
    WordAligner,
    part,
)
from spectrem.corpus import Local, OnDask, Spilled
from spectrem.data import RelationSentence
from spectrem.datasets import make_bracketed_corpus, make_treebank
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError
from spectrem.inference import QuasiNewton
from spectrem.inference.corpus import dual
from spectrem.learning import posed_corpus
from spectrem.models import bracketing as bracket_shards
from spectrem.models import grammar as grammar_shards
from spectrem.models import tagging as tag_shards
from spectrem.models.loglinear import features as loglinear_shards
from spectrem.models.parsing import ParsingText
from spectrem.structures import NULL

GAMMAS = [2.0, 1.0, 0.5, 0.0, -math.inf]
TREES = make_treebank(20)
BRACKETS = make_bracketed_corpus(20, seed=4).sentences
ROWS = np.random.default_rng(0).normal(size=(40, 2))
LABELS = np.where(np.arange(40) < 30, (ROWS[:, 0] > 0).astype(int), -1)
TAGS = [["DT", "NN", "VB"], ["DT", "NN", "VB", "DT", "NN"], ["DT", "NN", "VB", "DT", "NN"]]


def fit_views():
    views = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
    return Views(views, max_iter=2, tol=0, n_threads=1).fit({"left": ROWS[:, :1], "right": ROWS[:, 1:]}, LABELS)


def own_rows(n):
    return {"left": ROWS[:n, :1], "right": ROWS[:n, 1:]}


def diagonal_of(tag, new):
    """The probabilities that words with a tag are roots, added up."""
    return lambda found: sum(
        block[k, k] for block, own in zip(found, new, strict=True) for k, other in enumerate(own) if other == tag
    )


def column(k):
    return lambda found: sum(np.asarray(table)[..., k].sum() for table in found)


def pairs(found):
    """The probabilities of brackets of two words, added up."""
    return sum(np.diagonal(table, 2).sum() for table in found)


SMALL = {"n_threads": 1, "max_iter": 1, "tol": 0.0}
TAGGED = {"dictionary": DICTIONARY, "smoothing": 0.1, "init": "random", "max_iter": 2}
TEXT = [tree.upos for tree in TREES]
VERBS, NOUNS, ONES = part("tag") == "VB", part("tag") == "NN", part("label") == 1
ROOTS = part("root") & (part("dependent_tag") == "NOUN")
PAIRS = part("constituent") & (part("span_length") == 2)
# A fitted estimator, new instances, what a constraint counts, how to count it, and the largest and another count.
CASES = {
    "HMMTagger": (lambda: make(**TAGGED).fit(SENTENCES), SENTENCES[:4], VERBS, column(2), 5, 4),
    "DependencyModel": (
        lambda: DependencyModel(**SMALL, smoothing=0.1).fit(TEXT), TEXT[:4], ROOTS, diagonal_of("NOUN", TEXT[:4]), 2, 1,
    ),
    "BracketingModel": (lambda: BracketingModel(**SMALL).fit(BRACKETS), BRACKETS[:4], PAIRS, pairs, 10, 6),
    "CRFTagger": (
        lambda: CRFTagger("words", n_threads=1).fit(SENTENCES[:3], TAGS), SENTENCES[:4], NOUNS, column(1), 16, 9,
    ),
    "EdgeFactoredParser": (
        lambda: EdgeFactoredParser(n_threads=1, max_iter=2, random_state=0).fit(TREES), TREES[:4], ROOTS,
        diagonal_of("NOUN", TEXT[:4]), 2, 1,
    ),
    "MaxEntClassifier": (
        lambda: MaxEntClassifier(n_threads=1).fit(ROWS[:30], LABELS[:30]), ROWS[:8], ONES, column(1), 8, 5,
    ),
    "Views": (fit_views, own_rows(8), ONES, column(1), 8, 5),
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    """Every estimator as it was fitted, by name; fitted once."""
    kept = {}

    def get(name):
        if name not in kept:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                kept[name] = CASES[name][0]()
        return kept[name]

    return get


@pytest.fixture(params=[False, True], ids=["one shard", "several"])
def cut(request, monkeypatch):
    """Shards of about an instance each, or one."""
    if request.param:
        for module, least, most in (
            (tag_shards, "_LEAST_PARTS", "_MOST_PARTS"),
            (grammar_shards, "_LEAST_PARTS", "_MOST_PARTS"),
            (bracket_shards, "_LEAST_SPANS", "_MOST_SPANS"),
        ):
            monkeypatch.setattr(module, least, 5)
            monkeypatch.setattr(module, most, 5)
        monkeypatch.setattr(ParsingText.shards, "__defaults__", (5,))
        monkeypatch.setattr(loglinear_shards, "_LEAST_WORK", 1)
        monkeypatch.setattr(loglinear_shards, "_PER_WEIGHT", 0)
    return request.param


def predict(fitted, name, gamma, constraint, **settings):
    estimator, sizes = fitted(name), []

    def count(shards):
        corpus = settings.get("corpus", lambda own: Local(list(own)))(shards)
        sizes.append(len(corpus))
        return corpus

    given = {"constraints": [constraint.named("many")], "project_at_predict": True, "corpus": count}
    if hasattr(estimator, "decode"):
        given["decode"] = "posterior"
    estimator.set_params(**given)
    estimator.gamma_ = gamma
    return estimator.predict_proba(CASES[name][1]), max(sizes)


def flat(found):
    return np.concatenate([np.ravel(table) for table in found])


every_gamma = pytest.mark.parametrize("gamma", GAMMAS)
every_estimator = pytest.mark.parametrize("name", CASES)


@every_estimator
@every_gamma
@pytest.mark.parametrize("excess", [0.02, 50.0])
def test_what_new_instances_cannot_meet_is_an_error(fitted, cut, name, gamma, excess):
    _, _, what, _, most, _ = CASES[name]
    with pytest.raises(InfeasibleConstraintError, match="'many': no feasible q over the corpus"):
        predict(fitted, name, gamma, E[what] >= most + excess)


@every_estimator
@every_gamma
def test_what_they_can_meet_holds(fitted, cut, name, gamma):
    _, _, what, count, _, number = CASES[name]
    found, n_shards = predict(fitted, name, gamma, E[what] == number)
    assert (n_shards > 1) == cut
    assert count(found) == pytest.approx(number, abs=1e-4)
    assert ((flat(found) >= -1e-12) & (flat(found) <= 1 + 1e-9)).all()


@every_estimator
@pytest.mark.parametrize("gamma", GAMMAS[:-1])
def test_what_is_not_solved_is_warned_of(fitted, monkeypatch, name, gamma):
    monkeypatch.setattr(posed_corpus, "_EVALUATIONS", 1)
    monkeypatch.setattr(dual, "smooth_solver", lambda own, tol, max_iter=0: QuasiNewton(tol, 1))
    _, _, what, _, most, _ = CASES[name]
    about = "not solved" if gamma > 0 else "linear program over the corpus"
    with pytest.warns(ConvergenceWarning, match=about) as caught:
        predict(fitted, name, gamma, E[what] == 0.9 * most)
    assert len(caught) == 1


@pytest.mark.parametrize("gamma", [1.0, 0.0, -math.inf])
@pytest.mark.parametrize("name", ["HMMTagger", "DependencyModel", "MaxEntClassifier"])
def test_every_home_gives_the_same_bits(fitted, cut, tmp_path, client, name, gamma):
    _, _, what, _, most, number = CASES[name]
    expected = flat(predict(fitted, name, gamma, E[what] == number)[0])
    homes = [lambda own: Local(list(own), 2), partial(Spilled, folder=tmp_path), partial(OnDask, client=client)]
    for home in homes:
        np.testing.assert_array_equal(flat(predict(fitted, name, gamma, E[what] == number, corpus=home)[0]), expected)
        with pytest.raises(InfeasibleConstraintError, match="'many': no feasible q over the corpus"):
            predict(fitted, name, gamma, E[what] >= most + 0.5, corpus=home)


TEMPLATES = [RelationSentence(["Ann", "met", "Bob"], [(0, 1), (2, 3)], ["Peop", "Peop"], {(0, 1): "Met"})] * 3
# Estimators that project instance by instance: how they are fitted, new instances, and what a constraint counts.
ALONE = {
    "RelationExtractor": (
        lambda: RelationExtractor(n_threads=1).fit(TEMPLATES), (TEMPLATES[:1],), part("relation") == "Met",
    ),
    "WordAligner": (
        lambda: WordAligner(n_threads=1, max_iter=1, model1_iterations=1).fit(["a b", "b"], ["x y", "y"]),
        (["a b"], ["x y"]), part("source") != NULL,
    ),
}  # fmt: skip


@every_gamma
@pytest.mark.parametrize("name", ALONE)
def test_what_one_new_instance_cannot_meet_is_an_error(name, gamma):
    fit, new, what = ALONE[name]
    estimator = fit().set_params(constraints=[(E[what] >= 50).per("sentence").named("many")], project_at_predict=True)
    estimator.gamma_ = gamma
    with pytest.raises(InfeasibleConstraintError, match="'many': no feasible q in sentence 0"):
        estimator.predict_proba(*new)
