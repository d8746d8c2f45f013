"""Where the shards of an estimator's corpus live."""

from spectrem.estimators.engine import make_corpus

__all__ = ["make_corpus"]
