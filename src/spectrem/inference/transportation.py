"""Problems whose rows only count labels over all their instances: transportations, solved by shortest paths.

Their matrix is totally unimodular: at gamma = 0 and -inf the linear relaxation has whole optima where bounds are whole,
so that fractions gain nothing, and the prices of the labels give the multipliers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference.conflict import explain_infeasible
from spectrem.inference.oracle import BatchDual, refuse_impossible, split_problems, weigh_rows
from spectrem.inference.result import Projection, Status
from spectrem.inference.segments import max_by, share_equally, sum_by
from spectrem.kernels import transport
from spectrem.kernels.categorical import max_pass, shift_rows
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Labels, Structure, has_one_label

WHOLE = 1e-6
"""Bounds this close to a whole number count as that number; the tolerance of HiGHS."""

_MOST_LABELS = 500
_ROUNDING = 1e-9  # relative rounding error of bounds that are whole numbers times a factor


@dataclass(frozen=True)
class Counts:
    """Which problems are transportations, and their bounds.

    Attributes
    ----------
    instance_problem : ndarray of shape (n_instances,), int64
        -1 for instances that no row touches.
    row_problem : ndarray of shape (n_rows,), int64
    counted : ndarray of shape (n_problems,), bool
    low, high : ndarray of shape (n_problems, n_labels), int64
        Of the number of instances with each label, where ``counted``.
    label : ndarray of shape (n_rows,), int64
        The label that a row counts, in problems ``counted``.
    factor : ndarray of shape (n_rows,)
        The coefficient of that label in the row.
    equality : ndarray of shape (n_rows,), bool
    """

    instance_problem: Ints
    row_problem: Ints
    counted: Bools
    low: Ints
    high: Ints
    label: Ints
    factor: Floats
    equality: Bools


def tidy_rows(rows: Rows) -> Rows:
    """The same rows without explicit zeros or duplicate entries."""
    if rows.matrix.has_canonical_format and rows.matrix.data.all():
        return rows
    matrix = rows.matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return replace(rows, matrix=matrix)


def find_counts(structure: Labels, rows: Rows) -> Counts:
    """Split rows into problems, and find the bounds of those that only count labels.

    Where an equality demands a fraction, the lower bound lies above the upper one.
    """
    n, n_rows, sizes = structure.n_instances, len(rows.bounds), np.diff(structure.offsets)
    k = int(sizes[0]) if n else 0
    entries = np.diff(rows.matrix.indptr)
    simple = np.zeros(n_rows, np.bool_)
    label, factor = np.zeros(n_rows, np.int64), np.ones(n_rows)
    if n_rows and 0 < k <= _MOST_LABELS and (sizes == k).all():
        some = np.flatnonzero(entries)
        starts = rows.matrix.indptr[some]
        labels = rows.matrix.indices % k
        data = rows.matrix.data
        if len(some):
            label[some], factor[some] = labels[starts], data[starts]
            simple[some] = np.minimum.reduceat(labels, starts) == np.maximum.reduceat(labels, starts)
            simple[some] &= np.minimum.reduceat(data, starts) == np.maximum.reduceat(data, starts)
            simple &= factor != 0
        simple &= rows.where(lambda block: block.slack is None)
    instance_problem, row_problem, n_problems = split_problems(structure, rows)
    size = np.bincount(instance_problem[instance_problem >= 0], minlength=n_problems)
    counted = np.bincount(row_problem, simple & (entries == size[row_problem]), n_problems) == np.bincount(
        row_problem, minlength=n_problems
    )
    low, high = np.zeros((n_problems, k), np.int64), np.repeat(size[:, None], k, axis=1)
    wanted = np.flatnonzero(counted[row_problem])
    bounds = rows.bounds[wanted] / factor[wanted]
    place = row_problem[wanted], label[wanted]
    equal = rows.where(lambda block: block.equality)
    same = equal[wanted]
    above, below = same | (factor[wanted] < 0), same | (factor[wanted] > 0)
    largest = float(n + 1)
    least = np.ceil(np.clip(bounds, -1.0, largest) - WHOLE).astype(np.int64)
    most = np.floor(np.clip(bounds, -1.0, largest) + WHOLE).astype(np.int64)
    np.maximum.at(low, (place[0][above], place[1][above]), least[above])
    np.minimum.at(high, (place[0][below], place[1][below]), most[below])
    return Counts(instance_problem, row_problem, counted, low, high, label, factor, equal)


def transport_labels(
    counts: Counts, wanted: Bools, structure: Labels, scores: Floats, labels: Ints
) -> tuple[Floats, Bools]:
    """Solve the wanted transportation problems, and write the labels of their instances into ``labels``.

    Returns
    -------
    prices : ndarray of shape (n_problems, n_labels)
        Nats per instance with a label; every label is the best one at ``scores - prices``. A price is above 0 only if
        as many instances as allowed have the label, below 0 only if as few do.
    infeasible : ndarray of shape (n_problems,), bool
    """
    prices, wrong = np.zeros(counts.low.shape), np.zeros(len(counts.counted), np.bool_)
    size = np.bincount(counts.instance_problem[counts.instance_problem >= 0], minlength=len(wrong))
    low, high = counts.low, counts.high
    wrong[wanted] = ((low > high).any(axis=1) | (low.sum(axis=1) > size) | (high.sum(axis=1) < size))[wanted]
    groups = np.flatnonzero(wanted & ~wrong)
    if len(groups):
        k = int(structure.offsets[1])
        inside = np.flatnonzero(counts.instance_problem >= 0)
        inside = inside[(wanted & ~wrong)[counts.instance_problem[inside]]]
        order = inside[np.argsort(counts.instance_problem[inside], kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(size[groups])])
        capacity = max(8, min(64, int(size[groups].max()), 2**22 // k**2))
        own, status = np.zeros((len(groups), k)), np.zeros(len(groups), np.int8)
        transport.solve_groups(
            scores.reshape(-1, k), order, offsets, low[groups], high[groups], capacity, labels, own, status
        )
        prices[groups], wrong[groups] = own, status == transport.INFEASIBLE
    return prices, wrong


_GIVE_WAY = "turn == into between(low, high), or give slack by .slack(penalty=..., norm='l1')"


def no_assignment(names: Iterable[str]) -> InfeasibleConstraintError:
    """The error that names constraints which no labels meet."""
    listed = ", ".join(repr(name) for name in dict.fromkeys(names))
    return InfeasibleConstraintError(
        f"{listed}: no choice of one label per row meets the constraints, although probabilities may; make bounds "
        f"whole numbers, {_GIVE_WAY}"
    )


@dataclass(frozen=True, eq=False)
class Transports:
    """The problems of a batch that are transportations, at a gamma of 0 or -inf.

    Attributes
    ----------
    structure : Labels
    rows : Rows
    gamma : float
    weights : ndarray of shape (n_instances,)
    counts : Counts
    chosen : ndarray of shape (n_problems,), bool
    """

    structure: Labels
    rows: Rows
    gamma: float
    weights: Floats
    counts: Counts
    chosen: Bools

    @property
    def own_rows(self) -> Bools:
        """Rows of these problems, shape (n_rows,)."""
        return self.chosen[self.counts.row_problem]

    @property
    def own_instances(self) -> Bools:
        """Instances of these problems, shape (n_instances,)."""
        problem = self.counts.instance_problem
        return (problem >= 0) & self.chosen[np.maximum(problem, 0)]

    def solve(self, scores: Parts) -> Projection:
        """The best labels in these problems; all other instances take their own best label.

        Raises
        ------
        InfeasibleConstraintError
            If no labels meet the rows.
        InvalidInputError
            If all labels of an instance are impossible.
        """
        structure, unary, n = self.structure, scores.unary, self.structure.n_instances
        free, labels = np.zeros(n), np.full(n, -1)
        max_pass(np.arange(n + 1), structure.offsets, unary, np.ones(n, np.bool_), free, labels)
        refuse_impossible(free)
        prices, infeasible = transport_labels(self.counts, self.chosen, structure, unary, labels)
        if infeasible.any():
            dual = BatchDual(structure, scores, self.rows, 0.0, self.weights)
            status = np.where(infeasible, Status.INFEASIBLE, Status.CERTIFIED).astype(np.int8)
            raise explain_infeasible(dual, status, whole=self.gamma == -np.inf)
        multipliers = self._multipliers(prices)
        weight, tops = self.weights, free
        if self.gamma == 0 or (weight == 0).any():
            tops, shifted = self._shifted(unary, multipliers)
            # Instances of weight 0 are in no problem, and take their best label at the prices of the others.
            max_pass(np.arange(n + 1), structure.offsets, shifted, weight == 0, np.zeros(n), labels)
        cell = structure.offsets[:-1] + labels
        marginals = np.zeros(structure.n_unary)
        marginals[cell] = 1.0
        values = objectives = unary[cell]
        primal_value = dual_value = float(weight @ values)
        if self.gamma == 0:
            values, objectives = tops, tops + self._shares(multipliers)
            dual_value = float(weight @ objectives)
        else:
            multipliers = np.zeros(len(multipliers))
        violation, place = self._violation(labels), self.counts.instance_problem
        return Projection(
            marginals=Parts(marginals),
            multipliers=multipliers,
            values=values,
            objectives=objectives,
            dual_value=dual_value,
            primal_value=primal_value,
            violation=float(violation.max(initial=0.0)),
            kl=float(weight @ free) - dual_value if self.gamma == 0 else None,
            status=Status.CERTIFIED,
            n_evaluations=1,
            n_iter=int(self.chosen.sum()),
            residual=abs(dual_value - primal_value) / max(1.0, abs(dual_value)),
            instance_status=np.full(n, Status.CERTIFIED, np.int8),
            instance_violation=np.where(place >= 0, violation[np.maximum(place, 0)], 0.0),
        )

    def _multipliers(self, prices: Floats) -> Floats:
        """Multipliers, shape (n_rows,): the price of a label goes to the first row whose bound its count attains.

        A price without such a row belongs to a label that all instances have, or none, and can be dropped.
        """
        counts, rows = self.counts, self.rows
        own = np.flatnonzero(self.own_rows)
        place = counts.row_problem[own], counts.label[own]
        price, bound = prices[place], rows.bounds[own] / counts.factor[own]
        above = counts.equality[own] | (counts.factor[own] < 0)
        below = counts.equality[own] | (counts.factor[own] > 0)
        room = _room(bound) if self.gamma == 0 else 0.999  # at -inf, bounds were rounded to whole numbers
        meets = (price > 0) & below & (np.abs(bound - counts.high[place]) <= room)
        meets |= (price < 0) & above & (np.abs(bound - counts.low[place]) <= room)
        own, price = own[meets], price[meets]
        first = np.unique(place[0][meets] * prices.shape[1] + place[1][meets], return_index=True)[1]
        own, price = own[first], price[first]
        multipliers = np.zeros(len(rows.bounds))
        # ``rows`` has coefficients before the weights multiply them: a multiplier is the price of one copy.
        multipliers[own] = price / rows.matrix.data[rows.matrix.indptr[own]]
        return multipliers

    def _shifted(self, unary: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
        """The largest of ``s - U^T multipliers`` of each instance, and all of them less that."""
        matrix, offsets = self.rows.matrix, self.structure.offsets
        tops, shifted = np.empty(len(offsets) - 1), np.empty(len(unary))
        data = matrix.data.astype(np.float64, copy=False)
        shift_rows(offsets, unary, matrix.indptr, matrix.indices, data, multipliers, 1.0, shifted, tops)
        return tops, shifted

    def _shares(self, multipliers: Floats) -> Floats:
        """The term ``b . lambda`` of the dual, shared equally by the copies of the instances of a problem."""
        counts, once = self.counts, self.rows.row_instance >= 0
        # Of a row inside an instance, the multiplier is that of one copy.
        copies = np.where(once, self.weights[self.rows.row_instance], 1.0)
        total = sum_by(counts.row_problem, copies * self.rows.bounds * multipliers, len(self.chosen))
        return share_equally(counts.instance_problem, self.weights, total)

    def _violation(self, labels: Ints) -> Floats:
        """The largest violation of a row of each problem, shape (n_problems,)."""
        counts, rows = self.counts, self.rows
        inside = np.flatnonzero(self.own_instances)
        found = np.zeros(counts.low.shape)
        np.add.at(found, (counts.instance_problem[inside], labels[inside]), 1.0)
        own = self.own_rows
        excess = counts.factor * found[counts.row_problem, np.where(own, counts.label, 0)] - rows.bounds
        worst = np.where(counts.equality, np.abs(excess), np.maximum(excess, 0.0))
        return max_by(counts.row_problem, np.where(own, worst, 0.0), len(self.chosen))


def find_transports(structure: Structure, rows: Rows, gamma: float, weights: Floats | None) -> Transports | None:
    """The problems at gamma = 0 or -inf whose rows count labels and whose instances weigh the same; None if none.

    At gamma = 0 bounds must be whole numbers of instances, or never met: others have fractional optima.

    Examples
    --------
    >>> from spectrem.constraints import E, compile_constraints
    >>> from spectrem.structures import Categorical
    >>> labels = Categorical([2, 2, 2])
    >>> rows = compile_constraints((E[...] <= 2).per("label"), labels)
    >>> find_transports(labels, rows, 0.0, None).solve(Parts(np.array([3.0, 0.0, 2.0, 0.0, 1.0, 0.0]))).multipliers
    array([1., 0.])
    """
    if not has_one_label(structure):
        return None
    rows = tidy_rows(rows)
    weighed = weigh_rows(structure, rows, weights)
    counts = find_counts(structure, weighed)
    chosen = counts.counted.copy()
    if gamma == 0 and chosen.any():
        chosen &= ~_has_fractions(rows, counts)
    if weights is not None and chosen.any():
        inside = counts.instance_problem >= 0
        problem, weight = counts.instance_problem[inside], weights[inside]
        most, least = np.zeros(len(chosen)), np.full(len(chosen), np.inf)
        np.maximum.at(most, problem, weight)
        np.minimum.at(least, problem, weight)
        chosen &= (least == most) & (most > 0)
        if (weights == 0).any() and not chosen.all():
            return None  # instances of weight 0 need the prices of all problems at once
    weight = np.ones(structure.n_instances) if weights is None else weights
    return Transports(structure, rows, gamma, weight, counts, chosen) if chosen.any() else None


def _has_fractions(rows: Rows, counts: Counts) -> Bools:
    """Problems with a bound that is not whole and may be met, shape (n_problems,)."""
    own = np.flatnonzero(counts.counted[counts.row_problem])
    n_problems = len(counts.counted)
    size = np.bincount(counts.instance_problem[counts.instance_problem >= 0], minlength=n_problems)
    bound, problem = rows.bounds[own] / counts.factor[own], counts.row_problem[own]
    idle = np.where(counts.factor[own] > 0, bound >= size[problem], bound <= 0) & ~counts.equality[own]
    broken = ~idle & (np.abs(bound - np.rint(bound)) > _room(bound))
    return np.bincount(problem, broken, n_problems) > 0


def _room(bound: Floats) -> Floats:
    """The rounding error that a bound may have."""
    return _ROUNDING * np.maximum(1.0, np.abs(bound))
