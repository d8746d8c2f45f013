"""Posteriors of instances of which many have the same coefficients in every row, piece by piece."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Floats
from spectrem.constraints.compilation.rows import PIECE, Alike
from spectrem.kernels.categorical import add_up_kinds, normalise_rows, shift_kinds


def posteriors_alike(
    alike: Alike, scores: Floats, prices: Floats, gamma: float, weights: Floats, marginals: Floats | None = None
) -> tuple[Floats, Floats]:
    """``smax_gamma(s - prices)`` of every instance, and its gradient summed by the columns that instances share.

    Memory beyond the two results is that of some ten thousand instances.

    Parameters
    ----------
    alike : Alike
    scores : ndarray of shape (n_unary,)
        Nats.
    prices : ndarray of shape (n_columns,)
        ``U^T lambda`` of the columns, nats.
    gamma : float, > 0
    weights : ndarray of shape (n_instances,)
        Which instances count by in the sums.
    marginals : ndarray of shape (n_unary,), optional
        Filled with the gradient itself.

    Returns
    -------
    values : ndarray of shape (n_instances,)
        Nats; -inf where no part is possible.
    total : ndarray of shape (n_columns,)

    Examples
    --------
    >>> scores = np.log([0.5, 0.5, 0.2, 0.8])
    >>> values, total = posteriors_alike(Alike(np.zeros(2, int), 2), scores, np.zeros(2), 1.0, np.ones(2))
    >>> values.round(12).tolist(), total.round(12).tolist()
    ([0.0, 0.0], [0.7, 1.3])
    """
    n, width = len(alike.kind), alike.width
    offsets = np.arange(0, (min(n, PIECE) + 1) * width, width)
    values, total, scratch = np.empty(n), np.zeros(len(prices)), np.empty(offsets[-1] if marginals is None else 0)
    for own, cells in alike.pieces():
        kind, top = alike.kind[own], values[own]
        piece = scratch[: len(kind) * width] if marginals is None else marginals[cells]
        shift_kinds(kind, width, scores[cells], prices, float(gamma), piece, top)
        with np.errstate(under="ignore"):
            np.exp(piece, out=piece)
        normalise_rows(offsets[: len(kind) + 1], float(gamma), top, piece)
        add_up_kinds(kind, width, piece, np.ascontiguousarray(weights[own]), total)
    return values, total


def largest_alike(alike: Alike, scores: Floats, prices: Floats) -> Floats:
    """The largest of ``-prices`` over the possible parts of every instance, shape (n_instances,).

    Examples
    --------
    >>> scores, prices = np.array([0.0, -np.inf, 5.0, 0.0]), np.array([3.0, 1.0])
    >>> largest_alike(Alike(np.zeros(2, int), 2), scores, prices)
    array([-3., -1.])
    """
    n, width = len(alike.kind), alike.width
    values, scratch = np.empty(n), np.empty(min(n, PIECE) * width)
    for own, cells in alike.pieces():
        possible = np.where(np.isneginf(scores[cells]), -np.inf, 0.0)
        shift_kinds(alike.kind[own], width, possible, prices, 1.0, scratch, values[own])
    return values
