"""E-steps of shards, one by one, as `run_em` takes them."""

from spectrem.corpus import Local
from spectrem.learning import EStep, Step, pose
from spectrem.learning.estep import expect


def by_kernel(kernel, params, gamma, shards):
    """What a compiled E-step finds in every shard."""
    return list(map(kernel.prepare(params, gamma), shards))


def in_general(model, params, gamma, shards, *constraints, **options):
    """What the E-step that every model has finds in every shard."""
    estep = EStep(constraints, **options)
    posed, step = pose(model, Local(shards), estep).at_prices(Step(model, params, gamma, estep))
    return [expect(shard, step) for shard in posed.shards]
