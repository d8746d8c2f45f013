"""Second-order chains whose tokens take their scores from the rows of one table: the E-step of a trigram HMM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._validate import as_count, as_scores
from spectrem.structures.chains._tied import TiedStructure, check_gamma, check_rows
from spectrem.structures.chains._trigram import TiedCounts2, TrigramTable


@dataclass(frozen=True, eq=False, init=False)
class TiedChain2(TiedStructure[TiedCounts2]):
    """Scores of a second-order chain by row of a table; `Chain2.smoothed_max` without a number per token.

    Potentials are computed once, at construction; every batch then needs the working space of its longest sentence.

    Use when many tokens share their unary scores: trigram HMM taggers, where a row is a word.

    Parameters
    ----------
    row_offsets : array-like of shape (n_rows + 1,), int
        Parts of row r are ``row_offsets[r]:row_offsets[r + 1]``.
    row_states : array-like of shape (n_row_parts,), int, or None
        State of every part, increasing within a row. None: every row has all states.
    n_states : int
        Number of states, >= 1.
    row_scores : array-like of shape (n_row_parts,)
        Nats, -inf for impossible.
    initial : array-like of shape (n_states,)
        Nats; added for the first token of a sentence.
    second : array-like of shape (n_states, n_states)
        Nats; for the first two tokens of a sentence, [first, second].
    transition : array-like of shape (n_states, n_states, n_states)
        Nats; for every three neighbours, [two back, one back, to].
    gamma : float
        Entropy weight, > 0.

    Raises
    ------
    InvalidInputError
        If shapes, states or gamma break these rules.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import TiedChain2
    >>> rows = np.log([[0.9, 0.1], [0.2, 0.8]])  # p(word | state) of two words
    >>> half = np.full((2, 2, 2), np.log(0.5))
    >>> tied = TiedChain2([0, 2, 4], None, 2, rows.ravel(), half[0, 0], half[0], half, gamma=1.0)
    >>> values, counts = tied.expected_counts([3, 1], rows=[0, 1, 0, 1])
    >>> np.exp(values).round(12).tolist(), counts.rows.round(12).tolist()
    ([0.125, 0.5], [1.8, 0.2, 0.4, 1.6])
    """

    def __init__(
        self,
        row_offsets: ArrayLike,
        row_states: ArrayLike | None,
        n_states: int,
        row_scores: ArrayLike,
        initial: ArrayLike,
        second: ArrayLike,
        transition: ArrayLike,
        gamma: float,
    ) -> None:
        n = as_count(n_states, "n_states", minimum=1)
        offsets, states = check_rows(row_offsets, row_states, n)
        gamma = check_gamma(gamma, "Chain2")
        table = TrigramTable(
            offsets,
            np.arange(n) if states is None else states,
            states is None,
            as_scores(row_scores, "row_scores", (int(offsets[-1]),)),
            as_scores(initial, "initial", (n,)),
            as_scores(second, "second", (n, n)),
            as_scores(transition, "transition", (n, n, n)),
            gamma,
        )
        _ = table.potentials  # now, not at the first batch: many threads may share the table
        vars(self).update(row_offsets=offsets, row_states=states, n_states=n, gamma=gamma, _table=table)
