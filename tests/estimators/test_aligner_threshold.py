"""The threshold that WordAligner chooses without gold links."""

import numpy as np
import pytest
from aligner_helpers import make

from spectrem.datasets import make_bitext

BITEXT = make_bitext(60, seed=4)
WEIGHTS = np.arange(60) % 3


def best_thresholds(aligner, weights):
    """Of all that separate links of the training text, those with the greatest expected F1, and this F1."""
    found = aligner.predict_proba(BITEXT.source, BITEXT.target)
    forward, backward = (np.concatenate([m.ravel() for m in side]) for side in (found.forward, found.backward))
    counts = np.repeat(weights, [m.size for m in found.forward])
    mean, both = (forward + backward) / 2, np.minimum(forward, backward)
    tried = np.unique(mean)
    f1 = np.array([
        2 * (counts * both)[mean > t].sum() / (counts[mean > t].sum() + (counts * mean).sum()) for t in tried
    ])  # fmt: skip
    return tried[f1 >= f1.max() - 1e-9], f1.max(), tried


@pytest.mark.parametrize("options", [{}, {"constraints": ()}, {"gamma": 0.5}, {"project_at_predict": False}])
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
