"""Full agreement of two models of one shape, in closed form."""

from __future__ import annotations

from spectrem._arrays import Floats
from spectrem.structures._ragged import check_scores
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


def full_agreement(structure: Structure, left_scores: Parts, right_scores: Parts, gamma: float) -> tuple[Floats, Parts]:
    """Two models of one structure, required to have the same posterior: the average of their scores.

    The product ``q(h) q(h')`` nearest to both models with equal marginals on every part, factors included, has
    ``q(h)`` proportional to ``exp((s_left + s_right)(h) / (2 gamma))`` ([Ganchev2010] props 6.1 and 6.2).

    Use when two models share every part; for partial agreement couple a `Product` by equality constraints.

    Parameters
    ----------
    structure : Structure
        The shape of both.
    left_scores, right_scores : Parts
        Nats.
    gamma : float
        >= 0.

    Returns
    -------
    values : ndarray of shape (n_instances,)
        ``2 smax_gamma((left + right) / 2)``, nats: the maximum of both objectives together.
    marginals : Parts
        The same for both models.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts, full_agreement
    >>> left, right = Parts(np.log([0.9, 0.1])), Parts(np.log([0.1, 0.9]))
    >>> full_agreement(Categorical([2]), left, right, gamma=1.0)[1].unary.round(12).tolist()
    [0.5, 0.5]
    """
    left, right = check_scores(structure, left_scores), check_scores(structure, right_scores)
    values, marginals = structure.smoothed_max(left.map(lambda a, b: (a + b) / 2, right), gamma)
    return 2 * values, marginals
