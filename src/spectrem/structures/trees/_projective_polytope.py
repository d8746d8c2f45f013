"""Projective trees of one sentence as the flow through all ways to divide its spans."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.structures._polytopes import simplex_polytope
from spectrem.structures.structure import Polytope

# A sentence may need so many variables; each takes so many bytes here and in the solver.
_MOST = 1 << 19
_BYTES = 1000


class _Flow(NamedTuple):
    """Variables of one kind: for every rule that they obey, the row of each (negative for none), and the sign."""

    size: int
    rules: tuple[tuple[NDArray[np.int64], float], ...]


def projective_polytope(n: int, single_root: bool, start: int, scores: NDArray[np.float64]) -> Polytope:
    """The polytope of a sentence of n words, whose arcs are the parts from ``start`` on, with n * n ``scores``.

    There is a variable for every arc, in the order of the parts, and one for every way to divide a span. Every span is
    made as often as it is used. As a tree is made of spans in one way only, the corners of this polytope are trees
    [Martin1990].

    Raises
    ------
    InvalidInputError
        If the sentence is too long, before anything is built.
    """
    if n == 0:
        return simplex_polytope(scores, start, np.zeros(0, np.int64))
    n_variables = n**2 + (n**3 - n) // 2 + (2 * n if single_root else n * (n + 1))
    if n_variables > _MOST:
        raise InvalidInputError(
            f"sentences must be shorter for a program over projective trees: {n} words need {n_variables:,} variables, "
            f"about {n_variables * _BYTES / 1e9:.1f} GB with the solver, and the most is {_MOST:,}; leave the sentence "
            "out, or use gamma > 0, which needs no program"
        )
    flows, n_rows = _flows(n, single_root)
    rows, columns, signs, at = [], [], [], 0
    for flow in flows:
        for row, sign in flow.rules:
            held = np.flatnonzero(row >= 0)
            rows.append(row[held])
            columns.append(at + held)
            signs.append(np.full(len(held), sign))
        at += flow.size
    used, row = np.unique(np.concatenate(rows), return_inverse=True)
    everything = (np.concatenate(signs), (row, np.concatenate(columns)))
    # the empty prefix, which is the last row, is used once and never made
    right_hand_side = np.where(used == n_rows - 1, -1.0, 0.0)
    return Polytope(
        equalities=sp.csr_array(everything, shape=(len(used), at)),
        right_hand_side=right_hand_side,
        objective=np.concatenate([scores, np.zeros(at - n**2)]),
        unary_index=np.arange(start, start + n**2),
        unary=sp.csr_array(sp.eye_array(n**2, at, format="csr")),
        factors=(),
    )


def _flows(n: int, single_root: bool) -> tuple[list[_Flow], int]:
    """All variables, arcs first, with their rows, and the number of rows; ``eisner_log`` has the spans."""
    every = np.arange(n)
    dependent, head = np.repeat(every, n), np.tile(every, n)

    def complete(head: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(head == end, -1, head * n + end)  # a word alone is there without being made

    def made(dependent: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.int64]:
        return n**2 + np.minimum(dependent, head) * n + np.maximum(dependent, head)

    def spent(dependent: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.int64]:
        return 2 * n**2 + dependent * n + head

    def prefix(end: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(end == n, -1, 3 * n**2 + n - 1 - end)

    flows = [_Flow(n**2, ((made(dependent, head), -1.0), (spent(dependent, head), -1.0)))]
    i, k, j = np.nonzero((every[:, None, None] <= every[:, None]) & (every[:, None] < every))
    flows.append(_Flow(len(i), ((made(j, i), 1.0), (complete(i, k), -1.0), (complete(j, k + 1), -1.0))))
    for h, d, e in ((i, k + 1, j), (j, k, i)):
        flows.append(_Flow(len(h), ((complete(h, e), 1.0), (spent(d, h), 1.0), (complete(d, e), -1.0))))
    d, k = np.nonzero((every[:, None] >= every) & ((every == 0) | (not single_root)))
    flows.append(_Flow(len(d), ((made(d, d), 1.0), (complete(d, k), -1.0), (prefix(k), -1.0))))
    d, e = np.nonzero((every[:, None] <= every) & ((every == n - 1) | (not single_root)))
    flows.append(_Flow(len(d), ((spent(d, d), 1.0), (complete(d, e), -1.0), (prefix(e + 1), 1.0))))
    return flows, 3 * n**2 + n
