"""From rows and what is known of their labels to trained weights, and from weights to labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.estimators.classification.targets import Targets
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.labelled import fit_labelled
from spectrem.estimators.projecting import collect_at_predict
from spectrem.estimators.training import estep_of, learn_unlabelled, report_labelled
from spectrem.exceptions import InvalidInputError
from spectrem.learning import FitStatus, Posed, Record, Step, Stopping, posterior
from spectrem.models.loglinear import (
    Features,
    LogLinearModel,
    LogLinearShard,
    Merged,
    Optimiser,
    Support,
    WeightPrior,
    build_shards,
    merge_features,
)
from spectrem.reports import ConstraintReport, ConstraintSummary


class Trained(NamedTuple):
    """What training leaves.

    Attributes
    ----------
    coefficients : ndarray of shape (n_features, n_classes), or (n_features, 1) with two classes
    intercept : ndarray of shape (n_classes,) or (1,)
    distributions : ndarray of shape (n_rows, n_classes)
        Of the labels of the training rows, under the constraints.
    history : tuple of Record
    status : FitStatus
    constraints : tuple of ConstraintReport
    summaries : tuple of ConstraintSummary
    """

    coefficients: Floats
    intercept: Floats
    distributions: Floats
    history: tuple[Record, ...]
    status: FitStatus
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: tuple[ConstraintSummary, ...] = ()


def train(
    settings: Any, features: Features, targets: Targets, weights: Floats, columns: Mapping[str, NDArray]
) -> Trained:
    """Train with the settings of a MaxEntClassifier, which have been checked.

    Raises
    ------
    InvalidInputError
        If nothing tells the classes apart.
    """
    known, n_classes = targets.known, len(targets.classes)
    learns = settings.unlabelled_weight > 0 and not known.all()
    features, merged = merge_proportional(settings, features)
    model = make_model(settings, features.n_features, targets.classes)
    counts = weights
    weights = counts * np.where(known, _class_weights(settings, targets, counts), settings.unlabelled_weight)
    cut = partial(
        build_shards, features, None, targets.labels, n_weights=model.n_weights, n_labels=n_classes, counts=counts
    )
    # Labelled rows stay with those that constraints tie them to; distributions are kept apart, as they cannot move.
    tied = known & (targets.allowed.max(axis=1) == 1) if learns and settings.constraints else np.zeros_like(known)
    shards = cut(known & ~tied, weights, columns, tied)
    labelled = cut(known, weights, columns) if tied.any() else shards
    start = make_corpus(settings, [shard for shard in labelled if shard.known] or labelled)
    corpus = make_corpus(settings, shards) if learns or settings.constraints else start
    theta, seen = model.initial(), weights[known] @ targets.allowed[known] > 0
    if not seen.all() and not learns:
        unseen = targets.classes[~seen].tolist()[0]
        raise InvalidInputError(
            f"classes must be those of labelled rows where no other row is learnt from, got {unseen!r}, which none "
            "has; leave it out, or add rows without a label"
        )
    if seen.all():
        theta, _, record, status = fit_labelled(settings, model, start, goes_on=learns)
        history: tuple[Record, ...] = (record,)
    estep = estep_of(settings)
    if learns:
        stopping = Stopping(settings.max_iter, settings.tol, scale=float(weights.sum()))
        found = learn_unlabelled(settings, model, corpus, theta, estep, stopping=stopping)
        theta, history, status, reports = found.params, found.history, found.status, found.reports
        alike = _ALIKE
        if settings.criterion is not None and model.prior.l2 > 0:
            alike = (2.0 * settings.m_tol / model.prior.l2) ** 0.5  # so far from 0 an ascent may end
        if not known.any() and not (np.abs(model.split(theta).features) > alike).any():
            raise InvalidInputError(
                "y holds no label, and the constraints expect the same of every row, so that nothing tells the classes "
                "apart; label some rows, or give constraints about groups of rows or about columns"
            )
        posed, step = found.posed.at_prices(found.step)
        distributions = _in_order(posed.collect(_projected, step), targets.allowed.shape)
    else:
        reports = report_labelled(settings, model, corpus, theta, estep)
        tables = make_corpus(settings, shards).collect(_free, model, theta)
        distributions = np.where(known[:, None], targets.allowed, _in_order(tables, targets.allowed.shape))
    return Trained(*coefficients_of(model, theta, merged), distributions, history, status, *reports)


# Features are merged where this share of them, or fewer, is left.
_WORTH_MERGING = 0.9
# Weights below this tell nothing apart.
_ALIKE = 1e-9


def merge_proportional(settings: Any, features: Features) -> tuple[Features, Merged | None]:
    """Features to train on: those that are in proportion as one, where that leaves clearly fewer.

    Under a Gaussian prior they share a direction: fewer parameters, the same optimum.
    """
    if settings.l1_ratio == 0 and features.n_features > features.n_choices:
        found = merge_features(features)
        if found.features.n_features < _WORTH_MERGING * features.n_features:
            return found.features, found
    return features, None


def coefficients_of(model: LogLinearModel, theta: Floats, merged: Merged | None) -> tuple[Floats, Floats]:
    """Weights of all features, shape (n_features, n_classes) or (n_features, 1), and those of the classes."""
    own = model.split(theta)
    table = model.support.table(own.features)
    return table if merged is None else merged.expand(table), own.intercept.copy()


def fitted_model(classifier: Any) -> tuple[LogLinearModel, Floats]:
    """The model of a fitted MaxEntClassifier, and its weights."""
    model = make_model(classifier, classifier.coef_.shape[1], classifier.classes_)
    intercept = classifier.intercept_ if classifier.fit_intercept else classifier.intercept_[:0]
    return model, np.concatenate([np.ascontiguousarray(classifier.coef_.T).ravel(), intercept])


def make_model(settings: Any, n_features: int, classes: NDArray) -> LogLinearModel:
    """The model of a MaxEntClassifier with so many features."""
    pair = len(classes) == 2
    return LogLinearModel(
        Support(n_features, 1 if pair else len(classes)),
        intercept=settings.fit_intercept,
        reference=pair,
        prior=WeightPrior(l2=(1.0 - settings.l1_ratio) / settings.C, l1=settings.l1_ratio / settings.C),
        optimiser=Optimiser(settings.m_steps, settings.m_tol),
        names=classes,
    )


def _class_weights(settings: Any, targets: Targets, weights: Floats) -> Floats:
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


def _in_order(tables: Iterable[tuple[Ints, Floats]], shape: tuple[int, ...]) -> Floats:
    """The rows of the tables of shards, each at its number."""
    found = np.zeros(shape)
    for rows, table in tables:
        found[rows] = table
    return found


def _projected(posed: Posed, step: Step) -> tuple[Ints, Floats]:
    """The numbers of the rows of a shard, and the distributions of their labels."""
    return posed.shard.instances, step.model.distributions(posed.shard, posterior(posed, step).marginals)


def infer(
    settings: Any, model: LogLinearModel, theta: Floats, features: Features, columns: Mapping[str, NDArray]
) -> Floats:
    """Probabilities of the labels of new rows, shape (n_rows, n_classes), under constraints if they are to be met.

    Parameters
    ----------
    settings : MaxEntClassifier
        A fitted one.
    model : LogLinearModel
    theta : ndarray of shape (n_weights,)
    features : Features
    columns : mapping of name -> ndarray of shape (n_rows,)
    """
    shards = build_shards(features, columns=columns, n_labels=model.n_labels)
    corpus = make_corpus(settings, shards)
    found = collect_at_predict(settings, model, theta, corpus, _free, _projected)
    return _in_order(found, (features.n_choices, model.n_labels))


def _free(shard: LogLinearShard, model: LogLinearModel, theta: Floats) -> tuple[Ints, Floats]:
    """The numbers of the rows of a shard, and p(label | x) whatever labels they have."""
    free = replace(shard, labels=None)
    _, marginals = model.structure(free).smoothed_max(model.scores(theta, free), 1.0)
    return shard.instances, marginals.unary.reshape(-1, model.n_labels)
