"""The constraints of transfer on projective trees, against all trees of short sentences."""

import numpy as np
import pytest
from check_projection import check_projection

from spectrem.constraints import E, part
from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.data import Links
from spectrem.data.transfer import aligned_words, conserved_arcs
from spectrem.estimators.transfer import conservation, few_children
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Bracket, project_batch
from spectrem.inference.batch import choose_solver
from spectrem.inference.dual import BatchDual
from spectrem.structures import Parts, ProjectiveTrees

LENGTHS = [4, 3, 2, 1]
LINKS = Links.from_pairs([[(0, 1), (1, 0), (2, 3)], [(0, 2), (1, 1)], [], [(0, 0)]])
SOURCE_HEADS = [[1, -1, 1], [1, -1], [-1], [-1]]


@pytest.fixture(name="columns")
def fixture_columns():
    trees = ProjectiveTrees(LENGTHS)
    conserved = np.concatenate([own.ravel() for own in conserved_arcs(SOURCE_HEADS, LINKS, LENGTHS)])
    aligned = trees.arc_columns({"aligned": np.concatenate(aligned_words(LINKS, LENGTHS))})
    return {"conserved": conserved, **aligned}


@pytest.fixture(name="scores")
def fixture_scores():
    n_arcs = sum(length**2 for length in LENGTHS)
    return Parts(np.random.default_rng(3).normal(size=n_arcs, scale=2.0))


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_conservation_is_projected_onto_as_brute_force_does(columns, scores, share):
    found = check_projection(
        conservation(share), ProjectiveTrees(LENGTHS), scores, columns, gammas=(-np.inf, 0.0, 0.3, 1.0, 2.5)
    )
    assert all(projection is not None for projection in found.values())


def test_conservation_together_with_leaves(columns, scores):
    check_projection(
        [conservation(0.8), few_children(0.5)], ProjectiveTrees(LENGTHS), scores, columns, gammas=(0.3, 1.0, 2.5)
    )


def test_one_row_per_sentence_that_has_conserved_arcs_is_solved_by_line_search(columns, scores):
    trees = ProjectiveTrees(LENGTHS)
    rows = compile_constraints(conservation(0.9), trees, columns)
    assert sorted(rows.row_instance.tolist()) == [0, 1, 3]
    dual = BatchDual(trees, scores, rows, 1.0, None)
    assert isinstance(choose_solver(dual, 1e-8, None), Bracket)
    met = project_batch(trees, scores, rows).marginals.unary
    reached = np.bincount(trees.instance, met * columns["conserved"])
    wanted = [3, 2, 0, 1]  # words with a conserved arc
    assert (reached >= 0.9 * np.array(wanted) - 1e-7).all()


def test_the_constraint_is_the_line_of_the_paper():
    line = (E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence")
    assert conservation(0.9) == line.named("conserved arcs")


def test_crossing_arcs_that_no_tree_has_together_are_refused_or_skipped():
    trees = ProjectiveTrees([4, 2])
    conserved = np.zeros(20, bool)
    conserved[[0 * 4 + 2, 1 * 4 + 3, 16 + 1]] = True  # 2 -> 0 and 3 -> 1 cross
    rows = compile_constraints(conservation(0.9), trees, {"conserved": conserved})
    with pytest.raises(InfeasibleConstraintError, match="conserved arcs"):
        project_batch(trees, Parts(np.zeros(20)), rows)
    found = project_batch(trees, Parts(np.zeros(20)), rows, infeasible="skip")
    assert found.skipped.tolist() == [0]
    assert found.marginals.unary[17] == pytest.approx(0.9)


@pytest.mark.parametrize("share", [0, 1.1, float("nan"), "most"])
def test_shares_out_of_range_are_refused(share):
    with pytest.raises(InvalidInputError, match="share must lie above 0 and be at most 1, got"):
        conservation(share)


@pytest.mark.parametrize("most", [-1, float("inf"), None])
def test_numbers_of_children_out_of_range_are_refused(most):
    with pytest.raises(InvalidInputError, match="most must be a finite number of children"):
        few_children(most)
