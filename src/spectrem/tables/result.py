"""The result of projecting a table: probabilities, prices, violations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.constraints.compilation.rows import Rows
from spectrem.data.frames import filled_frame
from spectrem.exceptions import InvalidInputError
from spectrem.inference.result import Status
from spectrem.reports.constraints import ConstraintReport, prices_by_name, row_line
from spectrem.reports.html import constraint_tables, facts, page
from spectrem.tables.decision import Decision, decide
from spectrem.tables.reading import Cells


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
        ``<scores, q> + gamma H(q) - slack`` in nats. In it and in `kl`, rows count as often as their weights say.
    violation_before, violation_after : float
        The worst of any row of any constraint, in the row's own unit and whatever slack it has.
    violation : float
        The worst of any row or slack group after the projection, beyond the slack that it was granted: 0 up to rounding
        where the constraints are met as they were meant. A penalty grants any slack; rows that were left out
        (``infeasible="skip"``) do not count.
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
    violation: float
    multipliers: NDArray[np.float64]
    n_evaluations: int
    _cells: Cells = field(repr=False)
    _rows: Rows = field(repr=False)

    def to_frame(self) -> Any:
        """`proba` as the kind of data frame that was given, with its index and columns: of pandas, polars or Arrow.

        Raises
        ------
        InvalidInputError
            If no data frame was given.

        Examples
        --------
        >>> import polars
        >>> from spectrem import E, part, project
        >>> given = polars.DataFrame({"ham": [0.9, 0.4], "spam": [0.1, 0.6]})
        >>> project(given, E[part("label") == "spam"] == 1).to_frame().columns
        ['ham', 'spam']
        """
        if self._cells.frame is None:
            raise InvalidInputError("to_frame needs proba to have been a data frame; take the array, table.proba")
        return filled_frame(self._cells.frame, np.asarray(self.proba))

    @property
    def prices(self) -> dict[str, NDArray[np.float64]]:
        """``price`` of every constraint by its name; a second one of the same name is called ``"name (2)"``."""
        return prices_by_name((own.name, own.price) for own in self.constraints)

    def decide(self, *, time_limit: float | None = None) -> Decision:
        """The best single label for every row such that the constraints hold exactly.

        Maximises the sum of the scores of the labels chosen (the log of the probabilities that the table had before the
        projection), less the penalties of slack: the argmax of [Chang2007]. Constraints that only count the labels of
        rows which they tie together are met along shortest paths; all others by a linear program where that is integral
        and an integer program (HiGHS) where not. A row of weight w (`sample_weight`) counts w times, in its score as in
        constraints over rows, but has one label: it is not split as w rows might be.

        Parameters
        ----------
        time_limit : float or None
            Seconds for all programs together; None is 300, inf no limit. Then the best decision found so far is
            returned, with its gap. If there is none because the constraints conflict, which of them do is looked for
            in some seconds more.

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
        return decide(self._cells, self._rows, time_limit, self._cells.weights)

    def summary(self) -> str:
        """One line per row of every constraint: expected value before and after, bound, price.

        Examples
        --------
        >>> from spectrem import E, part, project
        >>> table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
        >>> print(table.summary())
        one of them: 0.4 -> 1 >= 1, price 1.52
        """
        return "\n".join(row_line(report, row) for report in self.constraints for row in range(len(report.bound)))

    def _repr_html_(self) -> str:
        summary: dict[str, object] = {"status": self.status.message, "objective": f"{self.objective:.6g} nats"}
        if self.kl is not None:
            summary["cost of the constraints"] = f"{self.kl:.6g} nats"
        summary["largest violation"] = f"{self.violation_before:.3g} → {self.violation_after:.3g}"
        if any(block.slack is not None for block in self._rows.blocks):
            summary["beyond the slack granted"] = f"{self.violation:.3g}"
        return page(f"Projected table of {len(self.proba)} rows", facts(summary), constraint_tables(self.constraints))
