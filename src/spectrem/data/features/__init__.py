"""Features of tokens: what a token is described by, sets of templates for text, and numbers for their names."""

from spectrem.data.features.index import FeatureIndex, TokenFeatures
from spectrem.data.features.templates import TEMPLATES, token_features

__all__ = ["TEMPLATES", "FeatureIndex", "TokenFeatures", "token_features"]
