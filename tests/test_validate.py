"""Every refusal names the argument, the rule, the value and the next thing to try."""

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical, Chain, Parts

LABELS = Categorical([2, 1])
SCORES = Parts(np.zeros(3))


def refused(message, structure=LABELS, scores=SCORES, gamma=1.0, **options):
    with pytest.raises(InvalidInputError, match=message):
        structure.smoothed_max(scores, gamma, **options)


def test_negative_gamma_explains_itself():
    refused(
        r"gamma must be >= 0; got -0\.5: between 0 and minus infinity the E-step is not convex; without constraints "
        r"every gamma <= 0 equals hard EM, so pass gamma=0; with constraints .* project_batch\(\.\.\., gamma=-inf\)",
        gamma=-0.5,
    )


def test_minus_infinity_points_to_the_integer_program():
    refused(r"got -inf, which is an integer program; solve it by project_batch\(\.\.\., gamma=-inf\)", gamma=-np.inf)


@pytest.mark.parametrize("gamma", [np.nan, np.inf])
def test_gamma_must_be_finite(gamma):
    refused(r"gamma must be finite and >= 0; got (nan|inf); pass 1 for the exact posterior", gamma=gamma)


def test_scores_of_the_wrong_shape():
    refused(
        r"scores\.unary must have shape \(3,\), one score per part of the structure; got \(2,\); build scores and "
        r"structure from the same lengths",
        scores=Parts(np.zeros(2)),
    )
    refused(
        r"scores\.factors\[0\] must have shape \(2, 2\)",
        structure=Chain([1], 2),
        scores=Parts(np.zeros(2), (np.zeros((2, 3)),)),
    )
    refused(
        r"scores\.factors must have 1 arrays of shapes \[\(2, 2\)\]; got 0",
        structure=Chain([1], 2),
        scores=Parts(np.zeros(2)),
    )


def test_scores_that_are_not_numbers():
    refused(
        r"scores\.unary must hold finite scores in nats, or -inf for impossible parts; got NaN at index \(1,\); look "
        r"for 0/0 or log of a negative number",
        scores=Parts(np.array([0.0, np.nan, -np.inf])),
    )
    refused(r"scores\.unary .* got \+inf at index \(2,\)", scores=Parts(np.array([0.0, -np.inf, np.inf])))
    transition = np.zeros((2, 2))
    transition[1, 0] = np.nan
    refused(
        r"scores\.factors\[0\] .* got NaN at index \(1, 0\)",
        structure=Chain([1], 2),
        scores=Parts(np.zeros(2), (transition,)),
    )


def test_active_must_be_a_mask():
    refused(r"active must be a boolean mask of shape \(2,\); got dtype int64, shape \(1,\)", active=np.array([0]))
    refused(r"active must be a boolean mask", active=np.ones(3, bool))


def test_weights():
    refused(r"weights must have shape \(2,\), one per instance; got \(3,\)", weights=np.ones(3))
    refused(r"weights must be finite and >= 0; got -1\.0 at index 1; use 0 to leave", weights=np.array([1.0, -1.0]))
    refused(r"weights must be finite and >= 0; got nan at index 0", weights=np.array([np.nan, 1.0]))


def test_other_dtypes_and_orders_are_coerced():
    chain, rng = Chain([3], 2), np.random.default_rng(0)
    unary, transition = rng.integers(0, 5, 6), rng.normal(size=(2, 2)).astype(np.float32)
    a, _ = chain.smoothed_max(Parts(unary, (np.asfortranarray(transition),)), 1.0)
    b, _ = chain.smoothed_max(Parts(unary.astype(float), (transition.astype(float),)), 1.0)
    assert a.tolist() == b.tolist()
