"""SelfTrainer: any scikit-learn classifier, trained on few labels and on what is known about the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples

from spectrem._arrays import Floats
from spectrem._validate import check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.constraints.constraint import AnyConstraint
from spectrem.estimators.conventions import not_fitted
from spectrem.estimators.self_trainer_input import UNLABELLED, read_columns, read_labels, read_weights, split_columns
from spectrem.estimators.self_trainer_model import (
    ClassifierModel,
    Sample,
    TableKernel,
    class_probabilities,
    compile_rows,
)
from spectrem.estimators.self_trainer_settings import check_learns, check_settings, weight_names
from spectrem.estimators.self_trainer_shares import tell_shares
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, Record, Schedule, Stopping, run_em
from spectrem.reports import FitReport, ShowsReport, gamma_course


@dataclass(eq=False, repr=False)
class SelfTrainer(ShowsReport, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Train a classifier on labelled and unlabelled rows under constraints on the labels of the latter.

    By turns, the classifier's predictions for unlabelled rows are projected onto the constraints, and the classifier is
    fitted again to the labels and these soft labels: discriminative unified EM ([Samdani2012] algorithm 1 D), at
    gamma = 1 posterior regularisation ([Ganchev2010] eqs 29-30), at 0 and -inf constraint-driven learning
    ([Chang2007]). The classifier starts from the labelled rows alone. In y, -1, None, NaN and other missing values
    mark unlabelled rows. All rows stay together in memory, as the classifier is fitted to them at once; what spreads
    its work is its own (``n_jobs``).

    Use when labels are few and something is known about the others together: proportions, counts, at most one per
    document.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``, and ``sample_weight`` in ``fit``. It is cloned for every fit; one with
        ``warm_start=True`` goes on from the fit before, which pays where fits take long. A pipeline is fitted as a
        whole every time, and all of its steps that take weights get them; steps that need not be fitted again stand
        before the trainer, as in ``make_pipeline(StandardScaler(), SelfTrainer(LogisticRegression()))``.
    constraints : sequence of constraints
        In the language of `spectrem.E` over the columns row, label (as in ``y``), labelled (a truth value) and those of
        ``columns``. Constraints ``.per("row", ...)`` leave labelled rows alone; in all others these count as given. A
        condition ``~part("labelled")`` leaves them out. Rows count by their ``sample_weight``, not by ``weight``.
    gamma : float
        0 or greater, or -inf: 1 is EM, 0 hard labels (the linear relaxation), -inf hard labels (an integer program),
        between them unified EM, above 1 smoother labels. Without constraints gamma = 1 changes nothing: the
        classifier is fitted to what it says already.
    schedule : Schedule, optional
        Several gammas in turn, as `spectrem.learning.Anneal` or `Quench`.
    weight : float
        Of unlabelled rows beside labelled ones when the classifier is fitted; at least 0. c2 of [Samdani2012] eq. 5.
    columns : sequence of names, or mapping of name -> name or position, optional
        Columns of X (a frame, or an array with positions, such as ``{"document": 0}``; negative ones count from the
        last column) that constraints read and the estimator is not shown, in `predict` as in `fit`. They stay with
        their rows in cross-validation.
    classes : sequence of labels, optional
        All labels that there are; by default those in y. Where one of them has no labelled row, training starts from
        the labels of largest entropy that meet the constraints, which may then be all that there is to learn from.
    soft_targets : bool
        Whether ``estimator.fit`` takes an array of shape (n_rows, n_classes) of probabilities as y, the classes in
        increasing order; ``sample_weight`` is then needed only where weights differ. Classifiers of scikit-learn do
        not: for these every unlabelled row is repeated, once per label, weighted by its probability (those below
        1e-6 are left out).
    infeasible : {"raise", "skip"}
        What to do about constraints inside a row that cannot hold. To relax others give them slack.
    max_iter, tol : int, float
        For every gamma: iterations at most, relative change of the objective at which to stop (0 runs all iterations).
        Near gamma = 1 the objective comes close to 0 and asks for a larger ``tol``.
    on_iteration : callable, optional
        Called with the `spectrem.learning.Record` of every iteration.

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
    status_ : FitStatus
    n_iter_ : int
    gamma_ : float
        The last one.
    report_ : FitReport
        The course of training and, of every constraint, expected values of the classifier's predictions before and
        after the last projection, violations and prices (those of the projection: ``weight`` is not in them); beside
        each other the shares of the labels among the unlabelled rows that are expected and that are predicted. A
        notebook shows it below the trainer; ``print(trainer.report_.summary())`` elsewhere.
    n_features_in_, feature_names_in_
        As in scikit-learn, where the estimator tells.

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

    estimator: Any
    constraints: Sequence[AnyConstraint] = ()
    _: KW_ONLY
    gamma: float = 1.0
    schedule: Schedule | None = None
    weight: float = 1.0
    columns: Sequence[Any] | Mapping[str, Any] | None = None
    classes: Sequence[Any] | None = None
    soft_targets: bool = False
    infeasible: Literal["raise", "skip"] = "raise"
    max_iter: int = 50
    tol: float = 1e-3
    on_iteration: Callable[[Record], None] | None = None

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
        check_settings(self)
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        if y is None and self.classes is not None:
            y = np.full(_num_samples(X), UNLABELLED)
        classes, codes = read_labels(y, self.classes, "; to learn from constraints alone, list the labels in classes")
        features, inside = split_columns(X, self.columns)
        features, _ = indexable(features, codes)
        given = {**read_columns(columns, len(codes)), **read_columns(inside, len(codes))}
        check_values(self.constraints, "label", classes.tolist())
        check_columns(self.constraints, given)
        sample = Sample(features, codes, classes, read_weights(sample_weight, len(codes)), given)
        model = ClassifierModel(self.estimator, self.weight, self.soft_targets, weight_names(self.estimator))
        learns = self.weight > 0 and not sample.known.all()
        kernel = TableKernel(model, compile_rows(sample, self.constraints), self.infeasible)
        first = None
        if len(np.setdiff1d(np.arange(len(classes)), codes)) and (learns or not sample.known.any()):
            check_learns(self, sample.known)
            first = kernel.without_classifier(sample)
        result = run_em(
            model,
            [sample],
            model.start(sample, first),
            EStep(kernel=kernel),
            schedule=self.schedule or Constant(self.gamma),
            stopping=Stopping(self.max_iter, self.tol) if learns else Stopping(1, 0.0),
            on_iteration=self.on_iteration,
        )
        posteriors = result.params.posteriors
        assert posteriors is not None
        self.estimator_, self.classes_ = result.params.classifier, classes
        self.label_distributions_ = posteriors
        self.transduction_ = classes[posteriors.argmax(axis=1)]
        self.history_, self.status_, self.n_iter_ = list(result.history), result.status, len(result.history)
        self.gamma_ = result.history[-1].gamma
        predicted = class_probabilities(self.estimator_, features, classes).argmax(axis=1)
        self.report_ = FitReport(
            type(self).__name__,
            len(codes),
            result.history,
            result.status.value,
            {
                "estimator": type(self.estimator).__name__,
                "labelled rows": int(sample.known.sum()),
                "weight": float(self.weight),
                "gamma": gamma_course(result.history, self.gamma),
            },
            kernel.report(result.params, self.gamma_, sample),
            tell_shares(sample, posteriors, predicted),
        )
        self._take_features(X, len(inside))
        return self

    def predict(self, X: Any) -> NDArray:
        """Labels of rows by the classifier, shape (n_rows,); constraints have no part in it.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        if self.soft_targets:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]  # its own predict may give probabilities
        return self._classifier().predict(split_columns(X, self.columns)[0])

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the labels by the classifier, shape (n_rows, n_classes), in the order of ``classes_``.

        `spectrem.project` puts constraints on them.
        """
        return class_probabilities(self._classifier(), split_columns(X, self.columns)[0], self.classes_)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the rows of X that have a label in y; the others are left out.

        Raises
        ------
        InvalidInputError
            If no row has a label.
        """
        check_same_index(X=X, y=y, sample_weight=sample_weight)
        classes, codes = read_labels(y)
        weights = read_weights(sample_weight, len(codes)) * (codes >= 0)
        if not weights.sum() > 0:
            raise InvalidInputError("sample_weight must be above 0 for some labelled row to be scored, got none")
        predicted = self.predict(X)
        if len(codes) != len(predicted):
            raise InvalidInputError(f"y must have one value per row of X, got {len(codes)} for {len(predicted)} rows")
        return float(np.average(predicted == classes[codes], weights=weights))

    def _classifier(self) -> Any:
        if "estimator_" not in vars(self):
            raise not_fitted(self)
        return self.estimator_

    def _take_features(self, X: Any, n_inside: int) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(self):
                delattr(self, name)
        if (n_features := getattr(self.estimator_, "n_features_in_", None)) is not None:
            self.n_features_in_ = n_features + n_inside
        if (names := getattr(self.estimator_, "feature_names_in_", None)) is not None:
            self.feature_names_in_ = np.asarray(X.columns, object) if n_inside else names

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.no_validation = own.input_tags, own.no_validation
        tags.non_deterministic, tags.array_api_support = own.non_deterministic, False
        tags.classifier_tags.poor_score = getattr(own.classifier_tags, "poor_score", False)
        tags.classifier_tags.multi_class = getattr(own.classifier_tags, "multi_class", True)
        return tags
