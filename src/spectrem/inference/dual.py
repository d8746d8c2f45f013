"""The dual of a constrained E-step: sums by label, the terms of slack, and one smoothed maximum per evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple, Protocol, cast

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.rows import PIECE, Alike, Block, Rows, Slack
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.kernels.categorical import (
    normalise_rows,
    shift_kinds,
    shift_rows,
    sort_kinds,
    sum_kinds,
)
from spectrem.kernels.duals.spectral import project_l1_balls, project_l2_balls
from spectrem.kernels.sparse import product_where
from spectrem.structures import Product
from spectrem.structures._ragged import offsets_of
from spectrem.structures.categorical import Categorical
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels, Structure, has_one_label


def sum_by(label: Ints, values: Floats, n: int) -> Floats:
    """Sum of the values of each label, shape (n,).

    Examples
    --------
    >>> sum_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3)
    array([1., 0., 5.])
    """
    if n == 1:
        return np.array([values.sum()], np.float64)
    return np.bincount(label, values, n).astype(np.float64, copy=False)


def max_by(label: Ints, values: Floats, n: int) -> Floats:
    """Largest of the nonnegative values of each label, 0 where there is none, shape (n,).

    Examples
    --------
    >>> max_by(np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]), 3)
    array([1., 0., 3.])
    """
    if n == 1:
        return np.array([values.max(initial=0.0)])
    out = np.zeros(n)
    np.maximum.at(out, label, values)
    return out


def share_equally(label: Ints, weight: Floats, total: Floats) -> Floats:
    """The share of one copy of each entry in the total of its label, when entries count ``weight`` times.

    Examples
    --------
    >>> share_equally(np.array([0, 0, -1]), np.array([1.0, 3.0, 1.0]), np.array([8.0]))
    array([2., 2., 0.])
    """
    if len(total) == 1 and label.min(initial=0) >= 0:
        return np.broadcast_to(total / max(weight.sum(), 1e-300), len(label))
    inside = label >= 0
    size = sum_by(label[inside], weight[inside], len(total))
    return np.append(total / np.where(size > 0, size, 1.0), 0.0)[label]


def members_of(label: Ints, n: int) -> tuple[Ints, Ints]:
    """The entries of every label, label after label, and where each label begins; entries of label -1 are left out.

    Examples
    --------
    >>> members_of(np.array([1, -1, 0, 1]), 2)
    (array([2, 0, 3]), array([0, 1, 3]))
    """
    if n == 1 and label.min(initial=0) == 0:
        return np.arange(len(label)), np.array([0, len(label)])
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(n + 1))
    return order[edges[0] :], edges - edges[0]


def row_maxima(matrix: sp.csr_array, column: Floats | None = None) -> Floats:
    """Largest ``|entry| * column`` of every row, 0 for those without entries.

    Examples
    --------
    >>> row_maxima(sp.csr_array([[1.0, -2.0], [0.0, 0.0]]), np.array([3.0, 1.0]))
    array([3., 0.])
    """
    largest, filled = np.zeros(len(matrix.indptr) - 1), np.flatnonzero(np.diff(matrix.indptr))
    size = np.abs(matrix.data) if column is None else np.abs(matrix.data) * column[matrix.indices]
    if len(filled):
        largest[filled] = np.maximum.reduceat(size, matrix.indptr[filled])
    return largest


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

    def freedom(self, group: int, multipliers: Floats, excess: Floats) -> tuple[Floats, Floats]:
        """Directions, as columns, and second derivatives of one coupled group; see `SlackTerms.freedom`."""
        strength, even = float(self.slack.strength), np.eye(len(multipliers))
        size, length = np.abs(multipliers), float(np.linalg.norm(multipliers))
        curvature, loose = np.zeros_like(even), (size > 0) | self.equality
        if self.slack.kind == "bound":
            if length == 0.0:
                return even[:, :0], curvature
            if self.slack.norm == "l2":
                unit = multipliers / length
                curvature = strength * float(self.weight[group]) / length * (even - np.outer(unit, unit))
                return even[:, loose], curvature
            top = size >= (1.0 - _NEAR) * size.max()  # these move together
            return np.column_stack([even[:, loose & ~top], np.sign(multipliers) * top]), curvature
        round_ball = self.slack.norm == "l2"
        if (length if round_ball else size.sum()) < (1.0 - _NEAR) * strength:
            return even[:, loose], curvature
        # On the ball they move along it.
        normal = multipliers if round_ball else np.sign(multipliers)
        if round_ball:
            curvature = max(float(excess @ multipliers), 0.0) / strength**2 * even
        else:
            loose &= size > 0
        pivot = int(size.argmax())
        even[pivot] -= normal / normal[pivot]
        return even[:, loose & (np.arange(len(size)) != pivot)], curvature


# Distance, relative to its strength, at which a slack counts as used up.
_NEAR = 1e-7
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

    def freedom(self, multipliers: Floats, excess: Floats) -> tuple[sp.csr_array, sp.csr_array]:
        """How the multipliers of the minimum move when the smooth part of the dual changes a little.

        Parameters
        ----------
        multipliers : ndarray of shape (n_rows,)
            At the minimum; exactly at their bounds where these hold them.
        excess : ndarray of shape (n_rows,)
            ``U mu - b`` there.

        Returns
        -------
        directions : csr_array of shape (n_rows, n_free)
            Their columns span the moves that bounds, kinks and norms of slack leave.
        curvature : csr_array of shape (n_rows, n_rows)
            Second derivatives, along these moves, that slack adds to those of the smooth part.
        """
        n = len(multipliers)
        free = (multipliers > self.lower) & (multipliers < self.upper) & ((self.kink == 0.0) | (multipliers != 0.0))
        curved = []
        for slack in self.groups:
            for k in range(len(slack.problem) if slack.coupled else 0):
                rows = slack.rows[slack.offsets[k] : slack.offsets[k + 1]]
                free[rows] = False
                curved.append((rows, *slack.freedom(k, multipliers[rows], excess[rows])))
        rows = np.flatnonzero(free)
        directions = [sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n, len(rows)))]
        bends = [sp.csr_array((n, n))]
        for rows, moves, bent in curved:
            spread = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n, len(rows)))
            directions.append(spread @ sp.csr_array(moves))
            bends.append(spread @ sp.csr_array(bent) @ spread.T)
        return sp.csr_array(sp.hstack(directions, format="csr")), sp.csr_array(sum(bends[1:], bends[0]))

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


class Evaluation(NamedTuple):
    """The smooth part of the dual at some multipliers.

    Attributes
    ----------
    value : ndarray of shape (n_problems,)
        ``b . lambda + sum_i smax_gamma(s_i - U^T lambda)`` in nats; 0 for problems that were not asked for.
    gradient : ndarray of shape (n_rows,)
        ``row_weight * (b - U mu)``.
    """

    value: Floats
    gradient: Floats


class DualFunction(Protocol):
    """The function that solvers minimise: convex in the multipliers, a sum of independent problems.

    Attributes
    ----------
    terms : SlackTerms
        Feasible set of the multipliers and the part of the dual that is not smooth.
    row_problem : ndarray of shape (n_rows,), int64
    n_problems : int
    gamma : float
    row_weight : ndarray of shape (n_rows,)
        What a row's excess is multiplied by in the gradient.
    scale : ndarray of shape (n_rows,)
        Step per row that levels rows of different size.
    size : ndarray of shape (n_rows,)
        Unit in which a row's residual is measured: nothing that multiplies a row and its bound changes what it means.
    lever : ndarray of shape (n_rows,)
        Nats by which a unit of the row's multiplier moves a score, at most: its largest coefficient.
    """

    terms: SlackTerms
    row_problem: Ints
    n_problems: int
    gamma: float
    row_weight: Floats

    @property
    def scale(self) -> Floats: ...
    @property
    def size(self) -> Floats: ...
    @property
    def lever(self) -> Floats: ...

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        """Value and gradient; only problems in ``active``, shape (n_problems,), are computed."""

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        """Problems, shape (n_problems,), that the direction of ``multipliers`` proves to have no feasible point."""


class BatchDual:
    """The dual of one batch: scores, rows and temperature over a structure.

    Problems are the connected components of instances and rows (one per instance when every row stays inside its
    instance), so that each is solved with its own step size. Instance i counts ``weights[i]`` times in the objective
    and in corpus expectations. A problem is solved over the mean weight of its instances, which changes neither prices
    nor marginals, so that the unit of the weights does not change what tolerances mean.

    Parameters
    ----------
    structure : Structure
    scores : Parts
        Nats, ``-inf`` for impossible.
    rows : Rows
    gamma : float, >= 0
    weights : ndarray of shape (n_instances,) or None

    Attributes
    ----------
    weights : ndarray of shape (n_instances,)
    inside : ndarray of shape (n_instances,), bool, or slice
        Instances that some row touches.
    instance_weight : ndarray of shape (n_instances,)
        What an instance counts inside its problem: its weight over their mean there.
    problem_size : ndarray of shape (n_problems,), int64
        The number of instances.
    problem_weight : ndarray of shape (n_problems,)
        What a problem counts in sums over the batch: the mean weight of its instances.
    free_value : float or None
        The sum over problems at multipliers of 0, once that was evaluated.
    free_expected : ndarray of shape (n_rows,) or None
        ``U mu`` at multipliers of 0, once that was evaluated where instances are alike.
    """

    def __init__(
        self, structure: Structure, scores: Parts, rows: Rows, gamma: float, weights: Floats | None = None
    ) -> None:
        self.structure, self.scores, self.rows, self.gamma = structure, scores, rows, gamma
        n = structure.n_instances
        self.weights = np.broadcast_to(1.0, n) if weights is None else weights
        weighed = weigh_rows(structure, rows, weights)
        self.matrix = weighed.matrix.astype(np.float64, copy=False)
        self.transpose, alike = rows.transpose, rows.alike
        kinds = structure if alike is None else Categorical(np.full(rows.matrix.shape[1] // alike.width, alike.width))
        self.instance_problem, self.row_problem, self.n_problems = split_problems(kinds, weighed)
        if alike is not None:
            self.kind_problem = self.instance_problem
            whole = weights is None and self.n_problems == 1 and self.instance_problem.min() == 0
            self.instance_problem = np.broadcast_to(0, n) if whole else self.instance_problem[alike.kind]
            if not whole:
                self.instance_problem[self.weights == 0] = -1  # as if no row touched them
        self.inside = slice(None) if self.instance_problem.min(initial=0) >= 0 else self.instance_problem >= 0
        inside, is_inside = self.inside, rows.row_instance >= 0
        problem = self.instance_problem[inside]
        self.problem_size = np.bincount(problem, minlength=self.n_problems)
        mean = sum_by(problem, self.weights[inside], self.n_problems) / np.maximum(self.problem_size, 1)
        self.problem_weight = np.where(self.problem_size > 0, mean, 1.0)
        unit = np.where(self.problem_weight > 0, self.problem_weight, 1.0)
        self.instance_weight = self.weights if weights is None else np.ones(n)
        if weights is not None:
            self.instance_weight[inside] = np.where(mean[problem] > 0, self.weights[inside] / unit[problem], 1.0)
        self.row_weight = 1.0 / unit[self.row_problem]
        self.row_weight[is_inside] = self.instance_weight[rows.row_instance[is_inside]]
        self.terms = compile_slack(rows.blocks, self.row_problem, self.n_problems, self.row_weight)
        self.n_evaluations = 0
        self.free_value = None if self.n_problems else 0.0
        self.free_expected: Floats | None = None

    @cached_property
    def _squares(self) -> Floats:
        """The sum of squared coefficients of every row, over the copies of its instances."""
        rows = self.rows
        squared = sp.csr_array((rows.matrix.data**2, rows.matrix.indices, rows.matrix.indptr), shape=rows.matrix.shape)
        weight = self.instance_weight
        copies = weight[self.structure.instance] if rows.alike is None else rows.alike.copies(weight)
        return np.asarray(squared @ copies, np.float64)

    @cached_property
    def scale(self) -> Floats:
        return 1.0 / np.where(self._squares > 0, self._squares, 1.0)

    @cached_property
    def size(self) -> Floats:
        unit = np.where(self.problem_weight > 0, self.problem_weight, 1.0)[self.row_problem]
        norm = np.where(self.rows.row_instance >= 0, 1.0, unit) * np.sqrt(self._squares)
        size = np.maximum(np.abs(self.rows.bounds), norm)
        return np.where(size > 0, size, 1.0) * np.where(self.row_weight > 0, self.row_weight, 1.0)

    @cached_property
    def lever(self) -> Floats:
        largest = row_maxima(self.rows.matrix)
        return np.where(largest > 0, largest, 1.0)

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        alike, whole = self.rows.alike is not None and self.gamma > 0, active.all()
        if alike and (by_kind := self._pass_by_kind(multipliers, active)) is not None:
            total, expected = by_kind
        else:
            if has_one_label(self.structure) and self.gamma > 0 and whole and not alike:
                values, expected = self._whole_pass(self.structure, multipliers)
            else:
                values, marginals = self.smoothed_max(multipliers, None if alike else self.instances_of(active))
                expected = self.expected(marginals, active)
            total = self.per_problem(values, multipliers)
        gradient = self.row_weight * (self.rows.bounds - expected)
        if self.free_value is None and whole and not multipliers.any():
            self.free_value = float(self.problem_weight @ total)
            self.free_expected = expected if alike else None
        return Evaluation(total, gradient)

    def smoothed_max(
        self, multipliers: Floats, active: Bools | None = None, weights: Floats | None = None
    ) -> tuple[Floats, Parts]:
        """The structure's smoothed maximum at ``s - U^T multipliers``."""
        self.n_evaluations += 1
        alike = self.rows.alike
        if alike is not None and self.gamma > 0 and active is None:
            values, unary = posteriors_alike(alike, self.scores.unary, self.transpose @ multipliers, self.gamma)
            refuse_impossible(values)
            return values, Parts(unary)
        shifted = self._shifted(self.scores, multipliers, active)
        values, marginals = self.structure.smoothed_max(shifted, self.gamma, active=active, weights=weights)
        refuse_impossible(values)
        return values, marginals

    def expected(self, marginals: Parts, active: Bools | None = None) -> Floats:
        """``U mu`` with instances counted by their weights, shape (n_rows,); 0 in problems that are not active."""
        if self.rows.alike is not None:
            expected: Floats = self.matrix @ self.rows.alike.add_up(marginals.unary, self.weights)
            return expected
        if active is None:
            return self.matrix @ marginals.unary
        expected, m = np.zeros(len(self.row_problem)), self.matrix
        product_where(m.indptr, m.indices, m.data, marginals.unary, self.row_problem, active, expected)
        return expected

    def _whole_pass(self, structure: Labels, multipliers: Floats) -> tuple[Floats, Floats]:
        """Values and ``U mu`` of a categorical structure, row by row of U and with NumPy's exponential."""
        self.n_evaluations += 1
        rows, gamma = self.rows.matrix, float(self.gamma)
        shifted, tops = np.empty(structure.n_unary), np.empty(structure.n_instances)
        offsets = structure.offsets
        shift_rows(offsets, self.scores.unary, rows.indptr, rows.indices, rows.data, multipliers, gamma, shifted, tops)
        with np.errstate(under="ignore"):
            np.exp(shifted, out=shifted)
        normalise_rows(offsets, gamma, tops, shifted)
        refuse_impossible(tops)
        return tops, self.matrix @ shifted

    @cached_property
    def _sorted_by_kind(self) -> tuple[Ints, Floats, Floats, Floats, Floats]:
        """Where instances of every kind begin once sorted, exponentials, weights, and sums of weights and of maxima."""
        alike, scores, one = cast(Alike, self.rows.alike), self.scores.unary, self.weights.strides == (0,)
        counts = np.bincount(alike.kind)
        offsets, exponentials, tops = offsets_of(counts), np.empty(len(scores)), np.zeros(len(counts))
        mass = np.asarray(counts if one else np.bincount(alike.kind, self.weights), np.float64)
        unsorted = self.weights[:1].copy() if one else np.ascontiguousarray(self.weights)
        gamma, places, weights = float(self.gamma), offsets[:-1].copy(), np.empty(len(unsorted))
        sort_kinds(alike.kind, alike.width, scores, gamma, unsorted, places, exponentials, weights, tops)
        with np.errstate(under="ignore"):
            np.exp(exponentials, out=exponentials)
        return offsets, exponentials, weights, mass, tops

    def forget_order(self) -> None:
        """Drop the sorted copy of instances that are alike, which no more than evaluations need."""
        vars(self).pop("_sorted_by_kind", None)

    def _pass_by_kind(self, multipliers: Floats, active: Bools) -> tuple[Floats, Floats] | None:
        """Values per problem and ``U mu`` where instances are alike: an exponential for every kind, not for every part.

        None where normalisers are so small that they may have lost digits.
        """
        width = cast(Alike, self.rows.alike).width
        offsets, exponentials, weights, mass, tops = self._sorted_by_kind
        prices = (self.transpose @ multipliers).reshape(-1, width)
        least = reduce(np.minimum, prices.T)  # many times faster than along short rows
        with np.errstate(under="ignore"):
            factors = np.exp((least[:, None] - prices) / self.gamma).ravel()
        logarithms, expected = np.zeros(len(tops)), np.zeros(len(factors))
        chosen = np.append(active, False)[self.kind_problem]
        if not sum_kinds(offsets, width, exponentials, weights, factors, chosen, logarithms, expected):
            return None
        self.n_evaluations += 1
        values = tops - least * mass + self.gamma * logarithms
        unit = np.where(self.problem_weight > 0, self.problem_weight, 1.0)
        total = sum_by(self.row_problem, self.row_weight * self.rows.bounds * multipliers, self.n_problems)
        total += sum_by(self.kind_problem[chosen], values[chosen], self.n_problems) / unit
        return total, self.matrix @ expected

    def _shifted(self, scores: Parts, multipliers: Floats, active: Bools | None) -> Parts:
        """``s - U^T multipliers`` of the active instances; scores of the others are not read."""
        if self.rows.alike is not None:
            prices = (self.transpose @ multipliers).reshape(-1, self.rows.alike.width)
            return Parts(scores.unary - prices[self.rows.alike.kind].ravel())
        if active is None:
            return shift_scores(scores, self.transpose, multipliers)
        price, m = np.zeros(len(scores.unary)), self.transpose
        product_where(m.indptr, m.indices, m.data, multipliers, self.structure.instance, active, price)
        return Parts(scores.unary - price, scores.factors)

    def per_problem(self, values: Floats, multipliers: Floats) -> Floats:
        """``b . lambda`` plus the weighted values of the instances, shape (n_problems,)."""
        total = sum_by(self.row_problem, self.row_weight * self.rows.bounds * multipliers, self.n_problems)
        weighted = (values if self.instance_weight is self.weights else self.instance_weight * values)[self.inside]
        return total + sum_by(self.instance_problem[self.inside], weighted, self.n_problems)

    def total(self, per_problem: Floats, values: Floats) -> float:
        """Sum over the batch of what each problem has and of the values of the instances that no row touches."""
        outside = self.instance_problem < 0
        return float(self.problem_weight @ per_problem + self.weights[outside] @ values[outside])

    def instances_of(self, problems: Bools) -> Bools:
        """Instances that belong to the given problems, shape (n_instances,)."""
        return np.append(problems, False)[self.instance_problem]

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        """Farkas' lemma: along d the dual falls without bound if ``b . d + max over structures of -d . U h`` < 0."""
        direction = self.terms.recession(multipliers)
        largest = max_by(self.row_problem, np.abs(direction), self.n_problems)
        direction = direction / np.where(largest > 0, largest, 1.0)[self.row_problem]
        self.n_evaluations += 1
        if self.rows.alike is not None:
            values = largest_alike(self.rows.alike, self.scores.unary, self.transpose @ direction)
        else:
            wanted = self.instances_of(active)
            shifted = self._shifted(possible_parts(self.scores), direction, wanted)
            values, _ = self.structure.smoothed_max(shifted, 0.0, active=wanted)
        slope = self.per_problem(values, direction) + self.terms.value(direction)
        unit = sum_by(self.row_problem, self.size * np.abs(direction), self.n_problems)
        return active & (slope < -1e-9 * unit)

    def gap_unit(self, bound: Floats) -> Floats:
        """The range of the scores of whole structures, or the cost of the rows if that is more; never below rounding.

        A shift of all scores leaves it as it is, and it grows with them when they are multiplied.
        """
        top, spread = self._ranges
        # A share of the bound, so that rounding errors of large sums, in the last digits, do not count as a gap.
        return np.maximum.reduce([spread, np.abs(bound - top), 1e-4 * np.abs(bound), np.full(len(bound), 1e-300)])

    @property
    def spread(self) -> Floats:
        """The range of the scores of whole structures, summed over the instances of each problem, nats."""
        return self._ranges[1]

    @cached_property
    def _ranges(self) -> tuple[Floats, Floats]:
        """The best score of structures without the rows, and its distance to the worst score, of every problem."""
        best, _ = self.structure.smoothed_max(self.scores, 0.0)
        least, _ = self.structure.smoothed_max(self.scores.map(lambda s: np.where(np.isneginf(s), s, -s)), 0.0)
        inside = self.inside
        problem, weight = self.instance_problem[inside], self.instance_weight[inside]
        top = sum_by(problem, weight * best[inside], self.n_problems)
        return top, np.maximum(sum_by(problem, weight * (best + least)[inside], self.n_problems), 0.0)


def refuse_impossible(values: Floats) -> None:
    """Raise if the value of an instance is not finite, which means that it has no possible structure."""
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values))
        raise InvalidInputError(
            f"scores of instance {bad[0]} must leave at least one structure possible, and {len(bad)} of "
            f"{len(values)} instances have none (every structure scores -inf or the scores overflow); "
            "allow more parts there or drop the instance"
        )


def possible_parts(scores: Parts) -> Parts:
    """Scores of 0 for possible parts and ``-inf`` for impossible ones."""
    return scores.map(lambda s: np.where(np.isneginf(s), -np.inf, 0.0))


def shift_scores(scores: Parts, transpose: sp.csr_array, multipliers: Floats) -> Parts:
    """Scores less the price of the rows they take part in, ``s - U^T multipliers``."""
    price = transpose @ multipliers
    return Parts(np.subtract(scores.unary, price, out=price), scores.factors)


def weigh_rows(structure: Structure, rows: Rows, weights: Floats | None) -> Rows:
    """Rows in which an instance counts as often as its weight says.

    Entries of rows of corpus scope are multiplied by the weights of their instances, and left out where those are 0;
    rows inside an instance, and those in which instances count once, stay as they are.
    """
    counted = (rows.row_instance < 0) & rows.where(lambda block: block.weighted)
    if weights is None or (weights == 1).all() or not counted.any():
        return rows
    if rows.alike is not None:  # whose marginals are weighed when they are added up
        weighed = rows.times(counted, (rows.alike.copies(weights) > 0).astype(np.float64))
    else:
        weighed = rows.times(counted, weights[structure.instance])
    if (weights == 0).any():
        weighed = replace(weighed, matrix=weighed.matrix.copy())  # until here the pattern is shared
        weighed.matrix.eliminate_zeros()
    return weighed


def per_copy(structure: Structure, rows: Rows, weights: Floats | None) -> Rows:
    """Rows in which instances count once, written so that they do when multiplied by the weights.

    Instances of weight 0 take no part in these rows.

    Raises
    ------
    InvalidInputError
        If an equality ties instances to one of weight 0.
    """
    once = rows.where(lambda block: not block.weighted)
    if weights is None or (weights == 1).all() or not once.any():
        return rows
    for block in rows.blocks:
        tied = structure.instance[rows.matrix[block.start : block.stop].indices]
        if block.equality and not block.weighted and not weights[tied].all():
            raise InvalidInputError(
                f"{quoted(block.name)} must tie instances of positive weight, got weight 0 in instance "
                f"{tied[weights[tied] == 0][0]}; leave out what ties it, or give it a small weight"
            )
    share = 1.0 / np.where(weights > 0, weights, 1.0)
    weighted = tuple(replace(block, weighted=True) for block in rows.blocks)
    return replace(rows.times(once, share[structure.instance]), blocks=weighted)


def split_problems(structure: Structure, rows: Rows) -> tuple[Ints, Ints, int]:
    """Independent problems: the components of instances tied by rows, and rows tied by slack groups.

    Returns
    -------
    instance_problem : ndarray of shape (n_instances,)
        -1 for instances that no row touches.
    row_problem : ndarray of shape (n_rows,)
    n_problems : int
    """
    n_instances, n_rows = structure.n_instances, len(rows.bounds)
    if (rows.row_instance >= 0).all():
        touched = np.bincount(rows.row_instance, minlength=n_instances) > 0
        number = np.cumsum(touched) - 1
        return np.where(touched, number, -1), number[rows.row_instance], int(touched.sum())
    if _one_problem(structure, rows):
        return np.zeros(n_instances, np.int64), np.zeros(n_rows, np.int64), 1
    entry_row = np.repeat(np.arange(n_rows), np.diff(rows.matrix.indptr))
    entry_instance = structure.instance[rows.matrix.indices]
    ends = [(n_instances + entry_row, entry_instance)]
    inside = np.flatnonzero(rows.row_instance >= 0)
    ends.append((n_instances + inside, rows.row_instance[inside]))
    n_nodes = n_instances + n_rows
    for block in rows.blocks:
        if block.slack is not None and block.stop > block.start:
            members = n_instances + np.arange(block.start, block.stop)
            ends.append((members, n_nodes + block.slack_group))
            n_nodes += int(block.slack_group.max()) + 1
    left, right = (np.concatenate(side) for side in zip(*ends, strict=True))
    graph = sp.coo_array((np.ones(len(left), np.int8), (left, right)), shape=(n_nodes, n_nodes))
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(graph, directed=False)
    used, row_problem = np.unique(label[n_instances : n_instances + n_rows], return_inverse=True)
    place = np.searchsorted(used, label[:n_instances])
    known = used[np.minimum(place, len(used) - 1)] == label[:n_instances]
    return np.where(known, place, -1), row_problem.astype(np.int64), len(used)


def _one_problem(structure: Structure, rows: Rows) -> bool:
    """Whether one row touches all instances, and every row some; quick to find out, and common for counts of labels."""
    entries = np.diff(rows.matrix.indptr)
    if not len(entries) or entries.min() == 0 or entries.max() < structure.n_instances:
        return False
    widest = int(entries.argmax())
    touched = np.zeros(structure.n_instances, np.bool_)
    touched[structure.instance[rows.matrix.indices[rows.matrix.indptr[widest] : rows.matrix.indptr[widest + 1]]]] = True
    return bool(touched.all())


def choice_offsets(structure: Structure) -> Ints | None:
    """Where the labels of every choice begin, shape (n_choices + 1,), if choices are independent; else None.

    Examples
    --------
    >>> from spectrem.structures import Categorical
    >>> choice_offsets(Product({"text": Categorical([2, 3]), "links": Categorical([2, 2])})).tolist()
    [0, 2, 5, 7, 9]
    """
    if has_one_label(structure):
        return structure.offsets
    members = list(structure.members.values()) if isinstance(structure, Product) else []
    if not members or not all(map(has_one_label, members)):
        return None
    return offsets_of(np.concatenate([np.diff(cast("Labels", member).offsets) for member in members]))


def posteriors_alike(alike: Alike, scores: Floats, prices: Floats, gamma: float) -> tuple[Floats, Floats]:
    """``smax_gamma(s - prices)`` of every instance, and its gradient.

    Memory beyond the two results is that of some ten thousand instances.

    Parameters
    ----------
    alike : Alike
    scores : ndarray of shape (n_unary,)
        Nats.
    prices : ndarray of shape (n_columns,)
        ``U^T lambda`` of the columns that instances share, nats.
    gamma : float, > 0

    Returns
    -------
    values : ndarray of shape (n_instances,)
        Nats; -inf where no part is possible.
    marginals : ndarray of shape (n_unary,)

    Examples
    --------
    >>> scores = np.log([0.5, 0.5, 0.2, 0.8])
    >>> values, marginals = posteriors_alike(Alike(np.zeros(2, int), 2), scores, np.zeros(2), 1.0)
    >>> values.round(12).tolist(), marginals.round(12).tolist()
    ([0.0, 0.0], [0.5, 0.5, 0.2, 0.8])
    """
    n, width = len(alike.kind), alike.width
    offsets = np.arange(0, (min(n, PIECE) + 1) * width, width)
    values, marginals = np.empty(n), np.empty(len(scores))
    for instances, cells in alike.pieces():
        kind, top, piece = alike.kind[instances], values[instances], marginals[cells]
        shift_kinds(kind, width, scores[cells], prices, float(gamma), piece, top)
        with np.errstate(under="ignore"):
            np.exp(piece, out=piece)
        normalise_rows(offsets[: len(kind) + 1], float(gamma), top, piece)
    return values, marginals


def largest_alike(alike: Alike, scores: Floats, prices: Floats) -> Floats:
    """The largest of ``-prices`` over the possible parts of every instance, shape (n_instances,).

    Examples
    --------
    >>> scores, prices = np.array([0.0, -np.inf, 5.0, 0.0]), np.array([3.0, 1.0])
    >>> largest_alike(Alike(np.zeros(2, int), 2), scores, prices)
    array([-3., -1.])
    """
    n, width = len(alike.kind), alike.width
    if scores.min() > -np.inf:
        return (-prices.reshape(-1, width)).max(axis=1)[alike.kind]
    values, scratch = np.empty(n), np.empty(min(n, PIECE) * width)
    for instances, cells in alike.pieces():
        possible = np.where(np.isneginf(scores[cells]), -np.inf, 0.0)
        shift_kinds(alike.kind[instances], width, possible, prices, 1.0, scratch, values[instances])
    return values
