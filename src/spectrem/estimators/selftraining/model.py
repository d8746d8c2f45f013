"""The model and the E-step behind SelfTrainer: a table of labels, scored by a classifier."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints import compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.constraints.text import Constraints
from spectrem.estimators.selftraining.classifier import log_probabilities
from spectrem.exceptions import InvalidInputError
from spectrem.inference import project_batch
from spectrem.learning import EStep, Posed, Step, posterior
from spectrem.learning.estep import scores_of
from spectrem.reports import ConstraintReport, report_weighted
from spectrem.structures import Categorical, Parts
from spectrem.tables.reading import TableStructure

# Tolerance of the projection, relative to the size of a row: sharper ones take time and do not change the next fit.
PROJECTION_TOLERANCE = 1e-6
# Repeated rows with less weight than this, of a row's 1, change nothing that can be seen and are left out.
LEAST_SHARE = 1e-6
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
    def labelled(self) -> Bools:
        """Rows with a label."""
        return self.codes >= 0

    @cached_property
    def structure(self) -> TableStructure:
        """The labels that rows may have."""
        return TableStructure(Categorical(np.full(len(self.codes), len(self.classes))))


class Fitted(NamedTuple):
    """A classifier, the posteriors of shape (n_rows, n_classes) that it was trained on, and the one they came from.

    At the start of training the last two are None.
    """

    classifier: Any
    posteriors: Floats | None = None
    teacher: Any = None


class Targets(NamedTuple):
    """What an M-step needs: the sample, and for every row a distribution over labels. There is one shard."""

    sample: Sample
    posteriors: Floats


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

    def start(self, sample: Sample, posteriors: Floats | None = None) -> Fitted:
        """The classifier of the labelled rows alone or, if given, of posteriors of all rows."""
        if posteriors is not None:
            return Fitted(self._fit_soft(clone(self.estimator), sample, posteriors))
        own = np.flatnonzero(sample.labelled)
        codes = sample.codes[own]
        y = np.eye(len(sample.classes))[codes] if self.soft_targets else sample.classes[codes]
        return Fitted(self._fit(clone(self.estimator), _safe_indexing(sample.X, own), y, sample.weights[own]))

    def structure(self, sample: Sample) -> TableStructure:
        return sample.structure

    def scores(self, params: Fitted, sample: Sample) -> Parts:
        """log p(label | x), nats; -inf for labels other than the known one of a labelled row."""
        table = log_probabilities(params.classifier, sample.X, sample.classes)
        keep_known(table, sample)
        return Parts(table.ravel())

    def weights(self, sample: Sample) -> Floats:
        """The weight of every row when the classifier is fitted, shape (n_rows,)."""
        return np.where(sample.labelled, 1.0, self.weight) * sample.weights

    def counts(self, sample: Sample) -> Floats:
        """How often every row counts in constraints, shape (n_rows,)."""
        return sample.weights

    def gather(self, params: Fitted, sample: Sample, marginals: Parts) -> Targets:
        return Targets(sample, marginals.unary.reshape(-1, len(sample.classes)))

    def m_step(self, params: Fitted, stats: Targets, corpus: object = None) -> Fitted:
        """Fit a clone to the labels and the posteriors; without unlabelled rows nothing changes."""
        sample, posteriors = stats.sample, stats.posteriors
        if sample.labelled.all() or self.weight == 0:
            return Fitted(params.classifier, posteriors, params.classifier)
        goes_on = getattr(self.estimator, "warm_start", False)
        classifier = copy.deepcopy(params.classifier) if goes_on else clone(self.estimator)
        return Fitted(self._fit_soft(classifier, sample, posteriors), posteriors, params.classifier)

    def _fit_soft(self, classifier: Any, sample: Sample, posteriors: Floats) -> Any:
        weights = self.weights(sample)
        if self.soft_targets:
            return self._fit(classifier, sample.X, posteriors, weights)
        counted = sample.labelled | (weights > 0)
        row, label = np.nonzero((posteriors > LEAST_SHARE) & counted[:, None])
        weights = weights[row] * posteriors[row, label]
        return self._fit(classifier, _safe_indexing(sample.X, row), sample.classes[label], weights)

    def _fit(self, classifier: Any, X: Any, y: NDArray, weights: Floats) -> Any:
        if self.weight_names and not (weights == 1.0).all():
            return classifier.fit(X, y, **dict.fromkeys(self.weight_names, weights))
        return classifier.fit(X, y)


def keep_known(table: Floats, sample: Sample) -> None:
    """Make labels other than the known ones impossible, in place."""
    table[sample.labelled[:, None] & (np.arange(len(sample.classes)) != sample.codes[:, None])] = -np.inf


def compile_rows(sample: Sample, constraints: Constraints) -> Rows:
    """Constraints over the sample; labelled rows count in those over several rows, others leave them alone."""
    own = {"label": np.tile(sample.classes, len(sample.codes)), "labelled": sample.labelled}
    rows = compile_constraints(constraints, sample.structure, {**sample.columns, **own}, sample.weights)
    inside = rows.row_instance >= 0
    return rows.pick(~inside | ~sample.labelled[np.where(inside, rows.row_instance, 0)])


def report_last(posed: Posed, step: Step, posteriors: Floats) -> tuple[ConstraintReport, ...]:
    """The constraints at the last projection; none where nothing was projected."""
    if posed.inside is None:
        return ()
    found, scores = posterior(posed, step), scores_of(posed, step)
    free = posed.structure.smoothed_max(scores, max(step.gamma, 0.0))[1].unary
    prices = np.zeros(len(posed.inside.bounds))
    if found.multipliers is not None and len(found.multipliers):
        prices = found.multipliers
    return report_weighted(posed.inside, posed.structure, posed.weights, prices, free, posteriors.ravel())


def without_classifier(sample: Sample, estep: EStep) -> Floats:
    """The labels of largest entropy that meet the constraints and the labels given, shape (n_rows, n_classes).

    Raises
    ------
    InvalidInputError
        If they are alike for all rows, of which none has a label.
    """
    scores = np.zeros((len(sample.codes), len(sample.classes)))
    keep_known(scores, sample)
    found = project_batch(
        sample.structure, Parts(scores.ravel()), estep.rows,
        weights=sample.weights, tol=estep.tol, infeasible=estep.infeasible,
    )  # fmt: skip
    posteriors = found.marginals.unary.reshape(scores.shape)
    if not sample.labelled.any() and float(np.ptp(posteriors, axis=0).max(initial=0.0)) <= _ALIKE:
        raise InvalidInputError(
            "y holds no label, and the constraints expect the same of every row, so that nothing distinguishes the "
            "classes; label some rows, or give constraints about groups of rows or about columns"
        )
    return posteriors
