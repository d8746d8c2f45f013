"""A structure that is a list of its members, and slow optimisers over explicit distributions: the tests' yardstick."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.optimize as so
import scipy.sparse as sp
from scipy.special import logsumexp

from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope


class Enumerated:
    """Instance i's structures are the 0/1 rows of ``members[i]``; ``counts[i]`` are their counts of one factor."""

    def __init__(self, members, counts=None):
        self.members = members
        self.counts = counts
        self.instance = np.repeat(np.arange(len(members)), [m.shape[1] for m in members])
        self.instance_name, self.columns = "instance", {"instance": self.instance}
        self.choice = np.arange(len(self.instance))  # parts are taken in any combination
        self.n_instances, self.n_unary = len(members), len(self.instance)
        self.factor_shapes = () if counts is None else ((counts[0].shape[1],),)

    def scores_of(self, scores, i):
        """Score of every structure of instance i."""
        total = np.array([Parts(scores.unary[self.instance == i]).dot(Parts(h)) for h in self.members[i] * 1.0])
        if self.counts is not None:
            total = total + np.array([Parts(scores.factors[0]).dot(Parts(c)) for c in self.counts[i] * 1.0])
        return total

    def smoothed_max(self, scores, gamma, *, active=None, weights=None):
        values, unary = np.zeros(self.n_instances), np.zeros(self.n_unary)
        factors = tuple(np.zeros(s) for s in self.factor_shapes)
        for i in range(self.n_instances):
            if active is not None and not active[i]:
                continue
            total = self.scores_of(scores, i)
            if gamma == 0:
                q = (np.arange(len(total)) == total.argmax()) * 1.0
                values[i] = total.max()
            else:
                values[i] = gamma * logsumexp(total / gamma)
                q = np.exp(total / gamma - values[i] / gamma) if np.isfinite(values[i]) else np.zeros(len(total))
            unary[self.instance == i] = q @ self.members[i]
            for factor in factors:
                factor += (1.0 if weights is None else weights[i]) * (q @ self.counts[i])
        return values, Parts(unary, factors)

    def decode(self, scores):
        return np.array([self.scores_of(scores, i).argmax() for i in range(self.n_instances)])

    def polytope(self, scores, instance):
        members = self.members[instance] * 1.0
        n = len(members)
        factors = () if self.counts is None else (sp.csr_array(self.counts[instance].T * 1.0),)
        index = np.flatnonzero(self.instance == instance)
        objective = self.scores_of(scores, instance)
        return Polytope(sp.csr_array(np.ones((1, n))), np.ones(1), objective, index, sp.csr_array(members.T), factors)


def random_structure(rng, n_instances=3, n_parts=4, factor=True):
    """Random distinct structures, at least two an instance."""
    members, counts = [], []
    for _ in range(n_instances):
        every = np.array(list(itertools.product([0, 1], repeat=n_parts)))
        chosen = rng.choice(len(every), rng.integers(5, 9), replace=False)
        members.append(every[chosen])
        counts.append(rng.integers(0, 3, (len(chosen), 2)))
    structure = Enumerated(members, counts if factor else None)
    factors = (rng.normal(size=2),) if factor else ()
    return structure, Parts(rng.normal(size=structure.n_unary) * 1.5, factors)


def inner_point(structure, rng):
    """Marginals of a distribution that favours one structure at random and gives all the others some mass."""
    return np.concatenate([0.85 * m[rng.integers(len(m))] + 0.15 * m.mean(axis=0) for m in structure.members])


def make_rows(structure, rng, *, scope="instance", equality=False, slack=None, groups="one", n_rows=2, inner=None):
    """Rows with small coefficients whose bounds are met by some inner distribution."""
    blocks_rows = []
    n = structure.n_instances
    inner = inner_point(structure, rng) if inner is None else inner
    if scope == "instance":
        for i in range(n):
            for _ in range(n_rows):
                blocks_rows.append((i, np.where(structure.instance == i, rng.integers(-1, 3, structure.n_unary), 0)))
        group = np.repeat(np.arange(n), n_rows)
    else:
        for _ in range(n_rows):
            blocks_rows.append((-1, rng.integers(-1, 3, structure.n_unary)))
        group = np.zeros(n_rows, np.int64)
    matrix = np.array([row for _, row in blocks_rows], float)
    shift = {None: 0.0, "penalty": 0.3, "bound": 0.1}[slack and slack.kind]
    bounds = matrix @ inner if equality else matrix @ inner - shift
    if groups == "own":
        group = np.arange(len(group))
    instance = np.array([i for i, _ in blocks_rows])
    block = Block("test rows", 0, len(group), equality, scope, slack, group, {})
    return Rows(sp.csr_array(matrix), bounds, instance, (block,))


def slack_norm(violation, norm):
    return {"l1": np.sum, "l2": np.linalg.norm, "linf": np.max}[norm](violation)


def slack_cost(rows, excess):
    """Penalties, and the worst violation beyond what is allowed, straight from the definitions."""
    cost, worst = 0.0, 0.0
    for block in rows.blocks:
        e = excess[block.start : block.stop]
        v = np.abs(e) if block.equality else np.maximum(e, 0)
        if block.slack is None:
            worst = max(worst, v.max())
            continue
        for g in np.unique(block.slack_group):
            size = slack_norm(v[block.slack_group == g], block.slack.norm)
            if block.slack.kind == "penalty":
                cost += block.slack.strength * size
            else:
                worst = max(worst, size - block.slack.strength)
    return cost, worst


def best_primal(structure, scores, rows, gamma):
    """Optimal value over explicit distributions by SLSQP (gamma > 0) or linear programming with l2 excluded."""
    n_of = [len(m) for m in structure.members]
    edges = np.concatenate([[0], np.cumsum(n_of)])
    total = np.concatenate([structure.scores_of(scores, i) for i in range(structure.n_instances)])
    dense = rows.matrix.toarray()
    A = np.concatenate([dense[:, structure.instance == i] @ m.T for i, m in enumerate(structure.members)], axis=1)
    n, r = len(total), len(rows.bounds)
    simplex = np.zeros((structure.n_instances, n))
    for i in range(structure.n_instances):
        simplex[i, edges[i] : edges[i + 1]] = 1
    # Variables: q, xi (violation allowed per row), t (norm per group).
    spans = []
    for block in rows.blocks:
        if block.slack is not None:
            for g in np.unique(block.slack_group):
                spans.append((block, block.start + np.flatnonzero(block.slack_group == g)))
    k = len(spans)
    n_all = n + r + k
    linear, limit, cost = [], [], np.zeros(n_all)
    upper_xi = np.zeros(r)
    for block in rows.blocks:
        for j in range(block.start, block.stop):
            for sign in (1.0, -1.0) if block.equality else (1.0,):
                row = np.zeros(n_all)
                row[:n], row[n + j] = sign * A[j], -1.0
                linear.append(row)
                limit.append(sign * rows.bounds[j])
    curved = []
    upper_t = np.full(k, 50.0)
    for g, (block, members) in enumerate(spans):
        upper_xi[members] = 50.0
        if block.slack.kind == "penalty":
            cost[n + r + g] = block.slack.strength
        else:
            upper_t[g] = block.slack.strength
        if block.slack.norm == "l2":
            curved.append((members, g))
        rows_here = [members] if block.slack.norm == "l1" else [[m] for m in members]
        for some in rows_here:
            row = np.zeros(n_all)
            row[n + np.asarray(some)] = 1.0
            row[n + r + g] = -1.0
            linear.append(row)
            limit.append(0.0)
    linear, limit = np.array(linear), np.array(limit)
    equal = np.hstack([simplex, np.zeros((structure.n_instances, r + k))])
    bounds = [(1e-14, 1.0)] * n + [(0, u) for u in upper_xi] + [(0, u) for u in upper_t]
    if gamma == 0:
        assert not curved
        c = cost.copy()
        c[:n] = -total
        bounds[:n] = [(0, 1)] * n
        result = so.linprog(c, linear, limit, equal, np.ones(len(equal)), bounds)
        return -result.fun

    def f(z):
        q = np.maximum(z[:n], 1e-300)
        gradient = cost.copy()
        gradient[:n] = -total + gamma * (np.log(q) + 1)
        return -total @ q + gamma * (q @ np.log(q)) + cost @ z, gradient

    constraints = [
        {"type": "ineq", "fun": lambda z: limit - linear @ z, "jac": lambda z: -linear},
        {"type": "eq", "fun": lambda z: equal @ z - 1, "jac": lambda z: equal},
    ]
    for members, g in curved:
        sign = np.zeros(n_all)
        sign[n + members], sign[n + r + g] = -1.0, 1.0
        constraints.append(
            {"type": "ineq", "fun": lambda z, sign=sign: sign @ z**2, "jac": lambda z, sign=sign: 2 * sign * z}
        )
    z0 = np.zeros(n_all)
    z0[:n] = np.repeat(1.0 / np.array(n_of), n_of)
    z0[n : n + r] = np.minimum(upper_xi, 1.0)
    z0[n + r :] = np.minimum(upper_t, 3.0)
    result = so.minimize(
        f,
        z0,
        jac=True,
        method="SLSQP",
        bounds=bounds,
        constraints=constraints,
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    return -result.fun


def explicit_primal(structure, scores, rows, gamma, multipliers):
    """Primal value and worst violation of the distribution that belongs to the multipliers, from its table."""
    price = rows.matrix.T @ multipliers
    total, mu = 0.0, np.zeros(structure.n_unary)
    for i in range(structure.n_instances):
        s = structure.scores_of(scores, i)
        inside = structure.instance == i
        tilted = (s - structure.members[i] @ price[inside]) / gamma
        q = np.exp(tilted - logsumexp(tilted))
        total += q @ s - gamma * (q[q > 0] @ np.log(q[q > 0]))
        mu[inside] = q @ structure.members[i]
    cost, worst = slack_cost(rows, rows.matrix @ mu - rows.bounds)
    return total - cost, worst


def best_integer(structure, scores, rows):
    """Best joint choice of one structure per instance, by trying all of them."""
    best = -np.inf
    for choice in itertools.product(*[range(len(m)) for m in structure.members]):
        mu = np.concatenate([m[c] for m, c in zip(structure.members, choice, strict=True)])
        cost, worst = slack_cost(rows, rows.matrix @ mu - rows.bounds)
        if worst <= 1e-9:
            value = sum(structure.scores_of(scores, i)[c] for i, c in enumerate(choice)) - cost
            best = max(best, value)
    return best


SLACKS = [None] + [
    Slack(kind, norm, strength)
    for kind, strength in (("penalty", 0.6), ("bound", 0.25))
    for norm in ("l1", "l2", "linf")
]


def enumerated_from(structure, enumerate_structures):
    """The same batch as a list of its structures; factors are laid end to end."""
    members, counts = [], []
    for i in range(structure.n_instances):
        every = list(enumerate_structures(structure, i))
        inside = structure.instance == i
        members.append(np.array([h.unary[inside] for h in every]))
        counts.append(np.array([np.concatenate([np.zeros(0), *[f.ravel() for f in h.factors]]) for h in every]))
    order = np.argsort(structure.instance, kind="stable")
    return Enumerated(members, counts), order
