"""The rules that the parameters of WordAligner obey."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from spectrem.estimators.decode import check_decode
from spectrem.exceptions import InvalidInputError
from spectrem.learning.schedule import check_gamma

_MODELS = ("ibm1", "ibm2", "hmm")
_CONSTRAINTS = ("agreement", "fertility")
_AT_LEAST = {
    "iterations": 1,
    "model1_iterations": 0,
    "max_jump": 1,
    "dual_steps": 0,
    "stem_strength": 0,
    "cognate_strength": 0,
}
_POSITIVE = ("step_size", "max_fertility")
_NUMBERS = ("gamma", "null_probability", "stem_strength", "cognate_strength", *_POSITIVE, "alpha")
_WHOLE = ("iterations", "model1_iterations", "max_jump", "dual_steps")
_OR_NONE = ("max_length", "n_threads")


def check_settings(aligner: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a WordAligner that breaks its rule."""
    if aligner.model not in _MODELS:
        raise InvalidInputError(f"model must be one of {', '.join(_MODELS)}, got {aligner.model!r}")
    if isinstance(aligner.constraints, str):
        raise InvalidInputError(
            f"constraints must be a sequence, got the string {aligner.constraints!r}; put it in a list"
        )
    for constraint in aligner.constraints:
        if isinstance(constraint, str) and constraint not in _CONSTRAINTS:
            raise InvalidInputError(
                f"constraints must be {' or '.join(_CONSTRAINTS)}, or constraints made with E, got {constraint!r}"
            )
    _check_kinds(aligner)
    check_gamma(aligner.gamma)
    check_decode(aligner.decode)
    if aligner.beta_min is not None and aligner.gamma <= 0:
        raise InvalidInputError(
            f"beta_min anneals towards a gamma above 0, got gamma {aligner.gamma}; drop one of them"
        )
    if not 0 < aligner.null_probability < 1:
        raise InvalidInputError(f"null_probability must lie between 0 and 1, got {aligner.null_probability}; try 0.1")
    if not 0 <= aligner.alpha <= 1:
        raise InvalidInputError(f"alpha must lie in [0, 1], got {aligner.alpha}")
    _check_threshold(aligner.threshold)
    for name, least in _AT_LEAST.items():
        if not getattr(aligner, name) >= least:
            raise InvalidInputError(f"{name} must be at least {least}, got {getattr(aligner, name)}")
    for name in _POSITIVE:
        if not getattr(aligner, name) > 0:
            raise InvalidInputError(f"{name} must be positive, got {getattr(aligner, name)}")
    for name in _OR_NONE:
        if getattr(aligner, name) is not None and getattr(aligner, name) < 1:
            raise InvalidInputError(f"{name} must be at least 1, got {getattr(aligner, name)}; None sets no limit")


def _check_threshold(threshold: Any) -> None:
    if isinstance(threshold, str) and threshold == "auto":
        return
    if not isinstance(threshold, Real) or isinstance(threshold, bool) or not 0 <= float(threshold) <= 1:
        raise InvalidInputError(f'threshold must be "auto" or a number in [0, 1], got {threshold!r}')


def _check_kinds(aligner: Any) -> None:
    given = {name: getattr(aligner, name) for name in (*_NUMBERS, *_WHOLE, *_OR_NONE, "beta_min")}
    for name, value in given.items():
        if value is None and name in (*_OR_NONE, "beta_min"):
            continue
        whole = name in _WHOLE or name in _OR_NONE
        if not isinstance(value, Integral if whole else Real) or isinstance(value, bool):
            raise InvalidInputError(f"{name} must be {'an integer' if whole else 'a number'}, got {value!r}")
