"""Log-linear models over sparse features: maximum-entropy classifiers and conditional random fields."""

from spectrem.models.loglinear.agreed import AgreedModel
from spectrem.models.loglinear.features import Features
from spectrem.models.loglinear.joint import JointModel, JointShard, build_joint_shards, member_tables
from spectrem.models.loglinear.merging import Merged, merge_features
from spectrem.models.loglinear.model import LogLinearModel, Weights
from spectrem.models.loglinear.optimise import Optimiser, WeightPrior
from spectrem.models.loglinear.pairs import PairModel
from spectrem.models.loglinear.shards import Labels, LogLinearShard, Member, build_shards
from spectrem.models.loglinear.support import Support

__all__ = [
    "AgreedModel", "Features", "JointModel", "JointShard", "Labels", "LogLinearModel", "LogLinearShard", "Member",
    "Merged", "Optimiser", "PairModel", "Support", "WeightPrior", "Weights", "build_joint_shards",
    "build_shards", "member_tables", "merge_features",
]  # fmt: skip
