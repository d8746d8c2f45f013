"""HMM: hidden Markov models of series of numbers, counts and categories, with missing cells, labels and knowledge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats
from spectrem._damage import DamageError
from spectrem._validate import as_count, as_generator
from spectrem.constraints import check_columns
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.text import flatten
from spectrem.estimators import engine
from spectrem.estimators.conventions import Estimator, as_fitted, row_weights, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentences import check_tag_values, check_tags, tag_names
from spectrem.estimators.series.forecast import Forecast, OnlineFilter, filter_rows, normal_residuals
from spectrem.estimators.series.input import Series, known_sequences, read_series, read_states
from spectrem.estimators.series.parameters import HMMParameters, StatesParameters
from spectrem.estimators.series.starts import check_start, find_starts, revived
from spectrem.estimators.storage import Codec, Member, Saved, distributions, finite
from spectrem.exceptions import InvalidInputError, warn
from spectrem.learning import FitStatus
from spectrem.models import emissions as families
from spectrem.models.durations import Durations, Geometric, Histogram, NegativeBinomial, Poisson
from spectrem.models.emissions import Emission
from spectrem.models.emissions.categorical import as_probabilities
from spectrem.models.priors import DirichletPrior, Multinomials, Tables
from spectrem.models.series import SeriesModel, SeriesParameters, SeriesShard, Sojourns, build_shards
from spectrem.models.shards import in_corpus_order
from spectrem.models.tagging import restrict_rows
from spectrem.structures import Parts

_DURATIONS: dict[str, Callable[[], Durations]] = {
    "histogram": partial(Histogram, 0.1),
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "geometric": Geometric,
}
# Expected rows below which a state is dead.
_ALIVE = 1e-3


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
        "durations": _family_settings(estimator._sojourns()),
    }
    together = np.concatenate([np.zeros(0), *(array.ravel() for array in named.values())])
    arrays = {"initial": params.initial, "transition": params.transition, "emission_arrays": together}
    return values, arrays if params.durations is None else {**arrays, "durations": params.durations}


def _family_settings(sojourns: Sojourns | None) -> dict[str, Any] | None:
    return None if sojourns is None else {"kind": type(sojourns.family).__name__, **vars(sojourns.family)}


def _read(estimator: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    states, k = check_tags(values["state_names"], "states"), len(values["state_names"])
    estimator._codec.check_arrays(arrays, {"initial": (k,), "transition": (k, k)})
    emission = families.of_settings(values["emission"])
    if values["durations"] is not None:
        kinds = {kind.__name__: kind for kind in (Histogram, Poisson, NegativeBinomial, Geometric)}
        settings = {name: value for name, value in values["durations"].items() if name != "kind"}
        estimator.set_params(durations=kinds[values["durations"]["kind"]](**settings))
    sizes = [int(math.prod(shape)) for _, shape in values["layout"]]
    if sum(sizes) != len(arrays["emission_arrays"]):
        raise DamageError(f"emission_arrays must hold {sum(sizes)} numbers, got {len(arrays['emission_arrays'])}")
    pieces = np.split(arrays["emission_arrays"], np.cumsum(sizes)[:-1])
    named = {name: one.reshape(shape) for (name, shape), one in zip(values["layout"], pieces, strict=False)}
    emitted, names = emission.of_arrays(named), [str(name) for name in values["column_names"]]
    if emission.means(emitted).shape != (k, len(names)):
        raise DamageError(f"its emissions have shape {emission.means(emitted).shape}, not {(k, len(names))}")
    _check_durations(estimator._sojourns(), arrays.get("durations"), k)
    params = SeriesParameters(arrays["initial"], arrays["transition"], emitted, arrays.get("durations"))
    estimator._take(params, emission, states, names, dict(values["categories"]))


def _check_durations(sojourns: Sojourns | None, parameters: Floats | None, k: int) -> None:
    """DamageError unless the parameters of durations are those of distributions for so many states."""
    if sojourns is None or parameters is None:
        if (sojourns is None) != (parameters is None):
            raise DamageError("durations must be there if states have some, and else not")
        return
    table = np.zeros(0)
    with suppress(FloatingPointError), np.errstate(divide="raise", over="raise", invalid="raise"):
        table = np.exp(sojourns.family.log_probabilities(parameters, sojourns.longest))
    if table.shape != (sojourns.longest, k) or not (np.abs(table.sum(axis=0) - 1) <= 1e-6).all():
        raise DamageError(f"durations must give 1 to {sojourns.longest} rows probabilities in each of {k} states")


_MEMBERS = {
    **{"initial": Member("f8", 1, distributions), "transition": Member("f8", 2, distributions)},
    **{"emission_arrays": Member("f8", 1, finite), "durations": Member("f8", 2, finite)},
}


def codec_of(kind: str) -> Codec:
    """The content of the files of `HMM`, or of one of its thin names."""
    return Codec(kind=kind, members=_MEMBERS, write=_write, read=_read, apart=("states", "emissions", "durations"))


class HiddenMarkovModel(Saved, StatesParameters, Estimator):
    """What `HMM` and its thin names have in common; each says by ``_emissions`` what its states emit."""

    params_: SeriesParameters
    emission_: Emission
    states_: tuple[Any, ...]
    column_names_: list[str]
    categories_: dict[str, list[str]]

    def _emissions(self) -> Any:
        raise NotImplementedError

    @classmethod
    def from_parameters(
        cls,
        startprob: ArrayLike,
        transmat: ArrayLike,
        emission: Mapping[str, ArrayLike],
        *,
        column_names: Sequence[str] = (),
        **options: Any,
    ) -> Self:
        """A model with known parameters, ready to predict, score and draw; `fit` trains on from them.

        Parameters
        ----------
        startprob, transmat : array-like of shape (n_states,), and (n_states, n_states), [from, to]
            Probabilities.
        emission : mapping of name -> array-like
            The parameters of what states emit, by the names of the attributes without the underscore, such as means and
            covars, each with a row for every state.
        column_names : sequence of str, optional
            By default numbers from 0, as text. They are needed where ``emissions`` is a mapping.
        **options
            Other parameters of the model. Durations are learned only.

        Raises
        ------
        InvalidInputError
            If shapes do not fit each other, rows do not sum to 1, or there are durations.

        Examples
        --------
        >>> from spectrem import PoissonHMM
        >>> model = PoissonHMM.from_parameters([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], {"lambdas": [[1.0], [9.0]]})
        >>> model.predict([1, 0, 2, 8, 9]).tolist()
        [0, 0, 0, 1, 1]
        """
        tables = {"startprob": np.asarray(startprob), "transmat": np.asarray(transmat)}
        initial = as_probabilities(tables, "startprob", (None,))
        transition = as_probabilities(tables, "transmat", (len(initial), len(initial)))
        model = cls(**{"n_components": len(initial), **options})
        family = families.resolve(model._emissions(), column_names)
        try:
            parameters = family.of_arrays({name: np.asarray(array) for name, array in emission.items()})
        except KeyError as error:
            raise InvalidInputError(f"emission must have {error}, got {', '.join(emission)}; add it") from None
        names = list(column_names) or [str(j) for j in range(family.means(parameters).shape[1])]
        params = SeriesParameters(initial, transition, parameters)
        check_parameters(model.set_params(init=params))
        states = tuple(range(len(initial))) if model.states is None else check_tags(model.states, "states")
        check_start(model, family, states, names)
        model._take(params, family, states, names, {})
        model.gamma_ = engine.asked_gamma(model)
        take_course(model, [], FitStatus.FIXED_ITERATIONS)
        return model

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
        names = None if self.states is None else check_tags(self.states, "states")
        states = read_states(y, series, names, self.n_components)
        check_tag_values(self.constraints, states.names, ("state", "previous"))
        check_columns(self.constraints, series.columns.of_words)
        emission = families.resolve(self._emissions(), series.names).learn(series.unsorted(series.x), series.names)
        families.check_texts(emission, series.names, categories)
        if not isinstance(self.init, str):
            check_start(self, emission, states.names, series.names)
        weights = row_weights(sample_weight, len(series.lengths), "sequence")
        known = known_sequences(states, series.lengths)
        tables, sojourns = self._tables(len(states.names)), self._sojourns()
        model = SeriesModel(tag_names(states.names), emission, tables, self._has_edges(), sojourns)
        shards = build_shards(series.x, series.lengths, model.n_states, weights, known, states.evidence, series.columns)
        corpus, estep, rng = engine.make_corpus(self, shards), engine.estep_of(self), as_generator(self.random_state)
        start = partial(next, find_starts(self, model, series, states, corpus, estep, rng))
        labelled = None
        if (known & (weights > 0)).any():
            labelled = partial(engine.learn_labels, model, corpus, start())
        learns = bool((~known & (weights > 0) & (series.lengths > 0)).any())
        n_starts = 1 if labelled or not isinstance(self.init, str) else None
        task = engine.Task(model, corpus, start, estep, labelled, learns, n_starts=n_starts)
        trained = engine.train(self, task)
        dead = np.flatnonzero(corpus.sum(_expected_rows, model, trained.params) < _ALIVE)
        if learns and len(dead) and isinstance(self.init, str):
            warn(
                f"{', '.join(map(str, np.array(states.names, object)[dead]))} had no rows left after training and got "
                "a new start, from the rows that the other states explain worst; ask for fewer states if they stay so"
            )
            with_dead = partial(revived, model, series, trained.params, dead)
            again = engine.train(self, replace(task, start=with_dead, labelled=None, n_starts=1, stage="revived"))
            trained = again if again.history[-1].objective > trained.history[-1].objective else trained
        self._take(trained.params, emission, states.names, series.names, categories)
        engine.record(
            self, trained, len(series.lengths), {"states": model.n_states, "rows": len(series.x)}, unit="sequences"
        )
        return self

    def predict(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """The state of every row, as ``decode`` says.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows,), or a list of such arrays if X is a list

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, new = self._encoded(X, lengths, groups)
        found = new.structures(_most_probable, "sequences")
        return series.restored(np.array(self.states_, object if _mixed(self.states_) else None)[found])

    def predict_proba(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Posterior probabilities of the states of every row, given the whole sequence.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_states), or a list of such arrays if X is a list

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, new = self._encoded(X, lengths, groups)
        return series.restored(self._posteriors(new))

    def score_samples(self, X: Any, y: Any = None, lengths: Any = None, groups: Any = None) -> Floats:
        """The log-likelihood of every sequence; with labels, of rows and labels.

        Parameters
        ----------
        X, y, lengths, groups
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_sequences,), nats

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        _, new = self._encoded(X, lengths, groups, y)
        return new.values(engine.log_likelihoods, new.model, self.params_)

    def score(
        self, X: Any, y: Any = None, lengths: Any = None, groups: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log-likelihood per row; with labels, of rows and labels.

        Parameters
        ----------
        X, y, lengths, groups, sample_weight
            As in `fit`.

        Returns
        -------
        float, nats

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, new = self._encoded(X, lengths, groups, y)
        values = new.values(engine.log_likelihoods, new.model, self.params_)
        return engine.mean_log_likelihood("X", values, series.lengths, sample_weight)

    def filter(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Probabilities of the states of every row given it and the rows before.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_states), or a list of such arrays if X is a list

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, new = self._encoded(X, lengths, groups)
        scores = new.model.emission.scores(self.params_.emission, series.x)
        return series.restored(filter_rows(self.online_filter(), scores, series.lengths)[1])

    def online_filter(self) -> OnlineFilter:
        """A filter that takes in row after row of a new series; it pickles with its state.

        Returns
        -------
        OnlineFilter

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted = as_fitted(self)
        sojourns, parameters = fitted._sojourns(), self.params_.durations
        hazards = np.ones((2, 1, len(self.states_)))
        if sojourns is not None and parameters is not None:
            hazards = sojourns.hazards(parameters)
        return OnlineFilter(self.startprob_, self.transmat_, hazards, fitted.emission_, self.params_.emission)

    def forecast(
        self, X: Any, h: int = 1, lengths: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Forecast | list[Forecast]:
        """Distributions of the rows that follow X, or each of its sequences.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.
        h : int
            Number of rows.

        Returns
        -------
        Forecast, or a list of them where there are several sequences

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, new = self._encoded(X, lengths, groups)
        online, forecasts = self.online_filter(), []
        scores = new.model.emission.scores(self.params_.emission, series.x)
        for piece in np.split(scores, np.cumsum(series.lengths)[:-1]):
            filter_rows(online, piece, np.array([len(piece)]))
            forecasts.append(online.forecast(h))
        return forecasts if series.listed or len(forecasts) > 1 else forecasts[0]

    def impute(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """The rows of X with missing cells filled by their expected values given all others of the sequence.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_columns), or a list of such arrays if X is a list

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, new = self._encoded(X, lengths, groups)
        return series.restored(self.emission_.impute(self.params_.emission, series.x, self._posteriors(new)))

    def pseudo_residuals(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> Any:
        """Normal quantiles of one-step forecasts [ZucchiniMacDonald2009]; standard normal where the model is right.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_columns), or a list of such arrays if X is a list
            NaN where a cell is missing.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, _ = self._encoded(X, lengths, groups)
        return series.restored(normal_residuals(self.online_filter(), series.x, series.lengths))

    def sample(
        self, n_rows: int = 1, random_state: int | np.random.Generator | None = None
    ) -> tuple[Floats, NDArray[Any]]:
        """Draw a sequence.

        Parameters
        ----------
        n_rows : int
        random_state : int or numpy.random.Generator, optional
            By default that of the model.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_columns)
        states : ndarray of shape (n_rows,)
            Names of their states.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted, rng = as_fitted(self), as_generator(self.random_state if random_state is None else random_state)
        states, online = np.empty(as_count(n_rows, "n_rows", minimum=1), np.int64), self.online_filter()
        sure = np.where(np.eye(len(self.states_)), 0.0, -np.inf)
        for row in range(n_rows):
            table = online.forecast(1).states[0]
            states[row] = rng.choice(len(table), p=table / table.sum())
            online._move(sure[states[row]])
        rows = fitted.emission_.sample(self.params_.emission, states, rng)
        return rows, np.array(self.states_, object if _mixed(self.states_) else None)[states]

    def aic(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> float:
        """Akaike's information criterion, in nats times two: the lower, the better.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        float

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        return 2.0 * (self._n_free() - float(self.score_samples(X, None, lengths, groups).sum()))

    def bic(self, X: Any, lengths: ArrayLike | None = None, groups: ArrayLike | None = None) -> float:
        """Bayes' information criterion, with rows as observations: the lower, the better.

        Parameters
        ----------
        X, lengths, groups
            As in `fit`.

        Returns
        -------
        float

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        series, _ = self._encoded(X, lengths, groups)
        return np.log(len(series.x)) * self._n_free() - 2.0 * float(self.score_samples(X, None, lengths, groups).sum())

    def _n_free(self) -> int:
        """Number of free parameters."""
        tables = as_fitted(self)._tables(len(self.states_)).rows.values()
        durations = 0 if self.params_.durations is None else self.params_.durations.size
        return (
            self.emission_.n_free(self.params_.emission)
            + durations
            + sum(int(np.maximum(table.row_sizes - 1, 0).sum()) for table in tables)
        )

    def _posteriors(self, new: engine.NewSentences) -> Floats:
        corpus = engine.make_corpus(self, new.shards)
        return in_corpus_order(new.shards, engine.posteriors(self, new.model, self.params_, corpus), new.lengths)

    def _encoded(self, X: Any, lengths: Any, groups: Any, y: Any = None) -> tuple[Series, engine.NewSentences]:
        fitted = as_fitted(self)
        series = read_series(fitted, X, lengths, groups, fitted.categories_, fitted.column_names_)
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
        model = SeriesModel(tag_names(fitted.states_), fitted.emission_, tables, edges, fitted._sojourns())
        shards = build_shards(series.x, series.lengths, model.n_states, evidence=evidence, columns=series.columns)
        return series, engine.NewSentences(self, model, self.params_, shards, series.lengths)

    def _has_edges(self) -> bool:
        return any({"previous", "change"} & set(used_columns(one)) for one in flatten(self.constraints))

    def _sojourns(self) -> Sojourns | None:
        if self.durations is None:
            return None
        if self._has_edges():
            raise InvalidInputError(
                "constraints must not name previous or change where states have durations; leave out durations, or "
                "bound how long states last by longest"
            )
        family = _DURATIONS[self.durations]() if isinstance(self.durations, str) else self.durations
        ends = {"left": self.censored in ("left", "both"), "right": self.censored in ("right", "both")}
        return Sojourns(family, self.longest, **ends)

    def _tables(self, k: int) -> Tables:
        rules = {"initial": ("startprob", (k,)), "transition": ("transmat", (k, k))}
        tables, priors = {}, {}
        for table, (name, shape) in rules.items():
            kept = (self.fixed or {}).get(name)
            if table == "transition" and self.durations is not None and k > 1:
                kept = np.full(shape, np.nan) if kept is None else np.array(kept, np.float64)
                np.fill_diagonal(kept, 0.0)
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


def _expected_rows(shard: SeriesShard, model: SeriesModel, params: SeriesParameters) -> Floats:
    """Rows of a shard that every state is expected to have, shape (n_states,)."""
    return engine.free_posteriors(shard, model, params, engine.table).sum(axis=0)


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
    [1, 1, 1, 1, 0, 0, 0, 1, 1]
    """

    _codec = codec_of("HMM")

    def _emissions(self) -> Any:
        return self.emissions
