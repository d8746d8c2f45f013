"""How many of the arcs should be conserved, chosen on parallel text without trees of the target language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools
from spectrem._heads import ROOT
from spectrem._validate import as_generator
from spectrem.exceptions import InvalidInputError


class Trial(NamedTuple):
    """A share that was tried, and the share of the conserved arcs of the other half that were then predicted."""

    share: float
    predicted: float


def conserved_share(heads: Sequence[ArrayLike], conserved: Sequence[Bools]) -> float:
    """Of the words that have a conserved arc, the share whose head is such.

    Parameters
    ----------
    heads : sequence of array-like of shape (n_words,), int
        Positions from 0, -1 of the root.
    conserved : sequence of ndarray of shape (n_words, n_words), bool
        As from `spectrem.data.conserved_arcs`.

    Returns
    -------
    float
        In [0, 1]; NaN if no word has a conserved arc.

    Examples
    --------
    >>> conserved_share([[1, -1]], [np.array([[False, True], [False, False]])])
    1.0
    """
    taken = present = 0
    for tree, arcs in zip(heads, conserved, strict=True):
        own = np.asarray(tree, np.int64)
        words = np.arange(own.size)
        present += int(arcs.any(axis=1).sum())
        taken += int((arcs[words, np.where(own == ROOT, words, own)] & (own >= ROOT)).sum())
    return taken / present if present else float("nan")


def choose_share(
    fit: Callable[[float, Sequence[int]], Any],
    sentences: Sequence[Any],
    conserved: Sequence[Bools],
    shares: Sequence[float],
    *,
    random_state: int | np.random.Generator | None = None,
) -> tuple[float, list[Trial]]:
    """Learn with each share on one half of the text, and take that which conserves most arcs of the other half.

    So [Ganchev2010] §7.3 (footnote 10) chose its share of 0.9: without trees of the target language.

    Parameters
    ----------
    fit : callable
        From a share and the numbers of the sentences to train on to a parser with ``predict``.
    sentences : sequence
        What the parser predicts trees of.
    conserved : sequence of ndarray of shape (n_words, n_words), bool
    shares : sequence of float
        Of shares that are equally good the first one is chosen.
    random_state : int, Generator or None
        Draws the halves.

    Returns
    -------
    share : float
    trials : list of Trial
        All that were tried, in the given order.

    Raises
    ------
    InvalidInputError
        If there are no shares, fewer than two sentences, or no conserved arcs in the half that is predicted.
    """
    if not len(shares):
        raise InvalidInputError("shares must name at least one share to try, got none; try (0.6, 0.7, 0.8, 0.9)")
    if len(sentences) < 2:
        raise InvalidInputError(
            f"a share is chosen on two halves of the text, but it has {len(sentences)} sentences; give the share"
        )
    order = as_generator(random_state).permutation(len(sentences))
    first, second = np.sort(order[: len(order) // 2]).tolist(), np.sort(order[len(order) // 2 :]).tolist()
    held_out = [conserved[n] for n in second]
    if not any(arcs.any() for arcs in held_out):
        raise InvalidInputError(
            "no arc of the half of the text on which shares are compared is conserved; give more text, or the share"
        )
    trials = []
    for share in shares:
        found = fit(share, first).predict([sentences[n] for n in second])
        trials.append(Trial(share, conserved_share(found, held_out)))
    return max(trials, key=lambda trial: trial.predicted).share, trials
