"""A fitted BracketingModel as a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.estimators.bracketing.input import SpanCoding
from spectrem.estimators.bracketing.parameters import check_settings
from spectrem.estimators.storage import Codec, check_shapes, pack_names, unpack_names
from spectrem.models.bracketing import SpanParameters, SpanVocabulary

_VOCABULARY = ("yield_keys", "yield_offsets", "context_keys")


def _write(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    coding, params = estimator.coding_, estimator.params_
    keys = {name: getattr(coding.vocabulary, name) for name in _VOCABULARY}
    return {}, {"tags": pack_names(coding.tags), **keys, "yields": params.yields, "contexts": params.contexts}


def _read(estimator: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    if isinstance(estimator.smoothing, list):
        estimator.set_params(smoothing=tuple(estimator.smoothing))
    tags = unpack_names(arrays["tags"], "tags")
    vocabulary = _checked(len(tags), *(arrays[name] for name in _VOCABULARY))
    shapes = {"yields": (2, vocabulary.n_yields), "contexts": (2, vocabulary.n_contexts)}
    check_shapes(arrays, shapes, probabilities=shapes)
    params = SpanParameters(arrays["yields"], arrays["contexts"])
    estimator._take(SpanCoding(tags, vocabulary), params, estimator.gamma_)


def _checked(n_tags: int, keys: Any, offsets: Any, contexts: Any) -> SpanVocabulary:
    """Raise ValueError unless all numbers belong together; what reads a vocabulary trusts them."""
    vocabulary = SpanVocabulary(n_tags, keys, offsets, contexts)
    lengths = np.diff(offsets)
    if not len(offsets) or offsets[0] != 0 or (lengths < 0).any():
        raise ValueError("yield_offsets must begin at 0 and not fall")
    inside = contexts.min(initial=0) >= 0 and contexts.max(initial=0) < (n_tags + 1) ** 2
    # every yield extends one of one tag less
    before, length = keys // n_tags - 1, vocabulary.yield_lengths
    first = length == 1
    found = (before[first] == -1).all() and (before[~first] >= 0).all()
    if not inside or not found or (length[before[~first]] != length[~first] - 1).any():
        raise ValueError("yields or contexts do not fit the tags")
    return vocabulary


CODEC = Codec(
    kind="BracketingModel",
    layout=1,
    members={
        "tags": ("u1", 1),
        **dict.fromkeys(_VOCABULARY, ("i8", 1)),
        "yields": ("f8", 2),
        "contexts": ("f8", 2),
    },
    write=_write,
    read=_read,
    numbers=("gamma", "log_likelihood"),
    check=check_settings,
)
