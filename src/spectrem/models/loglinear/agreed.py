"""Views that agree fully, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spectrem._arrays import Floats
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.models.loglinear.joint import JointModel, JointShard
from spectrem.models.loglinear.shards import LogLinearShard
from spectrem.structures import Parts, Structure


@dataclass(frozen=True, eq=False)
class AgreedModel:
    """Log-linear models of the same labels from several views of an instance, which have one posterior in common.

    The distributions ``q_v`` of the views' labels that maximise ``sum_v E[s_v] + gamma H(q_v)`` and are all the same
    have the mean of the scores as their score ([Ganchev2010] props 6.1 and 6.2): the closed form of the product of the
    views under equality rows on every part. At gamma = 1 what agreement costs a pair of views is twice the
    Bhattacharyya distance of their distributions, which training thereby makes small.

    Scores, log-normalisers and log-prior are means over the views, so that constraints on the labels count every
    instance once, by its weight. The M-step maximises that of each view by itself.

    Use when two or more views (spelling and context of a name, content and context of a token) are each good enough to
    tell the label, and most instances are not labelled.

    Parameters
    ----------
    members : mapping of name -> LogLinearModel
        Of labels, or of chains, all with the same labels; or such models of chains with parts for pairs of tags.
        Parameters and statistics are one flat array, those of one member after those of another.

    Examples
    --------
    >>> from spectrem.models.loglinear import Features, LogLinearModel, Member, Support, build_joint_shards
    >>> views = {"left": Member(Features.of([[2.0], [1.0]])), "right": Member(Features.of([[0.0], [1.0]]))}
    >>> model = AgreedModel({"left": LogLinearModel(Support(1, 2)), "right": LogLinearModel(Support(1, 2))})
    >>> shards = build_joint_shards(views, {"left": 2, "right": 2})
    >>> model.scores(np.array([1.0, 0.0, 0.0, 3.0]), shards[0]).unary.tolist()
    [1.0, 0.0, 0.5, 1.5]
    """

    members: Mapping[str, Any]

    @cached_property
    def apart(self) -> JointModel:
        """The views side by side, without agreement."""
        return JointModel(self.members)

    @property
    def n_weights(self) -> int:
        """The number of parameters of all views."""
        return self.apart.n_weights

    @property
    def n_labels(self) -> int:
        """The number of labels, the same for all views."""
        return int(next(iter(self.members.values())).n_labels)

    def split(self, theta: Floats) -> dict[str, Floats]:
        """The parameters of every view, as views of the array."""
        return self.apart.split(theta)

    def initial(self) -> Floats:
        """All weights 0."""
        return self.apart.initial()

    def structure(self, shard: JointShard) -> Structure:
        """The labels, or chains of labels, that all views share."""
        name, own = self._first(shard)
        return self.members[name].structure(own)

    def scores(self, theta: Floats, shard: JointShard) -> Parts:
        """The mean of the scores of the views, nats; a view without the instances of the shard counts as 0."""
        weights, total = self.split(theta), None
        for name in self._present(shard):
            own = self.members[name].scores(weights[name], shard.members[name])
            total = own if total is None else total.map(np.add, own)
        assert total is not None
        return total.map(lambda sum_of_views: sum_of_views / len(self.members))

    def log_normaliser(self, theta: Floats, shard: JointShard) -> float:
        """The mean over views of the sum of log-normalisers, instances counted by their weights, nats."""
        return self.apart.log_normaliser(theta, shard) / len(self.members)

    def gather(self, theta: Floats, shard: JointShard, marginals: Parts) -> Floats:
        """Expected values of the features of every view, shape (n_weights,)."""
        own, present = self.split(theta), self._present(shard)
        return np.concatenate(
            [
                model.gather(own[name], shard.members[name], marginals)
                if name in present
                else np.zeros(model.n_weights)
                for name, model in self.members.items()
            ]
        )

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """The M-step of every view, from ``theta`` on."""
        return self.apart.m_step(theta, stats, corpus)

    def log_prior(self, theta: Floats) -> float:
        """The mean of the log-densities of the views' weights, nats, up to a constant."""
        return self.apart.log_prior(theta) / len(self.members)

    def columns(self, shard: JointShard) -> Mapping[str, Key]:
        """Columns for constraints: those of the first view, ``labelled``, and those of the shard."""
        name, own = self._first(shard)
        labelled = np.full(len(shard.weights), shard.known) if shard.given is None else shard.given
        return {**self.members[name].columns(own), "labelled": labelled, **shard.columns}

    def distributions(self, shard: JointShard, marginals: Parts) -> Floats:
        """The marginals of all labels of all choices, shape (n_choices, n_labels); 0 for those not allowed."""
        name, own = self._first(shard)
        return self.members[name].distributions(own, marginals)

    def _present(self, shard: JointShard) -> list[str]:
        """The views that have the instances of the shard; the others have none there."""
        n = len(shard.weights)
        return [name for name in self.members if len(shard.members[name].weights) == n]

    def _first(self, shard: JointShard) -> tuple[str, LogLinearShard]:
        name = self._present(shard)[0]
        return name, shard.members[name]
