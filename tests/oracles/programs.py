"""Linear, integer and convex programs over listed structures, by SciPy: what is best under rows with slack.

Maximises ``sum_i w_i (<s_i, q_i> + gamma H(q_i)) - slack`` over distributions q_i over the structures of instance i.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.optimize as so
import scipy.sparse as sp
from scipy.special import logsumexp

EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
FAR = {"l1": "linf", "l2": "l2", "linf": "l1"}  # the dual norms


@dataclass
class Slack:
    kind: str
    strength: float
    norm: str
    rows: np.ndarray
    weight: float  # of a penalty: that of the instance where the rows lie inside one


class Program:
    """Structures of all instances end to end, and rows over them.

    Attributes
    ----------
    owner, score : arrays of shape (n,)
        The instance of every possible structure, and its score.
    members : array of shape (n, n_parts)
    left : array of shape (n_rows, n)
        What a structure adds to the left side of a row.
    """

    def __init__(self, owner, score, members, weights, coefficients, bounds, equality, slacks):
        self.owner, self.score, self.members, self.weights = owner, score, members, np.asarray(weights, float)
        self.n_instances = len(self.weights)
        self.coefficients = coefficients
        self.left = coefficients @ members.T
        self.bounds, self.equality, self.slacks = bounds, equality, slacks
        self.slack_of = np.full(len(bounds), -1)
        for g, slack in enumerate(slacks):
            self.slack_of[slack.rows] = g
        best = np.array([score[owner == i].max() for i in range(self.n_instances)])
        self.top = best
        self.spread = max(1.0, float((best[owner] - score).max(initial=0.0)))

    # what a distribution is worth

    def judge(self, q, gamma):
        """The value of distributions q, and their worst violation beyond the slack allowed."""
        logs = np.log(np.where(q > 0, q, 1.0))
        value = float((self.weights[self.owner] * q) @ (self.score - gamma * logs))
        excess = self.left @ q - self.bounds
        violation = np.where(self.equality, np.abs(excess), np.maximum(excess, 0.0))
        worst = violation[self.slack_of < 0].max(initial=0.0)
        for slack in self.slacks:
            size = norm(violation[slack.rows], slack.norm)
            if slack.kind == "penalty":
                value -= slack.weight * slack.strength * size
            else:
                worst = max(worst, size - slack.strength)
        return value, float(worst)

    def cost_of(self, expected):
        """Penalties and the worst violation where only ``left @ q`` is known."""
        excess = expected - self.bounds
        violation = np.where(self.equality, np.abs(excess), np.maximum(excess, 0.0))
        cost, worst = 0.0, violation[self.slack_of < 0].max(initial=0.0)
        for slack in self.slacks:
            size = norm(violation[slack.rows], slack.norm)
            if slack.kind == "penalty":
                cost += slack.weight * slack.strength * size
            else:
                worst = max(worst, size - slack.strength)
        return cost, float(worst)

    # linear and integer programs

    def linear(self, objective, only=None, hard=True, whole=False, paid=True):
        """Maximise ``objective @ q`` less penalties; q, or None if nothing meets the rows.

        ``only`` keeps some rows; without ``hard``, rows (and bounds of slack) may be missed, and the miss is minimised.
        """
        n, r, g = len(self.owner), len(self.bounds), len(self.slacks)
        keep = np.ones(r, bool) if only is None else only
        total = n + r + g + 1  # q, violations, norms, the miss
        below, limit = [], []

        def at_most(value, *pairs):
            row = np.zeros(total)
            for where, what in pairs:
                row[where] += what
            below.append(row)
            limit.append(value)

        upper = np.full(total, np.inf)
        for j in np.flatnonzero(keep):
            for sign in (1.0, -1.0) if self.equality[j] else (1.0,):
                pairs = [(slice(0, n), sign * self.left[j])]
                pairs.append((n + j, -1.0) if self.slack_of[j] >= 0 else (total - 1, -1.0))
                at_most(sign * self.bounds[j], *pairs)
        cost, curved = np.zeros(total), []
        for k, slack in enumerate(self.slacks):
            rows, t = slack.rows[keep[slack.rows]], n + r + k
            if not len(rows):
                continue
            if slack.norm == "l1":
                at_most(0.0, (n + rows, 1.0), (t, -1.0))
            else:
                for j in rows:
                    at_most(0.0, (n + j, 1.0), (t, -1.0))
            if slack.norm == "l2":
                curved.append((n + rows, t))
            if slack.kind == "penalty":
                cost[t] = slack.weight * slack.strength if paid or k == g - 1 else 0.0
            else:
                at_most(slack.strength, (t, 1.0), (total - 1, -1.0))
        upper[total - 1] = 0.0 if hard else np.inf
        cost[:n] -= objective
        if not hard:
            cost[:] = 0.0
            cost[total - 1] = 1.0
        simplex = sp.csr_array((np.ones(n), (self.owner, np.arange(n))), shape=(self.n_instances, total))
        for _ in range(200):
            result = self._run(cost, below, limit, simplex, upper, n if whole else 0)
            if result is None:
                return None
            n_before = len(below)
            for variables, t in curved:
                x = result[variables]
                size = np.sqrt(x @ x)
                if size > result[t] + 1e-9:
                    at_most(0.0, (variables, x / size), (t, -1.0))
            if len(below) == n_before:
                break
        return result[:n] if hard else float(result[total - 1])

    def _run(self, cost, below, limit, simplex, upper, n_whole):
        matrix = sp.csr_array(np.array(below).reshape(-1, len(cost)))
        ones = np.ones(self.n_instances)
        if n_whole:
            integral = (np.arange(len(cost)) < n_whole).astype(int)
            rules = [so.LinearConstraint(simplex, ones, ones)]
            if len(limit):
                rules.append(so.LinearConstraint(matrix, -np.inf, limit))
            result = so.milp(cost, integrality=integral, bounds=so.Bounds(0, upper), constraints=rules,
                             options={"mip_rel_gap": 0.0})  # fmt: skip
        else:
            bounds = np.column_stack([np.zeros(len(cost)), upper])
            some = (matrix, limit) if len(limit) else (None, None)
            result = so.linprog(cost, *some, simplex, ones, bounds, method="highs", options=EXACT)
        return result.x if result.status == 0 else None

    def missing(self, only=None):
        """By how much any distribution misses the rows at least; 0 where they can be met."""
        return self.linear(np.zeros(len(self.owner)), only, hard=False)

    def unit(self):
        """Scores as objectives of programs: nats over the largest difference, so that tolerances have a meaning."""
        return self.weights[self.owner] * (self.score - self.top[self.owner]) / self.spread

    def best_mixture(self):
        """The best value at gamma = 0, or None."""
        scaled = self._scaled()
        q = scaled.linear(scaled.unit())
        return None if q is None else self.judge(clean(q, self.owner), 0.0)[0]

    def best_whole(self):
        """The best value of whole structures, or None; by trying all, or by an integer program where they are many."""
        pools = [np.flatnonzero(self.owner == i) for i in range(self.n_instances)]
        if np.prod([float(len(pool)) for pool in pools]) > 3000:
            scaled = self._scaled()
            q = scaled.linear(scaled.unit(), whole=True)
            return None if q is None else self.judge(np.rint(q), 0.0)[0]
        best = None
        for chosen in itertools.product(*pools):
            q = np.zeros(len(self.owner))
            q[list(chosen)] = 1.0
            value, worst = self.judge(q, 0.0)
            if worst <= 1e-7 and (best is None or value > best):
                best = value
        return best

    def _scaled(self):
        """The same with penalties in units of the spread of the scores."""
        slacks = [
            Slack(s.kind, s.strength / (self.spread if s.kind == "penalty" else 1.0), s.norm, s.rows, s.weight)
            for s in self.slacks
        ]
        scaled = object.__new__(Program)
        scaled.__dict__.update(self.__dict__, slacks=slacks)
        return scaled

    # gamma > 0

    def support(self):
        """Structures that some distribution that meets the rows uses: one program over the cone of such distributions.

        Without the others, multipliers that solve the dual exist.
        """
        if not len(self.bounds):
            return np.ones(len(self.owner), bool)
        n, r, g = len(self.owner), len(self.bounds), len(self.slacks)
        total = 2 * n + r + g + 1  # q, how much of it counts (at most 1), violations, norms, the scale
        below, limit = [], []

        def at_most(*pairs):
            row = np.zeros(total)
            for where, what in pairs:
                row[where] += what
            below.append(row)
            limit.append(0.0)

        for j in range(r):
            for sign in (1.0, -1.0) if self.equality[j] else (1.0,):
                pairs = [(slice(0, n), sign * self.left[j]), (total - 1, -sign * self.bounds[j])]
                at_most(*pairs, *([(2 * n + j, -1.0)] if self.slack_of[j] >= 0 else []))
        for k, slack in enumerate(self.slacks):
            if slack.kind == "penalty":
                continue
            # a norm of at most l1 size over the number of rows: the ball's interior is what matters
            share = {"l1": 1.0, "l2": np.sqrt(len(slack.rows)), "linf": float(len(slack.rows))}[slack.norm]
            if slack.norm == "l1":
                at_most((2 * n + slack.rows, 1.0), (total - 1, -slack.strength))
            elif slack.norm == "linf":
                for j in slack.rows:
                    at_most((2 * n + j, 1.0), (total - 1, -slack.strength))
            else:  # the polygon of cuts around a ball is refined where it is touched
                at_most((2 * n + slack.rows, 1.0), (total - 1, -slack.strength * share))
                for j in slack.rows:
                    at_most((2 * n + j, 1.0), (total - 1, -slack.strength))
        eye, zero = sp.eye_array(n), sp.csr_array((n, total - 2 * n))
        used = sp.hstack([-eye, eye, zero])
        simplex = sp.csr_array((np.ones(n), (self.owner, np.arange(n))), shape=(self.n_instances, total)).tolil()
        simplex[:, total - 1] = -1.0
        bounds = [(0, None)] * n + [(0, 1)] * n + [(0, None)] * (r + g) + [(1, None)]
        cost = np.concatenate([np.zeros(n), -np.ones(n), np.zeros(total - 2 * n)])
        result = so.linprog(cost, sp.vstack([sp.csr_array(np.array(below)), used]), np.zeros(len(below) + n),
                            sp.csr_array(simplex), np.zeros(self.n_instances), bounds, method="highs")  # fmt: skip
        return result.x[n : 2 * n] > 0.5 if result.status == 0 else np.ones(n, bool)

    def tilted(self, multipliers, gamma, kept):
        """The distributions that belong to multipliers, and the sum of smoothed maxima."""
        q, value = np.zeros(len(self.owner)), 0.0
        price = multipliers @ self.left
        for i in range(self.n_instances):
            at = np.flatnonzero((self.owner == i) & kept)
            weight = self.weights[i]
            # a row that spans instances has their weights in its entries, which the smoothed maximum of one copy has not
            scores = (self.score[at] - price[at] / weight) / gamma
            whole = logsumexp(scores)
            q[at] = np.exp(scores - whole)
            value += weight * gamma * whole
        return q, value

    def smooth(self, gamma):
        """Bounds on the best value at gamma > 0, from below and above, and the distributions of the lower one."""
        if self.spread > 1e6:  # the best mixture is nearly all of it
            mixture, sizes = self.best_mixture(), np.bincount(self.owner)
            return mixture, mixture + gamma * float(self.weights @ np.log(sizes)), None
        kept = self.support()
        r = len(self.bounds)
        lower_of = np.where(self.equality, -np.inf, 0.0)
        if r == 0:
            q, value = self.tilted(np.zeros(0), gamma, kept)
            return value, value, q
        # variables: positive and negative parts of multipliers (scaled), then a length for every bound of slack
        scale, n_slack = max(gamma, 1.0) if self.spread < 50 else self.spread, len(self.slacks)

        def split(x):
            return x[:r] - x[r : 2 * r], x[: 2 * r], x[2 * r :]

        def dual(x):
            y, both, lengths = split(x)
            q, value = self.tilted(scale * y, gamma, kept)
            slope = self.bounds - self.left @ q
            added = np.array([s.strength if s.kind == "bound" else 0.0 for s in self.slacks])
            gradient = np.concatenate([scale * slope, -scale * slope, scale * added]) / scale
            return (value + scale * (y @ self.bounds) + scale * (added @ lengths)) / scale, gradient

        rules, upper = [], np.full(2 * r + n_slack, np.inf)
        upper[r : 2 * r][~self.equality] = 0.0
        for k, slack in enumerate(self.slacks):
            rows, places = slack.rows, np.concatenate([slack.rows, r + slack.rows])
            most = slack.weight * slack.strength / scale
            at, far = 2 * r + k, FAR[slack.norm]
            row = np.zeros(2 * r + n_slack)
            limited = slack.kind == "penalty"
            upper[at] = 0.0 if limited else np.inf
            if far == "l1":
                row[places] = -1.0
                row[at] = 0.0 if limited else 1.0
                rules.append(linear_rule(row, most if limited else 0.0))
            elif far == "linf":
                for j in rows:
                    row = np.zeros(2 * r + n_slack)
                    row[[j, r + j]] = -1.0
                    row[at] = 0.0 if limited else 1.0
                    rules.append(linear_rule(row, most if limited else 0.0))
            else:
                rules.append(ball_rule(places, at, most, limited))
        best_upper, best_lower, best_q = np.inf, -np.inf, None
        x = np.full(2 * r + n_slack, 0.0)
        for k, slack in enumerate(self.slacks):
            x[2 * r + k] = 0.1 if slack.kind == "bound" else 0.0
        for _ in range(4):
            with np.errstate(all="ignore"):
                found = so.minimize(dual, x, jac=True, method="SLSQP", bounds=list(zip(np.zeros(len(x)), upper, strict=True)),
                                    constraints=rules, options={"ftol": 1e-15, "maxiter": 300})  # fmt: skip
            if not np.isfinite(found.x).all():
                break
            y = scale * (found.x[:r] - found.x[r : 2 * r])
            y = self._allowed(np.maximum(y, lower_of))
            q, value = self.tilted(y, gamma, kept)
            bound = value + y @ self.bounds + self._lengths(y)
            best_upper = min(best_upper, bound)
            near = self.nearest(q)
            if near is not None and (got := self.judge(near, gamma)[0]) > best_lower:
                best_lower, best_q = got, near
            if best_upper - best_lower < 1e-8 * max(1.0, abs(best_upper)):
                break
            x = np.maximum(found.x, 0.0) * 0.9
        return best_lower, best_upper, best_q

    def nearest(self, q):
        """Distributions that meet the rows, near to q in l1."""
        n = len(q)
        twice = object.__new__(Program)  # q less the nearest ones is a violation of n equalities under an l1 penalty
        rows = np.arange(len(self.bounds), len(self.bounds) + n)
        twice.__dict__.update(
            self.__dict__, left=np.vstack([self.left, np.eye(n)]), bounds=np.concatenate([self.bounds, q]),
            equality=np.concatenate([self.equality, np.ones(n, bool)]),
            slack_of=np.concatenate([self.slack_of, np.full(n, len(self.slacks))]),
            slacks=[*self.slacks, Slack("penalty", 1.0, "l1", rows, 1.0)],
        )  # fmt: skip
        found = twice.linear(np.zeros(n), paid=False)
        return None if found is None else clean(found, self.owner)

    def _allowed(self, y):
        """Multipliers in the set that penalties allow."""
        y = y.copy()
        for slack in self.slacks:
            if slack.kind == "penalty":
                size, most = norm(y[slack.rows], FAR[slack.norm]), slack.weight * slack.strength
                if size > most:
                    y[slack.rows] *= most / size
        return y

    def _lengths(self, y):
        return sum(s.strength * norm(y[s.rows], FAR[s.norm]) for s in self.slacks if s.kind == "bound")


def linear_rule(row, constant):
    return {"type": "ineq", "fun": lambda x: row @ x + constant, "jac": lambda x: row}


def ball_rule(places, at, most, limited):
    half = len(places) // 2

    def fun(x):
        y = x[places[:half]] - x[places[half:]]
        return (most**2 if limited else x[at] ** 2) - y @ y

    def jac(x):
        out = np.zeros(len(x))
        y = x[places[:half]] - x[places[half:]]
        out[places[:half]], out[places[half:]] = -2 * y, 2 * y
        out[at] = 0.0 if limited else 2 * x[at]
        return out

    return {"type": "ineq", "fun": fun, "jac": jac}


def norm(values, kind):
    size = np.abs(values)
    return float(size.sum() if kind == "l1" else size.max(initial=0.0) if kind == "linf" else np.sqrt(size @ size))


def clean(q, owner):
    """Distributions without the tiny errors of a linear program."""
    q = np.maximum(q, 0.0)
    return q / np.bincount(owner, q)[owner]
