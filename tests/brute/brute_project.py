"""Brute-force evaluation of constrained E-steps of small batches, structure by structure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Parts, Structure
from spectrem.testing.check import Enumerator, enumerate_structures

_MOST_CHOICES = 200_000
_DUAL_NORM = {"l1": "linf", "l2": "l2", "linf": "l1"}
_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class ListedStructures:
    """All possible structures of a small batch, with the values of constraint rows on each of them.

    Attributes
    ----------
    owner : ndarray of shape (n_structures,), int64
        The instance of every structure.
    score : ndarray of shape (n_structures,)
        Score, nats, less that of the best structure of the instance; at most 0.
    shift : float
        The sum over instances of the scores of their best structures, nats.
    unary : ndarray of shape (n_structures, n_unary)
    left : ndarray of shape (n_rows, n_structures)
        The contribution of every structure to the left side of each row.
    rows : Rows
    size : ndarray of shape (n_rows,)
        The largest of the bound, the coefficients and ``left``: the unit of a violation.
    """

    owner: NDArray[np.int64]
    score: NDArray[np.float64]
    shift: float
    unary: NDArray[np.float64]
    left: NDArray[np.float64]
    rows: Rows
    size: NDArray[np.float64]

    @property
    def spread(self) -> float:
        """The largest difference between scores of structures of one instance, nats."""
        return float(-self.score.min())

    def instances(self) -> list[NDArray[np.int64]]:
        """The structures of every instance."""
        return [np.flatnonzero(self.owner == i) for i in range(int(self.owner.max(initial=-1)) + 1)]

    def groups(self) -> Iterator[tuple[Block, NDArray[np.int64]]]:
        """Sets of rows that share slack, with their blocks; rows without slack one by one."""
        for block in self.rows.blocks:
            index = np.arange(block.start, block.stop)
            labels = np.arange(len(index)) if block.slack is None else block.slack_group
            for label in np.unique(labels):
                yield block, index[labels == label]

    def judge(self, excess: NDArray[np.float64]) -> tuple[float, float]:
        """For ``U mu - b``, the penalty in nats and the largest violation beyond the slack, relative to its row."""
        cost = worst = 0.0
        for block, index in self.groups():
            violation = np.abs(excess[index]) if block.equality else np.maximum(excess[index], 0.0)
            if block.slack is None:
                worst = max(worst, float((violation / self.size[index]).max()))
            elif block.slack.kind == "penalty":
                cost += block.slack.strength * norm_of(violation, block.slack.norm)
            else:
                over = norm_of(violation, block.slack.norm) - block.slack.strength
                worst = max(worst, over / max(float(self.size[index].max()), block.slack.strength))
        return cost, worst

    def tilted(self, gamma: float, multipliers: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, float]:
        """Probabilities of all structures at some multipliers, the dual and the primal value, nats."""
        q = np.zeros(len(self.score))
        dual, primal = float(self.rows.bounds @ multipliers), 0.0
        priced = self.score - self.left.T @ multipliers
        for own in self.instances():
            top = priced[own].max()
            mass = np.exp((priced[own] - top) / gamma)
            log_total = np.log(mass.sum())
            q[own] = mass / mass.sum()
            dual += top + gamma * log_total
            log_q = (priced[own] - top) / gamma - log_total
            primal += float(q[own] @ (self.score[own] - gamma * np.where(q[own] > 0, log_q, 0.0)))
        for block, index in self.groups():
            if block.slack is not None and block.slack.kind == "bound":
                dual += block.slack.strength * norm_of(multipliers[index], _DUAL_NORM[block.slack.norm])
        cost, _ = self.judge(self.left @ q - self.rows.bounds)
        return q, dual + self.shift, primal - cost + self.shift

    def outside(self, multipliers: NDArray[np.float64]) -> float:
        """The largest excess of multipliers over their limits: below 0 for ``<=``, or above the penalty's strength."""
        worst = 0.0
        for block, index in self.groups():
            own = multipliers[index]
            if not block.equality:
                worst = max(worst, float(-(own * self.size[index]).min()))
            if block.slack is not None and block.slack.kind == "penalty":
                worst = max(worst, norm_of(own, _DUAL_NORM[block.slack.norm]) / block.slack.strength - 1.0)
        return worst

    def best_choice(self) -> float | None:
        """Score less penalties of the best structures, one per instance, that meet the rows; None if none do."""
        every = self.instances()
        n = int(np.prod([len(own) for own in every]))
        if n > _MOST_CHOICES:
            raise InvalidInputError(
                f"structure must have at most {_MOST_CHOICES} joint choices for gamma = -inf, got {n}; "
                "take fewer or shorter instances"
            )
        best = None
        for choice in itertools.product(*every):
            index = list(choice)
            cost, worst = self.judge(self.left[:, index].sum(axis=1) - self.rows.bounds)
            if worst <= 1e-9:
                value = float(self.score[index].sum()) - cost
                best = value if best is None else max(best, value)
        return None if best is None else best + self.shift

    def best_mixture(self) -> float | None:
        """The linear relaxation: score less penalties of the best distributions that meet the rows; None if none do."""
        result = self._program(feasible=False)
        return None if result is None else -float(result.fun) * max(self.spread, 1e-300) + self.shift

    def missing(self) -> float:
        """The least sum of violations beyond the slack, relative to the rows: 0 if distributions can meet them."""
        result = self._program(feasible=True)
        return np.nan if result is None else float(result.fun)

    def _program(self, *, feasible: bool) -> Any:
        """The solution by HiGHS of a linear program, None if it is infeasible.

        Its variables are the probabilities q, violations in units of their rows, norms of groups of them, and the
        amount by which each row is missed. Tangents bound an l2 norm from below; they are added until it is exact.
        """
        n, n_rows = len(self.score), len(self.rows.bounds)
        slack = [(block, index) for block, index in self.groups() if block.slack is not None]
        norms = n + n_rows + np.arange(len(slack))
        lack = n + n_rows + len(slack) + np.arange(n_rows)
        n_all = n + 2 * n_rows + len(slack)
        scale = max(self.spread, 1e-300)
        cost, upper = np.zeros(n_all), np.full(n_all, np.inf)
        upper[n : n + n_rows] = 0.0
        upper[lack] = np.inf if feasible else 0.0
        cost[lack] = 1.0 if feasible else 0.0
        if not feasible:
            cost[:n] = -self.score / scale
        below: list[NDArray[np.float64]] = []
        limit: list[float] = []

        def at_most(bound: float, *coefficients: tuple[Any, Any]) -> None:
            line = np.zeros(n_all)
            for variables, values in coefficients:
                line[variables] = values
            below.append(line)
            limit.append(bound)

        for block in self.rows.blocks:
            for row in range(block.start, block.stop):
                for sign in (1.0, -1.0) if block.equality else (1.0,):
                    per_unit = sign / self.size[row]
                    left = slice(n), per_unit * self.left[row]
                    at_most(per_unit * self.rows.bounds[row], left, ([n + row, lack[row]], -1.0))
        curved = []
        for norm, (block, index) in zip(norms, slack, strict=True):
            assert block.slack is not None
            unit = float(self.size[index].max())
            upper[n + index] = np.inf
            if block.slack.kind == "bound":
                upper[norm] = block.slack.strength / unit
            else:
                upper[lack[index]] = 0.0
                cost[norm] = 0.0 if feasible else block.slack.strength * unit / scale
            share = self.size[index] / unit
            together = [np.arange(len(index))] if block.slack.norm == "l1" else [[k] for k in range(len(index))]
            for some in together:
                at_most(0.0, (n + index[some], share[some]), (norm, -1.0))
            if block.slack.norm == "l2" and len(index) > 1:
                curved.append((n + index, share, norm))
        instances = self.instances()
        equal = np.zeros((len(instances), n_all))
        for i, own in enumerate(instances):
            equal[i, own] = 1.0
        solve: Any = scipy.optimize.linprog
        for _ in range(200):
            result = solve(
                cost, np.array(below) if below else None, limit or None, equal, np.ones(len(instances)),
                np.column_stack([np.zeros(n_all), upper]), method="highs", options=_EXACT,
            )  # fmt: skip
            if result.status != 0:
                return None
            n_before = len(below)
            for variables, share, norm in curved:
                violation = share * result.x[variables]
                length = float(np.sqrt(violation @ violation))
                if length > result.x[norm] + 1e-9:
                    at_most(0.0, (variables, share * violation / length), (norm, -1.0))
            if len(below) == n_before:
                break
        return result


def list_structures(
    structure: Structure, scores: Parts, rows: Rows, enumerator: Enumerator = enumerate_structures
) -> ListedStructures:
    """Every possible structure of every instance, with the rows' values on it."""
    owner, score, unary = [], [], []
    shift = 0.0
    for i in range(structure.n_instances):
        found = [h for h in enumerator(structure, i) if scores.dot(h) > -np.inf]
        if not found:
            raise InvalidInputError(f"scores of instance {i} must leave at least one structure possible; got none")
        own = np.array([scores.dot(h) for h in found])
        owner += [i] * len(found)
        score.append(own - own.max())
        shift += float(own.max())
        unary += [h.unary for h in found]
    members = np.array(unary).reshape(len(owner), structure.n_unary)
    left = np.asarray(rows.matrix @ members.T).reshape(len(rows.bounds), len(owner))
    largest = np.abs(rows.matrix.toarray()).max(axis=1, initial=0.0)
    size = np.maximum.reduce([np.abs(rows.bounds), largest, np.abs(left).max(axis=1, initial=0.0)])
    flat = np.concatenate([np.zeros(0), *score])
    return ListedStructures(np.array(owner, np.int64), flat, shift, members, left, rows, np.where(size > 0, size, 1.0))


def norm_of(values: NDArray[np.float64], norm: str) -> float:
    """l1, l2 or linf norm."""
    size = np.abs(values)
    return float(size.sum() if norm == "l1" else size.max() if norm == "linf" else np.sqrt(size @ size))
