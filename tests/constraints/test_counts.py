"""What `E.count` counts: rows of tables, tokens of sentences, positions of alignments that choose."""

import warnings

import numpy as np
import pytest
from shard_helpers import compile_all

from spectrem import GaussianMixture, Lattice, project
from spectrem.constraints import E, compile_constraints, must_link, part, read_constraints
from spectrem.exceptions import ConvergenceWarning
from spectrem.structures import Alignment, Categorical, Chain, Chain2, Parts, Product
from spectrem.testing.check_constraint import check_constraint

LENGTHS = [3, 0, 1, 2]
ALLOWED = (np.array([0, 2, 3, 6, 7, 9, 12]), np.array([0, 2, 1, 0, 1, 2, 2, 0, 1, 0, 1, 2]))
FORWARD, BACKWARD = Alignment([2, 1, 3, 0], [1, 2, 2, 1]), Alignment([1, 2, 2, 1], [2, 1, 3, 0], reverse=True)
STRUCTURES = {
    "rows": (Categorical([3, 3, 3, 3]), 4),
    "rows of different length": (Categorical([3, 1, 2, 2]), 4),
    "chain": (Chain(LENGTHS, 3), 6),
    "chain with a dictionary": (Chain(LENGTHS, 3, ALLOWED), 6),
    "chain of second order": (Chain2(LENGTHS, 3), 6),
    "chain of second order with a dictionary": (Chain2(LENGTHS, 3, ALLOWED), 6),
    "alignment": (FORWARD, 6),
    "alignment of jumps": (Alignment([2, 1, 3, 0], [1, 2, 2, 1], max_jump=2), 6),
    "alignment the other way round": (BACKWARD, 6),
    "both directions": (Product({"forward": FORWARD, "backward": BACKWARD}, name="direction"), 12),
}


def count(condition, structure, columns=None, weights=None, **options):
    """The number that a count stands for."""
    rows = compile_constraints(E[...] <= 1000 + E.count(condition, **options), structure, columns, weights)
    return rows.bounds[0] - 1000


@pytest.mark.parametrize("name", STRUCTURES)
def test_choices_count_once(name):
    structure, choices = STRUCTURES[name]
    assert count(..., structure) == choices
    check_constraint(E[...] <= 0.3 * E.count(...) + 0.1, structure)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_condition_on_the_data_counts_what_it_can_expect(name):
    structure, _ = STRUCTURES[name]
    kind, weights = np.array(["a", "b", "a", "c"]), np.array([1.0, 2.0, 0.5, 0.0])
    of_a = part("kind").isin(["a", "b"])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores = Parts(rng.normal(size=structure.n_unary), tuple(rng.normal(size=s) for s in structure.factor_shapes))
        marginals = structure.smoothed_max(scores, 1.0)[1].unary
        rows = compile_constraints([E[of_a] <= 99, (E[of_a] <= 99).per("kind")], structure, {"kind": kind})
        marginals = marginals * weights[structure.instance]
        expected = rows.matrix @ marginals
        assert count(of_a, structure, {"kind": kind}, weights) == pytest.approx(expected[0])
        bound = (E[of_a] >= E.count(of_a) + 100).per("kind")
        found = compile_constraints(bound, structure, {"kind": kind}, weights)
        by_kind = dict(zip(found.blocks[0].keys["kind"].tolist(), -found.bounds - 100, strict=True))
        present = rows.blocks[1].keys["kind"].tolist()
        assert {key: by_kind[key] for key in present} == pytest.approx(dict(zip(present, expected[1:], strict=True)))


def test_a_condition_on_labels_counts_what_may_have_them():
    labels = Categorical([3, 1, 2, 2])
    assert count(part("label") == 1, labels) == 3
    assert count(part("label").isin([1, 2]), labels) == 3
    assert count(part("label") != 1, labels) == 4
    assert count(part("label") == 7, labels) == 0
    chain = Chain(LENGTHS, 3, ALLOWED)
    assert count(part("tag") == 0, chain) == 4
    assert count(part("tag").isin([0, 1]), chain) == 5
    both = Product({"forward": FORWARD, "backward": BACKWARD}, name="direction")
    assert count(part("direction") == "forward", both) == 6
    assert count((part("source") != -1) & (part("target") != -1), both) == 5 + 6
    per_label = compile_constraints((E[...] <= 0.5 * E.count(...)).per("label"), labels)
    assert per_label.bounds.tolist() == [2.0, 1.5, 0.5]


def test_conserved_edges():
    # [Ganchev2010] 5.4: nine tenths of the words whose head was conserved are expected to have it
    heads = Categorical([3, 3, 3])
    conserved = np.array([0, 1, 0, 0, 0, 0, 1, 0, 0], bool)
    rows = compile_constraints(
        E[part("conserved")] >= 0.9 * E.count(part("conserved")), heads, {"conserved": conserved}
    )
    assert rows.bounds.tolist() == [-1.8]
    assert rows.matrix.toarray().tolist() == [(-1.0 * conserved).tolist()]


def test_weights_and_numbers():
    labels, length = Categorical([3, 3]), np.array([4.0, 7.0])
    assert count(part("length"), labels, {"length": length}) == 11
    assert count(part("length"), labels, {"length": length}, np.array([2.0, 1.0])) == 15
    assert count(-1 * part("length"), labels, {"length": length}) == -11
    price = np.array([1.0, 5.0, 2.0, 0.0, 0.0, 3.0])
    assert count(part("price"), labels, {"price": price}) == 8
    assert count(part("length"), labels, {"length": length}, each="length") == 11


def test_values_of_a_column_count_once():
    labels, extra = Categorical([3, 3, 3, 3]), {"kind": np.array(["a", "b", "a", "c"])}
    assert count(..., labels, extra, each="kind") == 3
    assert count(part("kind") != "b", labels, extra, each="kind") == 2


def test_shards_add_up():
    one, two = Categorical([3, 3]), Categorical([3, 2, 1])
    shares = E[part("label") == 0] <= 0.2 * E.count(...)
    assert compile_all(shares, [one, two])[0].bounds.tolist() == [1.0]


def test_a_share_of_a_group_of_rows(tmp_path):
    p = np.full((10, 3), 1 / 3)
    columns = {"group": np.array(["a"] * 5 + ["b"] * 5)}
    of_a = part("group") == "a"
    table = project(p, E[of_a & (part("label") == 0)] == 0.2 * E.count(of_a), columns=columns)
    assert table.proba[:5, 0].sum() == pytest.approx(1.0)
    table = project(p, E[part("label") == 0] <= 0.2 * E.count(...))
    assert table.proba[:, 0].sum() == pytest.approx(2.0)
    for of in ("E.count(group == 'a')", "E[group == 'a']"):
        path = tmp_path / "c.yaml"
        path.write_text(f"- E[(label == 0) & (group == 'a')] == '20%' * {of}\n")
        table = project(p, read_constraints(path), columns=columns)
        assert table.proba[:5, 0].sum() == pytest.approx(1.0)
        assert table.proba[5:, 0].sum() == pytest.approx(5 / 3)


def test_a_share_of_the_tokens_of_a_lattice():
    lattice = Lattice([np.zeros((4, 3)), np.zeros((2, 3))])
    table = project(lattice, E[part("label") == 0] == 0.5 * E.count(part("row") == 0))
    assert sum(row[:, 0].sum() for row in table.proba) == pytest.approx(2.0)


def test_a_share_of_the_rows_of_a_mixture():
    x = np.concatenate([np.linspace(-1, 1, 20), np.linspace(9, 11, 20)])[:, None]
    few = E[part("label") == 0] <= 0.2 * E.count(...)
    for links in ([], [must_link([[0, 1], [1, 2]])]):
        mixture = GaussianMixture(2, constraints=[few, *links], means_init=[[0.0], [10.0]], reg_covar=1.0, max_iter=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(x)
        assert mixture.posteriors_[:, 0].sum() == pytest.approx(8.0, rel=1e-3)
