"""The way of a fit and of a prediction, for all estimators.

An estimator reads its input, makes a model and shards, and says in a `Task` what is to be learnt from them; `train` and
`record` do the rest of a fit. New instances are shards again, of which `posteriors` and `best_structures` make tables
and decisions, under the constraints if they are to be met, and `log_likelihoods` values.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._html import MOST_SHOWN
from spectrem._validate import as_bool
from spectrem.constraints.text import Constraints
from spectrem.corpus import Corpus, Local
from spectrem.estimators.conventions import PerSentence, row_weights, take_course
from spectrem.estimators.sentence_tables import Label, SentenceHeads, SentenceTables, head_label
from spectrem.estimators.shared_parameters import as_sequence, constraint_names
from spectrem.exceptions import InvalidInputError, NoEffectWarning, Unconverged, quoted, setting, warn
from spectrem.inference.dual import compile_slack
from spectrem.learning import (
    Constant,
    EStep,
    Expectations,
    FitResult,
    FitStatus,
    Posed,
    Posteriors,
    Record,
    Schedule,
    Step,
    Stopping,
    pose,
    posterior,
    run_em,
)
from spectrem.models.shards import count_known, in_corpus_order
from spectrem.reports import (
    ConstraintReport,
    ConstraintSummary,
    report_expectations,
    report_posed,
    report_training,
)
from spectrem.structures import Parts

Params = TypeVar("Params")
Result = TypeVar("Result")
Reports: TypeAlias = tuple[tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]
Read: TypeAlias = Callable[[Any, Any, Parts], Result]
"""From a model, a shard and its marginals to what they say of the instances, such as a table of probabilities."""

TINY = 1e-100
"""The probability of an impossible event in an instance that needs one: it costs 230 nats."""
RARE = 1e-9
"""The same when models are compared: it costs 20.7 nats, and a table of a million words still sums to 1.001."""
# Where slack ties thousands of rows together, sharper tolerances take thousands of passes.
_ROUGH = 1e-4


def make_corpus(estimator: Any, shards: Iterable[Any]) -> Corpus:
    """Shards where an estimator's ``corpus`` puts them, else in memory, worked on by its ``n_threads``.

    Raises
    ------
    InvalidInputError
        If ``corpus`` is not callable.
    """
    if estimator.corpus is None:
        return Local(list(shards), estimator.n_threads or os.cpu_count() or 1)
    if not callable(estimator.corpus):
        raise InvalidInputError(
            f"corpus must be a callable that puts shards somewhere, got {quoted(estimator.corpus)}; give for example "
            "functools.partial(Spilled, folder=...), or OnDask for the cluster that was connected to last"
        )
    corpus: Corpus = estimator.corpus(shards)
    return corpus


# ---- training -------------------------------------------------------------------------------------------------------


def estep_of(estimator: Any, constraints: Any = None, *, reference: Callable[[Any], Parts] | None = None) -> EStep:
    """The E-step that the settings of an estimator describe; ``constraints`` take the place of its own."""
    constraints = estimator.constraints if constraints is None else constraints
    return EStep(
        constraints,
        warm_start=bool(as_sequence(constraints)),
        dual_steps=getattr(estimator, "dual_steps", None) or None,
        reference=reference,
        infeasible=estimator.infeasible,
        weight=getattr(estimator, "unlabelled_weight", 1.0),
    )


class Trained(NamedTuple):
    """The result of training.

    Attributes
    ----------
    params : parameters of the model
    history : tuple of Record
    status : FitStatus
    constraints : tuple of ConstraintReport
        Constraints over the corpus, at the parameters learnt.
    summaries : tuple of ConstraintSummary
        Constraints inside instances, and longer ones.
    n_steps : int
        Steps of L-BFGS on labelled instances.
    shards, step : Corpus and Step, or None
        With which `spectrem.learning.posterior` gives the distributions of what is not labelled, under constraints over
        the corpus, too.
    unmet : tuple of warnings
        What is to be said of such constraints where these distributions are looked at.
    """

    params: Any
    history: tuple[Record, ...]
    status: FitStatus
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: tuple[ConstraintSummary, ...] = ()
    n_steps: int = 0
    shards: Corpus | None = None
    step: Step | None = None
    unmet: tuple[warnings.WarningMessage, ...] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """The model, the data and the E-step of a fit, once its input has been read.

    Attributes
    ----------
    model : Model
    corpus : Corpus
    start : callable
        Finds parameters to start from; called once for each start, and not where labels are learnt from first.
    estep : EStep
    labelled : callable or None
        Learns from the labels that are known, before all else: `learn_labels`, or for log-linear models
        `spectrem.estimators.labelled`.
    learns : bool
        Whether there is more to learn than these labels.
    unused : constraints or None
        Those that change nothing where there is not; by default all, unless new instances have to meet them.
    stopping : Stopping or None
        The rule of EM; None for that of the settings.
    all_known : bool
        Whether all labels are known where EM reads them, so that constraints change nothing.
    n_starts : int or None
        How many starts there are; None for ``n_init`` of the settings.
    stage : str
        The name of every start in the folder ``checkpoint`` of the settings, before its number.
    on_iteration : callable or None
        Called in place of that of the settings.
    """

    model: Any
    corpus: Corpus
    start: Callable[[], Any]
    estep: EStep
    labelled: Callable[[], Trained] | None = None
    learns: bool = True
    unused: Constraints | None = None
    stopping: Stopping | None = None
    all_known: bool = False
    n_starts: int | None = None
    stage: str = "start"
    on_iteration: Callable[[Record], None] | None = None


def train(estimator: Any, task: Task) -> Trained:
    """Learn from labels, then from the other instances by EM or by the ascent of a criterion; `fit` calls it.

    `criterion_of` says by which of the two.

    Raises
    ------
    InfeasibleConstraintError
        If the constraints cannot hold, and ``infeasible`` is "raise".

    Warns
    -----
    ConvergenceWarning
        If training ran out of iterations or steps.
    NoEffectWarning
        If there are constraints that change nothing.
    """
    start, n_steps = task.start, 0
    if task.labelled is not None:
        first = task.labelled()
        start, n_steps = lambda: first.params, first.n_steps
        if not task.learns:
            constraints, summaries = _report_labelled(estimator, task, first.params)
            return first._replace(constraints=constraints, summaries=summaries)
    n_starts = task.n_starts or getattr(estimator, "n_init", None)
    stages = ["em"] if n_starts is None else [f"{task.stage}-{number + 1}" for number in range(n_starts)]
    criterion = criterion_of(estimator, task.estep.constraints)

    best: FitResult[Any] | None = None
    for stage in stages:  # the best is kept, and only the warnings of its run are issued
        with warnings.catch_warnings(record=True) if len(stages) > 1 else nullcontext() as caught:
            if caught is not None:
                warnings.simplefilter("always")
            if criterion is None:
                settings = run_settings(estimator, stage, stopping=task.stopping, on_iteration=task.on_iteration)
                result = run_em(task.model, task.corpus, start(), task.estep, **settings)
            else:
                from spectrem.learning import run_ascent  # and with it log-linear models, which an aligner can spare

                settings = {"on_iteration": estimator.on_iteration, "checkpoint": _folder(estimator, "ascent")}
                result = run_ascent(task.model, task.corpus, start(), task.estep, criterion, **settings)
        if best is None or result.history[-1].objective > best.history[-1].objective:
            best, unissued = result, caught or []
    assert best is not None
    for warning in unissued:
        warn(warning.message, warning.category)
    if task.all_known and not getattr(estimator, "project_at_predict", False):
        warn_unused(estimator.constraints, at_predict=hasattr(estimator, "project_at_predict"))
    gamma = best.history[-1].gamma if best.history else asked_gamma(estimator)
    posed, params = best.posed, _possible(best.params) if task.estep.constraints else best.params
    step = Step(task.model, params, gamma, task.estep)
    if isinstance(criterion, Expectations):  # the distributions are those of the model
        reports = report_expectations(posed, task.model, step.params, criterion, task.estep)
        posed, step = pose(task.model, task.corpus, EStep()), step._replace(estep=EStep())
        return Trained(best.params, best.history, best.status, *reports, n_steps, posed.shards, step)
    with warnings.catch_warnings(record=True) as unmet:  # training has warned already
        warnings.simplefilter("always", Unconverged)
        shards, step = posed.at_prices(step)
    reports = report_posed(posed, step, shards) if task.estep.constraints else ((), ())
    return Trained(best.params, best.history, best.status, *reports, n_steps, shards, step, tuple(unmet))


def run_settings(
    estimator: Any,
    stage: str,
    *,
    schedule: Schedule | None = None,
    stopping: Stopping | None = None,
    on_iteration: Callable[[Record], None] | None = None,
) -> dict[str, Any]:
    """The keywords of `spectrem.learning.run_em` by the parameters of an estimator.

    Parameters
    ----------
    estimator : estimator
        With those of `spectrem.estimators.shared_parameters.LearningParameters`.
    stage : str
        The folder of this run inside the estimator's ``checkpoint``, if it has one.
    schedule, stopping, on_iteration
        What to use in place of those of the estimator.
    """
    return {
        "schedule": schedule or estimator.schedule or Constant(estimator.gamma),
        "stopping": stopping or Stopping(estimator.max_iter, estimator.tol),
        "on_iteration": on_iteration or estimator.on_iteration,
        "checkpoint": _folder(estimator, stage),
    }


def _folder(estimator: Any, stage: str) -> Path | None:
    """The folder of a run inside the estimator's ``checkpoint``, if it has one."""
    checkpoint = getattr(estimator, "checkpoint", None)
    return None if checkpoint is None else Path(checkpoint) / stage


def criterion_of(estimator: Any, constraints: Any) -> Expectations | Posteriors | None:
    """The criterion that the weights of a log-linear model climb by gradient; None for EM, and for other models.

    Beside the criterion that the estimator has, the log-likelihood of what is known, at gamma = 1 without constraints
    and without a ``schedule``: turns of EM, whose every M-step is a maximisation, end far from its maximum.
    """
    criterion: Expectations | Posteriors | None = getattr(estimator, "criterion", None)
    plain = hasattr(estimator, "criterion") and estimator.schedule is None and estimator.gamma == 1
    return Posteriors() if criterion is None and plain and not constraints else criterion


def learn_labels(model: Any, corpus: Corpus, params: Any) -> Trained:
    """The M-step of the shards whose labels are known, from ``params`` on; the record is of a pass after it."""
    known = corpus.part(np.flatnonzero(list(corpus.collect(count_known))).tolist())
    fitted = run_em(model, known, params, stopping=Stopping(2, 0.0))
    return Trained(fitted.params, fitted.history[-1:], FitStatus.CONVERGED)


def _report_labelled(estimator: Any, task: Task, params: Any) -> Reports:
    """Compile constraints where nothing is learnt under them, and hold those against the labels that change nothing.

    Raises
    ------
    InvalidInputError, InfeasibleConstraintError
        As if there were something to be learnt.

    Warns
    -----
    NoEffectWarning
        If there are constraints that change nothing.
    """
    if not task.estep.constraints:
        return (), ()
    from spectrem.learning.ascent import pose_for  # and with it log-linear models

    criterion, estep = getattr(estimator, "criterion", None), replace(task.estep, dual_steps=None)
    posed = pose_for(criterion, task.model, task.corpus, params, estep)
    unused = estimator.constraints
    if task.unused is not None:
        unused = task.unused
        estep = replace(estep, constraints=unused)
        posed = pose(task.model, task.corpus, estep)
    elif estimator.project_at_predict:
        return (), ()
    if isinstance(criterion, Expectations):
        reports = report_expectations(posed, task.model, params, criterion, estep)
    else:
        step = Step(task.model, params, asked_gamma(estimator), estep)
        reports = report_posed(posed, step) if as_sequence(unused) else ((), ())
    warn_unused(unused, at_predict=not estimator.project_at_predict)
    return reports


def warn_unused(constraints: Constraints, *, at_predict: bool = False) -> None:
    """Warn of constraints, if there are any, that change nothing, since all labels that are learnt from are given.

    ``at_predict`` says that predictions could meet them.
    """
    if as_sequence(constraints):
        warn(
            "constraints change nothing where all that is learnt from has its labels, got "
            f"{constraint_names(constraints)}; leave them out, or add rows or sentences without labels"
            f"{', or let predictions meet them, with project_at_predict' * at_predict}",
            NoEffectWarning,
        )


def asked_gamma(estimator: Any) -> float:
    """The gamma that training is to end at, by the parameters of an estimator."""
    criterion = getattr(estimator, "criterion", None)
    if criterion is None:
        return float(list((estimator.schedule or Constant(estimator.gamma)).gammas())[-1])
    return float(getattr(criterion, "gamma", 1.0))


def record(
    estimator: Any,
    trained: Trained,
    n_instances: int,
    settings: Mapping[str, object],
    *,
    unit: str = "sentences",
    notes: tuple[str, ...] = (),
) -> None:
    """Set the attributes of an estimator that describe its training; ``settings`` and ``notes`` are for the report."""
    take_course(estimator, trained.history, trained.status)
    estimator.gamma_ = trained.history[-1].gamma
    settings = {**settings, "constraints": constraint_names(estimator.constraints)}
    estimator.report_ = report_training(
        estimator, n_instances, settings, trained.constraints, unit=unit, summaries=trained.summaries, notes=notes
    )


# ---- new instances --------------------------------------------------------------------------------------------------


def projects(estimator: Any) -> bool:
    """Whether posteriors of new instances have to meet the constraints of a fitted estimator."""
    return as_bool(estimator.project_at_predict, "project_at_predict") and bool(as_sequence(estimator.constraints))


def table(model: Any, shard: Any, marginals: Parts) -> Floats:
    """The distributions that a model makes of marginals, as one array."""
    distributions: Floats = model.distributions(shard, marginals)
    return distributions


def posteriors(
    estimator: Any, model: Any, params: Any, corpus: Corpus, read: Read[Any] = table, *, best: str | None = None
) -> Iterator[Any]:
    """Posteriors of new instances as ``read`` gives them, shard by shard, under the constraints if they are to be met.

    Parameters
    ----------
    estimator : estimator
        Fitted; with project_at_predict, constraints, infeasible and gamma_.
    model, params
        Where parameters are tables of probabilities, impossible instances are read at `floored` ones.
    corpus : Corpus
    read : callable (model, shard, marginals) -> result
        A function of a module, which corpora on other machines can call.
    best : str, optional
        What structures are called, such as "trees", if under the constraints the best ones are sought in the place of
        posteriors.

    Raises
    ------
    InvalidInputError
        If the best structures are sought under constraints over the corpus.
    InfeasibleConstraintError
        If constraints over the corpus cannot hold for these instances.

    Warns
    -----
    ConvergenceWarning
        If they are not met.
    """
    if not projects(estimator):
        return corpus.collect(free_posteriors, model, params, read)
    gamma = estimator.gamma_ if best is None else -np.inf
    return projected(estimator, model, params, corpus, estimator.constraints, gamma, read, best=best)


def projected(
    estimator: Any,
    model: Any,
    params: Any,
    corpus: Corpus,
    constraints: Any,
    gamma: float,
    read: Read[Any] = table,
    *,
    best: str | None = None,
) -> Iterator[Any]:
    """Posteriors of new instances, shard by shard, under constraints at ``gamma``; see `posteriors`."""
    estep = EStep(constraints, infeasible=estimator.infeasible)
    posed = pose(model, corpus, estep)
    rows = posed.rows
    if best is not None and rows is not None:
        raise InvalidInputError(
            f"{setting('decode')} must be posterior where {setting('project_at_predict')} meets constraints over the "
            f"corpus ({rows.blocks[0].name!r}), got viterbi: the best {best} that meet them cannot be found sentence "
            f"by sentence; set {setting('decode', 'posterior')}"
        )
    if gamma > 0 and rows is not None and not compile_slack(rows.blocks, np.zeros(len(rows.bounds), int), 1).is_box:
        estep = replace(estep, tol=_ROUGH)
    shards, step = posed.at_prices(Step(model, _possible(params), gamma, estep))
    return shards.collect(_projected, step, read)


def learnt_posteriors(trained: Trained, read: Read[Any] = table) -> Iterator[Any]:
    """Posteriors of the training instances, shard by shard, under the constraints of training."""
    assert trained.shards is not None
    for warning in trained.unmet:
        warn(warning.message, warning.category)
    return trained.shards.collect(_projected, trained.step, read)


def best_structures(
    estimator: Any, model: Any, params: Any, corpus: Corpus, read: Read[Ints], structures: str, *, least: int = 0
) -> Iterator[Ints]:
    """The best structure of every new instance, shard by shard, in the form of its family.

    Parameters
    ----------
    estimator, model, params, corpus
        As for `posteriors`.
    read : callable (model, shard, marginals) -> ndarray
        What marginals say where constraints are to be met: those of the best structures that meet them or, with the
        setting ``decode="posterior"``, posteriors.
    structures : str
        What they are called.
    least : int
        The smallest number that says something of a possible instance.
    """
    if estimator.decode == "posterior":
        return posteriors(estimator, model, params, corpus, read)
    if projects(estimator):
        return posteriors(estimator, model, params, corpus, read, best=structures)
    return corpus.collect(_best, model, params, least)


@dataclass(frozen=True, eq=False)
class NewSentences:
    """New sentences as a fitted estimator reads them; results are in their order, whatever the order of the shards.

    Attributes
    ----------
    estimator : estimator
        As for `posteriors`.
    model, params
    shards : list of shards
    lengths : ndarray of shape (n_sentences,), int64
        Words of all sentences.
    words : sequence
        Those of all sentences, one after the other, to be shown; empty where they are not known.
    """

    estimator: Any
    model: Any
    params: Any
    shards: list[Any]
    lengths: Ints
    words: Sequence[Any] = ()

    def tables(self, sizes: Ints | None = None) -> PerSentence:
        """The posteriors, an array for every sentence with so many rows, by default one for every word."""
        sizes, corpus = self.lengths if sizes is None else sizes, make_corpus(self.estimator, self.shards)
        pieces = posteriors(self.estimator, self.model, self.params, corpus)
        return PerSentence.cut(in_corpus_order(self.shards, pieces, sizes), sizes)

    def shown(self, tables: Iterable[Floats], label: Label) -> SentenceTables:
        """Tables of the sentences as a list that notebooks show with words and labels."""
        return SentenceTables(tables, self._first_words, label)

    @property
    def _first_words(self) -> list[Sequence[Any]]:
        """The words of those sentences that notebooks show."""
        ends = np.cumsum(self.lengths[:MOST_SHOWN]).tolist() if len(self.words) else []
        return [self.words[a:b] for a, b in pairwise([0, *ends])]

    def arcs(self) -> SentenceTables:
        """The posteriors of arcs, an array of shape (n_words, n_words) for every sentence."""
        flat = self.tables(self.lengths**2)
        return self.shown((one.reshape(n, n) for n, one in zip(self.lengths.tolist(), flat, strict=True)), head_label)

    def heads(self, read: Read[Ints], *, least: int = 0) -> SentenceHeads:
        """The heads of the best trees; see `best_structures`."""
        heads = PerSentence.cut(self.structures(read, "trees", least=least), self.lengths)
        return SentenceHeads(heads, self._first_words)

    def structures(self, read: Read[Ints], structures: str, sizes: Ints | None = None, *, least: int = 0) -> Ints:
        """The best structures, the rows of sentence after sentence; see `best_structures`."""
        corpus = make_corpus(self.estimator, self.shards)
        pieces = best_structures(self.estimator, self.model, self.params, corpus, read, structures, least=least)
        return in_corpus_order(self.shards, pieces, self.lengths if sizes is None else sizes)

    def values(self, function: Callable[..., Floats], *arguments: Any) -> Floats:
        """The number of every sentence that ``function(shard, *arguments)`` finds, shape (n_sentences,)."""
        pieces = make_corpus(self.estimator, self.shards).collect(function, *arguments)
        return in_corpus_order(self.shards, pieces, np.ones(len(self.lengths), np.int64))


def log_likelihoods(shard: Any, model: Any, params: Any, finite: bool = False) -> Floats:
    """The log-likelihood of every instance of a shard, nats.

    -inf where it is impossible; if ``finite``, events of probability 0 count as `RARE` there.
    """
    structure = model.structure(shard)
    values, _ = structure.smoothed_max(model.scores(params, shard), 1.0)
    impossible = np.isneginf(values)
    if finite and impossible.any():
        scores = model.scores(floored(params, RARE), shard)
        values[impossible] = structure.smoothed_max(scores, 1.0, active=impossible)[0][impossible]
    return values


def log_likelihood(shard: Any, values: Callable[..., Floats], *arguments: Any) -> float:
    """The weighted sum of the log-likelihoods of the instances of a shard, nats."""
    return _weighted_sum(shard.weights, values(shard, *arguments))


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


def floored(params: Params, least: float = TINY) -> Params:
    """Tables of probabilities under which every instance is possible, and others are as probable as they were."""
    tables = {field.name: getattr(params, field.name) for field in fields(params)}  # type: ignore[arg-type]
    arrays = {name: np.maximum(table, least) for name, table in tables.items() if isinstance(table, np.ndarray)}
    return replace(params, **arrays)  # type: ignore[type-var]


def _possible(params: Any) -> Any:
    """Tables of probabilities `floored`; weights of log-linear models, under which all is possible, as they are."""
    return params if isinstance(params, np.ndarray) else floored(params)


def free_posteriors(shard: Any, model: Any, params: Any, read: Read[Result], gamma: float = 1.0) -> Result:
    """Posteriors of a shard without constraints, as ``read`` gives them."""
    structure, gamma = model.structure(shard), max(gamma, 0.0)
    values, marginals = structure.smoothed_max(model.scores(params, shard), gamma)
    impossible = np.isneginf(values)
    if impossible.any() and not isinstance(params, np.ndarray):
        scores = model.scores(floored(params), shard)
        marginals = marginals.map(np.add, structure.smoothed_max(scores, gamma, active=impossible)[1])
    return read(model, shard, marginals)


def _projected(posed: Posed, step: Step, read: Read[Result]) -> Result:
    return read(step.model, posed.shard, posterior(posed, step).marginals)


def _best(shard: Any, model: Any, params: Any, least: int) -> Ints:
    structure = model.structure(shard)
    best: Ints = structure.decode(model.scores(params, shard))
    impossible = best < least
    if impossible.any() and not isinstance(params, np.ndarray):
        best[impossible] = structure.decode(model.scores(floored(params), shard))[impossible]
    return best


def _weighted_sum(weights: Floats, values: Floats) -> float:
    """Sum in which weight 0 leaves out even -inf."""
    counted = weights > 0
    return float(np.sum(weights[counted] * values[counted]))
