"""Posteriors of very long sentence pairs whose positions depend on the distance from the diagonal alone.

Nothing is kept by cell: the multiplier of agreement at a cell follows from the totals of its row and its column at
every earlier step, so that each pass computes it anew.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def anchors(steps, states):
    """The state that lies as far along as each step."""
    return (2 * np.arange(steps) + 1) * states // (2 * steps)


@njit(cache=True, nogil=True, error_model="numpy")
def diagonal_pass(
    rate, step, first, cells, links, other_links, place, scale, other_scale, totals, other_totals, forward, backward
):  # fmt: skip
    """One pass over the rows of ``cells`` (source words from ``first`` on; columns are target words).

    ``scale[j] * place[|i - anchor of j|] * links[cell]`` is the potential of a link before the multipliers of
    agreement. While ``forward`` has no rows, the pass adds the potentials after ``step`` gradient steps to
    ``totals[step, j]`` and ``other_totals[step, i]``; else it writes the posteriors to ``forward`` and ``backward``.
    """
    n_source, n_target = len(other_scale), len(scale)
    column, row = anchors(n_target, n_source), anchors(n_source, n_target)
    for k in range(len(cells)):
        i = first + k
        for j in range(n_target):
            link = links[cells[k, j]] * scale[j] * place[abs(i - column[j])]
            other = other_links[cells[k, j]] * other_scale[i] * place[abs(j - row[i])]
            for t in range(step):
                change = rate * (link / totals[t, j] - other / other_totals[t, i])
                # Below 1e-9 the first terms of the series are exact in a double.
                factor = np.exp(change) if abs(change) > 1e-9 else 1.0 + change
                link /= factor
                other *= factor
            if len(forward) == 0:
                totals[step, j] += link
                other_totals[step, i] += other
            else:
                forward[k, j] = link / totals[step, j]
                backward[k, j] = other / other_totals[step, i]
