"""Slack of the constraints, as terms of the dual and as costs of the primal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Block, Slack
from spectrem.inference.segments import max_by, sum_by
from spectrem.kernels.duals.spectral import project_l1_balls, project_l2_balls


@dataclass(frozen=True)
class SlackGroups:
    """The slack groups of one constraint.

    Attributes
    ----------
    slack : Slack
    rows : ndarray of shape (n_slack_rows,), int64
        Rows, group after group.
    offsets : ndarray of shape (n_groups + 1,), int64
    problem : ndarray of shape (n_groups,), int64
    weight : ndarray of shape (n_groups,)
        Factor of the group's cost in the objective of its problem.
    equality : bool
    """

    slack: Slack
    rows: Ints
    offsets: Ints
    problem: Ints
    weight: Floats
    equality: bool

    @cached_property
    def span(self) -> slice | Ints:
        """``rows`` as an index: a slice where they follow each other, so that no copy is made."""
        if len(self.rows) and (np.diff(self.rows) == 1).all():
            return slice(int(self.rows[0]), int(self.rows[-1]) + 1)
        return self.rows

    @property
    def coupled(self) -> bool:
        """Whether the dual term ties rows together instead of bounding or shrinking each on its own."""
        separable_norm = "l1" if self.slack.kind == "penalty" else "linf"
        return self.slack.norm != separable_norm and len(self.rows) > len(self.problem)

    def norm(self, violation: Floats, norm: str) -> Floats:
        """Norm of each group, shape (n_groups,), of nonnegative numbers in group order."""
        if norm == "l1":
            return np.add.reduceat(violation, self.offsets[:-1])
        if norm == "linf":
            return np.maximum.reduceat(violation, self.offsets[:-1])
        largest = np.maximum.reduceat(violation, self.offsets[:-1])
        unit = np.where(largest > 0, largest, 1.0)
        scaled = violation / np.repeat(unit, np.diff(self.offsets))
        return unit * np.sqrt(np.add.reduceat(scaled * scaled, self.offsets[:-1]))

    def prox(self, values: Floats, step: Floats) -> Floats:
        """Proximal step of a coupled dual term; ``values`` in group order, a ``step`` for every row of its own."""
        out, even = np.empty_like(values), np.ones(len(values))
        round_ball = self.slack.norm == "l2"
        project = project_l2_balls if round_ball else project_l1_balls
        if self.slack.kind == "penalty":
            strength = np.full(len(self.problem), float(self.slack.strength))
            project(values, even, np.where(step > 0, step, 1.0), self.offsets, strength, out)
            return out
        if not step.any():
            return values.copy()
        # Moreau's identity: the proximal step of a norm subtracts the projection onto the ball of its dual norm.
        strength = float(self.slack.strength) * self.weight
        project(values, 1.0 / step, 1.0 / step if round_ball else even, self.offsets, strength, out)
        return values - out


_DUAL_NORM = {"l1": "linf", "l2": "l2", "linf": "l1"}


@dataclass(frozen=True)
class SlackTerms:
    """Where the multipliers may lie and what they cost beyond the smooth part of the dual ([Ganchev2010] eqs 8, 23).

    Minimised over multipliers: a penalty ``sigma ||xi||`` demands ``||lambda||_* <= sigma``, a bound
    ``||xi|| <= epsilon`` adds ``epsilon ||lambda||_*``, rows ``<=`` demand ``lambda >= 0``.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_rows,)
        Box of the multipliers; norms that tie rows together are not in it.
    kink : ndarray of shape (n_rows,)
        Weight of ``|lambda|`` for rows whose bounded slack stands alone.
    equality : ndarray of shape (n_rows,), bool
    slackless : ndarray of shape (n_rows,), bool
    penalised : ndarray of shape (n_rows,), bool
    row_problem : ndarray of shape (n_rows,), int64
    n_problems : int
    groups : tuple of SlackGroups
    """

    lower: Floats
    upper: Floats
    kink: Floats
    equality: Bools
    slackless: Bools
    penalised: Bools
    row_problem: Ints
    n_problems: int
    groups: tuple[SlackGroups, ...]

    @cached_property
    def has_kinks(self) -> bool:
        """Whether some row has a term ``|lambda|`` of its own."""
        return bool(self.kink.any())

    @property
    def is_box(self) -> bool:
        """Whether the multipliers' feasible set is a box and the terms are linear on it."""
        return not any(g.coupled for g in self.groups) and not (self.kink[self.equality] > 0).any()

    def prox(self, values: Floats, step: Floats) -> Floats:
        """Multipliers that minimise the terms plus ``(lambda - values)^2 / (2 step)``.

        ``step`` has shape (n_rows,): all positive, or all 0 for the nearest point of the feasible set.
        """
        if self.has_kinks:
            values = np.sign(values) * np.maximum(np.abs(values) - step * self.kink, 0.0)
        out = np.clip(values, self.lower, self.upper)
        for group in self.groups:
            if group.coupled:
                out[group.span] = group.prox(out[group.span], step[group.span])
        return out

    def project(self, values: Floats) -> Floats:
        """Nearest multipliers in the dual feasible set."""
        return self.prox(values, np.zeros(len(values)))

    def value(self, multipliers: Floats) -> Floats:
        """Dual terms per problem, shape (n_problems,), of multipliers in the feasible set (not checked)."""
        total = np.zeros(self.n_problems)
        if self.has_kinks:
            total += sum_by(self.row_problem, self.kink * np.abs(multipliers), self.n_problems)
        for group in self.groups:
            if group.coupled and group.slack.kind == "bound":
                norm = group.norm(np.abs(multipliers[group.rows]), _DUAL_NORM[group.slack.norm])
                total += sum_by(group.problem, group.weight * group.slack.strength * norm, self.n_problems)
        return total

    def recession(self, multipliers: Floats) -> Floats:
        """``multipliers``, but 0 for rows with a penalty, which bounds theirs; all others may grow without bound."""
        return np.where(self.penalised, 0.0, multipliers)

    def violation(self, excess: Floats) -> Floats:
        """The violation of each row by ``U mu - b``: its positive part for ``<=`` rows, its size for ``==`` rows."""
        return np.where(self.equality, np.abs(excess), np.maximum(excess, 0.0))

    def cost(self, excess: Floats) -> Floats:
        """Penalties per problem in nats, shape (n_problems,), of ``excess = U mu - b``."""
        violation = self.violation(excess)
        total = np.zeros(self.n_problems)
        for group in self.groups:
            if group.slack.kind == "penalty":
                norm = group.norm(violation[group.rows], group.slack.norm)
                total += sum_by(group.problem, group.weight * group.slack.strength * norm, self.n_problems)
        return total

    def worst_violation(self, excess: Floats, size: Floats | None = None) -> Floats:
        """Largest violation per problem beyond the slack allowed, shape (n_problems,).

        In units of the rows or, given the ``size`` of every row, relative to it.
        """
        violation = self.violation(excess)
        unit = np.ones(len(excess)) if size is None else size
        worst = max_by(self.row_problem[self.slackless], (violation / unit)[self.slackless], self.n_problems)
        for group in self.groups:
            if group.slack.kind == "bound":
                over = group.norm(violation[group.rows], group.slack.norm) - group.slack.strength
                over /= np.maximum.reduceat(unit[group.rows], group.offsets[:-1])
                worst = np.maximum(worst, max_by(group.problem, over, self.n_problems))
        return worst


def compile_slack(
    blocks: tuple[Block, ...], row_problem: Ints, n_problems: int, row_weight: Floats | None = None
) -> SlackTerms:
    """Slack terms of the rows described by ``blocks``, whose dual splits into problems by ``row_problem``."""
    n_rows = len(row_problem)
    weight = np.ones(n_rows) if row_weight is None else row_weight
    equality = np.zeros(n_rows, bool)
    slackless = np.ones(n_rows, bool)
    penalised = np.zeros(n_rows, bool)
    lower, upper, kink = np.full(n_rows, -np.inf), np.full(n_rows, np.inf), np.zeros(n_rows)
    groups = []
    for block in blocks:
        span = slice(block.start, block.stop)
        equality[span] = block.equality
        if not block.equality:
            lower[span] = 0.0
        if block.slack is None or block.stop == block.start:
            continue
        slackless[span] = False
        penalised[span] = block.slack.kind == "penalty"
        order = np.argsort(block.slack_group, kind="stable")
        counts = np.bincount(block.slack_group)
        rows = block.start + order
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        first = rows[offsets[:-1]]
        group = SlackGroups(block.slack, rows, offsets, row_problem[first], weight[first], block.equality)
        groups.append(group)
        if group.coupled:
            continue
        if block.slack.kind == "penalty":
            upper[span] = block.slack.strength
            lower[span] = np.maximum(lower[span], -block.slack.strength)
        else:
            kink[span] = block.slack.strength * weight[span]
    return SlackTerms(lower, upper, kink, equality, slackless, penalised, row_problem, n_problems, tuple(groups))
