"""A batch cut into shards whose corpus rows are seen only through sums, as learning sees them."""

import numpy as np
import scipy.sparse as sp

from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows
from spectrem.inference.corpus.choice import find_variants
from spectrem.inference.corpus.dual import solve_corpus_program
from spectrem.structures import Categorical, Chain, Parts


class Cut:
    """Shards of neighbouring instances: evaluates the dual of corpus rows shard by shard."""

    def __init__(self, structure, scores, rows, n_shards, weights=None):
        self.rows, self.shards, self.looks = rows, [], []
        n = structure.n_instances
        self.weights = np.ones(n) if weights is None else weights
        for some in np.array_split(np.arange(n), n_shards):
            own = np.isin(structure.instance, some)
            part = (
                Chain(structure.lengths[some], structure.n_states)
                if isinstance(structure, Chain)
                else Categorical(structure.sizes[some])
            )
            self.shards.append(
                (part, Parts(scores.unary[own], scores.factors), sp.csr_array(rows.matrix[:, own]), self.weights[some])
            )

    def evaluate(self, multipliers, scored=True):
        if scored:
            self.looks.append(multipliers)
        values, expectations = [], []
        for part, scores, matrix, weights in self.shards:
            kept = scores if scored else Parts(0.0 * scores.unary, tuple(0.0 * f for f in scores.factors))
            value, marginals = part.smoothed_max(Parts(kept.unary - matrix.T @ multipliers, kept.factors), 0.0)
            values.append(weights @ value)
            expectations.append(matrix @ (weights[part.instance] * marginals.unary))
        return np.array(values), np.array(expectations)

    def support(self, direction):
        return self.evaluate(direction, scored=False)

    def variants(self, points):
        return [find_variants(part, scores, m, points, weights=weights) for part, scores, m, weights in self.shards]

    def expected(self, mixture):
        """Score and ``U mu`` by the recipe for statistics: points times weights."""
        score, total = 0.0, np.zeros(len(self.rows.bounds))
        for point, weights in zip(mixture.points, mixture.weights, strict=True):
            values, expectations = self.evaluate(point)
            score += weights @ (values + expectations @ point)
            total += weights @ expectations
        return score, total

    def chosen(self, choice):
        """Score and ``U h`` by the recipe for statistics: for every point, the instances that take its structure."""
        score, total = 0.0, np.zeros(len(self.rows.bounds))
        for (part, scores, matrix, weights), (instances, points) in zip(self.shards, choice.choices, strict=True):
            taken = np.zeros(part.n_instances, np.int64)
            taken[instances] = points
            for k in np.unique(taken):
                price = matrix.T @ choice.points[k]
                shifted = Parts(scores.unary - price, scores.factors)
                value, marginals = part.smoothed_max(shifted, 0.0, active=taken == k)
                own = weights[part.instance] * marginals.unary
                score += weights @ value + price @ own
                total += matrix @ own
        return score, total

    def solve(self, **options):
        norms = np.sqrt(np.asarray(self.rows.matrix.power(2).sum(axis=1))).ravel()
        rows = CorpusRows(self.rows.bounds, self.rows.blocks, norms)
        return solve_corpus_program(self.evaluate, rows, **({"support": self.support} | options))


def batch(kind, rng, n=24):
    if kind == "chain":
        structure = Chain(rng.integers(1, 5, n), 3)
        return structure, Parts(rng.normal(size=structure.n_unary), (rng.normal(size=(3, 3)),))
    structure = Categorical(rng.integers(2, 5, n))
    return structure, Parts(rng.normal(size=structure.n_unary))


def inner_of(structure, rng, gamma=1.0):
    """Marginals of some distribution: posteriors under random scores, or some structures at gamma = 0."""
    factors = tuple(rng.normal(size=shape) for shape in structure.factor_shapes)
    return structure.smoothed_max(Parts(rng.normal(size=structure.n_unary), factors), gamma)[1].unary


def counts_of(structure, demands, sense="==", slack=None):
    """``E[label == k] == demand`` over the batch."""
    label = structure.columns["tag" if isinstance(structure, Chain) else "label"]
    matrix = np.array([label == k for k in range(len(demands))]) * 1.0
    sign = -1.0 if sense == ">=" else 1.0
    turned = np.array([sense == ">="])
    blocks = tuple(
        Block(f"label {k}", k, k + 1, sense == "==", "corpus", slack, np.zeros(1, np.int64), {}, turned=turned)
        for k in range(len(demands))
    )
    return Rows(sp.csr_array(sign * matrix), sign * np.asarray(demands, np.float64), np.full(len(demands), -1), blocks)
