"""Shares: percentages as bounds, expectations divided by counts, equal shares of groups, costs by label."""

import re

import numpy as np
import pytest

from spectrem import E, Lattice, part, project
from spectrem.constraints import (
    at_least,
    at_most,
    cluster_size,
    compile_constraints,
    dictionary_in_expectation,
    fertility,
    label_proportions,
    parity,
)
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Categorical, Chain, EdgeChain

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([1.0, 1.0], size=12)
GROUP = np.array(["a"] * 5 + ["b"] * 7)
SITE = np.array(["x", "y"] * 6)
COLUMNS = {"group": GROUP, "site": SITE}
YES, OF_A, OF_B = part("label") == 1, part("group") == "a", part("group") == "b"


def share(table, *masks):
    chosen = np.logical_and.reduce(masks) if masks else np.ones(12, bool)
    return table.proba[chosen, 1].mean()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (E[YES] <= "20%", E[YES] <= 0.2 * E.count(...)),
        (E[YES] >= " 7.5 % ", E[YES] >= 0.075 * E.count(...)),
        (E[YES] == "20%", E[YES] == 0.2 * E.count(...)),
        (E[YES].between("15%", "25%"), E[YES].between(0.15 * E.count(...), 0.25 * E.count(...))),
        (E[YES].between(1, "25%"), E[YES].between(1, 0.25 * E.count(...))),
        ((E[YES] <= "20%").per("group"), (E[YES] <= 0.2 * E.count(...)).per("group")),
        (E[YES] / E.count(OF_A) <= "20%", E[YES] / E.count(OF_A) <= 0.2),
        (E[YES & OF_A] <= "20%" * E.count(OF_A), E[YES & OF_A] <= 0.2 * E.count(OF_A)),
        (at_least("20%", 1, per="site"), (E[YES] >= "20%").per("site").named("at least 20% 1 per site")),
        (at_most("1e1%", 1, per=["site", "group"]),
         (E[YES] <= "10%").per("site", "group").named("at most 1e1% 1 per site and group")),
        (cluster_size("20%", "50%"), E[...].between("20%", "50%").per("label").named("cluster size")),
        (dictionary_in_expectation({"a": [1]}, 2, share="10%"), dictionary_in_expectation({"a": [1]}, 2, share=0.1)),
        (label_proportions({1: "20%", 0: ("10%", 0.9)}), label_proportions({1: 0.2, 0: (0.1, 0.9)})),
        (label_proportions(["20%", "80%"]), label_proportions([0.2, 0.8])),
        (label_proportions({1: 0.2}, per="site"), label_proportions({1: 0.2}).per("site")),
        (label_proportions({1: 0.2}, per=["site", "group"])[0].groups, ("site", "group")),
        ((E[...] <= 1).per(["site", "label"]), (E[...] <= 1).per("site", "label")),
        (E[YES] / E.count(OF_A) <= 0.5, 2 * E[YES] / E.count(OF_A) / 2 <= 0.5),
        (E[YES] / (2 * E.count(OF_A)) <= 0.5, 0.5 * E[YES] / E.count(OF_A) <= 0.5),
        ((E[YES] / E.count(OF_A)).per("site") <= 0.5, (E[YES].per("site") / E.count(OF_A).per("site")) <= 0.5),
        (E[YES] * "50%" <= 1, 0.5 * E[YES] <= 1),
        (10**30 * E[YES] / E.count(OF_A) <= 1, 10**30 * (E[YES] / E.count(OF_A)) <= 1),
    ],
    ids=lambda one: repr(one)[:60],
)  # fmt: skip
def test_what_shares_mean(said, meant):
    assert said == meant
    assert repr(said) == repr(meant)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: E[YES] <= "many", "expected a number, a share as '20%' or an expectation, got the text \"many\""),
        (lambda: E[YES] <= "120%", "a share is 100% at most, got '120%'; lower it"),
        (lambda: E[YES] <= "-1%", "expected a number, a share as '20%' or an expectation, got the text \"-1%\""),
        (lambda: E[YES] + 1 <= "20%", "== 1] + 1 <= '20%': of what? write the share as a number, or 0.2 * E.count"),
        (lambda: E[YES] + E[YES] / E.count(...) >= "20%", "of what? write the share as a number"),
        (lambda: E[YES] + "20%", "+ takes a finite number or an expectation, got '20%'"),
        (lambda: E[YES].between("20%", "10%"), "between needs low <= high, got low='20%' and high='10%'; swap them"),
        (lambda: E[YES] / E[OF_A], "for a ratio of expectations write E[a] <= 0.2 * E[b]"),
        (lambda: E[YES] / (E.count(OF_A) + E.count(OF_B)), "is divided by one E.count(...) or by a number"),
        (lambda: E[YES] / (E.count(OF_A) + 1), "is divided by one E.count(...) or by a number"),
        (lambda: E[YES] / (0 * E.count(OF_A)), "is divided by one E.count(...) or by a number"),
        (lambda: E[YES] / (E.count(OF_A) / E.count(OF_B)), "is divided by one E.count(...) or by a number"),
        (lambda: E[YES] / E.count(OF_A) / E.count(OF_B), "divided by a count, once; write numbers outside"),
        (lambda: (E[YES] + 1) / E.count(OF_A), "divided by a count, once; write numbers outside"),
        (lambda: E[YES].per("site") / E.count(OF_A).per("group"), "one constraint has one grouping"),
        (lambda: E.count(OF_A) / E.count(OF_B) <= 2, "one side needs an expectation E[...]"),
        (lambda: E[YES] & E[OF_A], "& joins constraints or conditions; put each comparison in parentheses"),
        (lambda: 1 & E[YES], "& joins constraints or conditions; put each comparison in parentheses"),
        (lambda: parity(1, "group", ["a"]), "parity needs two groups or more and within in [0, 1), got ['a'] and 0.0"),
        (lambda: parity(1, "group", "ab"), "parity needs two groups or more"),
        (lambda: parity(1, "group", ["a", "b"], within=1), "parity needs two groups or more and within in [0, 1)"),
        (lambda: parity(1, "group", ["a", "b"], within=(0, 1)), "parity needs two groups or more and within in"),
        (lambda: at_most("x", 1), "expected a number, a share as '20%' or an expectation, got the text \"x\""),
        (lambda: at_least(None, 1), "at_least: n must be positive, got None"),
        (lambda: fertility("10%", 1), "fertility takes shares such as '20%', or numbers, got min=1 and max='10%'"),
        (lambda: E[YES].per([]), "per takes one or more different names of columns, got ()"),
    ],
)
def test_errors(act, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        act()


def test_a_share_of_a_group():
    table = project(PROBA, E[YES & OF_A] / E.count(OF_A) == "20%", columns=COLUMNS)
    assert share(table, GROUP == "a") == pytest.approx(0.2)
    (report,) = table.constraints
    assert report.bound.tolist() == [0.2]
    assert report.before == pytest.approx([PROBA[GROUP == "a", 1].mean()])


def test_a_share_per_group_leaves_groups_without_any_out():
    rule = (E[YES & OF_A] / E.count(OF_A) == "20%").per("site")
    sites = np.where(GROUP == "b", "only b", SITE)
    table = project(PROBA, rule, columns={"group": GROUP, "site": sites})
    assert table.constraints[0].keys["site"].tolist() == ["x", "y"]
    for site in "xy":
        assert share(table, sites == site) == pytest.approx(0.2)
    np.testing.assert_allclose(table.proba[GROUP == "b"], PROBA[GROUP == "b"])


def test_parity():
    equal = E[YES & OF_A] / E.count(OF_A) == E[YES & OF_B] / E.count(OF_B)
    for rule in (equal, parity(1, "group", ["a", "b"])):
        table = project(PROBA, rule, columns=COLUMNS)
        assert share(table, GROUP == "a") == pytest.approx(share(table, GROUP == "b"))
    before = abs(PROBA[GROUP == "a", 1].mean() - PROBA[GROUP == "b", 1].mean())
    near = project(PROBA, parity(1, "group", ["a", "b"], within="2%"), columns=COLUMNS)
    assert before > 0.02
    assert abs(share(near, GROUP == "a") - share(near, GROUP == "b")) == pytest.approx(0.02)
    each = project(PROBA, parity(1, "group", ["a", "b"], per="site"), columns=COLUMNS)
    for site in "xy":
        assert share(each, GROUP == "a", site == SITE) == pytest.approx(share(each, GROUP == "b", site == SITE))


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_shares_of_best_labels(gamma):
    half = E[YES & OF_B] / E.count(OF_B) >= "70%"
    table = project(PROBA, half, gamma, columns=COLUMNS)
    counted = project(PROBA, E[YES & OF_B] >= 0.7 * E.count(OF_B), gamma, columns=COLUMNS)
    np.testing.assert_allclose(table.proba, counted.proba, atol=1e-9)
    assert table.decide().labels[GROUP == "b"].mean() >= 0.7
    assert table.decide().score == pytest.approx(counted.decide().score)


def test_weights_count_in_shares():
    weights = RNG.integers(1, 4, size=12).astype(float)
    table = project(PROBA, E[YES & OF_A] / E.count(OF_A) == "20%", columns=COLUMNS, sample_weight=weights)
    own = GROUP == "a"
    assert np.average(table.proba[own, 1], weights=weights[own]) == pytest.approx(0.2)


def test_label_is_the_tag_of_sentences():
    chain, named = Chain([2, 3], n_states=2), np.array(["N", "V"])
    for rule in (at_least(1, "V"), at_most("50%", "V"), *label_proportions({"V": "20%"})):
        rows = compile_constraints(rule, chain, {"tag": named[chain.columns["tag"]]})
        tagged = compile_constraints(
            eval(repr(rule).replace('"label"', '"tag"'), {"E": E, "part": part}),
            chain,
            {"tag": named[chain.columns["tag"]]},
        )
        assert (rows.matrix != tagged.matrix).nnz == 0
        assert rows.bounds.tolist() == tagged.bounds.tolist()
    own = compile_constraints(E[part("label")] <= 1, chain, {"label": np.arange(5.0)})
    assert own.matrix.toarray().tolist() == [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]


def test_matrices_are_costs_of_labels():
    cost = RNG.random((12, 2))
    table = project(PROBA, E[part("cost")] <= 0.9 * (PROBA * cost).sum(), columns={"cost": cost})
    assert (table.proba * cost).sum() == pytest.approx(0.9 * (PROBA * cost).sum())
    listed = project(PROBA, E[part("cost")] <= 0.9 * (PROBA * cost).sum(), columns={"cost": cost.tolist()})
    np.testing.assert_allclose(listed.proba, table.proba)
    words = Lattice([np.zeros((2, 2)), np.zeros((1, 2))])
    table = project(words, E[part("cost")] <= 1, columns={"cost": [[1, 0], [1, 0], [1, 0]]})
    assert sum(row[:, 0].sum() for row in table.proba) == pytest.approx(1)
    assert compile_constraints(
        E[part("cost")] <= 1, Categorical([2]), {"cost": [[3, 4]]}
    ).matrix.toarray().tolist() == [[3, 4]]


def test_matrices_must_fit():
    message = "'cost' is a matrix of shape (3, 2), and the batch has 2 rows or tokens with 2 labels; give a value for"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        compile_constraints(E[part("cost")] <= 1, Categorical([2, 2]), {"cost": np.ones((3, 2))})
    for structure, shape in ((Categorical([1, 3]), (2, 2)), (EdgeChain([2], 2), (3, 2)), (EdgeChain([2], 2), (5, 2))):
        with pytest.raises(InvalidInputError, match="is a matrix of shape"):
            compile_constraints(E[part("cost")] <= 1, structure, {"cost": np.ones(shape)})
    pairs = compile_constraints(E[part("cost")] <= 1, EdgeChain([2], 2), {"cost": [[1, 2], [3, 4]]})
    assert pairs.matrix.toarray().tolist() == [[1, 2, 3, 4, 3, 4]]
    with pytest.raises(InvalidInputError, match=r"or be a matrix of numbers with a column for every label, got <U1 of"):
        compile_constraints(E[part("cost")] <= 1, Categorical([2]), {"cost": np.array([["a", "b"]])})


def test_a_share_of_many_is_multiplied_once():
    structure = Categorical(np.full(100_000, 2))
    rows = compile_constraints(E[part("label") == 1] <= "30%", structure)
    assert rows.bounds.tolist() == [30_000.0]
