import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Links
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import alignment_scores, expected_f1_threshold

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


def expected_f1(probabilities, weights, chosen):
    right = sum(w * p for p, w, c in zip(probabilities, weights, chosen, strict=True) if c)
    taken = sum(w for w, c in zip(weights, chosen, strict=True) if c)
    return 2 * right / (taken + sum(w * p for p, w in zip(probabilities, weights, strict=True)))


LINKS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0]), st.integers(0, 3)), max_size=8)


@given(LINKS)
def test_the_expected_f1_threshold_is_best_of_all_choices_of_links(links):
    """Brute force: no set of links, whether cut off by a threshold or not, has a greater expected F1."""
    probabilities, weights = [p for p, _ in links], [w for _, w in links]
    threshold = expected_f1_threshold(probabilities, weights)
    if sum(w * p for p, w in links) == 0:
        assert threshold == 0.5
        return
    best = max(
        expected_f1(probabilities, weights, chosen) for chosen in itertools.product([False, True], repeat=len(links))
    )
    assert expected_f1(probabilities, weights, [p > threshold for p in probabilities]) == pytest.approx(best)
    assert threshold == pytest.approx(best / 2)
    repeated = np.repeat(probabilities, weights)
    assert expected_f1_threshold(repeated) == pytest.approx(threshold)


PROBABILITIES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.0])


@given(st.lists(st.tuples(PROBABILITIES, PROBABILITIES, st.integers(0, 3)), max_size=8))
def test_the_threshold_of_two_directions_is_best_of_all_thresholds(links):
    """Brute force over thresholds; a link counts as right as far as both directions grant it."""
    mean, both, weights = [(f + b) / 2 for f, b, _ in links], [min(f, b) for f, b, _ in links], [w for *_, w in links]

    def f1_above(threshold):
        taken = [(q, w) for p, q, w in zip(mean, both, weights, strict=True) if p > threshold]
        total = sum(w * p for p, w in zip(mean, weights, strict=True))
        return 2 * sum(w * q for q, w in taken) / (sum(w for _, w in taken) + total)

    threshold = expected_f1_threshold(mean, weights, right=both)
    if sum(w * q for q, w in zip(both, weights, strict=True)) == 0:
        assert threshold == 0.5
        return
    best = max(f1_above(other) for other in [0.0, *mean])
    assert f1_above(threshold) == pytest.approx(best)
    assert threshold >= best / 2 - 1e-12
    lower = [f1_above(other) for other in np.linspace(best / 2, threshold, 50) if other < threshold - 1e-9]
    assert all(value < best for value in lower)  # the lowest one
    assert expected_f1_threshold(np.repeat(mean, weights), right=np.repeat(both, weights)) == pytest.approx(threshold)
    order = np.arange(len(links))[::-1]
    turned = [np.array(values)[order] for values in (mean, weights, both)]
    assert expected_f1_threshold(*turned[:2], right=turned[2]) == pytest.approx(threshold)


def test_directions_that_disagree_raise_the_threshold():
    mean = [0.9, 0.7, 0.6, 0.5, 0.4, 0.3]
    agreed = expected_f1_threshold(mean)
    assert expected_f1_threshold(mean, right=mean) == agreed
    assert expected_f1_threshold(mean, right=[0.9, 0.5, 0.4, 0.2, 0.1, 0.0]) > agreed + 0.05


def test_the_expected_f1_threshold_of_a_matrix():
    assert expected_f1_threshold(np.array([[0.9, 0.3], [0.8, 0.0]])) == pytest.approx(0.425)
    assert expected_f1_threshold([]) == expected_f1_threshold([0.0, 0.0]) == 0.5
    assert expected_f1_threshold([1.0, 1.0, 0.0]) == 0.5


@pytest.mark.parametrize(
    ("posteriors", "weights", "right", "message"),
    [
        ([0.5, 1.5], None, None, "posteriors must be probabilities in [0, 1], got values from 0.5 to 1.5"),
        ([-0.7, -0.1], None, None, "got values from -0.7 to -0.1; give probabilities, not their logarithms"),
        ([0.5, np.nan], None, None, "posteriors must be probabilities in [0, 1], got values from nan to nan"),
        ([0.5, 0.5], [1.0], None, "weights must be 2 finite numbers of at least 0, one per posterior, got 1"),
        ([0.5, 0.5], [1.0, -1.0], None, "got 2 with minimum -1"),
        ([0.5, 0.5], [1.0, np.inf], None, "weights must be 2 finite numbers"),
        ([0.5, 0.5], None, [0.5], "right must be 2 probabilities, one per posterior, got 1; give those of the same"),
        ([0.5, 0.5], None, [0.5, 0.6], "between 0 and the posteriors, got 0.6 for the posterior 0.5; give the smaller"),
        ([0.5, 0.5], None, [-0.1, 0.5], "between 0 and the posteriors, got -0.1 for the posterior 0.5"),
        ([0.5, 0.5], None, [0.5, np.nan], "between 0 and the posteriors, got nan for the posterior 0.5"),
    ],
)
def test_posteriors_that_are_none(posteriors, weights, right, message):
    with pytest.raises(InvalidInputError) as error:
        expected_f1_threshold(posteriors, weights, right=right)
    assert message in str(error.value)
