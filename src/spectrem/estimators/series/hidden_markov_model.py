"""HMM: hidden Markov models of series of numbers, counts and categories, with missing cells, labels and knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats
from spectrem._damage import DamageError
from spectrem._validate import as_generator
from spectrem.constraints import check_columns
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.text import flatten
from spectrem.estimators import engine
from spectrem.estimators.conventions import Estimator, as_fitted, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentences import check_tag_values, check_tags, tag_names
from spectrem.estimators.series.forecast import Forecast, OnlineFilter, filter_rows, normal_residuals
from spectrem.estimators.series.input import Series, States, known_sequences, read_series, read_states, start_states
from spectrem.estimators.series.parameters import HMMParameters, StatesParameters
from spectrem.estimators.storage import Codec, Member, Saved, finite, rows
from spectrem.exceptions import InvalidInputError
from spectrem.models import emissions as families
from spectrem.models.emissions import Emission
from spectrem.models.priors import DirichletPrior, Multinomials, Tables
from spectrem.models.series import SeriesModel, SeriesParameters, SeriesShard, build_shards
from spectrem.models.shards import in_corpus_order
from spectrem.models.tagging import restrict_rows
from spectrem.structures import Parts

_WAYS = ("clusters", "segments", "quantiles")


def _write(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    params = estimator.params_
    named = estimator.emission_.arrays(params.emission)
    layout = [[name, list(array.shape)] for name, array in named.items()]
    values = {
        "state_names": list(estimator.states_),
        "column_names": estimator.column_names_,
        "categories": estimator.categories_,
        "emission": families.settings_of(estimator.emission_),
        "layout": layout,
    }
    together = np.concatenate([np.zeros(0), *(array.ravel() for array in named.values())])
    return values, {"initial": params.initial, "transition": params.transition, "emission_arrays": together}


def _read(estimator: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    states, k = check_tags(values["state_names"]), len(values["state_names"])
    estimator._codec.check_arrays(arrays, {"initial": (k,), "transition": (k, k)})
    emission = families.of_settings(values["emission"])
    sizes = [int(np.prod(shape)) for _, shape in values["layout"]]
    if sum(sizes) != len(arrays["emission_arrays"]):
        raise DamageError(f"emission_arrays must hold {sum(sizes)} numbers, got {len(arrays['emission_arrays'])}")
    pieces = np.split(arrays["emission_arrays"], np.cumsum(sizes)[:-1])
    named = {name: one.reshape(shape) for (name, shape), one in zip(values["layout"], pieces, strict=False)}
    estimator._take(
        SeriesParameters(arrays["initial"], arrays["transition"], emission.of_arrays(named)),
        *(emission, states, [str(name) for name in values["column_names"]], dict(values["categories"])),
    )


_MEMBERS = {
    **{"initial": Member("f8", 1, rows), "transition": Member("f8", 2, rows)},
    "emission_arrays": Member("f8", 1, finite),
}


def codec_of(kind: str) -> Codec:
    """The content of the files of `HMM`, or of one of its thin names."""
    return Codec(kind=kind, members=_MEMBERS, write=_write, read=_read, apart=("states", "emissions"))


class HiddenMarkovModel(Saved, StatesParameters, Estimator):
    """What `HMM` and its thin names have in common; each says by ``_emissions`` what its states emit."""

    params_: SeriesParameters
    emission_: Emission
    states_: tuple[Any, ...]
    column_names_: list[str]
    categories_: dict[str, list[str]]

    def _emissions(self) -> Any:
        raise NotImplementedError

    @shows_progress
    def fit(
        self,
        X: Any,
        y: Any = None,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Learn from sequences of rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns), frame, or list of arrays, one for each sequence
            NaN, or null, where a cell is missing: it is summed out. Columns of text of a frame are categories.
        y : sequence of labels, or list of sequences if X is one, optional
            For each row the name of its state, a set of states, a mapping of states to probabilities, or None.
        lengths : array-like of shape (n_sequences,), int, optional
            Rows of every sequence, which follow each other; by default all rows are one sequence.
        groups : array-like of shape (n_rows,), optional
            The sequence of each row, in place of ``lengths``.
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences, at least 0.

        Returns
        -------
        HMM
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If the constraints cannot be met.
        """
        check_parameters(self)
        categories: dict[str, list[str]] = {}
        series = read_series(self, X, lengths, groups, categories)
        if not len(series.x) or not series.x.shape[1]:
            raise InvalidInputError(f"X must have at least one row and one column, got shape {series.x.shape}")
        names = None if self.states is None else check_tags(self.states)
        states = read_states(y, series, names, self.n_components)
        check_tag_values(self.constraints, states.names, ("state", "previous"))
        check_columns(self.constraints, series.columns.of_words)
        emission = families.resolve(self._emissions(), series.names).learn(series.unsorted(series.x), series.names)
        weights = row_weights(sample_weight, len(series.lengths), "sequence")
        known = known_sequences(states, series.lengths)
        model = SeriesModel(tag_names(states.names), emission, self._tables(len(states.names)), self._has_edges())
        shards = build_shards(series.x, series.lengths, model.n_states, weights, known, states.evidence, series.columns)
        corpus, rng, ways = engine.make_corpus(self, shards), as_generator(self.random_state), iter(self._ways())
        start = partial(_start, self, model, series, states, ways, rng)
        labelled = None
        if (known & (weights > 0)).any():
            labelled = partial(engine.learn_labels, model, corpus, start())
        learns = bool((~known & (weights > 0) & (series.lengths > 0)).any())
        estep = engine.estep_of(self)
        n_starts = 1 if labelled else None
        trained = engine.train(self, engine.Task(model, corpus, start, estep, labelled, learns, n_starts=n_starts))
        self._take(trained.params, emission, states.names, series.names, categories)
        engine.record(
            self, trained, len(series.lengths), {"states": model.n_states, "rows": len(series.x)}, unit="sequences"
        )
        return self

    def predict(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """The state of every row, as ``decode`` says: an array, or a list of arrays if X is a list."""
        series, new = self._encoded(X, lengths, groups)
        found = new.structures(_most_probable, "sequences")
        return series.restored(np.array(self.states_, object if _mixed(self.states_) else None)[found])

    def predict_proba(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Posterior probabilities of the states of every row, shape (n_rows, n_states), given the whole sequence."""
        series, new = self._encoded(X, lengths, groups)
        return series.restored(self._posteriors(new))

    def score_samples(self, X: Any, y: Any = None, lengths: Any = None, groups: Any = None) -> Floats:
        """The log-likelihood of every sequence (with labels, of rows and labels), shape (n_sequences,), nats."""
        _, new = self._encoded(X, lengths, groups, y)
        return new.values(engine.log_likelihoods, new.model, self.params_)

    def score(
        self, X: Any, y: Any = None, lengths: Any = None, groups: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log-likelihood per row, nats; with labels, of rows and labels."""
        series, new = self._encoded(X, lengths, groups, y)
        values = new.values(engine.log_likelihoods, new.model, self.params_)
        return engine.mean_log_likelihood("X", values, series.lengths, sample_weight)

    def filter(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Probabilities of the states of every row given it and the rows before, shape (n_rows, n_states)."""
        series, new = self._encoded(X, lengths, groups)
        scores = new.model.emission.scores(self.params_.emission, series.x)
        return series.restored(filter_rows(self.online_filter(), scores, series.lengths)[1])

    def online_filter(self) -> OnlineFilter:
        """A filter that takes in row after row of a new series; it pickles with its state."""
        fitted = as_fitted(self)
        return OnlineFilter(self.startprob_, self.transmat_, fitted.emission_, self.params_.emission)

    def forecast(
        self, X: Any, h: int = 1, lengths: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Forecast | list[Forecast]:
        """Distributions of the ``h`` rows after X, or after each of its sequences."""
        series, new = self._encoded(X, lengths, groups)
        online, forecasts = self.online_filter(), []
        scores = new.model.emission.scores(self.params_.emission, series.x)
        _, after = filter_rows(online, scores, series.lengths)
        for size, end in zip(series.lengths.tolist(), np.cumsum(series.lengths).tolist(), strict=True):
            online.probabilities = after[end - 1] if size else None
            forecasts.append(online.forecast(h))
        return forecasts if series.listed or len(forecasts) > 1 else forecasts[0]

    def impute(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """The rows of X with missing cells filled by their expected values given all others of the sequence."""
        series, new = self._encoded(X, lengths, groups)
        return series.restored(self.emission_.impute(self.params_.emission, series.x, self._posteriors(new)))

    def pseudo_residuals(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Normal residuals of one-step forecasts, shape (n_rows, n_columns), see `normal_residuals`."""
        series, _ = self._encoded(X, lengths, groups)
        return series.restored(normal_residuals(self.online_filter(), series.x, series.lengths))

    def sample(
        self, n_rows: int = 1, random_state: int | np.random.Generator | None = None
    ) -> tuple[Floats, NDArray[Any]]:
        """Draw a sequence: its rows, shape (n_rows, n_columns), and the names of their states."""
        fitted, rng = as_fitted(self), as_generator(self.random_state if random_state is None else random_state)
        states = np.empty(n_rows, np.int64)
        for row in range(n_rows):
            table = self.startprob_ if row == 0 else self.transmat_[states[row - 1]]
            states[row] = rng.choice(len(table), p=table / table.sum())
        rows = fitted.emission_.sample(self.params_.emission, states, rng)
        return rows, np.array(self.states_, object if _mixed(self.states_) else None)[states]

    def aic(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> float:
        """Akaike's information criterion, nats times two: the lower, the better."""
        return 2.0 * (self._n_free() - float(self.score_samples(X, None, lengths, groups).sum()))

    def bic(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> float:
        """Bayes' information criterion, with the number of rows as that of observations: the lower, the better."""
        series, _ = self._encoded(X, lengths, groups)
        return np.log(len(series.x)) * self._n_free() - 2.0 * float(self.score_samples(X, None, lengths, groups).sum())

    def _n_free(self) -> int:
        """Number of free parameters."""
        tables = as_fitted(self)._tables(len(self.states_)).rows.values()
        return self.emission_.n_free(self.params_.emission) + sum(
            int(np.maximum(table.row_sizes - 1, 0).sum()) for table in tables
        )

    def _posteriors(self, new: engine.NewSentences) -> Floats:
        corpus = engine.make_corpus(self, new.shards)
        return in_corpus_order(new.shards, engine.posteriors(self, new.model, self.params_, corpus), new.lengths)

    def _encoded(self, X: Any, lengths: Any, groups: Any, y: Any = None) -> tuple[Series, engine.NewSentences]:
        fitted = as_fitted(self)
        series = read_series(fitted, X, lengths, groups, fitted.categories_)
        if series.names != fitted.column_names_ and len(series.names) != len(fitted.column_names_):
            raise InvalidInputError(
                f"X must have the {len(fitted.column_names_)} columns of training, "
                f"{', '.join(fitted.column_names_)}; got {len(series.names)}"
            )
        fitted.emission_.check(series.unsorted(series.x), series.names)
        evidence = None if y is None else read_states(y, series, fitted.states_, None).evidence
        if engine.projects(self):
            check_tag_values(self.constraints, fitted.states_, ("state", "previous"))
        edges = engine.projects(self) and self._has_edges()
        tables = fitted._tables(len(fitted.states_))
        model = SeriesModel(tag_names(fitted.states_), fitted.emission_, tables, edges)
        shards = build_shards(series.x, series.lengths, model.n_states, evidence=evidence, columns=series.columns)
        return series, engine.NewSentences(self, model, self.params_, shards, series.lengths)

    def _has_edges(self) -> bool:
        return any({"previous", "change"} & set(used_columns(one)) for one in flatten(self.constraints))

    def _ways(self) -> list[str]:
        rest = ["clusters"] * max(self.n_init - 3, 0)
        return [*_WAYS, *rest][: self.n_init] if self.init == "auto" else [self.init] * self.n_init

    def _tables(self, k: int) -> Tables:
        rules = {"initial": ("startprob", (k,)), "transition": ("transmat", (k, k))}
        tables, priors = {}, {}
        for table, (name, shape) in rules.items():
            kept = (self.fixed or {}).get(name)
            if kept is not None and np.shape(kept) != shape:
                raise InvalidInputError(f"fixed[{name!r}] must have shape {shape}, got {np.shape(kept)}")
            free = Multinomials.dense(shape)
            tables[table] = restrict_rows(free, None if kept is None else np.asarray(kept, np.float64), name)
            counts = np.broadcast_to(np.asarray(getattr(self, f"{name}_prior"), np.float64) - 1, shape).ravel()
            places = tables[table].free
            priors[table] = DirichletPrior(counts if places is None else counts[places])
        return Tables(tables, priors)

    def _take(
        self, params: SeriesParameters, emission: Emission, states: Any, names: list[str], categories: Any
    ) -> None:
        """Set the attributes that predictions need, from training or a file."""
        self.params_, self.emission_, self.states_ = params, emission, tuple(states)
        self.column_names_, self.categories_ = list(names), categories
        self.startprob_, self.transmat_ = params.initial, params.transition
        for name, array in emission.arrays(params.emission).items():
            if name.isidentifier():
                setattr(self, f"{name}_", array)


def _start(
    estimator: Any, model: SeriesModel, series: Series, states: States, ways: Any, rng: np.random.Generator
) -> SeriesParameters:
    """Parameters of rows that are given states, from the next of several ways."""
    k, found = model.n_states, start_states(series, states, next(ways, "clusters"), rng)
    shares = np.eye(k)[found]
    first = np.append(0, np.cumsum(series.lengths))[:-1][series.lengths > 0]
    moves = np.ones((k, k))
    inside = np.setdiff1d(np.arange(1, len(found)), first)
    np.add.at(moves, (found[inside - 1], found[inside]), 1.0)
    counts = {"initial": np.ones(k) + shares[first].sum(axis=0), "transition": moves}
    tables = {name: rows.normalise(counts[name], DirichletPrior()) for name, rows in model.tables.rows.items()}
    return SeriesParameters(**tables, emission=model.emission.start(series.x, shares))


def _most_probable(model: SeriesModel, shard: SeriesShard, marginals: Parts) -> NDArray[np.int64]:
    return model.distributions(shard, marginals).argmax(axis=1)


def _mixed(states: tuple[Any, ...]) -> bool:
    """Whether names are of several types, which NumPy would turn into text."""
    return len({isinstance(one, str) for one in states}) > 1


@documented
@dataclass(eq=False, repr=False)
class HMM(HiddenMarkovModel, HMMParameters):
    """A hidden Markov model of series of numbers, counts and categories.

    Missing cells are summed out, labels of rows may be partial, and constraints on expectations guide what states
    mean, at any gamma ([Rabiner1989], [Ganchev2010]).

    Use when a series switches between a few regimes, and something is known about them.

    Attributes
    ----------
    states_ : tuple of str or int
    startprob_, transmat_ : ndarray of shape (n_states,), and (n_states, n_states), [from, to]
    means_, covars_ and the like : ndarray
        The parameters of the emission, with a row for every state.
    objective_ : float
        The objective of the last iteration, nats.
    report_ : FitReport

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([0.1, -0.2, 0.0, np.nan, 5.1, 4.9, 5.0, 0.2, -0.1])
    >>> model = HMM(2, emissions="gaussian", random_state=0, n_threads=1).fit(X)
    >>> model.predict(X).tolist()
    [0, 0, 0, 0, 1, 1, 1, 0, 0]
    """

    _codec = codec_of("HMM")

    def _emissions(self) -> Any:
        return self.emissions
