"""What estimators over sentences share: short sentences under constraints, weights of 0, inputs of wrong lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    HMMTagger,
    RelationExtractor,
    WordAligner,
    part,
)
from spectrem.data import ParsedSentence, RelationSentence
from spectrem.exceptions import InvalidInputError
from spectrem.structures import NULL

TRAIN = ["a b", "b a b", "a", "b b a", "a a"]
SHORT = [["a"], ["b", "a", "b"], ["", "a b a"], ["a b", ""], ["", ""], []]
"""Texts of one-word sentences, of as many words as sentences, and of nothing."""
QUICK = {"max_iter": 2, "tol": 1e6, "n_threads": 1}


def parsed(text, known):
    words = tuple(text.split())
    return ParsedSentence(words, words, words, np.arange(len(words)) - 1 if known else None)


def related(text, known):
    words = text.split()
    spans = [(n, n + 1) for n in range(len(words))]
    types = [word.upper() for word in words]
    relations = {(n, n + 1): "next" for n in range(len(words) - 1)}
    return RelationSentence(words, spans, types if known else None, relations if known else None)


@dataclass(frozen=True)
class Kind:
    """An estimator over sentences, given as text.

    ``rule`` is a constraint on every sentence, that ``measure`` finds in the posteriors of one; ``hopeless`` is met by
    sentences of three words and no longer ones.
    """

    make: Callable[..., Any]
    read: Callable[[list[str], bool], tuple[Any, ...]]
    rule: Any
    measure: Callable[[Any, list[str]], float]
    most: float
    hopeless: Any
    posteriors: Callable[..., Any] = lambda model, *text: model.predict_proba(*text)

    def fit(self, text, known=(), weights=None, constraints=None):
        """Train on sentences, of which some have labels, where there are any to be had."""
        rules = [self.rule] if constraints is None else constraints
        inputs = self.read([*known, *text], True)
        inputs = [
            None if own is None else [*own[: len(known)], *hidden[len(known) :]]
            for own, hidden in zip(inputs, self.read([*known, *text], False), strict=True)
        ]
        weights = {} if weights is None else {"sample_weight": weights}
        return self.make(rules).fit(*inputs, **weights)

    def found(self, model, text):
        """The posteriors of every sentence."""
        return list(self.posteriors(model, *self.read(text, False)[:1]))


def zip_pairs(posteriors):
    return zip(posteriors.forward, posteriors.backward, strict=True)


def flat(table):
    """The posteriors of a sentence as numbers."""
    return np.concatenate([np.ravel(own) for own in (table if isinstance(table, tuple) else (table,))])


def labelled(text, known):
    return text, [[word.upper() for word in own.split()] if known else None for own in text]


KINDS = {
    "HMMTagger": Kind(
        lambda rules: HMMTagger(
            tags=["A", "B"],
            init="random",
            random_state=0,
            smoothing=0.1,
            constraints=rules,
            project_at_predict=True,
            dual_steps=0,
            **QUICK,
        ),
        lambda text, known: (text,),
        (E[part("tag") == "A"] <= 0.4).per("sentence"),
        lambda table, words: table[:, 0].sum(),
        0.4,
        (E[...] <= 3).per("sentence"),
    ),
    "CRFTagger": Kind(
        lambda rules: CRFTagger(
            features="words", tags=["A", "B"], constraints=rules, project_at_predict=True, dual_steps=0, **QUICK
        ),
        labelled,
        (E[part("tag") == "A"] <= 0.4).per("sentence"),
        lambda table, words: table[:, 0].sum(),
        0.4,
        (E[...] <= 3).per("sentence"),
    ),
    "DependencyModel": Kind(
        lambda rules: DependencyModel(constraints=rules, project_at_predict=True, dual_steps=0, **QUICK),
        lambda text, known: (text,),
        (E[(part("head_tag") == "b") & (part("direction") == "left")] <= 0.3).per("sentence").allow_empty(),
        lambda table, words: np.triu(table, 1)[:, [word == "b" for word in words]].sum(),
        0.3,
        (E[~part("stop")] <= 3).per("sentence"),
    ),
    "EdgeFactoredParser": Kind(
        lambda rules: EdgeFactoredParser(
            bits=8, learner="batch", constraints=rules, project_at_predict=True, dual_steps=0, **QUICK
        ),
        lambda text, known: ([parsed(own, known) for own in text],),
        (E[part("direction") == "left"] <= 0.3).per("sentence"),
        lambda table, words: np.triu(table, 1).sum(),
        0.3,
        (E[...] <= 3).per("sentence"),
    ),
    "BracketingModel": Kind(
        lambda rules: BracketingModel(constraints=rules, project_at_predict=True, dual_steps=0, **QUICK),
        lambda text, known: (text,),
        (E[part("constituent") & (part("start") > 0) & (part("span_length") > 1)] <= 0.3).per("sentence"),
        lambda table, words: sum(table[start, start + 2 :].sum() for start in range(1, len(table))),
        0.3,
        (E[part("constituent")] <= 5).per("sentence"),
    ),
    "RelationExtractor": Kind(
        lambda rules: RelationExtractor(constraints=rules, dual_steps=0, **QUICK),
        lambda text, known: ([related(own, known) for own in text],),
        (E[part("type") == "A"] <= 0.4).per("sentence"),
        lambda table, words: table.types[:, 0].sum(),
        0.4,
        (E[part("kind") == "mention"] <= 3).per("sentence"),
    ),
    "WordAligner": Kind(
        lambda rules: WordAligner(constraints=rules, dual_steps=0, model1_iterations=1, discount=0, **QUICK),
        lambda text, known: (text, text),
        (E[part("state") != NULL] <= 0.4).per("sentence", "direction"),
        lambda table, words: max(own.sum() for own in table),
        0.4,
        (E[...] <= 3).per("sentence", "direction"),
        lambda model, text: zip_pairs(model.predict_proba(text, text)),
    ),
}
LABELLED = ("CRFTagger", "EdgeFactoredParser", "RelationExtractor")
pytestmark = pytest.mark.parametrize("name", KINDS)


def known_text(name):
    """Sentences with labels, for estimators that learn from some."""
    return TRAIN if name in LABELLED else []


@pytest.mark.parametrize("text", SHORT, ids=str)
def test_short_sentences_are_decided_under_constraints_as_each_alone(name, text):
    kind = KINDS[name]
    model = kind.fit([] if name in LABELLED else TRAIN, known_text(name))
    found = kind.found(model, text)
    assert len(found) == len(text)
    for own, table in zip(text, found, strict=True):
        np.testing.assert_allclose(flat(table), flat(kind.found(model, [own])[0]), atol=1e-6)
        assert kind.measure(table, own.split()) <= kind.most + 1e-5


@pytest.mark.parametrize("text", SHORT[:4], ids=str)
def test_short_sentences_are_learned_from_under_constraints(name, text):
    kind = KINDS[name]
    found = kind.found(kind.fit(text, known_text(name)), TRAIN)
    without = kind.fit([own for own in text if own], known_text(name))  # those of no words
    for one, other in zip(found, kind.found(without, TRAIN), strict=True):
        np.testing.assert_allclose(flat(one), flat(other), atol=1e-6)


@pytest.mark.parametrize("rules", ["hopeless", "both", "none"])
@pytest.mark.parametrize("left_out", ["a b b a", "c d c e"])
def test_a_sentence_of_weight_0_is_left_out(name, left_out, rules):
    """It may have words that nothing else has, and break any constraint."""
    kind, known = KINDS[name], known_text(name)
    demanded = {"hopeless": [kind.hopeless], "both": [kind.rule, kind.hopeless], "none": []}[rules]
    weights = [1.0] * (len(known) + len(TRAIN))
    model = kind.fit([*TRAIN, left_out], known, [*weights, 0.0], demanded)
    if left_out == "a b b a":  # words of its own would change what is smoothed, and what is unknown
        without = kind.fit(TRAIN, known, weights, demanded)
        assert model.objective_ == pytest.approx(without.objective_, rel=1e-6)
        for one, other in zip(kind.found(model, TRAIN), kind.found(without, TRAIN), strict=True):
            np.testing.assert_allclose(flat(one), flat(other), atol=1e-6)


def test_a_constraint_stands_alone_or_in_a_list(name, tmp_path):
    """As what was made or as its text, in training, prediction and a saved model."""
    kind, known = KINDS[name], known_text(name)
    training = [] if known else TRAIN
    expected = kind.found(kind.fit(training, known, constraints=[kind.rule]), TRAIN)
    for alone in (kind.rule, repr(kind.rule), {"few": kind.rule}, {"few": repr(kind.rule)}, (kind.rule,)):
        model = kind.fit(training, known, constraints=alone)
        model.save(tmp_path / "model.npz")
        for one in (model, type(model).load(tmp_path / "model.npz")):
            for table, other in zip(kind.found(one, TRAIN), expected, strict=True):
                np.testing.assert_allclose(flat(table), flat(other), atol=1e-5)


def test_whether_constraints_hold_for_new_text_is_true_or_false(name):
    model = KINDS[name].fit([] if name in LABELLED else TRAIN, known_text(name))
    model.set_params(project_at_predict="no")
    with pytest.raises(InvalidInputError, match="project_at_predict must be True or False; got 'no'"):
        KINDS[name].found(model, TRAIN)
