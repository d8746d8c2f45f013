"""Where the shards of an estimator's corpus live."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from spectrem.corpus import Corpus, Local
from spectrem.exceptions import InvalidInputError, quoted


def make_corpus(estimator: Any, shards: Iterable[Any]) -> Corpus:
    """Shards where an estimator's ``corpus`` puts them, else in memory, worked on by its ``n_threads``.

    Raises
    ------
    InvalidInputError
        If ``corpus`` is not callable.
    """
    if estimator.corpus is None:
        return Local(list(shards), estimator.n_threads or os.cpu_count() or 1)
    if not callable(estimator.corpus):
        raise InvalidInputError(
            f"corpus must be a callable that puts shards somewhere, got {quoted(estimator.corpus)}; give for example "
            "functools.partial(Spilled, folder=...), or OnDask for the cluster that was connected to last"
        )
    corpus: Corpus = estimator.corpus(shards)
    return corpus
