"""Sources that copy each other: found, and believed to where votes are better explained so."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import xlogy

from spectrem._arrays import Bools, Floats
from spectrem.corpus import Local
from spectrem.estimators import engine
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.shards import in_corpus_order
from spectrem.models.vote_dependence import Agreement, agreement_of_answers, agreement_of_rules, copies_in
from spectrem.models.votes import VoteModel, VoteShard, build_shards, vote_shares
from spectrem.structures._ragged import rows_of

# EM that compares two explanations of votes: iterations at most, and nats that the last one gains.
_MAX_ITER, _TOL = 100, 0.1


def find_dependent(
    kind: str,
    model: VoteModel,
    shards: list[VoteShard],
    sizes: NDArray[np.integer],
    cells: NDArray[np.integer],
    strengths: Floats | None,
    evidence: Floats | None,
    weights: Floats,
    n_threads: int,
) -> Agreement:
    """Pairs of sources that agree at all, and which of them are dependent.

    Rules are held against the labels that most votes name. Answers are held against those of one step of EM from
    there, and groups of annotators that agree beyond these are dependent only if votes are more probable where the
    others of a group repeat the votes of the best one than where all of them vote by the label alone: two annotators
    among guessers agree because they are good. Both explanations have as many parameters; the price of the choice is
    the logarithm of the number of items. The strongest group is looked at first, and those that follow beside it.

    Parameters
    ----------
    kind : {"rules", "answers"}
    model : VoteModel
        Of all items, in one group.
    shards : list of VoteShard
        All items.
    sizes, cells, strengths, evidence, weights
        Of all items, as in `spectrem.models.votes.VoteShard`.
    n_threads : int
    """
    where, k = (sizes, cells), model.n_classes
    if kind == "rules":
        return agreement_of_rules(*where, len(model.names), vote_shares(*where, k, None, evidence), weights)

    def log_probability(kept: Bools) -> float:
        """The objective of EM on some of the votes, nats."""
        strong, left = None if strengths is None else strengths[kept], np.bincount(item[kept], minlength=len(sizes))
        some = build_shards(left.astype(sizes.dtype), cells[kept], k, weights, strong, evidence=evidence)
        corpus, stopping = Local(some, n_threads), Stopping(_MAX_ITER, _TOL, 1.0)
        start = model.m_step(None, corpus.sum(model.start))
        return run_em(model, corpus, start, EStep(kernel=model), stopping=stopping).history[-1].objective

    corpus = Local(shards, n_threads)
    tables = corpus.collect(engine.free_posteriors, model, model.m_step(None, corpus.sum(model.start)), engine.table)
    posteriors = in_corpus_order(shards, tables, len(weights))
    pairs = agreement_of_answers(*where, len(model.names), posteriors, weights)
    alike = np.flatnonzero(pairs.dependent)
    if not len(alike):
        return pairs
    graph = sparse.coo_array((np.ones(len(alike)), (pairs.first[alike], pairs.second[alike])), 2 * (len(model.names),))
    group = connected_components(graph, directed=False)[1]
    dependent, least_gain = np.zeros(len(pairs.first), bool), math.log1p(math.fsum(weights))
    item = rows_of(sizes)
    counted = weights[item] * (1.0 if strengths is None else strengths)
    kept, even = np.ones(len(cells), bool), np.full(k, 1.0 / k)
    before = log_probability(kept)
    strongest_first = alike[np.argsort(-pairs.z[alike], kind="stable")]
    for one in dict.fromkeys(group[pairs.first[strongest_first]].tolist()):
        copies, counts = copies_in(*where, group == one, posteriors, counted)
        table, prior = (model.sources.m_step(numbers, even) for numbers in (counts, 0.0 * counts))
        given_best = xlogy(counts, table).sum() + model.sources.log_prior(table) - model.sources.log_prior(prior)
        others = kept.copy()
        others[copies] = False
        after = log_probability(others)
        if after + given_best - before > least_gain:
            kept, before = others, after
            dependent |= pairs.dependent & (group[pairs.first] == one)
    return pairs._replace(dependent=dependent)
