"""Where the shards of an estimator's corpus live."""

from __future__ import annotations

from typing import Any

from spectrem.corpus import Corpus
from spectrem.estimators.engine import make_corpus

__all__ = ["beside", "make_corpus"]


def beside(corpus: Corpus, value: Any) -> Any:
    """What training reads between sums, put aside by corpora that can do so, as `spectrem.corpus.Spilled` does."""
    put_aside = getattr(corpus, "aside", None)
    return value if put_aside is None else put_aside(value)
