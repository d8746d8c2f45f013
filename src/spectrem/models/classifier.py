"""Any scikit-learn classifier as a model of the labels of rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints import compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.text import Constraints
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.inference.result import Infeasible
from spectrem.structures import Categorical, Parts, Structure

LEAST_PROBABILITY = 1e-10
"""The smallest probability that counts, since classifiers give 0 to what is only rare: it costs 23 nats."""
TOLERANCE = 1e-6
"""The tolerance of the projection, relative to the size of a row: a smaller one takes time and does not change the next
fit."""
LEAST_SHARE = 1e-6
"""Repeated rows with a smaller share of the weight of their row are left out."""
# Labels of rows that differ by no more than this are the same but for the tolerance of the projection.
_ALIKE = 1e-5


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to train on, of which some have a label.

    Attributes
    ----------
    X
        The features, as the classifier takes them.
    codes : ndarray of shape (n_rows,)
        Number of the label, -1 where there is none.
    classes : ndarray of shape (n_classes,)
    weights : ndarray of shape (n_rows,)
    columns : mapping of name -> ndarray of shape (n_rows,)
        Columns that constraints name.
    """

    X: Any
    codes: Ints
    classes: NDArray
    weights: Floats
    columns: Mapping[str, NDArray]

    @cached_property
    def structure(self) -> Categorical:
        """One of the labels for every row."""
        return Categorical(np.full(len(self.codes), len(self.classes)), "row")

    @cached_property
    def labelled(self) -> Bools:
        """Rows with a label."""
        return self.codes >= 0

    def keep_known(self, table: Floats) -> Parts:
        """Scores of rows and labels, where labels other than the known ones become impossible; in place."""
        table[self.labelled[:, None] & (np.arange(len(self.classes)) != self.codes[:, None])] = -np.inf
        return Parts(table.ravel())

    def compile(self, constraints: Constraints) -> Rows:
        """Constraints over the rows; those inside a row leave labelled rows alone, others count them as given."""
        label = np.tile(self.classes, len(self.codes))
        columns = {**self.columns, "label": label, "labelled": self.labelled}
        rows = compile_constraints(constraints, self.structure, columns, self.weights)
        return rows.pick((rows.row_instance < 0) | ~self.labelled[rows.row_instance])

    def without_classifier(self, rows: Rows, infeasible: Infeasible) -> Floats:
        """The labels of largest entropy that meet the constraints and the labels given, shape (n_rows, n_classes).

        Raises
        ------
        InvalidInputError
            If they are alike for all rows, of which none has a label.
        """
        scores = self.keep_known(np.zeros((len(self.codes), len(self.classes))))
        projection = project_batch(
            self.structure, scores, rows, weights=self.weights, tol=TOLERANCE, infeasible=infeasible
        )
        posteriors = projection.marginals.unary.reshape(len(self.codes), -1)
        if not self.labelled.any() and float(np.ptp(posteriors, axis=0).max(initial=0.0)) <= _ALIKE:
            raise InvalidInputError(
                "y holds no label, and the constraints expect the same of every row, so that nothing distinguishes the "
                "classes; label some rows, or give constraints about groups of rows or about columns"
            )
        return posteriors


@dataclass(frozen=True, eq=False)
class Fitted:
    """The soft labels that a classifier is trained on, which are all that a checkpoint holds, and the classifier.

    Attributes
    ----------
    posteriors : ndarray of shape (n_rows, n_classes), or None
        None for the labelled rows alone.
    earlier : ndarray of shape (n_rows, n_classes), or None
        The posteriors that the teacher, whose predictions were projected, was trained on.
    classifier, teacher
        None until they are asked for, as after a checkpoint.
    """

    posteriors: Floats | None
    earlier: Floats | None = None
    classifier: Any = field(init=False, default=None)
    teacher: Any = field(init=False, default=None)

    def holding(self, classifier: Any, teacher: Any = None) -> Fitted:
        """Itself, with classifiers that were trained already."""
        object.__setattr__(self, "classifier", classifier)
        object.__setattr__(self, "teacher", teacher)
        return self


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """log p(label | x) of a scikit-learn classifier, trained on soft labels.

    Attributes
    ----------
    estimator
        Cloned before every fit; with ``warm_start=True`` a copy of the last one fitted goes on.
    weight : float
        The weight of unlabelled rows in the M-step.
    soft_targets : bool
        Whether ``fit`` takes distributions; otherwise rows are repeated, once per label, with weights.
    weight_names : tuple of str
        Parameters of ``fit`` that take weights of rows; none if there is no such parameter.
    """

    estimator: Any
    weight: float
    soft_targets: bool
    weight_names: tuple[str, ...]

    def classifier(self, params: Fitted, sample: Sample) -> Any:
        """The classifier of some parameters, which is trained where they do not hold it."""
        if params.classifier is None:
            params.holding(self._fit_soft(clone(self.estimator), sample, params.posteriors), params.teacher)
        return params.classifier

    def structure(self, sample: Sample) -> Structure:
        return sample.structure

    def scores(self, params: Fitted, sample: Sample) -> Parts:
        """log p(label | x), nats; -inf for labels other than the known one of a labelled row."""
        return sample.keep_known(log_probabilities(self.classifier(params, sample), sample.X, sample.classes))

    def weights(self, sample: Sample) -> Floats:
        """The weight of every row when the classifier is fitted, shape (n_rows,)."""
        return np.where(sample.labelled, 1.0, self.weight) * sample.weights

    def counts(self, sample: Sample) -> Floats:
        """How often every row counts in constraints, shape (n_rows,)."""
        return sample.weights

    def gather(self, params: Fitted, sample: Sample, marginals: Parts) -> Floats:
        """For every row a distribution over labels, shape (n_rows, n_classes)."""
        return marginals.unary.reshape(-1, len(sample.classes))

    def m_step(self, params: Fitted, posteriors: Floats, corpus: Corpus) -> Fitted:
        """Fit a clone to the labels and the posteriors; without unlabelled rows nothing changes."""
        [sample] = corpus.collect(as_it_is)
        fitted, teacher = Fitted(posteriors, params.posteriors), self.classifier(params, sample)
        if sample.labelled.all() or self.weight == 0:
            return fitted.holding(teacher, teacher)
        goes_on = getattr(self.estimator, "warm_start", False)
        classifier = copy.deepcopy(teacher) if goes_on else clone(self.estimator)
        return fitted.holding(self._fit_soft(classifier, sample, posteriors), teacher)

    def _fit_soft(self, classifier: Any, sample: Sample, posteriors: Floats | None) -> Any:
        """Fit a classifier to the posteriors of all rows or, without them, to the labelled rows."""
        if posteriors is None:
            row = np.flatnonzero(sample.labelled)
            label, weights = sample.codes[row], sample.weights[row]
            y = np.eye(len(sample.classes))[label] if self.soft_targets else sample.classes[label]
            return self._fit(classifier, _safe_indexing(sample.X, row), y, weights)
        weights = self.weights(sample)
        if self.soft_targets:
            return self._fit(classifier, sample.X, posteriors, weights)
        counted = sample.labelled | (weights > 0)
        row, label = np.nonzero((posteriors > LEAST_SHARE) & counted[:, None])
        weights = weights[row] * posteriors[row, label]
        return self._fit(classifier, _safe_indexing(sample.X, row), sample.classes[label], weights)

    def _fit(self, classifier: Any, X: Any, y: NDArray, weights: Floats) -> Any:
        weighted = bool(self.weight_names) and not (weights == 1.0).all()
        return classifier.fit(X, y, **(dict.fromkeys(self.weight_names, weights) if weighted else {}))


def as_it_is(sample: Sample) -> Sample:
    """The sample, brought from where it lives."""
    return sample


def class_probabilities(classifier: Any, X: Any, classes: NDArray) -> NDArray:
    """The probabilities of ``predict_proba``, with zeros for the classes that the classifier was not trained on."""
    table, trained = np.asarray(classifier.predict_proba(X)), getattr(classifier, "classes_", None)
    if trained is None or table.ndim != 2 or table.shape[1] != len(trained) or len(trained) >= len(classes):
        return table
    whole = np.zeros((len(table), len(classes)), table.dtype)
    whole[:, np.searchsorted(classes, trained)] = table
    return whole


def log_probabilities(classifier: Any, X: Any, classes: NDArray) -> Floats:
    """log p(label | x), shape (n_rows, n_classes), nats; probabilities below 1e-10 count as that.

    Raises
    ------
    InvalidInputError
        If ``predict_proba`` gives another shape, or numbers that are not probabilities.
    """
    table, n_classes = class_probabilities(classifier, X, classes).astype(np.float64), len(classes)
    if table.ndim != 2 or table.shape[1] != n_classes or not ((table >= 0) & (table <= 1 + 1e-6)).all():
        raise InvalidInputError(
            f"estimator.predict_proba must give probabilities of the {n_classes} classes, got shape {table.shape} "
            f"with values from {table.min(initial=np.inf):g} to {table.max(initial=-np.inf):g}; try another classifier"
        )
    return np.log(np.maximum(table, LEAST_PROBABILITY))
