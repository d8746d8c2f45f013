"""SelfTrainer: any scikit-learn classifier, trained on few labels and on what is known about the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import indexable

from spectrem._arrays import Floats, Ints
from spectrem._validate import check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.data.frames import as_frame
from spectrem.estimators.conventions import as_fitted, check_fitted, row_weights, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.selftraining import file
from spectrem.estimators.selftraining.classifier import check_classifier, class_probabilities, weight_names
from spectrem.estimators.selftraining.model import (
    PROJECTION_TOLERANCE,
    ClassifierModel,
    Fitted,
    Sample,
    compile_rows,
    report_last,
    without_classifier,
)
from spectrem.estimators.selftraining.parameters import SelfTrainerParameters
from spectrem.estimators.shared_parameters import check_one_gamma
from spectrem.estimators.table_input import (
    choose_classes,
    labels_or_none,
    number_labels,
    row_columns,
    score_rows,
    split_columns,
)
from spectrem.estimators.training import run_stage, warn_unused
from spectrem.exceptions import InvalidInputError, warn
from spectrem.learning import EStep, Step, Stopping
from spectrem.reports import ShowsReport, report_training

SHOULD_HAVE = 0.15
"""A label with at least this expected share of the rows is missed if it is hardly ever predicted ..."""

HARDLY = 0.1
"""... which is less than this part of its expected share."""

_SHOWN = 20


@documented
@dataclass(eq=False, repr=False)
class SelfTrainer(ShowsReport, SelfTrainerParameters, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Train a classifier on labelled and unlabelled rows under constraints on the labels of the latter.

    By turns, the classifier's predictions for unlabelled rows are projected onto the constraints, and the classifier is
    fitted again to the labels and these soft labels: discriminative unified EM ([Samdani2012] algorithm 1 D), at
    gamma = 1 posterior regularisation ([Ganchev2010] eqs 29-30), at 0 and -inf constraint-driven learning
    ([Chang2007]). The classifier starts from the labelled rows alone. In y, -1, None, NaN and other missing values
    mark unlabelled rows. All rows stay together in memory, as the classifier is fitted to them at once; what spreads
    its work is its own (``n_jobs``).

    Use when labels are few and something is known about the others together: proportions, counts, at most one per
    document.

    Attributes
    ----------
    estimator_ : classifier
        The last one fitted.
    classes_ : ndarray of shape (n_classes,)
        Labels that occur in y, or the ``classes`` given, in increasing order.
    label_distributions_ : ndarray of shape (n_rows, n_classes)
        Labels of the training rows at the last iteration; they meet the constraints.
    transduction_ : ndarray of shape (n_rows,)
        The most probable of them.
    history_ : list of Record
        Per iteration ``objective``, nats: the log-likelihood of the labelled rows plus ``weight`` times, over the
        unlabelled rows, ``E_q[log p(label | x)] + gamma H(q)`` less the cost of slack; at gamma = 1 this is
        ``L - weight KL(q || p)``, [Samdani2012] eq. 5 without the regulariser. ``free_objective``: the same without
        constraints. What the estimator itself regularises by is not in it, so that it can fall. Probabilities below
        1e-10 count as that. ``violation``: constraints are solved to 1e-6 of their size.
    objective_ : float
        The objective of the last iteration, nats.
    converged_ : bool
        Whether the objective's change fell below ``tol`` at every gamma.
    status_ : FitStatus
        How training ended.
    n_iter_ : int
    gamma_ : float
        The last one.
    report_ : FitReport
        The course of training and, of every constraint, expected values of the classifier's predictions before and
        after the last projection, violations and prices (those of the projection: ``weight`` is not in them); beside
        each other the shares of the labels among the unlabelled rows that are expected and that are predicted. A
        notebook shows it below the trainer; ``print(trainer.report_.summary())`` elsewhere.
    n_features_in_, feature_names_in_
        As in scikit-learn, where the estimator has them.

    Examples
    --------
    One labelled row per class, and a third of all rows are known to be of class 1:

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from spectrem import E, part
    >>> X = np.array([[0.0], [1.0], [2.0], [5.0], [6.0], [9.0]])
    >>> y = [0, -1, -1, -1, -1, 1]
    >>> third = E[part("label") == 1] == E.count(..., each="row") / 3
    >>> trainer = SelfTrainer(LogisticRegression(), [third.named("a third")]).fit(X, y)
    >>> trainer.predict(X).tolist(), round(float(trainer.label_distributions_[:, 1].sum()), 3)
    ([0, 0, 0, 0, 1, 1], 2.0)
    """

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, columns: Any = None) -> SelfTrainer:
        """Train on rows of which some have a label.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Or whatever the estimator takes, row by row.
        y : array-like of shape (n_rows,)
            Labels, also categories; -1, None, NaN or another missing value for none ("-1" and "nan" in arrays of text:
            that is what NumPy makes of them there). A label -1, as in {-1, 1}, is not possible. May be left out if
            ``classes`` is given.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0; of labelled and unlabelled rows.
        columns : mapping of name -> array-like of shape (n_rows,), or frame, optional
            What constraints name beside the columns that there are anyway. Those of ``SelfTrainer(columns=...)`` are
            added.

        Returns
        -------
        SelfTrainer
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule, or the estimator lacks what training needs.
        InfeasibleConstraintError
            If the constraints cannot hold.

        Warns
        -----
        UserWarning
            If a label that should have 15 % of the unlabelled rows or more is hardly ever predicted.
        """
        check_parameters(self)
        check_one_gamma(self)
        check_classifier(self.estimator, self.soft_targets)
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        labels, codes = number_labels(labels_or_none(self, X, y))
        classes = choose_classes(labels, self.classes, len(codes))
        codes = np.append(np.searchsorted(classes, labels), -1)[codes]
        features, inside = split_columns(X, self.columns)
        features, _ = indexable(features, codes)
        given = row_columns((columns, inside), len(codes), "SelfTrainer")
        check_values(self.constraints, "label", classes.tolist())
        check_columns(self.constraints, {"row": range(len(codes)), **given})
        weights = row_weights(sample_weight, len(codes), "row of X")
        sample = Sample(features, codes, classes, weights, given)
        model = ClassifierModel(self.estimator, self.weight, self.soft_targets, weight_names(self.estimator))
        learns = self.weight > 0 and not sample.labelled.all()
        estep = EStep(
            rows=compile_rows(sample, self.constraints), weight=self.weight,
            infeasible=self.infeasible, tol=PROJECTION_TOLERANCE, warm_start=True,
        )  # fmt: skip
        first = None
        if len(np.setdiff1d(np.arange(len(classes)), codes)) and (learns or not sample.labelled.any()):
            if not sample.labelled.any() and self.weight == 0:
                raise InvalidInputError(
                    "weight must be above 0 where no row has a label, got 0; label some rows, or raise it"
                )
            first = without_classifier(sample, estep)
        once = None if learns else Stopping(1, 0.0)
        result = run_stage(self, model, [sample], model.start(sample, first), estep, stopping=once)
        if sample.labelled.all():
            warn_unused(self.constraints)
        posteriors = result.params.posteriors
        assert posteriors is not None
        self.estimator_, self.classes_ = result.params.classifier, classes
        self.label_distributions_ = posteriors
        self.transduction_ = classes[posteriors.argmax(axis=1)]
        take_course(self, result.history, result.status)
        self.gamma_ = result.history[-1].gamma
        last = Step(model, Fitted(result.params.teacher), self.gamma_, estep)
        predicted = class_probabilities(self.estimator_, features, classes).argmax(axis=1)
        self.report_ = report_training(
            self,
            len(codes),
            {
                "estimator": type(self.estimator).__name__,
                "labelled rows": int(sample.labelled.sum()),
                "weight": float(self.weight),
            },
            next(result.posed.shards.collect(report_last, last, posteriors)),
            notes=describe_shares(sample, posteriors, predicted),
        )
        self._take_features(X, len(inside))
        return self

    def predict(self, X: Any) -> NDArray:
        """Label rows by the classifier; constraints have no part in it.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            As in `fit`, with the columns that only constraints read.

        Returns
        -------
        ndarray of shape (n_rows,)
            Some of ``classes_``.

        Raises
        ------
        NotFittedError
            Before `fit`.

        See Also
        --------
        spectrem.project : puts constraints on what `predict_proba` gives.
        """
        fitted = as_fitted(self)
        if fitted.soft_targets:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]  # its own predict may give probabilities
        return self.estimator_.predict(split_columns(X, fitted.columns)[0])

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the labels by the classifier.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            As in `fit`, with the columns that only constraints read.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of ``classes_``; 0 for those that the classifier was not trained on.

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
        columns = as_fitted(self).columns
        return class_probabilities(self.estimator_, split_columns(X, columns)[0], self.classes_)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the rows of X that have a label in y; the others are left out.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels as in `fit`.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0.

        Returns
        -------
        float
            The share of weight, from 0 to 1, of the rows whose label `predict` finds.

        Raises
        ------
        InvalidInputError
            If no row has a label.
        """
        check_same_index(X=X, y=y, sample_weight=sample_weight)
        return score_rows(self, y, self.predict(X), sample_weight)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trainer to one file, which `load` reads.

        The classifier inside may be of any library, so that the file is one of skops, JSON and arrays without pickles;
        it needs ``pip install 'spectrem[skops]'``. It holds the classifier, the course of training, the parameters
        that JSON can hold and constraints as texts, but not what has a value for every training row, nor ``report_`` or
        a schedule.

        Parameters
        ----------
        path : path

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If skops is not installed.

        Warns
        -----
        UserWarning
            If constraints are left out that cannot be written as text: matrices, objects of your own, and links
            between rows by number.
        """
        check_fitted(self)
        file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], trusted: Sequence[str] = ()) -> Self:
        """Read a trainer that `save` wrote.

        Parameters
        ----------
        path : path
        trusted : sequence of str
            Names of types that may be made of the file although they could do harm: those of classifiers that skops
            does not know, such as your own, and trees of scikit-learn. An error lists those that the file holds; give
            them if you know where it comes from.

        Raises
        ------
        InvalidInputError
            If the file is missing, damaged or of another kind, or holds a type that is not trusted, or skops is not
            installed.
        """
        return file.load(cls, path, trusted)

    def _take_features(self, X: Any, n_inside: int) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(self):
                delattr(self, name)
        if (n_features := getattr(self.estimator_, "n_features_in_", None)) is not None:
            self.n_features_in_ = n_features + n_inside
        if (names := getattr(self.estimator_, "feature_names_in_", None)) is not None:
            frame = as_frame(X, "X") if n_inside else None
            self.feature_names_in_ = names if frame is None else np.asarray(frame.columns, object)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.no_validation = own.input_tags, own.no_validation
        tags.non_deterministic, tags.array_api_support = own.non_deterministic, False
        tags.classifier_tags.poor_score = getattr(own.classifier_tags, "poor_score", False)
        tags.classifier_tags.multi_class = getattr(own.classifier_tags, "multi_class", True)
        return tags


def describe_shares(sample: Sample, posteriors: Floats, predicted: Ints) -> tuple[str, ...]:
    """A note of the shares of all labels, or of those that differ most; none if every row has a label.

    Parameters
    ----------
    sample : Sample
    posteriors : ndarray of shape (n_rows, n_classes)
        Labels that the last classifier was trained on.
    predicted : ndarray of shape (n_rows,)
        Numbers of the labels that it predicts.

    Warns
    -----
    UserWarning
        If a label that should have many rows is hardly ever predicted.
    """
    weights = np.where(sample.labelled, 0.0, sample.weights)
    total, k = float(weights.sum()), len(sample.classes)
    if total <= 0:
        return ()
    expected = weights @ posteriors / total
    found = np.bincount(predicted, weights, k) / total
    missed = np.flatnonzero((expected >= SHOULD_HAVE - 1e-6) & (found < HARDLY * expected))
    classes = sample.classes.tolist()
    if len(missed):
        listed = ", ".join(f"{classes[c]!r} {expected[c]:.1%} (predicted: {found[c]:.1%})" for c in missed[:_SHOWN])
        warn(
            f"the classifier predicts labels hardly ever that should have many of the unlabelled rows: {listed}; "
            "predict takes the most probable label of each row alone. Read transduction_, or put the constraints on "
            "predict_proba by spectrem.project(...).decide(), or try another estimator",
        )
    chosen = np.sort(np.argsort(-np.abs(expected - found), kind="stable")[:_SHOWN])
    shares = "; ".join(f"{classes[c]}: {expected[c]:.1%}, {found[c]:.1%}" for c in chosen)
    some = f" ({len(chosen)} of {k} labels, those that differ most)" if len(chosen) < k else ""
    return (f"shares of the unlabelled rows, expected and predicted{some}: {shares}",)
