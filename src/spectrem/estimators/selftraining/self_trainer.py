"""SelfTrainer: any scikit-learn classifier, trained on few labels and on what is known about the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples, has_fit_parameter

from spectrem._arrays import Floats, Ints
from spectrem._damage import DAMAGE, DamageError
from spectrem._outputs import open_bytes
from spectrem._validate import check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.data.frames import Columns, LabelsLike, Table, as_frame
from spectrem.estimators import engine
from spectrem.estimators.conventions import as_fitted, check_fitted, row_weights, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.selftraining.parameters import SelfTrainerParameters
from spectrem.estimators.shared_parameters import NOT_SAVED
from spectrem.estimators.storage import damage_named, read_parameters, settings_of, take_saved_course
from spectrem.estimators.table_input import (
    choose_classes,
    labels_or_none,
    number_labels,
    row_columns,
    score_rows,
    split_columns,
)
from spectrem.exceptions import InvalidInputError, warn
from spectrem.learning import EStep, Posed, Step, Stopping, posterior
from spectrem.learning.estep import scores_of
from spectrem.models.classifier import TOLERANCE, ClassifierModel, Fitted, Sample, class_probabilities
from spectrem.reports import ConstraintReport, ShowsReport, report_training, report_weighted

_KIND, _LAYOUT = "SelfTrainer", 1
_LEARNED = ("estimator_", "classes_", "gamma_", "n_features_in_", "feature_names_in_")
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
    mark unlabelled rows. All rows are one shard, as the classifier is fitted to them at once.

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

    @shows_progress
    def fit(
        self, X: Table, y: LabelsLike | None = None, sample_weight: ArrayLike | None = None, columns: Columns = None
    ) -> SelfTrainer:
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
        check_classifier(self.estimator, self.soft_targets)
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        labels, codes = number_labels(labels_or_none(self, X, y))
        classes = choose_classes(labels, self.classes, len(codes))
        codes = np.append(np.searchsorted(classes, labels), -1)[codes]
        features, inside = split_columns(X, self.columns)
        features, _ = indexable(features, codes)
        constraint_columns = row_columns((columns, inside), len(codes), "SelfTrainer")
        check_values(self.constraints, "label", classes.tolist())
        check_columns(self.constraints, {"row": range(len(codes)), **constraint_columns})
        weights = row_weights(sample_weight, len(codes), "row of X")
        sample = Sample(features, codes, classes, weights, constraint_columns)
        model = ClassifierModel(self.estimator, self.unlabelled_weight, self.soft_targets, weight_names(self.estimator))
        rows, labelled = sample.compile(self.constraints), sample.labelled
        learns = self.unlabelled_weight > 0 and not labelled.all()
        first = None
        if len(np.setdiff1d(np.arange(len(classes)), codes)) and (learns or not labelled.any()):
            if not labelled.any() and self.unlabelled_weight == 0:
                raise InvalidInputError(
                    "unlabelled_weight must be above 0 where no row has a label, got 0; label some rows, or raise it"
                )
            first = sample.without_classifier(rows, self.infeasible)
        task = engine.Task(
            model,
            engine.make_corpus(self, [sample]),
            partial(Fitted, first),
            EStep(rows=rows, weight=self.unlabelled_weight, infeasible=self.infeasible, tol=TOLERANCE, warm_start=True),
            stopping=None if learns else Stopping(1, 0.0),
            all_known=bool(labelled.all()),
        )
        trained = engine.train(self, task)
        posteriors = trained.params.posteriors
        self.estimator_, self.classes_ = model.classifier(trained.params, sample), classes
        self.label_distributions_ = posteriors
        self.transduction_ = classes[posteriors.argmax(axis=1)]
        take_course(self, trained.history, trained.status)
        self.gamma_ = trained.history[-1].gamma
        predicted = class_probabilities(self.estimator_, features, classes).argmax(axis=1)
        name, n_labelled = type(self.estimator).__name__, int(labelled.sum())
        self.report_ = report_training(
            self,
            len(codes),
            {"estimator": name, "labelled rows": n_labelled, "unlabelled_weight": float(self.unlabelled_weight)},
            _report_last(trained),
            notes=describe_shares(sample, posteriors, predicted),
        )
        self._take_features(X, len(inside))
        return self

    def predict(self, X: Table, columns: Columns = None) -> NDArray:
        """Label rows by the classifier; constraints have no part in it.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            As in `fit`, with the columns that only constraints read.
        columns : mapping or frame, optional
            As in `fit`; they change nothing, as constraints have no part in predictions.

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
            best = self.predict_proba(X, columns).argmax(axis=1)  # its own predict may give probabilities
            return self.classes_[best]
        return self.estimator_.predict(_features_of(fitted, X, columns))

    def predict_proba(self, X: Table, columns: Columns = None) -> Floats:
        """Probabilities of the labels by the classifier.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            As in `fit`, with the columns that only constraints read.
        columns : mapping or frame, optional
            As in `fit`; they change nothing, as constraints have no part in predictions.

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
        features = _features_of(as_fitted(self), X, columns)
        return class_probabilities(self.estimator_, features, self.classes_)

    def score(self, X: Table, y: LabelsLike, sample_weight: ArrayLike | None = None, columns: Columns = None) -> float:
        """Accuracy on the rows of X that have a label in y; the others are left out.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels as in `fit`.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0.
        columns : mapping or frame, optional
            As in `predict`.

        Returns
        -------
        float
            The share of weight, from 0 to 1, of the rows whose label `predict` finds.

        Raises
        ------
        InvalidInputError
            If no row has a label.
        """
        check_same_index(X=X, y=y, sample_weight=sample_weight, columns=columns)
        return score_rows(self, y, self.predict(X, columns), sample_weight)

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
        content = {
            "kind": _KIND,
            "version": _LAYOUT,
            **settings_of(self, (*NOT_SAVED, "estimator")),
            "estimator": self.estimator,
            "learned": {name: value for name, value in vars(self).items() if name in _LEARNED},
        }
        data = _skops().dumps(content)
        with open_bytes(path) as file:
            file.write(data)

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
        skops = _skops()
        try:
            data = Path(path).read_bytes()
            unknown = sorted(set(skops.get_untrusted_types(data=data)) - set(trusted))
        except FileNotFoundError:
            raise InvalidInputError(f"{path}: no such model file; train one and save it first") from None
        except DAMAGE:
            raise InvalidInputError(f"{path}: not a saved {_KIND}, or damaged; save the model again") from None
        if unknown:
            raise InvalidInputError(
                f"{path}: holds objects of types that may do harm, {', '.join(unknown)}; if you trust the file, load "
                f"it with trusted={unknown}"
            )
        with damage_named(path, _KIND):
            content = skops.loads(data, trusted=list(trusted))
            if (content["kind"], content["version"]) != (_KIND, _LAYOUT):
                raise DamageError(f"{content['kind']} of layout {content['version']}, expected {_KIND} of {_LAYOUT}")
            trainer: Any = cls(content["estimator"], **read_parameters(cls, content))
            check_parameters(trainer)
            take_saved_course(trainer, content)
            vars(trainer).update({name: value for name, value in content["learned"].items() if name in _LEARNED})
            trainer.estimator_.predict_proba, trainer.classes_.shape, trainer.gamma_  # noqa: B018
        return trainer

    def _take_features(self, X: Table, n_inside: int) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if (n_features := getattr(self.estimator_, "n_features_in_", None)) is not None:
            self.n_features_in_ = n_features + n_inside
        if (names := getattr(self.estimator_, "feature_names_in_", None)) is not None:
            frame = as_frame(X, "X") if n_inside else None
            self.feature_names_in_ = names if frame is None else np.asarray(frame.columns, object)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.no_validation = inner.input_tags, inner.no_validation
        tags.non_deterministic, tags.array_api_support = inner.non_deterministic, False
        tags.classifier_tags.poor_score = getattr(inner.classifier_tags, "poor_score", False)
        tags.classifier_tags.multi_class = getattr(inner.classifier_tags, "multi_class", True)
        return tags


def _features_of(fitted: SelfTrainer, X: Table, columns: Columns) -> Any:
    """X without the columns that only constraints read, which must be those of its rows."""
    if columns is not None:
        row_columns((columns,), _num_samples(X), "SelfTrainer")
    return split_columns(X, fitted.columns)[0]


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise InvalidInputError(
            "saving a classifier needs skops, which is not installed; pip install 'spectrem[skops]'"
        ) from None
    return skops.io


def check_classifier(estimator: BaseEstimator, soft_targets: bool, parameter: str = "estimator") -> None:
    """Raise `InvalidInputError` unless the classifier of a parameter can be trained on weighted rows or soft labels."""
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"{parameter} must be a scikit-learn classifier, got {estimator!r}; try LogisticRegression()"
        )
    if not hasattr(estimator, "predict_proba"):
        raise InvalidInputError(
            f"{parameter} must have predict_proba, got {name}, which has none; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or try LogisticRegression()"
        )
    if not soft_targets and not weight_names(estimator):
        steps = getattr(estimator, "steps", None)
        which = f"whose last step is {type(steps[-1][1]).__name__}, which" if steps else "which"
        raise InvalidInputError(
            f"{parameter} must take sample_weight in fit, got {name}, {which} does not; choose another"
            + ", or, if its fit takes an array of probabilities as y, set soft_targets=True"
            * (parameter == "estimator")
        )


def weight_names(estimator: BaseEstimator) -> tuple[str, ...]:
    """Parameters of ``fit`` that take weights of rows: ``sample_weight``, or those of the steps of a pipeline.

    Empty where the last step of a pipeline, the classifier, takes none.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> weight_names(make_pipeline(StandardScaler(), LogisticRegression()))
    ('standardscaler__sample_weight', 'logisticregression__sample_weight')
    """
    if has_fit_parameter(estimator, "sample_weight"):
        return ("sample_weight",)
    steps = [(name, step) for name, step in getattr(estimator, "steps", ()) if hasattr(step, "fit")]
    if not steps or not weight_names(steps[-1][1]):
        return ()
    if get_config()["enable_metadata_routing"]:
        return ("sample_weight",)  # the pipeline passes it on to the steps that request it
    return tuple(f"{name}__{parameter}" for name, step in steps for parameter in weight_names(step))


def _report_last(trained: engine.Trained) -> tuple[ConstraintReport, ...]:
    """The constraints at the projection that the last classifier was fitted to; none where nothing was projected."""
    assert trained.shards is not None
    assert trained.step is not None
    params = trained.params
    step = trained.step._replace(params=Fitted(params.earlier).holding(params.teacher))
    reports: tuple[ConstraintReport, ...] = next(trained.shards.collect(_report_shard, step, params.posteriors))
    return reports


def _report_shard(posed: Posed, step: Step, posteriors: Floats) -> tuple[ConstraintReport, ...]:
    if posed.inside is None:
        return ()
    free = posed.structure.smoothed_max(scores_of(posed, step), max(step.gamma, 0.0))[1].unary
    prices = posterior(posed, step).multipliers
    assert prices is not None
    return report_weighted(posed.inside, posed.structure, posed.weights, prices, free, posteriors.ravel())


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
    actual = np.bincount(predicted, weights, k) / total
    missed = np.flatnonzero((expected >= SHOULD_HAVE - 1e-6) & (actual < HARDLY * expected))
    classes = sample.classes.tolist()
    if len(missed):
        listed = ", ".join(f"{classes[c]!r} {expected[c]:.1%} (predicted: {actual[c]:.1%})" for c in missed[:_SHOWN])
        warn(
            f"the classifier predicts labels hardly ever that should have many of the unlabelled rows: {listed}; "
            "predict takes the most probable label of each row alone. Read transduction_, or put the constraints on "
            "predict_proba by spectrem.project(...).decide(), or try another estimator",
        )
    chosen = np.sort(np.argsort(-np.abs(expected - actual), kind="stable")[:_SHOWN])
    shares = "; ".join(f"{classes[c]}: {expected[c]:.1%}, {actual[c]:.1%}" for c in chosen)
    some = f" ({len(chosen)} of {k} labels, those that differ most)" if len(chosen) < k else ""
    return (f"shares of the unlabelled rows, expected and predicted{some}: {shares}",)
