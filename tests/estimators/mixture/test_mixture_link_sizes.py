"""Links that name all rows, beside sizes of clusters: feasibility and optimum against every labelling of the rows."""

import itertools

import numpy as np
import pytest

from spectrem import GaussianMixture
from spectrem.constraints import E, cannot_link, cluster_size, compile_constraints, must_link, part
from spectrem.constraints.links import RowLinks
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import project_batch
from spectrem.inference.assignment import assign
from spectrem.models.mixture.constrained import check_sizes, make_chunks
from spectrem.structures import Categorical, Parts

LABEL = part("label")
SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])


@pytest.mark.parametrize("weights", [None, [1, 1, 1, 1], [2, 2, 2, 2], [1, 2, 3, 1]])
@pytest.mark.parametrize("assigned", ["probable", "feasible"])
def test_links_over_all_chunks_are_no_sizes(weights, assigned):
    links = [must_link([[0, 1], [2, 3]]), cannot_link([[0, 2]])]
    mixture = GaussianMixture(2, constraints=links, reg_covar=0.1, assign=assigned, random_state=0)
    labels = mixture.fit(SQUARE, sample_weight=weights).labels_
    assert labels[0] == labels[1] != labels[2] == labels[3]


def draw(seed):
    """Rows with weights, links, sizes and at most one soft constraint."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    scores = rng.normal(size=(n, k)) * 3
    weights = [
        np.ones(n),
        rng.integers(1, 4, n).astype(float),
        np.full(n, rng.choice([3.0, 49.0, 0.7])),
        np.round(rng.random(n) + 0.01, 2),
    ][rng.integers(4)]
    total, constraints = weights.sum(), []
    for link in (must_link, cannot_link):
        pairs = rng.integers(0, n, (int(rng.integers(0, 4)), 2))
        constraints.append(link(pairs[pairs[:, 0] != pairs[:, 1]]))
    sizes = [
        [],
        [cluster_size(min=float(rng.integers(1, max(2, int(total // k) + 2))))],
        [cluster_size(max=float(rng.integers(1, int(total) + 2)))],
    ]
    soft = [
        [],
        [(E[LABEL == 0] <= float(rng.integers(0, 3))).slack(penalty=1.5, norm="l1")],
        [(E[LABEL == 0] <= 0).per("row").slack(penalty=1.5, norm="l1")],
    ]
    return scores, weights, constraints + sizes[rng.integers(3)] + soft[rng.integers(3)]


def holds(labels, constraints):
    """Whether the links hold, from what they say."""
    for own in constraints:
        if isinstance(own, RowLinks):
            alike = labels[own.pairs[:, 0]] == labels[own.pairs[:, 1]]
            if (alike != own.together).any():
                return False
    return True


def by_enumeration(scores, weights, constraints, cost):
    """The best weighted score less penalties of any labels of the rows, -inf if none is allowed."""
    n, k = scores.shape
    best = -np.inf
    for choice in itertools.product(range(k), repeat=n):
        labels = np.array(choice)
        if holds(labels, constraints):
            best = max(best, weights @ scores[np.arange(n), labels] - cost(labels))
    return best


@pytest.mark.parametrize("seed", range(120))
def test_links_and_sizes_against_every_labelling(seed):
    scores, weights, constraints = draw(seed)
    n, k = scores.shape
    links = [own for own in constraints if isinstance(own, RowLinks)]
    others = [own for own in constraints if not isinstance(own, RowLinks)]

    def compile_rows(chosen):
        return compile_constraints(chosen, Categorical(np.full(n, k), "row"), {}, weights)

    def cost(labels):
        """Penalties and sizes, over rows of data one by one."""
        chosen = np.zeros((n, k))
        chosen[np.arange(n), labels] = 1.0
        rows = compile_rows(others)
        total = 0.0
        for block in rows.blocks:
            own = slice(block.start, block.stop)
            parts = chosen * weights[:, None] if block.scope != "instance" else chosen
            over = np.maximum(rows.matrix[own] @ parts.ravel() - rows.bounds[own], 0.0)
            if block.slack is None:
                total += np.inf if (over > 1e-7).any() else 0.0
            else:
                times = weights[rows.row_instance[own]] if block.scope == "instance" else 1.0
                total += block.slack.strength * float((times * over).sum())
        return total

    best = by_enumeration(scores, weights, constraints, cost)
    try:
        chunks = make_chunks(links, weights)
    except InvalidInputError:
        assert best == -np.inf
        return
    structure = Categorical(np.full(len(chunks.weights), k))
    rows = chunks.compress(
        compile_rows([own for own in constraints if not (isinstance(own, RowLinks) and own.together)])
    )
    means = (chunks.mean @ scores).ravel()

    def solve(gamma):
        check_sizes(rows, chunks.weights, k)
        return project_batch(structure, Parts(means), rows, gamma, weights=chunks.weights)

    if best == -np.inf:
        with pytest.raises(InfeasibleConstraintError):
            assign(structure, means, rows, weights=chunks.weights)
        with pytest.raises(InfeasibleConstraintError):
            solve(-np.inf)
        return
    near = {"rel": 1e-6, "abs": 1e-6}
    found = assign(structure, means, rows, weights=chunks.weights)
    labels = found.labels[chunks.chunk]
    assert holds(labels, constraints)
    assert found.score == pytest.approx(best, **near)
    assert weights @ scores[np.arange(n), labels] - cost(labels) == pytest.approx(best, **near)
    assert solve(-np.inf).primal_value == pytest.approx(best, **near)
    assert solve(0.0).primal_value >= best - 1e-6 * max(1.0, abs(best))
