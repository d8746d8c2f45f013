"""What a projected table hands back: probabilities, prices, violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.rows import Block, Rows
from spectrem.inference.result import Status
from spectrem.tables.decision import Decision, decide
from spectrem.tables.reading import Cells


@dataclass(frozen=True, eq=False)
class ConstraintReport:
    """One constraint before and after, one entry per row that it compiled to.

    Numbers are told as the user wrote the constraint: the bound of a ``>=`` is a lower one.

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


@dataclass(frozen=True, eq=False)
class ProjectedTable:
    """The table nearest to a model's that meets the constraints.

    Attributes
    ----------
    proba : ndarray of shape (n_rows, n_labels), or list of ndarrays
        Projected probabilities; a list where rows have their own length, of arrays (n_tokens, n_labels) for a lattice.
    constraints : tuple of ConstraintReport
        In the order in which they were given.
    status : Status
        ``status.message`` says it in words.
    kl : float or None
        What the constraints cost the objective in nats: KL(projected || given) at gamma = 1 without slack; None for
        an integer program.
    objective : float
        ``<scores, q> + gamma H(q) - slack`` in nats.
    violation_before, violation_after : float
        The worst of any row of any constraint, in the row's own unit.
    multipliers : ndarray of shape (n_constraint_rows,)
        Prices in the order of the compiled rows.
    n_evaluations : int
        Passes over the table.
    """

    proba: NDArray[np.float64] | list[NDArray[np.float64]]
    constraints: tuple[ConstraintReport, ...]
    status: Status
    kl: float | None
    objective: float
    violation_before: float
    violation_after: float
    multipliers: NDArray[np.float64]
    n_evaluations: int
    _cells: Cells = field(repr=False)
    _rows: Rows = field(repr=False)

    @property
    def prices(self) -> dict[str, NDArray[np.float64]]:
        """``price`` of every constraint by its name; a second one of the same name is called ``"name (2)"``."""
        out: dict[str, NDArray[np.float64]] = {}
        for report in self.constraints:
            name, again = report.name, 1
            while name in out:
                again += 1
                name = f"{report.name} ({again})"
            out[name] = report.price
        return out

    def decide(self, *, time_limit: float | None = None) -> Decision:
        """The best single label for every row such that the constraints hold exactly.

        Maximises the sum of the scores of the labels chosen (the log of the probabilities that the table had before the
        projection), less the penalties of slack: the argmax of [Chang2007], by a linear program where that is integral
        and an integer program (HiGHS) where not.

        Parameters
        ----------
        time_limit : float or None
            Seconds for the integer program of a table (not of a lattice); the best decision found so far is returned,
            with its gap.

        Returns
        -------
        Decision

        Raises
        ------
        InfeasibleConstraintError
            If no choice of labels meets the constraints, although probabilities may.
        InvalidInputError
            If a slack has an l2 norm, or nothing was found within the time limit.

        Examples
        --------
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], E[part("label") == 1] == 1)
        >>> table.decide().labels
        array([0, 0, 1])
        """
        return decide(self._cells, self._rows, time_limit)

    def summary(self) -> str:
        """One line per row of every constraint: expected value before and after, bound, price.

        Examples
        --------
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
        >>> print(table.summary())
        one of them: 0.4 -> 1 >= 1, price 1.52
        """
        lines = []
        for report in self.constraints:
            for row in range(len(report.bound)):
                keys = ", ".join(f"{name} {values[row]}" for name, values in report.keys.items())
                lines.append(
                    f"{report.name}{f' in {keys}' if keys else ''}: {report.before[row]:.4g} -> "
                    f"{report.after[row]:.4g} {report.sense[row]} {report.bound[row]:.4g}, "
                    f"price {report.price[row]:.3g}"
                )
        return "\n".join(lines)


def report_constraints(
    rows: Rows, multipliers: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]
) -> tuple[ConstraintReport, ...]:
    """Reports of all constraints from the probabilities of the cells before and after."""
    first, then = rows.matrix @ before, rows.matrix @ after
    most = np.asarray(rows.matrix.max(axis=1).todense()).ravel() if rows.matrix.nnz else np.zeros(len(rows.bounds))
    return tuple(_report(block, rows.bounds, multipliers, first, then, most <= 0) for block in rows.blocks)


def _report(
    block: Block,
    bounds: NDArray[np.float64],
    multipliers: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    turned: NDArray[np.bool_],
) -> ConstraintReport:
    span = slice(block.start, block.stop)
    lower = turned[span] & (not block.equality)  # compiled from ">=" by the factor -1
    sign = np.where(lower, -1.0, 1.0)

    def violation(values: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = values[span] - bounds[span]
        return np.abs(excess) if block.equality else np.maximum(excess, 0.0)

    return ConstraintReport(
        name=block.name,
        sense=np.where(lower, ">=", "==" if block.equality else "<="),
        keys=block.keys,
        bound=sign * bounds[span],
        price=multipliers[span],
        before=sign * before[span],
        after=sign * after[span],
        violation_before=violation(before),
        violation_after=violation(after),
    )
