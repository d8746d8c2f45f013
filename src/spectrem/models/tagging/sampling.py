"""Sentences drawn from a hidden Markov model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_lengths
from spectrem.exceptions import InvalidInputError
from spectrem.models.tagging.lexicon import Lexicon
from spectrem.models.tagging.model import HMMParameters


def sample_sentences(
    params: HMMParameters, lexicon: Lexicon, lengths: ArrayLike, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw states and words of sentences of given lengths.

    Rows that do not sum to 1 (mean-field weights) are scaled; states that emit no word are left out.

    Parameters
    ----------
    params : HMMParameters
    lexicon : Lexicon
        Whose cells ``params.emission`` refers to.
    lengths : array-like of shape (n_sentences,), int
        Tokens of every sentence, >= 0.
    rng : numpy.random.Generator

    Returns
    -------
    words, states : ndarrays of shape (n_tokens,), int64
        Sentence after sentence.

    Raises
    ------
    InvalidInputError
        If a state is reached from which no state that emits words can follow.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.tagging import HMMParameters, Lexicon
    >>> params = HMMParameters(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), None, np.ones(2))
    >>> lexicon = Lexicon.from_allowed([0, 1, 2], [0, 1], n_states=2)
    >>> sample_sentences(params, lexicon, [3, 2], np.random.default_rng(0))
    (array([0, 1, 0, 0, 1]), array([0, 1, 0, 0, 1]))
    """
    lengths = as_lengths(lengths, "lengths")
    starts = np.cumsum(lengths) - lengths
    emitting = np.bincount(lexicon.cell_states, params.emission, lexicon.n_states) > 0
    initial, transition = _cumulative(params.initial, emitting), _cumulative(params.transition, emitting)
    second = None if params.second is None else _cumulative(params.second, emitting)
    states = np.empty(int(lengths.sum()), np.int64)
    for t in range(int(lengths.max(initial=0))):
        at = starts[lengths > t] + t
        if t == 0:
            table = np.broadcast_to(initial, (len(at), lexicon.n_states))
        elif second is None:
            table = transition[states[at - 1]]
        elif t == 1:
            table = second[states[at - 1]]
        else:
            table = transition[states[at - 2], states[at - 1]]
        states[at] = _draw(table, rng)
    return _emit(params.emission, lexicon, states, rng), states


def _cumulative(table: Floats, emitting: Bools) -> Floats:
    """Cumulative probabilities along the last axis, of the states that emit words; NaN where there are none."""
    sums = np.cumsum(np.where(emitting, table, 0.0), axis=-1)
    with np.errstate(invalid="ignore"):
        return sums / sums[..., -1:]


def _draw(cumulative: Floats, rng: np.random.Generator) -> Ints:
    if np.isnan(cumulative[:, -1:]).any():
        raise InvalidInputError(
            "params must let every state be followed by one that emits words; got a row without any; add words to the "
            "lexicon or probability to the row"
        )
    # strictly below 1, so that an entry of probability 0 at the end is never drawn
    return (cumulative <= rng.random(len(cumulative))[:, None]).sum(axis=1)


def _emit(emission: Floats, lexicon: Lexicon, states: Ints, rng: np.random.Generator) -> Ints:
    words = np.empty(len(states), np.int64)
    for state in np.unique(states):
        cells = np.flatnonzero(lexicon.cell_states == state)
        sums = np.cumsum(emission[cells])
        own = np.flatnonzero(states == state)
        drawn = np.searchsorted(sums / sums[-1], rng.random(len(own)), side="right")
        words[own] = lexicon.cell_words[cells[drawn]]
    return words
