"""The best state sequences of chains in order, not only the first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import as_count, as_scores
from spectrem.kernels.chains import n_best as kernel
from spectrem.structures._ragged import check_scores
from spectrem.structures.chains.chain import Chain
from spectrem.structures.parts import Parts


def n_best(
    chain: Chain, scores: Parts, n: int, edges: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The n best state sequences of every sentence of a `Chain`, with their scores.

    Parameters
    ----------
    chain : Chain
    scores : Parts
        Nats.
    n : int
        At least 1. Time and memory grow in proportion to it.
    edges : ndarray of shape (n_tokens, n_states, n_states), optional
        Scores of the transitions to every token, [from, to], besides those of all; those of first tokens are not read.

    Returns
    -------
    values : ndarray of shape (n_instances, n)
        Scores, decreasing, nats; -inf where a sentence has fewer sequences. An empty sentence has one, of score 0.
    states : ndarray of shape (n, n_tokens), int64
        -1 where there is no sequence. Among equal sequences that with the lower last state comes first, and of these
        that with the lower state before it.

    Raises
    ------
    InvalidInputError
        If n is below 1, or the scores do not fit the chain.

    Examples
    --------
    >>> import numpy as np
    >>> chain = Chain([2], n_states=2)
    >>> scores = Parts(np.log([0.9, 0.1, 0.5, 0.5]), (np.log([[0.8, 0.2], [0.2, 0.8]]),))
    >>> values, states = n_best(chain, scores, 3)
    >>> np.exp(values).round(3).tolist(), states.tolist()
    ([[0.36, 0.09, 0.04]], [[0, 0], [0, 1], [1, 1]])
    """
    n = as_count(n, "n", minimum=1)
    given = check_scores(chain, scores)
    unary = given.unary
    if chain.allowed is not None:
        unary = np.full(chain.n_tokens * chain.n_states, -np.inf)
        unary[chain.choice * chain.n_states + chain.allowed[1]] = given.unary
    values = np.empty((chain.n_instances, n))
    states = np.full((n, chain.n_tokens), -1, np.int64)
    table = unary.reshape(chain.n_tokens, chain.n_states)
    k = chain.n_states
    own = np.zeros((0, k, k)) if edges is None else as_scores(edges, "edges", (chain.n_tokens, k, k))
    kernel.n_best(chain.token_offsets, table, given.factors[0], own, values, states)
    return values, states
