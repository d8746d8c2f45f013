"""States against tags: all mappings enumerated, entropies summed by definition, V-measure as scikit-learn has it."""

import math
import re
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score, v_measure_score

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import many_to_one, mutual_information, one_to_one, tag_entropy, v_measure

TOKENS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ABCD")), min_size=1, max_size=25)


def split(tokens):
    return [state for state, _ in tokens], [tag for _, tag in tokens]


def accuracy(mapping, tokens):
    return sum(mapping.get(state) == tag for state, tag in tokens) / len(tokens)


@given(TOKENS)
def test_many_to_one_is_the_best_of_all_mappings(tokens):
    states, gold = split(tokens)
    names = sorted(set(states))
    best = max(
        accuracy(dict(zip(names, tags, strict=True)), tokens) for tags in product(sorted(set(gold)), repeat=len(names))
    )
    found = many_to_one(states, gold)
    assert found.accuracy == pytest.approx(best) == accuracy(found.tags, tokens)


@given(TOKENS)
def test_optimal_one_to_one_is_the_best_of_all_permutations(tokens):
    states, gold = split(tokens)
    names = sorted(set(states))
    tags = [*sorted(set(gold)), *[None] * len(names)]  # None: the state goes without a tag
    best = max(accuracy(dict(zip(names, chosen, strict=True)), tokens) for chosen in permutations(tags, len(names)))
    found = one_to_one(states, gold, method="optimal")
    assert found.accuracy == pytest.approx(best) == accuracy(found.tags, tokens)
    check_one_to_one(found.tags, states, gold)


@given(TOKENS)
def test_greedy_one_to_one_takes_the_most_frequent_pair_left(tokens):
    states, gold = split(tokens)
    row, column = {s: states.index(s) for s in states}, {t: gold.index(t) for t in gold}
    left = {(s, t): 0 for s in row for t in column} | Counter(tokens)
    expected = {}
    while left:
        state, tag = min(left, key=lambda pair: (-left[pair], row[pair[0]], column[pair[1]]))
        expected[state] = tag
        left = {pair: n for pair, n in left.items() if pair[0] != state and pair[1] != tag}
    found = one_to_one(states, gold)
    assert {state: tag for state, tag in found.tags.items() if tag is not None} == expected
    assert found.accuracy == pytest.approx(accuracy(expected, tokens))
    assert found.accuracy <= one_to_one(states, gold, method="optimal").accuracy + 1e-12
    check_one_to_one(found.tags, states, gold)


def check_one_to_one(tags, states, gold):
    """No tag twice, every state listed, and none idle while a tag is free."""
    used = [tag for tag in tags.values() if tag is not None]
    assert len(used) == len(set(used)) == min(len(set(states)), len(set(gold)))
    assert set(tags) == set(states)


def test_more_states_than_tags():
    found = one_to_one([0, 0, 1, 2], ["A", "A", "A", "B"])
    assert found.tags == {0: "A", 1: None, 2: "B"}
    assert found.accuracy == 0.75


def test_ties_go_to_what_the_text_shows_first():
    assert many_to_one([7, 7], ["B", "A"]).tags == {7: "B"}
    assert one_to_one([7, 3], ["B", "B"]).tags == {7: "B", 3: None}
    assert one_to_one([5, 5], ["B", "A"]).tags == {5: "B"}


def test_a_single_state_or_tag():
    assert many_to_one(["s"] * 3, ["A", "B", "B"]).accuracy == pytest.approx(2 / 3)
    assert one_to_one(["s"] * 3, ["A", "B", "B"], method="optimal").tags == {"s": "B"}
    assert v_measure(["s"], ["A"]) == 1.0
    assert mutual_information([0, 1, 2], ["A", "A", "A"]) == 0.0


def test_arrays_are_labels():
    assert many_to_one(np.array([0, 1]), np.array(["A", "B"])).tags == {0: "A", 1: "B"}


@given(TOKENS)
def test_mutual_information_sums_its_definition(tokens):
    states, gold = split(tokens)
    n, joint, row, column = len(tokens), Counter(tokens), Counter(states), Counter(gold)
    bits = sum(c / n * math.log2(c * n / (row[s] * column[t])) for (s, t), c in joint.items())
    found = mutual_information(states, gold)
    assert found == pytest.approx(bits, abs=1e-12)
    assert found == pytest.approx(mutual_info_score(gold, states) / math.log(2), abs=1e-12)
    assert 0.0 <= found <= min(tag_entropy(states), tag_entropy(gold)) + 1e-12


def test_independence_is_no_information_despite_rounding():
    pairs = list(product(range(4), range(5)))  # sums to -9e-16 without care
    assert mutual_information(*zip(*pairs, strict=True)) == 0.0


@given(TOKENS)
def test_entropy_sums_its_definition(tokens):
    gold = [tag for _, tag in tokens]
    bits = sum(c / len(gold) * math.log2(len(gold) / c) for c in Counter(gold).values())
    assert tag_entropy(gold) == pytest.approx(bits, abs=1e-12)
    assert str(tag_entropy(["A", "A"])) == "0.0"


@given(TOKENS)
def test_v_measure_is_that_of_the_entropies(tokens):
    states, gold = split(tokens)
    shared = mutual_information(states, gold)
    homogeneity = shared / tag_entropy(gold) if tag_entropy(gold) else 1.0
    completeness = shared / tag_entropy(states) if tag_entropy(states) else 1.0
    total = homogeneity + completeness
    found = v_measure(states, gold)
    assert found == pytest.approx(2 * homogeneity * completeness / total if total > 1e-9 else 0.0, abs=1e-9)
    assert found == pytest.approx(v_measure_score(gold, states), abs=1e-12)


@pytest.mark.parametrize("measure", [many_to_one, one_to_one, v_measure, mutual_information])
def test_measures_refuse(measure):
    with pytest.raises(InvalidInputError, match=r"(states and gold|gold and states) must be of the same tokens; got"):
        measure([0, 1], ["A"])
    with pytest.raises(InvalidInputError, match=r"(states|gold) must hold at least one token, got none; check that"):
        measure([], [])
    with pytest.raises(InvalidInputError, match="states must hold one tag per token, all sentences in one flat"):
        measure([[0, 1]], ["A"])


def test_entropy_and_method_refuse():
    with pytest.raises(InvalidInputError, match="tags must hold at least one token, got none; check that the text was"):
        tag_entropy([])
    message = "method must be 'greedy' or 'optimal', got 'best'; 'greedy' is the papers'"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        one_to_one([0], ["A"], method="best")
