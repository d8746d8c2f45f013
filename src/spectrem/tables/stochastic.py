"""Prices of rows over a whole set of predictions, of which batches are seen one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.columns import plain
from spectrem.constraints.compilation.draft import PartTable, draft_rows
from spectrem.constraints.compilation.facts import Head, RowFacts
from spectrem.constraints.compilation.groups import Key, KeyColumns, as_key, join_keys, number_groups, numbers_of
from spectrem.constraints.compilation.rows import Block
from spectrem.constraints.constraint import Constraint
from spectrem.inference.segments import row_maxima
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.structures.table import TableStructure
from spectrem.tables.quadratic import Quadratic

# Least curvature, relative to the square of the row's coefficients, so that quotients are finite.
_TINY = 1e-100
# How often a batch is looked at, as long as prices are far from what it asks for.
_LOOKS = 30


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
        nothing, keys = np.zeros(0), dict.fromkeys(constraint.key_columns, np.zeros(0))
        shares = {term.over for side in constraint.sides for term in side.terms} - {None}
        over = np.zeros((0, len(shares)))
        return cls(np.zeros(0, np.int64), keys, nothing, nothing, nothing, nothing, nothing, over)

    def __len__(self) -> int:
        return len(self.side)

    def join(self, rows: RowFacts) -> tuple[KeptRows, Ints, Ints]:
        """The same with the rows of a batch, in the order of sides and keys; where those of before and those are."""
        n = len(self)
        if not n:
            keys = dict(rows.keys)
        else:
            keys = {name: join_keys([own, rows.keys[name]], name) for name, own in self.keys.items()}
        side = np.concatenate([self.side, rows.side])
        row, first = number_groups([side, *map(numbers_of, keys.values())], len(side))
        own = row[:n]

        def widen(values: Floats) -> Floats:
            found = np.zeros((len(first), *values.shape[1:]))
            found[own] = values
            return found

        joined = KeptRows(
            side[first],
            {name: key[first] for name, key in keys.items()},
            np.concatenate([self.constant, rows.constant])[first],
            widen(self.prices),
            widen(self.moments),
            widen(self.largest),
            widen(self.seen),
            widen(self.over),
            self.total,
        )
        return joined, own, row[n:]

    @property
    def state(self) -> dict[str, Any]:
        """All of it as lists of numbers and text."""
        keys = {name: [plain(value) for value in np.asarray(key)] for name, key in self.keys.items()}
        names = ("side", "constant", "prices", "moments", "largest", "seen", "over")
        return {"keys": keys, "total": self.total, **{name: getattr(self, name).tolist() for name in names}}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> KeptRows:
        """The rows that `state` described."""
        keys = {name: as_key(np.array(values)) for name, values in state["keys"].items()}
        names, n = ("constant", "prices", "moments", "largest", "seen"), len(state["side"])
        constant, prices, moments, largest, seen = (np.array(state[name], np.float64) for name in names)
        over = np.array(state["over"], np.float64).reshape(n, -1 if n else 0)
        side = np.array(state["side"], np.int64)
        return cls(side, keys, constant, prices, moments, largest, seen, over, int(state["total"]))


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
        found = np.zeros(len(self.bounds))
        found[self.open] = prices
        rows = self._with(prices=found, seen=np.full(len(found), float(n)))
        if not gamma > 0:
            return rows
        _, curvature, moments = look(rows)
        return replace(rows._with(moments=moments, largest=row_maxima(self.matrix)), curvature=curvature)

    @property
    def _terms(self) -> SlackTerms:
        blocks, start = [], 0
        for head, own in zip(self.heads, self.kept, strict=True):
            tied = np.zeros(len(own), np.int64)
            blocks.append(
                Block(
                    head.name,
                    start,
                    start + len(own),
                    head.equality,
                    "corpus",
                    head.slack,
                    tied,
                    KeyColumns(dict(own.keys)),
                )
            )
            start += len(own)
        return compile_slack(tuple(blocks), np.zeros(start, np.int64), 1)

    def _gathered(self, name: str) -> Floats:
        return np.concatenate([getattr(own, name) for own in self.kept])

    def _with(self, **values: Floats) -> BatchRows:
        cuts = np.cumsum([len(own) for own in self.kept])[:-1]
        pieces = {name: np.split(value, cuts) for name, value in values.items()}
        own: list[dict[str, Any]] = [{name: pieces[name][k] for name in pieces} for k in range(len(self.kept))]
        kept = [replace(before, **after) for before, after in zip(self.kept, own, strict=True)]
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
        if draft.shares and (learns or not rows.total):
            counts = rows.over.copy()
            for k, (_, over) in enumerate(draft.rows.shares):
                counts[place, k] += over.total() / weight
            rows = replace(rows, over=counts, total=rows.total + n)
        whole = rows.over * (weight * n / max(rows.total, 1))
        factors = np.divide(1.0, whole, out=np.zeros(whole.shape), where=whole > 0).T
        bound = rows.constant.copy()
        bound[place] += draft.rows.tally.total()
        for factor, (tally, _) in zip(factors, draft.rows.shares, strict=True):
            bound[place] += tally.total() * factor[place]
        for terms, factor in zip((draft.entries, *draft.shares), (np.ones(len(rows)), *factors), strict=True):
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
