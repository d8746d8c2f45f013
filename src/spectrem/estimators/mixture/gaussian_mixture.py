"""GaussianMixture: clustering and density estimation by mixtures of Gaussians, under constraints if wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Local
from spectrem.estimators.conventions import as_fitted, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.mixture import file
from spectrem.estimators.mixture.bounds import as_bounds, count_free, warn_outside
from spectrem.estimators.mixture.input import KEPT, read_rows
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters
from spectrem.estimators.mixture.report import report_fit
from spectrem.estimators.mixture.start import last_parameters, random_state_of, start_parameters
from spectrem.estimators.mixture.table import ROUGH, ChunkModel, make_table
from spectrem.estimators.mixture.training import settle, train
from spectrem.estimators.shared_parameters import check_one_gamma
from spectrem.estimators.storage import Saved
from spectrem.estimators.training import warn_unused
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.mixtures import responsibilities
from spectrem.learning import EStep
from spectrem.models.mixture import (
    MixtureKernel,
    MixtureModel,
    MixtureParameters,
    build_shards,
    log_joint,
)
from spectrem.reports import ShowsReport


@documented
@dataclass(eq=False, repr=False)
class GaussianMixture(Saved, ShowsReport, GaussianMixtureParameters, DensityMixin, BaseEstimator):
    """Mixture of Gaussians by EM, with parameters and results as scikit-learn's.

    Beyond those: posteriors hardened or annealed by gamma ([Samdani2012], [SmithEisner2004]), weights of rows, rows
    with known components, and linear constraints on expectations ([Graca2007], [Ganchev2010]). For the same seed
    and settings, starts and iterations are those of scikit-learn (but for tied covariances that start from a row per
    component: here these rows alone count).

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

    _codec = file.CODEC

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
        check_parameters(self)
        check_one_gamma(self)
        rows = read_rows(self, X, y, sample_weight, columns)
        model, n_features = self._model(rows.x.shape[1]), rows.x.shape[1]
        shards = build_shards(rows.x, rows.weights, rows.labels, rows.columns)
        table = None
        if self.constraints:
            table = make_table(model, self.constraints, shards, self.n_components, self.n_threads)
        starts: list[Callable[[], MixtureParameters]]
        if self.warm_start and "weights_" in vars(self):
            starts = [partial(last_parameters, self, model, n_features)]
        else:
            warn_outside(self, model.bounds, n_features)
            rng, chunks = random_state_of(self.random_state), None if table is None else table.chunks
            starts = [partial(start_parameters, self, model, shards, rows, rng, chunks)] * self.n_init
        total = float(sum(shard.weights.sum() for shard in shards))
        if table is None:
            trained = train(self, model, make_corpus(self, shards), EStep(kernel=MixtureKernel(model)), starts, total)
        else:
            estep = EStep(rows=table.rows, warm_start=True, tol=ROUGH, infeasible=self.infeasible)
            trained = train(self, ChunkModel(model), Local([table]), estep, starts, total)
        take_course(self, trained.history, trained.status)
        if rows.labels is not None and (rows.labels >= 0).all():
            warn_unused(self.constraints)
        self.lower_bounds_ = [record.objective / total for record in trained.history]
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf
        for name in file.BLOCKS:
            setattr(self, f"{name}_", getattr(trained.params, name).astype(rows.dtype, copy=False))
        if table is None:
            self.labels_ = log_joint(self._params(), rows.x).argmax(axis=1)
            if rows.labels is not None:
                self.labels_ = np.where(rows.labels >= 0, rows.labels, self.labels_)
            self.report_ = report_fit(self, trained.params, rows)
            return self
        posteriors, self.labels_, constraints = settle(self, model, trained, table)
        self.posteriors_ = posteriors.astype(rows.dtype, copy=False)
        self.report_ = report_fit(self, trained.params, rows, constraints, table.must_links)
        return self

    def fit_predict(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, columns: Any = None
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

    def predict(self, X: ArrayLike) -> Ints:
        """Find the most probable component of every row; constraints and known components have no part in it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

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
        return self._joint(X)[0].argmax(axis=1)

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Posterior probabilities of the components of every row, at gamma = 1 and without constraints.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Rows sum to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        return self._posteriors(X)[0]

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

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean of `score_samples` over the rows of X, in nats."""
        return float(self.score_samples(X).mean())

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
        rng = random_state_of(self.random_state)
        counts = rng.multinomial(n_samples, self.weights_)
        drawn = []
        for k, count in enumerate(counts.tolist()):
            if covariance_type in ("full", "tied"):
                covariance = self.covariances_[k] if covariance_type == "full" else self.covariances_
                drawn.append(rng.multivariate_normal(self.means_[k], covariance, count))
            else:
                noise = rng.standard_normal(size=(count, self.n_features_in_))
                drawn.append(self.means_[k] + noise * np.sqrt(self.covariances_[k]))
        return np.vstack(drawn), np.repeat(np.arange(len(counts)), counts)

    def _model(self, n_features: int) -> MixtureModel:
        return MixtureModel(self.n_components, self.covariance_type, self.reg_covar, as_bounds(self, n_features))

    def _params(self) -> MixtureParameters:
        blocks = (self.weights_, self.means_, self.covariances_, self.precisions_cholesky_)
        return MixtureParameters(self.covariance_type, *(np.asarray(block, np.float64) for block in blocks))

    def _joint(self, X: ArrayLike) -> tuple[Floats, Any]:
        """Log joint densities, and the dtype of the results that are made of them."""
        params = as_fitted(self)._params()
        x = validate_data(self, X, dtype=KEPT, order="C", reset=False)
        joint = log_joint(params, np.require(x, np.float64, requirements=["C", "W"]))
        return joint, np.result_type(x, self.means_)

    def _posteriors(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        joint, dtype = self._joint(X)
        values = np.empty(len(joint))
        responsibilities.soft_pass(joint, 1.0, np.ones(len(joint)), values)
        return joint.astype(dtype, copy=False), values.astype(dtype, copy=False)

    def _n_parameters(self) -> int:
        fitted, (k, d) = as_fitted(self), self.means_.shape
        return count_free(as_bounds(fitted, d), k, d, fitted.covariance_type)

    def __getstate__(self) -> dict[str, Any]:
        return file.without_rows(super().__getstate__())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise file.missing(self, name)
