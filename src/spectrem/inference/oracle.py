"""The dual of a constrained E-step: one smoothed maximum per evaluation."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import PIECE, Alike, Rows
from spectrem.exceptions import InvalidInputError
from spectrem.inference.segments import max_by, row_maxima, sum_by
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.kernels.categorical import add_up_kinds, normalise_rows, shift_kinds, shift_rows
from spectrem.kernels.sparse import product_where
from spectrem.structures.categorical import Categorical
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels, Structure, has_one_label


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
    scale: Floats
    size: Floats
    lever: Floats

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        """Value and gradient; only problems in ``active``, shape (n_problems,), are computed."""
        ...

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        """Problems, shape (n_problems,), that the direction of ``multipliers`` proves to have no feasible point."""
        ...

    def gap_unit(self, bound: Floats) -> Floats:
        """The unit of duality gaps at dual values ``bound``, nats, shape (n_problems,)."""
        ...


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
    problem_weight : ndarray of shape (n_problems,)
        What a problem counts in sums over the batch: that mean.
    free_value : float or None
        The sum over problems at multipliers of 0, once that was evaluated.
    """

    def __init__(
        self, structure: Structure, scores: Parts, rows: Rows, gamma: float, weights: Floats | None = None
    ) -> None:
        self.structure, self.scores, self.rows, self.gamma = structure, scores, rows, gamma
        n = structure.n_instances
        self.weights = np.broadcast_to(1.0, n) if weights is None else weights
        weighed = weigh_rows(structure, rows, weights)
        self.matrix = sp.csr_array(weighed.matrix.astype(np.float64, copy=False))
        self.transpose, alike = rows.transpose, rows.alike
        kinds = structure if alike is None else Categorical(np.full(rows.matrix.shape[1] // alike.width, alike.width))
        self.instance_problem, self.row_problem, self.n_problems = split_problems(kinds, weighed)
        if alike is not None:
            whole = weights is None and self.n_problems == 1 and self.instance_problem.min() == 0
            self.instance_problem = np.broadcast_to(0, n) if whole else self.instance_problem[alike.kind]
            if not whole:
                self.instance_problem[self.weights == 0] = -1  # as if no row touched them
        self.inside = slice(None) if self.instance_problem.min(initial=0) >= 0 else self.instance_problem >= 0
        inside, is_inside = self.inside, rows.row_instance >= 0
        problem = self.instance_problem[inside]
        count = np.bincount(problem, minlength=self.n_problems)
        mean = sum_by(problem, self.weights[inside], self.n_problems) / np.maximum(count, 1)
        self.problem_weight = np.where(count > 0, mean, 1.0)
        unit = np.where(self.problem_weight > 0, self.problem_weight, 1.0)
        self.instance_weight = self.weights if weights is None else np.ones(n)
        if weights is not None:
            self.instance_weight[inside] = np.where(mean[problem] > 0, self.weights[inside] / unit[problem], 1.0)
        self.row_weight = 1.0 / unit[self.row_problem]
        self.row_weight[is_inside] = self.instance_weight[rows.row_instance[is_inside]]
        self.terms = compile_slack(rows.blocks, self.row_problem, self.n_problems, self.row_weight)
        squared = sp.csr_array((rows.matrix.data**2, rows.matrix.indices, rows.matrix.indptr), shape=rows.matrix.shape)
        copies = self.instance_weight[structure.instance] if alike is None else alike.copies(self.instance_weight)
        squares = np.asarray(squared @ copies, np.float64)
        self.scale = 1.0 / np.where(squares > 0, squares, 1.0)
        norm = np.where(is_inside, 1.0, unit[self.row_problem]) * np.sqrt(squares)
        size = np.maximum(np.abs(rows.bounds), norm)
        self.size = np.where(size > 0, size, 1.0) * np.where(self.row_weight > 0, self.row_weight, 1.0)
        largest = row_maxima(rows.matrix)
        self.lever = np.where(largest > 0, largest, 1.0)
        self.n_evaluations = 0
        self.free_value = None if self.n_problems else 0.0

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        if has_one_label(self.structure) and self.gamma > 0 and active.all():
            values, expected = self._whole_pass(self.structure, multipliers)
        else:
            values, marginals = self.smoothed_max(multipliers, self.instances_of(active))
            expected = self.expected(marginals, active)
        total = self.per_problem(values, multipliers)
        gradient = self.row_weight * (self.rows.bounds - expected)
        if self.free_value is None and active.all() and not multipliers.any():
            self.free_value = float(self.problem_weight @ total)
        return Evaluation(total, gradient)

    def smoothed_max(
        self, multipliers: Floats, active: Bools | None = None, weights: Floats | None = None
    ) -> tuple[Floats, Parts]:
        """The structure's smoothed maximum at ``s - U^T multipliers``."""
        self.n_evaluations += 1
        alike = self.rows.alike
        if alike is not None and self.gamma > 0 and active is None:
            marginals, prices = Parts(np.empty(len(self.scores.unary))), self.transpose @ multipliers
            values, _ = posteriors_alike(alike, self.scores.unary, prices, self.gamma, self.weights, marginals.unary)
            refuse_impossible(values)
            return values, marginals
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
        if self.rows.alike is not None:
            prices = self.transpose @ multipliers
            values, total = posteriors_alike(self.rows.alike, self.scores.unary, prices, gamma, self.weights)
            refuse_impossible(values)
            return values, self.matrix @ total
        shifted, tops = np.empty(structure.n_unary), np.empty(structure.n_instances)
        offsets = structure.offsets
        shift_rows(offsets, self.scores.unary, rows.indptr, rows.indices, rows.data, multipliers, gamma, shifted, tops)
        with np.errstate(under="ignore"):
            np.exp(shifted, out=shifted)
        normalise_rows(offsets, gamma, tops, shifted)
        refuse_impossible(tops)
        return tops, self.matrix @ shifted

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
                f"{block.name!r} must tie instances of positive weight, got weight 0 in instance "
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


def posteriors_alike(
    alike: Alike, scores: Floats, prices: Floats, gamma: float, weights: Floats, marginals: Floats | None = None
) -> tuple[Floats, Floats]:
    """``smax_gamma(s - prices)`` of every instance, and its gradient summed by the columns that instances share.

    Memory beyond the two results is that of some ten thousand instances.

    Parameters
    ----------
    alike : Alike
    scores : ndarray of shape (n_unary,)
        Nats.
    prices : ndarray of shape (n_columns,)
        ``U^T lambda`` of the columns, nats.
    gamma : float, > 0
    weights : ndarray of shape (n_instances,)
        Which instances count by in the sums.
    marginals : ndarray of shape (n_unary,), optional
        Filled with the gradient itself.

    Returns
    -------
    values : ndarray of shape (n_instances,)
        Nats; -inf where no part is possible.
    total : ndarray of shape (n_columns,)

    Examples
    --------
    >>> scores = np.log([0.5, 0.5, 0.2, 0.8])
    >>> values, total = posteriors_alike(Alike(np.zeros(2, int), 2), scores, np.zeros(2), 1.0, np.ones(2))
    >>> values.round(12).tolist(), total.round(12).tolist()
    ([0.0, 0.0], [0.7, 1.3])
    """
    n, width = len(alike.kind), alike.width
    offsets = np.arange(0, (min(n, PIECE) + 1) * width, width)
    values, total, scratch = np.empty(n), np.zeros(len(prices)), np.empty(offsets[-1] if marginals is None else 0)
    for instances, cells in alike.pieces():
        kind, top = alike.kind[instances], values[instances]
        piece = scratch[: len(kind) * width] if marginals is None else marginals[cells]
        shift_kinds(kind, width, scores[cells], prices, float(gamma), piece, top)
        with np.errstate(under="ignore"):
            np.exp(piece, out=piece)
        normalise_rows(offsets[: len(kind) + 1], float(gamma), top, piece)
        add_up_kinds(kind, width, piece, np.ascontiguousarray(weights[instances]), total)
    return values, total


def largest_alike(alike: Alike, scores: Floats, prices: Floats) -> Floats:
    """The largest of ``-prices`` over the possible parts of every instance, shape (n_instances,).

    Examples
    --------
    >>> scores, prices = np.array([0.0, -np.inf, 5.0, 0.0]), np.array([3.0, 1.0])
    >>> largest_alike(Alike(np.zeros(2, int), 2), scores, prices)
    array([-3., -1.])
    """
    n, width = len(alike.kind), alike.width
    values, scratch = np.empty(n), np.empty(min(n, PIECE) * width)
    for instances, cells in alike.pieces():
        possible = np.where(np.isneginf(scores[cells]), -np.inf, 0.0)
        shift_kinds(alike.kind[instances], width, possible, prices, 1.0, scratch, values[instances])
    return values
