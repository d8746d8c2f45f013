"""From what views see to models that agree, and from agreed models to distributions of labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.crf.crf_tagger import with_pairs
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.projecting import projects
from spectrem.estimators.training import estep_of, learn_unlabelled, record_labelled, report_labelled
from spectrem.estimators.views.agreement import ties_of
from spectrem.estimators.views.input import NewData, TrainingData
from spectrem.estimators.views.kinds import Seen, label_column
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, FitStatus, Posed, Record, Step, Stopping, pose, posterior
from spectrem.models.loglinear import (
    AgreedModel,
    JointModel,
    JointShard,
    Member,
    Optimiser,
    PairModel,
    build_joint_shards,
    build_shards,
)
from spectrem.models.loglinear.optimise import fit_known
from spectrem.reports import ConstraintReport, ConstraintSummary
from spectrem.structures._ragged import offsets_of, ranges_of


class Trained(NamedTuple):
    """What training leaves.

    Attributes
    ----------
    weights : dict of view -> ndarray of shape (n_weights,)
    history : tuple of Record
    status : FitStatus
    tables : dict of view -> ndarray of shape (n_choices, n_labels)
        Distributions of the labels of the training data, under agreement and constraints.
    distances : pair of float
        How far apart the views were before training together and are after it, nats per instance that is not labelled.
    constraints : tuple of ConstraintReport
    summaries : tuple of ConstraintSummary
    """

    weights: dict[str, Floats]
    history: tuple[Record, ...]
    status: FitStatus
    tables: dict[str, Floats]
    distances: tuple[float, float]
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: tuple[ConstraintSummary, ...] = ()


class Together(NamedTuple):
    """How the models of views are one: `AgreedModel`, or `JointModel` with constraints that tie the views."""

    model: AgreedModel | JointModel
    ties: list[Any]


def put_together(settings: Any, models: Mapping[str, Any], names: Mapping[str, Sequence[Any]]) -> Together:
    """One model of several views, as ``settings.agreement`` says."""
    if settings.agreement == "full":
        if any(isinstance(model, PairModel) for model in models.values()):
            models = {
                name: model if isinstance(model, PairModel) else PairModel(model) for name, model in models.items()
            }
        agreed: AgreedModel = with_pairs(AgreedModel(models), settings.constraints)
        return Together(agreed, [])
    chains = [model.chain for model in models.values()]
    columns = {name: label_column(name, chain) for name, chain in zip(models, chains, strict=True)}
    per = ["row", "token"] if all(chains) else ["row"]
    return Together(JointModel(models, labels=columns), ties_of(settings, names, columns, per))


def train(settings: Any, data: TrainingData, weights: Floats) -> Trained:
    """Train views with the settings of `Views`, which have been checked; ``weights`` are those of instances.

    Raises
    ------
    InvalidInputError
        If no view has a label, or all have them all.
    """
    seen, n_instances = data.seen, data.n_instances
    members = {name: own.member for name, own in seen.items()}
    everything = np.arange(n_instances)
    place = {name: everything if own.owners is None else own.owners for name, own in members.items()}
    known = _everywhere({name: (own.known, place[name]) for name, own in seen.items()}, n_instances)
    labelled = ~_everywhere({name: (~own.known, place[name]) for name, own in seen.items()}, n_instances)
    _check_labels(settings, seen, place, known | (weights == 0), labelled)
    started = time.perf_counter()
    models, found = {}, {}
    for name, own in seen.items():
        models[name], found[name] = _start(settings, own, weights[place[name]])
    together = put_together(settings, models, {name: own.names for name, own in seen.items()})
    model, theta = together.model, np.concatenate([weights for weights, _ in found.values()])
    n_views = len(seen) if isinstance(model, AgreedModel) else 1
    learns = settings.unlabelled_weight > 0
    # Labelled rows stay with those that constraints tie them to; distributions are kept apart, as they cannot move.
    tied = np.zeros(n_instances, np.bool_)
    if learns and settings.constraints and not any(model.chain for model in models.values()):
        tied = known & _everywhere({name: (~own.soft, place[name]) for name, own in seen.items()}, n_instances)
    weighed = weights * np.where(known, 1.0, settings.unlabelled_weight or 1.0)
    sizes = {name: model.n_labels for name, model in models.items()}
    shards = build_joint_shards(
        members, sizes, known & ~tied, weighed, data.columns, tied, weights,
        n_instances=n_instances, n_weights=model.n_weights,
    )  # fmt: skip
    corpus = make_corpus(settings, shards)
    mass = float(weights[~known].sum())
    before = distance(together, corpus, theta, settings.infeasible) / mass if mass else 0.0
    constraints = [*together.ties, *settings.constraints]
    estep = estep_of(settings, constraints)
    if not learns:
        value = -sum(value for _, value in found.values()) / n_views
        record = record_labelled(settings, model, theta, value, started)
        if settings.on_iteration is not None:
            settings.on_iteration(record)
        free = Step(model, theta, 1.0, EStep(together.ties, infeasible=settings.infeasible))
        tables = collect_tables(corpus, free, members)
        unused = () if settings.project_at_predict else settings.constraints
        reports = report_labelled(settings, model, corpus, theta, estep, unused)
        return Trained(model.split(theta), (record,), FitStatus.CONVERGED, tables, (before, before), *reports)
    stopping = Stopping(settings.max_iter, settings.tol, scale=float(weighed.sum()))
    result = learn_unlabelled(settings, model, corpus, theta, estep, stopping=stopping)
    tables = _tables(*result.posed.at_prices(result.step), members)
    after = distance(together, corpus, result.params, settings.infeasible) / mass
    return Trained(model.split(result.params), result.history, result.status, tables, (before, after), *result.reports)


def _everywhere(masks: Mapping[str, tuple[Bools, Ints]], n: int) -> Bools:
    """Instances where a mask of all views is true throughout, shape (n,)."""
    return np.asarray(sum(np.bincount(owner, ~mask, n) for mask, owner in masks.values()) == 0)


def _check_labels(
    settings: Any, seen: Mapping[str, Seen], place: Mapping[str, Ints], known: Bools, labelled: Bools
) -> None:
    if not labelled.any() and not settings.constraints:
        raise InvalidInputError(
            "y must label some row, got none; without labels or constraints nothing says what labels mean"
        )
    if settings.unlabelled_weight > 0 and known.all():
        raise InvalidInputError(
            f"views must share some row that is not labelled in all of them, got {len(known)} that are; add rows "
            "without a label, or set unlabelled_weight=0 to train the views by themselves"
        )
    for name, own in seen.items():
        mixed = own.soft & ~known[place[name]]  # those of weight 0 pass
        if mixed.any():
            raise InvalidInputError(
                f"y[{name!r}] must have labels and no distributions where another view has no label, got a "
                f"distribution in row {int(np.argmax(mixed))}; give the most probable label, or none"
            )


def _start(settings: Any, seen: Seen, weights: Floats) -> tuple[Any, tuple[Floats, float]]:
    """The model of a view, the weights that are best for its own labels, and minus the objective there, nats."""
    model, member = seen.model, seen.member
    if not seen.complete:
        return model, (model.initial(), 0.0)
    shards = build_shards(
        member.features, member.lengths, member.labels, seen.known, weights,
        n_weights=model.n_weights, n_labels=model.n_labels,
    )  # fmt: skip
    best = fit_known(_exact(model), make_corpus(settings, [shard for shard in shards if shard.known]))
    return model, (best.point, best.value)


def _exact(model: Any) -> Any:
    """The same model with as many steps of an M-step as its tolerance needs."""
    if isinstance(model, PairModel):
        return replace(model, model=_exact(model.model))
    return replace(model, optimiser=Optimiser(None, model.optimiser.tol, model.optimiser.memory))


def distance(together: Together, corpus: Corpus, theta: Floats, infeasible: Any) -> float:
    """How far apart the distributions of the views are, nats over all instances as they count, at gamma = 1.

    The Kullback-Leibler divergence from the nearest distributions that agree, over the number of views: with two, the
    Bhattacharyya distance ([Ganchev2010] props 6.1 to 6.3).
    """
    model = together.model
    if isinstance(model, AgreedModel):
        return float(corpus.sum(_distance, model, theta))
    estep = EStep(together.ties, infeasible=infeasible)
    found, _ = pose(model, corpus, estep).expect(Step(model, theta, 1.0, estep))
    return float(found.free_objective - found.objective) / len(model.members)


def _distance(shard: JointShard, model: AgreedModel, theta: Floats) -> float:
    if shard.known:
        return 0.0
    agreed, _ = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
    own, total, counts = model.split(theta), 0.0, shard.weights if shard.counts is None else shard.counts
    for name, view in model.members.items():
        values, _ = view.structure(shard.members[name]).smoothed_max(view.scores(own[name], shard.members[name]), 1.0)
        total += float(counts @ (values - agreed))
    return total / len(model.members)


def infer(settings: Any, together: Together, theta: Floats, data: NewData) -> dict[str, Floats]:
    """Distributions of the labels of new instances, one row for every choice of every view."""
    model = together.model
    constrained = projects(settings)
    estep = EStep([*together.ties, *(settings.constraints if constrained else ())], infeasible=settings.infeasible)
    step = Step(model, theta, settings.gamma_ if constrained else 1.0, estep)
    return collect_tables(new_corpus(settings, model, data), step, data.members)


def new_corpus(settings: Any, model: Any, data: NewData) -> Corpus:
    """Instances without labels where the corpus of an estimator lives."""
    sizes = {name: view.n_labels for name, view in model.members.items()}
    shards = build_joint_shards(data.members, sizes, columns=data.columns, n_instances=data.n_instances)
    return make_corpus(settings, shards)


def collect_tables(corpus: Corpus, step: Step, members: Mapping[str, Member]) -> dict[str, Floats]:
    """Distributions of the labels of all choices of every view, shape (n_choices, n_labels), under constraints."""
    return _tables(*pose(step.model, corpus, step.estep).at_prices(step), members)


def _tables(posed: Corpus, step: Step, members: Mapping[str, Member]) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for own in posed.collect(_shard_tables, step):
        for name, (instances, table) in own.items():
            member = members[name]
            if name not in found:
                found[name] = np.zeros((member.features.n_choices, table.shape[1]))
            starts = offsets_of(member.sizes)[:-1]
            found[name][ranges_of(starts[instances], member.sizes[instances])] = table
    return found


def _shard_tables(posed: Posed, step: Step) -> dict[str, tuple[Ints, Floats]]:
    """Of every view, the numbers of its instances in a shard, and the distributions of their labels."""
    shard = posed.shard
    tables = step.model.distributions(shard, posterior(posed, step).marginals)
    if not isinstance(tables, dict):
        tables = dict.fromkeys(shard.members, tables)
    return {name: (shard.members[name].instances, table) for name, table in tables.items()}
