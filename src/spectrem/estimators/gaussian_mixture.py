"""GaussianMixture: clustering and density estimation by mixtures of Gaussians, under constraints if wanted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_sample_weight, check_same_index
from spectrem.constraints import check_columns
from spectrem.constraints.constraint import AnyConstraint
from spectrem.corpus import Corpus, Local
from spectrem.estimators.conventions import not_fitted
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.mixture_bounds import BoundsLike, as_bounds, count_free, warn_outside
from spectrem.estimators.mixture_estep import FINE, ROUGH, ChunkModel, feasible_labels, make_table, rows_of
from spectrem.estimators.mixture_report import report_fit, report_rows
from spectrem.estimators.mixture_settings import as_columns, as_labels, check_settings
from spectrem.estimators.mixture_start import start_parameters
from spectrem.estimators.mixture_state import missing, without_rows
from spectrem.estimators.mixture_training import train
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project
from spectrem.kernels import responsibilities
from spectrem.learning import EStep, FitStatus, Schedule
from spectrem.learning.estep import multipliers_of
from spectrem.models.mixture import (
    CovarianceType,
    MixtureKernel,
    MixtureModel,
    MixtureParameters,
    MixtureShard,
    build_shards,
    log_joint,
)
from spectrem.reports import ShowsReport

# Data of these types are taken as they are, others made the first; results are of the same type, whatever is computed.
_KEPT = (np.float64, np.float32)


@dataclass(eq=False, repr=False)
class GaussianMixture(ShowsReport, DensityMixin, BaseEstimator):
    """Mixture of Gaussians by EM, with parameters and results as scikit-learn's.

    Beyond those: posteriors hardened or annealed by gamma ([Samdani2012], [SmithEisner2004]), weights of rows, rows
    with known components, and linear constraints on expectations ([Graca2007], [Ganchev2010]). For the same seed
    and settings, starts and iterations are those of scikit-learn (but for tied covariances that start from a row per
    component: here these rows alone count).

    Use when rows of numbers form groups that a mean and a covariance describe.

    Parameters
    ----------
    n_components : int
    covariance_type : {"full", "tied", "diag", "spherical"}
    tol : float
        Change of the objective per row, nats, below which EM stops at each gamma.
    reg_covar : float
        Added to variances, in squared units of the data.
    max_iter : int
        For every gamma. 0 keeps the start.
    n_init : int
        Starts, of which the one with the largest objective at the end is kept.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}
        Under must-links, "kmeans" is the best of ten runs on the means of rows that are tied together.
    weights_init, means_init, precisions_init : array-like, optional
        Where to start, in place of what ``init_params`` finds.
    fixed : sequence of {"weights", "means", "covariances"}
        What stays where it starts.
    weights_bounds, means_bounds : pair (low, high), optional
        Of proportions and means: numbers or arrays that broadcast to shape (n_components,) and (n_components,
        n_features); None, -inf and inf for no bound; equal ends fix an entry. A start outside is moved to the nearest
        point within.
    variances_bounds : pair (low, high), optional
        Of variances, in squared units of the data: numbers or arrays that broadcast to shape (n_components,) for
        "full" and "spherical", (n_components, n_features) for "diag"; numbers for "tied". They bound every eigenvalue
        of full and tied covariances. A low end of 0 or less is no bound.
    random_state : int, RandomState or None
    warm_start : bool
        Go on from the last `fit`.
    verbose, verbose_interval : int
        Print every ``verbose_interval`` iterations, with times above 1.
    gamma : float
        0 or greater, or -inf: 1 is EM, 0 hard EM, between them unified EM, above 1 smoother posteriors.
    schedule : Schedule, optional
        Several gammas in turn, as `spectrem.learning.Anneal` or `Quench`. Annealing from high temperatures needs
        ``fixed=["covariances"]``: covariances that are learned there are alike, and components merge for good.
    constraints : sequence of constraints
        `cluster_size`, `label_proportions`, `must_link`, `cannot_link` and `at_least_one_per` of
        `spectrem.constraints`, or in the language of `spectrem.E` over the columns label (the component), row (number
        of the row in X) and those given as ``columns`` to `fit`. Constraints ``.per("row", ...)`` hold inside each
        row; rows of weight w count w times in all others but links.
    infeasible : {"raise", "skip"}
        What to do about rows that cannot meet a constraint of their own.
    assign : {"probable", "feasible"}
        How ``labels_`` are found under constraints: the most probable component of every row, or the labels of largest
        total log-density that meet the constraints exactly, as whole numbers.
    partial_labels : bool
        Whether ``y`` holds known components. By default it is ignored, as in scikit-learn, so that a mixture may stand
        in a pipeline that has targets.
    n_threads : int, optional
        By default one per processor. Results do not depend on it.
    corpus : callable, optional
        From an iterable of shards to the `spectrem.corpus.Corpus` whose E-steps learning runs, such as ``OnDask`` for
        the cluster that was connected to last. X itself stays in memory. By default, and under constraints, which hold
        rows together, so do the shards. Results do not depend on it.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    means_ : ndarray of shape (n_components, n_features)
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Of shape (n_components, n_features, n_features), (n_features, n_features), (n_components, n_features) or
        (n_components,) for "full", "tied", "diag" and "spherical".
    converged_ : bool
    n_iter_ : int
    lower_bound_, lower_bounds_ : float, list of float
        Objective per row, nats, last and at every iteration: at gamma = 1 without constraints the log-likelihood.
    history_ : list of Record
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

    n_components: int = 1
    _: KW_ONLY
    covariance_type: CovarianceType = "full"
    tol: float = 1e-3
    reg_covar: float = 1e-6
    max_iter: int = 100
    n_init: int = 1
    init_params: Literal["kmeans", "k-means++", "random", "random_from_data"] = "kmeans"
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    precisions_init: ArrayLike | None = None
    fixed: Sequence[Literal["weights", "means", "covariances"]] = ()
    weights_bounds: BoundsLike = None
    means_bounds: BoundsLike = None
    variances_bounds: BoundsLike = None
    random_state: int | np.random.RandomState | None = None
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10
    gamma: float = 1.0
    schedule: Schedule | None = None
    constraints: Sequence[AnyConstraint] = ()
    infeasible: Literal["raise", "skip"] = "raise"
    assign: Literal["probable", "feasible"] = "probable"
    partial_labels: bool = False
    n_threads: int | None = None
    corpus: Callable[[Iterable[MixtureShard]], Corpus] | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, columns: Any = None
    ) -> GaussianMixture:
        """Learn the parameters.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Where it is float32, so are means, posteriors and the like; float64 is what they are computed in.
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
            If a parameter or the input breaks its rule, or a covariance is singular.
        InfeasibleConstraintError
            If the constraints cannot be met.
        """
        check_settings(self)
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        x = validate_data(self, X, dtype=_KEPT, order="C", ensure_min_samples=2)
        x, dtype = np.asarray(x, np.float64), x.dtype
        labels = self._known(y, len(x))
        weights = as_sample_weight(sample_weight, len(x), "row of X")
        rows = len(x) if weights is None else int((weights > 0).sum())
        if rows == 0:
            raise InvalidInputError(
                "sample_weight must be positive for some row, got zeros only; leave it out for ones"
            )
        if rows < self.n_components:
            raise InvalidInputError(
                f"X must have at least n_components = {self.n_components} rows of positive weight, got "
                f"n_samples = {rows}; lower n_components"
            )
        given = as_columns(columns, len(x))
        check_columns(self.constraints, given)
        model, shards = self._model(x.shape[1]), build_shards(x, weights, labels, given)
        rng = check_random_state(self.random_state)
        table = None
        if self.constraints:
            table = make_table(model, self.constraints, shards, self.n_components, self.n_threads)
        chunks = None if table is None else table.chunks
        starts: list[Callable[[], MixtureParameters]]
        starts = [partial(start_parameters, self, model, shards, x, weights, labels, rng, chunks)] * self.n_init
        if self.warm_start and "weights_" in vars(self):
            starts = [partial(self._last, model, x.shape[1])]
        else:
            warn_outside(self, model.bounds, x.shape[1])
        total = float(sum(shard.weights.sum() for shard in shards))
        if table is None:
            corpus, estep = make_corpus(self, shards), EStep(kernel=MixtureKernel(model))
            trained = train(self, model, corpus, estep, starts, total)
        else:
            estep = EStep(rows=table.rows, warm_start=True, tol=ROUGH, infeasible=self.infeasible)
            trained = train(self, ChunkModel(model), Local([table]), estep, starts, total)
        self._take(trained.params, dtype)
        self.converged_, self.n_iter_ = trained.status == FitStatus.CONVERGED, len(trained.history)
        self.history_ = list(trained.history)
        self.lower_bounds_ = [record.objective / total for record in trained.history]
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf
        if table is None:
            self.labels_ = log_joint(self._params(), x).argmax(axis=1)
            if labels is not None:
                self.labels_ = np.where(labels >= 0, labels, self.labels_)
            self.report_ = report_fit(self, trained, len(x))
            return self
        gamma = self.history_[-1].gamma if self.history_ else self.gamma
        projection = project(
            table.structure, ChunkModel(model).scores(trained.params, table), table.rows, gamma,
            start=next(iter(trained.posed.shards.collect(multipliers_of))), weights=table.chunks.weights,
            tol=FINE, infeasible=self.infeasible,
        )  # fmt: skip
        posteriors = rows_of(table, projection.marginals)
        self.posteriors_ = posteriors.astype(dtype, copy=False)
        self.labels_ = posteriors.argmax(axis=1)
        if self.assign == "feasible":
            self.labels_ = feasible_labels(ChunkModel(model), trained.params, table, projection.skipped)
        constraints = report_rows(model, trained.params, table, gamma, projection)
        self.report_ = report_fit(self, trained, len(x), constraints, table.must_links)
        return self

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, columns: Any = None
    ) -> Ints:
        """Learn the parameters and return ``labels_``; arguments as of `fit`."""
        return self.fit(X, y, sample_weight, columns).labels_

    def predict(self, X: ArrayLike) -> Ints:
        """Most probable component of every row, shape (n_rows,); constraints have no part in it."""
        return self._joint(X)[0].argmax(axis=1)

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Posterior probabilities of components, shape (n_rows, n_components)."""
        return self._posteriors(X)[0]

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Log-density of every row, shape (n_rows,), nats."""
        return self._posteriors(X)[1]

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean log-density of the rows, nats."""
        return float(self.score_samples(X).mean())

    def aic(self, X: ArrayLike) -> float:
        """Akaike's criterion of the mixture on X; lower is better."""
        return -2 * float(self.score_samples(X).sum()) + 2 * self._n_parameters()

    def bic(self, X: ArrayLike) -> float:
        """Bayesian information criterion of the mixture on X; lower is better."""
        values = self.score_samples(X)
        return -2 * float(values.sum()) + self._n_parameters() * float(np.log(len(values)))

    def sample(self, n_samples: int = 1) -> tuple[Floats, Ints]:
        """Draw rows and their components, ordered by component; the same for the same seed as scikit-learn's.

        Raises
        ------
        InvalidInputError
            If ``n_samples`` is below 1.
        """
        self._check_fitted()
        if n_samples < 1:
            raise InvalidInputError(f"n_samples must be at least 1, got {n_samples}")
        rng = check_random_state(self.random_state)
        counts = rng.multinomial(n_samples, self.weights_)
        drawn = []
        for k, count in enumerate(counts.tolist()):
            if self.covariance_type in ("full", "tied"):
                covariance = self.covariances_[k] if self.covariance_type == "full" else self.covariances_
                drawn.append(rng.multivariate_normal(self.means_[k], covariance, count))
            else:
                noise = rng.standard_normal(size=(count, self.n_features_in_))
                drawn.append(self.means_[k] + noise * np.sqrt(self.covariances_[k]))
        return np.vstack(drawn), np.repeat(np.arange(self.n_components), counts)

    def _known(self, y: ArrayLike | None, n_rows: int) -> Ints | None:
        if y is None:
            return None
        if self.partial_labels:
            return as_labels(y, n_rows, self.n_components)
        given = np.asarray(y)
        if given.dtype.kind == "i" and given.size and given.min() == -1 and 0 <= given.max() < self.n_components:
            warnings.warn("y looks like known components and is ignored: set partial_labels=True", stacklevel=3)
        return None

    def _model(self, n_features: int) -> MixtureModel:
        return MixtureModel(self.n_components, self.covariance_type, self.reg_covar, as_bounds(self, n_features))

    def _params(self) -> MixtureParameters:
        blocks = (self.weights_, self.means_, self.covariances_, self.precisions_cholesky_)
        return MixtureParameters(self.covariance_type, *(np.asarray(block, np.float64) for block in blocks))

    def _last(self, model: MixtureModel, n_features: int) -> MixtureParameters:
        """Parameters to go on from."""
        k, d = self.n_components, n_features
        shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[self.covariance_type]
        if self.means_.shape != (k, d) or self.covariances_.shape != shape:
            raise InvalidInputError(
                f"warm_start must go on with means of shape {(k, d)} and covariances of shape {shape}, got "
                f"{self.means_.shape} and {self.covariances_.shape} from the last fit; set warm_start=False"
            )
        return self._params() if model.bounds is None else model.bounds.project(self._params())

    def _take(self, params: MixtureParameters, dtype: Any) -> None:
        for name in ("weights", "means", "covariances", "precisions", "precisions_cholesky"):
            setattr(self, f"{name}_", getattr(params, name).astype(dtype, copy=False))

    def _joint(self, X: ArrayLike) -> tuple[Floats, Any]:
        """Log joint densities, and the dtype of what is told of them."""
        self._check_fitted()
        x = validate_data(self, X, dtype=_KEPT, order="C", reset=False)
        joint = log_joint(self._params(), np.require(x, np.float64, requirements=["C", "W"]))
        return joint, np.result_type(x, self.means_)

    def _posteriors(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        joint, dtype = self._joint(X)
        values = np.empty(len(joint))
        responsibilities.soft_pass(joint, 1.0, np.ones(len(joint)), values)
        return joint.astype(dtype, copy=False), values.astype(dtype, copy=False)

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        return count_free(as_bounds(self, d), k, d, self.covariance_type)

    def __getstate__(self) -> dict[str, Any]:
        return without_rows(super().__getstate__())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name)

    def _check_fitted(self) -> None:
        if "weights_" not in vars(self):
            raise not_fitted(self)
