"""How often probabilities are right."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import reliability

SAID = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.99, 1.0]), st.booleans()), max_size=12)


@given(SAID, st.sampled_from([1, 4, [0, 0.25, 1], [0.0, 0.1, 0.3, 0.5, 1.0]]))
def test_equals_counting_bin_by_bin(said, bins):
    found = reliability([p for p, _ in said], [right for _, right in said], bins)
    edges = np.linspace(0, 1, bins + 1) if isinstance(bins, int) else np.array(bins)
    np.testing.assert_array_equal(found.edges, edges)
    for k, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = [(p, right) for p, right in said if low <= p < high or p == high == 1]
        assert found.counts[k] == len(inside)
        if inside:
            assert found.expected[k] == pytest.approx(np.mean([p for p, _ in inside]))
            assert found.observed[k] == pytest.approx(np.mean([right for _, right in inside]))
        else:
            assert np.isnan(found.expected[k])
            assert np.isnan(found.observed[k])


def test_probabilities_that_are_right_are_reliable():
    rng = np.random.default_rng(0)
    said = rng.random((200, 100))
    found = reliability(said, rng.random(said.shape) < said)
    assert found.counts.sum() == said.size
    np.testing.assert_allclose(found.observed, found.expected, atol=0.05)


def test_an_empty_bin_is_shown_as_such():
    assert str(reliability([0.9], [1], bins=2)).splitlines() == [
        "  from     to     count  expected  observed",
        " 0.000  0.500         0         -         -",
        " 0.500  1.000         1     0.900     1.000",
    ]


@pytest.mark.parametrize(
    ("posteriors", "right", "bins", "message"),
    [
        ([0.5, 0.5], [True], 10, "right must have the shape of posteriors, (2,), got (1,); say of each one"),
        (
            [0.5, -1.0],
            [True, True],
            10,
            "posteriors must be probabilities in [0, 1], got values from -1.0 to 0.5; give",
        ),
        ([np.nan], [True], 10, "got values from nan to nan"),
        ([0.5], [0.5], 10, "right must be true or false, got 0.5; compare with"),
        ([0.5], [True], 0, "bins must be a whole number of at least 1 or the limits of bins, got 0; try 10"),
        ([0.5], [True], 2.5, "bins must be a whole number of at least 1 or the limits of bins, got 2.5; try 10"),
        ([0.5], [True], [0, 0.5], "bins must be limits that increase from 0 to 1, got [0.0, 0.5]; try a number"),
        ([0.5], [True], [0, 0.5, 0.5, 1], "bins must be limits that increase from 0 to 1, got [0.0, 0.5, 0.5, 1.0]"),
    ],
)
def test_what_breaks_a_rule_is_named(posteriors, right, bins, message):
    with pytest.raises(InvalidInputError) as error:
        reliability(posteriors, right, bins)
    assert message in str(error.value)
