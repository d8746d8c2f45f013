"""From sentences whose labels are known, in part, or not to the trained model of types and relations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints import Constraint, E, check_columns, check_values, part
from spectrem.constraints.compilation.compile import flatten
from spectrem.corpus import Corpus
from spectrem.data import RelationSentence
from spectrem.estimators.conventions import row_weights
from spectrem.estimators.extraction.guide import Guide, Names, exact, learn_guide, make_member
from spectrem.estimators.extraction.input import (
    Indexes,
    Mentions,
    known_sentences,
    labels_of,
    learn_sentences,
    number_labels,
    relations_of,
)
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.table_input import row_columns
from spectrem.estimators.training import estep_of, learn_unlabelled, record_labelled, report_labelled
from spectrem.exceptions import InvalidInputError
from spectrem.learning import FitStatus, Record
from spectrem.models.loglinear import JointModel, build_joint_shards
from spectrem.reports import ConstraintReport, ConstraintSummary


class Trained(NamedTuple):
    """What training leaves.

    Attributes
    ----------
    indexes : Indexes
    names : Names
    guide : Guide or None
    model : JointModel
    theta : ndarray of shape (n_weights,)
    n_known : int
        Sentences of which all labels are known.
    history : tuple of Record
    status : FitStatus
    constraints : tuple of ConstraintReport
    summaries : tuple of ConstraintSummary
    """

    indexes: Indexes
    names: Names
    guide: Guide | None
    model: JointModel
    theta: Floats
    n_known: int
    history: tuple[Record, ...]
    status: FitStatus
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: tuple[ConstraintSummary, ...] = ()


def train(
    settings: Any, sentences: Sequence[RelationSentence], sample_weight: ArrayLike | None, columns: Any
) -> Trained:
    """Train with the settings of a RelationExtractor, which have been checked.

    Raises
    ------
    InvalidInputError
        If no sentence has all labels, or constraints name what there is not.
    """
    n = len(sentences)
    counts = row_weights(sample_weight, n, "sentence")
    present = counts > 0
    given = row_columns((columns,), n, "RelationExtractor")
    names = _names(settings, sentences)
    check_constraints(settings.constraints, names, given)
    data, indexes = learn_sentences(sentences, settings.min_count)
    types = number_labels(chain.from_iterable(one.types for one in sentences), names.types, "type")
    related = (relations_of(one, settings.no_relation) for one in sentences)
    relations = number_labels(chain.from_iterable(related), names.relations, "relation")
    known = known_sentences(n, (types, data.mention_owner), (relations, data.pair_owner))
    if not ((known & present)[data.mention_owner].any() and (known & present)[data.pair_owner].any()):
        raise InvalidInputError(
            f"sentences must hold one with two mentions whose types and relations are all known, got none in {n}; "
            "label some"
        )
    guide, features = None, data.pair
    if settings.type_features:
        guide, features = learn_guide(settings, data, indexes, sentences, names, (types, relations), counts)
    model = make_model(settings, names, data.mention.n_features, features.n_features)
    learns = settings.unlabelled_weight > 0 and bool((~known & present).any())
    weights = counts * np.where(known, 1.0, settings.unlabelled_weight)
    members = data.members(features, labels_of(types, len(names.types)), labels_of(relations, len(names.relations)))
    sizes = {"mention": len(names.types), "pair": len(names.relations)}

    def cut(apart: Bools, weights: Floats, tied: Bools | None = None) -> Corpus:
        shards = build_joint_shards(
            members,
            sizes,
            apart,
            weights,
            given,
            tied,
            counts,
            present=present,
            n_instances=n,
            n_weights=model.n_weights,
        )
        return make_corpus(settings, shards)

    started = time.perf_counter()
    whole = replace(model, members={key: exact(own, settings.m_tol) for key, own in model.members.items()})
    theta = whole.fit(cut(known, np.where(known, weights, 0.0)))
    constraints = [
        *flatten(settings.constraints),
        *_count_constraints(settings, names, relations, known, data, counts),
    ]
    # Labelled sentences stay with those that constraints over several sentences tie them to.
    several = [one for one in constraints if not is_inside(one)]
    tied, estep = known & bool(several), estep_of(settings, constraints)
    corpus, n_known = cut(known & ~tied, weights, tied), int(known.sum())
    if not learns:
        cost = cut(known, np.where(known, weights, 0.0)).sum(_cost, whole, theta)
        record = record_labelled(settings, whole, theta, whole.log_prior(theta) - cost, started)
        if settings.on_iteration is not None:
            settings.on_iteration(record)
        unused = several if settings.project_at_predict else constraints
        reports = report_labelled(settings, model, corpus, theta, estep, unused)
        return Trained(indexes, names, guide, model, theta, n_known, (record,), FitStatus.CONVERGED, *reports)
    found = learn_unlabelled(settings, model, corpus, theta, estep)
    return Trained(indexes, names, guide, model, found.params, n_known, found.history, found.status, *found.reports)


def make_model(settings: Any, names: Names, n_mention: int, n_pair: int) -> JointModel:
    """The model of a RelationExtractor with so many features of mentions and of pairs."""
    members = {
        "mention": make_member(settings, n_mention, names.types),
        "pair": make_member(settings, n_pair, names.relations),
    }
    return JointModel(members, "kind", "sentence", labels={"mention": "type", "pair": "relation"})


def is_inside(constraint: Any) -> bool:
    """Whether a constraint of the language speaks of every sentence by itself."""
    return isinstance(constraint, Constraint) and "sentence" in constraint.groups


def check_constraints(constraints: Any, names: Names, columns: Mapping[str, NDArray]) -> None:
    """Raise `InvalidInputError` if a constraint names a type, relation or value of a column that does not exist."""
    check_values(constraints, "kind", ("mention", "pair"))
    check_values(constraints, "type", names.types)
    check_values(constraints, "relation", names.relations)
    check_columns(constraints, columns)


def _names(settings: Any, sentences: Iterable[RelationSentence]) -> Names:
    """All types and relations."""
    types, relations = settings.types, settings.relations
    if types is None:
        types = sorted({kind for one in sentences for kind in one.types if kind is not None})
    if relations is None:
        found = {relation for one in sentences for relation in (one.relations or {}).values() if relation is not None}
        relations = sorted(found)
    if not types or not set(relations) - {settings.no_relation}:
        raise InvalidInputError(
            f"sentences must hold a type and a relation, got {list(types)} and {list(relations)}; label some, or list "
            "all in types and relations"
        )
    others = (name for name in relations if name != settings.no_relation)
    return Names(tuple(types), (settings.no_relation, *others))


def _count_constraints(
    settings: Any, names: Names, relations: Ints, known: Bools, data: Mentions, weights: Floats
) -> list[Constraint]:
    """Bounds on the expected number of pairs with every relation, by its share of the labelled pairs."""
    if settings.count_margin is None:
        return []
    labelled = known[data.pair_owner]
    counts = np.bincount(relations[labelled], weights[data.pair_owner[labelled]], len(names.relations))
    shares, margin = counts / max(counts.sum(), np.finfo(float).tiny), settings.count_margin
    pairs = E.count(part("kind") == "pair")
    return [
        E[part("relation") == name]
        .between(float((1 - margin) * share) * pairs, float((1 + margin) * share) * pairs)
        .named(f"number of {name}")
        for name, share in zip(names.relations[1:], shares[1:].tolist(), strict=True)
        if share > 0
    ]


def _cost(shard: Any, model: JointModel, theta: Floats) -> float:
    """The log-normalisers less the scores of the labels of a shard, nats; 0 where they are not known."""
    if not shard.known:
        return 0.0
    values, _ = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0, weights=shard.weights)
    return model.log_normaliser(theta, shard) - float(shard.weights @ values)
