"""Whether heads make a projective tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def is_projective_tree(heads: NDArray[np.int64]) -> bool:
    """Whether every word hangs on the root (-1), over others or not, and no two arcs cross; the root stands in front.

    Parameters
    ----------
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root.

    Examples
    --------
    >>> is_projective_tree(np.array([1, -1, 1])), is_projective_tree(np.array([2, -1, 1]))
    (True, False)
    """
    for word in range(len(heads)):
        at, steps = word, 0
        while at >= 0 and steps <= len(heads):
            at, steps = int(heads[at]), steps + 1
        if at >= 0:
            return False
    low, high = np.minimum(heads, np.arange(len(heads))), np.maximum(heads, np.arange(len(heads)))
    crossing = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
    return not crossing.any()
