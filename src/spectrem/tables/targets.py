"""Soft targets under constraints for trainers of any kind, from batches or whole epochs of log-probabilities."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._validate import as_count
from spectrem.constraints.columns import plain
from spectrem.constraints.compilation.draft import PartTable, draft_rows, each_columns, weight_columns
from spectrem.constraints.compilation.facts import RowFacts
from spectrem.constraints.compilation.groups import Key, KeyColumns, as_key, join_keys, number_groups, numbers_of
from spectrem.constraints.compilation.rows import Block, Rows, no_rows
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.links import RowLinks, resolve_links
from spectrem.constraints.text import Constraints, flatten
from spectrem.corpus.corpus import ONE_BLAS_THREAD
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.inference import Projection, project_batch
from spectrem.inference.dual import Evaluation, SlackTerms, compile_slack, row_maxima, sum_by
from spectrem.inference.solvers.smooth import QuasiNewton, curvature_of_batch, smooth_solver
from spectrem.learning.schedule import check_gamma
from spectrem.reports import prices_by_name
from spectrem.structures import Parts, Structure
from spectrem.tables.project import Cells, compile_table, project, read_cells

# Up to this many rows their curvature is factorised as a dense matrix; that of more is only multiplied with.
MOST_ROWS = 500
# Tolerances of Newton's method, which is exact once it has found the rows at bounds, and of the other solvers.
_TOL, _ROUGH = 1e-9, 1e-4


class Quadratic:
    """The function ``slope . d + d . (curvature + diagonal) d / 2`` of multipliers ``origin + d``.

    It is a dual as solvers see them. Sets of rows that are not tied to each other are problems of their own.

    Parameters
    ----------
    terms : SlackTerms
        Feasible set of the multipliers, and what they cost beyond the quadratic function.
    origin, slope : ndarray of shape (n_rows,)
    curvature : csr_array of shape (n_rows, n_rows)
        Positive semidefinite.
    diagonal : ndarray of shape (n_rows,)
        What is added to the diagonal of the curvature, which is above 0 then.
    unit : float
        Tolerances are shares of that move of a multiplier which adds half of this to the function where its slope is 0.
    """

    def __init__(
        self,
        terms: SlackTerms,
        origin: Floats,
        slope: Floats,
        curvature: sp.csr_array,
        diagonal: Floats,
        unit: float,
    ) -> None:
        self.terms, self.origin, self.slope, self.curvature, self.diagonal = terms, origin, slope, curvature, diagonal
        self.gamma, n = 1.0, len(origin)
        self.few = terms.is_box and n <= MOST_ROWS
        if terms.is_box and not self.few:
            from scipy.sparse.csgraph import connected_components

            n_problems, problem = connected_components(curvature, directed=False)
            self.terms = replace(terms, row_problem=problem.astype(np.int64), n_problems=n_problems)
        self.row_problem, self.n_problems = self.terms.row_problem, self.terms.n_problems
        whole = curvature.diagonal() + diagonal
        self.row_weight, self.scale, self.lever = np.ones(n), 1.0 / whole, np.sqrt(whole / unit)
        self.size = whole / self.lever

    def evaluate(self, multipliers: Floats, active: Bools) -> Evaluation:
        move = multipliers - self.origin
        bent = self.curvature @ move + self.diagonal * move
        return Evaluation(
            sum_by(self.row_problem, move * (self.slope + 0.5 * bent), self.n_problems), self.slope + bent
        )

    def infeasible(self, multipliers: Floats, active: Bools) -> Bools:
        return np.zeros(self.n_problems, np.bool_)

    def minimum(self) -> Floats:
        """The multipliers at the minimum, shape (n_rows,); it does not depend on the number of threads."""
        with ONE_BLAS_THREAD:
            if not self.few:
                return smooth_solver(self, _ROUGH, 100).solve(self, self.origin).multipliers
            dense = self.curvature.toarray()
            np.fill_diagonal(dense, dense.diagonal() + self.diagonal)
            newton = QuasiNewton(_TOL, curvature=lambda _: dense, far=np.inf)
            return newton.solve(self, self.origin).multipliers


# Least curvature, relative to the square of the row's coefficients, so that quotients are finite.
_TINY = 1e-100
# Evaluations of a batch at most, as long as prices are far from what it asks for.
_MOST_EVALUATIONS = 30
# The numbers of `Kept`, 0 for rows that no batch has shown.
_NUMBERS = ("prices", "moments", "largest", "seen")

EvaluateBatch: TypeAlias = "Callable[[Floats], tuple[Floats, sp.csr_array, Floats]]"
"""From prices of all rows to what a batch shows at them: its marginals, shape (n_unary,); how much the expectations of
the rows over the batch fall when prices rise, shape (n_rows, n_rows); and the second moments of the rows over the
batch, over gamma, which are at least as large, shape (n_rows,)."""


@dataclass(frozen=True, eq=False)
class ConstraintRows:
    """The rows of one constraint over the whole set that some batch has shown.

    Attributes
    ----------
    side : ndarray of shape (n_rows,)
        0 for upper rows and equalities, 1 for lower rows.
    keys : mapping of name -> Key
        The columns of ``.per``, one value per row.
    constant : ndarray of shape (n_rows,)
        The part of the bound that does not depend on the data.
    over : ndarray of shape (n_rows, n_shares)
        In all batches together, the counts by which those terms of the constraint are divided that are shares.
    total : int
        How many instances all batches had.
    """

    side: Ints
    keys: Mapping[str, Key]
    constant: Floats
    over: Floats
    total: int = 0

    @classmethod
    def none(cls, constraint: Constraint) -> ConstraintRows:
        """Before any batch."""
        keys = dict.fromkeys(constraint.key_columns, np.zeros(0))
        shares = {term.over for side in constraint.sides for term in side.terms} - {None}
        return cls(np.zeros(0, np.int64), keys, np.zeros(0), np.zeros((0, len(shares))))

    def join(self, rows: RowFacts) -> tuple[ConstraintRows, Ints, Ints]:
        """These rows and those of a batch, in the order of sides and keys, and where each of both stands then."""
        n = len(self.side)
        keys = {
            name: join_keys([key, rows.keys[name]], name) if n else rows.keys[name] for name, key in self.keys.items()
        }
        side = np.concatenate([self.side, rows.side])
        row, first = number_groups([side, *map(numbers_of, keys.values())], len(side))
        over = np.zeros((len(first), self.over.shape[1]))
        over[row[:n]] = self.over
        constant = np.concatenate([self.constant, rows.constant])[first]
        keys = {name: key[first] for name, key in keys.items()}
        return ConstraintRows(side[first], keys, constant, over, self.total), row[:n], row[n:]


@dataclass(frozen=True, eq=False)
class Kept:
    """All rows over the whole set that some batch has shown, constraint after constraint, and their prices.

    Attributes
    ----------
    constraints : tuple of ConstraintRows
    prices : ndarray of shape (n_rows,)
        Multipliers, nats per unit of the row.
    moments : ndarray of shape (n_rows,)
        Second moments of the row over the whole set, on the average of batches, over gamma.
    largest : ndarray of shape (n_rows,)
        The largest size of a coefficient of the row at a possible label.
    seen : ndarray of shape (n_rows,)
        How many instances prices rest on.
    curvature : csr_array of shape (n_rows, n_rows)
        How much the expectations of all rows over the whole set fall when their prices rise, on the average of batches.
    """

    constraints: tuple[ConstraintRows, ...]
    prices: Floats
    moments: Floats
    largest: Floats
    seen: Floats
    curvature: sp.csr_array

    @classmethod
    def none(cls, constraints: Sequence[Constraint]) -> Kept:
        """Before any batch."""
        nothing = np.zeros(0)
        return cls(
            tuple(map(ConstraintRows.none, constraints)), nothing, nothing, nothing, nothing, sp.csr_array((0, 0))
        )

    def split(self, values: Floats) -> list[Floats]:
        """Values of all rows, shape (n_rows,), by constraint."""
        return np.split(values, np.cumsum([len(rows.side) for rows in self.constraints], dtype=np.int64))[:-1]

    @property
    def state(self) -> dict[str, Any]:
        """All of it as lists of numbers and text."""
        numbers = {name: self.split(getattr(self, name)) for name in _NUMBERS}
        curvature = self.curvature.tocoo()
        return {
            "rows": [
                {
                    "keys": {name: [plain(value) for value in np.asarray(key)] for name, key in rows.keys.items()},
                    "total": rows.total,
                    **{name: getattr(rows, name).tolist() for name in ("side", "constant", "over")},
                    **{name: values[k].tolist() for name, values in numbers.items()},
                }
                for k, rows in enumerate(self.constraints)
            ],
            "curvature": [values.tolist() for values in (*curvature.coords, curvature.data)],
        }

    @classmethod
    def of_state(cls, constraints: Sequence[Constraint], state: Mapping[str, Any]) -> Kept:
        """The rows that `state` described."""
        listed = []
        for rows, constraint in zip(state["rows"], constraints, strict=True):
            side, constant, over = (np.array(rows[name], np.float64) for name in ("side", "constant", "over"))
            keys = {name: as_key(np.array(values)) for name, values in rows["keys"].items()}
            over = over.reshape(len(side), ConstraintRows.none(constraint).over.shape[1])
            listed.append(ConstraintRows(side.astype(np.int64), keys, constant, over, int(rows["total"])))
        numbers = {name: np.array([x for rows in state["rows"] for x in rows[name]], np.float64) for name in _NUMBERS}
        row, column, values = state["curvature"]
        n = len(numbers["prices"])
        curvature = sp.csr_array((np.array(values, np.float64), (row, column)), shape=(n, n))
        return cls(tuple(listed), **numbers, curvature=curvature)


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Rows over the whole set, as one batch shows them.

    Attributes
    ----------
    kept : Kept
        With those that the batch is the first to show.
    terms : SlackTerms
        The multipliers that are feasible, and what slack adds to the dual.
    matrix : csr_array of shape (n_rows, n_unary)
        Of all rows kept, constraint after constraint.
    bounds : ndarray of shape (n_rows,)
        Those of the whole set, as the batch lets them be estimated.
    observed : ndarray of shape (n_rows,), bool
        Rows of which all counts that they are divided by are above 0 so far; the gradient of others is not known.
    open : ndarray of int
        Rows that do not hold whatever the batch's distributions are: those that `compile_constraints` makes of them.
    """

    kept: Kept
    terms: SlackTerms
    matrix: sp.csr_array
    bounds: Floats
    observed: Bools
    open: Ints

    def descend(self, n: int, evaluate: EvaluateBatch, weight: float, gamma: float) -> Kept:
        """The rows kept, with prices that have made a step down the dual.

        New prices x minimise the dual of the batch and a quadratic approximation of those of the batches before it,

            D(x) + (x - x0) . P (x - x0) / 2,    P = t / 2 * H,

        with the old prices x0, the number t of batches before, and the curvature H of all rows together on the average
        of these: the covariance of the rows under the targets, over gamma. That is Newton's method by stochastic
        approximation with implicit steps ([Amari1998]; [Toulis2017]): rows that overlap, or say the same twice,
        are solved for together, and far from the solution no batch moves prices farther than those before it allow. The
        average curvature is (1 - s) H + s C, with that of the batch C and s = 2 / (t + 2), which makes prices an
        average of what batches ask for in which late ones count more.

        Every evaluation of the batch is followed by one Newton step of this problem, within the signs and under the
        slack of the rows, whose curvature is raised by that of as many independent instances as rows meet in it, over
        the number of instances seen (Levenberg's damping: few instances do not show how many rows curve together).
        Scores move by no more than gamma; where they would, the batch is evaluated again.

        Parameters
        ----------
        n : int
            Instances of the batch.
        evaluate : callable
            From prices to marginals, curvature and moments of the batch.
        weight : float
            How many instances of the whole set one of the batch stands for.
        gamma : float
        """
        kept, prices = self.kept, self.kept.prices
        before = float(kept.seen.max(initial=0.0))
        total = before + n
        share, latest = 2.0 * n / (kept.seen + 2.0 * n), 2.0 * n / (before + 2.0 * n)
        # The average has zeros from before a row was seen. This part of it, exact for batches of one size, has not.
        missed = before - kept.seen
        known = 1.0 - missed * (missed + n) / (total * (total + n))
        # The curvature of the problem is that of the average over its share, of each row.
        stretch = 1.0 / np.sqrt(known * share)
        former = (1.0 - latest) * kept.curvature
        pull, terms, here = _scaled(former, stretch), self.terms, row_maxima(self.matrix)
        largest = np.maximum(here, kept.largest)
        for _ in range(_MOST_EVALUATIONS):
            marginals, curvature, batch_moments = evaluate(prices)
            average = sp.csr_array(former + (latest * weight) * curvature)
            moments = kept.moments + share * (weight * batch_moments - kept.moments)
            known_slope = self.observed & (largest > 0)
            slope = np.where(known_slope, self.bounds - weight * (self.matrix @ marginals), 0.0)
            slope += pull @ (prices - kept.prices)
            joint = _scaled(average, stretch)
            damping = np.diff(average.indptr) / (kept.seen + n) * moments / share
            # With this on its diagonal no row alone moves scores by more than gamma, however little it curves.
            least = np.abs(slope) * largest / gamma - joint.diagonal()
            raised = np.where(largest > 0, np.maximum(np.maximum(damping, least), _TINY * largest**2), 1.0)
            move = Quadratic(terms, prices, slope, joint, raised, weight * n * gamma).minimum() - prices
            reach = max(
                float(np.abs(self.matrix.T @ move).max(initial=0.0)),
                float(np.abs(largest * move)[here == 0].max(initial=0.0)),
            )
            prices = prices + move * min(1.0, gamma / max(reach, 1e-300))
            held = (least >= raised) & (np.abs(move) * here > 0.5 * gamma)
            if reach <= gamma and not held.any():
                break
        seen = np.where(self.observed, kept.seen + n, kept.seen)
        return replace(kept, prices=prices, moments=moments, largest=largest, seen=seen, curvature=average)

    def solved(self, n: int, evaluate: EvaluateBatch, prices: Floats, gamma: float) -> Kept:
        """The rows kept, with the prices of the ``open`` ones that solve the dual of the whole set, the batch."""
        multipliers = np.zeros(len(self.bounds))
        multipliers[self.open] = prices
        kept = replace(self.kept, prices=multipliers, seen=np.full(len(multipliers), float(n)))
        if not gamma > 0:
            return kept
        _, curvature, moments = evaluate(multipliers)
        return replace(kept, moments=moments, largest=row_maxima(self.matrix), curvature=curvature)


def batch_rows(constraints: Sequence[Constraint], kept: Kept, table: PartTable, *, learns: bool) -> BatchRows:
    """The rows over the whole set of some constraints, as a batch shows them.

    Parameters
    ----------
    constraints : sequence of Constraint
    kept : Kept
        What earlier batches have shown of their rows.
    table : PartTable
        The columns of the batch, whose ``weights`` say how many instances of the whole set each stands for.
    learns : bool
        Whether the counts of the batch, by which shares are divided, are added to those kept.
    """
    assert table.weights is not None
    n, weight = table.structure.n_instances, float(table.weights[0])
    blocks, joined, entries, bounds, observed, held, former, start = [], [], [], [], [], [], [], 0
    for constraint, before in zip(constraints, kept.constraints, strict=True):
        draft = draft_rows(constraint, table)
        rows, place_before, place = before.join(draft.rows)
        if draft.rows.wholes and (learns or not rows.total):
            counts = rows.over.copy()
            for k, total in enumerate(draft.rows.wholes):
                counts[place, k] += total.total() / weight
            rows = replace(rows, over=counts, total=rows.total + n)
        whole = rows.over * (weight * n / max(rows.total, 1))
        factors = np.divide(1.0, whole, out=np.zeros(whole.shape), where=whole > 0).T
        bound = rows.constant.copy()
        for tally, terms, factor in zip(draft.rows.counts, draft.entries, (np.ones(len(bound)), *factors), strict=True):
            bound[place] += tally.total() * factor[place]
            row, cell = terms.tocoo().coords
            entries.append((start + place[row], cell, terms.tocoo().data * factor[place[row]]))
        former.append(start + place_before)
        head, stop, keys = draft.head, start + len(bound), KeyColumns(dict(rows.keys))
        tied = np.zeros(len(bound), np.int64)
        blocks.append(Block(head.name, start, stop, head.equality, "corpus", head.slack, tied, keys))
        joined.append(rows)
        bounds.append(bound)
        observed.append((whole > 0).all(axis=1))
        held.append(start + place[draft.rows.bounds(head)[1]])
        start = stop
    row, part, values = (np.concatenate(each) for each in zip(*entries, strict=True))
    places, curvature = np.concatenate(former), kept.curvature.tocoo()
    numbers = {name: np.zeros(start) for name in _NUMBERS}
    for name, array in numbers.items():
        array[places] = getattr(kept, name)
    pair = tuple(places[index] for index in curvature.coords)
    return BatchRows(
        Kept(tuple(joined), **numbers, curvature=sp.csr_array((curvature.data, pair), shape=(start, start))),
        compile_slack(tuple(blocks), np.zeros(start, np.int64), 1),
        sp.csr_array((values, (row, part)), shape=(start, table.structure.n_unary)),
        np.concatenate(bounds),
        np.concatenate(observed),
        np.concatenate([np.zeros(0, np.int64), *held]),
    )


def covariances(matrix: sp.csr_array, structure: Structure, marginals: Floats) -> tuple[sp.csr_array, Floats]:
    """Covariances of the rows, added up over the choices of a batch, and second moments of each.

    Tokens of a lattice count as independent, which changes how fast prices converge, not to what.
    """
    weighted = matrix * marginals[None, :]
    second = sp.csr_array(weighted @ matrix.T)
    choice = structure.choice
    spread = sp.csr_array((np.ones(len(choice)), (np.arange(len(choice)), choice)))
    means = sp.csr_array(weighted @ spread)
    return sp.csr_array(second - means @ means.T), second.diagonal()


def _scaled(matrix: sp.csr_array, factor: Floats) -> sp.csr_array:
    """The matrix with every row and column times its factor."""
    data = matrix.data * np.repeat(factor, np.diff(matrix.indptr)) * factor[matrix.indices]
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


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
    memory : int, optional
        Prices rest on about so many of the latest batches; without it on all. For a
        model that learns from every batch: prices that rest on much older predictions than its own swing to and fro.

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
    memory: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        for name in ("n_rows", "memory"):
            if getattr(self, name) is not None:
                as_count(getattr(self, name), name, minimum=1)
        for name in ("within_batch", "across_batches"):
            if isinstance(getattr(self, name), str):
                raise InvalidInputError(f"{name} must list names, got {quoted(getattr(self, name))}; put it in a list")
        listed = flatten(self.constraints)
        within = [self._lies_within(one) for one in listed]
        self._within = [one for one, inside in zip(listed, within, strict=True) if inside]
        self._across = [one for one, inside in zip(listed, within, strict=True) if not inside]
        self._where = [k for k, inside in enumerate(within) if not inside]
        self._kept = Kept.none(self._across)

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
        return self._soft_targets(log_probabilities, columns, learns=True)

    def targets(self, log_probabilities: Any, columns: Any = None) -> Any:
        """Targets at the prices as they are; parameters and result as of `update`.

        Use for a batch from which prices are not to learn, or not again.

        Parameters
        ----------
        log_probabilities, columns
            As in `update`.

        Returns
        -------
        array or list of arrays
            As of `update`.
        """
        return self._soft_targets(log_probabilities, columns, learns=False)

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
            cells, values = table._cells, table._cells.user_columns(columns)
            self._kept = Kept.none(self._across)
            rows = self._rows(cells, values, 1.0, learns=True)
            evaluate = partial(self._evaluate, cells, self._rows_within(cells, values), rows.matrix)
            self._kept = rows.solved(n, evaluate, np.concatenate(prices), self.gamma)
        return table.proba

    @property
    def prices_(self) -> dict[str, Floats]:
        """Multipliers of the constraints over the whole set, by name; a second one of a name is ``"name (2)"``."""
        prices = self._kept.split(self._kept.prices)
        return prices_by_name((one.name, values.copy()) for one, values in zip(self._across, prices, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """The prices and what their steps rest on, as mappings and lists of numbers and text, to be saved with a model.

        Returns
        -------
        dict
            Mappings, lists, numbers and text, which JSON and ``torch.save`` take.

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
        return {"constraints": self._texts, **self._kept.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the prices of what `state_dict` gave.

        Parameters
        ----------
        state : mapping
            What `state_dict` gave, of the same constraints.

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
        self._kept = Kept.of_state(self._across, state)

    @property
    def _texts(self) -> list[str]:
        return [repr(one) for one in self._across]

    def _lies_within(self, one: Any) -> bool:
        """Whether a constraint is solved in every batch; raises if that cannot be told."""
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
                f"{quoted(one.name)} is per {unknown[0]!r}: name it in within_batch if every batch holds all rows of a "
                "value or none, in across_batches if values have rows in many batches"
            )
        counted = each_columns(one) - {*_INSIDE, *self.within_batch}
        derived = {name for name in weight_columns(one) if name.endswith("_frequency")}
        if unknown or counted or derived:
            column = [*unknown, *sorted(counted | derived)][0]
            raise InvalidInputError(
                f"{quoted(one.name)} looks at {column!r} over the whole set, which no batch can tell; give what it is "
                "there as a column, or use spectrem.project on whole epochs"
            )
        return False

    def _weight(self, n: int) -> float:
        """The number of rows of the whole set for which one of a batch of n stands."""
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

    def _soft_targets(self, log_probabilities: Any, columns: Any, *, learns: bool) -> Any:
        """Targets for a batch, from which the prices of constraints over the whole set may learn first."""
        cells = read_cells(log_probabilities, self.labels, "log", self.constraints)
        cells.check_labels(self._across)
        return cells.cut(self.project_cells(cells, cells.user_columns(columns), learns=learns)[1].unary)

    def project_cells(self, cells: Cells, values: Mapping[str, Any], *, learns: bool) -> tuple[float, Parts]:
        """Posteriors of a batch of any structure, and the sum of their expected scores and gamma times their entropy.

        Parameters
        ----------
        cells : Cells
            The structure and the scores of its parts.
        values : mapping of name -> array-like
            The columns that constraints name.
        learns : bool
            Whether the prices of constraints over the whole set make a step first.

        Returns
        -------
        value : float
            The sum, nats, less penalties of constraints within the batch.
        marginals : Parts
            Probabilities of the parts under the constraints.
        """
        within, n = self._rows_within(cells, values), cells.structure.n_instances
        if not self._across:
            projection = self._project(cells, within, cells.scores)
            return projection.dual_value, projection.marginals
        weight = self._weight(n)
        rows = self._rows(cells, values, weight, learns=learns)
        kept = rows.kept
        if learns:
            kept = rows.descend(n, partial(self._evaluate, cells, within, rows.matrix), weight, self.gamma)
            most = np.inf if self.memory is None else float(self.memory * n)
            kept = self._kept = replace(kept, seen=np.minimum(kept.seen, most))
        projection = self._project(cells, within, _shifted(cells.scores, rows.matrix, kept.prices))
        paid = float(kept.prices @ (rows.matrix @ projection.marginals.unary))
        return projection.dual_value + paid, projection.marginals

    def _rows(self, cells: Cells, values: Mapping[str, Any], weight: float, *, learns: bool) -> BatchRows:
        columns = ChainMap(cells.label_columns, cast(Any, values))
        table = PartTable(cells.structure, columns, weights=np.full(cells.structure.n_instances, weight))
        rows = batch_rows(self._across, self._kept, table, learns=learns)
        # No price changes what is impossible.
        return replace(rows, matrix=sp.csr_array(rows.matrix * np.isfinite(cells.scores.unary)))

    def _rows_within(self, cells: Cells, values: Mapping[str, Any]) -> Rows:
        """The rows of the constraints within the batch."""
        if not self._within:
            return no_rows(cells.structure.n_unary)
        known = ChainMap(cast(Any, cells.columns), cast(Any, values))
        return compile_table(list(resolve_links(self._within, known, cells.structure.n_instances)), cells, values)

    def _project(self, cells: Cells, within: Rows, scores: Parts) -> Projection:
        """The projection onto the constraints within the batch, of scores less the prices of the others."""
        return project_batch(cells.structure, scores, within, self.gamma, tol=self.tol)

    def _evaluate(
        self, cells: Cells, within: Rows, matrix: sp.csr_array, prices: Floats
    ) -> tuple[Floats, sp.csr_array, Floats]:
        """See `EvaluateBatch`; the curvature is what the rows within the batch leave of that of the others."""
        scores = _shifted(cells.scores, matrix, prices)
        projection = self._project(cells, within, scores)
        curvature, moments = covariances(matrix, cells.structure, projection.marginals.unary)
        curvature, moments = sp.csr_array(curvature / self.gamma), moments / self.gamma
        if len(within.bounds) and len(moments) <= MOST_ROWS:
            exact = curvature_of_batch(
                cells.structure, scores, within, projection.multipliers, self.gamma,
                np.ones(cells.structure.n_instances), sp.csr_array(matrix.T),
            )  # fmt: skip
            if np.isfinite(exact).all():
                curvature = sp.csr_array(exact)
        return projection.marginals.unary, curvature, moments


def _shifted(scores: Parts, matrix: sp.csr_array, prices: Floats) -> Parts:
    """Scores less the prices of the rows over the whole set."""
    return Parts(scores.unary - matrix.T @ prices, scores.factors)
