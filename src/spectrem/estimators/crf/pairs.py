"""Conditional random fields whose parts say a tag and the tag before it, for constraints that name both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.constraints.compilation.groups import Coded
from spectrem.corpus import Corpus
from spectrem.models.loglinear import LogLinearModel, LogLinearShard
from spectrem.structures import EdgeChain, Known, Parts, Structure


@dataclass(frozen=True, eq=False)
class PairModel:
    """A `LogLinearModel` of chains with the same distribution on an `EdgeChain`, which has the column ``previous``.

    Use when a constraint names two neighbouring tags; others are cheaper on the model itself.

    Parameters
    ----------
    model : LogLinearModel
        Of chains.
    """

    model: LogLinearModel

    def structure(self, shard: LogLinearShard) -> Structure:
        """The chains of the model with a part for every pair of neighbouring tags."""
        chain = self._pairs(shard)
        inside = self.model.structure(shard)
        if not isinstance(inside, Known):
            return chain
        before = chain.part_before
        shares = inside.shares[chain.state_part] * np.where(before >= 0, inside.shares[before], 1.0)
        return Known(chain, shares, inside.counts)

    def scores(self, theta: Floats, shard: LogLinearShard) -> Parts:
        """Scores of the model, that of a tag at every part which has it, nats."""
        scores = self.model.scores(theta, shard)
        return Parts(scores.unary[self._pairs(shard).state_part], scores.factors)

    def gather(self, theta: Floats, shard: LogLinearShard, marginals: Parts) -> Floats:
        """Expected values of all features."""
        of_states = np.bincount(self._pairs(shard).state_part, marginals.unary).astype(np.float64)
        return self.model.gather(theta, shard, Parts(of_states, marginals.factors))

    def columns(self, shard: LogLinearShard) -> Mapping[str, Any]:
        """Those of the model, and by name the tag of every part and the tag before it, ``previous``."""
        columns: dict[str, Any] = dict(self.model.columns(shard))
        own = self._pairs(shard).columns
        tag, before = own["tag"].astype(np.int64), own["previous"]
        if self.model.names is None:
            return {**columns, "tag": tag, "previous": before}
        names, number = np.unique(np.asarray(self.model.names), return_inverse=True)
        codes = np.append(number, -1).astype(np.int32)  # that of a missing tag last
        columns["tag"] = Coded(names, codes[tag])
        columns["previous"] = Coded(names, codes[np.where(np.isnan(before), -1, before).astype(np.int64)])
        return columns

    def __getattr__(self, name: str) -> Any:
        """What is the same for both: weights, normalisers, prior."""
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """That of the model."""
        return self.model.m_step(theta, stats, corpus)

    def _pairs(self, shard: LogLinearShard) -> EdgeChain:
        assert shard.lengths is not None
        allowed = None if shard.labels is None else (shard.labels.offsets, shard.labels.labels)
        return EdgeChain(shard.lengths, self.model.n_labels, allowed)
