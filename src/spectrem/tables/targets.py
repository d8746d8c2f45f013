"""Soft targets under constraints for trainers of any kind, from batches or whole epochs of log-probabilities."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_count
from spectrem.constraints.columns import plain
from spectrem.constraints.compilation.draft import PartTable, draft_rows, each_columns, weight_columns
from spectrem.constraints.compilation.facts import Head, RowFacts
from spectrem.constraints.compilation.groups import Key, KeyColumns, as_key, join_keys, number_groups, numbers_of
from spectrem.constraints.compilation.rows import Block, Rows, no_rows
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.links import RowLinks, resolve_links
from spectrem.constraints.text import Constraints, flatten
from spectrem.constraints.values import check_values
from spectrem.corpus.corpus import ONE_BLAS_THREAD
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.inference.batch import project_batch
from spectrem.inference.oracle import Evaluation
from spectrem.inference.result import Projection
from spectrem.inference.segments import row_maxima, sum_by
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.inference.solvers.newton import Curved, curvature_of_batch, smooth_solver
from spectrem.learning.schedule import check_gamma
from spectrem.reports.constraints import prices_by_name
from spectrem.structures.parts import Parts
from spectrem.tables.project import compile_table, names_pairs, project
from spectrem.tables.reading import Cells, Lattice, TableStructure, label_columns, read_cells, user_columns

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

    def gap_unit(self, bound: Floats) -> Floats:
        return np.maximum(1.0, np.abs(bound))

    def minimum(self) -> Floats:
        """The multipliers at the minimum, shape (n_rows,); it does not depend on the number of threads."""
        with ONE_BLAS_THREAD:
            if not self.few:
                return smooth_solver(self, _ROUGH, 100).solve(self, self.origin).multipliers
            dense = self.curvature.toarray()
            np.fill_diagonal(dense, dense.diagonal() + self.diagonal)
            return Curved(lambda _: dense, _TOL, far=np.inf).solve(self, self.origin).multipliers


# Least curvature, relative to the square of the row's coefficients, so that quotients are finite.
_TINY = 1e-100
# How often a batch is looked at, as long as prices are far from what it asks for.
_LOOKS = 30
# What batches tell of rows, 0 before the first one: attributes of `KeptRows`.
_KEPT = ("prices", "moments", "largest", "seen", "over")


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of one constraint over the whole set that some batch has shown.

    Attributes
    ----------
    side : ndarray of shape (n_rows,)
        0 for upper rows and equalities, 1 for lower rows.
    keys : mapping of name -> Key
        The columns of ``.per``, one value per row.
    constant : ndarray of shape (n_rows,)
        The part of the bound that does not depend on the data.
    prices : ndarray of shape (n_rows,)
        Multipliers, nats per unit of the row.
    moments : ndarray of shape (n_rows,)
        Second moments of the row over the whole set, on the average of batches, over gamma.
    largest : ndarray of shape (n_rows,)
        The largest size of a coefficient of the row at a possible label.
    seen : ndarray of shape (n_rows,)
        How many instances prices rest on.
    over : ndarray of shape (n_rows, n_shares)
        In all batches together, the counts by which those terms of the constraint are divided that are shares.
    total : int
        How many instances all batches had.
    """

    side: Ints
    keys: Mapping[str, Key]
    constant: Floats
    prices: Floats
    moments: Floats
    largest: Floats
    seen: Floats
    over: Floats
    total: int = 0

    @classmethod
    def none(cls, constraint: Constraint) -> KeptRows:
        """Before any batch."""
        keys = dict.fromkeys(constraint.key_columns, np.zeros(0))
        shares = {term.over for side in constraint.sides for term in side.terms} - {None}
        nothing: dict[str, Any] = dict.fromkeys(("constant", *_KEPT), np.zeros(0))
        return cls(**{**nothing, "side": np.zeros(0, np.int64), "over": np.zeros((0, len(shares)))}, keys=keys)

    def __len__(self) -> int:
        return len(self.side)

    def join(self, rows: RowFacts) -> tuple[KeptRows, Ints, Ints]:
        """These rows and those of a batch, in the order of sides and keys, and where each of both stands then."""
        n = len(self)
        keys = {
            name: join_keys([key, rows.keys[name]], name) if n else rows.keys[name] for name, key in self.keys.items()
        }
        side = np.concatenate([self.side, rows.side])
        row, first = number_groups([side, *map(numbers_of, keys.values())], len(side))
        joined: dict[str, Any] = {}
        for name in _KEPT:
            values = getattr(self, name)
            joined[name] = np.zeros((len(first), *values.shape[1:]))
            joined[name][row[:n]] = values
        joined |= {"side": side[first], "constant": np.concatenate([self.constant, rows.constant])[first]}
        kept = KeptRows(**joined, keys={name: key[first] for name, key in keys.items()}, total=self.total)
        return kept, row[:n], row[n:]

    @property
    def state(self) -> dict[str, Any]:
        """All of it as lists of numbers and text."""
        keys = {name: [plain(value) for value in np.asarray(key)] for name, key in self.keys.items()}
        numbers = {name: getattr(self, name).tolist() for name in ("side", "constant", *_KEPT)}
        return {"keys": keys, "total": self.total, **numbers}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> KeptRows:
        """The rows that `state` described."""
        keys = {name: as_key(np.array(values)) for name, values in state["keys"].items()}
        numbers: dict[str, Any] = {name: np.array(state[name], np.float64) for name in ("constant", *_KEPT)}
        n = len(state["side"])
        numbers |= {"side": np.array(state["side"], np.int64), "over": numbers["over"].reshape(n, -1 if n else 0)}
        return cls(**numbers, keys=keys, total=int(state["total"]))


class Look(NamedTuple):
    """Marginals and curvature of a batch at some prices.

    Attributes
    ----------
    marginals : ndarray of shape (n_unary,)
    curvature : csr_array of shape (n_rows, n_rows)
        How much the expectations of the rows over the batch fall when prices rise.
    moments : ndarray of shape (n_rows,)
        The second moments of the rows over the batch, over gamma, which are at least as large.
    """

    marginals: Floats
    curvature: sp.csr_array
    moments: Floats


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Rows over the whole set, as one batch shows them.

    Attributes
    ----------
    kept : tuple of KeptRows
        With those that the batch is the first to show.
    heads : tuple of Head
        One per constraint.
    matrix : csr_array of shape (n_rows, n_unary)
        Of all rows kept, constraint after constraint.
    curvature : csr_array of shape (n_rows, n_rows)
        How much the expectations of all rows over the whole set fall when their prices rise, on the average of batches.
    bounds : ndarray of shape (n_rows,)
        Those of the whole set, as the batch lets them be estimated.
    observed : ndarray of shape (n_rows,), bool
        Rows of which all counts that they are divided by are above 0 so far; the gradient of others is not known.
    open : ndarray of int
        Rows that do not hold whatever the batch's distributions are: those that `compile_constraints` makes of them.
    """

    kept: tuple[KeptRows, ...]
    heads: tuple[Head, ...]
    matrix: sp.csr_array
    curvature: sp.csr_array
    bounds: Floats
    observed: Bools
    open: Ints

    @property
    def prices(self) -> Floats:
        """Prices of all rows, shape (n_rows,)."""
        return self._gathered("prices")

    def descend(self, n: int, look: Callable[[BatchRows], Look], weight: float, gamma: float) -> BatchRows:
        """The same with prices that have made a step down the dual.

        New prices x minimise the dual of the batch and a quadratic approximation of those of the batches before it,

            D(x) + (x - x0) . P (x - x0) / 2,    P = t / 2 * H,

        with the old prices x0, the number t of batches before, and the curvature H of all rows together on the average
        of these: the covariance of the rows under the targets, over gamma. That is Newton's method by stochastic
        approximation with implicit steps ([Amari1998]; [Toulis2017]): rows that overlap, or say the same twice,
        are solved for together, and far from the solution no batch moves prices farther than those before it allow. The
        average curvature is (1 - s) H + s C, with that of the batch C and s = 2 / (t + 2), which makes prices an
        average of what batches ask for in which late ones count more.

        Every look at the batch takes one Newton step of this problem, within the signs and under the slack of the rows,
        whose curvature is raised by that of as many independent instances as rows meet in it, over the number of
        instances seen (Levenberg's damping: few instances do not show how many rows curve together). Scores move by no
        more than gamma; where they would, the batch is looked at again.

        Parameters
        ----------
        n : int
            Instances of the batch.
        look : callable
            From these rows to what the batch shows at their prices.
        weight : float
            How many instances of the whole set one of the batch stands for.
        gamma : float
        """
        rows, seen, moments_before = self, self._gathered("seen"), self._gathered("moments")
        before = float(seen.max(initial=0.0))
        total = before + n
        share, latest = 2.0 * n / (seen + 2.0 * n), 2.0 * n / (before + 2.0 * n)
        # The average has zeros from before a row was seen. This part of it, exact for batches of one size, has not.
        missed = before - seen
        known = 1.0 - missed * (missed + n) / (total * (total + n))
        # The curvature of the problem is that of the average over its share, of each row.
        stretch = 1.0 / np.sqrt(known * share)
        former = (1.0 - latest) * self.curvature
        pull, terms, here = _scaled(former, stretch), self._terms, row_maxima(self.matrix)
        largest = np.maximum(here, self._gathered("largest"))
        for _ in range(_LOOKS):
            marginals, curvature, batch_moments = look(rows)
            average = sp.csr_array(former + (latest * weight) * curvature)
            moments = moments_before + share * (weight * batch_moments - moments_before)
            known_slope = rows.observed & (largest > 0)
            slope = np.where(known_slope, rows.bounds - weight * (rows.matrix @ marginals), 0.0)
            slope += pull @ (rows.prices - self.prices)
            joint = _scaled(average, stretch)
            damping = np.diff(average.indptr) / (seen + n) * moments / share
            # With this on its diagonal no row alone moves scores by more than gamma, however little it curves.
            least = np.abs(slope) * largest / gamma - joint.diagonal()
            raised = np.where(largest > 0, np.maximum(np.maximum(damping, least), _TINY * largest**2), 1.0)
            move = Quadratic(terms, rows.prices, slope, joint, raised, weight * n * gamma).minimum() - rows.prices
            reach = max(
                float(np.abs(rows.matrix.T @ move).max(initial=0.0)),
                float(np.abs(largest * move)[here == 0].max(initial=0.0)),
            )
            prices = rows.prices + move * min(1.0, gamma / max(reach, 1e-300))
            rows = replace(rows._with(prices=prices, moments=moments, largest=largest), curvature=average)
            held = (least >= raised) & (np.abs(move) * here > 0.5 * gamma)
            if reach <= gamma and not held.any():
                break
        return rows._with(seen=np.where(rows.observed, seen + n, seen))

    def solved(self, n: int, look: Callable[[BatchRows], Look], prices: Floats, gamma: float) -> BatchRows:
        """The same with the prices of the ``open`` rows that solve the dual of the whole set, which is the batch."""
        multipliers = np.zeros(len(self.bounds))
        multipliers[self.open] = prices
        rows = self._with(prices=multipliers, seen=np.full(len(multipliers), float(n)))
        if not gamma > 0:
            return rows
        _, curvature, moments = look(rows)
        return replace(rows._with(moments=moments, largest=row_maxima(self.matrix)), curvature=curvature)

    @property
    def _terms(self) -> SlackTerms:
        blocks, start = [], 0
        for head, kept in zip(self.heads, self.kept, strict=True):
            stop, tied, keys = start + len(kept), np.zeros(len(kept), np.int64), KeyColumns(dict(kept.keys))
            blocks.append(Block(head.name, start, stop, head.equality, "corpus", head.slack, tied, keys))
            start = stop
        return compile_slack(tuple(blocks), np.zeros(start, np.int64), 1)

    def _gathered(self, name: str) -> Floats:
        return np.concatenate([getattr(kept, name) for kept in self.kept])

    def _with(self, **values: Floats) -> BatchRows:
        cuts = np.cumsum([len(rows) for rows in self.kept])[:-1]
        pieces = {name: np.split(value, cuts) for name, value in values.items()}
        columns: list[dict[str, Any]] = [{name: pieces[name][k] for name in pieces} for k in range(len(self.kept))]
        kept = [replace(before, **after) for before, after in zip(self.kept, columns, strict=True)]
        return replace(self, kept=tuple(kept))


def batch_rows(
    constraints: Sequence[Constraint],
    kept: Sequence[KeptRows],
    curvature: sp.csr_array,
    table: PartTable,
    *,
    learns: bool,
) -> BatchRows:
    """The rows over the whole set of some constraints, as a batch shows them.

    Parameters
    ----------
    constraints : sequence of Constraint
    kept : sequence of KeptRows
        One per constraint.
    curvature : csr_array of shape (n_kept_rows, n_kept_rows)
        That of all these rows, as in `BatchRows`.
    table : PartTable
        The columns of the batch, whose ``weights`` say how many instances of the whole set each stands for.
    learns : bool
        Whether the counts of the batch, by which shares are divided, are added to those kept.
    """
    assert table.weights is not None
    n, weight = table.structure.n_instances, float(table.weights[0])
    heads, joined, entries, bounds, observed, held, former, start = [], [], [], [], [], [], [], 0
    for constraint, before in zip(constraints, kept, strict=True):
        draft = draft_rows(constraint, table)
        rows, own, place = before.join(draft.rows)
        if draft.rows.wholes and (learns or not rows.total):
            counts = rows.over.copy()
            for k, total in enumerate(draft.rows.wholes):
                counts[place, k] += total.total() / weight
            rows = replace(rows, over=counts, total=rows.total + n)
        whole = rows.over * (weight * n / max(rows.total, 1))
        factors = np.divide(1.0, whole, out=np.zeros(whole.shape), where=whole > 0).T
        bound = rows.constant.copy()
        for tally, terms, factor in zip(draft.rows.counts, draft.entries, (np.ones(len(rows)), *factors), strict=True):
            bound[place] += tally.total() * factor[place]
            row, cell = terms.tocoo().coords
            entries.append((start + place[row], cell, terms.tocoo().data * factor[place[row]]))
        former.append(start + own)
        heads.append(draft.head)
        joined.append(rows)
        bounds.append(bound)
        observed.append((whole > 0).all(axis=1))
        held.append(start + place[draft.rows.bounds(draft.head)[1]])
        start += len(rows)
    row, part, values = (np.concatenate(own) for own in zip(*entries, strict=True))
    nothing = np.zeros(0, np.int64)
    former_row = np.concatenate(former)
    pair = tuple(former_row[index] for index in curvature.tocoo().coords)
    return BatchRows(
        tuple(joined),
        tuple(heads),
        sp.csr_array((values, (row, part)), shape=(start, table.structure.n_unary)),
        sp.csr_array((curvature.tocoo().data, pair), shape=(start, start)),
        np.concatenate(bounds),
        np.concatenate(observed),
        np.concatenate([nothing, *held]),
    )


def covariances(matrix: sp.csr_array, structure: TableStructure, marginals: Floats) -> tuple[sp.csr_array, Floats]:
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
        cells, values = self._read(log_probabilities, columns)
        rows, within = None, self._rows_within(cells, values)
        if self._across:
            weight = self._weight(cells.table.n_instances)
            rows = self._rows(cells, values, weight, learns=True)
            n = cells.table.n_instances
            rows = rows.descend(n, partial(self._look, cells, within), weight, self.gamma)
            self._kept, self._curvature = rows.kept, rows.curvature
        return cells.table.cut(self._posterior(cells, within, rows).marginals.unary)

    def targets(self, log_probabilities: Any, columns: Any = None) -> Any:
        """Targets at the prices as they are; parameters and result as of `update`.

        Use for a batch that is looked at only, or again.
        """
        cells, values = self._read(log_probabilities, columns)
        rows = None
        if self._across:
            rows = self._rows(cells, values, self._weight(cells.table.n_instances), learns=False)
        return cells.table.cut(self._posterior(cells, self._rows_within(cells, values), rows).marginals.unary)

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
            cells, values = self._read(log_probabilities, columns)
            self._forget()
            rows = self._rows(cells, values, 1.0, learns=True)
            look = partial(self._look, cells, self._rows_within(cells, values))
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
            "rows": [kept.state for kept in self._kept],
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
        self._kept = tuple(KeptRows.of_state(kept) for kept in state["rows"])
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

    def _rows(self, cells: Cells, values: Mapping[str, Any], weight: float, *, learns: bool) -> BatchRows:
        columns = ChainMap(label_columns(cells), cast(Any, values))
        weights = np.full(cells.table.n_instances, weight)
        table = PartTable(cells.table, columns, weights=weights)
        rows = batch_rows(self._across, self._kept, self._curvature, table, learns=learns)
        # No price changes what is impossible.
        return replace(rows, matrix=sp.csr_array(rows.matrix * np.isfinite(cells.scores.unary)))

    def _rows_within(self, cells: Cells, values: Mapping[str, Any]) -> Rows:
        """The rows of the constraints within the batch."""
        if not self._within:
            return no_rows(cells.table.n_unary)
        known = ChainMap(cast(Any, cells.table.columns), cast(Any, values))
        return compile_table(list(resolve_links(self._within, known, cells.table.n_instances)), cells, values)

    def _posterior(self, cells: Cells, within: Rows, rows: BatchRows | None) -> Projection:
        """The projection onto the constraints within the batch, at the prices of the others."""
        return project_batch(cells.table.inner, _shifted(cells, rows), within, self.gamma, tol=self.tol)

    def _look(self, cells: Cells, within: Rows, rows: BatchRows) -> Look:
        """Marginals and curvature of the rows over the whole set, less what the rows within the batch take up."""
        projection = self._posterior(cells, within, rows)
        curvature, moments = covariances(rows.matrix, cells.table, projection.marginals.unary)
        curvature, moments = sp.csr_array(curvature / self.gamma), moments / self.gamma
        if len(within.bounds) and len(moments) <= MOST_ROWS:
            exact = curvature_of_batch(
                cells.table.inner, _shifted(cells, rows), within, projection.multipliers, self.gamma,
                np.ones(cells.table.n_instances), sp.csr_array(rows.matrix.T),
            )  # fmt: skip
            if np.isfinite(exact).all():
                curvature = sp.csr_array(exact)
        return Look(projection.marginals.unary, curvature, moments)


def _shifted(cells: Cells, rows: BatchRows | None) -> Parts:
    """The scores of a batch, less the prices of its rows over the whole set."""
    if rows is None:
        return cells.scores
    return Parts(cells.scores.unary - rows.matrix.T @ rows.prices, cells.scores.factors)
