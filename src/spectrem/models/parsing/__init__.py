"""Dependency parsers that score arcs: a log-linear model of trees."""

from spectrem.models.parsing.model import EdgeFactoredModel
from spectrem.models.parsing.shards import FREE, GIVEN, SHARED, ParsingShard, ParsingText
from spectrem.models.parsing.templates import ArcTemplates, TokenAtoms
from spectrem.models.shards import Columns

__all__ = [
    "FREE", "GIVEN", "SHARED", "ArcTemplates", "Columns", "EdgeFactoredModel", "ParsingShard", "ParsingText",
    "TokenAtoms",
]  # fmt: skip
