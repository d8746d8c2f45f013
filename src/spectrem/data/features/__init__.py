"""Features of tokens: what a token is described by, sets of templates for text, and numbers for their names."""

from spectrem.data.features.index import FeatureIndex, TokenFeatures
from spectrem.data.features.mentions import mention_features, pair_features
from spectrem.data.features.templates import TEMPLATES, token_features

__all__ = ["TEMPLATES", "FeatureIndex", "TokenFeatures", "mention_features", "pair_features", "token_features"]
