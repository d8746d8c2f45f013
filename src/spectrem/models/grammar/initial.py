"""Parameters from which EM of a dependency grammar starts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.models.estep import Statistics
from spectrem.models.grammar.model import TABLES, GrammarParameters, ValenceModel
from spectrem.models.grammar.shards import GrammarShard, n_cells
from spectrem.models.priors import DirichletPrior, Prior
from spectrem.structures import Parts, ValenceTrees

# Added to counts of starts, so that nothing is impossible before training has begun.
_LEAST = 0.01


def uniform(model: ValenceModel) -> GrammarParameters:
    """Every row of every table uniform.

    Examples
    --------
    >>> uniform(ValenceModel(2)).root.tolist()
    [0.5, 0.5]
    """
    return model.normalise(_ones(model), DirichletPrior(0.0))


def random_counts(model: ValenceModel, rng: np.random.Generator, *, spread: float = 1.0) -> GrammarParameters:
    """Tables in proportion to ``1 + spread * U(0, 1)``.

    Parameters
    ----------
    model : ValenceModel
    rng : numpy.random.Generator
    spread : float
        At least 0.

    Raises
    ------
    InvalidInputError
        If ``spread`` is negative.

    Examples
    --------
    >>> random_counts(ValenceModel(2), np.random.default_rng(0)).root.round(3).tolist()
    [0.563, 0.437]
    """
    if not 0 <= spread < np.inf:
        raise InvalidInputError(f"spread must be finite and at least 0, got {spread}; 1 makes starts clearly differ")
    noisy = {name: 1.0 + spread * rng.random(shape) for name, shape in zip(TABLES, model.shapes, strict=True)}
    return model.normalise(Statistics(**noisy), DirichletPrior(0.0))


def harmonic(model: ValenceModel, corpus: Corpus, *, preferred: Floats | None = None) -> GrammarParameters:
    """Heads near by, and all words alike as roots: the start of [KleinManning2004].

    In a sentence of n words, each hangs on the root with probability 1 / n, and on another word in inverse proportion
    to the distance. Where e children are expected on a side of a head, it is taken to have one with probability
    min(e, 1). Given heads are kept.

    Use when no heads are known: EM from a uniform start finds grammars in which, for example, determiners head nouns.

    Parameters
    ----------
    model : ValenceModel
    corpus : Corpus
        Its shards are `GrammarShard`.
    preferred : ndarray of shape (n_tags + 1, n_tags), optional
        Factors above 0 by which arcs are preferred, [tag of the head, tag of the child]; the last row is for the root.
        `preferences` makes them from rules.

    Raises
    ------
    InvalidInputError
        If ``preferred`` has another shape, or a factor is not finite or not above 0.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.grammar import build_shards
    >>> model = ValenceModel(2)
    >>> start = harmonic(model, Local(build_shards([3, 3], [0, 1, 1, 0, 1, 1], n_tags=2)))
    >>> start.choose[1].round(2).tolist()  # children of tag 1 to its left and right
    [[0.67, 0.33], [0.01, 0.99]]
    """
    shape = (model.n_tags + 1, model.n_tags)
    factors = np.ones(shape) if preferred is None else np.asarray(preferred, np.float64)
    if factors.shape != shape:
        raise InvalidInputError(
            f"preferred must have shape {shape}, a row for every tag of a head and one for the root; got "
            f"{factors.shape}; see preferences"
        )
    wrong = ~((factors > 0) & (factors < np.inf))
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), shape)
        raise InvalidInputError(
            f"preferred must be finite and above 0, got {factors[at]} at {tuple(map(int, at))}; 1 prefers nothing"
        )
    return model.normalise(corpus.sum(_harmonic_counts, model, factors), DirichletPrior(_LEAST))


def preferences(n_tags: int, rules: Iterable[tuple[int, int]], factor: float) -> Floats:
    """The argument ``preferred`` of `harmonic` by which arcs of some rules count ``factor`` times.

    Parameters
    ----------
    n_tags : int
    rules : iterable of (int, int)
        Tags of head and child; -1 as head is the root.
    factor : float
        Above 0.

    Returns
    -------
    ndarray of shape (n_tags + 1, n_tags)

    Raises
    ------
    InvalidInputError
        If a rule names a tag that there is not.

    Examples
    --------
    >>> preferences(2, [(0, 1), (-1, 0)], 9.0).tolist()
    [[1.0, 9.0], [1.0, 1.0], [9.0, 1.0]]
    """
    found = np.ones((n_tags + 1, n_tags))
    for head, child in rules:
        if not (-1 <= head < n_tags and 0 <= child < n_tags):
            raise InvalidInputError(
                f"rules must pair tags in 0..{n_tags - 1}, or -1 for the root as a head, got ({head}, {child}); leave "
                "out rules of tags that the text does not have"
            )
        found[head, child] = factor
    return found


def supervised(model: ValenceModel, corpus: Corpus, *, prior: Prior | None = None) -> GrammarParameters:
    """Relative frequencies in the sentences whose heads are all given.

    Parameters
    ----------
    model : ValenceModel
    corpus : Corpus
        Its shards are `GrammarShard`; those with unknown heads are left out.
    prior : Prior, optional
        By default a pseudo-count of 0.1.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.grammar import build_shards
    >>> model = ValenceModel(2)
    >>> corpus = Local(build_shards([2], [1, 0], n_tags=2, heads=[1, -1]))
    >>> supervised(model, corpus).root.round(2).tolist()
    [0.92, 0.08]
    """
    return model.normalise(corpus.sum(_known_counts, model), prior or DirichletPrior(0.1))


def _ones(model: ValenceModel) -> Statistics:
    return Statistics(**{name: np.ones(shape) for name, shape in zip(TABLES, model.shapes, strict=True)})


def _known_counts(shard: GrammarShard, model: ValenceModel) -> Statistics:
    counts = 0.0 * _ones(model)
    if not shard.known:
        return counts
    trees = ValenceTrees(shard.lengths, single_root=model.single_root)
    return model.gather(model.normalise(counts), shard, trees.parts_of(shard.heads))


def _harmonic_counts(shard: GrammarShard, model: ValenceModel, factors: Floats) -> Statistics:
    if shard.known:
        return _known_counts(shard, model)
    trees = ValenceTrees(shard.lengths, single_root=model.single_root)
    parts, allowed = trees.parts, shard.cells != n_cells(model.n_tags) - 1
    n_tokens, root = len(shard.tags), np.flatnonzero(parts.root & allowed)
    arc = np.flatnonzero(~parts.stop & ~parts.root & ~parts.later & allowed)
    dependent, head, side = parts.dependent[arc], parts.head[arc], parts.side[arc]
    own = factors[-1][shard.tags[parts.dependent[root]]]
    hangs = np.zeros(n_tokens)  # on the root
    hangs[parts.dependent[root]] = own / np.bincount(trees.instance[root], own, trees.n_instances)[trees.instance[root]]
    share = factors[shard.tags[head], shard.tags[dependent]] / np.abs(dependent - head)
    total = np.bincount(dependent, share, n_tokens)
    hangs[total == 0] = 1.0
    share *= ((1.0 - hangs) / np.where(total > 0, total, 1.0))[dependent]
    expected = np.bincount(2 * head + side, share, 2 * n_tokens)
    has_child = np.minimum(expected, 1.0)
    marginals = np.zeros(trees.n_unary)
    marginals[root] = hangs[parts.dependent[root]]
    first = (has_child / np.where(expected > 0, expected, 1.0))[2 * head + side]
    marginals[arc] = share * first
    marginals[arc + 1] = share * (1.0 - first)
    stop = np.flatnonzero(parts.stop)
    with_child = has_child[2 * parts.head[stop] + parts.side[stop]]
    marginals[stop] = np.where(parts.later[stop], with_child, 1.0 - with_child)
    return model.gather(model.normalise(_ones(model)), shard, Parts(marginals))
