"""Several structures per instance: drawn at random, and the best ones in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_count, as_gamma, as_scores
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.chains import n_best as kernel
from spectrem.structures._ragged import check_scores, no_parts
from spectrem.structures.chains.chain import Chain
from spectrem.structures.derivations import Derivations
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


def sample(
    structure: Structure, scores: Parts, n: int, rng: np.random.Generator | int | None = None, *, gamma: float = 1.0
) -> Ints:
    """Draw structures of every instance of a batch, each with the probability that the smoothed max gives it.

    Parameters
    ----------
    structure : Structure
        Chains, trees, bracketings, segmentations, alignments: what is derived step by step, or has a ``sample``.
    scores : Parts
        Nats.
    n : int
        At least 1.
    rng : numpy.random.Generator or int, optional
        A generator, or a seed of one; by default every call draws anew.
    gamma : float, default 1.0
        Structures are drawn in proportion to ``exp(score / gamma)``; 0 gives the best one every time.

    Returns
    -------
    ndarray of shape (n, ...), int64
        Structures of all instances as ``structure.decode`` returns them: states, heads, brackets.

    Raises
    ------
    InvalidInputError
        If n is below 1, gamma is negative, the scores do not fit, or the structure has no draws.

    Notes
    -----
    One generator draws for one instance after another: what an instance gets depends on the seed, n and the instances
    before it, and not on those behind it, or on threads.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Chain, Parts, sample
    >>> chain = Chain([2], n_states=2)
    >>> scores = Parts(np.log([0.9, 0.1, 0.5, 0.5]), (np.log([[0.8, 0.2], [0.2, 0.8]]),))
    >>> sample(chain, scores, 1000, rng=0).mean(axis=0).round(1).tolist()
    [0.1, 0.3]
    """
    n, gamma, generator = as_count(n, "n", minimum=1), as_gamma(gamma), np.random.default_rng(rng)
    checked = check_scores(structure, scores)
    if hasattr(structure, "sample"):
        return cast(Ints, structure.sample(checked, gamma, n, generator))
    drawn = [
        (derivations, derivations.sample(part_scores, gamma, n, generator))
        for _, derivations, part_scores, _ in _derived(structure, checked)
    ]
    return _in_own_form(structure, drawn, n)


def n_best(structure: Structure, scores: Parts, n: int, edges: Floats | None = None) -> tuple[Floats, Ints]:
    """The n best structures of every instance of a batch, with their scores.

    Parameters
    ----------
    structure : Structure
        Chains, trees, bracketings, segmentations, alignments: what is derived step by step, or has an ``n_best``.
    scores : Parts
        Nats.
    n : int
        At least 1. Time and memory grow in proportion to it.
    edges : ndarray of shape (n_tokens, n_states, n_states), optional
        Of a `Chain`: scores of the transitions to every token, [from, to], besides those of all; those of first tokens
        are not read.

    Returns
    -------
    values : ndarray of shape (n_instances, n)
        Scores, decreasing, nats; -inf where an instance has fewer structures. An empty one has one, of score 0.
    structures : ndarray of shape (n, ...), int64
        As ``structure.decode`` returns them; where there is none, as that of an impossible instance. Among equal
        sequences of a `Chain` that with the lower last state comes first, and of these that with the lower state before
        it. Of equal `NonProjectiveTrees` that of ``decode`` comes first; the others are the best trees that depart from
        one before them at a certain word and not earlier, and come in the order of these trees, then of these words.

    Raises
    ------
    InvalidInputError
        If n is below 1, the scores do not fit, or the structure has no n best.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.structures import Chain, Parts, n_best
    >>> chain = Chain([2], n_states=2)
    >>> scores = Parts(np.log([0.9, 0.1, 0.5, 0.5]), (np.log([[0.8, 0.2], [0.2, 0.8]]),))
    >>> values, states = n_best(chain, scores, 3)
    >>> np.exp(values).round(3).tolist(), states.tolist()
    ([[0.36, 0.09, 0.04]], [[0, 0], [0, 1], [1, 1]])
    """
    n, checked = as_count(n, "n", minimum=1), check_scores(structure, scores)
    values = np.full((structure.n_instances, n), -np.inf)
    if isinstance(structure, Chain):
        return values, _best_paths(structure, checked, edges, values)
    if edges is not None:
        raise InvalidInputError(f"edges must be None for {type(structure).__name__}; only a Chain takes them")
    if hasattr(structure, "n_best"):
        return cast(tuple[Floats, Ints], structure.n_best(checked, n))
    ranked = []
    for instance, derivations, part_scores, base in _derived(structure, checked):
        best, numbers = derivations.n_best(part_scores, n)
        values[instance] = base + best
        ranked.append((derivations, numbers))
    return values, _in_own_form(structure, ranked, n)


def _best_paths(chain: Chain, checked: Parts, edges: Floats | None, values: Floats) -> Ints:
    """Fill values and return states, a dozen times as fast as by derivations."""
    k, states = chain.n_states, np.full((values.shape[1], chain.n_tokens), -1, np.int64)
    unary = checked.unary
    if chain.allowed is not None:
        unary = np.full(chain.n_tokens * k, -np.inf)
        unary[chain.choice * k + chain.allowed[1]] = checked.unary
    edge_scores = np.zeros((0, k, k)) if edges is None else as_scores(edges, "edges", (chain.n_tokens, k, k))
    kernel.n_best(
        chain.token_offsets, unary.reshape(chain.n_tokens, k), checked.factors[0], edge_scores, values, states
    )
    return states


def _derived(structure: Structure, scores: Parts) -> Iterator[tuple[int, Derivations, Floats, float]]:
    """Every instance's number, derivations, scores of their parts, and the score that all its structures share."""
    derive = getattr(structure, "derivations", None)
    if derive is None:
        raise InvalidInputError(
            f"{type(structure).__name__} is not derived step by step, and has neither samples nor n best structures; "
            "take a chain, trees, bracketings, segmentations or alignments"
        )
    score_parts = getattr(structure, "part_scores", None)
    for n in range(structure.n_instances):
        derivations = cast(Derivations, derive(n))
        part_scores, base = (derivations.scores(scores), 0.0) if score_parts is None else score_parts(scores, n)
        yield n, derivations, part_scores, base


def _in_own_form(structure: Structure, drawn: list[tuple[Derivations, Ints]], n: int) -> Ints:
    """Every draw as the structure decodes it where only the parts of that draw are possible."""
    structures: list[Any] = []
    for row in range(n):
        taken = no_parts(structure)
        for derivations, numbers in drawn:
            derivations.add(numbers[row].astype(np.float64), taken)
            if derivations.apart is not None:
                taken.unary[derivations.apart] += 1.0 - numbers[row]
        possible = np.where(taken.unary > 0.0, 0.0, -np.inf)
        structures.append(structure.decode(Parts(possible, no_parts(structure).factors)))
    return np.stack(structures)
