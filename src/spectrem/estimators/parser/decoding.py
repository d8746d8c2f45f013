"""From a trained model and new sentences to heads and posteriors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.estimators.projecting import collect_at_predict
from spectrem.learning import Posed, Step, posterior
from spectrem.models.parsing import EdgeFactoredModel, ParsingShard
from spectrem.models.parsing.model import Table
from spectrem.structures import Parts


def best_heads(parser: Any, corpus: Corpus) -> Iterator[Ints]:
    """Heads of all words, shard after shard, as the settings of a fitted parser say."""
    free = partial(heads_of, by_posterior=parser.decode == "posterior")
    return collect_at_predict(parser, parser.model_, parser.theta_, corpus, free, projected_heads)


def arc_posteriors(parser: Any, corpus: Corpus) -> Iterator[Floats]:
    """Probabilities of all arcs, shard after shard, under the constraints where the parser's settings say so."""
    return collect_at_predict(parser, parser.model_, parser.theta_, corpus, posteriors, projected)


def heads_of(shard: ParsingShard, model: EdgeFactoredModel, theta: Table, by_posterior: bool) -> Ints:
    """The heads of all words of a shard in the best trees."""
    structure, scores = model.free_structure(shard), model.free_scores(theta, shard)
    if by_posterior:
        _, scores = structure.smoothed_max(scores, 1.0)
    return structure.decode(scores)


def posteriors(shard: ParsingShard, model: EdgeFactoredModel, theta: Table) -> Floats:
    """Probabilities of all arcs of a shard."""
    return model.free_structure(shard).smoothed_max(model.free_scores(theta, shard), 1.0)[1].unary


def log_probabilities(shard: ParsingShard, model: EdgeFactoredModel, theta: Table) -> Floats:
    """log p(heads | sentence) of every sentence, nats; of heads known in part, of all trees that have them."""
    scores = model.free_scores(theta, shard).unary
    structure = model.free_structure(shard)
    values, _ = structure.smoothed_max(Parts(scores), 1.0)
    return structure.smoothed_max(Parts(model.restricted(shard, scores)), 1.0)[0] - values


def projected(posed: Posed, step: Step) -> Floats:
    """Probabilities of all arcs of a shard under constraints."""
    return posterior(posed, step).marginals.unary


def projected_heads(posed: Posed, step: Step) -> Ints:
    """The heads of all words of a shard in the trees of the largest sums of probabilities under constraints."""
    return posed.structure.decode(Parts(np.maximum(projected(posed, step), 0.0)))
