"""From a trained model and new sentences to types, relations and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.constraints.compilation.compile import flatten
from spectrem.data import RelationSentence
from spectrem.estimators.extraction.guide import describe_pairs
from spectrem.estimators.extraction.input import encode_sentences
from spectrem.estimators.extraction.training import check_constraints, is_inside
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.projecting import projects
from spectrem.estimators.table_input import row_columns
from spectrem.learning import EStep, Posed, Step, pose, posterior
from spectrem.models.loglinear import build_joint_shards


class RelationPosteriors(NamedTuple):
    """Probabilities of the labels of a sentence.

    Attributes
    ----------
    types : ndarray of shape (n_mentions, n_types)
    relations : ndarray of shape (n_pairs, n_relations)
        Of all ordered pairs of mentions, in the order of ``RelationSentence.pairs``.
    """

    types: Floats
    relations: Floats


def infer(
    extractor: Any, sentences: Sequence[RelationSentence], columns: Any, *, best: bool, bonus: float = 0.0
) -> list[RelationPosteriors]:
    """Posteriors of new sentences, or indicators of their best labels, under the constraints that they must meet.

    ``bonus``, nats, is added to the scores of relations.
    """
    data = encode_sentences(sentences, extractor.indexes_)
    n, model = data.n_sentences, extractor.model_
    if not len(data.mention_owner):
        return [RelationPosteriors(*(np.zeros((0, len(own))) for own in extractor.names_)) for _ in range(n)]
    guide, features = extractor.guide_, data.pair
    if guide is not None:
        features = describe_pairs(extractor, guide, data, extractor.names_)
    theta = extractor.theta_
    if bonus:
        theta = theta.copy()
        weights = model.split(theta)["pair"].reshape(-1, len(extractor.relations_))
        # every pair has one of these two features
        weights[[extractor.indexes_.pair.numbers[sign] for sign in "<>"], 1:] += bonus
    members = data.members(features, None, None)
    sizes = {key: own.n_labels for key, own in model.members.items()}
    given = row_columns((columns,), n, "RelationExtractor")
    rules = []
    if projects(extractor):
        check_constraints(extractor.constraints, extractor.names_, {})
        rules = [one for one in flatten(extractor.constraints) if is_inside(one)]
    estep = EStep(rules, infeasible=extractor.infeasible)
    corpus = make_corpus(extractor, build_joint_shards(members, sizes, columns=given, n_instances=n))
    gamma = -np.inf if best else extractor.gamma_
    posed, step = pose(model, corpus, estep).at_prices(Step(model, theta, gamma, estep))
    tables = {key: np.zeros((own.n_instances, sizes[key])) for key, own in members.items()}
    for found in posed.collect(_shard_tables, step):
        for key, (rows, table) in found.items():
            tables[key][rows] = table
    owners = {"mention": data.mention_owner, "pair": data.pair_owner}
    ends = {key: np.cumsum(np.bincount(owner, minlength=n))[:-1] for key, owner in owners.items()}
    pieces = (np.split(tables[key], ends[key]) for key in ("mention", "pair"))
    return [RelationPosteriors(*own) for own in zip(*pieces, strict=True)]


def _shard_tables(posed: Posed, step: Step) -> dict[str, tuple[Ints, Floats]]:
    """By member of the model: the numbers of what it labels in a shard, and their distributions."""
    tables = step.model.distributions(posed.shard, posterior(posed, step).marginals)
    return {key: (posed.shard.members[key].instances, table) for key, table in tables.items()}
