"""MaxEntClassifier: logistic regression from full, partial, soft and missing labels, under constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats
from spectrem._damage import DamageError
from spectrem._validate import check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.data.frames import Columns, LabelsLike, Table
from spectrem.estimators import engine, storage, table_input
from spectrem.estimators.classification.parameters import MaxEntParameters
from spectrem.estimators.conventions import as_fitted, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.labelled import fit_labelled
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.estimators.storage import Codec, Member, Saved, finite
from spectrem.estimators.table_input import Targets
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Stopping
from spectrem.models import loglinear
from spectrem.models.loglinear import Features, LogLinearModel, LogLinearShard, Merged
from spectrem.models.shards import in_corpus_order
from spectrem.reports import ShowsReport


def _write(classifier: MaxEntClassifier) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {"classes": classifier.classes_.tolist(), **storage.write_features(classifier)}
    return values, {"coef": classifier.coef_, "intercept": classifier.intercept_}


def _read(classifier: MaxEntClassifier, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    coef, intercept, classes = arrays["coef"], arrays["intercept"], np.array(values["classes"])
    n_rows = 1 if len(classes) == 2 else len(classes)
    _CODEC.check_arrays(arrays, {"coef": (n_rows, *coef.shape[1:]), "intercept": (n_rows,)})
    storage.read_features(classifier, values, int(values["n_features_in"]))
    if coef.shape[1] > classifier.n_features_in_:
        raise DamageError("numbers of features do not fit")
    classifier.classes_, classifier.coef_, classifier.intercept_ = classes, coef, intercept


_CODEC = Codec(
    kind="MaxEntClassifier",
    members={"coef": Member("f8", 2, finite), "intercept": Member("f8", 1, finite)},
    write=_write,
    read=_read,
)


@documented
@dataclass(eq=False, repr=False)
class MaxEntClassifier(Saved, ShowsReport, MaxEntParameters, ClassifierMixin, BaseEstimator):
    """Logistic regression, which also learns from rows without a label, or with a part of one, under constraints.

    Where every row has a label, it is multinomial logistic regression. Without constraints, at gamma = 1, the weights
    maximise the log-likelihood of what is known of the labels. Otherwise, by turns, the distributions of the labels of
    the other rows are projected onto the constraints, and the weights are fitted to labels and distributions:
    discriminative unified EM ([Samdani2012] algorithm 1), at gamma = 1 posterior regularisation ([Ganchev2010] eqs
    24-30), at 0 and -inf constraint-driven learning ([Chang2007]). It starts from the rows that have a label. In y, -1,
    None, NaN and other missing values mark rows without one.

    Use when there are many features, labels are few, partial or uncertain, and something is known about them together:
    proportions, counts, at most one per document.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels that occur in y, or the ``classes`` given, in increasing order.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) with two classes
        Weights, nats per unit of the feature; with two classes those of the second less those of the first.
    intercept_ : ndarray of shape (n_classes,) or (1,)
    label_distributions_ : ndarray of shape (n_rows, n_classes)
        Of the training rows, at the weights learnt; they meet the constraints, unless these are on the expectations of
        the model itself (``criterion``). Of labelled rows, what was given.
    transduction_ : ndarray of shape (n_rows,)
        The most probable labels of the training rows.
    history_ : list of Record
        Per iteration ``objective``, nats: over the labelled rows ``log p(y | x)``, plus over the others
        ``E_q[log p(label | x)] + gamma H(q)`` less the cost of slack, all rows by weight, less the penalty, which is
        ``log_prior``. It never falls. One record, of the optimum, where nothing is inferred. Per step where weights
        climb by gradient; `spectrem.learning.Expectations` cost what they say, and nothing else is about the others.
    objective_ : float
        Of the last iteration, nats.
    converged_ : bool
    status_ : FitStatus
        How training ended.
    n_iter_ : int
    gamma_ : float
        The last one.
    report_ : FitReport
        The course of training, and the constraints with their prices.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    One labelled row per class, and a third of all rows are known to be of class 1:

    >>> import numpy as np
    >>> from spectrem import E, part
    >>> X = np.array([[0.0], [1.0], [2.0], [5.0], [6.0], [9.0]])
    >>> y = [0, -1, -1, -1, -1, 1]
    >>> third = E[part("label") == 1] == E.count(..., each="row") / 3
    >>> classifier = MaxEntClassifier([third.named("a third")]).fit(X, y)
    >>> classifier.predict(X).tolist(), round(float(classifier.label_distributions_[:, 1].sum()), 3)
    ([0, 0, 0, 0, 1, 1], 2.0)
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self, X: Table, y: LabelsLike | None = None, sample_weight: ArrayLike | None = None, columns: Columns = None
    ) -> MaxEntClassifier:
        """Train on rows whose labels are known, in part, or not.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_classes)
            Of every row a label; a set, tuple or list of labels that it may have; a mapping of labels to
            probabilities; or -1, None, NaN or another missing value. Or a table of probabilities, a column per class,
            whose rows of NaN are missing. May be left out if ``classes`` is given.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0.
        columns : mapping of name -> array-like of shape (n_rows,), or frame, optional
            What constraints name beside the columns that there are anyway. Those of ``columns`` are added.

        Returns
        -------
        MaxEntClassifier
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If the constraints cannot hold, with each other or with the labels.

        Warns
        -----
        ConvergenceWarning
            If training ran out of iterations or steps.
        """
        check_parameters(self)
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        y = table_input.labels_or_none(self, X, y)
        features, columns = self._read(X, columns, reset=True)
        n = features.n_choices
        targets = table_input.read_targets(y, self.classes, n)
        check_values(self.constraints, "label", targets.classes.tolist())
        check_columns(self.constraints, {"row": range(n), **columns})
        merged = merge_proportional(self, features)
        task, shards = _pose(self, merged.features, targets, row_weights(sample_weight, n, "row of X"), columns)
        trained = engine.train(self, task)
        _check_apart(self, task.model, targets, trained.params)
        if trained.shards is not None:
            tables = engine.learnt_posteriors(trained)
        else:
            corpus = engine.make_corpus(self, [replace(shard, labels=None) for shard in shards])
            tables = corpus.collect(engine.free_posteriors, task.model, trained.params, engine.table)
        distributions = in_corpus_order(shards, tables, np.ones(n, np.int64))
        if trained.shards is None:
            distributions = np.where(targets.known[:, None], targets.allowed, distributions)
        self.classes_, self.label_distributions_ = targets.classes, distributions
        self.transduction_ = targets.classes[distributions.argmax(axis=1)]
        self.coef_, self.intercept_ = coefficients_of(task.model, trained.params, merged)
        counts = {"rows with a label": int(targets.known.sum()), "classes": len(targets.classes)}
        engine.record(self, trained, n, counts, unit="rows")
        return self

    def decision_function(self, X: Table) -> Floats:
        """Scores of the labels.

        Constraints have no part in them.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) with two classes
            Nats, in the order of ``classes_``; with two classes how far the second is above the first.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        features, _ = as_fitted(self)._read(X, None)
        scores = np.asarray(features.matrix @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Table, columns: Columns = None) -> Floats:
        """Probabilities of the labels, under the constraints if ``project_at_predict``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            As in `fit`, with the columns that only constraints read.
        columns : mapping or frame, optional
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        NotFittedError
            Before `fit`.

        See Also
        --------
        spectrem.project : puts constraints on these probabilities.

        Notes
        -----
        scikit-learn's ``cross_val_predict`` of probabilities numbers the labels of y, and takes those that are missing
        for one more class: give it ``params={"y": y}`` in place of y.
        """
        fitted = as_fitted(self)
        features, columns = fitted._read(X, columns)
        model, theta = fitted_model(fitted)
        shards = loglinear.build_shards(features, columns=columns, n_labels=model.n_labels)
        tables = engine.posteriors(fitted, model, theta, engine.make_corpus(fitted, shards))
        return in_corpus_order(shards, tables, np.ones(features.n_choices, np.int64))

    def predict_log_proba(self, X: Table, columns: Columns = None) -> Floats:
        """The logarithm of `predict_proba`, nats.

        Parameters
        ----------
        X, columns
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Nats, at most 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, columns))

    def predict(self, X: Table, columns: Columns = None) -> NDArray:
        """The most probable label of every row.

        Parameters
        ----------
        X, columns
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Of the labels ``classes_``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        best = self.predict_proba(X, columns).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Table, y: LabelsLike, sample_weight: ArrayLike | None = None, columns: Columns = None) -> float:
        """The share of the rows with a label in y, by weight, whose label `predict` finds, from 0 to 1.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_classes)
            As in `fit`. Rows without a label are left out; a set counts as right where it holds the label that is
            found, a distribution by the probability that it gives it.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0.
        columns : mapping or frame, optional
            As in `predict_proba`.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInputError
            If no row has a label.
        """
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        return table_input.score_rows(self, y, self.predict(X, columns), sample_weight)

    def _read(self, X: Table, columns: Columns, reset: bool = False) -> tuple[Features, dict[str, NDArray]]:
        """Features and columns for constraints of the rows of X."""
        X, inside = table_input.split_columns(X, self.columns)
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        features = Features.of(checked)
        return features, table_input.row_columns((columns, inside), features.n_choices, "MaxEntClassifier")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _pose(
    settings: MaxEntParameters,
    features: Features,
    targets: Targets,
    counts: Floats,
    columns: Mapping[str, NDArray],
) -> tuple[engine.Task, list[LogLinearShard]]:
    """The task of a MaxEntClassifier, and the shards of all rows; ``counts`` are the weights of rows."""
    known = targets.known
    learns = settings.unlabelled_weight > 0 and not known.all()
    model = make_model(settings, features.n_features, targets.classes)
    weights = counts * np.where(known, _class_weights(settings, targets, counts), settings.unlabelled_weight)
    seen = weights[known] @ targets.allowed[known] > 0
    if not seen.all() and not learns:
        unseen = targets.classes[~seen].tolist()[0]
        raise InvalidInputError(
            f"classes must be those of labelled rows where no other row is learnt from, got {unseen!r}, which none "
            "has; leave it out, or add rows without a label"
        )
    cut = partial(
        loglinear.build_shards,
        features,
        None,
        targets.labels,
        n_weights=model.n_weights,
        n_labels=len(targets.classes),
        counts=counts,
    )
    # Labelled rows stay with those that constraints tie them to; distributions are kept apart, as they cannot move.
    tied = (
        known & (targets.allowed.max(axis=1) == 1)
        if learns and as_sequence(settings.constraints)
        else np.zeros_like(known)
    )
    shards = cut(known & ~tied, weights, columns, tied)
    labelled = cut(known, weights, columns) if tied.any() else shards
    start = engine.make_corpus(settings, [shard for shard in labelled if shard.known] or labelled)
    corpus = engine.make_corpus(settings, shards) if learns or as_sequence(settings.constraints) else start
    stopping = Stopping(settings.max_iter, settings.tol, scale=float(weights.sum()))
    task = engine.Task(
        model,
        corpus,
        model.initial,
        engine.estep_of(settings),
        labelled=partial(fit_labelled, settings, model, start, goes_on=learns) if seen.all() else None,
        learns=learns,
        stopping=stopping,
    )
    return task, shards


# Weights below this tell nothing apart.
_ALIKE = 1e-9


def _check_apart(settings: MaxEntParameters, model: LogLinearModel, targets: Targets, theta: Floats) -> None:
    """Raise `InvalidInputError` if nothing told the classes apart."""
    alike = _ALIKE
    if engine.criterion_of(settings, as_sequence(settings.constraints)) is not None and model.prior.l2 > 0:
        alike = (2.0 * settings.m_tol / model.prior.l2) ** 0.5  # so far from 0 an ascent may end
    if not targets.known.any() and not (np.abs(model.split(theta).features) > alike).any():
        raise InvalidInputError(
            "y holds no label, and the constraints expect the same of every row, so that nothing tells the classes "
            "apart; label some rows, or give constraints about groups of rows or about columns"
        )


# Features are merged where this share of them, or fewer, is left.
_WORTH_MERGING = 0.9


def merge_proportional(settings: MaxEntParameters, features: Features) -> Merged:
    """Features that are in proportion as one, where that leaves clearly fewer.

    Under a Gaussian prior they share a direction: fewer parameters, the same optimum.
    """
    if settings.l1_ratio == 0 and features.n_features > features.n_choices:
        merged = loglinear.merge_features(features)
        if merged.features.n_features < _WORTH_MERGING * features.n_features:
            return merged
    return Merged(features)


def coefficients_of(model: LogLinearModel, theta: Floats, merged: Merged) -> tuple[Floats, Floats]:
    """``coef_`` and ``intercept_`` of the classifier: weights of all features, and those of the classes."""
    weights = model.split(theta)
    table = merged.expand(model.support.table(weights.features))
    intercept = weights.intercept.copy()
    return np.ascontiguousarray(table.T), intercept if len(intercept) else np.zeros(table.shape[1])


def fitted_model(classifier: MaxEntClassifier) -> tuple[LogLinearModel, Floats]:
    """The model of a fitted MaxEntClassifier, and its weights."""
    model = make_model(classifier, classifier.coef_.shape[1], classifier.classes_)
    intercept = classifier.intercept_ if classifier.fit_intercept else classifier.intercept_[:0]
    return model, np.concatenate([np.ascontiguousarray(classifier.coef_.T).ravel(), intercept])


def make_model(settings: MaxEntParameters, n_features: int, classes: NDArray) -> LogLinearModel:
    """The model of a MaxEntClassifier with so many features."""
    pair = len(classes) == 2
    return LogLinearModel(
        loglinear.Support(n_features, 1 if pair else len(classes)),
        intercept=settings.fit_intercept,
        reference=pair,
        prior=loglinear.WeightPrior(l2=(1.0 - settings.l1_ratio) / settings.C, l1=settings.l1_ratio / settings.C),
        optimiser=loglinear.Optimiser(settings.m_steps, settings.m_tol),
        names=classes,
    )


def _class_weights(settings: MaxEntParameters, targets: Targets, weights: Floats) -> Floats:
    """The weight of the class of every row that is known, shape (n_rows,); 1 for other rows."""
    if settings.class_weight is None:
        return np.ones(len(weights))
    known, classes = targets.known, targets.classes.tolist()
    if settings.class_weight == "balanced":
        mass = weights[known] @ targets.allowed[known]
        with np.errstate(divide="ignore"):
            factors = np.where(mass > 0, mass.sum() / (len(classes) * mass), 1.0)
    else:
        unknown = [label for label in settings.class_weight if label not in classes]
        if unknown:
            raise InvalidInputError(
                f"class_weight must name labels of y, {classes!r:.200}, got {unknown[0]!r}; leave it out"
            )
        factors = np.array([settings.class_weight.get(label, 1.0) for label in classes], np.float64)
    return np.where(known, targets.allowed @ factors, 1.0)
