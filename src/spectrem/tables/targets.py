"""Soft targets under constraints for trainers of any kind, from batches or whole epochs of log-probabilities."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Floats
from spectrem._validate import as_count
from spectrem.constraints.compilation.draft import PartTable, each_columns, weight_columns
from spectrem.constraints.compilation.rows import Rows, no_rows
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.links import RowLinks, resolve_links
from spectrem.constraints.text import Constraints, flatten
from spectrem.constraints.values import check_values
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.inference.batch import project_batch
from spectrem.inference.result import Projection
from spectrem.inference.solvers.newton import curvature_of_batch
from spectrem.learning.schedule import check_gamma
from spectrem.reports.constraints import prices_by_name
from spectrem.structures.parts import Parts
from spectrem.tables.alike import compile_table
from spectrem.tables.lattice import Lattice
from spectrem.tables.project import names_pairs, project
from spectrem.tables.quadratic import MOST_ROWS
from spectrem.tables.reading import Cells, label_columns, read_cells, user_columns
from spectrem.tables.stochastic import BatchRows, KeptRows, Look, batch_rows, covariances

# Columns that all tables have; rows per the first two lie inside a row of the table.
_INSIDE, _OWN = ("row", "occurrence"), ("label", "previous", "token")


@dataclass(eq=False, repr=False)
class ConstrainedTargets:
    """Turns a model's log-probabilities on unlabelled rows into soft targets that meet constraints.

    A trainer of any kind asks for targets, batch by batch or epoch by epoch, and fits its model to them: posterior
    regularisation ([Ganchev2010] eqs 24-30), at other gammas unified EM ([Samdani2012]), without giving up its loop.
    Constraints inside rows are solved in every batch. Constraints over the whole set, such as shares of labels, keep
    their prices from batch to batch. Every `update` makes a step down their dual, whose gradient g the batch lets be
    estimated: prices change by about -2 / (t + 2) H^-1 g after t batches, within the signs and under the slack of their
    constraints. H is the curvature of all these constraints together on the average of batches, the covariance of their
    rows under the targets over gamma; they may overlap and repeat each other. This is Newton's method by stochastic
    approximation ([Amari1998]) with implicit steps ([Toulis2017]). For random batches and a model that stays as it is,
    targets converge to those of the whole set, and so do prices where these are unique, about as fast as means of as
    many rows as batches had; prices of a model that changes lag behind it. `solve` finds them at once, from the
    predictions for all rows, between two epochs for example.

    Up to 500 rows of such constraints are factorised together at every update; of more, only the curvature of those
    that meet in a row of the table is kept, and the step is found by a quasi-Newton method.

    Use when a neural network, or whatever else is trained in batches, has unlabelled data about which something is
    known together.

    Parameters
    ----------
    constraints : constraint, text of one, mapping from names to these, or iterable of all of these
        As for `spectrem.project`, over the columns ``"row"``, ``"label"`` and those that come with the batches. Links
        and matrices that name rows by their number are not for batches.
    gamma : float
        Above 0; for `solve`, and where all constraints lie within batches, also 0 and -inf.
    n_rows : int, optional
        Rows of the whole unlabelled set (of lattices, sequences). A batch of m rows, which must be a random sample of
        it, stands for all of them: its counts are multiplied by n_rows / m. Needed for constraints over the whole set.
    labels : sequence of length n_labels, optional
        What ``part("label")`` is; without it the position, from 0.
    within_batch : sequence of str
        Columns such as a document of which every batch holds all rows with a value or none: constraints per such a
        column are solved in the batch.
    across_batches : sequence of str
        Columns such as a domain whose values have rows in many batches: constraints per such a column keep a price for
        every value.
    tol : float
        Largest residual, relative to the size of a row of the constraints, where they are solved: in `solve`, and
        within batches.

    Attributes
    ----------
    prices_ : mapping of name -> ndarray
        Multipliers of the constraints over the whole set, nats per unit, in the order of `ProjectedTable.prices`.

    Raises
    ------
    InvalidInputError
        If a constraint cannot be used in batches, or is per a column of which nothing is said.

    Examples
    --------
    Predictions in batches of two rows, of which 40 % are known to be spam:

    >>> from spectrem import E, part
    >>> share = (E[part("label") == "spam"] == 0.4 * E.count(..., each="row")).named("share")
    >>> targets = ConstrainedTargets(share, n_rows=4, labels=["ham", "spam"])
    >>> log_p = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> for epoch in range(300):
    ...     for batch in ([0, 2], [1, 3]):
    ...         soft = targets.update(log_p[batch])
    >>> targets.targets(log_p).round(2).tolist()
    [[0.81, 0.19], [0.65, 0.35], [0.52, 0.48], [0.41, 0.59]]

    The same at once:

    >>> targets.solve(log_p).round(2).tolist(), targets.prices_["share"].round(2)
    ([[0.81, 0.19], [0.65, 0.35], [0.52, 0.48], [0.41, 0.59]], array([-0.75]))
    """

    constraints: Constraints
    gamma: float = 1.0
    n_rows: int | None = field(default=None, kw_only=True)
    labels: Any = field(default=None, kw_only=True)
    within_batch: Sequence[str] = field(default=(), kw_only=True)
    across_batches: Sequence[str] = field(default=(), kw_only=True)
    tol: float = field(default=1e-8, kw_only=True)

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        if self.n_rows is not None:
            as_count(self.n_rows, "n_rows", minimum=1)
        for name in ("within_batch", "across_batches"):
            if isinstance(getattr(self, name), str):
                raise InvalidInputError(f"{name} must list names, got {quoted(getattr(self, name))}; put it in a list")
        listed = flatten(self.constraints)
        within = [self._lies_within(one) for one in listed]
        self._within = [one for one, inside in zip(listed, within, strict=True) if inside]
        self._across = [one for one, inside in zip(listed, within, strict=True) if not inside]
        self._where = [k for k, inside in enumerate(within) if not inside]
        self._forget()

    def update(self, log_probabilities: Any, columns: Any = None) -> Any:
        """Targets for a batch, after a step of the prices of constraints over the whole set.

        Parameters
        ----------
        log_probabilities : array-like of shape (n, n_labels), ragged list of rows, frame or Lattice
            Of the batch, nats; logits will do, as only differences within a row count. -inf for impossible.
        columns : mapping of name -> array-like of shape (n,), or frame, optional
            What constraints name beside row and label.

        Returns
        -------
        ndarray of shape (n, n_labels), or list of ndarrays
            A distribution per row; a list for ragged tables and lattices (of shape (n_tokens, n_labels)).

        Raises
        ------
        InvalidInputError
            If ``n_rows`` is missing or smaller than the batch, or gamma is not above 0, where constraints span the
            set; and as `spectrem.project`.
        InfeasibleConstraintError
            If constraints within the batch cannot hold.
        """
        cells, given = self._read(log_probabilities, columns)
        rows, within = None, self._rows_within(cells, given)
        if self._across:
            weight = self._weight(cells.table.n_instances)
            rows = self._rows(cells, given, weight, learns=True)
            n = cells.table.n_instances
            rows = rows.descend(n, partial(self._look, cells, within), weight, self.gamma)
            self._kept, self._curvature = rows.kept, rows.curvature
        return cells.table.cut(self._posterior(cells, within, rows).marginals.unary)

    def targets(self, log_probabilities: Any, columns: Any = None) -> Any:
        """Targets at the prices as they are; parameters and result as of `update`.

        Use for a batch that is looked at only, or again.
        """
        cells, given = self._read(log_probabilities, columns)
        rows = None
        if self._across:
            rows = self._rows(cells, given, self._weight(cells.table.n_instances), learns=False)
        return cells.table.cut(self._posterior(cells, self._rows_within(cells, given), rows).marginals.unary)

    def solve(self, log_probabilities: Any, columns: Any = None) -> Any:
        """Targets for the whole set, which are those of `spectrem.project`; its prices are kept.

        Parameters
        ----------
        log_probabilities, columns
            As of `update`, of all ``n_rows`` rows.

        Returns
        -------
        ndarray of shape (n_rows, n_labels), or list of ndarrays

        Raises
        ------
        InvalidInputError
            If there are not ``n_rows`` rows; and as `spectrem.project`.
        InfeasibleConstraintError
            If the constraints cannot hold.

        See Also
        --------
        spectrem.project : reports of the constraints, and decisions, from the same predictions.
        """
        table = project(
            log_probabilities, self.constraints, self.gamma, columns=columns, labels=self.labels, scores="log",
            tol=self.tol,
        )  # fmt: skip
        n = len(table.proba)
        if n != (self.n_rows or n):
            raise InvalidInputError(
                f"log_probabilities must hold all n_rows = {self.n_rows} rows to be solved, got {n}; give batches to "
                "update"
            )
        if self._across:
            blocks = [table._rows.blocks[k] for k in self._where]
            prices = [table.multipliers[block.start : block.stop] for block in blocks]
            cells, given = self._read(log_probabilities, columns)
            self._forget()
            rows = self._rows(cells, given, 1.0, learns=True)
            look = partial(self._look, cells, self._rows_within(cells, given))
            rows = rows.solved(n, look, np.concatenate(prices), self.gamma)
            self._kept, self._curvature = rows.kept, rows.curvature
        return table.proba

    @property
    def prices_(self) -> dict[str, Floats]:
        """Multipliers of the constraints over the whole set, by name; a second one of a name is ``"name (2)"``."""
        return prices_by_name(
            (one.name, kept.prices.copy()) for one, kept in zip(self._across, self._kept, strict=True)
        )

    def state_dict(self) -> dict[str, Any]:
        """The prices and what their steps rest on, as mappings and lists of numbers and text, to be saved with a model.

        Examples
        --------
        >>> import json
        >>> from spectrem import E, part
        >>> targets = ConstrainedTargets(E[part("label") == 1] <= "30%", n_rows=100)
        >>> _ = targets.update([[0.0, 1.0], [0.0, 2.0]])
        >>> again = ConstrainedTargets(E[part("label") == 1] <= "30%", n_rows=100)
        >>> again.load_state_dict(json.loads(json.dumps(targets.state_dict())))
        >>> again.prices_ == targets.prices_
        True
        """
        curvature = self._curvature.tocoo()
        return {
            "constraints": self._texts,
            "rows": [own.state for own in self._kept],
            "curvature": [values.tolist() for values in (*curvature.coords, curvature.data)],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the prices of what `state_dict` gave.

        Raises
        ------
        InvalidInputError
            If they are those of other constraints, or of an earlier version.
        """
        if "curvature" not in state:
            raise InvalidInputError(
                f"state must be what state_dict of this version gives, got {', '.join(map(repr, state))}; start anew, "
                "with update or solve"
            )
        if state["constraints"] != self._texts:
            raise InvalidInputError(
                f"state must be that of the same constraints, {self._texts}, got {state['constraints']}; make the "
                "object as it was made when the state was saved"
            )
        self._kept = tuple(KeptRows.of_state(own) for own in state["rows"])
        row, column, values = state["curvature"]
        n = sum(map(len, self._kept))
        self._curvature = sp.csr_array((np.array(values, np.float64), (row, column)), shape=(n, n))

    def _forget(self) -> None:
        """Start with no rows of constraints over the whole set."""
        self._kept, self._curvature = tuple(KeptRows.none(one) for one in self._across), sp.csr_array((0, 0))

    @property
    def _texts(self) -> list[str]:
        return [repr(one) for one in self._across]

    def _lies_within(self, one: Any) -> bool:
        """Whether a constraint is solved in every batch; an error if that cannot be said."""
        if isinstance(one, RowLinks) and one.column in self.within_batch:
            return True
        if not isinstance(one, Constraint):
            raise InvalidInputError(
                f"constraints: {getattr(one, 'name', one)!r} is about rows by number, or about a column that is not in "
                "within_batch; batches need constraints made with E, others go to spectrem.project"
            )
        if {*_INSIDE, *self.within_batch} & set(one.groups):
            return True
        unknown = [name for name in one.key_columns if name not in (*_OWN, *self.across_batches)]
        if unknown and unknown[0] not in _INSIDE:
            raise InvalidInputError(
                f"{one.name!r} is per {unknown[0]!r}: name it in within_batch if every batch holds all rows of a value "
                "or none, in across_batches if values have rows in many batches"
            )
        counted = each_columns(one) - {*_INSIDE, *self.within_batch}
        derived = {name for name in weight_columns(one) if name.endswith("_frequency")}
        if unknown or counted or derived:
            column = [*unknown, *sorted(counted | derived)][0]
            raise InvalidInputError(
                f"{one.name!r} looks at {column!r} over the whole set, which no batch can tell; give what it is there "
                "as a column, or use spectrem.project on whole epochs"
            )
        return False

    def _weight(self, n: int) -> float:
        """How many rows of the whole set one of a batch of n stands for."""
        name = self._across[0].name
        if self.gamma <= 0:
            raise InvalidInputError(
                f"gamma must be above 0 where constraints span batches, as {name!r} does, got {self.gamma}; use solve "
                "on whole epochs"
            )
        if self.n_rows is None:
            raise InvalidInputError(
                f"n_rows must be given where constraints span batches, as {name!r} does, got None; give the number of "
                "all unlabelled rows"
            )
        if n > self.n_rows:
            raise InvalidInputError(
                f"log_probabilities must have at most n_rows = {self.n_rows} rows, got {n}; n_rows counts the whole set"
            )
        return self.n_rows / n

    def _read(self, log_probabilities: Any, columns: Any) -> tuple[Cells, Mapping[str, Any]]:
        lattice = isinstance(log_probabilities, Lattice)
        pairs = lattice and names_pairs(self.constraints)
        cells = read_cells(log_probabilities, self.labels, "log", pairs=pairs)
        for name in ("label", "previous"):
            if name in cells.table.columns:
                check_values(self._across, name, cells.known_labels)
        return cells, user_columns(columns, cells)

    def _rows(self, cells: Cells, given: Mapping[str, Any], weight: float, *, learns: bool) -> BatchRows:
        columns = ChainMap(label_columns(cells), cast(Any, given))
        weights = np.full(cells.table.n_instances, weight)
        table = PartTable(cells.table, columns, weights=weights)
        rows = batch_rows(self._across, self._kept, self._curvature, table, learns=learns)
        # No price changes what is impossible.
        return replace(rows, matrix=sp.csr_array(rows.matrix * np.isfinite(cells.scores.unary)))

    def _rows_within(self, cells: Cells, given: Mapping[str, Any]) -> Rows:
        """The rows of the constraints within the batch."""
        if not self._within:
            return no_rows(cells.table.n_unary)
        known = ChainMap(cast(Any, cells.table.columns), cast(Any, given))
        return compile_table(list(resolve_links(self._within, known, cells.table.n_instances)), cells, given)

    def _posterior(self, cells: Cells, within: Rows, rows: BatchRows | None) -> Projection:
        """The projection onto the constraints within the batch, at the prices of the others."""
        return project_batch(cells.table.inner, _shifted(cells, rows), within, self.gamma, tol=self.tol)

    def _look(self, cells: Cells, within: Rows, rows: BatchRows) -> Look:
        """Marginals and curvature of the rows over the whole set, less what the rows within the batch take up."""
        found = self._posterior(cells, within, rows)
        curvature, moments = covariances(rows.matrix, cells.table, found.marginals.unary)
        curvature, moments = sp.csr_array(curvature / self.gamma), moments / self.gamma
        if len(within.bounds) and len(moments) <= MOST_ROWS:
            exact = curvature_of_batch(
                cells.table.inner, _shifted(cells, rows), within, found.multipliers, self.gamma,
                np.ones(cells.table.n_instances), sp.csr_array(rows.matrix.T),
            )  # fmt: skip
            if np.isfinite(exact).all():
                curvature = sp.csr_array(exact)
        return Look(found.marginals.unary, curvature, moments)


def _shifted(cells: Cells, rows: BatchRows | None) -> Parts:
    """The scores of a batch, less the prices of its rows over the whole set."""
    if rows is None:
        return cells.scores
    return Parts(cells.scores.unary - rows.matrix.T @ rows.prices, cells.scores.factors)
