"""A fitted BracketingModel as a file."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from spectrem.estimators.bracketing.input import SpanCoding
from spectrem.estimators.bracketing.parameters import check_settings
from spectrem.estimators.storage import (
    check_probabilities,
    damage_named,
    load_arrays,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
)
from spectrem.learning.schedule import check_gamma
from spectrem.models.bracketing import SpanParameters, SpanVocabulary

_KIND, _LAYOUT = "BracketingModel", 1
_VOCABULARY = ("yield_keys", "yield_offsets", "context_keys")
_MEMBERS = {"tags": ("u1", 1), **dict.fromkeys(_VOCABULARY, ("i8", 1)), "yields": ("f8", 2), "contexts": ("f8", 2)}


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write tags, spans, parameters, and the settings that JSON can hold."""
    coding: SpanCoding = estimator.coding_
    arrays = {
        "tags": np.frombuffer(json.dumps(coding.tags).encode(), np.uint8),
        **{name: getattr(coding.vocabulary, name) for name in _VOCABULARY},
        "yields": estimator.params_.yields,
        "contexts": estimator.params_.contexts,
    }
    header = {**settings_of(estimator), "gamma": estimator.gamma_, "log_likelihood": estimator.log_likelihood_}
    save_arrays(path, _KIND, _LAYOUT, header, arrays)


def load(estimator: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new estimator with what `save` wrote, and return it."""
    header, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    with damage_named(path, _KIND):
        estimator.set_params(**read_parameters(header))
        if isinstance(estimator.smoothing, list):
            estimator.set_params(smoothing=tuple(estimator.smoothing))
        check_settings(estimator)
        tags = tuple(json.loads(arrays["tags"].tobytes()))
        if len(set(tags)) < len(tags) or not all(type(tag) in (str, int) for tag in tags):
            raise ValueError("tags must be distinct texts or numbers")
        coding = SpanCoding(tags, _checked(len(tags), *(arrays[name] for name in _VOCABULARY)))
        params = SpanParameters(arrays["yields"], arrays["contexts"])
        sizes = {"yields": coding.vocabulary.n_yields, "contexts": coding.vocabulary.n_contexts}
        for name, size in sizes.items():
            table = getattr(params, name)
            if table.shape != (2, size):
                raise ValueError(f"{name} must have shape {(2, size)}, got {table.shape}")
            check_probabilities(name, table)
        gamma, likelihood = float(header["gamma"]), float(header["log_likelihood"])
        check_gamma(gamma)
        take_saved_course(estimator, header)
    estimator._take(coding, params, gamma, likelihood)
    return estimator


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
