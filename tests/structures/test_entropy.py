import numpy as np

from spectrem.structures import Categorical, Chain, Parts, entropy


def test_uniform_chain():
    chain, scores = Chain([3, 0, 1], 4), Parts(np.full(16, 7.0), (np.zeros((4, 4)),))
    for gamma in (0.3, 1.0, 2.5):
        np.testing.assert_allclose(
            entropy(chain, scores, gamma, *chain.smoothed_max(scores, gamma)), 4 * np.log(4.0), rtol=1e-12
        )
    assert entropy(chain, scores, 0.0, *chain.smoothed_max(scores, 0.0)) == 0.0


def test_impossible_instances_and_parts_count_as_zero():
    labels = Categorical([2, 2, 0])
    scores = Parts(np.array([0.0, -np.inf, -np.inf, -np.inf]))
    assert entropy(labels, scores, 1.0, *labels.smoothed_max(scores, 1.0)) == 0.0
