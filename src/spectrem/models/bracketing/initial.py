"""Where EM of the constituent-context model starts: expected counts under a distribution over trees."""

from __future__ import annotations

import numpy as np

from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.models.bracketing.model import ConstituentContextModel, SpanParameters
from spectrem.models.bracketing.shards import BracketShard
from spectrem.models.estep import Statistics
from spectrem.structures import Bracketings, Parts

START_SCORES = ("split", "uniform")
"""Distributions over trees: cut at random from the top, or all equally probable."""


def tree_scores(lengths: np.ndarray, start: str) -> Parts:
    """Log-probabilities of trees as scores of the parts of `Bracketings`, nats, up to a constant per sentence.

    Parameters
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    start : {"split", "uniform"}
        "split": from the whole sentence on, every span is cut at one of its places, all equally probable
        [KleinManning2002]: a tree has the probability of the product of 1 / (words - 1) over its constituents. So it is
        less balanced than under "uniform", which gives all trees the same probability.

    Raises
    ------
    InvalidInputError
        If ``start`` is neither of them.

    Examples
    --------
    >>> import numpy as np
    >>> lengths = np.array([4])
    >>> _, split = Bracketings(lengths).smoothed_max(tree_scores(lengths, "split"), 1.0)
    >>> _, uniform = Bracketings(lengths).smoothed_max(tree_scores(lengths, "uniform"), 1.0)
    >>> split.unary[[2, 10]].round(3).tolist(), uniform.unary[[2, 10]].round(3).tolist()  # words 0 and 1, 1 and 2
    ([0.5, 0.333], [0.4, 0.4])
    """
    if start not in START_SCORES:
        raise InvalidInputError(f"start must be one of {', '.join(map(repr, START_SCORES))}, got {start!r}")
    begin, end = Bracketings(lengths).spans
    unary = np.zeros((len(begin), 2))
    if start == "split":
        unary[:, 0] = -np.log(np.maximum(end - begin - 1, 1))
    return Parts(unary.ravel())


def start_from(model: ConstituentContextModel, corpus: Corpus, start: str) -> SpanParameters:
    """The M-step of expected counts under a distribution over trees; see `tree_scores`.

    Parameters
    ----------
    model : ConstituentContextModel
    corpus : Corpus
        Its shards are `BracketShard`.
    start : {"split", "uniform"}
        "uniform" is also what the first step of EM makes of uniform parameters.

    Returns
    -------
    SpanParameters

    Raises
    ------
    InvalidInputError
        If ``start`` is neither of them.
    """
    counts: Statistics = corpus.sum(_expected, model, start)
    return model.normalise(counts)


def _expected(shard: BracketShard, model: ConstituentContextModel, start: str) -> Statistics:
    _, marginals = Bracketings(shard.lengths).smoothed_max(tree_scores(shard.lengths, start), 1.0)
    none = np.zeros((2, 0))
    return model.gather(SpanParameters(none, none), shard, marginals)
