"""Slow, obvious oracles: every structure of a small instance, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import as_gamma, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.structures import Parts, Structure
from spectrem.structures._ragged import no_parts

Enumerator = Callable[[Structure, int], Iterable[Parts]]
"""Yields every structure of one instance as an indicator over the parts of the whole batch."""


class BruteForce(NamedTuple):
    """The smoothed maximum and its gradient as sums over all structures.

    Attributes
    ----------
    values : ndarray of shape (n_instances,)
        Smoothed max in nats, ``-inf`` where no structure is possible.
    marginals : Parts
    entropy : ndarray of shape (n_instances,)
        Nats; 0 at ``gamma == 0`` and for impossible instances.
    argmax : tuple of (Parts or None), one per instance
        The first best structure; None where none is possible.
    """

    values: NDArray[np.float64]
    marginals: Parts
    entropy: NDArray[np.float64]
    argmax: tuple[Parts | None, ...]


def random_scores(structure: Structure, rng: np.random.Generator) -> Parts:
    """Independent scores of all parts from a standard normal distribution, nats."""
    return no_parts(structure).map(lambda zeros: rng.normal(size=zeros.shape))


def enumerate_structures(structure: Structure, instance: int) -> Iterator[Parts]:
    """Every structure of one instance, as the structure's own ``enumerate`` gives them.

    Their number is exponential in the length: for instances of a few positions only.

    Parameters
    ----------
    structure : Structure
    instance : int

    Yields
    ------
    Parts
        Indicators of the size of the whole batch, zero outside the instance; factors hold counts.

    Raises
    ------
    InvalidInputError
        If the structure has no method ``enumerate``.

    Examples
    --------
    >>> from spectrem.structures import Chain
    >>> from spectrem.testing import enumerate_structures
    >>> [one.unary.astype(int).tolist() for one in enumerate_structures(Chain([2], n_states=2), 0)]
    [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]]
    """
    own = getattr(structure, "enumerate", None)
    if own is None:
        raise InvalidInputError(
            f"structure must have a method enumerate(instance); got {type(structure).__name__}; write one, or pass "
            "your own enumerator"
        )
    yield from own(instance)


def brute_force_smoothed_max(
    structure: Structure,
    scores: Parts,
    gamma: float,
    *,
    weights: NDArray[np.float64] | None = None,
    enumerator: Enumerator = enumerate_structures,
) -> BruteForce:
    """The smoothed max and its gradient by enumeration.

    Parameters
    ----------
    structure, scores, gamma, weights
        As for ``structure.smoothed_max``.
    enumerator : callable
        From (structure, instance) to every structure, as indicators over the batch.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Categorical, Parts
    >>> from spectrem.testing import brute_force_smoothed_max
    >>> result = brute_force_smoothed_max(Categorical([4]), Parts(np.zeros(4)), gamma=1.0)
    >>> np.exp(result.values).round(12).tolist(), np.exp(result.entropy).round(12).tolist()
    ([4.0], [4.0])
    """
    gamma = as_gamma(gamma)
    weight = as_weights(weights, structure.n_instances)
    values, entropies = np.full(structure.n_instances, -np.inf), np.zeros(structure.n_instances)
    marginals = no_parts(structure)
    argmax: list[Parts | None] = []
    for n in range(structure.n_instances):
        found = list(enumerator(structure, n))
        score = np.array([scores.dot(h) for h in found])
        if not np.isfinite(score).any():
            argmax.append(None)
            continue
        best = int(np.argmax(score))
        argmax.append(found[best])
        if gamma == 0.0:
            posterior = np.zeros(len(found))
            posterior[best] = 1.0
            values[n] = score[best]
        else:
            excess = (score - score[best]) / gamma
            log_total = np.log(np.exp(excess).sum())
            posterior = np.exp(excess - log_total)
            values[n] = score[best] + gamma * log_total
            likely = posterior > 0
            entropies[n] = -(posterior[likely] * (excess[likely] - log_total)).sum()
        for probability, h in zip(posterior, found, strict=True):
            marginals.unary[:] += probability * h.unary
            for total, count in zip(marginals.factors, h.factors, strict=True):
                total += weight[n] * probability * count
    return BruteForce(values, marginals, entropies, tuple(argmax))
