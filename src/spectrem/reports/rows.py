"""Bounds, expected values, prices and costs of constraints, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats
from spectrem._html import page
from spectrem._reprs import brief_dataclass
from spectrem.constraints.compilation.rows import CorpusRows, Rows
from spectrem.reports.constraints import SOLVED, number_text
from spectrem.reports.html import constraint_tables
from spectrem.structures.structure import Structure


@brief_dataclass(frozen=True, eq=False)
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
    wholes : ndarray of shape (n_rows,), or None
        What is 100 % of the bound of each row, where bounds are shares: summaries then speak of per cent, and of prices
        per percentage point.
    has_slack : bool
        Whether violations are allowed, at a price or within a bound.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> (report,) = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one")).constraints
    >>> report.name, report.before.round(2), report.after.round(2), report.price.round(2)
    ('one', array([0.4]), array([1.]), array([1.52]))
    """

    name: str
    sense: NDArray[np.str_]
    keys: Mapping[str, NDArray]
    bound: Floats
    price: Floats
    before: Floats
    after: Floats
    violation_before: Floats
    violation_after: Floats
    tolerance: Floats
    wholes: Floats | None = None
    has_slack: bool = False

    @property
    def is_share(self) -> bool:
        """Whether bounds are shares."""
        return self.wholes is not None

    @property
    def scale(self) -> Floats:
        """Percentage points to a unit of each row where bounds are shares, else 1, shape (n_rows,)."""
        return np.ones(len(self.bound)) if self.wholes is None else 100.0 / self.wholes

    @property
    def binding(self) -> Bools:
        """Rows whose bound, relaxed by their size, would gain a thousandth of a nat or more, shape (n_rows,)."""
        return np.abs(self.price) * self.tolerance / SOLVED >= 1e-3

    @property
    def cost(self) -> Floats:
        """About what each row cost the objective, ``|price (after - before)| / 2`` in nats, shape (n_rows,).

        A price grows from 0 to what it is while the bound moves from ``before`` to ``after``, hence the half. Costs of
        all rows add up to about that of the constraints together.
        """
        return np.abs(self.price * (self.after - self.before)) / 2

    @property
    def broken(self) -> Bools:
        """Rows that are violated by more than their tolerance after, shape (n_rows,)."""
        return self.violation_after > self.tolerance

    def worst_text(self, violation: Floats) -> str:
        """The largest of the violations of the rows, shape (n_rows,), in the unit in which they are shown.

        Parameters
        ----------
        violation : ndarray of shape (n_rows,)
            ``violation_before`` or ``violation_after``.

        Returns
        -------
        str
        """
        row = int((self.scale * violation).argmax())
        worst, tolerance = (float(self.scale[row] * values[row]) for values in (violation, self.tolerance))
        return number_text(worst, tolerance, self.is_share)

    @property
    def worst_before(self) -> float:
        """Largest of ``violation_before``, 0 without rows."""
        return float(self.violation_before.max(initial=0.0))

    @property
    def worst_after(self) -> float:
        """Largest of ``violation_after``, 0 without rows."""
        return float(self.violation_after.max(initial=0.0))

    def _repr_html_(self) -> str:
        return page("Constraint", constraint_tables([self]))


def report_rows(
    rows: Rows | CorpusRows, multipliers: Floats, before: Floats, after: Floats
) -> tuple[ConstraintReport, ...]:
    """Reports of all constraints from the expected values of their rows before and after, shape (n_rows,)."""
    if isinstance(rows, Rows):
        copies = np.ones(rows.matrix.shape[1]) if rows.alike is None else rows.alike.copies()
        norms = np.sqrt(rows.matrix.power(2) @ copies)
    else:
        norms = np.ones(len(rows.bounds)) if rows.norms is None else rows.norms
    size = np.maximum(np.abs(rows.bounds), norms)
    tolerance = SOLVED * np.where(size > 0, size, 1.0)
    reports = []
    for block in rows.blocks:
        span = slice(block.start, block.stop)
        sign = np.where(block.senses == ">=", -1.0, 1.0)
        excess = [values[span] - rows.bounds[span] for values in (before, after)]
        violation = [np.abs(values) if block.equality else np.maximum(values, 0.0) for values in excess]
        reports.append(
            ConstraintReport(
                name=block.name,
                sense=block.senses,
                keys=dict(block.keys.items()),
                bound=sign * rows.bounds[span],
                price=multipliers[span],
                before=sign * before[span],
                after=sign * after[span],
                violation_before=violation[0],
                violation_after=violation[1],
                tolerance=tolerance[span],
                wholes=block.wholes,
                has_slack=block.slack is not None,
            )
        )
    return tuple(reports)


def report_weighted(
    rows: Rows, structure: Structure, weights: Floats, multipliers: Floats, before: Floats, after: Floats
) -> tuple[ConstraintReport, ...]:
    """Reports from probabilities of cells, where instances count with weights in rows of corpus scope.

    The bound of a row inside an instance of weight w holds for w copies of it: so many times is its price gained.

    Parameters
    ----------
    rows : Rows
    structure : Structure
    weights : ndarray of shape (n_instances,)
    multipliers : ndarray of shape (n_rows,)
        The solution of `spectrem.inference.project_batch` with these weights.
    before, after : ndarray of shape (n_unary,)
    """
    from spectrem.inference.dual import weigh_rows

    weighted = weigh_rows(structure, rows, weights)
    prices = price_copies(rows, weights, multipliers)
    return report_rows(weighted, prices, weighted.matrix @ before, weighted.matrix @ after)


def price_copies(rows: Rows, weights: Floats | None, multipliers: Floats) -> NDArray:
    """Prices of rows, those inside an instance for all its copies together, shape (n_rows,)."""
    if weights is None:
        return multipliers
    return multipliers * np.where(rows.row_instance >= 0, weights[rows.row_instance], 1.0)


def prices_by_name(constraints: Iterable[tuple[str, Floats]]) -> dict[str, Floats]:
    """Prices of constraints by their names; those of a second one of the same name are called ``"name (2)"``."""
    out: dict[str, Floats] = {}
    for name, price in constraints:
        distinct, again = name, 1
        while distinct in out:
            again += 1
            distinct = f"{name} ({again})"
        out[distinct] = price
    return out
