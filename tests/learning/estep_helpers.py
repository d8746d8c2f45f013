"""One E-step, shard by shard or as a whole."""

from dataclasses import replace

from spectrem.corpus import Local
from spectrem.learning import Step, pose
from spectrem.learning.estep import expect


def of_shards(model, estep, shards, params, gamma=1.0):
    """What the E-step of every shard gives, at the multipliers over the corpus."""
    corpus, step = pose(model, Local(shards), estep).at_prices(Step(model, params, gamma, estep))
    step = step._replace(estep=replace(estep, warm_start=False))
    return [expect(own, step) for own in corpus.shards]


def of_corpus(model, estep, shards, params, gamma=1.0):
    """What the E-step gives in all."""
    return pose(model, Local(shards), estep).expect(Step(model, params, gamma, estep))[0]
