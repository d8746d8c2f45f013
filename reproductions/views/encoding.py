"""Names as rows of features, a matrix for every view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.feature_extraction.text import CountVectorizer

Listed = Mapping[str, Sequence[Sequence[str]]]


class Encoder:
    """Numbers the features of every view: 1 where a name has a feature, however often.

    Parameters
    ----------
    names : mapping of view -> sequence of the features of every name
        Whose features are numbered.

    Examples
    --------
    >>> encoder = Encoder({"spelling": [("b",), ("a", "b", "b")], "context": [("c",), ()]})
    >>> rows = encoder({"spelling": [("b", "new")], "context": [("c",)]})
    >>> {view: matrix.toarray().tolist() for view, matrix in rows.items()}
    {'spelling': [[0.0, 1.0]], 'context': [[1.0]]}
    """

    def __init__(self, names: Listed) -> None:
        self.counters = {
            view: CountVectorizer(analyzer=list, binary=True, dtype=float).fit(own) for view, own in names.items()
        }

    def __call__(self, names: Listed) -> dict[str, Any]:
        """Sparse matrices of shape (n_names, n_features of the view); features that were not numbered are left out."""
        return {view: counter.transform(names[view]) for view, counter in self.counters.items()}
