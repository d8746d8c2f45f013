"""Where the training of hidden Markov models of series starts: parameters, made of states that rows are given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.series.input import Series, States
from spectrem.estimators.series.parameters import STARTS
from spectrem.exceptions import InvalidInputError, setting
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.emissions import Emission
from spectrem.models.emissions.columns import mean_of, spread_of
from spectrem.models.priors import DirichletPrior
from spectrem.models.series import SeriesModel, SeriesParameters, Sojourns

# Pairs of rows and states up to which short runs, of so many iterations, look for good starts, and the most of them.
_TRIED, _SHORT, _MOST_TRIED = 1 << 16, 30, 100
# Relative gain at which a short run ends, and difference of objectives that are the same; so many runs in a row that
# reach what others have reached end the search.
_ALIKE, _REPEATED = 1e-6, 10
_MOST_CLUSTERED = 20_000


def check_start(estimator: Any, emission: Emission, states: Sequence[Any], names: Sequence[str]) -> None:
    """Raise `InvalidInputError` unless the given start has a row for every state, and fits columns and durations."""
    init = estimator.init
    shape = emission.means(init.emission).shape
    if shape != (len(states), len(names)) or len(init.initial) != len(states):
        raise InvalidInputError(
            f"init must hold parameters of {len(states)} states and {len(names)} columns, got {len(init.initial)} "
            f"states that emit an array of shape {shape}; set {setting('n_components')} or give every state its row"
        )
    if (init.durations is None) != (estimator.durations is None):
        raise InvalidInputError(
            f"durations must be as in init, whose parameters are {'without' if init.durations is None else 'with'} "
            "them; leave them out, or learn them from another start"
        )


def find_starts(
    estimator: Any,
    model: SeriesModel,
    series: Series,
    states: States,
    corpus: Corpus,
    estep: EStep,
    rng: np.random.Generator,
) -> Iterator[SeriesParameters]:
    """Parameters to start from: the best of many short runs where there are few rows, which cost little there."""
    if not isinstance(estimator.init, str):
        yield from repeat(estimator.init)
    first = STARTS[1:] if estimator.init == "auto" else (estimator.init,)
    ways = chain(first, repeat("segments" if estimator.init == "auto" else estimator.init))
    every = (_parameters_of(model, series, start_states(series, states, way, rng)) for way in ways)
    work = len(series.x) * (model.n_states + (0 if model.sojourns is None else model.sojourns.longest))
    n_tried = min(_MOST_TRIED, 6 * model.n_states**2, _TRIED // work)
    if estimator.init != "auto" or n_tried <= estimator.n_init or model.n_states == 1:
        yield from every
    tried: list[tuple[bool, float, SeriesParameters]] = []
    for params in islice(every, n_tried):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            short = run_em(model, corpus, params, estep, stopping=Stopping(_SHORT, _ALIKE))
        objective = short.history[-1].objective
        again = any(abs(objective - other) <= _ALIKE * max(abs(objective), 1.0) for _, other, _ in tried)
        tried.append((again, -objective, short.params))
        if len(tried) >= max(_REPEATED, estimator.n_init) and all(one for one, _, _ in tried[-_REPEATED:]):
            break
    yield from (params for _, _, params in sorted(tried, key=lambda one: one[:2]))


def _parameters_of(model: SeriesModel, series: Series, state_of_row: Ints) -> SeriesParameters:
    """The parameters of rows whose states are given."""
    k = model.n_states
    shares = np.eye(k)[state_of_row]
    first = np.append(0, np.cumsum(series.lengths))[:-1][series.lengths > 0]
    moves = np.ones((k, k))
    inside = np.setdiff1d(np.arange(1, len(state_of_row)), first)
    np.add.at(moves, (state_of_row[inside - 1], state_of_row[inside]), 1.0)
    durations = None
    if model.sojourns is not None:
        durations = _durations_of(model.sojourns, state_of_row, first, k)
    counts = {"initial": np.ones(k) + shares[first].sum(axis=0), "transition": moves}
    tables = {name: rows.normalise(counts[name], DirichletPrior()) for name, rows in model.tables.rows.items()}
    return SeriesParameters(**tables, emission=model.emission.start(series.x, shares), durations=durations)


def _durations_of(sojourns: Sojourns, state_of_row: Ints, first: Ints, k: int) -> Floats:
    """Parameters of how long states last, from the runs of rows that have one state."""
    changes = np.append(True, state_of_row[1:] != state_of_row[:-1])
    changes[first] = True
    starts = np.flatnonzero(changes)
    sizes = np.minimum(np.diff(np.append(starts, len(state_of_row))), sojourns.longest)
    counts = np.zeros((2, 2, sojourns.longest, k))
    np.add.at(counts[0, 0], (sizes - 1, state_of_row[starts]), 1.0)
    counts[0, 0] += 1.0 / sojourns.longest
    return sojourns.family.fit(counts, left=sojourns.left, right=sojourns.right)


def revived(model: SeriesModel, series: Series, params: SeriesParameters, dead: Ints) -> SeriesParameters:
    """Parameters in which dead states take the rows that all others explain worst."""
    scores = model.emission.scores(params.emission, series.x)
    alive = np.setdiff1d(np.arange(model.n_states), dead)
    best = scores[:, alive].max(axis=1)
    state_of_row = alive[scores[:, alive].argmax(axis=1)]
    n_taken = max(len(best) // (2 * model.n_states), 1)
    for number, state in enumerate(dead):
        state_of_row[np.argsort(best, kind="stable")[number * n_taken : (number + 1) * n_taken]] = state
    return _parameters_of(model, series, state_of_row)


def start_states(series: Series, states: States, way: str, rng: np.random.Generator) -> Ints:
    """A state for every row to start from, shape (n_rows,); labelled rows have theirs."""
    k, x = len(states.names), series.x
    filled = np.where(np.isnan(x), 0.0, (x - mean_of(x)) / spread_of(x))
    if way == "clusters":
        from sklearn.cluster import KMeans

        few = np.sort(rng.permutation(len(x))[:_MOST_CLUSTERED])
        centres: Any = "k-means++"
        seen = np.unique(states.state[states.state >= 0])
        if len(seen) == k:
            centres = np.stack([filled[states.state == one].mean(axis=0) for one in range(k)])
        n_clusters = min(k, len(np.unique(filled[few], axis=0)))
        if n_clusters < k:
            state_of_row = rng.integers(0, k, len(x))
        else:
            search = KMeans(k, init=centres, n_init=1, random_state=int(rng.integers(1 << 31))).fit(filled[few])
            state_of_row = search.predict(filled)
            if len(seen) and len(seen) < k:  # the states that labels know, to the clusters in which they are most
                state_of_row = _named(state_of_row, states, k)[state_of_row]
    elif way == "segments":
        n_pieces = min(int(rng.integers(2 * k, 4 * k + 1)), len(x))
        ends = np.sort(rng.choice(len(x), n_pieces, replace=False))
        state_of_row = rng.integers(0, k, n_pieces + 1)[np.searchsorted(ends, np.arange(len(x)))]
    else:
        ranks = np.argsort(np.argsort(filled.sum(axis=1), kind="stable"), kind="stable")
        state_of_row = (ranks * k) // max(len(x), 1)
    return np.where(states.state >= 0, states.state, state_of_row)


def _named(state_of_row: Ints, states: States, k: int) -> Ints:
    from scipy.optimize import linear_sum_assignment

    labelled = states.state >= 0
    counts = np.zeros((k, k))
    np.add.at(counts, (state_of_row[labelled], states.state[labelled]), 1.0)
    return np.asarray(linear_sum_assignment(-counts)[1])
