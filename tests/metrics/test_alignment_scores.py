import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Links
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import alignment_scores

PAIRS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)


@given(st.lists(st.tuples(PAIRS, PAIRS, PAIRS), max_size=4), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_equals_counting_over_sets(sentences, alpha):
    predicted, sure, extra = ([row[k] for row in sentences] for k in range(3))
    scores = alignment_scores(Links.from_pairs(predicted), Links.from_pairs(sure, extra), alpha=alpha)

    said = {(n, *link) for n, links in enumerate(predicted) for link in links}
    sure_set = {(n, *link) for n, links in enumerate(sure) for link in links}
    possible = sure_set | {(n, *link) for n, links in enumerate(extra) for link in links}
    assert (scores.n_predicted, scores.n_sure, scores.n_possible) == (len(said), len(sure_set), len(possible))
    precision = len(said & possible) / len(said) if said else 1.0
    recall = len(said & sure_set) / len(sure_set) if sure_set else 1.0
    assert (scores.precision, scores.recall) == (precision, recall)
    if said or sure_set:
        aer = 1 - (len(said & sure_set) + len(said & possible)) / (len(said) + len(sure_set))
        assert scores.aer == pytest.approx(aer, abs=1e-12)
    if precision and recall:
        assert scores.f_measure == pytest.approx(1 / (alpha / precision + (1 - alpha) / recall))


GOLD = Links.from_pairs([[(0, 0), (1, 1)]], possible=[[(1, 2)]])
NONE = Links.from_pairs([[]])


@pytest.mark.parametrize(
    ("predicted", "gold", "aer", "precision", "recall", "f_measure"),
    [
        (GOLD, GOLD, 0.0, 1.0, 1.0, 1.0),  # all possible links predicted are right
        (NONE, GOLD, 1.0, 1.0, 0.0, 0.0),
        (Links.from_pairs([[(0, 0)]]), NONE, 1.0, 0.0, 1.0, 0.0),
        (NONE, NONE, 0.0, 1.0, 1.0, 1.0),
        (Links.from_pairs([[(1, 2)]]), Links.from_pairs([[]], possible=[[(1, 2)]]), 0.0, 1.0, 1.0, 1.0),
        (Links.from_pairs([]), Links.from_pairs([]), 0.0, 1.0, 1.0, 1.0),
    ],
)
def test_limits(predicted, gold, aer, precision, recall, f_measure):
    scores = alignment_scores(predicted, gold)
    assert (scores.aer, scores.precision, scores.recall, scores.f_measure) == (aer, precision, recall, f_measure)


def test_alpha_one_is_precision_and_zero_recall_even_when_the_other_is_zero():
    predicted = Links.from_pairs([[(1, 2)]])  # possible but not sure
    assert alignment_scores(predicted, GOLD, alpha=1.0).f_measure == 1.0
    assert alignment_scores(predicted, GOLD, alpha=0.0).f_measure == 0.0
    assert alignment_scores(predicted, GOLD).f_measure == 0.0


def test_sentences_are_not_mixed_up():
    assert alignment_scores(Links.from_pairs([[(0, 1)], []]), Links.from_pairs([[], [(0, 1)]])).aer == 1.0


def test_repeated_links_count_once():
    twice = SimpleNamespace(
        offsets=np.array([0, 2]), source=np.array([0, 0]), target=np.array([0, 0]), sure=np.array([True, True])
    )
    assert alignment_scores(twice, GOLD).n_predicted == 1


def test_errors():
    message = (
        "predicted and gold must align the same sentences, but have 2 and 1; "
        "give one line of links per sentence pair in both"
    )
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        alignment_scores(Links.from_pairs([[], []]), GOLD)
    message = "alpha must lie between 0 (recall alone) and 1 (precision alone), but is 1.5; 0.5 is balanced"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        alignment_scores(NONE, GOLD, alpha=1.5)
    null = SimpleNamespace(offsets=np.array([0, 1]), source=np.array([-1]), target=np.array([0]), sure=np.array([True]))
    message = "source positions of predicted must be at least 0, but -1 was given; leave out links to NULL"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        alignment_scores(null, GOLD)
