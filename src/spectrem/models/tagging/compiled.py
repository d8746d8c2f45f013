"""The E-step of a tagger without constraints: one table of potentials per iteration and no arrays per token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.inference.oracle import refuse_impossible
from spectrem.inference.segments import sum_by
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.tagging.model import HMMModel, HMMParameters, log
from spectrem.models.tagging.shards import TagShard
from spectrem.structures import TiedChain, TiedChain2, TiedCounts2


@dataclass(frozen=True, eq=False)
class TagKernel:
    """Expected counts of an HMM without constraints on its posteriors, at any gamma.

    For gamma > 0 all tokens of one lexicon entry share their potentials, so that memory does not grow with the
    corpus; at gamma <= 0 it is Viterbi. Results equal those of the general E-step.

    Use when there are no constraints.

    Parameters
    ----------
    model : HMMModel
    reference : HMMParameters, optional
        Skewed annealing: at gamma = 1 / beta > 1 the posterior is in proportion to ``p**beta * r**(1 - beta)``, with
        r the posterior of the reference instead of the uniform one ([SmithEisner2004] §5). What is impossible under
        the reference stays so until gamma = 1.
    """

    model: HMMModel
    reference: HMMParameters | None = None

    def prepare(self, params: HMMParameters, gamma: float) -> Callable[[TagShard], EStepResult[Statistics]]:
        """The E-step of a shard; the table of potentials that all shards share is computed here."""
        if gamma <= 0:
            return partial(_best_paths, self.model, params)
        lexicon = self.model.lexicon
        # Entries that restrict a word to some states share the cells of the word.
        cells = lexicon.entry_cells if lexicon.n_entries > lexicon.n_words else None
        return partial(_count, self.table(params, gamma), cells, lexicon.n_cells)

    def table(self, params: HMMParameters, gamma: float) -> TiedChain | TiedChain2:
        """Potentials of the model at gamma > 0, skewed toward the reference if there is one."""
        lexicon = self.model.lexicon
        scores = [log(table) for table in _tables(params)]
        if self.reference is not None and gamma > 1:
            scores = [s + (gamma - 1) * log(r) for s, r in zip(scores, _tables(self.reference), strict=True)]
        emission, initial, *factors = scores
        states = None if lexicon.dense else lexicon.entry_states
        rows = (lexicon.entry_offsets, states, lexicon.n_states, np.append(emission, 0.0)[lexicon.entry_cells])
        if params.second is None:
            return TiedChain(*rows, initial, factors[0], gamma)
        return TiedChain2(*rows, initial, factors[0], factors[1], gamma)


def _count(table: TiedChain | TiedChain2, cells: Ints | None, n_cells: int, shard: TagShard) -> EStepResult[Statistics]:
    values, counts = table.expected_counts(shard.lengths, shard.entries, shard.weights)
    possible = np.isfinite(values)
    if not possible.all():
        raise InvalidInputError(
            f"sentence {shard.instances[int(np.argmin(possible))]} must have some possible sequence of states under "
            "the parameters; every one has probability 0; smooth the start parameters, or loosen masks, fixed entries "
            "and the dictionary"
        )
    value = float(shard.weights @ values)
    emission = counts.rows if cells is None else sum_by(cells, counts.rows, n_cells + 1)[:-1]
    second = counts.second if isinstance(counts, TiedCounts2) else None
    stats = Statistics(initial=counts.initial, transition=counts.transition, second=second, emission=emission)
    return EStepResult(stats, value, value)


def _best_paths(model: HMMModel, params: HMMParameters, shard: TagShard) -> EStepResult[Statistics]:
    structure, scores = model.structure(shard), model.scores(params, shard)
    values, marginals = structure.smoothed_max(scores, 0.0, weights=shard.weights)
    refuse_impossible(values)
    value = float(shard.weights @ values)
    return EStepResult(model.gather(params, shard, marginals), value, value)


def _tables(params: HMMParameters) -> list[Floats]:
    factors = [params.transition] if params.second is None else [params.second, params.transition]
    return [params.emission, params.initial, *factors]
