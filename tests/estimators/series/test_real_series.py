"""Public data: earthquakes a year, whose likelihoods a textbook and another implementation have."""

import numpy as np
import pytest

from spectrem import PoissonHMM


@pytest.mark.parametrize(("n_states", "expected"), [(1, -391.9189), (2, -341.8787), (3, -328.5275), (4, -326.4106)])
def test_no_other_maximum_of_earthquakes_is_higher(n_states, expected, shared):
    counts = np.loadtxt(shared / "data" / "series" / "earthquakes.txt")
    model = PoissonHMM(n_states, lambdas_weight=0.0, random_state=0, n_threads=1).fit(counts)
    assert model.score_samples(counts)[0] > expected - 1e-4
