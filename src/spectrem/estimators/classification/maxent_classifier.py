"""MaxEntClassifier: logistic regression from full, partial, soft and missing labels, under constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from spectrem._arrays import Floats
from spectrem._validate import check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.estimators.classification import file
from spectrem.estimators.classification.parameters import MaxEntParameters
from spectrem.estimators.classification.targets import read_targets, score_rows
from spectrem.estimators.classification.training import fitted_model, infer, train
from spectrem.estimators.conventions import as_fitted, row_weights, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.shared_parameters import check_criterion_alone, check_one_gamma
from spectrem.estimators.storage import Saved
from spectrem.estimators.table_input import labels_or_none, row_columns, split_columns
from spectrem.models.loglinear import Features
from spectrem.reports import ShowsReport, report_training


@documented
@dataclass(eq=False, repr=False)
class MaxEntClassifier(Saved, ShowsReport, MaxEntParameters, ClassifierMixin, BaseEstimator):
    """Logistic regression, which also learns from rows without a label, or with a part of one, under constraints.

    Where every row has a label, it is multinomial logistic regression. Otherwise, by turns, the distributions of the
    labels of the other rows are projected onto the constraints, and the weights are fitted to labels and
    distributions: discriminative unified EM ([Samdani2012] algorithm 1), at gamma = 1 posterior regularisation
    ([Ganchev2010] eqs 24-30), at 0 and -inf constraint-driven learning ([Chang2007]). It starts from the rows that
    have a label. In y, -1, None, NaN and other missing values mark rows without one.

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
        ``log_prior``. It never falls. One record, of the optimum, where nothing is inferred. With a ``criterion``, per
        step of its ascent; `spectrem.learning.Expectations` cost what they say, and nothing else is about the others.
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

    _codec = file.CODEC

    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, columns: Any = None
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
        check_one_gamma(self)
        check_criterion_alone(self)
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        y = labels_or_none(self, X, y)
        features, given = self._read(X, columns, reset=True)
        n = features.n_choices
        targets = read_targets(y, self.classes, n)
        check_values(self.constraints, "label", targets.classes.tolist())
        check_columns(self.constraints, {"row": range(n), **given})
        found = train(self, features, targets, row_weights(sample_weight, n, "row of X"), given)
        self.classes_, self.label_distributions_ = targets.classes, found.distributions
        self.transduction_ = targets.classes[found.distributions.argmax(axis=1)]
        self._take(found.coefficients.T, found.intercept)
        take_course(self, found.history, found.status)
        self.gamma_ = found.history[-1].gamma
        counts = {"rows with a label": int(targets.known.sum()), "classes": len(targets.classes)}
        self.report_ = report_training(self, n, counts, found.constraints, summaries=found.summaries)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Scores of the labels, nats, shape (n_rows, n_classes), or with two classes (n_rows,) of the second.

        Constraints have no part in them.
        """
        features, _ = as_fitted(self)._read(X, None)
        scores = np.asarray(features.matrix @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any, columns: Any = None) -> Floats:
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
        features, given = fitted._read(X, columns)
        return infer(fitted, *fitted_model(fitted), features, given)

    def predict_log_proba(self, X: Any, columns: Any = None) -> Floats:
        """The logarithm of `predict_proba`, nats."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, columns))

    def predict(self, X: Any, columns: Any = None) -> NDArray:
        """The most probable label of every row, shape (n_rows,); parameters as of `predict_proba`."""
        best = self.predict_proba(X, columns).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of the rows with a label in y, by weight, whose label `predict` finds, from 0 to 1.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_classes)
            As in `fit`. Rows without a label are left out; a set counts as right where it holds the label that is
            found, a distribution by the probability that it gives it.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0.

        Raises
        ------
        InvalidInputError
            If no row has a label.
        """
        check_same_index(X=X, y=y, sample_weight=sample_weight)
        return score_rows(self, y, self.predict(X), sample_weight)

    def _read(self, X: Any, columns: Any, reset: bool = False) -> tuple[Features, dict[str, NDArray]]:
        """Features and columns for constraints of the rows of X."""
        X, inside = split_columns(X, self.columns)
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        features = Features.of(checked)
        return features, row_columns((columns, inside), features.n_choices, "MaxEntClassifier")

    def _take(self, coefficients: Floats, intercept: Floats) -> None:
        self.coef_ = np.ascontiguousarray(coefficients)
        self.intercept_ = intercept if len(intercept) else np.zeros(len(coefficients))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
