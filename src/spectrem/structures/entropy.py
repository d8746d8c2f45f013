"""Entropy from the value and the gradient of the smoothed max."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Floats
from spectrem._validate import as_gamma
from spectrem.structures._ragged import check_scores
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


def entropy(structure: Structure, scores: Parts, gamma: float, values: Floats, marginals: Parts) -> float:
    """Entropy of the distribution behind one call of ``smoothed_max``, added over its instances, in nats.

    ``(sum(values) - <scores, marginals>) / gamma``, from ``smax = <s, mu> + gamma H(mu)``; 0 at ``gamma == 0``,
    where the distribution is one structure. Impossible instances count as 0.

    Parameters
    ----------
    structure : Structure
    scores, gamma
        As given to ``structure.smoothed_max``.
    values, marginals
        As returned by it, without ``weights``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts, entropy
    >>> coin, scores = Categorical([2]), Parts(np.zeros(2))
    >>> float(np.exp(entropy(coin, scores, 1.0, *coin.smoothed_max(scores, 1.0))).round(12))
    2.0
    """
    gamma = as_gamma(gamma)
    if gamma == 0.0:
        return 0.0
    expected = check_scores(structure, scores).dot(marginals)
    return (float(values[np.isfinite(values)].sum()) - expected) / gamma
