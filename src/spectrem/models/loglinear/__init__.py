"""Log-linear models over sparse features: maximum-entropy classifiers and conditional random fields."""

from spectrem.models.loglinear.features import (
    Features,
    Labels,
    LogLinearShard,
    Merged,
    Support,
    build_shards,
    merge_features,
)
from spectrem.models.loglinear.joint import AgreedModel, JointModel, JointShard, build_joint_shards, member_tables
from spectrem.models.loglinear.model import LogLinearModel, PairModel, Weights
from spectrem.models.loglinear.optimise import Optimiser, WeightPrior

__all__ = [
    "AgreedModel", "Features", "JointModel", "JointShard", "Labels", "LogLinearModel", "LogLinearShard",
    "Merged", "Optimiser", "PairModel", "Support", "WeightPrior", "Weights", "build_joint_shards",
    "build_shards", "member_tables", "merge_features",
]  # fmt: skip
