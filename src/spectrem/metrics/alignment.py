"""How well predicted alignments agree with gold ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem.data import Links
from spectrem.exceptions import InvalidInputError
from spectrem.metrics.reliability import check_probabilities

__all__ = ["AlignmentScores", "alignment_scores", "expected_f1_threshold"]


@dataclass(frozen=True)
class AlignmentScores:
    """Agreement of predicted links A with sure links S and possible links P, P containing S.

    Attributes
    ----------
    aer : float
        Alignment error rate, in [0, 1]; 0 is best.
    precision, recall, f_measure : float
        In [0, 1]; 1 is best.
    n_predicted, n_sure, n_possible : int
        Sizes of A, S and P.

    Examples
    --------
    >>> from spectrem.data import Links
    >>> scores = alignment_scores(Links.from_pairs([[(0, 0), (1, 1)]]), Links.from_pairs([[(0, 0)]], [[(1, 2)]]))
    >>> scores.precision, scores.recall, round(scores.aer, 3)
    (0.5, 1.0, 0.333)
    """

    aer: float
    precision: float
    recall: float
    f_measure: float
    n_predicted: int
    n_sure: int
    n_possible: int


def alignment_scores(predicted: Links, gold: Links, *, alpha: float = 0.5) -> AlignmentScores:
    """Score alignments over all sentences together.

    ``aer = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)``, ``precision = |A ∩ P| / |A|``, ``recall = |A ∩ S| / |S|``
    ([OchNey2003] §5.1) and ``f_measure = 1 / (alpha / precision + (1 - alpha) / recall)`` ([FraserMarcu2007] §3).

    Without predicted links the precision is 1, without sure ones the recall is 1: nothing wrong was said, nothing
    missed. Without both, the error rate is 0. The F-measure is 0 where one that it weighs is 0.

    Parameters
    ----------
    predicted : Links
        All its links count, whether marked sure or possible.
    gold : Links
        Links of the same sentences; those that are not marked sure are in P only.
    alpha : float
        Weight of precision in the F-measure, in [0, 1].

    Returns
    -------
    AlignmentScores
        Error rate, precision, recall and F-measure, and the numbers of links behind them.

    Raises
    ------
    InvalidInputError
        If the numbers of sentences differ, or alpha is outside [0, 1].

    Examples
    --------
    >>> from spectrem.data import Links
    >>> gold = Links.from_pairs([[(0, 0), (1, 1)]], possible=[[(1, 2)]])
    >>> scores = alignment_scores(Links.from_pairs([[(0, 0), (1, 2), (2, 2)]]), gold)
    >>> round(scores.aer, 3), round(scores.precision, 3), scores.recall
    (0.4, 0.667, 0.5)
    """
    if not 0.0 <= alpha <= 1.0:
        raise InvalidInputError(
            f"alpha must lie between 0 (recall alone) and 1 (precision alone), but is {alpha}; 0.5 is balanced"
        )
    if predicted.offsets.size != gold.offsets.size:
        raise InvalidInputError(
            f"predicted and gold must align the same sentences, but have {predicted.offsets.size - 1} and "
            f"{gold.offsets.size - 1}; give one line of links per sentence pair in both"
        )
    predicted_keys, possible, sure = predicted.keys, gold.keys, gold.keys[gold.sure]
    n_right = np.intersect1d(predicted_keys, possible, assume_unique=True).size
    n_sure_right = np.intersect1d(predicted_keys, sure, assume_unique=True).size

    precision = n_right / predicted_keys.size if predicted_keys.size else 1.0
    recall = n_sure_right / sure.size if sure.size else 1.0
    total = predicted_keys.size + sure.size
    return AlignmentScores(
        aer=1.0 - (n_right + n_sure_right) / total if total else 0.0,
        precision=precision,
        recall=recall,
        f_measure=_f_measure(precision, recall, alpha),
        n_predicted=predicted_keys.size,
        n_sure=sure.size,
        n_possible=possible.size,
    )


def expected_f1_threshold(
    posteriors: ArrayLike, weights: ArrayLike | None = None, *, right: ArrayLike | None = None
) -> float:
    """The threshold whose links have the greatest expected F1 if they are right as often as their probabilities say.

    Links above a threshold are right in as many cases as the sum of their probabilities says, out of as many as the
    sum over all links, so that ``F1 = 2 * sum(right above) / (count(p above) + sum(p))``. Where this is greatest, the
    links taken are those more probable than half of it, and this half is returned ([Lipton2014]). No gold links are
    needed.

    Probabilities that two models should agree on, and do not, are too high where they are read as the chance to be
    right. With ``right``, the smaller of the two, only what both grant is counted as right above the threshold, and
    the threshold is higher the more they disagree: the lowest one, of at least half of the greatest F1, that takes
    the best links.

    What annotators count as a link cannot be seen in probabilities. Where they leave out more than the model expects,
    a higher threshold is better than this one, and a lower one where they link whole phrases.

    Parameters
    ----------
    posteriors : array-like of shape (n_links,)
        Probabilities of all possible links of some sentences, in [0, 1]; those near 0 may be left out.
    weights : array-like of shape (n_links,), optional
        How often each link counts, at least 0.
    right : array-like of shape (n_links,), optional
        Probabilities that the links are right, at least 0 and at most ``posteriors``, which are the default.

    Returns
    -------
    float
        At most 0.5 without ``right``. 0.5 if no link is expected to be right.

    Raises
    ------
    InvalidInputError
        If a probability breaks its rule, a weight is negative or not finite, or their numbers differ.

    Examples
    --------
    >>> round(expected_f1_threshold([0.9, 0.8, 0.3]), 3)  # taking the first two: F1 = 2 * 1.7 / (2 + 2.0)
    0.425
    >>> forward, backward = [0.9, 0.9, 0.9, 0.1], [0.9, 0.7, 0.1, 0.1]  # two directions, and their mean
    >>> mean = [0.9, 0.8, 0.5, 0.1]
    >>> round(expected_f1_threshold(mean), 3), expected_f1_threshold(mean, right=np.minimum(forward, backward))
    (0.415, 0.5)
    """
    probabilities = np.asarray(posteriors, np.float64).ravel()
    counts = np.ones(probabilities.size) if weights is None else np.asarray(weights, np.float64).ravel()
    shares = probabilities if right is None else np.asarray(right, np.float64).ravel()
    check_probabilities(probabilities)
    if counts.size != probabilities.size or not (np.isfinite(counts) & (counts >= 0)).all():
        raise InvalidInputError(
            f"weights must be {probabilities.size} finite numbers of at least 0, one per posterior, got {counts.size} "
            f"with minimum {counts.min(initial=np.inf):g}"
        )
    if shares.size != probabilities.size:
        raise InvalidInputError(
            f"right must be {probabilities.size} probabilities, one per posterior, got {shares.size}; "
            "give those of the same links in the same order"
        )
    within = (shares >= 0) & (shares <= probabilities)
    if not within.all():
        at = int(np.argmin(within))
        raise InvalidInputError(
            f"right must be probabilities between 0 and the posteriors, got {shares[at]} for the posterior "
            f"{probabilities[at]}; give the smaller of two probabilities, and their mean as the posterior"
        )
    total = float(counts @ probabilities)
    if not float(counts @ shares) > 0:
        return 0.5
    order = np.argsort(-probabilities, kind="stable")
    order = order[counts[order] > 0]
    f1 = 2 * np.cumsum((counts * shares)[order]) / (np.cumsum(counts[order]) + total)
    # A threshold takes all links of the same probability or none.
    probabilities = np.append(probabilities[order], 0.0)
    f1[:-1][probabilities[1:-1] == probabilities[:-2]] = 0.0
    best = int(np.argmax(f1))
    return float(max(f1[best] / 2, probabilities[best + 1]))


def _f_measure(precision: float, recall: float, alpha: float) -> float:
    weighed = [(alpha, precision), (1.0 - alpha, recall)]
    if any(weight > 0 and value == 0 for weight, value in weighed):
        return 0.0
    return 1.0 / sum(weight / value for weight, value in weighed if weight > 0)
