"""scikit-learn's own tests of its GaussianMixture, run on ours.

They are loaded a second time, from the installed package, with our class in place of theirs. Messages are our own:
patterns of `pytest.raises` and `pytest.warns` are not compared, everything else in these tests is.
"""

import importlib.util
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import sklearn.mixture

from spectrem import GaussianMixture

PRIVATE = "tests private functions of scikit-learn, not the class"
LEFT_OUT = {
    "test_suffstat_sk_full": PRIVATE,
    "test_suffstat_sk_tied": PRIVATE,
    "test_suffstat_sk_diag": PRIVATE,
    "test_gaussian_suffstat_sk_spherical": PRIVATE,
    "test_compute_log_det_cholesky": PRIVATE,
    "test_gaussian_mixture_log_probabilities": PRIVATE,
    "test_gaussian_mixture_precisions_init": "calls _set_parameters, _get_parameters and _initialize",
    "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": "counts the calls of a private function",
    "test_gaussian_mixture_array_api_compliance": "arrays of other libraries are not taken",
    "test_gaussian_mixture_raises_where_array_api_not_implemented": "arrays of other libraries are not taken",
}
# Some fits end early on purpose, and one class is scikit-learn's own; what warns is tested where it should.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
EXPECTED = {"test_warm_start", "test_convergence_detected_with_warm_start", "test_gaussian_mixture_fit", "test_score"}


def loaded(name):
    """A module of scikit-learn's tests that believes our class to be scikit-learn's; None where it is not installed."""
    try:
        spec = importlib.util.find_spec(f"sklearn.mixture.tests.{name}")
    except ModuleNotFoundError:
        return None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    with patch.object(sklearn.mixture, "GaussianMixture", GaussianMixture):
        spec.loader.exec_module(module)
    module.pytest = SimpleNamespace(
        raises=lambda kind, match=None: pytest.raises(kind),
        warns=lambda kind, match=None: pytest.warns(kind),
        approx=pytest.approx,
        mark=pytest.mark,
    )
    return module


FOUND = {}
for _name in ("test_gaussian_mixture", "test_mixture"):
    if (_module := loaded(_name)) is not None:
        FOUND |= {key: value for key, value in vars(_module).items() if key.startswith("test_")}
globals().update({key: value for key, value in FOUND.items() if key not in LEFT_OUT})


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def global_dtype(request):
    """What scikit-learn's own suite runs these tests with."""
    return request.param


@pytest.fixture(params=[0, 42])
def global_random_seed(request):
    """What scikit-learn's own suite runs these tests with."""
    return request.param


def test_the_suite_was_found():
    if not FOUND:
        pytest.skip("the installed scikit-learn comes without its tests of mixtures")
    assert set(LEFT_OUT) | EXPECTED <= set(FOUND)
