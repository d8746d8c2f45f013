"""The rules that the parameters of WordAligner obey."""

from __future__ import annotations

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
_FRACTIONS = ("threshold", "alpha")


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
    check_gamma(aligner.gamma)
    check_decode(aligner.decode)
    if aligner.beta_min is not None and aligner.gamma <= 0:
        raise InvalidInputError(
            f"beta_min anneals towards a gamma above 0, got gamma {aligner.gamma}; drop one of them"
        )
    if not 0 < aligner.null_probability < 1:
        raise InvalidInputError(f"null_probability must lie between 0 and 1, got {aligner.null_probability}; try 0.1")
    for name in _FRACTIONS:
        if not 0 <= getattr(aligner, name) <= 1:
            raise InvalidInputError(f"{name} must lie in [0, 1], got {getattr(aligner, name)}")
    for name, least in _AT_LEAST.items():
        if not getattr(aligner, name) >= least:
            raise InvalidInputError(f"{name} must be at least {least}, got {getattr(aligner, name)}")
    for name in _POSITIVE:
        if not getattr(aligner, name) > 0:
            raise InvalidInputError(f"{name} must be positive, got {getattr(aligner, name)}")
    for name in ("max_length", "n_threads"):
        if getattr(aligner, name) is not None and getattr(aligner, name) < 1:
            raise InvalidInputError(f"{name} must be at least 1, got {getattr(aligner, name)}; None sets no limit")
