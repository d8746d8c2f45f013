"""The threshold that WordAligner chooses without gold links, and how reliable its probabilities are."""

import numpy as np
import pytest
from aligner_helpers import make, shares_of_rare_words

from spectrem.data import Links
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError

BITEXT = make_bitext(60, seed=4)
WEIGHTS = np.arange(60) % 3


def best_thresholds(aligner, weights):
    """Of all that separate links of the training text, those with the greatest expected F1, and this F1."""
    found = aligner.predict_proba(BITEXT.source, BITEXT.target)
    shares = shares_of_rare_words(aligner, BITEXT.source, BITEXT.target)
    forward, backward = (
        np.concatenate([(m * share).ravel() for m, share in zip(side, shares, strict=True)])
        for side in (found.forward, found.backward)
    )
    counts = np.repeat(weights, [m.size for m in found.forward])
    mean, both = (forward + backward) / 2, np.minimum(forward, backward)
    tried = np.unique(mean)
    f1 = np.array([
        2 * (counts * both)[mean > t].sum() / (counts[mean > t].sum() + (counts * mean).sum()) for t in tried
    ])  # fmt: skip
    return tried[f1 >= f1.max() - 1e-9], f1.max(), tried


@pytest.mark.parametrize(
    "options", [{}, {"constraints": ()}, {"gamma": 0.5}, {"project_at_predict": False}, {"rare_discount": 0}]
)
@pytest.mark.parametrize("weights", [np.ones(60), WEIGHTS])
def test_it_has_the_greatest_expected_f1_when_links_are_right_as_far_as_both_directions_say(options, weights):
    aligner = make(**options).fit(BITEXT.source, BITEXT.target, sample_weight=weights)
    best, f1, tried = best_thresholds(aligner, weights)
    after = tried[tried > best[-1]].min(initial=1.0)
    assert best[0] - 5e-5 <= aligner.threshold_ <= after + 5e-5
    assert aligner.threshold_ >= f1 / 2 - 5e-5
    assert aligner.threshold_ == round(aligner.threshold_, 4)


def test_directions_that_were_not_made_to_agree_have_a_higher_one():
    agreed, free = (
        make(constraints=rules).fit(BITEXT.source, BITEXT.target).threshold_ for rules in (("agreement",), ())
    )
    assert free > agreed + 0.02


def test_threads_do_not_change_it():
    one, two = (make(n_threads=n).fit(BITEXT.source, BITEXT.target).threshold_ for n in (1, 2))
    assert one == two


@pytest.mark.parametrize("possible", [True, False])
def test_reliability_equals_counting_link_by_link(possible):
    found = make(max_iter=1).fit(BITEXT.source, BITEXT.target).predict_proba(BITEXT.source[:7], BITEXT.target[:7])
    sure = [set(BITEXT.links.pairs(n)) for n in range(7)]
    only = [{(0, j) for j in range(found.target_lengths[n])} - sure[n] for n in range(7)]
    edges = [0, 0.1, 0.3, 0.6, 1]
    told = found.reliability(Links.from_pairs(sure, only), edges, possible=possible)
    bins = [[] for _ in edges[1:]]
    for n, matrix in enumerate(found.average):
        for cell in np.ndindex(matrix.shape):
            if possible or cell not in only[n]:
                right = cell in sure[n] or cell in only[n]
                bins[sum(edge <= matrix[cell] for edge in edges[1:-1])].append((matrix[cell], right))
    assert told.counts.tolist() == [len(inside) for inside in bins]
    assert told.counts.min() > 0
    np.testing.assert_allclose(told.expected, [np.mean([p for p, _ in inside]) for inside in bins])
    np.testing.assert_allclose(told.observed, [np.mean([right for _, right in inside]) for inside in bins])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (
            [[(0, 0)]],
            "gold must be of as many sentence pairs as there are source and target sentences, 2 and 2, got 1;",
        ),
        ([[], [(99, 0)]], "gold: link 99-0 of sentence pair 2 (counted from 1) lies outside its "),
        ([[(0, 99)], []], "gold: link 0-99 of sentence pair 1 (counted from 1) lies outside its "),
    ],
)
def test_gold_links_of_another_text(links, message):
    aligner = make(max_iter=1, model1_iterations=1).fit(BITEXT.source, BITEXT.target)
    pairs = BITEXT.source[:2], BITEXT.target[:2]
    found = aligner.predict_proba(*pairs)
    gold = Links.from_pairs(links)
    for judge in (found.reliability, lambda gold: aligner.tune(*pairs, gold), lambda gold: aligner.score(*pairs, gold)):
        with pytest.raises(InvalidInputError) as error:
            judge(gold)
        assert message in str(error.value)
