"""Jump widths shared by all sentences: potentials c(i - p), normalised over the positions of each sentence.

The probability of moving from source position p (-1 at the start) to i in a sentence of I words is
``c[clip(i - p, -W, W)] / sum over i' of c[clip(i' - p, -W, W)]`` ([Vogel1996]; the clipped tails are shared as in
[Liang2006]). Because of the denominators the M-step of c has no closed form; `fit_jumps` maximises the
expected log-probability of the E-step's counts of jumps and departures exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats


def normalisers(jump: Floats, lengths: NDArray[np.integer]) -> Floats:
    """Sum of potentials over the positions of a sentence of ``lengths[k]`` words, seen from p.

    Shape (n_lengths, longest + 1), entry [k, p + 1]; 0 where p lies outside the sentence.
    """
    max_jump = (len(jump) - 1) // 2
    longest = int(lengths.max(initial=0))
    spread = jump[np.clip(np.arange(-longest, longest + 1), -max_jump, max_jump) + max_jump]
    cumulative = np.concatenate([[0.0], np.cumsum(spread)])
    p = np.arange(-1, longest)
    sums = cumulative[np.maximum(lengths[:, None] - p, -longest) + longest] - cumulative[longest - p]
    return np.where(p < lengths[:, None], sums, 0.0)


def fit_jumps(
    jump: Floats,
    jump_counts: Floats,
    departures: Floats,
    lengths: NDArray[np.integer],
    *,
    pseudo_count: float | Floats,
    tol: float = 1e-10,
    max_iter: int = 200,
) -> Floats:
    """Potentials that maximise ``sum_d n_d log c_d - sum_{I,p} m_{I,p} log Z_{I,p}``, scaled to sum to 1.

    Every round replaces log Z by its tangent, whose maximum is closed and never decreases the objective
    (minorise-maximise). ``pseudo_count``, one number or one per width, is added to the count of every width.

    Parameters
    ----------
    jump : ndarray of shape (2 * max_jump + 1,)
        Potentials to start from; positive.
    jump_counts : ndarray of shape (2 * max_jump + 1,)
        Expected number of links at each clipped distance.
    departures : ndarray of shape (n_lengths, longest + 1)
        Expected number of links made from p, by sentence length.
    lengths : ndarray of shape (n_lengths,)
        The sentence lengths of the rows of ``departures``.
    """
    added = np.broadcast_to(pseudo_count, jump.shape)
    counts = jump_counts + added
    max_jump = (len(jump) - 1) // 2
    longest = int(lengths.max(initial=0))
    k, p = np.nonzero(departures > 0)
    nearest, beyond = 1 - p + longest, lengths[k] + 1 - p + longest
    clipped = np.clip(np.arange(-longest, longest + 1), -max_jump, max_jump) + max_jump
    counted = departures[k, p]
    jump = np.maximum(jump / jump.sum(), 1e-300)
    for _ in range(max_iter):
        cumulative = np.concatenate([[0.0], np.cumsum(jump[clipped])])
        rate = counted / (cumulative[beyond] - cumulative[nearest])
        # From p every distance between the first and the last position is reached once: a range, not a list.
        ends = np.bincount(nearest, rate, 2 * longest + 2) - np.bincount(beyond, rate, 2 * longest + 2)
        expected = np.bincount(clipped, np.cumsum(ends)[:-1], len(jump)).astype(np.float64)
        # The pseudo-counts are links of a sentence in which every width is reached once.
        expected += added.sum()
        new = np.divide(counts, expected, out=np.zeros_like(counts), where=counts > 0)
        new /= new.sum()
        if np.abs(new - jump).max() < tol:
            return new
        jump = new
    return jump
