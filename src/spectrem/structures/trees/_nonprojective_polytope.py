"""Trees of one sentence, projective or not, as arcs that carry a unit of flow from the root to every word."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.structures._polytopes import check_tree_program, simplex_polytope
from spectrem.structures.structure import Polytope


def nonprojective_polytope(n: int, single_root: bool, start: int, scores: NDArray[np.float64]) -> Polytope:
    """The polytope of a sentence of n words, whose arcs are parts from ``start`` on, with ``scores``, shape (n * n,).

    Every word takes one arc. For every word there is a flow of one unit from the root to it, over arcs that are taken:
    variables are the arcs, in the order of the parts, then the flow of every word over every arc that does not leave
    this word, then what an arc could carry besides. Where arcs are 0 or 1, flows exist exactly if these make a tree;
    and all corners are trees [Wong1984].

    Raises
    ------
    InvalidInputError
        If the sentence is too long, before anything is built.
    """
    if n == 0:
        return simplex_polytope(scores, start, np.zeros(0, np.int64))
    n_flows = n * (n * n - n + 1)
    n_variables = n * n + 2 * n_flows
    check_tree_program(n, n_variables)
    every = np.arange(n)
    word, dependent, head = (axis.ravel() for axis in np.meshgrid(every, every, every, indexing="ij"))
    used = (head != word) | (dependent == head)
    word, dependent, head = word[used], dependent[used], head[used]
    from_root = dependent == head
    arc, flow = dependent * n + head, n * n + np.arange(n_flows)
    rows, columns, signs = [], [], []

    def add(row: NDArray[np.int64], column: NDArray[np.int64], sign: float) -> None:
        rows.append(row)
        columns.append(column)
        signs.append(np.full(len(row), sign))

    arcs = np.arange(n * n)
    add(arcs // n, arcs, 1.0)  # one head per word
    balance = n + word * n  # what comes to a word and does not leave it: one unit at its own, none elsewhere
    add(balance + dependent, flow, 1.0)
    add((balance + head)[~from_root], flow[~from_root], -1.0)
    within = n + n * n + np.arange(n_flows)
    add(within, arc, 1.0)
    add(within, flow, -1.0)
    add(within, flow + n_flows, -1.0)
    right_hand_side = np.concatenate([np.ones(n), np.eye(n).ravel(), np.zeros(n_flows)])
    if single_root:
        add(np.full(n, len(right_hand_side)), every * (n + 1), 1.0)
        right_hand_side = np.append(right_hand_side, 1.0)
    everything = (np.concatenate(signs), (np.concatenate(rows), np.concatenate(columns)))
    return Polytope(
        equalities=sp.csr_array(everything, shape=(len(right_hand_side), n_variables)),
        right_hand_side=right_hand_side,
        objective=np.concatenate([scores, np.zeros(2 * n_flows)]),
        unary_index=np.arange(start, start + n * n),
        unary=sp.csr_array(sp.eye_array(n * n, n_variables, format="csr")),
        factors=(),
    )
