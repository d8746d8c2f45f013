"""GaussianMixture: clustering and density estimation by mixtures of Gaussians, under constraints if wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.mixture import GaussianMixture as Peer
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._validate import as_sample_weight
from spectrem.corpus import Local
from spectrem.data.frames import Columns
from spectrem.estimators import engine
from spectrem.estimators.conventions import as_fitted, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.mixture.input import (
    FINITE,
    KEPT,
    as_bounds,
    count_free,
    last_parameters,
    random_state_of,
    read_row_columns,
    read_rows,
    start_parameters,
)
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.estimators.storage import Codec, Member, Saved, finite, probabilities, read_features, write_features
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import weigh_rows
from spectrem.kernels.gaussian import soft_pass
from spectrem.learning import EStep, Record, Stopping, posterior
from spectrem.learning.estep import Posterior
from spectrem.models.mixture import (
    MixtureModel,
    MixtureParameters,
    build_shards,
    covariance_shape,
    impute,
    log_joint,
)
from spectrem.models.mixture.constrained import ConstrainedMixture, ConstrainedRows, constrain
from spectrem.reports import ConstraintReport, FitReport, ShowsReport, report_rows, report_training
from spectrem.reports.components import Components
from spectrem.reports.constraints import price_copies
from spectrem.reports.posed import LONGEST
from spectrem.structures import Categorical

_ARRAYS = ("weights", "means", "covariances", "precisions", "precisions_cholesky")
"""Attributes that are the mixture, without the underscore at their end."""
_ROWWISE = ("labels_", "posteriors_")
"""Attributes with a value for every training row, which pickles leave out."""
ROUGH, FINE = 1e-4, 1e-6
"""Tolerances of constraints, relative to the size of a row: while parameters still move, and at the end."""
_SUM_TOLERANCE = 1e-3  # of proportions in single precision


def _write(mixture: GaussianMixture) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {"dtype": str(mixture.means_.dtype), "lower_bounds": mixture.lower_bounds_, **write_features(mixture)}
    return values, {name: np.asarray(getattr(mixture, f"{name}_"), np.float64) for name in _ARRAYS}


def _read(mixture: GaussianMixture, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    dtype = {"float32": np.float32, "float64": np.float64}[values["dtype"]]
    k, d = mixture.n_components, arrays["means"].shape[-1]
    as_bounds(mixture, d)  # checks them
    covariances = covariance_shape(mixture.covariance_type, k, d)
    shapes = dict(zip(_ARRAYS, ((k,), (k, d), covariances, covariances, covariances), strict=True))
    _CODEC.check_arrays(arrays, shapes)
    if not abs(arrays["weights"].sum() - 1) <= _SUM_TOLERANCE:
        raise DamageError(f"weights must sum to 1, got {arrays['weights'].sum():g}")
    factors = arrays["precisions_cholesky"]
    scales = np.diagonal(factors, axis1=-2, axis2=-1) if covariances[-2:] == (d, d) else factors
    if not (scales > 0).all():
        raise DamageError(f"precisions_cholesky must have a positive diagonal, got {scales.min():g}")
    for name in _ARRAYS:
        setattr(mixture, f"{name}_", arrays[name].astype(dtype))
    read_features(mixture, values, d)
    mixture.lower_bounds_ = [float(value) for value in values["lower_bounds"]]
    if len(mixture.lower_bounds_) != len(values["history"]):
        raise DamageError("numbers of iterations or of features do not fit")
    mixture.lower_bound_ = mixture.lower_bounds_[-1] if mixture.lower_bounds_ else -np.inf


_CODEC = Codec(
    kind="GaussianMixture",
    layout=1,
    members={**dict.fromkeys(_ARRAYS, Member("f8", 3, finite)), "weights": Member("f8", 1, probabilities)},
    write=_write,
    read=_read,
    numbers=(),
)


@documented
@dataclass(eq=False, repr=False)
class GaussianMixture(Saved, ShowsReport, GaussianMixtureParameters, DensityMixin, BaseEstimator):
    """Mixture of Gaussians by EM, with parameters and results as scikit-learn's.

    Beyond those: posteriors hardened or annealed by gamma ([Samdani2012], [SmithEisner2004]), weights of rows, rows
    with known components, and linear constraints on expectations ([Graca2007], [Ganchev2010]). For the same seed
    and settings, starts and iterations are those of scikit-learn (but for tied covariances that start from a row per
    component: here these rows alone count).

    NaN in X is a missing value, in training and afterwards: the likelihood is that of the observed values, with the
    others integrated out exactly ([GhahramaniJordan1994]). Whether a value is missing must not depend on the value.

    Use when rows of numbers form groups that a mean and a covariance describe.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    means_ : ndarray of shape (n_components, n_features)
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Arrays of shape (n_components, n_features, n_features), (n_features, n_features), (n_components, n_features) or
        (n_components,) for "full", "tied", "diag" and "spherical".
    converged_ : bool
        Whether the objective's gain fell below ``tol`` at every gamma.
    n_iter_ : int
    history_ : list of Record
        One per iteration.
    objective_ : float
        The objective of the last iteration, nats: at gamma = 1 without constraints the log-likelihood of all rows; -inf
        if there was no iteration.
    lower_bound_, lower_bounds_ : float, list of float
        The objective per row, nats, last and at every iteration.
    labels_ : ndarray of shape (n_rows,)
        Components of the training rows as ``assign`` says, under constraints and labels. Pickles and copies leave out
        what grows with the rows: this, ``posteriors_`` and constraints of more than 1,000 rows in ``report_``.
    posteriors_ : ndarray of shape (n_rows, n_components)
        With constraints only: of the training rows, under them.
    report_ : FitReport
        The course of training and, of every constraint, expected values before and after, violations and prices. A
        notebook shows it below the mixture; ``print(mixture.report_.summary())`` elsewhere.
    n_features_in_ : int

    Examples
    --------
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> mixture = GaussianMixture(n_components=2, random_state=0, n_threads=1).fit(X)
    >>> mixture.means_[mixture.predict([[0, 0], [12, 3]])].round(6).tolist()
    [[1.0, 2.0], [10.0, 2.0]]

    Clusters of at least three rows, exactly, and two rows that belong together:

    >>> from spectrem.constraints import cluster_size, must_link
    >>> known = [cluster_size(min=3), must_link([[0, 3]])]
    >>> mixture = GaussianMixture(2, constraints=known, assign="feasible", random_state=0, n_threads=1).fit(X)
    >>> np.bincount(mixture.labels_).tolist(), bool(mixture.labels_[0] == mixture.labels_[3])
    ([3, 3], True)

    Two groups, and a component for noise that is spread out widely around a known point:

    >>> rng = np.random.default_rng(0)
    >>> centres = np.repeat([[-4, 0], [4, 0]], 80, axis=0)
    >>> X = np.concatenate([rng.normal(centres, 1), rng.uniform(-30, 30, (20, 2))])
    >>> mixture = GaussianMixture(
    ...     3,
    ...     means_bounds=([[-np.inf] * 2, [-np.inf] * 2, [0, 0]], [[np.inf] * 2, [np.inf] * 2, [0, 0]]),
    ...     variances_bounds=([0, 0, 300], [9, 9, 300]),
    ...     weights_bounds=(0.05, None),
    ...     n_init=5,
    ...     random_state=0,
    ...     n_threads=1,
    ... ).fit(X)
    >>> mixture.means_[2].tolist(), mixture.covariances_[2].diagonal().round(6).tolist()
    ([0.0, 0.0], [300.0, 300.0])
    >>> mixture.means_[mixture.predict([[-4, 0], [4, 0], [20, -10]])].round(1).tolist()
    [[-4.1, 0.1], [3.8, -0.0], [0.0, 0.0]]
    """

    _codec = _CODEC

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, columns: Columns = None
    ) -> GaussianMixture:
        """Learn the parameters.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Where it is float32, so are means, posteriors and the like; float64 is what they are computed in. Missing
            values are NaN.
        y : array-like of shape (n_rows,), optional
            With ``partial_labels``: the component of each row, -1 where unknown.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0; a row of weight w counts as w rows.
        columns : mapping of name -> array-like of shape (n_rows,), or a frame, optional
            For constraints. In cross-validation a frame follows the rows, as in ``cross_val_score(mixture, X,
            params={"columns": frame})``; a mapping does not.

        Returns
        -------
        GaussianMixture
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule, a column has no value, or a covariance is singular.
        InfeasibleConstraintError
            If the constraints cannot be met.
        """
        check_parameters(self)
        rows = read_rows(self, X, y, sample_weight, columns)
        n_features = rows.x.shape[1]
        model = MixtureModel(self.n_components, self.covariance_type, self.reg_covar, as_bounds(self, n_features))
        shards = build_shards(rows.x, rows.weights, rows.labels)
        total = float(sum(shard.weights.sum() for shard in shards))
        corpus, constrained = engine.make_corpus(self, shards), None
        if as_sequence(self.constraints):
            weights = np.concatenate([shard.weights for shard in shards])
            constrained = constrain(self.constraints, self.n_components, rows.columns, weights, corpus)
        goes_on = self.warm_start and "weights_" in vars(self)
        if goes_on:
            start: Callable[[], MixtureParameters] = partial(last_parameters, self._params(), model, n_features)
        else:
            rng, chunks = random_state_of(self.random_state), None if constrained is None else constrained.chunks
            start = partial(start_parameters, self, model, shards, rows, rng, chunks)
        n_starts = 1 if goes_on or not self.max_iter else self.n_init
        start, on_iteration = _printed(self, start, n_starts, total)
        before, last = None, vars(self).get("history_")
        if self.warm_start and self.schedule is None and last:
            before = replace(last[-1], objective=vars(self)["lower_bound_"] * total)
        estep = EStep(kernel=model)
        if constrained is not None:
            estep = EStep(rows=constrained.rows, warm_start=True, tol=ROUGH, infeasible=self.infeasible)
        task = engine.Task(
            model if constrained is None else ConstrainedMixture(model),
            corpus if constrained is None else Local([constrained]),
            start,
            estep,
            stopping=_Stopping(self.max_iter, self.tol if self.max_iter else 0.0, total, before),
            all_known=rows.labels is not None and bool((rows.labels >= 0).all()),
            n_starts=n_starts,
            on_iteration=on_iteration,
        )
        trained = engine.train(self, task)
        take_course(self, trained.history, trained.status)
        self.lower_bounds_ = [record.objective / total for record in trained.history]
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf
        for name in _ARRAYS:
            setattr(self, f"{name}_", getattr(trained.params, name).astype(rows.dtype, copy=False))
        constraints: tuple[ConstraintReport, ...] = ()
        if constrained is None:
            self.labels_ = log_joint(self._params(), rows.x).argmax(axis=1)
            if rows.labels is not None:
                self.labels_ = np.where(rows.labels >= 0, rows.labels, self.labels_)
        else:
            posteriors, self.labels_, constraints = _project_rows(trained, constrained, self.assign)
            self.posteriors_ = posteriors.astype(rows.dtype, copy=False)
        features = vars(self).get("feature_names_in_", [f"feature {j}" for j in range(n_features)])
        sizes = np.bincount(self.labels_, minlength=self.n_components)
        links = () if constrained is None else constrained.must_links
        self.report_ = report_training(
            self,
            len(rows.x),
            {"components": self.n_components, "covariance": self.covariance_type},
            constraints,
            notes=tuple(f"{link.name}: {len(link.pairs)} pairs, held exactly" for link in links),
            sections=(Components(trained.params, sizes, [str(name) for name in features]),),
        )
        return self

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, columns: Columns = None
    ) -> Ints:
        """Learn the parameters and label the rows.

        Parameters
        ----------
        X, y, sample_weight, columns
            The arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_rows,), int
            ``labels_``, which meet the constraints as ``assign`` says.
        """
        return self.fit(X, y, sample_weight, columns).labels_

    def predict(self, X: ArrayLike, columns: Columns = None) -> Ints:
        """Find the most probable component of every row; constraints and known components have no part in it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        columns : mapping or frame, optional
            As in `fit`; they change nothing, as constraints have no part in predictions.

        Returns
        -------
        ndarray of shape (n_rows,), int
            From 0 to ``n_components - 1``.

        Raises
        ------
        NotFittedError
            Before `fit`.

        See Also
        --------
        spectrem.project : puts constraints on what `predict_proba` gives.
        """
        return self._joint(X, columns)[0].argmax(axis=1)

    def predict_proba(self, X: ArrayLike, columns: Columns = None) -> NDArray[Any]:
        """Posterior probabilities of the components of every row, at gamma = 1 and without constraints.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        columns : mapping or frame, optional
            As in `fit`; they change nothing, as constraints have no part in predictions.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Rows sum to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        return self._posteriors(X, columns)[0]

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Log-density of every row under the mixture.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            In nats.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        return self._posteriors(X)[1]

    def impute(self, X: ArrayLike) -> NDArray[Any]:
        """Fill in missing values with what the mixture expects of them, given the other values of their row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Missing values are NaN.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Values that are not missing stay as they are.

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> X = np.array([[0, 1], [1, 3], [2, 5], [np.nan, 7], [4, 9], [5, np.nan]])
        >>> GaussianMixture(tol=1e-9, n_threads=1).fit(X).impute(X)[3:].round(3).tolist()
        [[3.0, 7.0], [4.0, 9.0], [5.0, 11.0]]
        """
        posteriors, x = np.asarray(self.predict_proba(X), np.float64), self._rows(X)
        return impute(self._params(), np.asarray(x, np.float64), posteriors).astype(x.dtype, copy=False)

    def score(
        self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None, columns: Columns = None
    ) -> float:
        """Mean of `score_samples` over the rows of X, by their weights if they are given, in nats.

        Constraints have no part in it, nor have ``columns``.
        """
        values = self.score_samples(X)
        return float(np.average(values, weights=as_sample_weight(sample_weight, len(values), "row of X")))

    def aic(self, X: ArrayLike) -> float:
        """Akaike's information criterion of the mixture on X; lower is better.

        Parameters that are fixed, whether by ``fixed`` or by bounds, are not counted.
        """
        return -2 * float(self.score_samples(X).sum()) + 2 * self._n_parameters()

    def bic(self, X: ArrayLike) -> float:
        """Bayesian information criterion of the mixture on X; lower is better. Parameters are counted as in `aic`."""
        values = self.score_samples(X)
        return -2 * float(values.sum()) + self._n_parameters() * float(np.log(len(values)))

    def sample(self, n_samples: int = 1) -> tuple[Floats, Ints]:
        """Draw rows from the mixture; for the same ``random_state`` they are those of scikit-learn.

        Parameters
        ----------
        n_samples : int
            At least 1.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Ordered by component.
        components : ndarray of shape (n_samples,), int

        Raises
        ------
        InvalidInputError
            If ``n_samples`` is below 1.
        NotFittedError
            Before `fit`.
        """
        covariance_type = as_fitted(self).covariance_type
        if n_samples < 1:
            raise InvalidInputError(f"n_samples must be at least 1, got {n_samples}")
        peer = Peer(covariance_type=covariance_type, random_state=random_state_of(self.random_state))
        peer.weights_, peer.means_, peer.covariances_ = self.weights_, self.means_, self.covariances_
        return peer.sample(n_samples)

    def _params(self) -> MixtureParameters:
        blocks = (self.weights_, self.means_, self.covariances_, self.precisions_cholesky_)
        return MixtureParameters(self.covariance_type, *(np.asarray(block, np.float64) for block in blocks))

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        """Rows in the dtype in which they came; computing wants them in float64."""
        rows: NDArray[Any] = validate_data(self, X, dtype=KEPT, order="C", reset=False, ensure_all_finite=FINITE)
        return rows

    def _joint(self, X: ArrayLike, columns: Columns = None) -> tuple[Floats, np.dtype[np.floating]]:
        """Log joint densities, and the dtype of the results that are made of them."""
        params = as_fitted(self)._params()
        x = self._rows(X)
        read_row_columns(columns, len(x))  # checks them
        joint = log_joint(params, np.require(x, np.float64, requirements=["C", "W"]))
        return joint, np.result_type(x, self.means_)

    def _posteriors(self, X: ArrayLike, columns: Columns = None) -> tuple[NDArray[Any], NDArray[Any]]:
        joint, dtype = self._joint(X, columns)
        values = np.empty(len(joint))
        soft_pass(joint, 1.0, np.ones(len(joint)), values)
        return joint.astype(dtype, copy=False), values.astype(dtype, copy=False)

    def _n_parameters(self) -> int:
        fitted, (k, d) = as_fitted(self), self.means_.shape
        return count_free(as_bounds(fitted, d), k, d, fitted.covariance_type)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in super().__getstate__().items() if name not in _ROWWISE}
        if "report_" in state:
            state["report_"] = _without_long(state["report_"])
        return state

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _ROWWISE and "weights_" in vars(self):
                raise AttributeError(
                    f"{name} has a value for every training row: pickles and copies leave it out, and posteriors_ is "
                    "there under constraints only; call predict(X) or predict_proba(X)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _printed(
    mixture: GaussianMixture, start: Callable[[], MixtureParameters], n_starts: int, total: float
) -> tuple[Callable[[], MixtureParameters], Callable[[Record], None] | None]:
    """A start and a callback that print the course of training where the mixture is ``verbose``."""
    if not mixture.verbose or not mixture.max_iter:
        return start, mixture.on_iteration
    starts, iterations = count(1), count(1)

    def announced_start() -> MixtureParameters:
        nonlocal iterations
        iterations = count(1)
        print(f"start {next(starts)} of {n_starts}")
        return start()

    def announce(record: Record) -> None:
        if (iteration := next(iterations)) % mixture.verbose_interval == 0:
            seconds = f"  {record.seconds:.3f} s" if mixture.verbose > 1 else ""
            print(f"  iteration {iteration}  {record.objective / total:.5f} nats per row{seconds}")
        if mixture.on_iteration is not None:
            mixture.on_iteration(record)

    return announced_start, announce


@dataclass(frozen=True)
class _Stopping(Stopping):
    """A rule for training in several fits: the first iteration is held against the last one of the fit before."""

    before: Record | None = None

    def converged(self, stage: list[Record]) -> bool:
        if len(stage) == 1 and self.before is not None and self.before.gamma == stage[0].gamma:
            stage = [self.before, *stage]
        return super().converged(stage)


def _project_rows(
    trained: engine.Trained, constrained: ConstrainedRows, assigned: str
) -> tuple[Floats, Ints, tuple[ConstraintReport, ...]]:
    """Posteriors of the rows under the constraints, at the parameters learned, labels, and reports.

    Labels are the most probable ones or, if ``assigned`` is "feasible", the best that meet the constraints.
    """
    assert trained.shards is not None
    assert trained.step is not None
    step = trained.step._replace(estep=replace(trained.step.estep, tol=FINE))
    projected: Posterior = next(trained.shards.collect(posterior, step))
    posteriors = constrained.spread(projected.marginals)
    labels = posteriors.argmax(axis=1)
    if assigned == "feasible":
        skipped = np.zeros(0, np.int64) if projected.left_out is None else projected.left_out
        labels = step.model.feasible_labels(step.params, constrained, skipped)
    prices = np.zeros(0) if projected.multipliers is None else projected.multipliers
    # Rows of data, as the user knows them, and not the chunks of them that were projected.
    structure = Categorical(np.full(len(posteriors), posteriors.shape[1]))
    _, free = structure.smoothed_max(step.model.row_scores(step.params, constrained), max(step.gamma, 0.0))
    weighted = weigh_rows(structure, constrained.data_rows, constrained.weights)
    prices = price_copies(constrained.rows, constrained.chunks.weights, prices)
    reports = report_rows(weighted, prices, weighted.matrix @ free.unary, weighted.matrix @ posteriors.ravel())
    return posteriors, labels, reports


def _without_long(report: FitReport) -> FitReport:
    """A report in which notes stand for constraints of more than `LONGEST` rows, such as those inside every row."""
    notes = tuple(
        f"{long.name}: {len(long.bound)} rows, violation {long.worst_before:.3g} -> {long.worst_after:.3g}; left out "
        "of the pickle"
        for long in report.constraints
        if len(long.bound) > LONGEST
    )
    kept = tuple(short for short in report.constraints if len(short.bound) <= LONGEST)
    return replace(report, constraints=kept, notes=(*report.notes, *notes))
