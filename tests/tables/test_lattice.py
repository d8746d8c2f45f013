"""Lattices of tokens against the list of all their sequences."""

import itertools

import numpy as np
import pytest
import scipy.optimize as so
from scipy.special import logsumexp

from spectrem import E, part, project
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.tables import Lattice

LENGTHS, N_LABELS = (3, 2, 4), 3


def random_lattice(seed):
    rng = np.random.default_rng(seed)
    return Lattice([rng.normal(size=(n, N_LABELS)) for n in LENGTHS], rng.normal(size=(N_LABELS, N_LABELS)))


def all_sequences(lattice):
    """Of every row, its sequences, one-hot and flat, and their scores."""
    out = []
    for row in lattice.scores:
        labels = np.array(list(itertools.product(range(N_LABELS), repeat=len(row))))
        hot = np.eye(N_LABELS)[labels].reshape(len(labels), -1)
        scores = hot @ row.ravel() + lattice.transitions[labels[:, :-1], labels[:, 1:]].sum(axis=1)
        out.append((labels, hot, scores))
    return out


def projected(lattice, matrix, bounds, gamma):
    """The marginals nearest to the lattice's with ``matrix @ marginals <= bounds``, by scipy over all sequences."""
    sequences = all_sequences(lattice)
    cuts = np.cumsum([0, *(n * N_LABELS for n in LENGTHS)])

    def solve(x):
        value, marginals = 0.0, []
        for (_, hot, scores), start, stop in zip(sequences, cuts[:-1], cuts[1:], strict=True):
            shifted = (scores - hot @ (matrix[:, start:stop].T @ x)) / gamma
            total = logsumexp(shifted)
            value += gamma * total
            marginals.append(np.exp(shifted - total) @ hot)
        return value, np.concatenate(marginals)

    def dual(x):
        value, marginals = solve(x)
        return bounds @ x + value, bounds - matrix @ marginals

    found = so.minimize(
        dual,
        np.zeros(len(bounds)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(bounds),
        options={"ftol": 1e-15, "gtol": 1e-11},
    )
    return solve(found.x)[1], found.x


@pytest.mark.parametrize("gamma", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_projections_match_all_sequences(seed, gamma):
    lattice = random_lattice(seed)
    label = np.tile(np.arange(N_LABELS), sum(LENGTHS))
    matrix = np.vstack([label == 0, -1.0 * (label == 2)])
    q, prices = projected(lattice, matrix, np.array([1.5, -4.0]), gamma)
    table = project(lattice, [E[part("label") == 0] <= 1.5, E[part("label") == 2] >= 4], gamma)
    np.testing.assert_allclose(np.concatenate([rows.ravel() for rows in table.proba]), q, atol=1e-6)
    np.testing.assert_allclose(table.multipliers, prices, atol=1e-5)
    assert [rows.shape for rows in table.proba] == [(n, N_LABELS) for n in LENGTHS]


def test_columns_of_rows_and_tokens():
    lattice, words = random_lattice(3), list("abacbabca")
    table = project(
        lattice,
        [
            (E[part("label") == "x"] <= 1).per("row").named("one"),
            (E[part("label") == "y"] <= 0.5).per("word").named("word"),
            (E[(part("document") == 1) & (part("token") == 0) & (part("label") == "z")] >= 1.5).named("first"),
        ],
        columns={"word": words, "document": [1, 0, 1]},
        labels=["x", "y", "z"],
    )
    q = np.concatenate(table.proba)
    assert max(rows[:, 0].sum() for rows in table.proba) <= 1 + 1e-6
    for word in "abc":
        assert q[np.array(words) == word, 1].sum() <= 0.5 + 1e-6
    assert q[0, 2] + q[5, 2] >= 1.5 - 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_decisions_match_all_sequences(seed):
    lattice = random_lattice(seed)
    best = max(
        (sum(scores[k] for (_, _, scores), k in zip(found, choice, strict=True)), choice)
        for found in [all_sequences(lattice)]
        for choice in itertools.product(*(range(len(scores)) for _, _, scores in found))
        if sum((labels[k] == 1).sum() for (labels, _, _), k in zip(found, choice, strict=True)) == 4
    )
    decision = project(lattice, E[part("label") == "b"] == 4, labels=["a", "b", "c"]).decide()
    labels = np.concatenate([found[0][k] for found, k in zip(all_sequences(lattice), best[1], strict=True)])
    assert decision.score == pytest.approx(best[0])
    assert decision.labels.tolist() == [["a", "b", "c"][y] for y in labels]
    assert decision.gap == pytest.approx(decision.relaxation - decision.score)
    assert decision.gap >= 0


def test_tokens_without_transitions_are_a_table():
    rng = np.random.default_rng(0)
    scores = np.log(rng.dirichlet(np.ones(3), size=6))
    rule = E[part("label") == 0] == 3
    rows = project([*np.exp(scores)], rule).proba
    tokens = project(Lattice([scores[:2], scores[2:]]), rule).proba
    np.testing.assert_allclose(np.concatenate(tokens), rows, atol=1e-7)


@pytest.mark.parametrize(
    ("scores", "transitions", "message"),
    [
        ([], None, "scores must be arrays of shape"),
        ([np.zeros(3)], None, "scores must be arrays of shape"),
        ([np.zeros((2, 3)), np.zeros((2, 2))], None, "with the same labels in every row"),
        ([np.zeros((2, 3))], np.zeros((2, 2)), r"transitions must have shape \(3, 3\)"),
        ([np.full((2, 3), np.nan)], None, r"scores\[0\] must be finite or -inf"),
        ([np.zeros((2, 2))], [[0.0, np.inf], [0.0, 0.0]], "transitions must be finite or -inf"),
    ],
)
def test_bad_lattices(scores, transitions, message):
    with pytest.raises(InvalidInputError, match=message):
        Lattice(scores, transitions)


def test_lattices_that_allow_nothing():
    with pytest.raises(InvalidInputError, match="row 1 has no tokens"):
        project(Lattice([np.zeros((1, 2)), np.zeros((0, 2))]), [])
    with pytest.raises(InvalidInputError, match="row 0 has no possible labels"):
        project(Lattice([np.zeros((2, 2))], np.full((2, 2), -np.inf)), [])
    with pytest.raises(InvalidInputError, match="labels must name the 3 columns"):
        project(random_lattice(0), [], labels=["a"])
    with pytest.raises(InvalidInputError, match="and the table has 3 rows, 9 tokens, 27 cells"):
        project(random_lattice(0), (E[...] <= 9).per("word"), columns={"word": [1, 2]})
    with pytest.raises(InvalidInputError, match="the name 'token' belongs to the table"):
        project(random_lattice(0), [], columns={"token": [1, 2, 3]})
    with pytest.raises(InfeasibleConstraintError, match="no feasible q"):
        project(random_lattice(0), (E[part("label") == 0] >= 5).per("row"))


BIO = (E[(part("label") == "I") & ~part("previous").isin(["B", "I"])] <= 0).per("row")


def test_rules_on_neighbouring_labels_are_transitions_that_are_impossible():
    """I only after B or I: as a constraint, and as scores of minus infinity."""
    lattice, names = random_lattice(5), ["O", "B", "I"]
    valid = lattice.transitions.copy()
    valid[0, 2] = -np.inf
    scores = [row.copy() for row in lattice.scores]
    for row in scores:
        row[0, 2] = -np.inf
    expected = project(Lattice(scores, valid), [], labels=names)
    table = project(lattice, BIO, labels=names)
    for found, wanted in zip(table.proba, expected.proba, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    chosen = table.decide()
    assert chosen.labels.tolist() == expected.decide().labels.tolist()
    assert chosen.score == pytest.approx(expected.decide().score)
    assert chosen.positions.tolist() == [names.index(label) for label in chosen.labels]
    hard = project(lattice, BIO, -np.inf, labels=names)
    assert np.concatenate(hard.proba).argmax(axis=1).tolist() == chosen.positions.tolist()


def test_naming_the_label_before_changes_nothing_else():
    lattice, names, words = random_lattice(6), ["x", "y", "z"], list("abacbabca")
    cost = np.arange(27.0).reshape(9, 3)
    rules = [
        (E[part("label") == "x"] <= 0.5).per("row"),
        (E[part("label") == "z"] >= "20%").per("word"),
        E[part("cost")] <= 125,
    ]
    idle = E[part("previous") == "x"] <= 100
    columns = {"word": words, "cost": cost}
    plain = project(lattice, rules, labels=names, columns=columns)
    pairs = project(lattice, [*rules, idle], labels=names, columns=columns)
    for one, other in zip(plain.proba, pairs.proba, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(plain.multipliers, pairs.multipliers[:-1], atol=1e-5)
    numbered = project(lattice, ["E[previous == 0] <= 1", "E[label == 2] <= 3"])
    assert numbered.constraints[0].after == pytest.approx([1])
    for name in ("label", "previous"):
        with pytest.raises(InvalidInputError, match=f"there is no {name} 'w'; the .* are 'x', 'y', 'z'"):
            project(lattice, [idle, f"E[{name} == 'w'] <= 1"], labels=names)
    with pytest.raises(InvalidInputError, match="there is no previous 3; the previous are 0, 1, 2"):
        project(lattice, "E[previous == 3] <= 1")
