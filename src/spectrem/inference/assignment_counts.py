"""Problems whose rows only count labels over all their instances: transportation problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.rows import Rows
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference.oracle import split_problems
from spectrem.kernels import transport
from spectrem.structures.structure import Labels

WHOLE = 1e-6
"""How far a bound may be from a whole number that is meant; the tolerance of HiGHS."""

_MOST_LABELS = 500


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
        What a row counts, in problems ``counted``.
    factor : ndarray of shape (n_rows,)
        How much each one counts there.
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
    """The same rows without zeros or cells told twice."""
    if rows.matrix.has_canonical_format and rows.matrix.data.all():
        return rows
    matrix = rows.matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return Rows(matrix, rows.bounds, rows.row_instance, rows.blocks)


def find_counts(structure: Labels, rows: Rows) -> Counts:
    """Split into problems, and read the bounds of those that only count; a fraction demanded has low above high."""
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
    """Fill in the labels of the transportation problems that are wanted.

    Returns
    -------
    prices : ndarray of shape (n_problems, n_labels)
        Nats per instance with a label: the labels are best at ``scores - prices``. Above 0 only where the most that is
        allowed have the label, below 0 only where the least do.
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


def no_assignment(names: Iterable[str]) -> InfeasibleConstraintError:
    """The error that names constraints which no labels meet."""
    listed = ", ".join(repr(name) for name in dict.fromkeys(names))
    return InfeasibleConstraintError(
        f"{listed}: no choice of one label per row meets the constraints, although probabilities may; "
        "make bounds whole numbers, turn == into between(low, high), or give slack by .slack(penalty=..., norm='l1')"
    )
