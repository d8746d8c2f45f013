"""Inside-outside over binary trees, one sentence at a time, of any length and with scores of any size.

``inside[start, end]`` sums over the trees of the words from start to end, ``by_end[end, start]`` is its copy, so that
sums over places to cut a span run along rows. Numbers and shares are those of ``_wide``.
"""

import numpy as np

from spectrem._compiled import njit
from spectrem._lanes import longest_of
from spectrem._wide import MARGIN, entry, fill_row, nats, put, share, sum_products, times, unit_of

# Spans are filled in squares of so many starts and ends, whose rows stay in the second-level cache.
_TILE = 16


@njit(cache=True, nogil=True, error_model="numpy")
def _empty_tables(most):
    """Tables for sentences of up to so many words: inside, by_end, and a row of the potentials of all spans."""
    shape = (2, most + 1, most + 1 + MARGIN)
    return np.zeros(shape), np.zeros(shape), np.zeros((2, 1, most * (most + 1) // 2))


@njit(cache=True, nogil=True, error_model="numpy")
def _inside(size, gains, unit, inside, by_end, potentials):
    """Fill the tables of one sentence from gains / unit; returns the largest gain, which they leave out.

    Single words and the whole sentence gain nothing; their gains are not read.
    """
    between, columns = gains.copy(), inside.shape[2]
    between[size - 1] = -np.inf
    for start in range(size):
        between[start * size - start * (start - 1) // 2] = -np.inf
        put(inside, start, start + 1, (1.0, 0.0))
        put(by_end, start + 1, start, (1.0, 0.0))
    top = fill_row(between, unit, False, potentials[0, 0], potentials[1, 0])
    for last in range(0, size + 1, _TILE):
        for first in range(last, -1, -_TILE):
            for end in range(last, min(last + _TILE, size + 1)):
                for start in range(min(first + _TILE, end - 1) - 1, first - 1, -1):
                    cut = start + 1
                    found = sum_products(False, inside, start * columns + cut, by_end, end * columns + cut, end - cut)
                    if end - start < size:
                        found = times(found, potentials, 0, start * size - start * (start - 1) // 2 + end - cut)
                    put(inside, start, end, found)
                    put(by_end, end, start, found)
    return top


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(size, inside, by_end, terms, mass, mass_by_end, shares):
    """Divide probabilities of spans among the places to cut them, the widest first."""
    columns = inside.shape[2]
    mass[0, size] = 1.0
    for last in range(size // _TILE * _TILE, -1, -_TILE):
        for first in range(0, last + 1, _TILE):
            for end in range(min(last + _TILE, size + 1) - 1, last - 1, -1):
                for start in range(first, min(first + _TILE, end - 1)):
                    left, right = start * columns + start + 1, end * columns + start + 1
                    own = mass[start, end] + mass_by_end[end, start]
                    shares[start * size - start * (start - 1) // 2 + end - start - 1] = own
                    share(own, inside, left, by_end, right, end - start - 1, terms, mass, left, mass_by_end, right)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(order, lengths, offsets, gains, gamma, totals, shares):
    """The smoothed max over trees of sums of gains, and the share of the trees with each span, of some sentences.

    A sentence where no tree is possible gets the total -inf; those in ``order`` have three words or more.
    """
    inside, by_end, potentials = _empty_tables(longest_of(order, lengths))
    mass, mass_by_end, terms = np.empty(inside.shape[1:]), np.empty(inside.shape[1:]), np.empty(inside.shape[2])
    for n in order:
        size, own = lengths[n], gains[offsets[n] : offsets[n + 1]]
        unit = unit_of(own, gamma)
        top = _inside(size, own, unit, inside, by_end, potentials)
        totals[n] = nats(entry(inside, 0, size), unit, (size - 2) * top) if top > -np.inf else top
        if totals[n] > -np.inf:
            mass[: size + 1], mass_by_end[: size + 1] = 0.0, 0.0
            _outside(size, inside, by_end, terms, mass, mass_by_end, shares[offsets[n] : offsets[n + 1]])
