"""Bounds, expected values and costs of constraints, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.constraints.compilation.rows import Block, CorpusRows, Rows
from spectrem.structures.structure import Structure

SIGNS = {"<=": "≤", ">=": "≥", "==": "="}
"""Senses as people write them."""

# Violations up to this, relative to the size of a row, are what solving leaves.
_SOLVED = 1e-5


@dataclass(frozen=True, eq=False)
class ConstraintReport:
    """One constraint before and after, one entry per row that it compiled to.

    Numbers are those of the constraint as the user wrote it: the bound of a ``>=`` is a lower one.

    Attributes
    ----------
    name : str
    sense : ndarray of shape (n_rows,), str
        ``"<="``, ``">="`` or ``"=="``.
    keys : mapping of name -> ndarray of shape (n_rows,)
        The group of each row, by the columns of ``.per``.
    bound : ndarray of shape (n_rows,)
    price : ndarray of shape (n_rows,)
        Nats of the objective gained per unit by which the bound is relaxed (raised for ``<=``, lowered for ``>=``),
        0 where the row does not bind; for ``==``, of either sign, per unit by which it is raised.
    before, after : ndarray of shape (n_rows,)
        Expected values.
    violation_before, violation_after : ndarray of shape (n_rows,)
        By how much the expected value breaks the bound, >= 0.
    tolerance : ndarray of shape (n_rows,)
        What solving may leave of a violation, which counts as none: 1e-5 times the size of the row, the larger of its
        bound and the Euclidean norm of its coefficients.
    """

    name: str
    sense: NDArray[np.str_]
    keys: Mapping[str, NDArray]
    bound: NDArray[np.float64]
    price: NDArray[np.float64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    violation_before: NDArray[np.float64]
    violation_after: NDArray[np.float64]
    tolerance: NDArray[np.float64]

    @property
    def cost(self) -> NDArray[np.float64]:
        """About what each row cost the objective, ``|price (after - before)|`` in nats, shape (n_rows,)."""
        return np.abs(self.price * (self.after - self.before))

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Rows that are violated by more than their tolerance after, shape (n_rows,)."""
        return self.violation_after > self.tolerance

    @property
    def worst_before(self) -> float:
        """Largest of ``violation_before``, 0 without rows."""
        return float(self.violation_before.max(initial=0.0))

    @property
    def worst_after(self) -> float:
        """Largest of ``violation_after``, 0 without rows."""
        return float(self.violation_after.max(initial=0.0))


def report_constraints(
    rows: Rows, multipliers: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> tuple[ConstraintReport, ...]:
    """Reports of all constraints from the probabilities of the cells before and after.

    Where cells count with weights, in rows over several instances, ``rows.matrix`` holds them already.
    """
    return report_rows(rows, multipliers, rows.matrix @ before, rows.matrix @ after)


def report_rows(
    rows: Rows, multipliers: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> tuple[ConstraintReport, ...]:
    """Reports of all constraints from the expected values of their rows before and after, shape (n_rows,)."""
    matrix = rows.matrix
    squares = sp.csr_array((matrix.data**2, matrix.indices, matrix.indptr), shape=matrix.shape)
    copies = np.ones(matrix.shape[1]) if rows.alike is None else rows.alike.copies()
    return _reports(rows, np.sqrt(squares @ copies), multipliers, before, after)


def report_corpus_rows(
    rows: CorpusRows, multipliers: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> tuple[ConstraintReport, ...]:
    """Reports of the constraints that span a corpus, from the expected values of their rows, shape (n_rows,)."""
    norms = np.ones(len(rows.bounds)) if rows.norms is None else rows.norms
    return _reports(rows, norms, multipliers, before, after)


def report_weighted(
    rows: Rows,
    structure: Structure,
    weights: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
) -> tuple[ConstraintReport, ...]:
    """Reports as of `report_constraints` where instances count with weights in rows of corpus scope.

    The bound of a row inside an instance of weight w holds for w copies of it: so many times is its price gained.

    Parameters
    ----------
    rows : Rows
    structure : Structure
    weights : ndarray of shape (n_instances,)
    multipliers : ndarray of shape (n_rows,)
        Of `spectrem.inference.project_batch` with these weights.
    before, after : ndarray of shape (n_unary,)
    """
    from spectrem.inference.oracle import weigh_rows

    weighted = weigh_rows(structure, rows, weights)
    return report_constraints(weighted, price_copies(rows, weights, multipliers), before, after)


def price_copies(rows: Rows, weights: NDArray[np.float64] | None, multipliers: NDArray[np.float64]) -> NDArray:
    """Prices of rows, those inside an instance for all its copies together, shape (n_rows,)."""
    return (
        multipliers
        if weights is None
        else multipliers * np.where(rows.row_instance >= 0, weights[rows.row_instance], 1.0)
    )


def prices_by_name(constraints: Iterable[tuple[str, NDArray[np.float64]]]) -> dict[str, NDArray[np.float64]]:
    """Prices of constraints by their names; those of a second one of the same name are called ``"name (2)"``."""
    out: dict[str, NDArray[np.float64]] = {}
    for name, price in constraints:
        distinct, again = name, 1
        while distinct in out:
            again += 1
            distinct = f"{name} ({again})"
        out[distinct] = price
    return out


def row_name(report: ConstraintReport, row: int) -> str:
    """The group of a row, as ``"document 3, label spam"``; without groups its number, or nothing for a single row."""
    if report.keys:
        return ", ".join(f"{name} {values[row]}" for name, values in report.keys.items())
    return f"row {row}" if len(report.bound) > 1 else ""


def row_line(report: ConstraintReport, row: int) -> str:
    """A row in words: its group, expected value before and after, bound, and price."""
    group = f" in {row_name(report, row)}" if report.keys else ""
    return (
        f"{report.name}{group}: {report.before[row]:.4g} -> {report.after[row]:.4g} {report.sense[row]} "
        f"{report.bound[row]:.4g}, price {report.price[row]:.3g}"
    )


def largest_rows(report: ConstraintReport, limit: int | None = None) -> NDArray[np.int64]:
    """The rows that matter most, at most ``limit``: by violation, then by cost, then by price.

    The cost is about ``|price (after - before)|`` nats. By price alone, rows would come first that bind only in the
    ninth digit.

    Examples
    --------
    >>> free, bound = np.zeros(3), np.ones(3)
    >>> violation, price = np.array([0.0, 0.5, 0.0]), np.array([1.0, 0.0, 2.0])
    >>> report = ConstraintReport("size", np.full(3, "<="), {}, bound, price, free, free, free, violation, 1e-5 * bound)
    >>> largest_rows(report, 2)
    array([1, 2])
    """
    violation = np.where(report.broken, report.violation_after, 0.0)
    order = np.lexsort((-np.abs(report.price), -report.cost, -violation))
    return order[:limit].astype(np.int64)


def binding_rows(price: NDArray[np.float64] | float, tolerance: NDArray[np.float64] | float) -> NDArray[np.bool_]:
    """Rows whose bound, relaxed by the size of the row, would gain a thousandth of a nat or more, shape (n_rows,)."""
    return np.asarray(np.abs(price) * tolerance / _SOLVED >= 1e-3)


def _reports(
    rows: Rows | CorpusRows,
    norms: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
) -> tuple[ConstraintReport, ...]:
    size = np.maximum(np.abs(rows.bounds), norms)
    tolerance = _SOLVED * np.where(size > 0, size, 1.0)
    return tuple(_report(block, rows.bounds, multipliers, before, after, tolerance) for block in rows.blocks)


def _report(
    block: Block,
    bounds: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    tolerance: NDArray[np.float64],
) -> ConstraintReport:
    span = slice(block.start, block.stop)
    sign = np.where(block.senses == ">=", -1.0, 1.0)

    def violation(values: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = values[span] - bounds[span]
        return np.abs(excess) if block.equality else np.maximum(excess, 0.0)

    return ConstraintReport(
        name=block.name,
        sense=block.senses,
        keys=dict(block.keys.items()),
        bound=sign * bounds[span],
        price=multipliers[span],
        before=sign * before[span],
        after=sign * after[span],
        violation_before=violation(before),
        violation_after=violation(after),
        tolerance=tolerance[span],
    )
