"""Merging the links of the two directions of alignment."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spectrem._compiled import njit
from spectrem.data.links import MAX_LENGTH, Links
from spectrem.exceptions import InvalidInputError

Symmetrization = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]

_FORWARD, _BACKWARD = 1, 2
_NO_FINAL, _FINAL, _FINAL_AND = 0, 1, 2
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))  # (source, target)


def symmetrize(forward: Links, backward: Links, method: Symmetrization = "grow-diag-final-and") -> Links:
    """Merge the links of two directions ([OchNey2003] §4, [Koehn2005]).

    * ``intersection``: links of both; ``union``: links of either.
    * ``grow-diag``: start from the intersection. Pass over its links in increasing order of (source, target);
      around each, look at the neighbours (source, target) + (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1),
      (1, -1), (1, 1) in this order, and add a neighbour that is in the union if its source word or its target
      word has no link yet. A link added ahead in the order is itself visited in the same pass. Pass until
      nothing is added.
    * ``grow-diag-final``: then go through the links of ``forward`` in increasing order, then through those of
      ``backward``, and add each whose source word or target word has no link yet.
    * ``grow-diag-final-and``: the same, adding where both words have none.

    Use when each direction was decoded on its own; models trained or decoded with an agreement constraint rarely gain.

    Parameters
    ----------
    forward, backward : Links
        Links of the same sentences, both in (source, target) order; possible links count like sure ones.
    method : str

    Returns
    -------
    Links
        All sure.

    Raises
    ------
    InvalidInputError
        If the numbers of sentences differ or the method is not one of those above.

    Examples
    --------
    >>> forward = Links.from_pairs([[(0, 0), (1, 1), (1, 2)]])
    >>> backward = Links.from_pairs([[(0, 0), (3, 3)]])
    >>> symmetrize(forward, backward, "intersection").pairs(0)
    [(0, 0)]
    >>> symmetrize(forward, backward, "grow-diag").pairs(0)
    [(0, 0), (1, 1), (1, 2)]
    >>> symmetrize(forward, backward, "grow-diag-final-and").pairs(0)
    [(0, 0), (1, 1), (1, 2), (3, 3)]
    """
    if method not in get_args(Symmetrization):
        raise InvalidInputError(f"method must be one of {', '.join(get_args(Symmetrization))}, but is {method!r}")
    if forward.n_sentences != backward.n_sentences:
        raise InvalidInputError(
            f"forward and backward must align the same sentences, but have {forward.n_sentences} and "
            f"{backward.n_sentences}; give both directions of one bitext"
        )
    union, given_by = _union(forward, backward)
    if method == "union":
        return union
    chosen = given_by == _FORWARD | _BACKWARD
    if method != "intersection":
        final = {"grow-diag": _NO_FINAL, "grow-diag-final": _FINAL, "grow-diag-final-and": _FINAL_AND}[method]
        _grow(union.offsets, union.source, union.target, given_by, final, chosen)
    return union.where(chosen)


def _union(forward: Links, backward: Links) -> tuple[Links, NDArray[np.uint8]]:
    """The links of either direction and, for each, which gave it."""
    keys = np.concatenate([forward.keys, backward.keys])
    order = np.argsort(keys, kind="stable")  # stable: a merge of two sorted halves
    keys = keys[order]
    first = np.concatenate([[True], np.diff(keys) > 0])[: keys.size]
    by = np.repeat(np.array([_FORWARD, _BACKWARD], dtype=np.uint8), [forward.n_links, backward.n_links])[order]
    given_by = by[first]
    given_by[np.cumsum(first)[~first] - 1] |= by[~first]
    pairs, target = np.divmod(keys[first], MAX_LENGTH)
    sentence, source = np.divmod(pairs, MAX_LENGTH)
    return Links.from_arrays(sentence, source, target, n_sentences=forward.n_sentences), given_by


@njit(cache=True, nogil=True, error_model="numpy")
def _grow(offsets, source, target, given_by, final, chosen):  # type: ignore[no-untyped-def]
    """Add to the chosen links of every sentence, in place."""
    width = 1
    for k in range(source.size):
        width = max(width, source[k] + 1, target[k] + 1)
    source_linked = np.zeros(width, dtype=np.bool_)
    target_linked = np.zeros(width, dtype=np.bool_)
    row = np.zeros(width + 3, dtype=np.int64)  # links of source i start at row[i + 1]; an empty row on either side
    for n in range(offsets.size - 1):
        start, stop = offsets[n], offsets[n + 1]
        if start == stop:
            continue
        k = start
        for i in range(source[stop - 1] + 4):
            while k < stop and source[k] < i - 1:
                k += 1
            row[i] = k
        for k in range(start, stop):
            if chosen[k]:
                source_linked[source[k]] = True
                target_linked[target[k]] = True

        added = True
        while added:
            added = False
            for k in range(start, stop):
                if not chosen[k]:
                    continue
                for step_source, step_target in _NEIGHBOURS:
                    i = source[k] + step_source
                    j = target[k] + step_target
                    m = _find(target, row[i + 1], row[i + 2], j)
                    if m >= 0 and not chosen[m] and not (source_linked[i] and target_linked[j]):
                        chosen[m] = True
                        source_linked[i] = True
                        target_linked[j] = True
                        added = True

        if final != _NO_FINAL:
            for direction in (_FORWARD, _BACKWARD):
                for k in range(start, stop):
                    i = source[k]
                    j = target[k]
                    n_linked = np.int64(source_linked[i]) + np.int64(target_linked[j])
                    limit = 1 if final == _FINAL else 0
                    if given_by[k] & direction and n_linked <= limit:
                        chosen[k] = True
                        source_linked[i] = True
                        target_linked[j] = True

        for k in range(start, stop):
            source_linked[source[k]] = False
            target_linked[target[k]] = False


@njit(cache=True, nogil=True, error_model="numpy")
def _find(values, start, stop, value):  # type: ignore[no-untyped-def]
    """Where a value stands in a stretch of increasing values, or -1."""
    end = stop
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start if start < end and values[start] == value else -1
