"""What models of probability tables share: training from several starts, floors, log-likelihoods and their mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.conventions import row_weights, take_course
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.estimators.training import run_stage, warn_unused
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, FitResult, Step, keep_best
from spectrem.reports import ConstraintReport, ConstraintSummary, report_posed, report_training

Params = TypeVar("Params")

TINY = 1e-100
"""The probability of an impossible event in an instance that needs one: it costs 230 nats."""
RARE = 1e-9
"""The same when models are compared: it costs 20.7 nats, and a table of a million words still sums to 1.001."""


class Trained(NamedTuple):
    """The result of training.

    Attributes
    ----------
    result : FitResult
        The result of the start whose last objective is the largest.
    log_likelihood : float
        The log-likelihood of the training data, nats.
    constraints : tuple of ConstraintReport
        Reports of the constraints over the corpus, at the parameters learned.
    summaries : tuple of ConstraintSummary
        Summaries of the constraints inside sentences, and of longer ones.
    """

    result: FitResult[Any]
    log_likelihood: float
    constraints: tuple[ConstraintReport, ...]
    summaries: tuple[ConstraintSummary, ...]


def train_from_starts(
    estimator: Any,
    model: Any,
    corpus: Corpus,
    start: Callable[[], Any],
    estep: EStep,
    log_likelihood: Callable[[Any], float],
    *,
    labelled: bool = False,
) -> Trained:
    """Run EM from every start and keep the best result; to be called by a function that ``fit`` calls.

    Parameters
    ----------
    estimator : estimator
        With ``n_init`` if it knows several starts.
    model, corpus, estep
        As for `spectrem.learning.run_em`.
    start : callable
        Finds parameters to start from; called once for each start.
    log_likelihood : callable
        From parameters to that of the corpus, in nats.
    labelled : bool
        Whether all instances are labelled, so that constraints change nothing in training.

    Warns
    -----
    NoEffectWarning
        If there are constraints that change nothing.
    """
    n_starts = getattr(estimator, "n_init", None)

    def run(stage: str) -> FitResult[Any]:
        return run_stage(estimator, model, corpus, start(), estep, stage)

    stages = [""] if n_starts is None else [f"start-{number + 1}" for number in range(n_starts)]
    result = keep_best([partial(run, stage) for stage in stages], lambda one: one.history[-1].objective)
    if labelled and not estimator.project_at_predict:
        warn_unused(estimator.constraints, at_predict=True)
    step = Step(model, floored(result.params), result.history[-1].gamma, estep)
    reports = report_posed(result.posed, step) if estep.constraints else ((), ())
    return Trained(result, log_likelihood(result.params), *reports)


def record_training(estimator: Any, n_sentences: int, settings: dict[str, Any], trained: Trained) -> None:
    """Set the attributes of an estimator that tell of its training; ``settings`` are for the report."""
    take_course(estimator, trained.result.history, trained.result.status)
    settings["constraints"] = constraint_names(estimator.constraints)
    estimator.report_ = report_training(
        estimator, n_sentences, settings, trained.constraints, unit="sentences", summaries=trained.summaries
    )


def floored(params: Params, least: float = TINY) -> Params:
    """Parameters under which every instance is possible, and others are as probable as they were."""
    tables = {field.name: getattr(params, field.name) for field in fields(params)}  # type: ignore[arg-type]
    arrays = {name: np.maximum(table, least) for name, table in tables.items() if isinstance(table, np.ndarray)}
    return replace(params, **arrays)  # type: ignore[type-var]


def log_likelihood(shard: Any, log_likelihoods: Callable[..., Floats], *arguments: Any) -> float:
    """The weighted sum of the log-likelihoods of the instances of a shard, nats."""
    return _weighted_sum(shard.weights, log_likelihoods(shard, *arguments))


def mean_log_likelihood(name: str, values: Floats, lengths: Ints, sample_weight: Any) -> float:
    """Mean log-likelihood per word of sentences, nats.

    Raises
    ------
    InvalidInputError
        If there are no words with weight above 0.
    """
    weights = row_weights(sample_weight, len(values), "sentence")
    words = float(weights @ lengths)
    if words <= 0:
        raise InvalidInputError(f"{name} must hold at least one word to be scored, got none with weight above 0")
    return _weighted_sum(weights, values) / words


def _weighted_sum(weights: Floats, values: Floats) -> float:
    """Sum in which weight 0 leaves out even -inf."""
    counted = weights > 0
    return float(np.sum(weights[counted] * values[counted]))
