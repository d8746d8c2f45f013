"""From a model and a shard of sentences to heads, arc posteriors and log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.probability_tables import RARE, floored
from spectrem.estimators.projecting import collect_at_predict, projects
from spectrem.learning import Posed, Step, posterior
from spectrem.models.grammar import GrammarParameters, GrammarShard, ValenceModel
from spectrem.structures import Parts, ProjectiveTrees
from spectrem.structures._ragged import offsets_of


def with_unknown(params: GrammarParameters) -> GrammarParameters:
    """Parameters with one tag more, for tags that training did not see: as probable, and as a head, as the average."""
    root, choose, stop = params.root, params.choose, params.stop
    choose = np.concatenate([choose, choose.mean(axis=-1, keepdims=True)], axis=-1)
    choose, stop = (np.concatenate([table, table.mean(axis=0, keepdims=True)]) for table in (choose, stop))
    return GrammarParameters(np.append(root, root.mean()), choose, stop)


def best_heads(settings: Any, model: ValenceModel, params: GrammarParameters, corpus: Corpus) -> Iterator[Ints]:
    """Heads of every word, shard after shard, as the settings of a fitted DependencyModel say."""
    exact = settings.decode == "viterbi"
    if exact and not projects(settings):
        return corpus.collect(viterbi, model, params)
    found = arcs_of(settings, model, params, corpus, exact=exact)
    return (heads for heads, _ in found)


def arc_posteriors(settings: Any, model: ValenceModel, params: GrammarParameters, corpus: Corpus) -> Iterator[Floats]:
    """Probabilities of arcs, shard after shard, flat as those of `ProjectiveTrees`."""
    return (arcs for _, arcs in arcs_of(settings, model, params, corpus))


def arcs_of(
    settings: Any, model: ValenceModel, params: GrammarParameters, corpus: Corpus, *, exact: bool = False
) -> Iterator[tuple[Ints, Floats]]:
    """Heads and probabilities of arcs of every shard or, if ``exact``, those of the best trees under constraints."""
    best = "trees" if exact else None
    return collect_at_predict(settings, model, params, corpus, posteriors, projected, floored=floored, best=best)


def viterbi(shard: GrammarShard, model: ValenceModel, params: GrammarParameters) -> Ints:
    """Heads of the best trees; of impossible sentences, of those with the fewest impossible events."""
    structure = model.structure(shard)
    heads = structure.decode(model.scores(params, shard))
    impossible = heads < -1
    if impossible.any():
        heads[impossible] = structure.decode(model.scores(floored(params), shard))[impossible]
    return heads


def posteriors(shard: GrammarShard, model: ValenceModel, params: GrammarParameters) -> tuple[Ints, Floats]:
    """Probabilities of arcs, and the heads that have the largest sum of them."""
    structure = model.structure(shard)
    values, marginals = structure.smoothed_max(model.scores(params, shard), 1.0)
    impossible = np.isneginf(values)
    if impossible.any():
        _, others = structure.smoothed_max(model.scores(floored(params), shard), 1.0, active=impossible)
        marginals = marginals.map(np.add, others)
    return _from_parts(model, shard, marginals)


def projected(posed: Posed, step: Step) -> tuple[Ints, Floats]:
    """The same under constraints."""
    return _from_parts(step.model, posed.shard, posterior(posed, step).marginals)


def _from_parts(model: ValenceModel, shard: GrammarShard, marginals: Parts) -> tuple[Ints, Floats]:
    arcs = model.distributions(shard, marginals)
    return ProjectiveTrees(shard.lengths, single_root=model.single_root).decode(Parts(arcs)), arcs


def arc_matrices(shard: GrammarShard, arcs: Floats) -> list[Floats]:
    """Probabilities of arcs, a matrix [dependent, head] per sentence of a shard, with the root on the diagonal."""
    pieces = np.split(arcs, offsets_of(shard.lengths**2)[1:-1]) if len(shard.lengths) else []
    return [piece.reshape(n, n) for piece, n in zip(pieces, shard.lengths.tolist(), strict=True)]


def log_likelihoods(shard: GrammarShard, model: ValenceModel, params: GrammarParameters) -> Floats:
    """log p of the tags (and the heads given) of every sentence of a shard, nats; -inf if impossible."""
    return model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)[0]


def finite_log_likelihoods(shard: GrammarShard, model: ValenceModel, params: GrammarParameters) -> Floats:
    """The same, always finite: where a sentence is impossible, events of probability 0 count as 1e-9."""
    values = log_likelihoods(shard, model, params)
    impossible = np.isneginf(values)
    if impossible.any():
        values[impossible] = log_likelihoods(shard, model, floored(params, RARE))[impossible]
    return values
