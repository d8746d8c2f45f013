import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical, Parts


def test_columns():
    labels = Categorical([2, 0, 3])
    assert labels.n_instances == 3
    assert labels.n_unary == 5
    assert labels.factor_shapes == ()
    assert labels.columns["instance"].tolist() == labels.instance.tolist() == [0, 0, 2, 2, 2]
    assert labels.columns["label"].tolist() == [0, 1, 0, 1, 2]


def test_decode_takes_the_lowest_of_equals_and_minus_one_where_nothing_is_possible():
    labels = Categorical([3, 0, 2, 2])
    scores = Parts(np.array([1.0, 2.0, 2.0, -np.inf, -np.inf, -np.inf, 0.0]))
    assert labels.decode(scores).tolist() == [1, -1, -1, 1]
    values, best = labels.smoothed_max(scores, 0.0)
    assert values.tolist() == [2.0, -np.inf, -np.inf, 0.0]
    assert best.unary.tolist() == [0, 1, 0, 0, 0, 0, 1]


def test_tiny_gamma_does_not_overflow():
    labels = Categorical([2])
    values, marginals = labels.smoothed_max(Parts(np.array([1e3, 999.0])), 1e-300)
    assert values.tolist() == [1e3]
    assert marginals.unary.tolist() == [1.0, 0.0]


def test_negative_sizes_are_refused():
    with pytest.raises(
        InvalidInputError, match=r"sizes must not be negative; got -1 at index 1; give an empty instance length 0"
    ):
        Categorical([2, -1])


def test_polytope_of_an_unknown_instance_is_refused():
    with pytest.raises(InvalidInputError, match=r"instance must be in 0\.\.0; got 1; count instances from 0"):
        Categorical([2]).polytope(Parts(np.zeros(2)), 1)
