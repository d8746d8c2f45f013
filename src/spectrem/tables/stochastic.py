"""Prices of rows over a whole set of predictions, of which batches are seen one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.columns import plain
from spectrem.constraints.compilation.draft import draft_rows
from spectrem.constraints.compilation.facts import Head, RowFacts
from spectrem.constraints.compilation.groups import Key, KeyColumns, as_key, join_keys, number_groups, numbers_of
from spectrem.constraints.compilation.rows import Block
from spectrem.constraints.compilation.table import PartTable
from spectrem.constraints.constraint import Constraint
from spectrem.inference.slack import SlackTerms, compile_slack
from spectrem.tables.structure import TableStructure

# Curvatures below this share of the most that there can be are taken for it: steps stay finite where nothing moves.
_FLAT = 1e-3
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
    curvature : ndarray of shape (n_rows,)
        How much the expectation of the row over the whole set falls when its price, and those of rows that share its
        parts, rise.
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
    curvature: Floats
    seen: Floats
    over: Floats
    total: int = 0

    @classmethod
    def none(cls, constraint: Constraint) -> KeptRows:
        """Before any batch."""
        nothing, keys = np.zeros(0), dict.fromkeys(constraint.key_columns, np.zeros(0))
        shares = {term.over for side in constraint.sides for term in side.terms} - {None}
        return cls(np.zeros(0, np.int64), keys, nothing, nothing, nothing, nothing, np.zeros((0, len(shares))))

    def __len__(self) -> int:
        return len(self.side)

    def join(self, rows: RowFacts) -> tuple[KeptRows, Ints]:
        """The same with the rows of a batch, and which of them those are; in the order of sides and keys."""
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

        return KeptRows(
            side[first],
            {name: key[first] for name, key in keys.items()},
            np.concatenate([self.constant, rows.constant])[first],
            widen(self.prices),
            widen(self.curvature),
            widen(self.seen),
            widen(self.over),
            self.total,
        ), row[n:]

    @property
    def state(self) -> dict[str, Any]:
        """All of it as lists of numbers and text."""
        keys = {name: [plain(value) for value in np.asarray(key)] for name, key in self.keys.items()}
        names = ("side", "constant", "prices", "curvature", "seen", "over")
        return {"keys": keys, "total": self.total, **{name: getattr(self, name).tolist() for name in names}}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> KeptRows:
        """What `state` gave."""
        keys = {name: as_key(np.array(values)) for name, values in state["keys"].items()}
        names, n = ("constant", "prices", "curvature", "seen"), len(state["side"])
        constant, prices, curvature, seen = (np.array(state[name], np.float64) for name in names)
        over = np.array(state["over"], np.float64).reshape(n, -1 if n else 0)
        side = np.array(state["side"], np.int64)
        return cls(side, keys, constant, prices, curvature, seen, over, int(state["total"]))


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
    bounds: Floats
    observed: Bools
    open: Ints

    @property
    def prices(self) -> Floats:
        """Of all rows, shape (n_rows,)."""
        return self._gathered("prices")

    def descend(
        self, structure: TableStructure, posterior: Callable[[BatchRows], Floats], weight: float, gamma: float
    ) -> BatchRows:
        """The same with prices that have made a step down the dual.

        The step is the gradient over the curvature of the row, both as the batch lets them be estimated, the latter on
        the average of batches. It becomes shorter as 2 / (t + 2) with the number t of batches, which makes prices an
        average of what batches ask for in which late ones count more. Far from the solution, where the curvature says
        little, scores move by no more than gamma, and the batch is looked at again.

        Parameters
        ----------
        structure : TableStructure
            Of the batch.
        posterior : callable
            From these rows to the marginals of the batch at their prices, shape (n_unary,).
        weight : float
            How many instances of the whole set one of the batch stands for.
        gamma : float
        """
        rows, n = self, structure.n_instances
        share = 2.0 * n / (rows._gathered("seen") + 2.0 * n)
        limit = gamma / np.maximum(_largest(rows.matrix), 1e-300)
        terms = rows._terms
        for _ in range(_LOOKS):
            marginals = posterior(rows)
            gradient = np.where(rows.observed, rows.bounds - weight * (rows.matrix @ marginals), 0.0)
            bend, most = (weight / gamma * own for own in _curvatures(rows.matrix, structure, marginals))
            curvature = rows._gathered("curvature")
            curvature = curvature + share * (np.maximum(bend, _FLAT * most) - curvature)
            length = np.divide(share, curvature, out=np.zeros(len(share)), where=curvature > 0)
            change = np.clip(-length * gradient, -limit, limit)
            prices = terms.prox(rows.prices + change, length)
            moved = np.abs(prices - rows.prices)
            rows = rows._with(prices=prices, curvature=curvature)
            if not (moved >= limit).any():
                break
        return rows._with(seen=np.where(rows.observed, rows._gathered("seen") + n, rows._gathered("seen")))

    def solved(
        self, structure: TableStructure, posterior: Callable[[BatchRows], Floats], prices: Floats, gamma: float
    ) -> BatchRows:
        """The same with the prices of the ``open`` rows that solve the dual of the whole set, which is the batch."""
        found, curvature = np.zeros(len(self.bounds)), np.zeros(len(self.bounds))
        found[self.open] = prices
        rows = self._with(prices=found, seen=np.full(len(found), float(structure.n_instances)))
        if gamma > 0:
            bend, most = _curvatures(self.matrix, structure, posterior(rows))
            curvature = np.maximum(bend, _FLAT * most) / gamma
        return rows._with(curvature=curvature)

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
    constraints: Sequence[Constraint], kept: Sequence[KeptRows], table: PartTable, *, learns: bool
) -> BatchRows:
    """The rows over the whole set of some constraints, as a batch shows them.

    Parameters
    ----------
    constraints : sequence of Constraint
    kept : sequence of KeptRows
        One per constraint.
    table : PartTable
        The columns of the batch, whose ``weights`` say how many instances of the whole set each stands for.
    learns : bool
        Whether the counts of the batch, by which shares are divided, are added to those kept.
    """
    assert table.weights is not None
    n, weight = table.structure.n_instances, float(table.weights[0])
    heads, joined, entries, bounds, observed, held, start = [], [], [], [], [], [], 0
    for constraint, before in zip(constraints, kept, strict=True):
        draft = draft_rows(constraint, table)
        rows, place = before.join(draft.rows)
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
        for own, factor in zip((draft.entries, *draft.shares), (np.ones(len(rows)), *factors), strict=True):
            row, part = own.tocoo().coords
            entries.append((start + place[row], part, own.tocoo().data * factor[place[row]]))
        heads.append(draft.head)
        joined.append(rows)
        bounds.append(bound)
        observed.append((whole > 0).all(axis=1))
        held.append(start + place[draft.rows.bounds(draft.head)[1]])
        start += len(rows)
    row, part, values = (np.concatenate(own) for own in zip(*entries, strict=True))
    nothing = np.zeros(0, np.int64)
    return BatchRows(
        tuple(joined),
        tuple(heads),
        sp.csr_array((values, (row, part)), shape=(start, table.structure.n_unary)),
        np.concatenate(bounds),
        np.concatenate(observed),
        np.concatenate([nothing, *held]),
    )


def _curvatures(matrix: sp.csr_array, structure: TableStructure, marginals: Floats) -> tuple[Floats, Floats]:
    """Bounds of the curvature by row: sums over its row of the sizes of the covariances, and of the second moments.

    With them, steps of length 1 do not overshoot, whatever rows overlap. Tokens of a lattice count as independent.
    """
    weighted = matrix * marginals[None, :]
    second = weighted @ matrix.T
    choice = structure.choice
    spread = sp.csr_array((np.ones(len(choice)), (np.arange(len(choice)), choice)))
    means = sp.csr_array(weighted @ spread)
    return abs(second - means @ means.T).sum(axis=1), abs(second).sum(axis=1)


def _largest(matrix: sp.csr_array) -> Floats:
    """The largest size of an entry of every row, shape (n_rows,); 0 where there is none."""
    return abs(matrix).max(axis=1).toarray().ravel() if matrix.nnz else np.zeros(matrix.shape[0])
