"""check_structure must notice every broken promise."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Chain, Parts
from spectrem.testing import brute_force_smoothed_max, check_structure, enumerate_structures


@dataclass(frozen=True)
class Broken:
    """A chain with one promise broken by ``how(values, marginals, call)``."""

    chain: Chain
    how: Any

    def __getattr__(self, name):
        if name == "enumerate":
            raise AttributeError(name)
        return getattr(self.chain, name)

    def smoothed_max(self, scores, gamma, *, active=None, weights=None):
        values, marginals = self.chain.smoothed_max(scores, gamma, active=active, weights=weights)
        return self.how(self, values, marginals, scores, gamma, active, weights)


def scaled_marginals(self, values, marginals, scores, gamma, active, weights):
    return values, Parts(marginals.unary, tuple(1.001 * f for f in marginals.factors))


def wrong_gradient(self, values, marginals, scores, gamma, active, weights):
    return values, Parts(marginals.unary**1.01, marginals.factors)


def wrong_limit(self, values, marginals, scores, gamma, active, weights):
    return values + (0.1 if gamma < 1e-3 else 0.0) * (values != 0), marginals


def ignores_gamma(self, values, marginals, scores, gamma, active, weights):
    return self.chain.smoothed_max(scores, min(gamma, 1.0), active=active, weights=weights)


def ignores_active(self, values, marginals, scores, gamma, active, weights):
    return self.chain.smoothed_max(scores, gamma, weights=weights)


def ignores_weights(self, values, marginals, scores, gamma, active, weights):
    return self.chain.smoothed_max(scores, gamma, active=active)


def weights_everything(self, values, marginals, scores, gamma, active, weights):
    if weights is None:
        return values, marginals
    return values, replace(marginals, unary=marginals.unary * weights[self.chain.instance])


def finite_stand_in(self, values, marginals, scores, gamma, active, weights):
    finite = Parts(np.maximum(scores.unary, -30.0), tuple(np.maximum(f, -30.0) for f in scores.factors))
    return self.chain.smoothed_max(finite, gamma, active=active, weights=weights)


def overflows(self, values, marginals, scores, gamma, active, weights):
    if np.abs(scores.unary).max() > 600:
        return values * np.nan, marginals
    return values, marginals


def wrong_shape(self, values, marginals, scores, gamma, active, weights):
    return values[:-1], marginals


@pytest.mark.parametrize(
    "how",
    [
        scaled_marginals, wrong_gradient, wrong_limit, ignores_gamma, ignores_active, ignores_weights,
        weights_everything, finite_stand_in, overflows, wrong_shape,
    ],
)  # fmt: skip
@pytest.mark.parametrize("enumerator", [None, lambda s, n: enumerate_structures(s.chain, n)])
def test_broken_promises_are_noticed(how, enumerator):
    with pytest.raises(AssertionError, match=r"^Broken: "):
        check_structure(Broken(Chain([2, 3], 2), how), np.random.default_rng(0), enumerator=enumerator)


def test_a_wrong_polytope_is_noticed():
    chain = Chain([2, 3], 2)

    @dataclass(frozen=True)
    class Doubled:
        def __getattr__(self, name):
            return getattr(chain, name)

        def polytope(self, scores, instance):
            polytope = chain.polytope(scores, instance)
            return replace(polytope, objective=polytope.objective * 2)

    with pytest.raises(AssertionError, match=r"Doubled: polytope: the integer program of instance 0 does not reach"):
        check_structure(Doubled(), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("sign", "size", "message"),
    [
        (np.abs, 1.0, "covariances are not the derivatives of marginals"),  # weights may be negative
        (np.positive, 0.5, "means beside covariances are not those of marginals"),
    ],
)
def test_wrong_covariances_are_noticed(sign, size, message):
    chain = Chain([2, 3], 2)

    @dataclass(frozen=True)
    class Wrong:
        def __getattr__(self, name):
            return getattr(chain, name)

        def covariances(self, scores, along, weights=None):
            means, products = chain.covariances(scores, along, sign(weights))
            return size * means, products

    with pytest.raises(AssertionError, match=f"Wrong: {message}"):
        check_structure(Wrong(), np.random.default_rng(0))


def test_a_structure_without_polytope_passes():
    chain = Chain([2], 2)

    class Without:
        def __getattr__(self, name):
            return getattr(chain, name)

        def polytope(self, scores, instance):
            raise NotImplementedError

    check_structure(Without(), np.random.default_rng(0))


def test_brute_force_by_hand():
    chain = Chain([2], 2)
    scores = Parts(np.log([1.0, 2.0, 3.0, 4.0]), (np.log([[1.0, 2.0], [3.0, 4.0]]),))
    # Products of potentials: 00: 1*1*3, 01: 1*2*4, 10: 2*3*3, 11: 2*4*4; they add up to 61.
    result = brute_force_smoothed_max(chain, scores, 1.0, weights=np.array([61.0]))
    np.testing.assert_allclose(np.exp(result.values), [61.0])
    np.testing.assert_allclose(61 * result.marginals.unary, [11.0, 50.0, 21.0, 40.0])
    np.testing.assert_allclose(result.marginals.factors[0], [[3.0, 8.0], [18.0, 32.0]])
    p = np.array([3.0, 8.0, 18.0, 32.0]) / 61
    np.testing.assert_allclose(result.entropy, [-(p * np.log(p)).sum()])
    assert result.argmax[0].unary.tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(brute_force_smoothed_max(chain, scores, 0.0).values, np.log([32.0]))


def test_unknown_families_are_refused():
    with pytest.raises(InvalidInputError, match=r"must have a method enumerate\(instance\); got object; write one, or"):
        list(enumerate_structures(object(), 0))
