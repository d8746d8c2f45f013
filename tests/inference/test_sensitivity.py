"""How projections change with scores, against differences, for structures of all families."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.inference import Status, project_batch
from spectrem.inference.sensitivity import pull_back
from spectrem.structures import (
    Alignment,
    Bracketings,
    Categorical,
    Chain,
    NonProjectiveTrees,
    Parts,
    Product,
    ProjectiveTrees,
    Segmentations,
)

STRUCTURES = {
    "labels": Categorical([6, 5, 7]),
    "chains": Chain([4, 0, 3], 3),
    "alignments": Alignment([3, 2], [4, 3]),
    "projective trees": ProjectiveTrees([4, 3]),
    "trees": NonProjectiveTrees([4, 3]),
    "bracketings": Bracketings([5, 4]),
    "segmentations": Segmentations([4, 3], n_states=2, longest=3),
    "two views": Product({"text": Categorical([3, 4]), "links": Categorical([4, 2])}),
}


def random_parts(structure, rng):
    return Parts(rng.normal(size=structure.n_unary), tuple(rng.normal(size=one) for one in structure.factor_shapes))


def random_rows(structure, rng, gamma):
    """Two rows inside every instance, and three over the batch, that other scores meet; half of them equalities."""
    goal = structure.smoothed_max(random_parts(structure, rng), gamma)[1].unary
    inside = [(structure.instance == n) & (rng.random(structure.n_unary) < 0.6) for n in range(structure.n_instances)]
    masks = [mask for mask in inside if mask.any() for _ in range(2)]
    within = [int(structure.instance[mask][0]) for mask in masks]
    masks += [rng.random(structure.n_unary) < 0.4 for _ in range(3)]
    matrix = sp.csr_array(np.array(masks) * rng.normal(size=(len(masks), structure.n_unary)))
    n, k = len(masks), len(within)
    bounds = matrix @ goal
    blocks = tuple(
        Block(f"rows {start}", start, stop, equality, scope, None, np.zeros(stop - start, int), {})
        for start, stop, equality, scope in (
            (0, k // 2, False, "instance"), (k // 2, k, True, "instance"), (k, n - 1, False, "corpus"),
            (n - 1, n, True, "corpus"),
        )
    )  # fmt: skip
    return Rows(matrix, bounds, np.array([*within, -1, -1, -1]), blocks)


@pytest.mark.parametrize("gamma", [0.7, 1.0])
@pytest.mark.parametrize("name", STRUCTURES)
def test_it_is_the_slope_of_marginals_and_multipliers(name, gamma):
    structure, rng, step = STRUCTURES[name], np.random.default_rng(1), 1e-4
    scores, rows = random_parts(structure, rng), random_rows(structure, rng, gamma)
    of_marginals, of_multipliers = random_parts(structure, rng), rng.normal(size=len(rows.bounds))

    def solve(given):
        found = project_batch(structure, given, rows, gamma, tol=1e-12)
        assert found.status == Status.SOLVED
        return found

    found = solve(scores)
    assert (found.multipliers == 0).any()
    assert np.count_nonzero(found.multipliers) > 3
    slopes = pull_back(structure, scores, rows, found, gamma, of_marginals, of_multipliers)
    for _ in range(3):
        along = random_parts(structure, rng)
        ends = [solve(scores.map(lambda s, a, by=by: s + by * a, along)) for by in (step, -step)]
        totals = [of_marginals.dot(one.marginals) + of_multipliers @ one.multipliers for one in ends]
        assert slopes.dot(along) == pytest.approx((totals[0] - totals[1]) / (2 * step), rel=1e-5, abs=1e-5)
