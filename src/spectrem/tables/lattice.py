"""Tokens in a row whose labels depend on the label before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Lattice:
    """Scores of the labels of tokens and of neighbouring labels, in nats: what a CRF, an HMM or a tagger's logits give.

    Pass it to `spectrem.project` in place of a table; its rows are the sequences, and constraints may name the columns
    ``"row"``, ``"token"`` (position in the row), ``"occurrence"`` (token of the lattice), ``"label"`` and
    ``"previous"``, the label of the token before (missing at the first), which makes the pairs of neighbouring labels
    its parts and takes that many times longer. Weights of rows (`sample_weight`) are weights of whole sequences.

    Parameters
    ----------
    scores : sequence of array-like of shape (n_tokens, n_labels)
        One per row; -inf for impossible. Scores of first and last labels belong in the first and last token.
    transitions : array-like of shape (n_labels, n_labels), optional
        Score of a label (column) after another (row); None for independent tokens.

    Raises
    ------
    InvalidInputError
        NaN or +inf; shapes that do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem import E, Lattice, part, project
    >>> words = Lattice([np.log([[0.7, 0.3], [0.6, 0.4]])], np.log([[0.9, 0.1], [0.5, 0.5]]))
    >>> table = project(words, (E[part("label") == "VERB"] >= 1).per("row"), labels=["NOUN", "VERB"])
    >>> table.proba[0].round(2).tolist()
    [[0.43, 0.57], [0.57, 0.43]]
    >>> table.decide().labels.tolist()
    ['VERB', 'NOUN']
    """

    scores: tuple[NDArray[np.float64], ...]
    transitions: NDArray[np.float64]

    def __init__(self, scores: Sequence[ArrayLike], transitions: ArrayLike | None = None) -> None:
        rows = tuple(np.array(row, np.float64) for row in scores)
        shapes = {row.shape[1:] for row in rows}
        if len(shapes) != 1 or rows[0].ndim != 2 or 0 in rows[0].shape[1:]:
            raise InvalidInputError(
                "Lattice: scores must be arrays of shape (n_tokens, n_labels) with the same labels in every row, got "
                f"shapes {[row.shape for row in rows[:5]]}; give -inf to labels that a row cannot have"
            )
        n = rows[0].shape[1]
        links = np.zeros((n, n)) if transitions is None else np.array(transitions, np.float64)
        if links.shape != (n, n):
            raise InvalidInputError(
                f"Lattice: transitions must have shape ({n}, {n}), from label and to label, got {links.shape}"
            )
        for name, array in [*((f"scores[{k}]", row) for k, row in enumerate(rows)), ("transitions", links)]:
            if not (array < np.inf).all():
                raise InvalidInputError(
                    f"Lattice: {name} must be finite or -inf, got NaN or +inf; look for 0/0 where scores are made"
                )
        object.__setattr__(self, "scores", rows)
        object.__setattr__(self, "transitions", links)
