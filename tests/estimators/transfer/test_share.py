"""Choosing how many arcs should be conserved."""

import numpy as np
import pytest

from spectrem.estimators.transfer import Trial, choose_share, conserved_share
from spectrem.exceptions import InvalidInputError

ARCS = [np.array([[False, True], [False, True]]), np.array([[False, True], [True, False]])]


class Constant:
    def __init__(self, heads):
        self.heads = heads

    def predict(self, sentences):
        return [self.heads for _ in sentences]


def test_conserved_share_counts_words_with_conserved_arcs():
    assert conserved_share([[1, -1], [1, -1]], ARCS) == 0.75
    assert conserved_share([[-2, -2], [-1, 0]], ARCS) == 0.25
    assert np.isnan(conserved_share([[-1]], [np.zeros((1, 1), bool)]))


def test_the_share_that_conserves_most_of_the_other_half_is_chosen():
    seen = []

    def fit(share, numbers):
        seen.append((share, tuple(numbers)))
        return Constant([1, -1] if share == 0.7 else [-1, 0])

    share, trials = choose_share(fit, range(6), [ARCS[0]] * 6, [0.5, 0.7, 0.9], random_state=0)
    assert share == 0.7
    assert trials == [Trial(0.5, 0.0), Trial(0.7, 1.0), Trial(0.9, 0.0)]
    assert len({numbers for _, numbers in seen}) == 1
    assert len(seen[0][1]) == 3


def test_too_little_to_choose_on_is_refused():
    with pytest.raises(InvalidInputError, match="but it has 1 sentences; give the share"):
        choose_share(lambda *_: None, [0], [ARCS[0]], [0.5])
    with pytest.raises(InvalidInputError, match="at least one share to try, got none"):
        choose_share(lambda *_: None, [0, 1], ARCS, [])
    with pytest.raises(InvalidInputError, match="no arc of the half"):
        choose_share(lambda *_: None, [0, 1], [np.zeros((1, 1), bool)] * 2, [0.5])
