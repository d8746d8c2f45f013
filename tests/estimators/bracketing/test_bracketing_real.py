"""BracketingModel on sentences of the Wall Street Journal."""

import pytest

from reproductions.bracketing.training import proportional, read_sample, score, train
from spectrem.metrics import binary_ceiling, branching


@pytest.fixture(scope="module")
def sample(shared):
    return read_sample(shared / "data")


def test_settings_fixed_beforehand_reach_far_beyond_branching_trees(sample):
    """Pseudo-counts in proportion to the corpus, 40 iterations; F with whole sentences, as it was first published."""
    settings = {"smoothing": proportional(len(sample.tags)), "max_iter": 40, "tol": 0.0, "n_threads": 1}
    first, second = (train(number, sample, **settings).scores.f_whole for number in (1, 2))
    assert second >= first >= 69.0
    assert score(branching(sample.lengths), sample).f_whole < 63.3
    assert score(binary_ceiling(sample.gold, sample.lengths), sample).f_whole == pytest.approx(88.22)


def test_annealing_from_a_uniform_start_sees_no_start(sample):
    """What annealing finds first hardly depends on where it starts, unless it is skewed ([SmithEisner2004] §5)."""
    from spectrem.learning import Anneal

    hot = {"schedule": Anneal(0.001, 0.0015, 1.5), "max_iter": 2, "tol": 0.0, "smoothing": 0.5, "n_threads": 1}
    plain = [train(1, sample, init=init, **hot).model.params_.contexts for init in ("split", "uniform")]
    skewed = train(1, sample, init="uniform", reference="split", **hot).model.params_.contexts
    apart = abs(plain[0] - plain[1]).max()
    assert apart < 0.01 * abs(skewed - plain[0]).max()
