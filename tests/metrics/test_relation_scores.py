"""Scores of types and relations."""

import math

import pytest

from spectrem.data import RelationSentence
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import relation_scores

WORDS, MENTIONS = list("abc"), [(0, 1), (1, 2), (2, 3)]


def test_counts():
    gold = RelationSentence(WORDS, MENTIONS, ["P", "L", None], {(0, 1): "in", (2, 1): "in", (1, 2): None})
    guess = RelationSentence(WORDS, MENTIONS, ["P", "P", "L"], {(0, 1): "in", (1, 2): "at", (2, 0): "at"})
    types, relations = relation_scores([guess, guess], [gold, gold.unlabelled()])
    assert (types.total.n_correct, types.total.n_predicted, types.total.n_gold) == (1, 2, 2)
    assert types.by_label["P"].precision == 0.5
    assert (relations.total.n_correct, relations.total.n_predicted, relations.total.n_gold) == (1, 2, 2)
    assert relations.by_label["in"].recall == 0.5
    assert relations.macro_f1 == relations.by_label["in"].f1  # "at" is in no gold label
    assert math.isnan(relation_scores([], []).types.macro_f1)


def test_other_sentences_are_refused():
    one, other = RelationSentence(WORDS, MENTIONS), RelationSentence(WORDS, MENTIONS[:2])
    with pytest.raises(InvalidInputError, match="must have the same mentions, got"):
        relation_scores([one], [other])
    renamed = RelationSentence([*WORDS[:-1], "other"], MENTIONS)
    with pytest.raises(InvalidInputError, match="must have the same words, got"):
        relation_scores([one], [renamed])
    with pytest.raises(InvalidInputError, match="predicted and gold must be of the same tokens; got 1 and 0"):
        relation_scores([one], [])
