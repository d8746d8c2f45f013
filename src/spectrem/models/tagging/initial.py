"""Parameters from which EM of a tagger starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.inference.segments import sum_by
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.priors import DirichletPrior
from spectrem.models.shards import count_known
from spectrem.models.tagging.lexicon import TagShard
from spectrem.models.tagging.model import HMMModel, HMMParameters, TagKernel
from spectrem.structures._ragged import offsets_of

_TABLES = ("initial", "transition", "emission")


def uniform(model: HMMModel, *, perturbation: float = 0.0, rng: np.random.Generator | None = None) -> HMMParameters:
    """Every row uniform over what masks and the lexicon allow: a state emits its words with equal probability.

    Use when a dictionary breaks the symmetry of the states; without one, give a ``perturbation``.

    Parameters
    ----------
    model : HMMModel
    perturbation : float
        Each probability is multiplied by a factor drawn from [1, 1 + perturbation) before rows are normalised.
    rng : numpy.random.Generator, optional
        Needed if ``perturbation`` > 0.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If ``perturbation`` is negative, or positive without ``rng``.

    Examples
    --------
    >>> from spectrem.models.tagging import Lexicon
    >>> model = HMMModel(Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2), order=1)
    >>> uniform(model).emission.tolist()  # state 0 emits both words, state 1 word 1 alone
    [0.5, 0.5, 1.0]
    """
    _check_perturbation(perturbation, rng)
    counts = _ones(model)
    return model.normalise(counts if rng is None else _noisy(counts, perturbation, rng), DirichletPrior(0.0))


def random_counts(model: HMMModel, rng: np.random.Generator, *, spread: float = 1.0) -> HMMParameters:
    """The M-step of counts ``1 + spread * U(0, 1)``, a pseudo E-step ([Ganchev2010] §8.2: 1 for EM, 1e-4 for VEM).

    Use when there is no dictionary and several runs are to have different starts.

    Parameters
    ----------
    model : HMMModel
    rng : numpy.random.Generator
    spread : float
        X of the paper, at least 0.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If ``spread`` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.tagging import Lexicon
    >>> start = random_counts(HMMModel(Lexicon.full(5, 2), order=1), np.random.default_rng(0), spread=1.0)
    >>> start.initial.round(3).tolist()
    [0.563, 0.437]
    """
    if not 0 <= spread < np.inf:
        raise InvalidInputError(f"spread must be finite and at least 0, got {spread}; 1 makes starts clearly differ")
    return model.normalise(_noisy(_ones(model), spread, rng))


def posterior_uniform(
    model: HMMModel, corpus: Corpus, *, perturbation: float = 0.0, rng: np.random.Generator | None = None
) -> HMMParameters:
    """The M-step of posteriors that are uniform over every token's states, independently of its neighbours.

    Use when words differ in how many states they may have; a token counts the more for a state the fewer it has
    ([Samdani2012] §5).

    Parameters
    ----------
    model : HMMModel
    corpus : Corpus
        Its shards are `TagShard`.
    perturbation, rng
        As in `uniform`.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        As `uniform`.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.tagging import Lexicon, build_shards
    >>> lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)
    >>> corpus = Local(build_shards(lexicon, [2], [0, 1]))
    >>> start = posterior_uniform(HMMModel(lexicon, order=1), corpus)
    >>> start.transition.tolist(), start.emission.round(3).tolist()
    ([[0.5, 0.5], [0.5, 0.5]], [0.667, 0.333, 1.0])
    """
    _check_perturbation(perturbation, rng)
    # Where all scores are 0 the posterior is uniform over sequences, a product over the tokens.
    start = model.normalise(_expected(model, corpus))
    return start if rng is None or perturbation == 0 else model.restrict(_noisy(start, perturbation, rng))


def unambiguous(model: HMMModel, corpus: Corpus, *, smoothing: float | Mapping[str, float]) -> HMMParameters:
    """Transitions as between tokens that can be in one state only; emissions as in `posterior_uniform`.

    First states are counted on those tokens, transitions where both neighbours are such tokens; every token is divided
    equally among its states for the emissions. At order 2 the transitions do not depend on the state two back: there
    are too few triples of such tokens.

    Use when a dictionary leaves many words a single tag: what may follow what is then known before EM starts.

    Parameters
    ----------
    model : HMMModel
    corpus : Corpus
        Its shards are `TagShard`.
    smoothing : float or mapping of {"initial", "transition", "emission"} -> float
        Positive, so that all that the lexicon and the restrictions allow is possible; "transition" also serves the
        second states of order 2.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If ``smoothing`` lacks a table or is not positive.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.tagging import Lexicon, build_shards
    >>> lexicon = Lexicon.from_allowed([0, 1, 2, 4], [0, 1, 0, 1], n_states=2)  # word 2 may be in both states
    >>> corpus = Local(build_shards(lexicon, [3, 3], [0, 1, 2, 0, 1, 0]))
    >>> start = unambiguous(HMMModel(lexicon, order=1), corpus, smoothing=1.0)
    >>> start.transition.round(3).tolist(), start.emission.round(3).tolist()
    ([[0.25, 0.75], [0.667, 0.333]], [0.727, 0.667, 0.273, 0.333])
    """
    counts = corpus.sum(_certain, model)
    counts.emission = _expected(model, corpus).emission
    return _smoothed(model, counts, smoothing)


def supervised(model: HMMModel, corpus: Corpus, *, smoothing: float | Mapping[str, float] = 0.1) -> HMMParameters:
    """Relative frequencies in labelled sentences, with ``smoothing`` added to every count.

    Use when a few sentences are labelled and the rest is not.

    Parameters
    ----------
    model : HMMModel
    corpus : Corpus
        Its shards are `TagShard`; only those with ``known`` are counted.
    smoothing : float or mapping of {"initial", "transition", "emission"} -> float
        As in `unambiguous`.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If no sentence is labelled throughout, or ``smoothing`` lacks a table or is not positive.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.tagging import Lexicon, build_shards
    >>> lexicon, labelled = Lexicon.full(2, 2).with_entries([0, 1], [(0,), (1,)])
    >>> model = HMMModel(lexicon, order=1)
    >>> start = supervised(model, Local(build_shards(lexicon, [2], labelled)), smoothing=0.5)
    >>> start.initial.tolist(), start.emission.tolist()
    ([0.75, 0.25], [0.75, 0.25, 0.25, 0.75])
    """
    if not corpus.sum(count_known):
        raise InvalidInputError(
            "shards must hold sentences labelled throughout to start from them; got none; label some, or choose "
            "another start"
        )
    counts = corpus.sum(_labelled_counts, TagKernel(model).prepare(_ones(model), 1.0), _ones(model))
    return _smoothed(model, counts, smoothing)


def _check_perturbation(perturbation: float, rng: np.random.Generator | None) -> None:
    if not 0 <= perturbation < np.inf:
        raise InvalidInputError(f"perturbation must be finite and at least 0, got {perturbation}; 0 is exactly uniform")
    if perturbation > 0 and rng is None:
        raise InvalidInputError(
            f"rng must be a generator where perturbation is {perturbation}; pass np.random.default_rng(seed)"
        )


def _smoothed(model: HMMModel, counts: Statistics, smoothing: float | Mapping[str, float]) -> HMMParameters:
    """Distributions in proportion to counts plus pseudo-counts of their tables."""
    given = smoothing if isinstance(smoothing, Mapping) else dict.fromkeys(_TABLES, smoothing)
    for table in _TABLES:
        if not 0 < given.get(table, 0.0) < np.inf:
            raise InvalidInputError(
                f"smoothing must be positive and finite for each of {', '.join(_TABLES)}; got {given.get(table)} for "
                f"{table}; without it words and transitions that were not counted would be impossible"
            )
    priors: dict[str, Any] = {f"{table}_prior": DirichletPrior(given[table]) for table in _TABLES}
    return replace(model, **priors).normalise(counts)


def _certain(shard: TagShard, model: HMMModel) -> Statistics:
    """Weighted counts of first states and transitions of a shard among tokens that have a single state."""
    lexicon, n = model.lexicon, model.n_states
    first_part = lexicon.entry_offsets[shard.entries]
    single = lexicon.entry_offsets[shard.entries + 1] - first_part == 1
    states = lexicon.entry_states[first_part]
    weights = np.repeat(shard.weights, shard.lengths)
    is_first = np.zeros(len(states), np.bool_)
    is_first[offsets_of(shard.lengths)[:-1][shard.lengths > 0]] = True
    first = np.flatnonzero(is_first & single)
    later = np.flatnonzero(~is_first & single)
    later = later[single[later - 1]]
    pairs = sum_by(states[later - 1] * n + states[later], weights[later], n * n).reshape(n, n)
    initial = sum_by(states[first], weights[first], n)
    if model.order == 1:
        return Statistics(initial=initial, transition=pairs, second=None)
    return Statistics(initial=initial, transition=np.tile(pairs, (n, 1, 1)), second=pairs)


def _ones(model: HMMModel) -> HMMParameters:
    n, order = model.n_states, model.order
    second = np.ones((n, n)) if order == 2 else None
    return HMMParameters(np.ones(n), np.ones((n,) * (order + 1)), second, np.ones(model.lexicon.n_cells))


def _noisy(params: HMMParameters, spread: float, rng: np.random.Generator) -> HMMParameters:
    def noise(table: Floats) -> Floats:
        return table * (1.0 + spread * rng.random(table.shape))

    second = None if params.second is None else noise(params.second)
    return HMMParameters(noise(params.initial), noise(params.transition), second, noise(params.emission))


def _expected(model: HMMModel, corpus: Corpus) -> Statistics:
    """Counts under posteriors that are uniform over the sequences of states that the lexicon allows."""
    total: EStepResult[Statistics] = corpus.sum(TagKernel(model).prepare(_ones(model), 1.0))
    return total.stats


def _labelled_counts(
    shard: TagShard, expect: Callable[[TagShard], EStepResult[Statistics]], like: HMMParameters
) -> Statistics:
    """Counts of a shard whose states are given; zeros for other shards."""
    if shard.known:
        return expect(shard).stats
    return 0.0 * Statistics(
        initial=like.initial, transition=like.transition, second=like.second, emission=like.emission
    )
