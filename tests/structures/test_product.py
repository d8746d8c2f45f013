import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Alignment, Categorical, Chain, Parts, Product


def test_columns_are_the_common_ones_and_the_direction():
    both = Product(Alignment([1], [2]), Alignment([2], [1], reverse=True))
    columns = both.columns
    assert set(columns) == {"sentence", "source", "target", "state", "direction"}
    assert columns["direction"].tolist() == ["forward"] * 4 + ["backward"] * 3
    assert columns["source"].tolist() == [0, -1, 0, -1, 0, 0, 0]
    assert columns["target"].tolist() == [0, 0, 1, 1, 0, 1, -1]
    mixed = Product(Categorical([2]), Chain([1], 2), names=("class", "tags"), name="side")
    assert mixed.columns["side"].tolist() == ["class"] * 2 + ["tags"] * 2
    assert set(mixed.columns) == {"side"}


def test_split_and_join_are_inverse():
    both = Product(Chain([1], 2), Alignment([1], [2], max_jump=1))
    rng = np.random.default_rng(0)
    parts = Parts(rng.normal(size=both.n_unary), tuple(rng.normal(size=s) for s in both.factor_shapes))
    left, right = both.split(parts)
    assert left.unary.shape == (2,)
    assert [f.shape for f in right.factors] == [(3,), (2, 2), (2,)]
    again = both.join(left, right)
    np.testing.assert_array_equal(again.unary, parts.unary)
    assert [f.shape for f in again.factors] == list(both.factor_shapes)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_an_impossible_side_makes_the_instance_impossible(gamma):
    both = Product(Chain([2, 2], 2), Categorical([0, 1]))
    values, marginals = both.smoothed_max(Parts(np.zeros(9), (np.zeros((2, 2)),)), gamma)
    assert values[0] == -np.inf
    assert np.isfinite(values[1])
    assert not marginals.unary[:4].any()
    assert marginals.factors[0].sum() == 1.0


def test_decode_is_both_in_turn():
    both = Product(Alignment([1], [2]), Categorical([3]))
    scores = Parts(np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
    assert both.decode(scores).tolist() == [0, -1, 2]


def test_different_batches_are_refused():
    with pytest.raises(InvalidInputError, match=r"left and right must have the same instances; got 1 and 2"):
        Product(Categorical([1]), Categorical([1, 1]))


@pytest.mark.parametrize("names", [("a", "a"), ("a", ""), ("a",), "ab"])
def test_bad_names_are_refused(names):
    with pytest.raises(InvalidInputError, match=r"names must be two different non-empty strings"):
        Product(Categorical([1]), Categorical([1]), names=names)
